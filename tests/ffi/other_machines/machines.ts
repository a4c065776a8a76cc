/**
 * Builds what stands for the CUDA libraries of other machines, and runs a script that finds them in place of any other.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { libcuda } from "../../../ffi/libcuda.ts";
import { minimumVersions } from "../../../ffi/minimum_versions.ts";

/** What a simulated machine is like. */
export interface Machine {
  /** What `cuInit` gives. */
  readonly initResult: number;
  /** 11040 for a driver of CUDA 11.4. */
  readonly version: number;
  readonly deviceCount: number;
  /** The attribute memoryPoolSupportedHandleTypes: 1 for posix-fd, 8 for fabric. */
  readonly handleTypesTold: number;
  /** The handle types that `cuMemPoolCreate` takes. */
  readonly handleTypesTaken: number;
  readonly ipcEvents: number;
  /** The number of the part of a GPU that the process has; 0 for a whole one. */
  readonly migInstance: number;
}

/** A machine of today, but for what is said. */
export function machine(differences: Partial<Machine> = {}): Machine {
  return {
    initResult: 0,
    version: 13000,
    deviceCount: 1,
    handleTypesTold: 1,
    handleTypesTaken: 1,
    ipcEvents: 1,
    migInstance: 0,
    ...differences,
  };
}

/** The numbers in the order in which `cuda.c` has them. */
export function settingsOf(machine: Machine): number[] {
  return [
    machine.initResult,
    machine.version,
    machine.deviceCount,
    machine.handleTypesTold,
    machine.handleTypesTaken,
    machine.ipcEvents,
    machine.migInstance,
  ];
}

/** Why nothing can be simulated here; undefined where it can. */
export const noCompiler: string | undefined = spawnSync("gcc", ["--version"]).status === 0
  ? undefined
  : "there is no gcc";

/** Every function that is called of libcuda; the two that take a struct by value are in no table. */
export const driverFunctions: readonly string[] = [
  ...Object.keys(libcuda),
  "cuIpcOpenEventHandle",
  "cuIpcOpenMemHandle_v2",
];

/** A folder with libraries, for LD_LIBRARY_PATH. */
export class Libraries implements Disposable {
  readonly folder: string = mkdtempSync(join(tmpdir(), "poolpass-machines-"));

  constructor() {
    // The test becomes another user with it.
    chmodSync(this.folder, 0o755);
  }

  /** A libcuda that exports what the driver of a version does, but for some functions where that is said. */
  addDriver(
    version: number,
    { without = [], linkedWith = [] }: { without?: readonly string[]; linkedWith?: readonly string[] } = {},
  ): this {
    const exported = driverFunctions.filter((name) =>
      (minimumVersions[name] ?? 0) <= version && !without.includes(name)
    );
    const script = join(this.folder, "exported");
    writeFileSync(script, `{ global: machine_set; ${exported.map((name) => `${name};`).join(" ")} local: *; };`);
    const sources = [path("cuda.c"), path("../../../bench/stub/cuda.c")];
    const flags = ["-Wl,-z,muldefs", `-Wl,--version-script=${script}`, "-Wl,--no-as-needed"];
    return this.#build("libcuda.so.1", [...sources, ...flags, ...linkedWith]);
  }

  /** A libcudart, whose calls all give the same error where one is said. It calls the folder's libcuda. */
  addRuntime(file: string, { version, result = 0 }: { version: number; result?: number }): this {
    return this.#build(file, [
      `-DVERSION=${version}`,
      `-DRESULT=${result}`,
      path("cudart.c"),
      join(this.folder, "libcuda.so.1"),
    ]);
  }

  /** A libcuda that needs a library which is not there, as where a container has a part of the driver alone. */
  addDriverWithoutItsParts(): this {
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
