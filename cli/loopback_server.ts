/**
 * Serves HTTP to programs on this machine.
 *
 * @module
 */
import { createServer, type Server, type Socket } from "node:net";
import { UsageError } from "./command_line.ts";

/** The listening address: loopback only. Access from other machines needs a proxy. */
const address = "127.0.0.1";
/** The maximum number of connections. If there are more, the oldest are closed. */
const maximumConnections = 256;
/** The delay in milliseconds before connections in excess of the maximum are closed. */
const endingPause = 10;
/** The maximum number of connections that wait in the kernel's queue until this server accepts them. */
const backlog = 256;
/** The number of answers that may be sent at the same time, regardless of their sizes. */
const maximumReceiving = 16;
/** The maximum size in bytes of the answers that are being sent, if they are more than `maximumReceiving`. */
const maximumReceivingByteLength: number = 16 * 2 ** 20;
/** The maximum size of a request in bytes. */
const maximumRequest = 16_384;
/** The maximum lifetime of a connection in milliseconds. */
const connectionTimeout = 10_000;

const plainText = "text/plain; charset=utf-8";
const reasons = {
  200: "OK",
  400: "Bad Request",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  503: "Service Unavailable",
} as const;

/** A server that listens at a port of the loopback interface. */
export interface LoopbackServer extends AsyncDisposable {
  /** The server's URL without a path: `"http://127.0.0.1:9400"`. */
  readonly origin: string;
}

/** What a server answers to a GET request. */
export interface Content {
  readonly body: string | Uint8Array;
  /** The media type of the body. */
  readonly type: string;
  /** More headers, by their names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Returns the content at a path. If it throws, the answer is 503 with the error's message. */
export type ContentSource = () => Content | Promise<Content>;

interface Answer extends Content {
  readonly status: keyof typeof reasons;
}

/**
 * Converts the value of an option to a port.
 *
 * @throws {UsageError} If it is none
 */
export function readPort(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) < 65_536) return Number(text);
  throw new UsageError(`The port is "${text}", and must be a number from 0 to 65535`);
}

/**
 * Answers GET requests at a port of 127.0.0.1. Resolves once the server listens. The runtimes' HTTP servers do not limit
 * connections that send no request or do not read the answer. This server tracks all connections, and closes the oldest
 * if there are too many.
 *
 * @param port the port; 0 for any free one
 * @param find returns the content source of a path, or undefined if the path does not exist
 * @param options `timeout`: the maximum lifetime of a connection in milliseconds
 */
export async function serveLoopback(
  port: number,
  find: (path: string) => ContentSource | undefined,
  { timeout = connectionTimeout }: { readonly timeout?: number } = {},
): Promise<LoopbackServer> {
  const connections = new Connections();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const timer = setTimeout(() => socket.destroy(), timeout);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => {
      clearTimeout(timer);
      connections.delete(socket);
    });
    connections.add(socket);
    void requestOf(socket).then(async (request) => {
      connections.move(socket, "waiting");
      const { status, body, type, headers = {} } = await answerTo(request, find);
      const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
      const head = [
        `HTTP/1.1 ${status} ${reasons[status]}`,
        `content-type: ${type}`,
        `content-length: ${bytes.length}`,
        "connection: close",
        "cross-origin-resource-policy: same-origin",
        "x-content-type-options: nosniff",
        ...status === 405 ? ["allow: GET"] : [],
        ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      ];
      connections.move(socket, "receiving", bytes.length);
      socket.write(`${head.join("\r\n")}\r\n\r\n`);
      socket.end(request.startsWith("HEAD ") ? new Uint8Array() : bytes, () => socket.destroy());
    });
  });
  await listen(server, port);
  const { port: actual } = server.address() as { port: number };
  return {
    origin: `http://${address}:${actual}`,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      connections.end();
      await closed;
    },
  };
}

/**
 * The state of a connection: the client is sending its request ("requesting"), waiting for the answer to be computed
 * ("waiting"), or receiving the answer ("receiving").
 */
type Activity = "requesting" | "waiting" | "receiving";

