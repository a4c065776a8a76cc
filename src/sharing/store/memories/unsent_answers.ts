/**
 * The memory that unsent answers take.
 *
 * @module
 */
import type { SharingError } from "../../../support/errors.ts";
import { limitExceeded } from "../../protocol/messages.ts";
import type { StoreAnswer } from "./store_answer.ts";
import type { Stored } from "./stored.ts";

/** Maximum bytes of unsent answers, without the metadata of memory that is gone. */
const maximumOwnByteLength = 64 * 2 ** 20;

/** A client to which an answer is being sent. */
export interface AnswerReader {
  /** Ends the connection of a client that does not read. */
  cutOff(error: SharingError): void;
}

/**
 * The answers that are being sent. They refer to the store's own metadata, so that a client that does not read costs
 * little. The metadata of memory that is gone is retained while an answer needs it. If retained metadata exceeds the
 * store's limit, the client that has read nothing for the longest time is disconnected.
 */
export class UnsentAnswers {
  readonly #maximum: number;
  /** The answers by client. The client that has read nothing for the longest time comes first. */
  readonly #answers = new Map<AnswerReader, StoreAnswer>();
  /** The number of answers that need the metadata of a memory. */
  readonly #needed = new Map<Stored, number>();
  /** Memories that are gone, and whose metadata is needed by an answer. */
  readonly #gone = new Set<Stored>();
  #byteLength = 0;
  #willCutOff = false;

  /** @param maximumMetadata maximum bytes of metadata */
  constructor(maximumMetadata: number) {
    this.#maximum = maximumMetadata + maximumOwnByteLength;
  }

  /** Records that a part of an answer was sent to a client, and that more follows. */
  progress(reader: AnswerReader, answer: StoreAnswer): void {
    if (this.#answers.get(reader) === answer) {
      this.#answers.delete(reader);
      this.#answers.set(reader, answer);
      return;
    }
    this.end(reader);
    this.#answers.set(reader, answer);
    this.#byteLength += answer.ownByteLength;
    for (const memory of answer.memories) this.#needed.set(memory, (this.#needed.get(memory) ?? 0) + 1);
    this.#cutOffSoon();
  }

  /** Records that an answer was sent completely, or that its client is gone. */
  end(reader: AnswerReader): void {
    const answer = this.#answers.get(reader);
    if (answer === undefined) return;
    this.#answers.delete(reader);
    this.#byteLength -= answer.ownByteLength;
    for (const memory of answer.memories) {
      const count = this.#needed.get(memory)! - 1;
      if (count > 0) {
        this.#needed.set(memory, count);
        continue;
      }
      this.#needed.delete(memory);
      if (this.#gone.delete(memory)) this.#byteLength -= memory.metadata?.length ?? 0;
    }
  }

  /** Records that a memory is gone. */
  onGone(memory: Stored): void {
    if (!this.#needed.has(memory)) return;
    this.#gone.add(memory);
    this.#byteLength += memory.metadata?.length ?? 0;
    this.#cutOffSoon();
  }

  /** In a microtask, because disconnecting a client releases memory, and the store may be changing its memories now. */
  #cutOffSoon(): void {
    if (this.#willCutOff || this.#byteLength <= this.#maximum) return;
    this.#willCutOff = true;
    queueMicrotask(() => {
      this.#willCutOff = false;
      this.#cutOff();
    });
  }

  #cutOff(): void {
    for (const reader of this.#answers.keys()) {
      // A single list never exceeds the limit: a client gets it, however slowly it reads.
      if (this.#byteLength <= this.#maximum || this.#answers.size === 1) return;
      this.end(reader);
      reader.cutOff(limitExceeded("keep an answer", `${this.#maximum} bytes of what clients have not read`));
    }
  }
}
