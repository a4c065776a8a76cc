/**
 * Reads of textures of every kind, at random and special coordinates, with what a device returns for them.
 *
 * @module
 */
import type {
  AddressMode,
  ArrayFormat,
  CudaDevice,
  CudaStream,
  FilterMode,
  MemoryPool,
  TextureSource,
  TypedArray,
  TypedArrayConstructor,
} from "../../../mod.ts";
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
  /** What the texture is of. Defaults to an array. */
  readonly source?: "array" | "rows" | "buffer";
  /** The levels of a mipmapped array. */
  readonly mipmaps?: {
    readonly levels: number;
    readonly filterMode: FilterMode;
    readonly bias?: number;
    readonly least?: number;
    readonly greatest?: number;
  };
  /** Whether coordinates are whole numbers. */
  readonly fetch?: boolean;
  /** The channel that a gather reads. */
  readonly gather?: "r" | "g" | "b" | "a";
  readonly seamless?: boolean;
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

/** Returns the kernel that makes the reads of a case. */
function kernelOf({ geometry, format, readMode, offsets, mipmaps, fetch, gather }: ReadCase): ReadKernel {
  const isInteger = !format.startsWith("f") && !format.includes("norm") && readMode === "element-type";
  const parts = [
    geometry,
    ...isInteger ? ["u32"] : [],
    ...offsets ? ["offset"] : [],
    ...mipmaps ? ["level"] : [],
    ...fetch ? ["fetch"] : [],
    ...gather ? ["gather", gather] : [],
  ];
  return {
    name: `read_${parts.join("_")}`,
    geometry,
    result: isInteger ? "u32" : "f32",
    ...offsets && { offsets },
    ...mipmaps && { modifier: ".level" },
    ...fetch && { coordinates: "s32" as const },
    ...gather && { gather },
  };
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
  return [...cases, ...otherCases(), ...mipmapCases(), ...curveCases()];
}

/** Returns the cases of mipmapped arrays of three dimensions, of layers and of cubemaps. */
function mipmapCases(): ReadCase[] {
  const cases: ReadCase[] = [];
  const shapes = [["3d", [8, 8, 16], "wrap"], ["a2d", [8, 8, 3], "wrap"], ["cube", [8, 8, 6], "clamp"]] as const;
  for (const format of ["f32", "f16", "u8", "s8", "u16", "s16"] as const) {
    const readMode = format.startsWith("f") ? "element-type" : "normalized-float";
    for (const filterMode of ["point", "linear"] as const) {
      for (const levelFilter of ["point", "linear"] as const) {
        const mipmaps = { levels: 4, filterMode: levelFilter };
        for (const [geometry, size, addressMode] of shapes) {
          cases.push({
            name: `mipmaps ${geometry} ${format} ${filterMode} ${levelFilter}`,
            ...{ geometry, format, size, filterMode, addressMode, readMode, mipmaps },
            channels: geometry === "3d" ? 1 : 2,
            normalizedCoordinates: true,
            ...geometry === "cube" && { seamless: true },
          });
        }
      }
    }
  }
  return cases;
}

/** Returns the cases of sRGB in other textures than those of two dimensions. */
function curveCases(): ReadCase[] {
  const cases: ReadCase[] = [];
  const shapes = [
    ...[["3d", [5, 6, 7]], ["a2d", [5, 6, 3]], ["a1d", [15, 3]], ["1d", [37]], ["cube", [8, 8, 6]]] as const,
    ...[["2d", [16, 24], "point"], ["2d", [16, 24], "linear"], ["3d", [8, 8, 16], "point"], [
      "3d",
      [8, 8, 16],
      "linear",
    ]] as const,
  ] as const;
  for (const channels of channelCounts) {
    for (const filterMode of ["point", "linear"] as const) {
      for (const [geometry, size, levelFilter] of shapes) {
        cases.push({
          name: `sRGB ${geometry} ${channels} ${filterMode}${
            levelFilter === undefined ? "" : ` mipmaps ${levelFilter}`
          }`,
          ...{ geometry, size, channels, filterMode, format: "u8", readMode: "normalized-float", sRgb: true },
          addressMode: geometry === "cube" ? "clamp" : "wrap",
          normalizedCoordinates: true,
          ...levelFilter && { mipmaps: { levels: 4, filterMode: levelFilter } },
        });
      }
    }
  }
  return cases;
}

