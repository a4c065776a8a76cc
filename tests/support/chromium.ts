/**
 * Drives Chromium, where it is installed, by its DevTools protocol.
 *
 * @module
 */
import { existsSync } from "node:fs";
import process from "node:process";
import { startCommand } from "./child_process.ts";
import { inFolder } from "./folders.ts";

const program = (process.env.PATH ?? "").split(":").flatMap((folder) =>
  ["chromium", "chromium-browser", "google-chrome"].map((name) => `${folder}/${name}`)
).find((path) => existsSync(path));

/** Why no browser can be started here; undefined if one can. */
export const noChromium: string | undefined = program === undefined ? "there is no Chromium" : undefined;

/** Milliseconds in which something must be so on a page, even on a busy machine. */
const patience = 60_000;

/** An answer of the browser to a command, or an event. */
interface Message {
  readonly id?: number;
  readonly sessionId?: string;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly message: string };
}

/** What a tab looks like. */
export interface TabOptions {
  readonly width?: number;
  readonly height?: number;
  readonly isDark?: boolean;
}

/** A tab of a browser. */
export interface Tab {
  /** Everything that the page has reported as an error or a warning. */
  readonly complaints: readonly string[];
  /** Calls a command of the DevTools protocol. */
  call(method: string, params?: Record<string, unknown>): Promise<Record<string, unknown>>;
  /** Evaluates an expression in the page; waits if it is a promise. */
  evaluate(expression: string): Promise<unknown>;
  /** Waits until an expression is true in the page. */
  until(expression: string): Promise<void>;
  /** Returns a picture of the whole page as PNG. */
  screenshot(): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** A running browser. */
export interface Browser {
  /** Opens a page. Resolves once the tab exists; the page may still be loading. */
  open(url: string, options?: TabOptions): Promise<Tab>;
}

/** Calls the body with a browser, which has no profile and is killed afterwards. */
export function withBrowser(body: (browser: Browser) => Promise<void>): Promise<void> {
  return inFolder(async (folder) => {
    const options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
    const settings = ["--remote-debugging-port=0", `--user-data-dir=${folder}`, "--disable-background-networking"];
    await using child = startCommand(["/bin/sh", "-c", 'exec "$0" "$@" 2>&1', program!, ...options, ...settings]);
    let address: string | undefined;
    while (address === undefined) {
      const line = await child.nextLine();
      if (line === undefined) throw new Error("Chromium ended before it listened");
      address = /^DevTools listening on (ws:.*)$/.exec(line)?.[1];
    }
    const connection = await Connection.open(address);
    await body({ open: (url, options) => openTab(connection, url, options) });
    await connection.call("Browser.close", {});
    await child.ended;
  });
}

class Connection {
  readonly #socket: WebSocket;
  readonly #calls = new Map<number, { resolve(result: Record<string, unknown>): void; reject(error: Error): void }>();
  readonly #listeners = new Map<string, (message: Message) => void>();
  #count = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data as string) as Message;
      if (message.id === undefined) return this.#listeners.get(message.sessionId ?? "")?.(message);
      const call = this.#calls.get(message.id);
      this.#calls.delete(message.id);
      if (message.error !== undefined) call?.reject(new Error(message.error.message));
      else call?.resolve(message.result!);
    };
    socket.onclose = () => {
      for (const { reject } of this.#calls.values()) reject(new Error("Chromium has closed the connection"));
    };
  }

  static open(address: string): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(address);
      socket.onopen = () => resolve(new Connection(socket));
      socket.onerror = () => reject(new Error("Cannot connect to Chromium"));
    });
  }

  call(method: string, params: Record<string, unknown>, sessionId?: string): Promise<Record<string, unknown>> {
    const id = ++this.#count;
    this.#socket.send(JSON.stringify({ id, method, params, ...sessionId === undefined ? {} : { sessionId } }));
    return new Promise((resolve, reject) => this.#calls.set(id, { resolve, reject }));
  }

  listen(sessionId: string, listener: (message: Message) => void): void {
    this.#listeners.set(sessionId, listener);
  }
}

async function openTab(
  connection: Connection,
  url: string,
  { width = 1600, height = 1000, isDark = false }: TabOptions = {},
): Promise<Tab> {
  const { targetId } = await connection.call("Target.createTarget", { url: "about:blank", newWindow: true });
  const attached = await connection.call("Target.attachToTarget", { targetId, flatten: true });
  const sessionId = attached.sessionId as string;
  const complaints: string[] = [];
  connection.listen(sessionId, ({ method, params }) => {
    const text = complaintOf(method!, params!);
    if (text !== undefined) complaints.push(text);
  });
  const call = (method: string, params = {}) => connection.call(method, params, sessionId);
  for (const domain of ["Runtime", "Log", "Page"]) await call(`${domain}.enable`);
  await call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
  const features = [{ name: "prefers-color-scheme", value: isDark ? "dark" : "light" }];
  await call("Emulation.setEmulatedMedia", { features });
  await call("Page.navigate", { url });
  const evaluate = async (expression: string): Promise<unknown> => {
    const answer = await call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (answer.exceptionDetails !== undefined) throw new Error(JSON.stringify(answer.exceptionDetails));
    return (answer.result as { value: unknown }).value;
  };
  return {
    complaints,
    call,
    evaluate,
    async until(expression) {
      const since = performance.now();
      // A page that navigates has no context to evaluate in.
      while (await evaluate(`Boolean(${expression})`).catch(() => false) !== true) {
        if (performance.now() - since < patience) await new Promise((resolve) => setTimeout(resolve, 50));
        else throw new Error(`Not within ${patience} ms: ${expression}; the page complains: ${complaints.join("; ")}`);
      }
    },
    async screenshot() {
      const { data } = await call("Page.captureScreenshot", { captureBeyondViewport: true });
      return Uint8Array.from(atob(data as string), (character) => character.charCodeAt(0));
    },
    async close() {
      await connection.call("Target.closeTarget", { targetId });
    },
  };
}

/** Returns what an event says of an error or a warning; undefined if it is no such event. */
function complaintOf(method: string, params: Record<string, unknown>): string | undefined {
  switch (method) {
    case "Runtime.exceptionThrown":
      return (params.exceptionDetails as { exception?: { description: string } }).exception?.description ??
        "an exception";
    case "Runtime.consoleAPICalled":
      return ["error", "warning", "assert"].includes(params.type as string) ? JSON.stringify(params.args) : undefined;
    case "Log.entryAdded": {
      const { level, text, url } = params.entry as Record<string, string>;
      return level === "error" || level === "warning" ? `${text} ${url}` : undefined;
    }
  }
  return undefined;
}
