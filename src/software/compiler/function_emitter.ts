import { PtxError } from "../../ptx/syntax.ts";
import { functionAddress, localAddressBase } from "./addresses.ts";
import { type Helper, helperIndex } from "./helpers/helper_functions.ts";
import { copiesNumbers, findLazyNaNs } from "./lazy_nans.ts";
import type { Emit } from "./typing/instruction_form.ts";
import type { ContextField } from "./launch_context.ts";
import type { Register, Variable } from "./typing/names.ts";
import { type ScalarType, singleBits, typeNamed } from "./typing/scalar_types.ts";
import { specialRegister } from "./typing/special_registers.ts";
import { type PointerRoots, pointerRoots } from "./pointer_roots.ts";
import type { ResolvedAddress, ResolvedOperand, TypedInstruction } from "./typing/typed_instruction.ts";
import { CodeWriter, type FunctionType, type LocalType, type ValueType } from "./webassembly/wasm_encoder.ts";

/** What a kernel keeps for the thread that it runs: each an i32. */
const threadFields = [
  "threadX",
  "threadY",
  "threadZ",
  /** Its number in the block. */
  "thread",
  /** Where its record begins. */
  "record",
  /** Where its local memory begins, and in that the frame of the function that it is in, and what is above the frame. */
  "local",
  "frame",
  "top",
  /** Where the function's registers are saved. */
  "saved",
  /** Where it is to go on. */
  "resumption",
  /** How often it may still go around loops before it asks whether it may go on, and before it lets others go on. */
  "steps",
  "turns",
] as const;

/** A local that a kernel has where it is asked for. */
export type FixedLocal = ContextField | typeof threadFields[number];

/** The type of what a kernel is compiled to: it is told where the launch's record begins. */
export const runType: FunctionType = { parameters: ["i32"], results: [] };
/** The local that tells where the launch's record begins. */
export const contextLocal = 0;

/** What a piece of code reads of registers before it has set them, and what it always sets. */
export interface RegisterUse {
  readonly uses: ReadonlySet<Register>;
  readonly definitions: ReadonlySet<Register>;
}

/** A piece of code, with what it does to registers. */
export interface EmittedCode extends RegisterUse {
  readonly code: Uint8Array;
}

/** The global of a compiled module: the address of the image of its variables. */
export const imageAddressGlobal = 0;

/** Sizes of the spaces that a kernel addresses, in bytes. */
export interface SpaceSizes {
  readonly parameters: number;
  /** Undefined where the kernel uses what a launch adds: how much there is, the caller says. */
  readonly shared: number | undefined;
  /** What the kernel declares itself. */
  readonly staticShared: number;
  /** Of each thread, the frames of all functions. */
  readonly local: number;
  /** Whether the frame of the function that is run may lie elsewhere than at the start of that. */
  readonly hasFrames: boolean;
  /** Whether there is memory above the frames that is taken while functions run. */
  readonly hasTop: boolean;
  /** Where in the image of the module's variables those in `.const` lie. */
  readonly constants: { readonly offset: number; readonly byteLength: number };
}

/** How a module is compiled. */
export interface CompileOptions {
  /** Whether accesses to global and shared memory are checked: to be left out only to measure what that costs. */
  readonly boundsChecks: boolean;
  /** Whether the engine's relaxed multiply-add is used, which must round once. */
  readonly fusedMultiplyAdd: boolean;
  /**
   * Whether kernels that can have one get a version, too, that runs several threads at once: where it is likely to be
   * faster, or always.
   */
  readonly packedThreads: boolean | "always";
}

/** Locals that stand for registers and for numbers of the thread while some code is written. */
export interface StandIns {
  readonly registers: ReadonlyMap<Register, number>;
  readonly fixed: ReadonlyMap<FixedLocal, number>;
}

/** How an operand's register may differ from the type of an instruction. */
export interface OperandOptions {
  /** Whether the register may be wider: true of loads, stores and conversions. */
  readonly wide?: boolean;
  /**
   * Of an operand, that any NaN of 32 bits will do where it is one; of a result, that it may be any. Without it they are
   * those that PTX sees.
   */
  readonly anyNaN?: boolean;
}

