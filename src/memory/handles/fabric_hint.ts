import { CudaError } from "../../support/errors.ts";

/** What a fabric handle needs that is missing, and what to use instead. */
const channelHint =
  "a fabric handle needs an IMEX channel, by which processes of one NVLink domain share memory: an administrator loads " +
  "the driver with NVreg_CreateImexChannel0=1, or makes /dev/nvidia-caps-imex-channels/channel0 with mknod and lets " +
  "this user open it, and runs the service nvidia-imex on each machine; in Kubernetes, NVIDIA's DRA driver gives a " +
  'channel to those that claim one; on one machine, use handleType "posix-fd"';

/** What to do if a pool or memory with handleType "fabric" could not be created or exported. */
export function fabricHint(error: unknown): string | undefined {
  return error instanceof CudaError && error.code === "cudaErrorNotPermitted" ? channelHint : undefined;
}

/**
 * What to do if a fabric handle could not be imported.
 *
 * @param what whose handle it must be: "a pool"
 */
export function fabricImportHint(error: unknown, what: string): string {
  return fabricHint(error) ??
    `it must come from exportHandle of ${what} that its exporter still has, on this machine or another of its NVLink ` +
      "domain, and this process must have the exporter's IMEX channel";
}
