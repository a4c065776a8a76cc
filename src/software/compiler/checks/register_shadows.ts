/**
 * Which bits of registers are uninitialized, for the check `initialization`.
 *
 * Each register that may be uninitialized has a second register, its shadow: a bit of the shadow is 1 where the
 * register's bit is uninitialized. Shadows are ordinary registers to the compiler, which computes their liveness,
 * shares their locals and saves them. The shadow of memory is in linear memory too, `shadowOffset` bytes above the
 * memory that it describes.
 *
 * @module
 */
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { Register, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import { registersOf } from "../../../ptx/analysis/definitions_and_uses.ts";
import { type ScalarType, typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import { type Decision, decisions } from "../../abi/host_functions.ts";

/** Returns the type of a value's shadow: untyped bits of the same width as the value. */
export function shadowType({ bits }: Pick<ScalarType, "bits">): ScalarType {
  return typeNamed(bits === 1 ? "pred" : `b${bits}`);
}

/**
 * The shadows of the registers of the function that is being compiled. A shadow has a 1 for each uninitialized bit of
 * its register.
 */
export class RegisterShadows {
  readonly #e: FunctionEmitter;
  readonly #shadows = new Map<Register, Register>();
  #tracked: ReadonlySet<Register> = new Set();

  constructor(emitter: FunctionEmitter) {
    this.#e = emitter;
  }

  /** Begins the next function. `tracked` contains the registers of the function that may be uninitialized. */
  enterFunction(tracked: ReadonlySet<Register>): void {
    this.#tracked = tracked;
  }

  /** Returns the shadow of a register, or undefined if the register is known to be initialized. */
  of(register: Register): Register | undefined {
    if (!this.#tracked.has(register)) return undefined;
    let shadow = this.#shadows.get(register);
    if (shadow === undefined) {
      shadow = { kind: "register", name: `${register.name} (shadow)`, type: shadowType(register.type) };
      this.#shadows.set(register, shadow);
    }
    return shadow;
  }

  /** Whether any register of an operand may be uninitialized. */
  mayBeUninitialized(operand: ResolvedOperand | undefined): boolean {
    return registersOf(operand).some((register) => this.#tracked.has(register));
  }

  /**
   * Emits code that pushes the shadow of an operand that is read as a value of the given type. The shadow is
   * zero-extended.
   */
  push(operand: ResolvedOperand | undefined, type: Pick<ScalarType, "bits">): void {
    const shadow = this.#shadowOf(operand);
    if (shadow !== undefined) this.#e.push(shadow, shadowType(type), { wide: true });
    else if (type.bits === 64) this.#e.code.i64(0n);
    else this.#e.code.i32(0);
  }

  /**
   * Returns the shadow of an operand that is a register or a negated predicate, or undefined if the operand is known to
   * be initialized.
   */
  #shadowOf(operand: ResolvedOperand | undefined): Register | undefined {
    if (operand?.kind === "not") return this.of(operand.register);
    return operand?.kind === "register" ? this.of(operand) : undefined;
  }

  /** Emits code that pushes 1 if any bit of the given operands is uninitialized, else 0. */
  pushAny(operands: readonly (ResolvedOperand | undefined)[]): void {
    const { code } = this.#e;
    const shadows = operands.flatMap((operand) => registersOf(operand)).flatMap((register) => this.of(register) ?? []);
    const narrow = shadows.filter(({ type }) => type.bits < 64);
    const wide = shadows.filter(({ type }) => type.bits === 64);
    narrow.forEach((shadow, index) => {
      this.#e.push(shadow, shadow.type);
      if (index > 0) code.ops("i32Or");
    });
    if (narrow.some(({ type }) => type.bits > 1)) code.i32(0).ops("i32Ne");
    wide.forEach((shadow, index) => {
      this.#e.push(shadow, shadow.type);
      if (index > 0) code.ops("i64Or");
    });
    if (wide.length > 0) code.i64(0n).ops("i64Ne");
    if (wide.length > 0 && narrow.length > 0) code.ops("i32Or");
    if (shadows.length === 0) code.i32(0);
  }

  /**
   * Emits code that sets the shadow of a destination register. `produce` emits the code that pushes the value. The kind
   * of `type` determines whether the value is sign- or zero-extended.
   */
  assign(destination: ResolvedOperand | undefined, type: ScalarType, produce: () => void): void {
    const shadow = this.#shadowOf(destination);
    if (shadow === undefined) return;
    const integer = type.kind === "float" ? shadowType(type) : type;
    this.#e.assign(shadow, integer, produce, { wide: true });
  }

  /**
   * Emits code that sets the shadows of all registers of a destination: to all ones if a flag is 1, else to zero.
   * `pushFlag` emits the code that pushes the flag.
   */
  assignWhole(destination: ResolvedOperand | undefined, pushFlag: () => void): void {
    const shadows = registersOf(destination).flatMap((register) => this.of(register) ?? []);
    if (shadows.length === 0) return;
    const { code } = this.#e;
    let push = pushFlag;
    if (shadows.length > 1) {
      const flag = this.#e.temporary("i32");
      pushFlag();
      code.set(flag);
      push = () => void code.get(flag);
    }
    for (const shadow of shadows) this.#e.assign(shadow, shadow.type, () => this.pushWhole(shadow.type, push));
  }

  /**
   * Emits code that pushes a value with all bits of the type set if a flag is 1, else zero. `pushFlag` emits the code
   * that pushes the flag.
   */
  pushWhole({ bits }: Pick<ScalarType, "bits">, pushFlag: () => void): void {
    const { code } = this.#e;
    if (bits === 1) return pushFlag();
    if (bits === 64) {
      code.i64(0n);
      pushFlag();
      code.ops("i64ExtendI32U", "i64Sub");
      return;
    }
    code.i32(0);
    pushFlag();
    code.ops("i32Sub");
    if (bits < 32) code.i32(2 ** bits - 1).ops("i32And");
  }

  /** Emits code that marks a destination register as initialized. */
  clear(destination: ResolvedOperand | undefined): void {
    for (const register of registersOf(destination)) {
      this.assign(register, shadowType(register.type), () => {
        if (register.type.bits === 64) this.#e.code.i64(0n);
        else this.#e.code.i32(0);
      });
    }
  }

  /** Emits code that marks a register as uninitialized, before any instruction has set it. */
  setUninitialized(register: Register): void {
    const { bits } = register.type;
    this.assign(register, shadowType(register.type), () => {
      if (bits === 64) this.#e.code.i64(-1n);
      else this.#e.code.i32(bits === 32 ? -1 : 2 ** bits - 1);
    });
  }

  /**
   * Emits code that reports an operand if it is uninitialized. The program's behavior depends on the operand, for
   * example because it is an address or a branch condition. Afterward, the operand counts as initialized, so that each
   * error is reported only once.
   */
  require(operand: ResolvedOperand | undefined, decision: Decision): void {
    if (!this.mayBeUninitialized(operand)) return;
    if (this.#e.sharesChecks && operand?.kind === "register" && operand.type.bits >= 32) {
      return this.#requireInHelper(this.of(operand)!, decision);
    }
    this.pushAny([operand]);
    this.reportIf(decision, () => {
      for (const register of registersOf(operand)) {
        const shadow = this.of(register);
        if (shadow === undefined) continue;
        if (shadow.type.bits === 64) this.#e.code.i64(0n);
        else this.#e.code.i32(0);
        this.#e.code.set(this.#e.registerLocal(shadow));
        this.#e.emitConditionally(() => this.#e.noteDefinition(shadow));
      }
    });
  }

  /** Like `require`, but performs the check in a helper. */
  #requireInHelper(shadow: Register, decision: Decision): void {
    const e = this.#e;
    const isWide = shadow.type.bits === 64;
    e.push(shadow, shadow.type);
    e.code.i32(decisions.indexOf(decision));
    e.pushPlace();
    e.callHelper(isWide ? "requireInitialized64" : "requireInitialized32");
    if (isWide) e.code.i64(0n);
    else e.code.i32(0);
    e.code.set(e.registerLocal(shadow));
    e.noteDefinition(shadow);
  }

  /**
   * Emits code that pops a flag and, if it is 1, reports a decision that depends on uninitialized bits and executes the
   * code that `also` emits.
   */
  reportIf(decision: Decision, also: () => void = () => {}): void {
    const { code } = this.#e;
    code.ifUnlikely().i32(decisions.indexOf(decision));
    this.#e.pushPlace();
    this.#e.callHelper("decideByUninitialized");
    also();
    code.end();
  }
}
