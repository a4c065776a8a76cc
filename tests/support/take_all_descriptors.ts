import process from "node:process";
import { duplicateDescriptor } from "../../ffi/native/shim/descriptors.ts";

// Deno opens descriptors for signals about a second after its start, and panics if there are none. It opens them here,
// before anybody counts descriptors.
const ignore = () => {};
process.on("SIGUSR2", ignore);
process.off("SIGUSR2", ignore);

/** Duplicates a descriptor until the process has none left. The caller must close the duplicates. */
export function takeAllDescriptors(fd: number): number[] {
  const fds: number[] = [];
  try {
    for (;;) fds.push(duplicateDescriptor(fd));
  } catch {
    return fds;
  }
}
