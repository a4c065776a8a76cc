import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { readArguments, runProgram } from "../../examples/command_line.ts";
import { benchmarks, fileOf } from "../../bench/main.ts";
import { version } from "../../mod.ts";
import { test } from "../support/test.ts";
import { taskCommands } from "../support/tasks.ts";

const isDeno = "Deno" in globalThis;
const root = new URL("../../", import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), "utf8");
const examples = readdirSync(new URL("examples/", root)).filter((name) => name.endsWith(".ts"))
  .map((name) => `examples/${name}`);
/** `saxpy.ts` is the first one to read, and takes no arguments. */
const withoutHelp = ["examples/saxpy.ts"];

/** Runs a program in this process with these arguments. Returns what it prints and its exit code. */
async function runHere(
  args: readonly string[],
): Promise<{ ran: boolean; output: string; errors: string; code: unknown }> {
  const { argv, exitCode } = process;
  const { log } = console;
  const write = process.stderr.write;
  let [output, errors, ran] = ["", "", false];
  try {
    process.argv = [argv[0]!, argv[1]!, ...args];
    process.exitCode = 0;
    console.log = (text: string) => void (output += `${text}\n`);
    process.stderr.write = ((text: string) => (errors += text) !== "") as typeof process.stderr.write;
    await runProgram("taker", () => {
      readArguments(["bytes", "writers"]);
      ran = true;
      return Promise.resolve();
    }, { usage: "taker [--bytes 1MiB]", about: "\nTakes bytes.\n" });
    return { ran, output, errors, code: process.exitCode };
  } finally {
    process.argv = argv;
    process.exitCode = exitCode ?? 0;
    console.log = log;
    process.stderr.write = write;
  }
}

test("examples print their help and the version, and name the option that was meant", async () => {
  const help = await runHere(["--help"]);
  assertEquals([help.ran, help.code], [false, 0]);
  assertMatch(help.output, /^Usage: taker \[--bytes 1MiB\]\n\nTakes bytes\.\n/);
  assertEquals((await runHere(["--version"])).output, `poolpass ${version}\n`);
  assertEquals((await runHere(["--bytes", "1MiB"])).ran, true);
  const mistyped = [["--byts", "bytes"], ["--writer", "writers"], ["--hlep", "help"]];
  for (const [given, meant] of mistyped) {
    const { ran, errors, code } = await runHere([given!, "1"]);
    assertEquals([ran, code], [false, 1]);
    assertStringIncludes(errors, `There is no option ${given}, did you mean --${meant}?`);
  }
  assertMatch((await runHere(["--socket", "1"])).errors, /There is no option --socket; --help lists the options/);
});

test("the program of each task, and each example, answers --help", () => {
  const ofTasks = Object.values(taskCommands()).flatMap((command) => command.match(/(?<=^deno run .*)\S+\.ts$/g) ?? []);
  assert(ofTasks.length > 6, ofTasks.join(" "));
  const ofBenchmarks = Object.keys(benchmarks).map((name) => `bench/${fileOf(name)}`);
  assert(ofBenchmarks.length > 12, ofBenchmarks.join(" "));
  const ofExamples = examples.filter((path) => /^(await|if \(await|using cuda) /m.test(read(path)));
  assert(ofExamples.length > 12, ofExamples.join(" "));
  const without = [...ofTasks, ...ofBenchmarks, ...ofExamples].filter((path) => {
    return !/\b(answerHelp|readOptions)\(import\.meta\.url|\bawait runProgram\(|\bawait run\(process\.argv/.test(
      read(path),
    ) &&
      path !== "bench/main.ts";
  });
  assertEquals(without, withoutHelp);
});

test("deno task bench has every benchmark", () => {
  const programs = readdirSync(new URL("bench/", root), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith("/main.ts"));
  assertEquals(Object.keys(benchmarks).map(fileOf).filter((path) => path !== "cuda/plot.ts").sort(), programs.sort());
});

test(
  "deno task bench lists the benchmarks if there is none of a name",
  { skip: !isDeno && "only on Deno" },
  async () => {
    const wrong = await printed("bench/main.ts", "sofware");
    assertEquals(wrong.code, 2);
    assertMatch(wrong.output, /There is no benchmark sofware; did you mean "software"\?\n/);
    for (const name of Object.keys(benchmarks)) assertMatch(wrong.output, new RegExp(`^${name} {2,}\\S`, "m"));
  },
);

test("the version is the same in all places", () => {
  assertEquals(JSON.parse(read("deno.json")).version, version);
  assertEquals(JSON.parse(read("package.json")).version, version);
});

test("every program prints what it does for --help", { skip: !isDeno && "only on Deno", long: true }, async () => {
  const programs = [...examples, ...toolPaths(), "cli/main.ts"].filter((path) =>
    /\b(answerHelp|readOptions)\(import\.meta\.url|^(?:await|if \(await) runProgram\(|\bawait run\(process\.argv/m.test(
      read(path),
    )
  );
  assert(programs.length > 30, programs.join(" "));
  for (const path of programs) {
    const { code, output } = await printed(path, "--help");
    assertEquals(code, 0, `${path}: ${output}`);
    assert(output.length > 80 && /Usage: |Options: /.test(output), `${path}: ${output}`);
  }
  const wrong = await printed("bench/waking/main.ts", "--ronds");
  assertEquals(wrong.code, 2);
  assertStringIncludes(wrong.output, "There is no option --ronds, did you mean --rounds?");
});

function toolPaths(): string[] {
  return [
    "bench",
    "packaging",
    "ffi/native/shim",
    "tests/soak",
    "tests/sharing",
    "tests/conformance",
    "tests/corpus",
  ]
    .flatMap((folder) =>
      readdirSync(new URL(`${folder}/`, root), { recursive: true, encoding: "utf8" })
        .filter((name) => name.endsWith(".ts")).map((name) => `${folder}/${name}`)
    );
}

function printed(path: string, option: string): Promise<{ code: number | null; output: string }> {
  const args = ["run", "--allow-all", "--no-lock", "--import-map", "import_map.json", path, option];
  const child = spawn(process.execPath, args, { cwd: fileURLToPath(root), stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => output += data);
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, output })));
}
