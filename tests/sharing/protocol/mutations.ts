/**
 * Invalid input from a peer: streams of messages with mutations, and streams of random bytes. Some of the results are
 * still valid.
 *
 * @module
 */
import { type Random, randomFor } from "../../support/ptx_mutations.ts";

/** Bytes to send in succession. The same seed and messages give the same stream. */
export interface SpoiltStream {
  /** The messages of the stream, mutated or not. A descriptor is to be sent with each message that declares one. */
  readonly pieces: readonly Uint8Array<ArrayBuffer>[];
  /** The mutations that were applied, for the message of a failed test. */
  readonly applied: readonly string[];
}

/** Whether the stream of a seed is instead a valid session that ends with GOODBYE. */
export function isLegal(seed: number): boolean {
  return seed % 64 === 0;
}

/** Returns a stream of up to four of the messages with one to three mutations, or occasionally random bytes. */
export function spoiltStream(messages: readonly Uint8Array[], seed: number): SpoiltStream {
  const random = randomFor(`stream ${seed}`);
  if (random.below(16) === 0) return { pieces: [randomBytes(random, random.below(200))], applied: ["random bytes"] };
  const pieces = Array.from({ length: 1 + random.below(4) }, () => new Uint8Array(random.pick(messages)));
  const applied: string[] = [];
  for (let count = 1 + random.below(3); count > 0; count--) {
    const name = random.pick(mutationNames);
    mutations[name]!(pieces, { random, messages });
    applied.push(name);
  }
  return { pieces, applied };
}

/** Concatenates the pieces. */
export function joined(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let position = 0;
  for (const piece of pieces) {
    bytes.set(piece, position);
    position += piece.length;
  }
  return bytes;
}

/** Changes the pieces in place. `messages` has the messages to take others from. */
type Mutation = (
  pieces: Uint8Array<ArrayBuffer>[],
  options: { readonly random: Random; readonly messages: readonly Uint8Array[] },
) => void;

const headerByteLength = 8;
/** Values at the limits of fields, of each width. */
const numbers = [
  0n,
  1n,
  2n,
  3n,
  4n,
  7n,
  255n,
  256n,
  1023n,
  1024n,
  1025n,
  32_768n,
  32_769n,
  65_535n,
  65_536n,
  65_537n,
  2n ** 31n,
  2n ** 32n - 1n,
  2n ** 32n,
  2n ** 53n - 1n,
  2n ** 53n,
  2n ** 63n,
  2n ** 64n - 1n,
];
/** Strings that are not valid UTF-8 or not valid JSON. */
const texts = [
  "\0",
  "{",
  "[[[[[[[[",
  '"\\ud800"',
  "1e999",
  "\ufeff{}",
  '{"__proto__":{}}',
].map((text) => new TextEncoder().encode(text)).concat([
  Uint8Array.of(0xff),
  Uint8Array.of(0xc0, 0x80),
  Uint8Array.of(0xed, 0xa0, 0x80),
  Uint8Array.of(0xf4, 0x90, 0x80, 0x80),
  Uint8Array.of(0xe2, 0x82),
]);

