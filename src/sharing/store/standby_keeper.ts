/**
 * A second process that keeps what a store has, at the store's end.
 *
 * @module
 */
import { ShareableHandle } from "../../memory/handles/shareable_handle.ts";
import { duplicateDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { Documents, maximumAskByteLength, sendDocument } from "../protocol/documents.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import { badMessage, type Message } from "../protocol/messages.ts";
import { textOf } from "./fields.ts";
import type { Keeper, KeptName } from "./keepers.ts";

/** Something to keep or to let go. */
interface Change {
  readonly name: KeptName;
  /** Borrowed until it is sent. Undefined to let it go. */
  readonly fd?: number;
  readonly onKept?: () => void;
}

/** A change that was sent. */
interface SentChange {
  /** What the standby is to keep. */
  readonly handle: ShareableHandle | undefined;
  readonly onKept: (() => void) | undefined;
}

/**
 * A standby. It asks for one change after another: the next request says that it has what the last answer brought.
 */
export class StandbyKeeper implements Keeper {
  readonly #stream: MessageStream;
  readonly #timeout: number;
  readonly #onEnd: () => void;
  readonly #documents = new Documents(maximumAskByteLength);
  readonly #changes: Change[] = [];
  /** The change that the standby was sent, and has not confirmed. */
  #sent: SentChange | undefined;
  /** Ends the connection if the standby does not confirm it in time: clients wait for that. */
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The request that waits for a change. */
  #request: number | undefined;
  #isOver = false;

  /** @param timeout milliseconds in which the standby must confirm each change */
  constructor(stream: MessageStream, timeout: number, onEnd: () => void) {
    this.#stream = stream;
    this.#timeout = timeout;
    this.#onEnd = onEnd;
    stream.start({
      onMessage: (message) => this.#onMessage(message),
      onDrain() {},
      onEnd: () => this.#end(),
    });
  }

  keep(name: KeptName, fd: number): Promise<void> {
    if (this.#isOver) return Promise.resolve();
    return new Promise((resolve) => {
      // Not duplicated yet: a standby that has just come is to keep everything, and the store may have no descriptors for
      // twice as much.
      this.#changes.push({ name, fd, onKept: resolve });
      this.#sendNext();
    });
  }

  forget(name: KeptName): void {
    if (this.#isOver) return;
    const unsent = this.#changes.findIndex((change) => change.name === name && change.fd !== undefined);
    if (unsent >= 0) {
      const [change] = this.#changes.splice(unsent, 1);
      return change!.onKept?.();
    }
    this.#changes.push({ name });
    this.#sendNext();
  }

  /** Lets the standby take over. */
  close(): void {
    if (this.#isOver) return;
    this.#stream.end("done", "the store was closed");
    this.#end();
  }

  #onMessage(message: Message): void {
    if (message.type !== "ask") throw badMessage(`a message "${message.type}" comes from a standby`);
    const document = this.#documents.add(message);
    if (document === undefined) return;
    const what = textOf(document, "do");
    if (what !== "next") throw badMessage(`a standby asks for ${JSON.stringify(what.slice(0, 40))}`);
    if (this.#request !== undefined) throw badMessage("a standby asks for two changes at once");
    this.#request = message.request;
    this.#confirm();
    this.#sendNext();
  }

  #confirm(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const sent = this.#sent;
    this.#sent = undefined;
    sent?.handle?.[Symbol.dispose]();
    sent?.onKept?.();
  }

  #sendNext(): void {
    const request = this.#request;
    if (this.#changes.length === 0) return;
    if (request === undefined) return this.#startTimer();
    this.#request = undefined;
    const { name, fd, onKept } = this.#changes.shift()!;
    let handle: ShareableHandle | undefined;
    try {
      handle = fd === undefined ? undefined : ShareableHandle.fromFd(duplicateDescriptor(fd));
    } catch {
      onKept?.();
      this.#stream.end("out-of-resources", "the store has no descriptor left");
      return this.#end();
    }
    this.#sent = { handle, onKept };
    this.#startTimer();
    const send = (message: Message): void => this.#stream.send(message);
    if (handle !== undefined) send({ type: "memory", request, handle });
    sendDocument(send, { type: "answer", request }, { ok: true, [handle === undefined ? "forget" : "keep"]: name });
  }

  #startTimer(): void {
    this.#timer ??= setTimeout(() => {
      this.#stream.end("timed-out", `the standby did not keep what it should within ${this.#timeout} ms`);
      this.#end();
    }, this.#timeout);
  }

  /** Nobody waits for a standby that is gone. */
  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#confirm();
    for (const { onKept } of this.#changes.splice(0)) onKept?.();
    this.#stream.process[Symbol.dispose]();
    this.#onEnd();
  }
}
