/**
 * The driver calls about CUDA arrays, textures and surfaces.
 *
 * @module
 */
import {
  type ArrayDescriptor,
  arrayFlag,
  arrayFormat,
  type ArrayPlace,
  type Driver,
  type ResourceView,
  type TextureDescription,
  textureFilterMode,
  textureFlag,
  type TextureResource,
} from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import {
  type ChannelFormat,
  channelFormats,
  objectLimit,
  type TextureObject,
  TextureSlots,
} from "../execution/textures/texture_object.ts";
import { fail } from "../failure.ts";
import { type ArrayLevel, ArrayMemory, hasLayers, texelBytesOf } from "../memory/array_memory.ts";
import { offsetOfAddress } from "../memory/memory_layout.ts";
import { textureLimits } from "../software_device.ts";
import type { DriverCore } from "./core.ts";
import type { ProgramMemory } from "./program_memory.ts";

/** The calls about arrays, textures and surfaces. */
type TextureCalls = Pick<
  Driver,
  | "arrayCreate"
  | "arrayDestroy"
  | "mipmappedArrayCreate"
  | "mipmappedArrayGetLevel"
  | "mipmappedArrayDestroy"
  | "texObjectCreate"
  | "texObjectDestroy"
  | "surfObjectCreate"
  | "surfObjectDestroy"
>;

/** An array, or one level of a mipmapped array. */
interface Level {
  readonly memory: ArrayMemory;
  readonly index: number;
  /** Whether the array is a view of a mipmapped array. */
  readonly isView: boolean;
}

/** The formats whose channels are always read as numbers from 0 or -1 to 1. */
const normalizedFormats: ReadonlyMap<number, ChannelFormat> = new Map([
  [arrayFormat.unorm8, "u8"],
  [arrayFormat.unorm16, "u16"],
  [arrayFormat.snorm8, "s8"],
  [arrayFormat.snorm16, "s16"],
]);
const plainFormats: ReadonlyMap<number, ChannelFormat> = new Map(
  channelFormats.map((name) => [arrayFormat[name], name]),
);

/** The handles of textures and surfaces that exist in the process: all drivers share the slots. */
const usedSlots = new Set<number>();
let lastHandle = 0;

/** Returns a handle that no object has had, and whose slot is free. Undefined if there is none. */
function newHandle(): number | undefined {
  for (let tried = 0; tried < objectLimit; tried++) {
    lastHandle = lastHandle % 0x7fff_ffff + 1;
    const slot = lastHandle % objectLimit;
    if (usedSlots.has(slot)) continue;
    usedSlots.add(slot);
    return lastHandle;
  }
  return undefined;
}

/** The arrays, textures and surfaces of a driver. */
export class Textures {
  readonly #core: DriverCore;
  readonly #memory: ProgramMemory;
  /** The slots of all objects. Undefined until there is one. */
  #openedSlots: TextureSlots | undefined;
  readonly #arrays = new Map<bigint, Level>();
  readonly #mipmappedArrays = new Map<bigint, { readonly memory: ArrayMemory; readonly levels: readonly bigint[] }>();
  readonly #objects = new Set<number>();

  constructor(core: DriverCore, memory: ProgramMemory) {
    this.#core = core;
    this.#memory = memory;
  }

