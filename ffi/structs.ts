/**
 * The C structs that CUDA's functions take, described as data: the name, offset and C type of each field. The structs
 * of the driver and of the runtime (`CUmemPoolProps`, `cudaMemPoolProps`) have the same layout.
 *
 * @module
 */
import {
  type BatchedCopy,
  type GraphCopy,
  type GraphFill,
  type KernelLaunch,
  type LaunchAttributes,
  type MemAccessDesc,
  memAllocationType,
  type MemLocation,
  type MemPoolProps,
  type PitchedCopy,
} from "../src/driver.ts";
import { addressOf } from "./native/host.ts";

/** The C types of struct fields. */
export type NativeFieldType = "int" | "float" | "unsigned int" | "unsigned short" | "size_t" | "void *";

/** A C struct's size in bytes, and its fields by their C names. */
export interface NativeLayout {
  readonly name: string;
  readonly byteLength: number;
  readonly fields: Readonly<Record<string, { readonly offset: number; readonly type: NativeFieldType }>>;
}

/** The layout of `cudaMemPoolProps`. The remaining bytes are reserved and must be zero. */
export const memPoolPropsLayout = {
  name: "cudaMemPoolProps",
  byteLength: 88,
  fields: {
    "allocType": { offset: 0, type: "int" },
    "handleTypes": { offset: 4, type: "int" },
    "location.type": { offset: 8, type: "int" },
    "location.id": { offset: 12, type: "int" },
    "win32SecurityAttributes": { offset: 16, type: "void *" },
    "maxSize": { offset: 24, type: "size_t" },
    "usage": { offset: 32, type: "unsigned short" },
  },
} as const;

/** The layout of `CUmemAllocationProp`. The remaining bytes are flags, and must be zero. */
export const memAllocationPropLayout = {
  name: "CUmemAllocationProp",
  byteLength: 32,
  fields: {
    "type": { offset: 0, type: "int" },
    "requestedHandleTypes": { offset: 4, type: "int" },
    "location.type": { offset: 8, type: "int" },
    "location.id": { offset: 12, type: "int" },
    "win32HandleMetaData": { offset: 16, type: "void *" },
  },
} as const;

/** The layout of `cudaMemLocation`. */
export const memLocationLayout = {
  name: "cudaMemLocation",
  byteLength: 8,
  fields: { "type": { offset: 0, type: "int" }, "id": { offset: 4, type: "int" } },
} as const;

/** The layout of `cudaMemAccessDesc`. */
export const memAccessDescLayout = {
  name: "cudaMemAccessDesc",
  byteLength: 12,
  fields: {
    "location.type": { offset: 0, type: "int" },
    "location.id": { offset: 4, type: "int" },
    "flags": { offset: 8, type: "int" },
  },
} as const;

/** The layout of `CUlaunchConfig`, which the runtime declares with other names. */
export const launchConfigLayout = {
  name: "CUlaunchConfig",
  byteLength: 56,
  fields: {
    "gridDimX": { offset: 0, type: "unsigned int" },
    "gridDimY": { offset: 4, type: "unsigned int" },
    "gridDimZ": { offset: 8, type: "unsigned int" },
    "blockDimX": { offset: 12, type: "unsigned int" },
    "blockDimY": { offset: 16, type: "unsigned int" },
    "blockDimZ": { offset: 20, type: "unsigned int" },
    "sharedMemBytes": { offset: 24, type: "unsigned int" },
    "hStream": { offset: 32, type: "void *" },
    "attrs": { offset: 40, type: "void *" },
    "numAttrs": { offset: 48, type: "unsigned int" },
  },
} as const;

/** The layout of `CUlaunchAttribute`. The `value` is a union, so its fields share their bytes. */
export const launchAttributeLayout = {
  name: "CUlaunchAttribute",
  byteLength: 72,
  fields: {
    "id": { offset: 0, type: "int" },
    "value.cooperative": { offset: 8, type: "int" },
    "value.clusterDim.x": { offset: 8, type: "unsigned int" },
    "value.clusterDim.y": { offset: 12, type: "unsigned int" },
    "value.clusterDim.z": { offset: 16, type: "unsigned int" },
    "value.programmaticStreamSerializationAllowed": { offset: 8, type: "int" },
    "value.priority": { offset: 8, type: "int" },
  },
} as const;

