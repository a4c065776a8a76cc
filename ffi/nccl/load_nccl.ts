/**
 * Finds and loads NCCL.
 *
 * @module
 */
import type { CollectiveLibrary } from "../../src/collective_library.ts";
import { dlopen, ffiRefusal, keepLoaded, type NativeLibrary, platform } from "../host.ts";
import { cString } from "../shim/shim.ts";
import { toolkitCandidates } from "../toolkit_libraries.ts";
import { initRankByValue, libnccl } from "./libnccl.ts";
import { idByteLength, Nccl, type NcclFunctions } from "./nccl.ts";

const ncclLibrary = { names: ["libnccl.so.2", "libnccl.so"], packageFolder: "nccl" };
/** The functions without which a library is used, too: all others are those of NCCL 2.18. */
const optionalFunctions: readonly string[] = [
  "ncclCommInitRankScalable",
  "ncclCommShrink",
  "ncclAlltoAll",
];

let found: NcclFunctions | undefined;

/** Finds NCCL for the devices of a driver. `makeCurrent` makes a device the one that NCCL's calls are for. */
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
  const refusal = ffiRefusal();
  if (refusal !== undefined) throw new Error(`Cannot use NCCL: ${refusal}`);
  let unusable: string | undefined;
  for (const candidate of toolkitCandidates(ncclLibrary)) {
    const opened = tryNccl(candidate);
    if (!("reason" in opened)) return opened.functions;
    if (!/No such file|cannot open shared object|not found/i.test(opened.reason)) unusable ??= opened.reason;
  }
  throw new Error(
    unusable !== undefined
      ? `Cannot use NCCL: ${unusable}`
      : `Cannot use NCCL: no ${ncclLibrary.names[0]} was found by the loader, in CUDA_HOME, /usr/local/cuda, ` +
        "VIRTUAL_ENV, CONDA_PREFIX or ~/.local; install the package libnccl2, or nvidia-nccl-cu13 by pip, or give its " +
        "path in POOLPASS_NCCL",
  );
}

function tryNccl(path: string): { readonly functions: NcclFunctions } | { readonly reason: string } {
  prepareEnvironment();
  let library: NativeLibrary<typeof libnccl>;
  try {
    library = dlopen(path, libnccl);
  } catch (error) {
    const { cause = error } = error as Error;
    return { reason: cause instanceof Error ? cause.message : String(cause) };
  }
  const lacking = Object.keys(libnccl).find((name) =>
    library.symbols[name as keyof typeof libnccl] === undefined && !optionalFunctions.includes(name)
  );
  if (lacking !== undefined) {
    library.close();
    return { reason: `${path} has no ${lacking}: it is not NCCL, or older than NCCL 2.18` };
  }
  const functions = { ...library.symbols } as NcclFunctions;
  if (functions.ncclCommInitRankScalable === undefined) {
    const initRank = initRankOf(path);
    if (initRank === undefined) return { reason: `${path} is older than NCCL 2.23, which this processor needs` };
    Object.assign(functions, { ncclCommInitRankScalable: initRank });
  }
  // It runs threads.
  keepLoaded(path);
  return { functions };
}

/** What `ncclCommInitRankScalable` does with one id, by the older function that takes it by value. */
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

/** Sets what NCCL reads once, unless it is set already. */
function prepareEnvironment(): void {
  const symbols = {
    setenv: {
      parameters: ["buffer", /* const char *name */ "buffer", /* const char *value */ "i32" /* int overwrite */],
      result: "i32",
    },
  } as const;
  const { setenv } = dlopen("libc.so.6", symbols).symbols;
  // NVLink multicast that fails can put the GPUs of a shared machine out of service.
  setenv?.(cString("NCCL_NVLS_ENABLE"), cString("0"), 0);
  // Otherwise the first collective connects the ranks, and blocks this thread until all have called it.
  setenv?.(cString("NCCL_RUNTIME_CONNECT"), cString("0"), 0);
}
