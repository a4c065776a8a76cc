import { runEach } from "../../support/errors.ts";
import { badMessage, type Message } from "../protocol/messages.ts";
import type { LocalEvent, LocalEvents } from "./local_events.ts";

/** The dependencies of `EventAnswers`. */
export interface EventAnswersParts {
  readonly events: LocalEvents;
  /** Returns the event with a number if it was announced to the peer. */
  find(event: number): LocalEvent | undefined;
  send(message: Message): void;
  /** Whether the peer reads more slowly than messages are sent. */
  isBacklogged(): boolean;
}

/** Answers the WAIT messages of a peer that cannot open events of this process: sends FIRED for each. */
export class EventAnswers {
  readonly #parts: EventAnswersParts;
  /** The functions that cancel the waits for events whose FIRED was not sent. */
  readonly #waits = new Map<number, () => void>();
  /** Those of them that have fired while the peer did not read. */
  readonly #unsent = new Set<number>();

  constructor(parts: EventAnswersParts) {
    this.#parts = parts;
  }

  /** Whether FIRED has to be sent for an event before anything that is sent about a later record of it. */
  get hasUnsent(): boolean {
    return this.#unsent.size > 0;
  }

  /** Handles WAIT. */
  onWait(event: number): void {
    const localEvent = this.#parts.find(event);
    if (localEvent === undefined) throw badMessage(`event ${event} is waited for and was not announced`);
    if (this.#waits.has(event)) throw badMessage(`event ${event} is waited for twice`);
    this.#wait(event, localEvent);
  }

  /** Sends what the peer did not read before. */
  pump(): void {
    for (const event of this.#unsent) {
      if (this.#parts.isBacklogged()) return;
      this.#unsent.delete(event);
      // It may have been recorded again, for a peer that does not know that it fired before.
      this.#wait(event, this.#parts.find(event));
    }
  }

  /** Cancels all waits. */
  close(): void {
    const cancels = [...this.#waits.values()];
    this.#waits.clear();
    this.#unsent.clear();
    runEach(...cancels);
  }

  #wait(event: number, localEvent: LocalEvent | undefined): void {
    // An event that was forgotten meanwhile has nobody who waits for it.
    if (localEvent === undefined) return void this.#waits.delete(event);
    const { events, send, isBacklogged } = this.#parts;
    this.#waits.set(event, () => {});
    const cancel = events.whenFired(localEvent, (error) => {
      // If the device is lost, the event never fires, and the end of the connection or the process answers.
      if (error !== undefined) return;
      if (isBacklogged()) return void this.#unsent.add(event);
      this.#waits.delete(event);
      send({ type: "fired", event });
    });
    if (this.#waits.has(event)) this.#waits.set(event, cancel);
  }
}
