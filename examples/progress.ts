import process from "node:process";

const barColumns = 32;

/** Shows progress on stderr: a bar on a terminal, otherwise a line for each tenth. */
export class Progress {
  readonly #name: string;
  readonly #total: number;
  #done = 0;
  #shown = -1;

  constructor(name: string, total: number) {
    this.#name = name;
    this.#total = total;
  }

  /** Adds an amount to what is done. */
  add(amount: number): void {
    this.#done += amount;
    if (process.stderr.isTTY) this.#drawBar();
    else this.#printTenth();
  }

  #drawBar(): void {
    const columns = Math.floor(this.#done / this.#total * barColumns);
    const bar = "#".repeat(columns).padEnd(barColumns, ".");
    const end = this.#done === this.#total ? "\n" : "";
    process.stderr.write(`\r[${this.#name}] [${bar}] ${Math.floor(this.#done / this.#total * 100)} %${end}`);
  }

  #printTenth(): void {
    const tenth = Math.floor(this.#done / this.#total * 10);
    if (tenth === this.#shown) return;
    this.#shown = tenth;
    process.stderr.write(`[${this.#name}] ${tenth * 10} % written\n`);
  }
}
