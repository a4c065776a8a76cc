import type { KernelArgument } from "./kernel_arguments.ts";
import type { TypedArray, TypedArrayConstructor } from "../../support/typed_array.ts";

// Not a name: with one, editors would complete a member that is never there.
declare const kernels: unique symbol;

/** The kernels of a module without types: any name, with any arguments. */
export interface AnyKernels {
  /** The parameters of the kernel of a name. */
  readonly [name: string]: readonly KernelArgument[];
}

/**
 * PTX with a type that lists its kernels and their parameters. At run time it is a string. `poolpass bind` generates
 * such types from CUDA C++. From a `Ptx`, `CudaDevice.loadModule` returns a module whose `kernel` accepts only these
 * names, and whose kernels' `launch` accepts only these parameters.
 *
 * `Kernels` has, for the name of each kernel, a tuple of its parameters: `number` for floats and for integers of up to
 * 32 bits, `number | bigint` for 64-bit integers, `boolean | number` for a `bool`, a {@linkcode Pointer}, or a
 * {@linkcode StructArgument}. Nothing compares a type that you write by hand with the PTX; but a launch checks its
 * arguments against the PTX, as for any other module.
 *
 * @example
 * ```ts
 * import { open, type Pointer, type Ptx } from "./mod.ts";
 * import { ptx as text } from "./kernels/saxpy.ts";
 *
 * const ptx = text as Ptx<{ saxpy: [n: number, a: number, x: Pointer<Float32Array>, y: Pointer<Float32Array>] }>;
 * using cuda = open();
 * const gpu = cuda.device(0);
 * using stream = gpu.createStream();
 * using x = gpu.defaultPool.allocateArray(Float32Array, 1024, stream);
 * using y = gpu.defaultPool.allocateArray(Float32Array, 1024, stream);
 * x.fill(1);
 * y.fill(2);
 * using module = gpu.loadModule(ptx);
 * module.kernel("saxpy").launch({ grid: 4, block: 256, stream }, 1024, 2.5, x, y);
 * console.log((await y.toTypedArray())[0]); // 4.5
 * ```
 */
export type Ptx<Kernels extends { [Name in keyof Kernels]: readonly KernelArgument[] }> =
  & string
  & PtxKernels<Kernels>;

/** What the type of a {@linkcode Ptx} adds to `string`. */
export interface PtxKernels<Kernels> {
  /**
   * Exists for the type checker only.
   *
   * @internal
   */
  readonly [kernels]: Kernels;
}

/**
 * A parameter that is a pointer to elements of a type: `Pointer<Float32Array>` for a `float*`. An argument is a
 * `DeviceArray` of these elements, memory without an element type such as a `DeviceBuffer`, any other object with an
 * `address`, or an address. `Pointer<Int8Array | Uint8Array>`, for a `char*`, takes either array, and `Pointer` alone,
 * for a `void*`, takes arrays of any type. For a pointer to structs, use `Pointer<Uint8Array>`, with the bytes that
 * `Struct.encode` returns. The null pointer is `0n`.
 *
 * @example
 * ```ts
 * import { open, type Pointer } from "./mod.ts";
 *
 * using cuda = open();
 * using stream = cuda.device(0).createStream();
 * using pool = cuda.device(0).createPool();
 * using array = pool.allocateArray(Float32Array, 256, stream);
 * using bytes = pool.allocate(1024, stream);
 * const pointers: Pointer<Float32Array>[] = [array, array.subarray(128), bytes, bytes.address, 0n];
 * console.log(pointers.length); // 5
 * ```
 */
export type Pointer<T extends TypedArray = TypedArray> =
  | { readonly address: bigint; readonly type?: TypedArrayConstructor<T> }
  | bigint;
