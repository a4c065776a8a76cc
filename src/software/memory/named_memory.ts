/**
 * Names memory in messages: the buffer that an address lies in, or the nearest one.
 *
 * @module
 */

/** Names the memory at offsets in linear memory. */
export interface MemoryNames {
  /** Names the memory that an access has not found. Undefined if no buffer is near. */
  position(offset: number, byteLength: number): string | undefined;
  /** The number of bytes from an offset to the end of the buffer there. Undefined if there is none. */
  bytesFrom(offset: number): number | undefined;
}

/** A range of bytes. */
interface ByteRange {
  readonly begin: number;
  readonly byteLength: number;
}

/** A range with a name, such as "a buffer of 4096 bytes on device 0". */
export interface NamedRange extends ByteRange {
  readonly name: string;
  /** What else to say if the range contains the whole access: why it is not accessible. */
  readonly reason?: string | undefined;
  /** Which mistake it is to access the range. Undefined if kernels may. */
  readonly mistake?: "inaccessible" | "use-before-allocation" | "use-after-free" | undefined;
}

/** Memory further away from an address has most likely nothing to do with it. */
const nearBytes = 2 ** 20;

/** Where an access lies, seen from a range: "68 bytes past the end of a buffer". */
export function positionOf(
  access: ByteRange,
  { begin = 0, byteLength, name, reason }: Omit<NamedRange, "begin"> & { readonly begin?: number },
): string {
  const end = begin + byteLength;
  const accessEnd = access.begin + access.byteLength;
  // Offsets in shared and local memory wrap around at 32 bits.
  const before = begin === 0 && access.begin >= 2 ** 31 ? 2 ** 32 - access.begin : begin - access.begin;
  if (before > 0) return `${count(before)} before ${name}`;
  const past = /^the \d/.test(name) ? "past" : "past the end of";
  if (access.begin > end) return `${count(access.begin - end)} ${past} ${name}`;
  if (access.begin === end) return `right ${past} ${name}`;
  if (accessEnd > end) return `the last ${accessEnd - end} of them ${past} ${name}`;
  const offset = access.begin - begin;
  return `${offset === 0 ? "at the start of" : `${count(offset)} into`} ${name}${
    reason === undefined ? "" : `, ${reason}`
  }`;
}

function count(bytes: number): string {
  return bytes === 1 ? "1 byte" : `${bytes} bytes`;
}

/** Where an access lies, seen from the nearest of some ranges. */
export function nearestOf(access: ByteRange, ranges: Iterable<NamedRange>): string | undefined {
  const nearest = nearestRange(access, ranges);
  return nearest === undefined ? undefined : positionOf(access, nearest);
}

/** The nearest of some ranges. The first of equally near ones counts. */
export function nearestRange(access: ByteRange, ranges: Iterable<NamedRange>): NamedRange | undefined {
  let nearest: NamedRange | undefined;
  let least = nearBytes;
  for (const range of ranges) {
    const distance = Math.max(
      0,
      range.begin - (access.begin + access.byteLength) + 1,
      access.begin - (range.begin + range.byteLength) + 1,
    );
    if (distance >= least) continue;
    nearest = range;
    least = distance;
  }
  return nearest;
}

/** What kind of memory was freed. */
export const freedKinds = ["buffer", "hostBuffer", "imported", "pageLocked"] as const;
/** A kind of memory that was freed. */
export type FreedKind = typeof freedKinds[number];

/** Memory that was freed. */
export interface FreedRange extends ByteRange {
  readonly kind: FreedKind;
  readonly device: number;
}

/** The ranges that were freed last. They are kept in a typed array, because frees must be fast. */
export class FreedRanges {
  readonly #numbers = new Float64Array(4 * 256);
  #next = 0;

  add(begin: number, byteLength: number, kind: FreedKind, device: number): void {
    const at = this.#next;
    this.#numbers[at] = begin;
    this.#numbers[at + 1] = byteLength;
    this.#numbers[at + 2] = freedKinds.indexOf(kind);
    this.#numbers[at + 3] = device;
    this.#next = (at + 4) % this.#numbers.length;
  }

  /** The ranges, the latest first. */
  *[Symbol.iterator](): Generator<FreedRange> {
    const { length } = this.#numbers;
    for (let back = 4; back <= length; back += 4) {
      const at = (this.#next - back + length) % length;
      const [begin, byteLength, kind, device] = this.#numbers.subarray(at, at + 4) as unknown as [
        begin: number,
        byteLength: number,
        kind: number,
        device: number,
      ];
      if (byteLength === 0) return;
      yield { begin, byteLength, kind: freedKinds[kind]!, device };
    }
  }
}
