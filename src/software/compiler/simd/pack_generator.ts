/**
 * Compiles a kernel to a function that runs packs of threads, each as if it were one thread, but on vectors: threads that
 * stand side by side along x, as long as they come the same way.
 *
 * Where the threads of a pack part, each one's registers are saved as the kernel's function for single threads expects
 * them, and that goes on with them. At a barrier a pack is suspended as a thread is; when all packs of the block have come
 * to it, they go on. Where some threads of a block wait that no longer run in packs, all of the block's are saved singly,
 * and the caller goes on with them.
 *
 * @module
 */
import { generateResumableKernel, type GeneratorContext, type ResumableKernel } from "../codegen/code_generator.ts";
import { postorder, successors } from "../control_flow/control_flow_graph.ts";
import { contextLocal } from "../codegen/fixed_locals.ts";
import { type EmittedCode, FunctionEmitter } from "../codegen/function_emitter.ts";
import {
  blockBefore,
  instructionsOf,
  joined,
  switchOnResumption,
  usesOf,
  writeBlocks,
} from "../codegen/kernel_code.ts";
import {
  type Departure,
  type FlowBlock,
  type FunctionFlow,
  functionFlow,
  newBlock,
  type Parting,
} from "../control_flow/kernel_flow.ts";
import { contextOffset } from "../launch_context.ts";
import { liveRegisters } from "../control_flow/liveness.ts";
import { branchesOf, type BranchingBlock, cutAt } from "../codegen/partings.ts";
import type { Register } from "../typing/names.ts";
import { handOverFunction, type HandOverPoint, takeBackFunction } from "./pack_hand_over.ts";
import { PackEmitter } from "./pack_emitter.ts";
import { packHeader, packState, type PackWidth } from "./pack_layout.ts";
import { type BlockState, countUp, pushFirstPlace, runWaitingPacks, runWholePacks } from "./pack_loops.ts";
import { type PackShapes, packShapes } from "./pack_shapes.ts";
import { PackWeights } from "./pack_weights.ts";
import { barrierOf, canBePacked, isBarrierOfAll } from "./packable_kernels.ts";
import { makeReducible } from "../control_flow/reducible_loops.ts";
import { typeNamed } from "../typing/scalar_types.ts";
import type { TypedKernel } from "../typing/typed_body.ts";
import type { TypedInstruction } from "../typing/typed_instruction.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";

/** A kernel as a function that runs packs of threads. */
export interface GeneratedPack {
  /** The same kernel for threads that do not run in packs any more. */
  readonly resumable: ResumableKernel;
  /** What hands threads over to that, and what runs packs; they refer to each other by the indices that were told. */
  readonly handOver: FunctionDefinition;
  readonly takeBack: FunctionDefinition;
  readonly packed: FunctionDefinition;
  /** For what is saved of each pack. */
  readonly packBytes: number;
  /** How many registers lie in vectors of those that the innermost loops name. */
  readonly vectorRegisters: number;
  /** Whether packs are suspended: then all packs of a block need memory at once. */
  readonly hasBarriers: boolean;
}

/** The indices of the functions in the module: for single threads, and those that hand over to it and take back. */
export interface PackIndices {
  readonly resumable: number;
  readonly handOver: number;
  readonly takeBack: number;
}

/** What is told of a kernel beside its body. */
export interface PackContext extends GeneratorContext {
  readonly indices: PackIndices;
  readonly width: PackWidth;
}

/** Compiles a kernel to run in packs; undefined where it cannot be, or would hardly gain by it. */
export function generatePack(
  name: string,
  typed: TypedKernel,
  context: PackContext,
): GeneratedPack | undefined {
  return canBePacked(typed) ? new PackGenerator(typed, context).generate(name) : undefined;
}

const u32 = typeNamed("u32");
const s32 = typeNamed("s32");

class PackGenerator {
  readonly #context: PackContext;
  readonly #typed: TypedKernel;
  readonly #instructions: readonly TypedInstruction[];
  readonly #shapes: PackShapes;
  readonly #flow: FunctionFlow;
  readonly #emitter: FunctionEmitter;
  readonly #pack: PackEmitter;
  readonly #code = new Map<FlowBlock, EmittedCode>();
  readonly #conditions = new Map<FlowBlock, EmittedCode>();
  readonly #handingOver = newBlock();
  /** The local that tells where a pack parts. */
  readonly #point: number;
  readonly #block: BlockState;
  readonly #weights: PackWeights;

