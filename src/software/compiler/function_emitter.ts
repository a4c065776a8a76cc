import { PtxError } from "../../ptx/syntax.ts";
import { type Helper, helperIndex } from "./helper_functions.ts";
import type { Register, Variable } from "./names.ts";
import { type ScalarType, singleBits, typeNamed } from "./scalar_types.ts";
import type { ResolvedOperand, TypedInstruction } from "./typed_instruction.ts";
import { CodeWriter, type FunctionType, type ValueType } from "./wasm_encoder.ts";

/** What the caller of a kernel passes, in this order, all i32. */
const runParameters = [
  "firstBlockX",
  "lastBlockX",
  "blockY",
  "blockZ",
  "gridX",
  "gridY",
  "gridZ",
  "blockDimX",
  "blockDimY",
  "blockDimZ",
  "parameters",
  "shared",
  "local",
  "limits",
  "sharedBytes",
] as const;
/** What the loops over blocks and threads count. */
const counters = ["blockX", "threadX", "threadY", "threadZ"] as const;

/** A local that every kernel has. */
export type FixedLocal = typeof runParameters[number] | typeof counters[number];

/** The type of what a kernel is compiled to. */
export const runType: FunctionType = { parameters: runParameters.map(() => "i32"), results: [] };

const fixedLocals: readonly FixedLocal[] = [...runParameters, ...counters];
const fixedIndices = new Map(fixedLocals.map((name, index) => [name, index]));

/** The index of a local that every kernel has. */
export function fixedLocal(name: FixedLocal): number {
  return fixedIndices.get(name)!;
}

/** The global of a compiled module: the address of the image of its variables. */
export const imageAddressGlobal = 0;

/** Sizes of the spaces that a kernel addresses, in bytes. */
export interface SpaceSizes {
  readonly parameters: number;
  /** Undefined where the kernel uses what a launch adds: how much there is, the caller says. */
  readonly shared: number | undefined;
  readonly local: number;
  /** Where in the image of the module's variables those in `.const` lie. */
  readonly constants: { readonly offset: number; readonly byteLength: number };
}

/** How an operand's register may differ from the type of an instruction. */
export interface OperandOptions {
  /** Whether the register may be wider: true of loads, stores and conversions. */
  readonly wide?: boolean;
}

/**
 * Writes the code of one kernel, instruction by instruction: registers become locals, and operands are pushed and results
 * taken from the stack in the type that the instruction works in.
 */
