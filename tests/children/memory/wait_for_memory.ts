/**
 * Waits for memory that nobody frees, until an unreferenced timer frees it: nothing but the wait keeps the process
 * alive.
 *
 * @module
 */
import { open } from "../../../mod.ts";

const mebibytes = 2 ** 20;
const cuda = open({ driver: "software" });
const pool = cuda.device(0).createPool({ maxSize: 32 * mebibytes });
const buffer = pool.allocate(32 * mebibytes);
const timer = setTimeout(() => buffer.free(), 100) as unknown as { unref(): void };
timer.unref();
pool.allocateAsync(mebibytes).then((allocated) => {
  console.log(`allocated ${allocated.byteLength} bytes`);
  allocated.free();
});
