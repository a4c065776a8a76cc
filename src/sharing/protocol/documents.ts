/**
 * Documents: JSON objects of any length, sent in parts that fit messages, and typed access to the members of received
 * documents.
 *
 * @module
 */
import { badMessage, type DocumentMessage, limitExceeded, maximumPartByteLength, type Message } from "./messages.ts";
import type { JsonValue } from "./metadata.ts";

/** The maximum size in bytes of a document that is a request, unless the receiver sets another limit. */
export const maximumAskByteLength: number = 8 * 2 ** 20;

/**
 * The maximum number of incomplete documents from one peer. The limit on bytes does not suffice, because each document
 * also has a fixed overhead.
 */
const maximumPending = 256;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Any JSON object. */
export type JsonObject = { readonly [name: string]: JsonValue };

/** Sends a JSON object as a document, in as many messages as needed. */
export function sendDocument(
  send: (message: Message) => void,
  document: Pick<DocumentMessage, "type" | "request">,
  value: JsonObject,
): void {
  for (const message of messagesOf(document, encodeDocument(value))) send(message);
}

/** Returns the bytes of a document: JSON in UTF-8. */
export function encodeDocument(value: object): Uint8Array<ArrayBuffer> {
  return encoder.encode(JSON.stringify(value));
}

/**
 * Yields the messages that carry a document. A message is generated only when requested, so that a sender can pause
 * while its peer does not read.
 */
export function* messagesOf(
  { type, request }: Pick<DocumentMessage, "type" | "request">,
  bytes: Uint8Array<ArrayBuffer>,
): Generator<DocumentMessage> {
  for (let begin = 0; begin < bytes.length; begin += maximumPartByteLength) {
    const part = bytes.subarray(begin, begin + maximumPartByteLength);
    yield { type, request, remaining: bytes.length - begin - part.length, part };
  }
}

/** A document whose bytes are generated while they are sent. */
export interface PiecewiseDocument {
  readonly byteLength: number;
  /** Yields the bytes of the document in order. A yielded array may be overwritten afterwards. */
  pieces(): Iterable<Uint8Array<ArrayBuffer>>;
}

/** Yields the messages that carry a `PiecewiseDocument`. A message is generated only when requested. */
export function* messagesOfPieces(
  { type, request }: Pick<DocumentMessage, "type" | "request">,
  document: PiecewiseDocument,
): Generator<DocumentMessage> {
  let remaining = document.byteLength;
  let part = new Uint8Array(Math.min(remaining, maximumPartByteLength));
  let filled = 0;
  for (const piece of document.pieces()) {
    for (let begin = 0; begin < piece.length;) {
      const room = part.length - filled;
      const bytes = begin === 0 && piece.length <= room ? piece : piece.subarray(begin, begin + room);
      part.set(bytes, filled);
      begin += bytes.length;
      filled += bytes.length;
      if (filled < part.length) continue;
      remaining -= part.length;
      yield { type, request, remaining, part };
      part = new Uint8Array(Math.min(remaining, maximumPartByteLength));
      filled = 0;
    }
  }
}

/** A document that has been received in part. */
interface Pending {
  /**
   * A buffer with the received bytes, which doubles in size as bytes arrive. Its initial size does not depend on the
   * announced length, because a peer may announce a long document and send nothing.
   */
  bytes: Uint8Array<ArrayBuffer>;
  byteLength: number;
  remaining: number;
}

/** Assembles the documents of one peer from their parts. */
export class Documents {
  readonly #maximum: number;
  readonly #pending = new Map<number, Pending>();
  #byteLength = 0;
  /** The size in bytes of the document most recently returned by `add`. */
  lastByteLength = 0;

  /** The total number of bytes received so far of incomplete documents. */
  get byteLength(): number {
    return this.#byteLength;
  }

  /** @param maximum the maximum total length in bytes of the documents that are being received */
  constructor(maximum: number) {
    this.#maximum = maximum;
  }