export class FunctionEmitter {
  readonly code: CodeWriter = new CodeWriter();
  readonly sizes: SpaceSizes;
  readonly #valueTypes: ReadonlyMap<Register, ValueType>;
  readonly #locals: ValueType[] = counters.map(() => "i32");
  readonly #registers = new Map<Register, number>();
  readonly #temporaries: Record<ValueType, { locals: number[]; taken: number }> = {
    i32: { locals: [], taken: 0 },
    i64: { locals: [], taken: 0 },
    f32: { locals: [], taken: 0 },
    f64: { locals: [], taken: 0 },
  };
  readonly #parameters = new Map<string, { local: number; offset: number; type: ScalarType }>();
  #current: TypedInstruction | undefined;

  constructor(
    instructions: Iterable<TypedInstruction>,
    { sizes }: { sizes: SpaceSizes },
  ) {
    this.sizes = sizes;
    this.#valueTypes = chooseValueTypes(instructions);
  }

  /** The types of all locals beyond the parameters. */
  get locals(): readonly ValueType[] {
    return this.#locals;
  }

  /** The kernel's parameters that were read as a whole: each lies in a local from the start. */
  get preloadedParameters(): Iterable<{ local: number; offset: number; type: ScalarType }> {
    return this.#parameters.values();
  }

  /** Writes one instruction, under its predicate where it has one. */
  write(instruction: TypedInstruction): void {
    this.#current = instruction;
    for (const pool of Object.values(this.#temporaries)) pool.taken = 0;
    const { predicate, form } = instruction;
    if (predicate === undefined) {
      form.emit!(this, instruction);
    } else {
      this.pushPredicate(instruction);
      this.code.if();
      form.emit!(this, instruction);
      this.code.end();
    }
  }

  /** Pushes whether an instruction is to be executed, as an i32. */
  pushPredicate({ predicate }: TypedInstruction): void {
    const { register, negated } = predicate!;
    this.code.get(this.#registerLocal(register));
    if (negated) this.code.ops("i32Eqz");
  }

  /** Refuses the instruction that is being written. */
  fail(reason: string): never {
    throw new PtxError(this.#current!.line, `cannot compile "${this.#current!.text}": ${reason}`);
  }

  /** The line of the instruction that is being written. */
  get line(): number {
    return this.#current!.line;
  }

  getFixed(name: FixedLocal): CodeWriter {
    return this.code.get(fixedLocal(name));
  }

  callHelper(name: Helper): CodeWriter {
    return this.code.call(helperIndex(name));
  }

  /** A local for the rest of the instruction that is being written. */
  temporary(type: ValueType): number {
    const pool = this.#temporaries[type];
    const index = pool.taken++;
    return pool.locals[index] ??= this.newLocal(type);
  }

  /** A local for good. */
  newLocal(type: ValueType): number {
    this.#locals.push(type);
    return runParameters.length + this.#locals.length - 1;
  }

  /** The local that holds a parameter's value from the start of the kernel. */
  parameterLocal(offset: number, type: ScalarType): number {
    const key = `${offset} ${type.value} ${type.bits} ${type.kind === "signed"}`;
    let parameter = this.#parameters.get(key);
    if (parameter === undefined) {
      parameter = { local: this.newLocal(type.value), offset, type };
      this.#parameters.set(key, parameter);
    }
    return parameter.local;
  }

  /** Pushes an operand's value as one of a type: narrow integers are extended by its sign or lack of one. */
  push(operand: ResolvedOperand | undefined, type: ScalarType, options: OperandOptions = {}): void {
    const { code } = this;
    switch (operand?.kind) {
      case "register":
        this.#checkRegister(operand, type, options);
        code.get(this.#registerLocal(operand));
        this.#readAs(operand, type);
        break;
      case "integer":
        this.#pushInteger(operand.value, type);
        break;
      case "float":
        this.#pushFloat(operand, type);
        break;
      case "special":
        this.#pushSpecial(operand.name);
        this.#convertUnsigned32(type);
        break;
      case "variable":
        this.#pushAddress(operand, 0n, type);
        break;
      case "sum":
        this.#pushAddress(operand.variable, operand.offset, type);
        break;
      case "not":
        if (type.kind !== "predicate") this.fail("only a predicate can be negated");
        code.get(this.#registerLocal(operand.register)).ops("i32Eqz");
        break;
      default:
        this.fail("it has an operand of the wrong kind");
    }
  }

  /** Pushes the address of a byte of a variable, in the variable's own space, as an i64. */
  pushVariable(variable: Variable, offset: bigint): void {
    this.code.i64(BigInt(variable.offset) + offset);
    if (isInImage(variable)) this.code.globalGet(imageAddressGlobal).ops("i64Add");
  }

  /** Pushes how many bytes the block's shared memory has. */
  pushSharedBytes(): void {
    if (this.sizes.shared === undefined) this.getFixed("sharedBytes");
    else this.code.i32(this.sizes.shared);
  }

  /** Puts what `produce` pushes, a value of a type, into a destination. */
  assign(
    destination: ResolvedOperand | undefined,
    type: ScalarType,
    produce: () => void,
    options: OperandOptions = {},
  ): void {
    if (destination?.kind === "sink") {
      produce();
      this.code.ops("drop");
      return;
    }
    if (destination?.kind !== "register") this.fail("its result must go into a register");
    this.#checkRegister(destination, type, options);
    produce();
    this.#writeAs(destination, type);
    this.code.set(this.#registerLocal(destination));
  }

  #checkRegister({ name, type: { name: declared, bits, kind } }: Register, type: ScalarType, { wide }: OperandOptions) {
    if (bits !== type.bits && !(wide && bits > type.bits && type.kind !== "predicate")) {
      this.fail(`the register ${name} is ".${declared}", where ".${type.name}" is needed`);
    }
    const isFloat = (kind: ScalarType["kind"]) => kind === "float";
    const isInteger = (kind: ScalarType["kind"]) => kind === "signed" || kind === "unsigned";
    const clash = (isFloat(kind) && isInteger(type.kind)) || (isInteger(kind) && isFloat(type.kind)) ||
      (isFloat(kind) && isFloat(type.kind) && bits !== type.bits);
    if (clash) this.fail(`the register ${name} is ".${declared}", where ".${type.name}" is needed`);
  }

  #registerLocal(register: Register): number {
    let local = this.#registers.get(register);
    if (local === undefined) {
      local = this.newLocal(this.#valueType(register));
      this.#registers.set(register, local);
    }
    return local;
  }

  #valueType(register: Register): ValueType {
    return this.#valueTypes.get(register) ?? register.type.value;
  }

  #readAs(register: Register, type: ScalarType): void {
    const { code } = this;
    const from = this.#valueType(register);
    if (type.value === from && register.type.bits === type.bits) {
      if (type.kind === "signed" && type.bits < 32) this.extend(type);
      return;
    }
    if (from === "f32" && type.value === "i32") code.ops("i32ReinterpretF32");
    else if (from === "f64" && type.value !== "f64") code.ops("i64ReinterpretF64");
    else if (from === "i32" && type.value === "f32") code.ops("f32ReinterpretI32");
    else if (from === "i64" && type.value === "f64") code.ops("f64ReinterpretI64");
    if (register.type.bits === 64 && type.bits < 64) {
      code.ops("i32WrapI64");
      if (type.value === "f32") code.ops("f32ReinterpretI32");
    }
    if (type.bits < 32) this.extend(type);
  }

  /** Extends the low bits of an i32 on the stack, by a type of 8 or 16 bits, to all 32. */
  extend(type: ScalarType): void {
    if (type.bits !== 8 && type.bits !== 16) return;
    if (type.kind === "signed") this.code.ops(type.bits === 8 ? "i32Extend8S" : "i32Extend16S");
    else this.code.i32(type.bits === 8 ? 0xff : 0xffff).ops("i32And");
  }

  #writeAs(register: Register, type: ScalarType): void {
    const { code } = this;
    const { bits } = register.type;
    if (type.bits < bits) {
      if (type.value === "f32") code.ops("i32ReinterpretF32");
      this.extend(type);
      if (bits === 64) code.ops(type.kind === "signed" ? "i64ExtendI32S" : "i64ExtendI32U");
    }
    if (bits < 32 && register.type.kind !== "predicate") code.i32(bits === 8 ? 0xff : 0xffff).ops("i32And");
    const to = this.#valueType(register);
    const value = type.bits < bits ? (bits === 64 ? "i64" : "i32") : type.value;
    if (value === "i32" && to === "f32") code.ops("f32ReinterpretI32");
    else if (value === "f32" && to === "i32") code.ops("i32ReinterpretF32");
    else if (value === "i64" && to === "f64") code.ops("f64ReinterpretI64");
    else if (value === "f64" && to === "i64") code.ops("i64ReinterpretF64");
  }

  #pushAddress(variable: Variable, offset: bigint, type: ScalarType): void {
    const least = isInImage(variable) ? 64 : 32;
    if (type.kind === "float" || type.bits < least) {
      this.fail(`the address of "${variable.name}" needs ${least === 64 ? "64" : "32 or 64"} bits`);
    }
    this.pushVariable(variable, offset);
    if (type.bits === 32) this.code.ops("i32WrapI64");
  }

  #pushInteger(value: bigint, type: ScalarType): void {
    const { bits, kind } = type;
    if (kind === "float") this.fail(`the integer ${value} stands where a ".${type.name}" is needed`);
    if (value < -(1n << BigInt(bits - 1)) || value >= 1n << BigInt(bits)) {
      this.fail(`the integer ${value} does not fit into ".${type.name}"`);
    }
    if (kind === "predicate") this.code.i32(Number(value & 1n));
    else if (bits === 64) this.code.i64(value);
    else this.code.i32(Number(kind === "signed" ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value)));
  }

  #pushFloat({ precision, bits }: { precision: "single" | "double"; bits: bigint }, type: ScalarType): void {
    const { code } = this;
    if (type.kind === "predicate" || type.bits < 32 || type.kind === "signed" || type.kind === "unsigned") {
      this.fail(`a floating-point number stands where a ".${type.name}" is needed`);
    }
    if (type.bits === 32) {
      const single = precision === "single" ? bits : singleBits(bits);
      if (type.value === "f32") code.f32Bits(single);
      else code.i32(Number(single));
    } else {
      if (precision === "single") this.fail("a single-precision number stands where 64 bits are needed");
      if (type.value === "f64") code.f64Bits(bits);
      else code.i64(bits);
    }
  }

  /** Takes the i32 on the stack, an unsigned number, to a type. */
  #convertUnsigned32(type: ScalarType): void {
    if (type.kind === "float" || type.kind === "predicate") this.fail("a special register is an integer");
    if (type.bits === 64) this.code.ops("i64ExtendI32U");
    else if (type.bits < 32) this.extend(type);
  }

  #pushSpecial(name: string): void {
    const push = specialRegisters.get(name);
    if (push === undefined) this.fail(`the special register ${name} is not supported`);
    push(this);
  }
}

