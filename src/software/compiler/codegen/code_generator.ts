/**
 * Compiles a kernel and the functions that it calls to one WebAssembly function: a loop over threads around the body of
 * one thread.
 *
 * If the threads of a block never wait for each other, each thread runs to completion, and the function also loops over
 * blocks. Otherwise, a thread that must wait leaves the body: it saves its live registers, and stores in its record the
 * index of the basic block where it resumes. The body begins with a switch on this index. Calls use the same mechanism:
 * the caller saves its live registers, and the callee returns through the switch.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import {
  type AddressedFunction,
  chooseFunction,
  faultStack,
  type IndirectCall,
  noteTarget,
  passedBytes,
  pushNextFrame,
} from "../instructions/call_instructions.ts";
import { mayHave } from "../../../ptx/instructions/instruction_traits.ts";
import { beginUninitialized } from "../checks/frame_shadows.ts";
import { trackedRegisters } from "../checks/tracked_registers.ts";
import { callTarget, stackDepth } from "../typing/call_layout.ts";
import { newBlock, redirect, reversePostorder, successors } from "../../../ptx/analysis/control_flow_graph.ts";
import { markBarriers } from "../checks/skipped_barriers.ts";
import { type LiveInterval, runType } from "./locals.ts";
import { type EmitOptions, type EmittedCode, FunctionEmitter } from "./function_emitter.ts";
import { type ParameterOffsets, parameterOffsets, pointerOrigins } from "../../../ptx/analysis/pointer_origins.ts";
import {
  blockBefore,
  type CompiledStep,
  copyOfFlow,
  type DivergencePoint,
  type FlowBlock,
  type FunctionFlow,
  type KernelFlows,
  type SuspendPoint,
} from "../control_flow/function_flow.ts";
import { instructionsOf, type ResolvedFunction, type ResolvedKernel } from "../typing/resolver.ts";
import { emitBlocks, lineOf, switchOnResumeIndex, usesOf } from "./block_code.ts";
import { emitSteps, registerReaders } from "./nan_checks.ts";
import { impliedChecks } from "./implied_checks.ts";
import { knownZeroBits } from "../../../ptx/analysis/known_zero_bits.ts";
import { type Definitions, liveRegisters } from "../../../ptx/analysis/definitions_and_uses.ts";
import { wholeLoad, wholeStore } from "./register_types.ts";
import { type CallSite, exited, savedHeader, type Suspension, threadRecord } from "../../abi/launch_record.ts";
import { findsReservedShared } from "../instructions/special_registers.ts";
import type { FunctionName, Register } from "../../../ptx/instructions/resolved_instruction.ts";
import { initializePredicated, liveIntervals } from "../control_flow/live_intervals.ts";
import { makeReducible } from "../control_flow/structured_code.ts";
import { resumeBlocksAt } from "../control_flow/divergence_points.ts";
import { emitSuspendableThreads, emitWholeBlocks } from "./thread_loops.ts";
import { addLockstepPoints, callsWhereThreadsSpin, orderOfSuspensions, unevenFunctions } from "./suspension_order.ts";
import { findPollingLoads } from "../control_flow/polling_loads.ts";
import { spinLoops } from "../control_flow/spin_loops.ts";
import { roundUp } from "../../../support/rounding.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";

/** A kernel compiled to a WebAssembly function, and the properties of the kernel that the function's caller needs. */
export interface GeneratedKernel {
  readonly definition: FunctionDefinition;
  /**
   * The suspensions: the points where threads may be suspended. If undefined, each thread runs to completion without
   * interruption, and one call of the function runs many blocks.
   */
  readonly suspensions: readonly Suspension[] | undefined;
  /** The distance between the local memories of successive threads, in bytes. */
  readonly localBytes: number;
  /** The size of the kernel's own frame in local memory, in bytes. */
  readonly frameBytes: number;
  /** The size of each thread's saved registers, in bytes. */
  readonly savedBytes: number;
  /** The number of bytes of its local memory that a thread may access. */
  readonly accessibleLocalBytes: number;
  /** The PTX lines where threads resume, by `resumeIndex`. Entries for the start of a function are missing. */
  readonly resumeLines: readonly number[];
  /** The call sites, by the `resumeIndex` where the call returns. */
  readonly callSites: ReadonlyMap<number, CallSite>;
  /** Whether threads may perform release operations other than barriers. Valid only with the check `race`. */
  readonly hasReleases: boolean;
  /**
   * Whether registers may be uninitialized for a reason other than a load of uninitialized memory. Valid only with the
   * check `initialization`.
   */
  readonly mayReadUnset: boolean;
}

