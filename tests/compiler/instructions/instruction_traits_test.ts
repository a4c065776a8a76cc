import { gangRules } from "../../../src/software/compiler/instructions/special_registers.ts";
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { allocate, load, testModule } from "../compiler_device.ts";
import { compilePtx } from "../../../src/software/compiler/compile.ts";
import { underlyingPointers } from "../../../src/ptx/analysis/pointer_origins.ts";
import {
  type Emit,
  type InstructionForm,
  instructionForm,
  type LoweringTraits,
} from "../../../src/software/compiler/instructions/instruction_form.ts";
import { pure } from "../../../src/ptx/instructions/instruction_traits.ts";
import { allInstructions, instructionSetOf } from "../../../src/software/compiler/instructions/instructions.ts";
import { refusedForms } from "../../../src/software/compiler/instructions/refused_instructions.ts";
import { integerGangForms } from "../../../src/software/compiler/instructions/gangs/gang_lowering.ts";
import { addressOperand, pushLocation } from "../../../src/software/compiler/instructions/memory/address_checks.ts";
import { findUniformity } from "../../../src/ptx/analysis/uniformity.ts";
import type { InstructionSet } from "../../../src/software/compiler/typing/find_form.ts";
import type { Register, ResolvedInstruction } from "../../../src/ptx/instructions/resolved_instruction.ts";
import { typeNamed } from "../../../src/ptx/instructions/scalar_types.ts";

const u32 = typeNamed("u32");

/** `frob d, [a]`: loads the word at an address and increments it in memory. */
const takeTicket: Emit = (e, i) => {
  const location = e.temporary("i32"), word = e.temporary("i32");
  pushLocation(e, addressOperand(e, i.operands[1]), { space: "global", bytes: 4, operation: "read" });
  e.code.set(location).get(location).memory("i32Load").set(word);
  e.code.get(location).get(word).i32(1).ops("i32Add").memory("i32Store");
  e.assign(i.operands[0], u32, () => e.code.get(word));
};

/** `frob.f32 d, a`: the float with the operand's bits. */
const asFloat = (anyNaN: boolean): Emit => (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    e.push(i.operands[1], u32);
    e.code.ops("f32ReinterpretI32");
  }, { anyNaN });
};

/** `frob.u64 d, a`: the operand. */
const copy: Emit = (e, i) => e.assign(i.operands[0], i.type, () => e.push(i.operands[1], i.type));

/** A row that is not in the table, with or without traits. */
function row(syntax: string, lowering: Emit, traits?: LoweringTraits): InstructionForm {
  return instructionForm(syntax, "9.7.0.0", traits === undefined ? { lowering } : { lowering, traits });
}

function withRow(...given: Parameters<typeof row>): InstructionSet {
  return instructionSetOf([...allInstructions(), row(...given)]);
}

const ticket = "frob.<type:u32> d, [a]";

function ticketBody({ result }: { result: string }): string {
  return testModule(`
  frob.u32 ${result}, [%rd1];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd0, %rd2;
  st.global.u32 [%rd2], ${result === "_" ? "%r1" : result};`);
}

/** Runs a block of 32 threads. Returns what they wrote, and how many tickets were taken. */
function takeTickets(body: string, set: InstructionSet, gangWidth?: 32): { words: number[]; taken: number } {
  const out = allocate(128), counter = allocate(4);
  load(body, { gangWidth, instructions: set }).run("test", {
    block: [32, 1, 1],
    parameters: [{ type: "u64", value: out.address }, { type: "u64", value: counter.address }],
  });
  const words = Array.from({ length: 32 }, (_, index) => out.view.getUint32(4 * index, true));
  return { words, taken: counter.view.getUint32(0, true) };
}

/** The compiled kernel around a body. */
function kernelOf(body: string, set: InstructionSet) {
  return compilePtx(testModule(body), { gangs: "always", instructions: set }).kernels.get("test")!;
}

test("a kernel with an undescribed instruction does not run in gangs", () => {
  const body = ticketBody({ result: "%r2" });
  const compile = (set: InstructionSet) =>
    compilePtx(body, { gangs: "always", instructions: set }).kernels.get("test")!.compileGangs(32);
  assertEquals(compile(withRow(ticket, takeTicket)), undefined);
  assertNotEquals(compile(withRow(ticket, takeTicket, { runsInGangs: true })), undefined);
});

