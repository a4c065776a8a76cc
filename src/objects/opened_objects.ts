import { callStack } from "../support/leaks.ts";
import type { Driver } from "../driver.ts";
import { countOf } from "../support/printing.ts";

/** An allocation, in the form in which the sanitizer identifies it. */
export interface MemoryPiece {
  /** The address, or the buffer if the memory is page-locked. */
  readonly at: bigint | ArrayBufferLike;
  readonly byteLength: number;
}

/** Memory that an object holds and that was not freed. */
export interface UnfreedMemory {
  /** The kind of the memory, such as "host buffer", for error messages. */
  readonly kind: string;
  readonly count: number;
  readonly byteLength: number;
  /** The call site of each allocation, if it was recorded. */
  readonly origins?: readonly string[];
  /** Lists the allocations, for the sanitizer. */
  pieces(): Iterable<MemoryPiece>;
}

/** Reports memory that was not freed. Implemented by the sanitizer. */
export interface LeakReporter {
  /**
   * Reports memory that was not freed. Returns false if the sanitizer does not check for leaks, so that the caller
   * prints a warning instead.
   */
  reportLeaks(unfreed: readonly UnfreedMemory[], before: string): boolean;
}

/** An object that a session has opened and must release. */
export interface OpenedObject {
  /** The kind of the object in messages, in the singular: "stream". Undefined if the user does not dispose of it. */
  readonly kind?: string;
  /** Returns the memory that the object holds and that the user should have freed. */
  unfreed?(): UnfreedMemory | undefined;
  /** Returns the warning to print if the object is still open at the end of the session and cannot be released. */
  warning?(): string;
  /**
   * Releases the object at the end of the session, when all work is complete. The session's own driver cannot be used
   * then.
   */
  release(driver: Driver): void;
}

/**
 * The objects that a session has opened and not released yet, in the order of opening. An object is opened after the
 * objects that it depends on, so they are released in reverse order.
 */
export class OpenedObjects {
  readonly #objects = new Set<OpenedObject>();
  /** The call site at which each object was opened; undefined without POOLPASS_DEBUG=1. */
  readonly #origins: Map<OpenedObject, string> | undefined;

  constructor({ debug }: { debug: boolean }) {
    if (debug) this.#origins = new Map();
  }

  add(object: OpenedObject): void {
    this.#objects.add(object);
    if (object.kind !== undefined) this.#origins?.set(object, originOf(object.kind));
  }

  /**
   * Records that the user has disposed of an object. The object remains until its work is done, but is not reported as
   * a leak.
   */
  markDisposed(object: OpenedObject): void {
    this.#origins?.delete(object);
  }

  /** Removes an object that has been released. */
  delete(object: OpenedObject): void {
    this.#objects.delete(object);
    this.#origins?.delete(object);
  }

  /** Iterates over the objects in the order of opening. */
  [Symbol.iterator](): Iterator<OpenedObject> {
    return this.#objects.values();
  }

  /**
   * Passes the memory that the user has not freed to `reporter`. Returns the memory that the reporter has not reported.
   */
  reportUnfreed(reporter: LeakReporter | undefined, before: string): UnfreedMemory[] {
    const unfreed = [...this.#objects].map((object) => object.unfreed?.()).filter((memory) => memory !== undefined);
    return reporter?.reportLeaks(unfreed, before) ? [] : unfreed;
  }

  /**
   * Warns of memory that the user has not freed. With POOLPASS_DEBUG=1, also lists the other objects that were not
   * disposed, with the call site at which each was created.
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

/** Sums the counts and sizes of memory of the same kind. */
function countKinds(unfreed: readonly CountedMemory[]): CountedMemory[] {
  const byKind = new Map<string, CountedMemory>();
  for (const { kind, count, byteLength } of unfreed) {
    const sum = byKind.get(kind) ?? { kind, count: 0, byteLength: 0 };
    byKind.set(kind, { kind, count: sum.count + count, byteLength: sum.byteLength + byteLength });
  }
  return [...byKind.values()].filter(({ count }) => count > 0);
}

function originOf(kind: string): string {
  return callStack(`${kind} created`);
}
