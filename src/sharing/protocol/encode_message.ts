/**
 * Encodes messages as specified by PROTOCOL.md.
 *
 * @module
 */
import {
  forgetKinds,
  greetingBytes,
  headerByteLength,
  messageLayouts,
  messageName,
  offerKinds,
  poolKinds,
} from "./decode_message.ts";
import {
  type ChannelMessage,
  connectionRoles,
  type FrameMessage,
  goodbyeReasons,
  maximumBodyByteLength,
  maximumGoodbyeTextByteLength,
  maximumMetadataByteLength,
  maximumNameByteLength,
  maximumPartByteLength,
  maximumSlots,
  type Message,
  type OfferMessage,
} from "./messages.ts";
import { RangeError } from "../../support/program_errors.ts";

const textEncoder = new TextEncoder();
/**
 * The maximum length, in UTF-16 code units, of a string for which a loop over the characters is faster than
 * `TextEncoder`.
 */
const shortStringLength = 64;

/**
 * Returns the bytes of a message: its header and body. The caller must send the descriptor of a POOL with the first
 * byte.
 *
 * Checks only that each value fits its field, so that encoding does not change any value. The text of a GOODBYE is the
 * exception: it is truncated to its maximum length.
 *
 * @throws {RangeError} If a number, byte array or string does not fit its field
 */
export function encodeMessage(message: Message): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(roomFor(message));
  return bytes.slice(0, encodeInto(message, bytes, 0));
}

/**
 * Writes a message to `bytes` at offset `begin`. At least `roomFor(message)` bytes must be available there, and may be
 * overwritten even if this function throws. Returns the number of bytes written.
 */
export function encodeInto(message: Message, bytes: Uint8Array<ArrayBuffer>, begin: number): number {
  writer.begin(message.type, bytes, begin);
  return writeBody(message).end();
}

/**
 * Returns an upper bound on the length of an encoded message in bytes. For most message types, this is the maximum
 * length of the type. For types whose maximum exceeds a batch of `MessageWriter`, the bound is computed from the
 * lengths of the message's contents, so that short messages of these types can also be batched.
 */
export function roomFor(message: Message): number {
  let stringLength = 0;
  if (message.type === "offer") stringLength = message.name.length + message.metadata.length;
  else if (message.type === "frame") stringLength = message.metadata.length;
  else if (message.type === "ask" || message.type === "answer") return headerByteLength + 8 + message.part.length;
  else return headerByteLength + messageLayouts[message.type].maximum;
  // UTF-8 needs at most three bytes for each UTF-16 code unit. Strings that are too long cause an error when they are
  // written.
  return headerByteLength + Math.min(messageLayouts[message.type].minimum + 3 * stringLength, maximumBodyByteLength);
}

function writeBody(message: Message): BodyWriter {
  switch (message.type) {
    case "hello":
      return writer
        .bytes("greeting", greetingBytes, 8)
        .number16("lowest version", message.lowestVersion)
        .number16("highest version", message.highestVersion)
        .number32("role", message.role === undefined ? 0 : connectionRoles.indexOf(message.role) + 1);
    case "welcome":
      return writer
        .bytes("greeting", greetingBytes, 8)
        .number16("version", message.version)
        .number16("zero field", 0)
        .number32("zero field", 0);
    case "goodbye":
      return writer
        .number16("reason", goodbyeReasons.indexOf(message.reason))
        .number16("lowest version", message.lowestVersion)
        .number16("highest version", message.highestVersion)
        .number16("zero field", 0)
        .truncatedText(message.text.replaceAll("\0", " "), maximumGoodbyeTextByteLength);
    case "ask":
    case "answer":
      return writer
        .number32("request", message.request)
        .number32("count of bytes that remain", message.remaining)
        .bytes("part", message.part, Math.min(message.part.length, maximumPartByteLength));
    case "memory":
      return writer.number32("request", message.request);
    case "pool":
      return writer
        .number32("pool", message.pool)
        .kind(poolKinds, message.kind)
        .bytes("device", message.deviceUuid, 16);
    case "pool-handle":
    case "request-handle":
      return writer.number32("pool", message.pool).number32("token", message.token);
    case "allocation":
      return writer
        .number32("allocation", message.allocation)
        .number32("pool", message.pool)
        .number64("size", message.byteLength)
        .bytes("export data", message.exportData, 64);
    case "event":
      return writer
        .number32("event", message.event)
        .number32("zero field", 0)
        .bytes("device", message.deviceUuid, 16)
        .bytes("event handle", message.handle, 64);
    case "offer":
      return writeOffer(message);
    case "channel":
      return writeChannel(message);
    case "withdraw":
    case "recall":
    case "end":
    case "held":
    case "withdrawn":
    case "join":
      return writer.number32("offer", message.offer);
    case "forget":
      return writer.kind(forgetKinds, message.kind).number32("identifier", message.identifier);
    case "wait":
    case "fired":
    case "event-free":
      return writer.number32("event", message.event);
    case "frame":
      return writeFrame(message);
    case "released":
      return writer.number32("offer", message.offer).number32("event", message.event);
    case "release-slot":
      return writer
        .number32("offer", message.offer)
        .number32("slot", message.slot)
        .number64("sequence number", message.sequence)
        .number32("event", message.event);
  }
}

function writeOffer(message: OfferMessage): BodyWriter {
  // Write the strings first, because the preceding fields contain the lengths of the strings in UTF-8.
  const name = writer.stringAt(40, { field: "name", value: message.name, maximum: maximumNameByteLength });
  const metadata = writer.metadataAt(40 + name, message.metadata);
  return writer
    .number32("offer", message.offer)
    .kind(offerKinds, message.kind)
    .number32("allocation", message.allocation)
    .number32("pool", message.pool)
    .number64("offset", message.byteOffset)
    .number64("size", message.byteLength)
    .number32("ready event", message.readyEvent)
    .number16("length of the name", name)
    .number16("length of the metadata", metadata)
    .skip(name + metadata);
}

