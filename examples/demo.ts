/**
 * Shares a memory pool between two processes: one creates it and verifies the bytes, the other writes from several
 * devices.
 *
 *     deno task demo [--bytes 64MiB] [--writers 2]
 *
 * @module
 */
import process from "node:process";
import { open } from "../mod.ts";
import { type ChildProcess, startChild } from "./child_process.ts";
import { parseBytes, parseCount, readArguments, refuseSurplus, runProgram } from "./command_line.ts";
import { formatVersion } from "./device_support.ts";

const usage = "demo [--bytes 64MiB] [--writers 2]";
const about = `
Shares a memory pool between two processes: one verifies the bytes that the other writes from several devices.

--bytes <n>    the size of the shared buffer: 1048576, 1024KiB or 1MiB
--writers <n>  the number of regions, each written by a stream of its own
`;

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["bytes", "writers"]);
  refuseSurplus(positional);
  const bytes = parseBytes(named.bytes ?? "64MiB");
  const writers = parseCount(named.writers ?? "2", { what: "the number of writers", least: 1 });
  const deviceCount = describeDriver();

  const socketPath = `/tmp/poolpass-demo-${process.pid}.sock`;
  const exporter = startChild(new URL("./pool_exporter.ts", import.meta.url), {
    args: ["0", String(bytes), socketPath, "--verify", String(writers)],
    readErrors: true,
  });
  const children: ChildProcess[] = [exporter];
  signal.addEventListener("abort", () => children.forEach((child) => child.kill("SIGTERM")));
  for await (const line of exporter.errorLines) {
    process.stderr.write(`${line}\n`);
    if (!line.includes("Listening on")) continue;
    const writerGpus = Array.from({ length: writers }, (_, writer) => String(writer % deviceCount));
    const importer = startChild(new URL("./pool_importer.ts", import.meta.url), {
      args: ["0", ...writerGpus, socketPath],
    });
    children.push(importer);
    // Without an importer the exporter would wait forever.
    importer.exited.then((code) => code === 0 || exporter.kill("SIGTERM"));
  }
  const codes = await Promise.all(children.map((child) => child.exited));
  signal.throwIfAborted();
  if (children.length < 2 || codes.some((code) => code !== 0)) throw new Error("The buffer was not shared");
  console.log(`All ${bytes} bytes are right`);
}

/** Prints the driver and the devices; returns the number of devices. */
function describeDriver(): number {
  using cuda = open();
  const names = cuda.devices.map((device) => device.name);
  console.log(
    cuda.driver === "cuda"
      ? `Running on the GPU: CUDA ${formatVersion(cuda.driverVersion)}, ${names.join(", ")}`
      : `Running on the software device (${names.length} of them), without a GPU`,
  );
  return names.length;
}

await runProgram("demo", main, { usage, about });
