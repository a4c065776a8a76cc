/**
 * `poolpass list`: lists the offers, channels or entries of an exporter or a store, and the processes that hold them.
 *
 * @module
 */
import type { ConsumerStatistics } from "../mod.ts";
import { type Command, readOptions, type Terminal } from "./command_line.ts";
import {
  connectionHelp,
  connectionOptions,
  connectOperator,
  onlyPath,
  readConnectionOptions,
  requestStatus,
} from "./status/connection.ts";
import { cellsOf, columnsWith } from "./status/cells.ts";
import { formatJson } from "./status/json.ts";
import { type Row, rowsOf } from "./status/rows.ts";
import { summaryOf, type SummaryParts } from "./status/summary.ts";
import { formatTable, printable } from "./status/table.ts";
import { formatCount } from "./status/units.ts";

const help = `Usage: poolpass list SOCKET [options]

Lists what the process that listens at a socket shares: an exporter's offers and channels, or a store's entries, and who
holds them since when. It maps nothing, and does not affect other processes.

Options:
${connectionHelp}
  --json          print the whole status as JSON

Examples:
  poolpass list /run/user/1000/frames.sock
  poolpass list /run/user/1000/frames.sock --json`;

const options = { ...connectionOptions, json: { type: "boolean" } } as const;

/** The command `poolpass list`. */
export const listCommand: Command = {
  name: "list",
  summary: "list what a process shares, and who holds it",
  help,
  run,
};

const columns = columnsWith([
  { name: "frames", align: "right" },
  { name: "dropped", align: "right" },
  { name: "lag", align: "right" },
]);

async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const { files, values } = readOptions(args, options);
  const path = onlyPath(files);
  await using operator = await connectOperator(path, readConnectionOptions(values), terminal.signal);
  const status = await requestStatus(operator, terminal.signal);
  if (values.json) {
    terminal.print(formatJson(status, 2));
  } else {
    terminal.print(formatStatus({ status, path, listenerPid: operator.peer.pid, now: Date.now() }));
  }
  return 0;
}

/** Formats a status as text. */
export function formatStatus(parts: SummaryParts): string {
  const { status, listenerPid, now } = parts;
  const rows = rowsOf(status);
  // The process IDs in the status are valid here only if the listener is in the same PID namespace.
  const isSameNamespace = status.pid === listenerPid;
  const cells = rows.flatMap((row) => cellsOf(row, { isSameNamespace, now, numbersOf }));
  const table = rows.length === 0 ? [] : ["", ...formatTable(columns, cells)];
  return [...summaryOf(parts).map(printable), ...table].join("\n");
}

/**
 * Returns the cells for the numbers of sent and dropped frames and the lag of `consumer`. Without a consumer, returns
 * the numbers of the row's channel, and an empty cell for the lag.
 */
function numbersOf({ channel }: Row, consumer?: ConsumerStatistics): string[] {
  if (channel === undefined) return ["", "", ""];
  const { sent, dropped } = consumer ?? channel;
  return [formatCount(sent), formatCount(dropped), consumer === undefined ? "" : formatCount(consumer.lag)];
}