test("an instruction without the uniform trait is executed by each member of a gang", () => {
  const numbers = Array.from({ length: 32 }, (_, index) => index);
  const body = ticketBody({ result: "%r2" });
  assertEquals(takeTickets(body, withRow(ticket, takeTicket)), { words: numbers, taken: 32 });
  assertEquals(takeTickets(body, withRow(ticket, takeTicket, { runsInGangs: true }), 32), {
    words: numbers,
    taken: 32,
  });
  // A stated trait is relied on.
  assertEquals(takeTickets(body, withRow(ticket, takeTicket, pure), 32), { words: Array(32).fill(0), taken: 1 });
});

test("an instruction whose result is not used is executed", () => {
  for (const result of ["%r9", "_"]) {
    const body = ticketBody({ result }).replace(/, %r9;/, ", 0;");
    assertEquals(takeTickets(body, withRow(ticket, takeTicket)).taken, 32);
    assertEquals(takeTickets(body, withRow(ticket, takeTicket, { runsInGangs: true }), 32).taken, 32);
  }
});

/** An instruction as the resolver returns it. */
function resolved(form: InstructionForm, operands: ResolvedInstruction["operands"]): ResolvedInstruction {
  const type = typeNamed("u64");
  return {
    kind: "instruction",
    form,
    text: form.opcode,
    choices: new Map(),
    type,
    sourceType: type,
    operands,
    predicate: undefined,
    line: 1,
  };
}

function register(name: string): Register {
  return { kind: "register", name, type: typeNamed("u64") };
}

test("the result of an undescribed instruction is varying", () => {
  const destination = register("%d"), source = register("%a");
  const strideAfter = (traits?: LoweringTraits) =>
    findUniformity([resolved(row("frob.u64 d, a", copy, traits), [destination, source])], gangRules)
      .strideOf(destination);
  assertEquals(strideAfter(), undefined);
  assertEquals(strideAfter({ runsInGangs: true }), undefined);
  assertEquals(strideAfter(pure), 0n);
});

test("the result of an undescribed instruction has no known pointer root", () => {
  const destination = register("%d"), source = register("%a");
  const rootAfter = (traits?: LoweringTraits) =>
    underlyingPointers([resolved(row("frob.u64 d, a", copy, traits), [destination, source])])(destination);
  assertEquals(rootAfter(), destination);
  assertEquals(rootAfter({ ...pure, pointer: "derived" }), source);
});

test("the NaNs of an undescribed instruction keep their bits, or are canonicalized at once", () => {
  const bitsAfter = (lowering: Emit, traits?: LoweringTraits) => {
    const out = allocate(4), input = allocate(4);
    const body = testModule("mov.b32 %r1, 0x7fc12345; frob.f32 %f1, %r1; st.global.f32 [%rd0], %f1;");
    load(body, { instructions: withRow("frob.<type:f32> d, a", lowering, traits) }).run("test", {
      parameters: [{ type: "u64", value: out.address }, { type: "u64", value: input.address }],
    });
    return out.view.getUint32(0, true);
  };
  assertEquals(bitsAfter(asFloat(false)), 0x7fc1_2345);
  assertEquals(bitsAfter(asFloat(true)), 0x7fff_ffff);
  assertEquals(bitsAfter(asFloat(false), pure), 0x7fc1_2345);
  // A stated trait is relied on: any NaN in the register stands for the canonical one.
  assertEquals(bitsAfter(asFloat(false), { ...pure, hasCanonicalNaN: () => true }), 0x7fff_ffff);
});

test("a loop that an undescribed instruction may end yields", () => {
  const yields = (body: string) => (traits?: LoweringTraits) =>
    kernelOf(body, withRow(ticket, takeTicket, traits)).suspensions?.some(({ request }) => request.kind === "yield") ??
      false;
  const byResult = yields("AGAIN: frob.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, 0; @%p1 bra AGAIN;");
  assertEquals(byResult(), true);
  assertEquals(byResult({ effects: ["observes"] }), true);
  assertEquals(byResult({ effects: ["reads", "writes"] }), false);
  assertEquals(byResult(pure), false);
  const byMemory = yields(
    "AGAIN: frob.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1]; setp.ne.u32 %p1, %r2, 0; @%p1 bra AGAIN;",
  );
  assertEquals(byMemory(), true);
  assertEquals(byMemory({ effects: ["observes"] }), false);
  assertEquals(byMemory(pure), false);
});

test("an undescribed instruction may allocate stack memory", () => {
  const bytesWith = (traits?: LoweringTraits) =>
    kernelOf("frob.u32 %r1, [%rd1];", withRow(ticket, takeTicket, traits)).localBytes;
  assert(bytesWith() >= 16384);
  assertEquals(bytesWith(), bytesWith({ effects: ["allocates"] }));
  assertEquals(bytesWith(pure), 0);
});

