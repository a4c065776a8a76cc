/**
 * All-reduces and other operations among the devices of one machine or of several: communicators and their options, as
 * `mod.ts` exports them.
 *
 * @example
 * ```ts
 * import { Communicator } from "./collectives.ts";
 * import { open } from "./mod.ts";
 *
 * using cuda = open({ driver: "software", softwareDevices: 2 });
 * const id = Communicator.createId(cuda);
 * const ranks = await Promise.all(cuda.devices.map((device, rank) => Communicator.create(device, { id, rank, size: 2 })));
 * const buffers = cuda.devices.map((device) => device.allocate(8));
 * const arrays = buffers.map((buffer) => buffer.as(Float32Array));
 * arrays.forEach((array, rank) => array.fill(rank + 1));
 * Communicator.group(() => ranks.forEach((rank, index) => rank.allReduce(arrays[index]!, arrays[index]!)));
 * console.log(await arrays[0]!.toTypedArray()); // 3, 3
 * for (const rank of ranks) await rank[Symbol.asyncDispose]();
 * for (const buffer of buffers) buffer.free();
 * ```
 *
 * @module
 */
export {
  type CollectiveOptions,
  type CommunicationType,
  Communicator,
  type CommunicatorOptions,
  type Reduction,
} from "./mod.ts";
