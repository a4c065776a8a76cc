import { SharingError } from "../../support/errors.ts";
import { isLogging, logEvent } from "../../support/event_log.ts";
import { HoldTimer } from "./hold_timer.ts";

/**
 * Milliseconds for which all slots must be quarantined before that is an error. The system closes a dying process's
 * connections before it reports the process's end.
 */
const gracePeriod = 1000;
/** The same while one of the processes may be dying: that takes seconds if many processes with work on a GPU are killed. */
const endingPeriod = 20_000;

/** The dependencies of `Quarantine`. */
export interface QuarantineParts {
  /** The name of the channel. */
  readonly name: string;
  /** The number of slots of the channel. */
  readonly slots: number;
  /** Returns the slots that processes may still use whose connections have ended, by process ID. */
  readonly quarantined: () => Map<number, Set<number>>;
  /** Whether one of these processes may have begun to end. */
  readonly hasEndingHolders: () => boolean;
  /** No slot is left, and none comes back before a process ends. */
  readonly onExhausted: (error: SharingError) => void;
  /** There are slots again. */
  readonly onAvailable: () => void;
}

/** The slots of a channel that are lost until processes end which were cut off, or have disconnected. */
export class Quarantine {
  readonly #parts: QuarantineParts;
  readonly #timer = new HoldTimer(gracePeriod, () => this.#onGraceOver());
  #slots = 0;
  /** When all slots became quarantined. */
  #exhaustedSince: number | undefined;
  #isClosed = false;

  constructor(parts: QuarantineParts) {
    this.#parts = parts;
  }

  /** The number of quarantined slots. */
  get slots(): number {
    return this.#slots;
  }

  /** Counts the quarantined slots again. */
  update(): void {
    if (this.#isClosed) return;
    const { quarantined, slots, onAvailable } = this.#parts;
    this.#slots = new Set([...quarantined().values()].flatMap((each) => [...each])).size;
    if (this.#slots === slots) {
      this.#exhaustedSince ??= performance.now();
      this.#timer.start();
    } else if (this.#exhaustedSince !== undefined) {
      this.#exhaustedSince = undefined;
      onAvailable();
    }
  }

  close(): void {
    this.#isClosed = true;
  }

  #onGraceOver(): number | undefined {
    if (this.#exhaustedSince === undefined || this.#isClosed) return undefined;
    const { name, slots, quarantined, hasEndingHolders, onExhausted } = this.#parts;
    const time = performance.now() - this.#exhaustedSince;
    if (time < gracePeriod) return gracePeriod - time;
    if (time < endingPeriod && hasEndingHolders()) return gracePeriod;
    const holders = [...quarantined()].map(([pid, { size }]) => `${pid} (${size})`).join(", ");
    const text = `Cannot reserve a slot of "${name}": all ${slots} may still be used by processes that are not ` +
      `connected any more: ${holders}; they come back when these processes have ended`;
    if (isLogging) logEvent("channel-exhausted", { name, slots, holders });
    onExhausted(new SharingError("cut-off", text));
    return undefined;
  }
}
