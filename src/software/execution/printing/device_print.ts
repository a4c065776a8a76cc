/**
 * The output of kernels: `printf` and failed assertions, from strings and values in device memory.
 *
 * The output is the same as a GPU's: CUDA C++ Programming Guide, "Formatted Output". Conversions that the guide does
 * not list, such as `%zu` and `%.*f`, are printed literally and consume no argument; a GPU's output for them is
 * arbitrary.
 *
 * @module
 */
import {
  addressBase,
  boundsGranuleBytes,
  boundsTable,
  localAddressBase,
  parameterAddressBase,
  sharedAddressBase,
} from "../../abi/addresses.ts";
import {
  type Conversion,
  convertDouble,
  convertInteger,
  convertNullText,
  convertPointer,
  convertText,
} from "./printf_conversions.ts";

/** A kernel's call of `vprintf`. */
export interface PrintCall {
  /** The generic address of the format, a null-terminated string. */
  readonly format: bigint;
  /** The generic address of the arguments, each of which is aligned to its size. */
  readonly arguments: bigint;
  readonly memory: ReadableMemory;
}

/** The memory that a kernel may read. */
export interface ReadableMemory {
  /** The block's shared memory. */
  readonly shared: ReadableRange;
  /** The thread's local memory. */
  readonly local: ReadableRange;
  /** The kernel's parameters. */
  readonly parameters: ReadableRange;
  /** The offset of the device's bounds table, which determines the global memory that the kernel may read. */
  readonly bounds: number;
}

/** A range of linear memory. */
export interface ReadableRange {
  readonly begin: number;
  readonly byteLength: number;
}

/** A kernel's call of `__assertfail`. */
export interface AssertionCall {
  /** The generic address of the message, a null-terminated string. */
  readonly message: bigint;
  /** The generic address of the file's name, a null-terminated string. */
  readonly file: bigint;
  /** The generic address of the function's name, a null-terminated string. */
  readonly function: bigint;
  /** The number of the line in the file. */
  readonly line: number;
  readonly block: readonly [x: number, y: number, z: number];
  readonly thread: readonly [x: number, y: number, z: number];
  readonly memory: ReadableMemory;
}

/** Thrown if the kernel may not read the memory to print. */
export class UnreadableError extends Error {
  override readonly name = "UnreadableError";
  readonly address: bigint;
  readonly byteLength: number;

  constructor(address: bigint, byteLength: number = 1) {
    super(`Cannot read from 0x${address.toString(16)}: the kernel may not`);
    this.address = address;
    this.byteLength = byteLength;
  }
}

/** The maximum number of arguments that one call of `vprintf` prints. */
const maximumArguments = 32;
/**
 * The maximum number of characters of a format, a string or a formatted value. This is the size of a GPU's output
 * buffer.
 */
const maximumCharacters = 2 ** 20;
/**
 * The width of integer arguments in bits, by length modifier. Without a modifier, an argument has the width of an
 * `int`.
 */
