/**
 * The header of a safetensors file: the names, types, shapes and locations of its tensors.
 *
 * A file begins with the length of its header, an 8-byte integer. The header is a JSON object with a member for each
 * tensor. The tensors' bytes follow it without gaps. Files may come from untrusted sources, so every field is
 * validated.
 *
 * @see https://github.com/huggingface/safetensors#format
 * @module
 */
import { elementTypeOf } from "../memory/dtypes.ts";
import { bytesAt, type ByteSource } from "./byte_source.ts";
import { mistakenFor } from "./not_an_array_file.ts";
import { TypeError } from "../support/program_errors.ts";

/** A tensor of a safetensors file. */
export interface SafetensorsTensor {
  /** The name of the tensor, such as `"model.norm.weight"`. */
  readonly name: string;
  /** The element type, as array libraries call it, such as `"bfloat16"`. */
  readonly dtype: string;
  /** The size of each dimension, from the slowest to the fastest. */
  readonly shape: readonly number[];
  /**
   * The offset of the tensor's first byte. In a parsed header, the offset in the file's data; in a `SafetensorsFile`,
   * the offset in the memory that `load` fills.
   */
  readonly byteOffset: number;
  /** The size of the tensor in bytes. */
  readonly byteLength: number;
}

/** The parsed header of a file. */
export interface SafetensorsHeader {
  /** The file's metadata: arbitrary strings, by key. */
  readonly metadata: ReadonlyMap<string, string>;
  /** The tensors, in the order of their bytes. They fill the data without gaps. */
  readonly tensors: readonly SafetensorsTensor[];
  /** The offset in the file at which the data begins. */
  readonly dataOffset: number;
  readonly dataByteLength: number;
}

/** The size of the integer at the start of a file that contains the header's length, in bytes. */
const prefixByteLength = 8;
/** The maximum length of a header in bytes, which is the same as in the reference implementation. */
const maximumHeaderByteLength = 100_000_000;
/** The maximum number of elements of a tensor. Up to this number, the number of bits is a safe integer. */
const maximumElements = Number.MAX_SAFE_INTEGER / 64;
const maximumDimensions = 64;
const metadataKey = "__metadata__";

/** Maps the format's names of dtypes to the names that array libraries use. */
export const dtypesOfFormat: Readonly<Record<string, string>> = {
  F4: "float4_e2m1fn",
  F6_E2M3: "float6_e2m3fn",
  F6_E3M2: "float6_e3m2fn",
  BOOL: "bool",
  U8: "uint8",
  I8: "int8",
  F8_E5M2: "float8_e5m2",
  F8_E4M3: "float8_e4m3fn",
  F8_E8M0: "float8_e8m0fnu",
  F8_E4M3FNUZ: "float8_e4m3fnuz",
  F8_E5M2FNUZ: "float8_e5m2fnuz",
  I16: "int16",
  U16: "uint16",
  F16: "float16",
  BF16: "bfloat16",
  I32: "int32",
  U32: "uint32",
  F32: "float32",
  I64: "int64",
  U64: "uint64",
  F64: "float64",
  C64: "complex64",
};

/**
 * Reads and parses the header of a file.
 *
 * @throws {Error} If the file is not a valid safetensors file; the message says why
 */
export async function readSafetensorsHeader(source: ByteSource): Promise<SafetensorsHeader> {
  const { byteLength: fileByteLength } = source;
  const prefix = await bytesAt(source, 0, Math.min(prefixByteLength, fileByteLength));
  const mistaken = mistakenFor(prefix, "safetensors");
  if (mistaken !== undefined) refuse(mistaken);
  if (prefix.length < prefixByteLength) refuse(`it has ${prefix.length} bytes, and a header's length has 8`);
  const length = new DataView(prefix.buffer, prefix.byteOffset).getBigUint64(0, true);
  if (length > maximumHeaderByteLength) {
    refuse(`its header would have ${length} bytes, and may have ${maximumHeaderByteLength}`);
  }
  const dataOffset = prefixByteLength + Number(length);
  if (dataOffset > fileByteLength) {
    refuse(`its header would have ${length} bytes, and the file has ${fileByteLength} bytes in all`);
  }
  const header = await bytesAt(source, prefixByteLength, Number(length));
  const dataByteLength = fileByteLength - dataOffset;
  return { ...parseSafetensorsHeader(header, dataByteLength), dataOffset, dataByteLength };
}

