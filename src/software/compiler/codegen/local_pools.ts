import type { LocalType } from "../webassembly/opcodes.ts";

/** Pools of reusable locals. All locals that were taken are released at once. */
export class LocalPools {
  readonly #newLocal: (type: LocalType) => number;
  readonly #locals: Readonly<Record<LocalType, number[]>> = { i32: [], i64: [], f32: [], f64: [], v128: [] };
  readonly #taken: Record<LocalType, number> = { i32: 0, i64: 0, f32: 0, f64: 0, v128: 0 };

  constructor(newLocal: (type: LocalType) => number) {
    this.#newLocal = newLocal;
  }

  /** A local that is not in use. */
  take(type: LocalType): number {
    return this.#locals[type][this.#taken[type]++] ??= this.#newLocal(type);
  }

  releaseAll(): void {
    const taken = this.#taken;
    taken.i32 =
      taken.i64 =
      taken.f32 =
      taken.f64 =
      taken.v128 =
        0;
  }
}
