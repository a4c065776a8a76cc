import type { LocalType } from "../webassembly/opcodes.ts";

/** Pools of reusable locals. All locals that were taken are given back at once. */
export class LocalPools {
  readonly #newLocal: (type: LocalType) => number;
  readonly #locals: Readonly<Record<LocalType, number[]>> = { i32: [], i64: [], f32: [], f64: [], v128: [] };
  #taken: Record<LocalType, number> = noneTaken();

  constructor(newLocal: (type: LocalType) => number) {
    this.#newLocal = newLocal;
  }

  /** A local that is not in use. */
  take(type: LocalType): number {
    return this.#locals[type][this.#taken[type]++] ??= this.#newLocal(type);
  }

  giveBackAll(): void {
    this.#taken = noneTaken();
  }
}

function noneTaken(): Record<LocalType, number> {
  return { i32: 0, i64: 0, f32: 0, f64: 0, v128: 0 };
}
