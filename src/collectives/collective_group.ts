/**
 * Collectives that are given to their streams together.
 *
 * @module
 */
import type { CollectiveLibrary } from "../collective_library.ts";
import type { Sanitizer } from "../sanitizer/sanitizer.ts";
import { whatIs } from "../support/validation.ts";

/** A collective that was checked, and that nobody has got yet. */
export interface IssuedCollective {
  readonly library: CollectiveLibrary;
  readonly sanitizer: Sanitizer | undefined;
  readonly device: number;
  /** The stream's handle. */
  readonly stream: bigint;
  /** Throws if its memory was freed meanwhile. */
  check(): void;
  /** Gives it to its stream. */
  run(): void;
  /** Notes that its stream has it. */
  done(): void;
}

/** Those of the group that is being made. */
let group: IssuedCollective[] | undefined;

/** Gives a collective to its stream, or to the group that is being made. */
export function issue(collective: IssuedCollective): void {
  if (group !== undefined) return void group.push(collective);
  collective.run();
  noteAll([collective]);
}

/** Gives what a function asks for to the streams together, when it returns. If it throws, nothing is given to them. */
export function issueTogether(body: () => void): void {
  if (typeof body !== "function") {
    throw new TypeError(`Cannot group ${whatIs(body)}: give a function that calls the collectives`);
  }
  // A group within a group is a part of it.
  const outer = group;
  const own: IssuedCollective[] = group = [];
  let result: unknown;
  try {
    result = body();
  } finally {
    group = outer;
  }
  if (typeof (result as PromiseLike<unknown> | undefined)?.then === "function") {
    throw new TypeError(
      "Cannot group the calls of an asynchronous function: they would come too late; await nothing in it",
    );
  }
  if (outer !== undefined) return void outer.push(...own);
  for (const collective of own) collective.check();
  for (const [library, collectives] of Map.groupBy(own, ({ library }) => library)) issueAll(library, collectives);
}

function issueAll(library: CollectiveLibrary, collectives: readonly IssuedCollective[]): void {
  library.groupStart();
  try {
    for (const collective of collectives) collective.run();
  } finally {
    library.groupEnd();
  }
  noteAll(collectives);
}

function noteAll(collectives: readonly IssuedCollective[]): void {
  for (const collective of collectives) collective.done();
  if (collectives.every(({ sanitizer }) => sanitizer === undefined)) return;
  for (const [sanitizer, those] of Map.groupBy(collectives, ({ sanitizer }) => sanitizer)) {
    sanitizer?.worksTogether(those);
  }
}
