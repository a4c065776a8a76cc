/** The streams whose waits are remembered, apart from the last one. Forgetting a wait makes a free wait again. */
const rememberedWaits = 16;

/**
 * How far a stream has got, and which work of other streams comes before its own, as far as the program's own events and
 * waits tell. With it, a program that orders its streams by events need not do so again when it frees memory.
 *
 * Positions in a stream's work are counted in records of events: work that is enqueued when `position` is n comes before
 * the record that makes it n + 1.
 */
export class StreamProgress {
  /** The number of records so far. */
  position = 0;
  /** Work before this position is known to be complete. */
  completed = 0;
  /** The stream that was last waited for, and the position to which. Kept apart from the others to be quick. */
  #last: StreamProgress | undefined;
  #lastPosition = 0;
  /** The other streams that were waited for. */
  #others: Map<StreamProgress, number> | undefined;

  /** Notes the record of an event and returns its position: it completes with all work before that position. */
  record(): number {
    return ++this.position;
  }

  /** Notes that the record at a position was found complete. */
  complete(position: number): void {
    if (position > this.completed) this.completed = position;
  }

  /** Notes that all work so far was found complete. */
  completeAll(): void {
    this.completed = ++this.position;
  }

  /** Notes that work from now on comes after the record at a position of another stream. */
  waitFor(other: StreamProgress, position: number): void {
    if (other !== this.#last) this.#changeLast(other);
    if (position > this.#lastPosition) this.#lastPosition = position;
  }

  /** Whether work that another stream was given at `position` is complete, or comes before work from now on. */
  isAfter(other: StreamProgress, position: number): boolean {
    if (other.completed > position) return true;
    const reached = other === this.#last ? this.#lastPosition : this.#others?.get(other) ?? 0;
    return reached > position;
  }

  #changeLast(other: StreamProgress): void {
    const others = this.#others ??= new Map();
    if (this.#last !== undefined) others.set(this.#last, this.#lastPosition);
    this.#last = other;
    this.#lastPosition = others.get(other) ?? 0;
    // A program may use a new stream for each task.
    if (others.size > rememberedWaits) others.clear();
  }
}
