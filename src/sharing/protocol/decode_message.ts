/**
 * Decodes messages as specified by PROTOCOL.md. Checks every rule that can be checked within a single message.
 *
 * @module
 */
import { SharingError } from "../../support/errors.ts";
import type { ShareableHandle } from "../../memory/handles/shareable_handle.ts";
import {
  type ChannelMessage,
  connectionRoles,
  type FrameMessage,
  type GoodbyeMessage,
  goodbyeReasons,
  maximumGoodbyeTextByteLength,
  maximumMetadataByteLength,
  maximumNameByteLength,
  maximumPartByteLength,
  maximumSlots,
  type Message,
  type OfferMessage,
  type PoolMessage,
} from "./messages.ts";

/** The length of a message's header in bytes. */
export const headerByteLength = 8;
/** The bytes at the beginning of the bodies of HELLO and WELCOME: `poolpass` in ASCII. */
export const greetingBytes: Uint8Array<ArrayBuffer> = new TextEncoder().encode("poolpass");

/** The kinds of POOL, in the order of their numbers in messages, which start at 1. */
export const poolKinds = ["device", "host", "memory"] as const;
/** The kinds of OFFER, in the order of their numbers in messages, which start at 1. */
export const offerKinds = ["buffer", "pool", "channel"] as const;
/** The kinds of FORGET, in the order of their numbers in messages, which start at 1. */
export const forgetKinds = ["pool", "allocation", "event"] as const;

/** The header of a message. */
export interface Header {
  readonly bodyByteLength: number;
  /** The number of the message type, as in `messageLayouts`. */
  readonly type: number;
  /** The number of descriptors sent with the message, 0 or 1. */
  readonly descriptors: number;
}

/** The constraints on the header of one type of message. */
export interface MessageLayout {
  readonly type: Message["type"];
  readonly number: number;
  readonly descriptors: number;
  /** The minimum length of the body, in bytes. */
  readonly minimum: number;
  /** The maximum length of the body, in bytes. */
  readonly maximum: number;
  /** The granularity of the body's length in bytes: the length is the minimum plus a multiple of this number. */
  readonly unit: number;
}

/** The layouts of all types of message. */
export const messageLayouts: { readonly [Type in Message["type"]]: MessageLayout } = {
  "hello": layout("hello", 1, 16),
  "welcome": layout("welcome", 2, 16),
  "goodbye": layout("goodbye", 3, 8, { maximum: 8 + maximumGoodbyeTextByteLength }),
  "wait": layout("wait", 4, 4),
  "fired": layout("fired", 5, 4),
  "ask": layout("ask", 6, 8 + 1, { maximum: 8 + maximumPartByteLength }),
  "answer": layout("answer", 7, 8 + 1, { maximum: 8 + maximumPartByteLength }),
  "memory": layout("memory", 8, 4, { descriptors: 1 }),
  "pool": layout("pool", 16, 24, { descriptors: 1 }),
  "allocation": layout("allocation", 17, 80),
  "event": layout("event", 18, 88),
  "offer": layout("offer", 19, 40 + 1, { maximum: 40 + maximumNameByteLength + maximumMetadataByteLength }),
  "channel": layout("channel", 20, 32 + 4, { maximum: 32 + 4 * maximumSlots, unit: 4 }),
  "withdraw": layout("withdraw", 21, 4),
  "recall": layout("recall", 22, 4),
  "forget": layout("forget", 23, 8),
  "event-free": layout("event-free", 24, 4),
  "frame": layout("frame", 25, 32, { maximum: 32 + maximumMetadataByteLength }),
  "end": layout("end", 26, 4),
  "pool-handle": layout("pool-handle", 27, 8, { descriptors: 1 }),
  "held": layout("held", 32, 4),
  "released": layout("released", 33, 8),
  "withdrawn": layout("withdrawn", 34, 4),
  "join": layout("join", 35, 4),
  "release-slot": layout("release-slot", 37, 20),
  "request-handle": layout("request-handle", 38, 8),
};

