// Records the message of each mistake: deno run -A tests/mistakes/record.ts [OUTPUT], by default messages.md here
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { format } from "node:util";
import { environment, Fixture, setVariable } from "./fixture.ts";
import { areas, type Mistake } from "./mistake.ts";
import { runtimesWords } from "./messages.ts";
import "./cases/opening.js";
import "./cases/devices.js";
import "./cases/streams_and_events.js";
import "./cases/graphs.js";
import "./cases/graphs_by_hand.js";
import "./cases/pools.js";
import "./cases/allocations.js";
import "./cases/copies.js";
import "./cases/rows.js";
import "./cases/reads.js";
import "./cases/host_memory.js";
import "./cases/managed_memory.js";
import "./cases/modules.js";
import "./cases/compiling.js";
import "./cases/launches.js";
import "./cases/textures.js";
import "./cases/launch_options.js";
import "./cases/faults.js";
import "./cases/lifetimes.js";
import "./cases/sharing_by_hand.js";
import "./cases/offers.js";
import "./cases/channels.js";
import "./cases/printing.js";

/** How the runtimes word errors that they throw themselves. */
const runtimesOwn = new RegExp([
  "^(?!Cannot use).* is not (a function|an object|iterable|a constructor|defined)",
  "^Cannot (read properties|destructure|mix BigInt|set property|add property)",
  "^(Converting circular|JSON.stringify cannot|Attempted to assign|Invalid mix of BigInt|@@dispose must)",
  "^(The signal has been|The operation( was)?|This operation was) (aborted|timed out)",
  "could not be cloned|can not be cloned|[Nn]ot transferable|invalid value in transferList",
].join("|"));

/** What is not among the cases although users write it, and why. */
const leftOut = [
  "A promise of a buffer or of an array that is used without `await`, as in `pool.allocateAsync(1024).fill(0)` or in a loop " +
  "over `x.toTypedArray()`: the runtime refuses it, in its own words, because it is a plain promise. The type checker " +
  "refuses it too. A promise that is given to a function of the library is refused there.",
  "A misspelt property of a plain result, such as `pool.usage().usedBytes`: it is undefined, as it is of any object. The " +
  "type checker refuses it.",
  "What the runtime itself answers before a function of the library is called, or without one: a method that is called " +
  "without its object (`const { allocate } = pool`), a stream in the list of what to transfer to a worker, and a " +
  "property of a promise that was not awaited (`importer.offer(name).map()`, `channel.reserve().buffer.fill(1)`), " +
  "which the type checker refuses.",
  "`exporter.leases[0]` right after an importer's `map()`: the list is empty until the importer's message arrives, which " +
  "the documentation of `leases` says.",
  "Metadata with a property that is undefined, `{ dtype: undefined }`: the property is left out, as `JSON.stringify` does " +
  "and web programmers expect, so that optional properties need no care.",
  "The disposal of a device's default pool or stream does nothing: `using stream = gpu.defaultStream` is no mistake.",
];

const output = process.argv[2] ?? fileURLToPath(new URL("messages.md", import.meta.url));
const folder = mkdtempSync("/tmp/poolpass-mistakes-");
const { log, warn, error: printError } = console;
let lines: string[] = [];

try {
  for (const [name, value] of Object.entries(environment)) setVariable(name, value);
  console.log = (...values: unknown[]) => void lines.push(`prints: ${format(...values)}`);
  console.warn = (...values: unknown[]) => void lines.push(`warns: ${format(...values)}`);
  console.error = (...values: unknown[]) => void lines.push(`prints an error: ${format(...values)}`);
  // Of waits that a case has left behind.
  process.on("unhandledRejection", () => {});
  writeFileSync(output, await record());
} finally {
  Object.assign(console, { log, warn, error: printError });
  rmSync(folder, { recursive: true });
}
// Cases leave objects and waits behind.
process.exit();

