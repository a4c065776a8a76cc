/**
 * TCP between two programs that do not trust each other's bytes: what a peer may send is limited before it arrives, and
 * no read waits longer than it says.
 *
 * @module
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { UsageError } from "./command_line.ts";

/** More than either program sends before it is answered, in bytes. */
const mostUnread = 1024;
const connectSeconds = 10;
const reconnectMilliseconds = 100;

/** Where to listen, or to connect to. */
export interface TcpAddress {
  readonly host: string;
  readonly port: number;
}

/** What to wait for, and how long. */
export interface Patience {
  readonly seconds: number;
  /** As it follows "waited 10 s for". */
  readonly waitingFor: string;
  readonly signal?: AbortSignal;
}

/** Parses `HOST:PORT`, or `[HOST]:PORT` for IPv6. */
export function parseAddress(text: string): TcpAddress {
  const [, bracketed, plain, digits] = /^(?:\[([0-9a-fA-F:.]+)\]|([^:\s]+)):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535) {
    throw new UsageError(`Cannot use "${text}" as an address: it must be a host and a port, such as 127.0.0.1:7000`);
  }
  return { host: bracketed ?? plain!, port };
}

/** A connection. */
export class TcpConnection implements Disposable {
  readonly #socket: Socket;
  #unread: Uint8Array = new Uint8Array(0);
  #end: Error | undefined;
  #wake: () => void = () => {};

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (bytes: Uint8Array) => {
      if (this.#unread.length + bytes.length > mostUnread) {
        this.#finish(new Error("The other program sends more than it may"));
        socket.destroy();
        return;
      }
      const joined = new Uint8Array(this.#unread.length + bytes.length);
      joined.set(this.#unread);
      joined.set(bytes, this.#unread.length);
      this.#unread = joined;
      this.#wake();
    });
    socket.on("error", (cause) => this.#finish(new Error(`The connection has failed: ${cause.message}`, { cause })));
    for (const event of ["end", "close"]) {
      socket.on(event, () => this.#finish(new Error("The other program has closed the connection")));
    }
  }

  /** Connects to a program that listens, or that starts to listen within ten seconds. */
  static async connect({ host, port }: TcpAddress, signal: AbortSignal): Promise<TcpConnection> {
    const deadline = performance.now() + connectSeconds * 1000;
    for (;;) {
      const socket = connect({ host, port });
      try {
        await settled(socket, "connect", { seconds: connectSeconds, waitingFor: `${host}:${port}`, signal });
        return new TcpConnection(socket);
      } catch (error) {
        socket.on("error", () => {}).destroy();
        if (!isRefusal(error) || performance.now() > deadline) throw error;
      }
      await sleep(reconnectMilliseconds, undefined, { signal });
    }
  }

  /** Waits for exactly `byteLength` bytes. */
  async receive(byteLength: number, { seconds, waitingFor, signal }: Patience): Promise<Uint8Array> {
    const deadline = performance.now() + seconds * 1000;
    while (this.#unread.length < byteLength) {
      if (this.#end !== undefined) throw this.#end;
      signal?.throwIfAborted();
      const left = deadline - performance.now();
      if (left <= 0) throw new Error(`Cannot continue: waited ${seconds} s for ${waitingFor}`);
      await this.#change(left, signal);
    }
    const bytes = this.#unread.slice(0, byteLength);
    this.#unread = this.#unread.slice(byteLength);
    return bytes;
  }

  /** Sends bytes, of which the system has room for a few. */
  send(bytes: Uint8Array): void {
    if (this.#end === undefined) this.#socket.write(bytes);
  }

  /** Calls back when the other program ends, or has ended. */
  onEnd(callback: (reason: Error) => void): void {
    if (this.#end !== undefined) callback(this.#end);
    else this.#socket.once("close", () => callback(this.#end!));
  }

  /** Closes the connection once what was sent is on its way. */
  [Symbol.dispose](): void {
    this.#socket.end(() => this.#socket.destroy());
  }

  #finish(reason: Error): void {
    this.#end ??= reason;
    this.#wake();
  }

  /** Waits until something has arrived, the connection has ended, or the time is over. */
  #change(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#wake(), milliseconds);
      const wake = () => this.#wake();
      this.#wake = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", wake);
        this.#wake = () => {};
        resolve();
      };
      signal?.addEventListener("abort", wake);
    });
  }
}

/** Accepts one connection after another. */
export class TcpListener implements Disposable {
  readonly #server: Server;
  readonly #signal: AbortSignal;

  private constructor(server: Server, signal: AbortSignal) {
    this.#server = server;
    this.#signal = signal;
  }

  /** Listens at an address; at a free port for port 0. */
  static async listen({ host, port }: TcpAddress, signal: AbortSignal): Promise<TcpListener> {
    const server = createServer({ pauseOnConnect: true });
    server.maxConnections = 8;
    server.listen({ host, port });
    await settled(server, "listening", { seconds: connectSeconds, waitingFor: `${host}:${port}`, signal });
    return new TcpListener(server, signal);
  }

  /** `HOST:PORT` where it listens. */
  get address(): string {
    const found = this.#server.address() as { address: string; port: number };
    return `${found.address.includes(":") ? `[${found.address}]` : found.address}:${found.port}`;
  }

  /** The connections, until the signal is aborted. Each is closed before the next one is taken. */
  async *[Symbol.asyncIterator](): AsyncGenerator<TcpConnection> {
    const waiting: Socket[] = [];
    let wake = () => {};
    const accept = (socket: Socket) => {
      // What a connection that waits does is of no interest, until it is its turn.
      socket.on("error", () => {});
      waiting.push(socket);
      wake();
    };
    const stop = () => wake();
    this.#server.on("connection", accept);
    this.#signal.addEventListener("abort", stop);
    try {
      for (;;) {
        this.#signal.throwIfAborted();
        const socket = waiting.shift();
        if (socket === undefined) {
          await new Promise<void>((resolve) => wake = resolve);
          continue;
        }
        using connection = new TcpConnection(socket);
        socket.resume();
        yield connection;
      }
    } finally {
      this.#server.off("connection", accept);
      this.#signal.removeEventListener("abort", stop);
      for (const socket of waiting) socket.destroy();
    }
  }

  [Symbol.dispose](): void {
    this.#server.close();
  }
}

/** Whether nothing listens at the address that an error of `settled` is about. */
function isRefusal(error: unknown): boolean {
  return ((error as Error).cause as { code?: string } | undefined)?.code === "ECONNREFUSED";
}

/** Waits for an event of a socket or a server, or throws its error. */
function settled(
  emitter: Socket | Server,
  event: string,
  { seconds, waitingFor, signal }: Patience,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const late = new Error(`Cannot continue: waited ${seconds} s for ${waitingFor}`);
  const timer = setTimeout(() => reject(late), seconds * 1000);
  const abort = () => reject(signal!.reason);
  const fail = (cause: Error) => reject(new Error(`Cannot use ${waitingFor}: ${cause.message}`, { cause }));
  emitter.once(event, () => resolve());
  emitter.once("error", fail);
  signal?.addEventListener("abort", abort);
  return promise.finally(() => {
    clearTimeout(timer);
    emitter.off("error", fail);
    signal?.removeEventListener("abort", abort);
  });
}
