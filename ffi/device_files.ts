/**
 * Whether the driver may open its device files. libcuda itself says that there is no device where it may not.
 *
 * @module
 */
import { dlopen } from "./host.ts";
import { cString } from "./shim/shim.ts";

const symbols = {
  access: { parameters: ["buffer", /* const char *path */ "i32" /* int mode */], result: "i32" },
} as const;
const fileExists = 0;
const readAndWrite = 4 | 2;
/** Those of the driver and of its first GPU, and that of WSL 2. */
const deviceFiles = ["nvidiactl", "nvidia-uvm", "nvidia0", "dxg"];

/** The first of the driver's files that are there and that this process may not open. */
export function forbiddenDeviceFile(folder = "/dev"): string | undefined {
  let access: (path: Uint8Array, mode: number) => number;
  try {
    access = dlopen("libc.so.6", symbols).symbols.access!;
  } catch {
    return undefined;
  }
  return deviceFiles.map((name) => `${folder}/${name}`).find((path) => {
    const name = cString(path);
    return access(name, fileExists) === 0 && access(name, readAndWrite) !== 0;
  });
}
