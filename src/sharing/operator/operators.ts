/**
 * The connections of operators to an exporter or a store, and the limit on the time spent on their answers.
 *
 * @module
 */
import { isLogging, logEvent } from "../../support/event_log.ts";
import { messageForPeers } from "../../support/driver_errors.ts";
import { runEach, SharingError } from "../../support/errors.ts";
import { Timer } from "../../support/waiting/timer.ts";
import { Documents, encodeDocument, messagesOf } from "../protocol/documents.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import {
  badMessage,
  type DocumentMessage,
  type GoodbyeReason,
  limitExceeded,
  type Message,
} from "../protocol/messages.ts";
import type { Peer } from "../transport/unix_socket.ts";

/**
 * The length of the pause before the next status, as a multiple of the time spent on generating and sending the last
 * one.
 */
const pauseFactor = 7;
/**
 * The maximum pause between two statuses in milliseconds, which limits how long other operators can delay an answer.
 */
const longestPause = 1000;

/** The dependencies of `Operators`, which its listener provides. */
export interface OperatorsParts {
  /** The path of the listener, for the log. */
  readonly path: string;
  /** Milliseconds within which an operator must read an answer. */
  readonly answerTimeout: number;
  /** Returns the listener's status, a `ListenerStatus`. Must not call the application. */
  readonly status: () => object;
}

/**
 * The operators of a listener. Only one status is generated at a time, and is sent to all operators with pending
 * requests. Generating and sending statuses takes at most an eighth of this process's time, except that at least one
 * status per second is generated.
 */
export class Operators {
  readonly #parts: OperatorsParts;
  readonly #connected = new Set<ConnectedOperator>();
  /** The operators with pending requests, to which the next status will be sent. */
  readonly #asking = new Set<ConnectedOperator>();
  /** The `performance.now()` time before which no other status is generated. */
  #pauseEnd = 0;
  readonly #timer = new Timer(() => this.#answer(), 0);

  constructor(parts: OperatorsParts) {
    this.#parts = parts;
  }

  /** The number of connected operators. */
  get count(): number {
    return this.#connected.size;
  }

  /** Iterates over the connections, which count toward the limits of the listener. */
  [Symbol.iterator](): Iterator<ConnectedOperator> {
    return this.#connected.values();
  }

