import { type HolderRow, lagOf, type Row, rowsOf } from "../../status/rows.ts";
import { commandOf } from "../../status/process_commands.ts";
import { summaryOf } from "../../status/summary.ts";
import { printable } from "../../status/table.ts";
import type { Rates, Sample } from "../sampler.ts";

/** The maximum number of rows that a state lists: the largest. */
const maximumRows = 200;
/** The maximum number of holders that a state lists of each row, and of processes that it lists. */
const maximumHolders = 50;

/** What the page shows of a listener at one time. Text from other processes has no control characters. */
export interface PageState {
  /** The time in milliseconds since 1970. */
  readonly time: number;
  /** The lines that describe the listener. */
  readonly summary: readonly string[];
  /** The process ID of the listener and when it began to listen: another listener at the path has others. */
  readonly listener: string;
  readonly rows: readonly PageRow[];
  /** The processes that hold memory, those that hold the most first. */
  readonly processes: readonly PageProcess[];
  /** The rows that are not listed. */
  readonly others: { readonly count: number; readonly byteLength: number };
}

/** An offer, a channel or an entry. */
export interface PageRow extends Omit<Row, "channel" | "holders"> {
  readonly rates?: Rates;
  /** The largest lag of the channel's consumers, in frames. */
  readonly lag?: number;
  /** The numbers of the channel's slots. */
  readonly slots?: { readonly count: number; readonly free: number; readonly quarantined: number };
  readonly holders: readonly PageRowHolder[];
  /** The number of holders, including those that are not listed. */
  readonly holderCount: number;
}

/** A process that holds a row's memory. */
export interface PageRowHolder extends Omit<HolderRow, "consumer"> {
  readonly rates?: Rates;
  readonly lag?: number;
  /** The number of frames that the process holds. */
  readonly frames?: number;
}

/** A process, and how much memory it holds. */
export interface PageProcess {
  readonly pid: number;
  /** The command line, if the process is visible here. */
  readonly command: string;
  /** The sum of the sizes of the rows that the process holds, in bytes. */
  readonly byteLength: number;
}

/** Converts a sample of the listener at a path to what the page shows. */
export function pageStateOf(sample: Sample, path: string): PageState {
  const { status, time } = sample;
  const rows = [...rowsOf(status)].sort((a, b) => b.byteLength - a.byteLength);
  const others = rows.slice(maximumRows);
  return {
    time,
    summary: summaryOf({ ...sample, path, now: time }).map(printable),
    listener: `${status.pid} ${status.statistics.since}`,
    rows: rows.slice(0, maximumRows).map((row) => pageRowOf(row, sample)),
    processes: processesOf(rows, status.pid === sample.listenerPid),
    others: {
      count: others.length + status.leftOut.rows,
      byteLength: others.reduce((sum, { byteLength }) => sum + byteLength, 0),
    },
  };
}

function pageRowOf({ channel, holders, ...row }: Row, { channels, consumers }: Sample): PageRow {
  const rates = channels.get(row.name);
  return {
    ...row,
    name: printable(row.name),
    ...channel === undefined ? {} : {
      ...rates === undefined ? {} : { rates },
      lag: lagOf(channel),
      slots: { count: channel.slots, free: channel.freeSlots, quarantined: channel.quarantinedSlots },
    },
    holders: holders.slice(0, maximumHolders).map(({ consumer, ...holder }) => ({
      ...holder,
      ...consumer === undefined ? {} : { rates: consumers.get(consumer), lag: consumer.lag, frames: consumer.held },
    })),
    holderCount: holders.length,
  };
}

/** Returns the processes that hold the memory of rows. `isVisible`: whether their process IDs are valid here. */
function processesOf(rows: readonly Row[], isVisible: boolean): PageProcess[] {
  const sizes = new Map<number, number>();
  for (const { holders, byteLength } of rows) {
    for (const pid of new Set(holders.map(({ pid }) => pid))) sizes.set(pid, (sizes.get(pid) ?? 0) + byteLength);
  }
  const largest = [...sizes].sort(([, a], [, b]) => b - a).slice(0, maximumHolders);
  return largest.map(([pid, byteLength]) => ({
    pid,
    byteLength,
    command: isVisible ? printable(commandOf(pid)) : "",
  }));
}
