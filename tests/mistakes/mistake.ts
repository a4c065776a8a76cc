/**
 * How the cases declare themselves. A case's body is the code of a user, and its source is shown with its message: it
 * stands between braces on lines of its own, and takes what every such program has from the fixture. The files of cases
 * are JavaScript, because the type checker refuses most of them.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import type { Fixture } from "./fixture.ts";

/** What a case is about. */
export type MistakeKind =
  /** It must be refused, or at least warned of. */
  | "mistake"
  /** What it prints is the answer. */
  | "printing";

/** One wrong input. */
export interface Mistake {
  readonly name: string;
  readonly kind: MistakeKind;
  readonly run: (fixture: Fixture) => unknown;
}

/** The mistakes of one file. */
export interface Area {
  readonly title: string;
  readonly mistakes: Mistake[];
  /** The source of each case, by its name. */
  readonly sources: ReadonlyMap<string, string>;
}

/** In the order in which the files are imported. */
export const areas: Area[] = [];

/** Begins an area: the cases that are declared until the next one belong to it. */
export function area(title: string, url: string): void {
  areas.push({ title, mistakes: [], sources: sourcesOf(readFileSync(new URL(url), "utf8")) });
}

/** Declares a wrong input that must be refused, or at least warned of. */
export function mistake(name: string, run: Mistake["run"]): void {
  declare({ name, kind: "mistake", run });
}

/** Declares an input whose answer is what it prints. */
export function printing(name: string, run: Mistake["run"]): void {
  declare({ name, kind: "printing", run });
}

function declare(mistake: Mistake): void {
  const { mistakes, sources, title } = areas.at(-1)!;
  if (!sources.has(mistake.name)) throw new Error(`Cannot find the source of "${mistake.name}" in "${title}"`);
  if (mistakes.some(({ name }) => name === mistake.name)) throw new Error(`"${mistake.name}" is declared twice`);
  mistakes.push(mistake);
}

const declaration = /^(?:mistake|printing)\("([^"\n]+)", (?:async )?\([^)]*\) => \{\n([^]*?)\n\}\);$/gm;

function sourcesOf(text: string): Map<string, string> {
  const sources = new Map<string, string>();
  for (const [, name, body] of text.matchAll(declaration)) {
    const lines = body!.split("\n").filter((line) => !line.includes("deno-lint-ignore"));
    sources.set(name!, lines.map((line) => line.replace(/^ {2}/, "")).join("\n"));
  }
  return sources;
}
