/**
 * What launches access in global memory.
 *
 * @module
 */
import type { LaunchAccess } from "../../../driver.ts";
import {
  boundsGranuleBytes,
  boundsGranuleShift,
  bytesOfPlace,
  decodePlace,
  type FaultPlace,
  lineOfPlace,
  operationOfPlace,
} from "../../compiler/addresses.ts";
import { addressOfOffset } from "../../memory/linear_memory.ts";

/** The kinds of accesses, as places name them, from 1 on. */
const operations = ["read", "write", "atomic"] as const;

/**
 * For each kind of access: for each byte of a granule, the place of the first access; 0 if there was none. Undefined if
 * there was none of the kind.
 */
type Granule = (Int32Array | undefined)[];

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
  #last: Granule = [];

  /** Notes an access. */
  note(offset: number, place: number): void {
    const end = offset + bytesOfPlace(place);
    const kind = operationOfPlace(place) - 1;
    for (let at = offset; at < end;) {
      const index = at >>> boundsGranuleShift;
      if (index !== this.#lastIndex) this.#turnTo(index);
      const places = this.#last[kind] ??= new Int32Array(boundsGranuleBytes);
      const first = at & boundsGranuleBytes - 1;
      const behind = Math.min(first + end - at, boundsGranuleBytes);
      for (let byte = first; byte < behind; byte++) if (places[byte] === 0) places[byte] = place;
      at += behind - first;
    }
  }

  #turnTo(index: number): void {
    let granule = this.#granules.get(index);
    if (granule === undefined) this.#granules.set(index, granule = [undefined, undefined, undefined]);
    this.#lastIndex = index;
    this.#last = granule;
  }

  /** All accesses, ordered by address. */
  toArray(sourceOf: (place: FaultPlace) => string): LaunchAccess[] {
    const ranges: LaunchAccess[] = [];
    const indices = [...this.#granules.keys()].sort((a, b) => a - b);
    operations.forEach((operation, kind) => {
      let begin = 0, end = 0, place = 0;
      const finish = () => {
        if (end === begin) return;
        const source = sourceOf(decodePlace(place));
        ranges.push({ address: addressOfOffset(begin), byteLength: end - begin, operation, source });
      };
      for (const index of indices) {
        const places = this.#granules.get(index)![kind];
        if (places === undefined) continue;
        for (let byte = 0; byte < boundsGranuleBytes; byte++) {
          if (places[byte] === 0) continue;
          const at = index * boundsGranuleBytes + byte;
          if (at !== end || lineOfPlace(places[byte]!) !== lineOfPlace(place)) {
            finish();
            begin = at;
            place = places[byte]!;
          }
          end = at + 1;
        }
      }
      finish();
    });
    return ranges.sort((a, b) => a.address < b.address ? -1 : a.address > b.address ? 1 : 0);
  }
}
