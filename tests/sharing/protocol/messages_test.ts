import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import process from "node:process";
import { SharingError } from "../../../src/support/errors.ts";
import { decodeHeader, decodeMessage, headerByteLength } from "../../../src/sharing/protocol/decode_message.ts";
import { encodeMessage } from "../../../src/sharing/protocol/encode_message.ts";
import { goodbyeReasons, type Message } from "../../../src/sharing/protocol/messages.ts";
import { ShareableHandle } from "../../../src/memory/handles/shareable_handle.ts";
import { joined, spoiltStream } from "./mutations.ts";
import { isLong, test } from "../../support/test.ts";

interface Golden {
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly descriptors: number;
  readonly message: Message;
}

/** Stands in for a descriptor, which does not affect a message's fields. */
const handle = ShareableHandle.fromBytes(new Uint8Array(64));
const golden = ["messages.json", "longest_messages.json"].flatMap(readGolden);
/** Fewer streams do not violate every rule. More can be requested by environment variable. */
const streamsForAllRules = 50_000;
const fuzzStreams = Math.max(isLong ? streamsForAllRules : 4000, Number(process.env.POOLPASS_FUZZ_STREAMS ?? 0));

function readGolden(file: string): Golden[] {
  const list = JSON.parse(readFileSync(new URL(`golden_messages/${file}`, import.meta.url), "utf8")) as {
    readonly name: string;
    readonly hex: string;
    readonly descriptors: number;
    readonly message: Readonly<Record<string, unknown>>;
  }[];
  return list.map(({ name, hex, descriptors, message }) => {
    const fields = Object.entries(message).map(([field, value]) =>
      ["deviceUuid", "exportData", "handle", "part"].includes(field)
        ? [field, Uint8Array.fromHex(String(value))]
        : [field, value]
    );
    if (descriptors > 0) fields.push(["handle", handle]);
    return { name, bytes: Uint8Array.fromHex(hex), descriptors, message: Object.fromEntries(fields) as Message };
  });
}

function named(name: string): Golden {
  return golden.find((candidate) => candidate.name === name)!;
}

/** Decodes a single message. */
function decode(bytes: Uint8Array): Message {
  const header = decodeHeader(bytes, 0);
  return decodeMessage(header, bytes.subarray(headerByteLength), header.descriptors > 0 ? handle : undefined);
}

/** Replaces some bytes of a message's body. */
function changed(name: string, at: number, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const message = new Uint8Array(named(name).bytes);
  message.set(bytes, headerByteLength + at);
  return message;
}

/** Changes the length of a message's body. */
function resized(name: string, byteLength: number): Uint8Array<ArrayBuffer> {
  const message = new Uint8Array(headerByteLength + byteLength);
  message.set(named(name).bytes.subarray(0, message.length));
  message.set(u32(byteLength));
  return message;
}

function u16(value: number): Uint8Array {
  return new Uint8Array(Uint16Array.of(value).buffer);
}

function u32(value: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(value).buffer);
}

function u64(value: bigint): Uint8Array {
  return new Uint8Array(BigUint64Array.of(value).buffer);
}

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** The error for a message whose name begins with its type. */
function refusalOf(name: string, refusal: string): string {
  return `Cannot accept the message ${name.split(" ")[0]}: its ${refusal}`;
}

function assertRefused(bytes: Uint8Array, message: string): void {
  const error = assertThrows(() => decode(bytes), SharingError);
  assertEquals([error.code, error.message], ["bad-message", message]);
}

test("every golden message is decoded, and encoded to the same bytes", () => {
  for (const { name, bytes, descriptors, message } of golden) {
    assertEquals(decodeHeader(bytes, 0).descriptors, descriptors, name);
    assertEquals(decode(bytes), message, name);
    assertEquals(encodeMessage(message).toHex(), bytes.toHex(), name);
  }
});

