import type { FixedLocal } from "../codegen/locals.ts";
import type { FunctionEmitter, StandIns } from "../codegen/function_emitter.ts";
import type { CompiledInstruction, Emit, EmitVectors } from "../instructions/instruction_form.ts";
import { wholeLoad, wholeStore } from "../codegen/register_types.ts";
import { copiesNumbers } from "../codegen/nan_canonicalization.ts";
import type { Register, ResolvedAddress, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import { resultsOf, sourcesOf } from "../../../ptx/analysis/definitions_and_uses.ts";
import type { Stride, Uniformity } from "../../../ptx/analysis/uniformity.ts";
import { mayHave } from "../../../ptx/instructions/instruction_traits.ts";
import { gangHeader, type GangWidth } from "./gang_layout.ts";
import { type ScalarType, typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import type { CodeWriter } from "../webassembly/code_writer.ts";

/** How the values of a register are stored for the threads of a gang. */
export type RegisterStorage =
  /**
   * Uniform or strided: a local contains the value of the gang's first thread. From each thread to the next, the value
   * increases by `stride`.
   */
  | { readonly kind: "number"; readonly stride: bigint }
  /** A predicate: a local contains one bit for each thread of the gang. */
  | { readonly kind: "mask" }
  /** A 32-bit integer or float, or a 64-bit float: vector locals contain the values of the gang's threads. */
  | { readonly kind: "vectors"; readonly locals: readonly number[] }
  /** A register of any other type: the values of the gang's threads are in the gang's save area. */
  | { readonly kind: "memory" };

/** The mask under which code is emitted. The mask determines which threads of the gang execute the code. */
export interface GangMask {
  /** The local with the mask: one bit for each thread of the gang that executes the code. At least one bit is set. */
  readonly mask: number;
  /** Whether threads outside the mask must keep their values of `register`, so that new values must be blended in. */
  blends(register: Register): boolean;
  /**
   * The locals with the mask as vectors: all ones in the lanes of threads that execute the code. Empty if no register
   * in vector locals needs blending.
   */
  readonly vectors: readonly number[];
}

/** A function that pushes the vector with index `part` of an operand's vectors. */
export type PushVector = (part: number) => CodeWriter;

/**
 * Whether a register that is stored in vector locals has 64 bits, so that each vector contains two values instead of
 * four.
 */
function isWide({ type }: Register): boolean {
  return type.bits === 64;
}

/** For a register stored in vector locals: the binary logarithm of the size in bytes of each thread's value. */
export function memberShift(register: Register): 2 | 3 {
  return isWide(register) ? 3 : 2;
}

/**
 * Emits code that converts the value of the gang's first thread, on the stack, to the value of another thread. The
 * local `member` contains that thread's index in the gang.
 */
export function addStrides(
  code: CodeWriter,
  member: number,
  { stride, bits }: { readonly stride: bigint; readonly bits: number },
): void {
  code.get(member);
  if (bits === 64) code.ops("i64ExtendI32U").i64(stride).ops("i64Mul", "i64Add");
  else code.i32(Number(stride)).ops("i32Mul", "i32Add");
}

const predicateType = typeNamed("pred");
const doubleType = typeNamed("f64");
const splats = { i32: "i32x4Splat", f32: "f32x4Splat", i64: "i64x2Splat", f64: "f64x2Splat" } as const;

/** Emits instructions that are executed for all threads of a gang. */
export class GangEmitter {
  readonly emitter: FunctionEmitter;
  readonly uniformity: Uniformity;
  /** The number of threads of a gang. */
  readonly width: GangWidth;
  /** The number of vectors that contain one 32-bit value for each thread of the gang. */
  readonly vectors: number;
  /** The mask in which the bits of all threads of the gang are set. */
  readonly wholeMask: number;
  readonly #storages = new Map<Register, RegisterStorage>();
  readonly #slots = new Map<Register, number>();
  #slotsEnd: number = gangHeader.byteLength;
  readonly #shadows = new Map<string, number>();
  readonly #ranges = new Map<number, { begin: number; count: number }>();
  #member: number | undefined;
  #area: number | undefined;
  #masking: GangMask | undefined;
  readonly #maskVectors = new Map<Register, readonly number[]>();
  /**
   * Whether 64-bit float arithmetic is executed for one thread of the gang at a time, so that a NaN result gets the
   * bits of the NaN operand.
   */
  propagatesNaNs = false;

  constructor(emitter: FunctionEmitter, uniformity: Uniformity, width: GangWidth) {
    this.emitter = emitter;
    this.uniformity = uniformity;
    this.width = width;
    this.vectors = width / 4;
    this.wholeMask = width === 32 ? -1 : 2 ** width - 1;
  }

  get code(): CodeWriter {
    return this.emitter.code;
  }

  /** The local with the byte offset of the gang's save area in memory. */
  get area(): number {
    return this.#area ??= this.emitter.newLocal("i32");
  }

  /** The size of a gang's save area in bytes. */
  get savedBytes(): number {
    return Math.ceil(this.#slotsEnd / 16) * 16;
  }

  storageOf(register: Register): RegisterStorage {
    let storage = this.#storages.get(register);
    if (storage === undefined) this.#storages.set(register, storage = this.#allocateStorage(register));
    return storage;
  }

  #allocateStorage(register: Register): RegisterStorage {
    const kind = this.kindOf(register);
    if (kind === "number") return { kind, stride: this.uniformity.strideOf(register)! };
    if (kind !== "vectors") return { kind };
    const holder = this.emitter.holderOf(register);
    if (holder !== register) return this.storageOf(holder);
    const count = isWide(register) ? 2 * this.vectors : this.vectors;
    return { kind, locals: Array.from({ length: count }, () => this.emitter.newLocal("v128")) };
  }

  /**
   * Returns the kind of storage for the values of a register. Registers share locals and slots only if their kind is
   * the same.
   */
  kindOf(register: Register): RegisterStorage["kind"] {
    if (this.uniformity.strideOf(register) !== undefined) return "number";
    if (register.type.kind === "predicate") return "mask";
    const { bits, kind } = register.type;
    return bits === 32 || (bits === 64 && kind === "float") ? "vectors" : "memory";
  }

  /** Returns the byte offset of a register's slot in the gang's save area. */
  slot(register: Register): number {
    const holder = this.emitter.holderOf(register);
    let slot = this.#slots.get(holder);
    if (slot === undefined) {
      this.#slots.set(holder, slot = this.#slotsEnd);
      const { kind } = this.storageOf(register);
      const isOfFour = kind === "vectors" && !isWide(register);
      this.#slotsEnd += isOfFour ? 4 * this.width : kind === "vectors" || kind === "memory" ? 8 * this.width : 8;
    }
    return slot;
  }

  /**
   * Returns the i64 locals that cache the result of a pointer's last bounds check: `begin` is the start of the
   * allocation, and `count` the number of gang-wide accesses to adjacent values of `bytes` bytes that fit in it.
   */
  rangeCache({ base }: ResolvedAddress, bytes: number): { begin: number; count: number } {
    const { emitter: e } = this;
    const key = e.rangeCache(base, bytes).begin;
    let cache = this.#ranges.get(key);
    if (cache === undefined) this.#ranges.set(key, cache = { begin: e.newLocal("i64"), count: e.newLocal("i64") });
    return cache;
  }

  /** Returns the locals that contain a register's values. Empty if the values are in memory. */
  locals(register: Register): readonly number[] {
    const storage = this.storageOf(register);
    if (storage.kind === "vectors") return storage.locals;
    return storage.kind === "memory" ? [] : [this.emitter.registerLocal(register)];
  }

  /** The local with the mask of the threads that execute the code. Undefined if all threads of the gang execute it. */
  get mask(): number | undefined {
    return this.#masking?.mask;
  }

  /** Calls `emit`. Only the gang's threads in the mask execute the code that `emit` emits. */
  masked(masking: GangMask, emit: () => void): void {
    const before = this.#masking;
    this.#masking = masking;
    emit();
    this.#masking = before;
  }

  /** Emits an instruction for all threads of the gang, or for the threads in the current mask. */
  emit(instruction: CompiledInstruction, emit: Emit): void {
    const { emitter } = this;
    const way = this.#wayOf(instruction);
    for (const register of resultsOf(instruction)) this.#maskVectors.delete(register);
    if (way === "once") {
      if (this.#masking === undefined || !mayAccess(instruction)) emitter.emit(instruction, emit);
      else this.emitForFirst(() => emitter.emit(instruction, emit));
    } else if (way === "spread") {
      emitter.emit(instruction, (e, i) => this.#emitOnce(i, () => emit(e, i)));
    } else if (way === "members") {
      this.emitMembers(instruction, emit);
    } else {
      emitter.emit(instruction, () => way());
    }
  }

  /** Emits code that sets a register to 0 for all threads of the gang. */
  initialize(register: Register): void {
    const { code, emitter: e } = this;
    const storage = this.storageOf(register);
    this.#maskVectors.delete(register);
    if (storage.kind === "number" || storage.kind === "mask") return e.initialize(register);
    const zeros = storage.kind === "vectors" ? undefined : e.temporary("v128");
    for (const local of storage.kind === "vectors" ? storage.locals : [zeros!]) code.i32x4([0, 0, 0, 0]).set(local);
    for (let offset = 0; zeros !== undefined && offset < 8 * this.width; offset += 16) {
      code.get(this.area).get(zeros).v128Store(this.slot(register) + offset);
    }
    e.noteDefinition(register);
  }

  /** Whether an instruction in a masked loop is executed for all threads in the mask at once. */
  runsOnVectors(instruction: CompiledInstruction): boolean {
    let way: unknown;
    this.masked({ mask: 0, blends: () => false, vectors: [] }, () => way = this.#wayOf(instruction));
    return way !== "members";
  }

  /** Whether an instruction outside of masked loops must be emitted as a loop over the threads of the gang. */
  takesLoop(instruction: CompiledInstruction): boolean {
    return this.#wayOf(instruction) === "members";
  }

  /**
   * Chooses how an instruction is executed: "once" for the whole gang; once, with the result copied to all threads of
   * the gang ("spread"); for one thread at a time ("members"); or on vectors, by the code that the returned function
   * emits.
   */
  #wayOf(instruction: CompiledInstruction): "once" | "spread" | "members" | EmitVectors {
    const { uniformity } = this;
    const results = resultsOf(instruction);
    const isUniform = uniformity.isUniform(instruction);
    if (results.every((register) => this.kindOf(register) === "number") && (isUniform || results.length > 0)) {
      return "once";
    }
    const isMasked = this.#masking !== undefined;
    if (isUniform) {
      return isMasked && results.some((register) => this.kindOf(register) === "memory") ? "members" : "spread";
    }
    const { predicate, form } = instruction;
    if (predicate !== undefined && uniformity.strideOf(predicate.register) !== 0n) return "members";
    if (isMasked && mayHave(instruction, "writes")) return "members";
    if (form.traits.propagatesNaN64 === true && (this.propagatesNaNs || predicate !== undefined)) return "members";
    return form.traits.gangForm?.(this, instruction) ?? "members";
  }

  /** Emits code whose faults are attributed to the gang's first thread in the mask. */
  emitForFirst(emit: () => void): void {
    const { emitter: e } = this;
    const first = this.#shadow("threadX", 0);
    e.getFixed("threadX").get(this.#masking!.mask).ops("i32Ctz", "i32Add").set(first);
    e.emitWith({ registers: new Map(), fixed: new Map([["threadX", first]]) }, emit);
  }

  /** Emits an instruction that is executed once, and code that copies its results to all threads of the gang. */
  #emitOnce(instruction: CompiledInstruction, emit: () => void): void {
    const results = resultsOf(instruction);
    const registers = new Map(results.map((register, index) => [register, this.#shadow(register, index)]));
    const emitResults = () => this.emitter.emitWith({ registers, fixed: this.emitter.fixedStandIns }, emit);
    if (this.#masking !== undefined && mayAccess(instruction)) this.emitForFirst(emitResults);
    else emitResults();
    for (const register of results) this.#spread(register, registers.get(register)!);
  }

  /** Emits code that assigns the value in the local `shadow` to a register of all threads of the gang. */
  #spread(register: Register, shadow: number): void {
    const { code } = this;
    const storage = this.storageOf(register);
    switch (storage.kind) {
      case "number":
        code.get(shadow).set(this.emitter.registerLocal(register));
        break;
      case "mask":
        code.i32(0).get(shadow).ops("i32Sub").i32(this.wholeMask).ops("i32And");
        this.#blendMask(register);
        code.set(this.emitter.registerLocal(register));
        break;
      case "vectors":
        storage.locals.forEach((local, part) => {
          code.get(shadow).simd(splats[this.emitter.valueType(register)]);
          this.#blendVector(register, part);
          code.set(local);
        });
        break;
      case "memory":
        for (let member = 0; member < this.width; member++) {
          code.get(this.area).get(shadow).memory(
            wholeStore[this.emitter.valueType(register)],
            this.slot(register) + 8 * member,
          );
        }
        break;
    }
  }

  /**
   * Returns a scratch local for one thread's value of `register` or for its x index. Locals are reused by type and
   * `index`.
   */
  #shadow(register: Register | "threadX", index: number): number {
    const type = register === "threadX" ? "i32" : this.emitter.valueType(register);
    const key = `${type} ${index} ${register === "threadX"}`;
    let local = this.#shadows.get(key);
    if (local === undefined) this.#shadows.set(key, local = this.emitter.newLocal(type));
    return local;
  }

  /** Emits an instruction as a loop over the threads of the gang. */
  emitMembers(instruction: CompiledInstruction, emit: Emit): void {
    const { code, emitter: e } = this;
    const { predicate } = instruction;
    const results = resultsOf(instruction);
    const sources = sourcesOf(instruction);
    const read = sources.filter((source): source is Register => source.kind === "register");
    if (predicate !== undefined) read.push(predicate.register, ...results);
    const used = new Set(read);
    const all = new Set([...read, ...results]);
    const shadows = new Map([...all].map((register, index) => [register, this.#shadow(register, index)] as const));
    const standIns = new Map([...shadows].filter(([register]) => {
      const storage = this.storageOf(register);
      return storage.kind !== "number" || storage.stride !== 0n;
    }));
    const member = this.#member ??= e.newLocal("i32");
    for (const register of used) {
      e.noteUse(register);
      const storage = this.storageOf(register);
      if (storage.kind === "vectors") this.saveVectors(register, storage.locals);
    }
    const masking = this.#masking;
    if (masking !== undefined) {
      // Threads outside the mask must keep their values. Store these values now, because the whole vectors are loaded
      // from memory after the loop.
      for (const register of results) {
        const storage = this.storageOf(register);
        if (storage.kind === "vectors" && !used.has(register)) this.saveVectors(register, storage.locals);
      }
    }
    const fixed = new Map<FixedLocal, number>();
    code.i32(0).set(member).loop();
    if (masking !== undefined) code.get(masking.mask).get(member).ops("i32ShrU").i32(1).ops("i32And").if();
    if (sources.some((source) => source.kind === "special")) {
      const threadX = this.#shadow("threadX", 0);
      e.getFixed("threadX").get(member).ops("i32Add").set(threadX);
      fixed.set("threadX", threadX);
    }
    for (const [register, shadow] of standIns) if (used.has(register)) this.#loadMember(register, { member, shadow });
    e.emitWith({ registers: standIns, fixed, member } satisfies StandIns, () => e.emit(instruction, emit));
    for (const register of results) this.#storeMember(register, { member, shadow: shadows.get(register)! });
    if (masking !== undefined) code.end();
    code.get(member).i32(1).ops("i32Add").tee(member).i32(this.width).ops("i32LtU").brIf(0).end();
    for (const register of results) {
      const storage = this.storageOf(register);
      if (storage.kind === "vectors") this.loadVectors(register, storage.locals);
      e.noteDefinition(register);
    }
  }

  /** Whether an operand can be pushed as vectors. */
  hasVectors(operand: ResolvedOperand | undefined): boolean {
    switch (operand?.kind) {
      case "register":
        return operand.type.bits === 32;
      case "special":
        return this.uniformity.strideOf(operand) !== undefined;
      case "integer":
      case "float":
      case "variable":
      case "sum":
        return true;
      default:
        return false;
    }
  }

  /** Emits code that loads one thread's value of a register into the local `shadow`. */
  #loadMember(register: Register, { member, shadow }: { member: number; shadow: number }): void {
    const { code } = this;
    const storage = this.storageOf(register);
    const type = this.emitter.valueType(register);
    switch (storage.kind) {
      case "number":
        code.get(this.emitter.registerLocal(register));
        if (type === "f32") code.ops("i32ReinterpretF32");
        if (type === "f64") code.ops("i64ReinterpretF64");
        addStrides(code, member, { stride: storage.stride, bits: register.type.bits });
        if (type === "f32") code.ops("f32ReinterpretI32");
        if (type === "f64") code.ops("f64ReinterpretI64");
        break;
      case "mask":
        code.get(this.emitter.registerLocal(register)).get(member).ops("i32ShrU").i32(1).ops("i32And");
        break;
      case "vectors":
        this.#pushMemberOffset(member, memberShift(register)).memory(wholeLoad[type], this.slot(register));
        break;
      case "memory":
        this.#pushMemberOffset(member, 3).memory(wholeLoad[type], this.slot(register));
        break;
    }
    code.set(shadow);
  }

  /** Emits code that stores the value in the local `shadow` as one thread's value of a register. */
  #storeMember(register: Register, { member, shadow }: { member: number; shadow: number }): void {
    const { code } = this;
    const storage = this.storageOf(register);
    const type = this.emitter.valueType(register);
    switch (storage.kind) {
      case "number":
        throw new Error("Cannot set a uniform or strided register member by member");
      case "mask": {
        const mask = this.emitter.registerLocal(register);
        code.get(mask).i32(1).get(member).ops("i32Shl").i32(-1).ops("i32Xor", "i32And");
        code.get(shadow).get(member).ops("i32Shl", "i32Or").set(mask);
        break;
      }
      case "vectors":
        this.#pushMemberOffset(member, memberShift(register)).get(shadow).memory(wholeStore[type], this.slot(register));
        break;
      case "memory":
        this.#pushMemberOffset(member, 3).get(shadow).memory(wholeStore[type], this.slot(register));
        break;
    }
  }

  /**
   * Emits code that pushes the address of one thread's value in the save area, relative to the register's slot. Values
   * are `1 << shift` bytes apart.
   */
  #pushMemberOffset(member: number, shift: number): CodeWriter {
    return this.code.get(this.area).get(member).i32(shift).ops("i32Shl", "i32Add");
  }

  /** Emits code that stores the vector locals of a register in the register's slot in the save area. */
  saveVectors(register: Register, locals: readonly number[]): void {
    locals.forEach((local, part) => this.code.get(this.area).get(local).v128Store(this.slot(register) + 16 * part));
  }

  /** Emits code that loads the vector locals of a register from the register's slot in the save area. */
  loadVectors(register: Register, locals: readonly number[]): void {
    locals.forEach((local, part) => this.code.get(this.area).v128Load(this.slot(register) + 16 * part).set(local));
  }

  /** Emits code that saves a register in the gang's save area. */
  save(register: Register): void {
    const storage = this.storageOf(register);
    if (storage.kind === "vectors") {
      this.saveVectors(register, storage.locals);
    } else if (storage.kind !== "memory") {
      this.code.get(this.area).get(this.emitter.registerLocal(register));
      this.code.memory(wholeStore[this.emitter.valueType(register)], this.slot(register));
    }
  }

  /** Emits code that restores a register that {@linkcode save} has saved. */
  restore(register: Register): void {
    const storage = this.storageOf(register);
    if (storage.kind === "vectors") {
      this.loadVectors(register, storage.locals);
    } else if (storage.kind !== "memory") {
      this.code.get(this.area).memory(wholeLoad[this.emitter.valueType(register)], this.slot(register));
      this.code.set(this.emitter.registerLocal(register));
    }
  }

  /** Emits code that pushes a predicate as a mask, with one bit for each thread of the gang. */
  pushMask(operand: ResolvedOperand | undefined): CodeWriter {
    const { emitter: e, code } = this;
    const register = operand?.kind === "not" ? operand.register : operand;
    if (register?.kind === "register" && this.storageOf(register).kind === "mask") {
      e.noteUse(register);
      code.get(e.registerLocal(register));
    } else {
      code.i32(0);
      e.push(register, predicateType);
      code.ops("i32Sub").i32(this.wholeMask).ops("i32And");
    }
    if (operand?.kind === "not") code.i32(this.wholeMask).ops("i32Xor");
    return code;
  }

  /** Emits code that pops a mask and assigns it to a predicate. */
  assignMask(register: Register): void {
    const { emitter: e } = this;
    this.#blendMask(register);
    e.code.set(e.registerLocal(register));
    e.noteDefinition(register);
  }

  /**
   * Emits code that pops the new mask of a predicate and pushes the mask to assign, in which the threads that do not
   * execute the code keep their old bits.
   */
  #blendMask(register: Register): void {
    const masking = this.#masking;
    if (masking === undefined || !masking.blends(register)) return;
    const { emitter: e, code } = this;
    e.noteUse(register);
    code.get(masking.mask).ops("i32And").get(e.registerLocal(register));
    code.get(masking.mask).i32(-1).ops("i32Xor", "i32And", "i32Or");
  }

  /**
   * Emits code that pops one vector of a register's new value and pushes the vector to assign, in which the threads
   * that do not execute the code keep their old values.
   */
  #blendVector(register: Register, part: number): void {
    const masking = this.#masking;
    if (masking === undefined || !masking.blends(register)) return;
    this.emitter.noteUse(register);
    this.code.get(this.locals(register)[part]!);
    this.lanesOf(register, (part) => this.code.get(masking.vectors[part]!))(part).simd("v128Bitselect");
  }

  /**
   * Converts mask vectors, which have a 32-bit lane for each thread, to the width of the register's values. Returns a
   * function that pushes the converted vectors.
   */
  lanesOf(register: Register, push: PushVector): PushVector {
    if (!isWide(register)) return push;
    return (part) => push(part >> 1).simd(part % 2 === 0 ? "i64x2ExtendLowI32x4S" : "i64x2ExtendHighI32x4S");
  }

  /**
   * Emits code that pushes the mask that corresponds to the vectors in `locals`. A vector has a 32-bit lane for each of
   * four threads, with all bits set or all bits clear.
   */
  pushGathered(locals: readonly number[]): CodeWriter {
    const { code } = this;
    const [only, second] = locals;
    if (second === undefined) return code.get(only!).simd("i32x4Bitmask");
    for (let first = 0; first < locals.length; first += 4) {
      const [a, b, c = a, d = b] = locals.slice(first, first + 4) as [number, number, number?, number?];
      code.get(a).get(b).simd("i16x8NarrowI32x4S").get(c!).get(d!).simd("i16x8NarrowI32x4S");
      code.simd("i8x16NarrowI16x8S", "i8x16Bitmask");
      if (first > 0) code.i32(4 * first).ops("i32Shl", "i32Or");
    }
    // Two vectors fill only 8 of the 16 lanes, and the narrowing above repeats them, so the upper bits must be cleared.
    return locals.length === 2 ? code.i32(this.wholeMask).ops("i32And") : code;
  }

  /**
   * Emits code that converts two mask vectors with 64-bit lanes to one mask vector with 32-bit lanes for four threads.
   * `push` emits the code that pushes the two vectors.
   */
  narrow(push: PushVector, part: number): CodeWriter {
    push(2 * part);
    return push(2 * part + 1).i8x16Shuffle([0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27]);
  }

  /**
   * Records the vector locals in which a predicate was just computed (all ones for threads whose predicate is true),
   * for reuse in the rest of the basic block.
   */
  noteMaskVectors(register: Register, locals: readonly number[]): void {
    if (this.#masking?.blends(register) !== true) this.#maskVectors.set(register, locals);
  }

  /** Begins a new basic block: discards the mask vectors that were recorded in the previous block. */
  beginBlock(): void {
    this.#maskVectors.clear();
  }

  /**
   * Returns a function that pushes a predicate vector by vector, with all ones in the lanes of threads whose predicate
   * is true.
   */
  maskVectors(predicate: ResolvedOperand | undefined): PushVector {
    const { code, emitter } = this;
    const known = predicate?.kind === "register" ? this.#maskVectors.get(predicate) : undefined;
    if (known !== undefined) return (part) => code.get(known[part]!);
    const spread = emitter.temporary("v128");
    this.pushMask(predicate);
    code.simd("i32x4Splat").set(spread);
    return (part) => {
      const bits = [0, 1, 2, 3].map((lane) => 1 << (part * 4 + lane));
      return code.get(spread).i32x4(bits).simd("v128And").i32x4(bits).simd("i32x4Eq");
    };
  }

  /** Returns a function that pushes a 32-bit operand vector by vector. */
  vector(
    instruction: CompiledInstruction,
    { operand, type = instruction.type, anyNaN = false }: {
      operand: ResolvedOperand | undefined;
      type?: ScalarType;
      anyNaN?: boolean;
    },
  ): PushVector {
    const { emitter: e, code } = this;
    const stride: Stride = operand === undefined ? 0n : this.uniformity.strideOf(operand);
    const storage = operand?.kind === "register" ? this.storageOf(operand) : undefined;
    if (operand?.kind === "register" && storage?.kind === "vectors") {
      e.noteUse(operand);
      const keeps = anyNaN || !e.hasDeferredNaN(operand) || this.copiesAnyNaN(instruction);
      return (part) => {
        code.get(storage.locals[part]!);
        if (!keeps) this.canonicalize();
        return code;
      };
    }
    const spread = e.temporary("v128");
    e.push(operand, type, { anyNaN });
    code.simd(type.value === "f32" ? "f32x4Splat" : "i32x4Splat").set(spread);
    if (stride === 0n || stride === undefined) return () => code.get(spread);
    return (part) => {
      const steps = [0, 1, 2, 3].map((lane) => Number(BigInt.asIntN(32, stride * BigInt(part * 4 + lane))));
      return code.get(spread).i32x4(steps).simd("i32x4Add");
    };
  }

  /** Whether an operand can be pushed as vectors of 64-bit floats. */
  hasDoubles(operand: ResolvedOperand | undefined): boolean {
    if (operand?.kind === "float") return true;
    if (operand?.kind !== "register" || operand.type.bits !== 64 || operand.type.kind !== "float") return false;
    // The register may be a copy of a strided integer. The stride applies to the integer's bits, and not to the float.
    const stride = this.uniformity.strideOf(operand);
    return stride === undefined || stride === 0n;
  }

  /** Returns a function that pushes a 64-bit float vector by vector, with the values of two threads in each vector. */
  doubles(operand: ResolvedOperand | undefined): PushVector {
    const { emitter: e, code } = this;
    const storage = operand?.kind === "register" ? this.storageOf(operand) : undefined;
    if (operand?.kind === "register" && storage?.kind === "vectors") {
      e.noteUse(operand);
      return (part) => code.get(storage.locals[part]!);
    }
    const spread = e.temporary("v128");
    e.push(operand, doubleType);
    code.simd("f64x2Splat").set(spread);
    return () => code.get(spread);
  }

  /**
   * Whether an instruction copies a 32-bit float to a register whose NaNs are canonicalized only when they are read.
   */
  copiesAnyNaN(instruction: CompiledInstruction): boolean {
    const [destination] = instruction.operands;
    return copiesNumbers(instruction) && destination?.kind === "register" && this.emitter.hasDeferredNaN(destination);
  }

  /** Emits code that replaces the NaNs in the vector on the stack with the canonical NaN. */
  canonicalize(): void {
    const { code, emitter } = this;
    const value = emitter.temporary("v128");
    code.tee(value).i32x4([0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff]);
    code.get(value).get(value).simd("f32x4Eq", "v128Bitselect");
  }

  /** Emits code that assigns vectors to a register. `push` emits the code that pushes each of the vectors. */
  assignVectors(register: Register, push: PushVector, { anyNaN = false }: { anyNaN?: boolean } = {}): void {
    const storage = this.storageOf(register);
    if (storage.kind !== "vectors") throw new Error("Cannot assign vectors to a register that is not held in vectors");
    const canonicalizes = anyNaN && !this.emitter.hasDeferredNaN(register);
    storage.locals.forEach((local, part) => {
      push(part);
      if (canonicalizes) this.canonicalize();
      this.#blendVector(register, part);
      this.code.set(local);
    });
    this.emitter.noteDefinition(register);
  }
}

/**
 * Whether an instruction may access memory, and thus fault, but does not read the thread's index. Masked code must set
 * the index before such an instruction, so that a fault reports a thread in the mask.
 */
function mayAccess(instruction: CompiledInstruction): boolean {
  if (sourcesOf(instruction).some(({ kind }) => kind === "special")) return false;
  return mayHave(instruction, "reads") || mayHave(instruction, "writes");
}
