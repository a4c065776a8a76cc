/**
 * Operations of all ranks. Each waits until all ranks have posted their input, and then reads what it needs.
 *
 * @module
 */
import type { Awaited, Stream } from "../execution/streams.ts";
import type { SoftwareCommunicator } from "./software_communicator.ts";
import type { ElementType } from "./element_types.ts";
import { agree, commonRings, describe, type MailboxEntry, operationNumbers } from "./mailbox.ts";
import { ElementReduction } from "./reduction.ts";
import { type PostedBytes, readExactly, sliceByteLength, type Slices, StreamOperation } from "./stream_operation.ts";

/** The call, its stream, and its memory. */
export interface CollectiveWork {
  readonly call: Omit<MailboxEntry, "offset" | "byteLength">;
  readonly type: ElementType;
  readonly stream: Stream;
  /** This rank's input; empty if it has none. */
  readonly source: Uint8Array;
  /** The memory for this rank's result; empty if it gets none. */
  readonly target: Uint8Array;
}

/** The sizes of a rank's input and result, as multiples of a call's count. */
export function sharesOf(
  { operation, root }: { readonly operation: number; readonly root: number },
  { rank, size }: { readonly rank: number; readonly size: number },
): { gives: number; gets: number } {
  const { broadcast, reduce, allGather, reduceScatter, allToAll } = operationNumbers;
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
  readonly #call: CollectiveWork["call"];
  readonly #type: ElementType;
  readonly #source: Uint8Array;
  readonly #target: Uint8Array;

  constructor(communicator: SoftwareCommunicator, { call, type, stream, source, target }: CollectiveWork) {
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
    // The other ranks find the same disagreement.
    if (disagreement !== undefined) return this.communicator.fail(disagreement);
    this.#checkLengths(sources);
    const { allReduce, broadcast, allGather, reduceScatter, allToAll } = operationNumbers;
    const { operation, root, count } = this.#call;
    const byteLength = count * this.#type.byteLength;
    // An operation reads the same part of the input of each rank.
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
    this.communicator.releaseRead();
  }

  /** The posted input of each rank. */
  #findSources(): PostedBytes[] {
    return Array.from({ length: this.membership.size }, (_, rank) => {
      const mailbox = this.membership.mailbox(rank);
      return { rank, mailbox, entry: mailbox.entry(this.ring, this.number), begin: 0 };
    });
  }

  /** The error if the ranks have made different calls: the same on every rank. */
  #findDisagreement(sources: readonly PostedBytes[]): Error | undefined {
    const first = sources[0]!.entry;
    const other = sources.find(({ entry }) => !agree(entry, first));
    return other && new Error(
      `Cannot do collective ${this.number} of the communicator: rank 0 calls ${describe(first)}, and rank ` +
        `${other.rank} ${describe(other.entry)}; all ranks must make the same calls in the same order`,
    );
  }

  #checkLengths(sources: readonly PostedBytes[]): void {
    const { size } = this.membership;
    for (const { rank, entry } of sources) {
      const expected = sharesOf(this.#call, { rank, size }).gives * this.#call.count * this.#type.byteLength;
      if (entry.byteLength === expected) continue;
      throw new Error(`Cannot use what rank ${rank} gives: it has ${entry.byteLength} bytes and not ${expected}`);
    }
  }

  *#reduce(parts: readonly PostedBytes[]): Slices {
    for (let at = 0; at < this.#target.byteLength; at += sliceByteLength) {
      const target = this.#target.subarray(at, at + sliceByteLength);
      const reduction = new ElementReduction(this.#type, this.#call.reduction);
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
