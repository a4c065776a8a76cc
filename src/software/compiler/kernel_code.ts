/**
 * What the functions have in common that a kernel is compiled to.
 *
 * @module
 */
import type { Selector } from "./control_flow/control_flow_graph.ts";
import { contextLocal, type EmittedCode, type FixedLocal, type FunctionEmitter } from "./function_emitter.ts";
import type { FlowBlock } from "./control_flow/kernel_flow.ts";
import { type ContextField, contextFields, contextOffset } from "./launch_context.ts";
import { loadOp } from "./instructions/memory_instructions.ts";
import { writeStructured } from "./control_flow/structured_code.ts";
import { CodeWriter, type MemoryOpName, type ValueType } from "./webassembly/wasm_encoder.ts";

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

/** Writes what is known of the launch into the locals that hold it, but for those that are computed. */
export function writePreloads(e: FunctionEmitter, code: CodeWriter, computed: ReadonlySet<FixedLocal>): void {
  e.fixedLocal("parameters");
  e.fixedLocal("sharedBytes");
  for (const [name, local] of e.fixedLocals) {
    if (!isContextField(name) || computed.has(name)) continue;
    code.get(contextLocal).memory("i32Load", contextOffset(name)).set(local);
  }
  if (e.fixedLocals.has("steps")) code.get(e.fixedLocal("stepsAtOnce")).set(e.fixedLocal("steps"));
  for (const { local, offset, type } of e.preloadedParameters) {
    code.get(e.fixedLocal("parameters")).memory(loadOp(type), offset).set(local);
  }
  for (const [bytes, local] of e.sharedPlacesLocals) {
    code.get(e.fixedLocal("sharedBytes")).i32(bytes).ops("i32DivU").set(local);
  }
}

function isContextField(name: FixedLocal): name is ContextField {
  return (contextFields as readonly string[]).includes(name);
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
