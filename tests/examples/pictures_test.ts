import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { encodePng, type Picture } from "../../examples/png.ts";
import { halfBlocks, shrink, sizeInTerminal } from "../../examples/terminal.ts";
import { testedCompilers } from "../compile/compilers.ts";
import { type ChildProcess, remainingLines, startScript } from "../support/child_process.ts";
import { driversUnderTest } from "../support/drivers.ts";
import { test } from "../support/test.ts";
import { colorAt, readHalfBlocks, type ReadPicture, readPng } from "./pictures.ts";

/** The programs run with FFI permission alone, and then NVRTC is the only compiler. */
const withoutNvrtc = testedCompilers.find(({ name }) => name === "nvrtc")!.skip;

interface Place {
  readonly folder: string;
  start(program: string, args: string[], permissions?: string[]): ChildProcess;
}

/** Declares a test of programs that compile CUDA C++, on each driver that a program's environment can select. */
function testPrograms(name: string, body: (place: Place) => Promise<void>, { long = false } = {}): void {
  for (const driver of driversUnderTest) {
    if (driver.name !== "software" && driver.name !== "cuda") continue;
    test(`${name} [${driver.name}]`, { skip: driver.skip || withoutNvrtc, long }, async () => {
      const folder = mkdtempSync(join(tmpdir(), "poolpass-"));
      try {
        await using children = new AsyncDisposableStack();
        const start = (program: string, args: string[], permissions: string[] = []) =>
          children.use(startScript(`../examples/${program}.ts`, args, {
            permissions: ["--allow-ffi", ...permissions],
            env: { POOLPASS_DRIVER: driver.name },
          }));
        await body({ folder, start });
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  }
}

async function assertEnds(child: ChildProcess, code: number): Promise<string[]> {
  const [lines, ended, errors] = await Promise.all([remainingLines(child), child.ended, child.errors()]);
  assertEquals(ended, code, errors);
  assert(!errors.includes("    at "), `A stack trace is no message: ${errors}`);
  return lines;
}

function assertNear(actual: readonly number[], expected: readonly number[], tolerance: number, where: string): void {
  const far = actual.length !== expected.length ||
    actual.some((value, index) => !(Math.abs(value - expected[index]!) <= tolerance));
  assert(!far, `${where} is ${actual}, not ${expected}`);
}

function noise(width: number, height: number): Picture {
  let state = 1;
  const pixels = new Uint8Array(4 * width * height).map(() => (state = state * 48271 % 0x7fffffff) >> 8);
  return { width, height, pixels };
}

const withoutAlpha = ({ pixels }: Picture) => pixels.filter((_, index) => index % 4 !== 3);

test("a PNG, and an animated one, has the pixels that it was given", () => {
  for (const [width, height] of [[1, 1], [7, 5], [64, 3]] as const) {
    const pictures = [1, 2, 3].map((value) => {
      const { pixels } = noise(width, height);
      return { width, height, pixels: pixels.map((byte) => byte * value) };
    });
    const single = readPng(encodePng(pictures.slice(0, 1)));
    assertEquals(single, { pictures: [{ width, height, pixels: withoutAlpha(pictures[0]!) }], delays: [] });
    const { pictures: read, delays } = readPng(encodePng(pictures, { delay: 300 }));
    assertEquals(read.map(({ pixels }) => pixels), pictures.map(withoutAlpha));
    assertEquals(delays, Array(3).fill([300, 1000]));
  }
});

test("half blocks show each pixel, and a smaller picture has the mean colors", () => {
  for (const [width, height] of [[1, 1], [6, 4], [5, 3]] as const) {
    const picture = noise(width, height);
    // Runs of one color are written once.
    picture.pixels.copyWithin(4, 0, 4);
    const rows = readHalfBlocks(halfBlocks(picture));
    assertEquals(rows.length, height + height % 2);
    assertEquals(rows.slice(0, height).flat(2), [...withoutAlpha(picture)]);
    if (height % 2 === 1) assertEquals(rows.at(-1), Array(width).fill([-1]));
  }
  const picture = noise(10, 7);
  assertEquals(shrink(picture, { width: 10, height: 7 }), picture);
  const small = shrink(picture, { width: 3, height: 2 });
  const columns = [3, 4, 5];
  const reds = [3, 4, 5, 6].flatMap((y) => columns.map((x) => picture.pixels[4 * (y * 10 + x)]!));
  assertEquals(small.pixels[4 * (1 * 3 + 1)], Math.round(reds.reduce((sum, red) => sum + red) / reds.length));
  const { width, height } = sizeInTerminal({ width: 4000, height: 1000 }, 1);
  assert(width >= 1 && height >= 1 && Math.abs(width / height - 4) < 0.3, `${width} × ${height}`);
});

/** The color that `mandelbrot.ts` gives a point, and after how many steps it escapes. */
function mandelbrotColor(cx: number, cy: number, iterations: number): { steps: number; color: number[] } {
  let [x, y] = [0, 0];
  for (let n = 0; n < iterations; n++) {
    [x, y] = [x * x - y * y + cx, 2 * x * y + cy];
    const square = x * x + y * y;
    if (square <= 65536) continue;
    const angle = 3 + 0.15 * (n + 4 - Math.log2(Math.log2(square)));
    return { steps: n, color: [0, 0.6, 1].map((phase) => Math.round(127.5 + 127.5 * Math.cos(angle + phase))) };
  }
  return { steps: iterations, color: [0, 0, 0] };
}

for (const [kind, x, y, zoom] of [["floats", -0.7, 0, 1], ["doubles", -0.743643887, 0.131825904, 2000]] as const) {
  testPrograms(`mandelbrot.ts renders with ${kind}`, async ({ folder, start }) => {
    const [width, height, out] = [48, 34, join(folder, "set.png")];
    const args = { center: `${x},${y}`, zoom, width, height, out, iterations: 600, samples: 1, terminal: "yes" };
    const child = start(
      "mandelbrot",
      Object.entries(args).flatMap(([name, value]) => [`--${name}`, String(value)]),
      [`--allow-write=${folder}`],
    );
    const lines = await assertEnds(child, 0);
    const bytes = readFileSync(out);
    const { pictures: [picture] } = readPng(bytes);
    assertEquals([picture!.width, picture!.height], [width, height]);
    const step = 2.4 / zoom / height;
    let [compared, black] = [0, 0];
    for (let row = 0; row < height; row++) {
      for (let column = 0; column < width; column++) {
        const at = [x + (column + 0.5 - width / 2) * step, y - (row + 0.5 - height / 2) * step] as const;
        const { steps, color } = mandelbrotColor(...at, 600);
        // Rounding decides where a point goes that stays near the set for long.
        if (steps > (zoom === 1 ? 24 : 300) && steps < 600) continue;
        compared++;
        if (steps === 600) black++;
        if (zoom === 1 || steps < 600) assertNear(colorAt(picture!, column, row), color, 2, `${column}, ${row}`);
      }
    }
    assert(compared > width * height / 2 && (zoom > 1 || black > 100), `${compared} compared, ${black} of them black`);
    const shown = readHalfBlocks(lines.slice(0, -1));
    assert(shown.length > 20 && shown[0]!.length > 20, `${shown.length} rows`);
    assertMatch(
      lines.at(-1)!,
      new RegExp(`: 48 × 34 pixels in \\d+\\.\\d ms\\. .*set\\.png has ${bytes.length} bytes`),
    );
  }, { long: zoom > 1 });
}

/** The plate of `heat_simulation.ts` after some steps. */
function simulate(width: number, height: number, steps: number): Float32Array {
  let now = new Float32Array(width * height);
  for (let count = 0; count < steps; count++) {
    const flameX = (0.5 + 0.38 * Math.sin(2 * count / 600)) * width;
    const flameY = (0.5 + 0.36 * Math.sin(3 * count / 600)) * height;
    now = now.map((t, at) => {
      const [x, y] = [at % width, Math.floor(at / width)];
      if ((x - flameX) ** 2 + (y - flameY) ** 2 < (0.06 * height) ** 2) return 100;
      const around = (x > 0 ? now[at - 1]! : t) + (x < width - 1 ? now[at + 1]! : t) +
        (y > 0 ? now[at - width]! : t) + (y < height - 1 ? now[at + width]! : t);
      return (t + 0.2 * (around - 4 * t)) * 0.999;
    });
  }
  return now;
}

function heatColor(temperature: number): number[] {
  const t = Math.min(1, temperature / 100);
  const blue = t < 0.3333 ? 0.4 * Math.sin(9.4248 * t) : 4 * t - 3;
  return [2.5 * t, 2.2 * t - 0.6, blue].map((value) => Math.round(255 * Math.max(0, Math.min(1, value))));
}

function assertShowsPlate(picture: ReadPicture, plate: Float32Array): void {
  for (const [at, temperature] of plate.entries()) {
    const [x, y] = [at % picture.width, Math.floor(at / picture.width)];
    assertNear(colorAt(picture, x, y), heatColor(temperature), 3, `${x}, ${y}`);
  }
}

const plateOptions = ["--width", "40", "--height", "26", "--steps", "10"];

testPrograms("heat.ts shows what its simulation computes in another process", async ({ folder, start }) => {
  const record = join(folder, "heat.png");
  const child = start(
    "heat",
    ["--frames", "4", "--record", record, "--rate", "20", ...plateOptions],
    ["--allow-run", `--allow-write=${folder}`],
  );
  const lines = await assertEnds(child, 0);
  const { pictures, delays } = readPng(readFileSync(record));
  assertEquals([pictures.length, ...delays[0]!], [4, 50, 1000]);
  for (const [index, picture] of pictures.entries()) {
    const plate = simulate(40, 26, 10 * (index + 1));
    assertShowsPlate(picture, plate);
    const [, step, mean] = /^step (\d+): mean (\d+\.\d+)°, hottest 100\.0°$/.exec(lines[index]!)!;
    assertEquals(Number(step), 10 * (index + 1));
    assertNear([Number(mean)], [plate.reduce((sum, t) => sum + t) / plate.length], 0.002, `The mean of step ${step}`);
  }
  assertEquals(lines.slice(4), [`${record} has 4 frames of 40 × 26`, "Drew 4 frames"]);
  assertMatch(await child.errors(), /\[simulation\] Sent \d+ frames/);
}, { long: true });

const toScreen = "\x1b[?1049h\x1b[?25l";
const fromScreen = "\x1b[0m\x1b[?25h\x1b[?1049l";

testPrograms("heat.ts restores the terminal when it is interrupted", async ({ start }) => {
  const child = start("heat", ["--terminal", "yes", "--rate", "1000", ...plateOptions], ["--allow-run"]);
  const first = await child.nextLine();
  // A picture of 40 × 26 pixels has 13 lines, and the text is at the beginning of the next picture's first line.
  const picture = [first!.slice(first!.indexOf("\x1b[H"))];
  for (let line = 1; line < 13; line++) picture.push((await child.nextLine())!);
  const plate = simulate(40, 26, 10);
  for (const [at, color] of readHalfBlocks(picture).flat().entries()) {
    assertNear(color, heatColor(plate[at]!), 3, `Pixel ${at}`);
  }
  assertMatch((await child.nextLine())!, /step 10, computed by process \d+\. Ctrl-C ends/);
  child.kill("SIGINT");
  const rest = await assertEnds(child, 130);
  assert(first!.startsWith(toScreen) && rest.at(-1)!.endsWith(fromScreen), rest.at(-1));
  assertStringIncludes(await child.errors(), "[heat] Interrupted");
}, { long: true });

/** Starts a simulation and a viewer, and resolves when the viewer has drawn something. */
async function startBoth(
  { folder, start }: Place,
  options: string[] = [],
): Promise<{ simulation: ChildProcess; viewer: ChildProcess; socketPath: string }> {
  const socketPath = join(folder, "heat.sock");
  const simulation = start("heat_simulation", [socketPath, ...plateOptions, ...options]);
  const viewer = await untilConnected(() => start("heat", [socketPath, "--terminal", "yes"]));
  return { simulation, viewer, socketPath };
}

/** Starts a viewer again until the simulation listens. */
async function untilConnected(start: () => ChildProcess): Promise<ChildProcess> {
  for (;;) {
    const viewer = start();
    if (await viewer.nextLine() !== undefined) return viewer;
    assertMatch(await viewer.errors(), /Cannot connect to/);
  }
}

for (const [signal, code, message] of [["SIGKILL", 1, /process \d+/], ["SIGINT", 0, undefined]] as const) {
  testPrograms(`a viewer ends, and restores the terminal, when its simulation gets ${signal}`, async (place) => {
    const { simulation, viewer } = await startBoth(place);
    simulation.kill(signal);
    assertEquals(await simulation.ended, signal === "SIGINT" ? 130 : signal);
    const output = (await assertEnds(viewer, code)).join("\n");
    assertStringIncludes(output, fromScreen);
    if (message !== undefined) assertMatch(await viewer.errors(), message);
    else assertMatch(output, /The simulation ended after \d+ frames$/);
  }, { long: true });
}

testPrograms("a simulation goes on for the next viewer, and ends after as many as it was told", async (place) => {
  const { simulation, viewer, socketPath } = await startBoth(place, ["--viewers", "2"]);
  viewer.kill("SIGKILL");
  const second = await assertEnds(place.start("heat", [socketPath, "--frames", "2"]), 0);
  assertEquals(second.at(-1), "Drew 2 frames");
  await assertEnds(simulation, 0);
  const errors = await simulation.errors();
  assertEquals([...errors.matchAll(/Viewer \d+ disconnected: /g)].length, 2, errors);
}, { long: true });

testPrograms("the programs refuse wrong options before they compile", async ({ folder, start }) => {
  for (
    const [program, args, message] of [
      ["mandelbrot", ["--center", "1"], 'Cannot use "1" as the center'],
      ["mandelbrot", ["--zoom", "-2"], 'Cannot use "-2" as the zoom'],
      ["mandelbrot", ["--terminal", "often"], 'Cannot use "often" as --terminal'],
      ["mandelbrot", ["--samples", "65"], "64 × 64 is the most"],
      ["mandelbrot", ["--iterations", "2147483648"], "2147483647 is the most"],
      ["heat_simulation", [folder, "--steps", "10001"], "10000 is the most"],
      ["heat", ["--terminal", "often"], 'Cannot use "often" as --terminal'],
      ["heat", ["--frames", "0"], 'Cannot use "0" as the number of frames'],
      ["heat", [folder, "--width", "3"], "--width is an option of heat_simulation"],
      ["heat", [join(folder, "none.sock")], "Cannot connect to"],
      ["heat_simulation", [], "One argument is needed: a socket's path"],
    ] as const
  ) {
    const child = start(program, [...args]);
    assertEquals(await assertEnds(child, 1), []);
    assertStringIncludes(await child.errors(), message);
  }
}, { long: true });
