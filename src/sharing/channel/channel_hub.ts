/**
 * The interface between a channel, its consumers' connections and its statistics.
 *
 * @module
 */
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

/** One consumer of a channel, in `ChannelStatistics`. */
export interface ConsumerStatistics {
  /** The consumer's process. */
  readonly peer: Peer;
  /** Total of frames that it was sent. */
  readonly sent: number;
  /** Total of frames that were dropped before it was sent them. */
  readonly dropped: number;
  /** Frames that it was sent and has not released. */
  readonly held: number;
  /** Frames by which it is behind the producer: those that it holds, and those that it was not sent yet. */
  readonly lag: number;
}

/** One channel, in `ExporterStatistics`. Totals count from when the channel was created. */
export interface ChannelStatistics {
  /** The channel's name. */
  readonly name: string;
  /** The number of slots of its ring. */
  readonly slots: number;
  /** The size of a slot in bytes. */
  readonly slotByteLength: number;
  /** Slots that nobody uses. */
  readonly freeSlots: number;
  /** Slots that are lost until processes end whose connections have ended. */
  readonly quarantinedSlots: number;
  /** Total of frames that the application has sent. */
  readonly sent: number;
  /** Total of their bytes, without metadata. */
  readonly bytesSent: number;
  /** Total of frames that were dropped to make room: at least one consumer was not sent them. */
  readonly dropped: number;
  /** The consumers that frames are sent to. */
  readonly consumers: readonly ConsumerStatistics[];
}

/** The state of a channel that decides whether a consumer may be sent a frame. */
export interface FrameDemand {
  /** The number of consumers that frames are sent to. */
  readonly consumers: number;
  /** Whether the consumer has released a frame before, and holds none in turn. */
  readonly isInTurn: boolean;
  /** Whether another consumer holds the frame. */
  readonly isHeld: boolean;
  /** Whether another consumer keeps the frame. */
  readonly isKept: boolean;
}

/** How a consumer holds a frame: in turn, if it is expected to release it soon, because it has released others. */
export type HoldKind = "in turn" | "kept";

/**
 * Divides the slots of a channel that drops frames, so that consumers that release nothing cannot have all of them.
 * `PROTOCOL.md` specifies the rules, under "Frames held".
 */
export class FrameBudget {
  readonly #slots: number;
  readonly #window: number;
  /** The number of frames that at least one consumer holds. */
  #held = 0;
  /** The number of frames that at least one consumer keeps. */
  #kept = 0;

  constructor({ slots, window }: { slots: number; window: number }) {
    this.#slots = slots;
    this.#window = window;
  }

  /** How a consumer whose window is not full may hold a frame; undefined if it may not. */
  kindOf({ consumers, isInTurn, isHeld, isKept }: FrameDemand): HoldKind | undefined {
    const kind = isInTurn ? "in turn" : "kept";
    // If there are more slots than all consumers can hold, no rule is needed. A single consumer harms only the producer.
    if (consumers * this.#window < this.#slots || consumers === 1) return kind;
    const held = isHeld ? this.#held : this.#held + 1;
    const producerShare = Math.max(1, this.#slots - 1);
    if (kind === "in turn") return isHeld || held <= Math.max(producerShare, this.#kept + 1) ? kind : undefined;
    if (isKept) return kind;
    return this.#kept < Math.max(1, this.#slots - 2) && held <= producerShare ? kind : undefined;
  }

  /** Counts how many more or fewer frames are held and kept. */
  count({ held, kept }: { held: number; kept: number }): void {
    this.#held += held;
    this.#kept += kept;
  }
}
