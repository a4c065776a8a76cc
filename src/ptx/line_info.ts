/**
 * The lines of the source that PTX was compiled from, as `nvcc -lineinfo` and `clang -g` record them in `.file` and
 * `.loc` directives.
 *
 * @module
 */
import type { Token } from "./lexer.ts";

/** A line of a source file, which is named by its number. */
export interface SourceLine {
  readonly file: number;
  readonly line: number;
}

/** A `.loc` directive: where the instructions come from that follow it. */
export interface LineEntry {
  /** The line in the PTX text. */
  readonly ptxLine: number;
  /** Undefined at the start of a function, whose instructions have no known source until its first `.loc`. */
  readonly source: SourceLine | undefined;
  /** The call that the compiler has inlined. */
  readonly inlinedAt: SourceLine | undefined;
}

/** The `.file` directives of PTX text by their numbers, and its `.loc` directives in order. */
export class LineInfo {
  readonly #files = new Map<number, string>();
  readonly #entries: LineEntry[] = [];

  /** Records the tokens behind `.file`: `1 "/src/saxpy.cu", 1700000000, 42`. Malformed directives are ignored. */
  addFile(tokens: readonly Token[]): void {
    const paths = tokens.filter(({ kind }) => kind === "string").map(({ text }) => text.slice(1, -1));
    const number = numberAt(tokens, 0);
    // LLVM writes a folder and a name for DWARF 5.
    if (number !== undefined && paths.length > 0) this.#files.set(number, paths.join("/"));
  }

  /**
   * Records the tokens behind `.loc`: `1 12 5, function_name name, inlined_at 1 20 3`. Malformed directives are
   * ignored.
   */
  addLocation(ptxLine: number, tokens: readonly Token[]): void {
    const inlined = tokens.findIndex(({ text }) => text === "inlined_at");
    this.#entries.push({
      ptxLine,
      source: sourceLineAt(tokens, 0),
      inlinedAt: inlined < 0 ? undefined : sourceLineAt(tokens, inlined + 1),
    });
  }

  /** Records where the body of a function begins. */
  beginFunction(ptxLine: number): void {
    if (this.#entries.length > 0) this.#entries.push({ ptxLine, source: undefined, inlinedAt: undefined });
  }

  /** The source of a line of the PTX text, such as `saxpy.cu:12`. Undefined if it is not known. */
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

  /** The name of a file, with as many of its folders as tell it apart from other files. */
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

/** Undefined without a number and for line 0, which stands for code without a source. */
function sourceLineAt(tokens: readonly Token[], index: number): SourceLine | undefined {
  const [file, line] = [numberAt(tokens, index), numberAt(tokens, index + 1)];
  return file === undefined || line === undefined || line === 0 ? undefined : { file, line };
}

function numberAt(tokens: readonly Token[], index: number): number | undefined {
  const token = tokens[index];
  return token?.kind === "number" && /^\d{1,9}$/.test(token.text) ? Number(token.text) : undefined;
}
