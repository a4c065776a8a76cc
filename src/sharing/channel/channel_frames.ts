import {
  type ConsumerConnection,
  type ConsumerMessage,
  type ConsumerStatistics,
  FrameBudget,
  type HoldKind,
} from "./channel_hub.ts";
import { badMessage, type FrameMessage } from "../protocol/messages.ts";
import { isLogging, logEvent } from "../../support/event_log.ts";
import { listOf } from "../../support/printing.ts";
import { ConditionVariable } from "../transport/abortable.ts";
import { Timer } from "../../support/waiting/timer.ts";

/** The maximum number of processes that an error message lists. */
const maximumListed = 4;
/**
 * The time in milliseconds after which a frame that its consumer still holds counts as deliberately retained: its
 * `HoldKind` changes from "in turn" to "kept".
 */
const turnMilliseconds = 1000;

/** The dependencies of `ChannelFrames`, which its producer provides. */
export interface ChannelFramesParts {
  readonly name: string;
  /** The identifier of the channel's offer. */
  readonly offer: number;
  /**
   * The maximum number of frames that a consumer may hold: frames that were sent to it and that it has not released.
   */
  readonly window: number;
  /** The number of slots of the ring. Undefined if the channel does not drop frames. */
  readonly droppingSlots?: number;
  /** Milliseconds for which a consumer may hold a frame, from when the frame can be read; unlimited by default. */
  readonly holdTimeout?: number;
  /** Returns whether the last write to a slot is done. */
  readonly isWritten?: (slot: number) => boolean;
  /** Called when no consumer needs the frame in the slot any longer. */
  readonly onDone: (slot: number) => void;
  /** Called when a consumer joins. */
  readonly onJoin: () => void;
  /** Called when a frame that has not been sent to all consumers becomes droppable, because no consumer holds it. */
  readonly onDroppable?: () => void;
  /** Called when a connection that held slots was closed, and when a slot held by such a connection becomes free. */
  readonly onQuarantine?: () => void;
}

/** A frame that the application has sent and that some consumer has not received or not released yet. */
interface Frame {
  readonly message: FrameMessage;
  /** The consumers that the frame has not been sent to yet. */
  readonly waiting: Set<Consumer>;
  /** The consumers that the frame was sent to and that have not released it. */
  readonly holders: Set<Consumer>;
  /** The number of consumers that hold the frame with the kind "kept". */
  keptCount: number;
}

/** A frame that a consumer holds: the frame was sent to the consumer, which has not released it yet. */
interface Hold {
  readonly frame: Frame;
  kind: HoldKind;
  /** The `performance.now()` at which the consumer could first read the frame; 0 if `#isTimed` is false. */
  since: number;
  /** Cancels the wait for the consumer's GPU work with the frame. Set once the consumer has released the frame. */
  cancel: (() => void) | undefined;
}

interface Consumer {
  readonly importer: ConsumerConnection;
  readonly queue: Set<Frame>;
  /** The frames that the consumer holds, keyed by slot, in the order in which they were sent. */
  readonly held: Map<number, Hold>;
  /** The frame that the consumer holds "in turn". Undefined if there is none. */
  inTurn: Hold | undefined;
  /** Whether the consumer has ever released a frame. */
  hasReleased: boolean;
  /** Whether the consumer is to receive frames: it has joined and not left. */
  isJoined: boolean;
  hasSentEnd: boolean;
  /** The number of frames sent to the consumer. */
  sent: number;
  /** The number of frames that were dropped before they were sent to the consumer. */
  dropped: number;
}

