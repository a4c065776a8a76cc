/**
 * What reads of textures return, computed with whole numbers of any size. Slow and plain: it shares no code with the
 * software device.
 *
 * @module
 */

/** The formats of channels. */
export type Format = "u8" | "u16" | "u32" | "s8" | "s16" | "s32" | "f16" | "f32";
type Mode = "wrap" | "clamp" | "mirror" | "border";

/** A level of a texture: the bits of its channels in order, and its size. Depth counts layers, too. */
export interface ReferenceLevel {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly codes: ArrayLike<number>;
}

/** A texture. */
export interface ReferenceTexture {
  readonly format: Format;
  readonly channels: number;
  readonly levels: readonly ReferenceLevel[];
  readonly modes: readonly [Mode, Mode, Mode];
  readonly linear: boolean;
  readonly normalizedCoordinates: boolean;
  /** Whether integers are read as numbers from 0 or -1 to 1. */
  readonly normalized: boolean;
  readonly srgb?: boolean;
  readonly border?: readonly number[];
  readonly levelsLinear?: boolean;
  readonly bias?: number;
  readonly least?: number;
  readonly greatest?: number;
}

/** A read. */
export interface ReferenceRead {
  readonly geometry: "1d" | "2d" | "3d" | "a1d" | "a2d" | "cube" | "acube";
  /** The coordinates of dimensions, or the direction in a cube. */
  readonly coordinates: readonly number[];
  readonly layer?: number;
  readonly offsets?: readonly number[];
  /** The level of `tex.level`. */
  readonly lod?: number;
  /** Whether the coordinates are whole numbers. */
  readonly fetch?: boolean;
  /** The channel of a gather. */
  readonly gather?: number;
  /** Whether the faces of a cube are joined. */
  readonly seamless?: boolean;
}

const bitsView = new DataView(new ArrayBuffer(4));

/** Returns the bits of a 32-bit float. */
export function bitsOf(value: number): number {
  bitsView.setFloat32(0, value);
  return bitsView.getUint32(0);
}

function floatOf(bits: number): number {
  bitsView.setUint32(0, bits);
  return bitsView.getFloat32(0);
}

// Numbers are multiples of 2 ** -149, the least distance of 32-bit floats.
const shift = 149n;
const one = 1n << shift;

/** Returns a finite 32-bit float as a multiple of 2 ** -149. */
function scaled(value: number): bigint {
  const bits = bitsOf(value);
  const exponent = bits >> 23 & 255, fraction = BigInt(bits & 0x7f_ffff);
  const magnitude = exponent === 0 ? fraction : (fraction | 0x80_0000n) << BigInt(exponent - 1);
  return bits >>> 31 === 1 ? -magnitude : magnitude;
}

function floorDiv(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a % b < 0n ? quotient - 1n : quotient;
}

function modulo(a: bigint, b: bigint): bigint {
  return (a % b + b) % b;
}

/** A texel that a read uses, with its weight in 256ths, and the number of its plane. */
interface Tap {
  readonly level: ReferenceLevel;
  readonly x: bigint | "border";
  readonly y: bigint | "border";
  readonly z: bigint | "border";
  readonly weight: bigint;
  readonly plane: number;
}

type Places = { readonly index: bigint | "border"; readonly part: bigint }[];

/** Returns the texel that an index stands for. */
function indexIn(mode: Mode, index: bigint, extent: bigint): bigint | "border" {
  if (mode === "wrap") return modulo(index, extent);
  if (mode === "mirror") {
    const within = modulo(index, 2n * extent);
    return within < extent ? within : 2n * extent - 1n - within;
  }
  if (index >= 0n && index < extent) return index;
  return mode === "border" ? "border" : index < 0n ? 0n : extent - 1n;
}

/** Returns a finite coordinate in multiples of 2 ** -149 texels. */
function texelsAt({ normalizedCoordinates }: ReferenceTexture, coordinate: number, extent: number): bigint {
  const unit = one >> 21n;
  return normalizedCoordinates ? floorDiv(scaled(coordinate), unit) * unit * BigInt(extent) : scaled(coordinate);
}

