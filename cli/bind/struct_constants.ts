/**
 * Computes the arguments of `struct` that reproduce the layout of C++ structs.
 *
 * @module
 */
import { declare } from "./c_declarations.ts";
import { byteLengthOfType, type CType, type Member, type StructType, withoutNames } from "./dwarf/types.ts";
import type { Identifiers } from "./identifiers.ts";
import { ptxTypeOf, vectorAlignment } from "./scalars.ts";

/** A constant for a struct in the generated module. */
export interface StructConstant {
  readonly name: string;
  readonly type: StructType;
  readonly fields: readonly Field[];
  readonly byteLength: number;
  readonly alignment: number;
  /** The alignment to pass to `struct`. Undefined if it follows from the fields. */
  readonly givenAlignment: number | undefined;
}

/** A field of a struct constant. */
export interface Field {
  readonly name: string;
  /** The type as TypeScript source: `"f32"` with quotation marks, or the name of another constant. */
  readonly type: string;
  /** The number of elements if the field is an array. */
  readonly count: number | undefined;
  /** A comment with details of the C++ type that `name` and `type` do not show. */
  readonly comment: string | undefined;
}

/** A field with its offset, size and alignment in bytes. */
interface PlacedField extends Field {
  readonly offset: number;
  readonly byteLength: number;
  readonly alignment: number;
}

/** The type of a field's elements: a scalar, or another constant. */
interface Element {
  readonly type: string;
  readonly byteLength: number;
  readonly alignment: number;
}

type Layout = Omit<StructConstant, "name" | "type">;

/**
 * The constants for structs, which are created on first use. A constant is ordered after the constants that it refers
 * to.
 */
export class StructConstants {
  readonly #identifiers: Identifiers;
  readonly #alignments: ReadonlyMap<StructType, number>;
  readonly #constants = new Map<StructType, StructConstant | undefined>();

  /**
   * @param alignments the alignments of structs according to the PTX, since debug information contains no alignments
   */
  constructor(identifiers: Identifiers, alignments: ReadonlyMap<StructType, number>) {
    this.#identifiers = identifiers;
    this.#alignments = alignments;
  }

  /** All constants created so far. */
  get all(): StructConstant[] {
    return [...this.#constants.values()].filter((constant) => constant !== undefined);
  }

  /**
   * Returns the constant for a struct. Undefined if `struct` cannot reproduce the layout of the type: a union, a packed
   * struct, or a struct that is only declared.
   */
  constantFor(type: StructType): StructConstant | undefined {
    if (this.#constants.has(type)) return this.#constants.get(type);
    const layout = type.isUnion || type.byteLength === 0 ? undefined : this.#layout(type);
    const constant = layout === undefined ? undefined : { ...layout, name: this.#identifiers.take(type.name), type };
    this.#constants.set(type, constant);
    return constant;
  }

  /**
   * Computes the fields of a struct. A base class becomes one field, or one field per member if other members are
   * stored in the base class's padding.
   */
  #layout(type: StructType): Layout | undefined {
    return this.#layoutOf(type, type.members) ?? this.#layoutOf(type, flatten(type.members));
  }

  #layoutOf(type: StructType, members: readonly Member[]): Layout | undefined {
    const fields: PlacedField[] = [];
    let [end, alignment] = [0, 1];
    const append = (field: PlacedField): boolean => {
      if (field.offset > roundUp(end, field.alignment)) fields.push(padding(end, field.offset - end));
      else if (field.offset < end) return false;
      end = field.offset + field.byteLength;
      alignment = Math.max(alignment, field.alignment);
      fields.push(field);
      return field.offset % field.alignment === 0;
    };
    for (const field of this.#fieldsOf(type, members)) if (!append(field)) return undefined;
    const given = this.#alignments.get(type) ?? vectorAlignment(type) ?? alignmentFor(type, { end, alignment });
    const total = Math.max(given, alignment);
    // `struct` cannot reproduce the layout of a packed struct.
    if (given < alignment || end > type.byteLength || type.byteLength % total !== 0) return undefined;
    if (roundUp(Math.max(end, 1), total) !== type.byteLength) append(padding(end, type.byteLength - end));
    const names = new Map<string, number>();
    return {
      fields: fields.map((field) => ({ ...field, name: distinct(field.name, names) })),
      byteLength: type.byteLength,
      alignment: total,
      givenAlignment: total === alignment ? undefined : total,
    };
  }

  #fieldsOf(type: StructType, unsorted: readonly Member[]): PlacedField[] {
    const members = unsorted.toSorted((a, b) => firstByte(a) - firstByte(b) || firstBit(a) - firstBit(b));
    const fields: PlacedField[] = [];
    for (let index = 0; index < members.length; index++) {
      const member = members[index]!;
      if (member.bits === undefined) {
        const field = this.#field(member);
        if (field !== undefined) fields.push(field);
        continue;
      }
      const run = [member];
      while (members[index + 1]?.bits !== undefined) run.push(members[++index]!);
      const next = members[index + 1];
      fields.push(...bitFields(run, next === undefined ? type.byteLength : firstByte(next)));
    }
    return fields;
  }

  /** Returns the field for a member. Undefined for an array of unknown length, which has no size. */
  #field({ name = "", type, offset }: Member): PlacedField | undefined {
    const plain = withoutNames(type);
    const lengths = plain.kind === "array" ? plain.lengths : [];
    const count = lengths.reduce((product, length) => product * length, 1);
    if (count === 0) return undefined;
    const element = this.#element(plain.kind === "array" ? plain.element : plain);
    const total = element.count * count;
    return {
      name: name === "" ? `unnamed${offset}` : name,
      type: element.type,
      count: plain.kind === "array" || element.count > 1 ? total : undefined,
      comment: commentOf(type, name, lengths),
      offset,
      byteLength: element.byteLength * total,
      alignment: element.alignment,
    };
  }

