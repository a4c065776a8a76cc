/**
 * What TypeScript must know about the package. It would accept the lines that it must reject if it did not find the
 * types.
 *
 * @module
 */
import { type Cuda, CudaError, type DeviceArray, open, type PoolOptions } from "../../mod.ts";
import { Communicator, type CommunicatorOptions } from "../../collectives.ts";
import { ptx } from "../../kernels/fill.ts";
import { type ListenerStatus, Operator } from "../../operators.ts";
import type { StoreEntry } from "../../store.ts";

/** This function is type-checked and never called. */
export async function check(): Promise<Float32Array> {
  // @ts-expect-error: no such driver
  open({ driver: "opencl" });
  // @ts-expect-error: PTX is a string
  ptx.toFixed();
  // @ts-expect-error: `driver` is read-only
  open().driver = "cuda";

  // @ts-expect-error: a number is no communicator
  const communicator: Communicator = 1;
  // @ts-expect-error: a status is no entry
  const entry: StoreEntry = await (await Operator.connect("")).status() satisfies ListenerStatus;

  const options: PoolOptions = { handleType: "posix-fd", releaseThreshold: Infinity };
  using cuda: Cuda = open();
  const ranks: CommunicatorOptions = { id: Communicator.createId(cuda), rank: 0, size: 1 };
  using array: DeviceArray<Float32Array> = cuda.device(0).createPool(options).allocateArray(Float32Array, 4);
  try {
    return await array.toTypedArray({ signal: AbortSignal.timeout(1000) });
  } catch (error) {
    throw error instanceof CudaError
      ? new Error(`${error.code} ${error.number}`, { cause: [communicator, entry, ranks] })
      : error;
  }
}
