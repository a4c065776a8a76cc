/**
 * Operations in which all ranks take part. Each waits until all ranks have called it, and then takes what it needs.
 *
 * @module
 */
import type { Awaited, Stream } from "../execution/streams/streams.ts";
import type { Communicator } from "./communicator.ts";
import type { ElementType } from "./element_types.ts";
import { commonRings, type Entry } from "./mailbox.ts";
import { agree, describe, operations } from "./operations.ts";
import { Reduction } from "./reduction.ts";
import { readExactly, sliceByteLength, type Slices, type Source, StreamOperation } from "./stream_operation.ts";

/** What is to be done, and with which memory. */
export interface CollectiveOptions {
  readonly call: Omit<Entry, "offset" | "byteLength">;
  readonly type: ElementType;
  readonly stream: Stream;
  /** What this rank gives; empty if nothing. */
  readonly source: Uint8Array;
  /** Where the result goes; empty if nowhere. */
  readonly target: Uint8Array;
}

/** The elements that a rank gives and gets, as multiples of a call's count. */
export function sharesOf(
  { operation, root }: { readonly operation: number; readonly root: number },
  { rank, size }: { readonly rank: number; readonly size: number },
): { gives: number; gets: number } {
  const { broadcast, reduce, allGather, reduceScatter, allToAll } = operations;
  if (operation === broadcast) return { gives: rank === root ? 1 : 0, gets: 1 };
  if (operation === reduce) return { gives: 1, gets: rank === root ? 1 : 0 };
  return {
    gives: operation === reduceScatter || operation === allToAll ? size : 1,
    gets: operation === allGather || operation === allToAll ? size : 1,
  };
}

/** An operation of all ranks. */
export class CollectiveOperation extends StreamOperation {
  readonly ring: number = commonRings.collectives;
  readonly #call: CollectiveOptions["call"];
  readonly #type: ElementType;
  readonly #source: Uint8Array;
  readonly #target: Uint8Array;

  constructor(communicator: Communicator, { call, type, stream, source, target }: CollectiveOptions) {
    super(communicator, stream);
    this.#call = call;
    this.#type = type;
    this.#source = source;
    this.#target = target;
  }

  protected get postsAfter(): readonly Awaited[] {
    return [this.communicator.room];
  }

  protected get completesAfter(): readonly Awaited[] {
    return [this.whenPosted(Array.from({ length: this.membership.size }, (_, rank) => rank), this.ring)];
  }

  protected *post(): Slices {
    const entry = yield* this.postBytes(this.#source, this.#call);
    this.communicator.keep({ number: this.number, entry });
  }

  protected *complete(): Slices {
    const { rank, size, own } = this.membership;
    const sources = this.#findSources();
    const disagreement = this.#findDisagreement(sources);
    // The other ranks find the same.
    if (disagreement !== undefined) return this.communicator.fail(disagreement);
    this.#checkLengths(sources);
    const { allReduce, broadcast, allGather, reduceScatter, allToAll } = operations;
    const { operation, root, count } = this.#call;
    const byteLength = count * this.#type.byteLength;
    // An operation reads the same part of what each rank gives.
    const begin = operation === reduceScatter || operation === allToAll ? rank * byteLength : 0;
    const parts = sources.map((source) => ({ ...source, begin }));
    if (this.#target.byteLength > 0) {
      if (operation === broadcast) {
        yield* this.copy(this.#target, parts[root]!);
      } else if (operation === allGather || operation === allToAll) {
        for (let from = 0; from < size; from++) {
          yield* this.copy(this.#target.subarray(from * byteLength, (from + 1) * byteLength), parts[from]!);
        }
      } else if (operation === allReduce || operation === reduceScatter || rank === root) {
        yield* this.#reduce(parts);
      }
    }
    own.post(commonRings.finished, this.number, { ...this.#call, offset: 0, byteLength: 0 });
    this.communicator.reclaim();
  }

  /** What the ranks give. */
  #findSources(): Source[] {
    return Array.from({ length: this.membership.size }, (_, rank) => {
      const mailbox = this.membership.mailbox(rank);
      return { rank, mailbox, entry: mailbox.entry(this.ring, this.number), begin: 0 };
    });
  }

  /** The error of ranks that have not made the same call: the same one for all ranks. */
  #findDisagreement(sources: readonly Source[]): Error | undefined {
    const first = sources[0]!.entry;
    const other = sources.find(({ entry }) => !agree(entry, first));
    return other && new Error(
      `Cannot do collective ${this.number} of the communicator: rank 0 calls ${describe(first)}, and rank ` +
        `${other.rank} ${describe(other.entry)}; all ranks must make the same calls in the same order`,
    );
  }

  #checkLengths(sources: readonly Source[]): void {
    const { size } = this.membership;
    for (const { rank, entry } of sources) {
      const expected = sharesOf(this.#call, { rank, size }).gives * this.#call.count * this.#type.byteLength;
      if (entry.byteLength === expected) continue;
      throw new Error(`Cannot use what rank ${rank} gives: it has ${entry.byteLength} bytes and not ${expected}`);
    }
  }

  *#reduce(parts: readonly Source[]): Slices {
    for (let at = 0; at < this.#target.byteLength; at += sliceByteLength) {
      const target = this.#target.subarray(at, at + sliceByteLength);
      const reduction = new Reduction(this.#type, this.#call.reduction);
      const bytes = new Uint8Array(target.byteLength);
      for (const [index, part] of parts.entries()) {
        const read = index === 0 ? bytes : new Uint8Array(target.byteLength);
        readExactly(read, part, at);
        reduction.add(read);
        yield;
      }
      reduction.finish(bytes);
      target.set(bytes);
      this.wrote(target);
    }
  }
}
