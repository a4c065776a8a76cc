import type { ListenerStatus } from "../../mod.ts";
import { countOf } from "../../src/support/printing.ts";
import { formatBytes, formatCount, formatDuration } from "./units.ts";

/** The input of `summaryOf`. */
export interface SummaryParts {
  readonly status: ListenerStatus;
  readonly path: string;
  /** The process ID of the listener in the PID namespace of this program; 0 if the listener is not visible there. */
  readonly listenerPid: number;
  /** The current time in milliseconds since 1970. */
  readonly now: number;
}

/** Returns a description of the listener and its totals: two lines, and a third line if rows or holders are omitted. */
export function summaryOf({ status, path, listenerPid, now }: SummaryParts): string[] {
  const { kind, version, statistics: { since } } = status;
  const title =
    `${kind === "exporter" ? "Exporter" : "Store"} at ${path}: ${
      processOf(status, listenerPid)
    }, poolpass ${version}, ` +
    `since ${formatDuration(now - since)}`;
  return [title, totalsOf(status).join("; "), ...leftOutOf(status)];
}

function processOf({ pid }: ListenerStatus, listenerPid: number): string {
  if (pid === listenerPid) return `process ${pid}`;
  return listenerPid === 0 ? "a process elsewhere" : `process ${listenerPid}, ${pid} in its own namespace`;
}

function totalsOf(status: ListenerStatus): string[] {
  if (status.kind === "store") {
    const { statistics: { entries, byteLength, clients, operators }, limits: { maxSize } } = status;
    const limit = maxSize === null ? "" : ` of at most ${formatBytes(maxSize)} a device`;
    return [
      `${entries === 1 ? "1 entry" : `${formatCount(entries)} entries`}, ${formatBytes(byteLength)}${limit}`,
      `${countOf(clients, "client")}, ${countOf(operators, "operator")}`,
    ];
  }
  const { statistics: { offers, importers, operators, leases, quarantinedByteLength } } = status;
  const withdrawn = offers.withdrawn > 0 ? `, ${offers.withdrawn} withdrawn and held` : "";
  const lingering = importers.lingering > 0 ? `, ${importers.lingering} lingering` : "";
  return [
    `${countOf(offers.count, "offer")}, ${formatBytes(offers.byteLength)}${withdrawn}`,
    `${countOf(importers.connected, "importer")}${lingering}, ${countOf(operators, "operator")}`,
    `held ${formatBytes(leases.held.byteLength)}, quarantined ${formatBytes(quarantinedByteLength)}`,
  ];
}

function leftOutOf({ leftOut: { rows, holders } }: ListenerStatus): string[] {
  if (rows + holders === 0) return [];
  return [`Not listed, because there are too many: ${formatCount(rows)} rows, ${formatCount(holders)} holders`];
}
