/**
 * Reads the C++ types that debug information describes.
 *
 * @module
 */
import { DwarfError } from "./bytes.ts";
import { attributes, encodings, tags } from "./constants.ts";
import { blockAttribute, type DebugInfo, type Entry, numberAttribute, stringAttribute } from "./entries.ts";
import { readableName } from "./names.ts";

/** A C++ type. */
export type CType =
  | BaseType
  | EnumType
  | PointerType
  | ArrayType
  | StructType
  | { readonly kind: "const"; readonly type: CType }
  | { readonly kind: "typedef"; readonly name: string; readonly type: CType }
  | { readonly kind: "void" }
  | { readonly kind: "function" };

/** A number, a character or a bool. */
export interface BaseType {
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
  /** Returns the type that is pointed to. It is read lazily, because a struct may contain a pointer to itself. */
  target(): CType;
}

/** An array. */
export interface ArrayType {
  readonly kind: "array";
  readonly element: CType;
  /** The length of each dimension, 0 if it is unknown. */
  readonly lengths: readonly number[];
}

/** A struct, class or union. */
export interface StructType {
  readonly kind: "struct";
  readonly name: string;
  readonly isUnion: boolean;
  /** The size in bytes. 0 if the type is only declared, or if the compiler omitted its members as unused. */
  readonly byteLength: number;
  readonly members: readonly Member[];
}

/** A member of a struct, or the base class of one. */
export interface Member {
  /** The name of the member. Undefined for an anonymous union or struct. */
  readonly name: string | undefined;
  readonly type: CType;
  /** The offset in bytes from the start of the struct. */
  readonly offset: number;
  /** The position of a bit field: the first bit, counted from the start of the struct, and the number of bits. */
  readonly bits?: { readonly begin: number; readonly length: number };
  /** Whether the member is a base class. `name` is then the name of the class. */
  readonly isBase?: true;
}

/** The maximum nesting depth of types. Debug information with deeper nesting is rejected as malformed. */
const maximumDepth = 64;

const structTags: ReadonlySet<number> = new Set([tags.structureType, tags.classType, tags.unionType]);

/** Reads C++ types from debug information. Reading an entry again returns the same object. */
export class TypeReader {
  readonly #info: DebugInfo;
  readonly #types = new Map<Entry, CType>();
  readonly #pointers: Entry[] = [];
  #depth = 0;

  constructor(info: DebugInfo) {
    this.#info = info;
  }

  /**
   * Returns the type that the type attribute of an entry refers to, `void` if there is none.
   *
   * @throws {DwarfError} If the type is malformed or of an unknown kind
   */
  typeOf(entry: Entry): CType {
    const referred = this.#info.referred(entry, attributes.type);
    return referred === undefined ? { kind: "void" } : this.#read(referred);
  }

  /**
   * Reads the target types of all pointer types read so far, so that `target` does not throw later.
   *
   * @throws {DwarfError} If one of these types is malformed or of an unknown kind
   */
  readTargets(): void {
    // Reading a target may add more pointers to the list.
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
    const name = stringAttribute(entry, attributes.name) ?? "";
    const byteLength = numberAttribute(entry, attributes.byteSize) ?? 0;
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

  /** Throws if a pointer type refers to itself without a struct in between. */
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
      const last = numberAttribute(range, attributes.upperBound);
      return numberAttribute(range, attributes.count) ?? (last === undefined ? 0 : last + 1);
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
      // Static members are not stored in the struct.
      if (numberAttribute(child, attributes.external) !== undefined) continue;
      members.push(this.#member(child));
    }
    return { kind: "struct", name, isUnion: entry.tag === tags.unionType, byteLength, members };
  }

  #member(entry: Entry): Member {
    const type = this.typeOf(entry);
    const written = stringAttribute(entry, attributes.name);
    // NVIDIA's compilers describe a base class as a member with a name that begins with `__b_`.
    const isBase = entry.tag === tags.inheritance || /^__b_\d/.test(written ?? "");
    const name = isBase && "name" in type ? type.name : written;
    const offset = memberOffset(entry);
    const bits = bitsOf(entry, { offset, byteLength: byteLengthOfType(type) });
    return { name, type, offset, ...(bits === undefined ? {} : { bits }), ...(isBase ? { isBase } : {}) };
  }
}

/** Returns the type without `const` qualifiers and typedefs. */
export function withoutNames(type: CType): Exclude<CType, { readonly kind: "const" | "typedef" }> {
  let result = type;
  while (result.kind === "const" || result.kind === "typedef") result = result.type;
  return result;
}

/** Returns the size of a type in bytes, 0 if it is unknown. */
export function byteLengthOfType(type: CType): number {
  const plain = withoutNames(type);
  if (plain.kind === "pointer") return 8;
  if (plain.kind === "array") {
    return plain.lengths.reduce((size, length) => size * length, byteLengthOfType(plain.element));
  }
  return "byteLength" in plain ? plain.byteLength : 0;
}

function scalarType(entry: Entry, { name, byteLength }: { name: string; byteLength: number }): BaseType {
  const encoding = numberAttribute(entry, attributes.encoding);
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
    name: readableName(stringAttribute(child, attributes.name) ?? "").replace(/.*::/, ""),
    value: numberAttribute(child, attributes.constValue) ?? 0,
  }));
}

/**
 * Returns the offset of a member in bytes. The entry contains it as a number, or as an expression that adds a constant.
 */
function memberOffset(entry: Entry): number {
  const block = blockAttribute(entry, attributes.dataMemberLocation);
  if (block === undefined) return numberAttribute(entry, attributes.dataMemberLocation) ?? 0;
  const plusConstant = 0x23;
  let [offset, factor] = [0, 1];
  for (const byte of block.subarray(1)) {
    offset += (byte & 127) * factor;
    factor *= 128;
  }
  if (block[0] !== plusConstant) throw new DwarfError(`the place of the member at byte ${entry.offset} is not known`);
  return offset;
}

/** Returns the position of a bit field. Undefined for any other member. */
function bitsOf(
  entry: Entry,
  { offset, byteLength }: { offset: number; byteLength: number },
): { begin: number; length: number } | undefined {
  const length = numberAttribute(entry, attributes.bitSize);
  if (length === undefined) return undefined;
  const begin = numberAttribute(entry, attributes.dataBitOffset);
  if (begin !== undefined) return { begin, length };
  // Before DWARF 4, the offset counts from the most significant bit of the member's type.
  const storage = numberAttribute(entry, attributes.byteSize) ?? byteLength;
  return { begin: 8 * (offset + storage) - (numberAttribute(entry, attributes.bitOffset) ?? 0) - length, length };
}
