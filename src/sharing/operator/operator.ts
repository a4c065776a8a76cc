import { countOf, printAs, refuseUsing } from "../../support/printing.ts";
import { SharingError } from "../../support/errors.ts";
import { disposedMeanwhile, type WaitOptions, waitOptionsOf } from "../../support/waiting/waiting.ts";
import { abortable } from "../transport/abortable.ts";
import { checkOptions, type KnownOptions } from "../../support/validation.ts";
import { connectToExporter } from "../importer/connect_to_exporter.ts";
import { Documents, type JsonObject, sendDocument } from "../protocol/documents.ts";
import { MessageStream } from "../protocol/message_stream.ts";
import { badMessage, codeOfGoodbye, goodbyeReasons, type Message } from "../protocol/messages.ts";
import type { Peer } from "../transport/unix_socket.ts";
import { readStatus } from "./read_status.ts";
import type { ListenerStatus } from "./status.ts";
import { ReferenceError, TypeError } from "../../support/program_errors.ts";

/** Options of `Operator.connect`. */
export interface OperatorOptions extends WaitOptions {
  /** IDs of other users whose listeners are trusted. By default, only listeners of this process's user are trusted. */
  users?: readonly number[];
  /** Milliseconds within which the listener must complete the handshake: 5000 by default. */
  handshakeTimeout?: number;
  /** Milliseconds from the first byte of a message within which the whole message must arrive: 5000 by default. */
  messageTimeout?: number;
  /** Whether to wait until a process listens at the path: false by default. */
  wait?: boolean;
}

const operatorOptions: KnownOptions<OperatorOptions> = {
  action: "connect as an operator",
  names: { users: true, handshakeTimeout: true, messageTimeout: true, wait: true, signal: true },
};
const statusOptions = waitOptionsOf("ask for a status");

/** The maximum size of an answer in bytes. */
const maximumAnswerByteLength = 64 * 2 ** 20;

/** A pending call of `status`. */
interface Waiting {
  readonly resolve: (status: ListenerStatus) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A connection that monitors an exporter or a store: its offers or entries, which processes hold them and since when,
 * and the state of its channels. An operator holds no memory, and importers are not affected by it.
 *
 * @example Print the processes that hold each offer
 * ```ts ignore
 * await using operator = await Operator.connect("/run/user/1000/frames.sock");
 * const status = await operator.status();
 * if (status.kind === "exporter") {
 *   for (const { name, holders } of status.offers) console.log(name, holders.map(({ pid }) => pid));
 * }
 * ```
 */
export class Operator implements AsyncDisposable {
  /** The path that the operator is connected to. */
  readonly path: string;
  readonly #stream: MessageStream;
  readonly #documents = new Documents(maximumAnswerByteLength);
  readonly #waiting = new Map<number, Waiting>();
  #lastRequest = 0;
  /** The error that later requests throw. Set once the connection is closed. */
  #end: unknown;

  static {
    printAs(this, "Operator", (operator) => {
      const state = operator.isConnected ? `process ${operator.peer.pid}` : "not connected";
      return `Operator { ${operator.path}, ${state}, ${countOf(operator.#waiting.size, "request")} }`;
    }, ["path", "peer", "isConnected"]);
    refuseUsing(this, "Operator");
  }

  private constructor(path: string, stream: MessageStream) {
    if (!(stream instanceof MessageStream)) {
      throw new TypeError("Cannot construct an Operator directly: use Operator.connect");
    }
    this.path = path;
    this.#stream = stream;
    stream.start({
      onMessage: (message) => this.#onMessage(message),
      onDrain() {},
      onEnd: (error) =>
        this.#endWith(
          error ?? new SharingError("peer-gone", `Cannot continue with process ${this.peer.pid}: it said goodbye`),
        ),
    });
  }

  /**
   * Connects to an exporter or a store.
   *
   * @param path the path at which the exporter or store listens
   * @param options the users whose listeners are trusted, time limits, whether to wait for a listener, and a signal
   * that aborts the wait
   * @throws {SharingError} `not-found` or `not-listening` if no process listens at the path, `not-permitted`,
   * `timed-out`, `limit-exceeded`, `bad-message` if the listener does not serve operators, and others
   */
  static async connect(path: string, options: OperatorOptions = {}): Promise<Operator> {
    checkOptions(options, operatorOptions);
    const stream = await connectToExporter(path, { ...options, role: "operator" }, () => false);
    return new Operator(path, stream!);
  }

  /** The process of the listener. */
  get peer(): Peer {
    return this.#stream.peer;
  }

  /** Whether the listener is still connected. */
  get isConnected(): boolean {
    return this.#end === undefined;
  }

  /**
   * Requests the listener's status. The answer is a snapshot taken after the call. A listener with many requests
   * answers several operators at once, and may delay its answers by up to a second, to limit the time that it spends on
   * operators.
   *
   * @param options a signal that aborts the wait
   * @throws {SharingError} `peer-gone` and others if the connection is closed
   * @throws {ReferenceError} If the operator was disposed
   */
  status(options: WaitOptions = {}): Promise<ListenerStatus> {
    return abortable<ListenerStatus>(
      (resolve, reject) => {
        if (this.#end !== undefined) return reject(this.#end);
        const request = this.#lastRequest = this.#lastRequest % (2 ** 32 - 1) + 1;
        this.#waiting.set(request, { resolve, reject });
        sendDocument((message) => this.#stream.send(message), { type: "ask", request }, { do: "status" });
      },
      options,
      { awaited: `the status of ${this.path}`, known: statusOptions },
    );
  }

  /** Closes the connection. */
  [Symbol.asyncDispose](): Promise<void> {
    if (this.isConnected) {
      this.#stream.end("done");
      this.#endWith(disposedMeanwhile(`ask for the status of ${this.path}`, "the operator"));
      this.#end = new ReferenceError(`Cannot ask for the status of ${this.path}: the operator was disposed`);
    }
    return Promise.resolve();
  }

  #onMessage(message: Message): void {
    if (message.type !== "answer") throw badMessage(`a message "${message.type}" comes for an operator`);
    const { request } = message;
    const waiting = this.#waiting.get(request);
    if (waiting === undefined) throw badMessage(`an answer comes to request ${request}, which was not made`);
    const document = this.#documents.add(message);
    if (document === undefined) return;
    const status = document.ok === true ? readStatus(document.status) : undefined;
    this.#waiting.delete(request);
    if (status !== undefined) waiting.resolve(status);
    else waiting.reject(refusal(this.path, document));
  }

  #endWith(error: unknown): void {
    this.#end = error;
    this.#stream.process[Symbol.dispose]();
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

/** Returns the error for an answer whose `ok` is not true. */
function refusal(path: string, { code, message }: JsonObject): SharingError {
  const known = goodbyeReasons.find((reason) => reason === code);
  const text = typeof message === "string" ? message.slice(0, 1024) : "it gives no reason";
  return new SharingError(
    known === undefined || known === "done" ? "internal-error" : codeOfGoodbye(known),
    `Cannot have the status of ${path}: ${text}`,
  );
}
