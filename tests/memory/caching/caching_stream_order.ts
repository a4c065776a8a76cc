/**
 * What comes before what in the work of streams: by the order of each stream, by the events that streams wait for, and by
 * what the host has seen to be done. Nothing else is relied on: not that a default stream waits for others, for one.
 *
 * @module
 */

/** A stream, and what its next piece of work comes after. */
export interface OrderedStream {
  readonly name: string;
  readonly device: number;
  readonly handle: bigint;
  /** Whether it was destroyed: no work is added to it. */
  isGone: boolean;
  /** How many pieces of work it was given. */
  position: number;
  /** Up to where other streams are done before its next work begins. */
  readonly after: Map<OrderedStream, number>;
}

/** The end of a piece of a stream's work. */
export interface Point {
  readonly stream: OrderedStream;
  readonly position: number;
}

/** What an event was last recorded behind. */
export interface Recorded extends Point {
  readonly after: ReadonlyMap<OrderedStream, number>;
}

/** Vector clocks of streams, fed with the calls of a driver. */
export class StreamOrder {
  readonly #byHandle = new Map<bigint, OrderedStream>();
  readonly #defaults = new Map<number, OrderedStream>();
  readonly #events = new Map<bigint, Recorded | undefined>();
  /** Up to where the host knows of each stream that it is done. */
  readonly #seen = new Map<OrderedStream, number>();

  /** The stream that a call names. */
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

  /** What an event was last recorded behind; undefined for one that never was. */
  recorded(event: bigint): Recorded | undefined {
    return this.#events.get(event);
  }

  /** Notes a piece of work. */
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

  /** The host has seen that all work of a stream is done. */
  seeStream(stream: OrderedStream): void {
    raise(this.#seen, { ...this.now(stream), after: stream.after });
  }

  /** The host has seen that what an event was recorded behind is done. */
  seeEvent(event: bigint): void {
    const recorded = this.#events.get(event);
    if (recorded !== undefined) raise(this.#seen, recorded);
  }

  /** Behind all that a stream was given so far. */
  now(stream: OrderedStream): Point {
    return { stream, position: stream.position };
  }

  /** Whether what a stream is given from now on comes after the point. */
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

/** Adds to a clock what comes before a point, and the point itself. */
function raise(clock: Map<OrderedStream, number>, { stream, position, after }: Recorded): void {
  for (const [other, reached] of after) if ((clock.get(other) ?? 0) < reached) clock.set(other, reached);
  if ((clock.get(stream) ?? 0) < position) clock.set(stream, position);
}
