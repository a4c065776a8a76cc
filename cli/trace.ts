/**
 * `poolpass trace`: joins the traces of processes to one that Perfetto opens.
 *
 * @module
 */
import { writeNewFile } from "../src/files/new_file.ts";
import { writeFully } from "../src/files/runtime_files.ts";
import { encodePerfetto } from "../src/trace/perfetto.ts";
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
  const { items, mistakes } = joinTraces(traces);
  await writeNewFile(values.output, async (file) => {
    const parts = values.output!.endsWith(".svg")
      ? [new TextEncoder().encode(drawTrace(items))]
      : encodePerfetto(items);
    let position = 0;
    for (const part of parts) {
      await writeFully(file, part, position);
      position += part.length;
    }
  });
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