  /** Serves an operator whose handshake is complete. */
  adopt(stream: MessageStream): void {
    const operator = new ConnectedOperator(stream, {
      answerTimeout: this.#parts.answerTimeout,
      onAsk: (asking) => {
        this.#asking.add(asking);
        this.#schedule();
      },
      onSpent: (milliseconds) => this.#spend(milliseconds),
      onDisconnect: (ended, error) => this.#onDisconnect(ended, error),
    });
    this.#connected.add(operator);
    if (isLogging) logEvent("operator-connect", this.#logFields(operator));
  }

  /** Closes all connections. */
  close(text: string): void {
    for (const operator of [...this.#connected]) operator.end("done", text);
  }

  #onDisconnect(operator: ConnectedOperator, error: SharingError | undefined): void {
    this.#connected.delete(operator);
    this.#asking.delete(operator);
    if (this.#asking.size === 0) this.#timer.stop();
    if (!isLogging) return;
    logEvent("operator-disconnect", {
      ...this.#logFields(operator),
      code: error?.code ?? "done",
      error: error?.message,
    });
  }

  #logFields({ peer: { pid, uid } }: ConnectedOperator): { path: string; peer: number; uid: number } {
    return { path: this.#parts.path, peer: pid, uid };
  }

  #schedule(): void {
    if (!this.#timer.isRunning) this.#timer.start(Math.max(0, this.#pauseEnd - performance.now()));
  }

  #answer(): void {
    // The time spent on sending answers since the timer was started may have extended the pause.
    if (performance.now() < this.#pauseEnd) return this.#schedule();
    const asking = [...this.#asking];
    this.#asking.clear();
    const since = performance.now();
    const answer = this.#makeAnswer(asking);
    this.#spend(performance.now() - since);
    if (answer !== undefined) { for (const operator of asking) operator.answer(answer); }
  }

  /**
   * Returns the encoded status. If generating the status fails, closes the connections of the operators in `asking`,
   * and returns undefined.
   */
  #makeAnswer(asking: readonly ConnectedOperator[]): Uint8Array<ArrayBuffer> | undefined {
    try {
      return encodeDocument({ ok: true, status: this.#parts.status() });
    } catch (cause) {
      const text = `Cannot say how ${this.#parts.path} is: ${messageForPeers(cause)}`;
      for (const operator of asking) {
        operator.end("internal-error", text, new SharingError("internal-error", text, { cause }));
      }
      return undefined;
    }
  }

  /** Extends the pause before the next status in proportion to the time spent on operators. */
  #spend(milliseconds: number): void {
    const now = performance.now();
    this.#pauseEnd = Math.min(Math.max(this.#pauseEnd, now) + milliseconds * pauseFactor, now + longestPause);
  }
}

/** The maximum size of an operator's request in bytes. */
export const maximumOperatorAskByteLength = 4096;
/** The maximum number of one operator's requests that have not been answered completely. */
export const maximumOperatorAsks = 16;

/**
 * The dependencies of `ConnectedOperator`, which its listener provides. None of the functions may call the application.
 */
export interface OperatorOwner {
  /** Milliseconds within which an operator must read an answer. */
  readonly answerTimeout: number;
  /** Called when the operator has requested the status. The callee must call `answer` later. */
  onAsk(operator: ConnectedOperator): void;
  /** Called with the milliseconds spent on sending messages to the operator. */
  onSpent(milliseconds: number): void;
  /** Called when the connection has been closed. The error is undefined if the operator sent GOODBYE `done`. */
  onDisconnect(operator: ConnectedOperator, error: SharingError | undefined): void;
}

/**
 * The listener's end of a connection to an operator, which requests the listener's status. An operator holds no memory,
 * and receives messages only in answer to a request. While the operator does not read, at most one answer is kept, for
 * a limited time.
 */
export class ConnectedOperator {
  readonly peer: Peer;
  isConnected = true;
  readonly #stream: MessageStream;
  readonly #owner: OperatorOwner;
  readonly #documents = new Documents(maximumOperatorAskByteLength);
  /** The numbers of the requests that are neither answered nor in `#answering`. */
  readonly #asks = new Set<number>();
  /** The requests that are being answered, and an iterator over the unsent messages of their answers. */
  #answering: { readonly asks: ReadonlySet<number>; readonly messages: Iterator<DocumentMessage> } | undefined;
  /** Closes the connection if the operator does not read an answer within `answerTimeout`. */
  readonly #timer = new Timer(() => this.#onLate(), Infinity);

  constructor(stream: MessageStream, owner: OperatorOwner) {
    this.#stream = stream;
    this.#owner = owner;
    this.peer = stream.peer;
    stream.start({
      onMessage: (message) => this.#onMessage(message),
      onDrain: () => this.#pump(),
      onEnd: (error) => this.#disconnected(error),
    });
  }

  /**
   * Starts to answer all pending requests of the operator with `document`. The answers are sent as fast as the operator
   * reads.
   */
  answer(document: Uint8Array<ArrayBuffer>): void {
    if (!this.isConnected || this.#asks.size === 0) return;
    const asks = new Set(this.#asks);
    this.#asks.clear();
    this.#answering = { asks, messages: answersTo(asks, document) };
    this.#pump();
  }

  /** Closes the connection. */
  end(reason: GoodbyeReason, text: string, error?: SharingError): void {
    if (!this.isConnected) return;
    this.#stream.end(reason, text);
    this.#disconnected(error);
  }

  #onMessage(message: Message): void {
    if (message.type !== "ask") throw badMessage(`a message "${message.type}" comes from an operator`);
    const { request } = message;
    const document = this.#documents.add(message);
    if (document === undefined) return;
    if (document.do !== "status") {
      throw badMessage(`an operator asks for ${JSON.stringify(document.do)?.slice(0, 100)}, and can ask for "status"`);
    }
    if (this.#asks.has(request) || this.#answering?.asks.has(request) === true) {
      throw badMessage(`request ${request} is used again before its answer`);
    }
    this.#asks.add(request);
    if (this.#asks.size + (this.#answering?.asks.size ?? 0) > maximumOperatorAsks) {
      throw limitExceeded(
        `answer process ${this.peer.pid}`,
        `${maximumOperatorAsks} asks of an operator that are not answered`,
      );
    }
    if (this.#answering === undefined) this.#owner.onAsk(this);
  }

  /** Sends messages of the answer until the connection is backlogged. */
  #pump(): void {
    const answering = this.#answering;
    if (answering === undefined) return;
    const since = performance.now();
    while (!this.#stream.isBacklogged) {
      const { value, done } = answering.messages.next();
      if (done === true) {
        this.#timer.stop();
        this.#answering = undefined;
        break;
      }
      this.#stream.send(value);
    }
    this.#owner.onSpent(performance.now() - since);
    if (this.#answering !== undefined) this.#timer.start(this.#owner.answerTimeout);
    else if (this.#asks.size > 0) this.#owner.onAsk(this);
  }

  #onLate(): void {
    const text = `Cannot keep the answer for process ${this.peer.pid}: it was not read within ` +
      `${this.#owner.answerTimeout} ms`;
    this.end("timed-out", text, new SharingError("timed-out", text));
  }

  #disconnected(error: SharingError | undefined): void {
    this.isConnected = false;
    this.#timer.stop();
    this.#answering = undefined;
    this.#asks.clear();
    runEach(
      () => this.#stream.process[Symbol.dispose](),
      () => this.#owner.onDisconnect(this, error),
    );
  }
}

function* answersTo(asks: Iterable<number>, document: Uint8Array<ArrayBuffer>): Generator<DocumentMessage> {
  for (const request of asks) yield* messagesOf({ type: "answer", request }, document);
}
