import {
  atomicOp,
  type AtomicOpName,
  laneStoreOp,
  type LaneStoreOpName,
  memoryOp,
  type MemoryOpName,
  numberLoadOp,
  type NumberLoadOpName,
  op,
  type OpName,
  simdLaneOp,
  type SimdLaneOpName,
  simdOp,
  type SimdOpName,
  type ValueType,
  valueTypeCodes,
} from "./opcodes.ts";

/** The maximum number of bytes for which a copying loop is faster than `TypedArray.set`. */
const fewBytes = 64;

/** A growing buffer of bytes, with methods for the encodings of numbers and names in WebAssembly binaries. */
export class ByteWriter {
  #bytes = new Uint8Array(64);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }

  bytes(values: ArrayLike<number>): void {
    const { length } = values;
    this.#reserve(length);
    if (length > fewBytes) this.#bytes.set(values, this.#length);
    else for (let index = 0; index < length; index++) this.#bytes[this.#length + index] = values[index]!;
    this.#length += length;
  }

  /** Appends the bytes of an array from index `begin` to index `end`. */
  slice(values: Uint8Array, { begin, end }: { readonly begin: number; readonly end: number }): void {
    if (end - begin > fewBytes) return this.bytes(values.subarray(begin, end));
    this.#reserve(end - begin);
    for (let index = begin; index < end; index++) this.#bytes[this.#length++] = values[index]!;
  }

