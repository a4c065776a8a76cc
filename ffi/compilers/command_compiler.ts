/**
 * The common part of nvcc and clang: they run as processes, the source and the headers are files in memory, and the
 * result is read from standard output.
 *
 * These compilers have no name expressions. Instead, a variable is declared for each expression and initialized with
 * the address of the named function or variable: templates are instantiated, and the PTX contains the lowered name.
 *
 * @module
 */
import { CompileError, compileError, hasErrors, nameExpressionFile } from "../../src/compile/compile_error.ts";
import type { CompilerInput, CompilerOutput } from "../../src/compile/compilers.ts";
import { environmentVariable } from "../native/environment.ts";
import { ffiRefusal, jsRuntime } from "../native/host.ts";
import { closeDescriptor, describeDescriptor, readAt, writeAt } from "../native/shim/descriptors.ts";
import { createMemoryFile } from "../native/shim/memory_files.ts";
import { shim, shimRefusal } from "../native/shim/shim.ts";

/** The files that a compiler command reads and writes in one run. */
export interface CommandPaths {
  /** The in-memory files of this compilation. A compiler may add its own files. */
  readonly files: MemoryFiles;
  readonly source: string;
  /** The path to write the cubin to; undefined if PTX is requested. */
  readonly cubin: string | undefined;
}

/** A compiler that runs as a command. */
export interface CommandCompiler {
  /** The compiler's name and version, such as `nvcc 13.0`. */
  readonly name: string;
  readonly command: string;
  /** Returns arguments with which the command prints PTX or, if `paths.cubin` is set, writes a cubin. */
  argumentsFor(input: CompilerInput, paths: CommandPaths): readonly string[];
  /** Extracts the warnings from what a successful compilation has written to standard error. */
  warningsIn(messages: string): string;
}

/** Matches a compiler's error message for an option that it does not accept. */
const refusedOption =
  /^\S*?(?:nvcc|ptxas|cicc|clang|gcc|g\+\+|cc1plus)(?:-\d+)?(?: fatal)?\s*:.*(?:option|argument|architecture|value)/mi;

/** Compiles a program by running a command. */
export function compileByCommand(compiler: CommandCompiler, input: CompilerInput): CompilerOutput {
  using files = new MemoryFiles();
  const paths = new Map([...input.headers.keys()].map((name) => [name, files.create(name)]));
  for (const [name, text] of input.headers) files.write(paths.get(name)!, named(replaceIncludes(text, paths), name));
  const defines = [...input.defines].map(([name, value]) => `#define ${name} ${value}\n`).join("");
  const text = defines + named(replaceIncludes(input.source, paths), input.name);
  const createSource = (expressions: readonly string[]) => {
    const source = files.create(input.name);
    files.write(source, text + nameDeclarations(expressions));
    return source;
  };

  const run = (source: string, cubin?: string) => {
    const result = runCommand(compiler.command, compiler.argumentsFor(input, { files, source, cubin }));
    if (result === undefined) throw new Error(`Cannot compile with ${compiler.name}: it is no longer on the PATH`);
    const errors = files.rename(result.errors).trim();
    if (!result.succeeded) throw failure(compiler, input, { ...result, errors });
    return { output: result.output, warnings: compiler.warningsIn(errors).trim() };
  };
  const runWithNames = (source: string) => {
    try {
      return run(source);
    } catch (error) {
      // The error is in the appended declarations, perhaps only because of an error in the source, such as a missing
      // brace. Compiling the source without the declarations reports that error.
      if (error instanceof CompileError && error.log.includes(nameExpressionFile)) run(createSource([]));
      throw error;
    }
  };

  const source = createSource(input.nameExpressions);
  const { output, warnings } = runWithNames(source);
  const { ptx, loweredNames } = takeNames(files.rename(output), input);
  let cubin: Uint8Array | undefined;
  if (input.architecture.startsWith("sm_")) {
    const path = files.create("a cubin");
    run(source, path);
    cubin = files.read(path);
  }
  return { ptx, cubin, log: warnings, loweredNames };
}

function failure({ name }: CommandCompiler, input: CompilerInput, { errors, output }: CommandResult): Error {
  const messages = errors === "" ? output.trim() : errors;
  if (hasErrors(messages)) return compileError(messages, input);
  const lines = messages.replaceAll("\n", "; ");
  if (refusedOption.test(messages)) {
    return new RangeError(`Cannot compile ${input.name}: ${name} refuses an option: ${lines}`);
  }
  return new Error(`Cannot compile ${input.name} with ${name}: ${lines === "" ? "it gives no reason" : lines}`);
}

/** A command's exit status, its standard output (`output`) and its standard error (`errors`). */
export interface CommandResult {
  readonly succeeded: boolean;
  readonly output: string;
  readonly errors: string;
}

