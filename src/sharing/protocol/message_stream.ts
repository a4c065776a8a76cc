/**
 * A stream of messages to and from one peer.
 *
 * @module
 */
import { closeDescriptor, closeSocket } from "../../../ffi/native/shim/descriptors.ts";
import { printAs } from "../../support/printing.ts";
import { isLoss, messageForPeers } from "../../support/driver_errors.ts";
import { runEach, SharingError } from "../../support/errors.ts";
import { atNextTurn } from "../../support/waiting/waiting.ts";
import { Timer } from "../../support/waiting/timer.ts";
import { MessageReader } from "./message_reader.ts";
import { MessageWriter } from "./message_writer.ts";
import {
  codeOfGoodbye,
  type GoodbyeMessage,
  type GoodbyeReason,
  hasHandle,
  type Message,
  protocolVersions,
  reasonOfError,
  versionsText,
} from "./messages.ts";
import { type TracedMessages, tracedMessages } from "./traced_messages.ts";
import { PeerProcess } from "../transport/peer_process.ts";
import { expectAnswer, pollCount, preparePolling, readable, type Watch, watch, writable } from "../transport/poller.ts";
import {
  isOutOfDescriptors,
  operationsPerTurn,
  outOfDescriptors,
  type Peer,
  takeConnection,
  type UnixSocket,
} from "../transport/unix_socket.ts";

/** The errors with which streams have ended because the peer has sent GOODBYE. */
const goodbyes = new WeakSet<SharingError>();

/** Returns whether a stream ended with this error because the peer has sent GOODBYE. */
export function isGoodbye(error: SharingError): boolean {
  return goodbyes.has(error);
}

/**
 * The callbacks of a stream. They are not called synchronously by methods of the stream, except by `receiveNow`. An
 * error thrown by `onDrain` or `onEnd` becomes an uncaught error.
 */
export interface MessageStreamHandlers {
  /** Receives a message other than GOODBYE. If this throws, the error is sent to the peer and the stream ends. */
  onMessage(message: Message): void;
  /** Called when the stream was backlogged and all queued messages have now been written. */
  onDrain(): void;
  /**
   * Called once, when the stream has ended: no more messages arrive, and none can be sent. The error is undefined if
   * the peer sent GOODBYE `done`.
   */
  onEnd(error: SharingError | undefined): void;
}

/** The traffic of one or more connections. */
export interface TrafficStatistics {
  /** The number of messages sent, including messages that are still queued. */
  messagesSent: number;
  /** The number of complete messages received. */
  messagesReceived: number;
  /** The number of bytes that were sent. */
  bytesSent: number;
  /** The number of bytes that were received. */
  bytesReceived: number;
}

/** Options of a `MessageStream`. */
export interface MessageStreamOptions {
  /** The maximum time in milliseconds from the arrival of a message's first byte to the arrival of its last byte. */
  readonly messageTimeout: number;
  /** The counters to which the stream's traffic is added, which other streams may share. */
  readonly traffic?: TrafficStatistics;
}

/** The number of bytes after which reading yields to the event loop. */
const bytesPerTurn = 65_536;
/**
 * The minimum length of the queue, in bytes, at which `send` writes immediately instead of collecting more messages.
 */
const eagerByteLength = 4096;
/** The number of writes per turn of the event loop. Further messages are collected and written in the next turn. */
const writesPerTurn = 2;
/**
 * If no descriptor is polled, a new turn of the event loop is assumed to have begun once this many milliseconds have
 * passed since the last write.
 */
const turnMilliseconds = 1;
/**
 * The maximum number of bytes to read after the peer's process has exited. Exceeds the size of a socket's buffer, so
 * that any further bytes come from another process that has the socket open.
 */
const bytesAfterEnd = 2 ** 20;

/**
 * A bidirectional connection for messages. A stream that is started, and neither paused nor ended, is polled and keeps
 * this process alive.
 */