/** The connections, grouped by activity. In each group, the oldest is first. */
class Connections {
  readonly #groups: Readonly<Record<Activity, Set<Socket>>> = {
    requesting: new Set(),
    waiting: new Set(),
    receiving: new Set(),
  };
  /**
   * Whether there are more than `maximumConnections` connections. If so, a timer that closes some of them is running.
   */
  #isOverflowing = false;
  /** The connections that were open at the end of the last call of `#endSome`. */
  #known: ReadonlySet<Socket> = new Set();
  /** The sizes of the answers that are being sent, in bytes. */
  readonly #sizes = new WeakMap<Socket, number>();

  /** Adds a new connection. */
  add(socket: Socket): void {
    this.#groups.requesting.add(socket);
    if (this.#isOverflowing || this.#size <= maximumConnections) return;
    this.#isOverflowing = true;
    setTimeout(() => this.#endSome(), endingPause);
  }

  get #size(): number {
    return Object.values(this.#groups).reduce((count, { size }) => count + size, 0);
  }

  /**
   * Closes the oldest connection of the largest group until at most `maximumConnections` are left. Keeps connections
   * that were accepted since the last call, because their requests may still be unread.
   */
  #endSome(): void {
    const groups = Object.values(this.#groups);
    while (this.#size > maximumConnections) {
      const largest = groups.reduce((largest, each) => each.size > largest.size ? each : largest);
      const [oldest] = largest;
      if (!this.#known.has(oldest!)) break;
      this.#endOldest(largest);
    }
    this.#isOverflowing = this.#size > maximumConnections;
    this.#known = new Set(this.#isOverflowing ? groups.flatMap((group) => [...group]) : []);
    if (this.#isOverflowing) setTimeout(() => this.#endSome(), endingPause);
  }

  /** Moves a connection to the group of an activity. `byteLength` is the size of the answer that it receives. */
  move(socket: Socket, activity: Activity, byteLength = 0): void {
    if (socket.destroyed) return;
    this.delete(socket);
    this.#groups[activity].add(socket);
    this.#sizes.set(socket, byteLength);
    const { receiving } = this.#groups;
    while (receiving.size > maximumReceiving && this.#receivingByteLength > maximumReceivingByteLength) {
      this.#endOldest(receiving);
    }
  }

  get #receivingByteLength(): number {
    return [...this.#groups.receiving].reduce((sum, socket) => sum + this.#sizes.get(socket)!, 0);
  }

  #endOldest(group: ReadonlySet<Socket>): void {
    const [oldest] = group;
    this.delete(oldest!);
    oldest!.destroy();
  }

  /** Removes a connection from its group, without closing it. */
  delete(socket: Socket): void {
    for (const group of Object.values(this.#groups)) group.delete(socket);
  }

  /** Closes all connections. */
  end(): void {
    for (const group of Object.values(this.#groups)) for (const socket of [...group]) socket.destroy();
  }
}

/**
 * Resolves to the head of the first request on a connection, or to "" if the head is too long. Ignores all later bytes.
 */
function requestOf(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let received = "";
    let isOver = false;
    socket.setEncoding("latin1").on("data", (part: string) => {
      if (isOver) return;
      received += part;
      const end = received.indexOf("\r\n\r\n");
      if (end >= 0) resolve(received.slice(0, end));
      else if (received.length > maximumRequest) resolve("");
      isOver = end >= 0 || received.length > maximumRequest;
    });
    // Do not close the connection if its request is complete: the client may have closed only its sending side, and may
    // still read the answer.
    socket.on("end", () => isOver || socket.destroy());
  });
}

async function answerTo(
  request: string,
  find: (path: string) => ContentSource | undefined,
): Promise<Answer> {
  const [first, ...lines] = request.split("\r\n");
  const [, method, target] = /^(\S+) (\S+) HTTP\/1\.[01]$/.exec(first!) ?? [];
  if (target === undefined) return refusal(400, "This is no request of HTTP/1.1");
  const valuesOf = (name: string) =>
    lines.filter((line) => line.toLowerCase().startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trim());
  const hosts = valuesOf("host");
  // Prevents DNS rebinding: a web page of another site could otherwise read the answers through a host name that
  // resolves to this address.
  if (!hosts.every(isLoopback)) return refusal(403, "This server is for this machine alone");
  if (!valuesOf("origin").every((origin) => origin === `http://${hosts[0]}`)) {
    return refusal(403, "This server is not for the pages of other sites");
  }
  const source = find(target.split("?")[0]!);
  if (source === undefined) return refusal(404, "There is nothing at this path");
  if (method !== "GET") return refusal(405, "This can be read with GET");
  try {
    return { status: 200, ...await source() };
  } catch (error) {
    return refusal(503, (error as Error).message);
  }
}

function refusal(status: Answer["status"], why: string): Answer {
  return { status, body: `${why}\n`, type: plainText };
}

/** Returns whether a Host header names the loopback interface of this machine. */
function isLoopback(host: string): boolean {
  return /^(127\.0\.0\.1|localhost)(:\d+)?$/i.test(host);
}

interface DenoPermissions {
  requestSync(descriptor: { name: "net"; host: string }): { state: string };
}

/** Asks for Deno's permission to listen: without it, Deno throws where nothing can catch that. */
function requestPermission(port: number): void {
  const { Deno: deno } = globalThis as { Deno?: { permissions: DenoPermissions } };
  const state = deno?.permissions.requestSync({ name: "net", host: `${address}:${port}` }).state;
  if (state === undefined || state === "granted") return;
  throw new Error(`Cannot listen at ${address}:${port}: Deno does not permit it; run it with --allow-net=${address}`);
}

function listen(server: Server, port: number): Promise<void> {
  requestPermission(port);
  return new Promise((resolve, reject) => {
    server.once("error", (cause) => {
      const { code } = cause as { code?: string };
      const why = code === "EADDRINUSE" ? "another program listens there; give another port" : cause.message;
      const problem = code === "EACCES" ? "this user may not; give a port of at least 1024" : why;
      reject(new Error(`Cannot listen at ${address}:${port}: ${problem}`, { cause }));
    });
    server.listen(port, address, backlog, () => resolve());
  });
}