/** Returns the one or two texels of a dimension, with the part of the second one in 256ths. */
function placesOf(
  texture: ReferenceTexture,
  dimension: number,
  extent: number,
  coordinate: number,
  offset: number,
): Places {
  const given = texture.modes[dimension]!;
  const mode = texture.normalizedCoordinates || given === "border" ? given : "clamp";
  const e = BigInt(extent);
  const indexOf = (index: bigint) => indexIn(mode, index, e);
  let value = coordinate;
  if (Number.isNaN(value) || Math.abs(value) < 2 ** -126) value = 0;
  if (!Number.isFinite(value)) {
    if (mode === "wrap" || mode === "mirror") value = 0;
    else return [{ index: indexOf(value < 0 ? -(1n << 200n) : 1n << 200n), part: 0n }];
  }
  const at = texelsAt(texture, value, extent) + BigInt(offset) * one;
  if (!texture.linear) return [{ index: indexOf(floorDiv(at, one)), part: 0n }];
  const position = floorDiv(256n * at + one / 2n, one) - 128n;
  const index = floorDiv(position, 256n), part = modulo(position, 256n);
  if (mode === "clamp" && (index < 0n || index >= e - 1n)) return [{ index: index < 0n ? 0n : e - 1n, part: 0n }];
  if (part === 0n) return [{ index: indexOf(index), part: 0n }];
  return [{ index: indexOf(index), part }, { index: indexOf(index + 1n), part }];
}

/** Rounds a product of weights to 256ths, half up. */
function up(product: bigint): bigint {
  return floorDiv(product + 128n, 256n);
}

/** Rounds a product of weights to 256ths, half down. */
function down(product: bigint): bigint {
  return -floorDiv(-product + 128n, 256n);
}

function tapsOfPlane(
  level: ReferenceLevel,
  { xs, ys, z }: { xs: Places; ys: Places; z: bigint | "border" },
  { weight, plane }: { weight: bigint; plane: number },
): Tap[] {
  const x1 = up(weight * xs[0]!.part), x0 = weight - x1;
  const w11 = up(x1 * ys[0]!.part), w01 = down(x0 * ys[0]!.part);
  const weights = [[x0 - w01, x1 - w11], [w01, w11]];
  return ys.flatMap((y, row) =>
    xs.map((x, column) => ({ level, x: x.index, y: y.index, z, weight: weights[row]![column]!, plane }))
  );
}

/** The faces of a cube: the direction of the middle, and those of the two coordinates. */
const faces = ["+x -z -y", "-x +z -y", "+y +x +z", "-y +x -z", "+z +x -y", "-z -x -y"].map((text) =>
  text.split(" ").map((axis) => [..."xyz"].map((name) => name === axis[1] ? Number(`${axis[0]}1`) : 0)) as [
    number[],
    number[],
    number[],
  ]
);

/** Returns the face in a direction, and the place on it. The largest part must be alone. */
function faceIn(direction: readonly number[]): { face: number; s: number; t: number } {
  const along = (axis: readonly number[]) => axis.reduce((sum, part, index) => sum + part * direction[index]!, 0);
  const face = faces.findIndex(([middle]) => along(middle) === Math.max(...direction.map(Math.abs)));
  const scale = Math.fround(1 / along(faces[face]![0]));
  const major = Math.fround(along(faces[face]![0]) * scale);
  const [s, t] = faces[face]!.slice(1).map((axis) =>
    Math.fround(Math.fround(Math.fround(Math.fround(along(axis) * scale) / major) + 1) / 2)
  ) as [number, number];
  return { face, s, t };
}

