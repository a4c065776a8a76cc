import type { ChannelStatistics } from "./channel_statistics.ts";
import type { LocalEvent } from "../events/local_events.ts";
import type {
  ChannelMessage,
  EventMessage,
  GoodbyeReason,
  JoinMessage,
  Message,
  ReleaseSlotMessage,
} from "../protocol/messages.ts";
import type { Peer } from "../transport/unix_socket.ts";

/** The messages of an importer about a channel. */
export type ConsumerMessage = JoinMessage | ReleaseSlotMessage;

/** The part of a connection to an importer that a channel needs. */
export interface ConsumerConnection {
  readonly peer: Peer;
  readonly isConnected: boolean;
  /** Whether its process may have begun to end, without having ended. */
  readonly mayBeEnding: boolean;
  /** Whether the importer reads more slowly than messages are sent. */
  readonly isBacklogged: boolean;
  send(message: Message): void;
  /**
   * Calls back once one of the importer's events has fired. Returns a function that cancels the wait.
   *
   * @throws {SharingError} `bad-message` if the event was not announced or is waited for already
   */
  whenFired(event: number, callback: () => void): () => void;
  /** Ends the connection. */
  cutOff(reason: GoodbyeReason, text: string): void;
}

/** The interface of a channel's producer for its exporter and the connections. */
export interface ChannelHub {
  /** The messages that announce the ready events of its slots. */
  readonly eventMessages: readonly EventMessage[];
  /** The message that describes the division of its ring. */
  readonly message: ChannelMessage;
  onMessage(importer: ConsumerConnection, message: ConsumerMessage): void;
  /** The connection has room for messages again. */
  onDrain(importer: ConsumerConnection): void;
  /** No more frames may be sent to the importer: it released the ring, or its connection has ended. */
  onLeave(importer: ConsumerConnection): void;
  /** The importer uses no slot any more: it released the ring and its work is done, or its process has ended. */
  onReleased(importer: ConsumerConnection): void;
  /** The frames that an ended connection still holds are now held by another connection of the same process. */
  onAbsorb(from: ConsumerConnection, to: ConsumerConnection): void;
  /** Returns the event of a frame that may not have been written yet. */
  pendingEvent(): LocalEvent | undefined;
  /** The device is lost. */
  onLost(error: unknown): void;
  /** Counts the channel's slots, frames and consumers. */
  statistics(): ChannelStatistics;
  /** The exporter closes. */
  close(): void;
}
