/**
 * The calls of `CudaDriver` about CUDA arrays, textures and surfaces. They go to libcuda: the structs of the runtime
 * differ, and its handles are the same.
 *
 * @module
 */
import {
  type ArrayCopy,
  type ArrayDescriptor,
  arrayFormat,
  type ArrayPlace,
  type Driver,
  type PitchedMemory,
  type ResourceView,
  type TextureDescription,
  type TextureResource,
} from "../src/driver.ts";
import type { DriverFunctions } from "./driver_equivalents.ts";
import { addressOf } from "./native/host.ts";
import {
  array3DDescriptorLayout,
  copyEnd,
  memcpy3DLayout,
  resourceDescLayout,
  resourceViewDescLayout,
  textureDescLayout,
  writeStruct,
} from "./structs.ts";

/** The calls of a driver about CUDA arrays, textures and surfaces. */
export type TextureCalls = Pick<
  Driver,
  | "memcpy3DArrayAsync"
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

/** What the calls need of the driver that they belong to. */
interface DriverServices {
  makeCurrent(device: number): void;
  /** Throws the error of a call unless its result is 0. */
  check(result: number, call: string): void;
}

/** The values of `CUresourcetype`. */
const resourceType = { array: 0, mipmappedArray: 1, linear: 2, pitch2D: 3 } as const;
/** The formats of which CUDA has one for each number of channels. */
const formatsByChannels: readonly number[] = [
  arrayFormat.unorm8,
  arrayFormat.unorm16,
  arrayFormat.snorm8,
  arrayFormat.snorm16,
];
/** The first `CUresourceViewFormat` of each format: that of one channel. Those of two and four channels follow. */
const viewFormats: ReadonlyMap<number, number> = new Map([
  [arrayFormat.u8, 0x01],
  [arrayFormat.s8, 0x04],
  [arrayFormat.u16, 0x07],
  [arrayFormat.s16, 0x0a],
  [arrayFormat.u32, 0x0d],
  [arrayFormat.s32, 0x10],
  [arrayFormat.f16, 0x13],
  [arrayFormat.f32, 0x16],
]);

const handleOut = new BigUint64Array(1);
const out = new Uint8Array(handleOut.buffer);

/** Returns the calls of a driver about CUDA arrays, textures and surfaces. */
export function textureCalls(cuda: DriverFunctions, { makeCurrent, check }: DriverServices): TextureCalls {
  const copyParams = newStruct(memcpy3DLayout.byteLength);
  return {
    memcpy3DArrayAsync(device, copy, stream) {
      makeCurrent(device);
      writeArrayCopy(copyParams.view, copy);
      check(cuda.cuMemcpy3DAsync_v2(copyParams.bytes, stream), "cudaMemcpy3DAsync");
    },
    arrayCreate(device, descriptor) {
      makeCurrent(device);
      check(cuda.cuArray3DCreate_v2(out, arrayStruct(descriptor)), "cudaMalloc3DArray");
      return handleOut[0]!;
    },
    arrayDestroy(device, array) {
      makeCurrent(device);
      check(cuda.cuArrayDestroy(array), "cudaFreeArray");
    },
    mipmappedArrayCreate(device, descriptor, levels) {
      makeCurrent(device);
      check(cuda.cuMipmappedArrayCreate(out, arrayStruct(descriptor), levels), "cudaMallocMipmappedArray");
      return handleOut[0]!;
    },
    mipmappedArrayGetLevel(device, mipmappedArray, level) {
      makeCurrent(device);
      check(cuda.cuMipmappedArrayGetLevel(out, mipmappedArray, level), "cudaGetMipmappedArrayLevel");
      return handleOut[0]!;
    },
    mipmappedArrayDestroy(device, mipmappedArray) {
      makeCurrent(device);
      check(cuda.cuMipmappedArrayDestroy(mipmappedArray), "cudaFreeMipmappedArray");
    },
    texObjectCreate(device, resource, description, view) {
      makeCurrent(device);
      const resView = view === undefined ? null : viewStruct(view);
      const result = cuda.cuTexObjectCreate(out, resourceStruct(resource), textureStruct(description), resView);
      check(result, "cudaCreateTextureObject");
      return handleOut[0]!;
    },
    texObjectDestroy(device, texture) {
      makeCurrent(device);
      check(cuda.cuTexObjectDestroy(texture), "cudaDestroyTextureObject");
    },
    surfObjectCreate(device, array) {
      makeCurrent(device);
      check(cuda.cuSurfObjectCreate(out, resourceStruct({ array })), "cudaCreateSurfaceObject");
      return handleOut[0]!;
    },
    surfObjectDestroy(device, surface) {
      makeCurrent(device);
      check(cuda.cuSurfObjectDestroy(surface), "cudaDestroySurfaceObject");
    },
  };
}

/** Returns a `CUDA_MEMCPY3D` for a copy with an array at one end at least. */
export function arrayCopyParams(copy: ArrayCopy): Uint8Array<ArrayBuffer> {
  const { bytes, view } = newStruct(memcpy3DLayout.byteLength);
  writeArrayCopy(view, copy);
  return bytes;
}