test("the golden messages include each type and each reason", () => {
  const numbers = [1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 32, 33, 34, 35, 37, 38];
  const found = new Set(golden.map(({ bytes }) => decodeHeader(bytes, 0).type));
  assertEquals([...found].sort((one, other) => one - other), numbers);
  const reasons = golden.flatMap(({ message }) => message.type === "goodbye" ? [message.reason] : []);
  assertEquals(new Set(reasons), new Set(goodbyeReasons));
});

test("messages are decoded at any position among others", () => {
  const bytes = joined(golden.map((each) => each.bytes));
  let position = 0;
  for (const { message } of golden) {
    const header = decodeHeader(bytes, position);
    position += headerByteLength;
    const body = bytes.subarray(position, position += header.bodyByteLength);
    assertEquals(decodeMessage(header, body, header.descriptors > 0 ? handle : undefined), message);
  }
  assertEquals(position, bytes.length);
});

test("a decoded message does not change with the bytes that it was decoded from", () => {
  for (const { name, bytes, message } of golden) {
    // A Buffer's slices share its memory, unlike those of other arrays.
    const copy = Buffer.from(bytes);
    const decoded = decode(copy);
    copy.fill(0xff);
    assertEquals(decoded, message, name);
  }
});

test("a decoded POOL has the given handle, which stays the caller's if the message is refused", () => {
  const { bytes } = named("POOL of a device");
  using own = ShareableHandle.fromBytes(new Uint8Array(64));
  const decoded = decodeMessage(decodeHeader(bytes, 0), bytes.subarray(headerByteLength), own);
  assertStrictEquals(decoded.type === "pool" && decoded.handle, own);
  const refused = changed("POOL of a device", 0, u32(0));
  assertThrows(() => decodeMessage(decodeHeader(refused, 0), refused.subarray(headerByteLength), own), SharingError);
  assertEquals(own.bytes.length, 64);
});

test("an unknown reason is decoded as bad-message, with its text", () => {
  for (const reason of [11, 65535]) {
    assertEquals(decode(changed("GOODBYE limit-exceeded", 0, u16(reason))), {
      type: "goodbye",
      reason: "bad-message",
      lowestVersion: 1,
      highestVersion: 1,
      text: "reason 6",
    });
  }
});

test("metadata may be nested as deeply as their length allows", () => {
  const metadata = "[".repeat(16_384) + "]".repeat(16_384);
  const message: Message = {
    type: "frame",
    offer: 1,
    slot: 0,
    sequence: 1,
    byteLength: 0,
    hasEvent: false,
    metadata,
  };
  assertEquals(decode(encodeMessage(message)), message);
});

test("an impossible header is refused before its body arrives", () => {
  const header = (byteLength: number, type: number, descriptors: number) =>
    joined([u32(byteLength), u16(type), u16(descriptors)]);
  for (const type of [0, 9, 15, 28, 31, 36, 39, 65535]) {
    assertRefused(header(4, type, 0), `Cannot accept a message of type ${type}: the protocol has no such type`);
  }
  const lengths: readonly (readonly [type: number, name: string, needed: string, ...wrong: number[]])[] = [
    [1, "HELLO", "16", 15, 17],
    [2, "WELCOME", "16", 15, 17],
    [3, "GOODBYE", "8 to 1032", 7, 1033],
    [4, "WAIT", "4", 3, 5],
    [5, "FIRED", "4", 3, 5],
    [6, "ASK", "9 to 65536", 8],
    [7, "ANSWER", "9 to 65536", 0, 8],
    [8, "MEMORY", "4", 3, 5],
    [16, "POOL", "24", 23, 25],
    [17, "ALLOCATION", "80", 79, 81],
    [18, "EVENT", "88", 87, 89],
    [19, "OFFER", "41 to 33063", 40, 33064],
    [20, "CHANNEL", "36 to 4128 in steps of 4", 32, 4132, 37, 4126],
    [21, "WITHDRAW", "4", 0, 5],
    [22, "RECALL", "4", 3, 5],
    [23, "FORGET", "8", 4, 9],
    [24, "EVENT_FREE", "4", 3, 5],
    [25, "FRAME", "32 to 32800", 31, 32801],
    [26, "END", "4", 3, 5],
    [32, "HELD", "4", 3, 5],
    [33, "RELEASED", "8", 4, 9],
    [34, "WITHDRAWN", "4", 3, 5],
    [35, "JOIN", "4", 3, 5],
    [37, "RELEASE_SLOT", "20", 19, 24],
    [27, "POOL_HANDLE", "8", 7, 9],
    [38, "REQUEST_HANDLE", "8", 7, 9],
  ];
  for (const [type, name, needed, ...wrong] of lengths) {
    for (const length of [...wrong, 65_537, 2 ** 32 - 1]) {
      assertRefused(header(length, type, 0), refusalOf(name, `length is ${length}; it takes ${needed}`));
    }
  }
  for (const { name, bytes, descriptors } of golden) {
    for (const count of [1 - descriptors, 2, 65535]) {
      const refusal = refusalOf(name, `count of descriptors is ${count}; it takes ${descriptors}`);
      assertRefused(joined([bytes.subarray(0, 6), u16(count)]), refusal);
    }
  }
});