interface Globals {
  Deno?: {
    permissions: { querySync(descriptor: { name: "run"; command: string }): { state: string } };
    Command: new (command: string, options: object) => {
      outputSync(): { success: boolean; stdout: Uint8Array; stderr: Uint8Array };
    };
  };
  process?: {
    env: Readonly<Record<string, string | undefined>>;
    permission?: { has(scope: string): boolean };
    getBuiltinModule(name: "node:child_process"): {
      spawnSync(command: string, args: readonly string[], options: object): {
        status: number | null;
        stdout: Uint8Array;
        stderr: Uint8Array;
        error?: Error & { code?: string };
      };
    };
  };
}

const globals = globalThis as unknown as Globals;
/** The environment variable that makes the compiler's messages English, because `CompileError` parses them. */
const environment = { LC_ALL: "C" };

/**
 * Environment variables from which nvcc, clang and the host compiler take options and the paths of headers and tools.
 */
const compilerVariables = [
  ...["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CUDA_HOME", "CUDA_PATH", "PATH"],
  ...["CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS"],
];

/**
 * Returns a string that identifies everything on which a compiler's results depend, other than the compiled program.
 */
export function buildOf(version: string): string {
  return JSON.stringify([version, compilerVariables.map((name) => environmentVariable(name) ?? null)]);
}

/**
 * Returns why a command on the PATH cannot be run on files in memory; undefined if nothing prevents it. Never shows a
 * permission prompt.
 */
export function commandRefusal(command: string): string | undefined {
  if (jsRuntime === "deno") {
    if (globals.Deno!.permissions.querySync({ name: "run", command }).state !== "granted") {
      return `${command} may not be run without --allow-run=${command}`;
    }
  } else if (globals.process?.permission?.has("child") === false) {
    return `${command} may not be run without --allow-child-process`;
  }
  const refusal = ffiRefusal() ?? shimRefusal();
  return refusal && `${command} is given its source by a file in memory: ${refusal}`;
}

/** Runs a command and waits until it exits. Returns undefined if the command is not on the PATH. */
export function runCommand(command: string, args: readonly string[]): CommandResult | undefined {
  const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  if (jsRuntime === "deno") {
    const run = (env: Record<string, string>) => {
      const { success, stdout, stderr } = new globals.Deno!.Command(command, { args, stdin: "null", env }).outputSync();
      return { succeeded: success, output: decode(stdout), errors: decode(stderr) };
    };
    try {
      try {
        return run(environment);
      } catch (error) {
        const linkerVariables = refusedVariables(error as Error);
        if (linkerVariables.length === 0) throw error;
        return run({ ...environment, ...Object.fromEntries(linkerVariables.map((name) => [name, ""])) });
      }
    } catch (error) {
      if ((error as Error).name === "NotFound") return undefined;
      throw error;
    }
  }
  const process = globals.process!;
  const { status, stdout, stderr, error } = process.getBuiltinModule("node:child_process").spawnSync(command, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...environment },
    maxBuffer: Infinity,
  });
  if (error?.code === "ENOENT") return undefined;
  if (error !== undefined) throw error;
  return { succeeded: status === 0, output: decode(stdout), errors: decode(stderr) };
}

/**
 * Returns the names of the dynamic linker's variables, such as LD_LIBRARY_PATH, that the message of a permission error
 * mentions. Deno passes such variables to a command only if all commands are allowed, and the compilers do not need
 * them.
 */
function refusedVariables({ name, message }: Error): readonly string[] {
  return name === "NotCapable" ? message.match(/\b(?:LD|DYLD)_\w+/g) ?? [] : [];
}

/** Files in memory, which other processes can open by their paths. */
export class MemoryFiles implements Disposable {
  /** Maps the path of each file to its descriptor and to its name in messages. */
  readonly #files = new Map<string, { readonly fd: number; readonly name: string }>();

  /** Creates an empty file and returns its path. */
  create(name: string): string {
    const fd = createMemoryFile("poolpass-compile", 0);
    const path = `/proc/${shim().poolpass_getpid()}/fd/${fd}`;
    this.#files.set(path, { fd, name });
    return path;
  }

