/**
 * The client's end of a connection to a store, which is reestablished if another process replaces the store.
 *
 * @module
 */
import { SharingError, type SharingErrorCode, sharingErrorCodes } from "../../support/errors.ts";
import { Timer } from "../../support/waiting/timer.ts";
import { abortError, throwIfAborted } from "../../support/waiting/waiting.ts";
import { connectToExporter } from "../importer/connect_to_exporter.ts";
import type { ImporterOptions } from "../importer/importer.ts";
import type { ShareableHandle } from "../../memory/handles/shareable_handle.ts";
import { Documents, type JsonObject, memberOf, numbersOf, sendDocument } from "../protocol/documents.ts";
import { badMessage, limitExceeded, type Message } from "../protocol/messages.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import { awaitAnswer } from "../transport/poller.ts";
import { ReferenceError } from "../../support/program_errors.ts";

/** The maximum number of unanswered requests of a client, slightly less than a store accepts. */
const mostAsks = 16_000;

/**
 * Milliseconds to wait for the store's answer to an aborted request, which explains why the request was still waiting.
 */
const explanationTimeout = 200;
/** The maximum number of characters of a store's explanation. */
const maximumExplanation = 1000;

/** A store's answer. */
export interface ReceivedAnswer {
  readonly document: JsonObject;
  /**
   * The handle of the memory that the answer refers to, which the receiver must dispose of; undefined if there is none.
   */
  readonly handle: ShareableHandle | undefined;
}

/** An unanswered request. */
interface Ask {
  readonly document: JsonObject;
  /** Whether the request applies only to the store it was sent to, and must not be resent to another store. */
  readonly isOfConnection?: boolean;
  /** Returns whether the caller still waits for the answer. */
  readonly isWanted?: () => boolean;
  /** Called with the answer, even if the caller no longer waits for it. */
  readonly onAnswer: (answer: ReceivedAnswer) => void;
  readonly onFailure: (error: unknown) => void;
  /** The connection over which the request was last sent. */
  stream?: MessageStream;
  /** Whether the request was sent over an earlier connection before. */
  isRepeated?: boolean;
}

/** Options of a request. */
interface AskOptions {
  readonly signal?: AbortSignal | undefined;
  /** What the request waits for, as a phrase for the error message if the wait is aborted. */
  readonly awaited?: string;
  /**
   * The error code that means success if the request was resent: an earlier store has already performed the request,
   * but its answer was lost.
   */
  readonly doneCode?: SharingErrorCode;
  /** Whether the store's answer to an aborted request explains why the request was still waiting. */
  readonly isExplained?: boolean;
  /**
   * Whether an aborted request resolves or rejects only when the store has answered, and resolves if the store has
   * performed the request nevertheless.
   */
  readonly isDecided?: boolean;
}

/** Callbacks and limits of a `StoreLink`. */
interface LinkParts {
  readonly path: string;
  readonly options: ImporterOptions;
  /** The maximum number of bytes of all answers that are being received. */
  readonly maximumAnswer: number;
  /** Milliseconds within which a store must be available again after the connected store is gone. */
  readonly reconnectTimeout: number;
  /** Returns the allocations that this process holds, which it claims when it connects to the next store. */
  readonly claims: () => readonly JsonObject[];
  /** Called with the numbers of the claimed allocations that the store does not have. */
  readonly onUnknown: (ids: readonly number[]) => void;
  /** Called with an answer that the caller no longer waits for. */
  readonly onUnwanted: (answer: ReceivedAnswer) => void;
}

/**
 * A client's connection to a store. If the store is gone, connects to the next store at the path and resends the
 * unanswered requests.
 */
export class StoreLink {
  readonly #parts: LinkParts;
  readonly #asks = new Map<number, Ask>();
  /** Handles that have arrived before their answers, keyed by the number of the request. */
  readonly #handles = new Map<number, ShareableHandle>();
  readonly #closing = new AbortController();
  #documents: Documents;
  #stream: MessageStream | undefined;
  #lastRequest = 0;
  /** The error with which all further requests fail. Set once the link was closed or reconnecting has failed. */
  #failure: SharingError | undefined;

  private constructor(parts: LinkParts) {
    this.#parts = parts;
    this.#documents = new Documents(parts.maximumAnswer);
  }

