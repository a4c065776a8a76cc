import { PtxError } from "./syntax.ts";

/**
 * The kind of a token. A `directive` is anything that begins with a dot: directives, types and modifiers. `unknown` is
 * a character that PTX does not use, or an unterminated string. An `unknown` token is an error unless it is in a
 * skipped body.
 */
export type TokenKind = "directive" | "identifier" | "number" | "string" | "punctuation" | "unknown" | "end";

/** A token of PTX text. */
export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
  /** The line of the token, counted from 1. */
  readonly line: number;
}

const newline = "\n".charCodeAt(0);
const quotationMark = '"'.charCodeAt(0);
const backslash = "\\".charCodeAt(0);
const hash = "#".charCodeAt(0);
const colon = ":".charCodeAt(0);
const dot = ".".charCodeAt(0);
const slash = "/".charCodeAt(0);
const asterisk = "*".charCodeAt(0);
const openingBrace = "{".charCodeAt(0);
const closingBrace = "}".charCodeAt(0);

const space = 1;
const digit = 2;
/** The flag for characters that may begin a name. */
const letter = 4;
/** The flag for characters that a name may contain after its first character. */
const word = 8;
const punctuation = 16;

/** The class of each ASCII character: a sum of the flags above. */
const classes = new Uint8Array(128);
for (
  const [characters, characterClass] of [
    [" \t\r\f\v", space],
    ["0123456789", digit | word],
    ["ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_$", letter | word],
    ["%", letter],
    ["{}()[]<>,;:@!|=+-*/&^~?", punctuation],
  ] as const
) {
  for (const character of characters) classes[character.charCodeAt(0)] = characterClass;
}

