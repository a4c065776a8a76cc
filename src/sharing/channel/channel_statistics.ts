import type { Peer } from "../transport/unix_socket.ts";

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