test("a body or a descriptor that contradicts the header is refused", () => {
  const [held, pool] = [named("HELD").bytes, named("POOL of a device").bytes];
  const refusal = (bytes: Uint8Array, byteLength: number, given: ShareableHandle | undefined) =>
    assertThrows(
      () =>
        decodeMessage(decodeHeader(bytes, 0), bytes.subarray(headerByteLength, headerByteLength + byteLength), given),
      SharingError,
    )
      .message;
  assertEquals(refusal(held, 3, undefined), "Cannot accept the message HELD: its body is 3 bytes; it takes 4");
  assertEquals(
    refusal(held, 4, handle),
    "Cannot accept the message HELD: its count of descriptors that came is 1; it takes 0",
  );
  assertEquals(
    refusal(pool, 24, undefined),
    "Cannot accept the message POOL: its count of descriptors that came is 0; it takes 1",
  );
});

/** The golden message, the offset in its body, the bytes to write there, and the error. */
type Violation = readonly [name: string, at: number, bytes: Uint8Array, refusal: string];

const identifierRange = "it takes 1 to 4294967295";
const sizeRange = "it takes 1 to 9007199254740991";
const pastSafe = 2n ** 53n;
const violations: readonly Violation[] = [
  [
    "HELLO of the first version",
    0,
    utf8("Poolpass"),
    'greeting is 506f6f6c70617373; it takes 706f6f6c70617373, "poolpass"',
  ],
  ["HELLO of the first version", 8, u16(2), "highest version is 1; it takes 2 to 65535"],
  ["HELLO of the first version", 12, u32(4), "role is 4; it takes 0 to 3"],
  ["HELLO of the first version", 15, Uint8Array.of(128), "role is 2147483648; it takes 0 to 3"],
  ["WELCOME", 7, utf8("S"), 'greeting is 706f6f6c70617353; it takes 706f6f6c70617373, "poolpass"'],
  ["WELCOME", 10, u16(1), "zero field at 10 is 1; it takes 0"],
  ["WELCOME", 12, u32(5), "zero field at 12 is 5; it takes 0"],
  ["GOODBYE limit-exceeded", 2, u16(9), "highest version is 1; it takes 9 to 65535"],
  ["GOODBYE limit-exceeded", 6, u16(1), "zero field at 6 is 1; it takes 0"],
  ["GOODBYE limit-exceeded", 8, Uint8Array.of(0xff), "text is ff6561736f6e2036; it takes UTF-8"],
  ["GOODBYE limit-exceeded", 9, Uint8Array.of(0), 'text is "r\\u0000ason 6"; it takes a string without a NUL'],
  ["ASK", 0, u32(0), `request is 0; ${identifierRange}`],
  ["ANSWER in parts", 0, u32(0), `request is 0; ${identifierRange}`],
  ["MEMORY", 0, u32(0), `request is 0; ${identifierRange}`],
  ["POOL of a device", 0, u32(0), `pool is 0; ${identifierRange}`],
  ["POOL of a device", 4, u32(0), "kind is 0; it takes 1 to 3"],
  ["POOL of a device", 4, u32(4), "kind is 4; it takes 1 to 3"],
  [
    "POOL of the host",
    23,
    Uint8Array.of(1),
    "device is 00000000000000000000000000000001; it takes zeros for host memory",
  ],
  ["ALLOCATION", 0, u32(0), `allocation is 0; ${identifierRange}`],
  ["ALLOCATION", 4, u32(0), `pool is 0; ${identifierRange}`],
  ["ALLOCATION", 8, u64(0n), `size is 0; ${sizeRange}`],
  ["ALLOCATION", 8, u64(pastSafe), `size is ${pastSafe}; ${sizeRange}`],
  ["ALLOCATION", 8, u64(2n ** 64n - 1n), `size is 18446744073709551615; ${sizeRange}`],
  ["EVENT", 0, u32(0), `event is 0; ${identifierRange}`],
  ["EVENT", 4, u32(2), "zero field at 4 is 2; it takes 0"],
  ["OFFER of a buffer", 0, u32(0), `offer is 0; ${identifierRange}`],
  ["OFFER of a buffer", 4, u32(0), "kind is 0; it takes 1 to 3"],
  ["OFFER of a buffer", 4, u32(4), "kind is 4; it takes 1 to 3"],
  ["OFFER of a buffer", 8, u32(0), `allocation is 0; ${identifierRange}`],
  ["OFFER of a channel's ring", 8, u32(0), `allocation is 0; ${identifierRange}`],
  ["OFFER of a whole pool", 8, u32(1), "allocation is 1; it takes 0"],
  ["OFFER of a buffer", 12, u32(0), `pool is 0; ${identifierRange}`],
  ["OFFER of a whole pool", 12, u32(0), `pool is 0; ${identifierRange}`],
  ["OFFER of a whole pool", 16, u64(1n), "offset is 1; it takes 0"],
  ["OFFER of a buffer", 16, u64(pastSafe), `offset is ${pastSafe}; it takes 0 to 9007199254740991`],
  ["OFFER of a buffer", 24, u64(0n), `size is 0; ${sizeRange}`],
  ["OFFER of a buffer", 24, u64(pastSafe), `size is ${pastSafe}; ${sizeRange}`],
  ["OFFER of a whole pool", 24, u64(1n), "size is 1; it takes 0"],
  [
    "OFFER at the end of the largest memory",
    24,
    u64(2n),
    `end, of offset and size, is ${pastSafe}; it takes at most 9007199254740991`,
  ],
  [
    "OFFER at the end of the largest memory",
    24,
    u64(pastSafe - 1n),
    "end, of offset and size, is 18014398509481981; it takes at most 9007199254740991",
  ],
  ["OFFER of a buffer", 36, u16(0), "length of the name is 0; it takes 1 to 255"],
  ["OFFER of a buffer", 36, u16(256), "length of the name is 256; it takes 1 to 255"],
  ["OFFER of a buffer", 36, u16(8), "length is 79; it takes 80 by its other fields"],
  ["OFFER of a buffer", 38, u16(31), "length is 79; it takes 78 by its other fields"],
  ["OFFER of a buffer", 38, u16(32_769), "length of the metadata is 32769; it takes 0 to 32768"],
  ["OFFER of a buffer", 40, Uint8Array.of(0xc0, 0x80), "name is c0806967687473; it takes UTF-8"],
  ["OFFER of a buffer", 40, Uint8Array.of(0xed, 0xa0, 0x80), "name is eda08067687473; it takes UTF-8"],
  ["OFFER of a buffer", 46, Uint8Array.of(0xe2), "name is 776569676874e2; it takes UTF-8"],
  ["OFFER of a buffer", 41, Uint8Array.of(0), 'name is "w\\u0000ights"; it takes a string without a NUL'],
  [
    "OFFER of a buffer",
    48,
    Uint8Array.of(0xff),
    "metadata is 7bff7368617065223a5b3531322c3531325d2c2274797065223a22663332227d; it takes UTF-8",
  ],
  ["OFFER of a buffer", 78, utf8(" "), 'metadata is "{\\"shape\\":[512,512],\\"type\\":\\"f32\\" "; it takes JSON'],
  ["OFFER of a whole pool", 53, utf8("Null"), 'metadata is "Null"; it takes JSON'],
  ["OFFER of a whole pool", 53, utf8("\ufeff1"), 'metadata is "\ufeff1"; it takes JSON'],
  ["OFFER of a whole pool", 53, utf8("1\0  "), 'metadata is "1\\u0000  "; it takes a string without a NUL'],
  ["OFFER of a whole pool", 53, utf8("    "), 'metadata is "    "; it takes JSON'],
  ["CHANNEL", 0, u32(0), `offer is 0; ${identifierRange}`],
  ["CHANNEL", 4, u32(0), "count of slots is 0; it takes 1 to 1024"],
  ["CHANNEL", 4, u32(1025), "count of slots is 1025; it takes 1 to 1024"],
  ["CHANNEL", 4, u32(1024), "length is 48; it takes 4128 by its other fields"],
  ["CHANNEL", 4, u32(3), "length is 48; it takes 44 by its other fields"],
  ["CHANNEL", 8, u64(0n), `size of a slot is 0; ${sizeRange}`],
  ["CHANNEL", 8, u64(pastSafe), `size of a slot is ${pastSafe}; ${sizeRange}`],
  ["CHANNEL", 16, u64(8_294_399n), "distance of slots is 8294399; it takes 8294400 to 9007199254740991"],
  ["CHANNEL", 16, u64(pastSafe), `distance of slots is ${pastSafe}; it takes 8294400 to 9007199254740991`],
  ["CHANNEL", 16, u64(pastSafe / 4n), `size of all slots is ${pastSafe}; it takes at most 9007199254740991`],
  ["CHANNEL", 24, u32(0), "window is 0; it takes 1 to 4"],
  ["CHANNEL", 24, u32(5), "window is 5; it takes 1 to 4"],
  ["CHANNEL", 28, u32(1), "zero field at 28 is 1; it takes 0"],
  ["CHANNEL", 40, u32(0), `ready event of slot 2 is 0; ${identifierRange}`],
  ["WITHDRAW", 0, u32(0), `offer is 0; ${identifierRange}`],
  ["RECALL", 0, u32(0), `offer is 0; ${identifierRange}`],
  ["FORGET of a pool", 0, u32(0), "kind is 0; it takes 1 to 3"],
  ["FORGET of a pool", 0, u32(4), "kind is 4; it takes 1 to 3"],
  ["FORGET of a pool", 4, u32(0), `identifier is 0; ${identifierRange}`],
  ["WAIT", 0, u32(0), `event is 0; ${identifierRange}`],
  ["FIRED", 0, u32(0), `event is 0; ${identifierRange}`],
  ["EVENT_FREE", 0, u32(0), `event is 0; ${identifierRange}`],
  ["FRAME", 0, u32(0), `offer is 0; ${identifierRange}`],
  ["FRAME", 4, u32(1024), "slot is 1024; it takes 0 to 1023"],
  ["FRAME", 8, u64(0n), `sequence number is 0; ${sizeRange}`],
  ["FRAME", 8, u64(pastSafe), `sequence number is ${pastSafe}; ${sizeRange}`],
  ["FRAME", 16, u64(pastSafe), `size is ${pastSafe}; it takes 0 to 9007199254740991`],
  ["FRAME", 24, u32(2), "event flag is 2; it takes 0 to 1"],
  ["FRAME", 28, u32(32_769), "length of the metadata is 32769; it takes 0 to 32768"],
  ["FRAME", 28, u32(19), "length is 52; it takes 51 by its other fields"],
  ["FRAME", 32, utf8("x"), 'metadata is "x\\"timestamp\\":1234.5}"; it takes JSON'],
  ["END", 0, u32(0), `offer is 0; ${identifierRange}`],
  ["HELD", 0, u32(0), `offer is 0; ${identifierRange}`],
  ["RELEASED", 0, u32(0), `offer is 0; ${identifierRange}`],
  ["WITHDRAWN", 0, u32(0), `offer is 0; ${identifierRange}`],
  ["JOIN", 0, u32(0), `offer is 0; ${identifierRange}`],
  ["RELEASE_SLOT", 0, u32(0), `offer is 0; ${identifierRange}`],
  ["POOL_HANDLE", 0, u32(0), `pool is 0; ${identifierRange}`],
  ["POOL_HANDLE", 4, u32(0), `token is 0; ${identifierRange}`],
  ["REQUEST_HANDLE", 0, u32(0), `pool is 0; ${identifierRange}`],
  ["RELEASE_SLOT", 4, u32(1024), "slot is 1024; it takes 0 to 1023"],
  ["RELEASE_SLOT", 8, u64(0n), `sequence number is 0; ${sizeRange}`],
  ["RELEASE_SLOT", 8, u64(pastSafe), `sequence number is ${pastSafe}; ${sizeRange}`],
];