const layoutsByNumber: readonly (MessageLayout | undefined)[] = byNumber(Object.values(messageLayouts));
/** A reusable buffer for the characters of a short string that is being decoded. */
const characters: number[] = [];
const textDecoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
/** The maximum length, in bytes, of a string for which a loop over the bytes is faster than `TextDecoder`. */
const shortStringByteLength = 64;
/** The maximum number of characters or bytes of an invalid string that an error quotes. */
const quotedLength = 40;

let latestView: DataView = new DataView(new ArrayBuffer(0));

/**
 * Decodes the header of a message, before any memory is allocated for its body.
 *
 * @param bytes a buffer that contains all 8 bytes of the header, starting at `offset`
 * @throws {SharingError} `bad-message` if the header is invalid
 */
export function decodeHeader(bytes: Uint8Array, offset: number): Header {
  const view = viewOf(bytes.buffer);
  const begin = bytes.byteOffset + offset;
  const bodyByteLength = view.getUint32(begin, true);
  const type = view.getUint16(begin + 4, true);
  const descriptors = view.getUint16(begin + 6, true);
  const found = layoutsByNumber[type];
  if (found === undefined) {
    throw new SharingError("bad-message", `Cannot accept a message of type ${type}: the protocol has no such type`);
  }
  const { minimum, maximum, unit } = found;
  if (bodyByteLength < minimum || bodyByteLength > maximum || (bodyByteLength - minimum) % unit !== 0) {
    refuse(found.type, "length", bodyByteLength, range(minimum, maximum) + (unit > 1 ? ` in steps of ${unit}` : ""));
  }
  if (descriptors !== found.descriptors) {
    refuse(found.type, "count of descriptors", descriptors, String(found.descriptors));
  }
  return { bodyByteLength, type, descriptors };
}

/**
 * Decodes a message. The result does not reference `body`, which may be overwritten afterwards.
 *
 * @param header the result of `decodeHeader`
 * @param body the body, with exactly the length that the header states
 * @param handle the descriptor received with the message, which the caller still owns if this function throws
 * @throws {SharingError} `bad-message` if the message violates the protocol
 */
export function decodeMessage(header: Header, body: Uint8Array, handle: ShareableHandle | undefined): Message {
  if (body.length !== header.bodyByteLength) {
    const { type } = layoutsByNumber[header.type]!;
    refuse(type, "body", `${body.length} bytes`, `${header.bodyByteLength}`);
  }
  return decodeMessageAt(body, 0, { header, handle });
}

/**
 * Like `decodeMessage`, for a complete body that starts at offset `begin` of `bytes`. Avoids allocating a view of the
 * body.
 */
