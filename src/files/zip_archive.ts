/**
 * Zip archives in the form that NumPy writes: members are stored or deflated, and may exceed 4 GiB (Zip64). Archives
 * may come from untrusted sources, so every field is validated.
 *
 * @see https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
 * @module
 */
import { shown } from "../support/validation.ts";
import { bytesAt, type ByteSource } from "./byte_source.ts";
import { mistakenFor } from "./not_an_array_file.ts";
import { crc32, type FileHandle, writeFully } from "./runtime_files.ts";
import { piecesOfRange } from "./sequential_bytes.ts";
import { RangeError } from "../support/program_errors.ts";

/** A member of an archive, as described by the central directory. */
export interface ZipMember {
  readonly name: string;
  readonly isDeflated: boolean;
  readonly crc: number;
  /** The size of the member's data in the archive, in bytes, after compression. */
  readonly storedByteLength: number;
  readonly byteLength: number;
  /** The offset of the member's local header. */
  readonly headerOffset: number;
  /** The end of the space that the member may occupy: the offset of the next member or of the central directory. */
  readonly limit: number;
}

const endByteLength = 22;
const maximumComment = 0xffff;
/** The maximum size of the central directory in bytes: enough for a million members. */
const maximumDirectory = 64 * 2 ** 20;
const [localSignature, memberSignature, endSignature] = [0x04034b50, 0x02014b50, 0x06054b50];
const [end64Signature, locatorSignature] = [0x06064b50, 0x07064b50];
const unknown32 = 0xffffffff;
const unknown16 = 0xffff;
const zip64Extra = 1;

/**
 * Reads the central directory of an archive.
 *
 * @throws {Error} If the file is not a valid archive, or has unsupported members; the message says why
 */
export async function readZipDirectory(source: ByteSource): Promise<readonly ZipMember[]> {
  const first = await bytesAt(source, 0, Math.min(8, source.byteLength));
  if (first[0] !== 0x50 || first[1] !== 0x4b) {
    refuse(mistakenFor(first, "npz") ?? "it does not begin with the bytes PK");
  }
  const { begin, byteLength, count } = await findDirectory(source);
  const bytes = await bytesAt(source, begin, byteLength);
  const members: Omit<ZipMember, "limit">[] = [];
  const names = new Set<string>();
  let at = 0;
  while (at < byteLength) {
    const { member, end } = memberAt(bytes, at);
    if (names.has(member.name)) refuse(`it has the member ${shown(member.name)} twice`);
    names.add(member.name);
    members.push(member);
    at = end;
  }
  if (members.length !== count) refuse(`its directory has ${members.length} members, and should have ${count}`);
  const sorted = members.toSorted((a, b) => a.headerOffset - b.headerOffset);
  for (const [index, { name, headerOffset, storedByteLength }] of sorted.entries()) {
    const limit = sorted[index + 1]?.headerOffset ?? begin;
    if (headerOffset + storedByteLength > limit) {
      refuse(`its member ${shown(name)} would end after byte ${limit}, where the next part begins`);
    }
  }
  return members.map((member) => ({
    ...member,
    limit: sorted[sorted.findIndex(({ name }) => name === member.name) + 1]?.headerOffset ?? begin,
  }));
}

/** Yields the bytes of a member. Throws unless their number and CRC match the central directory. */
export async function* bytesOfMember(source: ByteSource, member: ZipMember): AsyncGenerator<Uint8Array> {
  const begin = await dataOffsetOf(source, member);
  const pieces = piecesOfRange(source, { begin, end: begin + member.storedByteLength });
  let [length, crc] = [0, 0];
  for await (const bytes of member.isDeflated ? inflated(pieces) : pieces) {
    length += bytes.length;
    if (length > member.byteLength) throw new Error(`it has more than the ${member.byteLength} bytes that it should`);
    crc = crc32(bytes, crc);
    yield bytes;
  }
  if (length < member.byteLength) throw new Error(`it has ${length} bytes, and should have ${member.byteLength}`);
  if (crc !== member.crc) {
    throw new Error(
      `its bytes are damaged: they have the CRC ${hex(crc)}, and should have ${hex(member.crc)}; copy the file again`,
    );
  }
}

