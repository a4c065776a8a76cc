/**
 * SHA-256. The runtimes provide it only asynchronously, or in modules that take longer to load than a small source
 * takes to compile.
 *
 * @module
 */

/** The round constants: the fractional parts of the cube roots of the first 64 primes. Computed on first use. */
let roundConstants: Int32Array | undefined;

const blockByteLength = 64;

/** Returns the 32-byte SHA-256 digest of `bytes`. */
export function sha256(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  // The initial hash value: the fractional parts of the square roots of the first 8 primes.
  const state = Int32Array.from(primes(8), (prime) => fraction(Math.sqrt(prime)));
  const schedule = new Int32Array(64);
  const wholeByteLength = bytes.length - bytes.length % blockByteLength;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < wholeByteLength; at += blockByteLength) addBlock(state, schedule, view, at);

  // The last block or two: the remaining bytes, a 1 bit, zeros, and the message's length in bits in the last eight
  // bytes.
  const rest = bytes.length - wholeByteLength;
  const last = new DataView(new ArrayBuffer(rest + 9 > blockByteLength ? 2 * blockByteLength : blockByteLength));
  new Uint8Array(last.buffer).set(bytes.subarray(wholeByteLength));
  last.setUint8(rest, 0x80);
  last.setBigUint64(last.byteLength - 8, BigInt(bytes.length) * 8n);
  for (let at = 0; at < last.byteLength; at += blockByteLength) addBlock(state, schedule, last, at);

  const digest = new DataView(new ArrayBuffer(4 * state.length));
  for (let i = 0; i < state.length; i++) digest.setInt32(4 * i, state[i]!);
  return new Uint8Array(digest.buffer);
}

function addBlock(state: Int32Array, schedule: Int32Array, view: DataView, at: number): void {
  const constants = roundConstants ??= Int32Array.from(primes(64), (prime) => fraction(Math.cbrt(prime)));
  for (let i = 0; i < 16; i++) schedule[i] = view.getInt32(at + 4 * i);
  for (let i = 16; i < 64; i++) {
    const before = schedule[i - 15]!, recent = schedule[i - 2]!;
    const s0 = rotate(before, 7) ^ rotate(before, 18) ^ (before >>> 3);
    const s1 = rotate(recent, 17) ^ rotate(recent, 19) ^ (recent >>> 10);
    schedule[i] = (schedule[i - 16]! + s0 + schedule[i - 7]! + s1) | 0;
  }
  let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
  for (let i = 0; i < 64; i++) {
    const choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25), s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const first = (h + s1 + choice + constants[i]! + schedule[i]!) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + s0 + majority) | 0;
  }
  for (const [i, word] of [a, b, c, d, e, f, g, h].entries()) state[i]! += word;
}

function rotate(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}

function primes(count: number): number[] {
  const found: number[] = [];
  for (let candidate = 2; found.length < count; candidate++) {
    if (found.every((prime) => candidate % prime !== 0)) found.push(candidate);
  }
  return found;
}

/** Returns the first 32 bits of a number's fractional part. */
function fraction(number: number): number {
  return Math.floor((number - Math.floor(number)) * 2 ** 32) | 0;
}

/** The number of hexadecimal digits of a digest, and the minimum number of its first digits that identify one. */
export const digestDigits = 64, minimumDigits = 8;

/** Returns whether a string consists of at least `minimum` of the first digits of a digest. */
export function isDigest(digits: string, minimum: number = digestDigits): boolean {
  return /^[0-9a-f]*$/.test(digits) && digits.length >= minimum && digits.length <= digestDigits;
}
