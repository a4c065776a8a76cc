/**
 * Compiles a kernel and the functions that it calls to one WebAssembly function: a loop over threads around the body of
 * one thread.
 *
 * If the threads of a block never wait for each other, each thread runs to completion, and the function also loops over
 * blocks. Otherwise, a thread that must wait leaves the body: it saves its live registers, and stores in its record the
 * index of the basic block where it resumes. The body begins with a switch on this index. Calls use the same mechanism:
 * the caller saves its live registers, and the callee returns through the switch.
 *
 * A large kernel is divided into parts, each of which becomes a WebAssembly function (`kernel_parts.ts`). A thread that
 * jumps to another part also leaves the function. In a divided kernel, a thread saves only the registers that have
 * changed, and restores only the registers that it needs (`kept_registers.ts`).
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
import { mayHave, usesClusterMemory } from "../../../ptx/instructions/instruction_traits.ts";
import { beginUninitialized } from "../checks/frame_shadows.ts";
import { trackedRegisters } from "../checks/tracked_registers.ts";
import { callTarget, stackDepth } from "../typing/call_layout.ts";
import {
  mapTargets,
  newBlock,
  redirect,
  reversePostorder,
  successors,
} from "../../../ptx/analysis/control_flow_graph.ts";
import { markBarriers } from "../checks/skipped_barriers.ts";
import { markUnfinishedProducts } from "../checks/unfinished_products.ts";
import { type LiveInterval, partType, runType } from "./locals.ts";
import { estimatedBytes, KernelParts, splitLongBlocks } from "./kernel_parts.ts";
import { keptRegisters } from "./kept_registers.ts";
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
import { emitBlocks, emitFuel, lineOf, switchOnResumeIndex, usesOf } from "./block_code.ts";
import { emitSteps, registerReaders } from "./nan_checks.ts";
import { impliedChecks } from "./implied_checks.ts";
import { knownZeroBits } from "../../../ptx/analysis/known_zero_bits.ts";
import { type Definitions, liveRegisters } from "../../../ptx/analysis/definitions_and_uses.ts";
import { wholeLoad, wholeStore } from "./register_types.ts";
import {
  type CallSite,
  exited,
  productWorkspaceByteLength,
  savedHeader,
  type Suspension,
  threadRecord,
} from "../../abi/launch_record.ts";
import { findsReservedShared } from "../instructions/special_registers.ts";
import type { FunctionName, Register } from "../../../ptx/instructions/resolved_instruction.ts";
import { initializePredicated, liveIntervals } from "../control_flow/live_intervals.ts";
import { makeReducible, StructureError } from "../control_flow/structured_code.ts";
import { resumeBlocksAt } from "../control_flow/divergence_points.ts";
import { emitSuspendableThreads, emitWholeBlocks, type ResumeIndices, runParts } from "./thread_loops.ts";
import { addLockstepPoints, callsWhereThreadsSpin, orderOfSuspensions, unevenFunctions } from "./suspension_order.ts";
import { findPollingLoads } from "../control_flow/polling_loads.ts";
import { spinLoops } from "../control_flow/spin_loops.ts";
import { roundUp } from "../../../support/rounding.ts";
import { KernelFunctions } from "../webassembly/kernel_functions.ts";
import { type FunctionDefinition, isOfPossibleSize } from "../webassembly/module_encoder.ts";

/** A kernel compiled to a WebAssembly function, and the properties of the kernel that the function's caller needs. */
export interface GeneratedKernel {
  /** The WebAssembly functions of the kernel. The last one is exported. */
  readonly definitions: readonly FunctionDefinition[];
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
  /** The size of the memory in which products of matrices are computed, in bytes. 0 if the kernel has none. */
  readonly productBytes: number;
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
  /** The index that the kernel's first WebAssembly function will have in its module. */
  readonly functionIndex: number;
  /** The functions that the kernel shares with its version for gangs, and that are not among its definitions. */
  readonly sharedFunctions?: KernelFunctions;
  readonly options: EmitOptions;
}

/**
 * The maximum number of register saves, summed over all points where a gang may diverge. Each save takes some tens of
 * bytes of code.
 */
const mostSavedRegisters = 2 ** 17;