/** A point where the kernel can resume a thread whose registers the gang version of the kernel saved. */
export interface ResumePoint {
  /** The resume index to store in the thread's record. */
  readonly resumeIndex: number;
  /** The suspension request to store in the thread's record. 0 if there is none. */
  readonly request: number;
  /** The registers that must be saved before the thread resumes here. */
  readonly live: readonly Register[];
}

/** A kernel whose threads can resume at the divergence points of a gang. */
export interface ResumableKernel extends GeneratedKernel {
  readonly suspensions: readonly Suspension[];
  /** The resume point at each divergence point, in the order given to the generator. */
  readonly divergencePoints: readonly ResumePoint[];
  /** The resume point after each instruction that suspends threads. */
  readonly suspended: ReadonlyMap<CompiledInstruction, ResumePoint>;
  /** The offset at which each register is saved, in bytes from the start of the thread's saved registers. */
  readonly slots: ReadonlyMap<Register, number>;
}

/** The inputs of the generator, other than the kernel's body. */
export interface GeneratorContext {
  readonly parameterBytes: number;
  /** The part of the module's image that contains the `.const` variables. */
  readonly constants: { readonly offset: number; readonly byteLength: number };
  /** The functions whose addresses are taken: any of them may be the target of an indirect call. */
  readonly addressed: ReadonlySet<FunctionName>;
  readonly flows: KernelFlows;
  /** The instructions before which the lanes of a warp wait for each other. */
  readonly lockstep: ReadonlySet<CompiledInstruction>;
  readonly options: EmitOptions;
}

/**
 * The extra stack size of each thread, in bytes, if functions may be recursive or allocate stack memory. Also the extra
 * size of each thread's saved registers if functions may be recursive.
 */
const unboundedStackBytes = 16384;

/**
 * The maximum number of register saves, summed over all points where a gang may diverge. Each save takes some tens of
 * bytes of code.
 */
const mostSavedRegisters = 2 ** 17;

/** Compiles a kernel to a WebAssembly function named `name`. */
export function generateKernel(name: string, resolved: ResolvedKernel, context: GeneratorContext): GeneratedKernel {
  return new KernelGenerator(resolved, context).generate(name);
}

/**
 * Compiles a kernel without calls so that its threads can resume at the divergence points of a gang. Undefined if
 * resuming requires more register saves than `mostSavedRegisters`: the code would be too large to be profitable.
 */
export function generateResumableKernel(
  name: string,
  resolved: ResolvedKernel,
  { divergencePoints, ...context }: GeneratorContext & { readonly divergencePoints: readonly DivergencePoint[] },
): ResumableKernel | undefined {
  return new KernelGenerator(resolved, context, divergencePoints).generateResumable(name);
}

/** A function of the kernel whose code has been emitted. */
interface GeneratedFunction {
  readonly flow: FunctionFlow;
  /** The offset at which each register is saved, in bytes from the start of the function's save area. */
  readonly slots: ReadonlyMap<Register, number>;
  /** The size of the function's save area, in bytes, including its header. */
  readonly savedBytes: number;
  /** Returns the registers that are live at the start of a basic block where threads resume. */
  readonly live: (block: FlowBlock) => readonly Register[];
}

/** A suspend point, the function that contains it, and the resume index of the point. */
interface NumberedSuspendPoint {
  readonly suspendPoint: SuspendPoint;
  readonly owner: GeneratedFunction;
  readonly resumeIndex: number;
}

/** The basic block that dispatches indirect calls. */
interface Chooser {
  /** The block whose code finds the function with the called address, and jumps to the function. */
  readonly block: FlowBlock;
  /** The locals that an indirect call sets before it jumps to the block. */
  readonly call: IndirectCall;
}