  /** Moves the written bytes to an array, beginning at index `begin`, and leaves the buffer empty. */
  moveTo(target: Uint8Array, begin: number): void {
    if (this.#length > fewBytes) target.set(this.#bytes.subarray(0, this.#length), begin);
    else for (let index = 0; index < this.#length; index++) target[begin + index] = this.#bytes[index]!;
    this.#length = 0;
  }

  /** Appends an unsigned LEB128 number. */
  unsigned(value: number): void {
    while (value >= 0x80) {
      this.byte(value % 0x80 | 0x80);
      value = Math.floor(value / 0x80);
    }
    this.byte(value);
  }

  /** Appends a signed LEB128 number that fits in 32 bits. */
  signed32(value: number): void {
    while (value < -64 || value > 63) {
      this.byte(value & 0x7f | 0x80);
      value >>= 7;
    }
    this.byte(value & 0x7f);
  }

  /** Appends a signed LEB128 number. */
  signed(value: bigint): void {
    while (value < -64n || value > 63n) {
      this.byte(Number(value & 0x7fn) | 0x80);
      value >>= 7n;
    }
    this.byte(Number(value & 0x7fn));
  }

  littleEndian(value: bigint, byteLength: number): void {
    for (let i = 0; i < byteLength; i++) this.byte(Number((value >> BigInt(8 * i)) & 0xffn));
  }

  /** Appends a string as UTF-8, preceded by its length in bytes. */
  name(text: string): void {
    const utf8 = new TextEncoder().encode(text);
    this.unsigned(utf8.length);
    this.bytes(utf8);
  }

  /** Appends the content of another buffer, preceded by its length in bytes. */
  sized(content: ByteWriter): void {
    this.unsigned(content.length);
    this.bytes(content.finish());
  }

  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#length);
  }

  #reserve(count: number): void {
    if (this.#length + count <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.#length + count));
    larger.set(this.#bytes);
    this.#bytes = larger;
  }
}

/** Maps finished code to the offsets of its unlikely branches. */
const unlikelyBranches = new WeakMap<Uint8Array, readonly number[]>();

/** Returns the offsets of unlikely branches in finished code. */
export function unlikelyBranchesOf(code: Uint8Array): readonly number[] {
  return unlikelyBranches.get(code) ?? [];
}

const noBranches: readonly number[] = [];

/** A piece of a function's code: a range of bytes in an array that many pieces share. */
export interface CodePiece {
  readonly bytes: Uint8Array;
  readonly begin: number;
  readonly end: number;
  /** The offsets of unlikely branches, relative to `begin`. */
  readonly unlikely: readonly number[];
}

/**
 * The size in bytes of the arrays in a `CodeStore`. Each array contains the pieces of many blocks, because allocating
 * an array for each piece would be slow.
 */
const storeBytes = 65536;

/** Stores the bytes of a function's pieces in a few large arrays. */
export class CodeStore {
  #bytes = new Uint8Array(0);
  #length = 0;

  /** Creates a piece from the bytes of `out`, and leaves `out` empty. */
  take(out: ByteWriter, unlikely: readonly number[]): CodePiece {
    const { length } = out;
    if (this.#length + length > this.#bytes.length) {
      this.#bytes = new Uint8Array(Math.max(storeBytes, length));
      this.#length = 0;
    }
    const begin = this.#length;
    out.moveTo(this.#bytes, begin);
    this.#length += length;
    return { bytes: this.#bytes, begin, end: this.#length, unlikely };
  }
}

/** Writes the body of one function. Each method appends one instruction and returns the writer. */
export class CodeWriter {
  readonly #out = new ByteWriter();
  #unlikely: number[] = [];

  /** Appends instructions without immediates, in order. */
  ops(...names: readonly OpName[]): this {
    for (let index = 0; index < names.length; index++) this.#out.bytes(op[names[index]!]);
    return this;
  }

  i32(value: number): this {
    this.#out.byte(0x41);
    this.#out.signed32(value | 0);
    return this;
  }

  /** Appends an i64 constant. `value` is taken modulo 2^64. */
  i64(value: bigint): this {
    this.#out.byte(0x42);
    this.#out.signed(BigInt.asIntN(64, value));
    return this;
  }

  /** Appends an f32 constant given by its bits, so that the bits of a NaN are preserved. */
  f32Bits(bits: bigint): this {
    this.#out.byte(0x43);
    this.#out.littleEndian(bits, 4);
    return this;
  }

  /** Appends an f64 constant other than NaN. */
  f64(value: number): this {
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, value);
    return this.f64Bits(view.getBigUint64(0));
  }

  /** Appends an f32 constant other than NaN. The number is rounded to 32 bits. */
  f32(value: number): this {
    const view = new DataView(new ArrayBuffer(4));
    view.setFloat32(0, value);
    return this.f32Bits(BigInt(view.getUint32(0)));
  }

  /** Appends an f64 constant given by its bits, so that the bits of a NaN are preserved. */
  f64Bits(bits: bigint): this {
    this.#out.byte(0x44);
    this.#out.littleEndian(bits, 8);
    return this;
  }

  get(local: number): this {
    return this.#withIndex(0x20, local);
  }

  set(local: number): this {
    return this.#withIndex(0x21, local);
  }

  tee(local: number): this {
    return this.#withIndex(0x22, local);
  }

  block(): this {
    this.#out.byte(0x02);
    this.#out.byte(0x40);
    return this;
  }

  loop(): this {
    this.#out.bytes([0x03, 0x40]);
    return this;
  }

  /** Begins an `if`, which pops its condition. */
  if(result?: ValueType): this {
    this.#out.byte(0x04);
    this.#out.byte(result === undefined ? 0x40 : valueTypeCodes[result]);
    return this;
  }

  /**
   * Begins an `if` with a hint that its condition is rarely true, so that engines can move its body off the hot path.
   */
  ifUnlikely(result?: ValueType): this {
    this.#unlikely.push(this.#out.length);
    return this.if(result);
  }

  else(): this {
    this.#out.byte(0x05);
    return this;
  }

  end(): this {
    this.#out.byte(0x0b);
    return this;
  }

  br(depth: number): this {
    return this.#withIndex(0x0c, depth);
  }

  brIf(depth: number): this {
    return this.#withIndex(0x0d, depth);
  }

  brTable(depths: readonly number[], otherwise: number): this {
    this.#out.byte(0x0e);
    this.#out.unsigned(depths.length);
    for (const depth of depths) this.#out.unsigned(depth);
    this.#out.unsigned(otherwise);
    return this;
  }

  globalGet(index: number): this {
    return this.#withIndex(0x23, index);
  }

  call(functionIndex: number): this {
    return this.#withIndex(0x10, functionIndex);
  }

  memory(name: MemoryOpName, offset = 0): this {
    const [opcode, alignment] = memoryOp[name];
    this.#out.byte(opcode);
    this.#out.byte(alignment);
    this.#out.unsigned(offset);
    return this;
  }

  /** Appends a `memory.fill`, which pops an offset, a byte value and the number of bytes to set to this value. */
  memoryFill(): this {
    this.#out.bytes([0xfc, 0x0b, 0x00]);
    return this;
  }

  /**
   * Appends a `memory.copy`, which pops the offsets of the destination and the source and the number of bytes to copy.
   */
  memoryCopy(): this {
    this.#out.bytes([0xfc, 0x0a, 0x00, 0x00]);
    return this;
  }

  atomic(name: AtomicOpName, offset = 0): this {
    const [opcode, alignment] = atomicOp[name];
    this.#out.bytes([0xfe, opcode, alignment]);
    this.#out.unsigned(offset);
    return this;
  }

  /** Appends vector instructions without immediates, in order. */
  simd(...names: readonly SimdOpName[]): this {
    for (const name of names) this.#out.bytes([0xfd, ...simdOp[name]]);
    return this;
  }

  /** Appends an instruction that accesses one lane of a vector. */
  simdLane(name: SimdLaneOpName, lane: number): this {
    this.#out.bytes([0xfd, simdLaneOp[name], lane]);
    return this;
  }

  /**
   * Appends a load of a vector from an address that is a multiple of 4. `offset` is added to the address on the stack.
   */
  v128Load(offset = 0): this {
    this.#out.bytes([0xfd, 0x00, 2]);
    this.#out.unsigned(offset);
    return this;
  }

  /**
   * Appends a store of a vector at an address that is a multiple of 4. `offset` is added to the address on the stack.
   */
  v128Store(offset = 0): this {
    this.#out.bytes([0xfd, 0x0b, 2]);
    this.#out.unsigned(offset);
    return this;
  }

  /** Appends a load of a number into a vector. `offset` is added to the address on the stack. */
  loadNumber(name: NumberLoadOpName, offset = 0): this {
    const [opcode, alignment] = numberLoadOp[name];
    this.#out.bytes([0xfd, opcode, alignment]);
    this.#out.unsigned(offset);
    return this;
  }

  /** Appends a store of one lane of a vector. `offset` is added to the address on the stack. */
  storeLane(name: LaneStoreOpName, lane: number, offset = 0): this {
    const [opcode, alignment] = laneStoreOp[name];
    this.#out.bytes([0xfd, opcode, alignment]);
    this.#out.unsigned(offset);
    this.#out.byte(lane);
    return this;
  }

  /**
   * Appends a shuffle, which selects 16 bytes of two vectors by index. The indices 16 to 31 are those of the second
   * vector's bytes.
   */
  i8x16Shuffle(bytes: readonly number[]): this {
    this.#out.bytes([0xfd, 0x0d, ...bytes]);
    return this;
  }

  /** Appends a constant vector of four 32-bit numbers, each taken modulo 2^32. */
  i32x4(numbers: readonly number[]): this {
    this.#out.bytes([0xfd, 0x0c]);
    for (const number of numbers) this.#out.littleEndian(BigInt.asUintN(32, BigInt(number)), 4);
    return this;
  }

  atomicFence(): this {
    this.#out.bytes([0xfe, 0x03, 0x00]);
    return this;
  }

  /** Appends finished code of another writer. */
  append(code: Uint8Array): this {
    for (const offset of unlikelyBranchesOf(code)) this.#unlikely.push(this.#out.length + offset);
    this.#out.bytes(code);
    return this;
  }

  /** Appends a piece of a function's code. */
  appendPiece(piece: CodePiece): this {
    for (const offset of piece.unlikely) this.#unlikely.push(this.#out.length + offset);
    this.#out.slice(piece.bytes, piece);
    return this;
  }

  /** Moves the code written so far to a new piece, and leaves the writer empty. */
  cutPiece(store: CodeStore): CodePiece {
    const unlikely = this.#unlikely;
    if (unlikely.length > 0) this.#unlikely = [];
    return store.take(this.#out, unlikely.length > 0 ? unlikely : noBranches);
  }

  finish(): Uint8Array<ArrayBuffer> {
    const code = this.#out.finish();
    if (this.#unlikely.length > 0) unlikelyBranches.set(code, [...this.#unlikely]);
    return code;
  }

  #withIndex(opcode: number, index: number): this {
    this.#out.byte(opcode);
    this.#out.unsigned(index);
    return this;
  }
}
