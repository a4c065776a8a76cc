/**
 * Copies of boxes of tensors between global and shared memory, `cp.async.bulk.tensor`: PTX ISA, sections 5.5 and
 * 9.7.9.25.5.
 *
 * A box is copied row by row: the elements along dimension 0. In shared memory, rows follow each other; a swizzle
 * exchanges pieces of 16 bytes within a row by bits of their address.
 *
 * @module
 */
import {
  addressBase,
  boundsGranuleShift,
  boundsTable,
  faultKind,
  localAddressBase,
  pageShift,
  parameterAddressBase,
  sharedAddressBase,
  sharedSpan,
} from "../abi/addresses.ts";
import { mostClusterBlocks } from "../abi/launch_record.ts";
import {
  decodeTensorMap,
  type EncodedTensor,
  sliceWidths,
  swizzleWidths,
  tensorMapByteLength,
  type tensorOperations,
  tensorTypes,
} from "../abi/tensor_map.ts";
import { type FaultReport, KernelStop } from "./faults/kernel_fault.ts";
import type { ReadableMemory } from "./printing/device_print.ts";
import { reduceElements } from "./tensor_reductions.ts";

/** What a tensor copy does, and where. */
export interface TensorCopy {
  readonly operation: typeof tensorOperations[number];
  /** The generic address of the tensor map. */
  readonly map: bigint;
  /** The address in shared memory. */
  readonly shared: bigint;
  /** The coordinates of the first element of the box, as many as the instruction has. */
  readonly coordinates: readonly number[];
  /** The offsets of the pixels, in the mode im2col. Undefined if the instruction is in the mode tile. */
  readonly offsets: readonly number[] | undefined;
}

/** The device and the thread that make a tensor copy. */
export interface TensorCopyContext {
  /** Linear memory. */
  readonly bytes: Uint8Array;
  readonly memory: ReadableMemory;
  /** The first address of the block's shared memory, and the offset of the table of the cluster's shared memory, or 0. */
  readonly cluster: { readonly base: number; readonly table: number };
  /** The code location and the thread, for reports of faults. */
  readonly site: Pick<FaultReport, "place" | "thread">;
  /** Called for each 16 bytes or less that are accessed, at a multiple of their number. `isShared` says in which memory. */
  readonly onAccess?: ((offset: number, bytes: number, isShared: boolean) => void) | undefined;
  /** The distance from a byte to the byte of its shadow, which is copied, too. Undefined without shadows. */
  readonly shadowOffset?: number | undefined;
}

/** The alignment of tensor maps in bytes. */
const tensorMapAlignment = 64;
/** The alignment of boxes in shared memory, in bytes. */
const boxAlignment = 128;
/** The number of bytes that a swizzle moves at once. */
const chunkBytes = 16;

/** Copies a box. Returns the number of bytes that a load has written to shared memory. Throws a {@linkcode KernelStop}. */
export function copyTensor(copy: TensorCopy, context: TensorCopyContext): number {
  const map = tensorMapAt(copy.map, context);
  checkMode(map, copy, context);
  const box = new Box(map, copy.coordinates, copy.offsets);
  if (copy.operation === "prefetch") return 0;
  const shared = sharedRows(box, copy, context);
  const isLoad = copy.operation === "load";
  const global = new GlobalRows(map.address, isLoad ? "read" : "write", context);
  const { elementBytes, rowBytes, pitch } = box;
  const row = new Uint8Array(rowBytes);
  const { shadowOffset = 0 } = context;
  const isRounded = isLoad && tensorTypes[map.type]!.name.startsWith("tf32");
  box.forEachRow((index, distance) => {
    const at = index * pitch;
    const { begin, end } = distance === undefined ? noElements : box.inside;
    const [first, byteLength] = [begin * elementBytes, (end - begin) * elementBytes];
    const from = byteLength === 0 ? 0 : global.offsetOf(distance! + first, byteLength);
    if (!isLoad && byteLength === 0) return;
    shared.report(at);
    for (let shadow = 0;; shadow += shadowOffset) {
      const offset = from + shadow;
      if (byteLength === rowBytes && !(isRounded && shadow === 0) && (isLoad || copy.operation === "store")) {
        shared.copy(at, { offset, shadow, isLoad });
      } else if (isLoad) {
        fill(row, shadow === 0 ? map : undefined);
        if (byteLength > 0) row.set(context.bytes.subarray(offset, offset + byteLength), first);
        if (isRounded && shadow === 0) roundElements(row.subarray(first, first + byteLength));
        shared.write(at, row, shadow);
      } else {
        shared.read(at, row, shadow);
        const part = row.subarray(first, first + byteLength);
        if (copy.operation === "store") context.bytes.set(part, offset);
        else if (shadow === 0) reduceElements(context.bytes, from, { part, type: map.type, operation: copy.operation });
      }
      if (shadow === shadowOffset) break;
    }
  });
  return box.rowCount * rowBytes;
}

