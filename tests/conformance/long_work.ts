/**
 * Keeps a stream busy for as long as a row needs to observe it.
 *
 * @module
 */
import { defaultStream, type Driver } from "../../src/driver.ts";
import { Gate } from "./gate.ts";
import { fillLaunch, loadFill } from "./launch.ts";

/**
 * Bytes that one launch fills: about a millisecond for one warp on any GPU. A software device executes one launch each
 * time it is queried, and others while its process waits for another process. If another process observes the stream,
 * its launches therefore wait behind a gate.
 */
const fillByteLengths = { cuda: 4 * 2 ** 20, software: 2 ** 16 } as const;
const threads = 32;
const defaultLaunches = 128;

/**
 * Work for the streams of a device. It is prepared in advance, because loading a kernel or allocating memory might wait
 * for a busy stream.
 */
export interface LongWork {
  /** Enqueues this many launches on a stream without waiting for them. Default: 128. */
  keepBusy(stream: bigint, launches?: number): void;
}

/**
 * Allocates the memory and loads the kernel for keeping streams of a device busy.
 *
 * @param options.observed Whether this process or another one observes the streams.
 */
export function prepareLongWork(
  driver: Driver,
  device: number,
  { observed = "here" }: { readonly observed?: "here" | "elsewhere" } = {},
): LongWork {
  const fillByteLength = fillByteLengths[driver.kind];
  const address = driver.malloc(device, fillByteLength);
  const kernel = loadFill(driver, device);
  const fill = fillLaunch(driver, { device, kernel }, { address, byteLength: fillByteLength, block: threads });
  const launch = (stream: bigint) => {
    fill.stream = stream;
    driver.launchKernel(fill);
  };
  launch(defaultStream);
  driver.deviceSynchronize(device);
  const gate = driver.kind === "software" && observed === "elsewhere" ? Gate.of(driver) : undefined;
  return {
    keepBusy(stream, launches = defaultLaunches) {
      gate?.close(device, stream);
      for (let count = 0; count < launches; count++) launch(stream);
    },
  };
}