/**
 * Writes the code of one kernel and of the functions that it calls, instruction by instruction: registers become locals,
 * and operands are pushed and results taken from the stack in the type that the instruction works in.
 */
export class FunctionEmitter {
  code: CodeWriter = new CodeWriter();
  readonly sizes: SpaceSizes;
  readonly options: CompileOptions;
  readonly #valueTypes = new Map<Register, ValueType>();
  readonly #locals: LocalType[] = [];
  readonly #registers = new Map<Register, number>();
  /** Of functions only one is run at a time: their registers share the locals. */
  readonly #registerLocals: LocalPools = localPools();
  readonly #temporaries: LocalPools = localPools();
  readonly #fixed = new Map<FixedLocal, number>();
  readonly #parameters = new Map<string, { local: number; offset: number; type: ScalarType }>();
  readonly #ranges = new Map<ResolvedAddress["base"], Map<number, { begin: number; count: number }>>();
  readonly #sharedPlaces = new Map<number, number>();
  #lazyNaNs: ReadonlySet<Register> = new Set();
  #rootOf: PointerRoots = (register) => register;
  #carry = newCarry();
  #uses = new Set<Register>();
  #definitions = new Set<Register>();
  #isConditional = false;
  #standIns: StandIns | undefined;
  #current: TypedInstruction | undefined;

  constructor(sizes: SpaceSizes, options: CompileOptions) {
    this.sizes = sizes;
    this.options = options;
  }

  /** The types of all locals beyond the parameters. */
  get locals(): readonly LocalType[] {
    return this.#locals;
  }

  /** The kernel's parameters that were read as a whole: each lies in a local from the start. */
  get preloadedParameters(): Iterable<{ local: number; offset: number; type: ScalarType }> {
    return this.#parameters.values();
  }

  /** The numbers of the launch and the thread that the code asks for, with their locals. */
  get fixedLocals(): ReadonlyMap<FixedLocal, number> {
    return this.#fixed;
  }

