import type { MemorySnapshot } from "../memory/snapshots/memory_snapshot.ts";
import { countOf, printAs } from "../support/printing.ts";
import { type AddressRange, reserveAddresses, type ReserveOptions } from "../memory/virtual/address_range.ts";
import {
  createManagedPool,
  currentPoolAt,
  defaultPoolAt,
  type ManagedPoolOptions,
  type PoolKind,
  setCurrentPoolAt,
} from "../memory/managed/managed_pools.ts";
import type { MemoryLocation } from "../memory/managed/memory_location.ts";
import { createPool, type MemoryPool, type PoolOptions, poolOptions } from "../memory/pools/memory_pool.ts";
import type { CompiledProgram } from "../compile/compilers.ts";
import type { CompileOptions } from "../compile/compile_options.ts";
import { CudaDevice } from "./cuda_device.ts";
import { memLocationType } from "../driver.ts";
import { cannot, ignoreLoss } from "../support/driver_errors.ts";
import { HostBuffer, hostFlags, type HostOptions } from "../memory/transfers/host_buffer.ts";
import {
  adviceForRegistration,
  checkRegistrable,
  type RegisterHostOptions,
  registrationFlags,
} from "../memory/transfers/registered_memory.ts";
import { cudaErrorNumbers, explainedError } from "../support/errors.ts";
import type { Session } from "../session.ts";
import {
  checkByteLength,
  checkNumber,
  checkOptions,
  type KnownOptions,
  maximumInt,
  refuseConstruction,
  shown,
  whatIs,
} from "../support/validation.ts";
import { formatVersion } from "../support/version.ts";
import { cloneRefusal, openInWorker } from "../support/cloning.ts";
import { RangeError, ReferenceError, TypeError } from "../support/program_errors.ts";

/** The options of a new pool in host memory. */
const hostPoolOptions: KnownOptions<PoolOptions & { numaNode?: number }> = {
  action: poolOptions.action,
  names: { ...poolOptions.names, numaNode: true },
};

/** Returns the session that a `Cuda` object and all objects created from it belong to. */
export let sessionOf: (cuda: Cuda) => Session;

const refusalToClone = cloneRefusal("a Cuda object", openInWorker);

