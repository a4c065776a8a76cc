/**
 * Draws a trace as an SVG, which browsers and documents show without anything else.
 *
 * @module
 */
import { escapeMarkup } from "../support/printing.ts";
import type { Track, TrackItem } from "./perfetto.ts";

/** The sizes of a picture in pixels. */
const sizes = { width: 1600, left: 330, right: 10, top: 34, row: 18, gap: 10, counter: 36 } as const;
/** The width in pixels below which adjacent shapes are drawn as one. */
const leastWidth = 0.5;
/** The least width in pixels of a character of a name within a shape. */
const characterWidth = 6.5;
/** The number of rows that are drawn at most. */
const mostRows = 500;
/** The number of flows that are drawn at most: the longest. */
const mostFlows = 400;
const colors = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#9c755f", "#edc948"] as const;
/** The categories in the order of their colors. Copies, fills and graphs have the last one. */
const categories = ["call", "kernel", "message", "frame", "error", "lease", "range", "wait"] as const;
/** The categories that look like another one. */
const similar: ReadonlyMap<string, string> = new Map([["entry", "lease"]]);
/** The categories whose names are drawn beside a shape that has no room for them. */
const labeled: ReadonlySet<string> = new Set(["error", "end", "entry"]);

const style = `text{font:12px sans-serif;fill:#1f2328}.t{font-weight:600}.m{fill:#57606a}.r{stroke:#d0d7de}
.e,.n{font-size:11px}.e{fill:#cf222e}.f{fill:none;stroke:#57606a;stroke-opacity:.35}.i{font-size:11px;fill:#fff}svg{background:#fff}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.m{fill:#9da7b3}.r{stroke:#373e47}.e{fill:#ff7b72}.f{stroke:#9da7b3}svg{background:#0d1117}}`;

/** A row of a picture. */
interface Row {
  readonly track: Track;
  readonly items: TrackItem[];
  /** The distance of its upper edge from that of the picture. */
  top: number;
}

/** Draws a trace. */
export function drawTrace(items: readonly TrackItem[]): string {
  const rows = rowsOf(items);
  const first = items.reduce((least, { begin }) => Math.min(least, begin), Infinity);
  const last = items.reduce((end, { begin, duration = 0 }) => Math.max(end, begin + duration), first);
  const scale = (sizes.width - sizes.left - sizes.right) / (last - first || 1);
  const x = (time: number): number => sizes.left + (time - first) * scale;
  const parts: string[] = [];
  let height: number = sizes.top;
  let process: Track | undefined;
  for (const row of rows.slice(0, mostRows)) {
    const above = row.track.parent ?? row.track;
    if (above !== process) {
      height += sizes.gap;
      const { process: named, name } = process = above;
      const title = named === undefined ? name : `${named.name}, process ${named.pid}`;
      parts.push(`<text class="t" x="4" y="${height + 13}">${escapeMarkup(title)}</text>`);
      height += sizes.row;
    }
    row.top = height;
    height += row.track.isCounter ? sizes.counter : sizes.row;
    parts.push(row.track.isCounter ? counter(row, x) : slices(row, x));
  }
  if (rows.length > mostRows) {
    parts.push(label(`${rows.length - mostRows} more rows are not drawn`, height));
    height += sizes.row;
  }
  height += sizes.gap;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${sizes.width} ${height}" width="${sizes.width}" ` +
    `height="${height}"><style>${style}</style>\n${axis(last - first, scale, height)}\n${
      flowsOf(rows.slice(0, mostRows), x)
    }\n${parts.join("\n")}\n</svg>\n`;
}

/** Returns the rows in the order in which their processes began. */
function rowsOf(items: readonly TrackItem[]): Row[] {
  const rows = new Map<Track, Row>();
  const processes = new Map<Track, number>();
  for (const item of items) {
    const { track } = item;
    const above = track.parent ?? track;
    processes.set(above, Math.min(processes.get(above) ?? Infinity, item.begin));
    const row = rows.get(track);
    if (row === undefined) rows.set(track, { track, items: [item], top: 0 });
    else row.items.push(item);
  }
  const begin = ({ track }: Row): number => processes.get(track.parent ?? track)!;
  for (const { items } of rows.values()) items.sort((a, b) => a.begin - b.begin);
  return [...rows.values()].sort((a, b) => begin(a) - begin(b));
}

function slices({ track, items, top }: Row, x: (time: number) => number): string {
  const parts = [label(track.name, top)];
  for (let index = 0; index < items.length; index++) {
    const { begin, duration = 0, name = "", category = "" } = items[index]!;
    const left = x(begin);
    let right = x(begin + duration);
    let joined = 1;
    // What would be one on top of another becomes one shape.
    while (right - left < leastWidth && index + 1 < items.length) {
      const next = items[index + 1]!;
      if (next.category !== category || x(next.begin) - right >= leastWidth) break;
      right = Math.max(right, x(next.begin + (next.duration ?? 0)));
      joined++;
      index++;
    }
    const width = Math.max(right - left, labeled.has(category) ? 2 : leastWidth);
    const title = joined > 1 ? `${joined} events, the first of them ${name}` : `${name}, ${formatTime(duration)}`;
    const fits = name.length * characterWidth < width && joined === 1;
    parts.push(
      `<rect x="${round(left)}" y="${top + 1}" width="${round(width)}" height="${sizes.row - 3}" fill="${
        colorOf(category)
      }"><title>${escapeMarkup(title)}</title></rect>` +
        (fits ? `<text class="i" x="${round(left + 3)}" y="${top + 12}">${escapeMarkup(name)}</text>` : "") +
        (labeled.has(category) && !fits && joined === 1
          ? besides(name, { category, left, right: left + width, top })
          : ""),
    );
  }
  return parts.join("\n");
}