/** Returns the taps of a cube whose faces are joined. */
function seamlessTaps(
  texture: ReferenceTexture,
  level: ReferenceLevel,
  { direction, layer, weight }: { direction: readonly number[]; layer: number; weight: bigint },
) {
  const { face, s, t } = faceIn(direction);
  const extent = level.width;
  const [middle, sAxis, tAxis] = faces[face]!;
  // No address mode has an effect.
  const inside = (coordinate: number): Places => {
    const position = floorDiv(256n * texelsAt(texture, coordinate, extent) + one / 2n, one) - 128n;
    const index = floorDiv(position, 256n), part = modulo(position, 256n);
    return [{ index, part }, ...part === 0n ? [] : [{ index: index + 1n, part }]];
  };
  const taps = tapsOfPlane(level, { xs: inside(s), ys: inside(t), z: 0n }, { weight, plane: level.width });
  const place = (index: bigint) => (2 * Number(index) + 1) / extent - 1;
  let missing: Tap | undefined;
  const found = taps.map((tap) => {
    const [u, v] = [place(tap.x as bigint), place(tap.y as bigint)];
    const beyondU = Math.abs(u) > 1, beyondV = Math.abs(v) > 1;
    if (beyondU && beyondV) missing = tap;
    if (!beyondU && !beyondV || beyondU && beyondV) return { tap, face, x: tap.x, y: tap.y };
    // The surface of the cube turns at the edge.
    const point = [0, 1, 2].map((axis) =>
      middle[axis]! * (1 - 1 / extent) + sAxis[axis]! * Math.max(-1, Math.min(1, u)) +
      tAxis[axis]! * Math.max(-1, Math.min(1, v))
    );
    const largest = point.map(Math.abs).indexOf(Math.max(...point.map(Math.abs)));
    const next = faces.findIndex(([axis]) => axis[largest] === Math.sign(point[largest]!));
    const on = faces[next]!.slice(1).map((axis) => axis.reduce((sum, part, index) => sum + part * point[index]!, 0));
    const [x, y] = on.map((coordinate) => BigInt(Math.round(((coordinate + 1) * extent - 1) / 2))) as [bigint, bigint];
    return { tap, face: next, x, y };
  });
  const share = missing === undefined ? 0n : BigInt(Math.round(Number(missing.weight) / 3));
  return found.filter(({ tap }) => tap !== missing).map(({ tap, face, x, y }): Tap => {
    const isOpposite = missing !== undefined && tap.x !== missing.x && tap.y !== missing.y;
    const more = missing === undefined ? 0n : isOpposite ? missing.weight - 2n * share : share;
    return { ...tap, x, y, z: BigInt(layer * 6 + face), weight: tap.weight + more };
  });
}

/** Returns the levels that a read uses, with their weights. */
function partsOf(texture: ReferenceTexture, read: ReferenceRead): (readonly [ReferenceLevel, bigint])[] {
  const { levels } = texture;
  const fixed = (value: number) => Number.isNaN(value) ? 0 : Math.trunc(256 * value);
  const last = levels.length - 1;
  const biased = fixed(read.lod ?? -32) + fixed(texture.bias ?? 0);
  const limited = Math.min(Math.max(biased, fixed(texture.least ?? 0)), fixed(texture.greatest ?? last));
  const detail = Math.max(0, Math.min(limited, 256 * last));
  const parts = texture.levelsLinear
    ? [[detail >> 8, 256 - detail % 256], [(detail >> 8) + 1, detail % 256]].filter(([, weight]) => weight !== 0)
    : [[detail + 128 >> 8, 256]];
  return parts.map(([number, weight]) => [levels[number!]!, BigInt(weight!)]);
}

/** Returns the bits of four results of a read. */
export function referenceRead(texture: ReferenceTexture, read: ReferenceRead): number[] {
  const { levels } = texture;
  if (read.fetch) return fetched(texture, read);
  if (read.geometry.endsWith("cube")) {
    const layer = read.geometry === "acube" ? Math.min((read.layer ?? 0) >>> 0, levels[0]!.depth / 6 - 1) : 0;
    if (read.seamless && texture.linear) {
      const taps = partsOf(texture, read).flatMap(([level, weight]) =>
        seamlessTaps(texture, level, { direction: read.coordinates, layer, weight })
      );
      return [0, 1, 2, 3].map((channel) => channel < texture.channels ? sumOf(texture, taps, channel) : 0);
    }
    const { face, s, t } = faceIn(read.coordinates);
    return referenceRead(texture, { ...read, geometry: "a2d", coordinates: [s, t], layer: 6 * layer + face });
  }
  if (read.gather !== undefined) return gathered(texture, read, read.gather);
  const taps = partsOf(texture, read).flatMap(([level, weight]) => tapsOf(texture, read, level, weight));
  const isSum = texture.linear || texture.levelsLinear === true;
  return [0, 1, 2, 3].map((channel) => {
    if (channel >= texture.channels) return 0;
    return isSum ? sumOf(texture, taps, channel) : wordOf(texture, codeOf(texture, taps[0]!, channel), channel);
  });
}

