/**
 * What launches may do with memory, where nothing says it for sure.
 *
 * @module
 */
import { type Conflict, isConflict, type MemoryHistory, type Touch } from "./memory_history.ts";
import type { Operation } from "./operation.ts";
import { isBefore } from "./order/timelines.ts";

/** Accesses that may be anywhere in an allocation, or nowhere. */
export class PossibleTouches {
  /** The last of each timeline and kind. */
  #touches: Touch[] = [];

  /** The same accesses. What is added to either later is not in the other. */
  copy(): PossibleTouches {
    const copy = new PossibleTouches();
    copy.#touches = [...this.#touches];
    return copy;
  }

  /** Adds one, and returns its conflicts with those before, the certain ones of the history included. */
  add(touch: Touch, history: MemoryHistory): Conflict[] {
    const conflicts = [...history.conflictsWith(touch), ...this.conflictsWith(touch)];
    this.#touches = this.#touches.filter(({ access, operation }) =>
      access !== touch.access || operation.timeline !== touch.operation.timeline
    );
    this.#touches.push(touch);
    return conflicts;
  }

  /** The conflicts of a later access with these. */
  conflictsWith(later: Touch): Conflict[] {
    return this.#touches.filter((earlier) => isConflict(earlier, later)).map((earlier) => {
      return { later, earlier, begin: later.begin, end: later.end };
    });
  }

  /** Those that are not known to come before an operation. */
  unfinished(operation: Operation): Touch[] {
    return this.#touches.filter((touch) => !isBefore(touch.operation, operation));
  }
}
