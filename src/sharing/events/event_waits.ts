/**
 * Waits for events that peers have asked about, and how many a peer may ask about at once.
 *
 * @module
 */
import { whenDone } from "../../support/waiting/waiting.ts";
import { Timer } from "../../support/waiting/timer.ts";

/** Milliseconds for which a wait is polled as often as the waits for this process's own work. */
const promptMilliseconds = 16;
/** The maximum number of waits that are polled so often. */
const maximumPrompt = 64;
/** After that, the pause between two polls is this part of the time since anything happened. */
const pauseRatio = 1 / 16;
const shortestPause = 1;
/** Milliseconds between two polls at most, while the peer is connected and afterwards. */
const longestPause = { connected: 100, ended: 1000 } as const;
/** How many events that have not fired are queried after a pause, in turn. */
const unfiredPerPause = 32;
/** The maximum number of waits that continue after the connection has ended. */
const maximumAfterEnd = 64;

/** Who waits for an event. */
export interface EventWaiter {
  readonly callback: (error?: unknown) => void;
  /** The number of the event. */
  readonly event: number;
}

interface EventWait extends EventWaiter {
  readonly hasFired: () => boolean;
  /** Ends the prompt polling of the wait. */
  cancelPrompt: (() => void) | undefined;
}

/**
 * The waits for events of one peer, which may never fire. Each is polled at every opportunity for 16 milliseconds. The
 * longer nothing happens after that, the longer the pauses: an event that fires later is noticed after a sixteenth of
 * that time, or a tenth of a second. However many events a peer lends, few are queried after each pause.
 */
export class EventWaits {
  readonly #prompt = new Set<EventWait>();
  /** Waits that are polled after pauses, those that were polled longest ago first. */
  readonly #patient = new Set<EventWait>();
  readonly #timer = new Timer(() => this.#pollPatient(), 0);
  /** The `performance.now()` at which the timer calls back. */
  #due = 0;
  /** The `performance.now()` when an event fired last, or a wait became patient. */
  #lastChange = 0;
  #lastPoll = 0;
  #isPolling = false;
  #hasEnded = false;

