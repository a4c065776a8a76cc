/**
 * Reads the entries of `.debug_info`, which form a tree. Each describes, for example, a type, a function or a
 * parameter.
 *
 * @module
 */
import { ByteReader, DwarfError } from "./bytes.ts";
import { attributes, forms, type tags } from "./constants.ts";
import type { DebugSections, Section } from "./sections.ts";

/** The value of an attribute. */
type AttributeValue = number | string | Uint8Array | { readonly reference: number } | { readonly label: string };

/** A debugging information entry. */
export interface Entry {
  /** The offset in `.debug_info`, by which other entries refer to this one. */
  readonly offset: number;
  readonly tag: number;
  readonly values: ReadonlyMap<number, AttributeValue>;
  readonly children: readonly Entry[];
  readonly parent: Entry | undefined;
}

/** The entries of `.debug_info`. */
export class DebugInfo {
  /** The root entries, one per compilation unit. */
  readonly units: readonly Entry[];
  readonly #entries = new Map<number, Entry>();

  /**
   * @throws {DwarfError} If the sections are malformed
   */
  constructor({ sections }: DebugSections) {
    const info = sections.get(".debug_info");
    this.units = info === undefined ? [] : readUnits(info, sections);
    const queue = [...this.units];
    for (const entry of queue) {
      this.#entries.set(entry.offset, entry);
      for (const child of entry.children) queue.push(child);
    }
  }