  #element(type: CType): Element & { readonly count: number } {
    const plain = withoutNames(type);
    const scalar = ptxTypeOf(plain);
    if (scalar !== undefined) {
      const byteLength = Number(scalar.slice(1)) / 8;
      return { type: `"${scalar}"`, byteLength, alignment: byteLength, count: 1 };
    }
    if (plain.kind === "array") {
      const element = this.#element(plain.element);
      return { ...element, count: plain.lengths.reduce((product, length) => product * length, element.count) };
    }
    if (plain.kind === "struct") {
      const constant = this.constantFor(plain);
      if (constant !== undefined) return { ...constant, type: constant.name, count: 1 };
    }
    return bits(byteLengthOfType(plain), this.#naturalAlignment(plain));
  }

  /** Returns the alignment in bytes of a type that has no constant. */
  #naturalAlignment(type: CType): number {
    const plain = withoutNames(type);
    if (plain.kind !== "struct") return plain.kind === "scalar" ? plain.byteLength : 1;
    const known = this.#alignments.get(plain);
    if (known !== undefined) return known;
    const ofMembers = plain.members.map(({ type }) => this.#element(type).alignment);
    const natural = Math.max(1, ...ofMembers);
    return plain.byteLength % natural === 0 ? natural : 1;
  }
}

/** Returns an opaque element (`b8` to `b64`) for bytes whose type `struct` does not support. */
function bits(byteLength: number, alignment: number): Element & { readonly count: number } {
  const size = [8, 4, 2].find((size) => size <= alignment && byteLength % size === 0) ?? 1;
  return { type: `"b${8 * size}"`, byteLength: size, alignment: size, count: Math.max(1, byteLength / size) };
}

/** Returns `members` with each base class replaced by its own members, recursively. */
function flatten(members: readonly Member[], base = 0): Member[] {
  return members.flatMap((member) => {
    const offset = base + member.offset;
    const type = withoutNames(member.type);
    if (member.isBase && type.kind === "struct") return flatten(type.members, offset);
    if (member.bits === undefined) return [{ ...member, offset }];
    return [{ ...member, offset, bits: { ...member.bits, begin: member.bits.begin + 8 * base } }];
  });
}

function firstByte({ offset, bits }: Member): number {
  return bits === undefined ? offset : Math.floor(bits.begin / 8);
}

