import { SystemError } from "../../../ffi/shim/system_error.ts";
import { AccessibleRange } from "../memory/accessible_range.ts";
import type { DeviceAllocation } from "../memory/allocations.ts";
import type { IpcFile } from "./ipc_file.ts";
import { wholePages, type Window } from "../memory/window.ts";

/** Memory of another process, opened by its handle. */
export class OpenedMemory extends AccessibleRange {
  readonly kind = "opened";
  /** How often it was opened and not closed: the last close releases it. */
  openCount = 1;
  readonly #window: Window;

  private constructor(window: Window, allocation: DeviceAllocation) {
    super(window, allocation);
    this.#window = window;
  }

  /** Maps a file, which stays the caller's. */
  static map(
    window: Window,
    { device, file }: { device: number; file: IpcFile },
  ): OpenedMemory | "no room" | "not mapped" {
    const { byteLength } = file.header;
    const begin = window.reserve(wholePages(byteLength));
    if (begin === undefined) return "no room";
    try {
      file.map(window, begin);
    } catch (error) {
      // A mapping that failed may have left a hole in the window.
      window.giveBack(begin, wholePages(byteLength), { isShared: true });
      if (error instanceof SystemError) return "not mapped";
      throw error;
    }
    return new OpenedMemory(window, { begin, byteLength, device });
  }

  /** Takes the mapping away. */
  release(): void {
    this.denyAll();
    this.#window.giveBack(this.begin, wholePages(this.byteLength), { isShared: true });
  }
}