  /** Yields all entries with a tag, at any depth. */
  *withTag(tag: (typeof tags)[keyof typeof tags]): Iterable<Entry> {
    for (const entry of this.#entries.values()) if (entry.tag === tag) yield entry;
  }

  /**
   * Returns the entry that an attribute refers to. Undefined if the attribute is missing.
   *
   * @throws {DwarfError} If the attribute refers to no entry
   */
  referred(entry: Entry, attribute: number): Entry | undefined {
    const value = entry.values.get(attribute);
    if (typeof value !== "object" || !("reference" in value)) return undefined;
    const referred = this.#entries.get(value.reference);
    if (referred === undefined) throw new DwarfError(`there is no entry at byte ${value.reference} of .debug_info`);
    return referred;
  }
}

/** Returns the value of an attribute if it is a string. */
export function stringAttribute(entry: Entry, attribute: number): string | undefined {
  const value = entry.values.get(attribute);
  return typeof value === "string" ? value : undefined;
}

/** Returns the value of an attribute if it is a number. */
export function numberAttribute(entry: Entry, attribute: number): number | undefined {
  const value = entry.values.get(attribute);
  return typeof value === "number" ? value : undefined;
}

/** Returns the label of an attribute if its value is an address in code. */
export function labelAttribute(entry: Entry, attribute: number): string | undefined {
  const value = entry.values.get(attribute);
  return typeof value === "object" && "label" in value ? value.label : undefined;
}

/** Returns the bytes of an attribute if its value is a block or an expression. */
export function blockAttribute(entry: Entry, attribute: number): Uint8Array | undefined {
  const value = entry.values.get(attribute);
  return value instanceof Uint8Array ? value : undefined;
}

/** An item of an abbreviation table: the encoding of the entries with one abbreviation code. */
interface Abbreviation {
  readonly tag: number;
  readonly hasChildren: boolean;
  readonly attributes: readonly { readonly attribute: number; readonly form: number; readonly constant: number }[];
}

/** A compilation unit that is being read. */
interface Unit {
  readonly reader: ByteReader;
  readonly info: Section;
  readonly sections: ReadonlyMap<string, Section>;
  readonly begin: number;
  readonly version: number;
  readonly addressSize: number;
  readonly offsetSize: number;
}

function readUnits(info: Section, sections: ReadonlyMap<string, Section>): Entry[] {
  const units: Entry[] = [];
  let begin = 0;
  while (begin < info.bytes.length) {
    const head = new ByteReader(info.bytes, { begin });
    const is64 = head.u32() === 0xffffffff;
    if (!is64) head.offset = begin;
    const length = is64 ? Number(head.u64()) : head.u32();
    const end = head.offset + length;
    if (length === 0 || end > info.bytes.length) {
      throw new DwarfError(`the unit at byte ${begin} has a length of ${length}`);
    }
    const reader = new ByteReader(info.bytes, { begin: head.offset, end });
    const version = reader.u16();
    if (version < 2 || version > 5) throw new DwarfError(`DWARF ${version} is not known`);
    const offsetSize = is64 ? 8 : 4;
    let addressSize: number;
    let abbreviationOffset: number;
    let isCode = true;
    if (version >= 5) {
      const kind = reader.u8();
      // Only compile units and partial units describe kernels.
      isCode = kind === 1 || kind === 3;
      addressSize = reader.u8();
      abbreviationOffset = reader.unsigned(offsetSize);
    } else {
      abbreviationOffset = reader.unsigned(offsetSize);
      addressSize = reader.u8();
    }
    if (isCode) {
      const abbreviations = readAbbreviations(sections.get(".debug_abbrev"), abbreviationOffset);
      const unit = { reader, info, sections, begin, version, addressSize, offsetSize };
      for (const entry of readEntries(unit, abbreviations)) units.push(entry);
    }
    begin = end;
  }
  return units;
}

function readAbbreviations(section: Section | undefined, begin: number): Map<number, Abbreviation> {
  if (section === undefined) throw new DwarfError("there is no section .debug_abbrev");
  const reader = new ByteReader(section.bytes, { begin });
  const abbreviations = new Map<number, Abbreviation>();
  while (!reader.isAtEnd) {
    const code = reader.uleb();
    if (code === 0) break;
    const tag = reader.uleb();
    const hasChildren = reader.u8() !== 0;
    const found: { attribute: number; form: number; constant: number }[] = [];
    while (true) {
      const attribute = reader.uleb();
      const form = reader.uleb();
      const constant = form === forms.implicitConstant ? reader.sleb() : 0;
      if (attribute === 0 && form === 0) break;
      found.push({ attribute, form, constant });
    }
    abbreviations.set(code, { tag, hasChildren, attributes: found });
  }
  return abbreviations;
}

/** Reads the entries of a unit. */
function readEntries(unit: Unit, abbreviations: ReadonlyMap<number, Abbreviation>): Entry[] {
  const { reader } = unit;
  const roots: Entry[] = [];
  const parents: Entry[] = [];
  while (!reader.isAtEnd) {
    const { offset } = reader;
    const code = reader.uleb();
    if (code === 0) {
      parents.pop();
      continue;
    }
    const abbreviation = abbreviations.get(code);
    if (abbreviation === undefined) throw new DwarfError(`the entry at byte ${offset} has no abbreviation`);
    const values = new Map<number, AttributeValue>();
    for (const { attribute, form, constant } of abbreviation.attributes) {
      const value = form === forms.implicitConstant ? constant : readForm(unit, form);
      if (value !== undefined) values.set(attribute, value);
    }
    const parent = parents.at(-1);
    const entry: Entry = { offset, tag: abbreviation.tag, values, children: [], parent };
    ((parent?.children as Entry[] | undefined) ?? roots).push(entry);
    if (abbreviation.hasChildren) parents.push(entry);
  }
  return roots;
}

/** The sizes in bytes of the forms whose values are references to entries. */
const referenceSizes: Readonly<Record<number, number>> = {
  [forms.ref1]: 1,
  [forms.ref2]: 2,
  [forms.ref4]: 4,
  [forms.ref8]: 8,
};
/** The sizes in bytes of the forms whose values are numbers. */
const dataSizes: Readonly<Record<number, number>> = {
  [forms.data1]: 1,
  [forms.flag]: 1,
  [forms.data2]: 2,
  [forms.data4]: 4,
  [forms.data8]: 8,
};
/** The sizes in bytes of the forms whose values are skipped. */
const skippedSizes: Readonly<Record<number, number>> = {
  [forms.data16]: 16,
  [forms.refSignature]: 8,
  [forms.stringIndex1]: 1,
  [forms.stringIndex2]: 2,
  [forms.stringIndex3]: 3,
  [forms.stringIndex4]: 4,
  [forms.addressIndex1]: 1,
  [forms.addressIndex2]: 2,
  [forms.addressIndex3]: 3,
  [forms.addressIndex4]: 4,
};

/** Reads the value of an attribute in the given form. Returns undefined if values of this form are skipped. */
function readForm(unit: Unit, form: number): AttributeValue | undefined {
  const { reader, sections, begin, version, addressSize, offsetSize } = unit;
  if (form in referenceSizes) return { reference: begin + reader.unsigned(referenceSizes[form]!) };
  if (form in dataSizes) return reader.unsigned(dataSizes[form]!);
  if (form in skippedSizes) return void reader.skip(skippedSizes[form]!);
  switch (form) {
    case forms.address: {
      const label = unit.info.labels.get(reader.offset);
      const address = reader.unsigned(addressSize);
      return label === undefined ? address : { label };
    }
    case forms.string:
      return reader.string();
    case forms.stringOffset:
    case forms.lineStringOffset: {
      const strings = sections.get(form === forms.stringOffset ? ".debug_str" : ".debug_line_str");
      const offset = reader.unsigned(offsetSize);
      if (strings === undefined) throw new DwarfError("there is no section .debug_str");
      return new ByteReader(strings.bytes, { begin: offset }).string();
    }
    case forms.sdata:
      return reader.sleb();
    case forms.udata:
      return reader.uleb();
    case forms.refUdata:
      return { reference: begin + reader.uleb() };
    case forms.refAddress:
      return { reference: reader.unsigned(version === 2 ? addressSize : offsetSize) };
    case forms.sectionOffset:
      return reader.unsigned(offsetSize);
    case forms.flagPresent:
      return 1;
    case forms.block1:
      return reader.block(reader.u8());
    case forms.block2:
      return reader.block(reader.u16());
    case forms.block4:
      return reader.block(reader.u32());
    case forms.block:
    case forms.expression:
      return reader.block(reader.uleb());
    case forms.indirect:
      return readForm(unit, reader.uleb());
    case forms.stringIndex:
    case forms.addressIndex:
    case forms.locationListIndex:
    case forms.rangeListIndex:
      return void reader.uleb();
    default:
      throw new DwarfError(`the form 0x${form.toString(16)} is not known`);
  }
}

/** Returns the linkage name (mangled name) of a function, if its entry has one. */
export function linkageNameOf(entry: Entry): string | undefined {
  return stringAttribute(entry, attributes.linkageName) ?? stringAttribute(entry, attributes.mipsLinkageName);
}