async function record(): Promise<string> {
  const sections: string[] = [];
  let count = 0;
  for (const { title, mistakes, sources } of areas) {
    const cases: string[] = [];
    for (const mistake of mistakes) {
      const outcome = await outcomeOf(mistake, `${folder}/${++count}.sock`);
      const code = fence("js", [sources.get(mistake.name)!]);
      cases.push(`### ${mistake.name}\n\n${code}\n${fence("text", outcome)}\n`);
    }
    sections.push(`## ${title}\n\n${cases.join("\n")}`);
  }
  const reasons = leftOut.map((reason) => `- ${reason}\n`).join("");
  return `${heading(count)}\n${sections.join("\n")}\n## Left out\n\n${reasons}`;
}

function heading(count: number): string {
  return `# ${count} mistakes and their messages

Written by \`deno run -A tests/mistakes/record.ts\`. A test compares it with what each runtime answers.

Each program runs on the software device. \`cuda\`, \`gpu\`, \`stream\`, \`pool\`, \`x\`, \`y\`, \`saxpy\` and the like are what a
program of the README has: \`x\` and \`y\` are arrays of 1024 floats on \`stream\`, \`buffer\` has 4096 bytes, \`weights\` has 4096
bytes of the pool \`shared\`, which has the handle type "posix-fd", and \`peer\` is the second device. \`userModule\` is the
module of \`kernels.cu\`, \`saxpyPtx\`, \`texturedPtx\` and \`multicastPtx\` are PTX. \`connect()\` connects an importer with a \`Cuda\` object of its
own to \`exporter\`, \`openChannel()\` does that for a channel of two slots, and \`socketPair()\` returns two connected
sockets. SILENT means that nothing was thrown and no warning was printed.
`;
}

/** Runs a case and returns what its user sees, one line for each thing. */
async function outcomeOf({ kind, run }: Mistake, path: string): Promise<string[]> {
  const fixture = new Fixture(path);
  lines = [];
  let refusal: string | undefined;
  let isPromise = false;
  try {
    const result = run(fixture);
    isPromise = result instanceof Promise;
    await result;
  } catch (error) {
    refusal = `${isPromise ? "rejects" : "throws"}: ${wordingOf(error)}`;
  }
  const isSilent = kind === "mistake" && refusal === undefined && !lines.some((line) => line.startsWith("warns"));
  const outcome = [...isSilent ? ["SILENT"] : [], ...lines, ...refusal === undefined ? [] : [refusal]];
  try {
    await fixture.end();
  } catch {
    // A kernel's fault is thrown again.
  }
  // Waits that a case has left behind reject now.
  await new Promise((resolve) => setTimeout(resolve, 0));
  return outcome.map((line) => normalize(line, path));
}

function wordingOf(error: unknown): string {
  if (!(error instanceof Error)) return `a value that is not an Error: ${format(error)}`;
  const { name, message } = error;
  if (!runtimesOwn.test(message)) return `${name}: ${message}`;
  return `${name}, ${runtimesWords} ${message.split("\n")[0]}`;
}

/** Replaces what differs from run to run. */
function normalize(line: string, path: string): string {
  return line
    .replaceAll(path, "/tmp/demo.sock")
    .replaceAll(folder, "/tmp")
    .replaceAll(/(\n *at .*)+/g, "\n    at ...")
    .replaceAll(`${process.cwd()}/unix`, "/home/user/demo/unix")
    .replaceAll(`process ${process.pid}`, "process PID")
    .replaceAll(/\b0x[0-9a-f]{6,}/g, "0xADDRESS")
    .replaceAll(/(descriptor|a pool from) \d+/g, "$1 FD")
    .replaceAll(/after \d+ steps/g, "after N steps")
    .replaceAll(/which took [\d.]+ s/g, "which took N s")
    .replaceAll(/for \d+\.\d s\b/g, "for N s")
    // The reason is the runtime's.
    .replaceAll(/JSON cannot represent \([^)]*\)/g, "JSON cannot represent (...)");
}

function fence(language: string, lines: readonly string[]): string {
  return ["```" + language, ...lines, "```"].join("\n");
}
