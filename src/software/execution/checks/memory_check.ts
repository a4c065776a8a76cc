/**
 * The check `memory`: finds accesses to memory that is not allocated or was freed, and accesses outside of the buffer
 * or array from which the address was computed, even if they reach other allocated memory.
 *
 * @module
 */
import type { ThreadAccess } from "../../../kernel_checker.ts";
import { addressBase, bytesOfPlace, faultKind } from "../../abi/addresses.ts";
import type { CompiledKernel } from "../../compiler/compile.ts";
import type { originSpaces } from "../../abi/host_functions.ts";
import { addressOfOffset, offsetOfAddress } from "../../memory/memory_layout.ts";
import { type NamedRange, positionOf } from "../../memory/named_memory.ts";
import type { FaultReport, KernelFault } from "../faults/kernel_fault.ts";
import { type KernelFinding, sourceNameOf } from "./findings.ts";
import { argumentRangesByteLength, unboundedLength } from "../../abi/launch_record.ts";
import type { SoftwareAllocation } from "../../memory/allocations.ts";

/** The functions of the driver that the check `memory` uses. */
interface MemoryCheckOptions {
  /** Returns the range for which an invalid access was most likely intended, or undefined if no range is near. */
  nearest(begin: number, byteLength: number): NamedRange | undefined;
}

/** The memory from which an address was computed: a variable, or the memory that a parameter points into. */
interface PointerOrigin {
  readonly space: typeof originSpaces[number];
  /** The offset of the variable in its state space, or of the parameter among the packed parameters. */
  readonly offset: number;
  /** The offset in linear memory of the variable, or of the memory that the parameter points into. */
  readonly begin: number;
  readonly byteLength: number;
}

/** An access outside of the memory from which the address was computed. */
export interface StrayAccess {
  /** The offset of the access in linear memory. */
  readonly begin: number;
  /** The encoded code location. */
  readonly place: number;
  readonly thread: number;
  readonly origin: PointerOrigin;
}

const advices: Readonly<Record<string, string>> = {
  "out-of-bounds":
    "Compare the index of this access with the number of elements before it, not only the number of the thread",
  "use-after-free": "Free the memory after its last use",
  "use-before-allocation":
    "Launch the kernel on the stream that allocated the memory, or let its stream wait for that one",
  inaccessible: "Give the device access to the memory, or launch the kernel on a device that has it",
  "invalid-address": "Check where the address comes from: an argument, or memory that was not initialized",
  "invalid-free": "Free each address that malloc returned in a kernel once, and no other",
  "stack-overflow": "Keep large arrays in global memory, and recursion shallow",
};

/** The exclusive upper bound of addresses that are most likely offsets from a null pointer. */
const nullBytes = 0x1000n;

/** The check `memory` of one launch. */
export class MemoryCheck {
  readonly #options: MemoryCheckOptions;

  constructor(options: MemoryCheckOptions) {
    this.#options = options;
  }

  /**
   * Returns the finding for the fault that stopped a kernel, or undefined if the fault does not concern memory.
   *
   * @param argumentAt returns the position, counted from 1, of the kernel argument that equals an address
   */
  findingOf(
    fault: KernelFault,
    report: FaultReport,
    argumentAt: (address: bigint) => number | undefined,
  ): KernelFinding | undefined {
    const { bytes = 1, operation = "none" } = report.place ?? {};
    const nearest = this.#nearestOf(fault, bytes);
    const kind = kindOf(fault, report, nearest);
    if (kind === undefined) return undefined;
    const offset = fault.kind === faultKind.stackOverflow ? undefined : globalOffset(fault);
    const memory = offset === undefined || nearest === undefined || kind === "invalid-free"
      ? undefined
      : describePosition(
        { begin: offset, byteLength: bytes },
        kind === "out-of-bounds" ? withArgument(nearest, argumentAt) : nearest,
      );
    const access: ThreadAccess = {
      access: operation === "none" ? kind === "invalid-free" ? "free" : "read" : operation,
      source: fault.source ?? `PTX line ${fault.line}`,
      block: fault.block,
      thread: fault.thread,
    };
    return {
      check: "memory",
      kind,
      problem: memory === undefined
        ? `the device stops the kernel, which ${fault.what}`
        : `${elementOf({ begin: offset!, byteLength: bytes }, nearest!, access)}the device refuses the access, and ` +
          "stops the kernel",
      advice: kind === "misaligned"
        ? `Access ${bytes} bytes only at multiples of ${bytes}: check how the address was computed`
        : advices[kind]!,
      memory,
      range: offset === undefined ? undefined : { address: addressOfOffset(offset), byteLength: bytes },
      allocation: nearest && { address: addressOfOffset(nearest.begin), byteLength: nearest.byteLength },
      accesses: [access],
    };
  }

