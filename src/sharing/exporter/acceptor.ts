/**
 * Accepts connections, and limits the handshakes that are pending.
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

/** Milliseconds until the next attempt to accept after one failed, as when there are no descriptors. */
const acceptRetryPause = 100;
/** The number of connections that are accepted before the event loop turns. */
const acceptsPerTurn = 16;
/** The maximum number of ended connections whose processes may still have memory mapped. */
const maximumEnded = 1024;

/** A connection that takes a place: it exists, or has ended and its process may still have memory mapped. */
export interface ConnectionPlace {
  readonly peer: Peer;
  readonly isConnected: boolean;
}

/** What an `Acceptor` needs from its exporter. */
export interface AcceptorParts {
  readonly listener: UnixListener;
  readonly options: CompleteOptions;
  readonly totals: ExporterTotals;
  /** Aborted when the exporter is disposed. */
  readonly closing: AbortSignal;
  /** Returns the connections that take places. */
  readonly places: () => Iterable<ConnectionPlace>;
  /** Returns why no importer is served any more, if so: the device is lost. */
  readonly failure: () => string | undefined;
  /** Throws to refuse a connection of a kind that the listener does not serve. */
  readonly checkRole: (role: ConnectionRole | undefined) => void;
  /** Receives a connection whose handshake is over. */
  readonly adopt: (stream: MessageStream, role: ConnectionRole | undefined) => void;
}

/** Logs what became of a connection. */
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
  /** The connections that have been sent WELCOME and are not adopted yet. */
  readonly #welcomed = new Set<ConnectionPlace>();
  /** Whether the application knows that accepting fails. */
  #hasReported = false;
  /** Resolves when the exporter is disposed and no more connections are accepted. */
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
        // If no descriptors are left, connections stay in the backlog until there are some. Other errors are handled in
        // the same way.
        await delay(acceptRetryPause, closing).catch(() => {});
      }
      // A process that connects again and again must not keep the others from being read.
      if (accepted % acceptsPerTurn === 0) await nextTurn();
    }
  }

  /** Tells the application that accepting fails, once until it works again. */
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
    // An operator and the client of a store get no events, so that they order nothing.
    if (role === undefined) noteConnection(peer.pid);
    adopt(stream, role);
  }

  /** Throws, and says goodbye, if the process may not connect or nobody is served any more. */
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

  /** Throws, and says goodbye, if descriptors are so few that the connection may not be kept. */
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

  /** Throws `limit-exceeded` if a process that has said HELLO would be one too many, in all or of its user. */
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
    // The ended connections of one process are merged: these are of many processes.
    const endedPerUser = Math.ceil(maximumEnded / countOfUsers);
    if (all.filter((place) => !place.isConnected && isOfUser(place)).length >= endedPerUser) {
      refuse(`${endedPerUser} ended connections of one user whose processes hold memory`);
    }
  }
}

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
