import { duplicateDescriptor } from "../../ffi/shim/descriptors.ts";

/** Duplicates a descriptor until the process has none left. The caller must close the duplicates. */
export function takeAllDescriptors(fd: number): number[] {
  const fds: number[] = [];
  try {
    for (;;) fds.push(duplicateDescriptor(fd));
  } catch {
    return fds;
  }
}
