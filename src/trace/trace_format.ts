/**
 * The format of a trace file, which one thread of a process writes, and which is readable at any time: also while it is
 * written, and after the process was killed.
 *
 * All numbers are little-endian. The file has a header, a table of names, and a ring of records:
 *
 * | offset | type    | field                                                                    |
 * | ------ | ------- | ------------------------------------------------------------------------ |
 * | 0      | 8 bytes | `pooltrac` in ASCII                                                      |
 * | 8      | u32     | version, 1                                                               |
 * | 12     | u32     | number of names that the table had no room for                           |
 * | 16     | u32     | offset of the table of names                                             |
 * | 20     | u32     | size of the table of names in bytes                                      |
 * | 24     | u32     | offset of the ring                                                       |
 * | 28     | u32     | number of records in the ring                                            |
 *
 * A **record** has 64 bytes. The number of a record counts from 1, and says its place: that of record n is
 * (n - 1) modulo the number of records. A record whose number does not fit its place is being written, or was when the
 * process was killed, and does not count.
 *
 * | offset | type        | field                                                                          |
 * | ------ | ----------- | ------------------------------------------------------------------------------ |
 * | 0      | u32         | the low half of the record's number; 0 while the record is written             |
 * | 4      | u32         | the high half of the record's number                                           |
 * | 8      | u16         | kind of event                                                                  |
 * | 10     | u8          | device, or 255                                                                 |
 * | 11     | u8          | 1 if the call has thrown an error                                              |
 * | 12     | u32         | the name that says where the program has called, or 0                          |
 * | 16     | f64         | the time at which the event began: nanoseconds of `CLOCK_MONOTONIC`            |
 * | 24     | f64         | its duration in nanoseconds; -1 if it has not ended                            |
 * | 32     | 4 times 8 bytes | values, whose meaning the kind of event defines: f64, or u64 for handles   |
 *
 * A **name** begins at a multiple of 8 bytes. The first name whose length is 0 is the end of the table.
 *
 * | offset | type | field                                                      |
 * | ------ | ---- | ---------------------------------------------------------- |
 * | 0      | u32  | length of the text in bytes, written last                  |
 * | 4      | u32  | what is named, one of `nameType`                           |
 * | 8      | f64  | number of what is named: its handle, or the kind of event  |
 * | 16     | text | UTF-8                                                      |
 *
 * @module
 */

/** The first bytes of a trace file, as ASCII. */
export const traceMagic = "pooltrac";
/** The version of the format. */
export const traceVersion = 1;
/** The offsets of the header's fields in bytes, and its size. */
export const headerPlaces = {
  version: 8,
  namesLost: 12,
  namesOffset: 16,
  namesByteLength: 20,
  ringOffset: 24,
  ringLength: 28,
  byteLength: 4096,
} as const;
/** The maximum size of a table of names in bytes. */
export const mostNamesBytes: number = 2 ** 24;
/** The maximum number of events of a trace file: 1 GiB of them. */
export const mostTraceEvents: number = 2 ** 24;
/** The size of a record in bytes. */
export const recordByteLength = 64;
/** The maximum size of a trace file in bytes. */
export const mostTraceBytes: number = headerPlaces.byteLength + mostNamesBytes + mostTraceEvents * recordByteLength;
/** The offsets of a record's fields in bytes. */
export const recordPlaces = {
  low: 0,
  high: 4,
  kind: 8,
  device: 10,
  hasThrown: 11,
  site: 12,
  begin: 16,
  duration: 24,
  values: 32,
} as const;
/** The duration of an event that has not ended. */
export const unfinishedDuration = -1;
/** The number of values of a record. */
export const valueCount = 4;
/** The device of a record that has none. */
export const noDeviceByte = 255;
/** What a name of the table names. */
export const nameType = {
  /** The process: a JSON text, `TracedProcess`. */
  process: 1,
  /** A kind of event: a JSON text, `EventKind`. */
  kind: 2,
  /** A kernel, by its handle. */
  kernel: 3,
  /** A place in the program, or a string that a value of an event refers to. */
  text: 4,
  /** A communicator, by its number that is the same in all ranks: a JSON text, `TracedRank`. */
  communicator: 5,
  /** An interprocess event, by its handle: the number in decimal that all processes have for the event. */
  event: 6,
} as const;
/** The offsets of a name's fields in bytes. The text is padded to a multiple of 8 bytes. */
export const namePlaces = { length: 0, type: 4, key: 8, text: 16 } as const;

/**
 * The factor of a connection's number in the value `message` of the events of messages. The rest is the number of the
 * message among those that its sender has sent over the connection.
 */
export const messagesPerConnection: number = 2 ** 32;

/** The names of the events that say when work of a stream ran. */
export const timedWork = ["kernel", "copy", "fill", "graph"] as const;

/** The process that a trace file is of. */
export interface TracedProcess {
  readonly pid: number;
  /** A number that tells the files of a process's threads apart: 0 for the first. */
  readonly thread: number;
  /** The JavaScript runtime, such as `"deno"`. */
  readonly runtime: string;
  /** The name of the program. */
  readonly program: string;
  /** The driver: `"cuda"` or `"software"`. */
  readonly driver: string;
  /** The time at which the recording began, in milliseconds since 1970. */
  readonly began: number;
  /** The same time in nanoseconds of `CLOCK_MONOTONIC`. */
  readonly beganMonotonic: number;
}

/** The rank that a process has in a communicator. */
export interface TracedRank {
  readonly rank: number;
  readonly size: number;
}

/** A kind of event. */
export interface EventKind {
  /** The name of the event, such as `"memcpyAsync"`. */
  readonly name: string;
  /** The names of the values of a record. */
  readonly values: readonly string[];
  /** The indices of the values that are handles or addresses: integers of 64 bits. The others are floating-point. */
  readonly handles?: readonly number[];
}

/** Rounds a length in bytes up to a multiple of 8. */
export function padded(byteLength: number): number {
  return Math.ceil(byteLength / 8) * 8;
}

/** Returns a number of 48 bits for bytes, by FNV-1a. */
export function hashOf(bytes: Uint8Array): number {
  let low = 0x811c9dc5, high = 0;
  for (const byte of bytes) {
    low = Math.imul(low ^ byte, 0x01000193) >>> 0;
    high = (Math.imul(high, 31) + low) & 0xffff;
  }
  return high * 2 ** 32 + low;
}
