/**
 * The store's end of its connection to a standby.
 *
 * @module
 */
import { ShareableHandle } from "../../memory/handles/shareable_handle.ts";
import { duplicateDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { Documents, maximumAskByteLength, sendDocument } from "../protocol/documents.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import { badMessage, type Message } from "../protocol/messages.ts";
import { textOf } from "./fields.ts";
import type { DescriptorBackup, KeptName } from "./descriptor_backups.ts";

/** A change for the standby: a descriptor to hold or to drop. */
interface Change {
  readonly name: KeptName;
  /** Not owned; it must stay open until it is sent. Undefined to drop it. */
  readonly fd?: number;
  readonly onKept?: () => void;
}

/** A change that was sent. */
interface SentChange {
  /** The descriptors that the standby must hold. */
  readonly handle: ShareableHandle | undefined;
  readonly onKept: (() => void) | undefined;
}

/** A standby. It requests one change after another: each request confirms the change before. */
export class StandbyConnection implements DescriptorBackup {
  readonly #stream: MessageStream;
  readonly #timeout: number;
  readonly #onEnd: () => void;
  readonly #documents = new Documents(maximumAskByteLength);
  readonly #changes: Change[] = [];
  /** The change that was sent to the standby and is not confirmed. */
  #sent: SentChange | undefined;
  /** Ends the connection if the standby does not confirm the change in time, because clients wait for it. */
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The request that waits for the next change. */
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
      // Not duplicated yet: a new standby must hold everything, and the store may not have enough descriptors to
      // duplicate all at once.
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

  /** Backups do not wait for a standby that is gone. */
  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#confirm();
    for (const { onKept } of this.#changes.splice(0)) onKept?.();
    this.#stream.process[Symbol.dispose]();
    this.#onEnd();
  }
}
