/**
 * Serves metrics over HTTP.
 *
 * @module
 */
import { createServer, type Server, type Socket } from "node:net";

/** The listening address: loopback only. Access from other machines needs a proxy. */
const address = "127.0.0.1";
/** The maximum number of connections. If there are more, the oldest are closed. */
const maximumConnections = 256;
/** The delay in milliseconds before connections in excess of the maximum are closed. */
const endingPause = 10;
/** The maximum number of connections that wait in the kernel's queue until this server accepts them. */
const backlog = 256;
/** The maximum number of connections to which an answer is being sent. Each such answer occupies memory. */
const maximumReceiving = 16;
/** The maximum size of a request in bytes. */
const maximumRequest = 16_384;
/** The maximum lifetime of a connection in milliseconds. */
const connectionTimeout = 10_000;

const plainText = "text/plain; charset=utf-8";
/** The media type of Prometheus' text format. */
const mediaType = "text/plain; version=0.0.4; charset=utf-8";
const reasons = {
  200: "OK",
  400: "Bad Request",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  503: "Service Unavailable",
} as const;

/** A server of metrics. */
export interface MetricsServer extends AsyncDisposable {
  /** The URL of the metrics. */
  readonly url: string;
}

interface Answer {
  readonly status: keyof typeof reasons;
  readonly body: string;
  readonly type?: string;
}

/**
 * Serves GET /metrics at a port of 127.0.0.1. Resolves once the server listens. The runtimes' HTTP servers do not limit
 * connections that send no request or do not read the answer. This server tracks all connections, and closes the oldest
 * if there are too many.
 *
 * @param port the port; 0 for any free one
 * @param text returns the metrics; if it throws, the answer is 503 with the error's message
 * @param options `timeout`: the maximum lifetime of a connection in milliseconds
 */
export async function serveMetrics(
  port: number,
  text: () => string | Promise<string>,
  { timeout = connectionTimeout }: { readonly timeout?: number } = {},
): Promise<MetricsServer> {
  const connections = new Connections();
  // Connections that receive the same metrics share one copy of the encoded text.
  let last = { body: "", bytes: new Uint8Array() };
  const encode = (body: string): Uint8Array => {
    if (body !== last.body) last = { body, bytes: new TextEncoder().encode(body) };
    return last.bytes;
  };
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
      const { status, body, type = plainText } = await answerTo(request, text);
      const bytes = encode(body);
      const head = [
        `HTTP/1.1 ${status} ${reasons[status]}`,
        `content-type: ${type}`,
        `content-length: ${bytes.length}`,
        "connection: close",
        ...status === 405 ? ["allow: GET"] : [],
      ];
      connections.move(socket, "receiving");
      socket.write(`${head.join("\r\n")}\r\n\r\n`);
      socket.end(request.startsWith("HEAD ") ? new Uint8Array() : bytes, () => socket.destroy());
    });
  });
  await listen(server, port);
  const { port: actual } = server.address() as { port: number };
  return {
    url: `http://${address}:${actual}/metrics`,
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

  /** Moves a connection to the group of an activity. */
  move(socket: Socket, activity: Activity): void {
    if (socket.destroyed) return;
    this.delete(socket);
    this.#groups[activity].add(socket);
    const { receiving } = this.#groups;
    if (receiving.size > maximumReceiving) this.#endOldest(receiving);
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

async function answerTo(request: string, text: () => string | Promise<string>): Promise<Answer> {
  const [first, ...lines] = request.split("\r\n");
  const [, method, target] = /^(\S+) (\S+) HTTP\/1\.[01]$/.exec(first!) ?? [];
  if (target === undefined) return { status: 400, body: "This is no request of HTTP/1.1\n" };
  const hosts = lines.filter((line) => /^host:/i.test(line)).map((line) => line.slice("host:".length).trim());
  // Prevents DNS rebinding: a web page of another site could otherwise read the metrics through a host name that
  // resolves to this address.
  if (!hosts.every(isLoopback)) return { status: 403, body: "The metrics are for this machine alone\n" };
  if (target.split("?")[0] !== "/metrics") return { status: 404, body: "The metrics are at /metrics\n" };
  if (method !== "GET") return { status: 405, body: "The metrics can be read with GET\n" };
  try {
    return { status: 200, body: await text(), type: mediaType };
  } catch (error) {
    return { status: 503, body: `${(error as Error).message}\n` };
  }
}

/** Returns whether a Host header names the loopback interface of this machine. */
function isLoopback(host: string): boolean {
  return /^(127\.0\.0\.1|localhost)(:\d+)?$/i.test(host);
}

function listen(server: Server, port: number): Promise<void> {
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
