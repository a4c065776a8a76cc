/**
 * Starts CUDA in another thread before the library is loaded. This module is small and imports nothing of the library,
 * so that a program can call it first, and load everything else while CUDA starts.
 *
 * @example
 * ```ts
 * import { initializeDevice } from "./initialize.ts";
 *
 * const initialized = initializeDevice();
 * const { open } = await import("./mod.ts"); // and whatever else takes time
 * using cuda = open();
 * await initialized;
 * ```
 *
 * @module
 */
export { initializeDevice } from "./ffi/early_start.ts";
