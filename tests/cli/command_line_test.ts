import { assertEquals, assertMatch } from "@std/assert";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { version } from "../../mod.ts";
import { ptx as saxpy } from "../../kernels/saxpy.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass } from "../support/poolpass.ts";
import { test } from "../support/test.ts";

test("help and version are printed, with and without a command", async () => {
  const general = await poolpass("--help");
  assertEquals([general.code, general.errors], [0, ""]);
  assertMatch(general.output, /^Usage: poolpass COMMAND \[options\]\n\nCommands:\n {2}bind +writes TypeScript modules/);
  assertEquals((await poolpass()).code, 2);
  const ofBind = await poolpass("bind", "--help");
  assertMatch(ofBind.output, /^Usage: poolpass bind FILE\.cu\.\.\. \[options\]\n/);
  assertEquals(await poolpass("bind", "x.cu", "-h"), ofBind);
  assertEquals(await poolpass("help", "bind"), ofBind);
  assertEquals(await poolpass("--version"), { code: 0, output: `poolpass ${version}\n`, errors: "" });
});

const lists = "poolpass bind --help lists the options";

test("a wrong command line is answered with what was meant, and exit code 2", async () => {
  const cases: readonly (readonly [args: readonly string[], errors: string])[] = [
    [["bnd", "x.cu"], 'There is no command "bnd"; did you mean "bind"?'],
    [
      ["frobnicate"],
      'There is no command "frobnicate"; the commands are bind, devices, doctor, list, metrics, store, top, trace, weights',
    ],
    [["--bind"], 'There is no option "--bind"; did you mean "bind"?'],
    [["bind"], `There is no file to bind: give the path of a .cu or .ptx file; ${lists}`],
    [["bind", "x.cu", "--wacth"], `There is no option --wacth; did you mean "watch"?; ${lists}`],
    [["bind", "x.cu", "--out"], `The option --out needs a value; ${lists}`],
    [["bind", "x.cu", "--watch=1"], `The option --watch takes no value, and "1" was given; ${lists}`],
    [["bind", "x.cu", "y.cu", "-o", "z.ts"], `Cannot write 2 modules to z.ts: give --out with one file only; ${lists}`],
    [["bind", "x.cu", "x.ptx"], `Two of the files would be written to the same module; ${lists}`],
    [["bind", "x.cu", "--out", "x.js"], `Cannot write a module to x.js: its name must end with .ts; ${lists}`],
    [["bind", "x.cu", "--watch", "--check"], `Cannot give --check with --watch: one of them does not write; ${lists}`],
    [
      ["bind", "x.ptx", "-DN=1"],
      `Cannot give --define for x.ptx: PTX is compiled already; ${lists}`,
    ],
    [
      ["bind", "x.cubin"],
      "Cannot bind x.cubin, because only .cu and .ptx files can be bound: it does not say its kernels' parameters; " +
      `give the .cu or .ptx file; ${lists}`,
    ],
  ];
  for (const [args, errors] of cases) {
    assertEquals(await poolpass(...args), { code: 2, output: "", errors: `${errors}\n` }, args.join(" "));
  }
});

test("files that cannot be read or written are named, and the others are bound", async () => {
  await inFolder(async (folder) => {
    const [good, missing, directory, broken, written] = [
      "good.ptx",
      "missing.ptx",
      "folder.ptx",
      "broken.ptx",
      "own.ptx",
    ]
      .map((name) => join(folder, name)) as [string, string, string, string, string];
    mkdirSync(directory);
    writeFileSync(good, saxpy);
    writeFileSync(written, saxpy);
    writeFileSync(join(folder, "own.ts"), "export const mine = 1;\n");
    writeFileSync(broken, saxpy.replace(".param .u32", ".param .u23"));
    const { code, output, errors } = await poolpass("bind", missing, directory, broken, written, good);
    assertEquals(code, 1);
    assertEquals(output, `${join(folder, "good.ts")}: saxpy\n`);
    const [first, second, third, fourth] = errors.split("\n");
    assertEquals(first, `Cannot read ${missing}: there is no such file`);
    assertEquals(second, `Cannot read ${directory}: it is a folder`);
    assertMatch(third!, /broken\.ptx:8: error: cannot declare .*u23/);
    assertMatch(fourth!, /own\.ts: the file is there, and was not generated; move it, or give --out$/);
    assertEquals(readFileSync(join(folder, "own.ts"), "utf8"), "export const mine = 1;\n");
    assertEquals((await poolpass("bind", good)).code, 0, "a generated module is written again");
  });
});