class KernelGenerator {
  readonly #resolved: ResolvedKernel;
  readonly #context: GeneratorContext;
  readonly #flows: ReadonlyMap<ResolvedFunction, FunctionFlow>;
  /**
   * The program order of the basic blocks that end with suspensions. The lanes of a warp that are at the
   * lowest-numbered block run first.
   */
  readonly #order: ReadonlyMap<FlowBlock, number>;
  readonly #intervals = new Map<FunctionFlow, readonly LiveInterval[]>();
  readonly #parameterOffsets = new Map<FunctionFlow, ParameterOffsets>();
  /** For each function, the instructions that set each register. */
  readonly #definitions = new Map<FunctionFlow, Definitions>();
  readonly #isResumable: boolean;
  readonly #isUnbounded: boolean;
  /** The cached value of `#savedBytes`, which is computed after the code of all functions has been emitted. */
  #savedBytesOnce: number | undefined;
  #mayReadUnset = false;
  readonly #emitter: FunctionEmitter;
  readonly #code = new Map<FlowBlock, EmittedCode>();
  readonly #conditions = new Map<FlowBlock, EmittedCode>();
  /**
   * Maps a basic block to a function that emits additional code before the code of the block, such as to restore
   * registers.
   */
  readonly #before = new Map<FlowBlock, () => void>();
  /**
   * Maps a basic block to a function that emits additional code after the code of the block, such as to save registers.
   */
  readonly #behind = new Map<FlowBlock, () => void>();
  readonly #functions = new Map<ResolvedFunction, GeneratedFunction>();
  readonly #suspensions: Suspension[] = [];
  readonly #resumeLines: number[] = [];
  readonly #callSites = new Map<number, CallSite>();
  readonly #divergencePoints: readonly FlowBlock[];
  readonly #divergenceLines: readonly number[];
  readonly #resumePoints = new Map<FlowBlock, ResumePoint>();