  /**
   * Returns the finding for an access whose address was computed from one allocation or variable, but which lies in
   * another.
   */
  findingOfStray(
    { begin, place, origin }: StrayAccess,
    { kernel, access }: { kernel: Pick<CompiledKernel, "parameters" | "variables">; access: ThreadAccess },
  ): KernelFinding {
    const byteLength = bytesOfPlace(place);
    const isGlobal = origin.space !== "shared" && origin.space !== "local";
    const name = this.#nameOf(origin, kernel);
    const bytes = { begin, byteLength };
    const reached = isGlobal ? this.#options.nearest(begin, byteLength) : arrayAt(begin - origin.begin, origin, kernel);
    // If the nearest range is the buffer itself, the access is to the padding that an allocator adds after the buffer.
    const where = reached === undefined || reached.begin === origin.begin ? "" : `: ${positionOf(bytes, reached)}`;
    return {
      check: "memory",
      kind: "out-of-bounds",
      problem: `${elementOf(bytes, origin, access)}other memory is there, so the device makes the access${where}`,
      advice: advices["out-of-bounds"]!,
      memory: describePosition(bytes, { ...origin, name }),
      range: isGlobal ? { address: addressOfOffset(begin), byteLength } : undefined,
      allocation: isGlobal ? { address: addressOfOffset(origin.begin), byteLength: origin.byteLength } : undefined,
      accesses: [access],
    };
  }

  #nameOf(
    { space, offset, begin, byteLength }: PointerOrigin,
    { variables, parameters }: Pick<CompiledKernel, "parameters" | "variables">,
  ): string {
    if (space === "param") {
      const index = parameters.findIndex((parameter) => parameter.offset + parameter.byteLength > offset);
      const nearest = this.#options.nearest(begin, 1);
      const isExact = nearest?.begin === begin && nearest.byteLength === byteLength;
      return `${isExact ? nearest.name : `a buffer of ${count(byteLength)}`}, argument ${index + 1}`;
    }
    const variable = variables.find((variable) => {
      return variable.space === space && variable.offset === offset && variable.byteLength === byteLength;
    });
    const place = { shared: " in shared memory", local: " in local memory", global: "", const: "" }[space];
    const name = variable === undefined ? undefined : nameOfArray(variable.name);
    return `${name === undefined ? "an array" : `the array ${name}`} of ${count(byteLength)}${place}`;
  }

  #nearestOf(fault: KernelFault, bytes: number): NamedRange | undefined {
    const offset = globalOffset(fault);
    return offset === undefined ? undefined : this.#options.nearest(offset, bytes);
  }
}

/**
 * Returns the array that contains the byte at a signed distance from the start of another array in shared or local
 * memory.
 */
function arrayAt(
  distance: number,
  { space, offset, begin }: PointerOrigin,
  { variables }: Pick<CompiledKernel, "variables">,
): NamedRange | undefined {
  const at = offset + distance;
  const found = variables.find((variable) => {
    return variable.space === space && at >= variable.offset && at < variable.offset + variable.byteLength;
  });
  if (found === undefined) return undefined;
  const { name, byteLength } = found;
  const its = nameOfArray(name) ?? name;
  return { begin: begin - offset + found.offset, byteLength, name: `the array ${its} of ${count(byteLength)}` };
}

/**
 * Returns the C++ name of an array. Undefined for a compiler-generated array that contains all local arrays of a
 * function.
 */
function nameOfArray(name: string): string | undefined {
  return name.startsWith("__local_depot") ? undefined : sourceNameOf(name);
}

/** Returns the offset in linear memory of a fault's address, or undefined if there is no address. */
function globalOffset({ address }: KernelFault): number | undefined {
  return address === undefined ? undefined : offsetOfAddress(address);
}

