/**
 * The argument of `poll`, kept from one call to the next: with hundreds of mostly idle connections, building it anew
 * would cost more than the call.
 *
 * @module
 */

/** The events that one waiter waits for on a descriptor. `PollTable.change` changes them. */
export interface Registration {
  readonly fd: number;
  /** As in `struct pollfd`. */
  events: number;
}

interface Entry<R> {
  index: number;
  readonly registrations: R[];
}

const initialCapacity = 16;

/**
 * An array of `struct pollfd` with one entry for each descriptor, however many registrations it has: `poll` accepts no
 * more entries than a process may have open descriptors. The caller owns the first entry.
 */
export class PollTable<R extends Registration> {
  #words = new Int32Array(2 * initialCapacity);
  #events = new Int16Array(this.#words.buffer);
  /** The descriptor of each entry. */
  readonly #fds: number[] = [-1];
  readonly #entries = new Map<number, Entry<R>>();

  /** @param first the descriptor of the first entry, which `takeReady` ignores; -1 for none */
  constructor(first: number) {
    this.#fds[0] = first;
    this.#set(0, first, 1);
  }

  /** The number of entries. */
  get count(): number {
    return this.#fds.length;
  }

  /** The memory of the entries from `firstEntry` on, to pass to `poll`. */
  bytes(firstEntry: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#words.buffer, firstEntry * 8, (this.count - firstEntry) * 8);
  }

  add(registration: R): void {
    const { fd } = registration;
    const entry = this.#entries.get(fd);
    if (entry === undefined) {
      this.#entries.set(fd, { index: this.count, registrations: [registration] });
      this.#fds.push(fd);
      this.#enlarge();
    } else {
      entry.registrations.push(registration);
    }
    this.#update(fd);
  }

  change(registration: R, events: number): void {
    registration.events = events;
    this.#update(registration.fd);
  }

  remove(registration: R): void {
    const { fd } = registration;
    const { index, registrations } = this.#entries.get(fd)!;
    if (registrations.length > 1) {
      registrations.splice(registrations.indexOf(registration), 1);
      return this.#update(fd);
    }
    this.#entries.delete(fd);
    const last = this.#fds.pop()!;
    if (last !== fd) this.#put(last, index);
  }

  /**
   * The registrations whose descriptors are ready, with the returned events, after a `poll` of the entries from `first`
   * on that found `found` of them. Moves these entries toward the front of the table.
   */
  takeReady(first: number, found: number): Map<R, number> {
    const ready = new Map<R, number>();
    for (let index = first, left = found; left > 0 && index < this.count; index++) {
      const events = this.#events[index * 4 + 3]!;
      if (events === 0) continue;
      left--;
      const fd = this.#fds[index]!;
      for (const registration of this.#entries.get(fd)!.registrations) ready.set(registration, events);
      // Swap with an entry that this loop has passed already.
      const front = Math.max(1, index >> 1);
      this.#put(this.#fds[front]!, index);
      this.#put(fd, front);
    }
    return ready;
  }

  #put(fd: number, index: number): void {
    this.#fds[index] = fd;
    this.#entries.get(fd)!.index = index;
    this.#update(fd);
  }

  #update(fd: number): void {
    const { index, registrations } = this.#entries.get(fd)!;
    let events = 0;
    for (const registration of registrations) events |= registration.events;
    this.#set(index, fd, events);
  }

  #set(index: number, fd: number, events: number): void {
    this.#words[index * 2] = fd;
    this.#words[index * 2 + 1] = events;
  }

  #enlarge(): void {
    if (this.count * 2 <= this.#words.length) return;
    const words = new Int32Array(this.#words.length * 2);
    words.set(this.#words);
    this.#words = words;
    this.#events = new Int16Array(words.buffer);
  }
}