  constructor(
    resolved: ResolvedKernel,
    context: GeneratorContext,
    divergencePoints: readonly DivergencePoint[] | undefined = undefined,
  ) {
    this.#resolved = resolved;
    this.#context = context;
    const all = [resolved.kernel, ...resolved.callees.values()];
    this.#flows = new Map(all.map((resolved) => [resolved, copyOfFlow(context.flows.get(resolved)!)]));
    const callsInSpinLoops = context.lockstep.size > 0 && [...this.#flows.values()].some(callsWhereThreadsSpin);
    const { callees } = resolved;
    const uneven = unevenFunctions(this.#flows, context.lockstep, { callees, addressed: context.addressed });
    const isUnevenFunction = (name: FunctionName) => {
      const callee = callees.get(name);
      return callee !== undefined && uneven.has(callee);
    };
    const isAnyUneven = uneven.size > 0 && [...context.addressed].some(isUnevenFunction);
    const isUneven = (call: CompiledInstruction) => {
      const target = callTarget(call);
      return target.kind === "function" ? isUnevenFunction(target) : isAnyUneven;
    };
    let markedBarriers = 0;
    for (const flow of this.#flows.values()) {
      const isCalledWhereThreadsSpin = callsInSpinLoops && flow.function !== resolved.kernel;
      initializePredicated(flow);
      addLockstepPoints(flow, context.lockstep, { isCalledWhereThreadsSpin, isUneven });
      addYields(flow);
      if (context.options.kernelChecks.has("synchronization")) markedBarriers += markBarriers(flow, markedBarriers);
      // A kernel that resumes threads of a gang gets an empty map, because the gang's code does not keep the offset
      // registers live.
      const definitions = context.flows.get(flow.function)!.analysis.definitions;
      this.#definitions.set(flow, definitions);
      const offsets = flow.function === resolved.kernel && divergencePoints === undefined
        ? parameterOffsets(flow.entry, definitions)
        : new Map();
      this.#parameterOffsets.set(flow, offsets);
      const readsToo = new Map([...offsets].map(([instruction, { offset }]) => [instruction, [offset]]));
      this.#intervals.set(flow, liveIntervals(flow, readsToo));
    }
    this.#isResumable = divergencePoints !== undefined ||
      [...this.#flows.values()].some(({ suspendPoints }) => suspendPoints.length > 0);
    this.#divergencePoints = divergencePoints === undefined
      ? []
      : resumeBlocksAt(this.#flows.get(resolved.kernel)!, divergencePoints);
    this.#order = orderOfSuspensions([...this.#flows.values()]);
    this.#divergenceLines = divergencePoints?.map(({ instruction }) => instruction.line) ?? [];
    const instructions = all.flatMap(instructionsOf);
    const hasStackPointer = instructions.some((instruction) => mayHave(instruction, "allocates"));
    const { addressed } = context;
    const depth = stackDepth(resolved, { bytesOf: ({ frameBytes }) => frameBytes, addressed });
    this.#isUnbounded = depth.isUnbounded;
    const extra = hasStackPointer || depth.isUnbounded ? unboundedStackBytes : 0;
    this.#emitter = new FunctionEmitter(
      {
        parameters: context.parameterBytes,
        shared: resolved.usesDynamicShared ? undefined : resolved.sharedBytes,
        staticShared: resolved.sharedBytes,
        usesReservedShared: instructions.some(findsReservedShared),
        local: resolved.callees.size === 0 && !hasStackPointer
          ? resolved.kernel.variableBytes
          : depth.byteLength + extra,
        hasFrames: resolved.callees.size > 0,
        hasStackPointer,
        frameAlignment: resolved.kernel.frameAlignment,
        constants: context.constants,
      },
      context.options,
      this.#isResumable ? "record" : "x",
    );
    if (context.options.kernelChecks.has("race")) this.#emitter.pollingLoads = findPollingLoads(context.flows);
  }

  generate(name: string): GeneratedKernel {
    this.#generateFunctions();
    return this.#finish(name);
  }

  #generateFunctions(): void {
    for (const [resolved, flow] of this.#flows) this.#functions.set(resolved, this.#generateFunction(flow));
  }

  /** Joins the code of all functions into one WebAssembly function. */
  #finish(name: string): GeneratedKernel {
    const entry = this.#isResumable ? this.#joinFunctions() : this.#flows.get(this.#resolved.kernel)!.entry;
    const body = emitBlocks(this.#emitter, {
      tree: makeReducible(entry),
      code: this.#code,
      before: this.#before,
      behind: this.#behind,
      conditions: this.#conditions,
      fuelPerIteration: 1,
    });
    const { kernel } = this.#resolved;
    const [localBytes, savedBytes] = [this.#localStride, this.#savedBytes];
    const code = this.#isResumable
      ? emitSuspendableThreads(this.#emitter, body, { localBytes, savedBytes })
      : emitWholeBlocks(this.#emitter, body, kernel.frameBytes);
    return {
      definition: { type: runType, locals: this.#emitter.locals, code, exportName: name },
      suspensions: this.#isResumable ? this.#suspensions : undefined,
      localBytes,
      frameBytes: kernel.frameBytes,
      savedBytes,
      accessibleLocalBytes: this.#emitter.sizes.local,
      resumeLines: this.#resumeLines,
      callSites: this.#callSites,
      hasReleases: this.#emitter.hasReleases,
      mayReadUnset: this.#mayReadUnset,
    };
  }

  generateResumable(name: string): ResumableKernel | undefined {
    this.#generateFunctions();
    const { flow, slots, live } = this.#functions.get(this.#resolved.kernel)!;
    let saved = 0;
    for (const block of this.#divergencePoints) if (this.#code.has(block)) saved += live(block).length;
    if (saved > mostSavedRegisters) return undefined;
    const generated = this.#finish(name);
    const suspended = flow.suspendPoints.flatMap(({ instruction, resumeBlock }) => {
      const resumePoint = this.#resumePoints.get(resumeBlock);
      return instruction === undefined || resumePoint === undefined ? [] : [[instruction, resumePoint] as const];
    });
    return {
      ...generated,
      suspensions: this.#suspensions,
      divergencePoints: this.#divergencePoints.map((block) => this.#resumePoints.get(block)!),
      suspended: new Map(suspended),
      slots,
    };
  }

  /**
   * The size of each thread's saved registers, in bytes. Includes one more header, because the header of a callee is
   * written before the callee checks for stack overflow.
   */
  get #savedBytes(): number {
    return this.#savedBytesOnce ??= this.#countSavedBytes();
  }

  #countSavedBytes(): number {
    const depth = stackDepth(this.#resolved, {
      bytesOf: (resolved) => this.#functions.get(resolved)!.savedBytes,
      addressed: this.#context.addressed,
    });
    return depth.byteLength + savedHeader.byteLength + (depth.isUnbounded ? unboundedStackBytes : 0);
  }

  /**
   * The distance between the local memories of successive threads, in bytes. Includes space for arguments, because a
   * caller stores them before the callee checks for stack overflow.
   */
  get #localStride(): number {
    let passed = 0;
    for (const { suspendPoints } of this.#flows.values()) {
      for (const { request, instruction } of suspendPoints) {
        if (request === undefined) passed = Math.max(passed, passedBytes(instruction!));
      }
    }
    return roundUp(this.#emitter.sizes.local + passed, 16);
  }

  /** Emits the code of a function's basic blocks, and determines the registers to save at its suspend points. */
  #generateFunction(flow: FunctionFlow): GeneratedFunction {
    const e = this.#emitter;
    const { function: resolved, suspendPoints } = flow;
    const isEntered = resolved.call === undefined && this.#divergencePoints.length > 0;
    const entry = isEntered ? newBlock<CompiledStep>() : flow.entry;
    if (isEntered) {
      entry.terminator = {
        kind: "switch",
        on: { instruction: undefined, emit: () => {} },
        targets: [flow.entry, ...this.#divergencePoints],
      };
    }
    const intervals = this.#intervals.get(flow)!;
    const carry = e.newCarry();
    const registers = e.shadows && trackedRegisters(flow, { intervals, carry });
    const tracked = registers && beginUninitialized(flow, registers).tracked;
    if (registers?.mayReadUnset) this.#mayReadUnset = true;
    e.enterFunction(instructionsOf(resolved), intervals, {
      ...tracked === undefined ? {} : { tracked },
      parameterOffsets: this.#parameterOffsets.get(flow)!,
      impliedChecks: impliedChecks(flow, this.#definitions.get(flow)!),
      knownZeroBits: knownZeroBits(this.#definitions.get(flow)!, e.sizes),
      origins: e.options.kernelChecks.has("memory") ? pointerOrigins(instructionsOf(resolved)) : undefined,
    });
    // With shadow registers, runs of instructions are not emitted twice: if both copies were executed, the second copy
    // would read shadows that the first one has changed.
    const readers = e.shadows === undefined ? registerReaders(instructionsOf(resolved)) : undefined;
    const blocks = reversePostorder(entry);
    for (const block of blocks) {
      this.#code.set(block, e.emitSeparately(() => emitSteps(e, block.instructions, readers)));
      const { terminator } = block;
      if (terminator.kind !== "branch" && terminator.kind !== "switch") continue;
      const { on } = terminator;
      if ("emit" in on) this.#conditions.set(block, e.emitSeparately(() => on.emit(e)));
    }
    const use = (block: FlowBlock) => usesOf(this.#code.get(block)!, this.#conditions.get(block));
    const resumeBlocks = [
      ...suspendPoints.map(({ resumeBlock }) => resumeBlock),
      ...(isEntered ? this.#divergencePoints : []),
    ].filter((block) => this.#code.has(block));
    const live = resumeBlocks.length === 0
      ? () => []
      : liveRegisters({ entry, at: resumeBlocks, next: successors, use });
    const slots = new Map<Register, number>();
    let end: number = savedHeader.byteLength;
    for (const resumeBlock of resumeBlocks) {
      e.checkHolders(live(resumeBlock));
      for (const register of live(resumeBlock)) {
        if (slots.has(register)) continue;
        slots.set(register, end);
        end += 8;
      }
    }
    return { flow, slots, savedBytes: roundUp(end, 16), live };
  }

  /** Joins all functions into one graph, which begins with a switch on the thread's resume index. */
  #joinFunctions(): FlowBlock {
    const suspendPoints: NumberedSuspendPoint[] = [];
    const dispatch = newBlock<CompiledStep>();
    const targets = [this.#functions.get(this.#resolved.kernel)!.flow.entry];
    const lines = this.#resumeLines;
    const addressed = [...this.#context.addressed].flatMap((name) => {
      const callee = this.#resolved.callees.get(name);
      if (callee === undefined) return [];
      return [{ name, resumeIndex: targets.push(this.#functions.get(callee)!.flow.entry) - 1 }];
    });
    for (const owner of this.#functions.values()) {
      for (const suspendPoint of owner.flow.suspendPoints) {
        if (!this.#code.has(suspendPoint.suspendBlock)) continue;
        const resumeIndex = targets.push(suspendPoint.resumeBlock) - 1;
        lines[resumeIndex] = suspendPoint.line;
        suspendPoints.push({ suspendPoint, owner, resumeIndex });
      }
    }
    this.#divergencePoints.forEach((block, index) => {
      const resumeIndex = targets.push(block) - 1;
      lines[resumeIndex] = this.#divergenceLines[index]!;
      this.#resumeAt(block, { resumeIndex, request: 0 });
    });
    let chooser: Chooser | undefined;
    const chooserOnce = () => chooser ??= this.#newChooser(dispatch, addressed);
    for (const numbered of suspendPoints) {
      if (numbered.suspendPoint.request === undefined) this.#callFrom(numbered, chooserOnce);
      else this.#suspendAt(numbered);
    }
    for (const { flow } of this.#functions.values()) this.#finishFunction(flow, dispatch);
    this.#conditions.set(dispatch, switchOnResumeIndex(this.#emitter, dispatch, targets));
    return blockBefore(dispatch);
  }

  /** Makes a basic block of the kernel a resume point, which restores the registers that are live there. */
  #resumeAt(block: FlowBlock, point: Omit<ResumePoint, "live">): void {
    const owner = this.#functions.get(this.#resolved.kernel)!;
    this.#resumePoints.set(block, { ...point, live: owner.live(block) });
    this.#before.set(block, () => this.#restoreRegisters(owner, block));
  }

  #suspendAt({ suspendPoint, owner, resumeIndex }: NumberedSuspendPoint): void {
    const e = this.#emitter;
    const { request, line, suspendBlock, resumeBlock } = suspendPoint;
    const order = this.#order.get(suspendBlock) ?? 0;
    const number = this.#suspensions.push({ request: request!, line, order });
    this.#resumePoints.set(resumeBlock, { resumeIndex, request: number, live: owner.live(resumeBlock) });
    const store = (field: "saved" | "frame" | "stackPointer") => {
      e.getFixed("record");
      e.getFixed(field).memory("i32Store", threadRecord[field]);
    };
    this.#behind.set(suspendBlock, () => {
      this.#saveRegisters(owner, resumeBlock);
      e.getFixed("record").i32(resumeIndex).memory("i32Store", threadRecord.resumeIndex);
      e.getFixed("record").i32(number).memory("i32Store", threadRecord.request);
      if (e.sizes.hasFrames) {
        store("saved");
        store("frame");
      }
      if (e.sizes.hasStackPointer) store("stackPointer");
    });
    suspendBlock.terminator = { kind: "exit" };
    this.#before.set(resumeBlock, () => this.#restoreRegisters(owner, resumeBlock));
  }

  /** Creates the basic block that dispatches all indirect calls. */
  #newChooser(dispatch: FlowBlock, functions: readonly AddressedFunction[]): Chooser {
    const e = this.#emitter;
    const block = blockBefore(dispatch);
    const call = { address: e.newLocal("i64"), place: e.newLocal("i32") };
    this.#before.set(block, () => chooseFunction(e, call, functions));
    return { block, call };
  }

  #callFrom({ suspendPoint, owner, resumeIndex }: NumberedSuspendPoint, chooserOnce: () => Chooser): void {
    const e = this.#emitter;
    const { suspendBlock, resumeBlock } = suspendPoint;
    this.#callSites.set(resumeIndex, { order: this.#order.get(suspendBlock) ?? 0, savedBytes: owner.savedBytes });
    const instruction = suspendPoint.instruction!;
    const target = callTarget(instruction);
    const { frameBytes } = owner.flow.function;
    const pushCalleesSaved = () => e.getFixed("saved").i32(owner.savedBytes).ops("i32Add");
    this.#behind.set(suspendBlock, () => {
      e.begin(instruction);
      this.#saveRegisters(owner, resumeBlock);
      if (target.kind !== "function") noteTarget(e, instruction, chooserOnce().call);
      const frame = e.temporary("i32");
      pushNextFrame(e, frameBytes);
      e.code.set(frame);
      pushCalleesSaved();
      e.setFixed("saved");
      e.getFixed("saved").i32(resumeIndex).memory("i32Store", savedHeader.resumeIndex);
      for (const field of e.sizes.hasStackPointer ? ["frame", "stackPointer"] as const : ["frame"] as const) {
        e.getFixed("saved");
        e.getFixed(field).memory("i32Store", savedHeader[field]);
      }
      e.code.get(frame);
      e.setFixed("frame");
    });
    suspendBlock.terminator = {
      kind: "jump",
      target: target.kind === "function"
        ? this.#functions.get(this.#resolved.callees.get(target)!)!.flow.entry
        : chooserOnce().block,
    };
    this.#before.set(resumeBlock, () => {
      for (const field of e.sizes.hasStackPointer ? ["frame", "stackPointer"] as const : ["frame"] as const) {
        e.getFixed("saved").memory("i32Load", savedHeader[field]);
        e.setFixed(field);
      }
      e.getFixed("saved").i32(owner.savedBytes).ops("i32Sub");
      e.setFixed("saved");
      this.#restoreRegisters(owner, resumeBlock);
    });
  }