test("a field that violates a rule is refused, and the error has its value", () => {
  for (const [name, at, bytes, refusal] of violations) {
    assertRefused(changed(name, at, bytes), refusalOf(name, refusal));
  }
});

test("a body that is shorter or longer than its fields declare is refused", () => {
  for (const name of ["OFFER of a buffer", "FRAME"]) {
    const { bytes } = named(name);
    const byteLength = bytes.length - headerByteLength;
    for (const wrong of [byteLength - 1, byteLength + 1, byteLength + 1000]) {
      const refusal = `length is ${wrong}; it takes ${byteLength} by its other fields`;
      assertRefused(resized(name, wrong), refusalOf(name, refusal));
    }
  }
});

test("errors quote a peer's strings only in part", () => {
  const { bytes } = named("OFFER with the longest name and metadata");
  const refused = new Uint8Array(bytes);
  refused.fill("x".charCodeAt(0), headerByteLength + 40 + 255);
  assertRefused(refused, `Cannot accept the message OFFER: its metadata is "${"x".repeat(40)}"; it takes JSON`);
  refused.fill(0xff, headerByteLength + 40 + 255);
  assertRefused(refused, `Cannot accept the message OFFER: its metadata is ${"ff".repeat(40)}; it takes UTF-8`);
});

test("a value that does not fit its field is not encoded", () => {
  const channel = named("CHANNEL").message as Extract<Message, { type: "channel" }>;
  const refusals: readonly (readonly [Message, string])[] = [
    [{ type: "held", offer: -1 }, "HELD: its offer is -1; it takes 0 to 4294967295"],
    [{ type: "held", offer: 2 ** 32 }, "HELD: its offer is 4294967296; it takes 0 to 4294967295"],
    [{ type: "held", offer: 1.5 }, "HELD: its offer is 1.5; it takes 0 to 4294967295"],
    [{ type: "welcome", version: 65_536 }, "WELCOME: its version is 65536; it takes 0 to 65535"],
    [
      { type: "release-slot", offer: 1, slot: 0, sequence: 2 ** 53, event: 0 },
      "RELEASE_SLOT: its sequence number is 9007199254740992; it takes 0 to 9007199254740991",
    ],
    [
      { type: "event", event: 1, deviceUuid: new Uint8Array(16), handle: new Uint8Array(65) },
      "EVENT: its event handle is 65 bytes; it takes 64 bytes",
    ],
    [
      { ...channel, readyEvents: Array.from({ length: 1025 }, () => 1) },
      "CHANNEL: its count of slots is 1025; it takes 0 to 1024",
    ],
    [
      { ...channel, readyEvents: [] },
      "CHANNEL: its length is 32; it takes 36 to 4128",
    ],
  ];
  for (const [message, refusal] of refusals) {
    const error = assertThrows(() => encodeMessage(message), RangeError);
    assertEquals(error.message, `Cannot send the message ${refusal}`);
  }
  const offer = named("OFFER of a buffer").message as Extract<Message, { type: "offer" }>;
  const texts: readonly (readonly [Partial<typeof offer>, string])[] = [
    [{ name: "é".repeat(128) }, "name is 256 bytes of UTF-8; it takes at most 255"],
    [{ name: "a\0" }, 'name is "a\\u0000"; it takes a string without a NUL or a lone surrogate'],
    [{ name: "\ud800" }, 'name is "\\ud800"; it takes a string without a NUL or a lone surrogate'],
    [{ metadata: " ".repeat(32_769) }, "metadata is 32769 bytes of UTF-8; it takes at most 32768"],
  ];
  for (const [fields, refusal] of texts) {
    const error = assertThrows(() => encodeMessage({ ...offer, ...fields }), RangeError);
    assertEquals(error.message, `Cannot send the message OFFER: its ${refusal}`);
  }
  assertEquals(encodeMessage(offer).toHex(), named("OFFER of a buffer").bytes.toHex());
});