/** Returns the cases of mipmaps, whole coordinates, gathers, cubemaps and other memory than arrays. */
function otherCases(): ReadCase[] {
  const cases: ReadCase[] = [];
  const plain = {
    filterMode: "point",
    addressMode: "clamp",
    normalizedCoordinates: false,
    readMode: "element-type",
  } as const;
  const add = (name: string, rest: Omit<ReadCase, "name" | "readMode"> & Pick<Partial<ReadCase>, "readMode">) => {
    cases.push({ name, readMode: "element-type", ...rest });
  };
  const normalized = { addressMode: "wrap", normalizedCoordinates: true } as const;
  for (const filterMode of ["point", "linear"] as const) {
    for (const levelFilter of ["point", "linear"] as const) {
      for (
        const [what, limits] of [["", {}], [" biased", { bias: 0.7 }], [" limited", {
          least: 0.4,
          greatest: 2.3,
        }]] as const
      ) {
        const mipmaps = { levels: 5, filterMode: levelFilter, ...limits };
        const name = `mipmaps ${filterMode} ${levelFilter}${what}`;
        add(`${name} f32`, {
          geometry: "2d",
          format: "f32",
          channels: 2,
          size: [16, 24],
          filterMode,
          ...normalized,
          mipmaps,
        });
        const readMode = "normalized-float";
        add(`${name} u8`, {
          geometry: "2d",
          format: "u8",
          channels: 4,
          size: [19, 16],
          filterMode,
          readMode,
          ...normalized,
          mipmaps,
        });
        add(`${name} f16`, {
          geometry: "1d",
          format: "f16",
          channels: 1,
          size: [32],
          filterMode,
          ...normalized,
          mipmaps,
        });
      }
    }
  }
  const sizes = { "2d": [9, 13], "3d": [5, 6, 7], a2d: [6, 5, 3] } as const;
  for (const geometry of ["2d", "3d", "a2d"] as const) {
    for (const [format, channels] of [["f32", 1], ["u8", 4], ["s16", 2], ["f16", 4]] as const) {
      add(`fetch ${geometry} ${format}`, { ...plain, geometry, format, channels, size: sizes[geometry], fetch: true });
    }
  }
  for (const [format, channels] of [["f32", 1], ["u32", 4], ["s8", 2], ["f16", 1]] as const) {
    add(`buffer ${format}`, { ...plain, geometry: "1d", format, channels, size: [100], source: "buffer", fetch: true });
    const isFloat = format.startsWith("f");
    for (const filterMode of isFloat ? ["point", "linear"] as const : ["point"] as const) {
      for (const [addressMode, normalizedCoordinates] of modes) {
        const name = `rows ${format} ${filterMode} ${addressMode}${normalizedCoordinates ? " normalized" : ""}`;
        const size = [10, 7];
        add(name, {
          ...plain,
          geometry: "2d",
          format,
          channels,
          size,
          source: "rows",
          filterMode,
          addressMode,
          normalizedCoordinates,
        });
      }
    }
  }
  for (const gather of ["r", "g", "b", "a"] as const) {
    for (const [format, channels] of [["f32", 4], ["u8", 2], ["s32", 4]] as const) {
      for (const [addressMode, normalizedCoordinates] of modes) {
        const name = `gather ${gather} ${format} ${addressMode}${normalizedCoordinates ? " normalized" : ""}`;
        const size = [8, 6];
        add(name, { ...plain, geometry: "2d", format, channels, size, gather, addressMode, normalizedCoordinates });
      }
    }
  }
  for (const geometry of ["cube", "acube"] as const) {
    const size = [8, 8, geometry === "cube" ? 6 : 12];
    for (const filterMode of ["point", "linear"] as const) {
      for (const seamless of [false, true]) {
        const name = `${geometry} ${filterMode}${seamless ? " seamless" : ""}`;
        const common = {
          geometry,
          size,
          filterMode,
          seamless,
          addressMode: "clamp",
          normalizedCoordinates: true,
        } as const;
        add(`${name} f32`, { ...common, format: "f32", channels: 1 });
        add(`${name} u8`, { ...common, format: "u8", channels: 4, readMode: "normalized-float" });
      }
    }
  }
  return cases;
}

