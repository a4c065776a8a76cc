/**
 * What a kernel prints: `printf` and failed assertions, from the text and the values that it left in memory.
 *
 * As on a GPU: CUDA C++ Programming Guide, "Formatted Output". What is no conversion there, `%zu` and `%.*f` for two, is
 * printed as it stands and takes no argument, where a GPU prints something accidental.
 *
 * @module
 */
import { addressBase, localAddressBase, sharedAddressBase } from "./compiler/addresses.ts";
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
  /** Generic addresses of the format, which ends with a 0, and of the arguments, each at a multiple of its size. */
  readonly format: bigint;
  readonly arguments: bigint;
  /** Where the thread's local memory and the block's shared memory begin. */
  readonly local: number;
  readonly shared: number;
}

/** A kernel's call of `__assertfail`. */
export interface AssertionCall {
  /** Generic addresses of texts, each of which ends with a 0. */
  readonly message: bigint;
  readonly file: bigint;
  readonly function: bigint;
  /** In the file. */
  readonly line: number;
  readonly block: readonly [x: number, y: number, z: number];
  readonly thread: readonly [x: number, y: number, z: number];
  /** Where the thread's local memory and the block's shared memory begin, if the texts may lie there. */
  readonly local?: number;
  readonly shared?: number;
}

/** As many arguments as one call prints. */
const maximumArguments = 32;
/** As many characters as a format, a text and a value have at most: the bytes that a GPU has for all that it prints. */
const maximumCharacters = 2 ** 20;
/** The bits of the integers of each size; without one they have those of an `int`. */
const integerBits: Readonly<Record<string, number>> = { h: 16, l: 64, ll: 64 };
const conversionPattern = /%([-+ #0]*)(\*|\d*)(?:\.(\d*))?(ll?|h?)([cdiouxXpeEfFgGaAsS%])/y;

/**
 * Prints, in one piece, and returns how many arguments that took. Nothing is printed, and the result is -1, where there is
 * no format, or what is to be printed does not lie in the memory; and -2 where it is too long.
 *
 * @param bytes the memory of the software devices
 */
export function printFromDevice(bytes: Uint8Array, call: PrintCall, write: (text: Uint8Array) => void): number {
  const memory = new DeviceText(bytes, call);
  try {
    const format = memory.text(call.format);
    const values = new ArgumentReader(memory, call.arguments);
    const text = formatted(format, { values, memory });
    if (text !== "") write(Uint8Array.from({ length: text.length }, (_, index) => text.charCodeAt(index)));
    return values.count;
  } catch (error) {
    if (error instanceof PrintFailure) return error.result;
    throw error;
  }
}

/** What CUDA prints of a failed assertion, without the end of the line. */
export function assertionMessage(bytes: Uint8Array, call: AssertionCall): string {
  const memory = new DeviceText(bytes, call);
  const [message, file, name] = [call.message, call.file, call.function].map((address) => {
    try {
      return new TextDecoder().decode(memory.characters(address));
    } catch (error) {
      if (error instanceof PrintFailure) return "?";
      throw error;
    }
  });
  const { line, block, thread } = call;
  const place = `${file}:${line >>> 0}: ${name}: block: [${block.join(",")}], thread: [${thread.join(",")}]`;
  return `${place} Assertion \`${message}\` failed.`;
}

class PrintFailure extends Error {
  /** What `vprintf` returns. */
  readonly result: -1 | -2;

  constructor(reason: "outside the memory" | "too long") {
    super(`Cannot print: ${reason}`);
    this.result = reason === "too long" ? -2 : -1;
  }
}

/** The memory as a thread addresses it. */
class DeviceText {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  /** Where memory begins, by the high half of its addresses. */
  readonly #begins: ReadonlyMap<bigint, number>;

  constructor(bytes: Uint8Array, { local, shared }: { local?: number; shared?: number }) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const begins = new Map([[addressBase >> 32n, 0]]);
    if (local !== undefined) begins.set(localAddressBase >> 32n, local >>> 0);
    if (shared !== undefined) begins.set(sharedAddressBase >> 32n, shared >>> 0);
    this.#begins = begins;
  }

  int(address: bigint): number {
    return this.#view.getInt32(this.#offsetOf(address, 4), true);
  }

  long(address: bigint): bigint {
    return this.#view.getBigUint64(this.#offsetOf(address, 8), true);
  }

  /** The bytes up to a 0, which need not be there after as many as are wanted. */
  characters(address: bigint, maximum: number = Infinity): Uint8Array {
    const begin = this.#offsetOf(address, 0);
    const wanted = Math.min(maximum, maximumCharacters + 1);
    const found = this.#bytes.subarray(begin, begin + wanted);
    const length = found.indexOf(0);
    if (length < 0 && found.length < wanted) throw new PrintFailure("outside the memory");
    if (length < 0 && found.length > maximumCharacters) throw new PrintFailure("too long");
    // A copy: decoders refuse what lies in shared memory.
    return found.slice(0, length < 0 ? undefined : length);
  }

  /** The same as a string of one character for each byte. */
  text(address: bigint, maximum?: number): string {
    const parts: string[] = [];
    for (const byte of this.characters(address, maximum)) parts.push(String.fromCharCode(byte));
    return parts.join("");
  }

  #offsetOf(address: bigint, byteLength: number): number {
    const bits = BigInt.asUintN(64, address);
    const begin = this.#begins.get(bits >> 32n);
    if (begin === undefined) throw new PrintFailure("outside the memory");
    const offset = begin + Number(BigInt.asUintN(32, bits));
    if (offset + byteLength > this.#bytes.length) throw new PrintFailure("outside the memory");
    return offset;
  }
}

/** The arguments of a call, one after another. */
class ArgumentReader {
  readonly #memory: DeviceText;
  readonly #address: bigint;
  #end = 0n;
  #count = 0;

  constructor(memory: DeviceText, address: bigint) {
    this.#memory = memory;
    this.#address = address;
  }

  /** How many have been read. */
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

/** What is printed for a conversion, or undefined where there is no argument for it. */
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
  // Of text, the precision is but an upper bound.
  const atLeast = Math.max(conversion.width, /[sSc]/.test(type) ? 0 : precision ?? 0);
  if (atLeast > maximumCharacters) throw new PrintFailure("too long");
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
      // The C library, where no locale was chosen, has no bytes for such wide characters.
      if (isWide && code > 0x7f) return "";
      return convertText(String.fromCharCode(code), { ...conversion, precision: undefined });
    }
    case "s":
    case "S":
      if (value === 0n) return convertNullText(conversion);
      // A GPU copies text by bytes up to the first 0, and the C library makes nothing of those as wide characters.
      return isWide ? "" : convertText(memory.text(value, precision), conversion);
    default:
      return convertDouble(value, conversion);
  }
}