function hex(crc: number): string {
  return crc.toString(16).padStart(8, "0");
}

function refuse(reason: string): never {
  throw new Error(`it is not a .npz file that can be read: ${reason}`);
}

/** Locates the central directory, using the record at the end of the archive. */
async function findDirectory(source: ByteSource): Promise<{ begin: number; byteLength: number; count: number }> {
  const tailBegin = Math.max(0, source.byteLength - endByteLength - maximumComment);
  const tail = await bytesAt(source, tailBegin, source.byteLength - tailBegin);
  const view = new DataView(tail.buffer);
  let at = tail.length - endByteLength;
  while (at >= 0 && !(view.getUint32(at, true) === endSignature && isEnd(view, at))) at--;
  if (at < 0) refuse("it has no directory at its end: it is cut, or other bytes follow");
  const disks = [view.getUint16(at + 4, true), view.getUint16(at + 6, true)];
  let count = view.getUint16(at + 10, true);
  let byteLength = view.getUint32(at + 12, true);
  let begin = view.getUint32(at + 16, true);
  let end = tailBegin + at;
  const locator = end - 20;
  const bytes = locator < 0 ? undefined : new DataView((await bytesAt(source, locator, 20)).buffer);
  if (bytes?.getUint32(0, true) === locatorSignature) {
    const record = numberAt(bytes, 8);
    if (record + 56 > locator) refuse(`the record of its directory would be at byte ${record}`);
    const found = new DataView((await bytesAt(source, record, 56)).buffer);
    if (found.getUint32(0, true) !== end64Signature) refuse(`there is no record of its directory at byte ${record}`);
    count = numberAt(found, 32);
    byteLength = numberAt(found, 40);
    begin = numberAt(found, 48);
    end = record;
  }
  if (disks.some((disk) => disk !== 0 && disk !== unknown16)) refuse("it is divided into several files");
  if (byteLength > maximumDirectory) {
    refuse(`its directory would have ${byteLength} bytes, and may have ${maximumDirectory}`);
  }
  if (begin + byteLength !== end) {
    refuse(
      `its directory of ${byteLength} bytes at byte ${begin} does not end where its last record begins, at ${end}`,
    );
  }
  return { begin, byteLength, count };
}

function isEnd(view: DataView, at: number): boolean {
  return at + endByteLength + view.getUint16(at + 20, true) === view.byteLength;
}

function numberAt(view: DataView, at: number): number {
  const value = view.getBigUint64(at, true);
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) refuse(`it states the size or place ${value}`);
  return Number(value);
}

function memberAt(bytes: Uint8Array, at: number): { member: Omit<ZipMember, "limit">; end: number } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (at + 46 > bytes.length || view.getUint32(at, true) !== memberSignature) {
    return refuse(`its directory has no member where one should be, at byte ${at}`);
  }
  const [flags, method] = [view.getUint16(at + 8, true), view.getUint16(at + 10, true)];
  const [nameLength, extraLength, commentLength] = [28, 30, 32].map((field) => view.getUint16(at + field, true)) as [
    number,
    number,
    number,
  ];
  const end = at + 46 + nameLength + extraLength + commentLength;
  if (end > bytes.length) return refuse("its directory ends in a member");
  const name = decodeName(bytes.subarray(at + 46, at + 46 + nameLength));
  const what = `its member ${shown(name)}`;
  if ((flags & 0x2041) !== 0) refuse(`${what} is encrypted`);
  if (method !== 0 && method !== 8) refuse(`${what} is compressed by method ${method}; there are 0 and 8 (deflate)`);
  const values = { byteLength: 0, storedByteLength: 0, headerOffset: 0 };
  const fields = [["byteLength", 24], ["storedByteLength", 20], ["headerOffset", 42]] as const;
  const missing = fields.filter(([key, field]) => {
    values[key] = view.getUint32(at + field, true);
    return values[key] === unknown32;
  });
  const extra = new DataView(bytes.buffer, bytes.byteOffset + at + 46 + nameLength, extraLength);
  for (let index = 0; missing.length > 0 && index + 4 <= extraLength;) {
    const [id, length] = [extra.getUint16(index, true), extra.getUint16(index + 2, true)];
    index += 4;
    if (index + length > extraLength) break;
    if (id === zip64Extra) {
      if (length < 8 * missing.length) break;
      for (const [position, [key]] of missing.splice(0).entries()) values[key] = numberAt(extra, index + 8 * position);
    }
    index += length;
  }
  if (missing.length > 0) refuse(`${what} has more than 4 GiB, and no field that says how many bytes`);
  const isDeflated = method === 8;
  if (!isDeflated && values.byteLength !== values.storedByteLength) {
    refuse(`${what} is stored in ${values.storedByteLength} bytes, and should have ${values.byteLength}`);
  }
  return { member: { name, isDeflated, crc: view.getUint32(at + 16, true), ...values }, end };
}