/** Returns the extents of a level. */
function levelSize({ size, geometry }: Pick<ReadCase, "size" | "geometry">, level: number): number[] {
  return size.map((extent, index) => {
    const isLayers = index === size.length - 1 && (geometry.startsWith("a") || geometry === "cube");
    return isLayers ? extent : Math.max(1, extent >> level);
  });
}

function texelsOf({ format, channels, hasSpecials }: ReadCase, size: readonly number[], random: Random): TypedArray {
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
  const { geometry, size, normalizedCoordinates, fetch, gather, seamless } = read;
  const isCube = geometry.endsWith("cube");
  const dimensions = isCube ? 3 : geometry.endsWith("1d") ? 1 : geometry.endsWith("2d") ? 2 : 3;
  const special = [0, -0, 0.5, 1, -1, 2, 1e-40, 1e9, -1e9, Infinity, -Infinity, NaN, 0.25, 0.75, 3.001953125];
  const finite = special.filter(Number.isFinite);
  return Array.from({ length: count }, (_, index) => {
    const coordinates = Array.from({ length: dimensions }, (_, dimension) => {
      const extent = size[dimension]!;
      if (fetch) return random.below(extent + 4) - 2;
      const whole = random.below(2 ** 24) / 2 ** 24;
      if (isCube) return Math.fround(2 * whole - 1);
      // What becomes of infinite coordinates of gathers, and with offsets, is not known.
      if (index % 8 === 0 && random.percent(60)) return random.pick(gather || read.offsets ? finite : special);
      return Math.fround(normalizedCoordinates ? 4 * whole - 1.5 : (extent + 4) * whole - 2);
    });
    const layers = isCube ? size.at(-1)! / 6 : size.at(-1)!;
    const layer = random.percent(80) ? random.below(layers) : random.below(2) === 0 ? -1 : 100;
    const lod = Math.fround(random.below(2 ** 20) / 2 ** 20 * 8 - 1.5);
    return {
      geometry,
      coordinates,
      layer,
      ...read.offsets && { offsets: read.offsets },
      ...read.mipmaps && { lod },
      ...fetch && { fetch },
      ...gather && { gather: "rgba".indexOf(gather) },
      ...seamless && { seamless },
    };
  });
}

/** The reads of a case: their texture, and the operands for kernels. */
export interface MadeCase {
  /** The texels of each level. */
  readonly texels: readonly TypedArray[];
  readonly reads: readonly ReferenceRead[];
  readonly borderColor: readonly [number, number, number, number];
}

/** Returns the texels and the reads of a case, which are the same each time. */
export function makeCase(read: ReadCase, count: number): MadeCase {
  let seed = 1;
  for (const character of read.name) seed = (seed * 31 + character.charCodeAt(0)) % 2 ** 31;
  const random = new Random(seed);
  const texels = Array.from(
    { length: read.mipmaps?.levels ?? 1 },
    (_, level) => texelsOf(read, levelSize(read, level), random),
  );
  return { texels, reads: readsOf(read, count, random), borderColor: [0.3, -0.6, 0.9, 1] };
}

