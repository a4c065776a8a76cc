/**
 * The header of a .npy file: the element type, the element order and the shape. Files may come from untrusted sources,
 * so every field is validated.
 *
 * @see https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 * @module
 */
import { type ArrayElement, elementTypeOf } from "../memory/dtypes.ts";
import { shown } from "../support/validation.ts";
import { mistakenFor } from "./not_an_array_file.ts";
import { TypeError } from "../support/program_errors.ts";

/** The parsed header of a .npy file. */
export interface NpyHeader {
  /** The element type in NumPy's notation, such as `"<f4"`. */
  readonly descr: string;
  /** The dtype, such as `"float32"`. Undefined for a one-byte type that NumPy has no name for. */
  readonly dtype: string | undefined;
  /** Whether the array is in Fortran (column-major) order, in which the first dimension varies fastest. */
  readonly isFortranOrder: boolean;
  readonly isBigEndian: boolean;
  readonly shape: readonly number[];
  /** The size of an element in bytes. */
  readonly itemByteLength: number;
  /** The total size of all elements in bytes. */
  readonly byteLength: number;
}

/**
 * The maximum length of the prefix, which contains the magic string, the format version and the length of the header.
 */
export const npyPrefixByteLength = 12;
/**
 * The maximum length of a header in bytes. By default, NumPy rejects headers of more than 10,000 bytes in untrusted
 * files.
 */
const maximumHeaderByteLength = 2 ** 20;
const maximumDimensions = 64;
/**
 * The size of a new file's header, including its prefix, is a multiple of this, so that the elements are aligned if the
 * file is memory-mapped.
 */
const alignment = 64;

/** The supported dtypes, keyed by NumPy's type character and the number of bytes. */
const dtypes: Readonly<Record<string, string>> = {
  b1: "bool",
  i1: "int8",
  i2: "int16",
  i4: "int32",
  i8: "int64",
  u1: "uint8",
  u2: "uint16",
  u4: "uint32",
  u8: "uint64",
  f2: "float16",
  f4: "float32",
  f8: "float64",
  c8: "complex64",
  c16: "complex128",
  // The codes that ml_dtypes writes for bfloat16 and float8_e5m2.
  V2: "bfloat16",
  f1: "float8_e5m2",
};

/** The one-byte dtypes of ml_dtypes. NumPy writes them as raw bytes, without their names. */
export const oneByteDtypes: readonly string[] = [
  "float8_e4m3fn",
  "float8_e5m2",
  "float8_e8m0fnu",
  "float8_e4m3fnuz",
  "float8_e5m2fnuz",
  "float8_e3m4",
  "float8_e4m3",
  "float8_e4m3b11fnuz",
];

/** Descriptions of NumPy's unsupported types, keyed by type character. */
const refused: Readonly<Record<string, string>> = {
  O: "Python objects, which are pickled; loading them can run any code",
  S: "strings of bytes",
  a: "strings of bytes",
  U: "strings",
  T: "strings",
  M: "dates; save them as numbers, such as with array.astype('datetime64[ns]').view('int64')",
  m: "durations; save them as numbers, such as with array.astype('timedelta64[ns]').view('int64')",
};

/**
 * Returns the position and the length of the header.
 *
 * @param prefix the first `npyPrefixByteLength` bytes of the file, or the whole file if it is shorter
 * @throws {Error} If the file is not a .npy file
 */
export function npyHeaderRange(prefix: Uint8Array): { begin: number; byteLength: number; isLatin1: boolean } {
  const magic = String.fromCharCode(...prefix.subarray(0, 6));
  if (magic !== "\x93NUMPY") refuse(mistakenFor(prefix, "npy") ?? "it does not begin with the bytes \\x93NUMPY");
  if (prefix.length < npyPrefixByteLength) refuse(`it has ${prefix.length} bytes, and ends in its header`);
  const [major, minor] = [prefix[6]!, prefix[7]!];
  if (major < 1 || major > 3 || minor !== 0) {
    refuse(`it has version ${major}.${minor} of the format, and there are 1.0, 2.0 and 3.0`);
  }
  const view = new DataView(prefix.buffer, prefix.byteOffset);
  const begin = major === 1 ? 10 : 12;
  const byteLength = major === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  if (byteLength > maximumHeaderByteLength) {
    refuse(`its header would have ${byteLength} bytes, and may have ${maximumHeaderByteLength}`);
  }
  return { begin, byteLength, isLatin1: major < 3 };
}

