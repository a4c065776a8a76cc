/**
 * Compiles a kernel to a function that runs gangs: threads that are adjacent along x and that follow the same path,
 * executed on vectors as if they were one thread.
 *
 * Where the threads of a gang diverge, the gang takes a scalar exit: its registers are saved in the layout of the
 * kernel's scalar function, which then resumes the threads one by one. At a barrier, a gang is suspended as a thread
 * is, and scalar threads that wait at the same barrier reconverge to a gang. If some threads of a block wait outside of
 * gangs, all threads of the block are saved one by one, and the caller resumes them.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import { pointerOrigins } from "../../../ptx/analysis/pointer_origins.ts";
import { generateResumableKernel, type GeneratorContext, type ResumableKernel } from "../codegen/code_generator.ts";
import { newBlock, postorder, predecessors, redirect, successors } from "../../../ptx/analysis/control_flow_graph.ts";
import { launchRecordLocal } from "../codegen/locals.ts";
import { type EmittedCode, FunctionEmitter } from "../codegen/function_emitter.ts";
import {
  blockBefore,
  type CompiledStep,
  copyOfFlow,
  type DivergencePoint,
  type FlowBlock,
  type FunctionFlow,
  type SuspendPoint,
} from "../control_flow/function_flow.ts";
import { instructionsOf, type ResolvedKernel } from "../typing/resolver.ts";
import { concatenated, emitBlocks, switchOnResumeIndex, usesOf } from "../codegen/block_code.ts";
import { launchFieldOffset } from "../../abi/launch_record.ts";
import { findsReservedShared, gangRules } from "../instructions/special_registers.ts";
import { liveRegisters } from "../../../ptx/analysis/definitions_and_uses.ts";
import { branchesOf, type BranchingBlock, splitAt, suspendBlocksOf } from "../control_flow/divergence_points.ts";
import type { Register } from "../../../ptx/instructions/resolved_instruction.ts";
import { reconvergeFunction, type ScalarExit, scalarExitFunction } from "./scalar_exits.ts";
import { GangEmitter } from "./gang_emitter.ts";
import { emitGangSteps } from "./gang_runs.ts";
import { type RegisterReaders, registerReaders } from "../codegen/nan_checks.ts";
import { gangHeader, gangState, type GangWidth } from "./gang_layout.ts";
import {
  type BlockState,
  emitIncrement,
  emitSuspendableGangs,
  emitWholeGangs,
  pushFirstThreadIndex,
} from "./gang_loops.ts";
import { MaskedCode } from "./masked_code.ts";
import { chooseMaskedRegions, type MaskedRegion, type MaskedRegions } from "./masked_loops.ts";
import { findUniformity, type Uniformity } from "../../../ptx/analysis/uniformity.ts";
import { barrierOfAll, canRunInGangs, CostModel } from "./cost_model.ts";
import { initializePredicated, liveIntervals } from "../control_flow/live_intervals.ts";
import { makeReducible } from "../control_flow/structured_code.ts";
import { typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import type { KernelFunctions } from "../webassembly/kernel_functions.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";

/** A kernel compiled to run in gangs: groups of threads of a warp that execute each instruction together. */
export interface GeneratedGangKernel {
  /** The kernel compiled for individual threads, which runs threads after they have left their gang. */
  readonly resumable: ResumableKernel;
  /**
   * The function that saves the threads of a gang as individual threads, at a scalar exit. The functions of a gang
   * kernel call each other by the indices in {@linkcode GangFunctionIndices}.
   */
  readonly scalarExit: FunctionDefinition;
  /** The function that merges individual threads into a gang again. */
  readonly reconverge: FunctionDefinition;
  /** The function that runs gangs. */
  readonly gangs: FunctionDefinition;
  /** The size of each gang's save area in bytes. */
  readonly gangBytes: number;
  /** The number of registers in the innermost loops that are stored in vector locals. */
  readonly vectorRegisters: number;
  /** The number of registers counted by `vectorRegisters` that have 64 bits. */
  readonly wideRegisters: number;
  /** Whether gangs can be suspended. If so, the save areas of all gangs of a block are in use at the same time. */
  readonly hasBarriers: boolean;
  /**
   * Whether a loop whose threads may diverge is run under a mask until the last thread of the gang has left the loop.
   */
  readonly hasMaskedLoops: boolean;
}