function decodeName(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    // Names in old archives are not UTF-8, but in the system's code page.
    return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  }
}

/** Returns the offset of a member's data. Throws unless the local header matches the central directory. */
async function dataOffsetOf(
  source: ByteSource,
  { name, isDeflated, headerOffset, storedByteLength, limit }: ZipMember,
): Promise<number> {
  if (headerOffset + 30 > limit) throw new Error(`it has no header at byte ${headerOffset}`);
  const view = new DataView((await bytesAt(source, headerOffset, 30)).buffer);
  const [nameLength, extraLength] = [view.getUint16(26, true), view.getUint16(28, true)];
  if (view.getUint32(0, true) !== localSignature || view.getUint16(8, true) !== (isDeflated ? 8 : 0)) {
    throw new Error(`its header at byte ${headerOffset} is not the one that the directory describes`);
  }
  const begin = headerOffset + 30 + nameLength + extraLength;
  if (begin + storedByteLength > limit) throw new Error(`it would end after byte ${limit}, where the next part begins`);
  const own = decodeName(await bytesAt(source, headerOffset + 30, nameLength));
  if (own !== name) throw new Error(`its header has the name ${shown(own)}`);
  return begin;
}

async function* inflated(pieces: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
  const compressed = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull: async (controller) => {
      const { done, value } = await pieces.next();
      if (done === true) controller.close();
      else controller.enqueue(value as Uint8Array<ArrayBuffer>);
    },
  });
  const reader = compressed.pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  try {
    for (;;) {
      let result: ReadableStreamReadResult<Uint8Array>;
      try {
        result = await reader.read();
      } catch (error) {
        if (error instanceof Error && error.message.startsWith("Cannot read ")) throw error;
        throw new Error(`its bytes are not what deflate writes (${(error as Error).message || "they end early"})`);
      }
      if (result.done) return;
      yield result.value;
    }
  } finally {
    // Has no effect if the stream has ended.
    await reader.cancel().catch(() => {});
  }
}

