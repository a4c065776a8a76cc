/**
 * Where the libraries of the CUDA toolkit may be: the loader's path, a toolkit's folder, and the folders of Python's
 * packages.
 *
 * @module
 */
import { environmentVariable } from "./native/environment.ts";
import { cString, stringAt } from "./native/shim/shim.ts";
import { dlopen, ffiRefusal, type NativeLibrary, type NativeSymbol, withLoader } from "./native/host.ts";

/** Where a library of the toolkit may be. */
export interface ToolkitPlaces {
  /** The names that the loader knows it by, the newest first: `libnvrtc.so.13`. */
  readonly names: readonly string[];
  /** The folder of its Python package within `site-packages/nvidia`, before CUDA 13: `cuda_nvrtc`. */
  readonly packageFolder: string;
}

/** A library of the toolkit, such as libnvrtc. */
export interface ToolkitLibrary<S extends Readonly<Record<string, NativeSymbol>>> extends ToolkitPlaces {
  /** As people call it: `NVRTC`. */
  readonly title: string;
  readonly functions: S;
  /** The functions without which a library is used, too. */
  readonly optionalFunctions: readonly string[];
  /** The first version that has all others: `CUDA 11.2`. */
  readonly oldest: string;
}

/** Why a library is not used. */
export interface Unusable {
  readonly reason: string;
}

/** The folder of Python's packages of CUDA 13, within `site-packages/nvidia`. Those of CUDA 12 have a folder each. */
const sharedPackageFolder = "cu13";
/** Python's minor versions that are supported today, and the next. */
const pythonVersions = [15, 14, 13, 12, 11, 10, 9, 8];

/**
 * Opens the first library that can be used, or says why there is none.
 *
 * @param open Opens the one with a name or a path, or says why it cannot be used.
 */
export function findToolkitLibrary<Library extends object>(
  places: ToolkitPlaces,
  open: (path: string) => Library | Unusable,
): Library | Unusable {
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

/** Opens a library if it has all functions that it must have. */
export function openToolkitLibrary<const S extends Readonly<Record<string, NativeSymbol>>>(
  path: string,
  { title, functions, optionalFunctions, oldest }: ToolkitLibrary<S>,
): NativeLibrary<S> | Unusable {
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

/** The names and paths to try for a library, in order. */
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

/** The folders of installed toolkits. */
export function toolkitFolders(): string[] {
  const folders = ["CUDA_HOME", "CUDA_PATH"].map(environmentVariable);
  return [...new Set([...folders, "/usr/local/cuda"])].filter((folder) =>
    folder !== undefined && folder !== ""
  ) as string[];
}

/** The folders of the toolkit that conda has installed, which has its headers in the last ones. */
export function condaFolders(): string[] {
  const folder = environmentVariable("CONDA_PREFIX");
  if (folder === undefined || folder === "") return [];
  return [folder, `${folder}/targets/x86_64-linux`, `${folder}/targets/sbsa-linux`];
}

/** The folders of Python's packages, as far as environment variables say where they are. */
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
/** `PATH_MAX` */
const pathBytes = 4096;
/** `Dl_info` has four pointers, of which the first are the file's name and where it has been loaded. */
const addressInfoBytes = 32;

/** A library that has been loaded. */
export interface LoadedLibrary {
  /** As the loader names it. */
  readonly path: string;
  /** The path without links. The same as `path` if there is no such file. */
  readonly realPath: string;
  /** The address of its first byte. */
  readonly base: bigint;
}

/** The library that has a function. Undefined if the loader cannot be asked. */
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
