import { printAs } from "./custom_inspect.ts";
import type { HostAllocation } from "./driver.ts";
import type { Session } from "./session.ts";

/**
 * Page-locked host memory: copies to and from it run beside the host's own work.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
 */
export class HostBuffer implements Disposable {
  /** How many bytes there are. */
  readonly byteLength: number;
  readonly #session: Session;
  #allocation: HostAllocation | undefined;

  static {
    printAs(
      this,
      (buffer) => `HostBuffer { ${buffer.byteLength} bytes${buffer.#allocation === undefined ? ", disposed" : ""} }`,
    );
  }

  /** Made by `Cuda.allocateHost`. */
  constructor(session: Session, allocation: HostAllocation) {
    this.#session = session;
    this.#allocation = allocation;
    this.byteLength = allocation.buffer.byteLength;
  }

  /** The memory, seen in place. It is detached when this is disposed: views of it then have no elements. */
  get buffer(): ArrayBuffer {
    if (this.#allocation === undefined) throw new ReferenceError("Cannot use the host buffer: it was disposed");
    return this.#allocation.buffer;
  }

  /** Frees the memory. Copies that use it must be done. */
  [Symbol.dispose](): void {
    if (this.#allocation === undefined) return;
    const allocation = this.#allocation;
    this.#allocation = undefined;
    this.#session.driver.freeHost(allocation);
    // Detached, it can no longer show memory that is gone.
    allocation.buffer.transfer(0);
  }
}
