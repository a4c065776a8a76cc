import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { formatReport } from "../../bench/harness/results.ts";
import { open } from "../../mod.ts";
import { cudaErrorNumbers } from "../../src/support/errors.ts";
import { benchmarkTable, cellsOfTable } from "./benchmark_table.ts";
import type { Block } from "./blocks.ts";
import { saveCheckedBlocks } from "./checked_blocks.ts";
import { commandsOf, isShell, problemOf, problemOfTask } from "./commands.ts";
import { foldersToMap, pathsOfMap } from "./map.ts";
import { codesOfPage, headingsOfPage, isMessageOf, stringsOfSource } from "./messages.ts";
import {
  blocks,
  examples,
  filesBelow,
  firstMissing,
  isFragment,
  isScript,
  nameOf,
  pages,
  pastedPages,
  readProjectFile,
  root,
  runTogether,
  scriptGroups,
  shownOutput,
  TemporaryFolder,
} from "./scripts.ts";
import { testedCompilers } from "../compile/compilers.ts";
import { startCommand } from "../support/child_process.ts";
import { reportKinds } from "../../src/sanitizer/reporting/suppressions.ts";
import { driversUnderTest } from "../support/drivers.ts";
import { test } from "../support/test.ts";

const withoutDeno = "Deno" in globalThis ? false : "only Deno checks types";

/** Examples that are type-checked but not run, with the reason. */
const notRun: Readonly<Record<string, string>> = {
  "src/memory/handles/shareable_handle.ts": "sends to another process",
  "src/sharing/channel/channel_consumer.ts": "reads another process's frames",
  "src/sharing/channel/channel_producer.ts": "waits for another process",
  "src/sharing/exporter/exporter.ts": "listens where this user may not",
  "src/sharing/exporter/lease.ts": "needs an exporter that has importers",
  "src/sharing/importer/importer.ts": "connects to another process",
  "src/sharing/importer/remote_offer.ts": "maps what another process offers",
  "src/sharing/operator/operator.ts": "connects to another process",
  "src/sharing/operator/prometheus_text.ts": "needs an exporter",
  "src/sharing/store/memory_store.ts": "listens where this user may not",
  "src/sharing/store/store_client.ts": "connects to another process",
  "src/sharing/transport/unix_listener.ts": "listens where this user may not",
  "src/sharing/transport/unix_socket.ts": "connects to another process",
  "src/weights/moved_weights.ts": "needs weights in a store",
  "src/weights/weights.ts": "needs weights in a store",
};
const isRun = (block: Block) => !(isFragment(block) && block.file in notRun);
/** Each script costs a process; .ci/long includes all of them. */
function isVariant(run: readonly Block[]): boolean {
  return run.every(({ file }) => !pastedPages.includes(file));
}

