/**
 * What the typed calls use. For the type checker alone: nothing of it exists at run time.
 *
 * @module
 */
import type {
  CudaDevice,
  CudaKernel,
  CudaModule,
  CudaStream,
  DeviceArray,
  DeviceBuffer,
  HostBuffer,
  LaunchOptions,
  Pointer,
  Ptx,
  Struct,
  StructArgument,
} from "../../mod.ts";

/** An image of 8-bit channels: typed arrays of both kinds fit. */
type Pixels = Pointer<Uint8Array | Uint8ClampedArray>;

/** An interface, as well as a type alias, can list kernels. */
export interface Kernels {
  saxpy: [n: number, a: number, x: Pointer<Float32Array>, y: Pointer<Float32Array>];
  histogram: [pixels: Pixels, count: number | bigint, bins: Pointer<Uint32Array>];
  copy: [target: Pointer, source: Pointer, bytes: number | bigint];
  draw: [view: StructArgument<{ center: Point; colors: readonly ["u8", 3]; limit: "s32" }>, smooth: boolean | number];
  move: [by: StructArgument<{ x: "f32"; y: "f32" }>];
  synchronize: [];
}
/** A struct in another. */
export type Point = Struct<{ x: "f32"; y: "f32" }>;

export declare const gpu: CudaDevice;
export declare const stream: CudaStream;
export declare const options: LaunchOptions;
export declare const ptx: Ptx<Kernels>;
export declare const text: string;
export declare const binary: Uint8Array;
export declare const module: CudaModule<Kernels>;
export declare const untyped: CudaModule;
export declare const saxpy: CudaKernel<Kernels["saxpy"]>;
export declare const floats: DeviceArray<Float32Array>;
export declare const doubles: DeviceArray<Float64Array>;
export declare const integers: DeviceArray<Int32Array>;
export declare const unsigned: DeviceArray<Uint32Array>;
export declare const clamped: DeviceArray<Uint8ClampedArray>;
export declare const buffer: DeviceBuffer;
export declare const pinned: HostBuffer;
/** An object of an application. */
export declare const matrix: { readonly address: bigint; readonly rows: number };
