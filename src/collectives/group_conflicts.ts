/**
 * Calls of a group that need the same memory: they have no order among themselves.
 *
 * @module
 */
import type { Collective } from "./collective_group.ts";

/** What a call reads or writes. Addresses are exact as numbers. */
interface Used {
  readonly collective: Collective;
  readonly begin: number;
  readonly end: number;
  readonly isWritten: boolean;
}

/**
 * Throws if a call writes what another one reads or writes.
 *
 * @throws {RangeError} which names both
 */
export function checkGroupApart(group: readonly Collective[]): void {
  const used = group.flatMap(rangesOf).sort((one, other) => one.begin - other.begin);
  // Those that reach furthest of what begins before.
  let last: Used | undefined, lastWritten: Used | undefined;
  for (const range of used) {
    const earlier = range.isWritten ? last : lastWritten;
    if (earlier !== undefined && range.begin < earlier.end) throw conflict(earlier, range);
    if (range.end > (last?.end ?? 0)) last = range;
    if (range.isWritten && range.end > (lastWritten?.end ?? 0)) lastWritten = range;
  }
}

function rangesOf(collective: Collective): Used[] {
  const { call, used: { source, readByteLength, target, writtenByteLength } } = collective;
  const rangeOf = (address: bigint, byteLength: number, isWritten: boolean): Used => {
    const begin = Number(address);
    return { collective, begin, end: begin + byteLength, isWritten };
  };
  const read = source === undefined ? undefined : rangeOf(call.source, readByteLength, false);
  const written = target === undefined ? undefined : rangeOf(call.target, writtenByteLength, true);
  const isInPlace = read !== undefined && written !== undefined && read.begin < written.end && written.begin < read.end;
  // In place, one contains the other.
  const ranges = isInPlace
    ? [{ ...written, begin: Math.min(read.begin, written.begin), end: Math.max(read.end, written.end) }]
    : [read, written];
  return ranges.filter((range) => range !== undefined && range.begin < range.end) as Used[];
}

function conflict(earlier: Used, later: Used): RangeError {
  const [writer, other] = later.isWritten ? [later, earlier] : [earlier, later];
  const nameOf = ({ collective: { name, issuer } }: Used) => `${name} of ${issuer.name}`;
  return new RangeError(
    `Cannot group ${nameOf(writer)} with ${nameOf(other)}: it writes what the other one ` +
      `${
        other.isWritten ? "writes, too" : "reads"
      }, and the calls of a group have no order; give each its own buffer, or ` +
      "make two groups",
  );
}
