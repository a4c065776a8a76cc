/**
 * `poolpass metrics`: prints or serves the metrics of an exporter or a store for Prometheus.
 *
 * @module
 */
import process from "node:process";
import { type ListenerStatus, prometheusText } from "../mod.ts";
import { type Command, interrupted, readOptions, type Terminal } from "./command_line.ts";
import { readPort } from "./loopback_server.ts";
import { serveMetrics } from "./serve_metrics.ts";
import { connectionHelp, connectionOptions, onlyPath, readConnectionOptions } from "./status/connection.ts";
import { printable } from "./status/table.ts";
import { Sampler } from "./top/sampler.ts";

const help = `Usage: poolpass metrics SOCKET [options]

Prints the numbers of the process that listens at a socket, in Prometheus' text format. With --port, serves them at
http://127.0.0.1:PORT/metrics until it is interrupted: each request gets the current ones, or status 503 if the process
has ended.

Options:
  --port N        serve them at this port of 127.0.0.1; 0 for any that is free
${connectionHelp}

Examples:
  poolpass metrics /run/user/1000/frames.sock
  poolpass metrics /run/user/1000/frames.sock --port 9400`;

const options = { ...connectionOptions, port: { type: "string" } } as const;

/** The command `poolpass metrics`. */
export const metricsCommand: Command = { name: "metrics", summary: "print or serve numbers for Prometheus", help, run };

async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const { files, values } = readOptions(args, options);
  const path = onlyPath(files);
  const port = values.port === undefined ? undefined : readPort(values.port);
  const { signal } = terminal;
  await using sampler = new Sampler(path, { ...readConnectionOptions(values), signal });
  const first = await sampler.next();
  if (port === undefined) {
    const lines = textOf(first.status).trimEnd().split("\n");
    // Escape control characters for a terminal, but not for a pipe: Prometheus needs the exact names.
    terminal.print((process.stdout.isTTY ? lines.map(printable) : lines).join("\n"));
    return 0;
  }
  // Requests that arrive while the status is being fetched receive the same metrics.
  let answer: Promise<string> | undefined;
  const next = (): Promise<string> =>
    answer ??= sampler.next().then(({ status }) => textOf(status)).finally(() => answer = undefined);
  await using server = await serveMetrics(port, next);
  terminal.print(`Serving the metrics of ${printable(path)} at ${server.url}`);
  await interrupted(signal);
  return 0;
}

function textOf(status: ListenerStatus): string {
  return prometheusText(status.kind === "exporter" ? status.statistics : status);
}
