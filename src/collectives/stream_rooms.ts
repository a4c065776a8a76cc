/**
 * Room in the queues of streams: a stream of CUDA takes some 1020 kernels and copies that have not begun. One more blocks
 * the host, and with it whoever could end a collective that they come after.
 *
 * @module
 */

/** How many calls a stream is given between two looks, and how many looks back its work must be done. */
const callsBetweenLooks = 250;
const looksBack = 2;
/** With the sanitizer, a launch may be three of CUDA's. */
const sanitizedCallsBetweenLooks = 80;

/** What looks at streams. */
interface Looks {
  createEvent(device: number): bigint;
  destroyEvent(event: bigint): void;
  record(device: number, event: bigint, stream: bigint): void;
  /** Waits for an event as long as a collective may not end. */
  await(event: bigint): void;
}

/** What is known of a stream's queue. */
interface Room {
  readonly device: number;
  readonly stream: bigint;
  /** How many calls it was given since the last look. */
  calls: number;
  /** Behind what it had been given at the last looks, oldest first. */
  readonly events: bigint[];
}

/** The queues of a session's streams, while there are unfinished collectives. */
export class StreamRooms {
  readonly #looks: Looks;
  readonly #callsBetweenLooks: number;
  readonly #rooms = new Map<bigint, Room>();
  /** The last one: a map of bigints takes longer than the rest. */
  #last: Room | undefined;

  constructor(looks: Looks, { isSanitized }: { readonly isSanitized: boolean }) {
    this.#looks = looks;
    this.#callsBetweenLooks = isSanitized ? sanitizedCallsBetweenLooks : callsBetweenLooks;
  }

  /** To be called before a stream is given kernels, copies or collectives. Waits, if need be, until it has room. */
  take(device: number, stream: bigint, key: bigint, calls = 1): void {
    let room = this.#last;
    if (room?.stream !== stream || room.device !== device) this.#last = room = this.#roomOf(device, stream, key);
    room.calls += calls;
    if (room.calls <= this.#callsBetweenLooks) return;
    room.calls = calls;
    this.#look(room);
  }

  /** Forgets a stream, which is about to be destroyed. */
  forget(key: bigint): void {
    const room = this.#rooms.get(key);
    if (room === undefined) return;
    this.#rooms.delete(key);
    this.#last = undefined;
    for (const event of room.events) this.#looks.destroyEvent(event);
  }

  #roomOf(device: number, stream: bigint, key: bigint): Room {
    let room = this.#rooms.get(key);
    if (room === undefined) this.#rooms.set(key, room = { device, stream, calls: 0, events: [] });
    return room;
  }

  #look(room: Room): void {
    const { device, stream, events } = room;
    if (events.length >= looksBack) this.#looks.await(events[events.length - looksBack]!);
    // The one that is known to be done is left as it is, so that it shows how far the stream is.
    const event = events.length > looksBack ? events.shift()! : this.#looks.createEvent(device);
    events.push(event);
    this.#looks.record(device, event, stream);
  }
}