/** A driver and its devices. Comes from `open`. */
export class Cuda implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** "cuda" for GPUs, "software" for software devices. */
  readonly driver: "cuda" | "software";
  /** The CUDA version of the driver: 13000 for CUDA 13.0. */
  readonly driverVersion: number;
  /**
   * The version of libcudart, such as 13000 for CUDA 13.0; undefined if no usable libcudart was found and only the
   * driver library is used.
   */
  readonly runtimeVersion: number | undefined;
  /** The devices, indexed by ordinal. */
  readonly devices: readonly CudaDevice[];
  readonly #session: Session;

  static {
    sessionOf = (cuda) => cuda.#session;
    printAs(this, "Cuda", (cuda) => {
      const version = `CUDA ${formatVersion(cuda.driverVersion)}`;
      const state = cuda.#session.hasEnded ? "disposed" : `${countOf(cuda.devices.length, "device")}, ${version}`;
      return `Cuda { ${cuda.driver}, ${state} }`;
    }, ["driver", "driverVersion", "runtimeVersion", "devices", ["disposed", (cuda) => cuda.#session.hasEnded]]);
  }

  /**
   * `Cuda` objects come from `open`.
   *
   * @ignore
   */
  constructor(session: Session) {
    if (session?.opened === undefined) refuseConstruction("Cuda", "open");
    const { driver } = session;
    this.#session = session;
    this.driver = driver.kind;
    this.driverVersion = driver.driverGetVersion();
    this.runtimeVersion = driver.runtimeVersion;
    this.devices = Array.from(
      { length: driver.getDeviceCount() },
      (_, ordinal) => new CudaDevice(session, ordinal, this),
    );
  }

  /**
   * Returns a device by its ordinal or its UUID.
   *
   * @throws {RangeError} If there is no such device
   * @throws {TypeError} If the argument is not a number or a string
   * @throws {ReferenceError} If the `Cuda` object was disposed
   */
  device(ordinalOrUuid: number | string): CudaDevice {
    if (this.#session.hasEnded) throw new ReferenceError("Cannot use the devices: the Cuda object was disposed");
    const isOrdinal = typeof ordinalOrUuid === "number";
    if (!isOrdinal && typeof ordinalOrUuid !== "string") {
      throw new TypeError(`Cannot find a device by ${whatIs(ordinalOrUuid)}: give its ordinal, a number, or its UUID`);
    }
    const found = isOrdinal ? this.devices[ordinalOrUuid] : this.devices.find(({ uuid }) => uuid === ordinalOrUuid);
    if (found === undefined) {
      const wanted = isOrdinal ? ordinalOrUuid : `"${ordinalOrUuid}"`;
      const known = isOrdinal
        ? this.devices.length === 1 ? "0" : `0 to ${this.devices.length - 1}`
        : this.devices.map(({ uuid }) => uuid).join(", ");
      // Recognizes "0" and PyTorch's notation "cuda:0", for the advice in the error.
      const number = isOrdinal ? undefined : /^(?:\w+:)?(\d{1,9})$/.exec(ordinalOrUuid)?.[1];
      const advice = number === undefined ? "" : `; an ordinal is a number: device(${Number(number)})`;
      throw new RangeError(`Cannot find device ${wanted}: the devices are ${known}${advice}`);
    }
    return found;
  }

  /**
   * Allocates page-locked host memory. Copies between this memory and any device do not block the host.
   *
   * @param byteLength Size in bytes, at least 1.
   * @param options Whether the memory bypasses the processor's caches.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @throws {TypeError} If `byteLength` is not a number
   * @throws {RangeError} If `byteLength` is not a whole number, or is less than 1
   * @throws {CudaError} `cudaErrorMemoryAllocation` if the host has too little memory left
   */
  allocateHost(byteLength: number, options: HostOptions = {}): HostBuffer {
    checkByteLength(byteLength, "a host buffer's size", 1);
    const flags = hostFlags(options);
    try {
      return new HostBuffer(this.#session, { byteLength, flags });
    } catch (error) {
      throw cannot(`allocate ${byteLength} bytes of page-locked memory`, error);
    }
  }

  /**
   * Page-locks memory that exists already, until the result is disposed. Copies between it and any device then do not
   * block the host, and kernels of all devices read and write it in place. To lock memory takes about as long as to
   * write it: it pays for memory that is used for long.
   *
   * The safest memory is a SharedArrayBuffer, or that of a WebAssembly.Memory that does not grow: nobody can transfer
   * it. Do not transfer an ArrayBuffer meanwhile: the result could then not be used any more.
   *
   * @param memory At least 4096 bytes.
   * @param options Whether devices only read the memory.
   * @returns The memory as page-locked memory. Its `buffer` is the program's own, in which it begins at `byteOffset`.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @throws {TypeError} If `memory` is not an ArrayBuffer, a SharedArrayBuffer or a view of one, or can be resized, or
   * was transferred
   * @throws {RangeError} If it has less than 4096 bytes
   * @throws {CudaError} `cudaErrorHostMemoryAlreadyRegistered` if a part of the memory is page-locked already,
   * `cudaErrorInvalidValue` for memory that the process can only read, without `readOnly`
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   *
   * using cuda = open();
   * const samples = new Float32Array(new SharedArrayBuffer(65536)); // other Workers write it
   * using host = cuda.registerHost(samples);
   * using pool = cuda.device(0).createPool();
   * using x = pool.allocateArray(Float32Array, samples.length);
   * x.copyFrom(host); // without a copy on the host
   * ```
   */
  registerHost(
    memory: ArrayBuffer | SharedArrayBuffer | ArrayBufferView,
    options: RegisterHostOptions = {},
  ): HostBuffer {
    const flags = registrationFlags(options);
    const bytes = checkRegistrable(memory);
    try {
      if (this.#session.lifetimeOf(bytes) === bytes.buffer) {
        const why = "it is memory of this library, which is page-locked already";
        throw explainedError(cudaErrorNumbers.cudaErrorInvalidValue, "cudaHostRegister", why);
      }
      return new HostBuffer(this.#session, { registration: this.#session.registerHost(bytes, flags) });
    } catch (error) {
      throw cannot(`register ${bytes.byteLength} bytes of memory`, error, adviceForRegistration(error));
    }
  }

  /**
   * Compiles CUDA C++ to PTX, without a device, to save it or to load it elsewhere. To compile and load in one step,
   * use `CudaDevice.compile`.
   *
   * @param source CUDA C++.
   * @param options The options of `CudaDevice.compile`, with the architecture.
   * @see https://docs.nvidia.com/cuda/nvrtc/
   * @throws {CompileError} If the compiler refuses the source
   * @throws {TypeError} If the source is not a string, or an option is unknown or not valid
   * @throws {RangeError} If an option's value is not valid, or the compiler refuses it
   * @throws {Error} If there is no compiler
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   *
   * using cuda = open();
   * const source = 'extern "C" __global__ void nothing() {}';
   * const { ptx, compiler } = cuda.compile(source, { architecture: "compute_90" });
   * console.log(compiler, ptx.length);
   * ```
   */
  compile(source: string, options: CompileOptions & { architecture: string }): CompiledProgram {
    if (this.#session.hasEnded) throw new ReferenceError("Cannot compile: the Cuda object was disposed");
    return this.#session.compilers.compile(source, options);
  }

  /**
   * Creates a pool in host memory: on the NUMA node `numaNode`, or on any node if it is omitted, which not all drivers
   * support. The host accesses the memory of the pool's buffers with `hostView`; kernels can access it only after
   * `setAccess`. Needs CUDA 12.2.
   *
   * @param options The options of `CudaDevice.createPool`, and the index of the NUMA node.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If `handleType` is not a valid type, or requests sharing where sharing is not supported
   * @throws {RangeError} If a size or the number of the node is not valid
   * @throws {CudaError} If the driver does not support such pools; `cudaErrorCallRequiresNewerDriver` if a newer driver
   * would support them
   */
  createHostPool(options: PoolOptions & { numaNode?: number } = {}): MemoryPool {
    checkOptions(options, hostPoolOptions);
    const { numaNode } = options;
    if (numaNode !== undefined) checkNumaNode(numaNode);
    const location = numaNode === undefined
      ? { type: memLocationType.host, id: 0 }
      : { type: memLocationType.hostNuma, id: numaNode };
    const place = numaNode === undefined
      ? { name: "in host memory", hint: "name a NUMA node: { numaNode: 0 }" }
      : { name: `on NUMA node ${numaNode}`, hint: "the machine may have no such node: 0 is the first" };
    return createPool(this.#session, { location, device: undefined, ...place }, options);
  }

  /**
   * Creates a pool of managed memory: the host and all devices access it at the same address, and CUDA moves it to the device, or
   * to the host, that accesses it. The host accesses the memory of the pool's buffers with `hostView`. Needs CUDA 13. No other process can
   * map the memory.
   *
   * The pool does not allocate more than fits the device that it prefers, or else that of the stream, together with the
   * other managed memory of this `Cuda` object, unless `oversubscribe` is set.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If an option is unknown, or `preferredLocation` is not a place
   * @throws {RangeError} If a size is not valid, or `maxSize` does not fit the device
   * @throws {CudaError} `cudaErrorCallRequiresNewerDriver` before CUDA 13, `cudaErrorNotSupported` if the devices have no
   * managed memory
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   *
   * using cuda = open();
   * const gpu = cuda.device(0);
   * using stream = gpu.createStream();
   * using pool = cuda.createManagedPool({ preferredLocation: gpu });
   * using x = pool.allocateArray(Float32Array, 1000, { stream });
   * await stream.finished(); // the memory is allocated: the host may write it
   * new Float32Array(x.hostView()).fill(1);
   * x.prefetch(gpu, stream);
   * console.log((await x.toTypedArray())[0]);
   * ```
   */
  createManagedPool(options: ManagedPoolOptions = {}): MemoryPool {
    return createManagedPool(this.#session, this.devices, options);
  }

  /**
   * Returns the default pool of a location. It cannot be shared, and disposing it does nothing. Needs CUDA 13, except for
   * a device's own memory.
   *
   * @param location A device, `"host"`, or a NUMA node such as `{ numaNode: 0 }`. Undefined, for managed memory only, for
   * the pool without a preferred location.
   * @param options Which of the location's pools. Defaults to `{ type: "pinned" }`.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If `location` is not such a place, or an option is not valid
   * @throws {CudaError} `cudaErrorInvalidValue` if there is no such NUMA node, `cudaErrorCallRequiresNewerDriver` before
   * CUDA 13
   */
  getDefaultPool(location: MemoryLocation | undefined, options: PoolKind = {}): MemoryPool {
    return defaultPoolAt(this.#session, location, options);
  }

  /**
   * Returns the pool that this process uses for a location, including when other libraries ask for it. It is the default
   * pool unless another one was set. Also throws what `getDefaultPool` throws.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   */
  getCurrentPool(location: MemoryLocation | undefined, options: PoolKind = {}): MemoryPool {
    return currentPoolAt(this.#session, location, options);
  }

  /**
   * Makes a pool the one that this process uses for its location and kind. When the pool is disposed, the default pool
   * becomes current again. Needs CUDA 13, except for a device's own memory.
   *
   * @param location The pool's `location`.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If `location` is not a place, or `pool` is not a `MemoryPool`
   * @throws {RangeError} If the pool is of another location
   * @throws {ReferenceError} If the pool was disposed
   */
  setCurrentPool(location: MemoryLocation | undefined, pool: MemoryPool): void {
    setCurrentPoolAt(this.#session, location, pool);
  }

  /**
   * Takes a snapshot of the memory of all pools: their allocations, the blocks of caching allocators, and the processes
   * that hold them. Memory that this process has imported is in the snapshots of the processes that share it. Takes time
   * in proportion to the number of allocations.
   *
   * @throws {ReferenceError} If the `Cuda` object was disposed
   */
  snapshot(): MemorySnapshot {
    if (this.#session.hasEnded) throw new ReferenceError("Cannot take a snapshot: the Cuda object was disposed");
    this.#session.completed.synchronize();
    return this.#session.memory.snapshot();
  }

  /**
   * Reserves addresses with `cuMemAddressReserve`. Memory of any device can be mapped at the reserved addresses. The
   * reservation itself uses no memory.
   *
   * @param byteLength Size in bytes, at least 1. It is rounded up to a multiple of the granularity of memory, which is
   * usually 2 MiB.
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
   * @throws {TypeError} If an option is not valid
   * @throws {RangeError} If the size or the alignment is not valid
   * @throws {CudaError} `cudaErrorMemoryAllocation` if there are not enough free addresses: the software device has 4
   * GiB in total
   */
  reserveAddresses(byteLength: number, options: ReserveOptions = {}): AddressRange {
    return reserveAddresses(this.#session, { byteLength, options });
  }

  /**
   * Calls a function, and shows its duration in the trace as a range with a name: until it returns or, if it returns a
   * promise, until that is settled. Without a trace, only calls the function.
   *
   * @returns what the function returns; if that is a promise and a trace is recorded, another promise of the same result
   * @throws {TypeError} If `name` is not a string, or `body` is not a function
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   *
   * using cuda = open();
   * using stream = cuda.device(0).createStream();
   * await cuda.range("warm up", () => stream.finished());
   * ```
   */
  range<Result>(name: string, body: () => Result): Result {
    if (typeof name !== "string") throw new TypeError(`Cannot name a range ${shown(name)}: give a string`);
    if (typeof body !== "function") throw new TypeError(`Cannot call ${whatIs(body)} in a range: give a function`);
    const { recorder } = this.#session;
    if (recorder === undefined) return body();
    const begin = recorder.now();
    let result: Result;
    try {
      result = body();
    } catch (error) {
      recorder.range(name, begin, true);
      throw error;
    }
    if (!(result instanceof Promise)) {
      recorder.range(name, begin, false);
      return result;
    }
    // This promise is returned, not `result`, so that the runtime reports a rejection that the program does not handle.
    const settled: Promise<unknown> = result.then((value: unknown) => {
      recorder.range(name, begin, false);
      return value;
    }, (error: unknown) => {
      recorder.range(name, begin, true);
      throw error;
    });
    return settled as Result;
  }

  /**
   * Starts the collection of data by the profiler under which the process runs, such as Nsight Systems with
   * `--capture-range=cudaProfilerApi`. Does nothing without a profiler, on the software device, or if the collection
   * was started already.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__PROFILER.html
   * @throws {ReferenceError} If the `Cuda` object was disposed
   */
  startProfiler(): void {
    try {
      this.#session.driver.profilerStart();
    } catch (error) {
      throw cannot("start the profiler", error);
    }
  }

  /**
   * Stops the collection that `startProfiler` started. Does nothing if it was stopped already. Work that is still
   * pending may be missing in the profile: wait for it first.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__PROFILER.html
   * @throws {ReferenceError} If the `Cuda` object was disposed
   */
  stopProfiler(): void {
    try {
      this.#session.driver.profilerStop();
    } catch (error) {
      throw cannot("stop the profiler", error);
    }
  }

  /**
   * Calls `startProfiler`, and `stopProfiler` when the returned object is disposed. Calls cannot be nested: disposing
   * of an inner object also stops the outer profile.
   *
   * @throws {ReferenceError} If the `Cuda` object was disposed
   *
   * @example
   * ```ts ignore
   * {
   *   using _profile = cuda.profile();
   *   kernel.launch({ grid, block, stream }, buffer, 4096, 7);
   *   stream.synchronize();
   * }
   * ```
   */
  profile(): Disposable {
    this.startProfiler();
    let isStopped = false;
    return {
      [Symbol.dispose]: () => {
        if (isStopped) return;
        isStopped = true;
        ignoreLoss(() => this.stopProfiler());
      },
    };
  }

  /**
   * Releases everything that was opened and not disposed: streams, events, modules, pools, memory. Objects created from
   * this one cannot be used any more. Memory that was not freed is reported with `console.warn`; with POOLPASS_DEBUG=1,
   * so is every object that was not disposed, with the call site of its creation.
   *
   * Does not block: resources that pending work of a GPU may still use are released when that work is done. The
   * software device drops pending work.
   *
   * @throws {SanitizerError} If the sanitizer has found errors, and `open` was given no `onReport`
   */
  [Symbol.dispose](): void {
    const { hasEnded, sanitizer } = this.#session;
    using stack = new DisposableStack();
    if (!hasEnded) stack.defer(() => sanitizer?.finish(this[Symbol.dispose]));
    this.#session.end();
  }
}

function checkNumaNode(node: number): void {
  checkNumber(node, "a NUMA node");
  if (!Number.isInteger(node) || node < 0 || node > maximumInt) {
    throw new RangeError(`Cannot create a pool on NUMA node ${node}: nodes are whole numbers from 0 to ${maximumInt}`);
  }
}
