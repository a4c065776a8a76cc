import { countOf, printAs } from "../support/printing.ts";
import { createPool } from "../memory/create_pool.ts";
import { CudaDevice } from "./cuda_device.ts";
import { memLocationType } from "../driver.ts";
import { cannot } from "../support/error_wording.ts";
import { HostBuffer } from "../memory/host_buffer.ts";
import type { MemoryPool, PoolOptions } from "../memory/memory_pool.ts";
import type { Session } from "../session.ts";
import { checkByteLength, checkNumber, checkOptions, maximumInt, whatIs } from "../support/validation.ts";
import { formatVersion } from "../support/version.ts";

/** What a `Cuda` object's own objects are of. */
export let sessionOf: (cuda: Cuda) => Session;

/** What `open` gives: the devices that there are. */
export class Cuda implements Disposable {
  /** "cuda" for GPUs, "software" for software devices. */
  readonly driver: "cuda" | "software";
  /** 13000 for CUDA 13.0. */
  readonly driverVersion: number;
  /** Of libcudart; undefined where no usable one was found and the driver library serves alone. */
  readonly runtimeVersion: number | undefined;
  /** The devices, by ordinal. */
  readonly devices: readonly CudaDevice[];
  readonly #session: Session;

  static {
    sessionOf = (cuda) => cuda.#session;
    printAs(this, "Cuda", (cuda) => {
      const version = `CUDA ${formatVersion(cuda.driverVersion)}`;
      const state = cuda.#session.hasEnded ? "disposed" : `${countOf(cuda.devices.length, "device")}, ${version}`;
      return `Cuda { ${cuda.driver}, ${state} }`;
    });
  }

  /**
   * Made by `open`.
   *
   * @ignore
   */
  constructor(session: Session) {
    const { driver } = session;
    this.#session = session;
    this.driver = driver.kind;
    this.driverVersion = driver.driverGetVersion();
    this.runtimeVersion = driver.runtimeVersion;
    this.devices = Array.from({ length: driver.getDeviceCount() }, (_, ordinal) => new CudaDevice(session, ordinal));
  }

  /**
   * A device by its ordinal or its UUID.
   *
   * @throws {RangeError} where there is no such device
   * @throws {TypeError} for what is neither a number nor a text
   * @throws {ReferenceError} where the `Cuda` object was disposed
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
      throw new RangeError(`Cannot find device ${wanted}: the devices are ${known}`);
    }
    return found;
  }

  /**
   * Page-locked host memory, from which and to which all devices copy without the host waiting.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @throws {TypeError} for a size that is no number
   * @throws {RangeError} for a size that is no whole number of bytes, at least 1
   * @throws {CudaError} `cudaErrorMemoryAllocation` where the host has too little memory left
   */
  allocateHost(byteLength: number): HostBuffer {
    checkByteLength(byteLength, "a host buffer's size", 1);
    try {
      return new HostBuffer(this.#session, byteLength);
    } catch (error) {
      throw cannot(`allocate ${byteLength} bytes of page-locked memory`, error);
    }
  }

  /**
   * A pool in host memory, on one NUMA node or, where the driver takes it, anywhere. The host sees its buffers in place,
   * by `hostView`; the kernels of a device only after `setAccess`. It needs CUDA 12.2.
   *
   * @param options As of `CudaDevice.createPool`, and the number of the node.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} for a `handleType` that there is not, or one that other processes can import where nothing can be
   * shared
   * @throws {RangeError} for a size, or a node, that is none
   * @throws {CudaError} where the driver has no such pools: `cudaErrorCallRequiresNewerDriver` where a newer one has
   */
  createHostPool(options: PoolOptions & { numaNode?: number } = {}): MemoryPool {
    checkOptions(options, "createHostPool");
    const { numaNode } = options;
    if (numaNode !== undefined) checkNumaNode(numaNode);
    const location = numaNode === undefined
      ? { type: memLocationType.host, id: 0 }
      : { type: memLocationType.hostNuma, id: numaNode };
    const place = numaNode === undefined
      ? { name: "in host memory", hint: "name a NUMA node: { numaNode: 0 }" }
      : { name: `on NUMA node ${numaNode}` };
    return createPool(this.#session, { location, device: undefined, ...place }, options);
  }

  /** Gives the driver up. Nothing that came from this object can be used any more. */
  [Symbol.dispose](): void {
    this.#session.end();
  }
}

function checkNumaNode(node: number): void {
  checkNumber(node, "a NUMA node");
  if (!Number.isInteger(node) || node < 0 || node > maximumInt) {
    throw new RangeError(`Cannot create a pool on NUMA node ${node}: nodes are whole numbers from 0 to ${maximumInt}`);
  }
}
