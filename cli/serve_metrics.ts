import { serveLoopback } from "./loopback_server.ts";

/** The media type of Prometheus' text format. */
const mediaType = "text/plain; version=0.0.4; charset=utf-8";

/** A server of metrics. */
export interface MetricsServer extends AsyncDisposable {
  /** The URL of the metrics. */
  readonly url: string;
}

/**
 * Serves GET /metrics at a port of 127.0.0.1. Resolves once the server listens.
 *
 * @param port the port; 0 for any free one
 * @param text returns the metrics; if it throws, the answer is 503 with the error's message
 * @param options `timeout`: the maximum lifetime of a connection in milliseconds
 */
export async function serveMetrics(
  port: number,
  text: () => string | Promise<string>,
  options: { readonly timeout?: number } = {},
): Promise<MetricsServer> {
  // Connections that receive the same metrics share one copy of the encoded text.
  let last = { text: "", body: new Uint8Array() };
  const metrics = async () => {
    const current = await text();
    if (current !== last.text) last = { text: current, body: new TextEncoder().encode(current) };
    return { body: last.body, type: mediaType };
  };
  const server = await serveLoopback(port, (path) => path === "/metrics" ? metrics : undefined, options);
  return { url: `${server.origin}/metrics`, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}
