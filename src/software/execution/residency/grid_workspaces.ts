/**
 * The workspaces of cooperative launches: memory in which the blocks of a grid count arrivals at its barrier.
 *
 * @module
 */
import { granuleByteLength, type LinearMemory, pageByteLength } from "../../memory/linear_memory.ts";

/** The workspaces of a driver's devices. Each takes one granule. Their pages are reserved until the driver is closed. */
export class GridWorkspaces {
  readonly #linearMemory: LinearMemory;
  readonly #free: number[] = [];
  readonly #pages: number[] = [];

  constructor(linearMemory: LinearMemory) {
    this.#linearMemory = linearMemory;
  }

  /**
   * Returns the offset of a workspace that the device's kernels may access, or undefined without free memory. It is 0
   * but for its first word, which is its size.
   */
  take(device: number): number | undefined {
    if (this.#free.length === 0 && !this.#addPage()) return undefined;
    const offset = this.#free.pop()!;
    this.#linearMemory.bytes.fill(0, offset, offset + granuleByteLength);
    new DataView(this.#linearMemory.memory.buffer).setUint32(offset, granuleByteLength, true);
    this.#linearMemory.allow(device, offset, granuleByteLength);
    return offset;
  }

  release(device: number, offset: number): void {
    this.#linearMemory.deny(device, offset, granuleByteLength);
    this.#free.push(offset);
  }

  close(): void {
    for (const page of this.#pages.splice(0)) {
      this.#linearMemory.discardAndRelease(page, pageByteLength, { isShared: false });
    }
    this.#free.length = 0;
  }

  #addPage(): boolean {
    const page = this.#linearMemory.reserve(pageByteLength);
    if (page === undefined) return false;
    this.#pages.push(page);
    for (let offset = 0; offset < pageByteLength; offset += granuleByteLength) this.#free.push(page + offset);
    return true;
  }
}
