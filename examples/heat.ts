/**
 * Draws the frames of a `heat_simulation` in the terminal: a second process computes them, and this one reads them
 * in place from the slots of a channel. A kernel in CUDA C++, in this file, turns temperatures into colors.
 *
 *     deno run --allow-ffi --allow-run examples/heat.ts          # starts the simulation itself
 *     deno run --allow-ffi examples/heat.ts <socket_path>        # draws what another terminal simulates
 *       --frames <n>         ends after n frames; without it, at Ctrl-C, or after 120 if there is a recording
 *       --record heat.png    writes the frames as an animated PNG, which browsers play (--allow-write=heat.png)
 *       --rate 30            at most so many frames a second in the terminal
 *       --terminal yes|no    whether to draw; no prints a line for each frame. yes if the output is a terminal
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { type DeviceBuffer, Importer, open } from "../mod.ts";
import { type ChildProcess, startChild } from "./child_process.ts";
import { parseCount, printable, readArguments, refuseSurplus, runProgram, UsageError } from "./command_line.ts";
import { encodePng, type Picture } from "./png.ts";
import { AnimatedScreen, print, sizeInTerminal } from "./terminal.ts";

const source = `
// Each pixel has the color of the mean temperature of the cells that it covers: black, violet, red, yellow, white.
extern "C" __global__ void paint(uchar4* pixels, int columns, int rows, const float* plate, int width, int height) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column >= columns || row >= rows) return;
  int left = (long long)column * width / columns, right = (long long)(column + 1) * width / columns;
  int top = (long long)row * height / rows, bottom = (long long)(row + 1) * height / rows;
  float sum = 0;
  for (int y = top; y < bottom; y++) for (int x = left; x < right; x++) sum += plate[y * width + x];
  float t = __saturatef(sum / (100.0f * (right - left) * (bottom - top)));
  float red = __saturatef(2.5f * t), green = __saturatef(2.2f * t - 0.6f);
  float blue = t < 0.3333f ? 0.4f * __sinf(9.4248f * t) : __saturatef(4 * t - 3);
  pixels[row * columns + column] = make_uchar4(red * 255 + 0.5f, green * 255 + 0.5f, blue * 255 + 0.5f, 255);
}
`;

const name = "heat";
const usage = "heat [<socket_path>] [--frames <n>] [--record heat.png] [--rate 30] [--terminal yes|no]";
const about = `
Draws the frames of a heat_simulation in the terminal, which it starts unless it is given the simulation's socket. NVRTC
compiles the kernels, which needs no GPU: \`pip install nvidia-cuda-nvrtc\` is enough.

--frames <n>         ends after n frames; without it, at Ctrl-C, or after 120 if there is a recording
--record <path>      writes the frames as an animated PNG, which browsers play
--rate <n>           at most so many frames a second in the terminal
--terminal yes|no    whether to draw; no prints a line for each frame. yes if the output is a terminal
--width, --height, --steps  for the simulation that it starts: see heat_simulation --help
`;
const forSimulation = ["width", "height", "steps"] as const;

async function main(signal: AbortSignal): Promise<void> {
  const { positional: [socketPath, ...surplus], named } = readArguments(
    ["frames", "record", "rate", "terminal", ...forSimulation],
  );
  refuseSurplus(surplus);
  const { record, terminal = process.stdout.isTTY ? "yes" : "no" } = named;
  if (terminal !== "yes" && terminal !== "no") {
    throw new UsageError(`Cannot use "${terminal}" as --terminal: it is yes or no`);
  }
  const frames = named.frames === undefined
    ? record === undefined ? Infinity : 120
    : parseCount(named.frames, { what: "the number of frames", least: 1 });
  const rate = parseCount(named.rate ?? "30", { what: "the rate", least: 1 });
  const options = { frames, rate, record, draws: terminal === "yes" };
  const given = forSimulation.filter((option) => named[option] !== undefined);
  if (socketPath !== undefined) {
    if (given.length > 0) throw new UsageError(`--${given[0]} is an option of heat_simulation: give it to that`);
    return await view(socketPath, options, signal);
  }

  const ownPath = `/tmp/poolpass-heat-${process.pid}.sock`;
  const simulation = startChild(new URL("./heat_simulation.ts", import.meta.url), {
    args: [ownPath, "--viewers", "1", ...given.flatMap((option) => [`--${option}`, named[option]!])],
    readErrors: true,
  });
  const stop = () => simulation.kill("SIGTERM");
  signal.addEventListener("abort", stop);
  const messages = messagesOf(simulation);
  try {
    if (await messages.untilListening) await view(ownPath, options, signal);
  } catch (error) {
    // Without a viewer it would wait for one.
    stop();
    throw error;
  } finally {
    const code = await simulation.exited;
    process.stderr.write(await messages.all);
    if (code !== 0) process.exitCode = 1;
  }
}

/** The messages of the simulation. They are printed at the end, because they would lie over the pictures. */
function messagesOf(simulation: ChildProcess): { untilListening: Promise<boolean>; all: Promise<string> } {
  const { promise: untilListening, resolve } = Promise.withResolvers<boolean>();
  const all = (async () => {
    let text = "";
    for await (const line of simulation.errorLines) {
      if (line.includes("Listening on")) resolve(true);
      else text += `${line}\n`;
    }
    resolve(false);
    return text;
  })();
  return { untilListening, all };
}

