/**
 * Reports as lines of JSON in a file, for other programs.
 *
 * @module
 */
import type { SanitizerReport } from "./sanitizer_report.ts";
import type { UsedSuppression } from "./suppressions.ts";

/** Where lines go. */
export interface LogFile {
  /** What messages call it. */
  readonly name: string;
  /**
   * Adds a line with its newline.
   *
   * @throws {Error} Whose message is the reason
   */
  append(line: string): void;
}

/** How one `Cuda` object's reports get into the file. */
export class ReportLog {
  readonly #file: LogFile;
  readonly #pid: number;
  /** Tells the lines of a `Cuda` object from others': numbers of processes are used again, and Workers share one. */
  readonly #run: string = crypto.randomUUID();
  readonly #numbers = new Map<SanitizerReport, number>();
  #hasFailed = false;

  constructor(file: LogFile, pid: number) {
    this.#file = file;
    this.#pid = pid;
  }

  /** Writes a report when it is found: the process may not get any further. */
  add(report: SanitizerReport): void {
    const number = this.#numbers.size + 1;
    this.#numbers.set(report, number);
    const { check, kind, message, accesses } = report;
    this.#append({ type: "report", pid: this.#pid, run: this.#run, number, check, kind, message, accesses });
  }

  /** Writes the last line, with what is known at the end alone: how often each was seen, and what was suppressed. */
  end(suppressed: readonly UsedSuppression[]): void {
    const counts = Array.from(this.#numbers.keys(), ({ count }) => count);
    this.#append({
      type: "end",
      pid: this.#pid,
      run: this.#run,
      counts,
      suppressed: suppressed.map(({ suppression: { text, line }, count }) => ({ suppression: text, line, count })),
    });
  }

  #append(record: object): void {
    if (this.#hasFailed) return;
    try {
      this.#file.append(`${JSON.stringify(record)}\n`);
    } catch (error) {
      this.#hasFailed = true;
      console.warn(`poolpass: cannot write the sanitizer's reports to ${this.#file.name}: ${(error as Error).message}`);
    }
  }
}
