/**
 * Starts another example as a child process, in the same runtime.
 *
 * @module
 */
import { spawn } from "node:child_process";
import process from "node:process";
import { Readable } from "node:stream";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** A child process. */
export interface ChildProcess {
  readonly pid: number;
  /** The lines that it prints to stderr; empty unless `readErrors` was set. */
  readonly errorLines: AsyncIterable<string>;
  /** Its exit code, or 128 plus the number of the signal that ended it. */
  readonly exited: Promise<number>;
  kill(signal: "SIGINT" | "SIGKILL" | "SIGTERM"): void;
}

/** Options of {@linkcode startChild}. */
export interface ChildOptions {
  args?: readonly string[];
  /** Whether its stderr goes to `errorLines` instead of this process's stderr. */
  readErrors?: boolean;
  /** Environment variables in addition to those of this process. */
  env?: Readonly<Record<string, string>>;
  /** Deno's permissions in addition to FFI, such as `["--allow-read"]`. */
  permissions?: readonly string[];
}

const signalNumbers: Readonly<Record<string, number>> = { SIGINT: 2, SIGKILL: 9, SIGTERM: 15 };

/** Starts the program at a URL. In Deno it gets FFI permission, and no other unless it is asked for. */
export function startChild(
  program: URL,
  { args = [], readErrors = false, env = {}, permissions = [] }: ChildOptions = {},
): ChildProcess {
  const script = program.protocol === "file:" ? fileURLToPath(program) : program.href;
  return "Deno" in globalThis
    ? startWithDeno([...permissions, script, ...args], readErrors, env)
    : startWithNode([...process.execArgv, script, ...args], readErrors, env);
}

type Environment = Readonly<Record<string, string>>;

function startWithDeno(args: readonly string[], readErrors: boolean, env: Environment): ChildProcess {
  // Deno's node:child_process would start it with all permissions.
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--allow-ffi", ...args],
    stdin: "null",
    stdout: "inherit",
    stderr: readErrors ? "piped" : "inherit",
    env,
  }).spawn();
  return {
    pid: child.pid,
    errorLines: readErrors ? linesOf(Readable.fromWeb(child.stderr as never)) : noLines(),
    exited: child.status.then(({ code }) => code),
    kill: (signal) => ignoreEnded(() => child.kill(signal)),
  };
}

function startWithNode(args: readonly string[], readErrors: boolean, env: Environment): ChildProcess {
  const child = spawn(process.execPath, args, {
    stdio: ["ignore", "inherit", readErrors ? "pipe" : "inherit"],
    env: { ...process.env, ...env },
  });
  const exited = new Promise<number>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => resolve(code ?? 128 + (signalNumbers[signal!] ?? 0)));
  });
  return {
    pid: child.pid!,
    errorLines: child.stderr === null ? noLines() : linesOf(child.stderr),
    exited,
    kill: (signal) => void child.kill(signal),
  };
}

function linesOf(stream: Readable): AsyncIterable<string> {
  return createInterface({ input: stream });
}

async function* noLines(): AsyncIterable<string> {}

function ignoreEnded(kill: () => void): void {
  try {
    kill();
  } catch {
    // The process has already ended.
  }
}
