import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import { allocationOf, type DeviceBuffer } from "../../memory/device_buffer.ts";
import type { WholeMemory } from "../../memory/virtual/whole_memory.ts";
import { SharingError } from "../../support/errors.ts";
import { countOf, printAs, refuseUsing } from "../../support/printing.ts";
import { refuseConstruction } from "../../support/validation.ts";

/** Parameters of a `StoredMemory`. */
interface Parts {
  readonly name: string;
  readonly mapped: WholeMemory;
  readonly publish: () => Promise<void>;
  /** Whether the store has lost it. */
  readonly isLost: () => boolean;
  readonly onEnd: () => void;
}

/** Memory that this process has created in a store by `StoreClient.create`. */
export class StoredMemory implements AsyncDisposable {
  /** The name that it takes when it is published. */
  readonly name: string;
  /** The memory, mapped for writing until it is published, and for reading from then on. */
  readonly buffer: DeviceBuffer;
  readonly #parts: Parts;
  #state: "new" | "publishing" | "published" | "disposed" = "new";

  static {
    printAs(this, "StoredMemory", (memory) => {
      return `StoredMemory { ${memory.name}, ${countOf(memory.buffer.byteLength, "byte")}, ${memory.#state} }`;
    }, ["name", "buffer", ["state", (memory) => memory.#state]]);
    refuseUsing(this, "StoredMemory");
  }

  /**
   * Comes from `StoreClient.create`.
   *
   * @ignore
   */
  constructor(parts: Parts) {
    if (parts?.mapped === undefined) refuseConstruction("StoredMemory", "StoreClient.create");
    this.name = parts.name;
    this.buffer = parts.mapped.buffer;
    this.#parts = parts;
  }

  /**
   * Waits until the work enqueued on the stream so far is complete, and then publishes the memory under its name: from
   * then on, `map` returns this generation, and processes that have mapped the previous one keep that. Afterwards, this
   * process can only read it.
   *
   * @param stream the stream that writes the memory: by default, the buffer's own
   * @throws {TypeError} If it was published
   * @throws {ReferenceError} If it was disposed, or the buffer freed
   * @throws {SharingError} `not-permitted` if another user has published the name; `peer-gone` if the store is gone, or
   * was started again and has lost the memory
   */
  async publish(stream: CudaStream = this.buffer.stream): Promise<void> {
    const what = `Cannot publish ${JSON.stringify(this.name)}`;
    if (this.#state === "disposed") throw new ReferenceError(`${what}: it was disposed`);
    if (this.#state !== "new") throw new TypeError(`${what}: it was published; create another generation`);
    if (allocationOf(this.buffer).isFreed) throw new ReferenceError(`${what}: its buffer was freed`);
    this.#state = "publishing";
    const { mapped, publish, isLost } = this.#parts;
    try {
      await stream.finished();
      if (allocationOf(this.buffer).isFreed) throw new ReferenceError(`${what}: it was disposed meanwhile`);
      // What others may read must not be writable any longer.
      mapped.setAccess("read");
      await publish();
      // It may have been disposed meanwhile.
      if (this.#state === "publishing") this.#state = "published";
    } catch (error) {
      if (this.#state === "publishing") {
        this.#state = "new";
        if (!allocationOf(this.buffer).isFreed) mapped.setAccess("read-write");
      }
      if (!isLost() || error instanceof ReferenceError) throw error;
      throw new SharingError("peer-gone", `${what}: the store was started again without it`, { cause: error });
    }
  }

  /** Unmaps the memory. If it was not published, it is freed. */
  [Symbol.asyncDispose](): Promise<void> {
    if (this.#state === "disposed") return Promise.resolve();
    this.#state = "disposed";
    this.#parts.onEnd();
    const allocation = allocationOf(this.buffer);
    if (!allocation.isFreed && !allocation.session.hasEnded) this.buffer.free();
    return Promise.resolve();
  }
}
