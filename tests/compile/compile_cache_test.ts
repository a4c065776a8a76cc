import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import process from "node:process";
import { cachedCompiler, cachedSearch, cacheKey, CompileCache } from "../../src/compile/cache/compile_cache.ts";
import { checkProgram, type CompileOptions } from "../../src/compile/compile_options.ts";
import { type Compiler, type CompilerInput, type CompilerOutput, Compilers } from "../../src/compile/compilers.ts";
import { open } from "../../mod.ts";
import { noPython, startHostile } from "../sharing/hostile/hostile_peers.ts";
import { type ChildProcess, startScript } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { leakTest } from "../support/resources.ts";
import { test } from "../support/test.ts";
import { testedCompilers } from "./compilers.ts";

/** Milliseconds for what takes none but the compiler's time. */
const promptly = 2000;

const output: CompilerOutput = {
  ptx: ".version 9.0 // é\n",
  cubin: Uint8Array.of(1, 2, 10, 13, 0),
  log: "a warning\n",
  loweredNames: new Map([["f<int>", "_Z1f"]]),
};

function inputOf(source: string, options: CompileOptions = {}): CompilerInput {
  return { ...checkProgram(source, options), architecture: options.architecture ?? "compute_90" };
}

/** A compiler that counts how often it is asked. */
function counting(changes: Partial<Compiler> = {}) {
  const compiler = {
    name: "counting 1.0",
    build: "1.0.0",
    cudaVersion: 13000,
    architectures: [90],
    count: 0,
    compile() {
      compiler.count++;
      return output;
    },
    ...changes,
  };
  return compiler;
}

const program: CompileOptions = { headers: { "a.h": "1", "b.h": "2" }, defines: { A: 1, B: 2 }, flags: ["-w"] };

test("a compiled program is read from the cache, with all that came of it", () =>
  inFolder((folder) => {
    const compiler = counting();
    const first = cachedCompiler(compiler, new CompileCache(`${folder}/new/cache`));
    assertEquals(first.compile(inputOf("x", program)), output);
    // As in another process.
    const second = cachedCompiler(compiler, new CompileCache(`${folder}/new/cache`));
    assertEquals(second.compile(inputOf("x", program)), output);
    const reordered = { headers: { "b.h": "2", "a.h": "1" }, flags: ["-w"], defines: { A: 1, B: 2 } };
    assertEquals(second.compile(inputOf("x", reordered)), output);
    assertEquals(compiler.count, 1);
    assertEquals(statSync(`${folder}/new/cache`).mode & 0o777, 0o700);
    const names = readdirSync(`${folder}/new/cache`);
    assertEquals(names.length, 1);
    assertEquals(statSync(`${folder}/new/cache/${names[0]}`).mode & 0o777, 0o600);
    // What fails is compiled again.
    const failing = counting({
      compile() {
        failing.count++;
        throw new Error("no");
      },
    });
    for (const _ of [1, 2]) {
      assertThrows(() => cachedCompiler(failing, new CompileCache(folder)).compile(inputOf("")), Error, "no");
    }
    assertEquals(failing.count, 2);
    return Promise.resolve();
  }));

test("whatever changes the result changes the key", () => {
  const keys = new Set<string | undefined>();
  const add = (source: string, options: CompileOptions, compiler: Partial<Compiler> = {}) =>
    keys.add(cacheKey(counting(compiler), inputOf(source, { ...program, ...options })));
  add("x", {});
  add("y", {});
  add("x", {}, { name: "counting 1.1" });
  add("x", {}, { build: "1.0.1" });
  const changes: CompileOptions[] = [
    { name: "other.cu" },
    { headers: { "a.h": "1" } },
    { headers: { "a.h": "12", "b.h": "" } },
    { defines: { A: 12 } },
    { defines: { B: 2, A: 1 } },
    { architecture: "compute_90a" },
    { fusedMultiplyAdd: false },
    { lineInfo: false },
    { debug: true },
    { nameExpressions: ["f"] },
    { flags: [] },
    { flags: ["-w", "-w"] },
  ];
  for (const change of changes) add("x", change);
  assertEquals(keys.size, 4 + changes.length);
  assert(!keys.has(undefined));
});