/**
 * Parses a header: a Python dictionary literal with the keys `descr`, `fortran_order` and `shape`.
 *
 * @throws {Error} If the header is invalid or describes an array that is not supported; the message says why
 */
export function parseNpyHeader(bytes: Uint8Array, { isLatin1 }: { isLatin1: boolean }): NpyHeader {
  let text: string;
  if (isLatin1) text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  else {
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      return refuse("its header is not UTF-8");
    }
  }
  const members = new LiteralParser(text).dictionary();
  for (const key of members.keys()) {
    if (!["descr", "fortran_order", "shape"].includes(key)) refuse(`its header has the unknown key ${shown(key)}`);
  }
  for (const key of ["descr", "fortran_order", "shape"]) {
    if (!members.has(key)) refuse(`its header has no key "${key}"`);
  }
  const descr = members.get("descr");
  if (Array.isArray(descr)) return refuseStructured(descr);
  if (typeof descr !== "string") return refuse(`its descr is ${shown(descr)}, and not the name of a type`);
  const isFortranOrder = members.get("fortran_order");
  if (typeof isFortranOrder !== "boolean") {
    return refuse(`its fortran_order is ${shown(isFortranOrder)}, and not True or False`);
  }
  const element = elementOf(descr);
  const shape = shapeOf(members.get("shape"));
  const itemByteLength = element.byteLength;
  const elements = shape.includes(0) ? 0 : shape.reduce((product, size) => product * size, 1);
  const byteLength = elements * itemByteLength;
  if (!Number.isSafeInteger(byteLength)) refuse(`its shape (${shape.join(", ")}) has more elements than any file`);
  return {
    descr,
    dtype: element.dtype,
    isFortranOrder,
    isBigEndian: element.isBigEndian,
    shape,
    itemByteLength,
    byteLength,
  };
}

/**
 * Encodes the prefix and the header of a new file.
 *
 * @throws {TypeError} If .npy files cannot represent the dtype
 */
export function encodeNpyHeader({ dtype, shape }: { readonly dtype: string; readonly shape: readonly number[] }): {
  bytes: Uint8Array<ArrayBuffer>;
  element: ArrayElement;
} {
  const element = elementTypeOf(dtype)!;
  const found = Object.entries(dtypes).find(([, name]) => name === dtype)?.[0];
  // ml_dtypes writes float8_e5m2 as "<f1", which numpy.load rejects.
  const code = oneByteDtypes.includes(dtype) ? "V1" : found;
  if (code === undefined) {
    throw new TypeError(`Cannot write an array of ${dtype} as .npy: NumPy has no form for it; use writeSafetensors`);
  }
  const order = code.endsWith("1") && code !== "V1" ? "|" : "<";
  const list = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const text = `{'descr': '${order}${code}', 'fortran_order': False, 'shape': (${list}), }`;
  const length = Math.ceil((10 + text.length + 1) / alignment) * alignment;
  const bytes = new Uint8Array(length).fill(" ".charCodeAt(0));
  bytes.set([0x93, ...new TextEncoder().encode("NUMPY"), 1, 0]);
  new DataView(bytes.buffer).setUint16(8, length - 10, true);
  bytes.set(new TextEncoder().encode(text), 10);
  bytes[length - 1] = "\n".charCodeAt(0);
  return { bytes, element };
}

