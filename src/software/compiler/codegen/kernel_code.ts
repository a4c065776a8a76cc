/**
 * What the functions have in common that a kernel is compiled to.
 *
 * @module
 */
import type { Selector } from "../control_flow/control_flow_graph.ts";
import type { EmittedCode, FunctionEmitter, RegisterUse } from "./function_emitter.ts";
import { type FlowBlock, newBlock } from "../control_flow/kernel_flow.ts";
import type { TypedFunction } from "../typing/typed_body.ts";
import type { TypedInstruction } from "../typing/typed_instruction.ts";
import { writeStructured } from "../control_flow/structured_code.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";
import type { MemoryOpName, ValueType } from "../webassembly/opcodes.ts";

/** A graph of blocks whose code is written. */
export interface WrittenBlocks {
  readonly entry: FlowBlock;
  readonly code: ReadonlyMap<FlowBlock, EmittedCode>;
  /** Of the blocks that branch, what pushes what their branch depends on. */
  readonly conditions: ReadonlyMap<FlowBlock, EmittedCode>;
  /** What going around a loop is counted for. */
  readonly steps: number;
}

/** Writes a reducible graph. */
export function writeBlocks(
  e: FunctionEmitter,
  { entry, code, conditions, steps }: WrittenBlocks,
): Uint8Array {
  const selectors = new Map<Selector, number>();
  const selectorLocal = (selector: Selector): number => {
    const local = selectors.get(selector) ?? e.newLocal("i32");
    selectors.set(selector, local);
    return local;
  };
  const append = (emitted: EmittedCode | undefined) => {
    if (emitted !== undefined) e.code.append(emitted.code);
  };
  e.code = new CodeWriter();
  writeStructured(entry, {
    code: e.code,
    writeBody: (block) => append(code.get(block)),
    pushCondition: (block) => append(conditions.get(block)),
    pushIndex: (block) => {
      const { terminator } = block;
      if (terminator.kind === "switch" && "kind" in terminator.on) e.code.get(selectorLocal(terminator.on));
      else append(conditions.get(block));
    },
    setSelector: (selector, value) => e.code.i32(value).set(selectorLocal(selector)),
    writeLoopStart: () => {
      e.getFixed("steps").i32(steps).ops("i32Sub").tee(e.fixedLocal("steps")).i32(0).ops("i32LtS").if();
      e.callHelper("goOn");
      e.setFixed("steps").end();
    },
  });
  return e.code.finish();
}

/** A function's instructions, without its labels. */
export function instructionsOf({ items }: TypedFunction): TypedInstruction[] {
  return items.filter((item) => item.kind === "instruction");
}

/** Makes a block switch on where a thread or a pack is to go on, and returns the code for that. */
export function switchOnResumption(
  e: FunctionEmitter,
  block: FlowBlock,
  targets: readonly FlowBlock[],
): EmittedCode {
  block.terminator = { kind: "switch", on: { instruction: undefined, write: () => {} }, targets };
  return e.emitApart(() => e.getFixed("resumption"));
}

/** A block that does nothing but lead to another. */
export function blockBefore(target: FlowBlock): FlowBlock {
  const block = newBlock();
  block.terminator = { kind: "jump", target };
  return block;
}

/** What a block does to registers, the condition of its branch included. */
export function usesOf(body: EmittedCode, condition: EmittedCode | undefined): RegisterUse {
  if (condition === undefined) return body;
  const uses = new Set(body.uses);
  for (const register of condition.uses) if (!body.definitions.has(register)) uses.add(register);
  return { uses, definitions: body.definitions };
}

/** Code one behind the other, when what it does to registers is not asked any more. */
export function joined(...parts: readonly (EmittedCode | undefined)[]): EmittedCode {
  const code = new CodeWriter();
  for (const part of parts) if (part !== undefined) code.append(part.code);
  return { code: code.finish(), uses: new Set(), definitions: new Set() };
}

/** The load and the store of all bits of a local. */
export const wholeLoad: Readonly<Record<ValueType, MemoryOpName>> = {
  i32: "i32Load",
  i64: "i64Load",
  f32: "f32Load",
  f64: "f64Load",
};
export const wholeStore: Readonly<Record<ValueType, MemoryOpName>> = {
  i32: "i32Store",
  i64: "i64Store",
  f32: "f32Store",
  f64: "f64Store",
};
