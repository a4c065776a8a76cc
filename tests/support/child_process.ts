/**
 * Starts scripts of this folder as processes of their own, in the runtime that the test runs in.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { readdirSync, readlinkSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** A running script. */
export interface ChildProcess extends AsyncDisposable {
  readonly pid: number;
  /** Resolves with the next line of its standard output, or undefined at its end. */
  nextLine(): Promise<string | undefined>;
  /** Resolves with all of its standard error, when it has ended. */
  errors(): Promise<string>;
  kill(signal: "SIGKILL" | "SIGTERM" | "SIGSTOP" | "SIGCONT" | "SIGINT"): void;
  /** Resolves when it has ended: the code, or the name of the signal that killed it. */
  readonly ended: Promise<number | string>;
}

/** Options of `startScript`. */
export interface StartOptions {
  /** As many descriptors as it may have open. */
  readonly descriptorLimit?: number;
  /** Deno's permissions, `--allow-ffi` unless given. */
  readonly permissions?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Where Deno finds what only the tests import; the other runtimes find it by other means. */
const importMap = [
  `--import-map=${fileURLToPath(new URL("../../import_map.json", import.meta.url))}`,
  `--lock=${fileURLToPath(new URL("../../deno.lock", import.meta.url))}`,
  "--frozen",
];

/** Milliseconds that the runtime has to close its ends of a child's output. */
const patience = 3000;

interface Spawned {
  readonly pid: number;
  readonly stdout: AsyncIterable<Uint8Array>;
  readonly stderr: AsyncIterable<Uint8Array>;
  readonly ended: Promise<number | string>;
  /** Resolves when the runtime has nothing open of it. */
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
 * @param path below the folder of the tests, `"children/sharing/socket_peer.ts"`
 */
export function startScript(path: string, args: readonly string[], options: StartOptions = {}): ChildProcess {
  const script = fileURLToPath(new URL(path, new URL("../", import.meta.url)));
  const runtime = deno === undefined
    ? []
    : ["run", "--no-prompt", "--no-check", ...importMap, ...options.permissions ?? ["--allow-ffi"]];
  let command = [process.execPath, ...runtime, script, ...args];
  if (options.descriptorLimit !== undefined) {
    command = ["/bin/sh", "-c", `ulimit -n ${options.descriptorLimit} && exec "$0" "$@"`, ...command];
  }
  const child = deno === undefined ? spawnByNode(command, options) : spawnByDeno(deno, command, options);
  const errors = textOf(child.stderr);
  const lines = linesOf(child.stdout);
  return {
    pid: child.pid,
    nextLine: async () => (await lines.next()).value,
    errors: () => errors,
    kill: child.kill,
    ended: child.ended,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.ended;
      await errors;
      // Whoever inherited its output may still have it open: what comes is not waited for, only let go of.
      while ((await lines.next()).value !== undefined);
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
      if (running) child.kill(signal);
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
 * Starts a child by Node's means. `closed` resolves when the runtime has closed its ends of the child's output, which
 * Bun says that it has a moment before it does.
 */
export function watchSockets<Child>(start: () => Child): { child: Child; closed(): Promise<void> } {
  const before = openSockets();
  const child = start();
  const sockets = openSockets().difference(before);
  return {
    child,
    async closed() {
      const deadline = performance.now() + patience;
      while (!openSockets().isDisjointFrom(sockets) && performance.now() < deadline) {
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    },
  };
}

/** The sockets that this process has open, as the system names them. */
function openSockets(): Set<string> {
  const sockets = new Set<string>();
  for (const name of readdirSync("/proc/self/fd")) {
    try {
      const target = readlinkSync(`/proc/self/fd/${name}`);
      if (target.startsWith("socket:")) sockets.add(target);
    } catch {
      // The descriptor that the folder was read through.
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
