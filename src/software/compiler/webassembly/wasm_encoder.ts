/**
 * Writes WebAssembly binaries: bodies of functions through {@linkcode CodeWriter}, whole modules through
 * {@linkcode encodeModule}.
 *
 * @see https://webassembly.github.io/spec/core/binary/index.html
 *
 * @module
 */

/** A type of WebAssembly value. */
export type ValueType = "i32" | "i64" | "f32" | "f64";
/** A type of local: numbers, and vectors of them. */
export type LocalType = ValueType | "v128";

const valueTypeCodes: Readonly<Record<LocalType, number>> = { i32: 0x7f, i64: 0x7e, f32: 0x7d, f64: 0x7c, v128: 0x7b };

/** The instructions that are an opcode and nothing else. */
const op = {
  unreachable: [0x00],
  drop: [0x1a],
  select: [0x1b],
  return: [0x0f],
  i32Eqz: [0x45],
  i32Eq: [0x46],
  i32Ne: [0x47],
  i32LtS: [0x48],
  i32LtU: [0x49],
  i32GtS: [0x4a],
  i32GtU: [0x4b],
  i32LeS: [0x4c],
  i32LeU: [0x4d],
  i32GeS: [0x4e],
  i32GeU: [0x4f],
  i64Eqz: [0x50],
  i64Eq: [0x51],
  i64Ne: [0x52],
  i64LtS: [0x53],
  i64LtU: [0x54],
  i64GtS: [0x55],
  i64GtU: [0x56],
  i64LeS: [0x57],
  i64LeU: [0x58],
  i64GeS: [0x59],
  i64GeU: [0x5a],
  f32Eq: [0x5b],
  f32Ne: [0x5c],
  f32Lt: [0x5d],
  f32Gt: [0x5e],
  f32Le: [0x5f],
  f32Ge: [0x60],
  f64Eq: [0x61],
  f64Ne: [0x62],
  f64Lt: [0x63],
  f64Gt: [0x64],
  f64Le: [0x65],
  f64Ge: [0x66],
  i32Clz: [0x67],
  i32Ctz: [0x68],
  i32Popcnt: [0x69],
  i32Add: [0x6a],
  i32Sub: [0x6b],
  i32Mul: [0x6c],
  i32DivS: [0x6d],
  i32DivU: [0x6e],
  i32RemS: [0x6f],
  i32RemU: [0x70],
  i32And: [0x71],
  i32Or: [0x72],
  i32Xor: [0x73],
  i32Shl: [0x74],
  i32ShrS: [0x75],
  i32ShrU: [0x76],
  i32Rotl: [0x77],
  i32Rotr: [0x78],
  i64Clz: [0x79],
  i64Ctz: [0x7a],
  i64Popcnt: [0x7b],
  i64Add: [0x7c],
  i64Sub: [0x7d],
  i64Mul: [0x7e],
  i64DivS: [0x7f],
  i64DivU: [0x80],
  i64RemS: [0x81],
  i64RemU: [0x82],
  i64And: [0x83],
  i64Or: [0x84],
  i64Xor: [0x85],
  i64Shl: [0x86],
  i64ShrS: [0x87],
  i64ShrU: [0x88],
  i64Rotl: [0x89],
  i64Rotr: [0x8a],
  f32Abs: [0x8b],
  f32Neg: [0x8c],
  f32Ceil: [0x8d],
  f32Floor: [0x8e],
  f32Trunc: [0x8f],
  f32Nearest: [0x90],
  f32Sqrt: [0x91],
  f32Add: [0x92],
  f32Sub: [0x93],
  f32Mul: [0x94],
  f32Div: [0x95],
  f32Min: [0x96],
  f32Max: [0x97],
  f32Copysign: [0x98],
  f64Abs: [0x99],
  f64Neg: [0x9a],
  f64Ceil: [0x9b],
  f64Floor: [0x9c],
  f64Trunc: [0x9d],
  f64Nearest: [0x9e],
  f64Sqrt: [0x9f],
  f64Add: [0xa0],
  f64Sub: [0xa1],
  f64Mul: [0xa2],
  f64Div: [0xa3],
  f64Min: [0xa4],
  f64Max: [0xa5],
  f64Copysign: [0xa6],
  i32WrapI64: [0xa7],
  i64ExtendI32S: [0xac],
  i64ExtendI32U: [0xad],
  f32ConvertI32S: [0xb2],
  f32ConvertI32U: [0xb3],
  f32ConvertI64S: [0xb4],
  f32ConvertI64U: [0xb5],
  f32DemoteF64: [0xb6],
  f64ConvertI32S: [0xb7],
  f64ConvertI32U: [0xb8],
  f64ConvertI64S: [0xb9],
  f64ConvertI64U: [0xba],
  f64PromoteF32: [0xbb],
  i32ReinterpretF32: [0xbc],
  i64ReinterpretF64: [0xbd],
  f32ReinterpretI32: [0xbe],
  f64ReinterpretI64: [0xbf],
  i32Extend8S: [0xc0],
  i32Extend16S: [0xc1],
  i64Extend8S: [0xc2],
  i64Extend16S: [0xc3],
  i64Extend32S: [0xc4],
  i32TruncSatF32S: [0xfc, 0],
  i32TruncSatF32U: [0xfc, 1],
  i32TruncSatF64S: [0xfc, 2],
  i32TruncSatF64U: [0xfc, 3],
  i64TruncSatF32S: [0xfc, 4],
  i64TruncSatF32U: [0xfc, 5],
  i64TruncSatF64S: [0xfc, 6],
  i64TruncSatF64U: [0xfc, 7],
} as const;

