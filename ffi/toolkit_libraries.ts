/**
 * Searches for the libraries of the CUDA toolkit: on the dynamic linker's path, in a toolkit's folder, and in the
 * folders of Python packages.
 *
 * @module
 */
import { environmentVariable } from "./native/environment.ts";
import { cString, stringAt } from "./native/shim/shim.ts";
import { dlopen, ffiRefusal, type NativeLibrary, type NativeSymbol, withLoader } from "./native/host.ts";

/** The names under which a library of the toolkit is searched for. */
export interface ToolkitPlaces {
  /** The library's file names for the dynamic linker, the newest first: `libnvrtc.so.13`. */
  readonly names: readonly string[];
  /**
   * The folder of the library's Python package in `site-packages/nvidia`, for versions before CUDA 13: `cuda_nvrtc`.
   */
  readonly packageFolder: string;
}

/** A library of the toolkit, such as libnvrtc. */
export interface ToolkitLibrary<S extends Readonly<Record<string, NativeSymbol>>> extends ToolkitPlaces {
  /** The library's usual name: `NVRTC`. */
  readonly title: string;
  readonly functions: S;
  /** The functions that the library may lack. */
  readonly optionalFunctions: readonly string[];
  /** The first version that has all functions but the optional ones: `CUDA 11.2`. */
  readonly oldest: string;
}

/** The reason why a library is not used. */
export interface UnusableLibrary {
  readonly reason: string;
}

/**
 * The folder of all Python packages of CUDA 13 in `site-packages/nvidia`. Each package of CUDA 12 has its own folder.
 */
const sharedPackageFolder = "cu13";
/** The minor versions of Python 3 that are currently supported, and the next one. */
const pythonVersions = [15, 14, 13, 12, 11, 10, 9, 8];

/**
 * Opens the first library that can be used, or returns why there is none.
 *
 * @param open Opens the library with a name or a path, or returns why it cannot be used.
 */
export function findToolkitLibrary<Library extends object>(
  places: ToolkitPlaces,
  open: (path: string) => Library | UnusableLibrary,
): Library | UnusableLibrary {
  const refusal = ffiRefusal();
  if (refusal !== undefined) return { reason: refusal };
  const [name] = places.names;
  let unusable: string | undefined;
  for (const candidate of toolkitCandidates(places)) {
    const opened = open(candidate);
    if (!("reason" in opened)) return opened;
    if (!isAbsence(opened.reason)) unusable ??= opened.reason;
  }
  if (unusable !== undefined) return { reason: `no usable ${name!.replace(/\.so.*/, "")} was found (${unusable})` };
  return {
    reason: `no ${name} was found by the loader, in CUDA_HOME, /usr/local/cuda, VIRTUAL_ENV, CONDA_PREFIX or ~/.local`,
  };
}

function isAbsence(reason: string): boolean {
  return /No such file|cannot open shared object|not found/i.test(reason);
}

/** Opens a library if it has all required functions. */
export function openToolkitLibrary<const S extends Readonly<Record<string, NativeSymbol>>>(
  path: string,
  { title, functions, optionalFunctions, oldest }: ToolkitLibrary<S>,
): NativeLibrary<S> | UnusableLibrary {
  let library: NativeLibrary<S>;
  try {
    library = dlopen(path, functions);
  } catch (error) {
    const { cause = error } = error as Error;
    return { reason: cause instanceof Error ? cause.message : String(cause) };
  }
  const lacking = Object.keys(functions).find((name) =>
    library.symbols[name] === undefined && !optionalFunctions.includes(name)
  );
  if (lacking === undefined) return library;
  library.close();
  return { reason: `${path} has no ${lacking}: it is not ${title}, or older than ${oldest}` };
}

/** Returns the names and paths to try for a library, in order. */
export function toolkitCandidates({ names, packageFolder }: ToolkitPlaces): string[] {
  const folders = [
    ...toolkitFolders().flatMap((folder) => [`${folder}/lib64`, `${folder}/lib`]),
    ...condaFolders().map((folder) => `${folder}/lib`),
  ];
  for (const packages of pythonPackageFolders()) {
    for (const folder of [sharedPackageFolder, packageFolder]) folders.push(`${packages}/nvidia/${folder}/lib`);
  }
  return [...names, ...folders.flatMap((folder) => names.map((name) => `${folder}/${name}`))];
}

/** Returns the folders of installed toolkits. */
export function toolkitFolders(): string[] {
  const folders = ["CUDA_HOME", "CUDA_PATH"].map(environmentVariable);
  return [...new Set([...folders, "/usr/local/cuda"])].filter((folder) =>
    folder !== undefined && folder !== ""
  ) as string[];
}

/** Returns the folders of a toolkit installed by conda. The last two folders contain the headers. */
export function condaFolders(): string[] {
  const folder = environmentVariable("CONDA_PREFIX");
  if (folder === undefined || folder === "") return [];
  return [folder, `${folder}/targets/x86_64-linux`, `${folder}/targets/sbsa-linux`];
}

/** Returns the `site-packages` folders of the active virtual or conda environment and of the user's home. */
function pythonPackageFolders(): string[] {
  const environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].map(environmentVariable);
  const home = environmentVariable("HOME");
  const libraries = environments.filter((folder) => folder !== undefined && folder !== "");
  if (home !== undefined && home !== "") libraries.push(`${home}/.local`);
  return libraries.flatMap((folder) => pythonVersions.map((minor) => `${folder}/lib/python3.${minor}/site-packages`));
}

const loaderSymbols = {
  dladdr: { parameters: ["u64", /* const void *addr */ "buffer" /* Dl_info *info */], result: "i32" },
  realpath: { parameters: ["buffer", /* const char *path */ "buffer" /* char *resolved_path */], result: "u64" },
} as const;
/** The value of `PATH_MAX`, in bytes. */
const pathBytes = 4096;
/** The size of `Dl_info` in bytes: four pointers, of which the first two are the file's name and the load address. */
const addressInfoBytes = 32;

/** A library that is loaded in this process. */
export interface LoadedLibrary {
  /** The path that the dynamic linker reports. */
  readonly path: string;
  /** The path with symbolic links resolved. The same as `path` if there is no such file. */
  readonly realPath: string;
  /** The address at which the library was loaded. */
  readonly base: bigint;
}

/** Returns the library that contains a function. Undefined if the dynamic linker cannot be queried. */
export function libraryOf(addressOfFunction: bigint): LoadedLibrary | undefined {
  return withLoader(loaderSymbols, ({ dladdr, realpath }) => {
    const info = new BigUint64Array(addressInfoBytes / 8);
    dladdr(addressOfFunction, new Uint8Array(info.buffer));
    const [name = 0n, base = 0n] = info;
    if (name === 0n) return undefined;
    const path = stringAt(name);
    const out = new Uint8Array(pathBytes);
    const hasFile = realpath(cString(path), out) !== 0n;
    return { path, base, realPath: hasFile ? new TextDecoder().decode(out.subarray(0, out.indexOf(0))) : path };
  });
}
