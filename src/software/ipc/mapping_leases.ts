/**
 * The leases in which importers record which memory of a pool's file they have mapped. As on a GPU, memory that an
 * exporter frees is released only when the last importer has unmapped it. Until then the exporter must not touch it.
 *
 * The table of leases follows the header in the first page of the file. A lease consists of four little-endian words of
 * 8 bytes:
 *
 * 1. The process: its number in the lower half, its PID namespace in the upper half. 0 marks a free entry, -1 an entry
 *    that is being written.
 * 2. The start time of the process, which reveals that a process ended without releasing its leases.
 * 3. The offset in the file.
 * 4. The length in bytes.
 *
 * A process of another PID namespace cannot be inspected, so its leases stay until it releases them. A process that is
 * killed while it writes a lease leaves -1 behind: that entry, one of nearly two thousand, is lost, but holds no
 * memory.
 *
 * @module
 */
import { SystemError } from "../../../ffi/shim/system_error.ts";
import { poolFileHeaderByteLength } from "../memory/pool_file.ts";
import { ownIdentity, ownNamespace, processExists } from "./process_identity.ts";
import type { Range } from "../memory/range_allocator.ts";
import type { SharedFile } from "../memory/shared_file.ts";
import type { LinearMemory } from "../memory/linear_memory.ts";

const tableOffset = 4096;
const leaseLength = 4;
const free = 0n;
const beingWritten = -1n;
const namespaceShift = 32n;
const wordByteLength = BigInt64Array.BYTES_PER_ELEMENT;
const tableLength = (poolFileHeaderByteLength - tableOffset) / wordByteLength;

/** Returns the ranges of a pool's file that any process has mapped. Frees the leases of processes that have ended. */
export function leasedRanges(file: SharedFile): Range[] {
  const table = readWords(file, 0, tableLength);
  const ranges: Range[] = [];
  /** Whether processes exist, by the first two words of their leases. */
  const known = new Map<string, boolean>();
  for (let entry = 0; entry < tableLength; entry += leaseLength) {
    const lease = table.subarray(entry, entry + leaseLength);
    if (!isInUse(lease)) continue;
    if (mayBeHeld(lease, known)) {
      ranges.push(rangeOf(lease));
      continue;
    }
    // A new importer may have reused the entry since the table was read. That importer is alive.
    const again = readWords(file, entry, leaseLength);
    if (again.every((word, index) => word === lease[index])) {
      file.write(new Uint8Array(wordByteLength), tableOffset + entry * wordByteLength);
    } else if (isInUse(again)) {
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

function isInUse(lease: BigInt64Array): boolean {
  return lease[0] !== free && lease[0] !== beingWritten;
}

/** Whether the process that acquired a lease may still exist. */
function mayBeHeld(lease: BigInt64Array, known: Map<string, boolean>): boolean {
  const [process, startTime] = [lease[0]!, lease[1]!];
  const key = `${process} ${startTime}`;
  let isAlive = known.get(key);
  if (isAlive === undefined) known.set(key, isAlive = holderMayExist(process, startTime));
  return isAlive;
}

function holderMayExist(process: bigint, startTime: bigint): boolean {
  try {
    if (Number(BigInt.asUintN(32, process >> namespaceShift)) !== ownNamespace()) return true;
    return processExists({ pid: Number(BigInt.asUintN(32, process)), startTime });
  } catch (error) {
    // A process that cannot be inspected may still exist.
    if (error instanceof SystemError) return true;
    throw error;
  }
}

/** The leases that this process holds in the file of an imported pool. */
export class MappingLeases {
  readonly #linearMemory: LinearMemory;
  readonly #begin: number;
  readonly #table: BigInt64Array;
  /** The first two words of this process's leases. */
  readonly #owner: { readonly process: bigint; readonly startTime: bigint };

  private constructor(linearMemory: LinearMemory, begin: number) {
    const { pid, startTime } = ownIdentity();
    this.#owner = { process: BigInt(ownNamespace()) << namespaceShift | BigInt(pid), startTime };
    this.#linearMemory = linearMemory;
    this.#begin = begin;
    this.#table = new BigInt64Array(linearMemory.memory.buffer, begin + tableOffset, tableLength);
  }

  /** Maps the table. Returns undefined if linear memory has no room or the system cannot map the table. */
  static open(linearMemory: LinearMemory, file: SharedFile): MappingLeases | undefined {
    const begin = linearMemory.reserve(poolFileHeaderByteLength);
    if (begin === undefined) return undefined;
    try {
      file.map(linearMemory, { begin, byteLength: poolFileHeaderByteLength, fileOffset: 0 });
      return new MappingLeases(linearMemory, begin);
    } catch (error) {
      linearMemory.discardAndRelease(begin, poolFileHeaderByteLength, { isShared: true });
      if (error instanceof SystemError) return undefined;
      throw error;
    }
  }

  /** Acquires a lease on a range. Returns its entry, which `release` takes, or undefined if the table is full. */
  acquire({ begin, end }: Range): number | undefined {
    for (let entry = 0; entry < tableLength; entry += leaseLength) {
      if (Atomics.compareExchange(this.#table, entry, free, beingWritten) !== free) continue;
      Atomics.store(this.#table, entry + 1, this.#owner.startTime);
      Atomics.store(this.#table, entry + 2, BigInt(begin));
      Atomics.store(this.#table, entry + 3, BigInt(end - begin));
      Atomics.store(this.#table, entry, this.#owner.process);
      return entry;
    }
    return undefined;
  }

  /** Releases a lease after its range was unmapped. */
  release(entry: number): void {
    Atomics.store(this.#table, entry, free);
  }

  close(): void {
    this.#linearMemory.discardAndRelease(this.#begin, poolFileHeaderByteLength, { isShared: true });
  }
}
