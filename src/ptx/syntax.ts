/**
 * The syntax tree of PTX text, before names are resolved or types are checked.
 *
 * @module
 */
import type { LineInfo } from "./line_info.ts";

/** PTX text cannot be parsed or compiled. The message begins with the line. */
export class PtxError extends Error {
  override readonly name = "PtxError";
  /** The line in the text, counted from 1. */
  readonly line: number;

  constructor(line: number, message: string) {
    // The message may quote a word as long as the text.
    super(`Line ${line}: ${message.replaceAll(/[^\s"]{200,}/g, (word) => `${word.slice(0, 200)}…`)}`);
    this.line = line;
  }
}

/** The header of PTX text. Lines are counted from 1. */
export interface PtxHeader {
  readonly version: { readonly major: number; readonly minor: number; readonly line: number };
  /** The target and its options, such as `sm_60`. */
  readonly target: { readonly names: readonly string[]; readonly line: number };
}

/** A module: the contents of one PTX text. */
export interface PtxModule extends PtxHeader {
  readonly functions: readonly FunctionDeclaration[];
  readonly variables: readonly VariableDeclaration[];
  readonly aliases: readonly FunctionAlias[];
  readonly lineInfo: LineInfo;
}

/** `.alias name, target;` */
export interface FunctionAlias {
  readonly name: string;
  /** The function that the alias stands for. */
  readonly target: string;
  readonly line: number;
}

/** An `.entry` or a `.func`. */
export interface FunctionDeclaration {
  readonly kind: "entry" | "func";
  readonly name: string;
  /** `visible`, `extern`, `weak`, `common`, or undefined. */
  readonly linkage: string | undefined;
  readonly results: readonly VariableDeclaration[];
  readonly parameters: readonly VariableDeclaration[];
  /**
   * The directives around the parameters, such as `maxntid` with its numbers, `noreturn`, or `unified` in an
   * `.attribute`.
   */
  readonly directives: readonly FunctionDirective[];
  /** Undefined for a declaration without a definition. */
  readonly body: readonly Statement[] | undefined;
  readonly line: number;
}

/** A directive between a function's parameters and its body, or one of its attributes. */
export interface FunctionDirective {
  /** Without its dot. */
  readonly name: string;
  /** The numbers that follow it. Always empty for an attribute. */
  readonly values: readonly number[];
  readonly line: number;
}

/** A variable or a parameter. Registers are declared by {@linkcode RegisterDeclaration}. */
export interface VariableDeclaration {
  readonly kind: "variable";
  readonly name: string;
  /** Without its dot: `global`, `shared`, `local`, `const`, `param`, or `reg` for a parameter of a `.func`. */
  readonly space: string;
  readonly linkage: string | undefined;
  /** Without its dot: `u32`, `b8`, `f64`. */
  readonly type: string;
  /** 1, 2, 4 or 8. */
  readonly vectorLength: number;
  /** The lengths of an array, outermost first. Empty for a scalar. The first is 0 if it is not known. */
  readonly dimensions: readonly number[];
  /** Undefined for a scalar. For an array, the number of elements in all dimensions, or 0 if it is unsized. */
  readonly elementCount: number | undefined;
  /** The alignment in bytes, if declared with `.align`. */
  readonly alignment: number | undefined;
  /** Present if `.ptr` declares it a pointer to global memory or to any. */
  readonly isPointer?: true;
  readonly initializer: Initializer | undefined;
  readonly line: number;
}

/** What follows a variable's `=`. */
export type Initializer = IntegerOperand | FloatOperand | AddressInitializer | InitializerList;

/**
 * The address of another variable, such as `name` or `generic(name)+4`, or some of its bits: `0xFF00(generic(name)+4)`.
 */
export interface AddressInitializer {
  readonly kind: "addressOf";
  readonly name: string;
  /** Bytes to add to the address. */
  readonly offset: bigint;
  /** Which bits of the address. Undefined for all. */
  readonly mask: bigint | undefined;
  readonly line: number;
}

/** `{1, 2}`: the elements of one dimension. */
export interface InitializerList {
  readonly kind: "elements";
  readonly elements: readonly Initializer[];
  readonly line: number;
}

/** `.reg .b32 %r<9>, %x;` */
export interface RegisterDeclaration {
  readonly kind: "registers";
  readonly type: string;
  /** 1, 2, 4 or 8. */
  readonly vectorLength: number;
  /** With a count, the names are the prefix followed by 0 to count - 1. */
  readonly names: readonly { readonly name: string; readonly count: number | undefined }[];
  readonly line: number;
}

