/**
 * Reads of textures of every kind, at random and special coordinates, with what a device returns for them.
 *
 * @module
 */
import type { AddressMode, ArrayFormat, CudaDevice, FilterMode, TypedArray } from "../../../mod.ts";
import { Random } from "../../differential/random.ts";
import { type ReadKernel, readPtx } from "./texture_kernels.ts";
import {
  bitsOf,
  type Format,
  type ReferenceLevel,
  type ReferenceRead,
  referenceRead,
  type ReferenceTexture,
} from "./texture_reference.ts";

/** Reads of one texture by one kernel. */
export interface ReadCase {
  readonly name: string;
  readonly geometry: ReferenceRead["geometry"];
  readonly format: ArrayFormat;
  readonly channels: 1 | 2 | 4;
  /** The extents of dimensions, then the number of layers. */
  readonly size: readonly number[];
  readonly filterMode: FilterMode;
  readonly addressMode: AddressMode;
  readonly normalizedCoordinates: boolean;
  readonly readMode: "element-type" | "normalized-float";
  readonly sRgb?: boolean;
  readonly offsets?: readonly number[];
  /** Whether some texels are infinite, not a number, zeros or subnormal. */
  readonly hasSpecials?: boolean;
}

const arrays: Readonly<Record<string, (length: number) => TypedArray>> = {
  u8: (length) => new Uint8Array(length),
  u16: (length) => new Uint16Array(length),
  u32: (length) => new Uint32Array(length),
  s8: (length) => new Int8Array(length),
  s16: (length) => new Int16Array(length),
  s32: (length) => new Int32Array(length),
  f16: (length) => new Uint16Array(length),
  f32: (length) => new Float32Array(length),
};

/** Returns the format of the bits, without whether they are normalized. */
export function plainFormat(format: ArrayFormat): Format {
  return format.replace(/^([us])norm/, "$1") as Format;
}

/** Returns the name of a kernel that makes the reads of a case. */
function kernelOf({ geometry, format, readMode, offsets }: ReadCase): ReadKernel {
  const isInteger = !format.startsWith("f") && !format.includes("norm") && readMode === "element-type";
  const name = `read_${geometry}${isInteger ? "_u32" : ""}${offsets === undefined ? "" : "_offset"}`;
  return { name, geometry, result: isInteger ? "u32" : "f32", ...offsets && { offsets } };
}

const modes: readonly (readonly [AddressMode, boolean])[] = [
  ["clamp", false],
  ["border", false],
  ["clamp", true],
  ["border", true],
  ["wrap", true],
  ["mirror", true],
];
const channelCounts = [1, 2, 4] as const;

/** Returns all cases. */
export function readCases(): ReadCase[] {
  const cases: ReadCase[] = [];
  const sizes = { "1d": [37], "2d": [9, 13], "3d": [5, 6, 7], a1d: [19, 4], a2d: [6, 5, 3] } as const;
  const formats: readonly (readonly [ArrayFormat, ReadCase["readMode"]])[] = [
    ["f32", "element-type"],
    ["f16", "element-type"],
    ["u8", "normalized-float"],
    ["u16", "normalized-float"],
    ["s8", "normalized-float"],
    ["s16", "normalized-float"],
    ["u8", "element-type"],
    ["s8", "element-type"],
    ["u16", "element-type"],
    ["s16", "element-type"],
    ["u32", "element-type"],
    ["s32", "element-type"],
    ["unorm8", "element-type"],
    ["unorm16", "element-type"],
    ["snorm8", "element-type"],
    ["snorm16", "element-type"],
  ];
  for (const geometry of Object.keys(sizes) as (keyof typeof sizes)[]) {
    for (const [format, readMode] of formats) {
      for (const filterMode of ["linear", "point"] as const) {
        const isNumber = format.startsWith("f") || format.includes("norm") || readMode === "normalized-float";
        if (filterMode === "linear" && !isNumber) continue;
        for (const [addressMode, normalizedCoordinates] of modes) {
          const channels = channelCounts[cases.length % 3]!;
          const mode = `${addressMode}${normalizedCoordinates ? " normalized" : ""}`;
          const name = `${geometry} ${format}x${channels} ${readMode === "element-type" ? "" : "normalized "}` +
            `${filterMode} ${mode}`;
          const common = { geometry, format, channels, size: sizes[geometry], filterMode, addressMode, readMode };
          cases.push({ name, ...common, normalizedCoordinates });
          if (format.startsWith("f") && filterMode === "linear") {
            cases.push({ name: `${name} specials`, ...common, normalizedCoordinates, hasSpecials: true });
          }
          if (geometry === "2d" && format === "f32") {
            cases.push({ name: `${name} offsets`, ...common, normalizedCoordinates, offsets: [-3, 2] });
          }
          if (format === "u8" && readMode === "normalized-float" && geometry === "2d") {
            cases.push({ name: `${name} sRGB`, ...common, normalizedCoordinates, sRgb: true });
          }
        }
      }
    }
  }
  return cases;
}

