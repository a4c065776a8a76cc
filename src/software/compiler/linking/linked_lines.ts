import { LineInfo } from "../../../ptx/line_info.ts";
import type { PtxError } from "../../../ptx/syntax.ts";

/** A module among several whose lines are numbered through. */
export interface LinkedPart {
  readonly name: string;
  readonly firstLine: number;
  readonly lineInfo: LineInfo;
}

/** The lines of linked modules: which module they belong to, and which source they were compiled from. */
export class LinkedLines extends LineInfo {
  readonly #parts: readonly LinkedPart[];

  constructor(parts: readonly LinkedPart[]) {
    super();
    this.#parts = parts;
  }

  /** The line of the source, or else of the module's PTX. */
  override sourceOf(line: number): string | undefined {
    const part = this.#partAt(line);
    if (part === undefined) return undefined;
    return part.lineInfo.sourceOf(line) ?? `line ${line - part.firstLine + 1} of ${part.name}`;
  }

  /** Makes an error's message name the module, and the line in it. */
  locate(error: PtxError): void {
    const part = this.#partAt(error.line);
    const prefix = `Line ${error.line}: `;
    if (part === undefined || !error.message.startsWith(prefix)) return;
    error.message = `In ${part.name}: Line ${error.line - part.firstLine + 1}: ${error.message.slice(prefix.length)}`;
  }

  /** The module that a line belongs to, and the line in it. */
  placeOf(line: number): { readonly image?: string; readonly line: number } {
    const part = this.#partAt(line);
    return part === undefined ? { line } : { image: part.name, line: line - part.firstLine + 1 };
  }

  #partAt(line: number): LinkedPart | undefined {
    return this.#parts.findLast(({ firstLine }) => firstLine <= line);
  }
}
