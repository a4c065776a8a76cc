/**
 * What tells one build of a library from another.
 *
 * @module
 */
import { closeDescriptor, openDescriptor, readAt } from "../shim/descriptors.ts";
import { shimRefusal } from "../shim/shim.ts";

/** Larger than the headers of any library, and their notes. */
const maximumHeaderByteLength = 65536;
const programHeader = { byteLength: 56, noteType: 4 } as const;
/** `NT_GNU_BUILD_ID`. */
const buildIdType = 3;

/** The build ID of a 64-bit ELF file, in hexadecimal digits. Undefined if it has none, or cannot be read. */
export function buildIdOf(path: string): string | undefined {
  if (shimRefusal() !== undefined) return undefined;
  const bytes = new Uint8Array(maximumHeaderByteLength);
  try {
    const fd = openDescriptor(path);
    try {
      return buildIdIn(bytes.subarray(0, readAt(fd, bytes)));
    } finally {
      closeDescriptor(fd);
    }
  } catch {
    return undefined;
  }
}

function buildIdIn(bytes: Uint8Array): string | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isElf64 = view.getUint32(0) === 0x7f454c46 && view.getUint8(4) === 2;
  if (!isElf64) return undefined;
  const headers = Number(view.getBigUint64(32, true));
  const count = view.getUint16(56, true);
  for (let at = headers; at < headers + count * programHeader.byteLength; at += programHeader.byteLength) {
    if (view.getUint32(at, true) !== programHeader.noteType) continue;
    const begin = Number(view.getBigUint64(at + 8, true));
    const end = begin + Number(view.getBigUint64(at + 32, true));
    for (let note = begin; note < end;) {
      const [nameLength, length, type] = [0, 4, 8].map((field) => view.getUint32(note + field, true));
      const content = note + 12 + padded(nameLength!);
      if (type === buildIdType) return bytes.slice(content, content + length!).toHex();
      note = content + padded(length!);
    }
  }
  return undefined;
}

function padded(byteLength: number): number {
  return Math.ceil(byteLength / 4) * 4;
}
