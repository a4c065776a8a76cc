/**
 * The thread records of a warp, and the warp-level operations: shuffles, votes, matches, reductions and matrix
 * operations. PTX ISA, sections 9.7.9.6, 9.7.13, 9.7.14.5.16 and 9.7.14.5.17.
 *
 * A matrix has 8 rows of 8 elements of 16 bits. Lane 4 r + c holds the elements 2 c and 2 c + 1 of row r, or, if the
 * matrix is transposed, of column r.
 *
 * If uninitialized values are tracked, each operation also computes the shadows of its results from the shadows of the
 * operands, which are located in the shadows of the thread records.
 *
 * @module
 */
import { type SuspensionRequest, threadRecord, threadRecordByteLength } from "../../abi/launch_record.ts";
import { shadowOffset } from "../../abi/addresses.ts";

const words = threadRecordByteLength / 4;

/** The thread records of a warp, as an array of 32-bit numbers. */
export class WarpRecords {
  /**
   * The thread records of the shadow values, in which a bit is 1 if the corresponding bit of the value is
   * uninitialized. Undefined if the kernel does not track uninitialized values.
   */
  readonly shadows: WarpRecords | undefined;
  readonly #records: Int32Array;

  constructor(records: Int32Array, shadows?: WarpRecords) {
    this.#records = records;
    this.shadows = shadows;
  }

  get(lane: number, field: number): number {
    return this.#records[lane * words + field / 4]!;
  }

  set(lane: number, field: number, value: number): void {
    this.#records[lane * words + field / 4] = value;
  }