/** The elements of a row outside of a tensor that are inside. */
const noElements = { begin: 0, end: 0 } as const;

/** Returns the tensor map at a generic address. */
function tensorMapAt(address: bigint, { bytes, memory, site }: TensorCopyContext): EncodedTensor {
  const report = (kind: number, what?: string): never => {
    const place = { ...site.place, operation: "read", bytes: tensorMapByteLength, space: "generic" } as const;
    throw new KernelStop({ kind, address, place, thread: site.thread, ...what === undefined ? {} : { what } });
  };
  if (address % BigInt(tensorMapAlignment) !== 0n) {
    const place = { ...site.place, operation: "read", bytes: tensorMapAlignment, space: "generic" } as const;
    throw new KernelStop({ kind: faultKind.misalignedAddress, address, place, thread: site.thread });
  }
  const offset = Number(BigInt.asUintN(32, address));
  const within = ({ begin, byteLength }: { begin: number; byteLength: number }) =>
    offset + tensorMapByteLength <= byteLength ? begin + offset : undefined;
  let begin: number | undefined;
  switch (address >> 32n) {
    case addressBase >> 32n:
      begin = isAllocated(bytes, memory.bounds, { begin: offset, byteLength: tensorMapByteLength })
        ? offset
        : undefined;
      break;
    case sharedAddressBase >> 32n:
      begin = within(memory.shared);
      break;
    case localAddressBase >> 32n:
      begin = within(memory.local);
      break;
    case parameterAddressBase >> 32n:
      begin = within(memory.parameters);
  }
  if (begin === undefined) return report(faultKind.illegalAddress);
  const map = decodeTensorMap(new DataView(bytes.buffer, bytes.byteOffset), begin);
  return map ?? report(faultKind.tensorMap, `uses ${hexadecimal(address)} as a tensor map, but no tensor map is there`);
}

function hexadecimal(address: bigint): string {
  return `0x${address.toString(16)}`;
}

/** Throws if an instruction does not fit the tensor map. */
function checkMode(
  map: EncodedTensor,
  { operation, coordinates, offsets }: TensorCopy,
  { site }: TensorCopyContext,
): void {
  const fail = (what: string): never => {
    throw new KernelStop({ kind: faultKind.tensorMap, ...site, what });
  };
  if (coordinates.length !== map.rank) {
    fail(`copies a box of ${countOf(coordinates.length)}, but the tensor map is of a tensor of ${countOf(map.rank)}`);
  }
  if ((map.pixels === undefined) !== (offsets === undefined)) {
    const [instruction, encoded] = offsets === undefined ? ["tile", "im2col"] : ["im2col", "tile"];
    fail(`copies in the mode .${instruction}, but the tensor map was encoded for the mode .${encoded}`);
  }
  if (operation !== "load" && operation !== "prefetch") checkWrites(map, operation, { coordinates, fail });
  if (map.interleave !== 0) {
    if (map.rank >= 3) return;
    fail(`uses a tensor map with interleaved channels of a tensor of ${countOf(map.rank)}, and 3 are needed`);
  }
  const width = swizzleWidths[map.swizzle]!;
  const elementBytes = tensorTypes[map.type]!.bytes;
  const rowBytes = map.box[0]! * elementBytes;
  const first = coordinates[0]! * elementBytes;
  if (first % chunkBytes !== 0) {
    fail(`copies a box that begins at byte ${first} of its rows, which is not a multiple of ${chunkBytes}`);
  }
  if (rowBytes % chunkBytes !== 0 || width > 0 && rowBytes > width) {
    fail(
      `uses a tensor map whose rows have ${rowBytes} bytes, which ${
        width > 0 ? `a swizzle of ${width} bytes` : "16 bytes"
      } do not divide`,
    );
  }
}

