/**
 * `poolpass trace`: joins the traces of processes to one that Perfetto opens.
 *
 * @module
 */
import { realpath } from "node:fs/promises";
import { writeNewFile } from "../src/files/new_file.ts";
import { writeFully } from "../src/files/runtime_files.ts";
import { encodePerfetto, type TrackItem } from "../src/trace/perfetto.ts";
import { joinTraces } from "../src/trace/joined_trace.ts";
import { drawTrace } from "../src/trace/trace_picture.ts";
import { type Command, readOptions, type Terminal, UsageError } from "./command_line.ts";
import type { Trace } from "../src/trace/read_trace.ts";
import { readTraceFile } from "./trace_files.ts";
import { formatCount } from "./status/units.ts";

const help = `Usage: poolpass trace FILE... -o OUT

Joins the files that processes have recorded with POOLPASS_TRACE=FILE to one trace, which https://ui.perfetto.dev opens:
calls, messages and kernels of each process, with arrows from a message that was sent to its arrival and from the record
of an event to its waits. A process may still be recording, or have been killed.

Options:
  -o, --output FILE   the trace to write; a picture if the name ends with .svg

Example:
  POOLPASS_TRACE=/tmp/%p.trace deno run --allow-ffi --allow-env producer.ts &
  POOLPASS_TRACE=/tmp/%p.trace deno run --allow-ffi --allow-env consumer.ts
  poolpass trace /tmp/*.trace -o /tmp/frames.pftrace`;

const options = { output: { type: "string", short: "o" } } as const;

/** The command `poolpass trace`. */
export const traceCommand: Command = {
  name: "trace",
  summary: "join what processes have recorded to a trace for Perfetto",
  help,
  run,
};

async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const { files, values } = readOptions(args, options);
  if (files.length === 0) throw new UsageError("Name the files that processes have recorded");
  if (values.output === undefined) throw new UsageError("Name the trace to write: -o OUT");
  const traces: Trace[] = [];
  for (const file of files) {
    traces.push(await readTraceFile(file));
  }
  const output = await realpath(values.output).catch(() => undefined);
  for (const file of files) {
    if (await realpath(file) === output) throw new UsageError(`Cannot replace ${file}, which is to be joined`);
  }
  const { items, mistakes } = joinTraces(traces);
  await write(values.output, items);
  const events = traces.reduce((sum, { events }) => sum + events.length, 0);
  const replaced = traces.reduce((sum, { replaced }) => sum + replaced, 0);
  terminal.print(
    `${formatCount(events)} events of ${traces.length} ${
      traces.length === 1 ? "file" : "files"
    } are in ${values.output}` +
      (replaced === 0 ? "" : `; ${formatCount(replaced)} older ones were replaced by newer ones`),
  );
  for (const { file, namesLost } of traces) {
    if (namesLost > 0) terminal.printError(`poolpass: Some names are missing: there was no more room in ${file}`);
  }
  for (const mistake of mistakes) terminal.printError(`poolpass: ${mistake}`);
  return mistakes.length === 0 ? 0 : 1;
}

/** Writes a trace for Perfetto, or a picture of it. */
async function write(path: string, items: readonly TrackItem[]): Promise<void> {
  const parts = path.endsWith(".svg") ? [new TextEncoder().encode(drawTrace(items))] : encodePerfetto(items);
  try {
    await writeNewFile(path, async (file) => {
      let position = 0;
      for (const part of parts) {
        await writeFully(file, part, position);
        position += part.length;
      }
    });
  } catch (cause) {
    // The system's error names a temporary file, or none.
    const why = reasons[(cause as { code?: string }).code ?? ""];
    throw why === undefined ? cause : new Error(`Cannot write ${path}: ${why}`, { cause });
  }
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "there is no such folder",
  ENOSPC: "its file system is full",
  EACCES: "its folder is not writable for this user",
  EROFS: "its file system is read-only",
};
