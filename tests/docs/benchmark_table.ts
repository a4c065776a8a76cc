/**
 * The benchmark table of `docs/performance.md`, computed from the results in `bench/results/`.
 *
 * @module
 */
import type { MeasuredRow, Report } from "../../bench/cuda/report.ts";
import { filesBelow, readProjectFile } from "./scripts.ts";

/** The rows of the table, each with the rows of the results that it summarizes. */
const rows: readonly (readonly [name: string, measured: RegExp])[] = [
  ["allocate and free, one stream", /^allocate \+ free, \d+ [KMG]?i?B$/],
  ["the same with a caching allocator", /^sub-allocator, \d+ [KMG]?i?B$/],
  ["launch with three arguments", /^launch, 3 arguments$/],
  ["event record, stream wait", /^(event record|stream wait)$/],
  ["a new buffer offered, mapped, freed and acknowledged", /^offer a new buffer, /],
  ["a frame of 64 MiB through a channel", /^a channel's frame, 64 MiB$/],
  [
    "a GiB copied: pinned, on the device, to a peer",
    /^(copy 1 GiB to (device|host), pinned|copy on device, 1 GiB|peer copy, 1 GiB)$/,
  ],
  ["process start to first allocation", /^process start to first allocation$/],
];
const contenders = ["poolpass", "cuda.core", "CuPy", "PyTorch"] as const;

/** Returns the table's cells: a header, then for each row the lowest and the highest ratio to C++ of all results. */
export function benchmarkTable(): string[][] {
  const reports = filesBelow("bench/results/", ".json").map((file) => JSON.parse(readProjectFile(file)) as Report);
  const measured = reports.flatMap((report) => report.rows);
  return [
    ["", ...contenders],
    ...rows.map(([name, pattern]) => {
      const summarized = measured.filter((row) => pattern.test(row.name));
      return [name, ...contenders.map((contender) => formatRange(timesOf(summarized, contender)))];
    }),
  ];
}

/** Returns a contender's times divided by those of C++; bandwidths are divided the other way round. */
function timesOf(measured: readonly MeasuredRow[], contender: (typeof contenders)[number]): number[] {
  return measured.flatMap((row) => {
    const ratio = row.contenders[contender]?.ofNative;
    if (ratio === undefined) return [];
    return row.unit === "nanoseconds" ? ratio : 1 / ratio;
  });
}

function formatRange(values: readonly number[]): string {
  if (values.length === 0) return "";
  const [low, high] = [Math.min(...values), Math.max(...values)].map((value) => value.toFixed(value < 10 ? 2 : 1));
  return low === high ? low! : `${low} to ${high}`;
}

/** Returns the cells of a page's table whose header has this column. */
export function cellsOfTable(page: string, column: string): string[][] {
  const tables = page.match(/(?:^\|.*\n)+/gm) ?? [];
  const lines = tables.map((table) => table.trimEnd().split("\n")).find(([head]) => head!.includes(`| ${column} `));
  return (lines ?? []).filter((_, index) => index !== 1).map((line) =>
    line.split("|").slice(1, -1).map((cell) => cell.trim())
  );
}