function isInImage({ space }: Variable): boolean {
  return space === "global" || space === "const";
}

const warpSize = 32;

function pushThreadInBlock(emitter: FunctionEmitter): void {
  emitter.getFixed("threadZ");
  emitter.getFixed("blockDimY").ops("i32Mul");
  emitter.getFixed("threadY").ops("i32Add");
  emitter.getFixed("blockDimX").ops("i32Mul");
  emitter.getFixed("threadX").ops("i32Add");
}

function pushLane(emitter: FunctionEmitter): void {
  pushThreadInBlock(emitter);
  emitter.code.i32(warpSize - 1).ops("i32And");
}

/** Special registers, each an unsigned number of 32 bits. PTX ISA, section 10. */
const specialRegisters: ReadonlyMap<string, (emitter: FunctionEmitter) => void> = new Map([
  ["%tid.x", (e) => e.getFixed("threadX")],
  ["%tid.y", (e) => e.getFixed("threadY")],
  ["%tid.z", (e) => e.getFixed("threadZ")],
  ["%ntid.x", (e) => e.getFixed("blockDimX")],
  ["%ntid.y", (e) => e.getFixed("blockDimY")],
  ["%ntid.z", (e) => e.getFixed("blockDimZ")],
  ["%ctaid.x", (e) => e.getFixed("blockX")],
  ["%ctaid.y", (e) => e.getFixed("blockY")],
  ["%ctaid.z", (e) => e.getFixed("blockZ")],
  ["%nctaid.x", (e) => e.getFixed("gridX")],
  ["%nctaid.y", (e) => e.getFixed("gridY")],
  ["%nctaid.z", (e) => e.getFixed("gridZ")],
  ["%laneid", pushLane],
  ["%warpid", (e) => {
    pushThreadInBlock(e);
    e.code.i32(5).ops("i32ShrU");
  }],
  ["%lanemask_eq", (e) => {
    e.code.i32(1);
    pushLane(e);
    e.code.ops("i32Shl");
  }],
  ["%lanemask_lt", (e) => {
    e.code.i32(1);
    pushLane(e);
    e.code.ops("i32Shl").i32(1).ops("i32Sub");
  }],
  ["%lanemask_le", (e) => {
    e.code.i32(2);
    pushLane(e);
    e.code.ops("i32Shl").i32(1).ops("i32Sub");
    // Lane 31 shifts by 31: 2 << 31 is 0 modulo 2 to the 32, and the mask all ones, as it should be.
  }],
  ["%lanemask_gt", (e) => {
    e.code.i32(-2);
    pushLane(e);
    e.code.ops("i32Shl");
  }],
  ["%lanemask_ge", (e) => {
    e.code.i32(-1);
    pushLane(e);
    e.code.ops("i32Shl");
  }],
  ["WARP_SZ", (e) => e.code.i32(warpSize)],
]);

