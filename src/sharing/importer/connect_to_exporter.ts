import { noteConnection } from "../../sanitizer/notifications.ts";
import { SharingError } from "../../support/errors.ts";
import { isLogging, logEvent } from "../../support/event_log.ts";
import { checkMilliseconds, whatIs } from "../../support/validation.ts";
import { throwIfAborted, type WaitOptions } from "../../support/waiting/waiting.ts";
import { delay } from "../../support/waiting/timer.ts";
import { greet } from "../protocol/handshake.ts";
import { MessageStream } from "../protocol/message_stream.ts";
import type { ConnectionRole } from "../protocol/messages.ts";
import type { ImporterOptions } from "./importer.ts";
import { connectUnnoted, mayListenLater, type UnixSocket } from "../transport/unix_socket.ts";
import { checkUser } from "../transport/users.ts";
import { TypeError } from "../../support/program_errors.ts";

/** Milliseconds between the first failed attempt to connect and the second attempt. */
const firstPause = 5;
/** The maximum pause between two attempts to connect, in milliseconds. */
const longestPause = 100;

/** The validated options of a connection. */
interface ConnectionOptions extends WaitOptions {
  readonly users: readonly number[];
  readonly role: ConnectionRole | undefined;
  readonly handshakeTimeout: number;
  readonly messageTimeout: number;
}

/**
 * Connects to the exporter at a path, checks its user and performs the handshake. If `options.wait` is true, first
 * waits until an exporter listens. The returned stream delivers no messages until it is started. If `isUnwanted`
 * returns true after an attempt to connect, closes the connection and returns undefined.
 */
export async function connectToExporter(
  path: string,
  options: ImporterOptions & { readonly role?: ConnectionRole },
  isUnwanted: () => boolean,
): Promise<MessageStream | undefined> {
  const { signal, users = [], handshakeTimeout = 5000, messageTimeout = 5000, wait = false, role } = options;
  if (typeof wait !== "boolean") {
    throw new TypeError(
      `Cannot use ${whatIs(wait)} as wait: give true to wait for an exporter${limitOf(wait)}, or false`,
    );
  }
  const checked: ConnectionOptions = {
    ...signal === undefined ? {} : { signal },
    users,
    role,
    handshakeTimeout: checkMilliseconds(handshakeTimeout, "handshakeTimeout"),
    messageTimeout: checkMilliseconds(messageTimeout, "messageTimeout"),
  };
  // Poll, because watching for the socket's file does not suffice: the file's folder may not exist yet, and a stale
  // socket file looks the same as one in use.
  for (let pause = firstPause;; pause = Math.min(pause * 2, longestPause)) {
    try {
      const stream = await connectOnce(path, checked);
      if (!isUnwanted()) return stream;
      stream.end("done");
      stream.process[Symbol.dispose]();
      return undefined;
    } catch (error) {
      const isAbsent = mayListenLater(path, error);
      if (!wait) throw isAbsent ? withHint(error as SharingError, role) : error;
      const hasEnded = error instanceof SharingError && error.code === "peer-gone";
      if (!isAbsent && !hasEnded) throw error;
      if (isLogging && pause === firstPause) logEvent("importer-wait", { path });
    }
    await delay(pause, checked.signal, `an exporter at ${path}`);
    if (isUnwanted()) return undefined;
  }
}

/**
 * Returns the part of an error message that explains how to limit a wait, if the application passed a number of
 * milliseconds as `wait`; otherwise "".
 */
function limitOf(wait: unknown): string {
  return typeof wait === "number" && wait > 0 ? `, limited by signal: AbortSignal.timeout(${wait})` : "";
}

/** Returns the error for an absent listener, with advice on how to wait for the listener appended to its message. */
function withHint({ code, message, cause }: SharingError, role: ConnectionRole | undefined): SharingError {
  const connector = role === "store-client" ? "StoreClient" : role === "operator" ? "Operator" : "Importer";
  return new SharingError(code, `${message}; with { wait: true }, ${connector}.connect waits for it`, { cause });
}

async function connectOnce(
  path: string,
  { signal, users, role, handshakeTimeout, messageTimeout }: ConnectionOptions,
): Promise<MessageStream> {
  const since = performance.now();
  const socket = await connectWithin(handshakeTimeout, path, signal);
  let stream: MessageStream;
  try {
    checkUser(`use what process ${socket.peer.pid} offers at ${path}`, socket.peer, users);
    stream = new MessageStream(socket, { messageTimeout });
  } catch (error) {
    await socket[Symbol.asyncDispose]();
    throw error;
  }
  try {
    await greet(stream, { handshakeTimeout, since, path, role, signal: signal! });
  } catch (error) {
    stream.process[Symbol.dispose]();
    throw error;
  }
  // Connections of store clients and of operators carry no events, so they establish no ordering between streams.
  if (role === undefined) noteConnection(socket.peer.pid);
  return stream;
}

/**
 * Connects within a time limit. Connecting blocks while the listener's backlog is full, possibly forever if the
 * listener's process is stopped.
 */
async function connectWithin(
  milliseconds: number,
  path: string,
  signal: AbortSignal | null | undefined,
): Promise<UnixSocket> {
  throwIfAborted(signal);
  const ending = new AbortController();
  const onAbort = (): void => ending.abort(signal!.reason);
  signal?.addEventListener("abort", onAbort);
  const timer = setTimeout(() => {
    const text = `Cannot connect to ${path}: the process that listens there did not accept within ${milliseconds} ms`;
    ending.abort(new SharingError("timed-out", `${text}; check whether it is stopped`));
  }, milliseconds);
  try {
    return await connectUnnoted(path, { signal: ending.signal });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}