export class MessageStream {
  /** The process at the other end of the connection. */
  readonly peer: Peer;
  /** The version of the protocol negotiated by the handshake. */
  version: number = protocolVersions.lowest;
  /** The peer's process. The owner of the stream must dispose of `process`, even after the stream has ended. */
  readonly process: PeerProcess;
  readonly #fd: number;
  readonly #messageTimeout: number;
  readonly #traffic: TrafficStatistics;
  readonly #reader: MessageReader;
  readonly #writer: MessageWriter;
  readonly #traced: TracedMessages | undefined;
  #handlers: MessageStreamHandlers | undefined;
  #watch: Watch | undefined;
  /** The bit mask of the socket events that `#watch` polls for. */
  #events = 0;
  #stopWatchingProcess: (() => void) | undefined;
  #isEnded = false;
  /** The outcome to pass to `onEnd` when the stream is started again. Set if the stream ended while it was paused. */
  #pendingEnd: { readonly error: SharingError | undefined } | undefined;
  /**
   * The error with which the stream ends once all received bytes have been read. Set when the peer can send no more
   * bytes.
   */
  #lastError: SharingError | undefined;
  /** The number of bytes read since `#lastError` was set, limited by `bytesAfterEnd`. */
  #lastByteLength = 0;
  #willFlush = false;
  /** The number of writes in the current turn of the event loop. */
  #writes = 0;
  /** The value of `pollCount()` at the last write, which identifies the turn of the event loop. */
  #lastPoll = 0;
  #turnEnd = 0;
  #wasBacklogged = false;
  /** The `performance.now()` time at which the partially received message must be complete. */
  #deadline: number | undefined;
  readonly #timer = new Timer(() => this.#onDeadline(), Infinity);