/** The frames of a channel that consumers have not received or not released yet, and the channel's consumers. */
export class ChannelFrames {
  readonly #parts: ChannelFramesParts;
  /** The frames that some consumer has not received or not released yet, oldest first. */
  readonly #frames = new Set<Frame>();
  readonly #consumers = new Map<ConsumerConnection, Consumer>();
  /** Divides the slots among the consumers. Undefined if the channel does not drop frames. */
  readonly #budget: FrameBudget | undefined;
  /** Consumers to which the next frame was not sent because other consumers hold too many frames. */
  readonly #refused = new Set<Consumer>();
  readonly #turnTimer = new Timer(() => this.#endTurns(), turnMilliseconds, { unref: true });
  readonly #holdTimer: Timer;
  /** Whether `Hold.since` is recorded, because a `Hold` can expire or change its kind. */
  readonly #isTimed: boolean;
  #joined = 0;
  #dropped = 0;
  #hasEnded = false;
  readonly #condition = new ConditionVariable();

  constructor(parts: ChannelFramesParts) {
    this.#parts = parts;
    const { droppingSlots, window, holdTimeout = Infinity } = parts;
    if (droppingSlots !== undefined) this.#budget = new FrameBudget({ slots: droppingSlots, window });
    this.#isTimed = droppingSlots !== undefined || holdTimeout < Infinity;
    this.#holdTimer = new Timer(() => this.#endHolds(holdTimeout), holdTimeout, { unref: true });
  }