/** The scripts run with FFI permission alone, and then NVRTC is the only compiler. */
const withoutNvrtc = testedCompilers.find(({ name }) => name === "nvrtc")!.skip;
const compiles = ({ text }: Block) => /\b(cuda|gpu)\.compile\(/.test(text);

for (const run of [...scriptGroups(blocks), ...scriptGroups(examples.filter(isRun))]) {
  for (const { name: driver, skip } of driversUnderTest.filter(({ name }) => name === "software" || name === "cuda")) {
    test(
      `${run.map(nameOf).join(" and ")}: prints what it shows [${driver}]`,
      { skip: skip || (run.some(compiles) && withoutNvrtc), long: isVariant(run) },
      async () => {
        for (const [index, { lines, errors, ended }] of (await runTogether(run, driver)).entries()) {
          const script = run[index]!;
          assertEquals([ended, errors], [0, ""], nameOf(script));
          assert(lines.length > 0 || isFragment(script), `${nameOf(script)} prints nothing`);
          assertEquals(
            firstMissing(lines, shownOutput(script)),
            undefined,
            `${nameOf(script)} printed ${lines.join("\n")}`,
          );
        }
      },
    );
  }
}

test("wrong output and wrong commands are detected", () => {
  assert(scriptGroups(blocks).length >= 12 && examples.length >= 15, "Scripts and examples were found");
  assertEquals(firstMissing(["a 1", "b 2"], ["a 1", "when it is done: b 2"]), undefined);
  assertEquals(firstMissing(["Float32Array(3) [ 4.5, 4.5, 4.5 ]"], ["4.5, 4.5, ..."]), undefined);
  assertEquals(firstMissing(["b 2", "a 1"], ["a 1", "b 2"]), "b 2");
  assertEquals(firstMissing(["a 12"], ["a 1"]), "a 1");
  assertEquals(problemOf("deno task nothing"), "there is no task nothing");
  assertEquals(problemOf("deno run --allow-ffi examples/gone.ts"), "there is no examples/gone.ts");
  assertEquals(problemOf("deno run examples/demo.ts --gone 1"), "examples/demo.ts has no option --gone");
  assertEquals(problemOf("npx -y deno@2.9.6 task demo --bytes 1GiB --writers 4"), undefined);
});

/** The code blocks of `pastedPages` that are not run as they stand, with the reason. */
const notPasted: Readonly<Record<string, string>> = {
  'docs/guide.md: import { deepStrictEqual } from "node:assert";': "a test: another test here runs it by deno test",
};

test("every script of README.md and the guide can be pasted into a file, or has a reason why not", () => {
  const scripts = blocks.filter(({ file, language }) =>
    pastedPages.includes(file) && /^(ts|typescript)$/.test(language)
  );
  assert(scripts.length > 25, "Scripts were found");
  const others = scripts.filter((block) => !isScript(block));
  assertEquals(others.map(({ file, text }) => `${file}: ${text.split("\n")[0]}`), Object.keys(notPasted));
});

test("every example without a run has a reason, and every reason an example", () => {
  const omitted = examples.filter((block) => !isRun(block));
  assertEquals([...new Set(omitted.map(({ file }) => file))], Object.keys(notRun));
});

test("all TypeScript blocks, and the expressions in the tables of CUDA's calls, pass the type checker", {
  // Takes as much processor time as a hundred tests. .ci/run checks the same files together with all others.
  skip: withoutDeno,
  long: true,
}, () => {
  using folder = new TemporaryFolder();
  const config = fileURLToPath(new URL("deno.json", root));
  const { status, stderr } = spawnSync(process.execPath, [
    "check",
    "--quiet",
    "--config",
    config,
    ...saveCheckedBlocks(folder),
  ], {
    encoding: "utf8",
    env: { ...process.env, NO_COLOR: "1" },
  });
  assertEquals([status, stderr], [0, ""]);
});

test("the commands on the pages name existing files, tasks and options", () => {
  const commands = blocks.filter(isShell).flatMap((block) =>
    commandsOf(block).map((command) => `${nameOf(block)}: ${problemOf(command) ?? "right"}`)
  );
  assert(commands.length >= 10, "Commands were found");
  assertEquals(commands.filter((command) => !command.endsWith(": right")), []);
  const named = pages.flatMap((page) => [...readProjectFile(page).matchAll(/`deno task ([\w:]+)( \w+)?/g)]);
  assert(named.length > 0, "Tasks were found");
  const isWrong = (name: string, next = "") =>
    problemOfTask(name, next !== "" && name === "bench" ? [next.trim()] : []) !== undefined;
  assertEquals(named.filter(([, name, next]) => isWrong(name!, next)).map(([task]) => task), []);
});

test(
  "the test in the guide passes, and fails under the sanitizer without its event",
  { skip: withoutDeno, long: true },
  async () => {
    const block = blocks.find(({ file, language }) => file === "docs/guide.md" && language === "typescript")!;
    const wrong = { ...block, text: block.text.replace("computing.wait(copied);", "") };
    assert(wrong.text !== block.text);
    for (const [each, sanitize, code] of [[block, "1", 0], [wrong, "0", 0], [wrong, "1", 1]] as const) {
      using folder = new TemporaryFolder();
      const file = fileURLToPath(folder.save(each, "scale_test.ts"));
      const command = [process.execPath, "test", "--no-check", "--allow-ffi", "--no-config", file];
      await using child = startCommand(command, {
        env: { NO_COLOR: "1", POOLPASS_SANITIZE: sanitize, POOLPASS_SOFTWARE_SCHEDULE: "oldest" },
      });
      let output = "";
      for (let line = await child.nextLine(); line !== undefined; line = await child.nextLine()) output += `${line}\n`;
      assertEquals(await child.ended, code, output);
      const errors = await child.errors();
      if (code !== 0) assertStringIncludes(output + errors, "poolpass sanitizer: unordered-write-read");
    }
  },
);

test("every kind of report has its place on the sanitizer's pages, and every kind there can be suppressed", () => {
  const texts = ["docs/sanitizer.md", ...filesBelow("docs/sanitizer/", ".md")].map(readProjectFile);
  const kinds = Object.values(reportKinds).flat().filter((kind) => !kind.startsWith("possible-"));
  const missing = kinds.filter((kind) =>
    !texts.some((text) => text.includes(`\`${kind}\``) || text.includes(`## ${kind}\n`))
  );
  assertEquals(missing, []);
  const named = texts.flatMap((text) =>
    [...text.matchAll(/^(?:\| `|## )([a-z]+(?:-[a-z]+)*)(?:` |\n)/gm)].map((match) => match[1]!)
  );
  const others = ["type", "report", "end"];
  assert(named.length > 12, "Kinds were found");
  assertEquals(named.filter((kind) => ![...kinds, ...others].includes(kind)), []);
});

const troubleshooting = readProjectFile("docs/troubleshooting.md");

const withoutNvcc = spawnSync("nvcc", ["--version"]).status === 0 ? false : "there is no nvcc";

test("the nvcc command on the pages builds PTX", { skip: withoutNvcc, long: true }, () => {
  using folder = new TemporaryFolder();
  const [line] = blocks.filter(isShell).flatMap(commandsOf).filter((command) => command.startsWith("nvcc "));
  const ptx = `${folder.path}/saxpy.ptx`;
  const [program, ...args] = line!.replace(/ saxpy\.ptx$/, ` ${ptx}`).split(" ");
  const { status, stderr } = spawnSync(program!, args, { cwd: fileURLToPath(root), encoding: "utf8" });
  assertEquals([status, stderr], [0, ""]);
  using cuda = open({ driver: "software" });
  using module = cuda.device(0).loadModule(readFileSync(ptx, "utf8"));
  assertEquals(module.kernelNames, ["saxpy"]);
});

test("every heading of troubleshooting.md is a message of the sources", () => {
  const texts = [...filesBelow("src/", ".ts"), ...filesBelow("ffi/", ".ts")]
    .map((file) => stringsOfSource(readProjectFile(file))).join("\n");
  const headings = headingsOfPage(troubleshooting);
  assert(headings.length > 50, "Headings were found");
  assertEquals(headings.filter((heading) => !isMessageOf(heading, texts)), []);
  assert(!isMessageOf("Cannot find the moon: …", texts));
});

test("troubleshooting.md has every SharingError code, and only existing codes of CudaError", () => {
  const codes = /export type SharingErrorCode =([^;]*);/.exec(readProjectFile("src/support/errors.ts"))![1]!;
  const declared = [...codes.matchAll(/"([\w-]+)"/g)].map((match) => match[1]!);
  assertEquals(codesOfPage(troubleshooting, "Codes of SharingError"), declared);
  const ofCuda = codesOfPage(troubleshooting, "Codes of CudaError");
  assert(ofCuda.length > 10, "Codes were found");
  assertEquals(ofCuda.filter((code) => !(code in cudaErrorNumbers)), []);
});

test("the benchmark table has the numbers of the results", () => {
  assertEquals(cellsOfTable(readProjectFile("docs/performance.md"), "CuPy"), benchmarkTable());
});

test("the kept results of benchmarks are written as a benchmark writes them", () => {
  const files = filesBelow("bench/results/", ".json");
  assert(files.length > 3, files.join(" "));
  for (const file of files) assertEquals(readProjectFile(file), formatReport(JSON.parse(readProjectFile(file))), file);
});

test("the map in CONTRIBUTING.md names every folder of the sources, and only what exists", () => {
  const paths = pathsOfMap();
  assert(paths.length > 40, "Paths were found");
  assertEquals(paths.filter((path) => !existsSync(new URL(path, root))), []);
  assertEquals(foldersToMap().filter((folder) => !paths.includes(folder)), []);
});

test("the paths that CONTRIBUTING.md names exist", () => {
  const paths = [...readProjectFile("CONTRIBUTING.md").matchAll(/`((?:[\w.]+\/)+[\w.]*)`/g)].map((match) => match[1]!);
  assert(paths.length > 30, "Paths were found");
  // What tasks write is not there yet in a new clone.
  const kept = paths.filter((path) => !path.startsWith("dist/"));
  assertEquals(kept.filter((path) => !existsSync(new URL(path, root))), []);
});

test("the links on the pages lead to existing files", () => {
  const links = pages.flatMap((page) =>
    [...readProjectFile(page).matchAll(/\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)/g)].map((match) => ({
      page,
      to: match[1]!,
    }))
  );
  assert(links.length > 0, "Links were found");
  const broken = links.filter(({ page, to }) => !existsSync(new URL(to, new URL(page, root))));
  assertEquals(broken, []);
});
