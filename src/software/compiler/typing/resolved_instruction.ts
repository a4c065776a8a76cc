import type { InstructionForm } from "../instructions/instruction_form.ts";
import type { FunctionName, LabelList, LabelName, Prototype, Register, Variable } from "./names.ts";
import type { ScalarType } from "./scalar_types.ts";

/** An instruction with its form and its names resolved. */
export interface ResolvedInstruction {
  readonly kind: "instruction";
  readonly form: InstructionForm;
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