/** The size of a cache line, in bytes. */
const cacheLineBytes = 64;

/**
 * Compiles a kernel to a WebAssembly function named `name`. If that function is too large, or its control flow nests too
 * deeply, the kernel is divided into parts, each of which becomes a function, and the function named `name` calls them.
 */
export function generateKernel(name: string, resolved: ResolvedKernel, context: GeneratorContext): GeneratedKernel {
  const whole = generateIfPossible(name, new KernelGenerator(resolved, context, { isDivided: "if large" }));
  if (whole !== undefined) return whole;
  const { partBytes } = context.options;
  for (const fraction of [1, 10]) {
    const options = { ...context.options, partBytes: partBytes / fraction };
    const generator = new KernelGenerator(resolved, { ...context, options }, { isDivided: true });
    const divided = generateIfPossible(name, generator);
    if (divided !== undefined) return divided;
  }
  const options = { ...context.options, partBytes: partBytes / 100 };
  return new KernelGenerator(resolved, { ...context, options }, { isDivided: true }).generate(name);
}

/** Returns the result of a generator. Undefined if engines would not accept the resulting code. */
function generateIfPossible(name: string, generator: KernelGenerator): GeneratedKernel | undefined {
  try {
    const generated = generator.generate(name);
    return generated.definitions.every(isOfPossibleSize) ? generated : undefined;
  } catch (error) {
    if (error instanceof StructureError) return undefined;
    throw error;
  }
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
  return new KernelGenerator(resolved, context, { divergencePoints }).generateResumable(name);
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
  /** Returns the registers to save at a suspend point. */
  readonly saved: (point: Pick<SuspendPoint, "suspendBlock" | "resumeBlock">) => readonly Register[];
  /** Returns the registers to restore at the start of a basic block where threads resume. */
  readonly restored: (block: FlowBlock) => readonly Register[];
  /** The jumps from one part of the kernel to another. */
  readonly crossings: readonly Crossing[];
}

/** A jump from one part of a kernel to another. */
interface Crossing {
  /** The empty block that ends the part. */
  readonly suspendBlock: FlowBlock;
  /** The empty block before the target. All jumps to the target lead to it. */
  readonly resumeBlock: FlowBlock;
  readonly line: number;
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

/** A part of a divided kernel, while its control-flow graph is built. */
interface JoinedPart {
  readonly dispatch: FlowBlock;
  /** The blocks where threads start or resume, in the order of their resume indices. */
  readonly targets: FlowBlock[];
  /** The block that dispatches the part's indirect calls. Undefined if there are none. */
  chooser: Chooser | undefined;
}

/** The control-flow graph of a WebAssembly function, which begins with a switch on the resume index. */
interface Dispatch {
  readonly entry: FlowBlock;
  /** The resume indices of the blocks in the graph where threads start or resume. */
  readonly indices: ResumeIndices;
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
  #productBytes = 0;
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
  /** The parts of the kernel. Undefined if the kernel is not divided. */
  readonly #parts: KernelParts | undefined;

