/**
 * Whether the driver may open its device files. If it may not, libcuda only reports that there is no device.
 *
 * @module
 */
import { dlopen } from "./native/host.ts";
import { cString } from "./native/shim/shim.ts";

const symbols = {
  access: { parameters: ["buffer", /* const char *path */ "i32" /* int mode */], result: "i32" },
} as const;
const fileExists = 0;
const readAndWrite = 4 | 2;
/** The device files of the driver, of its first GPU, and of WSL 2. */
const deviceFiles = ["nvidiactl", "nvidia-uvm", "nvidia0", "dxg"];

/** The first of the driver's device files that exists and that this process may not read and write. */
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
