/**
 * Finds the code blocks of Markdown pages and of the examples in JSDoc comments.
 *
 * @module
 */

/** A code block and its position. */
export interface Block {
  /** The path of the file, relative to the project's folder. */
  readonly file: string;
  /** The number of the first line of code, counted from 1. */
  readonly line: number;
  /** The language: `"ts"`, `"sh"` or `"text"`; empty if none is given, as in an indented block. */
  readonly language: string;
  readonly text: string;
}

/** Returns the fenced and the indented code blocks of a page, in order. */
export function blocksOfPage(file: string, page: string): Block[] {
  const blocks: Block[] = [];
  const lines = page.split("\n");
  for (let index = 0; index < lines.length; index++) {
    const language = /^ *```(\w*)/.exec(lines[index]!)?.[1];
    if (language !== undefined) {
      const begin = index + 1;
      for (index = begin; index < lines.length && !/^ *```/.test(lines[index]!);) index++;
      blocks.push({ file, line: begin + 1, language, text: lines.slice(begin, index).join("\n") });
    } else if (isIndented(lines[index]!) && lines[index - 1]?.trim() === "") {
      const begin = index;
      while (index + 1 < lines.length && isIndented(lines[index + 1]!)) index++;
      const text = lines.slice(begin, index + 1).map((line) => line.slice(4)).join("\n");
      blocks.push({ file, line: begin + 1, language: "", text });
    }
  }
  return blocks;
}

function isIndented(line: string): boolean {
  return line.startsWith("    ");
}

/** Returns the TypeScript examples in a module's JSDoc comments. */
export function examplesOfModule(file: string, source: string): Block[] {
  const examples: Block[] = [];
  for (const { 0: whole, 1: text, index } of source.matchAll(/^ *\* ```ts\b.*\n((?: *\*.*\n)*?) *\* ```$/gm)) {
    const line = source.slice(0, index).split("\n").length + whole.split("\n").indexOf(text!.split("\n")[0]!);
    examples.push({ file, line, language: "ts", text: text!.replaceAll(/^ *\* ?/gm, "") });
  }
  return examples;
}

/**
 * Returns the expressions in the last column of each table whose last header is `name`, as one code block for each
 * table.
 */
export function columnsOfPage(file: string, page: string, name: string): Block[] {
  const tables = page.matchAll(/^\|.*\| *(\S+) *\|\n\| -.*\n((?:\|.*\n)+)/gm);
  return [...tables].filter((table) => table[1] === name).map(({ 2: rows, index }) => {
    const cells = rows!.trimEnd().split("\n").map((row) => row.split(" | ").at(-1)!);
    const expressions = cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map((match) => match[1]!));
    const text = expressions.map((expression) => `async () => { ${expression}; };`).join("\n");
    return { file, line: page.slice(0, index).split("\n").length, language: "ts", text };
  });
}
