import process from "node:process";

const barColumns = 32;

/** What a {@linkcode Progress} shows. */
export interface ProgressOptions {
  /** What was done with the amount: "written" by default. */
  done?: string;
  /** Whether the amount is bytes, and the MB in a second are shown. False by default. */
  showsRate?: boolean;
}

/** Shows progress on stderr: a bar on a terminal, otherwise a line for each tenth. */
export class Progress {
  readonly #name: string;
  readonly #total: number;
  readonly #what: string;
  readonly #showsRate: boolean;
  readonly #begin = performance.now();
  #done = 0;
  #shown = -1;

  constructor(name: string, total: number, { done = "written", showsRate = false }: ProgressOptions = {}) {
    this.#name = name;
    this.#total = total;
    this.#what = done;
    this.#showsRate = showsRate;
  }

  /** Adds an amount to what is done. */
  add(amount: number): void {
    this.#done += amount;
    if (process.stderr.isTTY) this.#drawBar();
    else this.#printTenth();
  }

  /** Sets what is done, such as to `loaded` of `onProgress`. */
  set(done: number): void {
    this.add(done - this.#done);
  }

  #drawBar(): void {
    const columns = Math.floor(this.#done / this.#total * barColumns);
    const bar = "#".repeat(columns).padEnd(barColumns, ".");
    const end = this.#done === this.#total ? "\n" : "";
    const percent = Math.floor(this.#done / this.#total * 100);
    process.stderr.write(`\r[${this.#name}] [${bar}] ${percent} %${this.#rate()}${end}`);
  }

  #printTenth(): void {
    const tenth = Math.floor(this.#done / this.#total * 10);
    if (tenth === this.#shown) return;
    this.#shown = tenth;
    process.stderr.write(`[${this.#name}] ${tenth * 10} % ${this.#what}${this.#rate()}\n`);
  }

  #rate(): string {
    if (!this.#showsRate) return "";
    // As wide each time: a bar is drawn over the last one.
    return `, ${formatRate(this.#done, performance.now() - this.#begin).padStart(10)}`;
  }
}

/** Formats bytes in milliseconds as `1234 MB/s`. */
export function formatRate(byteLength: number, milliseconds: number): string {
  return `${(byteLength / 1000 / milliseconds).toFixed(0)} MB/s`;
}
