/**
 * The standby's end of its connection to a store: holds duplicates of the store's descriptors, with which this process
 * takes over when the store is gone.
 *
 * @module
 */
import type { SharingError } from "../../support/errors.ts";
import { Documents, maximumAskByteLength, memberOf, sendDocument } from "../protocol/documents.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import { badMessage, type Message } from "../protocol/messages.ts";
import type { ShareableHandle } from "../../memory/handles/shareable_handle.ts";
import type { KeptDescriptor, KeptName } from "./descriptor_backups.ts";

/**
 * Milliseconds within which the store's process must exit after the connection was lost. After that time, the store is
 * considered alive.
 */
const graceMilliseconds = 2000;
const keptName = /^(?:table|memory-[1-9]\d*)$/;

/** Holds a backup of a store's descriptors, received over a connection. */
export class Standby {
  readonly #stream: MessageStream;
  readonly #documents = new Documents(maximumAskByteLength);
  readonly #kept = new Map<KeptName, ShareableHandle>();
  /** The handle from a MEMORY message, until the ANSWER that follows has arrived completely. */
  #handle: ShareableHandle | undefined;
  #request = 0;
  #hasEnded = false;
  readonly #onGone: (kept: readonly KeptDescriptor[]) => void;
  readonly #onLost: (error: SharingError) => void;

  /**
   * @param callbacks `onGone` is called with the held descriptors when the store is gone, and must close them; `close`
   * calls it with an empty array. `onLost` is called if the connection was lost but the store's process is still alive
   */
  constructor(
    stream: MessageStream,
    { onGone, onLost }: { onGone(kept: readonly KeptDescriptor[]): void; onLost(error: SharingError): void },
  ) {
    this.#stream = stream;
    this.#onGone = onGone;
    this.#onLost = onLost;
    stream.start({
      onMessage: (message) => this.#onMessage(message),
      onDrain() {},
      onEnd: (error) => this.#onEnd(error),
    });
    this.#askForNext();
  }

  /** Closes the connection and all held descriptors. */
  close(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#stream.end("done", "the standby was closed");
    this.#stream.process[Symbol.dispose]();
    this.#drop();
    this.#onGone([]);
  }

  #askForNext(): void {
    this.#request++;
    sendDocument((message) => this.#stream.send(message), { type: "ask", request: this.#request }, { do: "next" });
  }

  #onMessage(message: Message): void {
    if (message.type === "memory") {
      if (this.#handle !== undefined || message.request !== this.#request) throw badMessage("MEMORY was not asked for");
      this.#handle = message.handle;
      return;
    }
    if (message.type !== "answer" || message.request !== this.#request) {
      throw badMessage(`a message "${message.type}" comes from a store to its standby`);
    }
    const document = this.#documents.add(message);
    if (document === undefined) return;
    const [keep, forget] = [memberOf(document, "keep"), memberOf(document, "forget")];
    const name = keep ?? forget;
    const isKept = this.#handle !== undefined;
    if (typeof name !== "string" || !keptName.test(name) || isKept !== (keep !== undefined)) {
      throw badMessage("a store's change names nothing that it has, or comes without its descriptor");
    }
    this.#kept.get(name as KeptName)?.[Symbol.dispose]();
    if (isKept) this.#kept.set(name as KeptName, this.#handle!);
    else this.#kept.delete(name as KeptName);
    this.#handle = undefined;
    this.#askForNext();
  }

  #onEnd(error: SharingError | undefined): void {
    if (this.#hasEnded) return;
    const { process } = this.#stream;
    // After GOODBYE `done`, the store's listening socket is closed, so take over immediately. If the connection was
    // lost, wait until the store's process has exited.
    if (error === undefined || process.hasEnded) return this.#takeOver();
    if (error.code !== "peer-gone") return this.#lose(error);
    const timer = setTimeout(() => {
      stop();
      this.#lose(error);
    }, graceMilliseconds);
    const stop = process.whenEnded(() => {
      clearTimeout(timer);
      this.#takeOver();
    });
  }

  #takeOver(): void {
    this.#hasEnded = true;
    this.#handle?.[Symbol.dispose]();
    this.#stream.process[Symbol.dispose]();
    const kept = [...this.#kept].map(([name, handle]) => ({ name, handle }));
    this.#kept.clear();
    this.#onGone(kept);
  }

  #lose(error: SharingError): void {
    this.#hasEnded = true;
    this.#stream.process[Symbol.dispose]();
    this.#drop();
    this.#onLost(error);
  }

  #drop(): void {
    this.#handle?.[Symbol.dispose]();
    for (const handle of this.#kept.values()) handle[Symbol.dispose]();
    this.#kept.clear();
  }
}
