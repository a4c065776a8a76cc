/**
 * Operations of the threads of a warp: shuffles, votes, matches, reductions. PTX ISA, sections 9.7.9.6 and 9.7.13.
 *
 * @module
 */
import { loadMatrices, storeMatrices, transposeMatrix } from "./warp_matrices.ts";
import { type SuspensionRequest, threadRecord } from "../../compiler/launch_record.ts";
import { forEachLane, type WarpRecords } from "./warp_records.ts";

/** Computes the results of an operation for a group of lanes. `group` has a bit for each lane that takes part. */
export function answerGroup(records: WarpRecords, group: number, request: SuspensionRequest): void {
  switch (request.kind) {
    case "shuffle":
      return shuffle(records, group, request.mode);
    case "vote":
      return vote(records, group, request.mode);
    case "match":
      return match(records, group, request.mode);
    case "reduction":
      return reduce(records, group, request);
    case "matrixLoad":
      return loadMatrices(records, group, request);
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

/** A lane reads its own value if its source is outside of its segment, and 0 if its source does not take part. */
function shuffle(records: WarpRecords, group: number, mode: "up" | "down" | "bfly" | "idx"): void {
  for (let rest = group; rest !== 0; rest &= rest - 1) {
    const lane = 31 - Math.clz32(rest & -rest);
    const b = records.get(lane, threadRecord.first) & 0x1f;
    const c = records.get(lane, threadRecord.second);
    const clamp = c & 0x1f;
    const segments = c >> 8 & 0x1f;
    const maximum = (lane & segments) | (clamp & ~segments);
    const minimum = lane & segments;
    let source: number;
    let isInRange: boolean;
    switch (mode) {
      case "up":
        source = lane - b;
        isInRange = source >= maximum;
        break;
      case "down":
        source = lane + b;
        isInRange = source <= maximum;
        break;
      case "bfly":
        source = lane ^ b;
        isInRange = source <= maximum;
        break;
      case "idx":
        source = minimum | (b & ~segments);
        isInRange = source <= maximum;
        break;
    }
    if (!isInRange) source = lane;
    const value = (group >>> source & 1) === 1 ? records.get(source, threadRecord.value) : 0;
    records.set(lane, threadRecord.result, value);
    records.set(lane, threadRecord.predicate, isInRange ? 1 : 0);
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
