/**
 * The syntax tree of PTX text, before names are resolved or types are checked.
 *
 * @module
 */
import type { LineInfo } from "./line_info.ts";

/** Thrown if PTX text cannot be parsed or compiled. The message begins with the line. */
export class PtxError extends Error {
  override readonly name = "PtxError";
  /** The line of the error in the PTX text, counted from 1. */
  readonly line: number;

  constructor(line: number, message: string) {
    // Truncate long words: the message may quote a token that is as long as the whole source.
    super(`Line ${line}: ${message.replaceAll(/[^\s"]{200,}/g, (word) => `${word.slice(0, 200)}…`)}`);
    this.line = line;
  }
}

/** The header of PTX text. Lines are counted from 1. */
export interface PtxHeader {
  readonly version: { readonly major: number; readonly minor: number; readonly line: number };
  /** The `.target` directive: the names of the architecture, such as `sm_60`, and of options. */
  readonly target: { readonly names: readonly string[]; readonly line: number };
}

/** A module: the contents of one PTX text. */
export interface PtxModule extends PtxHeader {
  readonly functions: readonly FunctionDeclaration[];
  readonly variables: readonly VariableDeclaration[];
  /** The registers that are declared outside functions, which only PTX before 3.0 has. */
  readonly registers: readonly RegisterDeclaration[];
  readonly aliases: readonly FunctionAlias[];
  readonly lineInfo: LineInfo;
}

/** A second name for a function: `.alias name, target;`. */
export interface FunctionAlias {
  readonly name: string;
  /** The function that the alias stands for. */
  readonly target: string;
  readonly line: number;
}

/** A declaration or definition of a kernel (`.entry`) or of another function (`.func`). */
export interface FunctionDeclaration {
  readonly kind: "entry" | "func";
  readonly name: string;
  /** The linkage directive, without the dot: `visible`, `extern`, `weak` or `common`. Undefined if there is none. */
  readonly linkage: string | undefined;
  readonly results: readonly VariableDeclaration[];
  readonly parameters: readonly VariableDeclaration[];
  /**
   * The directives of the function, such as `maxntid` with its numbers, `noreturn`, or `unified` in an `.attribute`.
   */
  readonly directives: readonly FunctionDirective[];
  /** The statements of the body. Undefined for a declaration without a definition. */
  readonly body: readonly Statement[] | undefined;
  readonly line: number;
}

/** A directive between a function's parameters and its body, or one of its attributes. */
export interface FunctionDirective {
  /** The directive's name, without the dot. */
  readonly name: string;
  /** The numbers that follow the directive. Always empty for an attribute. */
  readonly values: readonly number[];
  readonly line: number;
}

/** A variable or a parameter. Registers are declared by {@linkcode RegisterDeclaration}. */
export interface VariableDeclaration {
  readonly kind: "variable";
  readonly name: string;
  /**
   * The state space, without the dot: `global`, `shared`, `local`, `const`, `param`, or `reg` for a parameter of a
   * `.func`.
   */
  readonly space: string;
  readonly linkage: string | undefined;
  /** The type of one component, without the dot, such as `u32`, `b8` or `f64`. */
  readonly type: string;
  /** The number of components: 1, 2, 4 or 8. */
  readonly vectorLength: number;
  /** The lengths of an array, outermost first. The first length is 0 if the array is unsized. Empty for a scalar. */
  readonly dimensions: readonly number[];
  /** The number of elements of an array in all dimensions, or 0 if the array is unsized. Undefined for a scalar. */
  readonly elementCount: number | undefined;
  /** The alignment in bytes, if declared with `.align`. */
  readonly alignment: number | undefined;
  /** Present if `.ptr` declares that the parameter is a generic pointer or a pointer to global memory. */
  readonly isPointer?: true;
  readonly initializer: Initializer | undefined;
  readonly line: number;
}

/** An initializer: the value after the `=` of a variable's declaration. */
export type Initializer = IntegerOperand | FloatOperand | AddressInitializer | InitializerList;

/**
 * The address of another variable, such as `name` or `generic(name)+4`, or some of its bits: `0xFF00(generic(name)+4)`.
 */
export interface AddressInitializer {
  readonly kind: "addressOf";
  readonly name: string;
  /** The number of bytes to add to the address. */
  readonly offset: bigint;
  /** A mask of the bits of the address to use. Undefined for all bits. */
  readonly mask: bigint | undefined;
  readonly line: number;
}

/** The elements of one dimension of an array, such as `{1, 2}`. */
export interface InitializerList {
  readonly kind: "elements";
  readonly elements: readonly Initializer[];
  readonly line: number;
}