/** The indices, in the module, of the scalar kernel, the scalar exit function and the reconvergence function. */
export interface GangFunctionIndices {
  readonly resumable: number;
  readonly scalarExit: number;
  readonly reconverge: number;
}

/** The inputs of the gang generator, other than the kernel's resolved body. */
export interface GangContext extends GeneratorContext {
  readonly sharedFunctions: KernelFunctions;
  readonly indices: GangFunctionIndices;
  readonly width: GangWidth;
}

/** A suspend point where whole gangs wait at a barrier. */
interface BarrierPoint extends SuspendPoint {
  readonly barrier: number;
}

/** Compiles a kernel to run in gangs. Returns undefined if gangs are not possible or not profitable. */
export function generateGangKernel(
  name: string,
  resolved: ResolvedKernel,
  context: GangContext,
): GeneratedGangKernel | undefined {
  if (!canRunInGangs(resolved, context.flows.get(resolved.kernel)!)) return undefined;
  const generator = new GangGenerator(resolved, context, { masks: true });
  const generated = generator.generate(name);
  if (generated !== undefined || !generator.hasMaskedLoops) return generated;
  return new GangGenerator(resolved, context, { masks: false }).generate(name);
}

/**
 * 64-bit arithmetic is executed on vectors only in kernels with at most this many instructions, to limit the code size:
 * each run of such arithmetic is emitted a second time, for one thread at a time, in case a result is NaN.
 */
const mostInstructionsOfRuns = 4000;
/**
 * Loops are masked only in kernels with at most this many instructions, because the time to choose the loops is more
 * than linear in the number of instructions.
 */
const mostInstructionsOfMasked = 4000;

const u32 = typeNamed("u32");
const s32 = typeNamed("s32");

class GangGenerator {
  readonly #context: GangContext;
  readonly #resolved: ResolvedKernel;
  readonly #instructions: readonly CompiledInstruction[];
  readonly #readers: RegisterReaders | undefined;
  readonly #uniformity: Uniformity;
  readonly #flow: FunctionFlow;
  readonly #emitter: FunctionEmitter;
  readonly #gang: GangEmitter;
  readonly #code = new Map<FlowBlock, EmittedCode>();
  readonly #conditions = new Map<FlowBlock, EmittedCode>();
  readonly #exitBlock = newBlock<CompiledStep>();
  /** The local with the index of the scalar exit through which a gang leaves vector code. */
  readonly #point: number;
  readonly #block: BlockState;
  readonly #costModel: CostModel;
  readonly #masked: MaskedRegions;
  /** Maps each basic block that replaces a masked loop to its region. */
  readonly #maskedBlocks = new Map<FlowBlock, MaskedRegion>();