  constructor(
    resolved: ResolvedKernel,
    context: GeneratorContext,
    { divergencePoints, isDivided = false }: {
      readonly divergencePoints?: readonly DivergencePoint[];
      /**
       * Whether to divide the kernel into parts; `"if large"` divides it only if its estimated size exceeds
       * `dividedAbove`.
       */
      readonly isDivided?: boolean | "if large";
    } = {},
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
      if (context.options.kernelChecks.has("synchronization")) {
        markedBarriers += markBarriers(flow, markedBarriers);
        markUnfinishedProducts(flow, flow.function === resolved.kernel);
      }
      // A kernel that resumes threads of a gang gets an empty map, because the gang's code does not keep the offset
      // registers live.
      const definitions = context.flows.get(flow.function)!.analysis.definitions;
      this.#definitions.set(flow, definitions);
      const offsets = flow.function === resolved.kernel && divergencePoints === undefined
        ? parameterOffsets(flow.entry, definitions)
        : new Map();
      this.#parameterOffsets.set(flow, offsets);
    }
    const isSuspended = [...this.#flows.values()].some(({ suspendPoints }) => suspendPoints.length > 0);
    this.#findIntervals();
    // If no thread of the kernel is ever suspended, the undivided kernel runs faster, so divide it only if engines
    // would not accept it.
    const isLarge = isDivided === true || isDivided === "if large" && isSuspended && this.#isLarge();
    // Threads that compute products of matrices have many registers and often wait, so that it is best to save only
    // the registers that have changed.
    const divides = isLarge || isDivided === "if large" && [...this.#flows.values()].some(hasProducts);
    const { partBytes } = context.options;
    if (divides && [...this.#flows.values()].filter((flow) => splitLongBlocks(flow, partBytes)).length > 0) {
      this.#findIntervals();
    }
    this.#isResumable = divergencePoints !== undefined || divides || isSuspended;
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
    const extra = hasStackPointer || depth.isUnbounded ? context.options.stackBytes : 0;
    this.#emitter = new FunctionEmitter(
      {
        parameters: context.parameterBytes,
        shared: resolved.usesDynamicShared ? undefined : resolved.sharedBytes,
        staticShared: resolved.sharedBytes,
        usesReservedShared: instructions.some(findsReservedShared),
        usesClusterMemory: instructions.some(usesClusterMemory),
        local: resolved.callees.size === 0 && !hasStackPointer
          ? resolved.kernel.variableBytes
          : depth.byteLength + extra,
        hasFrames: resolved.callees.size > 0,
        hasStackPointer,
        frameAlignment: resolved.kernel.frameAlignment,
        constants: context.constants,
      },
      context.options,
      {
        threads: this.#isResumable ? "record" : "x",
        functions: context.sharedFunctions ?? new KernelFunctions(context.functionIndex),
      },
    );
    if (context.options.kernelChecks.has("race")) this.#emitter.pollingLoads = findPollingLoads(context.flows);
    this.#parts = divides ? new KernelParts(this.#emitter, partBytes) : undefined;
    this.#emitter.sharesChecks = isLarge;
  }

  #findIntervals(): void {
    for (const [flow, offsets] of this.#parameterOffsets) {
      const readsToo = new Map([...offsets].map(([instruction, { offset }]) => [instruction, [offset]]));
      this.#intervals.set(flow, liveIntervals(flow, readsToo));
    }
  }

  /** Whether the kernel's estimated size exceeds the size above which kernels are divided. */
  #isLarge(): boolean {
    const { kernelChecks, dividedAbove } = this.#context.options;
    const hasShadows = kernelChecks.has("initialization");
    let bytes = 0;
    for (const [flow, intervals] of this.#intervals) bytes += estimatedBytes(flow, { intervals, hasShadows });
    return bytes > dividedAbove;
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
    const { kernel } = this.#resolved;
    const { definitions, localBytes, savedBytes } = this.#emitFunctions(name);
    return {
      definitions,
      suspensions: this.#isResumable ? this.#suspensions : undefined,
      localBytes,
      frameBytes: kernel.frameBytes,
      savedBytes,
      productBytes: this.#productBytes,
      accessibleLocalBytes: this.#emitter.sizes.local,
      resumeLines: this.#resumeLines,
      callSites: this.#callSites,
      hasReleases: this.#emitter.hasReleases,
      mayReadUnset: this.#mayReadUnset,
    };
  }