test("what depends on other files, or on the time, is not kept", () => {
  const isKept = (source: string, options: CompileOptions = {}) =>
    cacheKey(counting(), inputOf(source, { headers: { "a.h": "" }, ...options })) !== undefined;
  for (
    const source of [
      '#include "a.h"\n#include <a.h>\n#  include <cuda_fp16.h> // half\n',
      '#if __has_include(<cuda/std/array>) && __has_include("a.h")\n#endif\n',
      "// this includes nothing, at no __DATE\n",
    ]
  ) assert(isKept(source), source);
  for (
    const source of [
      '#include "b.h"',
      "#include </b.h>",
      "#include <../b.h>",
      "#include NAME",
      '# /* */ include /* */ "b.h"',
      '#inc\\\nlude "b.h"',
      '%:include "b.h"',
      '??=include "b.h"',
      "#include_next <a.h>",
      '#embed "a.h"',
      '__has_include( "b.h" )',
      "__has_include(NAME)",
      "const char* when = __TIME__;",
    ]
  ) {
    assert(!isKept(source), source);
    assert(!isKept("", { headers: { "a.h": source } }), source);
  }
  assert(!isKept("", { defines: { WHEN: "__DATE__" } }));
  assert(!isKept("", { includePaths: ["/usr/include"] }));
  for (const flag of ["--maxrregcount=32", "-use_fast_math", "-lineinfo", "-std=c++20", "-Xptxas", "-O3", "-G"]) {
    assert(isKept("", { flags: [flag] }), flag);
  }
  const filed = [
    "-I.",
    "-I",
    "--include-path=x",
    "-include",
    "@x",
    "--options-file=x",
    "-optf",
    "-Xcompiler",
    "-isystem",
  ];
  for (const flag of filed) assert(!isKept("", { flags: [flag] }), flag);
  assertEquals(cacheKey(counting({ build: undefined }), inputOf("")), undefined);
});

test("a file that is damaged, cut off or another's is compiled again and replaced", () =>
  inFolder((folder) => {
    const compiler = counting();
    const cached = cachedCompiler(compiler, new CompileCache(folder));
    cached.compile(inputOf("x"));
    const [name] = readdirSync(folder);
    const path = `${folder}/${name}`;
    const whole = readFileSync(path);
    cached.compile(inputOf("y"));
    const other = readdirSync(folder).find((each) => each !== name)!;
    const damaged: Uint8Array[] = [
      ...[0, 5, 30, 60, whole.length - 1].map((length) => whole.subarray(0, length)),
      ...[0, 20, 40, 60, 100, whole.length - 1].map((at) => whole.map((byte, index) => index === at ? byte ^ 1 : byte)),
      new Uint8Array([...whole, 0]),
      readFileSync(`${folder}/${other}`),
    ];
    compiler.count = 0;
    for (const [index, bytes] of damaged.entries()) {
      writeFileSync(path, bytes);
      assertEquals(cached.compile(inputOf("x")), output);
      assertEquals(compiler.count, index + 1);
      assertEquals(readFileSync(path), whole);
    }
    return Promise.resolve();
  }));

test("a full cache forgets what was not used for the longest time, and nothing of others", () =>
  inFolder((folder) => {
    const entry = { ...output, cubin: new Uint8Array(1000) };
    const cache = new CompileCache(folder, { byteLimit: 5000 });
    const used = (name: string, secondsAgo: number) => {
      const time = Date.now() / 1000 - secondsAgo;
      utimesSync(`${folder}/${name}`, time, time);
    };
    writeFileSync(`${folder}/own.txt`, new Uint8Array(100_000));
    for (const name of ["poolpass-killed.tmp", "poolpass-busy.tmp"]) writeFileSync(`${folder}/${name}`, "");
    used("poolpass-killed.tmp", 3600);
    used("own.txt", 9999);
    for (const [index, key] of ["a", "b", "c"].entries()) {
      cache.set(key, entry);
      used(`poolpass-${key}`, 1000 - index);
    }
    assertEquals(cache.get("a"), entry);
    cache.set("d", entry);
    cache.set("e", entry);
    assertEquals(readdirSync(folder).toSorted(), [
      "own.txt",
      "poolpass-a",
      "poolpass-busy.tmp",
      "poolpass-d",
      "poolpass-e",
    ]);
    // What is larger than the cache is not kept, and costs nothing that is.
    cache.set("large", { ...output, cubin: new Uint8Array(6000) });
    assertEquals(cache.get("large"), undefined);
    assertEquals(cache.get("e"), entry);
    return Promise.resolve();
  }));

