/** The examples of communicators, in one process, in several, and as a launcher starts them. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compilerHere } from "../support/compiler_here.ts";
import { remainingLines, startScript } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass } from "../support/poolpass.ts";
import { isLong, test } from "../support/test.ts";

interface Run {
  readonly code: number | string;
  readonly lines: readonly string[];
  readonly errors: string;
}

interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly permissions?: readonly string[];
}

/** The programs that take longest. `all_reduce_bandwidth` runs on each runtime, and they ask nothing else of it. */
const long = !("Deno" in globalThis);
const inProcesses = ["--allow-ffi", "--allow-run"];
const alone = ["--allow-ffi"];
const launched = ["--allow-ffi", "--allow-env", "--allow-net"];

async function run(command: string, { env = {}, permissions = inProcesses }: RunOptions = {}): Promise<Run> {
  const [program, ...args] = command.split(" ");
  await using child = startScript(`../examples/${program}.ts`, args, {
    permissions,
    env: { POOLPASS_DRIVER: "software", NO_COLOR: "1", ...env },
  });
  const lines = await remainingLines(child);
  return { code: await child.ended, lines, errors: await child.errors() };
}

async function succeed(command: string, options?: RunOptions): Promise<string[]> {
  const { code, lines, errors } = await run(command, options);
  assertEquals([code, errors], [0, ""], command);
  return [...lines];
}

/** Runs a program as `torchrun` does. */
async function launch(command: string, size: number): Promise<string[][]> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  const common = { WORLD_SIZE: `${size}`, MASTER_ADDR: "127.0.0.1", MASTER_PORT: `${port}` };
  const secret = { RENDEZVOUS_TOKEN: "a secret of these tests" };
  return await Promise.all(Array.from({ length: size }, (_, rank) => {
    const env = { ...common, ...secret, RANK: `${rank}`, LOCAL_RANK: `${rank}` };
    return succeed(command, { env, permissions: launched });
  }));
}

/** The rows of a table of `all_reduce_bandwidth`. */
function bandwidthRows(lines: readonly string[]): string[][] {
  return lines.filter((line) => !line.startsWith("#")).map((line) => line.trim().split(/ +/));
}

function checkBandwidths(lines: readonly string[], sizes: readonly number[]): void {
  const rows = bandwidthRows(lines);
  assertEquals(rows.map(([size]) => Number(size)), sizes);
  for (const row of rows) {
    assertEquals(row.length, 13, row.join(" "));
    const [size, count, type, , root, time, , , wrong, timeInPlace, , , wrongInPlace] = row;
    assertEquals([Number(size) / 4, type, root, wrong, wrongInPlace], [Number(count), "float", "-1", "0", "0"]);
    assert(Number(time) > 0 && Number(timeInPlace) > 0, row.join(" "));
  }
  assertStringIncludes(lines.join("\n"), "# Out of bounds values : 0 OK");
}