  /** Begins with the next function, whose registers take the locals of those of the one before. */
  enterFunction(instructions: readonly TypedInstruction[]): void {
    for (const [register, type] of chooseValueTypes(instructions)) this.#valueTypes.set(register, type);
    this.#lazyNaNs = findLazyNaNs(instructions, (register) => this.valueType(register) === "f32");
    this.#rootOf = pointerRoots(instructions);
    this.#carry = newCarry();
    for (const pool of Object.values(this.#registerLocals)) pool.taken = 0;
  }

  /** What `write` emits, by itself. */
  emitApart(write: () => void): EmittedCode {
    const { code } = this;
    this.code = new CodeWriter();
    this.#uses = new Set();
    this.#definitions = new Set();
    write();
    const emitted = { code: this.code.finish(), uses: this.#uses, definitions: this.#definitions };
    this.code = code;
    return emitted;
  }

  /** Writes what an instruction does, under its predicate where it has one. */
  write(instruction: TypedInstruction, emit: Emit): void {
    if (instruction.predicate === undefined) {
      this.writeAlways(instruction, emit);
    } else {
      this.begin(instruction);
      this.pushPredicate(instruction);
      this.code.if();
      const before = this.#isConditional;
      this.#isConditional = true;
      emit(this, instruction);
      this.#isConditional = before;
      this.code.end();
    }
  }

  /** Writes what an instruction does, or some of it, whatever its predicate. */
  writeAlways(instruction: TypedInstruction, emit: Emit): void {
    this.begin(instruction);
    emit(this, instruction);
  }

  /** Lets `write` write with other locals in place of some. */
  writeWith(standIns: StandIns, write: () => void): void {
    const before = this.#standIns;
    this.#standIns = standIns;
    write();
    this.#standIns = before;
  }

  /** Notes which instruction is written, whose temporaries are all free. */
  begin(instruction: TypedInstruction): void {
    this.#current = instruction;
    for (const pool of Object.values(this.#temporaries)) pool.taken = 0;
  }

  /** Pushes whether an instruction is to be executed, as an i32. */
  pushPredicate({ predicate }: TypedInstruction): void {
    const { register, negated } = predicate!;
    this.#use(register);
    this.code.get(this.registerLocal(register));
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
    return this.code.get(this.fixedLocal(name));
  }

  setFixed(name: FixedLocal): CodeWriter {
    return this.code.set(this.fixedLocal(name));
  }

  /** The local for a number of the launch or the thread. */
  fixedLocal(name: FixedLocal): number {
    let local = this.#standIns?.fixed.get(name) ?? this.#fixed.get(name);
    if (local === undefined) {
      local = this.newLocal("i32");
      this.#fixed.set(name, local);
    }
    return local;
  }

  /** The carry that instructions with `.cc` leave, 0 or 1: a register of the function like any other. */
  get carry(): Register {
    return this.#carry;
  }

  callHelper(name: Helper): CodeWriter {
    return this.code.call(helperIndex(name));
  }

  /** A local for the rest of the instruction that is being written. */
  temporary(type: LocalType): number {
    return this.#take(this.#temporaries, type);
  }

  /** A local for good. */
  newLocal(type: LocalType): number {
    this.#locals.push(type);
    return runType.parameters.length + this.#locals.length - 1;
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
        this.#use(operand);
        code.get(this.registerLocal(operand));
        if (this.#lazyNaNs.has(operand) && !options.anyNaN && !this.#copiesAnyNaN()) this.canonicalizeNaN32();
        this.#readAs(operand, type);
        break;
      case "integer":
        this.#pushInteger(operand.value, type);
        break;
      case "float":
        this.#pushFloat(operand, type);
        break;
      case "special":
        this.#pushSpecial(operand.name, type);
        break;
      case "variable":
        this.#pushAddress(operand, 0n, type);
        break;
      case "sum":
        this.#pushAddress(operand.variable, operand.offset, type);
        break;
      case "not":
        if (type.kind !== "predicate") this.fail("only a predicate can be negated");
        this.#use(operand.register);
        code.get(this.registerLocal(operand.register)).ops("i32Eqz");
        break;
      case "function":
        if (type.bits !== 64 || type.kind === "float") this.fail("the address of a function needs 64 bits");
        code.i64(functionAddress(operand.index));
        break;
      default:
        this.fail("it has an operand of the wrong kind");
    }
  }

  /** The local that holds an operand of a type as it is, where one does. */
  localOf(operand: ResolvedOperand | undefined, type: ScalarType): number | undefined {
    if (operand?.kind !== "register" || operand.type.bits !== type.bits) return undefined;
    return this.valueType(operand) === type.value ? this.registerLocal(operand) : undefined;
  }

  /** Gives a NaN of 32 bits on the stack the bits that arithmetic gives. */
  canonicalizeNaN32(): void {
    const value = this.temporary("f32");
    this.code.tee(value).f32Bits(0x7fff_ffffn).get(value).get(value).ops("f32Eq", "select");
  }

  /** Whether the instruction that is being written only moves numbers to a register whose NaN may be any. */
  #copiesAnyNaN(): boolean {
    const instruction = this.#current!;
    const [destination] = instruction.operands;
    return copiesNumbers(instruction) && destination?.kind === "register" && this.#lazyNaNs.has(destination);
  }

  /** Pushes the address of a byte of a variable, in the variable's own space, as an i64. */
  pushVariable(variable: Variable, offset: bigint): void {
    this.code.i64(BigInt(variable.offset) + offset);
    if (isInImage(variable)) this.code.globalGet(imageAddressGlobal).ops("i64Add");
    if (!variable.isInFrame || !this.sizes.hasFrames) return;
    this.getFixed("frame");
    this.getFixed("local").ops("i32Sub", "i64ExtendI32U", "i64Add");
  }

  /** Pushes where the frame of the function begins. */
  getFrame(): CodeWriter {
    return this.getFixed(this.sizes.hasFrames ? "frame" : "local");
  }

  /**
   * The locals, both i64, that remember of a pointer where the allocation begins that it was found to point into, and how
   * many places for an access of some bytes there are in it: none at first.
   */
  rangeCache(base: ResolvedAddress["base"], bytes: number): { begin: number; count: number } {
    const root = base?.kind === "register" ? this.#rootOf(base) : base;
    let caches = this.#ranges.get(root);
    if (caches === undefined) this.#ranges.set(root, caches = new Map());
    let cache = caches.get(bytes);
    if (cache === undefined) caches.set(bytes, cache = { begin: this.newLocal("i64"), count: this.newLocal("i64") });
    return cache;
  }

  /** The local that says how many places for an access of some bytes the block's shared memory has. */
  sharedPlaces(bytes: number): number {
    const local = this.#sharedPlaces.get(bytes) ?? this.newLocal("i32");
    this.#sharedPlaces.set(bytes, local);
    return local;
  }

  /** Those locals, by the bytes of the access. */
  get sharedPlacesLocals(): ReadonlyMap<number, number> {
    return this.#sharedPlaces;
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
    if (options.anyNaN && type.value === "f32" && !this.#lazyNaNs.has(destination)) this.canonicalizeNaN32();
    this.#writeAs(destination, type);
    this.code.set(this.registerLocal(destination));
    if (!this.#isConditional) this.#definitions.add(destination);
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

  /** The local that holds a register. */
  registerLocal(register: Register): number {
    let local = this.#standIns?.registers.get(register) ?? this.#registers.get(register);
    if (local === undefined) {
      local = this.#take(this.#registerLocals, this.valueType(register));
      this.#registers.set(register, local);
    }
    return local;
  }

  #take(pools: LocalPools, type: LocalType): number {
    const pool = pools[type];
    return pool.locals[pool.taken++] ??= this.newLocal(type);
  }

  /** Whether a register may hold any NaN of 32 bits in place of the one that arithmetic gives. */
  hasLazyNaN(register: Register): boolean {
    return this.#lazyNaNs.has(register);
  }

  /** The type of the local that holds a register. */
  valueType(register: Register): ValueType {
    return this.#valueTypes.get(register) ?? register.type.value;
  }

  #readAs(register: Register, type: ScalarType): void {
    const { code } = this;
    const from = this.valueType(register);
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
    const to = this.valueType(register);
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
    if (variable.isInFrame && variable.space === "param") this.code.i64(localAddressBase).ops("i64Add");
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

  #pushSpecial(name: string, type: ScalarType): void {
    const register = specialRegister(name);
    if (register === undefined) this.fail(`the special register ${name} is not supported`);
    if (type.kind === "float" || type.kind === "predicate") this.fail("a special register is an integer");
    register.push(this);
    if (register.bits === 64) {
      if (type.bits < 64) this.code.ops("i32WrapI64");
    } else if (type.bits === 64) {
      this.code.ops("i64ExtendI32U");
    }
    if (type.bits < 32) this.extend(type);
  }

  #use(register: Register): void {
    if (!this.#definitions.has(register)) this.#uses.add(register);
  }

  /** Notes that the code reads a register in another way than by {@linkcode push}. */
  noteUse(register: Register): void {
    this.#use(register);
  }

  /** Notes that the code sets a register in another way than by {@linkcode assign}. */
  noteDefinition(register: Register): void {
    if (!this.#isConditional) this.#definitions.add(register);
  }
}

interface LocalPool {
  readonly locals: number[];
  taken: number;
}

type LocalPools = Readonly<Record<LocalType, LocalPool>>;

function localPools(): LocalPools {
  const pool = (): LocalPool => ({ locals: [], taken: 0 });
  return { i32: pool(), i64: pool(), f32: pool(), f64: pool(), v128: pool() };
}

function newCarry(): Register {
  return { kind: "register", name: "CC.CF", type: typeNamed("u32") };
}

function isInImage({ space }: Variable): boolean {
  return space === "global" || space === "const";
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
