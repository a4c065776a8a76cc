/**
 * Evaluates constant expressions (PTX ISA, section 4.5) as `ptxas` does.
 *
 * Integers have 64 bits and are signed or unsigned. Where the manual and `ptxas` differ, this follows `ptxas`: the
 * results of `&`, `|` and `^` are unsigned only if an operand is, and the result of `?:` has the type of the selected
 * operand.
 *
 * @module
 */
import type { Token } from "../lexer.ts";
import { type FloatOperand, type IntegerOperand, PtxError } from "../syntax.ts";

/** A source of tokens to read a constant from. */
export interface TokenSource {
  /** Returns the token `distance` tokens ahead of the current one, without consuming any. */
  peek(distance: number): Token;
  take(): Token;
}

interface Integer {
  readonly kind: "integer";
  readonly value: bigint;
  readonly isUnsigned: boolean;
}

interface Float {
  readonly kind: "float";
  readonly value: number;
}

/** A single-precision literal such as `0f3F800000`. In PTX, such a literal cannot be an operand of an expression. */
interface SingleFloat {
  readonly kind: "single";
  readonly bits: bigint;
}

type Constant = Integer | Float | SingleFloat;

/** The name of the warp size in constant expressions. */
const warpSizeName = "WARP_SZ";
const maximumDepth = 200;
/** The maximum length of an integer literal: 64 binary digits and a prefix. */
const maximumDigits = 66;

/**
 * Binary operators with their precedence; higher binds tighter. An operator is listed before any shorter operator that
 * it begins with: `<<` before `<`.
 */
const operators: readonly (readonly [operator: string, precedence: number])[] = [
  ["||", 1],
  ["&&", 2],
  ["==", 6],
  ["!=", 6],
  ["<<", 8],
  [">>", 8],
  ["<=", 7],
  [">=", 7],
  ["|", 3],
  ["^", 4],
  ["&", 5],
  ["<", 7],
  [">", 7],
  ["+", 9],
  ["-", 9],
  ["*", 10],
  ["/", 10],
  ["%", 10],
];
const operatorStarts: ReadonlySet<string> = new Set(operators.map(([operator]) => operator[0]!));

/** Whether a token begins a constant. `next` is the token after it. */
export function beginsConstant(token: Token, next: Token): boolean {
  if (token.kind === "number" || token.text === warpSizeName) return true;
  if (token.kind !== "punctuation") return false;
  // "!" may also negate a predicate.
  if (token.text === "!") {
    return next.kind === "number" || next.text === warpSizeName ||
      (next.kind === "punctuation" && "!+-~(".includes(next.text));
  }
  // A minus sign may also negate a register.
  if (token.text === "-" && next.kind === "identifier") return next.text === warpSizeName;
  return "+-~(".includes(token.text);
}

/** Parses and evaluates a constant expression. Throws {@linkcode PtxError} if the expression is missing or invalid. */
export function readConstant(source: TokenSource): IntegerOperand | FloatOperand {
  const constant = new ConstantReader(source).conditional();
  if (constant.kind === "integer") return { kind: "integer", value: constant.value };
  if (constant.kind === "single") return { kind: "float", precision: "single", bits: constant.bits };
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, constant.value);
  return { kind: "float", precision: "double", bits: view.getBigUint64(0) };
}

/** Returns the value of an integer literal, or undefined if the token is not an integer literal. */
export function integerValue({ text, line }: Token): bigint | undefined {
  const digits = text.endsWith("U") ? text.slice(0, -1) : text;
  const isOctal = /^0[0-9]+$/.test(digits);
  if (!isOctal && !/^(0[xX][0-9A-Fa-f]+|0[bB][01]+|[0-9]+)$/.test(digits)) return undefined;
  if (isOctal && !/^[0-7]+$/.test(digits)) {
    const reason = "a number that begins with 0 is octal, and 8 and 9 are not octal digits";
    throw new PtxError(line, `cannot read "${text}": ${reason}`);
  }
  // Checks the length before converting, because converting a million digits is slow.
  const value = digits.length > maximumDigits ? undefined : BigInt(isOctal ? `0o${digits.slice(1)}` : digits);
  // `ptxas` drops the high bits of decimal and octal numbers up to 2^66, and of hexadecimal numbers of any length.
  const limit = /^0[xX]/.test(digits) ? undefined : /^0[bB]/.test(digits) ? (1n << 64n) - 1n : 1n << 66n;
  if (value === undefined || (limit !== undefined && value > limit)) {
    throw new PtxError(line, `cannot read "${text}": an integer has at most 64 bits`);
  }
  return BigInt.asUintN(64, value);
}

