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
 * Splits PTX text into tokens. The last token has the kind `end`. Throws {@linkcode PtxError} for an unterminated
 * comment. `firstLine` is the line number of the text's first line.
 *
 * Works on character codes: a regular expression would overflow the stack on long strings and comments.
 */
export function tokenize(text: string, firstLine: number = 1): Token[] {
  const tokens: Token[] = [];
  let line = firstLine;
  let position = 0;
  while (position < text.length) {
    const begin = position;
    const code = text.charCodeAt(begin);
    const characterClass = code < classes.length ? classes[code]! : 0;
    let kind: TokenKind;
    if (code === newline) {
      line++;
      position++;
      continue;
    } else if ((characterClass & space) !== 0) {
      position++;
      continue;
    } else if (code === slash && text.charCodeAt(begin + 1) === slash) {
      position = endOfLine(text, begin);
      continue;
    } else if (code === slash && text.charCodeAt(begin + 1) === asterisk) {
      position = text.indexOf("*/", begin + 2) + 2;
      if (position < begin + 2) {
        throw new PtxError(line, 'cannot find the end of the comment that starts here: close it with "*/"');
      }
      line += newlinesBetween(text, begin, position);
      continue;
    } else if (code === hash && tokens.at(-1)?.line !== line && isLineDirective(text, begin)) {
      position = endOfLine(text, begin);
      continue;
    } else if ((characterClass & letter) !== 0) {
      kind = "identifier";
      position = endOfWord(text, begin + 1);
    } else if ((characterClass & punctuation) !== 0) {
      kind = "punctuation";
      position++;
    } else if ((characterClass & digit) !== 0) {
      kind = "number";
      numberPattern.lastIndex = begin;
      numberPattern.test(text);
      position = numberPattern.lastIndex;
    } else if (code === dot && isFraction(text, begin)) {
      kind = "number";
      numberPattern.lastIndex = begin;
      numberPattern.test(text);
      position = numberPattern.lastIndex;
    } else if (code === dot && isWord(text, begin + 1)) {
      kind = "directive";
      position = endOfDirective(text, begin);
    } else if (code === quotationMark) {
      const end = endOfString(text, begin);
      kind = end === undefined ? "unknown" : "string";
      position = end ?? endOfLine(text, begin);
    } else {
      kind = "unknown";
      position++;
    }
    tokens.push({ kind, text: text.slice(begin, position), line });
  }
  tokens.push({ kind: "end", text: "", line });
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
  while (isWord(text, end)) end++;
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
