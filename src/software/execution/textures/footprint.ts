/**
 * The texels that one read uses, their weights, and the sum of them as the texture unit computes it.
 *
 * @module
 */
import { type Axis, dividedDown, dividedUp } from "./addressing.ts";
import type { BoundTexture, TexelLevel, TexelMemory } from "./bound_texture.ts";
import { bitsOfFloat, exponentOf, greatestIntegers, roundedAway, srgbExponent, textureNaN } from "./texel_format.ts";

const mostTexels = 32;
/** The offset that stands for the border. */
const border = -1;

/** The texels that one read uses, with their weights in 256ths. It is reused for the next read. */
export class Footprint {
  readonly #memory: TexelMemory;
  readonly #offsets = new Float64Array(mostTexels);
  readonly #weights = new Int32Array(mostTexels);
  /** The plane of each texel: a slice of a level. Each is summed alone. */
  readonly #planes = new Int32Array(mostTexels);
  readonly #codes = new Float64Array(mostTexels);
  #count = 0;
  #planeCount = 0;

  constructor(memory: TexelMemory) {
    this.#memory = memory;
  }

  clear(): void {
    this.#count = 0;
    this.#planeCount = 0;
  }

  /** Begins a plane. The texels that are added next belong to it. */
  beginPlane(): void {
    this.#planeCount++;
  }

  /** Adds a texel. A negative index stands for the border. */
  add(
    level: TexelLevel,
    { bytes, slice }: { bytes: number; slice: number },
    x: number,
    y: number,
    weight: number,
  ): void {
    const isBorder = x < 0 || y < 0 || slice < 0;
    const at = this.#count++;
    this.#offsets[at] = isBorder ? border : level.begin + slice * level.sliceBytes + y * level.rowBytes + x * bytes;
    this.#weights[at] = weight;
    this.#planes[at] = this.#planeCount;
  }

  /** Adds the texels of a plane where two axes cross, whose weights make up `weight`. */
  addPlane(
    level: TexelLevel,
    place: { bytes: number; slice: number },
    [x, y]: readonly [Axis, Axis],
    weight: number,
  ): void {
    this.beginPlane();
    const [left, right] = dividedUp(weight, x.fraction);
    const [upperLeft, lowerLeft] = dividedDown(left, y.fraction);
    const [upperRight, lowerRight] = dividedUp(right, y.fraction);
    this.add(level, place, x.first, y.first, upperLeft);
    if (x.fraction !== 0) this.add(level, place, x.second, y.first, upperRight);
    if (y.fraction === 0) return;
    this.add(level, place, x.first, y.second, lowerLeft);
    if (x.fraction !== 0) this.add(level, place, x.second, y.second, lowerRight);
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
    for (let index = 0; index < this.#count; index++) {
      const offset = this.#offsets[index]!;
      this.#codes[index] = offset === border
        ? texture.borderCodes[channel]!
        : this.#memory.read(offset + channel * texture.channelBytes, texture.format);
    }
    const isFloat = texture.format.startsWith("f") || texture.isSrgb(channel);
    return isFloat ? this.#floatSum(texture, channel) : bitsOfFloat(Math.fround(this.#integerSum(texture)));
  }

  #integerSum({ format }: BoundTexture): number {
    let sum = 0;
    for (let index = 0; index < this.#count; index++) sum += this.#weights[index]! * this.#codes[index]!;
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

  #floatSum(texture: BoundTexture, channel: number): number {
    const isSrgb = texture.isSrgb(channel), isHalf = texture.format === "f16";
    let hasNaN = false, hasInfinity = false, hasNegativeInfinity = false;
    let isNegative = true;
    // What `total` lacks to be the exact sum: planes may differ in size beyond 53 bits.
    let total = 0, lack = 0;
    for (let index = 0; index < this.#count;) {
      const plane = this.#planes[index]!;
      let top = isHalf ? -13 : -Infinity;
      let end = index;
      for (; end < this.#count && this.#planes[end] === plane; end++) {
        const code = this.#codes[end]!;
        const value = texture.numberOf(code);
        if (Number.isNaN(value)) hasNaN = true;
        else if (value === Infinity) hasInfinity = true;
        else if (value === -Infinity) hasNegativeInfinity = true;
        if (this.#weights[end] === 0) continue;
        if (value > 0 || Object.is(value, 0)) isNegative = false;
        if (isSrgb) top = Math.max(top, srgbExponent(code));
        else if (value !== 0 && Number.isFinite(value)) top = Math.max(top, exponentOf(Math.abs(value)) + 1);
      }
      if (top !== -Infinity) {
        const unit = isSrgb ? Math.max(2 ** (top - 8), 2 ** -14) : 2 ** (top - (isHalf ? 15 : 28));
        let sum = 0;
        for (let at = index; at < end; at++) {
          const value = texture.numberOf(this.#codes[at]!);
          if (Number.isFinite(value)) sum += Math.trunc(value / unit) * this.#weights[at]!;
        }
        const part = sum * unit / 256, before = total;
        total += part;
        const added = total - before;
        lack += before - (total - added) + (part - added);
      }
      index = end;
    }
    if (hasNaN || hasInfinity && hasNegativeInfinity) return isHalf ? 0x7fff_e000 : textureNaN;
    if (hasInfinity || hasNegativeInfinity) return hasInfinity ? 0x7f80_0000 : 0xff80_0000;
    if (total === 0) return isNegative ? 0x8000_0000 : 0;
    const isShort = isHalf || isSrgb;
    const rounded = roundedAway(total, lack, { bits: isShort ? 11 : 24, least: isShort ? 2 ** -24 : 2 ** -149 });
    if (Math.abs(rounded) < (isShort ? 2 ** -24 : 2 ** -126)) return total < 0 ? 0x8000_0000 : 0;
    return bitsOfFloat(rounded);
  }
}