/** The values of `CUlaunchAttributeID` that the library uses. */
export const launchAttributeId = {
  cooperative: 2,
  clusterDimension: 4,
  programmaticStreamSerialization: 6,
  priority: 8,
} as const;

/** The layout of `CUDA_GRAPH_INSTANTIATE_PARAMS`. The last two fields are results. */
export const graphInstantiateParamsLayout = {
  name: "CUDA_GRAPH_INSTANTIATE_PARAMS",
  byteLength: 32,
  fields: {
    "flags": { offset: 0, type: "size_t" },
    "hUploadStream": { offset: 8, type: "void *" },
    "hErrNode_out": { offset: 16, type: "void *" },
    "result_out": { offset: 24, type: "int" },
  },
} as const;

/** The layout of `CUDA_KERNEL_NODE_PARAMS_v2`. The context is that of the function. */
export const kernelNodeParamsLayout = {
  name: "CUDA_KERNEL_NODE_PARAMS",
  byteLength: 72,
  fields: {
    "func": { offset: 0, type: "void *" },
    "gridDimX": { offset: 8, type: "unsigned int" },
    "gridDimY": { offset: 12, type: "unsigned int" },
    "gridDimZ": { offset: 16, type: "unsigned int" },
    "blockDimX": { offset: 20, type: "unsigned int" },
    "blockDimY": { offset: 24, type: "unsigned int" },
    "blockDimZ": { offset: 28, type: "unsigned int" },
    "sharedMemBytes": { offset: 32, type: "unsigned int" },
    "kernelParams": { offset: 40, type: "void *" },
    "extra": { offset: 48, type: "void *" },
    "kern": { offset: 56, type: "void *" },
    "ctx": { offset: 64, type: "void *" },
  },
} as const;

/** The layout of `CUDA_MEMSET_NODE_PARAMS`. */
export const memsetNodeParamsLayout = {
  name: "CUDA_MEMSET_NODE_PARAMS",
  byteLength: 40,
  fields: {
    "dst": { offset: 0, type: "size_t" },
    "pitch": { offset: 8, type: "size_t" },
    "value": { offset: 16, type: "unsigned int" },
    "elementSize": { offset: 20, type: "unsigned int" },
    "width": { offset: 24, type: "size_t" },
    "height": { offset: 32, type: "size_t" },
  },
} as const;

/** The layout of `CUDA_MEMCPY3D`, without the fields of arrays. */
export const memcpy3DLayout = {
  name: "CUDA_MEMCPY3D",
  byteLength: 200,
  fields: {
    "srcXInBytes": { offset: 0, type: "size_t" },
    "srcY": { offset: 8, type: "size_t" },
    "srcZ": { offset: 16, type: "size_t" },
    "srcMemoryType": { offset: 32, type: "int" },
    "srcHost": { offset: 40, type: "void *" },
    "srcDevice": { offset: 48, type: "size_t" },
    "srcArray": { offset: 56, type: "void *" },
    "srcPitch": { offset: 72, type: "size_t" },
    "srcHeight": { offset: 80, type: "size_t" },
    "dstXInBytes": { offset: 88, type: "size_t" },
    "dstY": { offset: 96, type: "size_t" },
    "dstZ": { offset: 104, type: "size_t" },
    "dstMemoryType": { offset: 120, type: "int" },
    "dstHost": { offset: 128, type: "void *" },
    "dstDevice": { offset: 136, type: "size_t" },
    "dstArray": { offset: 144, type: "void *" },
    "dstPitch": { offset: 160, type: "size_t" },
    "dstHeight": { offset: 168, type: "size_t" },
    "WidthInBytes": { offset: 176, type: "size_t" },
    "Height": { offset: 184, type: "size_t" },
    "Depth": { offset: 192, type: "size_t" },
  },
} as const;

/** The layout of `CUDA_ARRAY3D_DESCRIPTOR`. */
export const array3DDescriptorLayout = {
  name: "CUDA_ARRAY3D_DESCRIPTOR",
  byteLength: 40,
  fields: {
    "Width": { offset: 0, type: "size_t" },
    "Height": { offset: 8, type: "size_t" },
    "Depth": { offset: 16, type: "size_t" },
    "Format": { offset: 24, type: "int" },
    "NumChannels": { offset: 28, type: "unsigned int" },
    "Flags": { offset: 32, type: "unsigned int" },
  },
} as const;