test("processes read and write the same entries at once, and are killed meanwhile", () =>
  inFolder(async (folder) => {
    const start = (times: number, byteLimit: number) =>
      startScript("children/compile/use_cache.ts", [folder, String(times), String(byteLimit)]);
    await using endless = start(Infinity, 1e6);
    // The second has room for few, so that it removes what the others read.
    await using small = start(100, 90_000);
    await using large = start(100, 1e6);
    for (const child of [endless, small, large]) assertEquals(await child.nextLine() ?? await child.errors(), "ready");
    for (const child of [small, large]) {
      assertEquals([await child.ended, await child.nextLine(), await child.errors()], [0, undefined, ""]);
    }
    endless.kill("SIGKILL");
    assertEquals([await endless.ended, await endless.nextLine()], ["SIGKILL", undefined]);
    const cache = new CompileCache(folder);
    for (const key of ["key0", "key1", "key2", "key3"]) {
      const known = cache.get(key);
      assert(known === undefined || known.ptx === key.repeat(5000));
    }
  }));

test("a folder that cannot be used is an error if it was given, and a warning if the environment names it", {
  long: true,
}, () =>
  inFolder(async (folder) => {
    writeFileSync(`${folder}/file`, "");
    const given: [unknown, new () => Error, string][] = [
      [`${folder}/file`, Error, `Cannot use the compile cache "${folder}/file": `],
      [5, TypeError, "the path of a folder"],
      ["", RangeError, "the path of a folder"],
    ];
    for (const [compileCache, error, message] of given) {
      assertThrows(() => open({ driver: "software", compileCache: compileCache as string }), error, message);
    }
    const linesWith = async (args: string[], POOLPASS_CACHE: string) => {
      await using child = startScript("children/compile/open_with_cache.ts", args, { env: { POOLPASS_CACHE } });
      return [await child.nextLine(), await child.nextLine(), await child.errors()];
    };
    const [first, second, errors] = await linesWith([], `${folder}/file`);
    assertEquals([first, second], ["software", "software"]);
    assertEquals(errors!.match(/poolpass: POOLPASS_CACHE does nothing: Cannot use/g)?.length, 1, errors);
    // It takes no permission but the one for FFI.
    assertEquals(await linesWith([`${folder}/new`], ""), ["software", "software", ""]);
    assertEquals(readdirSync(folder).toSorted(), ["file", "new"]);
  }));

const noStranger = noPython ?? (process.geteuid?.() === 0 ? undefined : "it takes root to become another user");

/** Has another user put entries for a key into folders within `folder`, and keeps it there. */
async function plant(folder: string, key: string): Promise<ChildProcess> {
  chmodSync(folder, 0o1777);
  for (const name of ["open", "foreign", "pipe", "endless", "link", "sticky"]) {
    mkdirSync(`${folder}/${name}`);
    chmodSync(`${folder}/${name}`, name === "sticky" ? 0o1777 : 0o777);
  }
  const stranger = startHostile("file_planters.py", ["cache", folder, key]);
  assertEquals(await stranger.nextLine() ?? await stranger.errors(), "planted");
  return stranger;
}