class ConstantReader {
  readonly #source: TokenSource;
  #depth = 0;

  constructor(source: TokenSource) {
    this.#source = source;
  }

  conditional(): Constant {
    const condition = this.#binary(0);
    if (!this.#at("?")) return condition;
    this.#enter();
    this.#source.take();
    const chosen = this.conditional();
    this.#expect(":");
    const other = this.conditional();
    this.#depth--;
    return this.#integer(condition).value !== 0n ? this.#integer(chosen) : this.#integer(other);
  }

  #binary(minimum: number): Constant {
    let left = this.#unary();
    for (let found = this.#operator(); found !== undefined && found[1] > minimum; found = this.#operator()) {
      const [operator, precedence] = found;
      for (let length = operator.length; length > 0; length--) this.#source.take();
      left = this.#computed(operator, left, this.#binary(precedence));
    }
    return left;
  }

  /**
   * Returns the operator at the current token. Joins the tokens of a two-character operator, because the lexer splits
   * operators into characters.
   */
  #operator(): readonly [operator: string, precedence: number] | undefined {
    const first = this.#source.peek(0);
    // The lexer classifies "%" as an identifier, so this compares text regardless of kind.
    if (!operatorStarts.has(first.text)) return undefined;
    const second = this.#source.peek(1).text;
    return operators.find(([operator]) => operator === first.text || operator === first.text + second);
  }

  #unary(): Constant {
    const { kind, text } = this.#source.peek(0);
    if (kind !== "punctuation") return this.#literal();
    if (text === "(") {
      this.#enter();
      this.#source.take();
      const cast = this.#source.peek(0);
      const inner = cast.kind === "directive" ? this.#cast() : this.conditional();
      if (cast.kind !== "directive") this.#expect(")");
      this.#depth--;
      return inner;
    }
    if (!"+-!~".includes(text)) return this.#literal();
    this.#enter();
    this.#source.take();
    const operand = this.#unary();
    this.#depth--;
    if (text === "-" && operand.kind === "float") return { kind: "float", value: -operand.value };
    if (text === "+" && operand.kind === "float") return operand;
    const { value, isUnsigned } = this.#integer(operand);
    if (text === "!") return integer(value === 0n ? 1n : 0n, false);
    if (text === "~") return integer(~value, true);
    return integer(text === "-" ? -value : value, isUnsigned);
  }

  /** Parses a cast, `(.s64)` or `(.u64)`, after its opening parenthesis, and the operand. */
  #cast(): Constant {
    const type = this.#source.take();
    this.#expect(")");
    if (type.text !== ".s64" && type.text !== ".u64") {
      throw new PtxError(type.line, `cannot convert a constant to "${type.text}": only ".s64" and ".u64" are possible`);
    }
    return integer(this.#integer(this.#unary()).value, type.text === ".u64");
  }

  #literal(): Constant {
    const token = this.#source.peek(0);
    const { kind, text } = token;
    if (text === warpSizeName) {
      this.#source.take();
      return integer(32n, false);
    }
    if (kind !== "number") throw this.#unexpected("a number");
    this.#source.take();
    const value = integerValue(token);
    if (value !== undefined) return integer(value, text.endsWith("U") || value >= 1n << 63n);
    if (/^0[fF]/.test(text)) return { kind: "single", bits: BigInt(`0x${text.slice(2)}`) };
    if (!/^0[dD]/.test(text)) {
      if (!Number.isFinite(Number(text))) throw new PtxError(token.line, `cannot read "${text}": it is too large`);
      return { kind: "float", value: Number(text) };
    }
    const view = new DataView(new ArrayBuffer(8));
    view.setBigUint64(0, BigInt(`0x${text.slice(2)}`));
    return { kind: "float", value: view.getFloat64(0) };
  }

  #computed(operator: string, left: Constant, right: Constant): Constant {
    if (left.kind === "float" && right.kind === "float") {
      const result = floatResult(operator, left.value, right.value);
      if (typeof result === "number") return { kind: "float", value: result };
      if (result !== undefined) return integer(result ? 1n : 0n, false);
    }
    const a = this.#integer(left), b = this.#integer(right);
    if ((operator === "/" || operator === "%") && b.value === 0n) {
      throw new PtxError(this.#source.peek(0).line, "cannot compute a constant: it divides by zero");
    }
    return integerResult(operator, a, b);
  }

  #integer(constant: Constant): Integer {
    if (constant.kind === "integer") return constant;
    const reason = "this operation is defined for integers only";
    throw new PtxError(this.#source.peek(0).line, `cannot compute a constant from a floating-point number: ${reason}`);
  }

  #at(text: string): boolean {
    const token = this.#source.peek(0);
    return token.kind === "punctuation" && token.text === text;
  }

  #expect(text: string): void {
    if (!this.#at(text)) throw this.#unexpected(`"${text}"`);
    this.#source.take();
  }

  #enter(): void {
    if (++this.#depth <= maximumDepth) return;
    throw new PtxError(
      this.#source.peek(0).line,
      `cannot read an expression that is nested more than ${maximumDepth} deep`,
    );
  }

  #unexpected(wanted: string): PtxError {
    const { kind, text, line } = this.#source.peek(0);
    const found = kind === "end" ? "the end of the text" : kind === "string" ? text : `"${text}"`;
    return new PtxError(line, `cannot read ${found}: ${wanted} was expected`);
  }
}