/** The layout of `CUDA_RESOURCE_DESC`. */
export const resourceDescLayout = {
  name: "CUDA_RESOURCE_DESC",
  byteLength: 144,
  fields: {
    "resType": { offset: 0, type: "int" },
    "res.array.hArray": { offset: 8, type: "void *" },
    "res.mipmap.hMipmappedArray": { offset: 8, type: "void *" },
    "res.linear.devPtr": { offset: 8, type: "size_t" },
    "res.linear.format": { offset: 16, type: "int" },
    "res.linear.numChannels": { offset: 20, type: "unsigned int" },
    "res.linear.sizeInBytes": { offset: 24, type: "size_t" },
    "res.pitch2D.devPtr": { offset: 8, type: "size_t" },
    "res.pitch2D.format": { offset: 16, type: "int" },
    "res.pitch2D.numChannels": { offset: 20, type: "unsigned int" },
    "res.pitch2D.width": { offset: 24, type: "size_t" },
    "res.pitch2D.height": { offset: 32, type: "size_t" },
    "res.pitch2D.pitchInBytes": { offset: 40, type: "size_t" },
  },
} as const;

/** The layout of `CUDA_TEXTURE_DESC`. */
export const textureDescLayout = {
  name: "CUDA_TEXTURE_DESC",
  byteLength: 104,
  fields: {
    "addressMode[0]": { offset: 0, type: "int" },
    "addressMode[1]": { offset: 4, type: "int" },
    "addressMode[2]": { offset: 8, type: "int" },
    "filterMode": { offset: 12, type: "int" },
    "flags": { offset: 16, type: "unsigned int" },
    "maxAnisotropy": { offset: 20, type: "unsigned int" },
    "mipmapFilterMode": { offset: 24, type: "int" },
    "mipmapLevelBias": { offset: 28, type: "float" },
    "minMipmapLevelClamp": { offset: 32, type: "float" },
    "maxMipmapLevelClamp": { offset: 36, type: "float" },
    "borderColor[0]": { offset: 40, type: "float" },
    "borderColor[1]": { offset: 44, type: "float" },
    "borderColor[2]": { offset: 48, type: "float" },
    "borderColor[3]": { offset: 52, type: "float" },
  },
} as const;

/** The layout of `CUDA_RESOURCE_VIEW_DESC`. */
export const resourceViewDescLayout = {
  name: "CUDA_RESOURCE_VIEW_DESC",
  byteLength: 112,
  fields: {
    "format": { offset: 0, type: "int" },
    "width": { offset: 8, type: "size_t" },
    "height": { offset: 16, type: "size_t" },
    "depth": { offset: 24, type: "size_t" },
    "firstMipmapLevel": { offset: 32, type: "unsigned int" },
    "lastMipmapLevel": { offset: 36, type: "unsigned int" },
    "firstLayer": { offset: 40, type: "unsigned int" },
    "lastLayer": { offset: 44, type: "unsigned int" },
  },
} as const;

/** The fields of `CUDA_MEMCPY3D_PEER` that `CUDA_MEMCPY3D` lacks. The other fields are the same. */
export const memcpy3DPeerLayout = {
  name: "CUDA_MEMCPY3D_PEER",
  byteLength: 200,
  fields: {
    "srcContext": { offset: 64, type: "void *" },
    "dstContext": { offset: 152, type: "void *" },
  },
} as const;

/** The layout of `CUmemcpyAttributes`. */
export const memcpyAttributesLayout = {
  name: "CUmemcpyAttributes",
  byteLength: 24,
  fields: {
    "srcAccessOrder": { offset: 0, type: "int" },
    "srcLocHint.type": { offset: 4, type: "int" },
    "srcLocHint.id": { offset: 8, type: "int" },
    "dstLocHint.type": { offset: 12, type: "int" },
    "dstLocHint.id": { offset: 16, type: "int" },
    "flags": { offset: 20, type: "unsigned int" },
  },
} as const;

/** The layout of `CUDA_MEM_ALLOC_NODE_PARAMS`, which begins with a `CUmemPoolProps`. `dptr` is a result. */
export const memAllocNodeParamsLayout = {
  name: "CUDA_MEM_ALLOC_NODE_PARAMS",
  byteLength: 120,
  fields: {
    "accessDescs": { offset: 88, type: "void *" },
    "accessDescCount": { offset: 96, type: "size_t" },
    "bytesize": { offset: 104, type: "size_t" },
    "dptr": { offset: 112, type: "size_t" },
  },
} as const;

