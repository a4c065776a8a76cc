/**
 * The message of a fault: the operation of the kernel, the memory, and the arguments of the launch.
 *
 * @module
 */
import {
  addressBase,
  faultKind,
  localAddressBase,
  parameterAddressBase,
  sharedAddressBase,
  sharedSpan,
} from "../../abi/addresses.ts";
import { mostClusterBlocks, mostPendingBytes } from "../../abi/launch_record.ts";
import { type MemoryNames, positionOf } from "../../memory/named_memory.ts";
import type { FaultReport } from "./kernel_fault.ts";
import type { KernelParameter } from "../../../ptx/kernel_signature.ts";

/** The sizes in bytes of a launch's shared memory, local memory and parameters, and the names of other memory. */
interface LaunchMemory {
  /** The size of the shared memory that the kernel declares statically. */
  readonly staticShared: number;
  /** The total size of a block's shared memory. */
  readonly shared: number;
  readonly local: number;
  readonly parameters: number;
  /** Whether the kernel looks up the workspace of a cooperative launch, but the launch is not cooperative. */
  readonly lacksWorkspace: boolean;
  /** Names the memory at an offset in linear memory. */
  readonly memoryNames: MemoryNames | undefined;
}

/** The exclusive upper bound of addresses that are most likely offsets from a null pointer. */
const nullBytes = 0x1000n;
const spaceBits = 32n;

/** The kinds of faults that an access causes. */
const accessFaults: ReadonlySet<number> = new Set([
  faultKind.illegalAddress,
  faultKind.misalignedAddress,
  faultKind.outsideSharedSpan,
  faultKind.noClusterBlock,
  faultKind.matrixDescriptor,
]);

/** Returns the generic address of a fault, or undefined if the fault does not concern memory. */
export function genericAddress({ kind, address = 0n, place }: FaultReport): bigint | undefined {
  if (!accessFaults.has(kind)) return undefined;
  if (place?.space === "shared") return sharedAddressBase + BigInt.asUintN(32, address);
  if (place?.space === "local") return localAddressBase + BigInt.asUintN(32, address);
  return address;
}

/** Describes a fault as a verb phrase to follow "kernel saxpy, block (0,0,0), thread (4,0,0), saxpy.cu:12: ". */
export function describeFault(report: FaultReport, memory: LaunchMemory): string {
  const { kind, address = 0n } = report;
  switch (kind) {
    case faultKind.trap:
      return memory.lacksWorkspace
        ? "executes a trap, as grid.sync() does in a launch that is not cooperative: launch it with cooperative: true"
        : "executes a trap";
    case faultKind.breakpoint:
      return "stops at a breakpoint, as kernels do that fail an assertion, and there is no debugger";
    case faultKind.stackOverflow:
      return `needs more stack than the ${memory.local} bytes of the thread`;
    case faultKind.invalidFunction:
      return `calls ${nullOr(address) ?? `address ${hexadecimal(address)}`}, where no function begins`;
    case faultKind.noBarrier:
      return `waits at barrier ${address}, but a block has the barriers 0 to 15`;
    case faultKind.noBarrierCount:
      return `waits at a barrier for ${BigInt.asIntN(32, address)} threads, but a barrier counts whole warps of 32`;
    case faultKind.arrivals:
      return `arrives ${
        address === 1n ? "once" : `${address} times`
      } at an mbarrier that awaits fewer arrivals in this ` +
        "phase, or that was not initialized";
    case faultKind.pendingBytes:
      return `makes ${BigInt.asIntN(64, address)} bytes pending at an mbarrier, which counts from -${
        mostPendingBytes - 1n
      } to ${mostPendingBytes}`;
    case faultKind.copySize:
      return `copies ${address} bytes by cp.async, which is more than its copy size`;
    case faultKind.bulkSize:
      return `copies ${address} bytes at once, but a bulk copy copies a multiple of 16 bytes`;
    case faultKind.noTexture: {
      const { operation = "read" } = report.place ?? {};
      const [what, creator] = operation === "read" ? ["texture", "createTexture"] : ["surface", "createSurface"];
      return `uses ${hexadecimal(address)} as a ${what}, which does not exist: pass what ${creator} of the device ` +
        "returns, and keep it until the kernel is done";
    }
    case faultKind.matrixDescriptor:
      return `multiplies, by wgmma.mma_async, a matrix whose descriptor leads outside of shared memory: it ` +
        describeAccess(report, memory);
    default:
      return describeAccess(report, memory);
  }
}

