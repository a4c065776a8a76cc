import type { ConnectedImporter } from "../exporter/connected_importer.ts";
import type { OwnEvent } from "../events/own_events.ts";
import type {
  ChannelMessage,
  EventMessage,
  JoinMessage,
  ReleaseSlotMessage,
  TakenMessage,
} from "../protocol/messages.ts";

/** What an importer says of a channel. */
export type ConsumerMessage = JoinMessage | TakenMessage | ReleaseSlotMessage;

/** The producer's end of a channel, as its exporter and the connections see it. */
export interface ChannelHub {
  /** The ready events of its slots. */
  readonly eventMessages: readonly EventMessage[];
  /** How its ring is divided. */
  readonly message: ChannelMessage;
  onMessage(importer: ConnectedImporter, message: ConsumerMessage): void;
  /** There is room for messages again. */
  onDrain(importer: ConnectedImporter): void;
  /** No more frames may go there: it gave the ring up, or its connection is at its end. */
  onLeave(importer: ConnectedImporter): void;
  /** It uses no slot any more: it gave the ring up and its work is done, or its process has ended. */
  onReleased(importer: ConnectedImporter): void;
  /** What a connection that is at its end still holds is held by another one of the same process from now on. */
  onAbsorb(from: ConnectedImporter, to: ConnectedImporter): void;
  /** The event of a frame that may not have been written yet. */
  pendingEvent(): OwnEvent | undefined;
  /** The device is lost. */
  onLost(error: unknown): void;
  /** The exporter closes. */
  close(): void;
}
