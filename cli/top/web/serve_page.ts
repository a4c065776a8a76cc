import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { SharingError } from "../../../mod.ts";
import { type ContentSource, serveLoopback } from "../../loopback_server.ts";
import { printable } from "../../status/table.ts";
import type { Sample } from "../sampler.ts";
import { Page } from "./page.js";
import { pageStateOf } from "./page_state.ts";
import { icon, pageDocument, style } from "./page_document.ts";

/** The number of random bytes in the URL of a page. */
const tokenByteLength = 24;
/** The number of intervals without a request, and the milliseconds after them, until the connection is closed. */
const [idleIntervals, idlePause] = [3, 1000];

const headers = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  // The token in the URL must not reach other sites.
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
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
export async function servePage(port: number, { path, interval, timeout, sampler }: PageOptions): Promise<PageServer> {
  const samples = new SharedSamples(sampler, { path, interval });
  const sources: Readonly<Record<string, ContentSource>> = {
    "": fixed(pageDocument, "text/html; charset=utf-8"),
    "page.js": fixed(`new (${Page})(document.body, ${interval});\n`, "text/javascript; charset=utf-8"),
    "page.css": fixed(style, "text/css; charset=utf-8"),
    "icon.svg": fixed(icon, "image/svg+xml"),
    "state": async () => ({ body: await samples.state(), type: "application/json", headers }),
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

/** Takes a sample when a browser asks for one, but no more than one in each interval, for all browsers together. */
class SharedSamples implements AsyncDisposable {
  readonly #sampler: SampleSource;
  readonly #path: string;
  readonly #interval: number;
  #last: { readonly state: Uint8Array; readonly at: number } | undefined;
  #next: Promise<Uint8Array> | undefined;
  #idleTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(sampler: SampleSource, { path, interval }: { readonly path: string; readonly interval: number }) {
    this.#sampler = sampler;
    this.#path = path;
    this.#interval = interval;
    this.#closeWhenIdle();
  }

  /** Returns the encoded state of the listener, of which all browsers in an interval receive the same bytes. */
  async state(): Promise<Uint8Array> {
    if (this.#last !== undefined && performance.now() - this.#last.at < this.#interval) return this.#last.state;
    return await (this.#next ??= this.#take().finally(() => this.#next = undefined));
  }

  async #take(): Promise<Uint8Array> {
    clearTimeout(this.#idleTimer);
    const at = performance.now();
    const state = new TextEncoder().encode(JSON.stringify(await this.#sample()));
    this.#last = { state, at };
    this.#closeWhenIdle();
    return state;
  }

  /** Closes the connection to the listener after a while without requests: nothing of it is held for nobody. */
  #closeWhenIdle(): void {
    const pause = idleIntervals * this.#interval + idlePause;
    this.#idleTimer = setTimeout(() => void this.#sampler[Symbol.asyncDispose](), pause);
  }

  /** Returns the state, or why there is none. A browser would report any other answer than 200 as an error. */
  async #sample(): Promise<unknown> {
    try {
      return pageStateOf(await this.#sampler.next(), this.#path);
    } catch (error) {
      if (!(error instanceof SharingError) && !(error instanceof DOMException)) throw error;
      return { time: Date.now(), problem: printable(error.message) };
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#next?.catch(() => {});
    clearTimeout(this.#idleTimer);
    this.#last = undefined;
  }
}

function fixed(text: string, type: string): ContentSource {
  const content = { body: new TextEncoder().encode(text), type, headers };
  return () => content;
}

/** Compares strings in a time that does not depend on where they differ. */
function isSame(a: string, b: string): boolean {
  const digestOf = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digestOf(a), digestOf(b));
}
