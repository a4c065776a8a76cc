import type { SharingError } from "../../support/errors.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import { limitExceeded } from "../protocol/messages.ts";
import type { Peer } from "../transport/unix_socket.ts";

/** A connection whose process has not said HELLO yet. */
export interface PendingHandshake {
  readonly stream: MessageStream;
  /** Ends the handshake. The reason is the error that the peer is sent. */
  readonly ending: AbortController;
}

/**
 * The connections that have not said HELLO. A process that opens connections and says nothing must not keep out others:
 * there are few of them, and a new one ends the oldest of those that take the most places.
 */
export class Handshakes {
  readonly #maximum: number;
  /** In the order in which they were accepted. */
  readonly #pending = new Set<PendingHandshake>();

  constructor(maximum: number) {
    this.#maximum = maximum;
  }

  /** The number of these connections. */
  get count(): number {
    return this.#pending.size;
  }

  /** The processes that have opened them. */
  get peers(): Peer[] {
    return [...this.#pending].map(({ stream }) => stream.peer);
  }

  /** Adds a connection. If there are too many, ends the oldest of the process and user that have most. */
  add(handshake: PendingHandshake): void {
    this.#pending.add(handshake);
    if (this.#pending.size > this.#maximum) this.#endOne();
  }

  delete(handshake: PendingHandshake): void {
    this.#pending.delete(handshake);
  }

  #endOne(): void {
    const ofUser = largestGroup(this.#pending, ({ uid }) => uid);
    const [oldest] = largestGroup(ofUser, ({ pid }) => pid);
    this.#pending.delete(oldest!);
    // Its HELLO may have arrived: then its handshake is over, and nothing ends.
    oldest!.stream.receiveNow();
    oldest!.ending.abort(this.#tooMany(oldest!.stream.peer));
  }

  #tooMany({ pid }: Peer): SharingError {
    return limitExceeded(
      `keep the connection of process ${pid}`,
      `${this.#maximum} connections that have not sent HELLO (maximumHandshakes)`,
    );
  }
}

/** The handshakes of the user or process that has most of them, in their order. */
function largestGroup(
  handshakes: Iterable<PendingHandshake>,
  keyOf: (peer: Peer) => number,
): readonly PendingHandshake[] {
  const groups = Map.groupBy(handshakes, ({ stream }) => keyOf(stream.peer));
  return groups.values().reduce((largest, group) => group.length > largest.length ? group : largest);
}
