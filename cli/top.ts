/**
 * `poolpass top`: shows the offers, channels or entries of an exporter or a store, live.
 *
 * @module
 */
import { SharingError } from "../mod.ts";
import { type Command, interrupted, readOptions, type Terminal, UsageError } from "./command_line.ts";
import { readPort } from "./loopback_server.ts";
import { connectionHelp, connectionOptions, onlyPath, readConnectionOptions } from "./status/connection.ts";
import { printable } from "./status/table.ts";
import { actionsOf } from "./top/keys.ts";
import { jsonOf, linesOf } from "./top/lines.ts";
import { type Sample, Sampler } from "./top/sampler.ts";
import { isTerminal, Screen } from "./top/screen.ts";
import { initialState, viewOf } from "./top/view.ts";
import { servePage } from "./top/web/serve_page.ts";

const help = `Usage: poolpass top SOCKET [options]

Shows what the process that listens at a socket shares, who holds it, and how its channels run: frames a second, frames
dropped, and the lag of each consumer. If the process ends, top says so, and connects to the next one.

Keys: q quits; b, f, d, l and n sort by bytes, frames/s, dropped/s, lag and name; r reverses the order; h hides and shows
the holders; arrows, PageUp, PageDown, Home and End scroll.

Without a terminal, it prints a line for each offer, channel or entry at each interval.

Options:
  --interval S    seconds between two samples: 1 unless given, at least 0.1
  --count N       end after this many samples
  --web PORT      serve a page with pictures over time at this port of 127.0.0.1, until interrupted; 0 for any that is
                  free. The URL, which is printed, has a random token: who knows it may see the page
  --trace FILE... show on the page the last seconds of what processes have recorded with POOLPASS_TRACE=FILE; the socket
                  comes before
${connectionHelp}
  --json          print each sample as a JSON object in a line

Examples:
  poolpass top /run/user/1000/frames.sock
  poolpass top /run/user/1000/frames.sock --web 0 --trace /tmp/*.trace
  poolpass top /run/user/1000/frames.sock --interval 5 --json >> frames.log`;

const options = {
  ...connectionOptions,
  interval: { type: "string" },
  count: { type: "string" },
  web: { type: "string" },
  trace: { type: "strings" },
  json: { type: "boolean" },
} as const;

/** The command `poolpass top`. */
export const topCommand: Command = { name: "top", summary: "show what a process shares, live", help, run };

/** The options for taking samples. */
interface Sampling {
  readonly path: string;
  /** The time between two samples, in milliseconds. */
  readonly interval: number;
  /** The number of samples after which the command exits. */
  readonly count: number;
  readonly json: boolean;
}

async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const { files, values } = readOptions(args, options);
  const port = values.web === undefined ? undefined : readPort(values.web);
  // A shell replaces --trace *.trace by several names, of which the option takes the first.
  const [traces, rest] = values.trace.length === 0
    ? [[], files]
    : [[...values.trace, ...files.slice(1)], files.slice(0, 1)];
  const path = onlyPath(rest);
  const interval = numberOf(values.interval, { name: "interval", otherwise: 1, least: 0.1 }) * 1000;
  const count = numberOf(values.count, { name: "count", otherwise: Infinity, least: 1 });
  if (port === undefined && traces.length > 0) throw new UsageError("The option --trace is for the page of --web");
  if (port !== undefined && (values.json || values.count !== undefined)) {
    throw new UsageError("The option --web serves a page: --json and --count are for lines");
  }
  const quitting = new AbortController();
  const signal = AbortSignal.any([terminal.signal, quitting.signal]);
  const sampling: Sampling = { path, interval, count, json: values.json };
  await using sampler = new Sampler(path, { ...readConnectionOptions(values), signal });
  // If the first sample fails, exit, because the path may be mistyped. If a later one fails, try again.
  const first = await sampler.next();
  if (port !== undefined) {
    await using server = await servePage(port, { sampler, path, interval, traces });
    terminal.print(`Showing ${printable(path)} at ${server.url}`);
    await interrupted(signal);
  } else if (terminal.isInteractive === true && isTerminal() && !values.json) {
    await showScreen({ first, sampler, sampling, signal, quit: () => quitting.abort() });
  } else {
    await printLines(first, { sampler, sampling, signal, terminal });
  }
  return 0;
}

/** Prints samples until the program is interrupted or `sampling.count` samples have been printed. */
async function printLines(
  first: Sample,
  { sampler, sampling, signal, terminal }: {
    sampler: Sampler;
    sampling: Sampling;
    signal: AbortSignal;
    terminal: Terminal;
  },
): Promise<void> {
  let sample: Sample | undefined = first;
  let problem: string | undefined;
  for (let printed = 1;; printed++) {
    if (sample !== undefined) {
      problem = undefined;
      const lines = sampling.json ? [jsonOf(sample)] : linesOf(sample);
      if (lines.length > 0) terminal.print(lines.join("\n"));
    }
    if (printed >= sampling.count) return;
    await pause(sampling.interval, signal);
    if (signal.aborted) return;
    sample = await next(sampler, (text) => {
      // Print each problem once, and not after every attempt.
      if (text !== problem && !signal.aborted) terminal.printError(`${text}; trying again`);
      problem = text;
    });
    if (signal.aborted) return;
  }
}

/** Shows samples on the screen until the user quits or a signal arrives. */
async function showScreen(
  { first, sampler, sampling, signal, quit }: {
    first: Sample;
    sampler: Sampler;
    sampling: Sampling;
    signal: AbortSignal;
    quit: () => void;
  },
): Promise<void> {
  let state = initialState;
  let sample = first;
  let problem: string | undefined;
  const draw = (): void => {
    const { columns, rows } = screen;
    const view = viewOf({ path: sampling.path, sample, problem, state, columns, rows });
    state = view.state;
    screen.draw(view.lines);
  };
  using screen = new Screen({
    onInput(input) {
      for (const action of actionsOf(input)) {
        if (action === "quit") return quit();
        if (action === "suspend") screen.suspend();
        else state = action(state, Math.max(1, screen.rows - 8));
      }
      draw();
    },
    onResize: draw,
  });
  for (let shown = 1;; shown++) {
    draw();
    if (shown >= sampling.count) return;
    await pause(sampling.interval, signal);
    if (signal.aborted) return;
    problem = undefined;
    sample = await next(sampler, (text) => problem = text) ?? sample;
    if (signal.aborted) return;
  }
}

/** Returns the next sample. If that fails, calls `onProblem` with the reason, and returns undefined. */
async function next(sampler: Sampler, onProblem: (text: string) => void): Promise<Sample | undefined> {
  try {
    return await sampler.next();
  } catch (error) {
    if (!(error instanceof SharingError) && !(error instanceof DOMException)) throw error;
    onProblem(printable(error.message));
    return undefined;
  }
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal.addEventListener("abort", end);
    if (signal.aborted) end();
  });
}

function numberOf(
  text: string | undefined,
  { name, otherwise, least }: { name: string; otherwise: number; least: number },
): number {
  if (text === undefined) return otherwise;
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : NaN;
  if (value >= least && value <= 86_400 * 365) return value;
  throw new UsageError(`The option --${name} is "${text}", and must be a number of at least ${least}`);
}
