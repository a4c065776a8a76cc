/**
 * `shfl.sync`. PTX ISA, section 9.7.9.6.
 *
 * @module
 */
import { threadRecord } from "../../compiler/launch_record.ts";
import type { WarpRecords } from "./warp_records.ts";

/**
 * Shuffles the values of some records, as others, usually the same ones, say from where. A lane reads its own value if its
 * source is outside of its segment, and 0 if its source does not take part.
 */
export function shuffle(
  values: WarpRecords,
  records: WarpRecords,
  { group, mode }: { readonly group: number; readonly mode: "up" | "down" | "bfly" | "idx" },
): void {
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
    const value = (group >>> source & 1) === 1 ? values.get(source, threadRecord.value) : 0;
    values.set(lane, threadRecord.result, value);
    values.set(lane, threadRecord.predicate, isInRange ? 1 : 0);
  }
}