/** By name, for the message of a failed test. */
const mutations: Readonly<Record<string, Mutation>> = {
  "a bit": (pieces, { random }) => {
    changePlace(pieces, random, (piece, at) => piece[at]! ^= 1 << random.below(8));
  },
  "a byte": (pieces, { random }) => {
    changePlace(pieces, random, (piece, at) => piece[at] = random.below(256));
  },
  "another number": (pieces, { random }) => {
    changePlace(pieces, random, (piece, at) => setNumber(piece, random, at & ~1));
  },
  "another number in the fields of a body": (pieces, { random }) => {
    const piece = random.pick(pieces);
    setNumber(piece, random, headerByteLength + 2 * random.below(20));
  },
  "a field of a body that is zero": (pieces, { random }) => {
    const piece = random.pick(pieces);
    const at = headerByteLength + 4 * random.below(10);
    piece.fill(0, at, at + random.pick([2, 4, 8]));
  },
  "another length": (pieces, { random }) => {
    const piece = random.pick(pieces);
    if (random.below(2) === 0) setNumber(piece, random, 0);
    else if (piece.length > 0) piece[0] = piece[0]! + random.below(9) - 4;
  },
  "another type": (pieces, { random, messages }) => {
    const piece = random.pick(pieces);
    piece.set(random.pick(messages).subarray(4, Math.min(6, piece.length)), Math.min(4, piece.length));
  },
  "another type and the length that goes with it": (pieces, { random, messages }) => {
    replaceOne(pieces, random, (piece) => {
      const header = random.pick(messages).subarray(0, headerByteLength);
      const bodyByteLength = new DataView(header.buffer, header.byteOffset).getUint32(0, true);
      const body = randomBytes(random, bodyByteLength);
      body.set(piece.subarray(headerByteLength, headerByteLength + bodyByteLength));
      return joined([header, body]);
    });
  },
  "another count of descriptors": (pieces, { random }) => {
    const piece = random.pick(pieces);
    if (piece.length > 6) piece[6] = random.below(4);
  },
  "a text": (pieces, { random }) => {
    changePlace(pieces, random, (piece, at) => piece.set(random.pick(texts).subarray(0, piece.length - at), at));
  },
  "random bytes from some place on": (pieces, { random }) => {
    changePlace(pieces, random, (piece, at) => piece.set(randomBytes(random, piece.length - at), at));
  },
  "bytes put in": (pieces, { random }) => {
    replaceOne(pieces, random, (piece) => withBytesPutIn(piece, random));
  },
  "bytes put in, and the length that goes with them": (pieces, { random }) => {
    replaceOne(pieces, random, (piece) => withItsLength(withBytesPutIn(piece, random)));
  },
  "bytes left out": (pieces, { random }) => {
    replaceOne(pieces, random, (piece) => withBytesLeftOut(piece, random));
  },
  "bytes left out, and the length that goes with the rest": (pieces, { random }) => {
    replaceOne(pieces, random, (piece) => withItsLength(withBytesLeftOut(piece, random)));
  },
  "the end of another message": (pieces, { random, messages }) => {
    replaceOne(pieces, random, (piece) => {
      const other = random.pick(messages);
      return withItsLength(
        joined([piece.subarray(0, random.below(piece.length + 1)), other.subarray(random.below(other.length))]),
      );
    });
  },
  "cut off": (pieces, { random }) => {
    const last = pieces.pop()!;
    pieces.push(last.slice(0, random.below(last.length + 1)));
  },
  "a message twice": (pieces, { random }) => {
    pieces.push(new Uint8Array(random.pick(pieces)));
  },
  "a message more": (pieces, { random, messages }) => {
    pieces.splice(random.below(pieces.length + 1), 0, new Uint8Array(random.pick(messages)));
  },
  "a message elsewhere": (pieces, { random }) => {
    const [piece] = pieces.splice(random.below(pieces.length), 1);
    pieces.splice(random.below(pieces.length + 1), 0, piece!);
  },
};
const mutationNames = Object.keys(mutations);

function changePlace(
  pieces: readonly Uint8Array<ArrayBuffer>[],
  random: Random,
  change: (piece: Uint8Array<ArrayBuffer>, at: number) => void,
): void {
  const piece = random.pick(pieces);
  // The first bytes are fields; the rest is mostly text.
  const limit = random.below(2) === 0 ? piece.length : Math.min(piece.length, 64);
  if (limit > 0) change(piece, random.below(limit));
}

function replaceOne(
  pieces: Uint8Array<ArrayBuffer>[],
  random: Random,
  by: (piece: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>,
): void {
  const at = random.below(pieces.length);
  pieces[at] = by(pieces[at]!);
}

/** Writes a number in the width of some field, if it fits. */
function setNumber(piece: Uint8Array, random: Random, at: number): void {
  const bytes = new Uint8Array(BigUint64Array.of(random.pick(numbers)).buffer, 0, random.pick([2, 4, 8]));
  if (at + bytes.length <= piece.length) piece.set(bytes, at);
}

function withBytesPutIn(piece: Uint8Array, random: Random): Uint8Array<ArrayBuffer> {
  const at = random.below(piece.length + 1);
  return joined([piece.subarray(0, at), randomBytes(random, 1 + random.below(12)), piece.subarray(at)]);
}

function withBytesLeftOut(piece: Uint8Array, random: Random): Uint8Array<ArrayBuffer> {
  const at = random.below(piece.length + 1);
  return joined([piece.subarray(0, at), piece.subarray(at + 1 + random.below(12))]);
}

function withItsLength(piece: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  if (piece.length >= headerByteLength) {
    new DataView(piece.buffer).setUint32(0, piece.length - headerByteLength, true);
  }
  return piece;
}

function randomBytes(random: Random, byteLength: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(byteLength);
  for (let at = 0; at < byteLength; at++) bytes[at] = random.below(256);
  return bytes;
}