leakTest("a folder that another user has made, links to or can write to is not used", () =>
  inFolder(async (folder) => {
    const key = cacheKey(counting(), inputOf("x"))!;
    await using _stranger = await plant(folder, key);
    const own = process.geteuid!();
    const refused = {
      squatted: "the folder FOLDER/squatted (mode 0755) belongs to user 65534, who could put programs of their own",
      "squatted/new/cache": "the folder FOLDER/squatted (mode 0755) belongs to user 65534, who could put",
      linked: "the link FOLDER/linked (mode 0777) belongs to user 65534, who could put programs of their own there",
      "linked/../own": "the link FOLDER/linked (mode 0777) belongs to user 65534",
      open: `the folder FOLDER/open of user ${own} (mode 0777) lets other users put programs of their own there; ` +
        "remove their write permission (chmod go-w), or use another folder",
      "open/new": `the folder FOLDER/open of user ${own} (mode 0777) lets other users`,
      sticky: `the folder FOLDER/sticky of user ${own} (mode 01777) lets other users put programs of their own there`,
    };
    for (const [name, reason] of Object.entries(refused)) {
      const { message } = assertThrows(() => new CompileCache(`${folder}/${name}`), Error);
      const expected = `Cannot use the compile cache "${folder}/${name}": ${reason.replace("FOLDER", folder)}`;
      assertEquals(message.slice(0, expected.length), expected);
      assert(!name.includes("new") || !existsSync(`${folder}/${name}`), name);
    }
    // A program that has not asked for it does without, and says so once.
    const env = { POOLPASS_CACHE: `${folder}/squatted` };
    await using child = startScript("children/compile/open_with_cache.ts", [], { env });
    assertEquals([await child.nextLine(), await child.nextLine()], ["software", "software"]);
    const errors = await child.errors();
    assertEquals(
      errors.match(/POOLPASS_CACHE does nothing: Cannot use .*squatted.* belongs to user 65534/g)?.length,
      1,
    );
    // In the folder beside them, of this user's own, a program is compiled and found again.
    const compiler = counting();
    for (const _ of [1, 2]) {
      assertEquals(cachedCompiler(compiler, new CompileCache(`${folder}/own`)).compile(inputOf("x")), output);
    }
    assertEquals(compiler.count, 1);
  }), { skip: noStranger });

leakTest(
  "an entry that another user has planted is neither believed nor waited for, and replaced",
  () =>
    inFolder(async (folder) => {
      const key = cacheKey(counting(), inputOf("x"))!;
      await using _stranger = await plant(folder, key);
      const whole = () => {
        new CompileCache(`${folder}/own`).set(key, output);
        return readFileSync(`${folder}/own/poolpass-${key}`);
      };
      // Others of this user's own, among them one that is longer than the cache may be.
      for (const name of ["writable", "long"]) mkdirSync(`${folder}/${name}`, { mode: 0o700 });
      const entryIn = (name: string) => `${folder}/${name}/poolpass-${key}`;
      writeFileSync(entryIn("writable"), readFileSync(entryIn("squatted")));
      chmodSync(entryIn("writable"), 0o666);
      writeFileSync(entryIn("long"), "");
      truncateSync(entryIn("long"), 2 ** 40);
      for (const name of ["foreign", "pipe", "endless", "link", "writable", "long"]) {
        chmodSync(`${folder}/${name}`, 0o700);
        const compiler = counting();
        const cached = cachedCompiler(compiler, new CompileCache(`${folder}/${name}`));
        const begin = performance.now();
        for (const _ of [1, 2]) assertEquals(cached.compile(inputOf("x")), output, name);
        assert(performance.now() - begin < promptly, name);
        assertEquals(compiler.count, 1, name);
        assert(lstatSync(entryIn(name)).isFile());
        assertEquals(readFileSync(entryIn(name)), whole(), name);
      }
    }),
  { skip: noStranger },
);

for (const { name, skip, search, isCommand } of testedCompilers) {
  test(`what ${name} has compiled is found again`, { skip, long: isCommand }, () =>
    inFolder((folder) => {
      const options = { architecture: "compute_75", nameExpressions: ["f<int>"], headers: { "a.h": "" } };
      const source = '#include "a.h"\ntemplate <class T> __global__ void f(T* x) { int unused; *x = 1; }';
      const compile = () => {
        let count = 0;
        const counted = () => {
          const compiler = search() as Compiler;
          const { name, build, cudaVersion, architectures } = compiler;
          const compile = (input: CompilerInput) => (count++, compiler.compile(input));
          return { name, build, cudaVersion, architectures, compile };
        };
        const compilers = new Compilers([cachedSearch(counted, new CompileCache(folder))]);
        return { count, ...compilers.compile(source, options), counted: count };
      };
      const first = compile();
      assertEquals(first.counted, 1);
      assertMatch(first.ptx, /_Z1fIiEvPT_/);
      assertEquals(compile(), { ...first, counted: 0 });
      return Promise.resolve();
    }));
}