function writeChannel({ offer, slotByteLength, slotStride, window, readyEvents }: ChannelMessage): BodyWriter {
  writer
    .number32("offer", offer)
    .number32("count of slots", readyEvents.length, maximumSlots)
    .number64("size of a slot", slotByteLength)
    .number64("distance of slots", slotStride)
    .number32("window", window)
    .number32("zero field", 0);
  for (const event of readyEvents) writer.number32("ready event of a slot", event);
  return writer;
}

function writeFrame(message: FrameMessage): BodyWriter {
  const metadata = writer.metadataAt(32, message.metadata);
  return writer
    .number32("offer", message.offer)
    .number32("slot", message.slot)
    .number64("sequence number", message.sequence)
    .number64("size", message.byteLength)
    .number32("event flag", message.hasEvent ? 1 : 0)
    .number32("length of the metadata", metadata)
    .skip(metadata);
}

/** Writes the fields of a message in order. */
class BodyWriter {
  #bytes = new Uint8Array(0);
  #view = new DataView(this.#bytes.buffer);
  #type: Message["type"] = "hello";
  /** The offset of the message in `#bytes`. */
  #begin = 0;
  #position = 0;

  begin(type: Message["type"], bytes: Uint8Array<ArrayBuffer>, begin: number): void {
    this.#type = type;
    this.#begin = begin;
    this.#position = begin + headerByteLength;
    if (bytes === this.#bytes) return;
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset);
  }

  number16(field: string, value: number): this {
    if ((value & 0xffff) !== value) this.#refuse(field, value, "0 to 65535");
    this.#view.setUint16(this.#position, value, true);
    this.#position += 2;
    return this;
  }

  number32(field: string, value: number, maximum = 0xffff_ffff): this {
    if (value >>> 0 !== value || value > maximum) this.#refuse(field, value, `0 to ${maximum}`);
    this.#view.setUint32(this.#position, value, true);
    this.#position += 4;
    return this;
  }

  number64(field: string, value: number): this {
    if (!Number.isSafeInteger(value) || value < 0) this.#refuse(field, value, `0 to ${Number.MAX_SAFE_INTEGER}`);
    this.#view.setUint32(this.#position, value, true);
    this.#view.setUint32(this.#position + 4, value / 2 ** 32, true);
    this.#position += 8;
    return this;
  }

  kind<Kind extends string>(kinds: readonly Kind[], kind: Kind): this {
    return this.number32("kind", kinds.indexOf(kind) + 1);
  }

  bytes(field: string, bytes: Uint8Array, byteLength: number): this {
    if (bytes.length !== byteLength) this.#refuse(field, `${bytes.length} bytes`, `${byteLength} bytes`);
    this.#bytes.set(bytes, this.#position);
    this.#position += byteLength;
    return this;
  }

  /**
   * Writes a string at offset `place` of the body. The offset must not precede the next field. Returns the length of
   * the string in bytes of UTF-8.
   */
  stringAt(place: number, { field, value, maximum }: { field: string; value: string; maximum: number }): number {
    const begin = this.#begin + headerByteLength + place;
    if (this.#writePlain(begin, value)) return value.length;
    // `TextEncoder` would silently replace lone surrogates, which UTF-8 cannot represent.
    if (!value.isWellFormed() || value.includes("\0")) {
      this.#refuse(field, JSON.stringify(value), "a string without a NUL or a lone surrogate");
    }
    const bytes = textEncoder.encode(value);
    if (bytes.length > maximum) this.#refuse(field, `${bytes.length} bytes of UTF-8`, `at most ${maximum}`);
    this.#bytes.set(bytes, begin);
    return bytes.length;
  }

  metadataAt(place: number, json: string): number {
    return this.stringAt(place, { field: "metadata", value: json, maximum: maximumMetadataByteLength });
  }

  /** Advances past strings that `stringAt` has written. */
  skip(byteLength: number): this {
    this.#position += byteLength;
    return this;
  }

  /**
   * Writes a string if it is short and consists of ASCII characters other than NUL. Returns false for any other string.
   */
  #writePlain(begin: number, value: string): boolean {
    if (value.length > shortStringLength) return false;
    for (let i = 0; i < value.length; i++) {
      const code = value.charCodeAt(i);
      if (code === 0 || code > 0x7f) return false;
      this.#bytes[begin + i] = code;
    }
    return true;
  }

  /** Writes as many characters of a string as fit in `maximum` bytes of UTF-8. */
  truncatedText(text: string, maximum: number): this {
    const room = this.#bytes.subarray(this.#position, this.#position + maximum);
    this.#position += textEncoder.encodeInto(text, room).written;
    return this;
  }

  /** Writes the message's header after its body is complete. Returns the length of the whole message in bytes. */
  end(): number {
    const { number, descriptors, minimum, maximum } = messageLayouts[this.#type];
    const begin = this.#begin;
    const bodyByteLength = this.#position - begin - headerByteLength;
    if (bodyByteLength < minimum || bodyByteLength > maximum) {
      this.#refuse("length", bodyByteLength, `${minimum} to ${maximum}`);
    }
    this.#view.setUint32(begin, bodyByteLength, true);
    this.#view.setUint16(begin + 4, number, true);
    this.#view.setUint16(begin + 6, descriptors, true);
    return headerByteLength + bodyByteLength;
  }

  #refuse(field: string, value: number | string, needed: string): never {
    const name = messageName(this.#type);
    throw new RangeError(`Cannot send the message ${name}: its ${field} is ${value}; it takes ${needed}`);
  }
}

const writer = new BodyWriter();
