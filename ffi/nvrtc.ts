/**
 * NVRTC, CUDA's C++ compiler as a library: its functions, as declared in `nvrtc.h`, and a compiler that uses them. A
 * function that can fail returns an `nvrtcResult`; a comment beside each parameter has the C type and name. A program
 * is represented by a handle.
 *
 * @module
 */
import { compileError } from "../src/compile/compile_error.ts";
import type { Compiler, CompilerInput, CompilerOutput } from "../src/compile/compilers.ts";
import { formatVersion } from "../src/support/version.ts";
import { cString, cStringArray, stringAt } from "./native/shim/shim.ts";
import { foreignBuffer, keepLoaded, type NativeFunctions, type NativeLibrary } from "./native/host.ts";
import {
  condaFolders,
  findToolkitLibrary,
  libraryOf,
  type LoadedLibrary,
  openToolkitLibrary,
  toolkitFolders,
  type UnusableLibrary,
} from "./toolkit_libraries.ts";

/** The symbol table passed to `dlopen` for libnvrtc. */
const libnvrtc = {
  nvrtcVersion: { parameters: ["buffer", /* int *major */ "buffer" /* int *minor */], result: "i32" },
  nvrtcGetErrorString: { parameters: ["i32" /* nvrtcResult result */], result: "u64" },
  nvrtcGetNumSupportedArchs: { parameters: ["buffer" /* int *numArchs */], result: "i32" },
  nvrtcGetSupportedArchs: { parameters: ["buffer" /* int *supportedArchs */], result: "i32" },
  nvrtcCreateProgram: {
    parameters: [
      "buffer", // nvrtcProgram *prog
      "buffer", // const char *src
      "buffer", // const char *name
      "i32", // int numHeaders
      "buffer", // const char * const *headers
      "buffer", // const char * const *includeNames
    ],
    result: "i32",
  },
  nvrtcDestroyProgram: { parameters: ["buffer" /* nvrtcProgram *prog */], result: "i32" },
  nvrtcAddNameExpression: {
    parameters: ["u64", /* nvrtcProgram prog */ "buffer" /* const char * const name_expression */],
    result: "i32",
  },
  nvrtcCompileProgram: {
    parameters: [
      "u64", // nvrtcProgram prog
      "i32", // int numOptions
      "buffer", // const char * const *options
    ],
    result: "i32",
  },
  nvrtcGetLoweredName: {
    parameters: [
      "u64", // nvrtcProgram prog
      "buffer", // const char *const name_expression
      "buffer", // const char **lowered_name
    ],
    result: "i32",
  },
  nvrtcGetPTXSize: { parameters: ["u64", /* nvrtcProgram prog */ "buffer" /* size_t *ptxSizeRet */], result: "i32" },
  nvrtcGetPTX: { parameters: ["u64", /* nvrtcProgram prog */ "buffer" /* char *ptx */], result: "i32" },
  nvrtcGetCUBINSize: {
    parameters: ["u64", /* nvrtcProgram prog */ "buffer" /* size_t *cubinSizeRet */],
    result: "i32",
  },
  nvrtcGetCUBIN: { parameters: ["u64", /* nvrtcProgram prog */ "buffer" /* char *cubin */], result: "i32" },
  nvrtcGetProgramLogSize: {
    parameters: ["u64", /* nvrtcProgram prog */ "buffer" /* size_t *logSizeRet */],
    result: "i32",
  },
  nvrtcGetProgramLog: { parameters: ["u64", /* nvrtcProgram prog */ "buffer" /* char *log */], result: "i32" },
} as const;

type Functions = NativeFunctions<typeof libnvrtc>;

const nvrtcLibrary = {
  names: ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"],
  packageFolder: "cuda_nvrtc",
  title: "NVRTC",
  functions: libnvrtc,
  // The functions for cubins are not optional: they have existed since CUDA 11.1, and pools require CUDA 11.2 anyway.
  optionalFunctions: ["nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs"],
  oldest: "CUDA 11.2",
};

/** The values of `nvrtcResult` that are handled differently from other errors. */
const nvrtcResult = { success: 0, invalidOption: 5, compilation: 6 } as const;

/**
 * The result of the search for the library when no path is given, shared by all `Cuda` objects. The library is never
 * unloaded.
 */
let found: Compiler | UnusableLibrary | undefined;

/**
 * Finds NVRTC, or returns why it cannot be used.
 *
 * @param path The library's path. By default, the library is searched for.
 * @throws {Error} If the library at `path` cannot be used
 */
export function findNvrtc(path: string | undefined): Compiler | UnusableLibrary {
  if (path !== undefined) {
    const opened = tryNvrtc(path);
    if ("reason" in opened) throw new Error(`Cannot use "${path}" as libnvrtc: ${opened.reason}`);
    return opened;
  }
  return found ??= findToolkitLibrary(nvrtcLibrary, tryNvrtc);
}

function tryNvrtc(path: string): Compiler | UnusableLibrary {
  const library = openToolkitLibrary(path, nvrtcLibrary);
  if ("reason" in library) return library;
  keepLoaded(path);
  return new Nvrtc(library);
}