  /** The importers that frames are sent to. */
  get importers(): ConsumerConnection[] {
    return [...this.#consumers.values()].filter(({ isJoined }) => isJoined).map(({ importer }) => importer);
  }

  /** The number of frames that were dropped. */
  get dropped(): number {
    return this.#dropped;
  }

  /**
   * The oldest frame in `#frames` that was sent with an event, which means that the write to its slot may not be done
   * yet. Undefined if there is no such frame.
   */
  get pending(): FrameMessage | undefined {
    for (const { message } of this.#frames) if (message.hasEvent) return message;
    return undefined;
  }

  /** The slots that processes whose connections were closed may still use, keyed by process ID. */
  get quarantined(): Map<number, Set<number>> {
    const slots = new Map<number, Set<number>>();
    for (const { importer, held } of this.#consumers.values()) {
      if (importer.isConnected || held.size === 0) continue;
      const { pid } = importer.peer;
      slots.set(pid, new Set([...slots.get(pid) ?? [], ...held.keys()]));
    }
    return slots;
  }

  /**
   * Whether any process that holds quarantined slots may have begun to exit. The slots of such a process become free
   * when it exits.
   */
  get hasEndingHolders(): boolean {
    const consumers = [...this.#consumers.values()];
    return consumers.some(({ importer, held }) => !importer.isConnected && held.size > 0 && importer.mayBeEnding);
  }

  /**
   * Descriptions of the processes that hold frames, for error messages: `"process 12 has not released frames 1, 2"`.
   */
  get holders(): string[] {
    const holding = [...this.#consumers.values()].filter(({ held }) => held.size > 0);
    const texts = holding.slice(0, maximumListed).map(({ importer: { peer, isConnected }, held }) => {
      const numbers = [...held.values()].map(({ frame }) => String(frame.message.sequence));
      const frames = `frame${numbers.length === 1 ? "" : "s"} ${listOf(numbers)}`;
      if (!isConnected) return `process ${peer.pid}, whose connection has ended, may still use ${frames}`;
      const isReleased = [...held.values()].every(({ cancel }) => cancel !== undefined);
      return `process ${peer.pid} ${isReleased ? "still works with" : "has not released"} ${frames}`;
    });
    if (holding.length > maximumListed) {
      texts.push(`${holding.length - maximumListed} more of its consumers hold frames`);
    }
    return texts;
  }

  /** Returns the frame counts of each consumer. */
  statistics(): ConsumerStatistics[] {
    return [...this.#consumers.values()].filter(({ isJoined }) => isJoined)
      .map(({ importer: { peer }, sent, dropped, held, queue }) => {
        return { peer, sent, dropped, held: held.size, lag: held.size + queue.size };
      });
  }

  hasConsumers(minimum: number): boolean {
    return this.#joined >= minimum;
  }

  send(message: FrameMessage): void {
    const frame: Frame = { message, waiting: new Set(), holders: new Set(), keptCount: 0 };
    this.#frames.add(frame);
    for (const consumer of this.#consumers.values()) {
      if (!consumer.isJoined) continue;
      frame.waiting.add(consumer);
      consumer.queue.add(frame);
      this.#pump(consumer);
    }
    this.#endIfDone(frame);
    if (this.#budget !== undefined) this.#notifyIfDroppable(frame);
  }

  /** Drops the oldest frame that no consumer holds. Returns false if there is none. */
  drop(): boolean {
    for (const frame of this.#frames) {
      if (frame.holders.size > 0) continue;
      for (const consumer of frame.waiting) {
        consumer.queue.delete(frame);
        consumer.dropped++;
      }
      frame.waiting.clear();
      this.#dropped++;
      if (isLogging) logEvent("drop", { name: this.#parts.name, frame: frame.message.sequence });
      this.#endIfDone(frame);
      return true;
    }
    return false;
  }

  /** Ends the channel: no more frames can be sent. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    for (const consumer of this.#consumers.values()) this.#pump(consumer);
  }

  /** Resolves once every consumer has received and released all frames, or after `milliseconds`. */
  finished(milliseconds: number): Promise<void> {
    return this.#condition.wait(() => this.#frames.size === 0, milliseconds);
  }

  onMessage(importer: ConsumerConnection, message: ConsumerMessage): void {
    if (message.type === "join") return this.#onJoin(importer);
    const { name } = this.#parts;
    const consumer = this.#consumers.get(importer);
    if (consumer === undefined) throw badMessage(`"${name}" was not joined`);
    const { sequence, slot, event } = message;
    const hold = consumer.held.get(slot);
    if (hold?.frame.message.sequence !== sequence || hold.cancel !== undefined) {
      throw badMessage(`frame ${sequence} in slot ${slot} of "${name}" is released and was not held`);
    }
    if (event === 0) return this.#onSlotReleased(consumer, hold);
    const cancel = importer.whenFired(event, () => this.#onSlotReleased(consumer, hold));
    if (consumer.held.get(slot) === hold) hold.cancel = cancel;
  }

  /** Called when the connection to an importer is no longer backlogged. */
  onDrain(importer: ConsumerConnection): void {
    const consumer = this.#consumers.get(importer);
    if (consumer !== undefined) this.#pump(consumer);
  }

  /** Called when no more frames may be sent to an importer. */
  onLeave(importer: ConsumerConnection): void {
    const consumer = this.#consumers.get(importer);
    if (consumer === undefined) return;
    if (consumer.isJoined) {
      this.#joined--;
      if (isLogging) logEvent("leave", { peer: importer.peer.pid, name: this.#parts.name });
    }
    consumer.isJoined = false;
    this.#refused.delete(consumer);
    for (const frame of [...consumer.queue]) {
      consumer.queue.delete(frame);
      frame.waiting.delete(consumer);
      this.#endIfDone(frame);
    }
    if (!importer.isConnected && consumer.held.size > 0) {
      this.#endTurn(consumer);
      this.#parts.onQuarantine?.();
    }
    this.#pumpRefused();
  }

  /** Called when an importer no longer uses any slot. */
  onReleased(importer: ConsumerConnection): void {
    const consumer = this.#consumers.get(importer);
    if (consumer === undefined) return;
    this.onLeave(importer);
    this.#consumers.delete(importer);
    for (const hold of [...consumer.held.values()]) {
      hold.cancel?.();
      this.#onSlotReleased(consumer, hold);
    }
  }

  /** Moves the frames held by one connection to another connection of the same process. */
  onAbsorb(from: ConsumerConnection, to: ConsumerConnection): void {
    const leaving = this.#consumers.get(from);
    if (leaving === undefined) return;
    this.onLeave(from);
    this.#consumers.delete(from);
    let staying = this.#consumers.get(to);
    if (staying === undefined) staying = this.#add(to);
    else if (staying.isJoined) this.#joined--;
    staying.isJoined = false;
    for (const hold of [...leaving.held.values()]) {
      const { frame } = hold;
      const { slot } = frame.message;
      // The connection `to` may already have released the frame that `from` still holds. No event covers the GPU work
      // of both connections on the frame, so the frame stays held until the process exits.
      const other = staying.held.get(slot);
      other?.cancel?.();
      if (other !== undefined) this.#removeHold(staying, other);
      this.#removeHold(leaving, hold);
      this.#addHold(staying, frame, "kept");
    }
  }

  /**
   * Sends frames to a consumer until its queue is empty, its window is full, its connection is backlogged, or the
   * frames that other consumers hold leave no slot.
   */
  #pump(consumer: Consumer): void {
    const { importer, queue, held } = consumer;
    if (!consumer.isJoined || importer.isBacklogged) return;
    for (const frame of queue) {
      if (held.size >= this.#parts.window || importer.isBacklogged) return;
      const kind = this.#kindOf(consumer, frame);
      if (kind === undefined) return this.#refuse(consumer);
      this.#give(consumer, frame, kind);
    }
    this.#refused.delete(consumer);
    if (!this.#hasEnded || consumer.hasSentEnd) return;
    consumer.hasSentEnd = true;
    importer.send({ type: "end", offer: this.#parts.offer });
  }

  #kindOf(consumer: Consumer, frame: Frame): HoldKind | undefined {
    if (this.#budget === undefined) return "kept";
    return this.#budget.kindOf({
      consumers: this.#joined,
      isInTurn: consumer.hasReleased && consumer.inTurn === undefined,
      isHeld: frame.holders.size > 0,
      isKept: frame.keptCount > 0,
    });
  }

  #give(consumer: Consumer, frame: Frame, kind: HoldKind): void {
    consumer.queue.delete(frame);
    frame.waiting.delete(consumer);
    this.#addHold(consumer, frame, kind);
    consumer.sent++;
    consumer.importer.send(frame.message);
  }

  /** Handles a consumer to which the next frame may not be sent because other consumers hold too many frames. */
  #refuse(consumer: Consumer): void {
    this.#refused.add(consumer);
    this.#turnTimer.start();
    if (consumer.hasReleased || consumer.held.size > 0) return;
    // Send the newest frame that another consumer holds as "kept", because that frame occupies no additional slot. Once
    // this consumer has released the frame, it can hold its next frame "in turn".
    const newest = [...this.#frames].findLast(({ keptCount }) => keptCount > 0);
    if (newest === undefined) return;
    for (const frame of [...consumer.queue]) {
      if (frame.message.sequence >= newest.message.sequence) break;
      consumer.queue.delete(frame);
      consumer.dropped++;
      frame.waiting.delete(consumer);
      this.#endIfDone(frame);
    }
    this.#give(consumer, newest, "kept");
  }

  /** Tries again to send frames to the consumers in `#refused`. */
  #pumpRefused(): void {
    for (const consumer of [...this.#refused]) this.#pump(consumer);
  }

  /**
   * Changes the kind of each `Hold` that has been "in turn" for longer than `turnMilliseconds` to "kept", and tries
   * again to send frames to the consumers in `#refused`.
   */
  #endTurns(): void {
    if (this.#refused.size === 0) return;
    const begin = performance.now() - turnMilliseconds;
    for (const consumer of this.#consumers.values()) {
      if (consumer.inTurn !== undefined && consumer.inTurn.since <= begin) this.#endTurn(consumer);
    }
    this.#turnTimer.start();
    this.#pumpRefused();
  }

  #endTurn(consumer: Consumer): void {
    const { inTurn } = consumer;
    if (inTurn === undefined) return;
    consumer.inTurn = undefined;
    inTurn.kind = "kept";
    if (++inTurn.frame.keptCount === 1) this.#budget?.count({ held: 0, kept: 1 });
  }

  /**
   * Cuts off the consumers that have held a frame for longer than `holdTimeout`. Returns the milliseconds until the
   * timeout of the next consumer; undefined if no frames are held.
   */
  #endHolds(holdTimeout: number): number | undefined {
    const { name, isWritten } = this.#parts;
    const now = performance.now();
    let first = Infinity;
    for (const { importer, held } of [...this.#consumers.values()]) {
      // Skip an importer whose connection was closed: it cannot release frames, and its released frames stay held until
      // their release events have fired.
      if (!importer.isConnected) continue;
      let oldest = Infinity;
      for (const hold of held.values()) {
        if (isWritten?.(hold.frame.message.slot) === false) hold.since = now;
        oldest = Math.min(oldest, hold.since);
      }
      if (oldest + holdTimeout <= now) {
        const what = `process ${importer.peer.pid} has held a frame of "${name}" for more than ${holdTimeout} ms`;
        importer.cutOff("cut-off", `It was cut off: ${what}`);
      } else first = Math.min(first, oldest);
    }
    return first < Infinity ? first + holdTimeout - now : undefined;
  }

  #onJoin(importer: ConsumerConnection): void {
    if (this.#consumers.has(importer)) throw badMessage(`"${this.#parts.name}" is joined twice`);
    this.#joined++;
    if (isLogging) logEvent("join", { peer: importer.peer.pid, name: this.#parts.name });
    this.#pump(this.#add(importer));
    this.#parts.onJoin();
  }

  #add(importer: ConsumerConnection): Consumer {
    const consumer: Consumer = {
      importer,
      queue: new Set(),
      held: new Map(),
      inTurn: undefined,
      hasReleased: false,
      isJoined: true,
      hasSentEnd: false,
      sent: 0,
      dropped: 0,
    };
    this.#consumers.set(importer, consumer);
    return consumer;
  }

  #addHold(consumer: Consumer, frame: Frame, kind: HoldKind): void {
    const { holders, message } = frame;
    const since = this.#isTimed ? performance.now() : 0;
    const hold: Hold = { frame, kind, since, cancel: undefined };
    consumer.held.set(message.slot, hold);
    holders.add(consumer);
    if (kind === "in turn") consumer.inTurn = hold;
    else frame.keptCount++;
    this.#budget?.count({
      held: holders.size === 1 ? 1 : 0,
      kept: kind === "kept" && frame.keptCount === 1 ? 1 : 0,
    });
    this.#holdTimer.start();
  }

  #removeHold(consumer: Consumer, { frame, kind }: Hold): void {
    consumer.held.delete(frame.message.slot);
    frame.holders.delete(consumer);
    if (kind === "in turn") consumer.inTurn = undefined;
    else frame.keptCount--;
    this.#budget?.count({
      held: frame.holders.size === 0 ? -1 : 0,
      kept: kind === "kept" && frame.keptCount === 0 ? -1 : 0,
    });
  }

  #onSlotReleased(consumer: Consumer, hold: Hold): void {
    const { frame } = hold;
    if (consumer.held.get(frame.message.slot) !== hold) return;
    this.#removeHold(consumer, hold);
    consumer.hasReleased = true;
    this.#endIfDone(frame);
    if (!consumer.importer.isConnected) this.#parts.onQuarantine?.();
    // A channel that does not drop frames has a window of all its slots, so no consumer waits for a release.
    if (this.#budget === undefined) return;
    this.#pump(consumer);
    this.#pumpRefused();
    this.#notifyIfDroppable(frame);
  }

  #notifyIfDroppable(frame: Frame): void {
    if (frame.holders.size === 0 && frame.waiting.size > 0) this.#parts.onDroppable?.();
  }

  #endIfDone(frame: Frame): void {
    if (frame.waiting.size > 0 || frame.holders.size > 0 || !this.#frames.delete(frame)) return;
    this.#parts.onDone(frame.message.slot);
    this.#condition.notify();
  }
}
