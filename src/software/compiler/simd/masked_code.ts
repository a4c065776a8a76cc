/**
 * Emits the loops that gangs run under masks (`masked_loops.ts`).
 *
 * Each basic block has a mask of the threads that execute it. A block whose mask is empty is skipped. At its end, a
 * block adds its threads to the masks of its successors.
 *
 * @module
 */
import { emitFuel, lineOf } from "../codegen/block_code.ts";
import type { FlowBlock } from "../control_flow/function_flow.ts";
import type { Register } from "../../../ptx/instructions/resolved_instruction.ts";
import type { GangEmitter } from "./gang_emitter.ts";
import type { MaskedLoop, MaskedRegion, MaskedRegions } from "./masked_loops.ts";
import { resultsOf } from "../../../ptx/analysis/definitions_and_uses.ts";

/** Emits the code of one masked region. */
export class MaskedCode {
  readonly #gang: GangEmitter;
  readonly #region: MaskedRegion;
  readonly #isLocal: MaskedRegions["isLocal"];
  readonly #emitSteps: (block: FlowBlock) => void;
  /** Maps each basic block to the local with the mask of the threads that execute the block. */
  readonly #masks = new Map<FlowBlock, number>();
  /** Maps each loop to the locals that contain the loop's results for the threads that have left the loop. */
  readonly #saved = new Map<MaskedLoop, ReadonlyMap<Register, readonly number[]>>();

  constructor(
    gang: GangEmitter,
    region: MaskedRegion,
    { isLocal, emitSteps }: Pick<MaskedRegions, "isLocal"> & { readonly emitSteps: (block: FlowBlock) => void },
  ) {
    this.#gang = gang;
    this.#region = region;
    this.#isLocal = isLocal;
    this.#emitSteps = emitSteps;
  }

  /** Emits code that pushes the mask of the threads that have left the region through its first exit. */
  pushFirstExit(): void {
    this.#gang.code.get(this.#mask(this.#region.exits[0]!.target));
  }