function firstBit({ offset, bits }: Member): number {
  return bits === undefined ? 8 * offset : bits.begin;
}

/**
 * Returns the fields that hold a run of adjacent bit fields: integers as large as the bit fields' types, or bytes where
 * such an integer would be misaligned, would split a bit field, or would overlap another member.
 *
 * @param end the offset in bytes of the next member, which the fields must not overlap
 */
function bitFields(run: readonly Member[], end: number): PlacedField[] {
  const fields: PlacedField[] = [];
  let rest = run;
  while (rest.length > 0) {
    const begin = firstByte(rest[0]!);
    const size = [8, 4, 2].find((size) => {
      const isUsed = rest.some(({ type, bits }) => byteLengthOfType(type) === size && bits!.begin < 8 * (begin + size));
      const isCut = rest.some(({ bits }) =>
        bits!.begin < 8 * (begin + size) && bits!.begin + bits!.length > 8 * (begin + size)
      );
      return isUsed && !isCut && begin % size === 0 && begin + size <= end;
    });
    const last = size === undefined ? lastByteOf(rest) : begin + size;
    const inside = rest.filter(({ bits }) => bits!.begin < 8 * last);
    rest = rest.slice(inside.length);
    const named = inside.filter(({ name }) => name !== undefined);
    fields.push({
      name: named.map(({ name }) => name).join("_") || `unnamed${begin}`,
      type: `"u${8 * (size ?? 1)}"`,
      count: size === undefined && last - begin > 1 ? last - begin : undefined,
      comment: named.map(({ name, bits }) => {
        const first = bits!.begin - 8 * begin;
        return bits!.length === 1 ? `${name}: bit ${first}` : `${name}: bits ${first} to ${first + bits!.length - 1}`;
      }).join(", "),
      offset: begin,
      byteLength: last - begin,
      alignment: size ?? 1,
    });
  }
  return fields;
}

/**
 * Returns the offset in bytes of the end of the first group of bit fields in `run`. A group ends before the first bit
 * field that shares no byte with the preceding bit fields.
 */
function lastByteOf(run: readonly Member[]): number {
  let end = 0;
  for (const { bits } of run) {
    if (end > 0 && bits!.begin >= 8 * end) break;
    end = Math.ceil((bits!.begin + bits!.length) / 8);
  }
  return end;
}

function padding(offset: number, byteLength: number): PlacedField {
  return {
    name: `padding${offset}`,
    type: '"u8"',
    count: byteLength,
    comment: undefined,
    offset,
    byteLength,
    alignment: 1,
  };
}

/**
 * Returns the smallest alignment for which padding a struct from `end` bytes results in its actual size, or `alignment`
 * if no alignment does.
 */
function alignmentFor({ byteLength }: StructType, { end, alignment }: { end: number; alignment: number }): number {
  for (let larger = alignment; larger <= 256; larger *= 2) {
    if (roundUp(Math.max(end, 1), larger) === byteLength) return larger;
  }
  return alignment;
}

/**
 * Returns a comment with details that a field's PTX type does not show: the target of a pointer, the dimensions of an
 * array, or the members of a union.
 */
function commentOf(type: CType, name: string, lengths: readonly number[]): string | undefined {
  const plain = withoutNames(type);
  const isUnion = plain.kind === "struct" && plain.isUnion;
  if (isUnion) return `union of ${plain.members.map(({ name = "", type }) => declare(type, name)).join(", ")}`;
  const isDeclared = plain.kind === "pointer" || plain.kind === "enum" || lengths.length > 1 ||
    ["bool", "__nv_bfloat16", "char"].includes("name" in plain ? plain.name : "");
  return isDeclared ? declare(type, name) : undefined;
}

function distinct(name: string, names: Map<string, number>): string {
  const safe = name === "__proto__" ? "proto" : name;
  const count = (names.get(safe) ?? 0) + 1;
  names.set(safe, count);
  return count === 1 ? safe : `${safe}_${count}`;
}

function roundUp(value: number, alignment: number): number {
  return Math.ceil(value / alignment) * alignment;
}