/** Returns the texel at whole coordinates: zeros outside. */
function fetched(texture: ReferenceTexture, { geometry, coordinates, layer = 0 }: ReferenceRead): number[] {
  const level = texture.levels[0]!;
  const [x = 0, y = 0, z = geometry.startsWith("a") ? layer >>> 0 : 0] = coordinates;
  const isInside = x >= 0 && x < level.width && y >= 0 && y < level.height && z >= 0 && z < level.depth;
  const tap: Tap = { level, x: BigInt(x), y: BigInt(y), z: BigInt(z), weight: 256n, plane: 0 };
  return [0, 1, 2, 3].map((channel) =>
    isInside && channel < texture.channels ? wordOf(texture, codeOf(texture, tap, channel), channel) : 0
  );
}

/** Returns a channel of the four texels around coordinates. */
function gathered(texture: ReferenceTexture, read: ReferenceRead, channel: number): number[] {
  const level = texture.levels[0]!;
  // Each of the two places of a dimension is addressed alone.
  const placesAlong = (dimension: number, extent: number) => {
    const given = texture.modes[dimension]!;
    const mode = texture.normalizedCoordinates || given === "border" ? given : "clamp";
    const coordinate = read.coordinates[dimension]!;
    const position = floorDiv(256n * texelsAt(texture, coordinate, extent) + one / 2n, one) - 128n;
    const index = floorDiv(position, 256n);
    return [index, index + 1n].map((at) => indexIn(mode, at, BigInt(extent)));
  };
  const xs = placesAlong(0, level.width), ys = placesAlong(1, level.height);
  const z = read.geometry.startsWith("a") ? BigInt(Math.min((read.layer ?? 0) >>> 0, level.depth - 1)) : 0n;
  return [[0, 1], [1, 1], [1, 0], [0, 0]].map(([column, row]) => {
    const tap: Tap = { level, x: xs[column!]!, y: ys[row!]!, z, weight: 256n, plane: 0 };
    return channel < texture.channels ? wordOf(texture, codeOf(texture, tap, channel), channel) : 0;
  });
}

function tapsOf(
  texture: ReferenceTexture,
  { geometry, coordinates, layer = 0, offsets = [0, 0, 0] }: ReferenceRead,
  level: ReferenceLevel,
  weight: bigint,
): Tap[] {
  const places = (dimension: number, extent: number) =>
    placesOf(texture, dimension, extent, coordinates[dimension] ?? 0, offsets[dimension] ?? 0);
  const xs = places(0, level.width);
  // One row is read at its upper edge, but not of layers.
  const hasRows = geometry === "2d" || geometry === "a2d" || geometry === "3d" || geometry === "1d" && texture.linear;
  const ys = hasRows ? places(1, level.height) : [{ index: 0n, part: 0n }];
  if (geometry !== "3d") {
    const unsigned = layer >>> 0;
    const z = geometry.startsWith("a") ? BigInt(Math.min(unsigned, level.depth - 1)) : 0n;
    return tapsOfPlane(level, { xs, ys, z }, { weight, plane: level.width });
  }
  const zs = places(2, level.depth);
  const far = down(weight * zs[0]!.part);
  return zs.flatMap((z, index) =>
    tapsOfPlane(level, { xs, ys, z: z.index }, {
      weight: index === 0 ? weight - far : far,
      plane: level.width + index / 2,
    })
  );
}

function codeOf(texture: ReferenceTexture, { level, x, y, z }: Tap, channel: number): number {
  if (x === "border" || y === "border" || z === "border") return borderCode(texture, channel);
  const index = (Number(z) * level.height + Number(y)) * level.width + Number(x);
  return level.codes[index * texture.channels + channel]!;
}