/** A statement in a function's body. */
export type Statement =
  | Instruction
  | Label
  | BlockStatement
  | RegisterDeclaration
  | VariableDeclaration
  | BranchTargets
  | CallTargets
  | CallPrototype
  | UnknownDirective;

/** `$L__BB0_2:` */
export interface Label {
  readonly kind: "label";
  readonly name: string;
  readonly line: number;
}

/** `{ ... }`, a scope of names. */
export interface BlockStatement {
  readonly kind: "block";
  readonly statements: readonly Statement[];
  readonly line: number;
}

/** `name: .branchtargets a, b;` */
export interface BranchTargets {
  readonly kind: "branchTargets";
  readonly name: string;
  readonly targets: readonly string[];
  readonly line: number;
}

/** `name: .calltargets a, b;`: the functions that an indirect call may call. */
export interface CallTargets {
  readonly kind: "callTargets";
  readonly name: string;
  readonly targets: readonly string[];
  readonly line: number;
}

/** `name: .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;`: how an indirect call passes its parameters. */
export interface CallPrototype {
  readonly kind: "callPrototype";
  readonly name: string;
  /** Their names are arbitrary, most often `_`. */
  readonly results: readonly VariableDeclaration[];
  readonly parameters: readonly VariableDeclaration[];
  readonly directives: readonly FunctionDirective[];
  readonly line: number;
}

/** A directive in a body that the parser does not know. The user of the body decides what to do. */
export interface UnknownDirective {
  readonly kind: "directive";
  readonly name: string;
  readonly line: number;
}

/** `@!%p1 setp.lt.and.f32 %p2|%p3, %f1, 0f3F800000, !%p4;` */
export interface Instruction {
  readonly kind: "instruction";
  readonly opcode: string;
  /** Without their dots. */
  readonly modifiers: readonly string[];
  readonly operands: readonly Operand[];
  readonly predicate: Predicate | undefined;
  readonly line: number;
}

/** `@%p1` or `@!%p1`. */
export interface Predicate {
  readonly name: string;
  readonly negated: boolean;
}

/** An operand of an instruction. */
export type Operand =
  | NameOperand
  | IntegerOperand
  | FloatOperand
  | AddressOperand
  | TextureOperand
  | VectorOperand
  | ListOperand
  | NotOperand
  | PairOperand
  | ElementOperand
  | SumOperand;

/** A register, special register, variable, label or function, or `_` for a discarded result. */
export interface NameOperand {
  readonly kind: "name";
  readonly name: string;
  /** The `x` of `%tid.x`, or the `h1` of `%r1.h1`, without its dot. */
  readonly component: string | undefined;
  /** Whether a minus sign precedes the name. */
  readonly negated?: true;
}

/** An integer literal. A minus sign makes it negative. */
export interface IntegerOperand {
  readonly kind: "integer";
  readonly value: bigint;
}

/** `0f` and eight hexadecimal digits are `single`. `0d` and sixteen, and decimal numbers, are `double`. */
export interface FloatOperand {
  readonly kind: "float";
  readonly precision: "single" | "double";
  readonly bits: bigint;
}

/** `[%rd1+4]`, `[name]`, `[16]`. */
export interface AddressOperand {
  readonly kind: "address";
  /** Undefined for an absolute address, which is the offset. */
  readonly base: NameOperand | undefined;
  readonly offset: bigint;
}

/**
 * `[texture, sampler, {%f1, %f2}]`, or `{%r1, %r2, %r3, %r4}|%p1`: only instructions on textures, surfaces and tensors
 * have such an operand. What it consists of is not kept.
 */
export interface TextureOperand {
  readonly kind: "texture";
}

/** `{%r1, %r2}` */
export interface VectorOperand {
  readonly kind: "vector";
  readonly elements: readonly Operand[];
}

/** `(a, b)`, the arguments of a call. */
export interface ListOperand {
  readonly kind: "list";
  readonly elements: readonly Operand[];
}

/** `!%p1` */
export interface NotOperand {
  readonly kind: "not";
  readonly operand: NameOperand;
}

/** `array[4]` or `array[%r1]`: the address of an element, or for an instruction that takes an address, the element itself. */
export interface ElementOperand {
  readonly kind: "element";
  readonly array: NameOperand;
  /** A number, or a register, to which a number may be added. */
  readonly index: bigint | NameOperand | SumOperand;
}

/** `name+4` */
export interface SumOperand {
  readonly kind: "sum";
  readonly name: NameOperand;
  readonly offset: bigint;
}

/** `%p1|%p2` */
export interface PairOperand {
  readonly kind: "pair";
  readonly first: NameOperand;
  readonly second: NameOperand;
}
