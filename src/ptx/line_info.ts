/**
 * Maps PTX lines to the source lines that they were compiled from, as `nvcc -lineinfo` and `clang -g` record them in
 * `.file` and `.loc` directives.
 *
 * @module
 */
import type { Token } from "./lexer.ts";

/** A line of a source file. `file` is the number of its `.file` directive. */
export interface SourceLine {
  readonly file: number;
  readonly line: number;
}

/** A `.loc` directive: the source of the instructions that follow it. */
export interface LineEntry {
  /** The line of the directive in the PTX text. */
  readonly ptxLine: number;
  /**
   * The source line. Undefined at the start of a function, because instructions before its first `.loc` have no known
   * source.
   */
  readonly source: SourceLine | undefined;
  /** The source line of the call, if the compiler inlined the code. */
  readonly inlinedAt: SourceLine | undefined;
}

/** The `.file` directives of PTX text, keyed by file number, and the `.loc` directives, in order. */
export class LineInfo {
  readonly #files = new Map<number, string>();
  readonly #entries: LineEntry[] = [];

  /**
   * Records a `.file` directive, given the tokens after its keyword: `1 "/src/saxpy.cu", 1700000000, 42`. Malformed
   * directives are ignored.
   */
  addFile(tokens: readonly Token[]): void {
    const paths = tokens.filter(({ kind }) => kind === "string").map(({ text }) => text.slice(1, -1));
    const number = numberAt(tokens, 0);
    // For DWARF 5, LLVM writes a folder and a file name as two strings.
    if (number !== undefined && paths.length > 0) this.#files.set(number, paths.join("/"));
  }

  /**
   * Records a `.loc` directive, given the tokens after its keyword: `1 12 5, function_name name, inlined_at 1 20 3`.
   * Malformed directives are ignored.
   */
  addLocation(ptxLine: number, tokens: readonly Token[]): void {
    const inlined = tokens.findIndex(({ text }) => text === "inlined_at");
    this.#entries.push({
      ptxLine,
      source: sourceLineAt(tokens, 0),
      inlinedAt: inlined < 0 ? undefined : sourceLineAt(tokens, inlined + 1),
    });
  }

  /** Records that the body of a function begins on a line. */
  beginFunction(ptxLine: number): void {
    if (this.#entries.length > 0) this.#entries.push({ ptxLine, source: undefined, inlinedAt: undefined });
  }

  /** Returns the source of a PTX line, such as `saxpy.cu:12`. Undefined if the source is not known. */
  sourceOf(ptxLine: number): string | undefined {
    const entry = this.#entries.findLast((entry) => entry.ptxLine <= ptxLine);
    const source = this.#name(entry?.source);
    if (source === undefined) return undefined;
    const caller = this.#name(entry?.inlinedAt);
    return caller === undefined || caller === source ? source : `${source}, inlined at ${caller}`;
  }

  #name(source: SourceLine | undefined): string | undefined {
    const path = source === undefined ? undefined : this.#files.get(source.file);
    return path === undefined ? undefined : `${this.#shortest(path)}:${source!.line}`;
  }

  /** Returns the shortest suffix of a file's path that no other file's path ends with. */
  #shortest(path: string): string {
    const parts = partsOf(path);
    const others = [...this.#files.values()].map(partsOf).filter((other) => other.join("/") !== parts.join("/"));
    for (let count = 1; count < parts.length; count++) {
      const name = parts.slice(-count).join("/");
      if (!others.some((other) => other.slice(-count).join("/") === name)) return name;
    }
    return path;
  }
}

function partsOf(path: string): readonly string[] {
  return path.split(/[\\/]+/).filter((part) => part !== "." && part !== "");
}

/**
 * Reads a file number and a line. Undefined if one is missing, and for line 0, which marks code without a source line.
 */
function sourceLineAt(tokens: readonly Token[], index: number): SourceLine | undefined {
  const [file, line] = [numberAt(tokens, index), numberAt(tokens, index + 1)];
  return file === undefined || line === undefined || line === 0 ? undefined : { file, line };
}

function numberAt(tokens: readonly Token[], index: number): number | undefined {
  const token = tokens[index];
  return token?.kind === "number" && /^\d{1,9}$/.test(token.text) ? Number(token.text) : undefined;
}
