import type { Buffer } from "node:buffer";
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { SharingError } from "../../../mod.ts";
import { type Content, type ContentSource, serveLoopback } from "../../loopback_server.ts";
import { printable } from "../../status/table.ts";
import type { Sample } from "../sampler.ts";
import { type Change, ChangeLog } from "./change_log.ts";
import { drawStrip } from "./trace_strip.ts";
import { Page } from "./page.js";
import { type PageState, pageStateOf } from "./page_state.ts";
import { icon, pageDocument, style } from "./page_document.ts";

/** The number of random bytes in the URL of a page. */
const tokenByteLength = 24;
/** The number of intervals without a request, and the milliseconds after them, until the connection is closed. */
const [idleIntervals, idlePause] = [3, 1000];
/** The longest time that a timer can wait, in milliseconds. */
const longestPause = 2 ** 31 - 1;
/** The least time between two readings of traces in milliseconds. */
const stripPause = 5000;

const headers = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  // The token in the URL must not reach other sites.
  "referrer-policy": "no-referrer",
} as const;

/** Samples of a listener, such as a `Sampler`. Disposing closes the connection, and the next sample opens another. */
export interface SampleSource extends AsyncDisposable {
  next(): Promise<Sample>;
}

/** The options of `servePage`. */
export interface PageOptions {
  readonly sampler: SampleSource;
  /** The path of the listener, which the page shows. */
  readonly path: string;
  /** The least time between two samples in milliseconds. */
  readonly interval: number;
  /** The trace files that the page shows. */
  readonly traces?: readonly string[];
  /** The maximum lifetime of a connection in milliseconds. */
  readonly timeout?: number;
}

/** A server of a page. */
export interface PageServer extends AsyncDisposable {
  /** The URL of the page, which contains a random token. Who knows it may see the page. */
  readonly url: string;
}

/**
 * Serves a page that shows samples, live, at a port of 127.0.0.1. Resolves once the server listens.
 *
 * @param port the port; 0 for any free one
 */
export async function servePage(port: number, options: PageOptions): Promise<PageServer> {
  const { timeout, traces = [] } = options;
  const interval = Math.min(options.interval, longestPause);
  const settings = JSON.stringify({ interval, hasTrace: traces.length > 0 });
  const samples = new Samples(options);
  const state = atMostEvery(interval, () => samples.take());
  const strip = atMostEvery(stripPause, async () => pictureOf(await drawStrip(traces)));
  const sources: Readonly<Record<string, ContentSource>> = {
    "": fixed(pageDocument, "text/html; charset=utf-8"),
    "page.js": fixed(`new (${Page})(document.body, ${settings});\n`, "text/javascript; charset=utf-8"),
    "page.css": fixed(style, "text/css; charset=utf-8"),
    "icon.svg": fixed(icon, "image/svg+xml"),
    "state": async () => ({ body: await state(), type: "application/json", headers }),
    "trace.svg": strip,
  };
  const token = randomBytes(tokenByteLength).toString("base64url");
  const find = (path: string): ContentSource | undefined => {
    const [, given = "", name] = /^\/([^/]+)\/(.*)$/.exec(path) ?? [];
    return isSame(given, token) && Object.hasOwn(sources, name!) ? sources[name!] : undefined;
  };
  const server = await serveLoopback(port, find, timeout === undefined ? {} : { timeout });
  return {
    url: `${server.origin}/${token}/`,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await samples[Symbol.asyncDispose]();
    },
  };
}

/** Takes samples for the browsers. */
class Samples implements AsyncDisposable {
  readonly #sampler: SampleSource;
  readonly #path: string;
  readonly #interval: number;
  readonly #log = new ChangeLog();
  #taking: Promise<Uint8Array> | undefined;
  #idleTimer: ReturnType<typeof setTimeout> | undefined;

  constructor({ sampler, path, interval }: PageOptions) {
    this.#sampler = sampler;
    this.#path = path;
    this.#interval = interval;
    this.#closeWhenIdle();
  }

  /** Takes a sample, and returns what the page shows of it, encoded. */
  take(): Promise<Uint8Array> {
    clearTimeout(this.#idleTimer);
    const encoded = this.#state().then((state) => new TextEncoder().encode(JSON.stringify(state)));
    return this.#taking = encoded.finally(() => this.#closeWhenIdle());
  }

  /** Returns the state, or why there is none. A browser would report any other answer than 200 as an error. */
  async #state(): Promise<PageState | { readonly problem: string; readonly log: readonly Change[] }> {
    try {
      const sample = await this.#sampler.next();
      this.#log.addSample(sample);
      return pageStateOf(sample, this.#path, this.#log.changes);
    } catch (error) {
      if (!(error instanceof SharingError) && !(error instanceof DOMException)) throw error;
      const problem = printable(error.message);
      this.#log.addProblem(problem);
      return { problem, log: this.#log.changes };
    }
  }

  /** Closes the connection to the listener after a few intervals without a request. */
  #closeWhenIdle(): void {
    const pause = Math.min(idleIntervals * this.#interval + idlePause, longestPause);
    this.#idleTimer = setTimeout(() => void this.#sampler[Symbol.asyncDispose](), pause);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#taking?.catch(() => {});
    clearTimeout(this.#idleTimer);
  }
}

/** Returns a function that calls `take` at most once in `interval` milliseconds: all calls get the latest result. */
function atMostEvery<T>(interval: number, take: () => Promise<T>): () => Promise<T> {
  let [at, isPending] = [-Infinity, false];
  let latest: Promise<T> | undefined;
  return () => {
    if (latest !== undefined && (isPending || performance.now() - at < interval)) return latest;
    [at, isPending] = [performance.now(), true];
    return latest = take().finally(() => isPending = false);
  };
}

/** Returns an SVG whose policy allows only the style that it contains, and no script. */
function pictureOf(svg: string): Content {
  const [, style] = /<style>([^]*?)<\/style>/.exec(svg)!;
  const policy = `default-src 'none'; style-src 'sha256-${digestOf(style!).toString("base64")}'; sandbox`;
  const body = new TextEncoder().encode(svg);
  return { body, type: "image/svg+xml", headers: { ...headers, "content-security-policy": policy } };
}

function fixed(text: string, type: string): ContentSource {
  const content = { body: new TextEncoder().encode(text), type, headers };
  return () => content;
}

/** Compares strings in a time that does not depend on where they differ. */
function isSame(a: string, b: string): boolean {
  return timingSafeEqual(digestOf(a), digestOf(b));
}

function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
