/**
 * The operators that are connected to an exporter or a store: what they may ask for, and how much time their answers
 * take.
 *
 * @module
 */
import { isLogging, logEvent } from "../../support/event_log.ts";
import { messageForPeers } from "../../support/driver_errors.ts";
import { runEach, SharingError } from "../../support/errors.ts";
import { Timer } from "../../support/waiting/timer.ts";
import { Documents, encodeDocument, partsOf } from "../protocol/documents.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import {
  badMessage,
  type DocumentMessage,
  type GoodbyeReason,
  limitExceeded,
  type Message,
} from "../protocol/messages.ts";
import type { Peer } from "../transport/unix_socket.ts";

/** The pause after each millisecond that was spent on operators, in milliseconds. */
const pauseFactor = 7;
/** The maximum pause in milliseconds: whatever others do, an operator is answered. */
const longestPause = 1000;

/** What `Operators` needs from its listener. */
export interface OperatorsParts {
  /** The path at which it listens, for the log. */
  readonly path: string;
  /** Milliseconds in which an operator must read an answer. */
  readonly answerTimeout: number;
  /** Returns the listener's status, a `ListenerStatus`. Must not call the application. */
  readonly status: () => object;
}

/**
 * The operators of a listener. However many they are and however often they ask, statuses are made one at a time, each
 * for all who have asked meanwhile, and making and sending them takes at most an eighth of this process's time, unless
 * that is less than one status a second.
 */
export class Operators {
  readonly #parts: OperatorsParts;
  readonly #connected = new Set<ConnectedOperator>();
  /** The operators that get the next status. */
  readonly #asking = new Set<ConnectedOperator>();
  /** The `performance.now()` before which no status is made. */
  #pauseEnd = 0;
  readonly #timer = new Timer(() => this.#answer(), 0);

  constructor(parts: OperatorsParts) {
    this.#parts = parts;
  }

  /** The number of connected operators. */
  get count(): number {
    return this.#connected.size;
  }

  /** The connections: they count in the limits of the listener. */
  [Symbol.iterator](): Iterator<ConnectedOperator> {
    return this.#connected.values();
  }

  /** Serves an operator whose handshake is over. */
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

  /** Ends all connections. */
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
    // What was sent meanwhile has made the pause longer.
    if (performance.now() < this.#pauseEnd) return this.#schedule();
    const asking = [...this.#asking];
    this.#asking.clear();
    const since = performance.now();
    const answer = this.#makeAnswer(asking);
    this.#spend(performance.now() - since);
    if (answer !== undefined) { for (const operator of asking) operator.answer(answer); }
  }

  /** The answer for those who have asked. If there is none, it is their connections that end, and nothing else. */
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

  /** Makes the pause before the next status longer. */
  #spend(milliseconds: number): void {
    const now = performance.now();
    this.#pauseEnd = Math.min(Math.max(this.#pauseEnd, now) + milliseconds * pauseFactor, now + longestPause);
  }
}

/** The maximum number of bytes of what an operator asks. */
export const maximumOperatorAskByteLength = 4096;
/** The maximum number of asks of one operator that are not answered completely. */
export const maximumOperatorAsks = 16;

/** What a `ConnectedOperator` needs from its listener. None of the functions may call the application. */
export interface OperatorOwner {
  /** Milliseconds in which an operator must read an answer. */
  readonly answerTimeout: number;
  /** The operator has asked for the status: `answer` is to be called. */
  onAsk(operator: ConnectedOperator): void;
  /** Sending has taken some milliseconds. */
  onSpent(milliseconds: number): void;
  /** The connection has ended. The error is undefined if the operator sent GOODBYE `done`. */
  onDisconnect(operator: ConnectedOperator, error: SharingError | undefined): void;
}

/**
 * The listener's end of a connection to an operator, who asks for the listener's status, holds nothing and is sent
 * nothing unasked. An answer that the operator does not read is kept only once, and not for long.
 */
export class ConnectedOperator {
  readonly peer: Peer;
  isConnected = true;
  readonly #stream: MessageStream;
  readonly #owner: OperatorOwner;
  readonly #documents = new Documents(maximumOperatorAskByteLength);
  /** The asks that are to be answered. */
  readonly #asks = new Set<number>();
  /** The requests that are being answered, and the unsent rest of each answer. */
  #answering: { readonly asks: ReadonlySet<number>; readonly messages: Iterator<DocumentMessage> } | undefined;
  /** Ends the connection if the answer is not read in time. */
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

  /** Answers everything that it has asked with a document, as soon as it reads. */
  answer(document: Uint8Array<ArrayBuffer>): void {
    if (!this.isConnected || this.#asks.size === 0) return;
    const asks = new Set(this.#asks);
    this.#asks.clear();
    this.#answering = { asks, messages: answersTo(asks, document) };
    this.#pump();
  }

  /** Ends the connection. */
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

  /** Sends more of the answer, as much as the operator reads. */
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
  for (const request of asks) yield* partsOf({ type: "answer", request }, document);
}
