/**
 * Starts scripts of the tests folder as processes, in the runtime that runs the test.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { readdirSync, readlinkSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { bundleOf } from "./child_bundles.ts";

/** A process that runs a script. */
export interface ChildProcess extends AsyncDisposable {
  readonly pid: number;
  /** Resolves with the next line of its standard output, or undefined at the end. */
  nextLine(): Promise<string | undefined>;
  /** Resolves with all of its standard error when the process has ended. */
  errors(): Promise<string>;
  kill(signal: "SIGKILL" | "SIGTERM" | "SIGSTOP" | "SIGCONT" | "SIGINT" | "SIGUSR1"): void;
  /** Resolves when the process has ended, with its exit code or the name of the signal that killed it. */
  readonly ended: Promise<number | string>;
}

/** The lines that a process has yet to print, when its standard output has ended. */
export async function remainingLines(child: Pick<ChildProcess, "nextLine">): Promise<string[]> {
  const lines: string[] = [];
  for (let line = await child.nextLine(); line !== undefined; line = await child.nextLine()) lines.push(line);
  return lines;
}

/** The options of `startScript`. */
export interface StartOptions {
  /** Limit on its open descriptors. */
  readonly descriptorLimit?: number;
  /** Arguments of `unshare`, which give it namespaces of its own. Its `pid` may then be that of `unshare`. */
  readonly namespaces?: readonly string[];
  /** A program that starts the script's command, which is appended to it: `["/bin/sh", "-c", "..."]`. */
  readonly through?: readonly string[];
  /** Deno's permissions, by default `--allow-ffi`. */
  readonly permissions?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Maps the imports of the tests, among others; the other runtimes resolve them by other means. */
const denoArguments = [
  // Few of the functions in the files that a child loads run: compile those alone.
  "--v8-flags=--max-lazy",
  `--import-map=${fileURLToPath(new URL("../../import_map.json", import.meta.url))}`,
  `--lock=${fileURLToPath(new URL("../../deno.lock", import.meta.url))}`,
  "--frozen",
];

/** Milliseconds in which the runtime must close its ends of a child's output. */
const closingTimeout = 3000;

interface Spawned {
  readonly pid: number;
  readonly stdout: AsyncIterable<Uint8Array>;
  readonly stderr: AsyncIterable<Uint8Array>;
  readonly ended: Promise<number | string>;
  /** Resolves when the runtime has closed all of the child's sockets. */
  closed(): Promise<void>;
  kill(signal: string): void;
}

interface DenoNamespace {
  Command: new (command: string, options: unknown) => {
    spawn(): {
      pid: number;
      stdout: AsyncIterable<Uint8Array>;
      stderr: AsyncIterable<Uint8Array>;
      status: Promise<{ code: number; signal: string | null }>;
      kill(signal: string): void;
    };
  };
}

const { Deno: deno } = globalThis as unknown as { Deno?: DenoNamespace };

/**
 * Starts a script.
 *
 * @param path relative to the folder of the tests, such as `"children/sharing/socket_peer.ts"`
 */
export function startScript(path: string, args: readonly string[], options: StartOptions = {}): ChildProcess {
  return startCommand([...options.through ?? [], ...scriptCommand(path, args, options)], options);
}

/** The command that runs a script in this runtime. */
export function scriptCommand(
  path: string,
  args: readonly string[],
  options: Pick<StartOptions, "permissions"> = {},
): readonly string[] {
  const script = bundleOf(path) ?? fileURLToPath(new URL(path, new URL("../", import.meta.url)));
  const runtime = deno === undefined
    ? []
    : ["run", "--no-prompt", "--no-check", ...denoArguments, ...options.permissions ?? ["--allow-ffi"]];
  return [process.execPath, ...runtime, script, ...args];
}

/** Starts a program. */
export function startCommand(
  program: readonly string[],
  options: Omit<StartOptions, "permissions"> = {},
): ChildProcess {
  let command = program;
  if (options.descriptorLimit !== undefined) {
    // Deno's check for updates warns if it finds no descriptor.
    const start = `ulimit -n ${options.descriptorLimit} && DENO_NO_UPDATE_CHECK=1 exec "$0" "$@"`;
    command = ["/bin/sh", "-c", start, ...command];
  }
  if (options.namespaces !== undefined) command = ["unshare", ...options.namespaces, ...command];
  const child = deno === undefined ? spawnByNode(command, options) : spawnByDeno(deno, command, options);
  const errors = textOf(child.stderr);
  const lines = readAll(linesOf(child.stdout)).getReader();
  return {
    pid: child.pid,
    nextLine: async () => (await lines.read()).value,
    errors: () => errors,
    kill: child.kill,
    ended: child.ended,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.ended;
      await errors;
      // A process that inherited the output may still have it open, so the remaining output is read only until then.
      while (!(await lines.read()).done);
      await child.closed();
    },
  };
}

