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
  type Message,
  protocolVersions,
  reasonOfError,
  versionsText,
} from "./messages.ts";
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

/** The errors that represent the GOODBYE of a peer. */
const goodbyes = new WeakSet<SharingError>();

/** Whether an error represents the GOODBYE by which the peer ended the connection. */
export function isGoodbye(error: SharingError): boolean {
  return goodbyes.has(error);
}

/**
 * The callbacks of a stream. None is called during a call of a method of the stream, except `receiveNow`. An error
 * thrown by `onDrain` or `onEnd` becomes an uncaught error.
 */
export interface MessageStreamHandlers {
  /** Receives a message other than GOODBYE. If this throws, the error is sent to the peer and the stream ends. */
  onMessage(message: Message): void;
  /** Called when the queue has been written completely after `isBacklogged` was true. */
  onDrain(): void;
  /**
   * Called once, when the stream has ended: no more messages arrive, and none can be sent. The error is undefined if
   * the peer sent GOODBYE `done`.
   */
  onEnd(error: SharingError | undefined): void;
}

/** The traffic of one or more connections. */
export interface TrafficStatistics {
  /** The number of messages that were sent, or queued while the peer does not read. */
  messagesSent: number;
  /** The number of complete messages that were received. */
  messagesReceived: number;
  /** The number of bytes that were sent. */
  bytesSent: number;
  /** The number of bytes that were received. */
  bytesReceived: number;
}

/** Options of a `MessageStream`. */
export interface MessageStreamOptions {
  /** The maximum time from the arrival of a message's first byte to its last, in milliseconds. */
  readonly messageTimeout: number;
  /** The counters to which the stream's traffic is added, which other streams may share. */
  readonly traffic?: TrafficStatistics;
}

/** The number of bytes read after which the stream yields to the event loop. */
const bytesPerTurn = 65_536;
/** The length of the queue, in bytes, at which messages are written immediately instead of being collected. */
const eagerByteLength = 4096;
/** The number of writes in one turn of the event loop after which messages are collected until the next turn. */
const writesPerTurn = 2;
/** Milliseconds after which a new turn is assumed to have begun, if polls do not show it. */
const turnMilliseconds = 1;
/**
 * The maximum number of bytes read after the end of the peer's process: more than a socket buffers, so that any further
 * bytes come from another process.
 */
const bytesAfterEnd = 2 ** 20;

/**
 * A bidirectional connection for messages. While it is started and has not ended, it is polled and keeps this process
 * alive.
 */
export class MessageStream {
  /** The process at the other end of the connection. */
  readonly peer: Peer;
  /** The version of the protocol negotiated by the handshake. */
  version: number = protocolVersions.lowest;
  /** The peer's process. The owner of the stream must dispose of this object, also after the stream has ended. */
  readonly process: PeerProcess;
  readonly #fd: number;
  readonly #messageTimeout: number;
  readonly #traffic: TrafficStatistics;
  readonly #reader: MessageReader;
  readonly #writer: MessageWriter;
  #handlers: MessageStreamHandlers | undefined;
  #watch: Watch | undefined;
  /** The bit mask of the events that `#watch` waits for. */
  #events = 0;
  #stopWatchingProcess: (() => void) | undefined;
  #isEnded = false;
  /** The result to report when the stream is started again; set if the stream ended while it was paused. */
  #pendingEnd: { readonly error: SharingError | undefined } | undefined;
  /**
   * The error with which the stream ends once all received bytes have been read; set when the peer can send no more.
   */
  #lastError: SharingError | undefined;
  /** The number of bytes read since `#lastError` was set. */
  #lastByteLength = 0;
  #willFlush = false;
  /** The number of writes since the last poll. */
  #writes = 0;
  /** The poll count at the last write. */
  #lastPoll = 0;
  #turnEnd = 0;
  #wasBacklogged = false;
  /** The `performance.now()` by which the partially received message must be complete. */
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
   * Takes ownership of a socket, which then counts as disposed, even if this throws.
   *
   * @throws {SharingError} `not-supported` if the system cannot report the end of a process, `out-of-descriptors`
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
  }

  /**
   * Whether more than 256 KiB are queued, or no more messages can be sent. A sender should pause while this is true.
   */
  get isBacklogged(): boolean {
    return this.#isEnded || this.#writer.failure !== undefined || this.#writer.isBacklogged;
  }

  /** Starts reading, or resumes after a pause. Messages that have already arrived are delivered in a microtask. */
  start(handlers: MessageStreamHandlers): void {
    this.#handlers = handlers;
    queueMicrotask(() => this.#resume());
  }

  /** Stops reading, and calls no handlers, until the stream is started again. */
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
    this.#writer.add(message);
    if (this.#writer.isBacklogged) this.#wasBacklogged = true;
    if (this.#writer.byteLength >= eagerByteLength && !this.#writer.isBlocked) this.flush();
    // If the writer is empty because writing failed, the failure must still be reported.
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
   * Counts a write, and returns whether this turn of the event loop has had enough writes. Otherwise, code that sends a
   * message each time a promise resolves would cause many writes.
   */
  #isLateInTurn(): boolean {
    const poll = pollCount();
    if (poll !== this.#lastPoll) this.#writes = 0;
    this.#lastPoll = poll;
    if (++this.#writes < writesPerTurn) return false;
    // Without anything to wait for, there are no polls, so the elapsed time decides whether a new turn has begun.
    const now = performance.now();
    if (now > this.#turnEnd) this.#writes = Math.min(this.#writes, writesPerTurn);
    this.#turnEnd = now + turnMilliseconds;
    return this.#writes > writesPerTurn;
  }

  /** Writes as much as the socket accepts, without waiting for a microtask. */
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
   * Reads and delivers messages that have already arrived. Call this before treating a peer as late, because this
   * process may have been too busy to read.
   */
  receiveNow(): void {
    this.#read();
  }

  /**
   * Sends GOODBYE, if the socket accepts it immediately, and closes the connection. No handler is called afterwards.
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
      this.#writer.add({
        type: "goodbye",
        reason,
        lowestVersion: protocolVersions.lowest,
        highestVersion: protocolVersions.highest,
        text,
      });
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

  /** Reads and delivers messages until none is available or the stream must yield to the event loop. */
  #read(): void {
    let byteLength = 0;
    try {
      for (let operations = 0; this.#deliver(); operations++) {
        if (operations === operationsPerTurn || byteLength >= bytesPerTurn) {
          // The end of the peer's process is reported only once, so the next read must be scheduled here.
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
      if (message.type === "goodbye") {
        this.#finish(this.#goodbyeError(message));
        return false;
      }
      try {
        handlers.onMessage(message);
      } catch (error) {
        if (message.type === "pool" || message.type === "memory") message.handle[Symbol.dispose]();
        throw error;
      }
    }
  }

  /** Starts the timer if part of a message has arrived; otherwise stops it. */
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
    // `#deadline` stays set during the read, so that the read does not extend it for the same message.
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

  /** Updates the socket events to wait for: readable unless paused, and writable while the writer is blocked. */
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

  /** Sends an error to the peer and ends the stream with it. */
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
    if (handlers === undefined) this.#pendingEnd = { error };
    else runEach(() => handlers.onEnd(error));
  }

  /** Closes the connection and releases all resources. Every end of a connection calls this function. */
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
