/**
 * Instructions that access memory in turns, as those that access the fields of structs in an array: all of their bytes
 * together are few ranges, where those of each alone are one for each thread.
 *
 * @module
 */
import type { AccessPart, AccessParts, ThreadIndex } from "../../driver.ts";
import type { AffineForm } from "./affine_form.ts";
import { type Budget, type ByteRange, coveredBytes, joined, TooManyRanges } from "./covered_bytes.ts";
import { greatestDivisor, simplified } from "./domain.ts";
import type { CertainAccess } from "./thread_state.ts";

/** The bytes that an instruction accesses in each period. */
interface Field extends ByteRange {
  readonly line: number;
}

/** What several instructions access in turns. */
export interface InterleavedAccesses {
  readonly base: number;
  readonly access: CertainAccess["access"];
  /** What they access at one point of their domain, as far as it is contiguous. */
  readonly records: readonly CertainAccess[];
  readonly fields: Fields;
  readonly ranges: readonly ByteRange[];
}

/** Which instruction accesses which bytes: the same in each period. */
export class Fields {
  readonly period: number;
  /** In order. None overlap. */
  readonly #fields: readonly Field[];

  constructor(period: number, fields: readonly Field[]) {
    this.period = period;
    this.#fields = fields;
  }

  /** The line of the instruction that accesses a byte. */
  lineAt(offset: number): number {
    for (const { line } of this.of(offset, offset + 1)) return line;
    throw new RangeError(`Cannot tell who accesses the byte at ${offset}: nothing does`);
  }

  /** Those that have any of some bytes, in order. */
  *of(begin: number, end: number): Generator<Field> {
    for (let turn = Math.floor(begin / this.period) * this.period; turn < end; turn += this.period) {
      for (const { begin: from, end: to, line } of this.#fields) {
        if (turn + from >= end) return;
        if (turn + to > begin) yield { begin: turn + from, end: turn + to, line };
      }
    }
  }
}

/** With fewer ranges, each instruction's are listed alone. */
export const manyRanges = 2048;
/** More fields than these take too long to look through. */
const mostFields = 256;

/**
 * Puts accesses together whose addresses differ by constants.
 *
 * @returns those that could be, and the others
 */
export function interleavedAccesses(
  certain: readonly CertainAccess[],
  budget: Budget,
): { readonly together: InterleavedAccesses[]; readonly alone: CertainAccess[] } {
  const together: InterleavedAccesses[] = [], alone: CertainAccess[] = [];
  for (const ofDomain of Map.groupBy(certain, ({ domain }) => domain).values()) {
    const groups = Map.groupBy(ofDomain, ({ access, form: { base, terms } }) => `${access} ${base} ${terms}`);
    for (const group of groups.values()) {
      const found = interleaved(group, budget);
      if (found === undefined) alone.push(...group);
      else together.push(found);
    }
  }
  return { together, alone };
}

function interleaved(group: readonly CertainAccess[], budget: Budget): InterleavedAccesses | undefined {
  const [{ domain, access, form: { base } }] = group as [CertainAccess];
  const forms = group.map(({ form }) => simplified(form, domain));
  const period = forms[0]!.terms.reduce(greatestDivisor, 0);
  const fields = period === 0 ? undefined : fieldsOf(group, forms, period);
  if (fields === undefined) return undefined;
  const bytes = group.map(({ byteLength }, index) => {
    const { constant } = forms[index]!;
    return { begin: constant, end: constant + byteLength };
  });
  const records = joined(bytes).map(({ begin, end }): CertainAccess => {
    return { ...group[0]!, form: { ...forms[0]!, constant: begin }, byteLength: end - begin };
  });
  try {
    const ranges = joined(records.flatMap((record) => coveredBytes(record, budget)));
    return ranges.length === 0 ? undefined : { base, access, records, fields: new Fields(period, fields), ranges };
  } catch (error) {
    if (error instanceof TooManyRanges) return undefined;
    throw error;
  }
}

/** Undefined if there is only one instruction, or if several access the same bytes. */
function fieldsOf(group: readonly CertainAccess[], forms: readonly AffineForm[], period: number): Field[] | undefined {
  const all = group.map(({ step: { line }, byteLength }, index): Field => {
    const begin = forms[index]!.constant - Math.floor(forms[index]!.constant / period) * period;
    return { begin, end: begin + byteLength, line };
  }).sort((a, b) => a.begin - b.begin || a.end - b.end);
  const fields: { begin: number; end: number; line: number }[] = [];
  for (const field of all) {
    const last = fields.at(-1);
    if (last !== undefined && last.line === field.line && last.end >= field.begin) {
      last.end = Math.max(last.end, field.end);
    } else if (last !== undefined && last.end > field.begin) return undefined;
    else fields.push({ ...field });
  }
  const [first, last] = [fields[0]!, fields.at(-1)!];
  const isOverlapping = last.end > period || last.end === period && first.begin === 0 && last.line === first.line;
  return fields.length < 2 || fields.length > mostFields || isOverlapping ? undefined : fields;
}

/**
 * Who accesses the parts of a range.
 *
 * @param origin where the range begins, as the accesses count it
 */
export function partsOf(
  { fields }: InterleavedAccesses,
  { origin, sourceOf, firstOf }: {
    origin: number;
    sourceOf: (line: number) => string;
    /** The thread that accesses the first of some bytes. */
    firstOf?: (at: number) => ThreadIndex | undefined;
  },
): AccessParts {
  return {
    period: fields.period,
    *of(begin, end): Generator<AccessPart> {
      for (const field of fields.of(origin + begin, origin + end)) {
        yield {
          begin: field.begin - origin,
          end: field.end - origin,
          source: sourceOf(field.line),
          first: firstOf?.(field.begin),
        };
      }
    },
  };
}
