/**
 * The order of the work of streams, which follows from each stream's own order, the events that streams wait for, and
 * the work that the host has seen done. It assumes nothing else: for example, not that a default stream waits for
 * others.
 *
 * @module
 */

/** A stream, and the positions that its next piece of work comes after. */
export interface OrderedStream {
  readonly name: string;
  readonly device: number;
  readonly handle: bigint;
  /** Whether the stream was destroyed and takes no more work. */
  isGone: boolean;
  /** Number of pieces of work that it was given. */
  position: number;
  /** By stream, the position that is reached before this stream's next work begins. */
  readonly after: Map<OrderedStream, number>;
}

/** The end of a piece of a stream's work. */
export interface Point {
  readonly stream: OrderedStream;
  readonly position: number;
}

/** The point at which an event was last recorded, and the points before it. */
export interface Recorded extends Point {
  readonly after: ReadonlyMap<OrderedStream, number>;
}

/** Vector clocks of streams, advanced by the calls of a driver. */
export class StreamOrder {
  readonly #byHandle = new Map<bigint, OrderedStream>();
  readonly #defaults = new Map<number, OrderedStream>();
  readonly #events = new Map<bigint, Recorded | undefined>();
  /** By stream, the position that the host knows to be reached. */
  readonly #seen = new Map<OrderedStream, number>();

  /** Returns the stream with a handle. */
  stream(device: number, handle: bigint): OrderedStream {
    if (handle !== 0n) return this.#byHandle.get(handle)!;
    let stream = this.#defaults.get(device);
    if (stream === undefined) this.#defaults.set(device, stream = newStream(device, 0n));
    return stream;
  }

  addStream(device: number, handle: bigint): void {
    this.#byHandle.set(handle, newStream(device, handle));
  }

  addEvent(event: bigint): void {
    this.#events.set(event, undefined);
  }

  /** Returns where an event was last recorded; undefined if it never was. */
  recorded(event: bigint): Recorded | undefined {
    return this.#events.get(event);
  }

  /** Adds a piece of work to a stream. */
  give(stream: OrderedStream): Point {
    return { stream, position: ++stream.position };
  }

  record(event: bigint, stream: OrderedStream): void {
    this.#events.set(event, { ...this.give(stream), after: new Map(stream.after) });
  }

  wait(stream: OrderedStream, event: bigint): void {
    const recorded = this.#events.get(event);
    if (recorded !== undefined) raise(stream.after, recorded);
    stream.position++;
  }

  /** Records that the host has seen all work of a stream done. */
  seeStream(stream: OrderedStream): void {
    raise(this.#seen, { ...this.now(stream), after: stream.after });
  }

  /** Records that the host has seen an event complete. */
  seeEvent(event: bigint): void {
    const recorded = this.#events.get(event);
    if (recorded !== undefined) raise(this.#seen, recorded);
  }

  /** Returns the end of the work that a stream was given so far. */
  now(stream: OrderedStream): Point {
    return { stream, position: stream.position };
  }

  /** Whether a stream's future work comes after the point. */
  isBefore(point: Point, stream: OrderedStream): boolean {
    if (point.stream === stream) return true;
    return this.isSeen(point) || (stream.after.get(point.stream) ?? 0) >= point.position;
  }

  /** Whether the host has seen that the point was reached. */
  isSeen(point: Point): boolean {
    return (this.#seen.get(point.stream) ?? 0) >= point.position;
  }
}

function newStream(device: number, handle: bigint): OrderedStream {
  const name = handle === 0n ? `the default stream of device ${device}` : `stream 0x${handle.toString(16)}`;
  return { name, device, handle, isGone: false, position: 0, after: new Map() };
}

/** Advances a clock to a point and to all points before it. */
function raise(clock: Map<OrderedStream, number>, { stream, position, after }: Recorded): void {
  for (const [other, reached] of after) if ((clock.get(other) ?? 0) < reached) clock.set(other, reached);
  if ((clock.get(stream) ?? 0) < position) clock.set(stream, position);
}
