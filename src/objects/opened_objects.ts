import type { Driver } from "../driver.ts";
import { countOf } from "../support/printing.ts";

/** A piece of memory. */
export interface MemoryPiece {
  /** Its address, or its buffer for page-locked memory. */
  readonly at: bigint | ArrayBufferLike;
  readonly byteLength: number;
}

/** Memory that an object holds and that was not freed. */
export interface UnfreedMemory {
  /** Its kind, in the singular: "host buffer". */
  readonly kind: string;
  readonly count: number;
  readonly byteLength: number;
  /** Where each piece was allocated, if that was recorded. */
  readonly origins?: readonly string[];
  /** The pieces, for the sanitizer. */
  pieces(): Iterable<MemoryPiece>;
}

/** What may report memory that was not freed. */
export interface LeakReporter {
  /** Returns whether it does: a warning would say the same again. */
  reportLeaks(unfreed: readonly UnfreedMemory[], before: string): boolean;
}

/** An object that a session has opened and must release. */
export interface OpenedObject {
  /** Its kind, in the singular: "stream". Undefined if the user does not dispose of it. */
  readonly kind?: string;
  /** The memory that it holds and the user should have freed. */
  unfreed?(): UnfreedMemory | undefined;
  /** The warning if it is still open at the end of the session, which does not release it. */
  warning?(): string;
  /** Releases it at the end of the session, when all work is complete. The session's own driver is gone by then. */
  release(driver: Driver): void;
}

/**
 * The objects that a session has opened and not released yet, in the order of opening. Objects that depend on another
 * one were opened after it, so they are released in the reverse order.
 */
export class OpenedObjects {
  readonly #objects = new Set<OpenedObject>();
  /** Where each object was opened; undefined without POOLPASS_DEBUG=1. */
  readonly #origins: Map<OpenedObject, string> | undefined;

  constructor({ debug }: { debug: boolean }) {
    if (debug) this.#origins = new Map();
  }

  add(object: OpenedObject): void {
    this.#objects.add(object);
    if (object.kind !== undefined) this.#origins?.set(object, originOf(object.kind));
  }

  /** Records that the user has disposed of an object that only waits for its work. Then it is not a leak. */
  markDisposed(object: OpenedObject): void {
    this.#origins?.delete(object);
  }

  /** Removes an object that has been released. */
  delete(object: OpenedObject): void {
    this.#objects.delete(object);
    this.#origins?.delete(object);
  }

  /** In the order of opening. */
  [Symbol.iterator](): Iterator<OpenedObject> {
    return this.#objects.values();
  }

  /** Reports memory that the user has not freed, if there is a callback for that. Returns the rest. */
  reportUnfreed(reporter: LeakReporter | undefined, before: string): UnfreedMemory[] {
    const unfreed = [...this.#objects].map((object) => object.unfreed?.()).filter((memory) => memory !== undefined);
    return reporter?.reportLeaks(unfreed, before) ? [] : unfreed;
  }

  /**
   * Warns of memory that the user has not freed. With POOLPASS_DEBUG=1, also names the objects that were not disposed,
   * which the session can release, and says where each was created.
   */
  reportLeaks(reporter: LeakReporter | undefined): void {
    for (const { warning } of this.#objects) if (warning !== undefined) console.warn(`poolpass: ${warning()}`);
    const unfreed = this.reportUnfreed(reporter, "the Cuda object was disposed");
    const memory = countKinds(unfreed).map(({ kind, count, byteLength }) =>
      `${countOf(count, kind)} (${byteLength} bytes)`
    );
    const sentences = memory.length === 0 ? [] : [`${memory.join(", ")} not freed`];
    const origins = unfreed.flatMap(({ origins = [] }) => origins);
    if (this.#origins !== undefined) {
      const open = [...this.#origins.keys()].map(({ kind }) => ({ kind: kind!, count: 1, byteLength: 0 }));
      const objects = countKinds(open).map(({ kind, count }) => countOf(count, kind));
      if (objects.length > 0) sentences.push(`${objects.join(", ")} not disposed`);
      origins.push(...this.#origins.values());
    }
    if (sentences.length === 0) return;
    const lines = origins.map((origin) => `\n${origin}`).join("");
    console.warn(`poolpass: ${sentences.join("; ")} before the Cuda object was disposed${lines}`);
  }
}

type CountedMemory = Pick<UnfreedMemory, "kind" | "count" | "byteLength">;

/** Adds up memory of the same kind. */
function countKinds(unfreed: readonly CountedMemory[]): CountedMemory[] {
  const byKind = new Map<string, CountedMemory>();
  for (const { kind, count, byteLength } of unfreed) {
    const sum = byKind.get(kind) ?? { kind, count: 0, byteLength: 0 };
    byKind.set(kind, { kind, count: sum.count + count, byteLength: sum.byteLength + byteLength });
  }
  return [...byKind.values()].filter(({ count }) => count > 0);
}

function originOf(kind: string): string {
  return new Error(`${kind} created`).stack!.replace(/^Error: /, "");
}