/** Throws if a store or a reduction does not fit the tensor map. */
function checkWrites(
  map: EncodedTensor,
  operation: TensorCopy["operation"],
  { coordinates, fail }: { coordinates: readonly number[]; fail: (what: string) => never },
): void {
  const isStore = operation === "store";
  if (coordinates.some((coordinate) => coordinate < 0)) {
    fail(
      `${isStore ? "stores" : "reduces"} a box at the negative coordinates ${
        coordinates.join(", ")
      }, which no GPU does`,
    );
  }
  const { lower = [], upper = [] } = map.pixels ?? {};
  if (lower.some((offset) => offset < 0) || upper.some((offset) => offset > 0)) {
    fail(
      `${isStore ? "stores" : "reduces"} pixels of a bounding box that leads outside of the tensor, which no GPU does`,
    );
  }
  const { name } = tensorTypes[map.type]!;
  if (isStore || isReducible(operation, name)) return;
  fail(`reduces elements of type ${name} by .${operation}, which no GPU does`);
}

/** Whether a GPU reduces elements of a type by an operation. */
function isReducible(operation: string, type: string): boolean {
  const isFloat = type.includes("f");
  switch (operation) {
    case "add":
      return !["u8", "u16", "s64"].includes(type);
    case "min":
    case "max":
      return ["u32", "s32", "u64", "s64", "f16", "bf16"].includes(type);
    case "inc":
    case "dec":
      return type === "u32";
    default:
      return !isFloat && !["u8", "u16", "s64"].includes(type);
  }
}

function countOf(dimensions: number): string {
  return dimensions === 1 ? "1 dimension" : `${dimensions} dimensions`;
}

/**
 * Returns a tensor without interleaved channels that has the same elements: a slice of channels is a row, and the
 * dimensions of the tensor follow. The last of them but one counts the slices of a pixel, of which a box has one.
 */
function withoutInterleaving(map: EncodedTensor): EncodedTensor {
  const sliceBytes = sliceWidths[map.interleave];
  if (sliceBytes === undefined || sliceBytes === 0) return map;
  const elements = sliceBytes / tensorTypes[map.type]!.bytes;
  return {
    ...map,
    rank: map.rank + 1,
    dimensions: [elements, ...map.dimensions],
    strides: [sliceBytes, ...map.strides],
    box: [elements, ...map.box.with(-2, 1)],
    elementStrides: [1, ...map.elementStrides],
  };
}

/** The elements of a tensor that a copy transfers, in rows. */
class Box {
  readonly elementBytes: number;
  readonly rowElements: number;
  readonly rowBytes: number;
  /** The distance between rows in shared memory, in bytes. */
  readonly pitch: number;
  /** The elements of a row that are inside of the tensor, if the row is: from `begin` to `end` (exclusive). */
  readonly inside: { readonly begin: number; readonly end: number };
  /** The number of rows. */
  readonly rowCount: number;
  /** The width of the swizzle in bytes. 0 if there is none. */
  readonly swizzleWidth: number;
  readonly #map: EncodedTensor;
  readonly #coordinates: readonly number[];
  readonly #offsets: readonly number[];
  /** The number of rows in each dimension from dimension 1 on, in the mode tile. */
  readonly #counts: readonly number[];

