/**
 * Builds stand-ins for the CUDA libraries of other machines.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { libcuda } from "../../../ffi/libcuda.ts";
import { minimumVersions } from "../../../ffi/cuda_libraries.ts";

/** The properties of a simulated machine. */
export interface Machine {
  /** The result of `cuInit`. */
  readonly initResult: number;
  /** The version of the driver, such as 11040 for a driver for CUDA 11.4. */
  readonly version: number;
  readonly deviceCount: number;
  /** The attribute memoryPoolSupportedHandleTypes: 1 for posix-fd, 8 for fabric. */
  readonly reportedHandleTypes: number;
  /** The handle types that `cuMemPoolCreate` accepts. */
  readonly acceptedHandleTypes: number;
  readonly ipcEvents: number;
  /** The number of the MIG instance that the process has; 0 for a whole GPU. */
  readonly migInstance: number;
  /** Whether MPS is on: 1 if so. */
  readonly mps: number;
  /** The MiB of an allocation of a pool above which an import ends the process; 0 if none does. */
  readonly importLimit: number;
}

/** Returns a current machine with differences. */
export function machine(differences: Partial<Machine> = {}): Machine {
  return {
    initResult: 0,
    version: 13000,
    deviceCount: 1,
    reportedHandleTypes: 1,
    acceptedHandleTypes: 1,
    ipcEvents: 1,
    migInstance: 0,
    mps: 0,
    importLimit: 0,
    ...differences,
  };
}

/** Returns the settings in the order of `cuda.c`. */
export function settingsOf(machine: Machine): number[] {
  return [
    machine.initResult,
    machine.version,
    machine.deviceCount,
    machine.reportedHandleTypes,
    machine.acceptedHandleTypes,
    machine.ipcEvents,
    machine.migInstance,
    machine.mps,
    machine.importLimit,
  ];
}

/** Why machines cannot be simulated here, or undefined if they can. */
export const noCompiler: string | undefined = spawnSync("gcc", ["--version"]).status === 0
  ? undefined
  : "gcc is not installed";

/** Every function of libcuda that the library calls. The two that take a struct by value are in no table. */
export const driverFunctions: readonly string[] = [
  ...Object.keys(libcuda),
  "cuIpcOpenEventHandle",
  "cuIpcOpenMemHandle_v2",
];

/** A folder of libraries, for LD_LIBRARY_PATH. It is deleted when it is disposed. */
export class Libraries implements Disposable {
  readonly folder: string = mkdtempSync(join(tmpdir(), "poolpass-machines-"));

  constructor() {
    // A test reads the folder as another user.
    chmodSync(this.folder, 0o755);
  }

  /** Adds a libcuda that exports the functions of a driver version, except those in `without`. */
  addDriver(
    version: number,
    { without = [], linkedWith = [] }: { without?: readonly string[]; linkedWith?: readonly string[] } = {},
  ): this {
    const exported = driverFunctions.filter((name) =>
      (minimumVersions[name] ?? 0) <= version && !without.includes(name)
    );
    const script = join(this.folder, "exported");
    writeFileSync(script, `{ global: machine_set; ${exported.map((name) => `${name};`).join(" ")} local: *; };`);
    const sources = [path("cuda.c"), path("../../../bench/overhead/cuda.c")];
    const flags = ["-Wl,-z,muldefs", `-Wl,--version-script=${script}`, "-Wl,--no-as-needed"];
    return this.#build("libcuda.so.1", [...sources, ...flags, ...linkedWith]);
  }

  /** Adds a libcudart, which calls the libcuda of the folder. If `result` is given, every call returns that error. */
  addRuntime(file: string, { version, result = 0 }: { version: number; result?: number }): this {
    return this.#build(file, [
      `-DVERSION=${version}`,
      `-DRESULT=${result}`,
      path("cudart.c"),
      join(this.folder, "libcuda.so.1"),
    ]);
  }

  /** Adds a libcuda that needs a missing library, as in a container with only a part of the driver. */
  addIncompleteDriver(): this {
    const empty = join(this.folder, "empty.c");
    writeFileSync(empty, "");
    this.#build("libpart.so", [empty]);
    this.addDriver(13000, { linkedWith: [join(this.folder, "libpart.so")] });
    rmSync(join(this.folder, "libpart.so"));
    return this;
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true });
  }

  #build(file: string, args: readonly string[]): this {
    const output = ["-shared", "-fPIC", "-w", `-Wl,-soname,${file}`, "-o", join(this.folder, file)];
    const { status, stderr } = spawnSync("gcc", [...output, ...args], { encoding: "utf8" });
    if (status !== 0) throw new Error(`Cannot build ${file}: ${stderr}`);
    return this;
  }
}

function path(file: string): string {
  return fileURLToPath(new URL(file, import.meta.url));
}
