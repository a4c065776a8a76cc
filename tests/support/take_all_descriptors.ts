import { duplicateDescriptor } from "../../ffi/shim/descriptors.ts";

/** Opens a descriptor again as often as the process may: none is left then. They are the caller's to close. */
export function takeAllDescriptors(fd: number): number[] {
  const fds: number[] = [];
  try {
    for (;;) fds.push(duplicateDescriptor(fd));
  } catch {
    return fds;
  }
}