  /**
   * Adds a received part of a document. Returns the document if the part completes it, and undefined otherwise.
   *
   * @throws {SharingError} `bad-message` if the parts contradict each other or do not form a JSON object;
   * `limit-exceeded` if the peer sends too many documents at a time, or documents that are too long
   */
  add({ type, request, remaining, part }: DocumentMessage): JsonObject | undefined {
    const pending = this.#pending.get(request) ??
      { bytes: new Uint8Array(), byteLength: 0, remaining: part.length + remaining };
    if (pending.remaining !== part.length + remaining) {
      throw badMessage(`the parts of document ${request} of ${type.toUpperCase()} contradict each other`);
    }
    // Check the announced length, so that a document that is too long is rejected before the peer has sent all of it.
    if (this.#byteLength + part.length + remaining > this.#maximum) {
      throw limitExceeded(
        `accept a document of ${pending.byteLength + pending.remaining} bytes`,
        `${this.#maximum} bytes of documents at a time`,
      );
    }
    if (remaining > 0 && this.#pending.size >= maximumPending && !this.#pending.has(request)) {
      throw limitExceeded("accept another document", `${maximumPending} documents that have arrived in part`);
    }
    append(pending, part);
    this.#byteLength += part.length;
    if (remaining > 0) return void this.#pending.set(request, pending);
    this.#pending.delete(request);
    this.#byteLength -= pending.byteLength;
    this.lastByteLength = pending.byteLength;
    return parse(pending, `document ${request} of ${type.toUpperCase()}`);
  }
}

function append(pending: Pending, part: Uint8Array<ArrayBuffer>): void {
  const byteLength = pending.byteLength + part.length;
  const whole = pending.byteLength + pending.remaining;
  if (byteLength > pending.bytes.length) {
    const longer = new Uint8Array(Math.min(whole, Math.max(byteLength, 2 * pending.bytes.length)));
    longer.set(pending.bytes.subarray(0, pending.byteLength));
    pending.bytes = longer;
  }
  pending.bytes.set(part, pending.byteLength);
  pending.byteLength = byteLength;
  pending.remaining -= part.length;
}

function parse({ bytes, byteLength }: Pending, name: string): JsonObject {
  let value: JsonValue;
  try {
    value = JSON.parse(decoder.decode(bytes.subarray(0, byteLength))) as JsonValue;
  } catch {
    throw badMessage(`${name} is not JSON`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw badMessage(`${name} is not a JSON object`);
  }
  return value as JsonObject;
}

/** The maximum number of characters of an invalid member that an error quotes. */
const quotedLength = 60;

/** Returns the value of a member of a document. Throws `bad-message` unless the value is a string. */
export function textOf(document: JsonObject, name: string): string {
  const value = memberOf(document, name);
  if (typeof value !== "string") throw refusal(name, value, "a string");
  return value;
}

/**
 * Returns the value of a member of a document. Throws `bad-message` unless the value is an integer of at least
 * `minimum`.
 */
export function numberOf(document: JsonObject, name: string, minimum = 0): number {
  return checkedNumber(memberOf(document, name), name, minimum);
}

/**
 * Returns the value of a member of a document. Throws `bad-message` unless the value is an array of integers of at
 * least `minimum`.
 */
export function numbersOf(document: JsonObject, name: string, minimum = 0): readonly number[] {
  return listOf(document, name).map((value) => checkedNumber(value, name, minimum));
}

function checkedNumber(value: JsonValue | undefined, name: string, minimum: number): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < minimum) {
    throw refusal(name, value, `a whole number of at least ${minimum}`);
  }
  return value;
}

/**
 * Returns the value of a member of a document, or false if the member is absent. Throws `bad-message` unless the value
 * is a boolean.
 */
export function flagOf(document: JsonObject, name: string): boolean {
  const value = memberOf(document, name) ?? false;
  if (typeof value !== "boolean") throw refusal(name, value, "true or false");
  return value;
}

/**
 * Returns the value of a member of a document, or an empty array if the member is absent. Throws `bad-message` unless
 * the value is an array.
 */
function listOf(document: JsonObject, name: string): readonly JsonValue[] {
  const value = memberOf(document, name) ?? [];
  if (!Array.isArray(value)) throw refusal(name, value, "a list");
  return value;
}

/** Returns the value of a member of a document. Throws `bad-message` unless the value is an array of objects. */
export function objectsOf(document: JsonObject, name: string): readonly JsonObject[] {
  return listOf(document, name).map((value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw refusal(name, value, "objects");
    return value as JsonObject;
  });
}

/** Returns the value of a member of a document. Throws `bad-message` unless the value is an object. */
export function objectOf(document: JsonObject, name: string): JsonObject {
  const value = memberOf(document, name);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw refusal(name, value, "an object");
  return value as JsonObject;
}

/** Returns the value of a member of a document; undefined if the member is absent. */
export function memberOf(document: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(document, name) ? document[name] : undefined;
}

function refusal(name: string, value: JsonValue | undefined, needed: string): Error {
  const quoted = value === undefined ? "absent" : JSON.stringify(value).slice(0, quotedLength);
  return badMessage(`the member ${name} of a document is ${quoted}; it takes ${needed}`);
}
