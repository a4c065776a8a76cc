/**
 * Operations of the threads of a warp: shuffles, votes, matches, reductions. PTX ISA, sections 9.7.9.6 and 9.7.13.
 *
 * @module
 */
import { loadMatrices, storeMatrices, transposeMatrix } from "./warp_matrices.ts";
import { shuffle } from "./warp_shuffles.ts";
import { answerShadows } from "./warp_shadows.ts";
import { type SuspensionRequest, threadRecord } from "../../abi/launch_record.ts";
import { forEachLane, type WarpRecords } from "./warp_records.ts";

/** Computes the results of an operation for a group of lanes. `group` has a bit for each participating lane. */
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
