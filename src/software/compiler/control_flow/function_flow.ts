import { FunctionAnalysis } from "../../../ptx/analysis/function_analysis.ts";
import { PtxError } from "../../../ptx/syntax.ts";
import { passArguments, readTarget, takeResults } from "../instructions/call_instructions.ts";
import { hostCalls } from "../instructions/host_calls.ts";
import { callTarget } from "../typing/call_layout.ts";
import { type BasicBlock, mapTargets, postorder, successors } from "../../../ptx/analysis/control_flow_graph.ts";
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { CompiledInstruction, Emit } from "../instructions/instruction_form.ts";
import type { SuspensionRequest } from "../../abi/launch_record.ts";
import type { LabelName, Register } from "../../../ptx/instructions/resolved_instruction.ts";
import { refusalOfFunction } from "../instructions/refused_instructions.ts";
import { typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import { UnsupportedPtxError } from "../../../ptx/instruction_support.ts";
import { instructionsOf, type ResolvedFunction, type ResolvedKernel } from "../typing/resolver.ts";

/** One step of a block: an instruction, or code between instructions. Also the code that pushes a branch's operand. */
export interface CompiledStep {
  /** The instruction, or undefined for code between instructions. */
  readonly instruction: CompiledInstruction | undefined;
  /** The register that the step sets to 0, for code between instructions. */
  readonly initializes?: Register;
  emit(emitter: FunctionEmitter): void;
}

/** A basic block of a kernel or of a function that it calls. */
export type FlowBlock = BasicBlock<CompiledStep>;

/** A point where a thread leaves a function and later resumes, because it is suspended or calls another function. */
export interface SuspendPoint {
  /** The request that the thread makes. Undefined for a call. */
  readonly request: SuspensionRequest | undefined;
  /** The instruction that suspends the thread or calls. Undefined if the compiler added the suspend point. */
  readonly instruction: CompiledInstruction | undefined;
  readonly line: number;
  /** The block that ends with the suspension. */
  readonly suspendBlock: FlowBlock;
  /** The block where the thread resumes. */
  readonly resumeBlock: FlowBlock;
}

/**
 * The control flow of one function, as if suspensions and calls returned immediately: each suspend block jumps to its
 * resume block.
 */
export interface FunctionFlow {
  readonly function: ResolvedFunction;
  /** The entry block. It is empty and has no predecessors, so it is never part of a loop. */
  readonly entry: FlowBlock;
  /** The target of `ret`. */
  readonly returning: FlowBlock;
  /** The target of `exit`. */
  readonly exiting: FlowBlock;
  readonly suspendPoints: SuspendPoint[];
}

/** Creates an empty block with the terminator `exit`. */
export function newBlock(): FlowBlock {
  return { instructions: [], terminator: { kind: "exit" } };
}

/** Creates an empty block that jumps to `target`. */
export function blockBefore(target: FlowBlock): FlowBlock {
  const block = newBlock();
  block.terminator = { kind: "jump", target };
  return block;
}

/** A point where the threads of a gang may diverge. */
export interface DivergencePoint {
  readonly instruction: CompiledInstruction;
  /**
   * The position: before the instruction, on the taken or the other edge of the branch, or where the instruction
   * suspends the thread.
   */
  readonly way: "before" | "taken" | "otherwise" | "suspending";
}

/**
 * Splits blocks so that each of the given instructions begins a block. Returns the blocks before and after each split.
 * If a suspend block is split, its last part becomes the suspend block.
 */
export function splitBefore(
  { entry, suspendPoints }: FunctionFlow,
  instructions: ReadonlySet<CompiledInstruction>,
): Map<CompiledInstruction, { readonly before: FlowBlock; readonly block: FlowBlock }> {
  const splits = new Map<CompiledInstruction, { before: FlowBlock; block: FlowBlock }>();
  if (instructions.size === 0) return splits;
  /** The last part of each block that has been split. */
  const ends = new Map<FlowBlock, FlowBlock>();
  for (const whole of postorder([entry], successors)) {
    let block = whole;
    whole.instructions.splice(0).forEach((step) => {
      const { instruction } = step;
      if (instruction !== undefined && instructions.has(instruction) && !splits.has(instruction)) {
        const next = newBlock();
        next.terminator = block.terminator;
        block.terminator = { kind: "jump", target: next };
        splits.set(instruction, { before: block, block: next });
        block = next;
      }
      block.instructions.push(step);
    });
    if (block !== whole) ends.set(whole, block);
  }
  suspendPoints.forEach((point, index) => {
    const suspendBlock = ends.get(point.suspendBlock);
    if (suspendBlock !== undefined) suspendPoints[index] = { ...point, suspendBlock };
  });
  return splits;
}

/** The control flow of a function's body, and its analyses. Immutable. */
export interface AnalyzedFlow extends FunctionFlow {
  readonly analysis: FunctionAnalysis<CompiledStep>;
}

/**
 * The flows of a kernel and of the functions that it may call. Built once, and shared by all stages of the compiler.
 */
export type KernelFlows = ReadonlyMap<ResolvedFunction, AnalyzedFlow>;

/** Builds the flows of a kernel and of the functions that it may call. */
export function kernelFlows({ kernel, callees }: ResolvedKernel): KernelFlows {
  return new Map([kernel, ...callees.values()].map((resolved) => [resolved, functionFlow(resolved)]));
}

/** Builds the basic blocks of a function's body. */
export function functionFlow(resolved: ResolvedFunction): AnalyzedFlow {
  const flow = new FlowBuilder(resolved).build();
  return { ...flow, analysis: new FunctionAnalysis(flow.entry, instructionsOf(resolved)) };
}

/** Returns a copy of a flow, with copies of the blocks that the caller may modify. */
export function copyOfFlow(
  { function: resolved, entry, returning, exiting, suspendPoints }: FunctionFlow,
): FunctionFlow {
  const ends = suspendPoints.flatMap(({ suspendBlock, resumeBlock }) => [suspendBlock, resumeBlock]);
  const copies = new Map<FlowBlock, FlowBlock>();
  for (const block of postorder([entry, returning, exiting, ...ends], successors)) {
    copies.set(block, { ...block, instructions: [...block.instructions] });
  }
  const copyOf = (block: FlowBlock) => copies.get(block)!;
  for (const copy of copies.values()) copy.terminator = mapTargets(copy.terminator, copyOf);
  return {
    function: resolved,
    entry: copyOf(entry),
    returning: copyOf(returning),
    exiting: copyOf(exiting),
    suspendPoints: suspendPoints.map((point) => {
      return { ...point, suspendBlock: copyOf(point.suspendBlock), resumeBlock: copyOf(point.resumeBlock) };
    }),
  };
}

class FlowBuilder {
  readonly #function: ResolvedFunction;
  readonly #labelled = new Map<LabelName, FlowBlock>();
  readonly #returning = newBlock();
  readonly #exiting = newBlock();
  readonly #suspendPoints: SuspendPoint[] = [];
  #block = newBlock();

  constructor(resolved: ResolvedFunction) {
    this.#function = resolved;
    for (const item of resolved.items) if (item.kind === "label") this.#labelled.set(item, newBlock());
  }

  build(): FunctionFlow {
    const entry = newBlock();
    entry.terminator = { kind: "jump", target: this.#block };
    for (const item of this.#function.items) {
      if (item.kind === "label") this.#continueAt(this.#labelled.get(item)!);
      else {
        const emit = emitOf(item);
        if (emit === undefined) this.#flow(item);
        else this.#block.instructions.push({ instruction: item, emit: (e) => e.emit(item, emit) });
      }
    }
    this.#block.terminator = { kind: "jump", target: this.#returning };
    return {
      function: this.#function,
      entry,
      returning: this.#returning,
      exiting: this.#exiting,
      suspendPoints: this.#suspendPoints,
    };
  }

  /** Ends the current block with a jump to the next. */
  #continueAt(next: FlowBlock): void {
    this.#block.terminator = { kind: "jump", target: next };
    this.#block = next;
  }

  #flow(instruction: CompiledInstruction): void {
    const next = newBlock();
    const target = this.#target(instruction, next);
    this.#block.line = instruction.line;
    this.#block.terminator = instruction.predicate === undefined ? { kind: "jump", target } : {
      kind: "branch",
      on: {
        instruction,
        emit: (e) => {
          if (e.shadows !== undefined) {
            e.begin(instruction);
            e.shadows.require(instruction.predicate!.register, "branch");
          }
          e.pushPredicate(instruction);
        },
      },
      taken: target,
      otherwise: next,
    };
    this.#block = next;
  }

  /** Returns the block that an instruction jumps to if its predicate is true. Control otherwise continues at `next`. */
  #target(instruction: CompiledInstruction, next: FlowBlock): FlowBlock {
    switch (instruction.form.flow!) {
      case "return":
        return this.#returning;
      case "exit":
        return this.#exiting;
      case "branch": {
        const label = instruction.operands[0];
        if (label?.kind === "label") return this.#labelled.get(label)!;
        throw new PtxError(instruction.line, `cannot compile "${instruction.text}": it must name a label`);
      }
      case "switch": {
        const block = newBlock();
        const targets = switchTargets(instruction).map((label) => this.#labelled.get(label)!);
        const emit = (e: FunctionEmitter) => {
          e.begin(instruction);
          e.shadows?.require(instruction.operands[0], "branch");
          e.push(instruction.operands[0], typeNamed("u32"));
        };
        block.terminator = { kind: "switch", on: { instruction, emit }, targets };
        return block;
      }
      case "call": {
        const { suspendBlock, resumeBlock } = this.#addSuspendPoint(instruction, { next });
        const { frameBytes } = this.#function;
        const pass: Emit = (e, i) => {
          passArguments(e, i, frameBytes);
          readTarget(e, i);
        };
        const take: Emit = (e, i) => takeResults(e, i, frameBytes);
        suspendBlock.instructions.push({ instruction, emit: (e) => e.emitAlways(instruction, pass) });
        resumeBlock.instructions.push({ instruction, emit: (e) => e.emitAlways(instruction, take) });
        return suspendBlock;
      }
      case "suspend": {
        const { describe, request, resume } = instruction.form.suspending!;
        const { suspendBlock, resumeBlock } = this.#addSuspendPoint(instruction, {
          next,
          request: describe(instruction),
        });
        suspendBlock.instructions.push({ instruction, emit: (e) => e.emitAlways(instruction, request) });
        resumeBlock.instructions.push({ instruction, emit: (e) => e.emitAlways(instruction, resume) });
        return suspendBlock;
      }
    }
  }

  /** Adds a suspend point. If the instruction is predicated, the caller emits the branch around the suspend point. */
  #addSuspendPoint(
    instruction: CompiledInstruction,
    { next, request }: { next: FlowBlock; request?: SuspensionRequest },
  ): SuspendPoint {
    const suspendBlock = newBlock();
    const resumeBlock = newBlock();
    suspendBlock.terminator = { kind: "jump", target: resumeBlock };
    resumeBlock.terminator = { kind: "jump", target: next };
    const suspendPoint = { request, instruction, line: instruction.line, suspendBlock, resumeBlock };
    this.#suspendPoints.push(suspendPoint);
    return suspendPoint;
  }
}

/**
 * Returns the function that emits an instruction or a call of a host function. Undefined for an instruction that ends a
 * block.
 */
function emitOf(instruction: CompiledInstruction): Emit | undefined {
  const { form, line, text } = instruction;
  if (form.flow !== "call") return form.emit;
  const target = callTarget(instruction);
  if (target.kind !== "function") return undefined;
  const { kind, body } = target.declaration;
  if (kind === "entry") {
    throw new PtxError(line, `cannot compile "${text}": "${target.name}" is a kernel, and kernels cannot be called`);
  }
  if (body !== undefined) return undefined;
  const emit = hostCalls.get(target.name);
  if (emit !== undefined) return emit;
  throw new UnsupportedPtxError(
    line,
    `cannot compile "${text}": the module declares "${target.name}" but does not define it, and ${
      refusalOfFunction(target.name)
    }`,
  );
}

function switchTargets({ operands, line, text }: CompiledInstruction): readonly LabelName[] {
  const list = operands[1];
  if (list?.kind === "labels") return list.labels;
  throw new PtxError(line, `cannot compile "${text}": its second operand must name a .branchtargets list`);
}