function texelsOf({ format, channels, size, hasSpecials }: ReadCase, random: Random): TypedArray {
  const plain = plainFormat(format);
  const length = size.reduce((product, extent) => product * extent, channels);
  const texels = arrays[plain]!(length);
  const bits = Number(plain.slice(1));
  const specials = plain === "f32"
    ? [0, 0x8000_0000, 1, 0x8000_0001, 0x007f_ffff, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x7f7f_ffff, 0x0080_0000]
    : [0, 0x8000, 1, 0x8001, 0x03ff, 0x7c00, 0xfc00, 0x7e00, 0x7bff, 0x0400];
  const words = new Uint32Array(1), float = new Float32Array(words.buffer);
  for (let index = 0; index < length; index++) {
    if (hasSpecials && random.percent(30)) {
      words[0] = specials[random.below(specials.length)]!;
      texels[index] = plain === "f32" ? float[0]! : words[0]!;
    } else if (plain === "f32") {
      texels[index] = (random.below(2 ** 24) / 2 ** 23 - 1) * 2 ** (random.below(9) - 4);
    } else if (plain === "f16") {
      texels[index] = random.below(2) << 15 | 8 + random.below(14) << 10 | random.below(1024);
    } else texels[index] = random.below(2 ** bits);
  }
  return texels;
}

function readsOf(read: ReadCase, count: number, random: Random): ReferenceRead[] {
  const { geometry, size, normalizedCoordinates } = read;
  const dimensions = geometry.endsWith("1d") ? 1 : geometry.endsWith("2d") ? 2 : 3;
  const special = [0, -0, 0.5, 1, -1, 2, 1e-40, 1e9, -1e9, Infinity, -Infinity, NaN, 0.25, 0.75, 3.001953125];
  return Array.from({ length: count }, (_, index) => {
    const coordinates = Array.from({ length: dimensions }, (_, dimension) => {
      if (index % 8 === 0 && random.percent(60)) return special[random.below(special.length)]!;
      const whole = random.below(2 ** 24) / 2 ** 24;
      const extent = size[dimension]!;
      return Math.fround(normalizedCoordinates ? 4 * whole - 1.5 : (extent + 4) * whole - 2);
    });
    const layer = random.percent(80) ? random.below(size.at(-1)!) : random.below(2) === 0 ? -1 : 100;
    return { geometry, coordinates, layer, ...read.offsets && { offsets: read.offsets } };
  });
}

/** The reads of a case: their texture, and the operands for kernels. */
export interface MadeCase {
  readonly texels: TypedArray;
  readonly reads: readonly ReferenceRead[];
  readonly borderColor: readonly [number, number, number, number];
}

/** Returns the texels and the reads of a case, which are the same each time. */
export function makeCase(read: ReadCase, count: number): MadeCase {
  let seed = 1;
  for (const character of read.name) seed = (seed * 31 + character.charCodeAt(0)) % 2 ** 31;
  const random = new Random(seed);
  const texels = texelsOf(read, random);
  return { texels, reads: readsOf(read, count, random), borderColor: [0.3, -0.6, 0.9, 1] };
}

