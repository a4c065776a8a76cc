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

/** The messages that an importer sends about a channel. */
export type ConsumerMessage = JoinMessage | ReleaseSlotMessage;

/** The part of a connection to an importer that a channel needs. */
export interface ConsumerConnection {
  readonly peer: Peer;
  readonly isConnected: boolean;
  /** Whether the importer's process may have begun to exit but has not exited yet. */
  readonly mayBeEnding: boolean;
  /** Whether messages are queued because the importer reads them more slowly than they are sent. */
  readonly isBacklogged: boolean;
  send(message: Message): void;
  /**
   * Calls `callback` once an event of the importer has fired. Returns a function that cancels the wait.
   *
   * @throws {SharingError} `bad-message` if the event was not announced or is already being waited for
   */
  whenFired(event: number, callback: () => void): () => void;
  /** Closes the connection with an error. */
  cutOff(reason: GoodbyeReason, text: string): void;
}

/** The interface through which an exporter and its connections call a channel's producer. */
export interface ChannelHub {
  /** The messages that announce the ready events of the channel's slots. */
  readonly eventMessages: readonly EventMessage[];
  /** The message that tells importers how the ring is divided into slots. */
  readonly message: ChannelMessage;
  onMessage(importer: ConsumerConnection, message: ConsumerMessage): void;
  /** Called when the connection to an importer is no longer backlogged. */
  onDrain(importer: ConsumerConnection): void;
  /** Called when no more frames may be sent to the importer: it has released the ring, or its connection was closed. */
  onLeave(importer: ConsumerConnection): void;
  /**
   * Called when the importer no longer uses any slot: it has released the ring and its work is done, or its process has
   * exited.
   */
  onReleased(importer: ConsumerConnection): void;
  /** Moves any frames still held by a closed connection to another connection of the same process. */
  onAbsorb(from: ConsumerConnection, to: ConsumerConnection): void;
  /**
   * Returns the ready event of a frame if the write to its slot may not be done yet; undefined if there is no such
   * frame.
   */
  pendingEvent(): LocalEvent | undefined;
  /** Called when the device is lost. */
  onLost(error: unknown): void;
  /** Returns counts of the channel's slots, frames and consumers. */
  statistics(): ChannelStatistics;
  /** Ends the channel because the exporter closes. */
  close(): void;
}

/** The counters of one consumer of a channel, in `ChannelStatistics`. */
export interface ConsumerStatistics {
  /** The consumer's process. */
  readonly peer: Peer;
  /** The total number of frames sent to the consumer. */
  readonly sent: number;
  /** The total number of frames dropped before they were sent to the consumer. */
  readonly dropped: number;
  /** The number of frames that were sent to the consumer and that it has not released. */
  readonly held: number;
  /**
   * The number of frames by which the consumer is behind the producer: the frames that the consumer holds, plus the
   * frames that have not been sent to it yet.
   */
  readonly lag: number;
}

/** The counters of one channel, in `ExporterStatistics`. Totals count from the channel's creation. */
export interface ChannelStatistics {
  /** The channel's name. */
  readonly name: string;
  /** The number of slots of the channel's ring. */
  readonly slots: number;
  /** The size of a slot in bytes. */
  readonly slotByteLength: number;
  /** The number of slots that are not in use. */
  readonly freeSlots: number;
  /** The number of quarantined slots. A process whose connection was closed may still use them until it exits. */
  readonly quarantinedSlots: number;
  /** The total number of frames that the application has sent. */
  readonly sent: number;
  /** The total bytes of the sent frames, without metadata. */
  readonly bytesSent: number;
  /** The total number of frames dropped to make room, that is, not sent to at least one consumer. */
  readonly dropped: number;
  /** The consumers that frames are sent to. */
  readonly consumers: readonly ConsumerStatistics[];
}

/** The information from which `FrameBudget` decides whether a frame may be sent to a consumer. */
export interface FrameDemand {
  /** The number of consumers that frames are sent to. */
  readonly consumers: number;
  /**
   * Whether the consumer would hold the frame "in turn": the consumer has released a frame before, and holds no other
   * frame "in turn".
   */
  readonly isInTurn: boolean;
  /** Whether another consumer holds the frame. */
  readonly isHeld: boolean;
  /** Whether another consumer holds the frame with the kind "kept". */
  readonly isKept: boolean;
}

/**
 * How a consumer holds a frame: "in turn" if the consumer has released frames before and is therefore expected to
 * release this frame soon, and "kept" otherwise.
 */
export type HoldKind = "in turn" | "kept";

/**
 * Divides the slots of a channel that drops frames, so that consumers that release nothing cannot occupy all slots.
 * `PROTOCOL.md` specifies the rules, under "Frames held".
 */
export class FrameBudget {
  readonly #slots: number;
  readonly #window: number;
  /** The number of frames that at least one consumer holds. */
  #held = 0;
  /** The number of frames with at least one "kept" hold. */
  #kept = 0;

  constructor({ slots, window }: { slots: number; window: number }) {
    this.#slots = slots;
    this.#window = window;
  }

  /**
   * Returns the kind of hold that a consumer whose window is not full would have on a frame; undefined if the frame may
   * not be sent to the consumer.
   */
  kindOf({ consumers, isInTurn, isHeld, isKept }: FrameDemand): HoldKind | undefined {
    const kind = isInTurn ? "in turn" : "kept";
    // No limit is needed if there are more slots than all consumers together can hold. Nor is one needed for a single
    // consumer: its holds delay only the producer, not other consumers.
    if (consumers * this.#window < this.#slots || consumers === 1) return kind;
    const held = isHeld ? this.#held : this.#held + 1;
    const producerShare = Math.max(1, this.#slots - 1);
    if (kind === "in turn") return isHeld || held <= Math.max(producerShare, this.#kept + 1) ? kind : undefined;
    if (isKept) return kind;
    return this.#kept < Math.max(1, this.#slots - 2) && held <= producerShare ? kind : undefined;
  }

  /** Adds `held` to the number of held frames and `kept` to the number of kept frames. Both may be negative. */
  count({ held, kept }: { held: number; kept: number }): void {
    this.#held += held;
    this.#kept += kept;
  }
}
