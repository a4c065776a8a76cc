/**
 * What importers say of themselves in a pool's file: which of its memory they have mapped. As on a GPU, memory that an
 * exporter frees goes only when the last importer has unmapped it; until then the exporter must leave it as it is.
 *
 * A table of leases follows the file's header, in the same page. Lease, little-endian, 8 bytes each: the process, 0
 * where the place is free and -1 while it is written; the time of its start, so that a process that ended without a
 * word is known to be gone; the offset in the file; the length in bytes. Of the first, the lower half is the number of
 * the process and the upper half the namespace in which it has that number: what is of another namespace cannot be
 * looked at, and is kept until its process gives it back. A process that is killed while it writes leaves -1: that
 * place is lost, one of nearly two thousand, and holds no memory.
 *
 * @module
 */
import { SystemError } from "../../../ffi/shim/system_error.ts";
import { poolFileHeaderByteLength } from "../memory/pool_file.ts";
import { exists, ownIdentity, ownNamespace } from "./process_identity.ts";
import type { Range } from "../memory/range_allocator.ts";
import type { SharedFile } from "../memory/shared_file.ts";
import type { LinearMemory } from "../memory/linear_memory.ts";

const tableOffset = 4096;
const leaseLength = 4;
const nobody = 0n;
const beingWritten = -1n;
const namespaceShift = 32n;
const wordByteLength = BigInt64Array.BYTES_PER_ELEMENT;
const tableLength = (poolFileHeaderByteLength - tableOffset) / wordByteLength;

/** The ranges of a pool's file that any process has mapped. */
export function leasedRanges(file: SharedFile): Range[] {
  const table = readWords(file, 0, tableLength);
  const ranges: Range[] = [];
  /** Whether processes are there, by their leases' first two words. */
  const known = new Map<string, boolean>();
  for (let place = 0; place < tableLength; place += leaseLength) {
    const lease = table.subarray(place, place + leaseLength);
    if (!isTaken(lease)) continue;
    if (isHeld(lease, known)) {
      ranges.push(rangeOf(lease));
      continue;
    }
    // An importer may have written while the table was read, and who wrote since then is there.
    const again = readWords(file, place, leaseLength);
    if (again.every((word, index) => word === lease[index])) {
      file.write(new Uint8Array(wordByteLength), tableOffset + place * wordByteLength);
    } else if (isTaken(again)) {
      ranges.push(rangeOf(again));
    }
  }
  return ranges;
}

function rangeOf(lease: BigInt64Array): Range {
  const [offset, byteLength] = [lease[2]!, lease[3]!];
  return { begin: Number(offset), end: Number(offset + byteLength) };
}

function readWords(file: SharedFile, begin: number, length: number): BigInt64Array {
  const bytes = file.read(length * wordByteLength, tableOffset + begin * wordByteLength);
  return new BigInt64Array(bytes.buffer, 0, length);
}

function isTaken(lease: BigInt64Array): boolean {
  return lease[0] !== nobody && lease[0] !== beingWritten;
}

/** Whether the process that took a lease may still be there. */
function isHeld(lease: BigInt64Array, known: Map<string, boolean>): boolean {
  const [process, startTime] = [lease[0]!, lease[1]!];
  const key = `${process} ${startTime}`;
  let isThere = known.get(key);
  if (isThere === undefined) known.set(key, isThere = mayExist(process, startTime));
  return isThere;
}

function mayExist(process: bigint, startTime: bigint): boolean {
  try {
    if (Number(BigInt.asUintN(32, process >> namespaceShift)) !== ownNamespace()) return true;
    return exists({ pid: Number(BigInt.asUintN(32, process)), startTime });
  } catch (error) {
    // Who cannot be looked at is not gone for that.
    if (error instanceof SystemError) return true;
    throw error;
  }
}

/** The leases that a process takes in another's file. */
export class MappingLeases {
  readonly #linearMemory: LinearMemory;
  readonly #begin: number;
  readonly #table: BigInt64Array;
  /** This process, as the first two words of its leases say it. */
  readonly #owner: { readonly process: bigint; readonly startTime: bigint };

  private constructor(linearMemory: LinearMemory, begin: number) {
    const { pid, startTime } = ownIdentity();
    this.#owner = { process: BigInt(ownNamespace()) << namespaceShift | BigInt(pid), startTime };
    this.#linearMemory = linearMemory;
    this.#begin = begin;
    this.#table = new BigInt64Array(linearMemory.memory.buffer, begin + tableOffset, tableLength);
  }

  /** Undefined where linear memory has no room, or the system does not let it be. */
  static open(linearMemory: LinearMemory, file: SharedFile): MappingLeases | undefined {
    const begin = linearMemory.reserve(poolFileHeaderByteLength);
    if (begin === undefined) return undefined;
    try {
      file.map(linearMemory, { begin, byteLength: poolFileHeaderByteLength, fileOffset: 0 });
      return new MappingLeases(linearMemory, begin);
    } catch (error) {
      linearMemory.giveBack(begin, poolFileHeaderByteLength, { isShared: true });
      if (error instanceof SystemError) return undefined;
      throw error;
    }
  }

  /** Says that a range is mapped from now on. What it gives is for `giveBack`: undefined where the table is full. */
  take({ begin, end }: Range): number | undefined {
    for (let place = 0; place < tableLength; place += leaseLength) {
      if (Atomics.compareExchange(this.#table, place, nobody, beingWritten) !== nobody) continue;
      Atomics.store(this.#table, place + 1, this.#owner.startTime);
      Atomics.store(this.#table, place + 2, BigInt(begin));
      Atomics.store(this.#table, place + 3, BigInt(end - begin));
      Atomics.store(this.#table, place, this.#owner.process);
      return place;
    }
    return undefined;
  }

  /** Says that the range is mapped no longer. */
  giveBack(place: number): void {
    Atomics.store(this.#table, place, nobody);
  }

  close(): void {
    this.#linearMemory.giveBack(this.#begin, poolFileHeaderByteLength, { isShared: true });
  }
}
