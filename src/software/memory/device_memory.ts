import { AccessibleRange } from "./accessible_range.ts";
import type { DeviceAllocation } from "./allocations.ts";
import { IpcFile } from "../ipc/ipc_file.ts";
import { ipcKind } from "../ipc/ipc_handle.ts";
import { wholePages, type Window } from "./window.ts";

/** Memory of `cudaMalloc`: whole pages. */
export class DeviceMemory extends AccessibleRange {
  readonly kind = "plain";
  readonly #window: Window;
  /** Where it lies since its handle was first asked for. */
  #file: IpcFile | undefined;
  #isReleased = false;

  private constructor(window: Window, allocation: DeviceAllocation) {
    super(window, allocation);
    this.#window = window;
  }

  /** Undefined where the window has no room. */
  static allocate(
    window: Window,
    { device, byteLength }: { device: number; byteLength: number },
  ): DeviceMemory | undefined {
    const begin = window.reserve(wholePages(byteLength));
    return begin === undefined ? undefined : new DeviceMemory(window, { begin, byteLength, device });
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
    this.#window.giveBack(this.begin, wholePages(this.byteLength), { isShared: this.#file !== undefined });
  }

  /** Nothing runs meanwhile that could write to the memory. */
  #moveToFile(deviceUuid: Uint8Array): IpcFile {
    const { begin, byteLength } = this;
    const file = IpcFile.create("poolpass-memory", { kind: ipcKind.memory, deviceUuid, byteLength });
    const bytes = this.#window.bytes.subarray(begin, begin + byteLength);
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
      file.map(this.#window, this.begin);
    } catch (error) {
      if (this.#window.discard(this.begin, wholePages(this.byteLength))) file.readInto(bytes);
      throw error;
    }
  }
}