const integerBits: Readonly<Record<string, number>> = { h: 16, l: 64, ll: 64 };
const conversionPattern = /%([-+ #0]*)(\*|\d*)(?:\.(\d*))?(ll?|h?)([cdiouxXpeEfFgGaAsS%])/y;

/**
 * Prints with a single call of `write`, and returns the number of printed arguments. Prints nothing and returns -1 if
 * the format is a null pointer, or -2 if the output is too long. Throws {@linkcode UnreadableError} if the kernel may
 * not read the memory.
 *
 * @param bytes the linear memory of the software devices
 * @param limit the greatest number of characters to print
 */
export function printFromDevice(
  bytes: Uint8Array,
  call: PrintCall,
  write: (text: Uint8Array) => void,
  limit: number = maximumCharacters,
): number {
  if (call.format === 0n) return -1;
  const memory = new DeviceText(bytes, call.memory);
  try {
    const format = memory.text(call.format);
    const values = new ArgumentReader(memory, call.arguments);
    const text = formatted(format, { values, memory });
    if (text.length > limit) return -2;
    if (text !== "") write(Uint8Array.from({ length: text.length }, (_, index) => text.charCodeAt(index)));
    return values.count;
  } catch (error) {
    if (error instanceof LengthError) return -2;
    throw error;
  }
}

/** A failed assertion. */
export interface FailedAssertion {
  /** The text that CUDA prints for the assertion, without the final line break. */
  readonly text: string;
  /** The name of the file, without folders, and the line. Undefined if the kernel may not read the file name. */
  readonly source: string | undefined;
  /** The description of the failure for an error message. */
  readonly what: string;
}

/** Returns the message for a failed assertion, and the source line. */
export function assertionMessage(bytes: Uint8Array, call: AssertionCall): FailedAssertion {
  const memory = new DeviceText(bytes, call.memory);
  const [message, file, name] = [call.message, call.file, call.function].map((address) => {
    try {
      return new TextDecoder().decode(memory.characters(address));
    } catch (error) {
      if (error instanceof LengthError || error instanceof UnreadableError) return "?";
      throw error;
    }
  });
  const { line, block, thread } = call;
  const place = `${file}:${line >>> 0}: ${name}: block: [${block.join(",")}], thread: [${thread.join(",")}]`;
  return {
    text: `${place} Assertion \`${message}\` failed.`,
    source: file === "?" ? undefined : `${file!.replace(/^.*[\\/]/, "")}:${line >>> 0}`,
    what: `the assertion \`${message}\` failed in ${name}`,
  };
}

/** The exception that is thrown if the output is too long. */
class LengthError extends Error {
  override readonly name = "LengthError";

  constructor() {
    super(`Cannot print more than ${maximumCharacters} characters at once`);
  }
}

/** Reads memory at generic addresses on behalf of a thread. */
class DeviceText {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #bounds: number;
  /** Maps the upper 32 bits of generic addresses to the readable range there. Does not include global memory. */
  readonly #ranges: ReadonlyMap<bigint, ReadableRange>;

  constructor(bytes: Uint8Array, { shared, local, parameters, bounds }: ReadableMemory) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#bounds = bounds;
    this.#ranges = new Map([
      [sharedAddressBase >> 32n, shared],
      [localAddressBase >> 32n, local],
      [parameterAddressBase >> 32n, parameters],
    ]);
  }

  int(address: bigint): number {
    return this.#view.getInt32(this.#offsetOf(address, 4), true);
  }

  long(address: bigint): bigint {
    return this.#view.getBigUint64(this.#offsetOf(address, 8), true);
  }

  /** Returns the bytes from an address up to the first null byte, at most `maximum` bytes. */
  characters(address: bigint, maximum: number = Infinity): Uint8Array {
    const wanted = Math.min(maximum, maximumCharacters + 1);
    if (wanted === 0) return new Uint8Array();
    const { begin, byteLength } = this.#readableFrom(address);
    const found = this.#bytes.subarray(begin, begin + Math.min(byteLength, wanted));
    const length = found.indexOf(0);
    if (length < 0 && found.length < wanted) throw new UnreadableError(address + BigInt(found.length));
    if (length < 0 && found.length > maximumCharacters) throw new LengthError();
    // Copies the bytes, because text decoders do not accept bytes of a `SharedArrayBuffer`.
    return found.slice(0, length < 0 ? undefined : length);
  }

  /**
   * Returns the bytes from an address up to the first null byte, at most `maximum`, as a string with one character per
   * byte.
   */
  text(address: bigint, maximum?: number): string {
    const parts: string[] = [];
    for (const byte of this.characters(address, maximum)) parts.push(String.fromCharCode(byte));
    return parts.join("");
  }

  #offsetOf(address: bigint, wanted: number): number {
    const { begin, byteLength } = this.#readableFrom(address, wanted);
    if (byteLength < wanted) throw new UnreadableError(address, wanted);
    return begin;
  }

  /** Returns the memory from an address to the end of the range that contains the address. */
  #readableFrom(address: bigint, wanted = 1): ReadableRange {
    const bits = BigInt.asUintN(64, address);
    const offset = Number(BigInt.asUintN(32, bits));
    const space = bits >> 32n;
    const isGlobal = space === addressBase >> 32n;
    const range = isGlobal ? this.#allocationOf(offset) : this.#ranges.get(space);
    if (range === undefined) throw new UnreadableError(bits, wanted);
    const within = isGlobal ? offset - range.begin : offset;
    if (within >= range.byteLength) throw new UnreadableError(bits, wanted);
    return { begin: range.begin + within, byteLength: range.byteLength - within };
  }

  /**
   * Returns the allocation to which the 512-byte granule at an offset belongs, even if the offset itself is past the
   * end of the allocation.
   */
  #allocationOf(offset: number): ReadableRange | undefined {
    const entryOf = (granule: number) => this.#bounds + 4 * granule;
    const first = this.#view.getUint32(entryOf(Math.floor(offset / boundsGranuleBytes)), true) - 1;
    if (first < 0) return undefined;
    const byteLength = this.#view.getUint32(entryOf(first) + boundsTable.lengths, true);
    return { begin: first * boundsGranuleBytes, byteLength };
  }
}

