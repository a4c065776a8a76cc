import { currentRecorder } from "../../trace/open_trace.ts";
import { messagesPerConnection } from "../../trace/trace_format.ts";
import type { TraceRecorder } from "../../trace/trace_recorder.ts";
import type { DocumentMessage, Message } from "./messages.ts";

const values = ["peer", "message", "subject", "byteLength"] as const;
const valuesOfOffer = ["peer", "message", "subject", "name"] as const;
const valuesOfAsk = ["peer", "message", "subject", "what"] as const;

/** The number of connections with each process, by its ID. */
const connections = new Map<number, number>();

/** Records the messages of a connection. Both ends count connections with each other, and messages, in the same order. */
export class TracedMessages {
  readonly #recorder: TraceRecorder;
  readonly #peer: number;
  #sent: number;
  #received: number;

  constructor(recorder: TraceRecorder, peer: number) {
    const number = (connections.get(peer) ?? 0) + 1;
    connections.set(peer, number);
    this.#recorder = recorder;
    this.#peer = peer;
    this.#sent = this.#received = number * messagesPerConnection;
  }

  /** The time, for `sent`. */
  now(): number {
    return this.#recorder.now();
  }

  /** Records a message that was sent. `time` is a time before its first byte was written. */
  sent(message: Message, time: number): void {
    this.#record("send", message, ++this.#sent, time);
  }

  received(message: Message): void {
    this.#record("receive", message, ++this.#received, this.now());
  }

  /** Records that the connection has ended with an error. */
  lost(code: string): void {
    const recorder = this.#recorder;
    const kind = recorder.kind({ name: "connection lost", values: ["peer", "message", "subject", "why"] });
    recorder.instant(kind, this.#peer, this.#received, 0, recorder.text(code));
  }

  #record(verb: "send" | "receive", message: Message, number: number, time: number): void {
    const recorder = this.#recorder;
    const { type } = message;
    const names = type === "offer" ? valuesOfOffer : type === "ask" ? valuesOfAsk : values;
    const kind = recorder.kind({ name: `${verb} ${type}`, values: names });
    const last = type === "offer"
      ? recorder.text(message.name)
      : type === "ask"
      ? recorder.text(requestOf(message))
      : "byteLength" in message
      ? message.byteLength
      : 0;
    recorder.instantAt(time, kind, this.#peer, number, subjectOf(message), last);
  }
}

/** Returns what a message is about: the sequence number of a frame, or an identifier; 0 for any other message. */
function subjectOf(message: Message): number {
  if ("sequence" in message) return message.sequence;
  if ("offer" in message) return message.offer;
  if ("event" in message) return message.event;
  if ("pool" in message) return message.pool;
  if ("request" in message) return message.request;
  return 0;
}

/** Returns what a request asks for, such as "map"; an empty string if it does not begin with that. */
function requestOf({ part }: DocumentMessage): string {
  const [, what = ""] = /^\{"do":"([a-z]+)"/.exec(new TextDecoder().decode(part.subarray(0, 40))) ?? [];
  return what;
}

/** Returns what records the messages of a new connection with a process; undefined if nothing is recorded. */
export function tracedMessages(peer: number): TracedMessages | undefined {
  const recorder = currentRecorder();
  return recorder && new TracedMessages(recorder, peer);
}