  /**
   * Calls back once, when `hasFired` returns true, or with the error that it throws. Polls it at once, so the callback
   * may run before this returns. Returns a function that cancels the wait.
   */
  start(hasFired: () => boolean, { callback, event }: EventWaiter): () => void {
    const wait: EventWait = { hasFired, callback, event, cancelPrompt: undefined };
    if (this.#prompt.size < maximumPrompt && !this.#hasEnded) this.#pollPromptly(wait);
    else if (!this.#poll(wait)) this.#postpone(wait);
    return () => this.#cancel(wait);
  }

  /**
   * The connection has ended: the end of the peer's process answers most of what its events could. The oldest waits
   * continue, so that the memory of a peer that goes on living comes back when it has released it. Returns the events
   * that they are for.
   */
  end(): Set<number> {
    this.#hasEnded = true;
    for (const wait of [...this.#patient, ...this.#prompt].slice(maximumAfterEnd)) this.#cancel(wait);
    return new Set([...this.#patient, ...this.#prompt].map(({ event }) => event));
  }

  /** Cancels all waits. */
  cancelAll(): void {
    for (const wait of [...this.#prompt, ...this.#patient]) this.#cancel(wait);
  }

  #pollPromptly(wait: EventWait): void {
    const since = performance.now();
    let isLate = false;
    let isOver = false;
    this.#prompt.add(wait);
    const cancel = whenDone(() => {
      if (wait.hasFired()) return true;
      return isLate = performance.now() > since + promptMilliseconds;
    }, (error) => {
      isOver = true;
      this.#prompt.delete(wait);
      if (isLate) return this.#postpone(wait);
      wait.callback(error);
      this.#onFired();
    });
    if (!isOver) wait.cancelPrompt = cancel;
  }

  /** Polls a wait once. Returns whether it has ended. */
  #poll(wait: EventWait): boolean {
    let error: unknown;
    try {
      if (!wait.hasFired()) return false;
    } catch (thrown) {
      error = thrown;
    }
    this.#patient.delete(wait);
    wait.callback(error);
    return true;
  }

  #postpone(wait: EventWait): void {
    this.#patient.add(wait);
    this.#lastChange = performance.now();
    this.#schedule();
  }

  #cancel(wait: EventWait): void {
    wait.cancelPrompt?.();
    this.#prompt.delete(wait);
    this.#patient.delete(wait);
    if (this.#patient.size === 0) this.#timer.stop();
  }

  /** An event has fired: others of the same stream probably have, too. */
  #onFired(): void {
    if (this.#patient.size === 0 || this.#isPolling) return;
    this.#lastChange = performance.now();
    if (this.#lastChange >= this.#lastPoll + shortestPause) this.#pollPatient();
    else this.#schedule();
  }

  #pollPatient(): void {
    this.#isPolling = true;
    let left = this.#patient.size;
    let unfired = 0;
    try {
      // Polled waits, and waits that callbacks start, come last.
      for (const wait of this.#patient) {
        if (left-- === 0) break;
        if (this.#poll(wait)) {
          this.#lastChange = performance.now();
        } else {
          this.#patient.delete(wait);
          this.#patient.add(wait);
          if (++unfired >= unfiredPerPause) break;
        }
      }
    } finally {
      this.#isPolling = false;
      this.#lastPoll = performance.now();
      this.#schedule();
    }
  }

  #schedule(): void {
    if (this.#patient.size === 0) return;
    const now = performance.now();
    const longest = this.#hasEnded ? longestPause.ended : longestPause.connected;
    const pause = Math.max(shortestPause, Math.min((now - this.#lastChange) * pauseRatio, longest));
    if (this.#timer.isRunning && this.#due <= now + pause) return;
    this.#timer.stop();
    this.#due = now + pause;
    this.#timer.start(pause);
  }
}

/** The maximum number of importers' events that an exporter keeps: about as many as it can have open at a time. */
const maximumKept = 4096;

/**
 * Divides the events that an exporter keeps among its users. An importer may announce a thousand, and each costs two
 * kilobytes once a release names it. Of an event beyond the budget only the number is kept, and its owner is asked.
 */
export class EventBudget {
  readonly #maximumOfUser: number;
  /** The numbers of events that are kept, by user. */
  readonly #kept = new Map<number, number>();

  /** @param users the number of users who may connect */
  constructor(users: number) {
    this.#maximumOfUser = Math.ceil(maximumKept / users);
  }

  /** Counts another event of a user. Returns false if it is one too many. */
  tryAdd(uid: number): boolean {
    const kept = this.#kept.get(uid) ?? 0;
    if (kept >= this.#maximumOfUser) return false;
    this.#kept.set(uid, kept + 1);
    return true;
  }

  /** Counts an event of a user that is not kept any more. */
  remove(uid: number): void {
    this.#kept.set(uid, this.#kept.get(uid)! - 1);
  }
}

/** Receives the error of a query, and the event's number. */
export type FiredCallback = (error: unknown, event: number) => void;

/**
 * The events of one peer of which only the numbers are kept. They are not opened: WAIT asks the peer, as it does for
 * events that cannot be opened. Each is waited for once at a time.
 */
export class AskedEvents {
  readonly #ask: (event: number) => void;
  /** What FIRED calls back, by event: `nobody` after the wait was canceled, undefined if WAIT was answered or not sent. */
  readonly #waiting = new Map<number, FiredCallback | undefined>();

  /** @param ask sends WAIT */
  constructor(ask: (event: number) => void) {
    this.#ask = ask;
  }

  /** The number of events. */
  get size(): number {
    return this.#waiting.size;
  }

  add(event: number): void {
    this.#waiting.set(event, undefined);
  }

  has(event: number): boolean {
    return this.#waiting.has(event);
  }

  /** Calls back when FIRED arrives. Sends WAIT unless it is unanswered. Returns a function that cancels the callback. */
  whenFired(event: number, callback: FiredCallback): () => void {
    const isAsked = this.#waiting.get(event) !== undefined;
    this.#waiting.set(event, callback);
    if (!isAsked) this.#ask(event);
    return () => {
      if (this.#waiting.get(event) === callback) this.#waiting.set(event, nobody);
    };
  }

  /** Handles FIRED. Returns false if it answers no WAIT. */
  onFired(event: number): boolean {
    const callback = this.#waiting.get(event);
    if (callback === undefined) return false;
    this.#waiting.set(event, undefined);
    callback(undefined, event);
    return true;
  }

  /** Forgets all events: nothing more arrives. */
  clear(): void {
    this.#waiting.clear();
  }
}

function nobody(): void {}