/** Name of an instruction in the table of plain instructions. */
export type OpName = keyof typeof op;

/** Loads and stores: the opcode, and the alignment as a power of two. */
const memoryOp = {
  i32Load: [0x28, 2],
  i64Load: [0x29, 3],
  f32Load: [0x2a, 2],
  f64Load: [0x2b, 3],
  i32Load8S: [0x2c, 0],
  i32Load8U: [0x2d, 0],
  i32Load16S: [0x2e, 1],
  i32Load16U: [0x2f, 1],
  i32Store: [0x36, 2],
  i64Store: [0x37, 3],
  f32Store: [0x38, 2],
  f64Store: [0x39, 3],
  i32Store8: [0x3a, 0],
  i32Store16: [0x3b, 1],
} as const;

/** Name of an instruction in the table of loads and stores. */
export type MemoryOpName = keyof typeof memoryOp;

/** Atomic instructions: what follows the prefix, and the alignment as a power of two. */
export const atomicOp = {
  i32AtomicLoad: [0x10, 2],
  i64AtomicLoad: [0x11, 3],
  i32AtomicLoad16U: [0x13, 1],
  i32AtomicAdd: [0x1e, 2],
  i64AtomicAdd: [0x1f, 3],
  i32AtomicAnd: [0x2c, 2],
  i64AtomicAnd: [0x2d, 3],
  i32AtomicOr: [0x33, 2],
  i64AtomicOr: [0x34, 3],
  i32AtomicXor: [0x3a, 2],
  i64AtomicXor: [0x3b, 3],
  i32AtomicExchange: [0x41, 2],
  i64AtomicExchange: [0x42, 3],
  i32AtomicCompareExchange: [0x48, 2],
  i64AtomicCompareExchange: [0x49, 3],
  i32AtomicCompareExchange16U: [0x4b, 1],
} as const;

/** Name of an instruction in the table of atomic instructions. */
export type AtomicOpName = keyof typeof atomicOp;