  constructor(resolved: ResolvedKernel, context: GangContext, { masks }: { readonly masks: boolean }) {
    this.#resolved = resolved;
    this.#context = context;
    this.#instructions = instructionsOf(resolved.kernel);
    this.#readers = this.#instructions.length <= mostInstructionsOfRuns
      ? registerReaders(this.#instructions)
      : undefined;
    this.#flow = copyOfFlow(context.flows.get(resolved.kernel)!);
    initializePredicated(this.#flow);
    this.#masked = masks && this.#instructions.length <= mostInstructionsOfMasked ? this.#chooseMaskedRegions() : {
      regions: [],
      uniformity: findUniformity(this.#instructions, gangRules),
      isLocal: () => false,
    };
    this.#uniformity = this.#masked.uniformity;
    this.#gang = this.#newGang(this.#uniformity);
    this.#emitter = this.#gang.emitter;
    const newLocal = () => this.#emitter.newLocal("i32");
    this.#point = newLocal();
    this.#block = { waiting: newLocal(), barrier: newLocal(), isMixed: newLocal() };
    this.#costModel = new CostModel(this.#instructions, this.#flow.entry);
  }

  get hasMaskedLoops(): boolean {
    return this.#masked.regions.length > 0;
  }

  #newGang(uniformity: Uniformity): GangEmitter {
    const { sharedBytes, usesDynamicShared } = this.#resolved;
    const emitter = new FunctionEmitter(
      {
        parameters: this.#context.parameterBytes,
        shared: usesDynamicShared ? undefined : sharedBytes,
        staticShared: sharedBytes,
        usesReservedShared: this.#instructions.some(findsReservedShared),
        usesClusterMemory: false,
        local: 0,
        hasFrames: false,
        hasStackPointer: false,
        frameAlignment: this.#resolved.kernel.frameAlignment,
        constants: this.#context.constants,
      },
      this.#context.options,
      { functions: this.#context.sharedFunctions },
    );
    const gang = new GangEmitter(emitter, uniformity, this.#context.width);
    gang.propagatesNaNs = this.#readers === undefined;
    emitter.enterFunction(this.#instructions, liveIntervals(this.#flow), {
      classOf: (register) => gang.kindOf(register),
      origins: emitter.options.kernelChecks.has("memory") ? pointerOrigins(this.#instructions) : undefined,
    });
    return gang;
  }

  #chooseMaskedRegions(): MaskedRegions {
    return chooseMaskedRegions({
      flow: this.#flow,
      findUniformity: (varying) => findUniformity(this.#instructions, gangRules, varying),
      runsOnVectors: (uniformity) => {
        if (this.#context.options.gangs === "always") return () => true;
        const gang = this.#newGang(uniformity);
        return (instruction) => gang.runsOnVectors(instruction);
      },
    });
  }

  /**
   * Whether gangs run from barrier to barrier, because their threads may wait for other threads, either at barriers or,
   * after leaving their gang, at lockstep points.
   */
  get #hasBarriers(): boolean {
    return this.#flow.suspendPoints.length > 0 || this.#context.lockstep.size > 0;
  }

  /** The suspend points where whole gangs wait at a barrier. */
  get #barriers(): readonly BarrierPoint[] {
    return this.#flow.suspendPoints.flatMap((suspendPoint) => {
      const barrier = barrierOfAll(suspendPoint);
      return barrier === undefined ? [] : [{ ...suspendPoint, barrier }];
    });
  }

