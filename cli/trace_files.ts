import { open, stat } from "node:fs/promises";
import { NotATraceError, readTrace, type Trace } from "../src/trace/read_trace.ts";
import { headerPlaces, mostTraceBytes } from "../src/trace/trace_format.ts";
import { readFully } from "../src/files/runtime_files.ts";
import { readingError } from "./command_line.ts";
import { shown } from "../src/support/validation.ts";

/** The number of bytes that are read at a time. */
const partByteLength: number = 2 ** 20;

/**
 * Reads a trace file, which another process may be writing. The empty part of a ring is not read: a process that has
 * ended soon leaves a file that is mostly empty.
 *
 * @param options `most`: the maximum number of events to read, the newest ones
 * @throws {NotATraceError} If the file is not a trace
 * @throws {Error} If the file cannot be read
 */
export async function readTraceFile(path: string, options: { readonly most?: number } = {}): Promise<Trace> {
  // Opening a pipe would wait for its other end, and other files have no end.
  const status = await stat(path).catch((error) => {
    throw readingError(path, error);
  });
  if (status.isDirectory()) throw readingError(path, { code: "EISDIR", message: "" });
  if (!status.isFile()) {
    throw new NotATraceError(`Cannot read ${shown(path)} as a trace: it is not a regular file`);
  }
  const file = await open(path, "r").catch((error) => {
    throw readingError(path, error);
  });
  try {
    const { size } = await file.stat();
    const bytes = new Uint8Array(Math.min(size, mostTraceBytes));
    let end = 0;
    while (end < bytes.length) {
      const part = bytes.subarray(end, end + partByteLength);
      const read = await readFully(file, part, end);
      // Before the rest is read, which may be large.
      if (end === 0) readTrace(path, bytes.subarray(0, read), { byteLength: size, most: 0 });
      const isInRing = end >= new DataView(bytes.buffer).getUint32(headerPlaces.ringOffset, true);
      end += read;
      if (read < part.length || isInRing && isEmpty(part)) break;
    }
    const used = end < bytes.length / 2 ? bytes.slice(0, end) : bytes.subarray(0, end);
    return readTrace(path, used, { ...options, byteLength: size });
  } finally {
    await file.close();
  }
}

function isEmpty(bytes: Uint8Array<ArrayBuffer>): boolean {
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, Math.floor(bytes.length / 4));
  return words.every((word) => word === 0);
}
