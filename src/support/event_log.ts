/**
 * The log for operators, which `POOLPASS_LOG=1` turns on: a line for each event, such as a connection or an offer.
 *
 * Other processes cause many of these events and choose the names in them. So each line is one line, no longer than a
 * pipe writes at once, and only some lines of each event are written per second.
 *
 * @module
 */
import { escapeControls } from "./printing.ts";
import { Timer } from "./waiting/timer.ts";

/** The events that are logged. */
export type LoggedEvent =
  | "open"
  | "listen"
  | "close"
  | "accept-failed"
  | "connect"
  | "refuse"
  | "refuse-import"
  | "refuse-export"
  | "refuse-event"
  | "disconnect"
  | "cut-off"
  | "quarantine"
  | "quarantine-end"
  | "device-lost"
  | "offer"
  | "withdraw"
  | "offer-end"
  | "map"
  | "release"
  | "lease-end"
  | "recall"
  | "channel"
  | "channel-end"
  | "channel-exhausted"
  | "join"
  | "leave"
  | "drop"
  | "importer-wait"
  | "importer-connect"
  | "importer-disconnect"
  | "store-serve"
  | "standby-connect"
  | "standby-disconnect"
  | "operator-connect"
  | "operator-disconnect";

/** Where the lines go. */
export interface LogOutput {
  readonly processId: number;
  /** Writes a line with its newline. Returns false if the line was dropped. Never waits and never throws. */
  write(line: string): boolean;
}

/** The state of the rate limit of one event. */
interface EventRate {
  /** The number of lines that may be written now. */
  allowed: number;
  /** The `performance.now()` at which that number was correct. */
  since: number;
  /** The number of lines that were not written and not reported yet. */
  suppressed: number;
}

/** The number of lines of one event that are written at once at most. */
const burst = 100;
/** The number of lines of one event that are written per second in the long run. */
const linesPerSecond = 10;
/** Milliseconds after which suppressed lines are reported. */
const reportPause = 1000;
/**
 * The maximum number of characters of a value, with its escapes. A line has at most four values of this length, and so
 * fewer bytes than a pipe writes at once, 4096.
 */
const maximumValueLength = 300;
/** A value that needs no quotes. */
const plainValue = /^[\w.:/@%+-]+$/;

/** The fields of a line. Those that are undefined are left out. */
export type LogFields = Readonly<Record<string, string | number | undefined>>;

/** Formats events, and limits how many of them are written. */
export class EventLog {
  readonly #output: LogOutput;
  readonly #rates = new Map<LoggedEvent, EventRate>();
  readonly #reports = new Timer(() => this.#reportSuppressed(), reportPause, { unref: true });
  /** The number of lines that the output dropped and that were not reported yet. */
  #lost = 0;

  constructor(output: LogOutput) {
    this.#output = output;
  }

  /** Logs an event, or counts it if there were too many of its kind. */
  add(event: LoggedEvent, fields: LogFields): void {
    const rate = this.#rateOf(event);
    if (rate.allowed >= 1) {
      rate.allowed--;
      this.#write(event, fields);
    } else {
      rate.suppressed++;
      this.#reports.start();
    }
  }

  #rateOf(event: LoggedEvent): EventRate {
    const now = performance.now();
    let rate = this.#rates.get(event);
    if (rate === undefined) this.#rates.set(event, rate = { allowed: burst, since: now, suppressed: 0 });
    rate.allowed = Math.min(burst, rate.allowed + (now - rate.since) / 1000 * linesPerSecond);
    rate.since = now;
    return rate;
  }

  #reportSuppressed(): void {
    for (const [event, rate] of this.#rates) {
      if (rate.suppressed === 0) continue;
      const { suppressed } = rate;
      rate.suppressed = 0;
      this.#write(event, { suppressed });
    }
  }

  #write(event: LoggedEvent, fields: LogFields): void {
    let line = `${new Date().toISOString()} poolpass[${this.#output.processId}] ${event}`;
    for (const [key, value] of Object.entries(fields)) {
      if (value !== undefined) line += ` ${key}=${typeof value === "number" ? value : quoted(value)}`;
    }
    if (this.#lost > 0) line += ` lost=${this.#lost}`;
    if (this.#output.write(`${line}\n`)) this.#lost = 0;
    else this.#lost++;
  }
}

/** Whether events are logged. Check it before `logEvent`: while it is false, an event costs nothing else. */
export let isLogging = false;
let isStarted = false;
let log: EventLog | undefined;

/** Starts the log, once in a process: `open` returns where the lines go, or undefined if nothing is to be logged. */
export function startLog(open: () => LogOutput | undefined): void {
  if (isStarted) return;
  isStarted = true;
  const output = open();
  if (output === undefined) return;
  log = new EventLog(output);
  isLogging = true;
}

/** Logs an event, if events are logged. */
export function logEvent(event: LoggedEvent, fields: LogFields): void {
  log?.add(event, fields);
}

function quoted(value: string): string {
  if (value.length <= maximumValueLength && plainValue.test(value)) return value;
  const escaped = escapeControls(value.slice(0, maximumValueLength).replaceAll(/["\\]/g, "\\$&"));
  const isCut = value.length > maximumValueLength || escaped.length > maximumValueLength;
  return `"${escaped.slice(0, maximumValueLength)}${isCut ? "…" : ""}"`;
}