function spawnByDeno(deno: DenoNamespace, command: readonly string[], options: StartOptions): Spawned {
  const child = new deno.Command(command[0]!, {
    args: command.slice(1),
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    env: options.env,
  }).spawn();
  let running = true;
  const ended = child.status.then(({ code, signal }) => {
    running = false;
    return signal ?? code;
  });
  return {
    pid: child.pid,
    stdout: child.stdout,
    stderr: child.stderr,
    ended,
    closed: () => Promise.resolve(),
    kill(signal) {
      if (!running) return;
      try {
        child.kill(signal);
      } catch (error) {
        // Deno knows of the end of a process before whoever awaits its status.
        if (!(error instanceof TypeError && /already terminated/.test(error.message))) throw error;
      }
    },
  };
}

function spawnByNode(command: readonly string[], options: StartOptions): Spawned {
  const { child, closed } = watchSockets(() =>
    spawn(command[0]!, command.slice(1), {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, NODE_NO_WARNINGS: "1", ...options.env },
    })
  );
  const ended = new Promise<number | string>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code: number | null, signal: string | null) => resolve(signal ?? code!));
  });
  return {
    pid: child.pid!,
    stdout: child.stdout,
    stderr: child.stderr,
    ended,
    closed,
    kill: (signal) => void child.kill(signal as "SIGKILL"),
  };
}

/**
 * Starts a child with Node's API. `closed` resolves when the runtime has closed its ends of the child's output. Bun
 * reports the end of a child a moment earlier.
 */
export function watchSockets<Child>(start: () => Child): { child: Child; closed(): Promise<void> } {
  const before = openSockets();
  const child = start();
  const sockets = openSockets().difference(before);
  return {
    child,
    async closed() {
      const deadline = performance.now() + closingTimeout;
      while (!openSockets().isDisjointFrom(sockets) && performance.now() < deadline) {
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    },
  };
}

/** The sockets that this process has open, by their names in /proc. */
function openSockets(): Set<string> {
  const sockets = new Set<string>();
  for (const name of readdirSync("/proc/self/fd")) {
    try {
      const target = readlinkSync(`/proc/self/fd/${name}`);
      if (target.startsWith("socket:")) sockets.add(target);
    } catch {
      // The descriptor through which the folder was read.
    }
  }
  return sockets;
}

async function textOf(stream: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) text += decoder.decode(chunk, { stream: true });
  return text;
}

/** Reads from now on, because Node drops the output of a process that ends before anybody has begun to read it. */
function readAll(lines: AsyncIterable<string>): ReadableStream<string> {
  return new ReadableStream({
    async start(controller) {
      for await (const line of lines) controller.enqueue(line);
      controller.close();
    },
  });
}

async function* linesOf(stream: AsyncIterable<Uint8Array>): AsyncGenerator<string, undefined> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop()!;
    yield* lines;
  }
  if (rest !== "") yield rest;
}