  /** Emits the kernel's WebAssembly functions. */
  #emitFunctions(name: string): Pick<GeneratedKernel, "definitions" | "localBytes" | "savedBytes"> {
    const e = this.#emitter;
    const ownFunctions = () => this.#context.sharedFunctions === undefined ? e.kernelFunctions.definitions : [];
    if (!this.#isResumable) {
      const body = this.#emitBody(this.#flows.get(this.#resolved.kernel)!.entry);
      const [localBytes, savedBytes] = [this.#localStride, this.#savedBytes];
      const code = emitWholeBlocks(e, body, this.#resolved.kernel.frameBytes);
      const run = { type: runType, locals: e.locals, code, exportName: name };
      return { definitions: [...ownFunctions(), run], localBytes, savedBytes };
    }
    const dispatches = this.#joinFunctions();
    const [localBytes, savedBytes] = [this.#localStride, this.#savedBytes];
    if (this.#parts === undefined) {
      const code = emitSuspendableThreads(e, this.#emitBody(dispatches[0]!.entry), { localBytes, savedBytes });
      const run = { type: runType, locals: e.locals, code, exportName: name };
      return { definitions: [...ownFunctions(), run], localBytes, savedBytes };
    }
    const functionIndex = e.kernelFunctions.end;
    const definitions = dispatches.map(({ entry, indices }, part): FunctionDefinition => {
      this.#usePart(part);
      const code = emitSuspendableThreads(e, this.#emitBody(entry), { localBytes, savedBytes, part: indices });
      return { type: partType, locals: e.locals, code };
    });
    const calls = dispatches.map(({ indices }, part) => ({ ...indices, functionIndex: functionIndex + part }));
    const all = [...ownFunctions(), ...definitions, runParts(name, calls)];
    return { definitions: all, localBytes, savedBytes };
  }

  /** Switches to emitting code for a part of the kernel. Does nothing if the kernel is not divided. */
  #usePart(part: number): void {
    if (this.#parts !== undefined) this.#emitter.useLocals(this.#parts.locals[part]!);
  }

  #emitBody(entry: FlowBlock): Uint8Array {
    return emitBlocks(this.#emitter, {
      tree: makeReducible(entry),
      code: this.#code,
      before: this.#before,
      behind: this.#behind,
      conditions: this.#conditions,
      fuelPerIteration: 1,
    });
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
    const bytes = depth.byteLength + savedHeader.byteLength +
      (depth.isUnbounded ? this.#context.options.stackBytes : 0);
    if (this.#productBytes === 0) return bytes;
    // The fragments of a warp are read together, so they should not share few of a cache's sets.
    const lines = Math.ceil(bytes / cacheLineBytes);
    return cacheLineBytes * (lines % 2 === 0 ? lines + 1 : lines);
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
    // In a divided kernel, the memory for saved registers is uninitialized.
    if (this.#parts !== undefined) entry.instructions.unshift(initializations(intervals));
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
    const emitBlock = (block: FlowBlock): number => {
      const emitted = e.emitSeparately(() => emitSteps(e, block.instructions, readers));
      this.#code.set(block, emitted);
      const { terminator } = block;
      if ((terminator.kind === "branch" || terminator.kind === "switch") && "emit" in terminator.on) {
        const { on } = terminator;
        this.#conditions.set(block, e.emitSeparately(() => on.emit(e)));
      }
      return emitted.code.end - emitted.code.begin;
    };
    if (this.#parts !== undefined) this.#parts.assign(entry, emitBlock);
    else for (const block of reversePostorder(entry)) emitBlock(block);
    const suspending = suspendPoints.filter(({ suspendBlock }) => this.#code.has(suspendBlock));
    const crossings = this.#parts === undefined ? [] : this.#cutBetweenParts(flow, this.#parts);
    const use = (block: FlowBlock) => usesOf(this.#code.get(block)!, this.#conditions.get(block));
    const resumeBlocks = [
      ...new Set([...suspendPoints, ...crossings].map(({ resumeBlock }) => resumeBlock)),
      ...(isEntered ? this.#divergencePoints : []),
    ].filter((block) => this.#code.has(block));
    const live = resumeBlocks.length === 0
      ? () => []
      : liveRegisters({ entry, at: resumeBlocks, next: successors, use });
    const slots = new Map<Register, number>();
    for (const { instruction } of suspendPoints) {
      for (const [register, place] of instruction?.form.suspending?.residents ?? []) {
        slots.set(register, savedHeader.byteLength + place);
      }
    }
    const slotsOfHolders = new Map<Register, number>();
    /** In a divided kernel, registers that share a local also share the memory in which they are saved. */
    const holderOf = (register: Register) => this.#parts === undefined ? register : e.holderOf(register);
    const fragmentBytes = Math.max(0, ...suspendPoints.map(({ instruction }) => fragmentBytesOf(instruction)));
    if (fragmentBytes > 0) this.#productBytes = productWorkspaceByteLength;
    // The fragments of matrices that threads leave for their warp are at the beginning.
    let end: number = savedHeader.byteLength + roundUp(fragmentBytes, 8);
    for (const resumeBlock of resumeBlocks) {
      e.checkHolders(live(resumeBlock));
      for (const register of live(resumeBlock)) {
        if (slots.has(register)) continue;
        const holder = holderOf(register);
        let slot = slotsOfHolders.get(holder);
        if (slot === undefined) {
          slot = end;
          end += 8;
          slotsOfHolders.set(holder, slot);
        }
        slots.set(register, slot);
      }
    }
    const all = { flow, slots, savedBytes: roundUp(end, 16), live, crossings };
    if (this.#parts === undefined) return { ...all, saved: ({ resumeBlock }) => live(resumeBlock), restored: live };
    const ends = new Set([...suspending, ...crossings].map(({ suspendBlock }) => suspendBlock));
    const { saved, restored } = keptRegisters<FlowBlock, Register>({
      entry,
      next: successors,
      isSuspending: (block) => ends.has(block),
      accesses: (block) => {
        const { conditional } = this.#code.get(block)!;
        return { ...use(block), conditional };
      },
    });
    return { ...all, saved: ({ suspendBlock }) => saved(suspendBlock), restored };
  }

  /** Cuts a divided kernel's graph between its parts: replaces jumps from one part to another with crossings. */
  #cutBetweenParts({ entry, suspendPoints }: FunctionFlow, parts: KernelParts): readonly Crossing[] {
    const crossings: Crossing[] = [];
    const suspending = new Set(suspendPoints.map(({ suspendBlock }) => suspendBlock));
    const arrivals = new Map<FlowBlock, FlowBlock>();
    const departures = new Map<FlowBlock, Map<number, FlowBlock>>();
    const newEmptyBlock = (target: FlowBlock, part: number): FlowBlock => {
      const block = blockBefore(target);
      this.#code.set(block, this.#emitter.emitSeparately(() => {}));
      parts.put(block, part);
      return block;
    };
    for (const block of reversePostorder(entry)) {
      if (suspending.has(block)) continue;
      const part = parts.of(block);
      block.terminator = mapTargets(block.terminator, (target) => {
        if (parts.of(target) === part) return target;
        const resumeBlock = arrivals.get(target) ?? newEmptyBlock(target, parts.of(target));
        arrivals.set(target, resumeBlock);
        const others = departures.get(target) ?? new Map<number, FlowBlock>();
        departures.set(target, others);
        let suspendBlock = others.get(part);
        if (suspendBlock === undefined) {
          suspendBlock = newEmptyBlock(resumeBlock, part);
          others.set(part, suspendBlock);
          crossings.push({ suspendBlock, resumeBlock, line: lineOf(target) ?? lineOf(block) ?? 0 });
        }
        return suspendBlock;
      });
    }
    return crossings;
  }

  /**
   * Joins all functions into one graph, which begins with a switch on the thread's resume index. If the kernel is
   * divided, joins the functions into one graph for each part.
   */
  #joinFunctions(): readonly Dispatch[] {
    const parts = this.#parts;
    const partOf = (block: FlowBlock) => parts?.of(block) ?? 0;
    const joined = Array.from({ length: parts?.locals.length ?? 1 }, (): JoinedPart => {
      return { dispatch: newBlock(), targets: [], chooser: undefined };
    });
    const functions = [...this.#functions.values()];
    const kernel = this.#functions.get(this.#resolved.kernel)!;
    const addressed = [...this.#context.addressed].flatMap((name) => {
      const callee = this.#resolved.callees.get(name);
      return callee === undefined ? [] : [{ name, entry: this.#functions.get(callee)!.flow.entry }];
    });
    const suspendPoints = functions.flatMap((owner) =>
      owner.flow.suspendPoints.flatMap((suspendPoint) =>
        this.#code.has(suspendPoint.suspendBlock) ? { suspendPoint, owner } : []
      )
    );
    const crossings = functions.flatMap((owner) => owner.crossings.map((crossing) => ({ ...crossing, owner })));
    const entered = new Set([kernel.flow.entry, ...addressed.map(({ entry }) => entry)]);
    if (parts !== undefined) { for (const { flow } of functions) entered.add(flow.entry); }
    for (const { suspendPoint } of suspendPoints) entered.add(suspendPoint.resumeBlock);
    for (const { resumeBlock } of crossings) entered.add(resumeBlock);
    for (const block of this.#divergencePoints) entered.add(block);
    for (const block of entered) joined[partOf(block)]!.targets.push(block);
    const resumeIndices = new Map<FlowBlock, number>();
    const indices = joined.map(({ targets }): ResumeIndices => {
      const first = resumeIndices.size;
      for (const block of targets) resumeIndices.set(block, resumeIndices.size);
      return { first, count: targets.length };
    });
    const indexOf = (block: FlowBlock) => resumeIndices.get(block)!;
    const lines = this.#resumeLines;
    this.#divergencePoints.forEach((block, index) => {
      const resumeIndex = indexOf(block);
      lines[resumeIndex] = this.#divergenceLines[index]!;
      this.#resumeAt(block, { resumeIndex, request: 0 });
    });
    const callees = addressed.map(({ name, entry }) => ({ name, resumeIndex: indexOf(entry) }));
    const leave = ({ suspendBlock, line }: Pick<SuspendPoint, "suspendBlock" | "line">, to: FlowBlock): FlowBlock => {
      const isBackward = partOf(to) < partOf(suspendBlock);
      return this.#leavingBlock({ resumeIndex: indexOf(to), line, isBackward });
    };
    for (const { suspendPoint, owner } of suspendPoints) {
      const resumeIndex = indexOf(suspendPoint.resumeBlock);
      lines[resumeIndex] = suspendPoint.line;
      const numbered = { suspendPoint, owner, resumeIndex };
      if (suspendPoint.request !== undefined) {
        this.#suspendAt(numbered);
        continue;
      }
      const part = partOf(suspendPoint.suspendBlock);
      const own = joined[part]!;
      this.#usePart(part);
      this.#callFrom(numbered, {
        chooserOnce: () => own.chooser ??= this.#newChooser(own.dispatch, callees),
        enter: (entry) => partOf(entry) === part ? entry : leave(suspendPoint, entry),
      });
    }
    for (const { suspendBlock, resumeBlock, owner, line } of crossings) {
      const resumeIndex = indexOf(resumeBlock);
      lines[resumeIndex] = line;
      this.#behind.set(suspendBlock, () => this.#saveRegisters(owner, { suspendBlock, resumeBlock }));
      suspendBlock.terminator = { kind: "jump", target: leave({ suspendBlock, line }, resumeBlock) };
      this.#before.set(resumeBlock, () => this.#restoreRegisters(owner, resumeBlock));
    }
    for (const { flow } of functions) this.#finishFunction(flow, joined[partOf(flow.returning)]?.dispatch);
    return joined.map(({ dispatch, targets }, part) => {
      const { first } = indices[part]!;
      this.#usePart(part);
      // The switch selects the last target if the resume index belongs to another part.
      const others = parts === undefined ? [] : [this.#leavingBlock({ isBackward: true })];
      this.#conditions.set(dispatch, switchOnResumeIndex(this.#emitter, dispatch, [...targets, ...others], first));
      return { entry: blockBefore(dispatch), indices: indices[part]! };
    });
  }

  /**
   * Creates a basic block that ends a part of the kernel: the thread continues in another part, at the given resume
   * index, or at the one in the local `resumeIndex`.
   *
   * @param options `isBackward`: whether the other part may precede this one. Every loop that spans several parts
   * contains such a block, which consumes the loop's fuel for each iteration
   */
  #leavingBlock({ resumeIndex, line, isBackward }: {
    readonly resumeIndex?: number;
    readonly line?: number;
    readonly isBackward: boolean;
  }): FlowBlock {
    const e = this.#emitter;
    const block = newBlock<CompiledStep>();
    this.#behind.set(block, () => {
      if (resumeIndex !== undefined) {
        e.code.i32(resumeIndex);
        e.setFixed("resumeIndex");
      }
      if (isBackward) emitFuel(e, { fuelPerIteration: 1, line });
      for (const field of ["resumeIndex", "spins"] as const) {
        e.getFixed("record");
        e.getFixed(field).memory("i32Store", threadRecord[field]);
      }
      this.#storeFrame();
    });
    return block;
  }

  /** Emits code that stores the offsets of the thread's frame and saved registers in its record. */
  #storeFrame(): void {
    const e = this.#emitter;
    const store = (field: "saved" | "frame" | "stackPointer") => {
      e.getFixed("record");
      e.getFixed(field).memory("i32Store", threadRecord[field]);
    };
    if (e.sizes.hasFrames) {
      store("saved");
      store("frame");
    }
    if (e.sizes.hasStackPointer) store("stackPointer");
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
    this.#behind.set(suspendBlock, () => {
      this.#saveRegisters(owner, suspendPoint);
      e.getFixed("record").i32(resumeIndex).memory("i32Store", threadRecord.resumeIndex);
      e.getFixed("record").i32(number).memory("i32Store", threadRecord.request);
      this.#storeFrame();
    });
    suspendBlock.terminator = { kind: "exit" };
    const { instruction } = suspendPoint;
    this.#before.set(resumeBlock, () => {
      if (instruction !== undefined) instruction.form.suspending?.answer?.(e, instruction);
      this.#restoreRegisters(owner, resumeBlock);
    });
  }