test("all_reduce_bandwidth measures 2 processes, and draws what it has measured", { long: true }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "poolpass-"));
  try {
    const plot = join(folder, "plot.svg");
    const lines = await succeed(`all_reduce_bandwidth --ranks 2 --to 4KiB --factor 8 --plot ${plot}`, {
      permissions: [...inProcesses, `--allow-write=${plot}`],
    });
    assertMatch(lines[0]!, /^# 2 ranks, rank 0 on poolpass software device, 5 iterations after 5$/);
    checkBandwidths(lines, [8, 64, 512, 4096]);
    const svg = readFileSync(plot, "utf8");
    assertMatch(svg, /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg"[^]*<\/svg>\n$/);
    assertEquals(svg.match(/<circle /g)?.length, 8);
    assert(!/NaN|Infinity|undefined/.test(svg), svg);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("all_reduce_bandwidth runs with all ranks in one process, with each reduction", async () => {
  for (const reduction of isLong ? ["sum", "product", "minimum", "maximum", "average"] : ["sum"]) {
    const command = `all_reduce_bandwidth --one-process --ranks 3 --from 100 --to 1KiB --reduction ${reduction}`;
    checkBandwidths(await succeed(command, { permissions: alone }), [100, 200, 400, 800]);
  }
});

test("all_reduce_bandwidth is a rank of torchrun", async () => {
  const [first, ...others] = await launch("all_reduce_bandwidth --to 64", 3);
  checkBandwidths(first!, [8, 16, 32, 64]);
  assertEquals(others, [[], []]);
});

test("all_reduce_bandwidth measures 8 processes", { long: true }, async () => {
  checkBandwidths(await succeed("all_reduce_bandwidth --ranks 8 --to 4KiB --factor 512"), [8, 4096]);
});

test("sgd has the same losses with any number of ranks, and the same parameters in all", { long }, async () => {
  const sizes = isLong ? [2, 4] : [2];
  const lines = await succeed(`sgd --ranks 1,${sizes} --steps 40`);
  assertEquals(lines[0]!.split(/ {2,}/), ["step", "loss, 1 rank", ...sizes.map((size) => `loss, ${size} ranks`)]);
  const ends = lines.splice(-2 - sizes.length);
  const rows = lines.slice(1).map((line) => line.split(/ +/).map(Number));
  assertEquals(rows.map(([step]) => step), [0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 39]);
  for (const [, ...losses] of rows) {
    for (const loss of losses) assert(Math.abs(loss / losses[0]! - 1) < 1e-5, losses.join(" "));
  }
  const [first, last] = [rows[0]![1]!, rows.at(-1)![1]!];
  assert(last < first / 10, `the loss falls from ${first} to ${last}`);
  assert(Number(/^The losses differ by at most (\S+) of their value$/.exec(ends[0]!)![1]) < 1e-4, ends[0]);
  assertMatch(ends[1]!, /^1 rank has 129 parameters: checksum [0-9a-f]{8}$/);
  for (const [index, size] of sizes.entries()) {
    const same = new RegExp(`^All ${size} ranks have the same 129 parameters, to the bit: checksum [0-9a-f]{8}$`);
    assertMatch(ends[2 + index]!, same);
  }
});

test(
  "sgd computes the same with its ranks in one process, in several, and under a launcher",
  { long: true },
  async () => {
    const args = "--steps 6 --batch 60 --hidden 5 --rate 0.1";
    const inOne = await succeed(`sgd ${args} --ranks 3 --one-process`, { permissions: alone });
    assertMatch(inOne.at(-1)!, /^All 3 ranks have the same 21 parameters/);
    assertEquals(await succeed(`sgd ${args} --ranks 3`), inOne);
    assertEquals(await launch(`sgd ${args}`, 3), [inOne, [], []]);
  },
);

test("sgd trains with 8 processes", { long: true }, async () => {
  const lines = await succeed("sgd --ranks 8 --steps 10");
  assertMatch(lines.at(-1)!, /^All 8 ranks have the same 129 parameters/);
});

function checkHalo(lines: readonly string[], size: number, rows: number): void {
  assert(lines[0]!.startsWith(`${size === 1 ? "1 rank" : `${size} ranks`} of ${rows} rows: `), lines[0]);
  assertMatch(lines.at(-1)!, /^Both plates are the same, to the bit\. The mean temperature is \d+\.\d{4}$/);
  assert(Number(lines.at(-1)!.split(" ").at(-1)) > 1, lines.at(-1));
}

test("halo computes the plate of one GPU, among processes and in one", { long }, async () => {
  checkHalo(await succeed("halo --ranks 2 --steps 10"), 2, 48);
  checkHalo(
    await succeed("halo --ranks 3 --one-process --width 37 --height 9 --steps 50", { permissions: alone }),
    3,
    3,
  );
});

test("halo computes the plate of one GPU with 1, 4 and 8 ranks, and under a launcher", { long: true }, async () => {
  checkHalo(await succeed("halo --ranks 1 --steps 5"), 1, 96);
  checkHalo(await succeed("halo --ranks 4 --steps 30"), 4, 24);
  checkHalo(await succeed("halo --ranks 8 --steps 30"), 8, 12);
  const [first, ...others] = await launch("halo --steps 20", 2);
  checkHalo(first!, 2, 48);
  assertEquals(others, [[]]);
});

test("the sanitizer finds nothing in the examples of communicators", { long: true }, async () => {
  const options = { permissions: alone, env: { POOLPASS_SANITIZE: "1" } };
  for (
    const command of [
      "halo --steps 4 --width 20 --height 12",
      "sgd --steps 3 --batch 12",
      "all_reduce_bandwidth --to 64",
    ]
  ) await succeed(`${command} --ranks 2 --one-process`, options);
});

const folder = fileURLToPath(new URL("../../examples/kernels/", import.meta.url));

for (const file of readdirSync(folder).filter((name) => name.endsWith(".ts"))) {
  const module = readFileSync(join(folder, file), "utf8");
  const [, command = "", recorded = ""] =
    /^\/\/ Generated from \S+ by `poolpass (.*)`, compiled by (.*)\. Do not edit\.\n/.exec(module) ?? [];
  const here = compilerHere();
  const skip = here !== recorded && `it was compiled by ${recorded}, and ${here ?? "no compiler"} is found`;
  test(`poolpass bind gives examples/kernels/${file}`, { skip, long: true }, async () => {
    const [source, ...options] = command.split(" ").slice(1);
    await inFolder(async (temporary) => {
      const out = join(temporary, file);
      const { code, errors } = await poolpass("bind", join(folder, source!), "--out", out, ...options);
      assertEquals([code, errors], [0, ""]);
      assertEquals(readFileSync(out, "utf8"), module);
    });
  });
}

const wrong: readonly (readonly [command: string, message: string])[] = [
  ["all_reduce_bandwidth --ranks 9", "Cannot start 9 ranks: on the software device, 8 is the most"],
  ["all_reduce_bandwidth --ranks 1,2", "Cannot use several numbers of ranks: give one"],
  ["all_reduce_bandwidth --ranks none", 'Cannot use "none" as the number of ranks'],
  ["all_reduce_bandwidth --from 3", "Cannot reduce 3 bytes: an element has 4"],
  ["all_reduce_bandwidth --factor 1", 'Cannot use "1" as the factor: it must be a whole number from 2'],
  ["all_reduce_bandwidth --reduction mean", 'Cannot use "mean" as --reduction: it is one of sum, product'],
  ["all_reduce_bandwidth --one-process=yes", "Cannot use --one-process=yes: --one-process takes no value"],
  ["all_reduce_bandwidth --one-proces", "There is no option --one-proces, did you mean --one-process?"],
  ["all_reduce_bandwidth more", 'Unexpected argument "more"'],
  ["all_reduce_bandwidth --child 0", "--child needs a socket"],
  ["sgd --ranks 3 --steps 1", "Cannot divide a batch of 256 samples among 3 ranks: give another --batch"],
  ["sgd --rate 0", 'Cannot use "0" as the rate: it must be a number above 0'],
  ["sgd --steps 0", 'Cannot use "0" as the number of steps'],
  ["sgd --steps 100000000", "2147483647 samples is the most"],
  ["halo --ranks 5 --one-process", "Cannot divide 96 rows among 5 ranks: each needs the same number, of at least 3"],
  ["halo --ranks 2,4", "Cannot use several numbers of ranks: give one"],
  ["halo --height 2", 'Cannot use "2" as the height: it must be a whole number from 3'],
  ["all_reduce_bandwidth --one-process --ranks 1 --from 64 --to 8", "Cannot go from 64 to 8 bytes: give a larger --to"],
];

for (const [command, message] of wrong) {
  test(`${command} is refused`, { long: !/ranks 9|ranks 5/.test(command) }, async () => {
    const { code, errors } = await run(command);
    assertEquals(code, 1);
    assertStringIncludes(errors, message);
    assert(!errors.includes("    at "), errors);
  });
}
