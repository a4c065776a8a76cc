import { SharingError } from "../../support/errors.ts";
import { checkMilliseconds } from "../../support/validation.ts";
import { throwIfAborted } from "../../support/waiting/waiting.ts";
import { greet } from "../protocol/handshake.ts";
import { MessageStream } from "../protocol/message_stream.ts";
import type { ImporterOptions } from "./importer.ts";
import { UnixSocket } from "../transport/unix_socket.ts";
import { checkUser } from "../transport/users.ts";

/** Connects to the exporter at a path, checks its user and greets it. The stream is paused until it is started. */
export async function connectToExporter(path: string, options: ImporterOptions): Promise<MessageStream> {
  const { signal, users = [] } = options;
  const handshakeTimeout = checkMilliseconds(options.handshakeTimeout ?? 5000, "handshakeTimeout");
  const messageTimeout = checkMilliseconds(options.messageTimeout ?? 5000, "messageTimeout");
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
    await greet(stream, { handshakeTimeout, since, signal: signal! });
  } catch (error) {
    stream.process[Symbol.dispose]();
    throw error;
  }
  return stream;
}

/** Connects within a time limit: the backlog of a process that is stopped may be full, and stays so. */
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
    return await UnixSocket.connect(path, { signal: ending.signal });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}