/** Reverses the byte order of each number, in place. */
export function swapBytes(bytes: Uint8Array, numberByteLength: number): void {
  if (numberByteLength === 2) {
    for (let at = 0; at < bytes.length; at += 2) [bytes[at], bytes[at + 1]] = [bytes[at + 1]!, bytes[at]!];
    return;
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (numberByteLength === 4) {
    for (let at = 0; at < bytes.length; at += 4) view.setUint32(at, view.getUint32(at), true);
  } else if (numberByteLength === 8) {
    for (let at = 0; at < bytes.length; at += 8) {
      const [high, low] = [view.getUint32(at), view.getUint32(at + 4)];
      view.setUint32(at, low, true);
      view.setUint32(at + 4, high, true);
    }
  }
}

function refuse(reason: string): never {
  throw new Error(`it is not a .npy file that can be read: ${reason}`);
}

function refuseStructured(fields: readonly unknown[]): never {
  const names = fields.map((field) => Array.isArray(field) ? shown(field[0]) : "a field");
  throw new Error(
    `its elements are structures with the fields ${
      names.join(", ")
    }; save each field as an array of its own, such as ` +
      `with numpy.savez(path, **{name: array[name] for name in array.dtype.names})`,
  );
}

function elementOf(descr: string): { dtype: string | undefined; byteLength: number; isBigEndian: boolean } {
  const match = /^([<>|=]?)([a-zA-Z?])(\d*)(\[.*\])?$/.exec(descr);
  if (match === null) return refuse(`its descr is ${shown(descr)}, which is not the name of a type`);
  const [, order, letter, digits] = match;
  const why = refused[letter!];
  if (why !== undefined) throw new Error(`its elements, ${shown(descr)}, are ${why}`);
  if (letter === "?" && digits === "") return { dtype: "bool", byteLength: 1, isBigEndian: false };
  const code = `${letter}${digits}`;
  const dtype = Object.hasOwn(dtypes, code) ? dtypes[code] : undefined;
  if (dtype === undefined && code !== "V1") {
    if (letter === "V") throw new Error(`its elements, ${shown(descr)}, are ${digits} bytes without a type`);
    if (code === "f16" || code === "f12" || code === "c32" || code === "c24") {
      throw new Error(
        `its elements, ${shown(descr)}, are of a type that differs between processors; save them as float64`,
      );
    }
    return refuse(`its descr is ${shown(descr)}, which is not a type of NumPy`);
  }
  const byteLength = Number(digits);
  return { dtype, byteLength, isBigEndian: order === ">" && byteLength > 1 };
}

function shapeOf(value: unknown): readonly number[] {
  if (!Array.isArray(value)) return refuse(`its shape is ${shown(value)}, and not a tuple`);
  if (value.length > maximumDimensions) {
    refuse(`its shape has ${value.length} dimensions, and may have ${maximumDimensions}`);
  }
  const wrong = value.find((size) => !Number.isSafeInteger(size) || size < 0);
  if (wrong !== undefined) refuse(`its shape (${value.join(", ")}) has ${shown(wrong)}, which is not a size`);
  return value;
}

/** A value in a header: a string, an integer, `True`, `False`, or a tuple or list of such values. */
type Literal = string | number | boolean | Literal[];

/** Parses the subset of Python literals that headers use. */
class LiteralParser {
  readonly #text: string;
  #index = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Parses the whole text as a dictionary, and returns its items. */
  dictionary(): Map<string, Literal> {
    const members = new Map<string, Literal>();
    this.#expect("{");
    while (!this.#skip("}")) {
      const key = this.#value();
      if (typeof key !== "string") refuse(`its header has the key ${shown(key)}, and keys are strings`);
      if (members.has(key)) refuse(`its header has the key ${shown(key)} twice`);
      this.#expect(":");
      members.set(key, this.#value());
      if (!this.#skip(",")) {
        this.#expect("}");
        break;
      }
    }
    this.#skipSpaces();
    if (this.#index < this.#text.length) this.#refuse("after its dictionary");
    return members;
  }

  #value(): Literal {
    this.#skipSpaces();
    const first = this.#text[this.#index];
    if (first === "'" || first === '"') return this.#string(first);
    if (first === "(" || first === "[") return this.#list(first === "(" ? ")" : "]");
    const [word] = this.#match(/True|False|-?\d{1,20}L?/y) ?? this.#refuse("where a value should be");
    return word === "True" || (word === "False" ? false : Number(word.replace("L", "")));
  }

  #list(end: string): Literal[] {
    const values: Literal[] = [];
    this.#index++;
    if (++this.#depth > 8) refuse("its header has lists in lists");
    while (!this.#skip(end)) {
      values.push(this.#value());
      if (!this.#skip(",")) {
        this.#expect(end);
        break;
      }
    }
    this.#depth--;
    return values;
  }

  #string(quote: string): string {
    const end = this.#text.indexOf(quote, this.#index + 1);
    const text = end < 0 ? undefined : this.#text.slice(this.#index + 1, end);
    if (text === undefined || text.includes("\\")) return refuse("its header has a string that does not end");
    this.#index = end + 1;
    return text;
  }

  #expect(character: string): void {
    if (!this.#skip(character)) this.#refuse(`where ${character} should be`);
  }

  #skip(character: string): boolean {
    this.#skipSpaces();
    if (this.#text[this.#index] !== character) return false;
    this.#index++;
    return true;
  }

  #skipSpaces(): void {
    this.#match(/[ \t\r\n]*/y);
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#index;
    const found = pattern.exec(this.#text);
    if (found === null) return undefined;
    this.#index = pattern.lastIndex;
    return found;
  }

  #refuse(where: string): never {
    const found = this.#text.slice(this.#index, this.#index + 12);
    return refuse(`its header has ${found === "" ? "its end" : shown(found)} ${where}`);
  }
}
