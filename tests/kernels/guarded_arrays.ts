/**
 * Arrays on a device that end with guard elements, which a kernel must not write.
 *
 * @module
 */
import { assert } from "@std/assert";
import type {
  CudaDevice,
  CudaKernel,
  CudaStream,
  DeviceArray,
  KernelArgument,
  LaunchOptions,
  MemoryPool,
  TypedArray,
  TypedArrayConstructor,
} from "../../mod.ts";
import type { Cuda } from "../../src/objects/cuda.ts";

const guardLength = 16;
const guardByte = 0xa5;

/** A stream of a device, kernels that are launched on it, and arrays of a pool. */
export class GuardedArrays implements Disposable {
  readonly #resources = new DisposableStack();
  readonly #gpu: CudaDevice;
  readonly #stream: CudaStream;
  readonly #pool: MemoryPool;

  /** Creates the stream and the pool on the first device. */
  constructor(cuda: Cuda) {
    this.#gpu = cuda.device(0);
    this.#stream = this.#resources.use(this.#gpu.createStream());
    this.#pool = this.#resources.use(this.#gpu.createPool());
  }

  /** Loads PTX, and returns a function that launches one of its kernels. */
  kernels(ptx: string): (name: string, shape: Omit<LaunchOptions, "stream">, ...args: KernelArgument[]) => void {
    const module = this.#resources.use(this.#gpu.loadModule(ptx));
    const kernels = new Map<string, CudaKernel>(module.kernelNames.map((name) => [name, module.kernel(name)]));
    return (name, shape, ...args) => kernels.get(name)!.launch({ ...shape, stream: this.#stream }, ...args);
  }

  /** Allocates an array with the contents of another. */
  of<T extends TypedArray>(contents: T): DeviceArray<T> {
    const type = contents.constructor as TypedArrayConstructor<T>;
    const { byteOffset, byteLength, length, BYTES_PER_ELEMENT } = contents;
    const bytes = new Uint8Array((length + guardLength) * BYTES_PER_ELEMENT).fill(guardByte);
    bytes.set(new Uint8Array(contents.buffer, byteOffset, byteLength));
    const guarded = new type(bytes.buffer);
    const array = this.#resources.use(this.#pool.allocateArray(type, guarded.length, this.#stream));
    array.copyFrom(guarded, this.#stream);
    return array;
  }

  /** Allocates an array of a length, for a kernel to write. */
  empty<T extends TypedArray>(type: TypedArrayConstructor<T>, length: number): DeviceArray<T> {
    return this.of(new type(new Uint8Array(length * type.BYTES_PER_ELEMENT).fill(guardByte).buffer));
  }

  /** Resolves to the contents of an array without its guard, which must be as it was. */
  async contents<T extends TypedArray>(array: DeviceArray<T>): Promise<T> {
    const guarded = await array.toTypedArray();
    const contents = guarded.slice(0, -guardLength) as T;
    const guard = new Uint8Array(guarded.buffer, contents.byteLength);
    assert(guard.every((byte) => byte === guardByte), "The kernel wrote past the end of an array");
    return contents;
  }

  /** Frees everything. */
  [Symbol.dispose](): void {
    this.#resources.dispose();
  }
}
