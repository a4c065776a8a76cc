/**
 * A client of Jupyter kernels: starts Deno's kernel and executes cells. It speaks ZeroMQ's protocol itself, as far as a
 * kernel on the same machine needs it, because the native packages of ZeroMQ are not to be had everywhere.
 *
 * @see https://rfc.zeromq.org/spec/23/
 * @see https://jupyter-client.readthedocs.io/en/stable/messaging.html
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

/** What a cell has shown. */
export interface CellOutput {
  /** `"execute_result"`, `"display_data"`, `"stream"` or `"error"`. */
  readonly type: string;
  readonly data: Readonly<Record<string, string>>;
  readonly text: string;
}

interface JupyterMessage {
  readonly header: { readonly msg_type: string };
  readonly parent: { readonly msg_id?: string };
  readonly content: Readonly<Record<string, unknown>>;
}

/** How long a kernel may run, in milliseconds. */
const timeout = 120_000;
const delimiter = "<IDS|MSG>";
const more = 1, long = 2, command = 4;

/** One end of a connection that speaks ZMTP 3.0 without security. */
class MessageSocket {
  readonly #socket: Socket;
  readonly #chunks: AsyncIterator<Uint8Array>;
  #received: Uint8Array = new Uint8Array(0);

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.#chunks = socket[Symbol.asyncIterator]();
  }

  /** Connects to a port of this machine. Tries again while nobody listens and `isWanted` returns true. */
  static async connect(port: number, type: "DEALER" | "SUB", isWanted: () => boolean): Promise<MessageSocket> {
    const socket = connect(port, "127.0.0.1");
    try {
      await once(socket, "connect");
    } catch (error) {
      if (!isWanted()) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
      return await MessageSocket.connect(port, type, isWanted);
    }
    const end = new MessageSocket(socket);
    const greeting = new Uint8Array(64);
    greeting.set([0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0]);
    greeting.set(new TextEncoder().encode("NULL"), 12);
    socket.write(greeting);
    await end.#read(greeting.length);
    end.#sendFrame(
      command,
      Buffer.concat([
        Buffer.from("\x05READY\x0bSocket-Type\0\0\0"),
        Buffer.from([type.length]),
        Buffer.from(type),
      ]),
    );
    await end.#frame();
    if (type === "SUB") end.#sendFrame(0, Uint8Array.of(1));
    return end;
  }

  /** Sends a message of several parts. */
  send(parts: readonly string[]): void {
    parts.forEach((part, index) => this.#sendFrame(index + 1 < parts.length ? more : 0, Buffer.from(part)));
  }

  /** Receives a message. */
  async receive(): Promise<string[]> {
    const parts: string[] = [];
    for (;;) {
      const { flags, body } = await this.#frame();
      if ((flags & command) === 0) parts.push(new TextDecoder().decode(body));
      if ((flags & (more | command)) === 0) return parts;
    }
  }

  close(): void {
    this.#socket.destroy();
  }

  #sendFrame(flags: number, body: Uint8Array): void {
    const size = Buffer.alloc(8);
    size.writeBigUInt64BE(BigInt(body.length));
    this.#socket.write(Buffer.concat([Uint8Array.of(flags | long), size, body]));
  }

  async #frame(): Promise<{ flags: number; body: Uint8Array }> {
    const [flags] = await this.#read(1);
    const size = await this.#read((flags! & long) === 0 ? 1 : 8);
    const body = await this.#read(size.reduce((sum, byte) => sum * 256 + byte, 0));
    return { flags: flags!, body };
  }

  async #read(byteLength: number): Promise<Uint8Array> {
    while (this.#received.length < byteLength) {
      const { value, done } = await this.#chunks.next();
      if (done) throw new Error("The kernel has ended the connection");
      this.#received = Buffer.concat([this.#received, value]);
    }
    const bytes = this.#received.subarray(0, byteLength);
    this.#received = this.#received.subarray(byteLength);
    return bytes;
  }
}

/** A kernel of Deno. */
export class JupyterKernel implements AsyncDisposable {
  readonly #end: () => Promise<void>;
  readonly #shell: MessageSocket;
  readonly #published: MessageSocket;
  /** What each cell has shown, by the identifier of its request. */
  readonly #outputs = new Map<string | undefined, CellOutput[]>();
  #count = 0;