  /** Connects to the store. */
  static async connect(parts: LinkParts): Promise<StoreLink> {
    const link = new StoreLink(parts);
    const { signal } = link.#closing;
    const options = { ...parts.options, role: "store-client" as const };
    const stream = await connectToExporter(parts.path, options, () => signal.aborted);
    link.#start(stream!);
    return link;
  }

  /**
   * Sends a request, and resolves to the answer. If the store is gone before it has answered, the request is resent to
   * the next store.
   *
   * @throws {SharingError} The error in the store's answer, or `peer-gone`
   */
  ask(
    document: JsonObject,
    { signal, awaited, doneCode, isExplained = false, isDecided = false }: AskOptions = {},
  ): Promise<ReceivedAnswer> {
    return new Promise((resolve, reject) => {
      throwIfAborted(signal);
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#asks.size >= mostAsks) {
        throw limitExceeded(`ask the store at ${this.#parts.path}`, `${mostAsks} requests that are not answered`);
      }
      const request = this.#nextRequest();
      let isWanted = true;
      const store = `the store at ${this.#parts.path}`;
      const rejectAborted = (why?: string): void => {
        explanation.stop();
        const reason: unknown = signal!.reason;
        reject(abortError(reason, awaited === undefined ? store : `${awaited} ${store}`, () => why));
      };
      const explanation = new Timer(rejectAborted, explanationTimeout);
      const onAbort = (): void => {
        if (isDecided && this.#stream !== undefined && ask.stream === this.#stream) {
          return this.notify({ do: "cancel", request });
        }
        isWanted = false;
        // If the request was not sent to the current store, no "cancel" is needed: just drop the request.
        if (this.#stream === undefined || ask.stream !== this.#stream) {
          this.#asks.delete(request);
          return rejectAborted();
        }
        this.notify({ do: "cancel", request });
        if (isExplained) explanation.start();
        else rejectAborted();
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      const settle = (): void => signal?.removeEventListener("abort", onAbort);
      const ask: Ask = {
        document,
        isWanted: () => isWanted,
        onAnswer: (answer) => {
          settle();
          if (!isWanted) {
            const instead = memberOf(answer.document, "instead");
            rejectAborted(typeof instead === "string" ? instead.slice(0, maximumExplanation) : undefined);
            return this.#parts.onUnwanted(answer);
          }
          const error = errorOf(answer.document);
          const wasDone = ask.isRepeated === true && error?.code === doneCode;
          if (error === undefined || wasDone) return resolve(answer);
          answer.handle?.[Symbol.dispose]();
          if (isDecided && signal?.aborted === true && error!.code === "cut-off") rejectAborted();
          else reject(error);
        },
        onFailure: (error) => {
          settle();
          if (isWanted) reject(error);
          else rejectAborted();
        },
      };
      this.#send(request, ask);
    });
  }

  /** Sends a request to the current store only, and ignores the answer. Does nothing while there is no connection. */
  notify(document: JsonObject): void {
    if (this.#stream === undefined) return;
    void this.#askConnection(document);
  }

  /**
   * Sends a request to the current store only, and resolves to the answer. Resolves to undefined if the connection is
   * closed first.
   */
  #askConnection(document: JsonObject): Promise<JsonObject | undefined> {
    return new Promise((resolve) => {
      const request = this.#nextRequest();
      const onAnswer = ({ document, handle }: ReceivedAnswer): void => {
        handle?.[Symbol.dispose]();
        resolve(document);
      };
      this.#send(request, { document, isOfConnection: true, onAnswer, onFailure: () => resolve(undefined) });
    });
  }

  /** Closes the connection permanently. `isClean` states that this client holds no allocations. */
  close(isClean: boolean): void {
    this.#closing.abort(new ReferenceError(`The client of the store at ${this.#parts.path} was disposed`));
    // Send the list of held allocations, so that the store releases the allocations in unread answers.
    if (!isClean) this.notify({ do: "leave", held: this.#parts.claims() });
    this.#stream?.end(isClean ? "done" : "not-released");
    this.#leave();
    this.#fail(new SharingError("cut-off", `Cannot use the store at ${this.#parts.path}: its client was disposed`));
  }

  #nextRequest(): number {
    do this.#lastRequest = this.#lastRequest % 0xffff_ffff + 1; while (this.#asks.has(this.#lastRequest));
    return this.#lastRequest;
  }

  /** Sends a request, or registers it to be sent when the connection is reestablished. */
  #send(request: number, ask: Ask): void {
    this.#asks.set(request, ask);
    const stream = this.#stream;
    if (stream === undefined) return;
    ask.isRepeated = ask.stream !== undefined;
    ask.stream = stream;
    sendDocument((message) => stream.send(message), { type: "ask", request }, ask.document);
    stream.flush();
    awaitAnswer();
  }

