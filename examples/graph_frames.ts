/**
 * A graph writes a buffer while another process reads the one before it. The graph is captured once: each launch gets
 * another buffer and another value by their names.
 *
 *     deno run --allow-ffi --allow-run examples/graph_frames.ts [--frames 100]
 *
 * An offer that is made behind a launch is ready when the launch is done. The graph writes a buffer again when the other
 * process has released it.
 *
 * @module
 */
import process from "node:process";
import { Exporter, Importer, type Offer, open } from "../mod.ts";
import { ptx } from "../kernels/fill.ts";
import { startChild } from "./child_process.ts";
import { parseCount, readArguments, refuseSurplus, runProgram, say } from "./command_line.ts";

const usage = "graph_frames [--frames 100]";
const about = `
A graph writes a buffer while another process reads the one before it.

--frames <n>  the number of frames
`;
const byteLength = 2 ** 20;
const geometry = { grid: 256, block: 256 };

const isReader = process.argv.includes("--read");
await runProgram(isReader ? "reader" : "writer", main, { usage, about });

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["frames", "read"]);
  refuseSurplus(positional);
  const frames = parseCount(named.frames ?? "100", { what: "the number of frames", least: 1 });
  await (named.read === undefined ? write(frames, signal) : read(named.read, { frames, signal }));
}

async function write(frames: number, signal: AbortSignal): Promise<void> {
  const path = `/tmp/poolpass-graph-frames-${process.pid}.sock`;
  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using module = gpu.loadModule(ptx);
  const fill = module.kernel("fill");
  // Allocated before the capture: memory that a graph allocates cannot be shared.
  using even = pool.allocate(byteLength, { stream });
  using odd = pool.allocate(byteLength, { stream });

  using graph = stream.capture(({ arguments: { frame, number } }) => {
    fill.launch({ ...geometry, stream }, frame, byteLength, number);
  }, { arguments: { frame: even, number: 0 } });
  using exec = graph.instantiate({ upload: stream });

  await using exporter = Exporter.listen(path);
  const reader = startChild(new URL(import.meta.url), { args: ["--read", path, "--frames", String(frames)] });
  const lost = new AbortController();
  const end = (how: unknown) => lost.abort(new Error(`The reader ended with ${how}`));
  reader.exited.then((code) => code === 0 || end(code), end);
  const whileAlive = AbortSignal.any([signal, lost.signal]);

  const offers: Offer[] = [];
  for (let number = 1; number <= frames; number++) {
    const before = offers.at(-2); // which has the same buffer
    await before?.released({ signal: whileAlive });
    before?.withdraw();
    const frame = number % 2 === 0 ? even : odd;
    exec.update({ frame, number });
    exec.launch(stream);
    offers.push(exporter.offer(`frame ${number}`, frame, { stream }));
  }
  for (const offer of offers.slice(-2)) await offer.released({ signal: whileAlive });
  if (await reader.exited !== 0) throw new Error("The reader failed");
  say("writer", `One graph has written ${frames} frames`);
}

async function read(path: string, { frames, signal }: { frames: number; signal: AbortSignal }): Promise<void> {
  using cuda = open();
  using stream = cuda.device(0).createStream();
  await using importer = await Importer.connect(cuda, path, { signal });
  for (let number = 1; number <= frames; number++) {
    const offer = await importer.offer(`frame ${number}`, { signal });
    using frame = await offer.map({ stream, signal });
    const words = await frame.read(Uint32Array, { stream, signal });
    const wrong = words.findIndex((word) => word !== number);
    if (wrong >= 0) throw new Error(`Word ${wrong} of frame ${number} is ${words[wrong]}`);
  }
  say("reader", `All words of ${frames} frames are right`);
}