  /** All of linear memory, as an array of 16-bit numbers. */
  get memory(): Uint16Array {
    return new Uint16Array(this.#records.buffer);
  }
}

/** Calls a function for each lane of the mask `group`, in ascending order. */
export function forEachLane(group: number, action: (lane: number) => void): void {
  for (let rest = group; rest !== 0; rest &= rest - 1) action(31 - Math.clz32(rest & -rest));
}

type ShuffleMode = "up" | "down" | "bfly" | "idx";

/**
 * Shuffles the numbers in `values` among lanes. The operands that select the source lanes are read from `records`,
 * which differs from `values` when shadows are shuffled. A lane receives its own value if the source is outside of the
 * lane's segment, and `absent` if the source does not participate.
 */
function shuffle(
  values: WarpRecords,
  records: WarpRecords,
  { group, mode, absent = 0 }: { readonly group: number; readonly mode: ShuffleMode; readonly absent?: number },
): void {
  forEachLane(group, (lane) => {
    const { source, isInRange } = sourceOf(records, lane, mode);
    const value = (group >>> source & 1) === 1 ? values.get(source, threadRecord.value) : absent;
    values.set(lane, threadRecord.result, value);
    values.set(lane, threadRecord.predicate, isInRange ? 1 : 0);
  });
}

/** Returns the first lane whose shuffle reads from a lane that does not participate, or undefined if there is none. */
export function readerOfAbsentLane(
  records: WarpRecords,
  { group, mode }: { readonly group: number; readonly mode: ShuffleMode },
): number | undefined {
  if (group === -1) return undefined;
  let reader: number | undefined;
  forEachLane(group, (lane) => {
    if ((group >>> sourceOf(records, lane, mode).source & 1) === 0) reader ??= lane;
  });
  return reader;
}

function sourceOf(records: WarpRecords, lane: number, mode: ShuffleMode): { source: number; isInRange: boolean } {
  const b = records.get(lane, threadRecord.first) & 0x1f;
  const c = records.get(lane, threadRecord.second);
  const clamp = c & 0x1f;
  const segments = c >> 8 & 0x1f;
  const maximum = (lane & segments) | (clamp & ~segments);
  const minimum = lane & segments;
  let source: number;
  switch (mode) {
    case "up":
      source = lane - b;
      return source >= maximum ? { source, isInRange: true } : { source: lane, isInRange: false };
    case "down":
      source = lane + b;
      break;
    case "bfly":
      source = lane ^ b;
      break;
    case "idx":
      source = minimum | (b & ~segments);
      break;
  }
  return source <= maximum ? { source, isInRange: true } : { source: lane, isInRange: false };
}

interface Matrices {
  readonly matrices: number;
  readonly transposed: boolean;
}

interface MovedMatrices {
  readonly fragments?: WarpRecords;
  readonly distance?: number;
}

/** Implements `stmatrix`: stores every lane's fragments to the rows whose addresses the lanes provide. */
function storeMatrices(
  records: WarpRecords,
  group: number,
  { matrices, transposed, fragments = records, distance = 0 }: Matrices & MovedMatrices,
): void {
  const { memory } = records;
  forEachLane(group, (lane) => {
    for (let matrix = 0; matrix < matrices; matrix++) {
      const word = fragments.get(lane, threadRecord.result + 4 * matrix);
      const [low, high] = elementsOf(records, { lane, matrix, group, transposed });
      if (low !== 0) memory[low + distance / 2] = word;
      if (high !== 0) memory[high + distance / 2] = word >>> 16;
    }
  });
}

/** Implements `movmatrix`: transposes a matrix. */
function transposeMatrix(records: WarpRecords, group: number): void {
  const element = (row: number, column: number) => {
    const lane = row * 4 + (column >> 1);
    const word = (group >>> lane & 1) === 1 ? records.get(lane, threadRecord.value) : 0;
    return word >>> 16 * (column & 1) & 0xffff;
  };
  forEachLane(group, (lane) => {
    const [row, column] = [lane >> 2, 2 * (lane & 3)];
    records.set(lane, threadRecord.result, element(column, row) | element(column + 1, row) << 16);
  });
}

/**
 * Returns the offsets, in 16-bit elements, of the two matrix elements that a lane holds. An offset is 0 if no lane
 * provides the address of the row.
 */
function elementsOf(
  records: WarpRecords,
  { lane, matrix, group, transposed }: {
    readonly lane: number;
    readonly matrix: number;
    readonly group: number;
    readonly transposed: boolean;
  },
): [low: number, high: number] {
  const [major, minor] = [lane >> 2, 2 * (lane & 3)];
  const place = (row: number, column: number) => {
    const named = matrix * 8 + row;
    const begin = (group >>> named & 1) === 1 ? records.get(named, threadRecord.value) >>> 1 : 0;
    return begin === 0 ? 0 : begin + column;
  };
  return transposed ? [place(minor, major), place(minor + 1, major)] : [place(major, minor), place(major, minor + 1)];
}

/** Computes which bits of an operation's results are uninitialized, for a group of lanes. */
function answerShadows(
  records: WarpRecords,
  shadows: WarpRecords,
  { group, request }: { readonly group: number; readonly request: SuspensionRequest },
): void {
  switch (request.kind) {
    case "shuffle":
      shuffle(shadows, records, { group, mode: request.mode, absent: -1 });
      return forEachLane(group, (lane) => {
        const isDecided = shadows.get(lane, threadRecord.first) === 0;
        shadows.set(lane, threadRecord.predicate, isDecided ? 0 : 1);
        if (!isDecided) shadows.set(lane, threadRecord.result, -1);
      });
    case "vote":
      return voteShadows(records, shadows, { group, mode: request.mode });
    case "match":
    case "reduction":
      return reduceShadows(shadows, group);
    case "matrixStore":
      return storeMatrices(records, group, { ...request, fragments: shadows, distance: shadowOffset });
    case "matrixTranspose":
      return transposeMatrix(shadows, group);
    default:
      return;
  }
}

/**
 * Computes which bits of a vote's results are uninitialized. A single initialized predicate may determine the result.
 */
function voteShadows(
  records: WarpRecords,
  shadows: WarpRecords,
  { group, mode }: { readonly group: number; readonly mode: "all" | "any" | "uni" | "ballot" },
): void {
  let unknown = 0, held = 0, failed = 0;
  forEachLane(group, (lane) => {
    if (shadows.get(lane, threadRecord.value) !== 0) unknown |= 1 << lane;
    else if (records.get(lane, threadRecord.value) !== 0) held |= 1 << lane;
    else failed |= 1 << lane;
  });
  const isUnknown = unknown !== 0;
  const results = {
    all: isUnknown && failed === 0 ? 1 : 0,
    any: isUnknown && held === 0 ? 1 : 0,
    uni: isUnknown && (held === 0 || failed === 0) ? 1 : 0,
    ballot: unknown,
  };
  forEachLane(group, (lane) => shadows.set(lane, threadRecord.result, results[mode]));
}

/**
 * Computes which bits of the results of a reduction or match are uninitialized: all bits, if any operand is
 * uninitialized.
 */
function reduceShadows(shadows: WarpRecords, group: number): void {
  let unknown = 0;
  forEachLane(group, (lane) => {
    unknown |= shadows.get(lane, threadRecord.value) | shadows.get(lane, threadRecord.value + 4);
  });
  forEachLane(group, (lane) => {
    shadows.set(lane, threadRecord.result, unknown === 0 ? 0 : -1);
    shadows.set(lane, threadRecord.predicate, unknown === 0 ? 0 : 1);
  });
}

/** Computes the results of an operation for the participating lanes, whose mask is `group`. */
export function answerGroup(records: WarpRecords, group: number, request: SuspensionRequest): void {
  if (records.shadows !== undefined) answerShadows(records, records.shadows, { group, request });
  switch (request.kind) {
    case "shuffle":
      return shuffle(records, records, { group, mode: request.mode });
    case "vote":
      return vote(records, group, request.mode);
    case "match":
      return match(records, group, request.mode);
    case "reduction":
      return reduce(records, group, request);
    case "matrixStore":
      return storeMatrices(records, group, request);
    case "matrixTranspose":
      return transposeMatrix(records, group);
    case "activeMask":
      return forEachLane(group, (lane) => records.set(lane, threadRecord.result, group));
    default:
      return;
  }
}

function vote(records: WarpRecords, group: number, mode: "all" | "any" | "uni" | "ballot"): void {
  let ballot = 0;
  forEachLane(group, (lane) => {
    if (records.get(lane, threadRecord.value) !== 0) ballot |= 1 << lane;
  });
  const results = {
    all: Number(ballot === group),
    any: Number(ballot !== 0),
    uni: Number(ballot === group || ballot === 0),
    ballot,
  };
  forEachLane(group, (lane) => records.set(lane, threadRecord.result, results[mode]));
}

function match(records: WarpRecords, group: number, mode: "any" | "all"): void {
  const masks = new Map<string, number>();
  const keyOf = (lane: number) =>
    `${records.get(lane, threadRecord.value)} ${records.get(lane, threadRecord.value + 4)}`;
  forEachLane(group, (lane) => masks.set(keyOf(lane), (masks.get(keyOf(lane)) ?? 0) | 1 << lane));
  const areEqual = masks.size === 1;
  forEachLane(group, (lane) => {
    records.set(lane, threadRecord.result, mode === "any" ? masks.get(keyOf(lane))! : areEqual ? group : 0);
    records.set(lane, threadRecord.predicate, Number(areEqual));
  });
}

type Reduction = SuspensionRequest & { readonly kind: "reduction" };

function reduce(records: WarpRecords, group: number, { operation, signed }: Reduction): void {
  let result: number | undefined;
  forEachLane(group, (lane) => {
    const value = records.get(lane, threadRecord.value);
    result = result === undefined ? value : combine(result, value, { operation, signed });
  });
  forEachLane(group, (lane) => records.set(lane, threadRecord.result, result!));
}

function combine(a: number, b: number, { operation, signed }: Pick<Reduction, "operation" | "signed">): number {
  switch (operation) {
    case "add":
      return a + b | 0;
    case "and":
      return a & b;
    case "or":
      return a | b;
    case "xor":
      return a ^ b;
    case "min":
    case "max": {
      const isLess = signed ? a < b : a >>> 0 < b >>> 0;
      return isLess === (operation === "min") ? a : b;
    }
  }
}
