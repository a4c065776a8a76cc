/**
 * Separates the prose of a file from its code: comments, strings and pages on one side, identifiers on the other.
 *
 * @module
 */

/** A piece of a file, and the number of its first line, counted from 1. */
export interface Piece {
  readonly text: string;
  readonly line: number;
}

/** What a file consists of. */
export interface Pieces {
  /** Comments, each run of `//` lines as one piece, without their delimiters. */
  readonly comments: readonly Piece[];
  /** Strings and the constant parts of templates, without their quotes. */
  readonly strings: readonly Piece[];
  /** Everything else. */
  readonly code: readonly Piece[];
}

/** A token: what it is, and where it begins. */
const tokens = {
  typescript:
    /(?<comment>\/\/[^\n]*(?:\n[ \t]*\/\/[^\n]*)*|\/\*[^]*?\*\/)|(?<string>"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*')|(?<template>`)|(?<regexp>(?<=(?:[(,=:[!&|?{};\n]|=>|\breturn)[ \t\n]*)\/(?![/*])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*)|(?<brace>[{}])/g,
  python:
    /(?<comment>#[^\n]*(?:\n[ \t]*#[^\n]*)*|(?<=^|\n)[ \t]*[rf]?"""[^]*?""")|(?<string>[rfb]*(?:"""[^]*?"""|"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'))/g,
};

/** Returns the pieces of a module in TypeScript, JavaScript or C. */
export function piecesOfModule(source: string): Pieces {
  return pieces(source, tokens.typescript);
}

/** Returns the pieces of a module in Python. Docstrings are comments. */
export function piecesOfPython(source: string): Pieces {
  return pieces(source, tokens.python);
}

/** Returns the prose of a page in Markdown: all but its code, which is blanked. */
export function proseOfPage(page: string): Piece[] {
  const prose = page
    .replaceAll(/^ *```[^]*?^ *```$/gm, blank)
    .replaceAll(/(?<=\n\n)(?: {4}[^\n]*\n|\n)+/g, blank)
    .replaceAll(/`[^`\n]*(?:\n[^`\n]+)?`/g, blank)
    .replaceAll(/(?<=\])\([^)\s]*\)/g, blank);
  return [{ text: prose, line: 1 }];
}

/** Replaces all but line breaks, so that positions stay the same. */
function blank(text: string): string {
  return text.replaceAll(/[^\n]/g, " ");
}

function pieces(source: string, token: RegExp): Pieces {
  const found = { comments: [] as Piece[], strings: [] as Piece[], code: [] as Piece[] };
  let line = 1;
  let counted = 0;
  const add = (kind: keyof typeof found, from: number, to: number) => {
    if (from >= to) return;
    line += source.slice(counted, from).split("\n").length - 1;
    counted = from;
    found[kind].push({ text: source.slice(from, to), line });
  };
  /** For each template that the position is within, how many braces are open in its expression. */
  const templates: number[] = [];
  let codeFrom = 0;
  const scanner = new RegExp(token);
  for (let match = scanner.exec(source); match !== null; match = scanner.exec(source)) {
    const { comment, string, template, brace } = match.groups!;
    const end = match.index + match[0].length;
    if (brace !== undefined) {
      if (templates.length === 0) continue;
      templates[templates.length - 1]! += brace === "{" ? 1 : -1;
      if (templates.at(-1)! >= 0) continue;
      templates.pop();
    }
    add("code", codeFrom, match.index);
    codeFrom = end;
    if (comment !== undefined) add("comments", match.index, end);
    else if (string !== undefined) add("strings", match.index + 1, end - 1);
    else if (template !== undefined || brace !== undefined) {
      // The constant part of a template, up to its end or to the next expression.
      const rest = /(?:[^`\\$]|\\[^]|\$(?!\{))*(?:`|\$\{|$)/y;
      rest.lastIndex = end;
      const [part] = rest.exec(source)!;
      codeFrom = scanner.lastIndex = end + part.length;
      add("strings", end, codeFrom - (part.endsWith("`") ? 1 : part.endsWith("${") ? 2 : 0));
      if (part.endsWith("${")) templates.push(0);
    }
  }
  add("code", codeFrom, source.length);
  return found;
}
