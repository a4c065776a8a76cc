/**
 * Messages to and from one peer.
 *
 * @module
 */
import { closeDescriptor } from "../../../ffi/shim/descriptors.ts";
import { printAs } from "../../support/printing.ts";
import { SharingError } from "../../support/errors.ts";
import { atNextTurn } from "../../support/waiting/turn.ts";
import { MessageReader } from "./message_reader.ts";
import { MessageWriter } from "./message_writer.ts";
import {
  codeOfGoodbye,
  type GoodbyeMessage,
  type GoodbyeReason,
  goodbyeReasons,
  type Message,
  protocolVersion,
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

/**
 * What a stream calls back, never while one of its methods is called, but for `receiveNow`. What `onDrain` and `onEnd`
 * throw is uncaught.
 */
export interface MessageStreamHandlers {
  /** A message other than GOODBYE. What this throws is told to the peer and ends the stream. */
  onMessage(message: Message): void;
  /** What was sent is gone from the queue, after `isBacklogged` was true. */
  onDrain(): void;
  /** Nothing more comes, and nothing can be sent: undefined when the peer said that it was done. Called once. */
  onEnd(error: SharingError | undefined): void;
}

/** Options of a stream. */
export interface MessageStreamOptions {
  /** Milliseconds from the first byte of a message to its last. */
  readonly messageTimeout: number;
}

/** Bytes: so much is read before others get their turn. */
const bytesPerTurn = 65_536;
/** Bytes: once so much waits to be sent, it is not to wait for what comes behind it. */
const eagerByteLength = 4096;
/** What is sent after so many writes of one turn goes together, in the next. */
const writesPerTurn = 2;
/** After a pause as long there was another turn. */
const turnMilliseconds = 1;
/** Bytes: a socket holds less, so that what comes behind them was not sent by a peer that has ended since. */
const bytesAfterEnd = 2 ** 20;

/**
 * A connection on which messages go both ways. It is watched from `start` on, and then keeps this process alive, until
 * it has ended.
 */
export class MessageStream {
  /** Who is at the other end. */
  readonly peer: Peer;
  /** Outlives the stream: it is to be disposed of by whoever needs it. */
  readonly process: PeerProcess;
  readonly #fd: number;
  readonly #messageTimeout: number;
  readonly #reader: MessageReader;
  readonly #writer: MessageWriter;
  #handlers: MessageStreamHandlers | undefined;
  #watch: Watch | undefined;
  /** What is watched for. */
  #events = 0;
  #forgetProcess: (() => void) | undefined;
  #isEnded = false;
  /** Ended while nobody was to be told: why. */
  #untold: { readonly error: SharingError | undefined } | undefined;
  /** The peer cannot say more than it has: when that is read, the stream ends with this. */
  #lastError: SharingError | undefined;
  /** Read since then. */
  #lastByteLength = 0;
  #willFlush = false;
  /** Writes since the poller looked last, and when that was. */
  #writes = 0;
  #lastLook = 0;
  #turnEnd = 0;
  #wasBacklogged = false;
  /** When the message that has come in part must have come whole. */
  #deadline: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  static {
    printAs(
      this,
      "MessageStream",
      (stream) => `MessageStream { ${stream.#peerName()}${stream.#isEnded ? ", ended" : ""} }`,
    );
  }

  /**
   * Takes over a connection, which then counts as disposed, also when this throws.
   *
   * @throws {SharingError} `not-supported` where the system does not tell when a process ends, `out-of-descriptors`
   */
  constructor(socket: UnixSocket, options: MessageStreamOptions) {
    const { fd, pidfd, peer } = takeConnection(socket);
    try {
      preparePolling();
      this.process = new PeerProcess(peer, pidfd);
    } catch (error) {
      closeDescriptor(fd);
      if (pidfd >= 0) closeDescriptor(pidfd);
      throw isOutOfDescriptors(error) ? outOfDescriptors(`watch the connection to process ${peer.pid}`, error) : error;
    }
    this.peer = peer;
    this.#fd = fd;
    this.#messageTimeout = options.messageTimeout;
    this.#reader = new MessageReader(fd, peer);
    this.#writer = new MessageWriter(fd, peer);
  }

  /** Whether over 256 KiB wait to be sent, or nothing can be sent any more: whoever sends as long as it is not stops. */
  get isBacklogged(): boolean {
    return this.#isEnded || this.#writer.failure !== undefined || this.#writer.isBacklogged;
  }

  /** Begins to read, or goes on after a pause. What came meanwhile is called back in a microtask. */
  start(handlers: MessageStreamHandlers): void {
    this.#handlers = handlers;
    queueMicrotask(() => this.#resume());
  }

  /** Calls back nothing, and reads nothing, until it is started again. */
  pause(): void {
    this.#handlers = undefined;
    this.#stopTimer();
    this.#attend();
  }

  /**
   * Sends a message, together with others of the same run of JavaScript. After the end, this does nothing.
   *
   * @throws {RangeError} for a message that the protocol does not know how to say
   */
  send(message: Message): void {
    if (this.#isEnded) return;
    this.#writer.add(message);
    if (this.#writer.isBacklogged) this.#wasBacklogged = true;
    if (this.#writer.byteLength >= eagerByteLength && !this.#writer.isBlocked) this.flush();
    // One that is empty because writing failed has that to tell.
    if (this.#willFlush || (this.#writer.isEmpty && this.#writer.failure === undefined)) return;
    this.#willFlush = true;
    const flush = (): void => {
      this.#willFlush = false;
      if (this.#writer.isBlocked) this.#attend();
      else this.flush();
    };
    if (this.#isLateInTurn()) atNextTurn(flush);
    else queueMicrotask(flush);
  }

  /** Whether enough was written in this turn: who sends as one promise resolves after another would make many writes. */
  #isLateInTurn(): boolean {
    const look = pollCount();
    const now = performance.now();
    // Nobody looks while there is nothing to read.
    if (look !== this.#lastLook || now > this.#turnEnd) this.#writes = 0;
    this.#lastLook = look;
    this.#turnEnd = now + turnMilliseconds;
    return ++this.#writes > writesPerTurn;
  }

  /** Writes now what the socket takes. */
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
    this.#attend();
  }

  /** Reads what has come already, and calls back: whoever finds a peer late has perhaps not looked for as long. */
  receiveNow(): void {
    this.#read();
  }

  /** Says goodbye, if the socket takes that at once, and closes the connection. Nothing is called back any more. */
  end(reason: GoodbyeReason, text: string = ""): void {
    this.#untold = undefined;
    if (this.#isEnded) return;
    this.#writer.flush();
    if (this.#writer.isEmpty && this.#writer.failure === undefined) {
      this.#writer.add({
        type: "goodbye",
        reason,
        lowestVersion: protocolVersion,
        highestVersion: protocolVersion,
        text,
      });
      this.#writer.flush();
    }
    this.#close();
  }

  #resume(): void {
    const handlers = this.#handlers;
    if (handlers === undefined) return;
    if (this.#isEnded) {
      const untold = this.#untold;
      this.#untold = this.#handlers = undefined;
      if (untold !== undefined) handlers.onEnd(untold.error);
      return;
    }
    this.#forgetProcess ??= this.process.whenEnded(() => {
      this.#lastError ??= this.#gone("its process has ended");
      this.#read();
    });
    this.#attend();
    this.#read();
  }

  /** Reads and calls back until there is nothing more, or others are to have their turn. */
  #read(): void {
    let byteLength = 0;
    try {
      for (let operations = 0; this.#deliver(); operations++) {
        if (operations === operationsPerTurn || byteLength >= bytesPerTurn) {
          // Nobody else would say that there is nothing more.
          if (this.#lastError !== undefined) atNextTurn(() => this.#read());
          break;
        }
        const received = this.#reader.receive();
        byteLength += received;
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
    this.#watchTime();
  }

  /** Calls back with the messages that have come whole. False when no more are wanted. */
  #deliver(): boolean {
    for (;;) {
      const handlers = this.#handlers;
      if (handlers === undefined || this.#isEnded) return false;
      const message = this.#reader.next();
      if (message === undefined) return true;
      this.#deadline = undefined;
      if (message.type === "goodbye") {
        this.#finish(this.#goodbyeError(message));
        return false;
      }
      try {
        handlers.onMessage(message);
      } catch (error) {
        if (message.type === "pool") message.handle[Symbol.dispose]();
        throw error;
      }
    }
  }

  /** One timer, for the message that has come in part, if there is one. */
  #watchTime(): void {
    const isWatched = this.#handlers !== undefined && this.#reader.hasPart;
    if (!isWatched) return this.#stopTimer();
    if (this.#deadline !== undefined && this.#timer !== undefined) return;
    this.#stopTimer();
    const now = performance.now();
    this.#deadline ??= now + this.#messageTimeout;
    this.#timer = setTimeout(() => this.#onDeadline(), Math.max(0, this.#deadline - now));
  }

  #stopTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#reader.hasPart) this.#deadline = undefined;
  }

  #onDeadline(): void {
    const deadline = this.#deadline;
    // It stays set while what has come is read, so that nothing restarts it for the same message.
    this.#read();
    if (this.#isEnded || this.#deadline !== deadline) return;
    this.#fail(
      new SharingError(
        "timed-out",
        `Cannot receive a message from ${this.#peerName()}: it did not come whole within ${this.#messageTimeout} ms`,
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

  /** Watches for what is of use now. */
  #attend(): void {
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

  /** Tells the peer, and ends. */
  #fail(error: SharingError): void {
    if (this.#isEnded) return;
    const handlers = this.#handlers;
    if (error.code === "peer-gone") this.#close();
    else this.end(reasonOf(error), error.message);
    this.#tellEnd(handlers, error);
  }

  /** Ends without a word to the peer. */
  #finish(error: SharingError | undefined): void {
    const handlers = this.#handlers;
    this.#close();
    this.#tellEnd(handlers, error);
  }

  #tellEnd(handlers: MessageStreamHandlers | undefined, error: SharingError | undefined): void {
    if (handlers === undefined) this.#untold = { error };
    else handlers.onEnd(error);
  }

  #close(): void {
    this.#isEnded = true;
    this.#handlers = undefined;
    this.#reader.close();
    this.#writer.close();
    this.#forgetProcess?.();
    this.#attend();
    this.#stopTimer();
    closeDescriptor(this.#fd);
  }

  #sharingError(error: unknown): SharingError {
    if (error instanceof SharingError) return error;
    const reason = error instanceof Error ? error.message : String(error);
    return new SharingError("bad-message", `Cannot take a message of ${this.#peerName()}: ${reason}`, { cause: error });
  }

  #goodbyeError({ reason, text, lowestVersion, highestVersion }: GoodbyeMessage): SharingError | undefined {
    if (reason === "done") return undefined;
    const versions = reason === "version-mismatch"
      ? `; it knows versions ${lowestVersion} to ${highestVersion} of the protocol, and this process ${protocolVersion}`
      : "";
    // What a peer says may go to a terminal.
    const quoted = text === "" ? "" : `: ${JSON.stringify(text).replaceAll(/[\x7f-\x9f]/g, "?")}`;
    return new SharingError(
      codeOfGoodbye(reason),
      `Cannot go on with ${this.#peerName()}: it ended the connection (${reason})${quoted}${versions}`,
    );
  }

  #gone(what: string): SharingError {
    return new SharingError("peer-gone", `Cannot receive from ${this.#peerName()}: ${what}`);
  }

  #peerName(): string {
    return `process ${this.peer.pid}`;
  }
}

/** What a peer is told of an error here. */
function reasonOf({ code }: SharingError): GoodbyeReason {
  return goodbyeReasons.find((reason) => reason === code) ?? "failed";
}
