/**
 * Preloaded into the scripts that tests start as processes: like `eager_workers.ts`, but starts the workers at the first
 * launch of a kernel. Most of these processes launch nothing, and some count what they leave behind.
 *
 * @module
 */
import { environmentVariable } from "../../ffi/native/environment.ts";
import { sharingPolicy, Workers } from "../../src/software/execution/workers/workers.ts";

sharingPolicy.firstSliceMilliseconds = -1;
const { get: areReady } = Object.getOwnPropertyDescriptor(Workers.prototype, "areReady")!;
Object.defineProperty(Workers.prototype, "areReady", {
  get(this: Workers): boolean {
    this.startAll(Number(environmentVariable("POOLPASS_SOFTWARE_THREADS") || 2));
    return areReady!.call(this);
  },
});