export function decodeMessageAt(
  bytes: Uint8Array,
  begin: number,
  { header, handle }: { readonly header: Header; readonly handle: ShareableHandle | undefined },
): Message {
  const { bodyByteLength } = header;
  const { type } = layoutsByNumber[header.type]!;
  const handles = handle === undefined ? 0 : 1;
  if (handles !== header.descriptors) refuse(type, "count of descriptors that came", handles, `${header.descriptors}`);
  bodyReader.begin(type, bytes, begin);
  const reader = bodyReader;
  switch (type) {
    case "hello": {
      reader.greeting();
      const lowestVersion = reader.number16("lowest version");
      const highestVersion = reader.number16("highest version", lowestVersion);
      const role = reader.number32("role", 0, connectionRoles.length);
      return { type, lowestVersion, highestVersion, ...role === 0 ? {} : { role: connectionRoles[role - 1]! } };
    }
    case "welcome": {
      reader.greeting();
      const version = reader.number16("version");
      reader.zero(2);
      reader.zero(4);
      return { type, version };
    }
    case "goodbye":
      return decodeGoodbye(reader, bodyByteLength);
    case "ask":
    case "answer":
      return {
        type,
        request: reader.identifier("request"),
        remaining: reader.number32("count of bytes that remain"),
        part: reader.bytes(bodyByteLength - 8),
      };
    case "memory":
      return { type, request: reader.identifier("request"), handle: handle! };
    case "pool":
      return decodePool(reader, handle!);
    case "pool-handle":
      return { type, pool: reader.identifier("pool"), token: reader.identifier("token"), handle: handle! };
    case "request-handle":
      return { type, pool: reader.identifier("pool"), token: reader.number32("token") };
    case "allocation":
      return {
        type,
        allocation: reader.identifier("allocation"),
        pool: reader.identifier("pool"),
        byteLength: reader.number64("size", 1),
        exportData: reader.bytes(64),
      };
    case "event": {
      const event = reader.identifier("event");
      reader.zero(4);
      return { type, event, deviceUuid: reader.bytes(16), handle: reader.bytes(64) };
    }
    case "offer":
      return decodeOffer(reader, bodyByteLength);
    case "channel":
      return decodeChannel(reader, bodyByteLength);
    case "withdraw":
    case "recall":
    case "end":
    case "held":
    case "withdrawn":
    case "join":
      return { type, offer: reader.identifier("offer") };
    case "forget":
      return { type, kind: reader.kind(forgetKinds), identifier: reader.identifier("identifier") };
    case "wait":
    case "fired":
    case "event-free":
      return { type, event: reader.identifier("event") };
    case "frame":
      return decodeFrame(reader, bodyByteLength);
    case "released":
      return { type, offer: reader.identifier("offer"), event: reader.number32("event") };
    case "release-slot":
      return {
        type,
        offer: reader.identifier("offer"),
        slot: reader.number32("slot", 0, maximumSlots - 1),
        sequence: reader.number64("sequence number", 1),
        event: reader.number32("event"),
      };
  }
}

/** Returns the name by which PROTOCOL.md refers to a message type. */
export function messageName(type: Message["type"]): string {
  return type.toUpperCase().replaceAll("-", "_");
}

function decodeGoodbye(reader: BodyReader, bodyByteLength: number): GoodbyeMessage {
  const reason = goodbyeReasons[reader.number16("reason")] ?? "bad-message";
  const lowestVersion = reader.number16("lowest version");
  const highestVersion = reader.number16("highest version", lowestVersion);
  reader.zero(2);
  return { type: "goodbye", reason, lowestVersion, highestVersion, text: reader.string("text", bodyByteLength - 8) };
}

function decodePool(reader: BodyReader, handle: ShareableHandle): PoolMessage {
  const pool = reader.identifier("pool");
  const kind = reader.kind(poolKinds);
  const deviceUuid = reader.bytes(16);
  if (kind === "host" && deviceUuid.some((byte) => byte !== 0)) {
    refuse("pool", "device", deviceUuid.toHex(), "zeros for host memory");
  }
  return { type: "pool", pool, kind, deviceUuid, handle };
}

function decodeOffer(reader: BodyReader, bodyByteLength: number): OfferMessage {
  const offer = reader.identifier("offer");
  const kind = reader.kind(offerKinds);
  const hasMemory = kind !== "pool";
  const allocation = hasMemory ? reader.identifier("allocation") : reader.number32("allocation", 0, 0);
  const pool = reader.identifier("pool");
  const byteOffset = reader.number64("offset", 0, hasMemory ? undefined : 0);
  const byteLength = hasMemory ? reader.number64("size", 1) : reader.number64("size", 0, 0);
  if (byteOffset + byteLength > Number.MAX_SAFE_INTEGER) {
    const end = BigInt(byteOffset) + BigInt(byteLength);
    refuse("offer", "end, of offset and size,", end, `at most ${Number.MAX_SAFE_INTEGER}`);
  }
  const readyEvent = reader.number32("ready event");
  const nameByteLength = reader.number16("length of the name", 1, maximumNameByteLength);
  const metadataByteLength = reader.number16("length of the metadata", 0, maximumMetadataByteLength);
  checkLength("offer", bodyByteLength, 40 + nameByteLength + metadataByteLength);
  const name = reader.string("name", nameByteLength);
  const metadata = reader.metadata(metadataByteLength);
  return { type: "offer", offer, kind, allocation, pool, byteOffset, byteLength, readyEvent, name, metadata };
}

