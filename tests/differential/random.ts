/** A generator of pseudorandom numbers. A seed always gives the same sequence, in every runtime. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = Math.imul(seed, 0x9e3779b1) ^ 0x5bd1e995;
  }

  /** Returns 32 random bits. */
  bits32(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let value = this.#state;
    value = Math.imul(value ^ value >>> 15, value | 1);
    value ^= value + Math.imul(value ^ value >>> 7, value | 61);
    return (value ^ value >>> 14) >>> 0;
  }

  /** Returns 64 random bits. */
  bits64(): bigint {
    return BigInt(this.bits32()) << 32n | BigInt(this.bits32());
  }

  /** Returns a whole number from 0 up to, but not including, a limit. */
  below(limit: number): number {
    return Math.floor(this.bits32() / 2 ** 32 * limit);
  }

  /** Returns true with the given probability, in percent. */
  percent(chance: number): boolean {
    return this.below(100) < chance;
  }

  /** Returns one of the choices. */
  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }
}
