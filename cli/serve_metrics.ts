/**
 * Numbers for programs, over HTTP.
 *
 * @module
 */
import { createServer, type Server } from "node:http";

/** The media type of Prometheus' text format. */
const mediaType = "text/plain; version=0.0.4; charset=utf-8";
/** The only address: whoever else may see the numbers is for another program to decide. */
const address = "127.0.0.1";
/** The maximum number of connections at a time. */
const maximumConnections = 64;

/** Milliseconds from a connection's begin in which it must have asked and read the answer. */
const connectionTimeout = 10_000;

/** A server of metrics. */
export interface MetricsServer extends AsyncDisposable {
  /** Where the metrics are. */
  readonly url: string;
}

/**
 * Answers GET /metrics at a port of 127.0.0.1, and nothing else. Resolves once it listens.
 *
 * @param port 0 for any that is free
 * @param text Returns the metrics. If it throws, the answer is 503 with the error's message.
 * @param options `timeout`: milliseconds after which a connection ends, whatever it does
 */
export async function serveMetrics(
  port: number,
  text: () => string | Promise<string>,
  { timeout = connectionTimeout }: { readonly timeout?: number } = {},
): Promise<MetricsServer> {
  const server = createServer(
    (request, response) => {
      const answer = (status: number, body: string, headers: Record<string, string> = {}): void => {
        response.writeHead(status, { "content-type": "text/plain; charset=utf-8", connection: "close", ...headers });
        response.end(body);
      };
      // A page of another site must not read them, which it could by a name that leads here.
      if (!isLoopback(request.headers.host)) return answer(403, "The metrics are for this machine alone\n");
      const path = request.url?.split("?")[0];
      if (path !== "/metrics") return answer(404, "The metrics are at /metrics\n");
      if (request.method !== "GET") return answer(405, "The metrics can be read with GET\n", { allow: "GET" });
      void Promise.resolve().then(text).then(
        (metrics) => answer(200, metrics, { "content-type": mediaType }),
        (error) => answer(503, `${(error as Error).message}\n`),
      );
    },
  );
  server.maxConnections = maximumConnections;
  // The server's own limits end no connection that does not read, and in some runtimes none that says nothing.
  server.on("connection", (socket) => {
    const timer = setTimeout(() => socket.destroy(), timeout);
    socket.once("close", () => clearTimeout(timer));
  });
  await listen(server, port);
  const { port: actual } = server.address() as { port: number };
  return {
    url: `http://${address}:${actual}/metrics`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Whether a request was made to this machine by a name that leads nowhere else. */
function isLoopback(host: string | undefined): boolean {
  return host === undefined || /^(127\.0\.0\.1|localhost)(:\d+)?$/i.test(host);
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause) => {
      const { code } = cause as { code?: string };
      const why = code === "EADDRINUSE" ? "another program listens there; give another port" : cause.message;
      const problem = code === "EACCES" ? "this user may not; give a port of at least 1024" : why;
      reject(new Error(`Cannot listen at ${address}:${port}: ${problem}`, { cause }));
    });
    server.listen(port, address, () => resolve());
  });
}