const greatest: Partial<Record<Format, number>> = { u8: 255, s8: 127, u16: 65535, s16: 32767 };

function isSrgb({ srgb, channels }: ReferenceTexture, channel: number): boolean {
  return srgb === true && channel < (channels === 4 ? 3 : 1);
}

function borderCode(texture: ReferenceTexture, channel: number): number {
  const value = Math.fround(texture.border?.[channel] ?? 0);
  const { format } = texture;
  if (format === "f32") return bitsOf(value);
  if (format === "f16") {
    const sign = bitsOf(value) >>> 16 & 0x8000;
    const magnitude = Math.abs(value);
    // The largest half that is not above the magnitude.
    let found = 0;
    for (let bit = 0x4000; bit > 0; bit >>= 1) if (halfValue(found | bit) <= magnitude) found |= bit;
    return sign | Math.min(found, 0x7bff);
  }
  if (!texture.normalized) {
    const bits = Number(format.slice(1));
    return format[0] === "s" ? bitsOf(value) << 32 - bits >> 32 - bits : bitsOf(value) % 2 ** bits;
  }
  const clamped = Math.max(format[0] === "s" ? -1 : 0, Math.min(1, value));
  if (isSrgb(texture, channel)) {
    const encoded = clamped <= 0.0031308 ? clamped * 12.92 : 1.055 * Math.pow(clamped, 1 / 2.4) - 0.055;
    return Math.round(encoded * 255);
  }
  // The product has 24 bits: more are cut off.
  const exact = clamped * greatest[format]!;
  const unit = 2 ** (frexp(Math.max(Math.abs(exact), 2 ** -100)) - 24);
  const product = Math.trunc(exact / unit) * unit;
  const low = Math.floor(product);
  if (product - low !== 0.5) return Math.round(product);
  return low % 2 === 0 ? low : low + 1;
}

/** Returns the number of a 16-bit float. */
export function halfValue(bits: number): number {
  const exponent = bits >> 10 & 31, fraction = bits & 1023;
  const magnitude = exponent === 0
    ? fraction / 2 ** 24
    : exponent === 31
    ? (fraction === 0 ? Infinity : NaN)
    : (1 + fraction / 1024) * 2 ** (exponent - 15);
  return bits & 0x8000 ? -magnitude : magnitude;
}

function curve(code: number): number {
  const value = code / 255;
  return value <= 0.04045 ? value / 12.92 : Math.pow((value + 0.055) / 1.055, 2.4);
}

/** Returns E, where 2 ** (E - 1) <= value < 2 ** E. */
function frexp(value: number): number {
  let exponent = 0;
  while (2 ** exponent <= value) exponent++;
  while (2 ** (exponent - 1) > value) exponent--;
  return exponent;
}

function srgbValue(code: number): number {
  const unit = Math.max(2 ** (frexp(curve(code | 7)) - 8), 2 ** -14);
  return Math.round(curve(code) / unit) * unit;
}

/** Returns what a point read gives. */
function wordOf(texture: ReferenceTexture, code: number, channel: number): number {
  const { format } = texture;
  if (format === "f16") {
    const isNaN = (code & 0x7c00) === 0x7c00 && (code & 1023) !== 0;
    return isNaN ? ((code & 0x8000) << 16 | 0x7f80_0000 | (code & 1023) << 13) >>> 0 : bitsOf(halfValue(code));
  }
  if (!texture.normalized || !(format in greatest)) return code >>> 0;
  if (isSrgb(texture, channel)) return bitsOf(srgbValue(code));
  return bitsOf(Math.max(code / greatest[format]!, -1));
}

function sumOf(texture: ReferenceTexture, taps: readonly Tap[], channel: number): number {
  const { format } = texture;
  const codes = taps.map((tap) => codeOf(texture, tap, channel));
  if (format.startsWith("f") || isSrgb(texture, channel)) return floatSum(texture, taps, codes, channel);
  const sum = Number(taps.reduce((sum, { weight }, index) => sum + weight * BigInt(codes[index]!), 0n));
  switch (format) {
    case "u8":
      return bitsOf(Math.floor((257 * sum + 128) / 256) / 65535);
    case "u16":
      return bitsOf(Math.floor((sum + 128) / 256) / 65535);
    case "s16":
      return bitsOf(Math.max(Math.floor((sum + 128) / 256), -32767) / 32767);
    default: {
      const u = Math.floor(sum / 16);
      const k = sum + Math.floor((u + Math.floor(u / 256) + 4) / 8);
      return bitsOf(Math.max(-32767, Math.min(32767, k)) / 32767);
    }
  }
}