function writeArrayCopy(view: DataView, { source, destination, width, height, depth }: ArrayCopy): void {
  const from = endOf(source), to = endOf(destination);
  writeStruct(memcpy3DLayout, view, {
    values: {
      srcXInBytes: from.x,
      srcY: from.y,
      srcZ: from.z,
      srcMemoryType: from.type,
      srcHost: from.host,
      srcDevice: from.device,
      srcArray: from.array,
      srcPitch: from.pitch,
      srcHeight: from.rows,
      dstXInBytes: to.x,
      dstY: to.y,
      dstZ: to.z,
      dstMemoryType: to.type,
      dstHost: to.host,
      dstDevice: to.device,
      dstArray: to.array,
      dstPitch: to.pitch,
      dstHeight: to.rows,
      WidthInBytes: width,
      Height: height,
      Depth: depth,
    },
  });
}

function newStruct(byteLength: number): { readonly bytes: Uint8Array<ArrayBuffer>; readonly view: DataView } {
  const bytes = new Uint8Array(byteLength);
  return { bytes, view: new DataView(bytes.buffer) };
}

/** Returns the fields of one end of a copy. */
function endOf(end: PitchedMemory | ArrayPlace) {
  if ("array" in end) {
    return { ...end, type: copyEnd.array, host: 0n, device: 0n, pitch: 0, rows: 0 };
  }
  const { memory, pitch, rows } = end;
  const isHost = typeof memory !== "bigint";
  return {
    array: 0n,
    x: 0,
    y: 0,
    z: 0,
    type: isHost ? copyEnd.host : copyEnd.unified,
    host: isHost ? addressOf(memory) : 0n,
    device: isHost ? 0n : memory,
    pitch,
    rows,
  };
}

function arrayStruct({ width, height, depth, format, channels, flags }: ArrayDescriptor): Uint8Array<ArrayBuffer> {
  const { bytes, view } = newStruct(array3DDescriptorLayout.byteLength);
  const own = formatsByChannels.includes(format) ? format + Math.log2(channels) : format;
  writeStruct(array3DDescriptorLayout, view, {
    values: { Width: width, Height: height, Depth: depth, Format: own, NumChannels: channels, Flags: flags },
  });
  return bytes;
}

function resourceStruct(resource: TextureResource): Uint8Array<ArrayBuffer> {
  const { bytes, view } = newStruct(resourceDescLayout.byteLength);
  const write = (values: Parameters<typeof writeStruct<typeof resourceDescLayout>>[2]["values"]) => {
    writeStruct(resourceDescLayout, view, { values });
  };
  if ("array" in resource) write({ "resType": resourceType.array, "res.array.hArray": resource.array });
  else if ("mipmappedArray" in resource) {
    write({ "resType": resourceType.mipmappedArray, "res.mipmap.hMipmappedArray": resource.mipmappedArray });
  } else if (typeof resource.extent === "number") {
    write({
      "resType": resourceType.linear,
      "res.linear.devPtr": resource.address,
      "res.linear.format": resource.format,
      "res.linear.numChannels": resource.channels,
      "res.linear.sizeInBytes": resource.extent,
    });
  } else {
    write({
      "resType": resourceType.pitch2D,
      "res.pitch2D.devPtr": resource.address,
      "res.pitch2D.format": resource.format,
      "res.pitch2D.numChannels": resource.channels,
      "res.pitch2D.width": resource.extent.width,
      "res.pitch2D.height": resource.extent.height,
      "res.pitch2D.pitchInBytes": resource.extent.pitch,
    });
  }
  return bytes;
}

function textureStruct(description: TextureDescription): Uint8Array<ArrayBuffer> {
  const { bytes, view } = newStruct(textureDescLayout.byteLength);
  const { addressModes: [x, y, z], borderColor: [red, green, blue, alpha] } = description;
  writeStruct(textureDescLayout, view, {
    values: {
      "addressMode[0]": x,
      "addressMode[1]": y,
      "addressMode[2]": z,
      "filterMode": description.filterMode,
      "flags": description.flags,
      "maxAnisotropy": description.maxAnisotropy,
      "mipmapFilterMode": description.mipmapFilterMode,
      "mipmapLevelBias": description.mipmapLevelBias,
      "minMipmapLevelClamp": description.minMipmapLevelClamp,
      "maxMipmapLevelClamp": description.maxMipmapLevelClamp,
      "borderColor[0]": red,
      "borderColor[1]": green,
      "borderColor[2]": blue,
      "borderColor[3]": alpha,
    },
  });
  return bytes;
}

function viewStruct({ format, channels, ...rest }: ResourceView): Uint8Array<ArrayBuffer> {
  const { bytes, view } = newStruct(resourceViewDescLayout.byteLength);
  writeStruct(resourceViewDescLayout, view, {
    values: {
      format: viewFormats.get(format)! + Math.log2(channels),
      width: rest.width,
      height: rest.height,
      depth: rest.depth,
      firstMipmapLevel: rest.firstLevel,
      lastMipmapLevel: rest.lastLevel,
      firstLayer: rest.firstLayer,
      lastLayer: rest.lastLayer,
    },
  });
  return bytes;
}
