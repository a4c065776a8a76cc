import { formatJson } from "../status/json.ts";
import { lagOf } from "../status/rows.ts";
import { printable } from "../status/table.ts";
import { formatBytes, formatCount, formatRate } from "../status/units.ts";
import type { Sample } from "./sampler.ts";
import { sortedRows } from "./view.ts";

/** Formats a sample for a file or a pipe: one line per row, each with the time and the name. */
export function linesOf(sample: Sample): string[] {
  const { channels, time } = sample;
  const rows = sortedRows(sample, { sort: "name", isReversed: false });
  return rows.map(({ name, kind, generation, byteLength, state, channel, holders }) => {
    const rates = channels.get(name);
    return [
      new Date(time).toISOString(),
      kind,
      JSON.stringify(printable(name)),
      ...generation === undefined ? [] : [`generation ${generation}`],
      ...kind === "pool" ? [] : [formatBytes(byteLength)],
      ...state === "" ? [] : [state],
      ...channel === undefined || rates === undefined ? [] : [
        `${formatRate(rates.framesPerSecond)} frames/s`,
        `${formatBytes(rates.bytesPerSecond)}/s`,
        `${formatRate(rates.droppedPerSecond)} dropped/s`,
      ],
      ...channel === undefined ? [] : [`lag ${formatCount(lagOf(channel))}`],
      holders.length === 0
        ? "held by nobody"
        : `held by ${holders.map(({ pid, state }) => `${pid} (${state})`).join(" ")}`,
    ].join("  ");
  });
}

/** Formats a sample as a JSON object in one line. */
export function jsonOf({ status, channels, time }: Sample): string {
  return formatJson({ time, status, rates: Object.fromEntries(channels) });
}
