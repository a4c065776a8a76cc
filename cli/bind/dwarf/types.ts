/**
 * The types of C++ that debugging information describes.
 *
 * @module
 */
import { DwarfError } from "./bytes.ts";
import { attributes, encodings, tags } from "./constants.ts";
import { blockOf, type DebugInfo, type Entry, numberOf, stringOf } from "./entries.ts";
import { readableName } from "./names.ts";

/** A type of C++. */
export type CType =
  | ScalarType
  | EnumType
  | PointerType
  | ArrayType
  | StructType
  | { readonly kind: "const"; readonly type: CType }
  | { readonly kind: "typedef"; readonly name: string; readonly type: CType }
  | { readonly kind: "void" }
  | { readonly kind: "function" };

/** A number, a character or a bool. */
export interface ScalarType {
  readonly kind: "scalar";
  readonly name: string;
  readonly encoding: "boolean" | "float" | "signed" | "unsigned";
  readonly byteLength: number;
}

/** An enumeration. */
export interface EnumType {
  readonly kind: "enum";
  readonly name: string;
  readonly byteLength: number;
  readonly values: readonly { readonly name: string; readonly value: number }[];
}

/** A pointer or a reference. */
export interface PointerType {
  readonly kind: "pointer";
  readonly isReference: boolean;
  /** Read late, because a struct may have a pointer to itself. */
  target(): CType;
}

/** An array with a length for each dimension; 0 where it is not known. */
export interface ArrayType {
  readonly kind: "array";
  readonly element: CType;
  readonly lengths: readonly number[];
}

/** A struct, class or union. */
export interface StructType {
  readonly kind: "struct";
  readonly name: string;
  readonly isUnion: boolean;
  /** 0 if the source only declares it, or if the compiler has left its members out, because no kernel uses them. */
  readonly byteLength: number;
  readonly members: readonly Member[];
}

/** A member of a struct, or the base class of one. */
export interface Member {
  /** Undefined for an anonymous union or struct. */
  readonly name: string | undefined;
  readonly type: CType;
  /** Bytes from the start of the struct. */
  readonly offset: number;
  /** For bit fields: the first bit, from the start of the struct, and the number of bits. */
  readonly bits?: { readonly begin: number; readonly length: number };
  /** Whether it is a base class, whose name the member has. */
  readonly isBase?: true;
}

/** Deeper types are an error in the debugging information. */
const maximumDepth = 64;

const structTags: ReadonlySet<number> = new Set([tags.structureType, tags.classType, tags.unionType]);

/** Reads types. The same entry gives the same object. */
export class TypeReader {
  readonly #info: DebugInfo;
  readonly #types = new Map<Entry, CType>();
  readonly #pointers: Entry[] = [];
  #depth = 0;

  constructor(info: DebugInfo) {
    this.#info = info;
  }

  /**
   * The type that an entry's attribute refers to.
   *
   * @throws {DwarfError} If the type is malformed or not known
   */
  typeOf(entry: Entry): CType {
    const referred = this.#info.referred(entry, attributes.type);
    return referred === undefined ? { kind: "void" } : this.#read(referred);
  }

  /**
   * Reads the target types of all pointers so far, so that `target` does not throw later.
   *
   * @throws {DwarfError} If one of these types is malformed or not known
   */
  readTargets(): void {
    // More pointers are found on the way.
    for (const entry of this.#pointers) this.typeOf(entry);
  }

  #read(entry: Entry): CType {
    const known = this.#types.get(entry);
    if (known !== undefined) return known;
    if (++this.#depth > maximumDepth) throw new DwarfError(`the type at byte ${entry.offset} contains itself`);
    try {
      const type = this.#readNew(entry);
      this.#types.set(entry, type);
      return type;
    } finally {
      this.#depth--;
    }
  }

  #readNew(entry: Entry): CType {
    const name = stringOf(entry, attributes.name) ?? "";
    const byteLength = numberOf(entry, attributes.byteSize) ?? 0;
    switch (entry.tag) {
      case tags.baseType:
        return scalarType(entry, { name, byteLength });
      case tags.enumerationType:
        return { kind: "enum", name: readableName(name), byteLength, values: enumeratorsOf(entry) };
      case tags.pointerType:
      case tags.referenceType:
      case tags.rvalueReferenceType:
        this.#checkChain(entry);
        this.#pointers.push(entry);
        return {
          kind: "pointer",
          isReference: entry.tag !== tags.pointerType,
          target: () => this.typeOf(entry),
        };
      case tags.constType: {
        const type = this.typeOf(entry);
        return type.kind === "const" ? type : { kind: "const", type };
      }
      case tags.volatileType:
      case tags.restrictType:
      case tags.atomicType:
        return this.typeOf(entry);
      case tags.typedef:
        return { kind: "typedef", name: readableName(name), type: this.typeOf(entry) };
      case tags.arrayType:
        return this.#array(entry);
      case tags.structureType:
      case tags.classType:
      case tags.unionType:
        return this.#struct(entry, { name: readableName(name), byteLength });
      case tags.subroutineType:
        return { kind: "function" };
      case tags.unspecifiedType:
        return { kind: "void" };
      default:
        throw new DwarfError(`the type at byte ${entry.offset} has the tag 0x${entry.tag.toString(16)}`);
    }
  }

