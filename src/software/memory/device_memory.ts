import { AccessibleRange } from "./accessible_range.ts";
import type { DeviceAllocation } from "./allocations.ts";
import { IpcFile } from "../ipc/ipc_file.ts";
import { ipcKind } from "../ipc/ipc_handle.ts";
import { type LinearMemory, wholePages } from "./linear_memory.ts";

/** Memory of `cudaMalloc`: whole pages. */
export class DeviceMemory extends AccessibleRange {
  readonly kind = "plain";
  readonly #linearMemory: LinearMemory;
  /** Where it lies since its handle was first asked for. */
  #file: IpcFile | undefined;
  #isReleased = false;

  private constructor(linearMemory: LinearMemory, allocation: DeviceAllocation) {
    super(linearMemory, allocation);
    this.#linearMemory = linearMemory;
  }

  /** Undefined where linear memory has no room. */
  static allocate(
    linearMemory: LinearMemory,
    { device, byteLength }: { device: number; byteLength: number },
  ): DeviceMemory | undefined {
    const begin = linearMemory.reserve(wholePages(byteLength));
    return begin === undefined ? undefined : new DeviceMemory(linearMemory, { begin, byteLength, device });
  }

  /**
   * The handle by which another process can open it, for as long as it is not released.
   *
   * @throws {SystemError} where the system has no memory for that
   */
  handle(deviceUuid: Uint8Array): Uint8Array<ArrayBuffer> {
    this.#file ??= this.#moveToFile(deviceUuid);
    return this.#file.handle();
  }

  /** Gives the memory back. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.denyAll();
    this.#file?.close();
    this.#linearMemory.giveBack(this.begin, wholePages(this.byteLength), { isShared: this.#file !== undefined });
  }

  /** Nothing runs meanwhile that could write to the memory. */
  #moveToFile(deviceUuid: Uint8Array): IpcFile {
    const { begin, byteLength } = this;
    const file = IpcFile.create("poolpass-memory", { kind: ipcKind.memory, deviceUuid, byteLength });
    const bytes = this.#linearMemory.bytes.subarray(begin, begin + byteLength);
    try {
      file.write(bytes);
      this.#map(file, bytes);
    } catch (error) {
      file.close();
      throw error;
    }
    return file;
  }

  /** Maps a file that has the memory's bytes. Where that fails, the bytes are put back to memory that is no file's. */
  #map(file: IpcFile, bytes: Uint8Array): void {
    try {
      file.map(this.#linearMemory, this.begin);
    } catch (error) {
      if (this.#linearMemory.discard(this.begin, wholePages(this.byteLength))) file.readInto(bytes);
      throw error;
    }
  }
}
