import { SystemError } from "../../../ffi/shim/system_error.ts";
import { AccessibleRange } from "../memory/accessible_range.ts";
import type { DeviceAllocation } from "../memory/allocations.ts";
import type { IpcFile } from "./ipc_file.ts";
import { type LinearMemory, wholePages } from "../memory/linear_memory.ts";

/** Memory of another process, opened by its handle. */
export class OpenedMemory extends AccessibleRange {
  readonly kind = "opened";
  /** How often it was opened and not closed: the last close releases it. */
  openCount = 1;
  readonly #linearMemory: LinearMemory;

  private constructor(linearMemory: LinearMemory, allocation: DeviceAllocation) {
    super(linearMemory, allocation);
    this.#linearMemory = linearMemory;
  }

  /** Maps a file, which stays the caller's. */
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
      // A mapping that failed may have left a hole in linear memory.
      linearMemory.giveBack(begin, wholePages(byteLength), { isShared: true });
      if (error instanceof SystemError) return "not mapped";
      throw error;
    }
    return new OpenedMemory(linearMemory, { begin, byteLength, device });
  }

  /** Takes the mapping away. */
  release(): void {
    this.denyAll();
    this.#linearMemory.giveBack(this.begin, wholePages(this.byteLength), { isShared: true });
  }
}
