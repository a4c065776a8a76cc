import { PtxError } from "./syntax.ts";

/**
 * What a token is. A `directive` is anything that begins with a dot: directives, types and instruction modifiers.
 * `unknown` is a character that PTX has no use for: an error where it is parsed, none in a body that is skipped.
 */
export type TokenKind = "directive" | "identifier" | "number" | "string" | "punctuation" | "unknown" | "end";

/** A token of PTX text. */
export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
  /** Counted from 1. */
  readonly line: number;
}

const tokenPattern = new RegExp(
  [
    /(?<space>[ \t\r\f\v]+|\/\/[^\n]*)/,
    /(?<newline>\n)/,
    /(?<comment>\/\*[^]*?\*\/)/,
    /(?<directive>\.[A-Za-z0-9_$]+(?:::[A-Za-z0-9_$]+)*)/,
    /(?<identifier>[A-Za-z_$%][A-Za-z0-9_$]*)/,
    /(?<number>0[fF][0-9A-Fa-f]{8}\b|0[dD][0-9A-Fa-f]{16}\b|0[xX][0-9A-Fa-f]+U?|0[bB][01]+U?|[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|[0-9]+U?)/,
    /(?<string>"(?:[^"\\\n]|\\.)*")/,
    /(?<punctuation>[{}()\[\]<>,;:@!|=+\-*\/&^~?%])/,
    /(?<unknown>[^])/,
  ].map((part) => part.source).join("|"),
  "y",
);

/** Splits PTX text into tokens, the last of which is the `end`. Throws {@linkcode PtxError} for an open comment. */
export function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  const pattern = new RegExp(tokenPattern);
  let line = 1;
  while (pattern.lastIndex < text.length) {
    const groups = pattern.exec(text)!.groups!;
    if (groups.space !== undefined) continue;
    if (groups.newline !== undefined) {
      line++;
    } else if (groups.comment !== undefined) {
      for (const character of groups.comment) if (character === "\n") line++;
    } else if (groups.identifier !== undefined) {
      tokens.push({ kind: "identifier", text: groups.identifier, line });
    } else if (groups.directive !== undefined) {
      tokens.push({ kind: "directive", text: groups.directive, line });
    } else if (groups.punctuation !== undefined) {
      if (groups.punctuation === "/" && text[pattern.lastIndex] === "*") {
        throw new PtxError(line, 'cannot find the end of the comment that starts here: close it with "*/"');
      }
      tokens.push({ kind: "punctuation", text: groups.punctuation, line });
    } else if (groups.number !== undefined) {
      tokens.push({ kind: "number", text: groups.number, line });
    } else if (groups.string !== undefined) {
      tokens.push({ kind: "string", text: groups.string, line });
    } else {
      tokens.push({ kind: "unknown", text: groups.unknown!, line });
    }
  }
  tokens.push({ kind: "end", text: "", line });
  return tokens;
}
