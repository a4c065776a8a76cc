import type { ConsumerStatistics, ListenerStatus, Operator, OperatorOptions } from "../../mod.ts";
import { connectOperator, requestStatus } from "../status/connection.ts";

/** The rates of a channel or of one of its consumers, per second. */
export interface Rates {
  readonly framesPerSecond: number;
  readonly bytesPerSecond: number;
  readonly droppedPerSecond: number;
}

/** The status of a listener, and the rates since the previous status. */
export interface Sample {
  readonly status: ListenerStatus;
  /** The time of the status, in milliseconds since 1970. */
  readonly time: number;
  /** The rates of the channels that were also in the previous sample, keyed by channel name. */
  readonly channels: ReadonlyMap<string, Rates>;
  /** The rates of the consumers that were also in the previous sample. */
  readonly consumers: ReadonlyMap<ConsumerStatistics, Rates>;
  /** The process ID of the listener in the PID namespace of this program; 0 if the listener is not visible there. */
  readonly listenerPid: number;
}

/** The total counts of a channel or a consumer in one sample. Rates are computed from the totals of two samples. */
interface Totals {
  readonly sent: number;
  readonly bytesSent?: number;
  readonly dropped: number;
}

/** Requests the status of a listener repeatedly, and reconnects after an error. */
export class Sampler implements AsyncDisposable {
  readonly #path: string;
  readonly #options: OperatorOptions;
  readonly #signal: AbortSignal;
  #operator: Operator | undefined;
  #last: { readonly status: ListenerStatus; readonly at: number } | undefined;

  constructor(path: string, { signal, ...options }: OperatorOptions & { readonly signal: AbortSignal }) {
    this.#path = path;
    this.#options = options;
    this.#signal = signal;
  }

  /**
   * Returns the next sample. If this throws, the next call reconnects.
   *
   * @throws {SharingError} If no process listens at the path, or if the listener does not answer
   */
  async next(): Promise<Sample> {
    try {
      this.#operator ??= await connectOperator(this.#path, this.#options, this.#signal);
      const status = await requestStatus(this.#operator, this.#signal);
      return { ...this.#sampleOf(status), listenerPid: this.#operator.peer.pid };
    } catch (error) {
      await this[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Closes the connection. */
  async [Symbol.asyncDispose](): Promise<void> {
    const operator = this.#operator;
    this.#operator = this.#last = undefined;
    await operator?.[Symbol.asyncDispose]();
  }

  #sampleOf(status: ListenerStatus): Omit<Sample, "listenerPid"> {
    const at = performance.now();
    const last = this.#last;
    this.#last = { status, at };
    const rates = last === undefined ? { channels: new Map(), consumers: new Map() } : ratesOf(last, { status, at });
    return { status, time: Date.now(), ...rates };
  }
}

/** Returns the rates of the channels and consumers that are in both statuses. */
function ratesOf(
  before: { readonly status: ListenerStatus; readonly at: number },
  { status, at }: { readonly status: ListenerStatus; readonly at: number },
): Pick<Sample, "channels" | "consumers"> {
  const channels = new Map<string, Rates>();
  const consumers = new Map<ConsumerStatistics, Rates>();
  if (status.kind === "store" || before.status.kind === "store") return { channels, consumers };
  const seconds = (at - before.at) / 1000;
  const known = new Map(before.status.statistics.channels.map((channel) => [channel.name, channel]));
  for (const channel of status.statistics.channels) {
    const last = known.get(channel.name);
    if (last === undefined) continue;
    const rates = rateOf(last, channel, seconds);
    if (rates === undefined) continue;
    channels.set(channel.name, rates);
    const left = [...last.consumers];
    for (const consumer of channel.consumers) {
      const index = left.findIndex(({ peer }) => peer.pid === consumer.peer.pid && peer.uid === consumer.peer.uid);
      const [earlier] = index < 0 ? [] : left.splice(index, 1);
      const rate = earlier === undefined ? undefined : rateOf(earlier, consumer, seconds);
      if (rate !== undefined) consumers.set(consumer, rate);
    }
  }
  return { channels, consumers };
}

/**
 * Returns the rates between two samples. Undefined if a total has decreased, because the samples then describe
 * different channels of the same name.
 */
function rateOf(before: Totals, after: Totals, seconds: number): Rates | undefined {
  const sent = after.sent - before.sent;
  const dropped = after.dropped - before.dropped;
  const bytes = (after.bytesSent ?? 0) - (before.bytesSent ?? 0);
  if (sent < 0 || dropped < 0 || bytes < 0 || seconds <= 0) return undefined;
  return { framesPerSecond: sent / seconds, bytesPerSecond: bytes / seconds, droppedPerSecond: dropped / seconds };
}