  /** Throws if a pointer points to itself through other types than a struct. */
  #checkChain(entry: Entry): void {
    let next: Entry | undefined = entry;
    for (let steps = 0; steps < maximumDepth; steps++) {
      next = this.#info.referred(next, attributes.type);
      if (next === undefined || structTags.has(next.tag)) return;
    }
    throw new DwarfError(`the pointer at byte ${entry.offset} points to itself`);
  }

  #array(entry: Entry): ArrayType {
    const element = this.typeOf(entry);
    const lengths = entry.children.filter(({ tag }) => tag === tags.subrangeType).map((range) => {
      const last = numberOf(range, attributes.upperBound);
      return numberOf(range, attributes.count) ?? (last === undefined ? 0 : last + 1);
    });
    if (lengths.length === 0 || !lengths.every((length) => Number.isSafeInteger(length) && length >= 0)) {
      throw new DwarfError(`the array at byte ${entry.offset} has the lengths ${lengths.join()}`);
    }
    return { kind: "array", element, lengths };
  }

  #struct(entry: Entry, { name, byteLength }: { name: string; byteLength: number }): StructType {
    const members: Member[] = [];
    for (const child of entry.children) {
      if (child.tag !== tags.member && child.tag !== tags.inheritance) continue;
      // A static member lies elsewhere.
      if (numberOf(child, attributes.external) !== undefined) continue;
      members.push(this.#member(child));
    }
    return { kind: "struct", name, isUnion: entry.tag === tags.unionType, byteLength, members };
  }

  #member(entry: Entry): Member {
    const type = this.typeOf(entry);
    const written = stringOf(entry, attributes.name);
    // NVIDIA's compilers write a base class as a member with a name of their own.
    const isBase = entry.tag === tags.inheritance || /^__b_\d/.test(written ?? "");
    const name = isBase && "name" in type ? type.name : written;
    const offset = memberOffset(entry);
    const bits = bitsOf(entry, { offset, byteLength: byteLengthOf(type) });
    return { name, type, offset, ...(bits === undefined ? {} : { bits }), ...(isBase ? { isBase } : {}) };
  }
}

/** The type without `const` and without the names that it was given. */
export function withoutNames(type: CType): Exclude<CType, { readonly kind: "const" | "typedef" }> {
  let result = type;
  while (result.kind === "const" || result.kind === "typedef") result = result.type;
  return result;
}

/** The size of a type in bytes; 0 if it is not known. */
export function byteLengthOf(type: CType): number {
  const plain = withoutNames(type);
  if (plain.kind === "pointer") return 8;
  if (plain.kind === "array") return plain.lengths.reduce((size, length) => size * length, byteLengthOf(plain.element));
  return "byteLength" in plain ? plain.byteLength : 0;
}

function scalarType(entry: Entry, { name, byteLength }: { name: string; byteLength: number }): ScalarType {
  const encoding = numberOf(entry, attributes.encoding);
  const meaning = encoding === encodings.boolean
    ? "boolean"
    : encoding === encodings.float
    ? "float"
    : encoding === encodings.signed || encoding === encodings.signedCharacter
    ? "signed"
    : "unsigned";
  return { kind: "scalar", name, encoding: meaning, byteLength };
}

function enumeratorsOf(entry: Entry): { name: string; value: number }[] {
  return entry.children.filter(({ tag }) => tag === tags.enumerator).map((child) => ({
    name: readableName(stringOf(child, attributes.name) ?? "").replace(/.*::/, ""),
    value: numberOf(child, attributes.constValue) ?? 0,
  }));
}

/** A number, or an expression that adds one to the struct's address. */
function memberOffset(entry: Entry): number {
  const block = blockOf(entry, attributes.dataMemberLocation);
  if (block === undefined) return numberOf(entry, attributes.dataMemberLocation) ?? 0;
  const plusConstant = 0x23;
  let [offset, factor] = [0, 1];
  for (const byte of block.subarray(1)) {
    offset += (byte & 127) * factor;
    factor *= 128;
  }
  if (block[0] !== plusConstant) throw new DwarfError(`the place of the member at byte ${entry.offset} is not known`);
  return offset;
}

/** The bits of a bit field. Undefined for any other member. */
function bitsOf(
  entry: Entry,
  { offset, byteLength }: { offset: number; byteLength: number },
): { begin: number; length: number } | undefined {
  const length = numberOf(entry, attributes.bitSize);
  if (length === undefined) return undefined;
  const begin = numberOf(entry, attributes.dataBitOffset);
  if (begin !== undefined) return { begin, length };
  // Before DWARF 4, bits were counted down from the most significant one of the member's type.
  const storage = numberOf(entry, attributes.byteSize) ?? byteLength;
  return { begin: 8 * (offset + storage) - (numberOf(entry, attributes.bitOffset) ?? 0) - length, length };
}
