/**
 * What launches access in global memory.
 *
 * @module
 */
import type { LaunchAccess } from "../../../driver.ts";
import { boundsGranuleBytes, boundsGranuleShift, decodePlace, type FaultPlace } from "../../compiler/addresses.ts";
import { addressOfOffset } from "../../memory/linear_memory.ts";

/** For each byte of a granule, the place of its first read, write and strong access; 0 if there was none. */
interface Granule {
  readonly read: Int32Array;
  readonly write: Int32Array;
  readonly atomic: Int32Array;
}

type Operation = keyof Granule;

const operations: readonly Operation[] = ["read", "write", "atomic"];

/** Takes the accesses of the launch that runs. One launch runs at a time. */
export class AccessObserver {
  /** The bounds table of the launch's device, by granules: memory without an entry is not global memory. */
  #allocations: Uint32Array = new Uint32Array();
  #current: LaunchAccesses | undefined;

  /** Runs some of a launch. */
  during<Result>(accesses: LaunchAccesses, allocations: Uint32Array, run: () => Result): Result {
    this.#current = accesses;
    this.#allocations = allocations;
    try {
      return run();
    } finally {
      this.#current = undefined;
    }
  }

  /** Notes an access that was refused: the memory may have been freed. */
  noteRefused(offset: number, place: number): void {
    this.#current?.note(offset, place);
  }

  /** Notes an access. Takes its offset in linear memory, and its place as a number. */
  note(offset: number, place: number): void {
    if (this.#allocations[offset >>> boundsGranuleShift] !== 0) this.#current?.note(offset, place);
  }
}

/** What a launch accesses. */
export class LaunchAccesses {
  readonly #granules = new Map<number, Granule>();
  /** The last granule, because accesses are near each other. */
  #lastIndex = -1;
  #last: Granule | undefined;

  /** Notes an access. */
  note(offset: number, place: number): void {
    const { operation, bytes } = decodePlace(place);
    for (let at = offset, end = offset + bytes; at < end; at++) {
      const index = at >>> boundsGranuleShift;
      if (index !== this.#lastIndex) this.#turnTo(index);
      const places = this.#last![operation as Operation];
      const byte = at & boundsGranuleBytes - 1;
      if (places[byte] === 0) places[byte] = place;
    }
  }

  #turnTo(index: number): void {
    let granule = this.#granules.get(index);
    if (granule === undefined) {
      const places = () => new Int32Array(boundsGranuleBytes);
      this.#granules.set(index, granule = { read: places(), write: places(), atomic: places() });
    }
    this.#lastIndex = index;
    this.#last = granule;
  }

  /** All accesses, ordered by address. */
  toArray(sourceOf: (place: FaultPlace) => string): LaunchAccess[] {
    const ranges: LaunchAccess[] = [];
    const indices = [...this.#granules.keys()].sort((a, b) => a - b);
    for (const operation of operations) {
      let begin = 0, end = 0, line = 0, place = 0;
      const finish = () => {
        if (end === begin) return;
        const source = sourceOf(decodePlace(place));
        ranges.push({ address: addressOfOffset(begin), byteLength: end - begin, operation, source });
      };
      for (const index of indices) {
        const places = this.#granules.get(index)![operation];
        for (let byte = 0; byte < boundsGranuleBytes; byte++) {
          if (places[byte] === 0) continue;
          const at = index * boundsGranuleBytes + byte;
          const lineHere = decodePlace(places[byte]!).line;
          if (at !== end || lineHere !== line) {
            finish();
            begin = at;
            line = lineHere;
            place = places[byte]!;
          }
          end = at + 1;
        }
      }
      finish();
    }
    return ranges.sort((a, b) => a.address < b.address ? -1 : a.address > b.address ? 1 : 0);
  }
}
