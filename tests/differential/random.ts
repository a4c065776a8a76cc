/** Numbers that look random and follow from a seed: the same in every runtime, for ever. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = Math.imul(seed, 0x9e3779b1) ^ 0x5bd1e995;
  }

  /** 32 bits. */
  bits32(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let value = this.#state;
    value = Math.imul(value ^ value >>> 15, value | 1);
    value ^= value + Math.imul(value ^ value >>> 7, value | 61);
    return (value ^ value >>> 14) >>> 0;
  }

  /** 64 bits. */
  bits64(): bigint {
    return BigInt(this.bits32()) << 32n | BigInt(this.bits32());
  }

  /** A whole number below a limit. */
  below(limit: number): number {
    return Math.floor(this.bits32() / 2 ** 32 * limit);
  }

  /** Whether something that has this chance, in percent, comes about. */
  percent(chance: number): boolean {
    return this.below(100) < chance;
  }

  /** One of several. */
  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }
}
