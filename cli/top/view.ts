/**
 * Composes the lines of the screen of `poolpass top` from a sample and the settings that keys change.
 *
 * @module
 */
import type { ConsumerStatistics } from "../../mod.ts";
import { type CellOptions, cellsOf, columnsWith } from "../status/cells.ts";
import { lagOf, type Row, rowsOf } from "../status/rows.ts";
import { summaryOf } from "../status/summary.ts";
import { type Column, cutTo, formatTable, printable } from "../status/table.ts";
import { formatBytes, formatCount, formatRate } from "../status/units.ts";
import type { Sample } from "./sampler.ts";

/** The sort orders of rows. */
export type SortKey = "bytes" | "frames" | "dropped" | "lag" | "name";

/** The display settings, which the user changes by pressing keys. */
export interface ViewState {
  readonly sort: SortKey;
  readonly isReversed: boolean;
  /** Whether each holder has a separate line. */
  readonly hasHolders: boolean;
  /** The number of table lines scrolled past the top of the screen. */
  readonly scroll: number;
}

/** The input of `viewOf`. */
export interface ViewParts {
  readonly path: string;
  /** The last sample. Undefined before the first one. */
  readonly sample: Sample | undefined;
  /** The reason why the latest attempt to get a sample failed. Undefined if it succeeded. */
  readonly problem: string | undefined;
  readonly state: ViewState;
  /** The width of the screen in characters. */
  readonly columns: number;
  /** The height of the screen in lines. */
  readonly rows: number;
}

/** A line of the screen. */
export interface ViewLine {
  readonly text: string;
  /** Whether the line is shown in reverse video. */
  readonly isHeading?: boolean;
}

/** The columns of the table, with the rates of channels. */
export const columns: readonly Column[] = columnsWith([
  { name: "frames/s", align: "right" },
  { name: "bytes/s", align: "right" },
  { name: "dropped/s", align: "right" },
  { name: "lag", align: "right" },
]);
const noNumbers = ["", "", "", ""];
const keys =
  "q quit  b bytes  f frames/s  d dropped/s  l lag  n name  r reverse  h holders  arrows, PgUp, PgDn: scroll";

/** The initial settings. */
export const initialState: ViewState = { sort: "bytes", isReversed: false, hasHolders: true, scroll: 0 };

/** Returns the lines of the screen, and the state with `scroll` limited to the height of the table. */
export function viewOf(parts: ViewParts): { readonly lines: readonly ViewLine[]; readonly state: ViewState } {
  const { path, sample, problem, columns: width, rows: height } = parts;
  const head = sample === undefined ? [`poolpass top ${path}`] : [
    ...summaryOf({ ...sample, path, now: sample.time }),
    ...totalsOf(sample),
  ];
  if (problem !== undefined) head.push(`Trying again: ${problem}`);
  const [heading, ...lines] = sample === undefined ? [""] : tableOf(sample, parts.state);
  const room = Math.max(1, height - head.length - 3);
  const scroll = Math.max(0, Math.min(parts.state.scroll, lines.length - room));
  const shown = lines.slice(scroll, scroll + room);
  const more = lines.length > room ? `lines ${scroll + 1} to ${scroll + shown.length} of ${lines.length}  ` : "";
  const fitted = [
    ...head.map((text) => ({ text: printable(text) })),
    { text: "" },
    { text: heading!, isHeading: true },
    ...shown.map((text) => ({ text })),
    ...Array.from({ length: room - shown.length }, () => ({ text: "" })),
    { text: `${more}${keys}` },
  ].slice(0, height).map((line) => ({ ...line, text: cutTo(line.text, width) }));
  return { lines: fitted, state: { ...parts.state, scroll } };
}

/** Returns the rows of a sample in the given order. */
export function sortedRows(sample: Sample, { sort, isReversed }: Pick<ViewState, "sort" | "isReversed">): Row[] {
  const rows = [...rowsOf(sample.status)].sort((a, b) => compare(sample, sort, a, b));
  return isReversed ? rows.reverse() : rows;
}

function compare(sample: Sample, sort: SortKey, a: Row, b: Row): number {
  const byName = a.name < b.name ? -1 : a.name > b.name ? 1 : (b.generation ?? 0) - (a.generation ?? 0);
  if (sort === "name") return byName;
  return valueOf(sample, sort, b) - valueOf(sample, sort, a) || byName;
}

/** Returns the value by which rows are sorted in descending order. A row without a value gets -1 and is sorted last. */
function valueOf({ channels }: Sample, sort: Exclude<SortKey, "name">, { byteLength, channel, name }: Row): number {
  if (sort === "bytes") return byteLength;
  if (channel === undefined) return -1;
  if (sort === "lag") return lagOf(channel);
  const rates = channels.get(name);
  return (sort === "frames" ? rates?.framesPerSecond : rates?.droppedPerSecond) ?? 0;
}

function totalsOf({ channels, status }: Sample): string[] {
  if (status.kind === "store" || status.statistics.channels.length === 0) return [];
  let [frames, bytes, dropped] = [0, 0, 0];
  for (const rates of channels.values()) {
    frames += rates.framesPerSecond;
    bytes += rates.bytesPerSecond;
    dropped += rates.droppedPerSecond;
  }
  const lag = status.statistics.channels.reduce((largest, channel) => Math.max(largest, lagOf(channel)), 0);
  return [
    `${formatRate(frames)} frames/s, ${formatBytes(bytes)}/s; ${formatRate(dropped)} dropped/s; ` +
    `largest lag ${formatCount(lag)}`,
  ];
}

function tableOf(sample: Sample, state: ViewState): string[] {
  const cells = sortedRows(sample, state).flatMap((row) => cellsIn(sample, row, { isShort: !state.hasHolders }));
  return formatTable(columns, cells);
}

/** Returns the table lines of a row of a sample. */
export function cellsIn(sample: Sample, row: Row, options: Pick<CellOptions, "isShort">): string[][] {
  const { status, time: now, listenerPid } = sample;
  const numbersOf = (row: Row, consumer?: ConsumerStatistics) => numbersIn(sample, row, consumer);
  return cellsOf(row, { isSameNamespace: status.pid === listenerPid, now, numbersOf, ...options });
}

/** Returns the cells with the rates and the lag of a channel, or of one of its consumers. */
function numbersIn(sample: Sample, { channel }: Row, consumer: ConsumerStatistics | undefined): string[] {
  if (channel === undefined) return noNumbers;
  const rates = consumer === undefined ? sample.channels.get(channel.name) : sample.consumers.get(consumer);
  const lag = formatCount(consumer === undefined ? lagOf(channel) : consumer.lag);
  if (rates === undefined) return ["", "", "", lag];
  return [
    formatRate(rates.framesPerSecond),
    consumer === undefined ? formatBytes(rates.bytesPerSecond) : "",
    formatRate(rates.droppedPerSecond),
    lag,
  ];
}
