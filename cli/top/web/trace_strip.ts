import { stat } from "node:fs/promises";
import { escapeMarkup } from "../../../src/support/printing.ts";
import { joinTraces } from "../../../src/trace/joined_trace.ts";
import type { TrackItem } from "../../../src/trace/perfetto.ts";
import type { Trace } from "../../../src/trace/read_trace.ts";
import { drawTrace } from "../../../src/trace/trace_picture.ts";
import { readingError } from "../../command_line.ts";
import { formatBytes } from "../../status/units.ts";
import { readTraceFile } from "../../trace_files.ts";

/** The maximum size of a trace file in bytes: reading it must not hold up the page. */
const maximumByteLength: number = 64 * 2 ** 20;
/** The maximum number of events of all files: the newest ones of each. */
const maximumEvents = 16_384;
/** The time before the last event that a strip shows, in nanoseconds. */
const shownTime = 5e9;

/** Draws the last seconds of traces as an SVG, or why it cannot. */
export async function drawStrip(files: readonly string[]): Promise<string> {
  return await pictureOf(files).catch((error) => drawText((error as Error).message));
}

async function pictureOf(files: readonly string[]): Promise<string> {
  const traces: Trace[] = [];
  for (const file of files) {
    const { size } = await stat(file).catch((error) => {
      throw readingError(file, error);
    });
    if (size > maximumByteLength) {
      throw new Error(
        `Cannot show ${file}: it has ${formatBytes(size)}, and the page reads at most ` +
          `${formatBytes(maximumByteLength)}; poolpass trace reads larger files`,
      );
    }
    const most = Math.floor(maximumEvents / files.length);
    traces.push(await readTraceFile(file, { most }));
  }
  const items = lastOf(joinTraces(traces).items);
  return items.length === 0 ? drawText("Nothing is recorded yet") : drawTrace(items);
}

/** Returns the items of the last seconds, without what of them was before. */
function lastOf(items: readonly TrackItem[]): TrackItem[] {
  const endOf = ({ begin, duration = 0 }: TrackItem) => begin + duration;
  const first = items.reduce((last, item) => Math.max(last, endOf(item)), 0) - shownTime;
  return items.filter((item) => endOf(item) >= first).map((item) =>
    item.begin >= first ? item : { ...item, begin: first, duration: endOf(item) - first }
  );
}

function drawText(text: string): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1600 30" width="1600" height="30"><style>text{font:14px ` +
    `sans-serif;fill:#57606a}@media(prefers-color-scheme:dark){text{fill:#9da7b3}}</style><text x="0" y="20">` +
    `${escapeMarkup(text)}</text></svg>\n`;
}
