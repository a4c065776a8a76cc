/**
 * Instructions with their names resolved, and the declarations that names can refer to.
 *
 * @module
 */
import type { InstructionRow } from "./instruction_traits.ts";
import type { CallPrototype, FunctionDeclaration } from "../syntax.ts";
import type { ScalarType } from "./scalar_types.ts";

/** A register. Compared by identity, because names repeat in nested scopes. */
export interface Register {
  readonly kind: "register";
  readonly name: string;
  readonly type: ScalarType;
  /**
   * Set if the register holds the address of an array element, `array[%r1]`. Such an operand is also valid where an
   * address in brackets is expected.
   */
  readonly isElement?: true;
}

/** A variable, with its offset in its state space. */
export interface Variable {
  readonly kind: "variable";
  readonly name: string;
  /** The state space: `param`, `shared`, `local`, `global` or `const`. */
  readonly space: string;
  /**
   * The offset in bytes: for `.global` and `.const`, from the start of the module's image; for a variable in a frame,
   * from the start of the frame; otherwise, from the start of the state space.
   */
  readonly offset: number;
  readonly byteLength: number;
  /**
   * If the variable is an array, the number of bytes by which the address increases per index. For an array of vectors,
   * the size of one component.
   */
  readonly elementBytes?: number | undefined;
  /**
   * Whether the variable is in its function's frame: true for `.local` variables, and for `.param` variables other than
   * a kernel's own parameters.
   */
  readonly isInFrame?: boolean;
  /**
   * Whether the variable is in the frame of the kernel, whichever function uses it: true for the `.local` variables of
   * the module.
   */
  readonly isInKernelFrame?: boolean;
}

/** A function of the module, which may be only declared and not defined. */
export interface FunctionName {
  readonly kind: "function";
  readonly name: string;
  readonly declaration: FunctionDeclaration;
  /** The function's index in the module, which determines the function's address. */
  readonly index: number;
}

/**
 * The prototype of an indirect call: a `.callprototype`, or the declaration of one of the possible targets, which all
 * have the same parameters.
 */
export interface Prototype {
  readonly kind: "prototype";
  readonly name: string;
  readonly declaration: CallPrototype | FunctionDeclaration;
}

/** A label in the code. Compared by identity. */
export interface LabelName {
  readonly kind: "label";
  readonly name: string;
}

/** A named list of labels, for `brx.idx`. */
export interface LabelList {
  readonly kind: "labels";
  readonly name: string;
  readonly labels: readonly LabelName[];
}

/** An instruction whose form and names have been resolved. `Form` is the type of the rows of the instruction table. */
export interface ResolvedInstruction<Form extends InstructionRow = InstructionRow> {
  readonly kind: "instruction";
  readonly form: Form;
  /** The opcode and modifiers as written, for messages: `add.rn.f32`. */
  readonly text: string;
  /** The instruction's modifiers, keyed by the name of the slot in the form's syntax that each modifier fills. */
  readonly choices: ReadonlyMap<string, string>;
  /** The type in the slot `type`, or `b32` for a form without that slot. */
  readonly type: ScalarType;
  /** The type of the sources, from the slot `from`. The same as `type` for a form without that slot. */
  readonly sourceType: ScalarType;
  readonly operands: readonly ResolvedOperand[];
  readonly predicate: { readonly register: Register; readonly negated: boolean } | undefined;
  readonly line: number;
}

/** An instruction with its form resolved, but not yet its operands and its predicate. */
export type ResolvedForm<Form extends InstructionRow = InstructionRow> = Omit<
  ResolvedInstruction<Form>,
  "operands" | "predicate"
>;

/** An operand with its names resolved. */
export type ResolvedOperand =
  | Register
  | LabelName
  | LabelList
  | FunctionName
  | Prototype
  /** The address of a variable. */
  | Variable
  /**
   * The address of a variable, plus an offset. With `isElement`, the address of an array element, which is also valid
   * where an address in brackets is expected.
   */
  | { readonly kind: "sum"; readonly variable: Variable; readonly offset: bigint; readonly isElement?: true }
  | { readonly kind: "special"; readonly name: string }
  | { readonly kind: "integer"; readonly value: bigint }
  | { readonly kind: "float"; readonly precision: "single" | "double"; readonly bits: bigint }
  | ResolvedAddress
  /** A vector. With `isWide`, a 128-bit register: the two 64-bit registers that hold its low and high halves. */
  | { readonly kind: "vector"; readonly elements: readonly ResolvedOperand[]; readonly isWide?: true }
  /**
   * The results or the arguments of a call; or a texture, surface or tensor, followed by the other operands that are in
   * brackets with it, such as a vector of coordinates.
   */
  | { readonly kind: "list"; readonly elements: readonly ResolvedOperand[] }
  | { readonly kind: "not"; readonly register: Register }
  | { readonly kind: "pair"; readonly first: ResolvedOperand; readonly second: ResolvedOperand }
  /** The destination `_`, which discards the result. */
  | { readonly kind: "sink" }
  /** An operand whose meaning is not known. Only returned by a resolver that accepts every instruction. */
  | { readonly kind: "unknown" };

/** The address `[base + offset]`, or `[offset]` if `base` is undefined. */
export interface ResolvedAddress {
  readonly kind: "address";
  readonly base: Register | Variable | undefined;
  readonly offset: bigint;
}

/** Returns the state space in an instruction's modifiers, or `generic` if there is none. */
export function spaceOf({ choices }: Pick<ResolvedInstruction, "choices">): string {
  return choices.get("space")?.replace(/::.*/, "") ?? "generic";
}
