import { AccessibleRange } from "./accessible_range.ts";
import type { DeviceAllocation } from "./allocations.ts";
import { IpcFile } from "../ipc/ipc_file.ts";
import { ipcKind } from "../ipc/ipc_handle.ts";
import { type LinearMemory, wholePages } from "./linear_memory.ts";

/** Memory from `cudaMalloc`. It occupies whole pages. */
export class DeviceMemory extends AccessibleRange {
  readonly kind = "plain";
  readonly #linearMemory: LinearMemory;
  /** The file that holds the memory. It is created when the IPC handle is first requested. */
  #file: IpcFile | undefined;
  #isReleased = false;

  private constructor(linearMemory: LinearMemory, allocation: DeviceAllocation) {
    super(linearMemory, allocation);
    this.#linearMemory = linearMemory;
  }

  /** Returns undefined if linear memory is full. */
  static allocate(
    linearMemory: LinearMemory,
    { device, byteLength }: { device: number; byteLength: number },
  ): DeviceMemory | undefined {
    const begin = linearMemory.reserve(wholePages(byteLength));
    return begin === undefined ? undefined : new DeviceMemory(linearMemory, { begin, byteLength, device });
  }

  /**
   * Returns the handle with which another process can open the memory until it is released.
   *
   * @throws {SystemError} If the system has no memory for the file
   */
  handle(deviceUuid: Uint8Array): Uint8Array<ArrayBuffer> {
    this.#file ??= this.#moveToFile(deviceUuid);
    return this.#file.handle();
  }

  /** Releases the memory. Later calls do nothing. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.denyAll();
    this.#file?.close();
    this.#linearMemory.discardAndRelease(this.begin, wholePages(this.byteLength), {
      isShared: this.#file !== undefined,
    });
  }

  /** Moves the memory to a file. The software device runs no work meanwhile, so nothing else writes to the memory. */
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

  /** Maps a file that holds a copy of the memory. If mapping fails, restores the bytes in memory without a file. */
  #map(file: IpcFile, bytes: Uint8Array): void {
    try {
      file.map(this.#linearMemory, this.begin);
    } catch (error) {
      if (this.#linearMemory.discard(this.begin, wholePages(this.byteLength))) file.readInto(bytes);
      throw error;
    }
  }
}
