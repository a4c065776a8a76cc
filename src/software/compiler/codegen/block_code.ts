/**
 * Assembles the code of basic blocks into structured WebAssembly.
 *
 * @module
 */
import type { DominatorTree, Selector } from "../../../ptx/analysis/control_flow_graph.ts";
import type { EmittedCode, FunctionEmitter } from "./function_emitter.ts";
import type { RegisterUse } from "../../../ptx/analysis/definitions_and_uses.ts";
import type { CompiledStep, FlowBlock } from "../control_flow/function_flow.ts";
import { emitStructured } from "../control_flow/structured_code.ts";
import { threadRecord } from "../../abi/launch_record.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";

/** A graph of basic blocks whose code has been emitted. */
export interface WrittenBlocks {
  /** The dominator tree of the graph, which must be reducible. */
  readonly tree: DominatorTree<CompiledStep>;
  readonly code: ReadonlyMap<FlowBlock, EmittedCode>;
  /**
   * Maps a basic block to a function that emits additional code before the code of the block. Optional for each block.
   */
  readonly before?: ReadonlyMap<FlowBlock, () => void>;
  /**
   * Maps a basic block to a function that emits additional code between the code of the block and its branch. Optional
   * for each block.
   */
  readonly behind?: ReadonlyMap<FlowBlock, () => void>;
  /** For each basic block that ends with a branch or a switch, the code that pushes the condition or the index. */
  readonly conditions: ReadonlyMap<FlowBlock, EmittedCode>;
  /**
   * The amount of fuel that each iteration of a loop consumes. A kernel that has used up its fuel requests more from
   * the host.
   */
  readonly fuelPerIteration: number;
}

/** Emits a reducible graph as structured code, and returns the code. */
export function emitBlocks(
  e: FunctionEmitter,
  { tree, code, before, behind, conditions, fuelPerIteration }: WrittenBlocks,
): Uint8Array {
  const selectors = new Map<Selector, number>();
  const selectorLocal = (selector: Selector): number => {
    const local = selectors.get(selector) ?? e.newLocal("i32");
    selectors.set(selector, local);
    return local;
  };
  const append = (emitted: EmittedCode | undefined) => {
    if (emitted !== undefined) e.code.appendPiece(emitted.code);
  };
  e.code = new CodeWriter();
  emitStructured(tree, {
    code: e.code,
    emitBody: (block) => {
      before?.get(block)?.();
      append(code.get(block));
      behind?.get(block)?.();
    },
    pushCondition: (block) => append(conditions.get(block)),
    pushIndex: (block) => {
      const { terminator } = block;
      if (terminator.kind === "switch" && "kind" in terminator.on) e.code.get(selectorLocal(terminator.on));
      else append(conditions.get(block));
    },
    setSelector: (selector, value) => e.code.i32(value).set(selectorLocal(selector)),
    emitLoopStart: (block) => emitFuel(e, { fuelPerIteration, line: lineOf(block) }),
  });
  return e.code.finish();
}

/** Emits code that consumes the fuel for one iteration of a loop, and requests more fuel when it is used up. */
export function emitFuel(
  e: FunctionEmitter,
  { fuelPerIteration, line }: { readonly fuelPerIteration: number; readonly line: number | undefined },
): void {
  e.getFixed("fuel").i32(fuelPerIteration).ops("i32Sub").tee(e.fixedLocal("fuel")).i32(0).ops("i32LtS").ifUnlikely();
  // Only the dispatch block, which resumes threads, has no PTX line. For this block, store the resume index, from which
  // the host determines the line.
  if (line === undefined && e.reportsRecords) {
    e.getFixed("record");
    e.getFixed("resumeIndex").memory("i32Store", threadRecord.resumeIndex);
  }
  e.pushPlace({ line: line ?? 0 });
  e.callHelper("refuel");
  e.setFixed("fuel").end();
}

/** Returns the line of a basic block's first instruction or branch. Undefined if the block has neither. */
export function lineOf({ instructions, line }: FlowBlock): number | undefined {
  return instructions[0]?.instruction?.line ?? line;
}

/**
 * Ends a basic block with a switch on the resume index of a thread or gang. Returns the code that pushes the index.
 *
 * @param first the resume index of the first target
 */
export function switchOnResumeIndex(
  e: FunctionEmitter,
  block: FlowBlock,
  targets: readonly FlowBlock[],
  first = 0,
): EmittedCode {
  block.terminator = { kind: "switch", on: { instruction: undefined, emit: () => {} }, targets };
  return e.emitSeparately(() => {
    e.getFixed("resumeIndex");
    if (first !== 0) e.code.i32(first).ops("i32Sub");
  });
}

/** Returns the registers that a basic block uses and defines, including the uses of its branch condition. */
export function usesOf(body: EmittedCode, condition: EmittedCode | undefined): RegisterUse {
  if (condition === undefined) return body;
  const uses = new Set(body.uses);
  for (const register of condition.uses) if (!body.definitions.has(register)) uses.add(register);
  return { uses, definitions: body.definitions };
}

/** Concatenates pieces of code. The result does not record which registers the pieces use and define. */
export function concatenated(e: FunctionEmitter, ...parts: readonly (EmittedCode | undefined)[]): EmittedCode {
  return e.emitSeparately(() => {
    for (const part of parts) if (part !== undefined) e.code.appendPiece(part.code);
  });
}