function decodeChannel(reader: BodyReader, bodyByteLength: number): ChannelMessage {
  const offer = reader.identifier("offer");
  const slots = reader.number32("count of slots", 1, maximumSlots);
  checkLength("channel", bodyByteLength, 32 + 4 * slots);
  const slotByteLength = reader.number64("size of a slot", 1);
  const slotStride = reader.number64("distance of slots", slotByteLength);
  if (slotStride * slots > Number.MAX_SAFE_INTEGER) {
    const size = BigInt(slotStride) * BigInt(slots);
    refuse("channel", "size of all slots", size, `at most ${Number.MAX_SAFE_INTEGER}`);
  }
  const window = reader.number32("window", 1, slots);
  reader.zero(4);
  const readyEvents: number[] = [];
  for (let slot = 0; slot < slots; slot++) readyEvents.push(reader.identifier(`ready event of slot ${slot}`));
  return { type: "channel", offer, slotByteLength, slotStride, window, readyEvents };
}

function decodeFrame(reader: BodyReader, bodyByteLength: number): FrameMessage {
  const offer = reader.identifier("offer");
  const slot = reader.number32("slot", 0, maximumSlots - 1);
  const sequence = reader.number64("sequence number", 1);
  const byteLength = reader.number64("size");
  const hasEvent = reader.number32("event flag", 0, 1) === 1;
  const metadataByteLength = reader.number32("length of the metadata", 0, maximumMetadataByteLength);
  checkLength("frame", bodyByteLength, 32 + metadataByteLength);
  return { type: "frame", offer, slot, sequence, byteLength, hasEvent, metadata: reader.metadata(metadataByteLength) };
}

/** Reads the fields of a message's body in order, and checks the range of each field. */
class BodyReader {
  #type: Message["type"] = "hello";
  #bytes: Uint8Array = new Uint8Array(0);
  /** A view of the whole `ArrayBuffer` that `#bytes` is part of. */
  #view: DataView = latestView;
  /** The offset of `#bytes` in the `ArrayBuffer`. */
  #base = 0;
  /** The offset of the body in the `ArrayBuffer`. */
  #bodyBegin = 0;
  /** The offset of the next field in the `ArrayBuffer`. */
  #position = 0;

  /** Starts reading the body at offset `begin` of `bytes`. */
  begin(type: Message["type"], bytes: Uint8Array, begin: number): void {
    this.#type = type;
    this.#bytes = bytes;
    this.#view = viewOf(bytes.buffer);
    this.#base = bytes.byteOffset;
    this.#bodyBegin = this.#position = bytes.byteOffset + begin;
  }