  get #slots(): TextureSlots {
    return this.#openedSlots ??= new TextureSlots(this.#core.linearMemory.memory);
  }

  /** Returns a level of an array, and the bytes of its part that begins at a place. */
  placeOf({ array, x, y, z }: ArrayPlace, call: string): { readonly level: ArrayLevel; readonly bytes: Uint8Array } {
    const { memory, index } = this.#arrays.get(array) ?? fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    const level = memory.levels[index]!;
    const offset = (z * level.rows + y) * level.rowBytes + x;
    const end = level.begin + level.rowBytes * level.rows * level.slices;
    return { level, bytes: this.#core.linearMemory.bytes.subarray(level.begin + offset, end) };
  }

  /** Frees all arrays and objects. */
  close(): void {
    for (const handle of this.#objects) this.#destroyObject(handle);
    for (const { memory, isView } of this.#arrays.values()) if (!isView) memory.release();
    for (const { memory } of this.#mipmappedArrays.values()) memory.release();
    this.#arrays.clear();
    this.#mipmappedArrays.clear();
  }

  calls(): TextureCalls {
    const { devices } = this.#core;
    return {
      arrayCreate: (device, descriptor) => {
        const memory = this.#allocate({ device, descriptor, levels: 1, call: "cudaMalloc3DArray" });
        return this.#core.register(this.#arrays, { memory, index: 0, isView: false });
      },
      arrayDestroy: (device, array) => {
        const call = "cudaFreeArray";
        devices.check(device, call);
        const found = this.#arrays.get(array);
        if (found === undefined || found.isView) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
        this.#core.finishWork(device, call);
        this.#arrays.delete(array);
        found!.memory.release();
      },
      mipmappedArrayCreate: (device, descriptor, levels) => {
        const call = "cudaMallocMipmappedArray";
        const most = 1 + Math.floor(Math.log2(Math.max(descriptor.width, descriptor.height, 1)));
        const isDeep = descriptor.depth > 0 && !hasLayers(descriptor);
        const longest = isDeep ? Math.max(most, 1 + Math.floor(Math.log2(descriptor.depth))) : most;
        const count = Math.max(1, Math.min(levels, longest));
        const memory = this.#allocate({ device, descriptor, levels: count, call });
        const views = memory.levels.map((_, index) =>
          this.#core.register(this.#arrays, { memory, index, isView: true })
        );
        return this.#core.register(this.#mipmappedArrays, { memory, levels: views });
      },
      mipmappedArrayGetLevel: (device, mipmappedArray, level) => {
        const call = "cudaGetMipmappedArrayLevel";
        devices.check(device, call);
        const { levels } = this.#mipmappedArray(mipmappedArray, call);
        return levels[level] ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      },
      mipmappedArrayDestroy: (device, mipmappedArray) => {
        const call = "cudaFreeMipmappedArray";
        devices.check(device, call);
        const { memory, levels } = this.#mipmappedArray(mipmappedArray, call);
        this.#core.finishWork(device, call);
        for (const level of levels) this.#arrays.delete(level);
        this.#mipmappedArrays.delete(mipmappedArray);
        memory.release();
      },
      texObjectCreate: (device, resource, description, view) => {
        const call = "cudaCreateTextureObject";
        devices.check(device, call);
        const shown = this.#shownBy(resource, { device, call });
        return this.#create(textureOf(shown, { resource, description, view }), call);
      },
      texObjectDestroy: (device, texture) => {
        devices.check(device, "cudaDestroyTextureObject");
        this.#destroy(texture, { isSurface: 0, call: "cudaDestroyTextureObject" });
      },
      surfObjectCreate: (device, array) => {
        const call = "cudaCreateSurfaceObject";
        devices.check(device, call);
        const shown = this.#shownBy({ array }, { device, call });
        return this.#create({ ...plain(shown), isSurface: 1 }, call);
      },
      surfObjectDestroy: (device, surface) => {
        devices.check(device, "cudaDestroySurfaceObject");
        this.#destroy(surface, { isSurface: 1, call: "cudaDestroySurfaceObject" });
      },
    };
  }

  #mipmappedArray(handle: bigint, call: string) {
    return this.#mipmappedArrays.get(handle) ?? fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
  }

  #allocate(
    { device, descriptor, levels, call }: { device: number; descriptor: ArrayDescriptor; levels: number; call: string },
  ): ArrayMemory {
    this.#core.devices.check(device, call);
    if (!isPossible(descriptor)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const memory = ArrayMemory.allocate(this.#core.linearMemory, { device, descriptor, levels });
    return memory ?? this.#core.failForMemory(call);
  }

  #create(object: TextureObject, call: string): bigint {
    const handle = newHandle() ?? fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    this.#objects.add(handle);
    this.#slots.write(handle, object);
    return BigInt(handle);
  }

  #destroy(handle: bigint, { isSurface, call }: { isSurface: number; call: string }): void {
    const number = Number(handle);
    if (!this.#objects.has(number) || this.#slots.read(number).isSurface !== isSurface) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    }
    this.#destroyObject(number);
  }

  #destroyObject(handle: number): void {
    this.#slots.clear(handle);
    this.#objects.delete(handle);
    usedSlots.delete(handle % objectLimit);
  }

  /** Returns the texels that a resource has. */
  #shownBy(resource: TextureResource, { device, call }: { device: number; call: string }): ShownTexels {
    if ("address" in resource) {
      const { address, format, channels, extent } = resource;
      const texelBytes = texelBytesOf(resource) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      const isRows = typeof extent !== "number";
      const byteLength = isRows ? extent.pitch * (extent.height - 1) + extent.width * texelBytes : extent;
      const isAligned = address % BigInt(limits.textureAlignment) === 0n &&
        (!isRows || extent.pitch % limits.texturePitchAlignment === 0);
      if (!isAligned || byteLength <= 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      this.#memory.range(address, byteLength, { call, device, flags: 1 });
      return {
        begin: offsetOfAddress(address)!,
        width: isRows ? extent.width : Math.floor(extent / texelBytes),
        height: isRows ? extent.height : 0,
        depth: 0,
        format,
        channels,
        flags: 0,
        pitch: isRows ? extent.pitch : 0,
        levels: 1,
        firstLevel: 0,
      };
    }
    if ("mipmappedArray" in resource) {
      const { memory } = this.#mipmappedArray(resource.mipmappedArray, call);
      return { ...memory.descriptor, begin: memory.begin, pitch: 0, levels: memory.levels.length, firstLevel: 0 };
    }
    const { memory, index } = this.#arrays.get(resource.array) ??
      fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    return { ...memory.descriptor, begin: memory.begin, pitch: 0, levels: 1, firstLevel: index };
  }
}

/** The texels of a resource. */
interface ShownTexels extends ArrayDescriptor {
  readonly begin: number;
  /** 0 if rows have no gaps. */
  readonly pitch: number;
  readonly firstLevel: number;
  readonly levels: number;
}

const limits = textureLimits;
/** The largest extents of arrays. */
const greatestExtents: Readonly<Record<string, readonly [width: number, height: number, depth: number]>> = {
  "1d": [limits.maxTexture1DWidth, 0, 0],
  "1d layered": [limits.maxTexture1DLayeredWidth, 0, limits.maxTexture1DLayeredLayers],
  "2d": [limits.maxTexture2DWidth, limits.maxTexture2DHeight, 0],
  "2d layered": [
    limits.maxTexture2DLayeredWidth,
    limits.maxTexture2DLayeredHeight,
    limits.maxTexture2DLayeredLayers,
  ],
  "3d": [limits.maxTexture3DWidth, limits.maxTexture3DHeight, limits.maxTexture3DDepth],
  cubemap: [limits.maxTextureCubemapWidth, limits.maxTextureCubemapWidth, 6],
  "cubemap layered": [
    limits.maxTextureCubemapLayeredWidth,
    limits.maxTextureCubemapLayeredWidth,
    limits.maxTextureCubemapLayeredLayers,
  ],
};

/** Whether CUDA has arrays of a size and format. */
function isPossible(descriptor: ArrayDescriptor): boolean {
  const { width, height, depth, channels, flags } = descriptor;
  const isLayered = (flags & arrayFlag.layered) !== 0, isCubemap = (flags & arrayFlag.cubemap) !== 0;
  if (texelBytesOf(descriptor) === undefined || ![1, 2, 4].includes(channels) || width < 1) return false;
  if (isCubemap && (width !== height || depth % 6 !== 0 || depth === 0 || !isLayered && depth !== 6)) return false;
  if (isLayered && depth === 0 || !isLayered && !isCubemap && depth > 0 && height === 0) return false;
  const isGather = (flags & arrayFlag.textureGather) !== 0;
  if (isGather && (height === 0 || depth > 0 && !hasLayers(descriptor))) return false;
  const shape = isCubemap ? "cubemap" : height === 0 ? "1d" : depth === 0 || isLayered ? "2d" : "3d";
  const [mostWidth, mostHeight, mostDepth] = greatestExtents[isLayered ? `${shape} layered` : shape]!;
  return width <= mostWidth && height <= mostHeight && depth <= mostDepth;
}

/** Returns the object of texels without anything that is particular to textures. */
function plain(shown: ShownTexels): TextureObject {
  const isLayered = (shown.flags & arrayFlag.layered) !== 0, isCubemap = (shown.flags & arrayFlag.cubemap) !== 0;
  const layers = hasLayers(shown) ? shown.depth : 1;
  const isDeep = shown.depth > 0 && !hasLayers(shown);
  const normalized = normalizedFormats.get(shown.format);
  return {
    isSurface: 0,
    dimensions: isDeep ? 3 : shown.height > 0 ? 2 : 1,
    isLayered: Number(isLayered),
    isCubemap: Number(isCubemap),
    isLinear: 0,
    format: channelFormats.indexOf(normalized ?? plainFormats.get(shown.format)!),
    channels: shown.channels,
    isNormalized: Number(normalized !== undefined),
    isFiltered: 0,
    filtersLevels: 0,
    addressX: 0,
    addressY: 0,
    addressZ: 0,
    hasNormalizedCoordinates: 0,
    isSrgb: 0,
    maxAnisotropy: 1,
    optimizesTrilinear: 1,
    isSeamless: 0,
    levelBias: 0,
    leastLevel: 0,
    greatestLevel: 0,
    border0: 0,
    border1: 0,
    border2: 0,
    border3: 0,
    begin: shown.begin,
    width: shown.width,
    height: Math.max(1, shown.height),
    depth: isDeep ? shown.depth : 1,
    layers,
    pitch: shown.pitch,
    firstLevel: shown.firstLevel,
    levels: shown.levels,
    firstLayer: 0,
    visibleLayers: layers,
  };
}

/** Returns the object of a texture. A filter has no effect on integers. */
function textureOf(
  shown: ShownTexels,
  { resource, description, view }: {
    resource: TextureResource;
    description: TextureDescription;
    view: ResourceView | undefined;
  },
): TextureObject {
  const { flags, borderColor, addressModes } = description;
  const has = (flag: number) => Number((flags & flag) !== 0);
  const isLinear = "address" in resource && typeof resource.extent === "number";
  const hasNormalizedCoordinates = has(textureFlag.normalizedCoordinates);
  const found = plain(view === undefined ? shown : { ...shown, format: view.format, channels: view.channels });
  const isInteger = ["u8", "u16", "s8", "s16"].includes(channelFormats[found.format]!);
  const isNormalized = Number(found.isNormalized === 1 || isInteger && has(textureFlag.readAsInteger) === 0);
  const isOfNumbers = isNormalized === 1 || channelFormats[found.format]!.startsWith("f");
  const isFiltered = Number(description.filterMode === textureFilterMode.linear && !isLinear && isOfNumbers);
  const visible = view === undefined ? {} : {
    firstLevel: found.firstLevel + view.firstLevel,
    levels: view.lastLevel - view.firstLevel + 1,
    firstLayer: view.firstLayer,
    visibleLayers: hasLayers(shown) ? view.lastLayer - view.firstLayer + 1 : 1,
  };
  return {
    ...found,
    ...visible,
    isLinear: Number(isLinear),
    isNormalized,
    isFiltered,
    filtersLevels: Number(description.mipmapFilterMode === textureFilterMode.linear),
    addressX: addressModes[0],
    addressY: addressModes[1],
    addressZ: addressModes[2],
    hasNormalizedCoordinates,
    isSrgb: has(textureFlag.srgb),
    maxAnisotropy: Math.max(1, description.maxAnisotropy),
    optimizesTrilinear: 1 - has(textureFlag.disableTrilinearOptimization),
    isSeamless: has(textureFlag.seamlessCubemap),
    levelBias: description.mipmapLevelBias,
    leastLevel: description.minMipmapLevelClamp,
    greatestLevel: description.maxMipmapLevelClamp,
    border0: borderColor[0],
    border1: borderColor[1],
    border2: borderColor[2],
    border3: borderColor[3],
  };
}
