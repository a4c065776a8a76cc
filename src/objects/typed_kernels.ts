import type { KernelArgument } from "./kernel_arguments.ts";
import type { TypedArray, TypedArrayConstructor } from "../support/typed_array.ts";

// Not a name: with one, editors would complete a member that is never there.
declare const kernels: unique symbol;

/** The kernels of a module that TypeScript knows nothing of: any name, with any arguments. */
export interface AnyKernels {
  /** The parameters of the kernel of a name. */
  readonly [name: string]: readonly KernelArgument[];
}

/**
 * PTX whose kernels' names and parameters TypeScript knows. At run time it is a string. `CudaDevice.loadModule` returns a
 * module whose `kernel` accepts these names only, and whose kernels' `launch` accepts these parameters only.
 *
 * `Kernels` has the tuple of the parameters for the name of each kernel: `number` for integers and floats of up to 32
 * bits and `f64`, `number | bigint` for 64-bit integers, `boolean | number` for a `bool`, a {@linkcode Pointer}, or a
 * {@linkcode StructArgument}. The compiler takes your word for it, the launch does not: it checks its arguments against
 * the PTX, as for any other module.
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

/** What the type of a {@linkcode Ptx} has beside that of a string. */
export interface PtxKernels<Kernels> {
  /**
   * Exists for the type checker only.
   *
   * @internal
   */
  readonly [kernels]: Kernels;
}

/**
 * A parameter that is a pointer to elements of a type: `Pointer<Float32Array>` for a `float*`. An argument is an array of
 * these elements, memory without an element type such as a `DeviceBuffer`, an object with an address, or the address.
 * `Pointer<Int8Array | Uint8Array>`, for a `char*`, takes either, and `Pointer` alone, for a `void*`, takes arrays of any
 * type. For a pointer to structs, arrays have the bytes that `Struct.encode` returns: `Pointer<Uint8Array>`. The null
 * pointer is `0n`.
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