/** The layout of a `CUgraphNodeParams` for a child graph. */
export const childGraphNodeParamsLayout = {
  name: "CUgraphNodeParams",
  byteLength: 256,
  fields: {
    "type": { offset: 0, type: "int" },
    "graph.graph": { offset: 16, type: "void *" },
    "graph.ownership": { offset: 24, type: "int" },
  },
} as const;

/** The layout of a `CUgraphNodeParams` for a conditional node. `phGraph_out`, the address of the bodies, is a result. */
export const conditionalNodeParamsLayout = {
  name: "CUgraphNodeParams",
  byteLength: 256,
  fields: {
    "type": { offset: 0, type: "int" },
    "conditional.handle": { offset: 16, type: "size_t" },
    "conditional.type": { offset: 24, type: "int" },
    "conditional.size": { offset: 28, type: "unsigned int" },
    "conditional.phGraph_out": { offset: 32, type: "void *" },
    "conditional.ctx": { offset: 40, type: "void *" },
  },
} as const;

/** The layout of `CUgraphExecUpdateResultInfo`, all of which are results. */
export const graphExecUpdateResultInfoLayout = {
  name: "CUgraphExecUpdateResultInfo",
  byteLength: 24,
  fields: {
    "result": { offset: 0, type: "int" },
    "errorNode": { offset: 8, type: "void *" },
    "errorFromNode": { offset: 16, type: "void *" },
  },
} as const;

/** The sizes in bytes of structs that the library passes on without reading their contents. */
export const opaqueStructSizes = {
  cudaMemPoolPtrExportData: 64,
  cudaMemFabricHandle_t: 64,
  cudaIpcMemHandle_t: 64,
  cudaIpcEventHandle_t: 64,
  cudaUUID_t: 16,
} as const;

/** Writes the given fields of a struct at `byteOffset`. Other fields keep their values. */
export function writeStruct<L extends NativeLayout>(
  layout: L,
  view: DataView,
  { byteOffset = 0, values }: { byteOffset?: number; values: { readonly [F in keyof L["fields"]]?: number | bigint } },
): void {
  for (const [name, value] of Object.entries(values)) {
    const { offset, type } = layout.fields[name]!;
    const at = byteOffset + offset;
    if (type === "int") view.setInt32(at, Number(value), true);
    else if (type === "unsigned int") view.setUint32(at, Number(value), true);
    else if (type === "float") view.setFloat32(at, Number(value), true);
    else if (type === "unsigned short") view.setUint16(at, Number(value), true);
    else view.setBigUint64(at, BigInt(value as number | bigint), true);
  }
}

const config = launchConfigLayout.fields;
const attribute = launchAttributeLayout.fields;
const mostAttributes = Object.keys(launchAttributeId).length;

/**
 * A `CUlaunchConfig` and the attributes that it points to, in one buffer, so that filling it in allocates no memory.
 */
export class LaunchConfig {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly #view: DataView<ArrayBuffer>;

