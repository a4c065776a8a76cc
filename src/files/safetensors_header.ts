/**
 * The header of a safetensors file: its tensors, their types and shapes, and where their bytes lie.
 *
 * A file begins with the length of its header in 8 bytes. The header is a JSON object with a member for each tensor, and
 * the tensors' bytes follow it without a gap. A file may come from anywhere, so everything that it says is checked.
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
  /** Its name, such as `"model.norm.weight"`. */
  readonly name: string;
  /** The type of the elements, under the name that array libraries give it, such as `"bfloat16"`. */
  readonly dtype: string;
  /** The size of each dimension, from the slowest to the fastest. */
  readonly shape: readonly number[];
  /** Where its first byte lies: in the data of the file or, for a file that was opened, in the memory that it fills. */
  readonly byteOffset: number;
  /** Number of bytes. */
  readonly byteLength: number;
}

/** What the header of a file says. */
export interface SafetensorsHeader {
  /** The strings that the file has about itself, by their keys. */
  readonly metadata: ReadonlyMap<string, string>;
  /** In the order of their bytes, which fill the data without a gap. */
  readonly tensors: readonly SafetensorsTensor[];
  /** Where the data begins in the file. */
  readonly dataOffset: number;
  readonly dataByteLength: number;
}

/** The number of bytes that have the header's length. */
const prefixByteLength = 8;
/** The maximum length of a header in bytes. The library of the format has the same. */
const maximumHeaderByteLength = 100_000_000;
/** Their bits are still a precise number. */
const maximumElements = Number.MAX_SAFE_INTEGER / 64;
const maximumDimensions = 64;
const metadataKey = "__metadata__";

/** The dtypes by the names that the format has for them. */
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
 * Reads the header of a file.
 *
 * @throws {Error} If the file is not a safetensors file, and says why
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
 * @param dataByteLength the number of bytes that follow the header
 * @throws {Error} If it is not a header, or the tensors do not fill the data, and says why
 */
export function parseSafetensorsHeader(
  header: Uint8Array,
  dataByteLength: number,
): Pick<SafetensorsHeader, "metadata" | "tensors"> {
  // The format wants a brace as the first byte. Spaces may follow the last one.
  if (header[0] !== "{".charCodeAt(0)) refuse("its header does not begin with {");
  const text = decode(header);
  const members = parse(text);
  const repeated = repeatedKey(text);
  if (repeated !== undefined) refuse(`its header names ${JSON.stringify(repeated)} twice`);
  const { [metadataKey]: metadata, ...described } = members;
  const tensors = Object.entries(described).map(([name, description]) => tensorOf(name, description))
    // An empty tensor lies before the one that begins at the same byte.
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
 * The header of a file, with its length before it, padded with spaces.
 *
 * @throws {TypeError} If the format has no name for a dtype
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
 * The name that the format has for the dtype of a tensor.
 *
 * @throws {TypeError} If it has none, or the tensor's name is reserved
 */
export function formatName(name: string, dtype: string): string {
  if (name === metadataKey) throw new TypeError(`Cannot write a tensor with the name ${metadataKey}: it is not a name`);
  const found = Object.entries(dtypesOfFormat).find(([, each]) => each === dtype)?.[0];
  if (found !== undefined) return found;
  throw new TypeError(`Cannot write ${JSON.stringify(name)}: safetensors files have no elements of type ${dtype}`);
}

/**
 * The number of bytes that a tensor has.
 *
 * @param dtype the name that the format has for it
 * @throws {Error} If there is no such type, or the number is not whole or too large
 */
export function byteLengthOfTensor(dtype: string, shape: readonly number[]): number {
  if (!Object.hasOwn(dtypesOfFormat, dtype)) throw new Error(`its dtype ${JSON.stringify(dtype)} is unknown`);
  if (shape.length > maximumDimensions) {
    throw new Error(`its shape has ${shape.length} dimensions, and may have ${maximumDimensions}`);
  }
  // A dimension of 0 makes the tensor empty, however large the others are.
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

/** Whether something is a JSON object. */
function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether something is an array of whole numbers from 0. */
export function isListOfCounts(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((count) => Number.isSafeInteger(count) && count >= 0);
}

/**
 * The first key that an object has twice: `JSON.parse` keeps only the last one.
 *
 * @param text the JSON of an object
 */
function repeatedKey(text: string): string | undefined {
  const keys = new Set<string>();
  // Strings and brackets are all that matters: the text is valid JSON.
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

/** The index behind a string that begins at `begin` with a quote. */
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