/** NVRTC, which compiles in this process. */
class Nvrtc implements Compiler {
  readonly name: string;
  readonly build: string | undefined;
  readonly cudaVersion: number;
  readonly architectures: readonly number[] | undefined;
  readonly #functions: Functions;
  /** The folders of CUDA's own headers, for the preprocessor. */
  readonly #includePaths: readonly string[];
  /**
   * The paths at which the library's builtins may be found. Empty once the builtins are loaded, which happens at the
   * first compilation: a source that is found in the cache does not need them.
   */
  #builtins: readonly string[];

  constructor(library: NativeLibrary<typeof libnvrtc>) {
    this.#functions = library.symbols as Functions;
    const version = new Int32Array(2);
    this.#functions.nvrtcVersion(new Uint8Array(version.buffer, 0, 4), new Uint8Array(version.buffer, 4, 4));
    const [major = 0, minor = 0] = version;
    this.cudaVersion = major * 1000 + minor * 10;
    this.name = `nvrtc ${formatVersion(this.cudaVersion)}`;
    this.architectures = this.#readArchitectures();
    const file = fileOf(library);
    // If the path is a symbolic link, the rest of the toolkit may be next to the link or next to the link's target.
    const files = file === undefined ? [] : [file.path, file.realPath];
    const folders = [...new Set(files.map((file) => file.slice(0, file.lastIndexOf("/"))))];
    this.#builtins = folders.map((folder) => `${folder}/libnvrtc-builtins.so.${major}.${minor}`);
    const roots = [...folders.map((folder) => `${folder}/..`), ...toolkitFolders(), ...condaFolders()];
    this.#includePaths = roots.flatMap((root) => [`${root}/include`, `${root}/include/cccl`]);
    const id = file === undefined ? undefined : buildIdOf(file.base);
    this.build = id && [id, ...this.#includePaths].join("\n");
  }

  compile(input: CompilerInput): CompilerOutput {
    // NVRTC loads its builtins by their file name alone, which the dynamic linker finds only if the builtins are loaded
    // already.
    for (const path of this.#builtins) keepLoaded(path);
    this.#builtins = [];
    const functions = this.#functions;
    const handle = new BigUint64Array(1);
    const out = new Uint8Array(handle.buffer);
    const headers = cStringArray([...input.headers.values()]);
    const includeNames = cStringArray([...input.headers.keys()]);
    const { size } = input.headers;
    const created = functions.nvrtcCreateProgram(
      out,
      cString(input.source),
      cString(input.name),
      size,
      headers,
      includeNames,
    );
    if (created !== nvrtcResult.success) throw this.#failure("nvrtcCreateProgram", created);
    try {
      return this.#compileProgram(handle[0]!, input);
    } finally {
      functions.nvrtcDestroyProgram(out);
    }
  }

  #compileProgram(program: bigint, input: CompilerInput): CompilerOutput {
    const functions = this.#functions;
    for (const name of input.nameExpressions) {
      this.#check(functions.nvrtcAddNameExpression(program, cString(name)), "nvrtcAddNameExpression");
    }
    const flags = this.#flagsFor(input);
    const result = functions.nvrtcCompileProgram(program, flags.length, cStringArray(flags));
    const log = this.#text(program, functions.nvrtcGetProgramLogSize, functions.nvrtcGetProgramLog).trim();
    // An option that only NVRTC's front end rejects, such as compute_90f, is reported like an invalid option, not as an
    // error in the source.
    const isOption = result === nvrtcResult.invalidOption || log.startsWith("Command-line error");
    if (result === nvrtcResult.compilation && !isOption) throw compileError(log, input, { columnsAreBytes: true });
    if (result !== nvrtcResult.success && isOption) {
      throw new RangeError(
        `Cannot compile ${input.name} for ${input.architecture}: ${this.name} refuses an option: ${
          log.replaceAll(/\n+/g, "; ")
        }`,
      );
    }
    this.#check(result, "nvrtcCompileProgram", log);
    const hasCubin = input.architecture.startsWith("sm_");
    return {
      ptx: this.#text(program, functions.nvrtcGetPTXSize, functions.nvrtcGetPTX),
      cubin: hasCubin ? this.#bytes(program, functions.nvrtcGetCUBINSize, functions.nvrtcGetCUBIN) : undefined,
      log,
      loweredNames: new Map(input.nameExpressions.map((name) => [name, this.#loweredName(program, name)])),
    };
  }

  #flagsFor(input: CompilerInput): string[] {
    return [
      `--gpu-architecture=${input.architecture}`,
      `--fmad=${input.fusedMultiplyAdd}`,
      ...input.debug ? ["--device-debug"] : input.lineInfo ? ["--generate-line-info"] : [],
      ...[...input.defines].map(([name, value]) => `--define-macro=${name}=${value}`),
      // The caller's headers take precedence over CUDA's headers.
      ...[...input.includePaths, ...this.#includePaths].map((path) => `--include-path=${path}`),
      ...input.flags,
    ];
  }

  #loweredName(program: bigint, name: string): string {
    const out = new BigUint64Array(1);
    const result = this.#functions.nvrtcGetLoweredName(program, cString(name), new Uint8Array(out.buffer));
    this.#check(result, "nvrtcGetLoweredName");
    return stringAt(out[0]!);
  }

  #readArchitectures(): readonly number[] | undefined {
    const { nvrtcGetNumSupportedArchs, nvrtcGetSupportedArchs } = this.#functions as Partial<Functions>;
    const count = new Int32Array(1);
    if (nvrtcGetNumSupportedArchs?.(new Uint8Array(count.buffer)) !== nvrtcResult.success) return undefined;
    const architectures = new Int32Array(count[0]!);
    if (nvrtcGetSupportedArchs?.(new Uint8Array(architectures.buffer)) !== nvrtcResult.success) return undefined;
    return [...architectures];
  }

  #text(program: bigint, getSize: Functions["nvrtcGetPTXSize"], getText: Functions["nvrtcGetPTX"]): string {
    const bytes = this.#bytes(program, getSize, getText);
    // The size that NVRTC reports includes the terminating NUL.
    return new TextDecoder().decode(bytes.subarray(0, bytes.at(-1) === 0 ? -1 : undefined));
  }

  #bytes(program: bigint, getSize: Functions["nvrtcGetPTXSize"], getBytes: Functions["nvrtcGetPTX"]): Uint8Array {
    const size = new BigUint64Array(1);
    this.#check(getSize(program, new Uint8Array(size.buffer)), "a size");
    const bytes = new Uint8Array(Number(size[0]));
    this.#check(getBytes(program, bytes), "a result");
    return bytes;
  }

