/**
 * The texels that one read uses, their weights, and the sum of them as the texture unit computes it.
 *
 * @module
 */
import { type Axis, secondDown, secondUp } from "./addressing.ts";
import type { BoundTexture, TexelLevel, TexelMemory } from "./bound_texture.ts";
import {
  bitsOfFloat,
  exponentOf,
  floatOfBits,
  greatestIntegers,
  powerOfTwo,
  roundedAway,
  srgbExponent,
  textureNaN,
} from "./texel_format.ts";

const leastHalf = 2 ** -24, leastSingle = 2 ** -149;
const mostTexels = 128;
/** The offset that stands for the border. */
const border = -1;

/** The texels that one read uses, with their weights in 256ths. It is reused for the next read. */
export class Footprint {
  readonly #memory: TexelMemory;
  readonly #offsets = new Float64Array(mostTexels);
  readonly #weights = new Int32Array(mostTexels);
  /** The plane of each texel: a slice of a level. Each is summed alone. */
  readonly #planes = new Int32Array(mostTexels);
  readonly #values = new Float64Array(mostTexels);
  readonly #sums = new Float64Array(mostTexels);
  #count = 0;
  #planeCount = 0;
  /** What all weights together are. */
  #whole = 256;

  constructor(memory: TexelMemory) {
    this.#memory = memory;
  }

  /** Removes all texels. The weights of those that are added next make up `whole`. */
  clear(whole = 256): void {
    this.#count = 0;
    this.#planeCount = 0;
    this.#whole = whole;
  }

  /** Begins a plane. The texels that are added next belong to it. */
  beginPlane(): void {
    this.#planeCount++;
  }

  /** Adds the texel of a slice in a row. A negative index stands for the border. */
  add(level: TexelLevel, slice: number, x: number, y: number, weight: number): void {
    const at = this.#count++;
    this.#offsets[at] = x < 0 || y < 0 || slice < 0
      ? border
      : level.begin + slice * level.sliceBytes + y * level.rowBytes + x * level.texelBytes;
    this.#weights[at] = weight;
    this.#planes[at] = this.#planeCount;
  }

  /** Adds the texels of a slice where two axes cross, whose weights make up `weight`, as a plane. */
  addPlane(level: TexelLevel, slice: number, x: Axis, y: Axis, weight: number): void {
    this.#planeCount++;
    this.addCross(level, slice, x, y, weight);
  }

  /** Adds the texels where two axes cross to a plane, with weights that make up `weight`, and are multiplied then. */
  addCross(level: TexelLevel, slice: number, x: Axis, y: Axis, weight: number, scale = 1): void {
    const right = secondUp(weight, x.fraction), left = weight - right;
    const lowerLeft = secondDown(left, y.fraction), lowerRight = secondUp(right, y.fraction);
    this.add(level, slice, x.first, y.first, scale * (left - lowerLeft));
    if (x.fraction !== 0) this.add(level, slice, x.second, y.first, scale * (right - lowerRight));
    if (y.fraction === 0) return;
    this.add(level, slice, x.first, y.second, scale * lowerLeft);
    if (x.fraction !== 0) this.add(level, slice, x.second, y.second, scale * lowerRight);
  }