/** Writes an archive one member at a time. */
export class ZipWriter {
  readonly #file: FileHandle;
  readonly #directory: Uint8Array[] = [];
  #offset = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** Writes a member, whose bytes `pieces` yields. */
  async write(
    name: string,
    pieces: AsyncGenerator<Uint8Array<ArrayBuffer>>,
    { isDeflated }: { isDeflated: boolean },
  ): Promise<void> {
    const encoded = new TextEncoder().encode(name);
    if (encoded.length > 1000) throw new RangeError(`Cannot write ${shown(name)}: its name is too long`);
    const headerOffset = this.#offset;
    this.#offset += 30 + encoded.length + 20;
    let [crc, byteLength] = [0, 0];
    const counted = async function* (): AsyncGenerator<Uint8Array<ArrayBuffer>> {
      for await (const bytes of pieces) {
        crc = crc32(bytes, crc);
        byteLength += bytes.length;
        yield bytes;
      }
    };
    const begin = this.#offset;
    for await (const bytes of isDeflated ? deflated(counted()) : counted()) {
      await writeFully(this.#file, bytes, this.#offset);
      this.#offset += bytes.length;
    }
    const storedByteLength = this.#offset - begin;
    const common = { encoded, isDeflated, crc };
    const sizes = [byteLength, storedByteLength];
    await writeFully(this.#file, memberHeader({ ...common, sizes, isLocal: true }), headerOffset);
    this.#directory.push(memberHeader({ ...common, sizes: [...sizes, headerOffset], isLocal: false }));
  }

  /** Writes the central directory. */
  async finish(): Promise<void> {
    const begin = this.#offset;
    for (const bytes of this.#directory) {
      await writeFully(this.#file, bytes, this.#offset);
      this.#offset += bytes.length;
    }
    await writeFully(this.#file, endRecord(this.#directory.length, begin, this.#offset - begin), this.#offset);
  }
}

/** Returns a member's local header or its entry in the central directory. Always uses the 64-bit fields of Zip64. */
function memberHeader({ encoded, isDeflated, crc, sizes, isLocal }: {
  encoded: Uint8Array;
  isDeflated: boolean;
  crc: number;
  /**
   * The uncompressed and the compressed size of the member and, in the central directory, the offset of its local
   * header.
   */
  sizes: readonly number[];
  isLocal: boolean;
}): Uint8Array<ArrayBuffer> {
  const fixed = isLocal ? 30 : 46;
  const extraLength = 4 + 8 * sizes.length;
  const bytes = new Uint8Array(fixed + encoded.length + extraLength);
  const view = new DataView(bytes.buffer);
  const version = 45;
  // From here on, both headers have the same fields. The entry in the central directory has one more field before them:
  // the version that the archive was made by.
  const base = isLocal ? 4 : 6;
  view.setUint32(0, isLocal ? localSignature : memberSignature, true);
  if (!isLocal) view.setUint16(4, (3 << 8) | version, true);
  view.setUint16(base, version, true);
  // Flag: the name is UTF-8.
  view.setUint16(base + 2, 0x800, true);
  view.setUint16(base + 4, isDeflated ? 8 : 0, true);
  // The modification date: January 1, 1980.
  view.setUint16(base + 8, 0x21, true);
  view.setUint32(base + 10, crc, true);
  view.setUint32(base + 14, unknown32, true);
  view.setUint32(base + 18, unknown32, true);
  view.setUint16(base + 22, encoded.length, true);
  view.setUint16(base + 24, extraLength, true);
  if (!isLocal) {
    // The Unix file mode: a regular file that everyone can read.
    view.setUint32(38, 0o100644 << 16, true);
    view.setUint32(42, unknown32, true);
  }
  bytes.set(encoded, fixed);
  const extra = fixed + encoded.length;
  view.setUint16(extra, zip64Extra, true);
  view.setUint16(extra + 2, 8 * sizes.length, true);
  sizes.forEach((size, index) => view.setBigUint64(extra + 4 + 8 * index, BigInt(size), true));
  return bytes;
}

/**
 * Returns the records at the end of an archive that locate the central directory. Always includes the Zip64 records.
 */
function endRecord(count: number, begin: number, byteLength: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(56 + 20 + endByteLength);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, end64Signature, true);
  view.setBigUint64(4, 44n, true);
  view.setUint16(12, (3 << 8) | 45, true);
  view.setUint16(14, 45, true);
  view.setBigUint64(24, BigInt(count), true);
  view.setBigUint64(32, BigInt(count), true);
  view.setBigUint64(40, BigInt(byteLength), true);
  view.setBigUint64(48, BigInt(begin), true);
  view.setUint32(56, locatorSignature, true);
  view.setBigUint64(64, BigInt(begin + byteLength), true);
  view.setUint32(72, 1, true);
  view.setUint32(76, endSignature, true);
  view.setUint16(84, Math.min(count, unknown16), true);
  view.setUint16(86, Math.min(count, unknown16), true);
  view.setUint32(88, Math.min(byteLength, unknown32), true);
  view.setUint32(92, Math.min(begin, unknown32), true);
  return bytes;
}

async function* deflated(pieces: AsyncGenerator<Uint8Array<ArrayBuffer>>): AsyncGenerator<Uint8Array> {
  const plain = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull: async (controller) => {
      const { done, value } = await pieces.next();
      if (done === true) controller.close();
      else controller.enqueue(value);
    },
  });
  const reader = plain.pipeThrough(new CompressionStream("deflate-raw")).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