  number16(field: string, minimum = 0, maximum = 0xffff): number {
    const value = this.#view.getUint16(this.#position, true);
    if (value < minimum || value > maximum) refuse(this.#type, field, value, range(minimum, maximum));
    this.#position += 2;
    return value;
  }

  number32(field: string, minimum = 0, maximum = 0xffff_ffff): number {
    const value = this.#view.getUint32(this.#position, true);
    if (value < minimum || value > maximum) refuse(this.#type, field, value, range(minimum, maximum));
    this.#position += 4;
    return value;
  }

  number64(field: string, minimum = 0, maximum: number = Number.MAX_SAFE_INTEGER): number {
    const low = this.#view.getUint32(this.#position, true);
    const value = this.#view.getUint32(this.#position + 4, true) * 2 ** 32 + low;
    if (value < minimum || value > maximum) {
      refuse(this.#type, field, this.#view.getBigUint64(this.#position, true), range(minimum, maximum));
    }
    this.#position += 8;
    return value;
  }

  identifier(field: string): number {
    return this.number32(field, 1);
  }

  kind<Kind extends string>(kinds: readonly Kind[]): Kind {
    return kinds[this.number32("kind", 1, kinds.length) - 1]!;
  }

  zero(byteLength: 2 | 4): void {
    const value = byteLength === 2 ? this.number16("") : this.number32("");
    if (value === 0) return;
    const place = this.#position - byteLength - this.#bodyBegin;
    refuse(this.#type, `zero field at ${place}`, value, "0");
  }

  bytes(byteLength: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#take(byteLength));
  }

  greeting(): void {
    const bytes = this.#take(greetingBytes.length);
    if (!greetingBytes.every((byte, index) => byte === bytes[index])) {
      refuse(this.#type, "greeting", bytes.toHex(), `${greetingBytes.toHex()}, "poolpass"`);
    }
  }

  string(field: string, byteLength: number): string {
    if (byteLength === 0) return "";
    if (byteLength <= shortStringByteLength && this.#isPlain(byteLength)) {
      this.#position += byteLength;
      return String.fromCharCode.apply(null, characters);
    }
    const bytes = this.#take(byteLength);
    let value;
    try {
      value = textDecoder.decode(bytes);
    } catch {
      refuse(this.#type, field, bytes.subarray(0, quotedLength).toHex(), "UTF-8");
    }
    if (value.includes("\0")) refuse(this.#type, field, quote(value), "a string without a NUL");
    return value;
  }

  metadata(byteLength: number): string {
    const json = this.string("metadata", byteLength);
    if (json !== "" && !isJson(json)) refuse(this.#type, "metadata", quote(json), "JSON");
    return json;
  }

  #take(byteLength: number): Uint8Array {
    const begin = this.#position - this.#base;
    this.#position += byteLength;
    return this.#bytes.subarray(begin, begin + byteLength);
  }

  /**
   * Returns whether the next `byteLength` bytes are all ASCII characters other than NUL. If so, stores the characters
   * in `characters`.
   */
  #isPlain(byteLength: number): boolean {
    const begin = this.#position - this.#base;
    characters.length = byteLength;
    for (let i = 0; i < byteLength; i++) {
      const character = this.#bytes[begin + i]!;
      if ((character - 1) >>> 0 >= 0x7f) return false;
      characters[i] = character;
    }
    return true;
  }
}

/** The reader for all messages, since only one message is decoded at a time. */
const bodyReader = new BodyReader();

function layout(
  type: Message["type"],
  number: number,
  minimum: number,
  { descriptors = 0, maximum = minimum, unit = 1 }: { descriptors?: number; maximum?: number; unit?: number } = {},
): MessageLayout {
  return { type, number, descriptors, minimum, maximum, unit };
}

function byNumber(layouts: readonly MessageLayout[]): (MessageLayout | undefined)[] {
  const last = Math.max(...layouts.map(({ number }) => number));
  return Array.from({ length: last + 1 }, (_, place) => layouts.find(({ number }) => number === place));
}

/**
 * Returns a view of a whole `ArrayBuffer`. Caches the last view, because consecutive messages are usually in the same
 * buffer.
 */
function viewOf(buffer: ArrayBufferLike): DataView {
  if (latestView.buffer !== buffer) latestView = new DataView(buffer);
  return latestView;
}

function isJson(value: string): boolean {
  try {
    JSON.parse(value);
    return true;
  } catch {
    return false;
  }
}

function checkLength(type: Message["type"], bodyByteLength: number, needed: number): void {
  if (bodyByteLength !== needed) refuse(type, "length", bodyByteLength, `${needed} by its other fields`);
}

function range(minimum: number, maximum: number): string {
  return minimum === maximum ? `${minimum}` : `${minimum} to ${maximum}`;
}

function quote(value: string): string {
  return JSON.stringify(value.slice(0, quotedLength));
}

function refuse(type: Message["type"], field: string, value: number | bigint | string, needed: string): never {
  const name = messageName(type);
  throw new SharingError(
    "bad-message",
    `Cannot accept the message ${name}: its ${field} is ${value}; it takes ${needed}`,
  );
}
