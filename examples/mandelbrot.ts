/**
 * Renders the Mandelbrot set with a kernel in CUDA C++, which is a string in this file. Writes a PNG, and shows it in
 * the terminal.
 *
 *     deno run --allow-ffi --allow-write=mandelbrot.png examples/mandelbrot.ts
 *       --width 960, --height 640  the size of the picture, in pixels
 *       --center -0.7,0 --zoom 1   the part of the plane
 *       --iterations 500           how many steps a point may take to escape; a large zoom needs more
 *       --samples 2                each pixel is the mean of 2 × 2 points
 *       --out mandelbrot.png       the file to write
 *       --terminal yes|no          whether the terminal shows the picture; yes if the output is a terminal
 *
 * The kernel is compiled at run time by NVRTC, which needs no GPU: `pip install nvidia-cuda-nvrtc` is enough.
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { open } from "../mod.ts";
import { parseCount, readArguments, refuseSurplus, runProgram, UsageError } from "./command_line.ts";
import { encodePng } from "./png.ts";
import { halfBlocks, shrink, sizeInTerminal } from "./terminal.ts";

const source = `
// How many steps of z = z² + c a point takes to escape, made smooth; negative if it does not.
__device__ float stepsToEscape(Real cx, Real cy, int iterations) {
  Real q = (cx - Real(0.25)) * (cx - Real(0.25)) + cy * cy;
  bool inCardioid = q * (q + cx - Real(0.25)) < Real(0.25) * cy * cy;
  bool inCircle = (cx + 1) * (cx + 1) + cy * cy < Real(0.0625);
  if (inCardioid || inCircle) return -1;
  Real x = 0, y = 0, xx = 0, yy = 0;
  for (int n = 0; n < iterations; n++) {
    y = 2 * x * y + cy;
    x = xx - yy + cx;
    xx = x * x;
    yy = y * y;
    if (xx + yy > 65536) return n + 4 - __log2f(__log2f(float(xx + yy)));
  }
  return -1;
}

// Point (left, top) is the corner of the picture; samples are \`step\` apart.
extern "C" __global__ void render(uchar4* pixels, int width, int height, Real left, Real top, Real step, int samples,
                                  int iterations) {
  int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= width || py >= height) return;
  float red = 0, green = 0, blue = 0;
  for (int s = 0; s < samples * samples; s++) {
    Real x = left + (px * samples + s % samples + Real(0.5)) * step;
    Real y = top - (py * samples + s / samples + Real(0.5)) * step;
    float n = stepsToEscape(x, y, iterations);
    if (n < 0) continue; // points of the set are black
    float angle = 3 + 0.15f * n;
    red += 0.5f + 0.5f * __cosf(angle);
    green += 0.5f + 0.5f * __cosf(angle + 0.6f);
    blue += 0.5f + 0.5f * __cosf(angle + 1.0f);
  }
  float scale = 255.0f / (samples * samples);
  pixels[py * width + px] = make_uchar4(red * scale + 0.5f, green * scale + 0.5f, blue * scale + 0.5f, 255);
}
`;

/** How much of the plane the picture's height is with a zoom of 1. */
const planeHeight = 2.4;

const usage = "mandelbrot [--width 960] [--height 640] [--center -0.7,0] [--zoom 1] [--iterations 500] [--samples 2] " +
  "[--out mandelbrot.png] [--terminal yes|no]";
const about = `
Renders the Mandelbrot set with a kernel in CUDA C++, writes a PNG, and shows it in the terminal. NVRTC compiles the
kernel, which needs no GPU: \`pip install nvidia-cuda-nvrtc\` is enough.

--width <n>, --height <n>  the size of the picture, in pixels
--center <x>,<y>           the point of the plane in the middle, such as -0.7436,0.1318
--zoom <factor>            how much larger than the whole set; above 500, the kernel computes with doubles
--iterations <n>           how many steps a point may take to escape; a large zoom needs more
--samples <n>              each pixel is the mean of n × n points
--out <path>               the file to write
--terminal yes|no          whether the terminal shows the picture; yes if the output is a terminal
`;

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(
    ["width", "height", "center", "zoom", "iterations", "samples", "out", "terminal"],
  );
  refuseSurplus(positional);
  const width = parseCount(named.width ?? "960", { what: "the width", least: 1 });
  const height = parseCount(named.height ?? "640", { what: "the height", least: 1 });
  const [x, y] = parseCenter(named.center ?? "-0.7,0");
  const zoom = Number(named.zoom ?? "1");
  if (!(zoom > 0 && zoom < Infinity)) {
    throw new UsageError(`Cannot use "${named.zoom}" as the zoom: it must be a number above 0`);
  }
  const iterations = parseCount(named.iterations ?? "500", { what: "the number of iterations", least: 1 });
  if (iterations >= 2 ** 31) throw new UsageError(`Cannot make ${iterations} iterations: 2147483647 is the most`);
  const samples = parseCount(named.samples ?? "2", { what: "the number of samples", least: 1 });
  if (samples > 64) throw new UsageError(`Cannot take ${samples} × ${samples} samples of a pixel: 64 × 64 is the most`);
  const { out = "mandelbrot.png", terminal = process.stdout.isTTY ? "yes" : "no" } = named;
  if (terminal !== "yes" && terminal !== "no") {
    throw new UsageError(`Cannot use "${terminal}" as --terminal: it is yes or no`);
  }

  using cuda = open();
  const gpu = cuda.device(0);
  // Floats are quicker, and near enough until neighboring samples differ in the last few bits only.
  const defines = { Real: zoom > 500 ? "double" : "float" };
  using module = gpu.compile(source, { name: "mandelbrot.cu", defines });
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using pixels = pool.allocate(4 * width * height, stream);
  using begin = gpu.createEvent({ timing: true });
  using end = gpu.createEvent({ timing: true });

  const step = planeHeight / zoom / height / samples;
  const left = x - width * samples / 2 * step;
  const top = y + height * samples / 2 * step;
  stream.record(begin);
  module.kernel("render").launch(
    { grid: [Math.ceil(width / 32), Math.ceil(height / 8)], block: [32, 8], stream },
    pixels,
    width,
    height,
    left,
    top,
    step,
    samples,
    iterations,
  );
  stream.record(end);
  const picture = { width, height, pixels: await pixels.read(Uint8Array, { signal }) };
  const milliseconds = end.elapsedTime(begin);

  if (terminal === "yes") console.log(halfBlocks(shrink(picture, sizeInTerminal(picture, 2))).join("\n"));
  const png = encodePng([picture]);
  writeFileSync(out, png);
  console.log(
    `${gpu.name}: ${width} × ${height} pixels in ${milliseconds.toFixed(1)} ms. ${out} has ${png.length} bytes`,
  );
}

function parseCenter(text: string): [number, number] {
  const match = /^([^,\s]+),([^,\s]+)$/.exec(text);
  const [x, y] = [Number(match?.[1]), Number(match?.[2])];
  if (!Number.isFinite(x) || !Number.isFinite(y)) {
    throw new UsageError(`Cannot use "${text}" as the center: it is two numbers, such as -0.7436,0.1318`);
  }
  return [x, y];
}

await runProgram("mandelbrot", main, { usage, about });
