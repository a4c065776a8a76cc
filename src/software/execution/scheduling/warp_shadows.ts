/**
 * Propagates uninitialized bits through the operations of a warp. The shadow of a value lies in the shadow of its
 * record.
 *
 * @module
 */
import { shadowOffset } from "../../abi/addresses.ts";
import { type SuspensionRequest, threadRecord } from "../../abi/launch_record.ts";
import { loadMatrices, storeMatrices, transposeMatrix } from "./warp_matrices.ts";
import { forEachLane, type WarpRecords } from "./warp_records.ts";
import { shuffle } from "./warp_shuffles.ts";

/** Computes the shadows of the results of an operation for a group of lanes. */
export function answerShadows(
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
      return vote(records, shadows, { group, mode: request.mode });
    case "match":
    case "reduction":
      return reduce(shadows, group);
    case "matrixLoad":
      return loadMatrices(records, group, { ...request, fragments: shadows, distance: shadowOffset });
    case "matrixStore":
      return storeMatrices(records, group, { ...request, fragments: shadows, distance: shadowOffset });
    case "matrixTranspose":
      return transposeMatrix(shadows, group);
    default:
      return;
  }
}

/** A single initialized predicate may decide the result for all. */
function vote(
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

/** Every result is uninitialized if any value is. */
function reduce(shadows: WarpRecords, group: number): void {
  let unknown = 0;
  forEachLane(group, (lane) => {
    unknown |= shadows.get(lane, threadRecord.value) | shadows.get(lane, threadRecord.value + 4);
  });
  forEachLane(group, (lane) => {
    shadows.set(lane, threadRecord.result, unknown === 0 ? 0 : -1);
    shadows.set(lane, threadRecord.predicate, unknown === 0 ? 0 : 1);
  });
}
