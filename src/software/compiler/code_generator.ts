import { PtxError } from "../../ptx/syntax.ts";
import type { BasicBlock, Selector } from "./control_flow_graph.ts";
import { type FixedLocal, fixedLocal, FunctionEmitter, runType, type SpaceSizes } from "./function_emitter.ts";
import { loadOp } from "./memory_instructions.ts";
import type { LabelName } from "./names.ts";
import { makeReducible } from "./reducible_loops.ts";
import { typeNamed } from "./scalar_types.ts";
import { writeStructured } from "./structured_code.ts";
import type { TypedInstruction } from "./typed_instruction.ts";
import { CodeWriter, type FunctionDefinition } from "./wasm_encoder.ts";

/**
 * Compiles a kernel's body to the function that runs blocks of it: loops over the blocks and over the threads of each,
 * around the body of one thread.
 */
export function generateKernel(
  name: string,
  { items, sizes }: { items: readonly (TypedInstruction | LabelName)[]; sizes: SpaceSizes },
): FunctionDefinition {
  const instructions = items.filter((item): item is TypedInstruction => item.kind !== "label");
  const emitter = new FunctionEmitter(instructions, { sizes });
  const entry = buildGraph(items);
  makeReducible(entry);
  const selectors = new Map<Selector, number>();
  const selectorLocal = (selector: Selector) => {
    const local = selectors.get(selector) ?? emitter.newLocal("i32");
    selectors.set(selector, local);
    return local;
  };
  writeStructured(entry, {
    code: emitter.code,
    writeInstruction: (instruction) => emitter.write(instruction),
    pushCondition: (instruction) => emitter.pushPredicate(instruction),
    pushIndex: (on) => {
      if (on.kind === "selector") emitter.code.get(selectorLocal(on));
      else emitter.push(on.operands[0], typeNamed("u32"));
    },
    setSelector: (selector, value) => emitter.code.i32(value).set(selectorLocal(selector)),
  });
  const body = emitter.code.finish();
  return { type: runType, locals: emitter.locals, code: loopOverThreads(emitter, body), exportName: name };
}

/** Cuts a body into basic blocks. The entry is a block of its own, so that it is part of no loop. */
function buildGraph(items: readonly (TypedInstruction | LabelName)[]): BasicBlock<TypedInstruction> {
  const newBlock = (): BasicBlock<TypedInstruction> => ({ instructions: [], terminator: { kind: "exit" } });
  const labelled = new Map<LabelName, BasicBlock<TypedInstruction>>();
  for (const item of items) if (item.kind === "label") labelled.set(item, newBlock());
  const exit = newBlock();
  const entry = newBlock();
  let block = newBlock();
  entry.terminator = { kind: "jump", target: block };
  const targetOf = (instruction: TypedInstruction): BasicBlock<TypedInstruction> => {
    const target = instruction.operands[0];
    if (target?.kind === "label") return labelled.get(target)!;
    throw new PtxError(instruction.line, `cannot compile "${instruction.text}": it must name a label`);
  };
  for (const item of items) {
    if (item.kind === "label") {
      const next = labelled.get(item)!;
      block.terminator = { kind: "jump", target: next };
      block = next;
      continue;
    }
    if (item.form.flow === undefined) {
      block.instructions.push(item);
      continue;
    }
    const next = newBlock();
    if (item.form.flow === "switch") {
      block.terminator = {
        kind: "switch",
        on: item,
        targets: switchTargets(item).map((label) => labelled.get(label)!),
      };
    } else {
      const target = item.form.flow === "exit" ? exit : targetOf(item);
      block.terminator = item.predicate === undefined
        ? { kind: "jump", target }
        : { kind: "branch", on: item, taken: target, otherwise: next };
    }
    block = next;
  }
  return entry;
}

function switchTargets({ operands, line, text }: TypedInstruction): readonly LabelName[] {
  const list = operands[1];
  if (list?.kind === "labels") return list.labels;
  throw new PtxError(line, `cannot compile "${text}": its second operand must be a list of .branchtargets`);
}

function loopOverThreads(emitter: FunctionEmitter, body: Uint8Array): Uint8Array {
  const code = new CodeWriter();
  for (const { local, offset, type } of emitter.preloadedParameters) {
    code.get(fixedLocal("parameters")).memory(loadOp(type), offset).set(local);
  }
  const increment = (counter: FixedLocal) =>
    code.get(fixedLocal(counter)).i32(1).ops("i32Add").tee(fixedLocal(counter));
  code.get(fixedLocal("firstBlockX")).set(fixedLocal("blockX"));
  code.block().loop();
  code.get(fixedLocal("blockX")).get(fixedLocal("lastBlockX")).ops("i32GeU").brIf(1);
  const dimensions = [["threadZ", "blockDimZ"], ["threadY", "blockDimY"], ["threadX", "blockDimX"]] as const;
  for (const [counter] of dimensions) code.i32(0).set(fixedLocal(counter)).loop();
  code.block().append(body).end();
  for (const [counter, end] of dimensions.toReversed()) {
    increment(counter);
    code.get(fixedLocal(end)).ops("i32LtU").brIf(0).end();
  }
  increment("blockX").ops("drop").br(0).end().end();
  return code.finish();
}
