/**
 * The errors of copies and fills that a driver refuses, with advice for the memory that a device has no access to.
 *
 * @module
 */
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError } from "../../support/errors.ts";
import type { Allocation } from "../allocation.ts";
import { deviceForHostCopy } from "../transfers/copies.ts";

/** The ends of a copy, of which one is the buffer whose method was called. Host memory of no pool is left out. */
export interface CopyEnds {
  readonly buffer: Allocation;
  readonly source?: Allocation;
  readonly target?: Allocation;
}

/** Memory that work reads or writes. */
interface UsedMemory {
  readonly allocation: Allocation;
  /** What a message calls it. */
  readonly name: string;
  readonly isWritten: boolean;
}

/** The error for a fill that cannot be enqueued. `what` is its first words: "fill 4 bytes of". */
export function refusedFill(what: string, error: unknown, allocation: Allocation, stream: CudaStream): unknown {
  const filled = { allocation, name: "it", isWritten: true };
  return refusal(what, error, { buffer: allocation, used: [filled], deviceOf: () => stream.device, stream });
}

/** The error for a copy that cannot be enqueued. `what` is its first words: "copy 4 bytes to". */
export function refusedCopy(
  what: string,
  error: unknown,
  { buffer, source, target }: CopyEnds,
  stream: CudaStream,
): unknown {
  const used: UsedMemory[] = [];
  if (target !== undefined) {
    used.push({ allocation: target, name: target === buffer ? "it" : "the target", isWritten: true });
  }
  if (source !== undefined) {
    used.push({ allocation: source, name: source === buffer ? "it" : "the source", isWritten: false });
  }
  // Memory of a host pool needs no access, and the other end of the copy is used as in one to or from the host.
  const onDevices = used.filter(({ allocation }) => allocation.owner.isHostMemory !== true);
  const deviceOf = onDevices.length === 2
    ? ({ device }: Allocation) => device
    : (allocation: Allocation) => deviceForHostCopy(allocation, stream);
  return refusal(what, error, { buffer, used: onDevices, deviceOf, stream });
}

function refusal(
  what: string,
  error: unknown,
  { buffer, used, deviceOf, stream }: {
    readonly buffer: Allocation;
    readonly used: readonly UsedMemory[];
    /** The device that uses an allocation. */
    readonly deviceOf: (allocation: Allocation) => CudaDevice;
    readonly stream: CudaStream;
  },
): unknown {
  const isInvalid = error instanceof CudaError && error.code === "cudaErrorInvalidValue";
  const hint = !isInvalid ? undefined : mappingHint(used, deviceOf, stream) ??
    mappingHint(used, () => stream.device, stream) ?? peerHint(used, deviceOf, stream);
  return cannot(`${what} the buffer on device ${buffer.device.ordinal}`, error, hint);
}

/** Advice for memory of an address range that is mapped without the access that is needed. */
function mappingHint(
  used: readonly UsedMemory[],
  deviceOf: (allocation: Allocation) => CudaDevice,
  stream: CudaStream,
): string | undefined {
  for (const { allocation, name, isWritten } of used) {
    const device = deviceOf(allocation);
    const access = allocation.owner.accessOf?.(device);
    if (access === "none") {
      const which = device === stream.device ? `device ${device.ordinal} of the stream` : `device ${device.ordinal}`;
      return `${which} has no access to ${name}; call setAccess of its address range`;
    }
    if (access === "read" && isWritten) {
      return `${name} is mapped with access "read"; map it with "read-write" (from a store with { write: true }), or call setAccess of its address range`;
    }
  }
  return undefined;
}

/** Advice for memory to which a stream's device needs access: that of a fill, and of a copy on a default stream. */
function peerHint(
  used: readonly UsedMemory[],
  deviceOf: (allocation: Allocation) => CudaDevice,
  stream: CudaStream,
): string | undefined {
  const found = used.find(({ allocation }) =>
    allocation.owner.accessOf === undefined && deviceOf(allocation) !== allocation.device
  );
  if (found === undefined) return undefined;
  const { allocation: { pool, device }, name } = found;
  const { ordinal } = stream.device;
  const access = pool === undefined
    ? `call enablePeerAccess on device ${ordinal}`
    : `call the pool's setAccess for device ${ordinal}`;
  const memory = name === "it" ? "the memory" : name;
  return `the stream is one of device ${ordinal}, which needs access to ${memory}: ${access}, or use a stream of ` +
    `device ${device.ordinal}`;
}
