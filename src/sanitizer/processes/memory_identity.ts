/**
 * What memory is called that belongs to no process, the same in all that have it.
 *
 * @module
 */
import { describeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import type { OsHandle } from "../../driver.ts";

/**
 * What a handle leads to, the same in all processes. To be called when a driver has accepted or made the handle. The
 * descriptors of a GPU's memory are those of a device file, which do not tell.
 */
export function identityOf(handle: OsHandle): string | undefined {
  if (typeof handle !== "number") return `fabric ${handle.toHex()}`;
  try {
    const { type, device, inode } = describeDescriptor(handle);
    return type === "file" ? `file ${device} ${inode}` : undefined;
  } catch {
    return undefined;
  }
}