  #check(result: number, call: string, log = ""): void {
    if (result !== nvrtcResult.success) throw this.#failure(call, result, log);
  }

  /** Creates the error for a failed NVRTC call whose cause is not the compiled program. */
  #failure(call: string, result: number, log = ""): Error {
    const name = stringAt(this.#functions.nvrtcGetErrorString(result));
    return new Error(
      `Cannot compile with ${this.name}: ${call} failed: ${name} (${result})${log === "" ? "" : `: ${log}`}`,
    );
  }
}

/**
 * Returns the file that a library was loaded from; undefined if the dynamic linker does not report the file's folder.
 */
function fileOf(library: NativeLibrary<typeof libnvrtc>): LoadedLibrary | undefined {
  const address = library.addressOfFunction("nvrtcVersion");
  const file = address === undefined ? undefined : libraryOf(address);
  return file?.path.includes("/") ? file : undefined;
}

const headerByteLength = 64;
const programHeader = { byteLength: 56, loadType: 1, noteType: 4 } as const;
/** The ELF note type `NT_GNU_BUILD_ID`. */
const buildIdType = 3;

/**
 * Returns the build ID of a 64-bit ELF library in hexadecimal digits; undefined if it has none.
 *
 * @param base the address at which the library was loaded: the headers and notes are read from memory, because the file
 *   may be inaccessible
 */
export function buildIdOf(base: bigint): string | undefined {
  const header = new DataView(foreignBuffer(base, headerByteLength));
  const isElf64 = header.getUint32(0) === 0x7f454c46 && header.getUint8(4) === 2;
  if (!isElf64) return undefined;
  const [at, count] = [header.getBigUint64(32, true), header.getUint16(56, true)];
  const headers = new DataView(foreignBuffer(base + at, count * programHeader.byteLength));
  const segments = Array.from({ length: count }, (_, index) => {
    const begin = index * programHeader.byteLength;
    return {
      type: headers.getUint32(begin, true),
      address: headers.getBigUint64(begin + 16, true),
      byteLength: Number(headers.getBigUint64(begin + 40, true)),
    };
  });
  // ELF requires that the loaded segments are sorted by address, so the first one has the lowest address.
  const first = segments.find(({ type }) => type === programHeader.loadType)?.address ?? 0n;
  const notes = segments.filter(({ type }) => type === programHeader.noteType);
  for (const { address, byteLength } of notes) {
    const found = buildIdIn(new Uint8Array(foreignBuffer(base - pageOf(first) + address, byteLength)));
    if (found !== undefined) return found;
  }
  return undefined;
}

function buildIdIn(notes: Uint8Array): string | undefined {
  const view = new DataView(notes.buffer, notes.byteOffset, notes.byteLength);
  for (let note = 0; note + 12 <= notes.length;) {
    const [nameLength, length, type] = [0, 4, 8].map((field) => view.getUint32(note + field, true));
    const content = note + 12 + padded(nameLength!);
    if (type === buildIdType) return notes.slice(content, content + length!).toHex();
    note = content + padded(length!);
  }
  return undefined;
}

function pageOf(address: bigint): bigint {
  return address & ~0xfffn;
}

function padded(byteLength: number): number {
  return Math.ceil(byteLength / 4) * 4;
}
