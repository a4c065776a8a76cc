import type { ConsumerStatistics } from "../../mod.ts";
import { countOf } from "../../src/support/printing.ts";
import { commandOf } from "./process_commands.ts";
import type { HolderRow, Row } from "./rows.ts";
import { type Column, harmless } from "./table.ts";
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

/** The columns of a table of rows and their holders, with those for the numbers of channels. */
export function columnsWith(numbers: readonly Column[]): readonly Column[] {
  return [...rowColumns, ...numbers, ...holderColumns];
}

/** How `cellsOf` prints a row. */
export interface CellOptions {
  /** Whether the listener's process IDs are those that this program sees. */
  readonly isSameNamespace: boolean;
  /** In milliseconds since 1970. */
  readonly now: number;
  /** The cells for the numbers of a row, or of a consumer in it. */
  readonly numbersOf: (row: Row, consumer?: ConsumerStatistics) => string[];
  /** Whether to leave out who holds it, but for their number. */
  readonly isShort?: boolean;
}

/** The lines of a row: its own, which has its holder if there is one, or one more for each. */
export function cellsOf(row: Row, options: CellOptions): string[][] {
  const { name, kind, byteLength, generation, state, since, holders } = row;
  const { now, numbersOf, isShort = false } = options;
  const [first, ...more] = holders;
  const own = [
    // In one line, whatever it contains. The column is as wide as the text that is printed.
    harmless(name),
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
    // A process of another PID namespace has no ID here.
    pid === 0 ? "elsewhere" : String(pid),
    String(uid),
    consumer === undefined || consumer.held === 0 ? state : `${state}, ${countOf(consumer.held, "frame")}`,
    since === undefined ? "" : `${formatDuration(now - since)} ago`,
    isSameNamespace ? harmless(commandOf(pid)) : "",
  ];
}