  emit(): void {
    const { code, emitter, wholeMask } = this.#gang;
    const { loop, exits } = this.#region;
    emitter.emitConditionally(() => {
      if (exits.length > 1) code.i32(0).set(this.#mask(exits[0]!.target));
      code.i32(wholeMask).set(this.#mask(loop.header));
      this.#emitLoop(loop, undefined);
    });
  }

  /** Returns the local with the mask of a basic block. */
  #mask(block: FlowBlock): number {
    const local = this.#masks.get(block) ?? this.#gang.emitter.newLocal("i32");
    this.#masks.set(block, local);
    return local;
  }

  #emitLoop(loop: MaskedLoop, outer: MaskedLoop | undefined): void {
    const { code, emitter: e, width } = this.#gang;
    const { header, parts } = loop;
    const next = e.newLocal("i32");
    const saved = this.#savedLocals(loop);
    for (const [register, locals] of saved) {
      // Threads that do not enter an inner loop keep their current values. All threads enter and leave the outermost
      // loop.
      if (outer !== undefined) this.#gang.locals(register).forEach((local, part) => code.get(local).set(locals[part]!));
    }
    code.loop();
    this.#gang.masked({ mask: this.#mask(header), blends: () => false, vectors: [] }, () => {
      this.#gang.emitForFirst(() => emitFuel(e, { fuelPerIteration: width, line: lineOf(header) }));
    });
    code.i32(0).set(next);
    for (const part of parts) {
      const block = "header" in part ? part.header : part;
      if (block !== header) code.i32(0).set(this.#mask(block));
    }
    for (const part of parts) {
      const block = "header" in part ? part.header : part;
      if (block !== header) code.get(this.#mask(block)).if();
      if ("header" in part) this.#emitLoop(part, loop);
      else this.#emitBlock(part, { loop, next });
      if (block !== header) code.end();
    }
    code.get(next).tee(this.#mask(header)).brIf(0).end();
    for (const [register, locals] of saved) {
      this.#gang.locals(register).forEach((local, part) => code.get(locals[part]!).set(local));
    }
  }

  /** Creates the locals that hold the loop's results for the threads that have left the loop. */
  #savedLocals(loop: MaskedLoop): ReadonlyMap<Register, readonly number[]> {
    const { emitter: e } = this.#gang;
    const saved = new Map<Register, readonly number[]>();
    for (const register of loop.results) {
      const { kind } = this.#gang.storageOf(register);
      e.noteUse(register);
      // Registers stored in memory need no locals: each thread's value is set separately, and only if the thread
      // executes the block.
      const held = this.#gang.locals(register);
      // Of several registers that share locals, only one is live at a time, so the locals are saved once.
      const isSaved = [...saved.keys()].some((other) => this.#gang.locals(other)[0] === held[0]);
      if (held.length > 0 && !isSaved) {
        saved.set(
          register,
          held.map(() => e.newLocal(kind === "mask" ? "i32" : "v128")),
        );
      }
    }
    this.#saved.set(loop, saved);
    return saved;
  }

  #emitBlock(block: FlowBlock, { loop, next }: { loop: MaskedLoop; next: number }): void {
    const gang = this.#gang;
    const { code, emitter: e } = gang;
    const mask = this.#mask(block);
    const isUnconditional = loop.isUnconditional(block);
    const blends = (register: Register) => !isUnconditional && !this.#isLocal(register);
    const isBlended = block.instructions.some(({ instruction }) => {
      return instruction !== undefined &&
        resultsOf(instruction).some((register) => blends(register) && gang.storageOf(register).kind === "vectors");
    });
    const vectors = isBlended ? Array.from({ length: gang.vectors }, () => e.newLocal("v128")) : [];
    if (isBlended) this.#setMaskVectors(mask, vectors);
    gang.masked({ mask, blends, vectors }, () => this.#emitSteps(block));
    const { terminator } = block;
    if (terminator.kind === "jump") {
      this.#pass(terminator.target, { mask, loop, next });
    } else if (terminator.kind === "branch") {
      const { register, negated } = terminator.on.instruction!.predicate!;
      const taken = e.newLocal("i32"), otherwise = e.newLocal("i32");
      gang.pushMask(negated ? { kind: "not", register } : register);
      code.get(mask).ops("i32And").tee(taken).get(mask).ops("i32Xor").set(otherwise);
      this.#pass(terminator.taken, { mask: taken, loop, next });
      this.#pass(terminator.otherwise, { mask: otherwise, loop, next });
    }
  }

  /** Emits code that expands a mask to vectors, with all ones in the lanes of the threads whose bit is set. */
  #setMaskVectors(mask: number, vectors: readonly number[]): void {
    const { code } = this.#gang;
    vectors.forEach((vector, part) => {
      const bits = [0, 1, 2, 3].map((lane) => 1 << (part * 4 + lane));
      code.get(mask).simd("i32x4Splat").i32x4(bits).simd("v128And").i32x4(bits).simd("i32x4Eq").set(vector);
    });
  }

  /**
   * Emits code that adds the threads in `mask` to the mask of `target`. If `target` is outside the loop, the threads'
   * results are saved first.
   */
  #pass(target: FlowBlock, { mask, loop, next }: { mask: number; loop: MaskedLoop; next: number }): void {
    const { code } = this.#gang;
    const to = target === loop.header ? next : this.#mask(target);
    if (!loop.blocks.has(target)) {
      code.get(mask).if();
      this.#save(loop, mask);
      code.get(to).get(mask).ops("i32Or").set(to).end();
      return;
    }
    code.get(to).get(mask).ops("i32Or").set(to);
  }

  /** Emits code that saves the loop's results for the threads in `mask`, in the locals for saved results. */
  #save(loop: MaskedLoop, mask: number): void {
    const { code, emitter: e, vectors: count } = this.#gang;
    const saved = [...this.#saved.get(loop)!];
    const masks = saved.filter(([register]) => this.#gang.storageOf(register).kind === "mask");
    for (const [register, [local]] of masks) {
      const [held] = this.#gang.locals(register);
      code.get(local!).get(mask).i32(-1).ops("i32Xor", "i32And").get(held!).get(mask).ops("i32And", "i32Or").set(
        local!,
      );
    }
    if (masks.length === saved.length) return;
    const vectors = Array.from({ length: count }, () => e.newLocal("v128"));
    this.#setMaskVectors(mask, vectors);
    for (const [register, locals] of saved) {
      if (this.#gang.storageOf(register).kind !== "vectors") continue;
      const lanes = this.#gang.lanesOf(register, (part) => code.get(vectors[part]!));
      this.#gang.locals(register).forEach((held, part) => {
        code.get(held).get(locals[part]!);
        lanes(part).simd("v128Bitselect").set(locals[part]!);
      });
    }
  }
}