  constructor(typed: TypedKernel, context: PackContext) {
    this.#typed = typed;
    this.#context = context;
    this.#instructions = instructionsOf(typed.kernel);
    this.#shapes = packShapes(this.#instructions);
    this.#flow = functionFlow(typed.kernel);
    this.#emitter = new FunctionEmitter({
      parameters: context.parameterBytes,
      shared: typed.usesDynamicShared ? undefined : typed.sharedBytes,
      staticShared: typed.sharedBytes,
      local: 0,
      hasFrames: false,
      hasTop: false,
      constants: context.constants,
    }, context.options);
    this.#emitter.enterFunction(this.#instructions);
    this.#pack = new PackEmitter(this.#emitter, this.#shapes, context.width);
    const newLocal = () => this.#emitter.newLocal("i32");
    this.#point = newLocal();
    this.#block = { waiting: newLocal(), barrier: newLocal(), isMixed: newLocal() };
    this.#weights = new PackWeights(this.#instructions, this.#flow.entry);
  }

  /** Whether packs run from barrier to barrier: their threads may have to wait for others. */
  get #hasBarriers(): boolean {
    return this.#flow.departures.length > 0;
  }

  /** Where packs wait as a whole. */
  get #barriers(): readonly Departure[] {
    return this.#flow.departures.filter(isBarrierOfAll);
  }

  generate(name: string): GeneratedPack | undefined {
    const partings = this.#findPartings();
    const resumable = generateResumableKernel(name, this.#typed, { ...this.#context, partings });
    const points: HandOverPoint[] = [{ kind: "exited" }];
    const entry = this.#hasBarriers ? this.#joinSuspensions(resumable, points) : this.#flow.entry;
    this.#part(partings, { resumable, points });
    this.#writeBlocks(entry);
    this.#writeSuspensions(entry, points);
    makeReducible(entry);
    const body = writeBlocks(this.#emitter, {
      entry,
      code: this.#code,
      conditions: this.#conditions,
      steps: this.#pack.width,
    });
    if (this.#context.options.packedThreads !== "always" && !this.#weights.isWorthwhile) return undefined;
    const { indices } = this.#context;
    const handOver = handOverFunction(points, { pack: this.#pack, resumable, index: indices.resumable });
    const takeBack = takeBackFunction(points, { pack: this.#pack, resumable });
    // How much is saved of each pack is known only now.
    const code = this.#hasBarriers
      ? runWaitingPacks(this.#pack, body, { block: this.#block, handOver: indices.handOver })
      : runWholePacks(this.#pack, body);
    return {
      resumable,
      handOver,
      takeBack,
      packed: { type: packedType, locals: this.#emitter.locals, code, exportName: "packs" },
      packBytes: this.#pack.savedBytes,
      vectorRegisters: [...this.#weights.innermostRegisters].filter((register) => {
        return this.#pack.holding(register).kind === "vectors";
      }).length,
      hasBarriers: this.#hasBarriers,
    };
  }

  #findPartings(): Parting[] {
    const partings: Parting[] = [];
    for (const instruction of this.#instructions) {
      if (this.#shapes.widened(instruction) !== undefined) partings.push({ instruction, way: "before" });
    }
    for (const departure of this.#flow.departures) {
      if (!isBarrierOfAll(departure)) partings.push({ instruction: departure.instruction!, way: "suspending" });
    }
    for (const instruction of branchesOf(this.#flow).keys()) {
      if (this.#shapes.shapeOf(instruction.predicate!.register) === 0n) continue;
      partings.push({ instruction, way: "taken" }, { instruction, way: "otherwise" });
    }
    return partings;
  }

  /** Makes the graph begin with a switch on where the pack goes on. */
  #joinSuspensions(resumable: ResumableKernel, points: HandOverPoint[]): FlowBlock {
    const dispatch = newBlock();
    const targets = [this.#flow.entry];
    for (const { instruction, goingOn } of this.#barriers) {
      targets.push(goingOn);
      const place = resumable.suspended.get(instruction!);
      points.push(
        place === undefined ? { kind: "exited" } : { kind: "suspended", place, barrier: barrierOf(instruction!) },
      );
    }
    this.#conditions.set(dispatch, switchOnResumption(this.#emitter, dispatch, targets));
    return blockBefore(dispatch);
  }

  /** Makes blocks in which packs part. */
  #part(
    partings: readonly Parting[],
    { resumable, points }: { resumable: ResumableKernel; points: HandOverPoint[] },
  ): void {
    const branches = branchesOf(this.#flow);
    partings.forEach(({ instruction, way }, index) => {
      const place = resumable.partings[index]!;
      if (way === "taken") {
        const pushMask = () => this.#pushTaken(instruction);
        const otherwise = resumable.partings[index + 1]!;
        const parting = this.#newParting({ kind: "branch", taken: place, otherwise }, { points, pushMask });
        this.#partAtBranch(branches.get(instruction)!, { parting, pushMask });
      }
    });
    for (const { leaving, goingOn } of this.#flow.departures) {
      leaving.instructions.length = 0;
      goingOn.instructions.length = 0;
    }
    const cuts = cutAt(this.#flow, partings);
    partings.forEach(({ instruction, way }, index) => {
      if (way !== "before" && way !== "suspending") return;
      const place = resumable.partings[index]!;
      const parting = this.#newParting({ kind: "together", place, way }, { points, pushMask: undefined });
      if (way === "suspending") {
        const { leaving } = this.#flow.departures.find((departure) => departure.instruction === instruction)!;
        leaving.terminator = { kind: "jump", target: parting };
        return;
      }
      const cut = cuts.get(instruction)!;
      const write = () => this.#pushWrapsAround(instruction);
      cut.before.terminator = {
        kind: "branch",
        on: { instruction: undefined, write },
        taken: parting,
        otherwise: cut.block,
      };
    });
  }

  /** A block in which a pack is saved, and from where its threads go on each for itself. */
  #newParting(
    point: HandOverPoint,
    { points, pushMask }: { points: HandOverPoint[]; pushMask: (() => void) | undefined },
  ): FlowBlock {
    const block = newBlock();
    const number = points.push(point) - 1;
    block.instructions.push({ instruction: undefined, write: () => this.#savePack({ point, pushMask, number }) });
    block.terminator = { kind: "jump", target: this.#handingOver };
    return block;
  }

  #savePack(
    { point, pushMask, number }: { point: HandOverPoint; pushMask: (() => void) | undefined; number: number },
  ): void {
    const { code } = this.#emitter;
    for (const register of registersAt(point)) {
      this.#emitter.noteUse(register);
      this.#pack.save(register);
    }
    if (pushMask !== undefined) {
      code.get(this.#pack.area);
      pushMask();
      code.memory("i32Store", packHeader.mask);
    }
    code.i32(number).set(this.#point);
    if (point.kind === "together" && point.way === "suspending") return;
    countUp(code, "divergences");
  }

  #pushTaken({ predicate }: TypedInstruction): void {
    const { register, negated } = predicate!;
    this.#pack.pushMask(negated ? { kind: "not", register } : register);
  }

  /** Goes on where all threads agree, and parts where they do not. */
  #partAtBranch(
    { block, branch }: BranchingBlock,
    { parting, pushMask }: { parting: FlowBlock; pushMask: () => void },
  ): void {
    const { taken, otherwise } = branch;
    const notAll = newBlock();
    const write = (mask: number) => () => {
      pushMask();
      this.#emitter.code.i32(mask).ops("i32Eq");
    };
    block.terminator = {
      kind: "branch",
      on: { instruction: undefined, write: write(this.#pack.wholeMask) },
      taken,
      otherwise: notAll,
    };
    notAll.terminator = {
      kind: "branch",
      on: { instruction: undefined, write: write(0) },
      taken: otherwise,
      otherwise: parting,
    };
  }

  /** Pushes whether a number of 32 bits that is extended wraps around within the pack. */
  #pushWrapsAround(instruction: TypedInstruction): void {
    const { operand, isSigned } = this.#shapes.widened(instruction)!;
    const stride = this.#shapes.shapeOf(operand)!;
    const e = this.#emitter;
    e.begin(instruction);
    e.push(operand, isSigned ? s32 : u32);
    const span = Number((stride < 0n ? -stride : stride) * BigInt(this.#pack.width - 1));
    const limits = isSigned ? [-0x8000_0000, 0x7fff_ffff] as const : [0, 0xffff_ffff] as const;
    if (span > 0x7fff_ffff) e.code.ops("drop").i32(1);
    else if (stride < 0n) e.code.i32(limits[0] + span).ops(isSigned ? "i32LtS" : "i32LtU");
    else e.code.i32(limits[1] - span).ops(isSigned ? "i32GtS" : "i32GtU");
  }

  #writeBlocks(entry: FlowBlock): void {
    const e = this.#emitter;
    // What goes on at a suspension is reached from there too.
    for (const { leaving, goingOn } of this.#barriers) leaving.terminator = { kind: "jump", target: goingOn };
    for (const block of postorder([entry], successors)) {
      if (block === this.#handingOver) continue;
      this.#code.set(block, e.emitApart(() => this.#writeSteps(block)));
      const { terminator } = block;
      if (terminator.kind !== "branch" || this.#conditions.has(block)) continue;
      this.#conditions.set(block, e.emitApart(() => terminator.on.write(e)));
    }
    this.#code.set(this.#handingOver, e.emitApart(() => this.#handOver()));
  }

  #writeSteps({ instructions }: FlowBlock): void {
    for (const { instruction, write } of instructions) {
      if (instruction === undefined) {
        write(this.#emitter);
        continue;
      }
      const before = this.#pack.loops;
      this.#pack.write(instruction, instruction.form.emit!);
      this.#weights.note(instruction, this.#pack.loops - before);
    }
  }

  #handOver(): void {
    const e = this.#emitter;
    const { code } = e;
    code.get(contextLocal);
    e.getFixed("blockX").memory("i32Store", contextOffset("blockX"));
    code.get(contextLocal).get(this.#point).get(this.#pack.area);
    if (this.#hasBarriers) e.getFixed("thread");
    else code.i32(0);
    pushFirstPlace(e, code).i32(1).call(this.#context.indices.handOver);
    if (!this.#hasBarriers) {
      code.ops("drop");
      return;
    }
    const { isMixed } = this.#block;
    const state = e.newLocal("i32");
    code.if("i32").get(contextLocal).get(this.#pack.area);
    e.getFixed("thread").call(this.#context.indices.takeBack).else().i32(packState.exited).end().set(state);
    code.get(this.#pack.area).get(state).memory("i32Store", packHeader.state);
    code.get(state).i32(packState.single).ops("i32Eq").get(isMixed).ops("i32Or").set(isMixed);
    this.#barriers.forEach(({ instruction }, index) => {
      code.get(state).i32(index + 1).ops("i32Eq").if();
      this.#waitAt(barrierOf(instruction!));
      code.end();
    });
  }

  /** Notes that a pack waits at a barrier. Packs that wait at others do not go on together. */
  #waitAt(barrier: number): void {
    const { code } = this.#emitter;
    const { waiting, barrier: awaited, isMixed } = this.#block;
    code.get(waiting).get(awaited).i32(barrier).ops("i32Ne", "i32And");
    code.get(isMixed).ops("i32Or").set(isMixed);
    code.i32(barrier).set(awaited).i32(1).set(waiting);
  }

  /** Writes what a pack does that is suspended, that goes on, and that exits. */
  #writeSuspensions(entry: FlowBlock, points: readonly HandOverPoint[]): void {
    if (!this.#hasBarriers) return;
    const e = this.#emitter;
    const use = (block: FlowBlock) => usesOf(this.#code.get(block)!, this.#conditions.get(block));
    const live = liveRegisters({ entry, next: successors, use });
    // Liveness is that of the graph before its blocks are made to save and to restore.
    const saved = new Map(this.#barriers.map((departure, index) => {
      const { goingOn } = departure;
      if (!this.#code.has(goingOn)) return [departure, undefined] as const;
      return [departure, new Set([...live(goingOn), ...registersAt(points[index + 1]!)])] as const;
    }));
    this.#barriers.forEach((departure, index) => {
      const registers = saved.get(departure);
      if (registers !== undefined) this.#suspendAt(departure, { registers, state: index + 1 });
    });
    for (const block of [this.#flow.returning, this.#flow.exiting]) {
      this.#append(block, () => {
        e.code.get(this.#pack.area).i32(packState.exited).memory("i32Store", packHeader.state);
      });
    }
  }

  #suspendAt(
    { leaving, goingOn, instruction }: Departure,
    { registers, state }: { registers: ReadonlySet<Register>; state: number },
  ): void {
    const e = this.#emitter;
    this.#append(leaving, () => {
      const { code } = e;
      for (const register of registers) this.#pack.save(register);
      code.get(this.#pack.area).i32(state).memory("i32Store", packHeader.state);
      this.#waitAt(barrierOf(instruction!));
    });
    leaving.terminator = { kind: "exit" };
    const body = this.#code.get(goingOn)!;
    const restore = e.emitApart(() => {
      for (const register of registers) this.#pack.restore(register);
    });
    this.#code.set(goingOn, joined(restore, body));
  }

  #append(block: FlowBlock, write: () => void): void {
    const body = this.#code.get(block);
    if (body !== undefined) this.#code.set(block, joined(body, this.#emitter.emitApart(write)));
  }
}

/** The type of what runs packs: it is told where the launch's record begins, and tells the block that it has stopped at. */
const packedType = { parameters: ["i32"], results: ["i32"] } as const;

function registersAt(point: HandOverPoint): readonly Register[] {
  switch (point.kind) {
    case "exited":
      return [];
    case "branch":
      return [...new Set([...point.taken.live, ...point.otherwise.live])];
    default:
      return point.place.live;
  }
}
