/**
 * The first messages of a connection.
 *
 * @module
 */
import { SharingError } from "../../support/errors.ts";
import type { WaitOptions } from "../../support/waiting/waiting.ts";
import type { MessageStream } from "./message_stream.ts";
import { type Message, protocolVersion } from "./messages.ts";

/** Options of a handshake. */
export interface HandshakeOptions extends WaitOptions {
  /** Milliseconds for all of it. */
  readonly handshakeTimeout: number;
}

/**
 * The importer's part: says HELLO and waits for WELCOME. The stream is paused then, until it is started again; it has
 * ended where this rejects.
 *
 * @throws {SharingError} `version-mismatch`, `timed-out`, `bad-message`, `peer-gone`, `not-permitted` ...
 */
export async function greet(stream: MessageStream, options: HandshakeOptions): Promise<void> {
  stream.send({ type: "hello", lowestVersion: protocolVersion, highestVersion: protocolVersion });
  await firstMessage(stream, options, (message) => {
    if (message.type !== "welcome") throw unexpected(stream, message, "welcome");
    if (message.version !== protocolVersion) throw versionMismatch(stream, `chose ${message.version}`);
  });
}

/**
 * The exporter's part: waits for HELLO and says WELCOME. The stream is paused then, until it is started again; it has
 * ended where this rejects.
 *
 * @throws {SharingError} `version-mismatch`, `timed-out`, `bad-message`, `peer-gone` ...
 */
export async function answerGreeting(stream: MessageStream, options: HandshakeOptions): Promise<void> {
  await firstMessage(stream, options, (message) => {
    if (message.type !== "hello") throw unexpected(stream, message, "hello");
    const { lowestVersion, highestVersion } = message;
    if (protocolVersion < lowestVersion || protocolVersion > highestVersion) {
      throw versionMismatch(stream, `knows ${lowestVersion} to ${highestVersion}`);
    }
    stream.send({ type: "welcome", version: protocolVersion });
  });
}

/** Waits for one message, which `take` may refuse by throwing, and pauses the stream behind it. */
function firstMessage(
  stream: MessageStream,
  { handshakeTimeout, signal }: HandshakeOptions,
  take: (message: Message) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let isOver = false;
    function over(): void {
      isOver = true;
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
    }
    function onAbort(): void {
      over();
      stream.end("done", "The handshake was given up");
      reject(signal!.reason);
    }
    const timer = setTimeout(() => {
      stream.receiveNow();
      if (isOver) return;
      over();
      const text =
        `Cannot connect to process ${stream.peer.pid}: its greeting did not come within ${handshakeTimeout} ms`;
      stream.end("timed-out", text);
      reject(new SharingError("timed-out", text));
    }, handshakeTimeout);
    if (signal?.aborted) return onAbort();
    signal?.addEventListener("abort", onAbort);
    stream.start({
      onMessage(message) {
        take(message);
        over();
        stream.pause();
        resolve();
      },
      onDrain() {},
      onEnd(error) {
        over();
        reject(error ?? new SharingError("peer-gone", `Cannot connect to process ${stream.peer.pid}: it said goodbye`));
      },
    });
  });
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
    `Cannot connect to process ${stream.peer.pid}: of the protocol's versions it ${what}, and this process knows ` +
      `${protocolVersion}; use the same version of poolpass in both`,
  );
}
