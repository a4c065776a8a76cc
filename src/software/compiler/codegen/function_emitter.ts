import type { KnownZeroBits } from "../../../ptx/analysis/known_zero_bits.ts";
import {
  type ParameterOffset,
  type ParameterOffsets,
  type PointerOrigin,
  type PointerOrigins,
  type UnderlyingPointers,
  underlyingPointers,
} from "../../../ptx/analysis/pointer_origins.ts";
import type { RegisterUse } from "../../../ptx/analysis/definitions_and_uses.ts";
import { PtxError } from "../../../ptx/syntax.ts";
import { emitShadows } from "../checks/shadow_rules.ts";
import { RegisterShadows } from "../checks/register_shadows.ts";
import { mayHave } from "../../../ptx/instructions/instruction_traits.ts";
import { encodePlace, type FaultPlace, functionAddress, localAddressBase } from "../../abi/addresses.ts";
import { orderBits } from "../../abi/check_state.ts";
import { type Helper, helperIndex, imageAddressGlobal } from "../helpers/helper_functions.ts";
import { copiesNumbers, findDeferredNaNs } from "./nan_canonicalization.ts";
import type { CompiledInstruction, Emit } from "../instructions/instruction_form.ts";
import { type FixedLocal, launchRecordLocal, type LiveInterval, runType, shareLocals } from "./locals.ts";
import { type ArgumentRange, FunctionLocals, type ParameterPointer } from "./function_locals.ts";
import {
  chooseValueTypes,
  extend,
  isOperandOf,
  pushFloatLiteral,
  pushIntegerLiteral,
  readAs,
  writeAs,
} from "./register_types.ts";
import type {
  Register,
  ResolvedAddress,
  ResolvedInstruction,
  ResolvedOperand,
  Variable,
} from "../../../ptx/instructions/resolved_instruction.ts";
import { type ScalarType, typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import { isSpecialRegister, specialRegister } from "../instructions/special_registers.ts";
import { UnsupportedPtxError } from "../../../ptx/instruction_support.ts";
import { type CodePiece, CodeStore, CodeWriter } from "../webassembly/code_writer.ts";
import type { LocalType, ValueType } from "../webassembly/opcodes.ts";
import { KernelFunctions } from "../webassembly/kernel_functions.ts";

/** A piece of code, and the registers that it uses and defines. */
export interface EmittedCode extends RegisterUse {
  readonly code: CodePiece;
  /** The registers that the code sets only on some paths. May include registers that are also in `definitions`. */
  readonly conditional: ReadonlySet<Register>;
}

const noRegisters: ReadonlySet<Register> = new Set();

/** The sizes of the state spaces that a kernel addresses, in bytes. */
export interface SpaceSizes {
  readonly parameters: number;
  /**
   * The size of the static shared memory, if the kernel declares no dynamic shared memory. A launch may still add
   * dynamic shared memory. Undefined if the kernel declares dynamic shared memory: its size is known only at launch.
   */
  readonly shared: number | undefined;
  /** The size of the static shared memory that the kernel declares. */
  readonly staticShared: number;
  /** Whether the kernel reads the address of the reserved shared memory, and so may access that memory. */
  readonly usesReservedShared: boolean;
  /**
   * Whether the kernel may access the shared memory of other blocks of its cluster. Then, the addresses in `.shared` of a
   * block begin at the `clusterBase` of the launch record, and otherwise at 0.
   */
  readonly usesClusterMemory: boolean;
  /** The size of each thread's local memory, which contains the frames of all functions. */
  readonly local: number;
  /**
   * Whether a function's frame may begin at an offset other than 0 in local memory: true if the kernel calls functions.
   */
  readonly hasFrames: boolean;
  /** Whether functions allocate stack memory beyond their frames. */
  readonly hasStackPointer: boolean;
  /** The alignment of all frames, in bytes. */
  readonly frameAlignment: number;
  /** The part of the module's image that contains the `.const` variables. */
  readonly constants: { readonly offset: number; readonly byteLength: number };
}

/** A check of a kernel's behavior that instrumented code makes at run time. */
export type KernelCheckName = "memory" | "initialization" | "race" | "synchronization";

/** Options of the compiler. */
export interface EmitOptions {
  /** Whether to check accesses to global and shared memory. False only to measure the cost of the checks. */
  readonly boundsChecks: boolean;
  /** Whether to use WebAssembly's relaxed multiply-add. Requires an engine that rounds the result only once. */
  readonly fusedMultiplyAdd: boolean;
  /**
   * Whether to compile a second version of each kernel that runs gangs of threads: `false` for never, `true` if the
   * second version is likely to be faster, `"always"` whenever possible.
   */
  readonly gangs: boolean | "always";
  /** Whether kernels report every access to global memory. Not supported by gangs. */
  readonly observesAccesses: boolean;
  /**
   * Whether the threads of kernels without suspensions run in the order that the launch record specifies. Not supported
   * by gangs.
   */
  readonly variesThreads: boolean;
  /** Whether to check that writes do not access read-only memory. Not supported by gangs. */
  readonly checksWrites: boolean;
  /** The run-time checks that kernels make. Not supported by gangs. */
  readonly kernelChecks: ReadonlySet<KernelCheckName>;
  /**
   * The estimated code size in bytes above which a kernel whose threads can be suspended is divided into parts, each of
   * which becomes a WebAssembly function.
   */
  readonly dividedAbove: number;
  /** The target code size of a part, in bytes. */
  readonly partBytes: number;
  /**
   * The extra stack size of each thread, in bytes, if functions may be recursive or allocate stack memory. Also the extra
   * size of each thread's saved registers if functions may be recursive.
   */
  readonly stackBytes: number;
}

/** The default of {@linkcode EmitOptions.stackBytes}. More than a GPU's, whose threads save fewer registers. */
export const defaultStackBytes = 16384;

/**
 * The locals that are temporarily used in place of the usual locals of registers and fixed locals, while some code is
 * emitted.
 */
export interface StandIns {
  readonly registers: ReadonlyMap<Register, number>;
  readonly fixed: ReadonlyMap<FixedLocal, number>;
  /**
   * The local with the thread's index in its gang, for code that is emitted for one thread of a gang. Undefined for the
   * first thread of the gang.
   */
  readonly member?: number;
}

/** The addresses of accesses whose bounds earlier checks have verified. Their alignment may still need a check. */
export type ImpliedChecks = ReadonlySet<ResolvedAddress>;

/** The ways in which an operand may deviate from the instruction's type. */
export interface OperandOptions {
  /** Whether the register may be wider than the type, as in loads, stores and conversions. */
  readonly wide?: boolean;
  /**
   * For an operand: whether a 32-bit NaN may be pushed as it is, without canonicalization. For a result: whether the
   * code that computes the result may produce a noncanonical NaN. Default: every NaN must have the bits that PTX
   * specifies.
   */
  readonly anyNaN?: boolean;
}

/**
 * Emits the code of one kernel and of the functions that it calls, one instruction at a time. Registers become locals.
 * Operands are pushed, and results popped, in the type of the instruction.
 */
export class FunctionEmitter {
  code: CodeWriter = new CodeWriter();
  /**
   * Whether 64-bit arithmetic may leave NaNs noncanonical for now. Set while a run of instructions is emitted that is
   * followed by a check for NaNs.
   */
  defersNaN64 = false;
  /** Whether the code may perform release operations other than barriers. */
  hasReleases = false;
  /** Whether to call helpers for checks instead of emitting the checks inline. Set for large kernels. */
  sharesChecks = false;
  /** The volatile loads that poll, for the check `race`. See `findPollingLoads`. */
  pollingLoads: ReadonlySet<ResolvedInstruction> = new Set();
  readonly sizes: SpaceSizes;
  readonly options: EmitOptions;
  /** The functions that the kernel calls besides the helpers of all modules. */
  readonly kernelFunctions: KernelFunctions;
  /** The shadow registers, if the `initialization` check is enabled. */
  readonly shadows: RegisterShadows | undefined;
  /** How fault reports identify a thread: by its x index, or by the index of its thread record. */
  readonly #threads: FaultPlace["thread"];
  readonly #valueTypes = new Map<Register, ValueType>();
  /** Maps a register to the register whose WebAssembly local it shares. */
  readonly #holders = new Map<Register, Register>();
  /** The locals of the WebAssembly function for which code is emitted. */
  #locals = new FunctionLocals(runType);
  #pointerOrigins: PointerOrigins = () => undefined;
  #parameterOffsets: ParameterOffsets = new Map();
  #impliedChecks: ImpliedChecks = new Set();
  #knownZeroBits: KnownZeroBits = () => 0;
  #deferredNaNs: ReadonlySet<Register> = new Set();
  #underlyingPointerOf: UnderlyingPointers = (register) => register;
  #carry = newCarry();
  #uses: Set<Register> | undefined;
  #definitions: Set<Register> | undefined;
  #conditional: Set<Register> | undefined;
  readonly #store = new CodeStore();
  /** Code writers that are not in use, to be reused by `emitSeparately`. */
  readonly #writers: CodeWriter[] = [];
  #isConditional = false;
  #standIns: StandIns | undefined;
  #current: CompiledInstruction | undefined;

  constructor(
    sizes: SpaceSizes,
    options: EmitOptions,
    { threads = "x", functions = new KernelFunctions(0) }: {
      threads?: FaultPlace["thread"];
      functions?: KernelFunctions;
    } = {},
  ) {
    this.kernelFunctions = functions;
    this.sizes = sizes;
    this.options = options;
    this.shadows = options.kernelChecks.has("initialization") ? new RegisterShadows(this) : undefined;
    this.#threads = threads;
  }

  /** The types of all locals, without the function's parameters. */
  get locals(): readonly LocalType[] {
    return this.#locals.types;
  }

  /** The kernel parameters that are loaded into locals at the start of the kernel. */
  get preloadedParameters(): Iterable<{ local: number; offset: number; type: ScalarType }> {
    return this.#locals.parameters.values();
  }

  /** The fixed locals that the code uses, with their indices. */
  get fixedLocals(): ReadonlyMap<FixedLocal, number> {
    return this.#locals.fixed;
  }

  /** Switches to emitting code for the WebAssembly function with the given locals, which may already contain code. */
  useLocals(locals: FunctionLocals): void {
    this.#locals = locals;
  }

  /**
   * Starts the next function, whose registers reuse the locals of the previous one.
   *
   * @param options `classOf` returns the class of a register: only registers of the same class and type share a local;
   * `parameterOffsets` lists the accesses whose address is a parameter plus an offset that is still live; `origins`
   * finds the variable or parameter that an access must stay within, and is undefined if the kernel does not check
   * this; `tracked` contains the registers that may be uninitialized
   */
  enterFunction(
    instructions: readonly CompiledInstruction[],
    intervals: readonly LiveInterval[],
    {
      classOf = () => "",
      parameterOffsets = new Map(),
      impliedChecks = new Set(),
      knownZeroBits = () => 0,
      origins = () => undefined,
      tracked = new Set(),
    }: {
      readonly classOf?: (register: Register) => string;
      readonly parameterOffsets?: ParameterOffsets;
      readonly impliedChecks?: ImpliedChecks;
      readonly knownZeroBits?: KnownZeroBits;
      readonly origins?: PointerOrigins | undefined;
      readonly tracked?: ReadonlySet<Register>;
    } = {},
  ): void {
    this.#parameterOffsets = parameterOffsets;
    this.#impliedChecks = impliedChecks;
    this.#knownZeroBits = knownZeroBits;
    for (const [register, type] of chooseValueTypes(instructions)) this.#valueTypes.set(register, type);
    this.#deferredNaNs = findDeferredNaNs(instructions, (register) => this.valueType(register) === "f32");
    this.#underlyingPointerOf = underlyingPointers(instructions);
    this.#pointerOrigins = origins;
    this.#locals.registerLocals.releaseAll();
    this.shadows?.enterFunction(tracked);
    const shadowIntervals = intervals.flatMap((interval) => {
      const shadow = this.shadows?.of(interval.register);
      return shadow === undefined ? [interval] : [interval, { ...interval, register: shadow }];
    });
    const sharing = shareLocals(shadowIntervals, (register) => `${this.valueType(register)} ${classOf(register)}`);
    for (const [register, holder] of sharing) this.#holders.set(register, holder);
  }

  /** Creates the carry register for the next function, and returns it. */
  newCarry(): Register {
    return this.#carry = newCarry();
  }

  /**
   * Returns the register whose local the given register uses: another register, which is never live at the same time,
   * or the given register itself.
   */
  holderOf(register: Register): Register {
    return this.#holders.get(register) ?? register;
  }

  /** Throws if registers that are live at the same time share a local, which is a bug in this compiler. */
  checkHolders(live: readonly Register[]): void {
    if (new Set(live.map((register) => this.holderOf(register))).size === live.length) return;
    throw new Error(`Cannot hold ${live.map(({ name }) => name).join(", ")} at the same time: they share locals`);
  }

  /** Emits code into a separate buffer. */
  emitSeparately(emit: () => void): EmittedCode {
    const { code } = this;
    const writer = this.#writers.pop() ?? new CodeWriter();
    this.code = writer;
    this.#uses = undefined;
    this.#definitions = undefined;
    this.#conditional = undefined;
    emit();
    const uses = this.#uses ?? noRegisters;
    const definitions = this.#definitions ?? noRegisters;
    const conditional = this.#conditional ?? noRegisters;
    this.code = code;
    this.#writers.push(writer);
    return { code: writer.cutPiece(this.#store), uses, definitions, conditional };
  }

  /** Emits an instruction, within an `if` on its predicate if it has one. */
  emit(instruction: CompiledInstruction, emit: Emit): void {
    const { shadows } = this;
    const emitBoth: Emit = (e, i) => {
      if (shadows !== undefined) emitShadows(e, shadows, i);
      emit(e, i);
    };
    if (instruction.predicate === undefined) {
      this.emitAlways(instruction, emitBoth);
    } else {
      this.begin(instruction);
      const finish = shadows === undefined ? undefined : this.#shadowPredicate(shadows, instruction);
      this.pushPredicate(instruction);
      this.code.if();
      this.emitConditionally(() => emitBoth(this, instruction));
      this.code.end();
      finish?.();
    }
  }

  /**
   * Emits the check for an uninitialized predicate. The check reports an error if the instruction writes or traps;
   * otherwise, the check marks the results as uninitialized. If marking requires code after the instruction, returns a
   * function that emits that code.
   */
  #shadowPredicate(shadows: RegisterShadows, instruction: CompiledInstruction): (() => void) | undefined {
    const { register } = instruction.predicate!;
    if (!shadows.mayBeUninitialized(register)) return undefined;
    if (mayHave(instruction, "writes") || mayHave(instruction, "traps")) {
      shadows.require(register, "predicate");
      return undefined;
    }
    const flag = this.temporary("i32");
    shadows.push(register, register.type);
    this.code.set(flag);
    return () => {
      this.code.get(flag).if();
      this.emitConditionally(() => shadows.assignWhole(instruction.operands[0], () => this.code.i32(1)));
      this.code.end();
    };
  }

  /** Emits an instruction or a part of an instruction regardless of its predicate. */
  emitAlways(instruction: CompiledInstruction, emit: Emit): void {
    this.begin(instruction);
    emit(this, instruction);
  }

  /** Calls `emit` to emit code in which the locals of `standIns` replace the usual locals. */
  emitWith(standIns: StandIns, emit: () => void): void {
    const before = this.#standIns;
    this.#standIns = standIns;
    emit();
    this.#standIns = before;
  }

  /** The locals that currently replace fixed locals. */
  get fixedStandIns(): ReadonlyMap<FixedLocal, number> {
    return this.#standIns?.fixed ?? new Map();
  }

  /** Calls `emit` to emit code that may not be executed: the registers that the code sets do not count as defined. */
  emitConditionally(emit: () => void): void {
    const before = this.#isConditional;
    this.#isConditional = true;
    emit();
    this.#isConditional = before;
  }

  /** Makes an instruction the current one, and releases all temporaries. */
  begin(instruction: CompiledInstruction): void {
    this.#current = instruction;
    this.#locals.temporaries.releaseAll();
  }

  /** Emits code that pushes the value of an instruction's predicate, as an i32. */
  pushPredicate({ predicate }: CompiledInstruction): void {
    const { register, negated } = predicate!;
    this.#use(register);
    this.code.get(this.registerLocal(register));
    if (negated) this.code.ops("i32Eqz");
  }

  /** Throws `PtxError` for the current instruction: it is not valid PTX, and a GPU would reject it too. */
  fail(reason: string): never {
    throw new PtxError(this.#current!.line, `cannot compile "${this.#current!.text}": ${reason}`);
  }

  /**
   * Throws `UnsupportedPtxError` for the current instruction: it may be valid PTX, but the software device does not
   * support it.
   */
  refuse(reason: string): never {
    const { line, text, form: { section } } = this.#current!;
    throw UnsupportedPtxError.ofInstruction(line, { text, section, reason });
  }

  /** The line of the current instruction. */
  get line(): number {
    return this.#current!.line;
  }

  /**
   * Records the memory order of an access that the code reports to the race check: sets `hasReleases` for a release.
   */
  noteOrder(order: number): void {
    if ((order & orderBits.release) !== 0) this.hasReleases = true;
  }

  /** Whether each thread has a record, whose index identifies the thread in reports. */
  get reportsRecords(): boolean {
    return this.#threads === "record";
  }

  /** Encodes the location of a possible fault as a number, for the calls of host functions that report faults. */
  place(
    { line = this.line, operation = "none", space = "generic", bytes = 1 }: Partial<Omit<FaultPlace, "thread">> = {},
  ): number {
    return encodePlace({ line, operation, space, bytes, thread: this.#threads });
  }

  /**
   * Emits code that pushes the encoded location of a possible fault, and the number that identifies the current thread.
   */
  pushPlace(place: Partial<Omit<FaultPlace, "thread">> = {}): CodeWriter {
    this.code.i32(this.place(place));
    return this.pushThread();
  }

  /** Emits code that pushes the number that identifies the thread of a fault. */
  pushThread(): CodeWriter {
    if (this.#threads === "record") return this.getFixed("thread");
    const standIn = this.#standIns?.fixed.get("threadX");
    this.getFixed("threadX");
    const member = this.#standIns?.member;
    // If `threadX` has been replaced by another local, that local holds the thread's own index. Otherwise, `threadX`
    // holds the index of the gang's first thread, so add the thread's index in the gang.
    return member === undefined || standIn !== undefined ? this.code : this.code.get(member).ops("i32Add");
  }

  /** Emits code that pushes the offset of the launch record. */
  getLaunchRecord(): CodeWriter {
    return this.code.get(launchRecordLocal);
  }

  getFixed(name: FixedLocal): CodeWriter {
    return this.code.get(this.fixedLocal(name));
  }

  setFixed(name: FixedLocal): CodeWriter {
    return this.code.set(this.fixedLocal(name));
  }

  /** Returns the local that holds a field of the launch record or of the thread. Creates the local on first use. */
  fixedLocal(name: FixedLocal): number {
    let local = this.#standIns?.fixed.get(name) ?? this.#locals.fixed.get(name);
    if (local === undefined) {
      local = this.newLocal("i32");
      this.#locals.fixed.set(name, local);
    }
    return local;
  }

  /** The carry flag, 0 or 1, which instructions with `.cc` set. Represented as a register. */
  get carry(): Register {
    return this.#carry;
  }

  callHelper(name: Helper): CodeWriter {
    return this.code.call(helperIndex(name));
  }

  /** Returns a local that no other code uses during the current instruction. */
  temporary(type: LocalType): number {
    return this.#locals.temporaries.take(type);
  }

  /** Creates a local that is never reused. */
  newLocal(type: LocalType): number {
    return this.#locals.add(type);
  }

  /** Returns the local that holds a kernel parameter's value, loaded at the start of the kernel. */
  parameterLocal(offset: number, type: ScalarType): number {
    const key = `${offset} ${type.value} ${type.bits} ${type.kind === "signed"}`;
    let parameter = this.#locals.parameters.get(key);
    if (parameter === undefined) {
      parameter = { local: this.newLocal(type.value), offset, type };
      this.#locals.parameters.set(key, parameter);
    }
    return parameter.local;
  }

  /**
   * Emits code that pushes an operand as a value of the given type. Narrow integers are sign-extended or zero-extended.
   */
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
        if (type.bits < 32 || type.kind === "float") this.fail("the address of a function needs 32 or 64 bits");
        code.i64(functionAddress(operand.index));
        if (type.bits === 32) code.ops("i32WrapI64");
        break;
      default:
        this.fail("it has an operand of the wrong kind");
    }
  }

  /**
   * Returns the local of an operand. Undefined if the operand is not a register, or needs a conversion to the given
   * type.
   */
  localOf(operand: ResolvedOperand | undefined, type: ScalarType): number | undefined {
    if (operand?.kind !== "register" || operand.type.bits !== type.bits) return undefined;
    return this.valueType(operand) === type.value ? this.registerLocal(operand) : undefined;
  }

  /** Emits code that replaces a 32-bit NaN on the stack with the canonical NaN. */
  canonicalizeNaN32(): void {
    const value = this.temporary("f32");
    this.code.tee(value).f32Bits(0x7fff_ffffn).get(value).get(value).ops("f32Eq", "select");
  }

  /** Whether the current instruction only copies its operands to a register that may hold noncanonical NaNs. */
  #copiesAnyNaN(): boolean {
    const instruction = this.#current!;
    const [destination] = instruction.operands;
    return copiesNumbers(instruction) && destination?.kind === "register" && this.#deferredNaNs.has(destination);
  }

  /** Emits code that pushes the address of a byte of a variable as an i64, in the variable's own state space. */
  pushVariable(variable: Variable, offset: bigint): void {
    this.code.i64(BigInt(variable.offset) + offset);
    if (isInImage(variable)) this.code.globalGet(imageAddressGlobal).ops("i64Add");
    if (variable.space === "shared" && this.sizes.usesClusterMemory) {
      this.getFixed("clusterBase").ops("i64ExtendI32U", "i64Add");
    }
    if (!variable.isInFrame || variable.isInKernelFrame || !this.sizes.hasFrames) return;
    this.getFixed("frame");
    this.getFixed("local").ops("i32Sub", "i64ExtendI32U", "i64Add");
  }

  /** Emits code that pushes the offset of a byte of a variable in linear memory. */
  pushOffsetOf({ space, offset: begin, isInKernelFrame }: Variable, offset: bigint): void {
    if (space === "shared") this.getFixed("shared");
    else if (space === "global" || space === "const") this.code.globalGet(imageAddressGlobal).ops("i32WrapI64");
    else if (isInKernelFrame) this.getFixed("local");
    else this.getFrame();
    const distance = begin + Number(offset);
    if (distance !== 0) this.code.i32(distance).ops("i32Add");
  }

  /** Emits code that pushes the offset of the current function's frame. */
  getFrame(): CodeWriter {
    return this.getFixed(this.sizes.hasFrames ? "frame" : "local");
  }

  /**
   * Returns the i64 locals that cache the allocation into which a pointer last pointed: `begin` is the start of the
   * allocation, and `count` the number of aligned accesses of `bytes` bytes that fit in it. Both are initially 0.
   */
  rangeCache(base: ResolvedAddress["base"], bytes: number): { begin: number; count: number } {
    const root = base?.kind === "register" ? this.#underlyingPointerOf(base) : base;
    return this.#locals.rangeCache(root, bytes);
  }

  /**
   * Returns the parameter and the offset that add up to the current instruction's address. Undefined if the address is
   * not known to be computed in this way.
   */
  parameterOffset(base: ResolvedAddress["base"]): ParameterOffset | undefined {
    const found = this.#parameterOffsets.get(this.#current!);
    return found?.sum === base ? found : undefined;
  }

  /** Returns the locals of a pointer parameter, for accesses of `bytes` bytes. Creates them on first use. */
  parameterPointer(parameter: number, bytes: number): ParameterPointer {
    const key = `${parameter} ${bytes}`;
    let found = this.#locals.pointers.get(key);
    if (found === undefined) {
      const pointer = this.parameterLocal(parameter, pointerType);
      const other = [...this.#locals.pointers.values()].find((other) => other.pointer === pointer);
      const location = other?.location ?? this.newLocal("i32");
      this.#locals.pointers.set(key, found = { pointer, location, reach: this.newLocal("i64"), bytes });
    }
    return found;
  }

  /** The pointer parameters that the code uses. */
  get parameterPointers(): Iterable<ParameterPointer> {
    return this.#locals.pointers.values();
  }

  /**
   * Returns the variable or parameter (origin) that an address is computed from. Undefined if the origin is unknown, or
   * the kernel does not check that accesses stay within their origins.
   */
  originOf(base: ResolvedAddress["base"]): PointerOrigin | undefined {
    return this.#pointerOrigins(base);
  }

  /** Returns the locals of a parameter's memory range, for accesses of `bytes` bytes. Creates them on first use. */
  argumentRange(parameter: number, bytes: number): ArgumentRange {
    const key = `${parameter} ${bytes}`;
    let range = this.#locals.argumentRanges.get(key);
    if (range === undefined) {
      this.fixedLocal("argumentRanges");
      const other = [...this.#locals.argumentRanges.values()].find((other) => other.parameter === parameter);
      const begin = other?.begin ?? this.newLocal("i32"), length = other?.length ?? this.newLocal("i32");
      this.#locals.argumentRanges.set(key, range = { parameter, bytes, begin, length, room: this.newLocal("i32") });
    }
    return range;
  }

  /** The memory ranges of parameters that the code uses. */
  get argumentRanges(): Iterable<ArgumentRange> {
    return this.#locals.argumentRanges.values();
  }

  /** Whether an access is known to be within bounds, provided that its address is aligned. */
  isImplied(address: ResolvedAddress): boolean {
    return this.#impliedChecks.has(address);
  }

  /** Returns the number of low bits of an address that are known to be 0. */
  zeroBitsOf({ base, offset }: ResolvedAddress): number {
    const ofOffset = this.#knownZeroBits({ kind: "integer", value: offset });
    return base === undefined ? ofOffset : Math.min(ofOffset, this.#knownZeroBits(base));
  }

  /** Returns the local with the number of accesses of `bytes` bytes that fit in the block's shared memory. */
  sharedCapacity(bytes: number): number {
    const local = this.#locals.sharedCapacity.get(bytes) ?? this.newLocal("i32");
    this.#locals.sharedCapacity.set(bytes, local);
    return local;
  }

  /** The locals that `sharedCapacity` created, by the size of the access in bytes. */
  get sharedCapacityLocals(): ReadonlyMap<number, number> {
    return this.#locals.sharedCapacity;
  }

  /**
   * Emits code that assigns a value of the given type to a destination. `produce` emits the code that pushes the value.
   */
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
    if (destination?.kind !== "register") this.fail("its result must be a register");
    this.#checkRegister(destination, type, options);
    produce();
    if (options.anyNaN && type.value === "f32" && !this.#deferredNaNs.has(destination)) this.canonicalizeNaN32();
    writeAs(this.code, type, { register: destination, held: this.valueType(destination) });
    this.code.set(this.registerLocal(destination));
    this.noteDefinition(destination);
  }

  /** Emits code that sets a register to 0. */
  initialize(register: Register): void {
    pushZero(this.code, this.valueType(register)).set(this.registerLocal(register));
    this.noteDefinition(register);
    this.shadows?.setUninitialized(register);
  }

  /** Emits code that extends the low 8 or 16 bits of an i32 on the stack to 32 bits, with the signedness of `type`. */
  extend(type: ScalarType): void {
    extend(this.code, type);
  }

  #checkRegister(register: Register, type: ScalarType, { wide = false }: OperandOptions): void {
    if (isOperandOf(register, { type, wide })) return;
    this.fail(`the register ${register.name} is ".${register.type.name}", where ".${type.name}" is needed`);
  }

  /** Returns the local that holds a register. */
  registerLocal(register: Register): number {
    const standIn = this.#standIns?.registers.get(register);
    if (standIn !== undefined) return standIn;
    const holder = this.holderOf(register);
    let local = this.#locals.registers.get(holder);
    if (local === undefined) {
      local = this.#locals.registerLocals.take(this.valueType(holder));
      this.#locals.registers.set(holder, local);
    }
    return local;
  }

  /** Whether a register may hold any 32-bit NaN in place of the canonical NaN. */
  hasDeferredNaN(register: Register): boolean {
    return this.#deferredNaNs.has(register);
  }

  /** Returns the type of the local that holds a register. */
  valueType(register: Register): ValueType {
    return this.#valueTypes.get(register) ?? register.type.value;
  }

  #pushAddress(variable: Variable, offset: bigint, type: ScalarType): void {
    const least = isInImage(variable) ? 64 : 32;
    if (variable.space === "const" && type.kind !== "float" && type.bits === 32) {
      this.refuse(`the address of "${variable.name}" in .const has 64 bits here`);
    }
    if (type.kind === "float" || type.bits < least) {
      this.fail(`the address of "${variable.name}" needs ${least === 64 ? "64" : "32 or 64"} bits`);
    }
    this.pushVariable(variable, offset);
    if (variable.isInFrame && variable.space === "param") this.code.i64(localAddressBase).ops("i64Add");
    if (type.bits === 32) this.code.ops("i32WrapI64");
  }

  #pushSpecial(name: string, type: ScalarType): void {
    const register = specialRegister(name);
    if (register === undefined) {
      if (isSpecialRegister(name)) this.refuse(`the special register ${name} is not supported`);
      this.fail(`the special register ${name} is not known`);
    }
    if (type.kind === "float" || (type.kind === "predicate") !== (register.bits === 1)) {
      this.fail(`${name} can only be read as ${register.bits === 1 ? "a predicate" : "an integer"}`);
    }
    register.push(this);
    if (register.bits === 1) return;
    if (register.bits === 64) {
      if (type.bits < 64) this.code.ops("i32WrapI64");
    } else if (type.bits === 64) {
      this.code.ops("i64ExtendI32U");
    }
    if (type.bits < 32) this.extend(type);
  }

  #use(register: Register): void {
    if (this.#definitions?.has(register) !== true) (this.#uses ??= new Set()).add(register);
  }

  /** Records that the emitted code reads a register without {@linkcode push}. */
  noteUse(register: Register): void {
    this.#use(register);
  }

  /** Records that the emitted code sets a register without {@linkcode assign}. */
  noteDefinition(register: Register): void {
    if (this.#isConditional) (this.#conditional ??= new Set()).add(register);
    else (this.#definitions ??= new Set()).add(register);
  }
}

const pointerType = typeNamed("u64");

function pushZero(code: CodeWriter, type: ValueType): CodeWriter {
  switch (type) {
    case "i32":
      return code.i32(0);
    case "i64":
      return code.i64(0n);
    case "f32":
      return code.f32Bits(0n);
    case "f64":
      return code.f64Bits(0n);
  }
}

function newCarry(): Register {
  return { kind: "register", name: "CC.CF", type: typeNamed("u32") };
}

function isInImage({ space }: Variable): boolean {
  return space === "global" || space === "const";
}
