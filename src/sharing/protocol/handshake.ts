/**
 * The handshake: the first messages of a connection.
 *
 * @module
 */
import { SharingError } from "../../support/errors.ts";
import { abortError, type WaitOptions } from "../../support/waiting/waiting.ts";
import { isGoodbye, type MessageStream } from "./message_stream.ts";
import { type ConnectionRole, type Message, protocolVersions, reasonOfError, versionsText } from "./messages.ts";

/** Options of a handshake. */
export interface HandshakeOptions extends WaitOptions {
  /** The time limit for the whole handshake, in milliseconds. */
  readonly handshakeTimeout: number;
  /** The `performance.now()` time at which the handshake began. Defaults to the time of the call. */
  readonly since?: number;
  /** The path at which the peer listens, for error messages; absent on the listener's side. */
  readonly path?: string;
}

/**
 * Performs the connecting side of the handshake: sends HELLO and waits for WELCOME. Afterwards, the stream is paused
 * until `start` is called again. If the promise is rejected, the stream has ended.
 *
 * @throws {SharingError} `version-mismatch`, `timed-out`, `bad-message`, `peer-gone`, `not-permitted` and others
 */
export async function greet(
  stream: MessageStream,
  options: HandshakeOptions & { readonly role?: ConnectionRole | undefined },
): Promise<void> {
  const { role } = options;
  const { lowest, highest } = protocolVersions;
  const versions = { lowestVersion: lowest, highestVersion: highest };
  stream.send({ type: "hello", ...versions, ...role === undefined ? {} : { role } });
  await firstMessage(stream, options, (message) => {
    if (message.type !== "welcome") throw unexpected(stream, message, "welcome");
    const { version } = message;
    if (version < lowest || version > highest) throw versionMismatch(stream, `chose version ${version}`);
    stream.version = version;
  });
}

/**
 * Performs the listening side of the handshake: waits for HELLO and sends WELCOME. Afterwards, the stream is paused
 * until `start` is called again. If the promise is rejected, the stream has ended.
 *
 * @param options `beforeWelcome` is called after a valid HELLO, and may throw to reject the peer
 * @throws {SharingError} `version-mismatch`, `timed-out`, `bad-message`, `peer-gone` and others
 */
export async function answerGreeting(
  stream: MessageStream,
  options: HandshakeOptions & { readonly beforeWelcome?: (role: ConnectionRole | undefined) => void },
): Promise<void> {
  await firstMessage(stream, options, (message) => {
    if (message.type !== "hello") throw unexpected(stream, message, "hello");
    const { lowestVersion, highestVersion, role } = message;
    const version = Math.min(protocolVersions.highest, highestVersion);
    if (version < lowestVersion || version < protocolVersions.lowest) {
      throw versionMismatch(stream, `knows ${versionsText(lowestVersion, highestVersion)}`);
    }
    options.beforeWelcome?.(role);
    stream.version = version;
    stream.send({ type: "welcome", version });
  });
}

/**
 * Waits for one message, passes it to `take`, and pauses the stream. If `take` throws, the error is sent to the peer
 * and the stream ends.
 */
function firstMessage(
  stream: MessageStream,
  { handshakeTimeout, since = performance.now(), signal, path }: HandshakeOptions,
  take: (message: Message) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let isOver = false;
    let hasMessage = false;
    function finish(): void {
      isOver = true;
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
    }
    function onAbort(): void {
      finish();
      const { reason } = signal!;
      if (reason instanceof SharingError) stream.end(reasonOfError(reason), reason.message);
      else stream.end("done", "The handshake was given up");
      reject(abortError(signal!.reason, `the greeting of process ${stream.peer.pid}`));
    }
    const timer = setTimeout(() => {
      stream.receiveNow();
      if (isOver) return;
      finish();
      const message =
        `Cannot connect to process ${stream.peer.pid}: its greeting did not come within ${handshakeTimeout} ms` +
        (path === undefined
          ? ""
          : `; check whether it is an exporter that listens at ${path}, and whether it is stopped`);
      stream.end("timed-out", message);
      reject(new SharingError("timed-out", message));
    }, Math.max(0, since + handshakeTimeout - performance.now()));
    if (signal?.aborted) return onAbort();
    signal?.addEventListener("abort", onAbort);
    stream.start({
      onMessage(message) {
        hasMessage = true;
        take(message);
        finish();
        stream.pause();
        resolve();
      },
      onDrain() {},
      onEnd(error) {
        finish();
        if (error === undefined) {
          reject(new SharingError("peer-gone", `Cannot connect to process ${stream.peer.pid}: it said goodbye`));
        } else {
          reject(path === undefined || hasMessage ? error : errorOfListener(stream, path, error));
        }
      },
    });
  });
}

/**
 * Returns the error for a connection that ended before any message arrived from the listener, which may not be a
 * program that uses this protocol.
 */
function errorOfListener(stream: MessageStream, path: string, cause: SharingError): SharingError {
  const { pid } = stream.peer;
  if (isGoodbye(cause)) return cause;
  switch (cause.code) {
    case "bad-message": {
      const what = cause.message.replace("Cannot accept ", "it sent ");
      return new SharingError(
        "bad-message",
        `Cannot connect to ${path}: process ${pid}, which listens there, does not speak poolpass's protocol (${what}); ` +
          "check the path, and whether another program has taken it",
        { cause },
      );
    }
    case "peer-gone":
      return new SharingError(
        "peer-gone",
        `Cannot connect to ${path}: process ${pid}, which listens there, has ended the connection before its greeting; ` +
          "check whether it is an exporter",
        { cause },
      );
    default:
      return cause;
  }
}

function unexpected(stream: MessageStream, { type }: Message, expected: Message["type"]): SharingError {
  return new SharingError(
    "bad-message",
    `Cannot connect to process ${stream.peer.pid}: its first message is ${type.toUpperCase()}, not ` +
      expected.toUpperCase(),
  );
}

function versionMismatch(stream: MessageStream, what: string): SharingError {
  return new SharingError(
    "version-mismatch",
    `Cannot connect to process ${stream.peer.pid}: it ${what} of the protocol, and this process knows ` +
      `${versionsText(protocolVersions.lowest, protocolVersions.highest)}; use the same version of poolpass in both`,
  );
}
