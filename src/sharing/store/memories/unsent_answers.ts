/**
 * What the answers cost that clients have not read yet.
 *
 * @module
 */
import type { SharingError } from "../../../support/errors.ts";
import { limitExceeded } from "../../protocol/messages.ts";
import type { StoreAnswer } from "./store_answer.ts";
import type { Stored } from "./stored.ts";

/** Bytes that the answers may take beside the metadata of memory that is gone. */
const maximumOwnByteLength = 64 * 2 ** 20;

/** A client that is sent an answer. */
export interface AnswerReader {
  /** Ends the connection of a client that does not read. */
  cutOff(error: SharingError): void;
}

/**
 * The answers that are being sent. They use the metadata that the store has, so that a client that does not read costs
 * little. The metadata of memory that is gone stays while an answer needs it: if that comes to more than the store may
 * have of metadata, the client that has read nothing for the longest is cut off.
 */
export class UnsentAnswers {
  readonly #maximum: number;
  /** By who reads them. Who has read nothing for the longest comes first. */
  readonly #answers = new Map<AnswerReader, StoreAnswer>();
  /** How many answers need the metadata of a memory. */
  readonly #needed = new Map<Stored, number>();
  /** The memories that are gone and whose metadata some answer needs. */
  readonly #gone = new Set<Stored>();
  #byteLength = 0;
  #willCutOff = false;

  /** @param maximumMetadata bytes of metadata that the store may have */
  constructor(maximumMetadata: number) {
    this.#maximum = maximumMetadata + maximumOwnByteLength;
  }

  /** Notes that a client has been sent some of an answer, and that there is more. */
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

  /** Notes that a client has been sent its answer, or is gone. */
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

  /** Notes that the store does not have a memory any more. */
  onGone(memory: Stored): void {
    if (!this.#needed.has(memory)) return;
    this.#gone.add(memory);
    this.#byteLength += memory.metadata?.length ?? 0;
    this.#cutOffSoon();
  }

  /** Not at once: whoever is cut off lets go of memory, perhaps while the store changes its own. */
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
      // A list alone is never too much: however slowly a client reads, it gets it.
      if (this.#byteLength <= this.#maximum || this.#answers.size === 1) return;
      this.end(reader);
      reader.cutOff(limitExceeded("keep an answer", `${this.#maximum} bytes of what clients have not read`));
    }
  }
}
