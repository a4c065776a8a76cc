/**
 * Suppressions: known mistakes that are not reported.
 *
 * @module
 */
import { didYouMean, shown } from "../../support/validation.ts";
import { countOf } from "../../support/printing.ts";
import { framesOf } from "./call_stacks.ts";
import { type SanitizerAccess, type SanitizerCheck, type SanitizerReport, timesOf } from "./sanitizer_report.ts";

/** The maximum number of unused suppressions that a message lists. */
const maximumListed = 10;

/** A suppression: a line `kind:place` in a suppression file. */
export interface Suppression {
  /** The line as it is in the file. */
  readonly text: string;
  /** The line number in the file, counted from 1. */
  readonly line: number;
  /** Matches the kind or the check of a suppressed report. */
  readonly kinds: RegExp;
  /** Matches a function, file, line or kernel of a suppressed report. */
  readonly places: RegExp;
}

/** A suppression, with the number of mistakes that it has suppressed. */
export interface UsedSuppression {
  readonly suppression: Suppression;
  readonly count: number;
}

/** The parts of a report that are compared with suppressions. */
export type Suppressible = Pick<SanitizerReport, "check" | "kind" | "accesses">;

const unordered = [
  "unordered-write-read",
  "unordered-read-write",
  "unordered-write-write",
  "unordered-write-atomic",
  "unordered-atomic-write",
  "unordered-read-atomic",
  "unordered-atomic-read",
];

/** For each check, the kinds of mistakes that it finds. A suppression must name a kind or check that is listed here. */
export const reportKinds: Readonly<Record<SanitizerCheck, readonly string[]>> = {
  "stream-order": [
    ...unordered,
    ...unordered.map((kind) => `possible-${kind}`),
    "possible-use-after-free",
    "use-before-allocation",
    "use-after-free",
    "source-overwritten",
    "unrecorded-event",
  ],
  memory: [
    "out-of-bounds",
    "use-after-free",
    "use-before-allocation",
    "inaccessible",
    "misaligned",
    "invalid-address",
    "invalid-free",
    "stack-overflow",
  ],
  initialization: [
    "uninitialized-branch",
    "uninitialized-address",
    "uninitialized-atomic",
    "uninitialized-barrier",
    "uninitialized-size",
    "uninitialized-host-read",
  ],
  race: [
    "shared-race",
    "global-race",
    "insufficient-scope",
    "unfinished-copy",
    "non-coherent-read",
    "missing-proxy-fence",
    "unstarted-block",
    "exited-block",
  ],
  synchronization: [
    "divergent-barrier",
    "wrong-mask",
    "deadlock",
    "barrier-count",
    "mixed-barrier",
    "unfinished-product",
    "missing-product-fence",
  ],
  leak: ["leak"],
};

const checks = Object.keys(reportKinds) as SanitizerCheck[];
const kinds = Object.values(reportKinds).flat();

/** The suppressions in a file. */
export class Suppressions {
  /** The name of the file. */
  readonly file: string;
  readonly #all: readonly Suppression[];
  readonly #used = new Set<Suppression>();

  /**
   * Parses lines such as `unordered-write-read:src/pipeline.ts`. Ignores empty lines and lines that begin with `#`.
   *
   * @throws {RangeError} If a line is malformed or names an unknown kind
   */
  constructor(file: string, text: string) {
    this.file = file;
    this.#all = text.split(/\r?\n/).flatMap((line, index) => {
      const trimmed = line.trim();
      return trimmed === "" || trimmed.startsWith("#") ? [] : [parse(trimmed, { file, line: index + 1 })];
    });
  }

  /** Returns the first suppression that matches a report, and marks it as used. */
  find(report: Suppressible): Suppression | undefined {
    let places: readonly string[] | undefined;
    const found = this.#all.find((suppression) => {
      if (!suppression.kinds.test(report.kind) && !suppression.kinds.test(report.check)) return false;
      places ??= report.accesses.flatMap(placesToMatch);
      return places.some((place) => suppression.places.test(place));
    });
    if (found !== undefined) this.#used.add(found);
    return found;
  }

  /** The suppressions that have not matched any report yet. */
  get unused(): readonly Suppression[] {
    return this.#all.filter((suppression) => !this.#used.has(suppression));
  }
}

/** Returns a line such as `suppressed: unordered-write-write:copies.ts (seen 3 times)`. */
export function suppressedOf(suppressed: readonly UsedSuppression[]): string {
  return `suppressed: ${suppressed.map(({ suppression: { text }, count }) => `${text}${timesOf(count)}`).join(", ")}`;
}

/** Returns a line such as `1 suppression of known.txt was not needed: leak:main.ts (line 4)`. */
export function unusedOf({ file, unused }: Suppressions): string {
  const lines = unused.slice(0, maximumListed).map(({ text, line }) => `${text} (line ${line})`);
  if (unused.length > lines.length) lines.push(`${unused.length - lines.length} more`);
  return `${countOf(unused.length, "suppression")} of ${file} ${unused.length === 1 ? "was" : "were"} not needed: ${
    lines.join(", ")
  }`;
}

function parse(text: string, { file, line }: { file: string; line: number }): Suppression {
  const colon = text.indexOf(":");
  const [kind, place] = [text.slice(0, colon).trim(), text.slice(colon + 1).trim()];
  const refusal = (why: string) => {
    return new RangeError(`Cannot use the suppression ${shown(text)} in line ${line} of ${shown(file)}: ${why}`);
  };
  if (colon < 0 || kind === "" || place === "") {
    throw refusal("it must be kind:place, such as unordered-write-read:pipeline.ts, or kind:* for all places");
  }
  const pattern = new RegExp(`^${globOf(kind)}$`);
  const isKnown = [...checks, ...kinds].some((known) => pattern.test(known));
  if (!isKnown) throw refusal(`there is no kind or check ${shown(kind)}${didYouMean(kind, [...kinds, ...checks])}`);
  // A path in a suppression may lack leading folders.
  return { text, line, kinds: pattern, places: new RegExp(`^(?:.*/)?${globOf(place)}$`, "s") };
}

/** Returns the strings of an access that are compared with the second part of a suppression: names, files and lines. */
function placesToMatch({ operation, source, stack }: SanitizerAccess): string[] {
  const inStack = framesOf(stack).flatMap(({ name, file, line, column }) => [
    ...name === undefined ? [] : [name],
    file,
    `${file}:${line}`,
    ...column === undefined ? [] : [`${file}:${line}:${column}`],
  ]);
  const inKernel = source === undefined ? [] : [source, source.replace(/:\d+$/, "")];
  return [operation, operation.replace(/^kernel /, ""), ...inKernel, ...inStack];
}

/** Converts a glob to a regular expression: `*` matches any characters, `?` matches a single one. */
function globOf(pattern: string): string {
  return pattern.replaceAll(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".");
}