test("the text of a GOODBYE is shortened to fit", () => {
  const sent = (text: string) => {
    const message = decode(
      encodeMessage({ type: "goodbye", reason: "bad-message", lowestVersion: 1, highestVersion: 1, text }),
    );
    return message.type === "goodbye" ? message.text : undefined;
  };
  assertEquals(sent(`${"x".repeat(1022)}€ and more`), "x".repeat(1022));
  assertEquals(sent("€".repeat(2000)), "€".repeat(341));
  assertEquals(sent("a\0b\ud800"), "a b\ufffd");
});

/** The bytes that a message holds besides its numbers. Each of its arrays must have its own memory. */
function contentByteLength(message: Message): number {
  let sum = 0;
  for (const [field, value] of Object.entries(message) as [string, unknown][]) {
    if (["name", "metadata", "text"].includes(field)) sum += Buffer.byteLength(String(value));
    else if (value instanceof Uint8Array) sum += value.buffer.byteLength;
    else if (Array.isArray(value)) sum += 4 * value.length;
  }
  return sum;
}

/** The field that an error names, without the value. */
function refusedField(refusal: string): string {
  return refusal.replace(/ is .*/s, "").replaceAll(/\d+/g, "");
}

test(`${fuzzStreams} invalid streams are decoded, or refused as bad messages`, () => {
  const messages = golden.map(({ bytes }) => bytes);
  const taken = new Set<string>();
  const refused = new Set<string>();
  for (let seed = 0; seed < fuzzStreams; seed++) {
    const { pieces, applied } = spoiltStream(messages, seed);
    const what = () => `stream ${seed}: ${applied.join(", ")}`;
    const bytes = joined(pieces);
    try {
      for (let position = 0; position + headerByteLength <= bytes.length;) {
        const header = decodeHeader(bytes, position);
        const end = position + headerByteLength + header.bodyByteLength;
        if (end > bytes.length) break;
        const body = bytes.subarray(position + headerByteLength, end);
        const message = decodeMessage(header, body, header.descriptors > 0 ? handle : undefined);
        taken.add(message.type);
        assert(contentByteLength(message) <= body.length, what());
        const isKnown = message.type !== "goodbye" || body[0]! + 256 * body[1]! < goodbyeReasons.length;
        if (isKnown) assert(Buffer.compare(encodeMessage(message), bytes.subarray(position, end)) === 0, what());
        position = end;
      }
    } catch (error) {
      if (!(error instanceof SharingError) || error.code !== "bad-message") throw new Error(what(), { cause: error });
      refused.add(refusedField(error.message));
    }
  }
  assertEquals(taken, new Set(golden.map(({ message }) => message.type)));
  // The streams reach every rule, so each rule is needed.
  const missed = violations.map(([name, , , refusal]) => refusedField(refusalOf(name, refusal)))
    .filter((field) => !refused.has(field));
  assert(missed.length <= (fuzzStreams < streamsForAllRules ? violations.length / 4 : 0), missed.join(", "));
});