/** Returns what reads of a case return, four words each. */
export function expectedOf(read: ReadCase, { texels, reads, borderColor }: MadeCase): Uint32Array {
  const { size, geometry, format } = read;
  const [width, second = 1, third = 1] = size as [number, number?, number?];
  const isFlat = geometry === "a1d";
  const codes = plainFormat(format) === "f32" ? new Uint32Array(texels.buffer) : texels;
  const level: ReferenceLevel = {
    width,
    height: isFlat ? 1 : second,
    depth: isFlat ? second : third,
    codes: codes as ArrayLike<number>,
  };
  const texture: ReferenceTexture = {
    format: plainFormat(format),
    channels: read.channels,
    levels: [level],
    modes: [read.addressMode, read.addressMode, read.addressMode],
    linear: read.filterMode === "linear",
    normalizedCoordinates: read.normalizedCoordinates,
    normalized: read.readMode === "normalized-float" || format.includes("norm"),
    srgb: read.sRgb ?? false,
    border: borderColor,
  };
  return Uint32Array.from(reads.flatMap((each) => referenceRead(texture, each)));
}

/** Returns the operands of reads for kernels: twelve words each. */
export function operandsOf(reads: readonly ReferenceRead[]): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array(12 * reads.length);
  reads.forEach(({ geometry, coordinates, layer = 0, lod = 0 }, index) => {
    const isLayered = geometry.startsWith("a");
    if (isLayered) words[12 * index] = layer;
    coordinates.forEach((coordinate, at) => words[12 * index + at + (isLayered ? 1 : 0)] = bitsOf(coordinate));
    words[12 * index + 4] = bitsOf(lod);
  });
  return words;
}

/** Makes the reads of cases on a device. Disposing of it unloads its kernels. */
export interface CaseReader extends Disposable {
  run(read: ReadCase, made: MadeCase): Promise<Uint32Array>;
}

/** Returns what makes the reads of some cases on a device. */
export function readerOn(gpu: CudaDevice, cases: readonly ReadCase[]): CaseReader {
  const kernels = new Map(cases.map((read) => kernelOf(read)).map((kernel) => [kernel.name, kernel]));
  const module = gpu.loadModule(readPtx([...kernels.values()]));
  return {
    async run(read: ReadCase, { texels, reads, borderColor }: MadeCase): Promise<Uint32Array> {
      const { format, channels, size, geometry, filterMode, addressMode, normalizedCoordinates, readMode, sRgb } = read;
      using stream = gpu.createStream();
      using pool = gpu.createPool();
      using array = gpu.createArray(format, size as [number, number?, number?], {
        channels,
        layered: geometry.startsWith("a"),
      });
      array.copyFrom(texels, stream);
      using texture = gpu.createTexture(array, {
        filterMode,
        addressMode,
        normalizedCoordinates,
        readMode,
        borderColor,
        ...sRgb && { sRgb },
      });
      using operands = pool.allocateArray(Uint32Array, 12 * reads.length, stream);
      operands.copyFrom(operandsOf(reads), stream);
      using results = pool.allocateArray(Uint32Array, 4 * reads.length, stream);
      const launch = { grid: Math.ceil(reads.length / 64), block: 64, stream };
      module.kernel(kernelOf(read).name).launch(launch, results, texture, operands, reads.length);
      return await results.toTypedArray({ stream });
    },
    [Symbol.dispose]: () => module[Symbol.dispose](),
  };
}

/** Returns descriptions of the reads whose results differ from those expected, at most a few. */
export function differencesOf(
  read: ReadCase,
  { reads }: MadeCase,
  found: Uint32Array,
  expected: Uint32Array,
): { readonly count: number; readonly differences: readonly string[] } {
  const differences: string[] = [];
  let count = 0;
  reads.forEach((each, index) => {
    const [mine, theirs] = [found, expected].map((words) =>
      Array.from(words.subarray(4 * index, 4 * index + 4), (word) => word.toString(16)).join(" ")
    );
    if (mine === theirs) return;
    count++;
    if (differences.length < 3) {
      differences.push(`${read.name} at (${each.coordinates}) layer ${each.layer}: ${mine}, expected ${theirs}`);
    }
  });
  return { count, differences };
}
