/**
 * Reads the debug sections of PTX. They consist of data directives, with labels instead of addresses:
 *
 *     .section .debug_info
 *     {
 *     .b32 2026
 *     .b8 2
 *     .b32 .debug_abbrev
 *     .b64 $L__func_begin0
 *     }
 *
 * @module
 */
import { type Token, tokenize } from "../../../src/ptx/lexer.ts";
import { DwarfError } from "./bytes.ts";

/** The bytes of a section. */
export interface Section {
  readonly bytes: Uint8Array;
  /**
   * Maps an offset in `bytes` to the label whose address is stored at this offset. Excludes labels in debug sections.
   */
  readonly labels: ReadonlyMap<number, string>;
}

/** The debug sections of PTX, and the functions that contain its labels. */
export interface DebugSections {
  /** The sections by name, such as `.debug_info`. */
  readonly sections: ReadonlyMap<string, Section>;
  /** Maps each label to the name of the function that contains it. */
  readonly functionOfLabel: ReadonlyMap<string, string>;
}

/** A reference to a label in a section's data. The label's address is written there once all labels are known. */
interface Reference {
  readonly offset: number;
  readonly size: number;
  readonly label: string;
  readonly addend: number;
}

/** A section whose data does not yet contain the addresses of labels. */
interface UnfinishedSection {
  readonly data: number[];
  readonly references: Reference[];
}

/** The section that contains a label, and the label's offset in it. */
interface Place {
  readonly section: string;
  readonly offset: number;
}

/** The sizes in bytes of data directives. */
const sizes: Readonly<Record<string, number>> = { ".b8": 1, ".b16": 2, ".b32": 4, ".b64": 8 };

/**
 * Reads the debug sections of PTX.
 *
 * @throws {DwarfError} If a section is malformed
 */
export function readDebugSections(ptx: string): DebugSections {
  const tokens = tokenize(ptx);
  const unfinished = new Map<string, UnfinishedSection>();
  const places = new Map<string, Place>();
  const functionOfLabel = new Map<string, string>();
  let current: string | undefined;
  let depth = 0;
  for (let index = 0; index < tokens.length; index++) {
    const { kind, text } = tokens[index]!;
    const next = tokens[index + 1]?.text;
    if (text === "{" && kind === "punctuation") depth++;
    else if (text === "}" && kind === "punctuation") depth--;
    else if (text === ".section" && depth === 0) index = readSection(tokens, index + 1, { unfinished, places });
    else if ((text === ".entry" || text === ".func") && depth === 0) current = functionName(tokens, index + 1);
    else if (kind === "identifier" && next === ":" && depth > 0 && current !== undefined) {
      functionOfLabel.set(text, current);
    }
  }
  return { sections: finish(unfinished, places), functionOfLabel };
}

/** Returns the name in `.entry name(...)`, or in `.func (.param .b32 result) name(...)`. */
function functionName(tokens: readonly Token[], begin: number): string | undefined {
  let index = begin;
  if (tokens[index]?.text === "(") {
    while (index < tokens.length && tokens[index]!.text !== ")") index++;
    index++;
  }
  return tokens[index]?.kind === "identifier" ? tokens[index]!.text : undefined;
}

/** Reads a section that begins with the token after `.section`. Returns the index of the section's last token. */
function readSection(
  tokens: readonly Token[],
  begin: number,
  { unfinished, places }: { unfinished: Map<string, UnfinishedSection>; places: Map<string, Place> },
): number {
  const name = tokens[begin]!.text;
  let index = begin + 1;
  while (tokens[index]!.kind !== "end" && tokens[index]!.text !== "{") index++;
  const section = unfinished.get(name) ?? { data: [], references: [] };
  unfinished.set(name, section);
  if (!places.has(name)) places.set(name, { section: name, offset: 0 });
  for (index++; tokens[index]!.text !== "}"; index++) {
    const { kind, text, line } = tokens[index]!;
    if (kind === "end") throw new DwarfError(`the section ${name} has no end`);
    if (kind === "identifier" && tokens[index + 1]!.text === ":") {
      places.set(text, { section: name, offset: section.data.length });
      index++;
      continue;
    }
    const size = sizes[text];
    if (size === undefined) throw new DwarfError(`line ${line} of the section ${name} has ${text}, and no data`);
    do index = readValue(tokens, index + 1, { size, section }); while (tokens[index + 1]!.text === "," && ++index);
  }
  return index;
}

/**
 * Reads an operand of a data directive: `12`, `-1`, `label`, `label+4` or `label-label`. Returns the index of the
 * operand's last token.
 */
function readValue(
  tokens: readonly Token[],
  begin: number,
  { size, section: { data, references } }: { size: number; section: UnfinishedSection },
): number {
  let index = begin;
  let [value, sign] = [0n, 1n];
  const labels: string[] = [];
  while (true) {
    if (tokens[index]!.text === "-" || tokens[index]!.text === "+") {
      sign = tokens[index]!.text === "-" ? -1n : 1n;
      index++;
    }
    const { kind, text, line } = tokens[index]!;
    if (kind === "number" && /^(?:\d+|0[xX][\dA-Fa-f]+)U?$/.test(text)) value += sign * BigInt(text.replace("U", ""));
    else if (kind === "identifier" || kind === "directive") labels.push(text);
    else throw new DwarfError(`line ${line} has "${text}", where a value belongs`);
    const next = tokens[index + 1]!.text;
    if (next !== "-" && next !== "+") break;
    index++;
  }
  // The difference of two labels is the length of a range of code. Nothing uses such lengths, so store 0.
  if (labels.length === 1) references.push({ offset: data.length, size, label: labels[0]!, addend: Number(value) });
  for (let byte = 0; byte < size; byte++) data.push(Number((value >> BigInt(8 * byte)) & 0xffn));
  return index;
}

function finish(
  unfinished: ReadonlyMap<string, UnfinishedSection>,
  places: ReadonlyMap<string, Place>,
): Map<string, Section> {
  const sections = new Map<string, Section>();
  for (const [name, { data, references }] of unfinished) {
    const bytes = Uint8Array.from(data);
    const labels = new Map<number, string>();
    for (const { offset, size, label, addend } of references) {
      const place = places.get(label);
      if (place === undefined) {
        labels.set(offset, label);
        continue;
      }
      const address = BigInt(place.offset + addend);
      for (let byte = 0; byte < size; byte++) bytes[offset + byte] = Number((address >> BigInt(8 * byte)) & 0xffn);
    }
    sections.set(name, { bytes, labels });
  }
  return sections;
}
