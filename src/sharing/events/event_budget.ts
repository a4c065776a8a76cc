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