  /** Calls `visit` with the offset of each texel that is not of the border. */
  forEachTexel(visit: (offset: number) => void): void {
    for (const offset of this.#offsets.subarray(0, this.#count)) if (offset !== border) visit(offset);
  }

  /** Returns the bits of the only texel's channel. */
  point(texture: BoundTexture, channel: number): number {
    return this.texel(texture, channel, 0);
  }

  /** Returns the bits of a channel of a texel as a point read gives them. */
  texel(texture: BoundTexture, channel: number, index: number): number {
    if (channel >= texture.object.channels) return 0;
    const offset = this.#offsets[index]!;
    if (offset === border) return texture.borderWords[channel]!;
    return texture.wordOf(this.#memory.read(offset + channel * texture.channelBytes, texture.format), channel);
  }

  /** Returns the weighted sum of a channel, as the bits of a 32-bit float. */
  sum(texture: BoundTexture, channel: number): number {
    if (channel >= texture.object.channels) return 0;
    const isFloat = texture.isFloat || texture.isSrgb(channel);
    if (!isFloat) return bitsOfFloat(Math.fround(this.#integerSum(texture, channel)));
    const common = texture.format === "f32" && this.#planeCount === 1 ? this.#singleSum(texture, channel) : undefined;
    return common ?? this.#floatSum(texture, channel);
  }

  /** Returns the code of a channel of a texel. */
  #codeOf(texture: BoundTexture, channel: number, index: number): number {
    const offset = this.#offsets[index]!;
    return offset === border
      ? texture.borderCodes[channel]!
      : this.#memory.read(offset + channel * texture.channelBytes, texture.format);
  }

  #integerSum(texture: BoundTexture, channel: number): number {
    const { format } = texture;
    let sum = 0;
    for (let index = 0; index < this.#count; index++) {
      sum += this.#weights[index]! * this.#codeOf(texture, channel, index);
    }
    sum = sum * 256 / this.#whole;
    switch (format) {
      case "u8":
        return Math.floor((257 * sum + 128) / 256) / 65535;
      case "s8": {
        const whole = sum >> 4;
        const scaled = sum + ((whole + (whole >> 8) + 4) >> 3);
        return Math.max(-32767, Math.min(32767, scaled)) / 32767;
      }
      default: {
        const greatest = greatestIntegers[format]!;
        return Math.max(Math.floor((sum + 128) / 256), -greatest) / greatest;
      }
    }
  }

  /**
   * Returns the sum of 32-bit floats of one plane as `#floatSum` does. Undefined if one of them is infinite or no number.
   */
  #singleSum({ borderCodes }: BoundTexture, channel: number): number | undefined {
    const { words, singles } = this.#memory;
    let top = 0;
    let isNegative = true;
    for (let index = 0; index < this.#count; index++) {
      const offset = this.#offsets[index]!;
      const at = offset / 4 + channel;
      const code = offset === border ? borderCodes[channel]! : words[at]!;
      const exponent = code >>> 23 & 255;
      if (exponent === 255) return undefined;
      this.#values[index] = exponent === 0 ? 0 : offset === border ? floatOfBits(code) : singles[at]!;
      if (this.#weights[index] === 0) continue;
      if (exponent > top) top = exponent;
      if (code >>> 31 === 0) isNegative = false;
    }
    if (top === 0) return isNegative ? 0x8000_0000 : 0;
    const scale = powerOfTwo(154 - top);
    let sum = 0;
    for (let index = 0; index < this.#count; index++) {
      sum += Math.trunc(this.#values[index]! * scale) * this.#weights[index]!;
    }
    return roundedSum(sum * powerOfTwo(top - 154) / this.#whole, { isNegative, isShort: false });
  }

  #floatSum(texture: BoundTexture, channel: number): number {
    const isSrgb = texture.isSrgb(channel), isHalf = texture.format === "f16";
    let hasNaN = false, hasInfinity = false, hasNegativeInfinity = false;
    let isNegative = true;
    let planes = 0, greatestTop = -Infinity;
    for (let index = 0; index < this.#count;) {
      const plane = this.#planes[index]!;
      let top = isHalf ? -13 : -Infinity;
      let end = index;
      for (; end < this.#count && this.#planes[end] === plane; end++) {
        const code = this.#codeOf(texture, channel, end);
        const value = this.#values[end] = texture.numberOf(code);
        if (Number.isNaN(value)) hasNaN = true;
        else if (value === Infinity) hasInfinity = true;
        else if (value === -Infinity) hasNegativeInfinity = true;
        if (this.#weights[end] === 0) continue;
        if (value > 0 || Object.is(value, 0)) isNegative = false;
        if (isSrgb) top = Math.max(top, srgbExponent(code));
        else if (value !== 0 && value - value === 0) {
          const exponent = isHalf ? exponentOf(Math.abs(value)) + 1 : (code >>> 23 & 255) - 126;
          if (exponent > top) top = exponent;
        }
      }
      if (top !== -Infinity) {
        const unitExponent = isSrgb ? Math.max(top - 8, -14) : top - (isHalf ? 15 : 28);
        const unit = powerOfTwo(unitExponent), scale = powerOfTwo(-unitExponent);
        let sum = 0;
        for (let at = index; at < end; at++) {
          const value = this.#values[at]!;
          if (value - value === 0) sum += Math.trunc(value * scale) * this.#weights[at]!;
        }
        greatestTop = Math.max(greatestTop, top);
        this.#sums[planes++] = sum * unit / this.#whole;
      }
      index = end;
    }
    if (hasNaN || hasInfinity && hasNegativeInfinity) return isHalf ? 0x7fff_e000 : textureNaN;
    if (hasInfinity || hasNegativeInfinity) return hasInfinity ? 0x7f80_0000 : 0xff80_0000;
    const spare = isSrgb ? 18 : isHalf ? 25 : 38;
    const total = this.#totalOf(planes, 4 * Math.ceil((greatestTop - 1) / 4) - spare);
    return roundedSum(total, { isNegative, isShort: isHalf || isSrgb });
  }

  /** Returns the sum of planes, which are cut down to multiples of a power of two. */
  #totalOf(planes: number, unitExponent: number): number {
    const unit = powerOfTwo(unitExponent), scale = powerOfTwo(-unitExponent);
    let total = 0;
    for (let plane = 0; plane < planes; plane++) total += Math.floor(this.#sums[plane]! * scale) * unit;
    return total;
  }
}

/**
 * Returns the bits of a sum of floats.
 *
 * @param options.isNegative whether a sum of 0 is -0
 * @param options.isShort whether it has 11 bits, instead of 24
 */
function roundedSum(total: number, { isNegative, isShort }: { isNegative: boolean; isShort: boolean }): number {
  if (total === 0) return isNegative ? 0x8000_0000 : 0;
  const rounded = roundedAway(total, { bits: isShort ? 11 : 24, least: isShort ? leastHalf : leastSingle });
  if (Math.abs(rounded) < (isShort ? 2 ** -24 : 2 ** -126)) return total < 0 ? 0x8000_0000 : 0;
  return bitsOfFloat(rounded);
}
