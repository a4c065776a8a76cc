/**
 * The log for operators, which `POOLPASS_LOG=1` enables: one line per event, such as a connection or an offer.
 *
 * Other processes cause many of these events and choose the names in them. Therefore each event is written as a single
 * line that is no longer than an atomic write to a pipe, and the number of lines per second is limited for each event.
 *
 * @module
 */
import { escapeControls } from "./printing.ts";
import { Timer } from "./waiting/timer.ts";

/** The events that are logged. */
export type LoggedEvent =
  | "open"
  | "fallback"
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

/** The destination of the log's lines. */
export interface LogOutput {
  readonly processId: number;
  /** Writes a line with its newline. Returns false if the line was dropped. Never blocks and never throws. */
  write(line: string): boolean;
}

/** The state of the rate limit of one kind of event. */
interface EventRate {
  /** The number of lines that may be written now. */
  allowed: number;
  /** The `performance.now()` time at which `allowed` was updated. */
  since: number;
  /** The number of lines that were suppressed and not reported yet. */
  suppressed: number;
}

/** The maximum number of lines of one kind of event that are written in a burst. */
const burst = 100;
/** The maximum average number of lines per second of one kind of event. */
const linesPerSecond = 10;
/** Time in milliseconds after which suppressed lines are reported. */
const reportPause = 1000;
/**
 * The maximum number of characters of a value, including escapes. A line has at most four values of this length, and so
 * stays below 4096 bytes, the limit of an atomic write to a pipe.
 */
const maximumValueLength = 300;
/** Matches a value that needs no quotes. */
const plainValue = /^[\w.:/@%+-]+$/;

/** The fields of a line, by name. Undefined fields are left out. */
export type LogFields = Readonly<Record<string, string | number | undefined>>;

/** Formats events, and limits how many of them are written. */
export class EventLog {
  readonly #output: LogOutput;
  readonly #rates = new Map<LoggedEvent, EventRate>();
  readonly #reports = new Timer(() => this.#reportSuppressed(), reportPause, { unref: true });
  /** The number of lines that the output has dropped since the last report of dropped lines. */
  #lost = 0;

  constructor(output: LogOutput) {
    this.#output = output;
  }

  /** Logs an event, or only counts the event if the rate limit of its kind is exceeded. */
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

/**
 * Whether events are logged. Check this before calling `logEvent`, so that events cost nothing when they are not
 * logged.
 */
export let isLogging = false;
let isStarted = false;
let log: EventLog | undefined;

/** Starts the log, once per process. `open` returns the destination, or undefined if nothing is to be logged. */
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
