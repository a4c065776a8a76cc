/**
 * What importers say of themselves in a pool's file: which of its memory they have mapped. As on a GPU, memory that an
 * exporter frees goes only when the last importer has unmapped it; until then the exporter must leave it as it is.
 *
 * A table of leases follows the file's header, in the same page. Lease, little-endian, 8 bytes each: the number of the
 * process, 0 where the place is free and -1 while it is written; the time of its start, so that a process that ended
 * without a word is known to be gone; the offset in the file; the length in bytes. Where the table is full a mapping has
 * no lease, and freeing in the order that CUDA documents is up to the program.
 *
 * @module
 */
import { SystemError } from "../../ffi/shim/system_error.ts";
import { poolFileHeaderByteLength } from "./pool_file.ts";
import { exists, ownIdentity, type ProcessIdentity } from "./process_identity.ts";
import type { Range } from "./range_allocator.ts";
import type { SharedFile } from "./shared_file.ts";
import type { Window } from "./window.ts";

const tableOffset = 4096;
const leaseLength = 4;
const nobody = 0n;
const beingWritten = -1n;
const wordByteLength = BigInt64Array.BYTES_PER_ELEMENT;
const tableLength = (poolFileHeaderByteLength - tableOffset) / wordByteLength;

/** The ranges of a pool's file that any process has mapped. */
export function leasedRanges(file: SharedFile): Range[] {
  const bytes = file.read(poolFileHeaderByteLength);
  const table = new BigInt64Array(bytes.buffer, tableOffset, tableLength);
  const ranges: Range[] = [];
  const gone = new Set<string>();
  const living = new Set<string>();
  for (let place = 0; place < tableLength; place += leaseLength) {
    if (table[place] === nobody || table[place] === beingWritten) continue;
    const [pid, startTime, offset, byteLength] = table.subarray(place, place + leaseLength) as unknown as bigint[];
    const owner = `${pid} ${startTime}`;
    if (!living.has(owner) && !gone.has(owner)) {
      (exists({ pid: Number(pid), startTime: startTime! }) ? living : gone).add(owner);
    }
    if (living.has(owner)) ranges.push({ begin: Number(offset), end: Number(offset! + byteLength!) });
    else file.write(new Uint8Array(wordByteLength), tableOffset + place * wordByteLength);
  }
  return ranges;
}

/** The leases that a process takes in another's file. */
export class MappingLeases {
  readonly #window: Window;
  readonly #begin: number;
  readonly #table: BigInt64Array;
  readonly #owner: ProcessIdentity;

  private constructor(window: Window, begin: number, owner: ProcessIdentity) {
    this.#window = window;
    this.#owner = owner;
    this.#begin = begin;
    this.#table = new BigInt64Array(window.memory.buffer, begin + tableOffset, tableLength);
  }

  /** Undefined where the system does not let it be. */
  static open(window: Window, file: SharedFile): MappingLeases | undefined {
    const begin = window.reserve(poolFileHeaderByteLength);
    if (begin === undefined) return undefined;
    try {
      file.map(window, { begin, byteLength: poolFileHeaderByteLength, fileOffset: 0 });
      return new MappingLeases(window, begin, ownIdentity());
    } catch (error) {
      window.giveBack(begin, poolFileHeaderByteLength, { isShared: true });
      if (error instanceof SystemError) return undefined;
      throw error;
    }
  }

  /** Says that a range of the file is mapped from now on. What it gives is for `giveBack`. */
  take({ begin, end }: Range): number | undefined {
    for (let place = 0; place < tableLength; place += leaseLength) {
      if (Atomics.compareExchange(this.#table, place, nobody, beingWritten) !== nobody) continue;
      Atomics.store(this.#table, place + 1, this.#owner.startTime);
      Atomics.store(this.#table, place + 2, BigInt(begin));
      Atomics.store(this.#table, place + 3, BigInt(end - begin));
      Atomics.store(this.#table, place, BigInt(this.#owner.pid));
      return place;
    }
    return undefined;
  }

  /** Says that the range is mapped no longer. */
  giveBack(place: number): void {
    Atomics.store(this.#table, place, nobody);
  }

  close(): void {
    this.#window.giveBack(this.#begin, poolFileHeaderByteLength, { isShared: true });
  }
}