/** Whether a name is that of a special register or a predefined constant, known here or not. */
export function isSpecialRegister(name: string): boolean {
  return specialRegisters.has(name) ||
    /^%(tid|ntid|ctaid|nctaid|laneid|warpid|nwarpid|smid|nsmid|gridid|clock|globaltimer|lanemask|pm|envreg|dynamic|total|aggr|cluster|is_explicit|reserved|current)/
      .test(name);
}

/**
 * The WebAssembly types of registers that were declared as bits alone: a float where floating-point instructions name
 * the register more often than others do, so that its value need not move between units. Only speed depends on it.
 */
function chooseValueTypes(instructions: Iterable<TypedInstruction>): Map<Register, ValueType> {
  const votes = new Map<Register, number>();
  const vote = (operand: ResolvedOperand, weight: number): void => {
    if (operand.kind === "vector") { for (const element of operand.elements) vote(element, weight); }
    if (operand.kind === "address" && operand.base?.kind === "register") vote(operand.base, -1);
    if (operand.kind === "register" && operand.type.kind === "bits" && operand.type.bits >= 32) {
      votes.set(operand, (votes.get(operand) ?? 0) + weight);
    }
  };
  for (const { operands, type, choices } of instructions) {
    const from = choices.get("from");
    operands.forEach((operand, index) => {
      const operandType = index > 0 && from !== undefined ? typeNamed(from) : type;
      const isFloat = operandType.value === "f32" || operandType.value === "f64";
      vote(operand, isFloat ? 1 : operandType.kind === "bits" ? 0 : -1);
    });
  }
  const types = new Map<Register, ValueType>();
  for (const [register, count] of votes) if (count > 0) types.set(register, register.type.bits === 64 ? "f64" : "f32");
  return types;
}
