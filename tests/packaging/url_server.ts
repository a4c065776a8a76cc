/**
 * A server on loopback that serves this project, and scripts that import it from there, each in a process of its own.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";

/** Options for running a script. */
export interface RunOptions {
  /** Flags for Deno's permissions, in addition to importing from the server. */
  readonly permissions: readonly string[];
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** The outcome of a script. */
export interface Outcome {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
  /** Each permission that the script requested or queried, whether granted or not. */
  readonly permissions: readonly string[];
}

/** A running script. */
export interface RunningScript {
  /** Resolves with the first line that the script prints. */
  readonly firstLine: Promise<string>;
  readonly outcome: Promise<Outcome>;
  /** Closes the script's standard input. */
  endInput(): void;
}

/** The environment of all scripts, so that they behave the same on a machine with a GPU. */
const variables = { POOLPASS_DRIVER: "software", POOLPASS_SOFTWARE_DEVICES: "2" };

/** A server, and the folder of Deno's cache for it. */
export interface UrlServer extends AsyncDisposable {
  /** A temporary folder, which is deleted when the server is disposed. */
  readonly folder: string;
  /** Starts a script with the given contents, in which `../../` stands for this project. */
  start(script: string, options: RunOptions): RunningScript;
}

const root = new URL("../../", import.meta.url);

/** Returns the contents of a script in the folder from_url. */
export function scriptNamed(name: string): string {
  return readFileSync(new URL(`tests/packaging/from_url/${name}.ts`, root), "utf8");
}

/** Starts a server for this project. */
export async function serveProject(): Promise<UrlServer> {
  const folder = mkdtempSync(join(tmpdir(), "poolpass-url-"));
  const server = createServer((request, response) => {
    try {
      const text = readFileSync(new URL(`.${request.url}`, root));
      response.writeHead(200, { "content-type": "application/typescript" }).end(text);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  let started = 0;
  return {
    folder,
    start(script, options) {
      const name = `script${++started}`;
      const path = join(folder, `${name}.ts`);
      writeFileSync(path, script.replaceAll('"../../', `"http://${host}/`));
      return run({ host, folder, path, audit: join(folder, `${name}.jsonl`) }, options);
    },
    async [Symbol.asyncDispose]() {
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      });
      rmSync(folder, { recursive: true });
    },
  };
}

function run(
  { host, folder, path, audit }: { host: string; folder: string; path: string; audit: string },
  { permissions, args = [], env = {} }: RunOptions,
): RunningScript {
  const flags = ["run", "--no-prompt", "--no-lock", "--no-config", "--quiet", `--allow-import=${host}`];
  const child = spawn(process.execPath, [...flags, ...permissions, path, ...args], {
    cwd: folder,
    env: {
      ...process.env,
      DENO_DIR: join(folder, "cache"),
      DENO_AUDIT_PERMISSIONS: audit,
      NO_COLOR: "1",
      // The server is on this machine, whatever proxy is configured.
      NO_PROXY: "127.0.0.1",
      ...variables,
      ...env,
    },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const outcome = new Promise<Outcome>((resolve, reject) => {
    let output = "", errors = "";
    child.stdout.on("data", (chunk) => output += chunk);
    child.stderr.on("data", (chunk) => errors += chunk);
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, output, errors, permissions: permissionsIn(audit) }));
  });
  const lines = createInterface({ input: child.stdout });
  const firstLine = new Promise<string>((resolve, reject) => {
    lines.once("line", resolve);
    outcome.then(({ errors }) => reject(new Error(`The script printed nothing: ${errors}`)), reject);
  });
  // Without a listener, a rejection would be unhandled. The outcome reports the error as well.
  firstLine.catch(() => {});
  return { firstLine, outcome, endInput: () => child.stdin.end() };
}

function permissionsIn(audit: string): string[] {
  if (!existsSync(audit)) return [];
  const lines = readFileSync(audit, "utf8").trim().split("\n");
  return [...new Set(lines.map((line) => JSON.parse(line).permission as string))].sort();
}