  write(path: string, text: string): void {
    writeAt(this.#files.get(path)!.fd, new TextEncoder().encode(text));
  }

  read(path: string): Uint8Array {
    const { fd } = this.#files.get(path)!;
    const bytes = new Uint8Array(describeDescriptor(fd).byteLength);
    readAt(fd, bytes);
    return bytes;
  }

  /** Replaces the paths of the files in a string with the files' names. */
  rename(text: string): string {
    for (const [path, { name }] of this.#files) text = text.replaceAll(new RegExp(`${path}(?!\\d)`, "g"), () => name);
    return text;
  }

  [Symbol.dispose](): void {
    for (const { fd } of this.#files.values()) closeDescriptor(fd);
    this.#files.clear();
  }
}

const variable = "__poolpass_name_";

/**
 * Returns C++ declarations to append to the source: for each name expression, a variable that is initialized with the
 * expression's address.
 */
function nameDeclarations(expressions: readonly string[]): string {
  if (expressions.length === 0) return "";
  const declarations = expressions.map((expression, index) =>
    `extern "C" __device__ __attribute__((used)) const void* ${variable}${index} = (const void*)(${expression});`
  );
  // Number the first name expression as line 2, to match NVRTC's messages.
  return `\n#line 2 "${nameExpressionFile}"\n${declarations.join("\n")}\n`;
}

/**
 * Removes from the PTX the variables that `nameDeclarations` declared. Returns the remaining PTX, and the lowered name
 * of each expression.
 */
export function takeNames(
  ptx: string,
  input: Pick<CompilerInput, "name" | "source" | "headers" | "nameExpressions">,
): { readonly ptx: string; readonly loweredNames: ReadonlyMap<string, string> } {
  const loweredNames = new Map<string, string>();
  if (input.nameExpressions.length === 0) return { ptx, loweredNames };
  const initializers = new Map(
    Array.from(ptx.matchAll(variableDirectives), ([, index, value]) => [Number(index), value!.trim()]),
  );
  const kernels = new Set(Array.from(ptx.matchAll(kernelDirectives), ([, kernel]) => kernel!));
  for (const [index, expression] of input.nameExpressions.entries()) {
    const value = initializers.get(index) ?? "";
    const symbol = /^generic\(([\w$]+)\)$/.exec(value)?.[1] ?? (kernels.has(value) ? value : undefined);
    if (symbol === undefined) {
      throw compileError(
        `${nameExpressionFile}(${index + 2}): error: the expression must be the address of a __global__ function or ` +
          "of a __device__ or __constant__ variable",
        input,
      );
    }
    loweredNames.set(expression, symbol);
  }
  return {
    ptx: ptx
      .replaceAll(variableDirectives, "")
      .replaceAll(variableAddresses, ".b64 0")
      // Removes the kernel declarations, which exist only for the removed variables.
      .replaceAll(kernelDeclarations, ""),
    loweredNames,
  };
}

/**
 * Matches the definition of a variable that `nameDeclarations` declared, such as `.global .align 8 .u64
 * __poolpass_name_0 = generic(table);`. In debug PTX, the directive `.visible` may be on a line of its own before it.
 */
const variableDirectives = new RegExp(
  `^[ \\t]*\\.(?:visible\\s+)?[^\\n{}]*\\.u64\\s+${variable}(\\d+)(?:\\[1\\])?\\s*(?:=\\s*([^;]*))?;[^\\n]*\\n`,
  "gm",
);
/** Matches lines of the debug information that contain the address of a variable that `nameDeclarations` declared. */
const variableAddresses = new RegExp(`^\\.b64\\s+${variable}\\d+$`, "gm");
const kernelDirectives = /^[ \t]*(?:\.(?:visible|weak)\s+)?\.entry\s+([\w$]+)/gm;
const kernelDeclarations = /^[ \t]*(?:\.(?:visible|weak)\s+)?\.entry\s+[\w$]+\s*\([^)]*\)[^;{]*;[ \t]*\n/gm;

/**
 * Matches `#include` and `__has_include` with the header's name. Also matches whole comments and literals, so that an
 * include within one of them is skipped.
 */
const includes = new RegExp(
  [
    /\/\/(?:\\\r?\n|[^\n])*/,
    /\/\*[^]*?(?:\*\/|$)/,
    /\b(?:u8|[uUL])?R"(?<delimiter>[^()\\\s]{0,16})\([^]*?\)\k<delimiter>"/,
    /"(?:\\[^]|[^"\\\n])*"/,
    /(?<!\w)'(?:\\[^]|[^'\\\n])*'/,
    /(?<before>#[ \t]*include[ \t]*|\b__has_include[ \t]*\([ \t]*)(?:"(?<quoted>[^"\n]+)"|<(?<angled>[^>\n]+)>)/,
  ].map(({ source }) => source).join("|"),
  "g",
);

/**
 * Replaces the names in `#include` and `__has_include` with the paths of the files that contain the headers. Names that
 * result from macro expansion are not replaced.
 */
export function replaceIncludes(text: string, paths: ReadonlyMap<string, string>): string {
  if (paths.size === 0) return text;
  return text.replaceAll(includes, (match, ...rest) => {
    const { before, quoted, angled } = rest.at(-1) as Record<string, string | undefined>;
    const path = before === undefined ? undefined : paths.get(quoted ?? angled!);
    return path === undefined ? match : `${before}"${path}"`;
  });
}

/** Prepends a `#line` directive, so that the compiler's messages refer to the lines of `text` under `name`. */
function named(text: string, name: string): string {
  const literal = name.replaceAll(/["\\]/g, "\\$&").replaceAll("\n", "\\n");
  return `#line 1 "${literal}"\n${text}`;
}