  constructor() {
    const { byteLength } = launchConfigLayout;
    this.#view = new DataView(new ArrayBuffer(byteLength + mostAttributes * launchAttributeLayout.byteLength));
    this.bytes = new Uint8Array(this.#view.buffer);
    this.#view.setBigUint64(config.attrs.offset, addressOf(this.#view) + BigInt(byteLength), true);
  }

  /** Fills in the launch and its attributes. The kernel's parameters are not part of the struct. */
  fill(launch: KernelLaunch, attributes: LaunchAttributes): void {
    const view = this.#view;
    view.setUint32(config.gridDimX.offset, launch.gridX, true);
    view.setUint32(config.gridDimY.offset, launch.gridY, true);
    view.setUint32(config.gridDimZ.offset, launch.gridZ, true);
    view.setUint32(config.blockDimX.offset, launch.blockX, true);
    view.setUint32(config.blockDimY.offset, launch.blockY, true);
    view.setUint32(config.blockDimZ.offset, launch.blockZ, true);
    view.setUint32(config.sharedMemBytes.offset, launch.sharedMemoryBytes, true);
    view.setBigUint64(config.hStream.offset, launch.stream, true);
    view.setUint32(config.numAttrs.offset, this.fillAttributes(attributes), true);
  }

  /** Fills in the attributes. Returns their number. */
  fillAttributes({ clusterDim, cooperative, programmaticStreamSerialization, priority }: LaunchAttributes): number {
    const view = this.#view;
    let count = 0;
    if (clusterDim !== undefined) {
      const at = this.#begin(count++, launchAttributeId.clusterDimension);
      view.setUint32(at + attribute["value.clusterDim.x"].offset, clusterDim[0], true);
      view.setUint32(at + attribute["value.clusterDim.y"].offset, clusterDim[1], true);
      view.setUint32(at + attribute["value.clusterDim.z"].offset, clusterDim[2], true);
    }
    if (cooperative) {
      const at = this.#begin(count++, launchAttributeId.cooperative);
      view.setInt32(at + attribute["value.cooperative"].offset, 1, true);
    }
    if (programmaticStreamSerialization) {
      const at = this.#begin(count++, launchAttributeId.programmaticStreamSerialization);
      view.setInt32(at + attribute["value.programmaticStreamSerializationAllowed"].offset, 1, true);
    }
    if (priority !== undefined) {
      const at = this.#begin(count++, launchAttributeId.priority);
      view.setInt32(at + attribute["value.priority"].offset, priority, true);
    }
    return count;
  }

  /**
   * Writes the ID of the attribute at `index` of the attribute array, and clears the attribute's value. Returns the
   * attribute's offset in `bytes`.
   */
  #begin(index: number, id: number): number {
    const at = launchConfigLayout.byteLength + index * launchAttributeLayout.byteLength;
    this.bytes.fill(0, at, at + launchAttributeLayout.byteLength);
    this.#view.setInt32(at + attribute.id.offset, id, true);
    return at;
  }
}

/** Returns the descriptions of access as an array of `cudaMemAccessDesc`. */
export function encodeAccess(descriptions: readonly MemAccessDesc[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(memAccessDescLayout.byteLength * descriptions.length);
  const view = new DataView(bytes.buffer);
  for (const [index, { location, flags }] of descriptions.entries()) {
    writeStruct(memAccessDescLayout, view, {
      byteOffset: index * memAccessDescLayout.byteLength,
      values: { "location.type": location.type, "location.id": location.id, flags },
    });
  }
  return bytes;
}

/** Returns a location as a `cudaMemLocation`. */
export function encodeLocation({ type, id }: MemLocation): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(memLocationLayout.byteLength);
  writeStruct(memLocationLayout, new DataView(bytes.buffer), { values: { type, id } });
  return bytes;
}

/** Writes the properties of a pool as a `cudaMemPoolProps`. */
export function writePoolProps(view: DataView, props: MemPoolProps): void {
  const { handleTypes, location, maxSize, allocationType = memAllocationType.pinned, usage = 0 } = props;
  writeStruct(memPoolPropsLayout, view, {
    values: {
      "allocType": allocationType,
      "handleTypes": handleTypes,
      "location.type": location.type,
      "location.id": location.id,
      "maxSize": maxSize,
      "usage": usage,
    },
  });
}

const kernelNode = kernelNodeParamsLayout.fields;
const memsetNode = memsetNodeParamsLayout.fields;
const memcpyNode = memcpy3DLayout.fields;
/**
 * The values of `CUmemorytype` for the ends of a copy: host memory by its address, a device's, an array, any unified
 * address.
 */
export const copyEnd = { host: 1, device: 2, array: 3, unified: 4 } as const;

/** The structs of nodes of graphs, each of which is filled in anew for each call. */
export class NodeParams {
  readonly kernel: Uint8Array<ArrayBuffer> = new Uint8Array(kernelNodeParamsLayout.byteLength);
  readonly memset: Uint8Array<ArrayBuffer> = new Uint8Array(memsetNodeParamsLayout.byteLength);
  readonly memcpy: Uint8Array<ArrayBuffer> = new Uint8Array(memcpy3DLayout.byteLength);
  readonly #kernel = new DataView(this.kernel.buffer);
  readonly #memset = new DataView(this.memset.buffer);
  readonly #memcpy = new DataView(this.memcpy.buffer);

