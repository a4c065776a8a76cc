/** The state of a channel that decides whether a consumer may be sent a frame. */
export interface FrameDemand {
  /** The number of consumers that frames are sent to. */
  readonly consumers: number;
  /** Whether the consumer has released a frame before, and holds none in turn. */
  readonly isInTurn: boolean;
  /** Whether another consumer holds the frame. */
  readonly isHeld: boolean;
  /** Whether another consumer keeps the frame. */
  readonly isKept: boolean;
}

/** How a consumer holds a frame: in turn, if it is expected to release it soon, because it has released others. */
export type HoldKind = "in turn" | "kept";

/**
 * Divides the slots of a channel that drops frames, so that consumers that release nothing cannot have all of them.
 * `PROTOCOL.md` specifies the rules, under "Frames held".
 */
export class FrameBudget {
  readonly #slots: number;
  readonly #window: number;
  /** The number of frames that at least one consumer holds. */
  #held = 0;
  /** The number of frames that at least one consumer keeps. */
  #kept = 0;

  constructor({ slots, window }: { slots: number; window: number }) {
    this.#slots = slots;
    this.#window = window;
  }

  /** How a consumer whose window is not full may hold a frame; undefined if it may not. */
  kindOf({ consumers, isInTurn, isHeld, isKept }: FrameDemand): HoldKind | undefined {
    const kind = isInTurn ? "in turn" : "kept";
    // If there are more slots than all consumers can hold, no rule is needed. A single consumer harms only the producer.
    if (consumers * this.#window < this.#slots || consumers === 1) return kind;
    const held = isHeld ? this.#held : this.#held + 1;
    const producerShare = Math.max(1, this.#slots - 1);
    if (kind === "in turn") return isHeld || held <= Math.max(producerShare, this.#kept + 1) ? kind : undefined;
    if (isKept) return kind;
    return this.#kept < Math.max(1, this.#slots - 2) && held <= producerShare ? kind : undefined;
  }

  /** Counts how many more or fewer frames are held and kept. */
  count({ held, kept }: { held: number; kept: number }): void {
    this.#held += held;
    this.#kept += kept;
  }
}
