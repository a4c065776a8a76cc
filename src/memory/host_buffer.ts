import { refuseElementAccess } from "./element_access.ts";
import { countOf, printAs } from "../support/printing.ts";
import type { HostAllocation } from "../driver.ts";
import { ignoreLoss } from "../support/driver_errors.ts";
import type { Session } from "../session.ts";
import { refuseConstruction } from "../support/validation.ts";

/** The session that a host buffer belongs to. */
export let sessionOfHost: (buffer: HostBuffer) => Session;

/**
 * Page-locked host memory. Copies to and from it run asynchronously to the host. Comes from `Cuda.allocateHost`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
 */
export class HostBuffer implements Disposable {
  /** Size in bytes. */
  readonly byteLength: number;
  readonly #session: Session;
  readonly #allocation: HostAllocation;
  #isDisposed = false;

  static {
    sessionOfHost = (buffer) => buffer.#session;
    const view = "it has no type; use new Float32Array(host.buffer), or another typed array";
    refuseElementAccess(this, { isInstance: (object) => #allocation in object, read: view, write: view });
    printAs(this, "HostBuffer", (buffer) => {
      const state = buffer.#isDisposed || buffer.#session.hasEnded ? "disposed" : "page-locked";
      return `HostBuffer { host, ${countOf(buffer.byteLength, "byte")}, ${state} }`;
    }, ["byteLength", ["disposed", (buffer) => buffer.#isDisposed || buffer.#session.hasEnded]]);
  }

  /**
   * Host buffers come from `Cuda.allocateHost`.
   *
   * @ignore
   */
  constructor(session: Session, byteLength: number) {
    if (session?.opened === undefined) refuseConstruction("HostBuffer", "Cuda.allocateHost");
    this.#session = session;
    this.#allocation = session.allocateHost(byteLength, "host buffer");
    this.byteLength = byteLength;
  }

  /**
   * The memory itself, not a copy. It is detached when the HostBuffer is disposed: views of it then have no elements.
   *
   * Do not transfer it, neither by `transfer()` nor to a worker: whoever has it then could access the memory after it
   * is freed. Memory that was transferred is therefore not freed before the process ends, and the `Cuda` object reports
   * it when it is disposed.
   *
   * @throws {ReferenceError} If the buffer was disposed, or the ArrayBuffer was transferred
   */
  get buffer(): ArrayBuffer {
    if (this.#isDisposed || this.#session.hasEnded) {
      throw new ReferenceError("Cannot use the host buffer: it was disposed");
    }
    if (this.#allocation.buffer.detached) {
      throw new ReferenceError(
        "Cannot use the host buffer: its ArrayBuffer was transferred; transfer a copy instead, such as buffer.slice()",
      );
    }
    return this.#allocation.buffer;
  }

  /** Frees the memory. CUDA waits for copies that use it. */
  [Symbol.dispose](): void {
    if (this.#isDisposed || this.#session.hasEnded) return;
    this.#isDisposed = true;
    ignoreLoss(() => this.#session.freeHost(this.#allocation));
  }
}