  generate(name: string): GeneratedGangKernel | undefined {
    this.#estimateCost();
    if (this.#context.options.gangs !== "always" && !this.#costModel.isProfitable) return undefined;
    const divergencePoints = this.#findDivergencePoints();
    const resumable = generateResumableKernel(name, this.#resolved, { ...this.#context, divergencePoints });
    if (resumable === undefined) return undefined;
    const points: ScalarExit[] = [{ kind: "exited" }];
    const entry = this.#hasBarriers ? this.#joinSuspensions(resumable, points) : this.#flow.entry;
    this.#maskLoops(divergencePoints, { resumable, points });
    this.#diverge(divergencePoints, { resumable, points });
    this.#emitBlocks(entry);
    this.#emitSuspensions(entry, points);
    const body = emitBlocks(this.#emitter, {
      tree: makeReducible(entry),
      code: this.#code,
      conditions: this.#conditions,
      fuelPerIteration: this.#gang.width,
    });
    const { indices } = this.#context;
    const scalarExit = scalarExitFunction(points, { gang: this.#gang, resumable, index: indices.resumable });
    const reconverge = reconvergeFunction(points, { gang: this.#gang, resumable });
    // The function is emitted last, because the size of the save areas is final only after the body has been generated.
    const code = this.#hasBarriers
      ? emitSuspendableGangs(this.#gang, body, { block: this.#block, scalarExit: indices.scalarExit })
      : emitWholeGangs(this.#gang, body);
    const inVectors = [...this.#costModel.innermostRegisters].filter((register) => {
      return this.#gang.storageOf(register).kind === "vectors";
    });
    return {
      resumable,
      scalarExit,
      reconverge,
      gangs: { type: gangFunctionType, locals: this.#emitter.locals, code, exportName: "gangs" },
      gangBytes: this.#gang.savedBytes,
      vectorRegisters: inVectors.length,
      wideRegisters: inVectors.filter(({ type }) => type.bits === 64).length,
      hasBarriers: this.#hasBarriers,
      hasMaskedLoops: this.hasMaskedLoops,
    };
  }

  /** Adds the instructions that gangs execute to the cost model. Runs before the expensive part of compilation. */
  #estimateCost(): void {
    const suspending = new Map(
      this.#flow.suspendPoints.map((suspendPoint) => [suspendPoint.suspendBlock, suspendPoint]),
    );
    const resuming = new Set(this.#flow.suspendPoints.map(({ resumeBlock }) => resumeBlock));
    // If a gang is suspended at any point except a barrier of all threads, its threads run one by one until the next
    // barrier.
    const next = (block: FlowBlock) => {
      const suspendPoint = suspending.get(block);
      return suspendPoint !== undefined && barrierOfAll(suspendPoint) === undefined ? [] : successors(block);
    };
    const roots = [this.#flow.entry, ...this.#barriers.map(({ resumeBlock }) => resumeBlock)];
    for (const block of postorder(roots, next)) {
      if (suspending.has(block) || resuming.has(block)) continue;
      for (const { instruction } of block.instructions) {
        if (instruction !== undefined) this.#costModel.note(instruction, this.#gang.takesLoop(instruction) ? 1 : 0);
      }
    }
  }

  #findDivergencePoints(): DivergencePoint[] {
    const divergencePoints: DivergencePoint[] = [];
    for (const instruction of this.#instructions) {
      if (this.#uniformity.widened(instruction) !== undefined) divergencePoints.push({ instruction, way: "before" });
    }
    for (const suspendPoint of this.#flow.suspendPoints) {
      if (barrierOfAll(suspendPoint) === undefined) {
        divergencePoints.push({ instruction: suspendPoint.instruction!, way: "suspending" });
      }
    }
    const exits = this.#masked.regions.flatMap(({ exits }) => exits.length > 1 ? exits.map(({ way }) => way) : []);
    divergencePoints.push(...exits);
    for (const [instruction, { block }] of branchesOf(this.#flow)) {
      if (this.#masked.regions.some(({ loop }) => loop.blocks.has(block))) continue;
      if (this.#uniformity.strideOf(instruction.predicate!.register) === 0n) continue;
      divergencePoints.push({ instruction, way: "taken" }, { instruction, way: "otherwise" });
    }
    return divergencePoints;
  }

  /**
   * Inserts a basic block that switches on the point at which the gang resumes. Returns this block, which is the new
   * entry.
   */
  #joinSuspensions(resumable: ResumableKernel, points: ScalarExit[]): FlowBlock {
    const dispatch = newBlock<CompiledStep>();
    const targets = [this.#flow.entry];
    for (const { instruction, resumeBlock, barrier } of this.#barriers) {
      targets.push(resumeBlock);
      const resumePoint = resumable.suspended.get(instruction!);
      points.push(
        resumePoint === undefined ? { kind: "exited" } : { kind: "suspended", resumePoint, barrier },
      );
    }
    this.#conditions.set(dispatch, switchOnResumeIndex(this.#emitter, dispatch, targets));
    return blockBefore(dispatch);
  }

  /** Replaces each masked loop with a single basic block. */
  #maskLoops(
    divergencePoints: readonly DivergencePoint[],
    { resumable, points }: { resumable: ResumableKernel; points: ScalarExit[] },
  ): void {
    const { isLocal } = this.#masked;
    const before = predecessors(postorder([this.#flow.entry], successors), successors);
    for (const region of this.#masked.regions) {
      const { loop: { header, blocks }, exits: [first, second] } = region;
      const masked = new MaskedCode(this.#gang, region, { isLocal, emitSteps: (block) => this.#emitSteps(block) });
      const block = newBlock<CompiledStep>();
      this.#maskedBlocks.set(block, region);
      block.instructions.push({ instruction: undefined, emit: () => masked.emit() });
      for (const from of before.get(header)!) {
        if (!blocks.has(from)) redirect(from, { target: header, replacement: block });
      }
      if (second === undefined) {
        block.terminator = { kind: "jump", target: first!.target };
        continue;
      }
      const resumePoint = (way: DivergencePoint) => resumable.divergencePoints[divergencePoints.indexOf(way)]!;
      const [taken, otherwise] = [resumePoint(first!.way), resumePoint(second.way)];
      const pushMask = () => masked.pushFirstExit();
      const divergence = this.#newDivergence({ kind: "branch", taken, otherwise }, { points, pushMask });
      const branch = { kind: "branch", on: { instruction: undefined, emit: () => {} } } as const;
      this.#divergeAtBranch({
        block,
        branch: { ...branch, taken: first!.target, otherwise: second.target },
      }, { divergence, pushMask });
    }
  }

  /** Adds the basic blocks that gangs execute when their threads diverge. */
  #diverge(
    divergencePoints: readonly DivergencePoint[],
    { resumable, points }: { resumable: ResumableKernel; points: ScalarExit[] },
  ): void {
    const branches = branchesOf(this.#flow);
    divergencePoints.forEach(({ instruction, way }, index) => {
      const resumePoint = resumable.divergencePoints[index]!;
      if (way === "taken" && branches.has(instruction)) {
        const pushMask = () => this.#pushTaken(instruction);
        const otherwise = resumable.divergencePoints[index + 1]!;
        const divergence = this.#newDivergence({ kind: "branch", taken: resumePoint, otherwise }, { points, pushMask });
        this.#divergeAtBranch(branches.get(instruction)!, { divergence, pushMask });
      }
    });
    for (const { suspendBlock, resumeBlock } of this.#flow.suspendPoints) {
      suspendBlock.instructions.length = 0;
      resumeBlock.instructions.length = 0;
    }
    const splits = splitAt(this.#flow, divergencePoints);
    const suspendBlocks = suspendBlocksOf(this.#flow);
    divergencePoints.forEach(({ instruction, way }, index) => {
      if (way !== "before" && way !== "suspending") return;
      const resumePoint = resumable.divergencePoints[index]!;
      const divergence = this.#newDivergence({ kind: "together", resumePoint, way }, { points, pushMask: undefined });
      if (way === "suspending") {
        suspendBlocks.get(instruction)!.terminator = { kind: "jump", target: divergence };
        return;
      }
      const cut = splits.get(instruction)!;
      const emit = () => this.#pushWrapsAround(instruction);
      cut.before.terminator = {
        kind: "branch",
        on: { instruction: undefined, emit },
        taken: divergence,
        otherwise: cut.block,
      };
    });
  }

  /** Returns a new basic block that saves a gang and leads to a scalar exit. */
  #newDivergence(
    point: ScalarExit,
    { points, pushMask }: { points: ScalarExit[]; pushMask: (() => void) | undefined },
  ): FlowBlock {
    const block = newBlock<CompiledStep>();
    const number = points.push(point) - 1;
    block.instructions.push({ instruction: undefined, emit: () => this.#saveGang({ point, pushMask, number }) });
    block.terminator = { kind: "jump", target: this.#exitBlock };
    return block;
  }

  #saveGang(
    { point, pushMask, number }: { point: ScalarExit; pushMask: (() => void) | undefined; number: number },
  ): void {
    const { code } = this.#emitter;
    this.#emitter.checkHolders(registersAt(point));
    for (const register of registersAt(point)) {
      this.#emitter.noteUse(register);
      this.#gang.save(register);
    }
    if (pushMask !== undefined) {
      code.get(this.#gang.area);
      pushMask();
      code.memory("i32Store", gangHeader.mask);
    }
    code.i32(number).set(this.#point);
    if (point.kind === "together" && point.way === "suspending") return;
    emitIncrement(code, "divergences");
  }

  /** Emits code that pushes the mask of the threads that take a branch. */
  #pushTaken({ predicate }: CompiledInstruction): void {
    const { register, negated } = predicate!;
    this.#gang.pushMask(negated ? { kind: "not", register } : register);
  }

  /**
   * Emits a branch that is taken by all threads of the gang or by none. If only some of the threads would take the
   * branch, control goes to `divergence`.
   */
  #divergeAtBranch(
    { block, branch }: BranchingBlock,
    { divergence, pushMask }: { divergence: FlowBlock; pushMask: () => void },
  ): void {
    const { taken, otherwise } = branch;
    const notAll = newBlock<CompiledStep>();
    const emit = (mask: number) => () => {
      pushMask();
      this.#emitter.code.i32(mask).ops("i32Eq");
    };
    block.terminator = {
      kind: "branch",
      on: { instruction: undefined, emit: emit(this.#gang.wholeMask) },
      taken,
      otherwise: notAll,
    };
    notAll.terminator = {
      kind: "branch",
      on: { instruction: undefined, emit: emit(0) },
      taken: otherwise,
      otherwise: divergence,
    };
  }

  /**
   * Emits code that pushes whether a 32-bit value that is extended to 64 bits wraps around between the first and the
   * last thread of the gang.
   */
  #pushWrapsAround(instruction: CompiledInstruction): void {
    const { operand, isSigned } = this.#uniformity.widened(instruction)!;
    const stride = this.#uniformity.strideOf(operand)!;
    const e = this.#emitter;
    e.begin(instruction);
    e.push(operand, isSigned ? s32 : u32);
    const span = Number((stride < 0n ? -stride : stride) * BigInt(this.#gang.width - 1));
    const limits = isSigned ? [-0x8000_0000, 0x7fff_ffff] as const : [0, 0xffff_ffff] as const;
    if (span > 0x7fff_ffff) e.code.ops("drop").i32(1);
    else if (stride < 0n) e.code.i32(limits[0] + span).ops(isSigned ? "i32LtS" : "i32LtU");
    else e.code.i32(limits[1] - span).ops(isSigned ? "i32GtS" : "i32GtU");
  }

  #emitBlocks(entry: FlowBlock): void {
    const e = this.#emitter;
    // Makes the blocks where gangs resume also reachable from the blocks where they are suspended.
    for (const { suspendBlock, resumeBlock } of this.#barriers) {
      suspendBlock.terminator = { kind: "jump", target: resumeBlock };
    }
    for (const block of postorder([entry], successors)) {
      if (block === this.#exitBlock) continue;
      const { code, ...use } = e.emitSeparately(() => this.#emitSteps(block));
      const { uses, definitions } = this.#maskedBlocks.get(block) ?? use;
      this.#code.set(block, { ...use, code, uses, definitions });
      const { terminator } = block;
      if (terminator.kind !== "branch" || this.#conditions.has(block)) continue;
      this.#conditions.set(block, e.emitSeparately(() => terminator.on.emit(e)));
    }
    this.#code.set(this.#exitBlock, e.emitSeparately(() => this.#emitScalarExit()));
  }

  #emitSteps({ instructions }: FlowBlock): void {
    emitGangSteps(this.#gang, instructions, this.#readers);
  }

  #emitScalarExit(): void {
    const e = this.#emitter;
    const { code } = e;
    code.get(launchRecordLocal);
    e.getFixed("blockX").memory("i32Store", launchFieldOffset("blockX"));
    code.get(launchRecordLocal).get(this.#point).get(this.#gang.area);
    if (this.#hasBarriers) e.getFixed("thread");
    else code.i32(0);
    pushFirstThreadIndex(e, code).i32(1).call(this.#context.indices.scalarExit);
    if (!this.#hasBarriers) {
      code.ops("drop");
      return;
    }
    const { isMixed } = this.#block;
    const state = e.newLocal("i32");
    code.if("i32").get(launchRecordLocal).get(this.#gang.area);
    e.getFixed("thread").call(this.#context.indices.reconverge).else().i32(gangState.exited).end().set(state);
    code.get(this.#gang.area).get(state).memory("i32Store", gangHeader.state);
    code.get(state).i32(gangState.single).ops("i32Eq").get(isMixed).ops("i32Or").set(isMixed);
    this.#barriers.forEach(({ barrier }, index) => {
      code.get(state).i32(index + 1).ops("i32Eq").if();
      this.#waitAt(barrier);
      code.end();
    });
  }

  /**
   * Emits code that records that a gang waits at a barrier. Gangs that wait at different barriers do not resume
   * together.
   */
  #waitAt(barrier: number): void {
    const { code } = this.#emitter;
    const { waiting, barrier: awaited, isMixed } = this.#block;
    code.get(waiting).get(awaited).i32(barrier).ops("i32Ne", "i32And");
    code.get(isMixed).ops("i32Or").set(isMixed);
    code.i32(barrier).set(awaited).i32(1).set(waiting);
  }

  /**
   * Emits the code that saves a gang when it is suspended, restores the gang when it resumes, and marks the gang as
   * exited at the end of the kernel.
   */
  #emitSuspensions(entry: FlowBlock, points: readonly ScalarExit[]): void {
    if (!this.#hasBarriers) return;
    const e = this.#emitter;
    const use = (block: FlowBlock) => usesOf(this.#code.get(block)!, this.#conditions.get(block));
    const at = this.#barriers.map(({ resumeBlock }) => resumeBlock);
    const live = liveRegisters({ entry, at, next: successors, use });
    // Liveness must be computed before code that saves and restores registers is added.
    const suspended = this.#barriers.map((suspendPoint, index) => {
      const { resumeBlock } = suspendPoint;
      const registers = this.#code.has(resumeBlock)
        ? new Set([...live(resumeBlock), ...registersAt(points[index + 1]!)])
        : undefined;
      e.checkHolders([...registers ?? []]);
      return { suspendPoint, registers };
    });
    suspended.forEach(({ suspendPoint, registers }, index) => {
      if (registers !== undefined) this.#suspendAt(suspendPoint, { registers, state: index + 1 });
    });
    for (const block of [this.#flow.returning, this.#flow.exiting]) {
      this.#append(block, () => {
        e.code.get(this.#gang.area).i32(gangState.exited).memory("i32Store", gangHeader.state);
      });
    }
  }

  #suspendAt(
    { suspendBlock, resumeBlock, barrier }: BarrierPoint,
    { registers, state }: { registers: ReadonlySet<Register>; state: number },
  ): void {
    const e = this.#emitter;
    this.#append(suspendBlock, () => {
      const { code } = e;
      for (const register of registers) this.#gang.save(register);
      code.get(this.#gang.area).i32(state).memory("i32Store", gangHeader.state);
      this.#waitAt(barrier);
    });
    suspendBlock.terminator = { kind: "exit" };
    const body = this.#code.get(resumeBlock)!;
    const restore = e.emitSeparately(() => {
      for (const register of registers) this.#gang.restore(register);
    });
    this.#code.set(resumeBlock, concatenated(e, restore, body));
  }

  #append(block: FlowBlock, emit: () => void): void {
    const body = this.#code.get(block);
    if (body !== undefined) {
      this.#code.set(block, concatenated(this.#emitter, body, this.#emitter.emitSeparately(emit)));
    }
  }
}

/**
 * The type of the function that runs gangs. The parameter is the offset of the launch record; the result is the x index
 * of the block at which the function stopped.
 */
const gangFunctionType = { parameters: ["i32"], results: ["i32"] } as const;

/** Returns the registers that are saved at a scalar exit. */
function registersAt(point: ScalarExit): readonly Register[] {
  switch (point.kind) {
    case "exited":
      return [];
    case "branch":
      return [...new Set([...point.taken.live, ...point.otherwise.live])];
    default:
      return point.resumePoint.live;
  }
}
