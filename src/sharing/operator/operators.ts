import { isLogging, logEvent } from "../../support/event_log.ts";
import { messageForPeers } from "../../support/driver_errors.ts";
import { SharingError } from "../../support/errors.ts";
import { encodeDocument } from "../protocol/documents.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import { ConnectedOperator } from "./connected_operator.ts";

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
  /** Those who are to be sent the next status. */
  readonly #asking = new Set<ConnectedOperator>();
  /** The `performance.now()` before which no status is made. */
  #pauseEnd = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

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
    if (this.#asking.size === 0) this.#stop();
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
    this.#timer ??= setTimeout(() => this.#answer(), Math.max(0, this.#pauseEnd - performance.now()));
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #answer(): void {
    this.#timer = undefined;
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