/**
 * Parses the JSON of a header.
 *
 * @param dataByteLength the number of bytes after the header
 * @throws {Error} If the header is invalid, or the tensors do not exactly fill the data; the message says why
 */
export function parseSafetensorsHeader(
  header: Uint8Array,
  dataByteLength: number,
): Pick<SafetensorsHeader, "metadata" | "tensors"> {
  // The format requires that the first byte is a brace. Trailing spaces are allowed.
  if (header[0] !== "{".charCodeAt(0)) refuse("its header does not begin with {");
  const text = decode(header);
  const members = parse(text);
  const repeated = repeatedKey(text);
  if (repeated !== undefined) refuse(`its header names ${JSON.stringify(repeated)} twice`);
  const { [metadataKey]: metadata, ...described } = members;
  const tensors = Object.entries(described).map(([name, description]) => tensorOf(name, description))
    // Among tensors with the same offset, the empty ones come first.
    .sort((a, b) => a.byteOffset - b.byteOffset || a.byteLength - b.byteLength);
  let end = 0;
  let last = "the header";
  for (const { name, byteOffset, byteLength } of tensors) {
    const relation = byteOffset < end ? "overlaps" : "leaves a gap behind";
    if (byteOffset !== end) refuse(`tensor ${JSON.stringify(name)} ${relation} ${last}`);
    end += byteLength;
    last = `tensor ${JSON.stringify(name)}`;
  }
  if (end !== dataByteLength) refuse(`its tensors have ${end} bytes, and the file has ${dataByteLength} bytes of data`);
  return { metadata: metadataOf(metadata), tensors };
}

/**
 * Encodes the header of a file: its length, followed by the JSON, padded with spaces.
 *
 * @throws {TypeError} If the format cannot represent a tensor's dtype
 */
export function encodeSafetensorsHeader(
  { metadata, tensors }: Pick<SafetensorsHeader, "metadata" | "tensors">,
): Uint8Array<ArrayBuffer> {
  const described = tensors.map(({ name, dtype, shape, byteOffset, byteLength }) =>
    [name, { dtype: formatName(name, dtype), shape, data_offsets: [byteOffset, byteOffset + byteLength] }] as const
  );
  const members = metadata.size === 0 ? described : [[metadataKey, Object.fromEntries(metadata)], ...described];
  const bytes = new TextEncoder().encode(JSON.stringify(Object.fromEntries(members)));
  const length = Math.ceil(bytes.length / prefixByteLength) * prefixByteLength;
  const encoded = new Uint8Array(prefixByteLength + length).fill(" ".charCodeAt(0));
  new DataView(encoded.buffer).setBigUint64(0, BigInt(length), true);
  encoded.set(bytes, prefixByteLength);
  return encoded;
}

/**
 * Returns the format's name for the dtype of a tensor, such as `"BF16"` for `"bfloat16"`.
 *
 * @param name the tensor's name, for the error message
 * @throws {TypeError} If the format cannot represent the dtype, or the tensor's name is reserved
 */
export function formatName(name: string, dtype: string): string {
  if (name === metadataKey) throw new TypeError(`Cannot write a tensor with the name ${metadataKey}: it is not a name`);
  const found = Object.entries(dtypesOfFormat).find(([, each]) => each === dtype)?.[0];
  if (found !== undefined) return found;
  throw new TypeError(`Cannot write ${JSON.stringify(name)}: safetensors files have no elements of type ${dtype}`);
}

/**
 * Computes the size of a tensor in bytes.
 *
 * @param dtype the format's name for the element type
 * @throws {Error} If the dtype is unknown, or the size is too large or not a whole number of bytes
 */
export function byteLengthOfTensor(dtype: string, shape: readonly number[]): number {
  if (!Object.hasOwn(dtypesOfFormat, dtype)) throw new Error(`its dtype ${JSON.stringify(dtype)} is unknown`);
  if (shape.length > maximumDimensions) {
    throw new Error(`its shape has ${shape.length} dimensions, and may have ${maximumDimensions}`);
  }
  // If any dimension is 0, the tensor is empty, even if the product of the other dimensions would overflow.
  let elements = shape.includes(0) ? 0 : 1;
  for (const length of elements === 0 ? [] : shape) {
    elements *= length;
    if (elements > maximumElements) throw new Error("its shape has more elements than any file");
  }
  const bits = elements * elementTypeOf(dtypesOfFormat[dtype]!)!.bits;
  if (bits % 8 !== 0) throw new Error(`its ${bits} bits are no whole bytes`);
  return bits / 8;
}

