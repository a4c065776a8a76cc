/**
 * Running a compiler of the PATH, on files in memory.
 *
 * @module
 */
import { environmentVariable } from "../native/environment.ts";
import { ffiRefusal, jsRuntime } from "../native/host.ts";
import { closeDescriptor, describeDescriptor, readAt, writeAt } from "../native/shim/descriptors.ts";
import { createMemoryFile } from "../native/shim/memory_files.ts";
import { shim, shimRefusal } from "../native/shim/shim.ts";

/** What a command has printed. */
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
/** Messages in English, which `CompileError` is read from. */
const environment = { LC_ALL: "C" };

/** Variables by which nvcc, clang and the host's compiler find headers and options. */
const compilerVariables = [
  ...["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CUDA_HOME", "CUDA_PATH", "PATH"],
  ...["CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS"],
];

/** What the results of a command depend on beside the program. */
export function buildOf(version: string): string {
  return JSON.stringify([version, compilerVariables.map((name) => environmentVariable(name) ?? null)]);
}

/** Why a command of the PATH cannot be run on files in memory; undefined if it may be tried. Never asks the user. */
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

/** Runs a command, and waits for its end. Undefined if it is not on the PATH. */
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
 * The variables of the dynamic linker, such as LD_LIBRARY_PATH, that Deno passes to a command only if all commands may
 * run. The compilers do without.
 */
function refusedVariables({ name, message }: Error): readonly string[] {
  return name === "NotCapable" ? message.match(/\b(?:LD|DYLD)_\w+/g) ?? [] : [];
}

/** Files in memory, which other processes open by their paths. */
export class MemoryFiles implements Disposable {
  /** By path, the descriptor of each and what messages call it. */
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

  /** Puts the names of the files for their paths. */
  rename(text: string): string {
    for (const [path, { name }] of this.#files) text = text.replaceAll(new RegExp(`${path}(?!\\d)`, "g"), () => name);
    return text;
  }

  [Symbol.dispose](): void {
    for (const { fd } of this.#files.values()) closeDescriptor(fd);
    this.#files.clear();
  }
}
