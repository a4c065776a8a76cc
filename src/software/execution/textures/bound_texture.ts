/**
 * A texture or surface as the texture unit uses it: where its texels lie, and what their bits mean.
 *
 * @module
 */
import {
  bitsOfFloat,
  floatOfBits,
  greatestIntegers,
  srgbCode,
  srgbValues,
  truncatedHalf,
  valueOfHalf,
  wordOfHalf,
} from "./texel_format.ts";
import { type ChannelFormat, channelFormats, texelBytes, type TextureObject } from "./texture_object.ts";

/** The views of linear memory by which texels are read and written. */
export class TexelMemory {
  readonly bytes: Uint8Array;
  readonly #signedBytes: Int8Array;
  readonly #halves: Uint16Array;
  readonly #signedHalves: Int16Array;
  readonly words: Uint32Array;
  readonly singles: Float32Array;

  constructor({ buffer }: WebAssembly.Memory) {
    this.bytes = new Uint8Array(buffer);
    this.#signedBytes = new Int8Array(buffer);
    this.#halves = new Uint16Array(buffer);
    this.#signedHalves = new Int16Array(buffer);
    this.words = new Uint32Array(buffer);
    this.singles = new Float32Array(buffer);
  }

  /** Returns the bits of a channel: integers as they are, signed ones as negative numbers, floats as their bits. */
  read(offset: number, format: ChannelFormat): number {
    switch (format) {
      case "u8":
        return this.bytes[offset]!;
      case "s8":
        return this.#signedBytes[offset]!;
      case "u16":
      case "f16":
        return this.#halves[offset / 2]!;
      case "s16":
        return this.#signedHalves[offset / 2]!;
      default:
        return this.words[offset / 4]!;
    }
  }
}

/** One level of the texels. Distances are in bytes. */
export interface TexelLevel {
  readonly begin: number;
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly rowBytes: number;
  /** The distance of slices, or of layers. */
  readonly sliceBytes: number;
  readonly texelBytes: number;
}

/** A texture or surface as the texture unit uses it. */
export class BoundTexture {
  readonly object: TextureObject;
  readonly format: ChannelFormat;
  readonly channelBytes: number;
  readonly texelBytes: number;
  readonly levels: readonly TexelLevel[];
  readonly isNormalized: boolean;
  readonly isFloat: boolean;
  /** What a read of the border gives in each channel: the bits of its result. */
  readonly borderWords: readonly number[];
  /** The border in each channel as `code` returns it. */
  readonly borderCodes: readonly number[];

  constructor(object: TextureObject) {
    this.object = object;
    const format = this.format = channelFormats[object.format]!;
    this.channelBytes = texelBytes(format, 1);
    this.texelBytes = texelBytes(format, object.channels);
    this.isFloat = format.startsWith("f");
    this.levels = levelsOf(object, this.texelBytes);
    this.isNormalized = object.isNormalized === 1 && greatestIntegers[format] !== undefined;
    const border = [object.border0, object.border1, object.border2, object.border3].map(Math.fround);
    this.borderCodes = border.map((value, channel) => this.#borderCode(value, channel));
    this.borderWords = this.borderCodes.map((code, channel) =>
      channel < object.channels ? this.wordOf(code, channel) : 0
    );
  }

  /** Whether a channel has the codes of sRGB. */
  isSrgb(channel: number): boolean {
    const { isSrgb, channels } = this.object;
    return isSrgb === 1 && this.format === "u8" && channel < (channels === 4 ? 3 : 1);
  }

  /** Returns what a point read of a channel gives: the bits of a float, or an integer. */
  wordOf(code: number, channel: number): number {
    if (this.format === "f16") return wordOfHalf(code);
    return this.isNormalized ? bitsOfFloat(Math.fround(this.#normalized(code, channel))) : code >>> 0;
  }

  /** Returns the number that a channel of floats, or of sRGB, has. Subnormal 32-bit floats count as 0. */
  numberOf(code: number): number {
    if (this.format === "f16") return valueOfHalf(code);
    if (this.format === "u8") return srgbValues()[code]!;
    return (code & 0x7f80_0000) === 0 ? ((code & 0x8000_0000) === 0 ? 0 : -0) : floatOfBits(code);
  }

  #normalized(code: number, channel: number): number {
    if (this.isSrgb(channel)) return srgbValues()[code]!;
    return Math.max(code / greatestIntegers[this.format]!, -1);
  }

  #borderCode(value: number, channel: number): number {
    const bits = bitsOfFloat(value);
    const { format } = this;
    if (format === "f32") return bits;
    if (format === "f16") return truncatedHalf(bits);
    if (!this.isNormalized) return lowBits(bits, { count: 8 * this.channelBytes, isSigned: format.startsWith("s") });
    const least = format.startsWith("s") ? -1 : 0;
    const clamped = Number.isNaN(value) ? 0 : Math.min(1, Math.max(least, value));
    if (this.isSrgb(channel)) return srgbCode(clamped);
    return nearestEven(truncatedSingle(clamped * greatestIntegers[format]!));
  }
}

function lowBits(bits: number, { count, isSigned }: { count: number; isSigned: boolean }): number {
  const shifted = bits << 32 - count;
  return isSigned ? shifted >> 32 - count : shifted >>> 32 - count;
}

/** Returns the 32-bit float next to a number, toward 0. */
function truncatedSingle(value: number): number {
  const nearest = Math.fround(value);
  return Math.abs(nearest) > Math.abs(value) ? floatOfBits(bitsOfFloat(nearest) - 1) : nearest;
}

function nearestEven(value: number): number {
  const floor = Math.floor(value), rest = value - floor;
  return rest > 0.5 || rest === 0.5 && floor % 2 !== 0 ? floor + 1 : floor;
}

/** Returns the visible levels of a texture. */
function levelsOf(
  { begin, width, height, depth, layers, pitch, firstLevel, levels }: TextureObject,
  bytes: number,
): TexelLevel[] {
  const found: TexelLevel[] = [];
  let offset = begin;
  for (let level = 0; level < firstLevel + levels; level++) {
    const size = { width: levelOf(width, level), height: levelOf(height, level), depth: levelOf(depth, level) };
    const rowBytes = pitch || size.width * bytes;
    const sliceBytes = rowBytes * size.height;
    if (level >= firstLevel) found.push({ begin: offset, ...size, rowBytes, sliceBytes, texelBytes: bytes });
    offset += sliceBytes * size.depth * layers;
  }
  return found;
}

/** Returns an extent of a level. */
export function levelOf(extent: number, level: number): number {
  return Math.max(1, Math.floor(extent / 2 ** level));
}