  private constructor(shell: MessageSocket, published: MessageSocket, end: () => Promise<void>) {
    this.#shell = shell;
    this.#published = published;
    this.#end = end;
  }

  /** Starts a kernel whose working directory is `folder`. */
  static async start(deno: string, folder: string): Promise<JupyterKernel> {
    const names = ["shell_port", "iopub_port", "stdin_port", "control_port", "hb_port"] as const;
    const ports = await freePorts(names.length);
    const [shellPort, publishedPort] = ports as [number, number];
    const scratch = mkdtempSync(join(tmpdir(), "poolpass-notebook-"));
    const file = join(scratch, "connection.json");
    const numbers = Object.fromEntries(names.map((name, index) => [name, ports[index]]));
    const connection = { transport: "tcp", ip: "127.0.0.1", key: "", signature_scheme: "hmac-sha256", ...numbers };
    writeFileSync(file, JSON.stringify(connection));
    const options = { cwd: folder, stdio: "ignore", timeout, killSignal: "SIGKILL" } as const;
    const child = spawn(deno, ["jupyter", "--kernel", "--conn", file], options);
    const exited = once(child, "exit");
    const isRunning = () => child.exitCode === null;
    const end = async () => {
      child.kill("SIGKILL");
      await exited;
      rmSync(scratch, { recursive: true });
    };
    try {
      const published = await MessageSocket.connect(publishedPort, "SUB", isRunning);
      const kernel = new JupyterKernel(await MessageSocket.connect(shellPort, "DEALER", isRunning), published, end);
      await kernel.#subscribed();
      return kernel;
    } catch (error) {
      await end();
      throw error;
    }
  }

  /** Resolves when the kernel knows the subscription: what it publishes before that is lost, even a part of a cell. */
  async #subscribed(): Promise<void> {
    let latest = this.#request("0", { silent: true });
    const timer = setInterval(() => latest = this.#request("0", { silent: true }), 100);
    for (;;) {
      const { header: { msg_type: type }, parent, content } = messageOf(await this.#published.receive());
      clearInterval(timer);
      if (parent.msg_id === latest && type === "status" && content.execution_state === "idle") return;
    }
  }

  /** Sends a cell. Returns the message's identifier. */
  #request(code: string, { silent }: { silent: boolean }): string {
    const identifier = `${process.pid}-${this.#count++}`;
    const header = {
      msg_id: identifier,
      msg_type: "execute_request",
      session: "test",
      username: "test",
      date: new Date().toISOString(),
      version: "5.3",
    };
    const content = { code, silent, store_history: !silent, user_expressions: {}, allow_stdin: false };
    this.#shell.send([delimiter, "", ...[header, {}, {}, content].map((part) => JSON.stringify(part))]);
    return identifier;
  }

  /**
   * Executes a cell, and resolves with what it shows when it is done. Deno may publish a result later than that: it is
   * added while the next cell is executed.
   */
  async execute(code: string): Promise<CellOutput[]> {
    const identifier = this.#request(code, { silent: false });
    this.#outputs.set(identifier, []);
    for (;;) {
      const { header: { msg_type: type }, parent, content } = messageOf(await this.#published.receive());
      const outputs = this.#outputs.get(parent.msg_id);
      if (outputs === undefined) continue;
      if (type === "status" && content.execution_state === "idle" && parent.msg_id === identifier) return outputs;
      const { data = {}, text = "", ename, evalue } = content as Record<string, never>;
      if (type === "error") outputs.push({ type, data, text: `${ename}: ${evalue}` });
      else if (type !== "status" && type !== "execute_input") outputs.push({ type, data, text });
    }
  }

  /** Ends the kernel. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#shell.close();
    this.#published.close();
    await this.#end();
  }
}

function messageOf(parts: readonly string[]): JupyterMessage {
  const [header, parent, , content] = parts.slice(parts.indexOf(delimiter) + 2).map((part) => JSON.parse(part));
  return { header, parent, content };
}

async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(Array.from({ length: count }, async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    return server;
  }));
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => once(server.close(), "close")));
  return ports;
}
