/**
 * Accepts connections, and limits the number of pending handshakes.
 *
 * @module
 */
import { noteConnection } from "../../sanitizer/notifications.ts";
import { SharingError } from "../../support/errors.ts";
import { isLogging, logEvent } from "../../support/event_log.ts";
import { nextTurn } from "../../support/waiting/waiting.ts";
import { delay } from "../../support/waiting/timer.ts";
import { answerGreeting } from "../protocol/handshake.ts";
import { MessageStream } from "../protocol/message_stream.ts";
import { type ConnectionRole, limitExceeded } from "../protocol/messages.ts";
import { DescriptorReserve, type UnixListener } from "../transport/unix_listener.ts";
import type { Peer, UnixSocket } from "../transport/unix_socket.ts";
import { allowedUsers, checkUser } from "../transport/users.ts";
import type { CompleteOptions } from "./exporter_options.ts";
import type { ExporterTotals } from "./exporter_statistics.ts";

/**
 * Milliseconds until the next attempt to accept a connection after an attempt failed, for example for lack of
 * descriptors.
 */
const acceptRetryPause = 100;
/** The number of connections that are accepted before the event loop runs other tasks. */
const acceptsPerTurn = 16;
/** The maximum total number, over all users, of closed connections whose processes may still have memory mapped. */
const maximumEnded = 1024;

/**
 * A connection that counts toward the limits: it is open, or it is closed but its process may still have memory mapped.
 */
export interface ConnectionPlace {
  readonly peer: Peer;
  readonly isConnected: boolean;
}

/** The dependencies of `Acceptor`, which its exporter provides. */
export interface AcceptorParts {
  readonly listener: UnixListener;
  readonly options: CompleteOptions;
  readonly totals: ExporterTotals;
  /** Aborted when the exporter is disposed of. */
  readonly closing: AbortSignal;
  /** Returns the connections that count toward the limits. */
  readonly places: () => Iterable<ConnectionPlace>;
  /** Returns the reason why importers are no longer served, once the device is lost; undefined before. */
  readonly failure: () => string | undefined;
  /** Throws if the listener does not serve connections with the given role. */
  readonly checkRole: (role: ConnectionRole | undefined) => void;
  /** Receives each connection whose handshake is complete. */
  readonly adopt: (stream: MessageStream, role: ConnectionRole | undefined) => void;
}

/** Logs that a connection was established, refused or closed. */
export function logConnection(
  event: "connect" | "refuse" | "disconnect",
  { path, peer: { pid, uid }, error }: { path: string; peer: Peer; error?: SharingError | undefined },
): void {
  const code = event === "connect" ? undefined : error?.code ?? "done";
  logEvent(event, { path, peer: pid, uid, code, error: error?.message });
}

/** Accepts connections and performs their handshakes, within the limits on connections. */
export class Acceptor {
  readonly #parts: AcceptorParts;
  readonly #handshakes: Handshakes;
  readonly #reserve = new DescriptorReserve();
  /**
   * Connections that are not in `parts.places` yet: they have passed the limits, but have not been passed to `adopt`.
   */
  readonly #welcomed = new Set<ConnectionPlace>();
  /** Whether the application was notified that connections cannot be accepted. Reset once one is accepted. */
  #hasReported = false;
  /** Resolves when the exporter has been disposed of and accepts no more connections. */
  readonly finished: Promise<void>;

  constructor(parts: AcceptorParts) {
    this.#parts = parts;
    this.#handshakes = new Handshakes(parts.options.maximumHandshakes);
    this.finished = this.#serve();
  }

  /** The number of connections whose handshake is not complete. */
  get handshakes(): number {
    return this.#handshakes.count;
  }

