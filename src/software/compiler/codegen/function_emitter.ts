import { PtxError } from "../../../ptx/syntax.ts";
import { functionAddress, localAddressBase } from "../addresses.ts";
import { type Helper, helperIndex } from "../helpers/helper_functions.ts";
import { copiesNumbers, findDeferredNaNs } from "./nan_canonicalization.ts";
import type { Emit } from "../instructions/instruction_form.ts";
import { type FixedLocal, runType } from "./fixed_locals.ts";
import { pushFloatLiteral, pushIntegerLiteral } from "./literal_operands.ts";
import { LocalPools } from "./local_pools.ts";
import { chooseValueTypes, extend, isOperandOf, readAs, writeAs } from "./register_types.ts";
import type { Register, Variable } from "../typing/names.ts";
import { type ScalarType, typeNamed } from "../typing/scalar_types.ts";
import { specialRegister } from "../instructions/special_registers.ts";
import { type PointerRoots, pointerRoots } from "./pointer_roots.ts";
import type { ResolvedAddress, ResolvedInstruction, ResolvedOperand } from "../typing/resolved_instruction.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";
import type { LocalType, ValueType } from "../webassembly/opcodes.ts";

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
  readonly gangs: boolean | "always";
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
  readonly #registerLocals = new LocalPools((type) => this.newLocal(type));
  readonly #temporaries = new LocalPools((type) => this.newLocal(type));
  readonly #fixed = new Map<FixedLocal, number>();
  readonly #parameters = new Map<string, { local: number; offset: number; type: ScalarType }>();
  readonly #ranges = new Map<ResolvedAddress["base"], Map<number, { begin: number; count: number }>>();
  readonly #sharedPlaces = new Map<number, number>();
  #deferredNaNs: ReadonlySet<Register> = new Set();
  #rootOf: PointerRoots = (register) => register;
  #carry = newCarry();
  #uses = new Set<Register>();
  #definitions = new Set<Register>();
  #isConditional = false;
  #standIns: StandIns | undefined;
  #current: ResolvedInstruction | undefined;

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
  enterFunction(instructions: readonly ResolvedInstruction[]): void {
    for (const [register, type] of chooseValueTypes(instructions)) this.#valueTypes.set(register, type);
    this.#deferredNaNs = findDeferredNaNs(instructions, (register) => this.valueType(register) === "f32");
    this.#rootOf = pointerRoots(instructions);
    this.#carry = newCarry();
    this.#registerLocals.giveBackAll();
  }

  /** What `write` emits, by itself. */
  emitSeparately(write: () => void): EmittedCode {
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
  write(instruction: ResolvedInstruction, emit: Emit): void {
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
  writeAlways(instruction: ResolvedInstruction, emit: Emit): void {
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
  begin(instruction: ResolvedInstruction): void {
    this.#current = instruction;
    this.#temporaries.giveBackAll();
  }

  /** Pushes whether an instruction is to be executed, as an i32. */
  pushPredicate({ predicate }: ResolvedInstruction): void {
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
    return this.#temporaries.take(type);
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
        if (this.#deferredNaNs.has(operand) && !options.anyNaN && !this.#copiesAnyNaN()) this.canonicalizeNaN32();
        readAs(code, type, { register: operand, held: this.valueType(operand) });
        break;
      case "integer":
        pushIntegerLiteral(this, operand.value, type);
        break;
      case "float":
        pushFloatLiteral(this, operand, type);
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
    return copiesNumbers(instruction) && destination?.kind === "register" && this.#deferredNaNs.has(destination);
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
    if (options.anyNaN && type.value === "f32" && !this.#deferredNaNs.has(destination)) this.canonicalizeNaN32();
    writeAs(this.code, type, { register: destination, held: this.valueType(destination) });
    this.code.set(this.registerLocal(destination));
    if (!this.#isConditional) this.#definitions.add(destination);
  }

  /** Extends the low bits of an i32 on the stack, by a type of 8 or 16 bits, to all 32. */
  extend(type: ScalarType): void {
    extend(this.code, type);
  }

  #checkRegister(register: Register, type: ScalarType, { wide = false }: OperandOptions): void {
    if (isOperandOf(register, { type, wide })) return;
    this.fail(`the register ${register.name} is ".${register.type.name}", where ".${type.name}" is needed`);
  }

  /** The local that holds a register. */
  registerLocal(register: Register): number {
    let local = this.#standIns?.registers.get(register) ?? this.#registers.get(register);
    if (local === undefined) {
      local = this.#registerLocals.take(this.valueType(register));
      this.#registers.set(register, local);
    }
    return local;
  }

  /** Whether a register may hold any NaN of 32 bits in place of the one that arithmetic gives. */
  hasDeferredNaN(register: Register): boolean {
    return this.#deferredNaNs.has(register);
  }

  /** The type of the local that holds a register. */
  valueType(register: Register): ValueType {
    return this.#valueTypes.get(register) ?? register.type.value;
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

function newCarry(): Register {
  return { kind: "register", name: "CC.CF", type: typeNamed("u32") };
}

function isInImage({ space }: Variable): boolean {
  return space === "global" || space === "const";
}
