/**
 * Names memory in messages: the buffer that contains an address, or the nearest buffer.
 *
 * @module
 */

/** Describes the memory at offsets in linear memory, for error messages. */
export interface MemoryNames {
  /** Describes the position of an invalid access relative to the nearest buffer. Undefined if no buffer is near. */
  position(offset: number, byteLength: number): string | undefined;
  /**
   * Returns the number of bytes from an offset to the end of the buffer that contains the offset. Undefined if no
   * buffer contains the offset.
   */
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
  /** The reason why kernels cannot access the range, for messages. Undefined if kernels can access the range. */
  readonly reason?: string | undefined;
  /** The kind of error that an access to the range constitutes. Undefined if kernels may access the range. */
  readonly mistake?: "inaccessible" | "use-before-allocation" | "use-after-free" | undefined;
}

/** The maximum distance in bytes from an access to the buffer that a message about the access mentions. */
const nearBytes = 2 ** 20;

/** Describes the position of an access relative to a range: "68 bytes past the end of a buffer". */
export function positionOf(
  access: ByteRange,
  { begin = 0, byteLength, name, reason }: Omit<NamedRange, "begin"> & { readonly begin?: number },
): string {
  const end = begin + byteLength;
  const accessEnd = access.begin + access.byteLength;
  // Offsets in shared and local memory wrap around at 32 bits, so an offset of at least 2 GiB is before the start.
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

/** Describes the position of an access relative to the nearest of the given ranges. Undefined if none is near. */
export function nearestOf(access: ByteRange, ranges: Iterable<NamedRange>): string | undefined {
  const nearest = nearestRange(access, ranges);
  return nearest === undefined ? undefined : positionOf(access, nearest);
}

/**
 * Returns the range nearest to an access, or the first of them if several have the same distance. Returns undefined if
 * no range is near.
 */
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

/** The kinds of freed memory. */
export const freedKinds = ["buffer", "hostBuffer", "imported", "pageLocked"] as const;
/** A kind of freed memory. */
export type FreedKind = typeof freedKinds[number];

/** Memory that was freed. */
export interface FreedRange extends ByteRange {
  readonly kind: FreedKind;
  readonly device: number;
}

/** The last 256 ranges that were freed. Stored in a typed array, so that recording a freed range is fast. */
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

  /** Yields the ranges, starting with the one that was freed last. */
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
