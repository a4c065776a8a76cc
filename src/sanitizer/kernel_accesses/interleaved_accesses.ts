/**
 * Finds interleaved accesses, such as those to the fields of structs in an array: together they cover few ranges,
 * whereas each instruction alone accesses a separate range for each thread.
 *
 * @module
 */
import type { AccessPart, AccessParts, ThreadIndex } from "../../kernel_checker.ts";
import { type AffineForm, greatestDivisor, simplified } from "./domain.ts";
import { Budget, type ByteRange, coveredBytes, mergedRanges, TooManyRanges } from "./covered_bytes.ts";
import type { CertainAccess } from "./thread_state.ts";

/**
 * A byte range that one source line accesses in each period of a repeating access pattern. Its offsets are relative to
 * the start of the period.
 */
interface Field extends ByteRange {
  readonly line: number;
}

/** Accesses of several instructions to interleaved bytes, for example to the fields of structures in an array. */
export interface InterleavedAccesses {
  readonly base: number;
  readonly access: CertainAccess["access"];
  /** Accesses that replace `members`: one for each contiguous run of fields. */
  readonly records: readonly CertainAccess[];
  readonly fields: Fields;
  /** The original accesses, one for each instruction. */
  readonly members: readonly CertainAccess[];
  /** The byte ranges that all accesses together cover, as offsets from the base. */
  readonly ranges: readonly ByteRange[];
}

/** A repeating access pattern, which determines the source line that accesses each byte. */
export class Fields {
  /** The number of bytes after which the pattern repeats. */
  readonly period: number;
  /** The fields of one period, sorted and without overlaps. */
  readonly #fields: readonly Field[];

  constructor(period: number, fields: readonly Field[]) {
    this.period = period;
    this.#fields = fields;
  }

  /** Returns the PTX line of the instruction that accesses the byte at an offset. */
  lineAt(offset: number): number {
    for (const { line } of this.of(offset, offset + 1)) return line;
    throw new RangeError(`Cannot tell who accesses the byte at ${offset}: nothing does`);
  }

  /** Yields all fields of all periods that overlap a range, in ascending order. */
  *of(begin: number, end: number): Generator<Field> {
    for (let start = Math.floor(begin / this.period) * this.period; start < end; start += this.period) {
      for (const { begin: from, end: to, line } of this.#fields) {
        if (start + from >= end) return;
        if (start + to > begin) yield { begin: start + from, end: start + to, line };
      }
    }
  }
}

/**
 * The maximum number of fields, which are the distinct byte ranges within one period of a repeating access pattern. If
 * there are more, the accesses are not merged.
 */
const mostFields = 256;
/**
 * The maximum number of ranges that a group of interleaved accesses covers. If there are more, the accesses are not
 * merged.
 */
const mostRanges = 2048;

/**
 * Merges groups of interleaved accesses, which are accesses of the same kind whose addresses differ by constants.
 *
 * @returns the merged groups, and the accesses that belong to no group
 */
export function interleavedAccesses(
  certain: readonly CertainAccess[],
): { readonly interleaved: InterleavedAccesses[]; readonly others: CertainAccess[] } {
  const all: InterleavedAccesses[] = [], others: CertainAccess[] = [];
  for (const ofDomain of Map.groupBy(certain, ({ domain }) => domain).values()) {
    const groups = Map.groupBy(ofDomain, ({ access, form: { base, terms } }) => `${access} ${base} ${terms}`);
    for (const group of groups.values()) {
      const found = interleaved(group);
      if (found === undefined) others.push(...group);
      else all.push(found);
    }
  }
  return { interleaved: all, others };
}

function interleaved(group: readonly CertainAccess[]): InterleavedAccesses | undefined {
  const [{ domain, access, form: { base } }] = group as [CertainAccess];
  const forms = group.map(({ form }) => simplified(form, domain));
  const period = forms[0]!.terms.reduce(greatestDivisor, 0);
  const fields = period === 0 ? undefined : fieldsOf(group, forms, period);
  if (fields === undefined) return undefined;
  const bytes = group.map(({ byteLength }, index) => {
    const { constant } = forms[index]!;
    return { begin: constant, end: constant + byteLength };
  });
  const records = mergedRanges(bytes).map(({ begin, end }): CertainAccess => {
    return { ...group[0]!, form: { ...forms[0]!, constant: begin }, byteLength: end - begin };
  });
  try {
    const budget = new Budget(mostRanges);
    const ranges = mergedRanges(records.flatMap((record) => coveredBytes(record, budget)));
    if (ranges.length === 0) return undefined;
    return { base, access, records, fields: new Fields(period, fields), members: group, ranges };
  } catch (error) {
    if (error instanceof TooManyRanges) return undefined;
    throw error;
  }
}

/**
 * Returns the fields of a group of accesses. Undefined if there is only one field, if fields overlap, if there are more
 * than `mostFields`, or if a field extends into the next period.
 */
function fieldsOf(group: readonly CertainAccess[], forms: readonly AffineForm[], period: number): Field[] | undefined {
  const all = group.map(({ instruction: { line }, byteLength }, index): Field => {
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
  // Whether the last field extends into the next period, or is adjacent to a field of the same line there.
  const continues = last.end > period || last.end === period && first.begin === 0 && last.line === first.line;
  return fields.length < 2 || fields.length > mostFields || continues ? undefined : fields;
}

/**
 * Returns the parts of a range of interleaved accesses, each with its own source line.
 *
 * @param origin the offset from the base at which the range begins
 */
export function accessPartsOf(
  { fields }: InterleavedAccesses,
  { origin, sourceOf, firstOf }: {
    origin: number;
    sourceOf: (line: number) => string;
    /** Returns the first thread that accesses the byte at an offset. Undefined if that thread is unknown. */
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
