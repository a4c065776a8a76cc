import { countOf, printAs } from "./custom_inspect.ts";
import { createPool } from "./create_pool.ts";
import { CudaDevice } from "./cuda_device.ts";
import { memLocationType } from "./driver.ts";
import { cannot } from "./explain.ts";
import { HostBuffer } from "./host_buffer.ts";
import type { MemoryPool, PoolOptions } from "./memory_pool.ts";
import type { Session } from "./session.ts";
import { checkByteLength } from "./validation.ts";
import { formatVersion } from "./version.ts";

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
    printAs(this, (cuda) => {
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
   */
  device(ordinalOrUuid: number | string): CudaDevice {
    if (this.#session.hasEnded) throw new ReferenceError("Cannot use the devices: the Cuda object was disposed");
    const found = typeof ordinalOrUuid === "number"
      ? this.devices[ordinalOrUuid]
      : this.devices.find(({ uuid }) => uuid === ordinalOrUuid);
    if (found === undefined) {
      const known = typeof ordinalOrUuid === "number"
        ? this.devices.length === 1 ? "0" : `0 to ${this.devices.length - 1}`
        : this.devices.map(({ uuid }) => uuid).join(", ");
      throw new RangeError(`Cannot find device ${ordinalOrUuid}: the devices are ${known}`);
    }
    return found;
  }

  /** Page-locked host memory. */
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
   * by `hostView`; the kernels of a device only after `setAccess`.
   *
   * @throws {CudaError} where the driver has no such pools
   */
  createHostPool(options: PoolOptions & { numaNode?: number } = {}): MemoryPool {
    const { numaNode } = options;
    if (numaNode !== undefined && (!Number.isInteger(numaNode) || numaNode < 0)) {
      throw new RangeError(`Cannot create a pool on NUMA node ${numaNode}: nodes are whole numbers from 0`);
    }
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
