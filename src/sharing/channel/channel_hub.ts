import type { LocalEvent } from "../events/local_events.ts";
import type {
  ChannelMessage,
  EventMessage,
  JoinMessage,
  Message,
  ReleaseSlotMessage,
  TakenMessage,
} from "../protocol/messages.ts";
import type { Peer } from "../transport/unix_socket.ts";

/** What an importer says of a channel. */
export type ConsumerMessage = JoinMessage | TakenMessage | ReleaseSlotMessage;

/** The connection to an importer, as far as a channel needs it. */
export interface ConsumerConnection {
  readonly peer: Peer;
  /** Whether the importer reads more slowly than messages are sent. */
  readonly isBacklogged: boolean;
  send(message: Message): void;
  /**
   * Calls back once one of the importer's events has fired. Returns what cancels the wait.
   *
   * @throws {SharingError} `bad-message` for an event that cannot be opened, or is waited for already
   */
  whenFired(event: number, callback: () => void): () => void;
}

/** The producer's end of a channel, as its exporter and the connections see it. */
export interface ChannelHub {
  /** The ready events of its slots. */
  readonly eventMessages: readonly EventMessage[];
  /** How its ring is divided. */
  readonly message: ChannelMessage;
  onMessage(importer: ConsumerConnection, message: ConsumerMessage): void;
  /** There is room for messages again. */
  onDrain(importer: ConsumerConnection): void;
  /** No more frames may go there: it gave the ring up, or its connection is at its end. */
  onLeave(importer: ConsumerConnection): void;
  /** It uses no slot any more: it gave the ring up and its work is done, or its process has ended. */
  onReleased(importer: ConsumerConnection): void;
  /** What a connection that is at its end still holds is held by another one of the same process from now on. */
  onAbsorb(from: ConsumerConnection, to: ConsumerConnection): void;
  /** The event of a frame that may not have been written yet. */
  pendingEvent(): LocalEvent | undefined;
  /** The device is lost. */
  onLost(error: unknown): void;
  /** The exporter closes. */
  close(): void;
}
