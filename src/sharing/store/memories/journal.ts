/**
 * A table that outlives its process: a memory file to which each change is appended, and whose descriptor is backed up
 * by other processes.
 *
 * A process may be killed in the middle of a write. Each record has its length and a checksum: an incomplete record is
 * detected and ignored, and the records before it are valid.
 *
 * @module
 */
import { closeDescriptor, describeDescriptor, readAt, writeAt } from "../../../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../../../ffi/native/shim/memory_files.ts";
import { SharingError } from "../../../support/errors.ts";
import type { JsonObject } from "../../protocol/documents.ts";

/** The header of a record: its length and its checksum. */
const headerByteLength = 8;
/** The maximum size of a journal in bytes. A larger file was not written by a store. */
const maximumByteLength = 2 ** 30;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A journal in a memory file. */
export class Journal implements Disposable {
  readonly fd: number;
  #byteLength = 0;
  #isDisposed = false;

  /** Creates a journal with some records, each a JSON object. */
  constructor(records: Iterable<string>) {
    this.fd = createMemoryFile("poolpass-store", 0);
    try {
      for (const record of records) this.append(record);
    } catch (error) {
      closeDescriptor(this.fd);
      throw error;
    }
  }

  /** Its length in bytes. */
  get byteLength(): number {
    return this.#byteLength;
  }

  /** Appends a record. When this returns, it survives the end of the process. */
  append(record: string): void {
    const body = encoder.encode(record);
    const bytes = new Uint8Array(headerByteLength + body.length);
    const view = new DataView(bytes.buffer);
    view.setUint32(0, body.length, true);
    view.setUint32(4, sumOf(body), true);
    bytes.set(body, headerByteLength);
    writeAt(this.fd, bytes, { offset: this.#byteLength });
    this.#byteLength += bytes.length;
  }

  /** Closes the descriptor. The file stays as long as another process has its descriptor. */
  [Symbol.dispose](): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    closeDescriptor(this.fd);
  }
}

/**
 * Reads the records of a journal, up to the first incomplete one.
 *
 * @throws {SharingError} `bad-message` if the file is not a journal, or a record is not a JSON object
 */
export function readJournal(fd: number): JsonObject[] {
  const { type, byteLength, seals } = describeDescriptor(fd);
  if (type !== "file" || seals === undefined || byteLength > maximumByteLength) {
    throw new SharingError("bad-message", `Cannot read the table of a store: descriptor ${fd} is not one`);
  }
  const bytes = new Uint8Array(byteLength);
  const length = readAt(fd, bytes);
  const view = new DataView(bytes.buffer, 0, length);
  const records: JsonObject[] = [];
  for (let position = 0; position + headerByteLength <= length;) {
    const end = position + headerByteLength + view.getUint32(position, true);
    if (end > length) break;
    const body = bytes.subarray(position + headerByteLength, end);
    if (body.length === 0 || sumOf(body) !== view.getUint32(position + 4, true)) break;
    records.push(parse(body));
    position = end;
  }
  return records;
}

function parse(body: Uint8Array): JsonObject {
  let record: unknown;
  try {
    record = JSON.parse(decoder.decode(body));
  } catch (cause) {
    throw new SharingError("bad-message", "Cannot read the table of a store: a record is not JSON", { cause });
  }
  if (typeof record === "object" && record !== null && !Array.isArray(record)) return record as JsonObject;
  throw new SharingError("bad-message", "Cannot read the table of a store: a record is not an object");
}

/** The checksum FNV-1a of 32 bits. */
function sumOf(bytes: Uint8Array): number {
  let sum = 0x811c9dc5;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x01000193);
  return sum >>> 0;
}
