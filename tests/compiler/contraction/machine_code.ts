/**
 * What `ptxas` makes of products and sums, read from its machine code.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Expression, fused, negated, product, sum, textOf, variable } from "./expressions.ts";

/** The lower and the upper half of a register, which are the same where it holds one number. */
type Halves = readonly [Expression, Expression];

const zero: Halves = [variable("0"), variable("0")];
const unknown: Halves = [variable("?"), variable("?")];

/** Why machine code cannot be read here. */
export function withoutTools(): string | false {
  const version = (tool: string) => spawnSync(tool, ["--version"], { encoding: "utf8" }).stdout ?? "";
  if (!/release 13\.0/.test(version("ptxas"))) return "ptxas 13.0 is not on the PATH";
  return version("nvdisasm") === "" ? "nvdisasm is not on the PATH" : false;
}

/** The instructions that `ptxas` compiles the kernels of some modules to. Each has one, named `test`. */
export function machineCodeOf(modules: readonly string[]): string[][] {
  const folder = mkdtempSync(join(tmpdir(), "contraction-"));
  try {
    const [source, binary] = [join(folder, "m.ptx"), join(folder, "m.cubin")];
    // All in one module, because a tool takes longer to start than to compile a kernel.
    const kernels = modules.map((ptx, index) => ptx.slice(index === 0 ? 0 : ptx.indexOf(".visible")));
    writeFileSync(source, kernels.map((ptx, index) => ptx.replace(" test(", ` test${index}(`)).join(""));
    const run = (tool: string, ...given: string[]) => {
      const { status, stdout, stderr } = spawnSync(tool, given, { encoding: "utf8", maxBuffer: 2 ** 28 });
      if (status !== 0) throw new Error(`${tool}: ${stderr.slice(0, 2000)}`);
      return stdout;
    };
    run("ptxas", "-arch=sm_90", "-o", binary, source);
    const sections = run("nvdisasm", "-c", binary).split(/^\s*\.section\s+\.text\.test/m).slice(1);
    const codes = new Map(sections.map((section) => [
      parseInt(section),
      [...section.matchAll(/^\s*\/\*[0-9a-f]+\*\/\s+(.*?)\s*;/gm)].map(([, line]) => line!),
    ]));
    return modules.map((_, index) => codes.get(index)!);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** What a kernel stores, by the offset in its output. Undefined if its machine code has what this does not read. */
export function storedByMachineCode(code: readonly string[], type: string): Record<number, string> | undefined {
  const registers = new Map<string, Halves>([["RZ", zero]]);
  const stored: Record<number, string> = {};
  const isHalf = type.includes("f16");
  /** Undefined for what is not a number. */
  const read = (operand: string): Halves | undefined => {
    const [, sign, name = "", part] = /^(-?)(R\d+|RZ)(?:\.reuse)?(?:\.(\w+?))?$/.exec(operand.replace(".reuse", "")) ??
      [];
    const held = registers.get(name);
    if (held === undefined) return undefined;
    const [low, high] = held;
    const chosen: Halves | undefined = part === undefined
      ? held
      : part === "H0_H0"
      ? [low, low]
      : part === "H1_H1"
      ? [high, high]
      : undefined;
    return sign === "-" && chosen !== undefined ? [negated(chosen[0]), negated(chosen[1])] : chosen;
  };
  const isZero = (value: Halves) => value.every(({ text }) => text === "0");
  const each = <N extends readonly Halves[]>(
    compute: (...operands: Expression[]) => Expression,
    ...operands: N
  ): Halves => [
    compute(...operands.map(([low]) => low)),
    compute(...operands.map(([, high]) => high)),
  ];
  const added = (one: Halves, other: Halves) => {
    return isZero(one) ? other : isZero(other) ? one : each((a, b) => sum(a!, b!), one, other);
  };
  for (const line of code) {
    const [, guard, name = "", rest = ""] = /^(@\S+ )?(\S+)\s*(.*)$/.exec(line)!;
    const [opcode = ""] = name.split(".");
    const [destination = "", ...sources] = rest.split(",").map((operand) => operand.trim());
    const address = /\[R\d+\.64(?:\+(0x[0-9a-f]+))?\]/.exec(rest);
    const offset = Number(address?.[1] ?? 0);
    if (opcode === "LDG") {
      registers.set(destination, [
        variable(`v${offset}`),
        variable(type.endsWith("x2") ? `v${offset}'` : `v${offset}`),
      ]);
    } else if (opcode === "STG") {
      if (guard === undefined && offset < 200) stored[offset] = textOf((read(sources.at(-1)!) ?? unknown)[0]);
    } else if (/^([HFD])(ADD2?|MUL2?|FMA2?)$/.test(opcode)) {
      if (guard !== undefined) return undefined;
      const isOne = sources[1] === "1" && sources[2] === "1";
      const operands = (isOne ? [sources[0]!, sources[3]!] : sources).map(read);
      if (operands.includes(undefined)) return undefined;
      const [a, b, c] = operands as [Halves, Halves, Halves];
      const result = isOne || /ADD/.test(opcode)
        ? added(a, b)
        : /MUL/.test(opcode) || (isZero(c) && !isZero(a))
        ? each((a, b) => product(a!, b!), a, b)
        : isZero(a)
        ? c
        : each((a, b, c) => fused(a!, b!, c!), a, b, c);
      registers.set(destination, result);
    } else if (opcode === "PRMT" && isHalf) {
      const [low, high] = read(sources[0]!) ?? unknown;
      const [otherLow, otherHigh] = read(sources[2]!) ?? unknown;
      const selected = new Map([[0x10, low], [0x32, high], [0x54, otherLow], [0x76, otherHigh]]);
      const selection = Number(sources[1]);
      const halves = [selected.get(selection & 0xff), selected.get(selection >> 8)];
      if (halves.includes(undefined)) return undefined;
      registers.set(destination, halves as [Expression, Expression]);
    } else if (/^(MOV|IMAD\.MOV\.U32)$/.test(name) && guard === undefined) {
      const moved = read(sources.at(-1)!);
      if (moved === undefined) registers.delete(destination);
      else registers.set(destination, moved);
    } else if (/^R\d+$/.test(destination)) registers.delete(destination);
  }
  return stored;
}
