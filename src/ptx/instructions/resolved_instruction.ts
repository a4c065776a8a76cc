/**
 * Instructions with their names resolved, and what a name can stand for.
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
  /** Set if it holds the address of an element, `array[%r1]`, which can also stand for an address in brackets. */
  readonly isElement?: true;
}

/** A variable, with its place in its state space. */
export interface Variable {
  readonly kind: "variable";
  readonly name: string;
  /** `param`, `shared`, `local`, `global` or `const`. */
  readonly space: string;
  /**
   * Bytes from the start of the state space. For `.global` and `.const`, from the start of the module's image; for a
   * variable in a frame, from the start of the frame.
   */
  readonly offset: number;
  readonly byteLength: number;
  /** The bytes by which an index counts, if it is an array: those of one component for an array of vectors. */
  readonly elementBytes?: number | undefined;
  /** Whether it lies in its function's frame: true of `.local`, and of `.param` except a kernel's own parameters. */
  readonly isInFrame?: boolean;
}

/** A function of the module, defined or only declared. */
export interface FunctionName {
  readonly kind: "function";
  readonly name: string;
  readonly declaration: FunctionDeclaration;
  /** Its index among the module's functions, which determines its address. */
  readonly index: number;
}

/** A prototype for an indirect call, or a function whose parameters are those of all its possible targets. */
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

/** An instruction with its form and its names resolved. `Form` is a row of the resolver's table. */
export interface ResolvedInstruction<Form extends InstructionRow = InstructionRow> {
  readonly kind: "instruction";
  readonly form: Form;
  /** As it was written, for messages: `add.rn.f32`. */
  readonly text: string;
  /** The chosen modifiers, by the name of their slot in the form's syntax. */
  readonly choices: ReadonlyMap<string, string>;
  /** The type in the slot `type`, or 32 bits for a form without that slot. */
  readonly type: ScalarType;
  /** The type in the slot `from`, which the sources have. Without that slot, it is `type`. */
  readonly sourceType: ScalarType;
  readonly operands: readonly ResolvedOperand[];
  readonly predicate: { readonly register: Register; readonly negated: boolean } | undefined;
  readonly line: number;
}

/** An operand with its names resolved. */
export type ResolvedOperand =
  | Register
  | LabelName
  | LabelList
  | FunctionName
  | Prototype
  /** The address of a variable. */
  | Variable
  /** The address of a variable, plus an offset. An element can also stand for an address in brackets. */
  | { readonly kind: "sum"; readonly variable: Variable; readonly offset: bigint; readonly isElement?: true }
  | { readonly kind: "special"; readonly name: string }
  | { readonly kind: "integer"; readonly value: bigint }
  | { readonly kind: "float"; readonly precision: "single" | "double"; readonly bits: bigint }
  | ResolvedAddress
  /** A register of 128 bits is wide: a vector of the two 64-bit registers that hold its low and its high half. */
  | { readonly kind: "vector"; readonly elements: readonly ResolvedOperand[]; readonly isWide?: true }
  /** The results or the arguments of a call. */
  | { readonly kind: "list"; readonly elements: readonly ResolvedOperand[] }
  | { readonly kind: "not"; readonly register: Register }
  | { readonly kind: "pair"; readonly first: ResolvedOperand; readonly second: ResolvedOperand }
  /** `_`: the result is discarded. */
  | { readonly kind: "sink" };

/** `[base + offset]`. Without a base, an absolute address. */
export interface ResolvedAddress {
  readonly kind: "address";
  readonly base: Register | Variable | undefined;
  readonly offset: bigint;
}

/** The state space that an instruction names, or `generic`. */
export function spaceOf({ choices }: Pick<ResolvedInstruction, "choices">): string {
  return choices.get("space")?.replace(/::.*/, "") ?? "generic";
}