function describeAccess(report: FaultReport, memory: LaunchMemory): string {
  const { kind, place } = report;
  const { bytes = 1 } = place ?? {};
  const address = genericAddress(report)!;
  const verb = { read: "reads", write: "writes", atomic: "atomically updates", none: "accesses" }[
    place?.operation ?? "none"
  ];
  const access = `${verb} ${bytes === 1 ? "1 byte" : `${bytes} bytes`}`;
  const misaligned = kind === faultKind.misalignedAddress ? `not a multiple of ${bytes}, ` : "";
  const where = nullOr(address)?.replace(", ", `, ${misaligned}`);
  if (where !== undefined) {
    const isNumber = address > 0n && address < nullBytes;
    return `${access} at ${where}${isNumber ? `, or the number ${address} passed for a pointer` : ""}`;
  }
  const position = describePosition(report, memory);
  return `${access} at ${hexadecimal(address)}, ${misaligned}${position}`;
}

function describePosition({ address = 0n, place, ...report }: FaultReport, memory: LaunchMemory): string {
  const { bytes = 1 } = place ?? {};
  const generic = genericAddress({ address, ...report, ...place === undefined ? {} : { place } })!;
  // A 64-bit address in `.shared` or `.local` that exceeds the state space may be a generic address that was not
  // converted.
  if (place?.space !== undefined && place.space !== "generic" && address >> spaceBits !== 0n) {
    return `which is not an address in .${place.space}: it may be a generic address that was not converted`;
  }
  const offset = Number(BigInt.asUintN(32, generic));
  const access = { begin: offset, byteLength: bytes };
  switch (generic >> spaceBits) {
    case addressBase >> spaceBits:
      return memory.memoryNames?.position(offset, bytes) ?? "not in or near a buffer";
    case sharedAddressBase >> spaceBits: {
      const { shared, staticShared } = memory;
      if (shared === 0) return "in shared memory, of which the block has none: the launch gives no sharedMemoryBytes";
      const dynamic = shared - staticShared;
      const kind = dynamic === 0 ? "static " : staticShared === 0 ? "dynamic " : "";
      const parts = kind === "" ? ` (${staticShared} static, ${dynamic} dynamic)` : "";
      // In a cluster, the addresses of each block follow those of the block with the rank before.
      const begin = report.kind === faultKind.illegalAddress && offset < mostClusterBlocks * sharedSpan.byteLength
        ? offset % sharedSpan.byteLength
        : offset;
      return positionOf({ ...access, begin }, {
        byteLength: shared,
        name: `the ${shared} bytes of ${kind}shared memory${parts}`,
      });
    }
    case localAddressBase >> spaceBits:
      if (memory.local === 0) return "in local memory, of which the thread has none";
      return positionOf(access, {
        byteLength: memory.local,
        name: `the ${memory.local} bytes of the thread's local memory`,
      });
    case parameterAddressBase >> spaceBits: {
      const name = `the ${memory.parameters} bytes of the kernel's parameters`;
      const position = positionOf(access, { byteLength: memory.parameters, name });
      return place?.operation === "read" || position.includes(" past ") ? position : `${position}, which are read-only`;
    }
    default:
      return describeOther(generic, bytes, memory);
  }
}

/**
 * The element sizes, in bytes, for which an address is recognized as the result of a negative 32-bit index that was
 * zero-extended.
 */
