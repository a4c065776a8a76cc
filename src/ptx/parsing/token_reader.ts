/**
 * The cursor over PTX tokens that all parts of the parser share.
 *
 * @module
 */
import { type FloatOperand, type IntegerOperand, PtxError } from "../syntax.ts";
import { beginsConstant, integerValue, readConstant, type TokenSource } from "./constant_expressions.ts";
import { Lexer, type Token } from "../lexer.ts";

/** Options for parsing text that becomes part of a larger module. */
export interface ParseOptions {
  /** The number of the first line. Default: 1. */
  readonly firstLine?: number;
  /** Maps identifiers in the text to the names that replace them. */
  readonly renamed?: ReadonlyMap<string, string>;
}

/** Decimal numbers that a `number` represents exactly. */
const decimalPattern = /^(?:0|[1-9][0-9]{0,14})$/;
/** Tokens that follow a constant, and no part of a constant expression. */
const constantEnds: ReadonlySet<string> = new Set([",", ";", "]", "}", ")"]);

/** The tokens of PTX text that have not been consumed yet. */
export class TokenReader implements TokenSource {
  readonly #lexer: Lexer;
  readonly #renamed: ReadonlyMap<string, string> | undefined;
  #token: Token;
  /** The token after the current one, and those after it, if they were looked at already. */
  #next: Token | undefined;
  readonly #others: Token[] = [];
  /** Whether `.const` may be followed by the number of a bank, as before PTX 2.2. */
  hasConstantBanks = false;

  constructor(text: string, { firstLine, renamed }: ParseOptions = {}) {
    this.#lexer = new Lexer(text, firstLine);
    this.#renamed = renamed;
    this.#token = this.#lexer.next();
  }

  get token(): Token {
    return this.#token;
  }

  /** Consumes all tokens. Returns whether any of them has the text `wanted`. */
  drain(wanted: string): boolean {
    let found = false;
    for (; this.#token.kind !== "end"; this.#advance()) found ||= this.#token.text === wanted;
    return found;
  }

  peek(distance: number): Token {
    if (distance === 0) return this.#token;
    this.#next ??= this.#lexer.next();
    if (distance === 1) return this.#next;
    while (this.#others.length < distance - 1) this.#others.push(this.#lexer.next());
    return this.#others[distance - 2]!;
  }

  take(): Token {
    const token = this.#token;
    if (token.kind === "end") {
      throw new PtxError(token.line, "cannot read the text to its end: it stops in the middle of a statement");
    }
    this.#advance();
    return token;
  }

  #advance(): void {
    this.#token = this.#next ?? this.#lexer.next();
    this.#next = this.#others.length > 0 ? this.#others.shift() : undefined;
  }

  at(punctuation: string): boolean {
    return this.token.kind === "punctuation" && this.token.text === punctuation;
  }

  accept(punctuation: string): boolean {
    if (!this.at(punctuation)) return false;
    this.#advance();
    return true;
  }

  expect(punctuation: string): void {
    if (!this.accept(punctuation)) throw this.unexpected(`"${punctuation}"`);
  }

  unexpected(wanted: string): PtxError {
    const token = this.token;
    const found = token.kind === "end" ? "the end of the text" : quote(token);
    return new PtxError(token.line, `cannot read ${found}: ${wanted} was expected`);
  }

  directive(): string {
    if (this.token.kind !== "directive") throw this.unexpected("a directive");
    return this.take().text.slice(1);
  }

  /** Consumes a word that is never renamed: an opcode or a target. */
  word(): string {
    if (this.token.kind !== "identifier") throw this.unexpected("a name");
    return this.take().text;
  }

  identifier(): string {
    const { line } = this.token;
    const name = this.word();
    if (name === "%" || name === "$") {
      throw new PtxError(line, `cannot use the name "${name}": a name has more than this character`);
    }
    return this.#renamed?.get(name) ?? name;
  }

  /**
   * Skips the number of a bank of constants, such as `[2]` after `.const`. A version of PTX that has banks does not
   * have other brackets there.
   */
  skipConstantBank(): void {
    if (!this.hasConstantBanks || !this.at("[") || this.peek(1).kind !== "number" || this.peek(2).text !== "]") return;
    this.take();
    this.smallInteger();
    this.take();
  }

  smallInteger(): number {
    const token = this.take();
    const value = token.kind === "number" ? integerValue(token) : undefined;
    if (value === undefined || value > 0x7fff_ffffn) {
      throw new PtxError(token.line, `cannot read ${quote(token)}: an integer below 2147483648 was expected`);
    }
    return Number(value);
  }

  /** Skips the tokens on the given line, and returns them. */
  skipLine(line: number): readonly Token[] {
    const skipped: Token[] = [];
    while (this.token.kind !== "end" && this.token.line === line) {
      if (this.at(";") || this.at("{")) {
        throw new PtxError(line, "cannot read code after a directive: put it on a line of its own");
      }
      skipped.push(this.take());
    }
    return skipped;
  }

  skipStatement(): void {
    while (!this.accept(";")) {
      if (this.at("{") || this.at("}")) throw this.unexpected('";"');
      this.take();
    }
  }

  skipParentheses(): void {
    this.expect("(");
    let depth = 1;
    while (depth > 0) {
      const token = this.take();
      if (token.kind === "punctuation" && token.text === "(") depth++;
      if (token.kind === "punctuation" && token.text === ")") depth--;
    }
  }

  skipBraces(): void {
    const opening = this.token;
    let depth = 0;
    do {
      if (this.at("{")) depth++;
      if (this.at("}")) depth--;
      const isLexed = this.#next !== undefined || depth === 0;
      if (this.token.kind === "end" || !isLexed && !this.#lexer.skipBlock(depth)) {
        throw new PtxError(opening.line, 'cannot find the "}" for the "{" on this line');
      }
      if (!isLexed) depth = 0;
      this.#advance();
    } while (depth > 0);
  }

  constant(): IntegerOperand | FloatOperand {
    const { kind, text } = this.#token;
    // Most constants consist of one number.
    if (kind === "number" && decimalPattern.test(text) && constantEnds.has(this.peek(1).text)) {
      this.#advance();
      return { kind: "integer", value: BigInt(Number(text)) };
    }
    return readConstant(this);
  }

  get isAtConstant(): boolean {
    return beginsConstant(this.token, this.peek(1));
  }

  wholeNumber(): bigint {
    const { line } = this.token;
    const number = this.constant();
    if (number.kind !== "integer") throw new PtxError(line, "cannot use an offset that is not an integer");
    return number.value;
  }

  /** Parses an optional offset such as `+4`. Returns 0 if there is none. */
  offset(): bigint {
    return this.accept("+") ? this.wholeNumber() : 0n;
  }
}

/** Returns a token as shown in messages, in quotation marks. */
export function quote({ kind, text }: Token): string {
  return kind === "string" ? text : `"${text}"`;
}