function integer(value: bigint, isUnsigned: boolean): Integer {
  return { kind: "integer", value: isUnsigned ? BigInt.asUintN(64, value) : BigInt.asIntN(64, value), isUnsigned };
}

/** Computes a binary operation. Undefined for an operator that is not defined for floating-point numbers. */
function floatResult(operator: string, a: number, b: number): number | boolean | undefined {
  switch (operator) {
    case "+":
      return a + b;
    case "-":
      return a - b;
    case "*":
      return a * b;
    case "/":
      return a / b;
    case "<":
      return a < b;
    case ">":
      return a > b;
    case "<=":
      return a <= b;
    case ">=":
      return a >= b;
    case "==":
      return a === b;
    case "!=":
      return a !== b;
    default:
      return undefined;
  }
}

function integerResult(operator: string, left: Integer, right: Integer): Integer {
  // A shift count is taken modulo 64. The result of a shift has the type of the left operand.
  const count = BigInt.asUintN(6, right.value);
  if (operator === "<<") return integer(left.value << count, left.isUnsigned);
  if (operator === ">>") return integer(left.value >> count, left.isUnsigned);
  const isUnsigned = left.isUnsigned || right.isUnsigned || operator === "%";
  const a = integer(left.value, isUnsigned).value, b = integer(right.value, isUnsigned).value;
  const truth = (is: boolean) => integer(is ? 1n : 0n, false);
  switch (operator) {
    case "||":
      return truth(a !== 0n || b !== 0n);
    case "&&":
      return truth(a !== 0n && b !== 0n);
    case "==":
      return truth(a === b);
    case "!=":
      return truth(a !== b);
    case "<":
      return truth(a < b);
    case ">":
      return truth(a > b);
    case "<=":
      return truth(a <= b);
    case ">=":
      return truth(a >= b);
    case "|":
      return integer(a | b, isUnsigned);
    case "^":
      return integer(a ^ b, isUnsigned);
    case "&":
      return integer(a & b, isUnsigned);
    case "+":
      return integer(a + b, isUnsigned);
    case "-":
      return integer(a - b, isUnsigned);
    case "*":
      return integer(a * b, isUnsigned);
    case "/":
      return integer(a / b, isUnsigned);
    default:
      return integer(a % b, isUnsigned);
  }
}
