/** The examples of communicators, in one process, in several, and as a launcher starts them. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startScript } from "../support/child_process.ts";
import { test } from "../support/test.ts";

interface Run {
  readonly code: number | string;
  readonly lines: readonly string[];
  readonly errors: string;
}

interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly permissions?: readonly string[];
}

const inProcesses = ["--allow-ffi", "--allow-run"];
const alone = ["--allow-ffi"];
const launched = ["--allow-ffi", "--allow-env", "--allow-net"];

async function run(command: string, { env = {}, permissions = inProcesses }: RunOptions = {}): Promise<Run> {
  const [program, ...args] = command.split(" ");
  await using child = startScript(`../examples/${program}.ts`, args, {
    permissions,
    env: { POOLPASS_DRIVER: "software", NO_COLOR: "1", ...env },
  });
  const lines: string[] = [];
  for (let line = await child.nextLine(); line !== undefined; line = await child.nextLine()) lines.push(line);
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

test("all_reduce_bandwidth measures 2 processes, and draws what it has measured", async () => {
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
  for (const reduction of ["sum", "product", "minimum", "maximum", "average"]) {
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
  ["all_reduce_bandwidth --one-process --ranks 1 --from 64 --to 8", "Cannot go from 64 to 8 bytes: give a larger --to"],
];

for (const [command, message] of wrong) {
  test(`${command} is refused`, { long: !/ranks 9|factor|from 64/.test(command) }, async () => {
    const { code, errors } = await run(command);
    assertEquals(code, 1);
    assertStringIncludes(errors, message);
    assert(!errors.includes("    at "), errors);
  });
}