/** Returns the kind of the finding for a fault, or undefined if the fault does not concern memory. */
function kindOf(
  { kind, address }: KernelFault,
  { place }: FaultReport,
  nearest: NamedRange | undefined,
): string | undefined {
  switch (kind) {
    case faultKind.misalignedAddress:
      return "misaligned";
    case faultKind.stackOverflow:
      return "stack-overflow";
    case faultKind.outsideSharedSpan:
    case faultKind.noClusterBlock:
      return "out-of-bounds";
    case faultKind.illegalAddress: {
      // The operation `none` is reported for a call of `free`, which is not an access.
      if (place?.operation === "none") return "invalid-free";
      const isNull = address === undefined || address < nullBytes || address > -nullBytes + (1n << 64n);
      if (isNull) return "invalid-address";
      const space = (address >> 32n) - (addressBase >> 32n);
      // Spaces 1 to 3 are the address ranges of shared memory, local memory and parameters.
      if (space > 0n && space <= 3n) return "out-of-bounds";
      if (nearest === undefined) return "invalid-address";
      const offset = Number(address - addressBase);
      const isIn = offset >= nearest.begin && offset < nearest.begin + nearest.byteLength;
      return isIn ? nearest.mistake ?? "out-of-bounds" : "out-of-bounds";
    }
    default:
      return undefined;
  }
}

/** Describes the size and the position of an access: "4 bytes, 8 bytes past the end of a buffer". */
function describePosition(access: Pick<NamedRange, "begin" | "byteLength">, range: NamedRange): string {
  const position = positionOf(access, range);
  return `${count(access.byteLength)}${/^(?:\d|the )/.test(position) ? "," : ""} ${position}`;
}

/**
 * Describes an access outside of an array as an access to an element, assuming that elements have the size of the
 * access: "it reads element 1000 (of 4 bytes), and the last is 999; ". Empty if the access does not coincide with an
 * element.
 */
function elementOf(
  { begin, byteLength }: Pick<NamedRange, "begin" | "byteLength">,
  array: Pick<NamedRange, "begin" | "byteLength">,
  { access }: ThreadAccess,
): string {
  const index = (begin - array.begin) / byteLength, last = array.byteLength / byteLength - 1;
  const isOutside = Number.isInteger(index) && Number.isInteger(last) && (index < 0 || index > last);
  if (!isOutside || last < 0) return "";
  const verb = access === "atomic" ? "accesses" : `${access}s`;
  return `it ${verb} element ${index} (of ${count(byteLength)}), and the last is ${last}; `;
}

/**
 * If a kernel argument points to the start of the memory, appends the position of the argument to the memory's name.
 */
function withArgument(memory: NamedRange, argumentAt: (address: bigint) => number | undefined): NamedRange {
  const argument = argumentAt(addressOfOffset(memory.begin));
  return argument === undefined ? memory : { ...memory, name: `${memory.name}, argument ${argument}` };
}

function count(bytes: number): string {
  return bytes === 1 ? "1 byte" : `${bytes} bytes`;
}

/** Answers queries about the program's memory at the time of a launch. */
interface ProgramMemory {
  /**
   * Returns the allocation that contains an offset in linear memory. If an allocator has divided the allocation into
   * parts, returns the part that contains the offset.
   */
  allocationAt(offset: number): SoftwareAllocation | undefined;
  /** Returns whether an argument of the launch is a buffer that begins at an offset in linear memory. */
  isBuffer(offset: number): boolean;
}

/** Returns the table of the ranges that arguments point into: see `argumentRanges` of the launch record. */
export function argumentRangesOf(parameters: DataView, memory: ProgramMemory): Uint32Array {
  const byteLength = Math.min(parameters.byteLength, argumentRangesByteLength);
  const ranges = new Uint32Array(2 * Math.floor(byteLength / 8));
  for (let word = 0; word < ranges.length; word += 2) {
    const offset = offsetOfAddress(parameters.getBigUint64(4 * word, true));
    const range = offset === undefined ? undefined : rangeAt(offset, memory);
    ranges[word] = range?.begin ?? 0;
    ranges[word + 1] = range?.byteLength ?? unboundedLength;
  }
  return ranges;
}

/**
 * Returns the range that a pointer points into. Returns undefined if the pointer could also be the end pointer of the
 * preceding range.
 */
function rangeAt(offset: number, memory: ProgramMemory): SoftwareAllocation | undefined {
  const found = memory.allocationAt(offset);
  if (found?.begin !== offset || memory.isBuffer(offset)) return found;
  const before = memory.allocationAt(offset - 1);
  return before === undefined || before === found ? found : undefined;
}
