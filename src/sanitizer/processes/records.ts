/**
 * The records that processes publish, as JSON. Decoding validates all fields, because another version of poolpass or
 * another program may have written them.
 *
 * @module
 */
import { escapeControlsInLines } from "../../support/printing.ts";
import { sha256 } from "../../support/sha256.ts";

/**
 * A position in a stream: the slot and generation of the stream's process, the stream's number in that process, and the
 * number of the operation in the stream.
 */
export type SentPoint = readonly [slot: number, generation: number, stream: number, position: number];

/**
 * The name of shared memory: the slot and generation of the process that allocated the memory, and the memory's number
 * in that process. Memory without an owner has generation 0: see `shareNameOf`.
 */
export type ShareName = readonly [slot: number, generation: number, share: number];

/** Returns the name of memory without an owner: a digest of its `identity`, which is the same in all processes. */
export function shareNameOf(identity: string): ShareName {
  const digest = new DataView(sha256(new TextEncoder().encode(identity)).buffer);
  const half = (offset: number) => digest.getUint32(offset) * 2 ** 16 + digest.getUint16(offset + 4);
  return [half(0), 0, half(6)];
}

/** A record of an access to shared memory. */
export interface SentAccess {
  readonly type: "access";
  readonly share: ShareName;
  readonly access: "read" | "write" | "atomic";
  readonly begin: number;
  readonly end: number;
  readonly stream: number;
  readonly position: number;
  /** The operation's `sequence`: its number in the order in which its process enqueued operations. */
  readonly asked: number;
  /** The points in streams of other processes up to which work is ordered before the access. */
  readonly clock: readonly SentPoint[];
  readonly operation: string;
  readonly streamName: string;
  readonly source: string;
  readonly stack: string;
}

/** A record on the board, of any type. "The sender" is the process that has published the record. */
export type SentRecord =
  | SentAccess
  /** The sender has exported memory with a handle. `handle` is in hexadecimal. */
  | { readonly type: "share"; readonly share: number; readonly handle: string; readonly byteLength: number }
  /** The sender has freed exported memory. */
  | { readonly type: "free"; readonly share: number }
  /** The sender's host knows that the work up to the points in `clock` is complete. */
  | { readonly type: "known"; readonly clock: readonly SentPoint[] }
  /**
   * The sender has recorded a shared event. Without `clock`, all work so far is assumed to be ordered before the
   * record.
   */
  | { readonly type: "event"; readonly handle: string; readonly clock?: readonly SentPoint[] }
  /** The sender is connected to the processes `pids`. Without `pids`, it may be connected to any process. */
  | { readonly type: "connected"; readonly pids?: readonly number[] }
  /** The process `pid`, which the sender is connected to, publishes its work. */
  | { readonly type: "publishes"; readonly pid: number }
  /** The process `pid`, which the sender was connected to, has exited without ever publishing its work. */
  | { readonly type: "ended"; readonly pid: number }
  /**
   * The sender has enqueued a collective with ranks of other processes (`isPending`), or knows all such collectives to
   * be complete. All work in between is assumed to be ordered: the collective makes the sender's later work wait for
   * earlier work of the other processes.
   */
  | { readonly type: "collective"; readonly isPending: boolean }
  /** A stream of the sender was destroyed, and all of its work is complete. */
  | { readonly type: "retired"; readonly stream: number };

/** The maximum number of points in a record's clock. */
export const maximumPoints = 300;
/** The maximum length of names and source lines, in UTF-16 code units. */
const maximumText = 100;
/** The maximum length of call stacks, in UTF-16 code units. */
const maximumStack = 1000;
const accesses = ["read", "write", "atomic"];
const handlePattern = /^[0-9a-f]{2,256}$/;

/** Encodes a record. Truncates long names, source lines and call stacks. */
export function encodeRecord(record: SentRecord): string {
  if (record.type !== "access") return JSON.stringify(record);
  const { operation, streamName, source, stack } = record;
  const lines = stack.split("\n");
  while (lines.join("\n").length > maximumStack) lines.pop();
  return JSON.stringify({
    ...record,
    operation: operation.slice(0, maximumText),
    streamName: streamName.slice(0, maximumText),
    source: source.slice(0, maximumText),
    stack: lines.join("\n"),
  });
}

/** Decodes a record. Returns undefined if it is malformed. */
export function decodeRecord(text: string): SentRecord | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  return isRecord(value as Record<string, unknown>) ? value as SentRecord : undefined;
}

function isRecord(value: Record<string, unknown>): boolean {
  switch (value.type) {
    case "share":
      return isCount(value.share) && isHandle(value.handle) && isCount(value.byteLength);
    case "free":
      return isCount(value.share);
    case "known":
      return isClock(value.clock);
    case "event":
      return isHandle(value.handle) && (value.clock === undefined || isClock(value.clock));
    case "connected":
      return value.pids === undefined || Array.isArray(value.pids) && value.pids.every(isCount);
    case "publishes":
    case "ended":
      return isCount(value.pid);
    case "collective":
      return typeof value.isPending === "boolean";
    case "retired":
      return isCount(value.stream);
    case "access":
      return isCounts(value.share, 3) && accesses.includes(value.access as string) &&
        isCount(value.begin) && isCount(value.end) && value.begin < value.end &&
        isCount(value.stream) && isCount(value.position) && isCount(value.asked) && isClock(value.clock) &&
        isLine(value.operation) && isLine(value.streamName) && isLine(value.source) && isText(value.stack);
    default:
      return false;
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isCounts(value: unknown, length: number): boolean {
  return Array.isArray(value) && value.length === length && value.every(isCount);
}

function isClock(value: unknown): boolean {
  return Array.isArray(value) && value.length <= maximumPoints && value.every((point) => isCounts(point, 4));
}

function isHandle(value: unknown): boolean {
  return typeof value === "string" && handlePattern.test(value);
}

function isLine(value: unknown): boolean {
  return isText(value) && !(value as string).includes("\n");
}

/** Returns whether a value is a string that is short and has no control characters, so that it is safe to print. */
function isText(value: unknown): boolean {
  return typeof value === "string" && value.length <= maximumStack && escapeControlsInLines(value) === value;
}
