/**
 * Simulates how heat spreads in a plate, and sends the temperatures to viewers through a channel. A flame moves over
 * the plate; the kernel is CUDA C++ in this file. `heat.ts` draws the frames, and starts this program itself if it is
 * given no socket.
 *
 *     deno run --allow-ffi examples/heat_simulation.ts <socket_path>
 *       --width 192, --height 128  the size of the plate
 *       --steps 16                 how many steps of the simulation there are to a frame
 *       --frames <n>               ends after n frames; without it, at Ctrl-C
 *       --viewers <n>              ends when n viewers have left
 *
 * It goes as fast as the slowest viewer, and waits while there is none.
 *
 * @module
 */
import { Exporter, open } from "../mod.ts";
import { parseCount, readArguments, runProgram, say, UsageError } from "./command_line.ts";

const source = `
// One step of the heat equation. The edges are insulated: heat does not leave there. The whole plate cools slowly.
extern "C" __global__ void step(float* next, const float* now, float* frame, int width, int height,
                                float flameX, float flameY, float flameRadius) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int at = y * width + x;
  float left = now[x > 0 ? at - 1 : at], right = now[x < width - 1 ? at + 1 : at];
  float above = now[y > 0 ? at - width : at], below = now[y < height - 1 ? at + width : at];
  float t = (now[at] + 0.2f * (left + right + above + below - 4 * now[at])) * 0.999f;
  float dx = x - flameX, dy = y - flameY;
  if (dx * dx + dy * dy < flameRadius * flameRadius) t = 100;
  next[at] = t;
  if (frame) frame[at] = t; // the last step of a frame also writes it into the channel's slot
}
`;

const name = "simulation";
const usage = "heat_simulation <socket_path> [--width 192] [--height 128] [--steps 16] [--frames <n>] [--viewers <n>]";
const about = `
Simulates how heat spreads in a plate, and sends the temperatures to viewers (heat.ts) through a channel. NVRTC compiles
the kernel, which needs no GPU: \`pip install nvidia-cuda-nvrtc\` is enough.

--width <n>, --height <n>  the size of the plate
--steps <n>                how many steps of the simulation there are to a frame
--frames <n>               ends after n frames; without it, at Ctrl-C
--viewers <n>              ends when n viewers have left
`;

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["width", "height", "steps", "frames", "viewers"]);
  const [socketPath, ...surplus] = positional;
  if (socketPath === undefined || surplus.length > 0) throw new UsageError("One argument is needed: a socket's path");
  const width = parseCount(named.width ?? "192", { what: "the width", least: 1 });
  const height = parseCount(named.height ?? "128", { what: "the height", least: 1 });
  const steps = parseCount(named.steps ?? "16", { what: "the number of steps", least: 1 });
  // The process answers nobody while it queues the steps of a frame.
  if (steps > 10_000) throw new UsageError(`Cannot make ${steps} steps to a frame: 10000 is the most`);
  const frames = parseCountOrNone(named.frames, "the number of frames");
  let viewers = parseCountOrNone(named.viewers, "the number of viewers");

  using cuda = open();
  const gpu = cuda.device(0);
  using module = gpu.compile(source, { name: "heat.cu" });
  const step = module.kernel("step");
  using stream = gpu.createStream();
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using first = pool.allocateArray(Float32Array, width * height, stream);
  using second = pool.allocateArray(Float32Array, width * height, stream);
  first.fill(0);
  let [now, next] = [first, second];

  const allLeft = new AbortController();
  await using exporter = Exporter.listen(socketPath, {
    onDisconnect({ pid }, error) {
      say(name, `Viewer ${pid} disconnected: ${error?.message ?? "it is done"}`);
      if (--viewers === 0) allLeft.abort();
    },
  });
  await using channel = exporter.createChannel("heat", {
    pool,
    slots: 4,
    slotByteLength: now.byteLength,
    stream,
    metadata: { width, height },
  });
  say(name, `Listening on ${socketPath}`);

  const geometry = { grid: [Math.ceil(width / 32), Math.ceil(height / 8)], block: [32, 8], stream } as const;
  const ended = AbortSignal.any([signal, allLeft.signal]);
  try {
    for (let count = 0; channel.sent < frames;) {
      const slot = await channel.reserve({ signal: ended });
      for (let left = steps; left > 0; left--) {
        // A Lissajous curve.
        const x = (0.5 + 0.38 * Math.sin(2 * count / 600)) * width;
        const y = (0.5 + 0.36 * Math.sin(3 * count / 600)) * height;
        step.launch(geometry, next, now, left === 1 ? slot.buffer : 0n, width, height, x, y, 0.06 * height);
        [now, next] = [next, now];
        count++;
      }
      channel.send(slot, { metadata: { step: count } });
    }
  } catch (error) {
    if (signal.aborted || !allLeft.signal.aborted) throw error;
  }
  say(name, `Sent ${channel.sent} frames`);
}

function parseCountOrNone(text: string | undefined, what: string): number {
  return text === undefined ? Infinity : parseCount(text, { what, least: 1 });
}

await runProgram(name, main, { usage, about });