function floatSum(texture: ReferenceTexture, taps: readonly Tap[], codes: readonly number[], channel: number): number {
  const isCurve = isSrgb(texture, channel), isHalf = texture.format === "f16";
  const values = codes.map((code) => {
    if (isCurve) return srgbValue(code);
    if (isHalf) return halfValue(code);
    const value = floatOf(code);
    return Math.abs(value) < 2 ** -126 ? (Math.sign(1 / value) < 0 ? -0 : 0) : value;
  });
  const hasNaN = values.some(Number.isNaN) || values.includes(Infinity) && values.includes(-Infinity);
  if (hasNaN) return isHalf ? 0x7fff_e000 : 0x7fff_ffff;
  if (values.includes(Infinity)) return 0x7f80_0000;
  if (values.includes(-Infinity)) return 0xff80_0000;
  const mantissa = isHalf || isCurve ? 11n : 24n;
  // In multiples of 2 ** -(149 + 8 + 28).
  const extra = 28n;
  const sums: bigint[] = [];
  let greatestTop = -1000;
  for (const plane of new Set(taps.map(({ plane }) => plane))) {
    const members = taps.map((tap, index) => ({ ...tap, value: values[index]!, code: codes[index]! }))
      .filter((tap) => tap.plane === plane);
    const weighed = members.filter(({ weight }) => weight > 0n);
    const tops = weighed.filter(({ value }) => value !== 0).map(({ value, code }) =>
      isCurve ? frexp(curve(code | 7)) : frexp(Math.abs(value))
    );
    if (isCurve) tops.push(...weighed.map(({ code }) => frexp(curve(code | 7))));
    if (isHalf) tops.push(-13);
    if (tops.length === 0) continue;
    const top = Math.max(...tops);
    const unitExponent = isCurve ? Math.max(top - 8, -14) : top - (isHalf ? 15 : 28);
    greatestTop = Math.max(greatestTop, top);
    let sum = 0n;
    for (const { value, weight } of members) {
      // The value in units, cut toward 0.
      const exact = scaled(value) << extra;
      const unit = 1n << BigInt(unitExponent + 149 + 28);
      sum += exact / unit * unit * weight;
    }
    sums.push(sum);
  }
  // The sums of planes of floats are cut down to a unit that the largest one gives: its exponent has steps of 4.
  const isCut = greatestTop > -1000;
  const cutExponent = Math.ceil((greatestTop - 1) / 4) * 4 - (isCurve ? 18 : isHalf ? 25 : 38);
  const cut = isCut && cutExponent > -185 ? 1n << BigInt(cutExponent + 149 + 28 + 8) : 1n;
  const total = sums.reduce((sum, part) => sum + floorDiv(part, cut) * cut, 0n);
  const isNegativeZero = taps.every(({ weight }, index) =>
    weight === 0n || values[index]! < 0 || Object.is(values[index], -0)
  );
  if (total === 0n) return isNegativeZero ? 0x8000_0000 : 0;
  const magnitude = total < 0n ? -total : total;
  const scale = shift + 8n + extra;
  const length = BigInt(magnitude.toString(2).length);
  let unit = length > mantissa ? length - mantissa : 0n;
  const least = mantissa === 11n ? scale - 24n : scale - 149n;
  if (unit < least) unit = least;
  const rounded = (magnitude + (1n << unit) / 2n >> unit) << unit;
  const value = Number(rounded) / 2 ** 100 / 2 ** (Number(scale) - 100);
  const sign = total < 0n ? 0x8000_0000 : 0;
  if (mantissa === 24n && value < 2 ** -126) return sign;
  return (sign | bitsOf(value)) >>> 0;
}