/** Reads the arguments of a call, in order. */
class ArgumentReader {
  readonly #memory: DeviceText;
  readonly #address: bigint;
  #end = 0n;
  #count = 0;

  constructor(memory: DeviceText, address: bigint) {
    this.#memory = memory;
    this.#address = address;
  }

  /** The number of arguments that have been read. */
  get count(): number {
    return this.#count;
  }

  get isAtEnd(): boolean {
    return this.#count === maximumArguments;
  }

  int(): number {
    return this.#memory.int(this.#next(4n));
  }

  long(): bigint {
    return this.#memory.long(this.#next(8n));
  }

  #next(byteLength: bigint): bigint {
    const offset = (this.#end + byteLength - 1n) / byteLength * byteLength;
    this.#end = offset + byteLength;
    this.#count++;
    return this.#address + offset;
  }
}

function formatted(format: string, { values, memory }: { values: ArgumentReader; memory: DeviceText }): string {
  const parts: string[] = [];
  let begin = 0;
  for (let end = format.indexOf("%"); end >= 0; end = format.indexOf("%", begin)) {
    parts.push(format.slice(begin, end));
    conversionPattern.lastIndex = end;
    const match = conversionPattern.exec(format);
    const [directive] = match ?? ["%"];
    parts.push(match === null ? directive : converted(match, { values, memory }) ?? directive);
    begin = end + directive.length;
  }
  parts.push(format.slice(begin));
  return parts.join("");
}

/** Returns the text for one conversion specification, or undefined if there are not enough arguments. */
function converted(
  [, flags = "", width = "", digits, size = "", type = ""]: RegExpExecArray,
  { values, memory }: { values: ArgumentReader; memory: DeviceText },
): string | undefined {
  if (type === "%") return "%";
  if (values.isAtEnd) return undefined;
  const precision = digits === undefined ? undefined : Number(digits);
  let conversion: Conversion = { flags, width: Number(width), precision, type };
  if (width === "*") {
    const value = values.int();
    conversion = { ...conversion, flags: value < 0 ? `-${flags}` : flags, width: Math.abs(value) };
    if (values.isAtEnd) return undefined;
  }
  const bits = /[cdiouxX]/.test(type) ? integerBits[size] ?? 32 : 64;
  const value = bits === 64 ? values.long() : BigInt(values.int());
  // For strings and characters, the precision is a maximum and does not make the output longer.
  const atLeast = Math.max(conversion.width, /[sSc]/.test(type) ? 0 : precision ?? 0);
  if (atLeast > maximumCharacters) {
    throw new LengthError();
  }
  return convert(value, { conversion, bits, isWide: type === "S" || size.startsWith("l"), memory });
}

function convert(
  value: bigint,
  { conversion, bits, isWide, memory }: { conversion: Conversion; bits: number; isWide: boolean; memory: DeviceText },
): string {
  const { type, precision } = conversion;
  switch (type) {
    case "d":
    case "i":
      return convertInteger(BigInt.asIntN(bits, value), conversion);
    case "o":
    case "u":
    case "x":
    case "X":
      return convertInteger(BigInt.asUintN(bits, value), conversion);
    case "p":
      return convertPointer(value, conversion);
    case "c": {
      const code = Number(BigInt.asUintN(isWide ? 32 : 8, value));
      // In the "C" locale, the C library cannot encode wide characters above 0x7f.
      if (isWide && code > 0x7f) return "";
      return convertText(String.fromCharCode(code), { ...conversion, precision: undefined });
    }
    case "s":
    case "S":
      if (value === 0n) return convertNullText(conversion);
      // A GPU copies the string only up to the first null byte, so the C library cannot read the copy as a string of
      // wide characters, and prints nothing.
      return isWide ? "" : convertText(memory.text(value, precision), conversion);
    default:
      return convertDouble(value, conversion);
  }
}
