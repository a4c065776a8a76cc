/**
 * Work that keeps a stream busy until a row has looked.
 *
 * @module
 */
import { defaultStream, type Driver } from "../../src/driver.ts";
import { fillParameters, loadFill } from "./launch.ts";

/** One warp takes about a millisecond for it on any GPU. A software device does a piece each time it is asked how far it is. */
const pieceByteLengths = { cuda: 4 * 2 ** 20, software: 2 ** 20 } as const;
const threads = 32;
const usualPieces = 128;

/** Work for the streams of a device, made ready beforehand: loading a kernel or allocating later might wait for them. */
export interface LongWork {
  /** Gives a stream work for some pieces, 128 unless given, and does not wait for it. */
  keepBusy(stream: bigint, pieces?: number): void;
}

/** Makes ready to keep streams of a device busy. */
export function prepareLongWork(driver: Driver, device: number): LongWork {
  const pieceByteLength = pieceByteLengths[driver.kind];
  const address = driver.malloc(device, pieceByteLength);
  const kernel = loadFill(driver, device);
  const piece = fillParameters(driver, { address, byteLength: pieceByteLength });
  const launch = (stream: bigint) => driver.launchKernel(device, kernel, 1, 1, 1, threads, 1, 1, 0, stream, piece);
  launch(defaultStream);
  driver.deviceSynchronize(device);
  return {
    keepBusy(stream, pieces = usualPieces) {
      for (let count = 0; count < pieces; count++) launch(stream);
    },
  };
}