  constructor(encoded: EncodedTensor, given: readonly number[], offsets: readonly number[] = []) {
    const map = this.#map = withoutInterleaving(encoded);
    const coordinates = this.#coordinates = map === encoded ? given : [0, ...given];
    this.#offsets = offsets;
    this.elementBytes = tensorTypes[map.type]!.bytes;
    this.rowElements = map.box[0]!;
    this.rowBytes = this.rowElements * this.elementBytes;
    this.swizzleWidth = swizzleWidths[map.swizzle]!;
    this.pitch = map === encoded ? Math.max(this.rowBytes, this.swizzleWidth) : this.rowBytes;
    this.#counts = map.box.slice(1).map((size, index) => Math.ceil(size / map.elementStrides[index + 1]!));
    this.rowCount = map.pixels?.count ?? this.#counts.reduce((product, count) => product * count, 1);
    const first = coordinates[0]!;
    const begin = Math.min(this.rowElements, Math.max(0, -first));
    this.inside = { begin, end: Math.max(begin, Math.min(this.rowElements, map.dimensions[0]! - first)) };
  }

  /**
   * Calls `visit` with the number of each row, and the distance in bytes of its first element from that of the tensor:
   * undefined outside of the tensor.
   */
  forEachRow(visit: (index: number, distance: number | undefined) => void): void {
    if (this.#map.pixels !== undefined) return this.#forEachPixel(visit);
    const { elementStrides } = this.#map;
    const at = this.#coordinates.slice(1);
    for (let index = 0; index < this.rowCount; index++) {
      visit(index, this.#distanceOf(at));
      for (let dimension = 0; dimension < at.length; dimension++) {
        const stride = elementStrides[dimension + 1]!;
        const first = this.#coordinates[dimension + 1]!;
        at[dimension]! += stride;
        if (at[dimension]! < first + this.#counts[dimension]! * stride) break;
        at[dimension] = first;
      }
    }
  }

  /**
   * As `forEachRow`, for the pixels of a column: along the dimensions from 1 on, within the bounding box. The slice of
   * interleaved channels, the last dimension but one, stays the same.
   */
  #forEachPixel(visit: (index: number, distance: number | undefined) => void): void {
    const { pixels, elementStrides, dimensions } = this.#map;
    const { lower, upper } = pixels!;
    const base = this.#coordinates.slice(1);
    const last = base.length - 1;
    const traversed = [...lower.keys(), last];
    for (let index = 0; index < this.rowCount; index++) {
      visit(index, this.#distanceOf(base.map((coordinate, dimension) => coordinate + (this.#offsets[dimension] ?? 0))));
      for (const dimension of traversed) {
        base[dimension]! += elementStrides[dimension + 1]!;
        if (dimension === last || base[dimension]! < dimensions[dimension + 1]! + upper[dimension]!) break;
        base[dimension] = lower[dimension]!;
      }
    }
  }

  /** Returns the distance of the first element of a row, given its coordinates from dimension 1 on. */
  #distanceOf(coordinates: readonly number[]): number | undefined {
    const { dimensions, strides } = this.#map;
    let distance = this.#coordinates[0]! * this.elementBytes;
    for (let index = 0; index < coordinates.length; index++) {
      const coordinate = coordinates[index]!;
      if (coordinate < 0 || coordinate >= dimensions[index + 1]!) return undefined;
      distance += coordinate * strides[index]!;
    }
    return distance;
  }
}

/** Fills a row with what elements outside of a tensor are loaded as. Without a map, with zeros. */
function fill(row: Uint8Array, map: EncodedTensor | undefined): void {
  if (!map?.fillsNaN) {
    row.fill(0);
    return;
  }
  for (let index = 0; index < row.length; index++) row[index] = index % 2 === 0 ? 0xf7 : 0x7f;
}

/** Rounds floats of 32 bits to the nearest ones with 10 bits after the point, or if there are two, to the even one. */
function roundElements(row: Uint8Array): void {
  const view = new DataView(row.buffer, row.byteOffset, row.byteLength);
  for (let at = 0; at < row.length; at += 4) {
    const bits = view.getUint32(at, true);
    const isNaN = (bits & 0x7fff_ffff) > 0x7f80_0000;
    view.setUint32(at, isNaN ? 0x7fff_e000 : bits + 0xfff + (bits >>> 13 & 1) & ~0x1fff, true);
  }
}

/** The rows of a tensor in global memory. */
class GlobalRows {
  readonly #address: bigint;
  /** The offset of the tensor in linear memory, which its rows may exceed. */
  readonly #offset: number;
  readonly #operation: "read" | "write";
  readonly #context: TensorCopyContext;
  /** The allocation in which the last row was. */
  #begin = 0;
  #end = 0;

  constructor(address: bigint, operation: "read" | "write", context: TensorCopyContext) {
    this.#address = address;
    const isGlobal = address >> 32n === addressBase >> 32n;
    this.#offset = isGlobal ? Number(BigInt.asUintN(32, address)) : NaN;
    this.#operation = operation;
    this.#context = context;
  }

  /** Returns the offset in linear memory of a part of a row. Throws if the kernel may not access it. */
  offsetOf(distance: number, byteLength: number): number {
    const offset = this.#offset + distance;
    if (!(offset >= this.#begin && offset + byteLength <= this.#end)) this.#find(distance, byteLength);
    const { bytes, memory: { bounds }, onAccess } = this.#context;
    if (this.#operation === "write") {
      for (let page = offset >>> pageShift; page << pageShift < offset + byteLength; page++) {
        if (bytes[bounds + boundsTable.readOnly + page] === 1) this.#fault(distance);
      }
    }
    if (onAccess !== undefined) {
      const bits = offset | byteLength | chunkBytes;
      const step = bits & -bits;
      for (let at = 0; at < byteLength; at += step) onAccess(offset + at, step, false);
    }
    return offset;
  }

  /** Finds the allocation of a part of a row. */
  #find(distance: number, byteLength: number): void {
    const { bytes, memory: { bounds } } = this.#context;
    const offset = this.#offset + distance;
    if (!(offset >= 0 && offset < 2 ** 32)) this.#fault(distance);
    const { begin, end } = allocationAt(bytes, bounds, offset);
    if (offset < begin || offset >= end) this.#fault(distance);
    if (offset + byteLength > end) this.#fault(distance + end - offset);
    this.#begin = begin;
    this.#end = end;
  }

  #fault(distance: number): never {
    const { site } = this.#context;
    const place = { ...site.place, operation: this.#operation, bytes: chunkBytes, space: "generic" } as const;
    const address = this.#address + BigInt(distance);
    throw new KernelStop({ kind: faultKind.illegalAddress, address, place, thread: site.thread });
  }
}

/** Returns the allocation that an offset in linear memory is in, and an empty range if there is none. */
function allocationAt(bytes: Uint8Array, bounds: number, offset: number): { begin: number; end: number } {
  const wordAt = (at: number) => new DataView(bytes.buffer, bytes.byteOffset).getUint32(at, true);
  const first = wordAt(bounds + 4 * (offset >>> boundsGranuleShift)) - 1;
  if (first < 0) return { begin: 0, end: 0 };
  const begin = first * 2 ** boundsGranuleShift;
  return { begin, end: begin + wordAt(bounds + boundsTable.lengths + 4 * first) };
}

function isAllocated(
  bytes: Uint8Array,
  bounds: number,
  { begin, byteLength }: { begin: number; byteLength: number },
): boolean {
  const allocation = allocationAt(bytes, bounds, begin);
  return begin >= allocation.begin && begin + byteLength <= allocation.end;
}

/** Returns where the shared memory of the block of a cluster begins that an address refers to, and the offset in it. */
function sharedMemoryAt(
  address: bigint,
  { bytes, memory, cluster: { base, table } }: TensorCopyContext,
): { begin: number; offset: number } | undefined {
  const span = BigInt(sharedSpan.byteLength);
  const rank = address / span;
  const offset = Number(address % span);
  if (rank === BigInt(base) / span) return { begin: memory.shared.begin, offset };
  if (table === 0 || rank >= BigInt(mostClusterBlocks)) return undefined;
  const begin = new DataView(bytes.buffer, bytes.byteOffset).getUint32(table + 4 * Number(rank), true);
  return begin === 0 ? undefined : { begin, offset };
}

/** The rows of a box in shared memory. Each begins at a distance from the start of the box. */
interface SharedRows {
  /** Reports the accesses to a row. */
  report(at: number): void;
  /** Copies a row, or its shadow at another distance, from an offset in linear memory or to it. */
  copy(at: number, other: { readonly offset: number; readonly shadow: number; readonly isLoad: boolean }): void;
  /** Stores the bytes of a row, or those of its shadow. */
  write(at: number, row: Uint8Array, shadow: number): void;
  /** Loads the bytes of a row, or those of its shadow. */
  read(at: number, row: Uint8Array, shadow: number): void;
}

/** Returns the rows of a box in shared memory. Throws if the kernel may not access them. */
function sharedRows(box: Box, { operation, shared }: TensorCopy, context: TensorCopyContext): SharedRows {
  const { bytes, memory, site, onAccess } = context;
  const isLoad = operation === "load";
  const fail = (kind: number, address: bigint, bytes: number): never => {
    const place = { ...site.place, operation: isLoad ? "write" : "read", bytes, space: "shared" } as const;
    throw new KernelStop({ kind, address, place, thread: site.thread });
  };
  if (shared % BigInt(boxAlignment) !== 0n) fail(faultKind.misalignedAddress, shared, boxAlignment);
  const size = memory.shared.byteLength;
  const found = sharedMemoryAt(shared, context);
  if (found === undefined) return fail(faultKind.outsideSharedSpan, shared, chunkBytes);
  const { begin, offset: first } = found;
  if (first + (box.rowCount - 1) * box.pitch + box.rowBytes > size) {
    const missing = first < size ? (size & -chunkBytes) - first : 0;
    fail(faultKind.illegalAddress, shared + BigInt(missing), chunkBytes);
  }
  const width = box.swizzleWidth;
  const most = width / chunkBytes - 1;
  /** The bits of an address in a pattern that are inverted. */
  const exchangedBits = (address: number): number => ((address >> 7) & most) << 4;
  const offsetOf = (at: number): number => {
    const address = first + at;
    return begin + (width === 0 ? address : address ^ exchangedBits(address));
  };
  const { rowBytes } = box;
  const part = width === 0 ? rowBytes : chunkBytes;
  const words = new Int32Array(bytes.buffer);
  return {
    report(at) {
      if (onAccess === undefined) return;
      for (let chunk = 0; chunk < rowBytes; chunk += chunkBytes) onAccess(offsetOf(at + chunk), chunkBytes, true);
    },
    copy(at, { offset, shadow, isLoad }) {
      if (width === 0 || ((offset | begin + shadow) & 3) !== 0) {
        for (let chunk = 0; chunk < rowBytes; chunk += part) {
          const inShared = offsetOf(at + chunk) + shadow, inGlobal = offset + chunk;
          const [to, from] = isLoad ? [inShared, inGlobal] : [inGlobal, inShared];
          bytes.copyWithin(to, from, from + part);
        }
        return;
      }
      // The same bits are exchanged in the places of all chunks of a row.
      const address = first + at;
      const exchanged = exchangedBits(address) >>> 2;
      const base = begin + shadow >>> 2, row = address >>> 2, other = offset >>> 2;
      for (let word = 0; word < rowBytes >>> 2; word += chunkBytes / 4) {
        const inShared = base + ((row + word) ^ exchanged), inGlobal = other + word;
        const to = isLoad ? inShared : inGlobal, from = isLoad ? inGlobal : inShared;
        words[to] = words[from]!;
        words[to + 1] = words[from + 1]!;
        words[to + 2] = words[from + 2]!;
        words[to + 3] = words[from + 3]!;
      }
    },
    write(at, row, shadow) {
      for (let begin = 0; begin < rowBytes; begin += part) {
        bytes.set(row.subarray(begin, begin + part), offsetOf(at + begin) + shadow);
      }
    },
    read(at, row, shadow) {
      for (let begin = 0; begin < rowBytes; begin += part) {
        const offset = offsetOf(at + begin) + shadow;
        row.set(bytes.subarray(offset, offset + part), begin);
      }
    },
  };
}