const wrappedElements = [1n, 2n, 4n, 8n, 16n] as const;

function describeOther(address: bigint, bytes: number, { memoryNames }: LaunchMemory): string {
  for (const elementBytes of wrappedElements) {
    const meant = address - (elementBytes << 32n);
    if (meant >> spaceBits !== addressBase >> spaceBits) continue;
    const name = memoryNames?.position(Number(meant & 0xffff_ffffn), bytes);
    if (name !== undefined) return `${elementBytes << 2n} GiB and ${name}: an index may have become negative`;
  }
  if (address >> spaceBits === 0n) return "which is a number and not an address";
  return "which is not an address of this device";
}

function hexadecimal(address: bigint): string {
  return `0x${address.toString(16)}`;
}

/** Describes a null pointer, or an address near 0. Undefined for other addresses. */
function nullOr(address: bigint): string | undefined {
  if (address === 0n) return "address 0x0, a null pointer";
  if (address < nullBytes) return `address ${hexadecimal(address)}, probably a null pointer plus ${address}`;
  const below = (1n << 64n) - address;
  if (below >= nullBytes) return undefined;
  return `address ${hexadecimal(address)}, probably a null pointer minus ${below}`;
}

/** The maximum number of arguments that a message lists. */
const maximumListed = 8;

/** The kinds of faults that are often caused by wrong kernel arguments. */
const kindsOfArguments: readonly number[] = [
  faultKind.illegalAddress,
  faultKind.misalignedAddress,
  faultKind.stepLimit,
];

/**
 * Describes the arguments of a launch, to be appended to the description of a fault: "; the kernel was launched with
 * (4096, 2.5, 0x7a0000001000 with 4096 bytes from there)". Empty for faults of a kind that arguments do not cause.
 */
export function describeArguments(
  kind: number,
  parameters: readonly KernelParameter[],
  packed: Uint8Array,
  memoryNames: MemoryNames | undefined,
): string {
  if (parameters.length === 0 || !kindsOfArguments.includes(kind)) return "";
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  const listed = parameters.slice(0, maximumListed).map((parameter) => describe(parameter, view, memoryNames));
  if (parameters.length > maximumListed) listed.push("...");
  const isStruct = parameters.some(({ type }) => typeof type === "object");
  const advice = kind === faultKind.stepLimit && isStruct
    ? "; a typed array gives all fields of a struct one type, and struct({ ... }) gives each its own"
    : "";
  return `; the kernel was launched with (${listed.join(", ")})${advice}`;
}

function describe(
  { type, offset, byteLength }: KernelParameter,
  view: DataView,
  names: MemoryNames | undefined,
): string {
  if (typeof type === "object") return `${byteLength} bytes`;
  switch (type) {
    case "f64":
      return String(view.getFloat64(offset, true));
    case "f32":
      return String(Number(view.getFloat32(offset, true).toPrecision(7)));
    case "f16":
      return String(Number(view.getFloat16(offset, true).toPrecision(3)));
  }
  const bits = byteLength * 8;
  const word = bits === 64 ? view.getBigUint64(offset, true) : BigInt(
    bits === 32 ? view.getUint32(offset, true) : bits === 16 ? view.getUint16(offset, true) : view.getUint8(offset),
  );
  if (bits === 64 && word >> 32n === addressBase >> 32n) {
    const bytes = names?.bytesFrom(Number(BigInt.asUintN(32, word)));
    return `0x${word.toString(16)}${
      bytes === undefined ? "" : ` with ${bytes} ${bytes === 1 ? "byte" : "bytes"} from there`
    }`;
  }
  // Compilers use the same PTX type for signed and unsigned integer parameters.
  const signed = BigInt.asIntN(bits, word);
  if (type.startsWith("s")) return String(signed);
  return signed < 0n ? `${word} or ${signed}` : String(word);
}