interface ViewOptions {
  readonly frames: number;
  readonly rate: number;
  readonly record: string | undefined;
  readonly draws: boolean;
}

/** Reads the frames of a simulation, until it ends or there are enough of them. */
async function view(
  socketPath: string,
  { frames, rate, record, draws }: ViewOptions,
  signal: AbortSignal,
): Promise<void> {
  using cuda = open();
  const gpu = cuda.device(0);
  using module = gpu.compile(source, { name: "paint.cu" });
  const paint = module.kernel("paint");
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  await using importer = await Importer.connect(cuda, socketPath, { signal });
  await using channel = await importer.channel<unknown, { step: number }>("heat", { stream, signal });
  const { width, height } = sizeOf(channel);
  using pixels = pool.allocate(channel.slotByteLength, stream);

  /** Paints a frame in a size, and queues the copy of the picture to the host. */
  const picture = async (plate: DeviceBuffer, size: { width: number; height: number }): Promise<Picture> => {
    const grid = [Math.ceil(size.width / 32), Math.ceil(size.height / 8)] as const;
    paint.launch({ grid, block: [32, 8], stream }, pixels, size.width, size.height, plate, width, height);
    return { ...size, pixels: await pixels.read(Uint8Array, { length: 4 * size.width * size.height, signal }) };
  };

  const recorded: Picture[] = [];
  let count = 0;
  {
    using screen = draws ? new AnimatedScreen() : undefined;
    let due = performance.now();
    for (; count < frames; count++) {
      const slot = await channel.next({ signal });
      if (slot === undefined) break;
      // All work is queued before the slot is released in stream order; only then does the host wait.
      const recording = record === undefined ? undefined : picture(slot.buffer, { width, height });
      const drawing = draws ? picture(slot.buffer, sizeInTerminal({ width, height }, 1)) : undefined;
      const plate = draws ? undefined : slot.buffer.read(Float32Array, { signal });
      const step = Number(slot.metadata?.step);
      slot.release();
      const [recordedPicture, drawnPicture, temperatures] = await Promise.all([recording, drawing, plate]);
      if (recordedPicture !== undefined) recorded.push(recordedPicture);
      if (drawnPicture !== undefined) {
        await screen!.draw(drawnPicture, `step ${step}, computed by process ${importer.peer.pid}. Ctrl-C ends`);
        due = Math.max(due + 1000 / rate, performance.now() - 1000);
        await sleep(Math.max(0, due - performance.now()), undefined, { signal });
      }
      if (temperatures !== undefined) await print(`step ${step}: ${statistics(temperatures)}\n`);
    }
  }
  if (record !== undefined && recorded.length > 0) {
    writeFileSync(record, encodePng(recorded, { delay: Math.round(1000 / rate) }));
    console.log(`${record} has ${recorded.length} frames of ${width} × ${height}`);
  }
  console.log(count < frames ? `The simulation ended after ${count} frames` : `Drew ${count} frames`);
}

/** The size of the plate. The other process states it, and could be another program. */
function sizeOf(channel: { metadata: unknown; slotByteLength: number }): { width: number; height: number } {
  const { width, height } = (channel.metadata ?? {}) as Record<string, unknown>;
  if (
    !Number.isInteger(width) || !Number.isInteger(height) ||
    4 * Number(width) * Number(height) !== channel.slotByteLength
  ) {
    const stated = printable(JSON.stringify(channel.metadata) ?? "no metadata");
    throw new Error(
      `This channel has no plates: it states ${stated}, and its slots have ${channel.slotByteLength} bytes`,
    );
  }
  return { width: Number(width), height: Number(height) };
}

function statistics(temperatures: Float32Array): string {
  let [sum, hottest] = [0, -Infinity];
  for (const temperature of temperatures) {
    sum += temperature;
    hottest = Math.max(hottest, temperature);
  }
  return `mean ${(sum / temperatures.length).toFixed(3)}°, hottest ${hottest.toFixed(1)}°`;
}

await runProgram(name, main, { usage, about });
