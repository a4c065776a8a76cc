import { commandOf } from "../../status/process_commands.ts";
import { lagOf, type Row, rowsOf } from "../../status/rows.ts";
import { summaryOf } from "../../status/summary.ts";
import { type Column, printable } from "../../status/table.ts";
import type { Sample } from "../sampler.ts";
import { cellsIn, columns } from "../view.ts";
import type { Change } from "./change_log.ts";

/** The maximum number of rows in the table: the largest. */
const maximumRows = 200;
/** The maximum number of holders of a row in the table, and of names in a series. */
const maximumHolders = 50;

/** What the page shows of a listener at one time. Text from other processes has no control characters. */
export interface PageState {
  /** The time in milliseconds since 1970. */
  readonly time: number;
  /** The lines that describe the listener. */
  readonly summary: readonly string[];
  /** The columns of the table that are not empty. */
  readonly columns: readonly Column[];
  /** The lines of the table: one for each offer, channel or entry, and for each of its holders. */
  readonly lines: readonly (readonly string[])[];
  /** The number of rows that are not in the table. */
  readonly omitted: number;
  /** The current values of the charts, by names. */
  readonly series: Readonly<Record<SeriesName, Series>>;
  /** The latest changes, the newest first. */
  readonly log: readonly Change[];
}

/**
 * The charts: the memory of offers and entries, that of pools or devices, and that which each process holds; of channels
 * the frames and the dropped frames per second, and the largest lag.
 */
export type SeriesName = "rows" | "sources" | "processes" | "frames" | "dropped" | "lag";

/** Values by name. */
export type Series = readonly (readonly [name: string, value: number])[];

/** Converts a sample of the listener at a path to what the page shows. */
export function pageStateOf(sample: Sample, path: string, log: readonly Change[]): PageState {
  const { status, time } = sample;
  const rows = [...rowsOf(status)].sort((a, b) => b.byteLength - a.byteLength);
  const lines = rows.slice(0, maximumRows).flatMap((row) => linesOf(row, sample));
  const shown = columns.map((_, index) => index).filter((index) => lines.some((line) => line[index] !== ""));
  return {
    time,
    summary: summaryOf({ ...sample, path, now: time }).map(printable),
    columns: shown.map((index) => columns[index]!),
    lines: lines.map((line) => shown.map((index) => line[index]!)),
    omitted: Math.max(0, rows.length - maximumRows) + status.leftOut.rows,
    series: seriesOf(rows, sample),
    log,
  };
}

function linesOf(row: Row, sample: Sample): string[][] {
  const { holders } = row;
  const lines = cellsIn(sample, { ...row, holders: holders.slice(0, maximumHolders) }, {});
  const more = holders.length - maximumHolders;
  const index = columns.findIndex(({ name }) => name === "holds");
  return more <= 0 ? lines : [...lines, columns.map((_, column) => column === index ? `${more} more` : "")];
}

function seriesOf(rows: readonly Row[], { status, channels, listenerPid }: Sample): PageState["series"] {
  const sizes = new Map<number, number>();
  for (const { holders, byteLength } of rows) {
    for (const pid of new Set(holders.map(({ pid }) => pid))) sizes.set(pid, (sizes.get(pid) ?? 0) + byteLength);
  }
  const isSameNamespace = status.pid === listenerPid;
  const withChannel = rows.filter(({ channel }) => channel !== undefined).slice(0, maximumHolders);
  const rated = withChannel.flatMap(({ name }) => {
    const rates = channels.get(name);
    return rates === undefined ? [] : [{ name: printable(name), rates }];
  });
  return {
    rows: largest(sizesBy(rows, titleOf)),
    sources: largest(sizesBy(rows, ({ source }) => printable(source))),
    processes: largest(sizes).map(([pid, byteLength]) => [nameOfProcess(pid, isSameNamespace), byteLength]),
    frames: rated.map(({ name, rates }) => [name, rates.framesPerSecond]),
    dropped: rated.map(({ name, rates }) => [name, rates.droppedPerSecond]),
    lag: withChannel.map(({ name, channel }) => [printable(name), lagOf(channel!)]),
  };
}

/** Returns the sums of the sizes of rows by their names. */
function sizesBy(rows: readonly Row[], nameOf: (row: Row) => string): ReadonlyMap<string, number> {
  const sizes = new Map<string, number>();
  for (const row of rows) sizes.set(nameOf(row), (sizes.get(nameOf(row)) ?? 0) + row.byteLength);
  return sizes;
}

/** Returns the name of a row in charts. Withdrawn offers may have the same one. */
function titleOf(row: Row): string {
  return row.state === "withdrawn" ? `${nameOfRow(row)}, withdrawn` : nameOfRow(row);
}

/** Returns the largest values other than 0. */
function largest<Key>(values: ReadonlyMap<Key, number>): (readonly [Key, number])[] {
  return [...values].filter(([, value]) => value > 0).sort(([, a], [, b]) => b - a).slice(0, maximumHolders);
}

/** Returns the name of an offer, or of the generation of an entry. */
export function nameOfRow({ name, generation }: Pick<Row, "name" | "generation">): string {
  return generation === undefined ? printable(name) : `${printable(name)}, generation ${generation}`;
}

/** Returns the name of a process. `isVisible`: whether its process ID is valid here. */
export function nameOfProcess(pid: number, isVisible: boolean): string {
  if (pid === 0) return "elsewhere";
  const command = isVisible ? printable(commandOf(pid)) : "";
  return command === "" ? `process ${pid}` : `process ${pid}, ${command}`;
}
