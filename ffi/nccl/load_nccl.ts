/**
 * Finds and loads NCCL.
 *
 * @module
 */
import type { CollectiveLibrary } from "../../src/collective_library.ts";
import { dlopen, keepLoaded, platform } from "../native/host.ts";
import { cString } from "../native/shim/shim.ts";
import { findToolkitLibrary, openToolkitLibrary, type UnusableLibrary } from "../toolkit_libraries.ts";
import { initRankByValue, libnccl } from "./libnccl.ts";
import { idByteLength, Nccl, type NcclFunctions } from "./nccl.ts";

const ncclLibrary = {
  names: ["libnccl.so.2", "libnccl.so"],
  packageFolder: "nccl",
  title: "NCCL",
  functions: libnccl,
  optionalFunctions: ["ncclCommInitRankScalable", "ncclCommShrink", "ncclAlltoAll"],
  oldest: "NCCL 2.18",
};

let found: NcclFunctions | undefined;

/**
 * Finds and loads NCCL for the devices of a driver. NCCL's calls apply to the current device, which `makeCurrent` sets.
 */
export function openNccl(path: string | undefined, makeCurrent: (device: number) => void): CollectiveLibrary {
  if (path !== undefined) {
    const opened = tryNccl(path);
    if ("reason" in opened) throw new Error(`Cannot use "${path}" as libnccl: ${opened.reason}`);
    return new Nccl(opened.functions, makeCurrent);
  }
  found ??= search();
  return new Nccl(found, makeCurrent);
}

function search(): NcclFunctions {
  const opened = findToolkitLibrary(ncclLibrary, tryNccl);
  if (!("reason" in opened)) return opened.functions;
  throw new Error(
    `Cannot use NCCL: ${opened.reason}; install the package libnccl2, or nvidia-nccl-cu13 by pip, or give its path in ` +
      "POOLPASS_NCCL",
  );
}

function tryNccl(path: string): { readonly functions: NcclFunctions } | UnusableLibrary {
  prepareEnvironment();
  const library = openToolkitLibrary(path, ncclLibrary);
  if ("reason" in library) return library;
  const functions = { ...library.symbols } as NcclFunctions;
  if (functions.ncclCommInitRankScalable === undefined) {
    const initRank = initRankOf(path);
    if (initRank === undefined) return { reason: `${path} is older than NCCL 2.23, which this processor needs` };
    Object.assign(functions, { ncclCommInitRankScalable: initRank });
  }
  // Never unload the library: its threads keep running.
  keepLoaded(path);
  return { functions };
}

/**
 * Returns an implementation of `ncclCommInitRankScalable` for a single id, which calls the older
 * `ncclCommInitRankConfig`. Undefined if the library lacks that function, or if its by-value parameter is not supported
 * on this processor.
 */
function initRankOf(path: string): NcclFunctions["ncclCommInitRankScalable"] | undefined {
  const { processor } = platform();
  const isX86 = processor === "x86_64" || processor === "x64";
  if (!isX86 && processor !== "aarch64" && processor !== "arm64") return undefined;
  const ncclCommInitRankConfig = initRankByValue[isX86 ? "x86_64" : "aarch64"]!;
  const init = dlopen(path, { ncclCommInitRankConfig }).symbols.ncclCommInitRankConfig as
    | ((...args: unknown[]) => number)
    | undefined;
  if (init === undefined) return undefined;
  return (comm, size, rank, _count, id, config) => {
    if (!isX86) return init(comm, size, id, rank, config);
    return init(comm, size, rank, config, 0n, 0n, ...new BigUint64Array(id!.slice(0, idByteLength).buffer));
  };
}

/** Sets environment variables that configure NCCL, except those that the user has set. NCCL reads them only once. */
function prepareEnvironment(): void {
  const symbols = {
    setenv: {
      parameters: ["buffer", /* const char *name */ "buffer", /* const char *value */ "i32" /* int overwrite */],
      result: "i32",
    },
  } as const;
  const { setenv } = dlopen("libc.so.6", symbols).symbols;
  // Disable NVLink multicast: a failure of it can put the GPUs of a shared machine out of service.
  setenv?.(cString("NCCL_NVLS_ENABLE"), cString("0"), 0);
  // Connect the ranks when a communicator is created. Otherwise, the first collective connects them, and blocks this
  // thread until all ranks have called it.
  setenv?.(cString("NCCL_RUNTIME_CONNECT"), cString("0"), 0);
}