function refuse(reason: string): never {
  throw new Error(`it is not a safetensors file: ${reason}`);
}

function decode(header: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(header);
  } catch {
    return refuse("its header is not UTF-8");
  }
}

function parse(text: string): Readonly<Record<string, unknown>> {
  let members: unknown;
  try {
    members = JSON.parse(text);
  } catch (error) {
    refuse(`its header is not JSON (${(error as Error).message})`);
  }
  return isObject(members) ? members : refuse("its header is no object");
}

function metadataOf(metadata: unknown): ReadonlyMap<string, string> {
  if (metadata === undefined) return new Map();
  if (!isObject(metadata)) return refuse(`${metadataKey} is no object`);
  for (const [key, value] of Object.entries(metadata)) {
    if (typeof value !== "string") refuse(`${JSON.stringify(key)} of ${metadataKey} is no string`);
  }
  return new Map(Object.entries(metadata as Readonly<Record<string, string>>));
}

function tensorOf(name: string, description: unknown): SafetensorsTensor {
  const what = `tensor ${JSON.stringify(name)}`;
  if (!isObject(description)) return refuse(`${what} is no object`);
  const { dtype, shape, data_offsets: offsets } = description;
  if (typeof dtype !== "string") return refuse(`the dtype of ${what} is no string`);
  if (!isListOfCounts(shape)) return refuse(`the shape of ${what} is no list of whole numbers`);
  if (!isListOfCounts(offsets) || offsets.length !== 2) {
    return refuse(`the data_offsets of ${what} are not two whole numbers`);
  }
  const [begin, end] = offsets as [number, number];
  if (begin > end) refuse(`${what} ends at byte ${end}, before it begins at byte ${begin}`);
  let byteLength: number;
  try {
    byteLength = byteLengthOfTensor(dtype, shape);
  } catch (error) {
    return refuse(`${what} cannot be: ${(error as Error).message}`);
  }
  if (end - begin !== byteLength) {
    refuse(`${what} has ${end - begin} bytes, and ${dtype} of shape [${shape}] has ${byteLength}`);
  }
  return { name, dtype: dtypesOfFormat[dtype]!, shape, byteOffset: begin, byteLength };
}

/** Whether a value is a JSON object. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a value is an array of non-negative integers. */
export function isListOfCounts(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((count) => Number.isSafeInteger(count) && count >= 0);
}

/**
 * Returns the first key that occurs twice in an object; undefined if there is none. `JSON.parse` does not report such
 * keys: it keeps only the last value.
 *
 * @param text the object as valid JSON
 */
function repeatedKey(text: string): string | undefined {
  const keys = new Set<string>();
  // Because the text is valid JSON, scanning for strings and brackets is sufficient.
  const next = /["[\]{}]/g;
  let depth = 0;
  for (let found = next.exec(text); found !== null; found = next.exec(text)) {
    if (found[0] !== '"') {
      depth += found[0] === "{" || found[0] === "[" ? 1 : -1;
      continue;
    }
    const end = next.lastIndex = endOfString(text, found.index);
    if (depth !== 1 || !isFollowedByColon(text, end)) continue;
    const key: string = JSON.parse(text.slice(found.index, end));
    if (keys.has(key)) return key;
    keys.add(key);
  }
  return undefined;
}

/** Returns the index after the closing quote of the string literal that begins at `begin`. */
function endOfString(text: string, begin: number): number {
  for (let quote = text.indexOf('"', begin + 1);; quote = text.indexOf('"', quote + 1)) {
    let backslashes = 0;
    while (text[quote - 1 - backslashes] === "\\") backslashes++;
    if (backslashes % 2 === 0) return quote + 1;
  }
}

function isFollowedByColon(text: string, index: number): boolean {
  const next = /\s*(.)/y;
  next.lastIndex = index;
  return next.exec(text)?.[1] === ":";
}
