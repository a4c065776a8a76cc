/**
 * The mistakes that were found: each is kept once, with a count.
 *
 * @module
 */
import type { Suppression, Suppressions, UsedSuppression } from "./suppressions.ts";
import type { SanitizerReport } from "./sanitizer_report.ts";

/** An occurrence of a mistake. */
export interface FoundMistake extends Pick<SanitizerReport, "check" | "kind" | "accesses"> {
  /** The two operations. Together they count once, in however many places they conflict. */
  readonly operationPair?: readonly [later: object, earlier: object] | undefined;
  /** How many occurrences this stands for. Default: 1. */
  readonly count?: number | undefined;
  message(): string;
}

/** A mistake, with its count. */
interface Mistake {
  /** Its report, whose count grows. Undefined if it is suppressed. */
  readonly report: { -readonly [Name in keyof SanitizerReport]: SanitizerReport[Name] } | undefined;
  readonly suppression: Suppression | undefined;
  later: object | undefined;
  readonly earlier: Set<object>;
}

/** Counts mistakes. */
export class FoundMistakes {
  readonly #suppressions: Suppressions | undefined;
  readonly #mistakes = new Map<string, Mistake>();
  readonly #suppressed = new Map<Suppression, number>();

  constructor(suppressions?: Suppressions) {
    this.#suppressions = suppressions;
  }

  /** The reports of mistakes that are not suppressed. */
  get reports(): readonly SanitizerReport[] {
    return [...this.#mistakes.values()].flatMap(({ report }) => report ?? []);
  }

  /** The suppressions that were used, with the number of mistakes of each. */
  get suppressed(): readonly UsedSuppression[] {
    return Array.from(this.#suppressed, ([suppression, count]) => ({ suppression, count }));
  }

  /** Counts an occurrence. Returns the report if the mistake is new and not suppressed. */
  add(sighting: FoundMistake): SanitizerReport | undefined {
    const { check, kind, accesses, operationPair, count = 1 } = sighting;
    const key = [kind, ...accesses.flatMap(({ operation, source, stack }) => [operation, source, stack])].join("\0");
    const known = this.#mistakes.get(key);
    if (known !== undefined) {
      this.#countAgain(known, operationPair, count);
      return undefined;
    }
    const suppression = this.#suppressions?.find(sighting);
    const report = suppression === undefined
      ? { check, kind, message: sighting.message(), accesses, count }
      : undefined;
    const [later, earlier] = operationPair ?? [];
    this.#mistakes.set(key, { report, suppression, later, earlier: new Set(earlier && [earlier]) });
    if (suppression !== undefined) this.#countSuppressed(suppression, count);
    return report;
  }

  #countAgain(mistake: Mistake, operationPair: FoundMistake["operationPair"], count: number): void {
    if (operationPair !== undefined) {
      const [later, earlier] = operationPair;
      if (mistake.later !== later) mistake.earlier.clear();
      else if (mistake.earlier.has(earlier)) return;
      mistake.later = later;
      mistake.earlier.add(earlier);
    }
    if (mistake.report !== undefined) mistake.report.count += count;
    if (mistake.suppression !== undefined) this.#countSuppressed(mistake.suppression, count);
  }

  #countSuppressed(suppression: Suppression, count: number): void {
    this.#suppressed.set(suppression, (this.#suppressed.get(suppression) ?? 0) + count);
  }
}