/** Instructions on vectors: what follows the prefix. */
const simdOp = {
  i32x4Splat: [0x11],
  f32x4Splat: [0x13],
  f64x2Splat: [0x14],
  i32x4Eq: [0x37],
  i32x4Ne: [0x38],
  i32x4LtS: [0x39],
  i32x4LtU: [0x3a],
  i32x4GtS: [0x3b],
  i32x4GtU: [0x3c],
  i32x4LeS: [0x3d],
  i32x4LeU: [0x3e],
  i32x4GeS: [0x3f],
  i32x4GeU: [0x40],
  f32x4Eq: [0x41],
  f32x4Ne: [0x42],
  f32x4Lt: [0x43],
  f32x4Gt: [0x44],
  f32x4Le: [0x45],
  f32x4Ge: [0x46],
  v128Not: [0x4d],
  v128And: [0x4e],
  v128Or: [0x50],
  v128Xor: [0x51],
  v128Bitselect: [0x52],
  i8x16Bitmask: [0x64],
  i8x16NarrowI16x8S: [0x65],
  i16x8NarrowI32x4S: [0x85, 0x01],
  i32x4Abs: [0xa0, 0x01],
  i32x4Neg: [0xa1, 0x01],
  i32x4Bitmask: [0xa4, 0x01],
  i32x4Shl: [0xab, 0x01],
  i32x4ShrS: [0xac, 0x01],
  i32x4ShrU: [0xad, 0x01],
  i32x4Add: [0xae, 0x01],
  i32x4Sub: [0xb1, 0x01],
  i32x4Mul: [0xb5, 0x01],
  i32x4MinS: [0xb6, 0x01],
  i32x4MinU: [0xb7, 0x01],
  i32x4MaxS: [0xb8, 0x01],
  i32x4MaxU: [0xb9, 0x01],
  f32x4Abs: [0xe0, 0x01],
  f32x4Neg: [0xe1, 0x01],
  f32x4Sqrt: [0xe3, 0x01],
  f32x4Add: [0xe4, 0x01],
  f32x4Sub: [0xe5, 0x01],
  f32x4Mul: [0xe6, 0x01],
  f32x4Div: [0xe7, 0x01],
  f32x4Min: [0xe8, 0x01],
  f32x4Max: [0xe9, 0x01],
  i32x4TruncSatF32x4S: [0xf8, 0x01],
  i32x4TruncSatF32x4U: [0xf9, 0x01],
  f32x4ConvertI32x4S: [0xfa, 0x01],
  f32x4ConvertI32x4U: [0xfb, 0x01],
  f32x4RelaxedMadd: [0x85, 0x02],
  f64x2RelaxedMadd: [0x87, 0x02],
} as const;

/** Name of an instruction in the table of instructions on vectors. */
export type SimdOpName = keyof typeof simdOp;

/** Instructions on one lane of a vector: what follows the prefix, but for the lane's number. */
const simdLaneOp = {
  i32x4ExtractLane: 0x1b,
  i32x4ReplaceLane: 0x1c,
  f32x4ExtractLane: 0x1f,
  f32x4ReplaceLane: 0x20,
  f64x2ExtractLane: 0x21,
} as const;

/** Name of an instruction in the table of instructions on one lane of a vector. */
export type SimdLaneOpName = keyof typeof simdLaneOp;

/** Bytes that grow. */
class ByteWriter {
  #bytes = new Uint8Array(256);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }

  bytes(values: ArrayLike<number>): void {
    this.#reserve(values.length);
    this.#bytes.set(values, this.#length);
    this.#length += values.length;
  }

  unsigned(value: number): void {
    while (value >= 0x80) {
      this.byte(value % 0x80 | 0x80);
      value = Math.floor(value / 0x80);
    }
    this.byte(value);
  }

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

  name(text: string): void {
    const utf8 = new TextEncoder().encode(text);
    this.unsigned(utf8.length);
    this.bytes(utf8);
  }

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

/** In code that was written, where the branches are that are hardly ever taken. */
const unlikelyBranches = new WeakMap<Uint8Array, readonly number[]>();

/** Writes the body of one function. Each method appends one instruction and returns the writer. */
export class CodeWriter {
  readonly #out = new ByteWriter();
  readonly #unlikely: number[] = [];

  /** Instructions without immediates, in order. */
  ops(...names: readonly OpName[]): this {
    for (const name of names) this.#out.bytes(op[name]);
    return this;
  }

  i32(value: number): this {
    this.#out.byte(0x41);
    this.#out.signed(BigInt(value | 0));
    return this;
  }

  /** `value` is taken modulo 2 to the 64. */
  i64(value: bigint): this {
    this.#out.byte(0x42);
    this.#out.signed(BigInt.asIntN(64, value));
    return this;
  }