/** A declaration of registers, such as `.reg .b32 %r<9>, %x;`. */
export interface RegisterDeclaration {
  readonly kind: "registers";
  readonly type: string;
  /** The number of components: 1, 2, 4 or 8. */
  readonly vectorLength: number;
  /**
   * The declared names. If `count` is defined, `name` is a prefix, which is followed by a number from 0 to `count` - 1.
   */
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

/** A label, such as `$L__BB0_2:`. */
export interface Label {
  readonly kind: "label";
  readonly name: string;
  readonly line: number;
}

/** A block in braces, which is a scope of names. */
export interface BlockStatement {
  readonly kind: "block";
  readonly statements: readonly Statement[];
  readonly line: number;
}

/** The labels that a `brx.idx` may branch to: `name: .branchtargets a, b;`. */
export interface BranchTargets {
  readonly kind: "branchTargets";
  readonly name: string;
  readonly targets: readonly string[];
  readonly line: number;
}

/** The functions that an indirect call may call: `name: .calltargets a, b;`. */
export interface CallTargets {
  readonly kind: "callTargets";
  readonly name: string;
  readonly targets: readonly string[];
  readonly line: number;
}

/** The prototype of an indirect call: `name: .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;`. */
export interface CallPrototype {
  readonly kind: "callPrototype";
  readonly name: string;
  /** The results. The names of results and parameters are arbitrary, most often `_`. */
  readonly results: readonly VariableDeclaration[];
  readonly parameters: readonly VariableDeclaration[];
  readonly directives: readonly FunctionDirective[];
  readonly line: number;
}

/**
 * A directive in a body that the parser does not support. The code that compiles the body decides whether to report an
 * error.
 */
export interface UnknownDirective {
  readonly kind: "directive";
  readonly name: string;
  readonly line: number;
}

/** An instruction, such as `@!%p1 setp.lt.and.f32 %p2|%p3, %f1, 0f3F800000, !%p4;`. */
export interface Instruction {
  readonly kind: "instruction";
  readonly opcode: string;
  /** The modifiers, without their dots. */
  readonly modifiers: readonly string[];
  readonly operands: readonly Operand[];
  readonly predicate: Predicate | undefined;
  readonly line: number;
}

/** The guard predicate of an instruction: `@%p1` or `@!%p1`. */
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
  | CoordinatesOperand
  | VectorOperand
  | ListOperand
  | NotOperand
  | PairOperand
  | ElementOperand
  | SumOperand;

/** The name of a register, special register, variable, label or function, or `_` for a discarded result. */
export interface NameOperand {
  readonly kind: "name";
  readonly name: string;
  /** The suffix after the dot: `x` for `%tid.x`, or `h1` for `%r1.h1`. */
  readonly component: string | undefined;
  /** Whether a minus sign precedes the name. */
  readonly negated?: true;
}

/** An integer constant, the value of a constant expression. */
export interface IntegerOperand {
  readonly kind: "integer";
  readonly value: bigint;
}

/**
 * A floating-point constant. `precision` is `single` for `0f` followed by eight hexadecimal digits. It is `double` for
 * `0d` followed by sixteen hexadecimal digits, and for decimal numbers.
 */
export interface FloatOperand {
  readonly kind: "float";
  readonly precision: "single" | "double";
  readonly bits: bigint;
}

/** An address in brackets, such as `[%rd1+4]`, `[name]` or `[16]`. */
export interface AddressOperand {
  readonly kind: "address";
  /** The base of the address. Undefined if the address is just the number `offset`. */
  readonly base: NameOperand | undefined;
  readonly offset: bigint;
}

/**
 * A texture, surface or tensor with coordinates, such as `[texture, {%f1, %f2}]`: an operand of instructions on these.
 */
export interface CoordinatesOperand {
  readonly kind: "coordinates";
  /** The register or the variable of the texture, surface or tensor. */
  readonly base: NameOperand;
  /** The operands that follow in the brackets: a sampler, if there is one, and the coordinates. */
  readonly parts: readonly Operand[];
}

/** A vector, such as `{%r1, %r2}`. */
export interface VectorOperand {
  readonly kind: "vector";
  readonly elements: readonly Operand[];
}

/** The results or the arguments of a call: `(a, b)`. */
export interface ListOperand {
  readonly kind: "list";
  readonly elements: readonly Operand[];
}

/** A negated predicate, such as `!%p1`. */
export interface NotOperand {
  readonly kind: "not";
  readonly operand: NameOperand;
}

/**
 * An array element, `array[4]` or `array[%r1]`. As an address operand, it denotes the memory of the element; as any
 * other operand, the element's address.
 */
export interface ElementOperand {
  readonly kind: "element";
  readonly array: NameOperand;
  /** The index: a number, a register, or the sum of a register and a number. */
  readonly index: bigint | NameOperand | SumOperand;
}

/** A name plus a constant offset, such as `name+4`. */
export interface SumOperand {
  readonly kind: "sum";
  readonly name: NameOperand;
  readonly offset: bigint;
}

/** A pair of destinations, such as `%p1|%p2` or `{%r1, %r2}|%p1`. */
export interface PairOperand {
  readonly kind: "pair";
  readonly first: NameOperand | VectorOperand;
  readonly second: NameOperand;
}