  static {
    printAs(
      this,
      "MessageStream",
      (stream) => `MessageStream { ${stream.#peerName()}${stream.#isEnded ? ", ended" : ""} }`,
      [["process", (stream) => stream.#peerName()], ["ended", (stream) => stream.#isEnded]],
    );
  }

  /**
   * Takes ownership of a socket, even if the constructor throws. The `UnixSocket` object then counts as disposed of.
   *
   * @throws {SharingError} `not-supported` if the system cannot report the exit of a process, `out-of-descriptors`
   */
  constructor(socket: UnixSocket, options: MessageStreamOptions) {
    const { fd, pidfd, peer } = takeConnection(socket);
    try {
      preparePolling();
      this.process = new PeerProcess(peer, pidfd);
    } catch (error) {
      closeSocket(fd);
      if (pidfd >= 0) closeDescriptor(pidfd);
      throw isOutOfDescriptors(error) ? outOfDescriptors(`watch the connection to process ${peer.pid}`, error) : error;
    }
    this.peer = peer;
    this.#fd = fd;
    this.#messageTimeout = options.messageTimeout;
    this.#reader = new MessageReader(fd, peer);
    this.#traffic = options.traffic ?? { messagesSent: 0, messagesReceived: 0, bytesSent: 0, bytesReceived: 0 };
    this.#writer = new MessageWriter(fd, peer, this.#traffic);
    this.#traced = tracedMessages(peer.pid);
  }

  /**
   * Whether more than 256 KiB are queued, or no more messages can be sent. A sender should then pause until `onDrain`
   * is called.
   */
  get isBacklogged(): boolean {
    return this.#isEnded || this.#writer.failure !== undefined || this.#writer.isBacklogged;
  }

  /** Starts reading, or resumes after a pause. Messages that have already arrived are delivered in a microtask. */
  start(handlers: MessageStreamHandlers): void {
    this.#handlers = handlers;
    queueMicrotask(() => this.#resume());
  }

  /** Stops reading. No handlers are called until `start` is called again. */
  pause(): void {
    this.#handlers = undefined;
    this.#stopTimer();
    this.#updateWatch();
  }

  /**
   * Sends a message. Messages sent in the same synchronous code are combined into one write. Does nothing after the end
   * of the stream.
   *
   * @throws {RangeError} If the protocol cannot represent the message
   */
  send(message: Message): void {
    if (this.#isEnded) return;
    // A message with a descriptor is written at once.
    const time = this.#traced?.now() ?? 0;
    this.#writer.add(message);
    this.#traced?.sent(message, time);
    if (this.#writer.isBacklogged) this.#wasBacklogged = true;
    if (this.#writer.byteLength >= eagerByteLength && !this.#writer.isBlocked) this.flush();
    // If the queue is empty, there is nothing to write. But if it is empty because a write has failed, `flush` must
    // still report the failure.
    if (this.#willFlush || (this.#writer.isEmpty && this.#writer.failure === undefined)) return;
    this.#willFlush = true;
    const flush = (): void => {
      this.#willFlush = false;
      if (this.#writer.isBlocked) this.#updateWatch();
      else this.flush();
    };
    if (this.#isLateInTurn()) atNextTurn(flush);
    else queueMicrotask(flush);
  }

  /**
   * Counts a write, and returns whether there were too many writes in the current turn of the event loop. This may
   * happen if a program sends a message each time a promise resolves.
   */
  #isLateInTurn(): boolean {
    const poll = pollCount();
    if (poll !== this.#lastPoll) this.#writes = 0;
    this.#lastPoll = poll;
    if (++this.#writes < writesPerTurn) return false;
    // While no descriptor is polled, `pollCount()` does not change: the elapsed time shows whether a new turn has
    // begun.
    const now = performance.now();
    if (now > this.#turnEnd) this.#writes = Math.min(this.#writes, writesPerTurn);
    this.#turnEnd = now + turnMilliseconds;
    return this.#writes > writesPerTurn;
  }

  /** Writes as many queued bytes as the socket accepts, without waiting for a microtask. */
  flush(): void {
    if (this.#isEnded) return;
    this.#writer.flush();
    expectAnswer();
    const { failure, isEmpty } = this.#writer;
    if (failure !== undefined) {
      if (this.#lastError === undefined) queueMicrotask(() => this.#onSendFailure(failure));
    } else if (isEmpty && this.#wasBacklogged) {
      queueMicrotask(() => this.#drained());
    }
    this.#updateWatch();
  }

  /**
   * Reads and delivers messages that have already arrived. Must be called before a peer is considered late, because
   * this process may have been too busy to read.
   */
  receiveNow(): void {
    this.#read();
  }

  /**
   * Sends GOODBYE, unless the socket's buffer is full, and closes the connection. No handler is called afterwards.
   * Never throws.
   */
  end(reason: GoodbyeReason, text: string = ""): void {
    this.#pendingEnd = undefined;
    if (this.#isEnded) return;
    runEach(
      () => this.#sendGoodbye(reason, text),
      () => this.#close(),
    );
  }

  #sendGoodbye(reason: GoodbyeReason, text: string): void {
    this.#writer.flush();
    if (this.#writer.isEmpty && this.#writer.failure === undefined) {
      const time = this.#traced?.now() ?? 0;
      const message: Message = {
        type: "goodbye",
        reason,
        lowestVersion: protocolVersions.lowest,
        highestVersion: protocolVersions.highest,
        text,
      };
      this.#writer.add(message);
      this.#traced?.sent(message, time);
      this.#writer.flush();
    }
  }

  #resume(): void {
    const handlers = this.#handlers;
    if (handlers === undefined) return;
    if (this.#isEnded) {
      const pendingEnd = this.#pendingEnd;
      this.#pendingEnd = this.#handlers = undefined;
      if (pendingEnd !== undefined) handlers.onEnd(pendingEnd.error);
      return;
    }
    this.#stopWatchingProcess ??= this.process.whenEnded(() => {
      this.#lastError ??= this.#peerGone("its process has ended");
      this.#read();
    });
    this.#updateWatch();
    this.#read();
  }

  /** Reads and delivers messages until no bytes are available or the stream must yield to the event loop. */
  #read(): void {
    let byteLength = 0;
    try {
      for (let operations = 0; this.#deliver(); operations++) {
        if (operations === operationsPerTurn || byteLength >= bytesPerTurn) {
          // The exit of the peer's process is reported only once, so schedule the next read here.
          if (this.#lastError !== undefined) atNextTurn(() => this.#read());
          break;
        }
        const received = this.#reader.receive();
        byteLength += received;
        this.#traffic.bytesReceived += received;
        if (this.#lastError !== undefined) {
          this.#lastByteLength += received;
          if (received === 0 || this.#lastByteLength > bytesAfterEnd) throw this.#lastError;
        } else if (received === 0) {
          break;
        }
      }
    } catch (error) {
      this.#fail(this.#sharingError(error));
    }
    this.#updateTimer();
  }

  /** Delivers the messages that have arrived completely. Returns false if the stream was paused or has ended. */
  #deliver(): boolean {
    for (;;) {
      const handlers = this.#handlers;
      if (handlers === undefined || this.#isEnded) return false;
      const message = this.#reader.next();
      if (message === undefined) return true;
      this.#deadline = undefined;
      this.#traffic.messagesReceived++;
      this.#traced?.received(message);
      if (message.type === "goodbye") {
        this.#finish(this.#goodbyeError(message));
        return false;
      }
      try {
        handlers.onMessage(message);
      } catch (error) {
        if (hasHandle(message)) message.handle[Symbol.dispose]();
        throw error;
      }
    }
  }

  /** Starts the timer for `messageTimeout` if part of a message has arrived; otherwise stops the timer. */
  #updateTimer(): void {
    const isWatched = this.#handlers !== undefined && this.#reader.hasPartialMessage;
    if (!isWatched) return this.#stopTimer();
    if (this.#deadline !== undefined && this.#timer.isRunning) return;
    this.#stopTimer();
    const now = performance.now();
    this.#deadline ??= now + this.#messageTimeout;
    this.#timer.start(Math.max(0, this.#deadline - now));
  }

  #stopTimer(): void {
    this.#timer.stop();
    if (!this.#reader.hasPartialMessage) this.#deadline = undefined;
  }

  #onDeadline(): void {
    const deadline = this.#deadline;
    // If the same message is still incomplete after the read, `#deadline` is unchanged.
    this.#read();
    if (this.#isEnded || this.#deadline !== deadline) return;
    this.#fail(
      new SharingError(
        "timed-out",
        `Cannot receive a message from ${this.#peerName()}: it was not complete within ${this.#messageTimeout} ms`,
      ),
    );
  }

  #onReady(events: number): void {
    if ((events & writable) !== 0) this.flush();
    if ((events & readable) !== 0) this.#read();
  }

  #onSendFailure(failure: SharingError): void {
    if (failure.code !== "peer-gone") return this.#fail(failure);
    this.#lastError ??= failure;
    this.#read();
  }

  #drained(): void {
    if (!this.#wasBacklogged || !this.#writer.isEmpty) return;
    this.#wasBacklogged = false;
    this.#handlers?.onDrain();
  }

  /**
   * Updates the socket events to poll for: `readable` unless paused, and `writable` while the socket accepts no more
   * bytes.
   */
  #updateWatch(): void {
    const isRead = this.#handlers !== undefined && !this.#isEnded;
    const events = (isRead ? readable : 0) | (this.#writer.isBlocked ? writable : 0);
    if (events === this.#events) return;
    this.#events = events;
    if (events === 0) {
      this.#watch!.cancel();
      this.#watch = undefined;
    } else if (this.#watch !== undefined) {
      this.#watch.change(events);
    } else {
      this.#watch = watch({ fd: this.#fd, events }, {
        onReady: (events) => this.#onReady(events),
        onFailure: (cause) => {
          const text =
            `Cannot watch the connection to ${this.#peerName()}: the system refuses; close other connections`;
          this.#fail(new SharingError("out-of-descriptors", text, { cause }));
        },
      });
    }
  }

  /** Ends the stream with an error, and sends the error to the peer in GOODBYE. */
  #fail(error: SharingError): void {
    if (this.#isEnded) return;
    const handlers = this.#handlers;
    if (error.code === "peer-gone") this.#close();
    else this.end(reasonOfError(error), error.message);
    this.#notifyEnd(handlers, error);
  }

  /** Ends the stream without sending GOODBYE to the peer. */
  #finish(error: SharingError | undefined): void {
    const handlers = this.#handlers;
    this.#close();
    this.#notifyEnd(handlers, error);
  }

  #notifyEnd(handlers: MessageStreamHandlers | undefined, error: SharingError | undefined): void {
    if (error !== undefined) this.#traced?.lost(error.code);
    if (handlers === undefined) this.#pendingEnd = { error };
    else runEach(() => handlers.onEnd(error));
  }

  /** Closes the connection and releases all resources. Called no matter why the stream ends. */
  #close(): void {
    this.#isEnded = true;
    this.#handlers = undefined;
    runEach(
      () => this.#reader.close(),
      () => this.#writer.close(),
      () => this.#stopWatchingProcess?.(),
      () => this.#updateWatch(),
      () => this.#stopTimer(),
      () => closeSocket(this.#fd),
    );
  }

  #sharingError(error: unknown): SharingError {
    if (error instanceof SharingError) return error;
    const reason = messageForPeers(error);
    return new SharingError(
      isLoss(error) ? "device-lost" : "internal-error",
      `Cannot handle a message of ${this.#peerName()}: ${reason}`,
      { cause: error },
    );
  }

  #goodbyeError({ reason, text, lowestVersion, highestVersion }: GoodbyeMessage): SharingError | undefined {
    if (reason === "done") return undefined;
    const versions = reason === "version-mismatch"
      ? `; it knows ${versionsText(lowestVersion, highestVersion)} of the protocol, and this process ` +
        versionsText(protocolVersions.lowest, protocolVersions.highest)
      : "";
    const quoted = text === "" ? "" : `: ${JSON.stringify(text)}`;
    const error = new SharingError(
      codeOfGoodbye(reason),
      `Cannot continue with ${this.#peerName()}: it ended the connection (${reason})${quoted}${versions}`,
    );
    goodbyes.add(error);
    return error;
  }

  #peerGone(what: string): SharingError {
    return new SharingError("peer-gone", `Cannot receive from ${this.#peerName()}: ${what}`);
  }

  #peerName(): string {
    return `process ${this.peer.pid}`;
  }
}
