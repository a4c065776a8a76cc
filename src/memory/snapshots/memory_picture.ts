/**
 * Draws a snapshot of memory as an SVG.
 *
 * @module
 */
import { escapeMarkup, formatBytes } from "../../support/printing.ts";
import type { AllocationSnapshot, MemorySnapshot, PoolSnapshot } from "./memory_snapshot.ts";

/** The sizes of a picture in pixels. */
const sizes = { width: 1000, margin: 12, title: 22, row: 26, gap: 4, legend: 24 } as const;
/** The number of allocations that have a row of their own in each pool: the largest. The others share one. */
const mostRows = 40;
/** The minimum width of a shape in pixels. */
const leastWidth = 0.5;

const style = `text{font:12px sans-serif;fill:#1f2328}.t{font-weight:600}.m{fill:#57606a}svg{background:#fff}
.u{fill:#4e79a7}.s{fill:#d8dee4}.h{fill:#e15759}.o{fill:#b07aa1}.r{fill:none;stroke:#8c959f}.e{fill:none;stroke:#e15759;stroke-width:2}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.m{fill:#9da7b3}svg{background:#0d1117}.s{fill:#373e47}}`;

/** Draws a snapshot. */
export function drawMemory({ pools, time }: MemorySnapshot): string {
  const parts: string[] = [];
  let top = sizes.margin + sizes.title;
  const legend = [["u", "used"], ["s", "free in a slab"], ["h", "freed, still in use"], [
    "e",
    "held by other processes",
  ]];
  parts.push(`<text class="t" x="${sizes.margin}" y="${top - 8}">Memory at ${new Date(time).toISOString()}</text>`);
  for (const [index, [kind, text]] of legend.entries()) {
    const left = sizes.margin + index * 170;
    parts.push(
      `<rect class="${kind}" x="${left}" y="${top}" width="12" height="12"/>` +
        `<text class="m" x="${left + 18}" y="${top + 11}">${text}</text>`,
    );
  }
  top += sizes.legend;
  for (const pool of pools) top = drawPool(parts, pool, top);
  const height = top + sizes.margin;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${sizes.width} ${height}" width="${sizes.width}" ` +
    `height="${height}"><style>${style}</style>\n${parts.join("\n")}\n</svg>\n`;
}

/** Draws a pool below `top`. Returns where it ends. */
function drawPool(parts: string[], pool: PoolSnapshot, top: number): number {
  const { name, reserved, used, allocations } = pool;
  const sorted = allocations.toSorted((a, b) => b.byteLength - a.byteLength);
  const shown = sorted.slice(0, mostRows);
  const rest = sorted.slice(mostRows);
  const free = freeOf(allocations);
  const fragmented = free.total === 0
    ? ""
    : `; ${formatBytes(free.total)} free in slabs, ${
      Math.round(100 * (1 - free.largest / free.total))
    } % of it not in the largest piece`;
  parts.push(
    `<text class="t" x="${sizes.margin}" y="${top + 16}">${escapeMarkup(name)}: ${formatBytes(used)} used of ${
      formatBytes(reserved)
    } reserved${fragmented}</text>`,
  );
  top += sizes.title;
  const most = Math.max(1, ...shown.map(({ byteLength }) => byteLength));
  for (const allocation of shown.toSorted((a, b) => a.address < b.address ? -1 : 1)) {
    parts.push(drawAllocation(allocation, top, most));
    top += sizes.row + sizes.gap;
  }
  if (rest.length > 0) {
    const byteLength = rest.reduce((sum, { byteLength }) => sum + byteLength, 0);
    parts.push(
      `<text class="m" x="${sizes.margin}" y="${top + 16}">${rest.length} smaller allocations, ${
        formatBytes(byteLength)
      }</text>`,
    );
    top += sizes.row;
  }
  return top + sizes.margin;
}

/** Draws an allocation as a bar, whose length is in proportion to the largest of its pool, `most` bytes. */
function drawAllocation(allocation: AllocationSnapshot, top: number, most: number): string {
  const { byteLength, state, blocks, holders } = allocation;
  const scale = (sizes.width - 2 * sizes.margin) / most;
  const height = sizes.row - 6;
  const box = (kind: string, byteOffset: number, byteLength: number, title: string): string =>
    `<rect class="${kind}" x="${round(sizes.margin + byteOffset * scale)}" y="${top}" width="${
      round(Math.max(byteLength * scale, leastWidth))
    }" height="${height}"><title>${escapeMarkup(title)}</title></rect>`;
  const parts: string[] = [];
  if (blocks === undefined) {
    parts.push(box(state === "held" ? "h" : "u", 0, byteLength, titleOf(allocation)));
  } else {
    parts.push(box("s", 0, byteLength, titleOf(allocation)));
    let last = -Infinity;
    for (const block of blocks) {
      if (block.state === "free") continue;
      const end = (block.byteOffset + block.byteLength) * scale;
      // A block that would be on top of the one before it is part of that.
      if (end - last < leastWidth) continue;
      parts.push(box("u", block.byteOffset, block.byteLength, `${formatBytes(block.byteLength)} used`));
      last = end;
    }
  }
  for (const { byteOffset, byteLength, pid, offer } of holders) {
    const title = `"${offer}", ${formatBytes(byteLength)}, held by process ${pid}`;
    parts.push(box("e", byteOffset, byteLength, title));
  }
  return parts.join("");
}

function titleOf({ address, byteLength, state, stack, holders }: AllocationSnapshot): string {
  const what = { buffer: "buffer", slab: "slab", held: "freed buffer whose memory is still in use" }[state];
  const by = holders.map(({ offer, pid }) => `\n"${offer}", held by process ${pid}`).join("");
  return `${what} of ${formatBytes(byteLength)} at 0x${address.toString(16)}${by}${
    stack === undefined ? "" : `\n${stack}`
  }`;
}

/** Returns the free bytes of all slabs, and those of the largest free piece. */
function freeOf(allocations: readonly AllocationSnapshot[]): { total: number; largest: number } {
  let total = 0, largest = 0;
  for (const { blocks = [] } of allocations) {
    let piece = 0;
    for (const { state, byteLength } of blocks) {
      piece = state === "free" ? piece + byteLength : 0;
      if (state === "free") total += byteLength;
      largest = Math.max(largest, piece);
    }
  }
  return { total, largest };
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
