/**
 * Waits for the events that peers have announced, and limits on the number of events kept for each user.
 *
 * @module
 */
import { whenDone } from "../../support/waiting/waiting.ts";
import { Timer } from "../../support/waiting/timer.ts";

/** Milliseconds for which a new wait is polled promptly, that is, as often as this process's own work is polled. */
const promptMilliseconds = 16;
/** The maximum number of waits that are polled promptly. */
const maximumPrompt = 64;
/** The pause between two polls of waits that are not polled promptly, as a fraction of the time since `#lastChange`. */
const pauseRatio = 1 / 16;
const shortestPause = 1;
/**
 * The maximum pause between two polls in milliseconds: while the peer is connected, and after the connection was
 * closed.
 */
const longestPause = { connected: 100, ended: 1000 } as const;
/** The maximum number of unfired events that one poll queries. The next poll resumes with the remaining events. */
const unfiredPerPause = 32;
/** The maximum number of waits that continue after the connection to the peer was closed. */
const maximumAfterEnd = 64;

/** The receiver of a wait's result. */
export interface EventWaiter {
  readonly callback: (error?: unknown) => void;
  /** The number of the event. */
  readonly event: number;
}

interface EventWait extends EventWaiter {
  readonly hasFired: () => boolean;
  /** Cancels the prompt polling of the wait. */
  cancelPrompt: (() => void) | undefined;
}

/**
 * The pending waits for events of one peer. An event may never fire. In its first 16 milliseconds, a wait is polled at
 * every opportunity. After that, there are pauses between polls. The pauses grow to a sixteenth of the time since an
 * event last fired, but no longer than a tenth of a second, or than a second once the connection is closed. The number
 * of queries after each pause is limited, regardless of how many events the peer has lent.
 */
export class EventWaits {
  readonly #prompt = new Set<EventWait>();
  /** Waits that are no longer polled promptly, but after pauses; least recently polled first. */
  readonly #patient = new Set<EventWait>();
  readonly #timer = new Timer(() => this.#pollPatient(), 0);
  /** The `performance.now()` at which `#timer` fires. */
  #due = 0;
  /** The `performance.now()` at which an event last fired or a wait was last added to `#patient`. */
  #lastChange = 0;
  #lastPoll = 0;
  #isPolling = false;
  #hasEnded = false;

  /**
   * Calls `callback` once: when `hasFired` returns true, or with the error that `hasFired` throws. Polls immediately,
   * so the callback may run before this function returns. Returns a function that cancels the wait.
   */
  start(hasFired: () => boolean, { callback, event }: EventWaiter): () => void {
    const wait: EventWait = { hasFired, callback, event, cancelPrompt: undefined };
    if (this.#prompt.size < maximumPrompt && !this.#hasEnded) this.#pollPromptly(wait);
    else if (!this.#poll(wait)) this.#postpone(wait);
    return () => this.#cancel(wait);
  }

  /**
   * Handles the closing of the connection. Cancels most waits, because the memory is now released when the peer's
   * process exits. Only the oldest waits continue: if the peer's process is still running, the memory that it has
   * released can be reclaimed. Returns the numbers of the events that are still waited for.
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

  /** Polls a wait once. Returns true if the event has fired or the query has failed. */
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

  /**
   * Polls the waits in `#patient` early after an event has fired, since other events of the same stream have probably
   * fired, too.
   */
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
      // Waits that were polled, or that callbacks have added, are at the end of the set. `left` keeps the loop from
      // reaching them.
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

/**
 * The maximum number of importers' events whose announcements an exporter keeps: roughly the number of events that it
 * can have open at a time.
 */
const maximumKept = 4096;

/**
 * For each user, limits the number of importers' events whose announcements an exporter keeps. An importer may announce
 * a thousand events, and each occupies two kilobytes once a release names it. For an event beyond the limit, the
 * exporter keeps only the event's number, and sends WAIT to ask the importer whether the event has fired.
 */
export class EventBudget {
  readonly #maximumOfUser: number;
  /** The number of events whose announcements are kept, keyed by the ID of the user that announced the events. */
  readonly #kept = new Map<number, number>();

  /** @param users the number of users that may connect */
  constructor(users: number) {
    this.#maximumOfUser = Math.ceil(maximumKept / users);
  }

  /**
   * Increments the number of a user's kept events. Returns false, without incrementing it, if the user's maximum is
   * reached.
   */
  tryAdd(uid: number): boolean {
    const kept = this.#kept.get(uid) ?? 0;
    if (kept >= this.#maximumOfUser) return false;
    this.#kept.set(uid, kept + 1);
    return true;
  }

  /** Decrements the number of a user's kept events. */
  remove(uid: number): void {
    this.#kept.set(uid, this.#kept.get(uid)! - 1);
  }
}

/**
 * Called when a wait ends. `error` is the error of a failed query, or undefined if the event has fired; `event` is the
 * event's number.
 */
export type FiredCallback = (error: unknown, event: number) => void;

/**
 * The events of one peer for which only the numbers are kept. This process does not open such an event, and sends WAIT
 * to ask the peer whether the event has fired. There is at most one wait per event at a time.
 */
export class AskedEvents {
  readonly #ask: (event: number) => void;
  /**
   * Maps each event to the callback for FIRED. The value is `nobody` after the wait was canceled, and undefined if
   * every WAIT for the event has been answered.
   */
  readonly #waiting = new Map<number, FiredCallback | undefined>();

  /** @param ask sends WAIT for an event */
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

  /**
   * Calls `callback` when FIRED arrives for the event. Sends WAIT unless an earlier WAIT is unanswered. Returns a
   * function that cancels the callback.
   */
  whenFired(event: number, callback: FiredCallback): () => void {
    const isAsked = this.#waiting.get(event) !== undefined;
    this.#waiting.set(event, callback);
    if (!isAsked) this.#ask(event);
    return () => {
      if (this.#waiting.get(event) === callback) this.#waiting.set(event, nobody);
    };
  }

  /** Handles a FIRED message. Returns false if there is no unanswered WAIT for the event. */
  onFired(event: number): boolean {
    const callback = this.#waiting.get(event);
    if (callback === undefined) return false;
    this.#waiting.set(event, undefined);
    callback(undefined, event);
    return true;
  }

  /** Removes all events, because no more messages arrive. */
  clear(): void {
    this.#waiting.clear();
  }
}

function nobody(): void {}
