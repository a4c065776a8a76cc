/**
 * Small PTX modules that exercise the grammar, and what ptxas and the software device make of them.
 *
 * A `.txt` file has many modules. Each begins with a line `=== name`. A module that begins with `.version` is whole, and
 * `###` stands for the header. Any other one is the body of a kernel, in which the registers of {@linkcode registers} are
 * declared, and what precedes `@@` are declarations of the module.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PtxError } from "../../../src/ptx/syntax.ts";
import { compilePtx } from "../../../src/software/compiler/compile.ts";

const header = ".version 9.0\n.target sm_90\n.address_size 64\n";
const registers = ".reg .b64 %o; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<5>; .reg .f32 %f<9>; " +
  ".reg .f64 %fd<5>; .reg .b16 %h<9>;\nld.param.u64 %o, [out];\n";

/** The files with modules, without `.txt`. */
export const groups = ["registers", "constants", "variables", "functions", "declarations", "syntax", "early"] as const;

/** The modules of a file, by name. */
export function readModules(group: typeof groups[number]): ReadonlyMap<string, string> {
  const text = readFileSync(new URL(`./${group}.txt`, import.meta.url), "utf8");
  return new Map(
    text.split(/^=== /m).slice(1).map((block) => {
      const end = block.indexOf("\n");
      return [block.slice(0, end).trim(), moduleOf(block.slice(end + 1))];
    }),
  );
}

function moduleOf(text: string): string {
  if (text.startsWith(".version")) return text;
  if (text.includes("###")) return header + text.replace("###", "");
  const at = text.indexOf("@@ ");
  const end = text.search(/@@\s*$/);
  const split = at >= 0 ? at : end;
  const [declarations, body] = split < 0 ? ["", text] : [text.slice(0, split), text.slice(split + 2)];
  return `${header}${declarations}\n.visible .entry k(.param .u64 out) {\n${registers}${body}\nret;\n}\n`;
}

/** What a GPU or the device makes of a module: `takes`, or why it does not. */
export type Verdict = string;

/** The verdict of the ptxas on the PATH. Undefined if there is none, or if it crashes. */
export function askPtxas(ptx: string): Verdict | undefined {
  const folder = mkdtempSync(join(tmpdir(), "grammar-"));
  try {
    const file = join(folder, "m.ptx");
    writeFileSync(file, ptx);
    const { status, stderr, stdout } = spawnSync("ptxas", ["-arch=sm_90", "-o", join(folder, "m.cubin"), file], {
      encoding: "utf8",
      timeout: 20_000,
    });
    if (status === 0) return "takes";
    const message = /(?:error|fatal) *: (.*)/.exec(`${stderr}${stdout}`)?.[1];
    return message?.replaceAll(folder, "").trim();
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The verdict of the software device. `kernel` is a refusal of the kernel only: as unsupported, by name. */
export function askDevice(ptx: string): { readonly part: "takes" | "kernel" | "module"; readonly message: string } {
  try {
    const { refusals, wasm, kernels } = compilePtx(ptx, { gangs: "always" });
    for (const error of refusals.values()) return { part: "kernel", message: error.message };
    if (!WebAssembly.validate(wasm)) throw new Error("The module is not valid WebAssembly");
    for (const kernel of kernels.values()) {
      const gangs = kernel.compileGangs(4);
      if (gangs !== undefined && !WebAssembly.validate(gangs.wasm)) throw new Error("The gangs are not valid");
    }
    return { part: "takes", message: "" };
  } catch (error) {
    if (!(error instanceof PtxError)) throw error;
    return { part: "module", message: error.message };
  }
}