  /**
   * Fills in a `CUDA_KERNEL_NODE_PARAMS`. `extra` is the address of the array that passes the packed parameters, or 0 if
   * `kernelParams` is the address of an array of their addresses.
   */
  fillKernel(launch: KernelLaunch, extra: bigint, kernelParams: bigint = 0n): Uint8Array<ArrayBuffer> {
    const view = this.#kernel;
    view.setBigUint64(kernelNode.func.offset, launch.kernel, true);
    view.setUint32(kernelNode.gridDimX.offset, launch.gridX, true);
    view.setUint32(kernelNode.gridDimY.offset, launch.gridY, true);
    view.setUint32(kernelNode.gridDimZ.offset, launch.gridZ, true);
    view.setUint32(kernelNode.blockDimX.offset, launch.blockX, true);
    view.setUint32(kernelNode.blockDimY.offset, launch.blockY, true);
    view.setUint32(kernelNode.blockDimZ.offset, launch.blockZ, true);
    view.setUint32(kernelNode.sharedMemBytes.offset, launch.sharedMemoryBytes, true);
    view.setBigUint64(kernelNode.kernelParams.offset, kernelParams, true);
    view.setBigUint64(kernelNode.extra.offset, extra, true);
    return this.kernel;
  }

  /** Fills in a `CUDA_MEMSET_NODE_PARAMS`. */
  fillMemset({ address, value, elementSize, width, height, pitch }: GraphFill): Uint8Array<ArrayBuffer> {
    const view = this.#memset;
    view.setBigUint64(memsetNode.dst.offset, address, true);
    view.setBigUint64(memsetNode.pitch.offset, BigInt(pitch), true);
    view.setUint32(memsetNode.value.offset, value, true);
    view.setUint32(memsetNode.elementSize.offset, elementSize, true);
    view.setBigUint64(memsetNode.width.offset, BigInt(width), true);
    view.setBigUint64(memsetNode.height.offset, BigInt(height), true);
    return this.memset;
  }

  /**
   * Fills in a `CUDA_MEMCPY3D` for a copy in one dimension.
   *
   * @param type the type of the ends that are addresses, one of `copyEnd`
   */
  fillMemcpy({ source, destination, byteLength }: GraphCopy, type?: number): Uint8Array<ArrayBuffer> {
    const rows = { pitch: byteLength, rows: 1 };
    const ends = { source: { memory: source, ...rows }, destination: { memory: destination, ...rows } };
    return this.fillMemcpy3D({ ...ends, width: byteLength, height: 1, depth: 1 }, type);
  }

  /** Fills in a `CUDA_MEMCPY3D`. */
  fillMemcpy3D(
    { source, destination, width, height, depth }: PitchedCopy,
    type: number = copyEnd.unified,
  ): Uint8Array<ArrayBuffer> {
    const view = this.#memcpy;
    const isHostSource = typeof source.memory !== "bigint", isHostTarget = typeof destination.memory !== "bigint";
    view.setInt32(memcpyNode.srcMemoryType.offset, isHostSource ? copyEnd.host : type, true);
    view.setBigUint64(memcpyNode.srcHost.offset, isHostSource ? addressOf(source.memory) : 0n, true);
    view.setBigUint64(memcpyNode.srcDevice.offset, isHostSource ? 0n : source.memory, true);
    view.setBigUint64(memcpyNode.srcPitch.offset, BigInt(source.pitch), true);
    view.setBigUint64(memcpyNode.srcHeight.offset, BigInt(source.rows), true);
    view.setInt32(memcpyNode.dstMemoryType.offset, isHostTarget ? copyEnd.host : type, true);
    view.setBigUint64(memcpyNode.dstHost.offset, isHostTarget ? addressOf(destination.memory) : 0n, true);
    view.setBigUint64(memcpyNode.dstDevice.offset, isHostTarget ? 0n : destination.memory, true);
    view.setBigUint64(memcpyNode.dstPitch.offset, BigInt(destination.pitch), true);
    view.setBigUint64(memcpyNode.dstHeight.offset, BigInt(destination.rows), true);
    view.setBigUint64(memcpyNode.WidthInBytes.offset, BigInt(width), true);
    view.setBigUint64(memcpyNode.Height.offset, BigInt(height), true);
    view.setBigUint64(memcpyNode.Depth.offset, BigInt(depth), true);
    return this.memcpy;
  }
}

