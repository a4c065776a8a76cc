import { FunctionAnalysis } from "../../../ptx/analysis/function_analysis.ts";
import { PtxError } from "../../../ptx/syntax.ts";
import { passArguments, readTarget, takeResults } from "../instructions/call_instructions.ts";
import { hostCalls } from "../instructions/host_calls.ts";
import { callTarget } from "../typing/call_layout.ts";
import {
  type BasicBlock,
  mapTargets,
  newBlock,
  postorder,
  successors,
} from "../../../ptx/analysis/control_flow_graph.ts";
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { CompiledInstruction, Emit, InstructionForm } from "../instructions/instruction_form.ts";
import type { Flow } from "../../../ptx/instructions/instruction_traits.ts";
import { FlowBuilder } from "../../../ptx/analysis/flow_builder.ts";
import type { SuspensionRequest } from "../../abi/launch_record.ts";
import type { Register } from "../../../ptx/instructions/resolved_instruction.ts";
import { refusalOfFunction } from "../instructions/refused_instructions.ts";
import { typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import { UnsupportedPtxError } from "../../../ptx/instruction_support.ts";
import { instructionsOf, type ResolvedFunction, type ResolvedKernel } from "../typing/resolver.ts";

/**
 * One step of a basic block: an instruction, or code between instructions. Also used for the code that pushes the
 * operand of a block's branch.
 */
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
  /** The request that the thread makes to the scheduler. Undefined for a call. */
  readonly request: SuspensionRequest | undefined;
  /**
   * The instruction that suspends the thread or calls a function. Undefined if the compiler added the suspend point.
   */
  readonly instruction: CompiledInstruction | undefined;
  readonly line: number;
  /** The basic block that ends with the suspension. */
  readonly suspendBlock: FlowBlock;
  /** The basic block where the thread resumes. */
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

/** Creates an empty basic block that jumps to `target`. */
export function blockBefore(target: FlowBlock): FlowBlock {
  const block = newBlock<CompiledStep>();
  block.terminator = { kind: "jump", target };
  return block;
}

/** A point where the threads of a gang may diverge. */
export interface DivergencePoint {
  readonly instruction: CompiledInstruction;
  /**
   * Where the threads may diverge: before the instruction, on the taken or not-taken edge of a branch, or where the
   * instruction suspends the thread.
   */
  readonly way: "before" | "taken" | "otherwise" | "suspending";
}

/**
 * Splits basic blocks so that each of the given instructions begins a block. Returns the blocks before and after each
 * split. If a suspend block is split, its last part becomes the suspend block.
 */
export function splitBefore(
  { entry, suspendPoints }: FunctionFlow,
  instructions: ReadonlySet<CompiledInstruction>,
): Map<CompiledInstruction, { readonly before: FlowBlock; readonly block: FlowBlock }> {
  const splits = new Map<CompiledInstruction, { before: FlowBlock; block: FlowBlock }>();
  if (instructions.size === 0) return splits;
  /** The last part of each basic block that has been split. */
  const ends = new Map<FlowBlock, FlowBlock>();
  for (const whole of postorder([entry], successors)) {
    let block = whole;
    whole.instructions.splice(0).forEach((step) => {
      const { instruction } = step;
      if (instruction !== undefined && instructions.has(instruction) && !splits.has(instruction)) {
        const next = newBlock<CompiledStep>();
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

/** Builds the basic blocks of a function's body, and analyzes them. */
export function functionFlow(resolved: ResolvedFunction): AnalyzedFlow {
  const flow = controlFlow(resolved);
  return { ...flow, analysis: new FunctionAnalysis(flow.entry, instructionsOf(resolved)) };
}

/** Builds the basic blocks of a function's body. */
export function controlFlow(resolved: ResolvedFunction): FunctionFlow {
  return new CompiledFlowBuilder(resolved).build();
}

/** Returns a copy of a flow. Its blocks are copied too, so that the caller may modify them. */
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

/** Divides a function into basic blocks whose steps emit code, and finds its suspend points. */
class CompiledFlowBuilder extends FlowBuilder<InstructionForm, CompiledStep> {
  readonly #function: ResolvedFunction;
  readonly #suspendPoints: SuspendPoint[] = [];

  constructor(resolved: ResolvedFunction) {
    super(resolved.items);
    this.#function = resolved;
  }

  build(): FunctionFlow {
    return {
      function: this.#function,
      entry: this.buildBlocks(),
      returning: this.returning,
      exiting: this.exiting,
      suspendPoints: this.#suspendPoints,
    };
  }

  protected override stepOf(instruction: CompiledInstruction): CompiledStep | undefined {
    const emit = emitOf(instruction);
    return emit && { instruction, emit: (e) => e.emit(instruction, emit) };
  }

  protected override flowOf({ form }: CompiledInstruction): Flow {
    return form.flow!;
  }

  protected override branchStep(instruction: CompiledInstruction): CompiledStep {
    return {
      instruction,
      emit: (e) => {
        if (e.shadows !== undefined) {
          e.begin(instruction);
          e.shadows.require(instruction.predicate!.register, "branch");
        }
        e.pushPredicate(instruction);
      },
    };
  }

  protected override switchStep(instruction: CompiledInstruction): CompiledStep {
    return {
      instruction,
      emit: (e) => {
        e.begin(instruction);
        e.shadows?.require(instruction.operands[0], "branch");
        e.push(instruction.operands[0], typeNamed("u32"));
      },
    };
  }

  protected override leave(instruction: CompiledInstruction, next: FlowBlock): FlowBlock {
    const { suspending } = instruction.form;
    if (suspending !== undefined) {
      const { describe, request, resume } = suspending;
      return this.#addSuspendPoint(instruction, { next, suspend: request, resume, request: describe(instruction) });
    }
    const { frameBytes } = this.#function;
    return this.#addSuspendPoint(instruction, {
      next,
      suspend: (e, i) => {
        passArguments(e, i, frameBytes);
        readTarget(e, i);
      },
      resume: (e, i) => takeResults(e, i, frameBytes),
    });
  }

  /**
   * Adds a suspend point, and returns its suspend block. The code before it branches on the instruction's predicate.
   */
  #addSuspendPoint(
    instruction: CompiledInstruction,
    { next, suspend, resume, request }: {
      next: FlowBlock;
      suspend: Emit;
      resume: Emit;
      request?: SuspensionRequest;
    },
  ): FlowBlock {
    const suspendBlock = newBlock<CompiledStep>();
    const resumeBlock = newBlock<CompiledStep>();
    suspendBlock.instructions.push({ instruction, emit: (e) => e.emitAlways(instruction, suspend) });
    resumeBlock.instructions.push({ instruction, emit: (e) => e.emitAlways(instruction, resume) });
    suspendBlock.terminator = { kind: "jump", target: resumeBlock };
    resumeBlock.terminator = { kind: "jump", target: next };
    this.#suspendPoints.push({ request, instruction, line: instruction.line, suspendBlock, resumeBlock });
    return suspendBlock;
  }
}

/**
 * Returns the function that emits an instruction or a call of a host function. Undefined for an instruction that ends a
 * basic block.
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
