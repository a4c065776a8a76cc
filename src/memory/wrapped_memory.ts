/**
 * Memory that somebody else owns: another library of the process, or other code of the program.
 *
 * @module
 */
import { memoryType, type PointerAttributes } from "../driver.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import { checkStream, type CudaStream } from "../objects/streams/cuda_stream.ts";
import type { Session } from "../session.ts";
import { cannot } from "../support/driver_errors.ts";
import { CudaError } from "../support/errors.ts";
import { countOf } from "../support/printing.ts";
import { checkByteLength, checkOptions, type KnownOptions, whatIs } from "../support/validation.ts";
import { Allocation, type AllocationOwner } from "./allocation.ts";
import { DeviceBuffer } from "./device_buffer.ts";

/** Options of memory that is wrapped. */
export interface WrapOptions {
  /** The stream that the buffer's methods use by default. Defaults to the device's default stream. */
  stream?: CudaStream;
}

const wrapOptions: KnownOptions<WrapOptions> = {
  action: "wrap memory",
  names: { stream: true },
};

const ownerOfDeviceMemory: AllocationOwner = { release() {}, isForeign: true };
const ownerOfHostMemory: AllocationOwner = { release() {}, isForeign: true, isHostMemory: true };

const unknownAddress = "CUDA knows no memory at this address: it was freed, or is pageable memory of the host";

/** A range of memory that is to be wrapped. */
interface Range {
  readonly address: bigint;
  readonly byteLength: number;
}

/** Wraps memory by its address. */
export function wrapMemory(session: Session, device: CudaDevice, range: Range, options: WrapOptions): DeviceBuffer {
  const { address, byteLength } = range;
  checkAddress(address);
  checkByteLength(byteLength, "the size of wrapped memory", 1);
  checkOptions(options, wrapOptions);
  const { stream = device.defaultStream } = options;
  checkStream(stream, session);
  void stream.unsafeHandle;
  const what = `wrap ${countOf(byteLength, "byte")} at 0x${address.toString(16)} on device ${device.ordinal}`;
  let attributes: PointerAttributes;
  try {
    attributes = session.driver.pointerGetAttributes(device.ordinal, address);
  } catch (error) {
    const isUnknown = error instanceof CudaError && error.code === "cudaErrorInvalidValue";
    throw cannot(what, error, isUnknown ? unknownAddress : undefined);
  }
  const isHost = attributes.type === memoryType.host;
  if (!isHost && !attributes.isManaged && attributes.device !== device.ordinal) {
    throw new RangeError(`Cannot ${what}: the memory is on device ${attributes.device}; call wrap of that device`);
  }
  const available = Number(attributes.base + BigInt(attributes.byteLength) - address);
  if (byteLength > available) {
    throw new RangeError(
      `Cannot ${what}: the allocation there has ${countOf(attributes.byteLength, "byte")}, ${available} of them from ` +
        "this address on",
    );
  }
  const owner = isHost ? ownerOfHostMemory : ownerOfDeviceMemory;
  return new DeviceBuffer(new Allocation(session, owner, undefined, address, byteLength, device, stream));
}

function checkAddress(address: bigint): void {
  if (typeof address !== "bigint") {
    const isObject = typeof address === "object" && address !== null;
    const advice = isObject && "address" in address
      ? "give its address"
      : isObject && "buffer" in address
      ? "it is memory of the host; allocate a buffer and copyFrom it"
      : "it must be a bigint, such as 0x7f0000000000n";
    throw new TypeError(`Cannot wrap memory at ${whatIs(address)}: ${advice}`);
  }
  if (address === 0n) throw new RangeError("Cannot wrap memory at the address 0: it is the null pointer");
  if (BigInt.asUintN(64, address) === address) return;
  throw new RangeError(`Cannot wrap memory at the address ${address}: it must be from 1 to 2 ** 64 - 1`);
}
