import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { existsSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { open as openFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { encodeHeader, type SampleTensor, writeSample } from "../../examples/weights/sample_file.ts";
import { type ChildProcess, remainingLines, startScript } from "../support/child_process.ts";
import { driversUnderTest } from "../support/drivers.ts";
import { test } from "../support/test.ts";

/** What a program has printed when it has ended. */
interface Output {
  readonly code: number | string;
  readonly lines: readonly string[];
  readonly errors: string;
}

interface Place {
  readonly folder: string;
  readonly file: string;
  /** Starts the example with these arguments. */
  start(...args: string[]): ChildProcess;
  /** The same, with the store's path, and waits for its end. */
  run(...args: string[]): Promise<Output>;
}

/**
 * Declares a test of the example's programs beside a running store, on each driver that a program's environment can
 * select.
 */
function testWithStore(name: string, body: (place: Place) => Promise<void>, { long = false } = {}): void {
  for (const driver of driversUnderTest.filter(({ name }) => name === "software" || name === "cuda")) {
    test(`${name} [${driver.name}]`, { skip: driver.skip, long }, async () => {
      const folder = mkdtempSync(join(tmpdir(), "poolpass-"));
      try {
        await using children = new AsyncDisposableStack();
        const start = (...args: string[]): ChildProcess => {
          const permissions = ["--allow-ffi", "--allow-run", "--allow-read", "--allow-write"];
          const env = { POOLPASS_DRIVER: driver.name };
          return children.use(startScript("../examples/weights_store.ts", args, { permissions, env }));
        };
        const store = join(folder, "store.sock");
        const server = start("serve", "--store", store);
        const run = (...args: string[]) => outputOf(start(...args, "--store", store));
        await body({ folder, file: join(folder, "model.safetensors"), start, run });
        server.kill("SIGTERM");
        assertEquals(await server.ended, 0, await server.errors());
        assert(!existsSync(store), "The socket's file was left behind");
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  }
}

async function outputOf(child: ChildProcess): Promise<Output> {
  const lines = await remainingLines(child);
  return { code: await child.ended, lines, errors: await child.errors() };
}

async function makeSample(path: string, byteLength: number): Promise<readonly SampleTensor[]> {
  await using file = await openFile(path, "w");
  return await writeSample(file, byteLength, { signal: new AbortController().signal, onProgress() {} });
}

function assertSucceeded({ code, errors }: Output): void {
  assertEquals(code, 0, errors);
}

function assertFailed({ code, errors }: Output, message: string): void {
  assertEquals(code, 1, errors);
  assertStringIncludes(errors, message);
  assert(!errors.includes("    at "), `A stack trace is no message: ${errors}`);
}

testWithStore("weights that one process has published are mapped when it has ended", async (place) => {
  const { file, run } = place;
  const tensors = await makeSample(file, 3_000_000);
  // It waits.
  const first = run("map", "--rows", "3");
  const published = await run("publish", file, "--verify", "yes");
  assertSucceeded(published);
  assertMatch(published.errors, /100 % loaded/);
  const revision = /Published (\d+) tensors as weights@([0-9a-f]{64}) in \d+ ms/.exec(published.errors);
  assertEquals(revision?.[1], String(tensors.length), published.errors);
  const second = await run("map", "--rows", "3", "--name", `weights@${revision![2]}`, "--verify", "yes");
  for (const output of [await first, second]) {
    assertSucceeded(output);
    const [mapped, count, head, ...rest] = output.lines;
    assertMatch(mapped!, /^Mapped 2\.9 MiB, generation 1, in [\d.]+ ms; connected in \d+ ms$/);
    assertEquals(count, `3 of ${tensors.length} tensors:`);
    assertEquals(head!.split(/ {2,}/), ["tensor", "dtype", "shape", "byteLength"]);
    assertMatch(rest[0]!, /^model\.layers\.0\.input_layernorm\.weight +float32 +\[\d+\] +\d+$/);
  }
  const byteLength = tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
  assert(byteLength > 2_990_000 && byteLength <= 3_000_000, `The sample has ${byteLength} bytes`);
  assertEquals(second.lines.at(-1), `The digest of the memory is ${revision![2]}, as published`);
  // The next generation replaces this one.
  assertSucceeded(await run("publish", file));
  assertStringIncludes((await run("map")).lines[0]!, "generation 2");
});

testWithStore("tensors that a file has not aligned are published, and their names printed", async ({ file, run }) => {
  const lengths = [3, 0, 70_000, 1, 256, 255, 4097];
  let byteOffset = 0;
  const tensors = lengths.map((byteLength, index): SampleTensor => {
    const tensor = { name: `tensor ${index}\u001b[2J`, dtype: "I8", shape: [1, byteLength], byteOffset, byteLength };
    byteOffset += byteLength;
    return tensor;
  });
  writeFileSync(file, encodeHeader({ metadata: new Map(), tensors }));
  writeFileSync(file, Uint8Array.from({ length: byteOffset }, (_, index) => index % 251), { flag: "a" });
  assertSucceeded(await run("publish", file, "--name", "odd", "--verify", "yes"));
  const output = await run("map", "--name", "odd", "--verify", "yes");
  assertSucceeded(output);
  assertEquals(output.lines[9]!.split(/ {2,}/), ["tensor 6\\u001b[2J", "int8", "[1,4097]", "4097"]);
}, { long: true });

testWithStore("a file that is cut is noticed", async ({ file, run }) => {
  await makeSample(file, 100_000);
  truncateSync(file, 99_999);
  assertFailed(await run("publish", file), `Cannot read "${file}": it is not a safetensors file: its tensors have`);
}, { long: true });

testWithStore("the demonstration kills the process that has loaded the weights", async ({ start }) => {
  const output = await outputOf(start("demo", "--size", "5MiB"));
  assertSucceeded(output);
  const text = output.lines.join("\n");
  assertMatch(text, /^Killed process \d+, which has loaded the weights\. Another one maps them:\nMapped 5\.0 MiB/);
  assertMatch(text, /The digest of the memory is [0-9a-f]{64}, as published$/);
}, { long: true });

for (
  const [what, args, message] of [
    ["no command", [], "A command is needed"],
    ["an unknown command", ["import"], 'There is no command "import"'],
    ["no file", ["publish", "--store", "/tmp/a.sock"], "One argument is needed: a file"],
    ["a file too many", ["map", "a", "--store", "/tmp/a.sock"], "There are too many arguments"],
    ["no store", ["map"], "--store is needed"],
    [
      "another way to stay",
      ["publish", "a", "--store", "/tmp/a.sock", "--stay", "no"],
      'Cannot use "no" as --stay: yes',
    ],
    ["a sample without room for a tensor", ["make", "/dev/null", "--size", "1"], "A model of 1 bytes has no tensors"],
  ] as const
) {
  test(`weights_store refuses ${what}`, { long: what !== "no store" }, async () => {
    const permissions = ["--allow-ffi", "--allow-read", "--allow-write"];
    const env = { POOLPASS_DRIVER: "software" };
    await using child = startScript("../examples/weights_store.ts", args, { permissions, env });
    assertFailed(await outputOf(child), message);
  });
}