  /** Creates the basic block that dispatches all indirect calls. */
  #newChooser(dispatch: FlowBlock, functions: readonly AddressedFunction[]): Chooser {
    const e = this.#emitter;
    const block = blockBefore(dispatch);
    const call = { address: e.newLocal("i64"), place: e.newLocal("i32") };
    this.#before.set(block, () => chooseFunction(e, call, functions));
    return { block, call };
  }

  /**
   * @param options `chooserOnce` returns the block that dispatches the indirect calls of the same part; `enter` returns
   * the block that leads to a function's entry
   */
  #callFrom(
    { suspendPoint, owner, resumeIndex }: NumberedSuspendPoint,
    { chooserOnce, enter }: { chooserOnce(): Chooser; enter(entry: FlowBlock): FlowBlock },
  ): void {
    const e = this.#emitter;
    const { suspendBlock, resumeBlock } = suspendPoint;
    this.#callSites.set(resumeIndex, { order: this.#order.get(suspendBlock) ?? 0, savedBytes: owner.savedBytes });
    const instruction = suspendPoint.instruction!;
    const target = callTarget(instruction);
    const { frameBytes } = owner.flow.function;
    const pushCalleesSaved = () => e.getFixed("saved").i32(owner.savedBytes).ops("i32Add");
    this.#behind.set(suspendBlock, () => {
      e.begin(instruction);
      this.#saveRegisters(owner, suspendPoint);
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
        ? enter(this.#functions.get(this.#resolved.callees.get(target)!)!.flow.entry)
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
  #finishFunction(
    { function: resolved, entry, returning, exiting }: FunctionFlow,
    dispatch: FlowBlock | undefined,
  ): void {
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
    if (dispatch !== undefined) returning.terminator = { kind: "jump", target: dispatch };
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

  #saveRegisters(owner: GeneratedFunction, point: Pick<SuspendPoint, "suspendBlock" | "resumeBlock">): void {
    const e = this.#emitter;
    for (const register of owner.saved(point)) {
      e.getFixed("saved").get(e.registerLocal(register));
      e.code.memory(wholeStore[e.valueType(register)], owner.slots.get(register)!);
    }
  }

  #restoreRegisters(owner: GeneratedFunction, resumeBlock: FlowBlock): void {
    const e = this.#emitter;
    for (const register of owner.restored(resumeBlock)) {
      e.getFixed("saved").memory(wholeLoad[e.valueType(register)], owner.slots.get(register)!);
      e.code.set(e.registerLocal(register));
    }
  }
}

function hasProducts({ suspendPoints }: FunctionFlow): boolean {
  return suspendPoints.some(({ instruction }) => fragmentBytesOf(instruction) > 0);
}

function fragmentBytesOf(instruction: CompiledInstruction | undefined): number {
  return instruction?.form.suspending?.fragmentBytes?.(instruction) ?? 0;
}

/** Returns a step that sets registers to 0 if the function may read them before setting them. */
function initializations(intervals: readonly LiveInterval[]): CompiledStep {
  const unset = intervals.filter(({ begin }) => begin === 0).map(({ register }) => register);
  return { instruction: undefined, emit: (e) => unset.forEach((register) => e.initialize(register)) };
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
