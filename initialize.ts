/**
 * Starts CUDA in another thread before the library is loaded. This module is small and imports nothing of the library,
 * so that a program can call it first, and load everything else while CUDA starts.
 *
 * @example
 * ```ts ignore
 * import { initializeDevice } from "poolpass/initialize";
 *
 * const initialized = initializeDevice();
 * const { open } = await import("poolpass"); // and whatever else takes time
 * using cuda = open();
 * await initialized;
 * ```
 *
 * @module
 */
export { initializeDevice } from "./ffi/early_start.ts";
