import type { ConsumerStatistics } from "../../mod.ts";
import { countOf } from "../../src/support/printing.ts";
import { commandOf } from "./process_commands.ts";
import type { HolderRow, Row } from "./rows.ts";
import { type Column, printable } from "./table.ts";
import { formatBytes, formatDuration } from "./units.ts";

const rowColumns: readonly Column[] = [
  { name: "name" },
  { name: "kind" },
  { name: "size", align: "right" },
  { name: "generation", align: "right" },
  { name: "state" },
  { name: "made" },
];
const holderColumns: readonly Column[] = [
  { name: "process", align: "right" },
  { name: "user", align: "right" },
  { name: "holds" },
  { name: "since" },
  { name: "command" },
];
const emptyRow = rowColumns.map(() => "");
const nobody = holderColumns.map(() => "");

/**
 * Returns the columns of a table that lists offers or entries and their holders. `numbers` are the columns with the
 * counts or rates of channels.
 */
export function columnsWith(numbers: readonly Column[]): readonly Column[] {
  return [...rowColumns, ...numbers, ...holderColumns];
}

/** The options of `cellsOf`. */
export interface CellOptions {
  /**
   * Whether the listener is in the PID namespace of this program, so that the process IDs in its status are valid here.
   */
  readonly isSameNamespace: boolean;
  /** The current time in milliseconds since 1970. */
  readonly now: number;
  /** Returns the cells with the counts or rates of a row's channel, or of one of the channel's consumers. */
  readonly numbersOf: (row: Row, consumer?: ConsumerStatistics) => string[];
  /** Whether to print only the number of holders instead of a line for each. */
  readonly isShort?: boolean;
}

/**
 * Returns the table lines of a row. A single holder is shown on the row's own line; multiple holders get one line each.
 */
export function cellsOf(row: Row, options: CellOptions): string[][] {
  const { name, kind, byteLength, generation, state, since, holders } = row;
  const { now, numbersOf, isShort = false } = options;
  const [first, ...more] = holders;
  const own = [
    // The name is escaped before the widths of the columns are computed.
    printable(name),
    kind,
    kind === "pool" ? "" : formatBytes(byteLength),
    generation === undefined ? "" : String(generation),
    state,
    `${formatDuration(now - since)} ago`,
    ...numbersOf(row),
  ];
  if (first === undefined) return [[...own, ...nobody]];
  if (isShort) return [[...own, "", "", countOf(holders.length, "holder"), "", ""]];
  if (more.length === 0 && first.consumer === undefined) return [[...own, ...cellsOfHolder(first, options)]];
  const lines = holders.map((holder) => [
    ...emptyRow,
    ...holder.consumer === undefined ? numbersOf(row).map(() => "") : numbersOf(row, holder.consumer),
    ...cellsOfHolder(holder, options),
  ]);
  return [[...own, ...nobody], ...lines];
}

function cellsOfHolder(
  { pid, uid, state, since, consumer }: HolderRow,
  { isSameNamespace, now }: CellOptions,
): string[] {
  return [
    // The process ID is 0 if the process has none in the listener's PID namespace.
    pid === 0 ? "elsewhere" : String(pid),
    String(uid),
    consumer === undefined || consumer.held === 0 ? state : `${state}, ${countOf(consumer.held, "frame")}`,
    since === undefined ? "" : `${formatDuration(now - since)} ago`,
    isSameNamespace ? printable(commandOf(pid)) : "",
  ];
}