test("gangs do not use a gang form for a modifier that it does not implement", () => {
  const combine: Emit = (e, i) =>
    e.assign(i.operands[0], i.type, () => {
      e.push(i.operands[1], i.type);
      e.push(i.operands[2], i.type);
      e.code.ops(i.choices.has("reversed") ? "i32Sub" : "i32Add");
    });
  const set = withRow("frob.reversed?.<type:u32> d, a, b", combine, { ...pure, gangForm: integerGangForms.add });
  for (const modifier of ["", ".reversed"]) {
    const body = testModule(`
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd0, %rd2;
  mul.lo.u32 %r2, %r1, %r1;
  frob${modifier}.u32 %r3, %r1, %r2;
  st.global.u32 [%rd3], %r3;`);
    const expected = Array.from({ length: 32 }, (_, n) => modifier === "" ? n + n * n : (n - n * n) >>> 0);
    assertEquals(takeTickets(body, set, 32).words, expected, modifier);
    assertEquals(takeTickets(body, set).words, expected, modifier);
  }
});

test("every row of the table has a lowering and states its effects, and its traits are consistent", () => {
  for (const form of allInstructions()) {
    if (refusedForms().includes(form)) {
      assertEquals(form.traits, {}, form.syntax);
      continue;
    }
    const { effects, arithmetic, gangForm, runsInGangs } = form.traits;
    // Only control flow, and what stands for other instructions, compiles to no code of its own.
    assert([form.emit, form.expansion, form.flow].some((part) => part !== undefined), form.syntax);
    assert(effects !== undefined, form.syntax);
    assert(arithmetic === undefined || form.hasResult, form.syntax);
    assert(gangForm === undefined || runsInGangs, form.syntax);
  }
});

test("a row's syntax names a result d or p, and sources otherwise", () => {
  const sources = /^(\[?a\]?|\[x|\[d\]|\[t\]|t|tensor|n|target|index|membermask)$/;
  for (const form of allInstructions()) {
    const first = form.syntax.split(" ")[1]?.replace(/(\.sel)?,$/, "");
    if (first === undefined || form.refusedFor !== undefined) continue;
    assertEquals(form.hasResult, first === "d" || first === "p", form.syntax);
    assert(form.hasResult || sources.test(first), form.syntax);
  }
});

const compiler = new URL("../../../src/software/compiler/", import.meta.url);

/** The sources of the compiler and of execution/, except the rows of the table, without comments. */
function sourcesBesideTheTable(): { path: string; code: string }[] {
  return [compiler, new URL("../execution/", compiler)].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .map((path) => path.replaceAll("\\", "/"))
      .filter((path) => path.endsWith(".ts") && !path.startsWith("instructions/"))
      .map((path) => {
        const text = readFileSync(new URL(path, folder), "utf8");
        return { path, code: text.replaceAll(/\/\*[^]*?\*\/|\/\/.*/g, "") };
      })
  );
}

test("only the table's rows depend on an instruction's opcode", () => {
  const lookUps = [
    // The syntax of rows.
    /readonly opcode: string;/,
    /readOpcode\(syntax/,
    // The resolver looks rows up, and names what it has not found.
    /(forms|refusals)\.get\((statement\.)?opcode\)|the instruction "\$\{opcode\}" is not known/,
    /didYouMean\(opcode, \[\.\.\.instructions\.forms\.keys\(\)\]\)/,
    /const \{ opcode, modifiers, line \} = instruction;|\{ opcode, modifiers, operands, line \}: Instruction/,
    // Instructions that compute the operand of another one have their names from the resolver.
    /const \[opcode = "", \.\.\.modifiers\] = text\.split\("\."\);|const instruction = \{ opcode, modifiers, /,
    /\[opcode, \.\.\.modifiers\]\.join\("\."\)/,
  ];
  const looked: string[] = [];
  for (const { path, code } of sourcesBesideTheTable()) {
    for (const line of code.split("\n")) {
      if (lookUps.some((allowed) => allowed.test(line))) {
        assert(path.startsWith("typing/"), `${path}: ${line}`);
      } else if (/opcode|\bform\.syntax\b|\.emit [!=]==|\.text\.(includes|startsWith|match|slice)\(/i.test(line)) {
        if (!path.startsWith("webassembly/") && !/from ".*opcodes\.ts"/.test(line)) {
          looked.push(`${path}: ${line.trim()}`);
        }
      }
    }
  }
  assertEquals(looked, []);
});