/** Draws the name of a shape at the side where there is more room. */
function besides(
  name: string,
  { category, left, right, top }: {
    readonly category: string;
    readonly left: number;
    readonly right: number;
    readonly top: number;
  },
): string {
  const isLeft = left - sizes.left > sizes.width - right;
  const style = category === "error" ? "e" : "n";
  return `<text class="${style}" x="${round(isLeft ? left - 4 : right + 4)}" y="${top + 12}"${
    isLeft ? ' text-anchor="end"' : ""
  }>${escapeMarkup(name)}</text>`;
}

function counter({ track, items, top }: Row, x: (time: number) => number): string {
  const most = items.reduce((most, { value = 0 }) => Math.max(most, value), 1);
  const y = (value: number): number => top + sizes.counter - 2 - value / most * (sizes.counter - 6);
  let path = `M${round(x(items[0]!.begin))} ${round(y(0))}`;
  let drawn = -Infinity;
  for (const [index, { begin, value = 0 }] of items.entries()) {
    const at = x(begin);
    // Of the values at the same place, the last one is drawn.
    const next = items[index + 1];
    if (at - drawn < leastWidth && next !== undefined && x(next.begin) - drawn < leastWidth) continue;
    path += `H${round(at)}V${round(y(value))}`;
    drawn = at;
  }
  const end = sizes.width - sizes.right;
  return `${label(`${track.name}, at most ${most.toLocaleString("en-US")}`, top + sizes.row / 2)}
<path d="${path}H${end}V${round(y(0))}Z" fill="${colors[5]}" fill-opacity="0.6"/>`;
}

/** Draws each flow from one item to the next. */
function flowsOf(rows: readonly Row[], x: (time: number) => number): string {
  const passing = new Map<bigint, { readonly x: number; readonly y: number }[]>();
  for (const { items, top } of rows) {
    for (const { begin, flows = [] } of items) {
      for (const flow of flows) {
        const places = passing.get(flow);
        const place = { x: x(begin), y: top + sizes.row / 2 };
        if (places === undefined) passing.set(flow, [place]);
        else places.push(place);
      }
    }
  }
  const curves: { readonly height: number; readonly path: string }[] = [];
  for (const places of passing.values()) {
    places.sort((a, b) => a.x - b.x);
    for (const [index, to] of places.entries()) {
      const from = places[index - 1];
      if (from === undefined || from.y === to.y) continue;
      const middle = (from.x + to.x) / 2;
      const path = `M${round(from.x)} ${from.y}C${round(middle)} ${from.y} ${round(middle)} ${to.y} ${
        round(to.x)
      } ${to.y}`;
      curves.push({ height: Math.abs(to.y - from.y), path });
    }
  }
  const drawn = curves.sort((a, b) => b.height - a.height).slice(0, mostFlows);
  return drawn.map(({ path }) => `<path class="f" d="${path}"/>`).join("\n");
}

/** Draws the times. `duration` is in nanoseconds, `scale` in pixels per nanosecond. */
function axis(duration: number, scale: number, height: number): string {
  const rough = duration / 10 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough)! * power;
  const parts: string[] = [];
  for (let time = 0; time <= duration; time += step) {
    const at = round(sizes.left + time * scale);
    parts.push(
      `<line class="r" x1="${at}" y1="${sizes.top - 8}" x2="${at}" y2="${height}"/>` +
        `<text class="m" x="${at}" y="${sizes.top - 14}" text-anchor="middle">${formatTime(time)}</text>`,
    );
  }
  return parts.join("\n");
}

function label(name: string, top: number): string {
  const most = Math.floor((sizes.left - 16) / characterWidth);
  const shown = name.length <= most ? name : `${name.slice(0, most - 1)}…`;
  return `<text class="m" x="12" y="${top + 13}">${escapeMarkup(shown)}</text>`;
}

function colorOf(category: string): string {
  const index = categories.findIndex((known) => known === (similar.get(category) ?? category));
  return colors[index < 0 ? colors.length - 1 : index]!;
}

/** Formats a time in nanoseconds. */
function formatTime(time: number): string {
  if (time >= 1e9) return `${shortened(time / 1e9)} s`;
  if (time >= 1e6) return `${shortened(time / 1e6)} ms`;
  return time >= 1e3 ? `${shortened(time / 1e3)} us` : `${Math.round(time)} ns`;
}

function shortened(value: number): number {
  return Math.round(value * 100) / 100;
}

/** Rounds a number of pixels. */
function round(value: number): number {
  return Math.round(value * 10) / 10;
}