const numberPattern = new RegExp(
  [
    /0[fF][0-9A-Fa-f]{8}\b/,
    /0[dD][0-9A-Fa-f]{16}\b/,
    /0[xX][0-9A-Fa-f]+U?/,
    /0[bB][01]+U?/,
    /[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?/,
    /\.[0-9]+(?:[eE][+-]?[0-9]+)?/,
    /[0-9]+[eE][+-]?[0-9]+/,
    /[0-9]+U?/,
  ].map(({ source }) => source).join("|"),
  "y",
);

/**
 * Splits PTX text into tokens, one at a time: a large module has millions.
 *
 * Works on character codes: a regular expression would overflow the stack on long strings and comments.
 */
export class Lexer {
  readonly #text: string;
  #position = 0;
  #line: number;
  /** The line of the last token. */
  #lastLine = 0;

  /** @param firstLine the line number of the text's first line */
  constructor(text: string, firstLine: number = 1) {
    this.#text = text;
    this.#line = firstLine;
  }

  /**
   * Returns the next token. At the end of the text, returns a token of kind `end`, any number of times. Throws
   * {@linkcode PtxError} for an unterminated comment.
   */
  next(): Token {
    const text = this.#text;
    while (this.#position < text.length) {
      const begin = this.#position;
      const code = text.charCodeAt(begin);
      const characterClass = code < classes.length ? classes[code]! : 0;
      if (code === newline) {
        this.#line++;
        this.#position++;
      } else if ((characterClass & space) !== 0) {
        this.#position++;
      } else if ((characterClass & letter) !== 0) {
        return this.#token("identifier", endOfWord(text, begin + 1));
      } else if (this.#skipComment(code)) {
        continue;
      } else if ((characterClass & punctuation) !== 0) {
        return this.#token("punctuation", begin + 1);
      } else if ((characterClass & digit) !== 0 || (code === dot && isFraction(text, begin))) {
        numberPattern.lastIndex = begin;
        numberPattern.test(text);
        return this.#token("number", numberPattern.lastIndex);
      } else if (code === dot && isWord(text, begin + 1)) {
        return this.#token("directive", endOfDirective(text, begin));
      } else if (code === quotationMark) {
        const end = endOfString(text, begin);
        return this.#token(end === undefined ? "unknown" : "string", end ?? endOfLine(text, begin));
      } else {
        return this.#token("unknown", begin + 1);
      }
    }
    return { kind: "end", text: "", line: this.#line };
  }

  /**
   * Skips everything up to the brace that closes the outermost of `depth` open blocks, and the brace, without creating
   * tokens. Returns false if there is no such brace.
   */
  skipBlock(depth: number): boolean {
    const text = this.#text;
    let open = depth;
    while (this.#position < text.length) {
      const code = text.charCodeAt(this.#position);
      const characterClass = code < classes.length ? classes[code]! : 0;
      if (code === newline) {
        this.#line++;
        this.#position++;
      } else if ((characterClass & space) !== 0) {
        this.#position++;
      } else if (!this.#skipComment(code)) {
        this.#lastLine = this.#line;
        if (code === quotationMark) {
          this.#position = endOfString(text, this.#position) ?? endOfLine(text, this.#position);
          continue;
        }
        this.#position++;
        if (code === openingBrace) open++;
        else if (code === closingBrace && --open === 0) return true;
      }
    }
    return false;
  }

  /** Skips a comment or a line directive that begins with the current character, if there is one. */
  #skipComment(code: number): boolean {
    const text = this.#text;
    const begin = this.#position;
    if (code === hash) {
      if (this.#lastLine === this.#line || !isLineDirective(text, begin)) return false;
      this.#position = endOfLine(text, begin);
      return true;
    }
    if (code !== slash) return false;
    const second = text.charCodeAt(begin + 1);
    if (second === slash) {
      this.#position = endOfLine(text, begin);
      return true;
    }
    if (second !== asterisk) return false;
    const end = text.indexOf("*/", begin + 2) + 2;
    if (end < begin + 2) {
      throw new PtxError(this.#line, 'cannot find the end of the comment that starts here: close it with "*/"');
    }
    this.#position = end;
    this.#line += newlinesBetween(text, begin, end);
    return true;
  }

  #token(kind: TokenKind, end: number): Token {
    const text = this.#text.slice(this.#position, end);
    this.#position = end;
    return { kind, text, line: this.#lastLine = this.#line };
  }
}

/**
 * Splits PTX text into tokens. The last token has the kind `end`. Throws {@linkcode PtxError} for an unterminated
 * comment.
 */
export function tokenize(text: string): Token[] {
  const lexer = new Lexer(text);
  const tokens: Token[] = [];
  do tokens.push(lexer.next()); while (tokens.at(-1)!.kind !== "end");
  return tokens;
}

/** Whether a name may contain the character at `position` after its first character. False past the end of the text. */
function isWord(text: string, position: number): boolean {
  const code = text.charCodeAt(position);
  return code < classes.length && (classes[code]! & word) !== 0;
}

const lineDirectivePattern = /#[ \t]*(?:line[ \t]+)?[0-9]/y;

/** Whether a preprocessor line marker such as `# 1 "kernel.cu"` begins at `begin`. */
function isLineDirective(text: string, begin: number): boolean {
  lineDirectivePattern.lastIndex = begin;
  return lineDirectivePattern.test(text);
}

const fractionPattern = /\.[0-9]+(?:[eE][+-]?[0-9]+)?(?![\w$])/y;

/** Whether a number such as `.5` begins at `begin`, rather than a modifier such as `.2d`. */
function isFraction(text: string, begin: number): boolean {
  if ((classes[text.charCodeAt(begin + 1)]! & digit) === 0) return false;
  fractionPattern.lastIndex = begin;
  return fractionPattern.test(text);
}

function endOfWord(text: string, begin: number): number {
  let end = begin;
  for (let code = text.charCodeAt(end); code < classes.length && (classes[code]! & word) !== 0;) {
    code = text.charCodeAt(++end);
  }
  return end;
}

/** Returns the end of a directive, which may contain double colons, as in `.L1::no_allocate`. */
function endOfDirective(text: string, begin: number): number {
  let end = endOfWord(text, begin + 1);
  while (text.charCodeAt(end) === colon && text.charCodeAt(end + 1) === colon && isWord(text, end + 2)) {
    end = endOfWord(text, end + 2);
  }
  return end;
}

/** Returns the position after the closing quotation mark. Undefined if the line ends first. */
function endOfString(text: string, begin: number): number | undefined {
  for (let end = begin + 1; end < text.length; end++) {
    const code = text.charCodeAt(end);
    if (code === quotationMark) return end + 1;
    if (code === newline) return undefined;
    if (code === backslash && text.charCodeAt(end + 1) !== newline) end++;
  }
  return undefined;
}

function endOfLine(text: string, begin: number): number {
  const end = text.indexOf("\n", begin);
  return end < 0 ? text.length : end;
}

function newlinesBetween(text: string, begin: number, end: number): number {
  let count = 0;
  for (let position = begin; position < end; position++) {
    if (text.charCodeAt(position) === newline) count++;
  }
  return count;
}
