/**
 * `shfl.sync`. PTX ISA, section 9.7.9.6.
 *
 * @module
 */
import { threadRecord } from "../../abi/launch_record.ts";
import { forEachLane, type WarpRecords } from "./warp_records.ts";

type ShuffleMode = "up" | "down" | "bfly" | "idx";

/**
 * Shuffles the values of records. The source lanes come from other records, usually the same ones. A lane reads its own
 * value if its source is outside its segment, and `absent` if its source does not participate.
 */
export function shuffle(
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

/** The first lane whose source does not participate. Undefined if there is none. */
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