/** Returns what reads of a case return, four words each. */
export function expectedOf(read: ReadCase, { texels, reads, borderColor }: MadeCase): Uint32Array {
  const { geometry, format, mipmaps = {} as NonNullable<ReadCase["mipmaps"]> } = read;
  const levels = texels.map((each, level): ReferenceLevel => {
    const [width, second = 1, third = 1] = levelSize(read, level) as [number, number?, number?];
    const isFlat = geometry === "a1d";
    const codes = plainFormat(format) === "f32" ? new Uint32Array(each.buffer) : each;
    return {
      width,
      height: isFlat ? 1 : second,
      depth: isFlat ? second : third,
      codes: codes as ArrayLike<number>,
    };
  });
  const texture: ReferenceTexture = {
    format: plainFormat(format),
    channels: read.channels,
    levels,
    levelsLinear: mipmaps.filterMode === "linear",
    bias: mipmaps.bias ?? 0,
    least: mipmaps.least ?? 0,
    greatest: mipmaps.greatest ?? levels.length - 1,
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
  reads.forEach(({ geometry, coordinates, layer = 0, lod = 0, fetch }, index) => {
    const isLayered = geometry.startsWith("a");
    if (isLayered) words[12 * index] = layer;
    coordinates.forEach((coordinate, at) => {
      words[12 * index + at + (isLayered ? 1 : 0)] = fetch ? coordinate : bitsOf(coordinate);
    });
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
      const { channels, filterMode, addressMode, normalizedCoordinates, readMode, sRgb, mipmaps, seamless } = read;
      using stream = gpu.createStream();
      using pool = gpu.createPool();
      using source = sourceOn(gpu, read, { texels, pool, stream });
      using texture = gpu.createTexture(source.memory, {
        filterMode,
        addressMode,
        normalizedCoordinates,
        readMode,
        borderColor,
        channels,
        ...sRgb && { sRgb },
        ...seamless && { seamlessCubemap: true },
        ...mipmaps && { mipmapFilterMode: mipmaps.filterMode, mipmapLevelBias: mipmaps.bias ?? 0 },
        ...mipmaps?.least !== undefined && { minMipmapLevelClamp: mipmaps.least },
        ...mipmaps?.greatest !== undefined && { maxMipmapLevelClamp: mipmaps.greatest },
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

/** Allocates what the texture of a case reads, and copies the texels to it. */
function sourceOn(
  gpu: CudaDevice,
  { format, channels, size, geometry, source, mipmaps, gather }: ReadCase,
  { texels, pool, stream }: { texels: readonly TypedArray[]; pool: MemoryPool; stream: CudaStream },
): Disposable & { readonly memory: TextureSource } {
  const cleanup = new DisposableStack();
  const dispose = { [Symbol.dispose]: () => cleanup.dispose() };
  // Buffers and rows of 16-bit floats have arrays of that class.
  const [first] = texels as [TypedArray];
  const elements = format === "f16" ? new Float16Array(first.buffer as ArrayBuffer) : first;
  const type = elements.constructor as TypedArrayConstructor<TypedArray>;
  if (source === "buffer") {
    const memory = cleanup.use(pool.allocateArray(type, elements.length, stream));
    memory.copyFrom(elements, stream);
    return { ...dispose, memory };
  }
  if (source === "rows") {
    const [width, height] = size as [number, number];
    const memory = cleanup.use(pool.allocatePitched(type, [width * channels, height], stream));
    memory.copyFrom(elements, stream);
    return { ...dispose, memory };
  }
  const options = {
    channels,
    layered: geometry.startsWith("a"),
    cubemap: geometry.endsWith("cube"),
    gather: gather !== undefined,
  };
  const extents = size as [number, number?, number?];
  if (mipmaps === undefined) {
    const memory = cleanup.use(gpu.createArray(format, extents, options));
    memory.copyFrom(texels[0]!, stream);
    return { ...dispose, memory };
  }
  const memory = cleanup.use(gpu.createMipmappedArray(format, extents, { ...options, levels: mipmaps.levels }));
  texels.forEach((each, level) => memory.level(level).copyFrom(each, stream));
  return { ...dispose, memory };
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