/** Returns a `CUDA_MEMCPY3D_PEER` for a copy between the memory of two contexts. */
export function peerCopyParams(
  copy: PitchedCopy,
  { destination, source }: { destination: bigint; source: bigint },
): Uint8Array<ArrayBuffer> {
  const bytes = new NodeParams().fillMemcpy3D(copy);
  const view = new DataView(bytes.buffer);
  view.setInt32(memcpyNode.srcMemoryType.offset, copyEnd.device, true);
  view.setInt32(memcpyNode.dstMemoryType.offset, copyEnd.device, true);
  view.setBigUint64(memcpy3DPeerLayout.fields.srcContext.offset, source, true);
  view.setBigUint64(memcpy3DPeerLayout.fields.dstContext.offset, destination, true);
  return bytes;
}

/** The arrays that describe a batch of copies to `cuMemcpyBatchAsync`. */
export interface BatchParams {
  readonly destinations: Uint8Array;
  readonly sources: Uint8Array;
  readonly sizes: Uint8Array;
  readonly count: bigint;
  /** A `CUmemcpyAttributes` for each run of copies with the same attributes. */
  readonly attributes: Uint8Array;
  /** The index of the first copy of each run. */
  readonly firsts: Uint8Array;
  readonly attributeCount: bigint;
}

/** Returns the arrays that describe a batch of copies. */
export function batchParams(copies: readonly BatchedCopy[]): BatchParams {
  const count = copies.length;
  const words = new BigUint64Array(3 * count);
  const halves = new Uint32Array(words.buffer, 16 * count);
  const firsts: bigint[] = [];
  let previous: BatchedCopy["attributes"] | undefined;
  for (let index = 0; index < count; index++) {
    const { destination, source, byteLength, attributes } = copies[index]!;
    words[index] = typeof destination === "bigint" ? destination : addressOf(destination);
    words[count + index] = typeof source === "bigint" ? source : addressOf(source);
    // Faster than a bigint.
    halves[2 * index] = byteLength % 2 ** 32;
    halves[2 * index + 1] = byteLength / 2 ** 32;
    if (attributes !== previous) firsts.push(BigInt(index));
    previous = attributes;
  }
  const { byteLength, fields } = memcpyAttributesLayout;
  const attributes = new Uint8Array(firsts.length * byteLength);
  const view = new DataView(attributes.buffer);
  for (const [run, first] of firsts.entries()) {
    const { sourceAccessOrder, preferOverlapWithCompute, sourceLocation, destinationLocation } =
      copies[Number(first)]!.attributes;
    const at = run * byteLength;
    view.setInt32(at + fields.srcAccessOrder.offset, sourceAccessOrder, true);
    view.setInt32(at + fields["srcLocHint.type"].offset, sourceLocation?.type ?? 0, true);
    view.setInt32(at + fields["srcLocHint.id"].offset, sourceLocation?.id ?? 0, true);
    view.setInt32(at + fields["dstLocHint.type"].offset, destinationLocation?.type ?? 0, true);
    view.setInt32(at + fields["dstLocHint.id"].offset, destinationLocation?.id ?? 0, true);
    view.setUint32(at + fields.flags.offset, preferOverlapWithCompute ? 1 : 0, true);
  }
  const bytes = (begin: number) => new Uint8Array(words.buffer, 8 * begin, 8 * count);
  return {
    destinations: bytes(0),
    sources: bytes(count),
    sizes: bytes(2 * count),
    count: BigInt(count),
    attributes,
    firsts: new Uint8Array(new BigUint64Array(firsts).buffer),
    attributeCount: BigInt(firsts.length),
  };
}

/** Returns each attribute of a launch as its ID and a `CUkernelNodeAttrValue`. */
export function nodeAttributes(attributes: LaunchAttributes): [id: number, value: Uint8Array<ArrayBuffer>][] {
  const config = new LaunchConfig();
  const count = config.fillAttributes(attributes);
  const { byteLength, fields } = launchAttributeLayout;
  const valueOffset = fields["value.priority"].offset;
  return Array.from({ length: count }, (_, index) => {
    const at = launchConfigLayout.byteLength + index * byteLength;
    const id = new DataView(config.bytes.buffer).getInt32(at + fields.id.offset, true);
    return [id, config.bytes.slice(at + valueOffset, at + byteLength)];
  });
}