  /** A constant by its bits, so that NaNs keep theirs. */
  f32Bits(bits: bigint): this {
    this.#out.byte(0x43);
    this.#out.littleEndian(bits, 4);
    return this;
  }

  /** A constant that is no NaN. */
  f64(value: number): this {
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, value);
    return this.f64Bits(view.getBigUint64(0));
  }

  /** A constant that is no NaN, and is rounded. */
  f32(value: number): this {
    const view = new DataView(new ArrayBuffer(4));
    view.setFloat32(0, value);
    return this.f32Bits(BigInt(view.getUint32(0)));
  }

  /** A constant by its bits, so that NaNs keep theirs. */
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
    this.#out.bytes([0x02, 0x40]);
    return this;
  }

  loop(): this {
    this.#out.bytes([0x03, 0x40]);
    return this;
  }

  /** Takes the condition from the stack. */
  if(result?: ValueType): this {
    this.#out.bytes([0x04, result === undefined ? 0x40 : valueTypeCodes[result]]);
    return this;
  }

  /** An `if` that engines are told is hardly ever true: what is in it they may put out of the way. */
  ifUnlikely(): this {
    this.#unlikely.push(this.#out.length);
    return this.if();
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
    this.#out.bytes([opcode, alignment]);
    this.#out.unsigned(offset);
    return this;
  }

  atomic(name: AtomicOpName, offset = 0): this {
    const [opcode, alignment] = atomicOp[name];
    this.#out.bytes([0xfe, opcode, alignment]);
    this.#out.unsigned(offset);
    return this;
  }

  /** An instruction on vectors. */
  simd(...names: readonly SimdOpName[]): this {
    for (const name of names) this.#out.bytes([0xfd, ...simdOp[name]]);
    return this;
  }

  /** An instruction on one lane of a vector. */
  simdLane(name: SimdLaneOpName, lane: number): this {
    this.#out.bytes([0xfd, simdLaneOp[name], lane]);
    return this;
  }

  /** Loads a vector from a place that is a multiple of 4. */
  v128Load(offset = 0): this {
    this.#out.bytes([0xfd, 0x00, 2]);
    this.#out.unsigned(offset);
    return this;
  }

  /** Stores a vector to a place that is a multiple of 4. */
  v128Store(offset = 0): this {
    this.#out.bytes([0xfd, 0x0b, 2]);
    this.#out.unsigned(offset);
    return this;
  }

  /** Picks bytes of two vectors: those of the second count from 16 on. */
  i8x16Shuffle(bytes: readonly number[]): this {
    this.#out.bytes([0xfd, 0x0d, ...bytes]);
    return this;
  }

  /** A vector of four numbers of 32 bits, each taken modulo 2 to the 32. */
  i32x4(numbers: readonly number[]): this {
    this.#out.bytes([0xfd, 0x0c]);
    for (const number of numbers) this.#out.littleEndian(BigInt.asUintN(32, BigInt(number)), 4);
    return this;
  }

  atomicFence(): this {
    this.#out.bytes([0xfe, 0x03, 0x00]);
    return this;
  }

  /** Code that another writer wrote. */
  append(code: Uint8Array): this {
    for (const offset of unlikelyBranches.get(code) ?? []) this.#unlikely.push(this.#out.length + offset);
    this.#out.bytes(code);
    return this;
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

/** A function's type. */
export interface FunctionType {
  readonly parameters: readonly ValueType[];
  readonly results: readonly ValueType[];
}

/** A function that the module defines. */
export interface FunctionDefinition {
  readonly type: FunctionType;
  /** Beyond the parameters. */
  readonly locals: readonly LocalType[];
  /** Without the `end` that closes it. */
  readonly code: Uint8Array;
  readonly exportName?: string | undefined;
}

/** What a module consists of: imported memory, globals and functions, its own functions after those. */
export interface ModuleDefinition {
  readonly memory: { readonly module: string; readonly name: string; readonly pages: number };
  /** Constants that are known when the module is instantiated. */
  readonly globals: readonly { readonly module: string; readonly name: string; readonly valueType: ValueType }[];
  readonly imports: readonly { readonly module: string; readonly name: string; readonly type: FunctionType }[];
  readonly functions: readonly FunctionDefinition[];
}

/** The module's binary. Its memory is shared, and neither grows nor shrinks. */
export function encodeModule({ memory, globals, imports, functions }: ModuleDefinition): Uint8Array<ArrayBuffer> {
  const types: FunctionType[] = [...imports, ...functions].map(({ type }) => type);
  const out = new ByteWriter();
  out.bytes([0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00]);
  section(out, 1, types, (type, section) => {
    section.byte(0x60);
    valueTypes(section, type.parameters);
    valueTypes(section, type.results);
  });
  section(out, 2, [memory, ...globals, ...imports], (entry, section) => {
    section.name(entry.module);
    section.name(entry.name);
    if ("pages" in entry) {
      section.bytes([0x02, 0x03]);
      section.unsigned(entry.pages);
      section.unsigned(entry.pages);
    } else if ("valueType" in entry) {
      section.bytes([0x03, valueTypeCodes[entry.valueType], 0x00]);
    } else {
      section.byte(0x00);
      section.unsigned(imports.indexOf(entry));
    }
  });
  section(out, 3, functions, (_, section, index) => section.unsigned(imports.length + index));
  section(out, 7, functions.filter(({ exportName }) => exportName !== undefined), (definition, section) => {
    section.name(definition.exportName!);
    section.byte(0x00);
    section.unsigned(imports.length + functions.indexOf(definition));
  });
  const bodies = functions.map(functionBody);
  writeBranchHints(out, bodies.map(({ unlikely }, index) => ({ index: imports.length + index, unlikely })));
  section(out, 10, bodies, ({ body }, section) => section.sized(body));
  return out.finish();
}

/** A function's locals and code, and where in that the branches are that are hardly ever taken. */
function functionBody({ locals, code }: FunctionDefinition): { body: ByteWriter; unlikely: readonly number[] } {
  const body = new ByteWriter();
  const runs = runLengths(locals);
  body.unsigned(runs.length);
  for (const [count, type] of runs) {
    body.unsigned(count);
    body.byte(valueTypeCodes[type]);
  }
  const begin = body.length;
  body.bytes(code);
  body.byte(0x0b);
  return { body, unlikely: (unlikelyBranches.get(code) ?? []).map((offset) => begin + offset) };
}

/**
 * The section that tells engines of unlikely branches, before the code. Those that do not know it pass over it.
 *
 * @see https://github.com/WebAssembly/branch-hinting
 */
function writeBranchHints(
  out: ByteWriter,
  functions: readonly { readonly index: number; readonly unlikely: readonly number[] }[],
): void {
  const hinted = functions.filter(({ unlikely }) => unlikely.length > 0);
  if (hinted.length === 0) return;
  const content = new ByteWriter();
  content.name("metadata.code.branch_hint");
  content.unsigned(hinted.length);
  for (const { index, unlikely } of hinted) {
    content.unsigned(index);
    content.unsigned(unlikely.length);
    for (const offset of unlikely) {
      content.unsigned(offset);
      content.bytes([1, 0]);
    }
  }
  out.byte(0);
  out.sized(content);
}

function section<T>(
  out: ByteWriter,
  id: number,
  entries: readonly T[],
  write: (entry: T, section: ByteWriter, index: number) => void,
): void {
  const content = new ByteWriter();
  content.unsigned(entries.length);
  entries.forEach((entry, index) => write(entry, content, index));
  out.byte(id);
  out.sized(content);
}

function valueTypes(out: ByteWriter, types: readonly ValueType[]): void {
  out.unsigned(types.length);
  for (const type of types) out.byte(valueTypeCodes[type]);
}

function runLengths(types: readonly LocalType[]): [count: number, type: LocalType][] {
  const runs: [number, LocalType][] = [];
  for (const type of types) {
    const last = runs.at(-1);
    if (last?.[1] === type) last[0]++;
    else runs.push([1, type]);
  }
  return runs;
}
