/**
 * What tells one build of a library from another.
 *
 * @module
 */
import { foreignBuffer } from "../native/host.ts";

const headerByteLength = 64;
const programHeader = { byteLength: 56, loadType: 1, noteType: 4 } as const;
/** `NT_GNU_BUILD_ID`. */
const buildIdType = 3;

/**
 * The build ID of a 64-bit ELF library, in hexadecimal digits. Undefined if it has none.
 *
 * @param base where the library has been loaded: its headers and notes are read there, because the file may be out of
 * reach
 */
export function buildIdOf(base: bigint): string | undefined {
  const header = new DataView(foreignBuffer(base, headerByteLength));
  const isElf64 = header.getUint32(0) === 0x7f454c46 && header.getUint8(4) === 2;
  if (!isElf64) return undefined;
  const [at, count] = [header.getBigUint64(32, true), header.getUint16(56, true)];
  const headers = new DataView(foreignBuffer(base + at, count * programHeader.byteLength));
  const segments = Array.from({ length: count }, (_, index) => {
    const begin = index * programHeader.byteLength;
    return {
      type: headers.getUint32(begin, true),
      address: headers.getBigUint64(begin + 16, true),
      byteLength: Number(headers.getBigUint64(begin + 40, true)),
    };
  });
  // The segments that are loaded are in the order of their addresses.
  const first = segments.find(({ type }) => type === programHeader.loadType)?.address ?? 0n;
  const notes = segments.filter(({ type }) => type === programHeader.noteType);
  for (const { address, byteLength } of notes) {
    const found = buildIdIn(new Uint8Array(foreignBuffer(base - pageOf(first) + address, byteLength)));
    if (found !== undefined) return found;
  }
  return undefined;
}

function buildIdIn(notes: Uint8Array): string | undefined {
  const view = new DataView(notes.buffer, notes.byteOffset, notes.byteLength);
  for (let note = 0; note + 12 <= notes.length;) {
    const [nameLength, length, type] = [0, 4, 8].map((field) => view.getUint32(note + field, true));
    const content = note + 12 + padded(nameLength!);
    if (type === buildIdType) return notes.slice(content, content + length!).toHex();
    note = content + padded(length!);
  }
  return undefined;
}

function pageOf(address: bigint): bigint {
  return address & ~0xfffn;
}

function padded(byteLength: number): number {
  return Math.ceil(byteLength / 4) * 4;
}