  async #serve(): Promise<void> {
    const { listener, closing } = this.#parts;
    for (let accepted = 1; !closing.aborted; accepted++) {
      try {
        const socket = await listener.accept({ signal: closing });
        void this.#welcome(socket);
      } catch (error) {
        if (closing.aborted) return;
        this.#report(error);
        // If no descriptors are left, connections stay in the backlog until a descriptor is free. Other errors are
        // handled in the same way.
        await delay(acceptRetryPause, closing).catch(() => {});
      }
      // Let the event loop read the messages of other connections, even if a process connects repeatedly.
      if (accepted % acceptsPerTurn === 0) await nextTurn();
    }
  }

  /**
   * Notifies the application that connections cannot be accepted; at most once until a connection is accepted again.
   */
  #report(error: unknown): void {
    const { onError } = this.#parts.options;
    if (this.#hasReported) return;
    this.#hasReported = true;
    if (isLogging) logEvent("accept-failed", { path: this.#parts.listener.path, error: String(error) });
    queueMicrotask(() => onError?.(error as Error));
  }

  async #welcome(socket: UnixSocket): Promise<void> {
    const { closing, adopt, totals, options: { handshakeTimeout, messageTimeout, onDisconnect } } = this.#parts;
    const { peer } = socket;
    const place: ConnectionPlace = { peer, isConnected: true };
    let stream: MessageStream | undefined;
    let role: ConnectionRole | undefined;
    try {
      stream = new MessageStream(socket, { messageTimeout, traffic: totals.traffic });
      this.#checkServed(stream);
      const handshake: PendingHandshake = { stream, ending: new AbortController() };
      const onClosing = (): void => handshake.ending.abort(closing.reason);
      closing.addEventListener("abort", onClosing);
      if (closing.aborted) onClosing();
      try {
        const greeted = answerGreeting(stream, {
          handshakeTimeout,
          signal: handshake.ending.signal,
          beforeWelcome: (asked) => {
            this.#parts.checkRole(asked);
            role = asked;
            this.#checkPlaces(peer);
            this.#welcomed.add(place);
          },
        });
        this.#handshakes.add(handshake);
        await greeted;
      } finally {
        closing.removeEventListener("abort", onClosing);
        this.#handshakes.delete(handshake);
        this.#welcomed.delete(place);
      }
    } catch (error) {
      stream?.process[Symbol.dispose]();
      if (closing.aborted) return;
      totals.countRefused(error);
      if (isLogging) logConnection("refuse", { path: this.#parts.listener.path, peer, error: error as SharingError });
      queueMicrotask(() => onDisconnect?.(peer, error as SharingError));
      return;
    }
    if (role !== "operator") totals.accepted++;
    // Operators and clients of a store receive no events, so their connections establish no ordering between streams.
    if (role === undefined) noteConnection(peer.pid);
    adopt(stream, role);
  }

  /** Sends GOODBYE and throws if the process may not connect, or if the device is lost. */
  #checkServed(stream: MessageStream): void {
    const { listener: { path }, options: { users }, failure } = this.#parts;
    const { peer } = stream;
    try {
      checkUser(`serve process ${peer.pid} at ${path}`, peer, users);
    } catch (error) {
      stream.end("not-permitted", `User ${peer.uid} may not connect to ${path}`);
      throw error;
    }
    const text = failure();
    if (text !== undefined) {
      stream.end("device-lost", text);
      throw new SharingError("device-lost", `Cannot serve process ${peer.pid}: ${text}`);
    }
    this.#checkDescriptors(stream);
  }

  /** Sends GOODBYE and throws if too few descriptors are left to keep the connection. */
  #checkDescriptors(stream: MessageStream): void {
    const { listener: { path }, options: { users }, places } = this.#parts;
    const { peer } = stream;
    const exceeded = this.#reserve.exceeded(peer, {
      users: allowedUsers(users).length,
      others: () => [...[...places()].map((place) => place.peer), ...this.#handshakes.peers],
    });
    if (exceeded === undefined) return void (this.#hasReported = false);
    const error = limitExceeded(`serve process ${peer.pid} at ${path}`, exceeded.limit);
    stream.end("limit-exceeded", error.message);
    if (exceeded.isForAll) this.#report(new SharingError("out-of-descriptors", error.message));
    throw error;
  }

  /**
   * Throws `limit-exceeded` if a process that has sent HELLO would exceed the limit on all connections, or the limit on
   * the connections of its user.
   */
  #checkPlaces({ pid, uid }: Peer): void {
    const { listener: { path }, options: { maximumImporters, users }, places } = this.#parts;
    const refuse = (limit: string): never => {
      throw limitExceeded(`serve process ${pid} at ${path}`, limit);
    };
    const all = [...places(), ...this.#welcomed];
    const connected = all.filter(({ isConnected }) => isConnected);
    if (connected.length >= maximumImporters) refuse(`${maximumImporters} importers (maximumImporters)`);
    const countOfUsers = allowedUsers(users).length;
    const perUser = this.#parts.options.maximumImportersPerUser ?? Math.ceil(maximumImporters / countOfUsers);
    const isOfUser = ({ peer }: ConnectionPlace): boolean => peer.uid === uid;
    if (connected.filter(isOfUser).length >= perUser) {
      refuse(`${perUser} importers of one user (maximumImportersPerUser)`);
    }
    // A single process cannot reach this limit: beyond `maximumLingering`, its closed connections are merged.
    const endedPerUser = Math.ceil(maximumEnded / countOfUsers);
    if (all.filter((place) => !place.isConnected && isOfUser(place)).length >= endedPerUser) {
      refuse(`${endedPerUser} ended connections of one user whose processes hold memory`);
    }
  }
}

/** A connection whose process has not sent HELLO yet. */
export interface PendingHandshake {
  readonly stream: MessageStream;
  /** Ends the handshake when aborted; the abort reason is the error that the peer is sent. */
  readonly ending: AbortController;
}

/**
 * The connections whose peers have not sent HELLO. A process that opens connections without sending anything must not
 * prevent other processes from connecting: the number of pending handshakes is limited, and beyond the limit, a new
 * handshake aborts the oldest handshake of the process that has the most of them.
 */
export class Handshakes {
  readonly #maximum: number;
  /** The pending handshakes, in the order in which they were accepted. */
  readonly #pending = new Set<PendingHandshake>();

  constructor(maximum: number) {
    this.#maximum = maximum;
  }

  /** The number of pending handshakes. */
  get count(): number {
    return this.#pending.size;
  }

  /** The peers of the pending handshakes. */
  get peers(): Peer[] {
    return [...this.#pending].map(({ stream }) => stream.peer);
  }

  /**
   * Adds a pending handshake. If there are too many, finds the user with the most pending handshakes and, among that
   * user's processes, the one with the most. Aborts the oldest pending handshake of that process.
   */
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
    // If the peer's HELLO has arrived in the meantime, `receiveNow` completes the handshake, and aborting has no
    // effect.
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

/**
 * Returns the handshakes of the user or process (according to `keyOf`) that has the most handshakes, in the given
 * order.
 */
function largestGroup(
  handshakes: Iterable<PendingHandshake>,
  keyOf: (peer: Peer) => number,
): readonly PendingHandshake[] {
  const groups = Map.groupBy(handshakes, ({ stream }) => keyOf(stream.peer));
  return groups.values().reduce((largest, group) => group.length > largest.length ? group : largest);
}