  #start(stream: MessageStream): void {
    this.#stream = stream;
    this.#documents = new Documents(this.#parts.maximumAnswer);
    stream.start({
      onMessage: (message) => this.#onMessage(message),
      onDrain() {},
      onEnd: (error) => this.#onEnd(error),
    });
  }

  #onMessage(message: Message): void {
    if (message.type === "memory") {
      if (!this.#asks.has(message.request) || this.#handles.has(message.request)) {
        throw badMessage("MEMORY answers nothing");
      }
      this.#handles.set(message.request, message.handle);
      return;
    }
    if (message.type !== "answer") throw badMessage(`a message "${message.type}" comes from a store`);
    const { request } = message;
    const ask = this.#asks.get(request);
    if (ask === undefined) throw badMessage(`ANSWER ${request} answers nothing`);
    const document = this.#documents.add(message);
    if (document === undefined) return;
    this.#asks.delete(request);
    const handle = this.#handles.get(request);
    this.#handles.delete(request);
    ask.onAnswer({ document, handle });
  }

  #leave(): void {
    this.#stream?.process[Symbol.dispose]();
    this.#stream = undefined;
    for (const handle of this.#handles.values()) handle[Symbol.dispose]();
    this.#handles.clear();
  }

  #onEnd(error: SharingError | undefined): void {
    this.#leave();
    for (const [request, { isOfConnection = false, isWanted = () => true, onFailure }] of this.#asks) {
      if (!isOfConnection && isWanted()) continue;
      this.#asks.delete(request);
      onFailure(error);
    }
    // The store may be restarted if it sent GOODBYE `done` or has died.
    if (error === undefined || error.code === "peer-gone") return void this.#connectAgain();
    this.#fail(error);
  }

  async #connectAgain(): Promise<void> {
    const { path, options, reconnectTimeout } = this.#parts;
    const limits = reconnectTimeout === Infinity ? [] : [AbortSignal.timeout(reconnectTimeout)];
    const signal = AbortSignal.any([this.#closing.signal, ...limits]);
    try {
      const all = { ...options, role: "store-client" as const, wait: true, signal };
      let stream: MessageStream | undefined;
      while (stream === undefined) {
        signal.throwIfAborted();
        try {
          stream = await connectToExporter(path, all, () => signal.aborted);
        } catch (error) {
          // Retry if the handshake has timed out, because a store that has just started may be slow.
          if (signal.aborted || !(error instanceof SharingError) || error.code !== "timed-out") throw error;
        }
      }
      this.#start(stream);
      await this.#resume();
    } catch (cause) {
      if (this.#closing.signal.aborted) return;
      this.#fail(
        new SharingError(
          "peer-gone",
          `Cannot use the store at ${path}: it is gone, and none was there again within ${reconnectTimeout} ms ` +
            "(reconnectTimeout); what is mapped stays valid",
          { cause },
        ),
      );
    }
  }

  /** Sends the new store a claim for the allocations that this process holds, and resends the unanswered requests. */
  async #resume(): Promise<void> {
    const stream = this.#stream;
    const asks = [...this.#asks];
    const document = await this.#askConnection({ do: "claim", held: this.#parts.claims() });
    // If the connection has been reestablished in the meantime, another call sends the claim over the new connection.
    if (document === undefined || this.#stream !== stream) return;
    this.#parts.onUnknown(numbersOf(document, "unknown", 1));
    for (const [request, ask] of asks) if (this.#asks.has(request)) this.#send(request, ask);
  }

  #fail(error: SharingError): void {
    this.#failure ??= error;
    const asks = [...this.#asks.values()];
    this.#asks.clear();
    for (const { onFailure } of asks) onFailure(error);
  }
}

/** Returns the error in a store's answer; undefined if the request has succeeded. */
function errorOf(document: JsonObject): SharingError | undefined {
  if (memberOf(document, "ok") === true) return undefined;
  const code = memberOf(document, "code");
  const message = memberOf(document, "message");
  return new SharingError(
    sharingErrorCodes.find((known) => known === code) ?? "internal-error",
    typeof message === "string" ? message : "Cannot use the store: it gave no reason",
  );
}
