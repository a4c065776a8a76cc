import { SystemError } from "../../../ffi/native/shim/shim.ts";
import { AccessibleRange } from "../memory/accessible_range.ts";
import type { DeviceAllocation } from "../memory/allocations.ts";
import type { IpcFile } from "./ipc_file.ts";
import { type LinearMemory, wholePages } from "../memory/linear_memory.ts";

/** Memory of another process, opened by its handle. */
export class OpenedMemory extends AccessibleRange {
  readonly kind = "opened";
  /** The number of opens that have not been closed. The last close releases the memory. */
  openCount = 1;
  readonly #linearMemory: LinearMemory;

  private constructor(linearMemory: LinearMemory, allocation: DeviceAllocation) {
    super(linearMemory, allocation);
    this.#linearMemory = linearMemory;
  }

  /** Maps a file, which the caller keeps. */
  static map(
    linearMemory: LinearMemory,
    { device, file }: { device: number; file: IpcFile },
  ): OpenedMemory | "no room" | "not mapped" {
    const { byteLength } = file.header;
    const begin = linearMemory.reserve(wholePages(byteLength));
    if (begin === undefined) return "no room";
    try {
      file.map(linearMemory, begin);
    } catch (error) {
      // A failed mapping may have left a hole in linear memory, which discarding closes.
      linearMemory.discardAndRelease(begin, wholePages(byteLength), { isShared: true });
      if (error instanceof SystemError) return "not mapped";
      throw error;
    }
    return new OpenedMemory(linearMemory, { begin, byteLength, device });
  }

  /** Unmaps the memory. */
  release(): void {
    this.denyAll();
    this.#linearMemory.discardAndRelease(this.begin, wholePages(this.byteLength), { isShared: true });
  }
}