  /** Emits the code at a function's entry, return and exit. */
  #finishFunction({ function: resolved, entry, returning, exiting }: FunctionFlow, dispatch: FlowBlock): void {
    const e = this.#emitter;
    const isKernel = resolved.call === undefined;
    for (const block of isKernel ? [returning, exiting] : [exiting]) {
      this.#behind.set(block, () => e.getFixed("record").i32(exited).memory("i32Store", threadRecord.request));
    }
    if (isKernel) return;
    this.#behind.set(entry, () => this.#enterCallee(resolved));
    this.#behind.set(returning, () => {
      e.getFixed("saved").memory("i32Load", savedHeader.resumeIndex);
      e.setFixed("resumeIndex");
    });
    returning.terminator = { kind: "jump", target: dispatch };
  }

  #enterCallee(resolved: ResolvedFunction): void {
    const e = this.#emitter;
    const { frameBytes, line } = resolved;
    if (e.sizes.hasStackPointer) {
      e.getFixed("frame").i32(frameBytes).ops("i32Add");
      e.setFixed("stackPointer");
    }
    if (!this.#isUnbounded && !e.sizes.hasStackPointer) return;
    e.getFixed("frame").i32(frameBytes).ops("i32Add");
    e.getFixed("local").i32(e.sizes.local).ops("i32Add", "i32GtU");
    e.getFixed("saved").i32(this.#functions.get(resolved)!.savedBytes + savedHeader.byteLength).ops("i32Add");
    e.getFixed("savedRegisters");
    e.getFixed("thread").i32(1).ops("i32Add").i32(this.#savedBytes).ops("i32Mul", "i32Add", "i32GtU", "i32Or").if();
    faultStack(e, line);
    e.code.end();
  }

  #saveRegisters(owner: GeneratedFunction, resumeBlock: FlowBlock): void {
    const e = this.#emitter;
    for (const register of owner.live(resumeBlock)) {
      e.getFixed("saved").get(e.registerLocal(register));
      e.code.memory(wholeStore[e.valueType(register)], owner.slots.get(register)!);
    }
  }

  #restoreRegisters(owner: GeneratedFunction, resumeBlock: FlowBlock): void {
    const e = this.#emitter;
    for (const register of owner.live(resumeBlock)) {
      e.getFixed("saved").memory(wholeLoad[e.valueType(register)], owner.slots.get(register)!);
      e.code.set(e.registerLocal(register));
    }
  }
}

/** Adds suspend points to spin loops, so that a thread yields after a limited number of iterations. */
function addYields({ entry, suspendPoints }: FunctionFlow): void {
  for (const { from, header } of spinLoops(entry)) {
    const deciding = newBlock<CompiledStep>();
    const suspendBlock = newBlock<CompiledStep>();
    const resumeBlock = newBlock<CompiledStep>();
    const emit = (e: FunctionEmitter) => {
      e.getFixed("spins").i32(1).ops("i32Sub").tee(e.fixedLocal("spins")).i32(0).ops("i32LeS");
    };
    deciding.terminator = {
      kind: "branch",
      on: { instruction: undefined, emit },
      taken: suspendBlock,
      otherwise: header,
    };
    suspendBlock.terminator = { kind: "jump", target: resumeBlock };
    resumeBlock.terminator = { kind: "jump", target: header };
    redirect(from, { target: header, replacement: deciding });
    const line = lineOf(header) ?? lineOf(from) ?? 0;
    suspendPoints.push({ request: { kind: "yield" }, instruction: undefined, line, suspendBlock, resumeBlock });
  }
}
