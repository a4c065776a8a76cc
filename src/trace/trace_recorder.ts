import { captureCallStack, framesOf, stackOf } from "../sanitizer/reporting/call_stacks.ts";
import {
  type EventKind,
  headerPlaces,
  namePlaces,
  nameType,
  noDeviceByte,
  padded,
  recordByteLength,
  recordPlaces,
  type TracedProcess,
  traceMagic,
  traceVersion,
  unfinishedDuration,
} from "./trace_format.ts";

/** The size of the table of names in bytes. */
const namesByteLength = 2 ** 20;
/** The end of the table, in bytes, that only kinds of events may fill: an event cannot be read without its kind. */
const keptForKinds = 2 ** 16;
/** The maximum length in bytes of a name; a longer one is cut. */
const longestName = 1024;
const wordsPerRecord = recordByteLength / 4;
const numbersPerRecord = recordByteLength / 8;
const numbersBeforeValues = recordPlaces.values / 8;

/** Returns the size in bytes of a trace file whose ring has `length` records. */
export function traceByteLength(length: number): number {
  return headerPlaces.byteLength + namesByteLength + length * recordByteLength;
}

/**
 * Writes a trace into memory, which is mapped to the trace file. Writing an event allocates nothing.
 *
 * To write an event, call `begin`, store its values in `values`, from the index that `begin` returns, and call `end`.
 */
export class TraceRecorder {
  /** The time in nanoseconds of `CLOCK_MONOTONIC`. */
  readonly now: () => number;
  /** The values of all records. */
  readonly values: Float64Array;
  /** The same values, for those that are handles: engines store a bigint faster than they convert it. */
  readonly handles: BigUint64Array;
  readonly #bytes: Uint8Array<ArrayBuffer>;
  readonly #header: DataView;
  readonly #words: Uint32Array;
  readonly #length: number;
  /** The time at which `performance.now()` was 0. */
  readonly #origin: number;
  /** The offset in bytes at which the next name is written. */
  #nameEnd: number = headerPlaces.byteLength;
  /** The halves of the last record's number. */
  #low = 0;
  #high = 0;
  /** The place of the next record. */
  #place = 0;
  #hasSites = false;
  readonly #kinds = new Map<string, number>();
  readonly #texts = new Map<string, number>();

  /** @param bytes zeroed memory of `traceByteLength(length)` bytes */
  constructor(bytes: Uint8Array<ArrayBuffer>, length: number, process: TracedProcess, now: () => number) {
    const { buffer, byteOffset } = bytes;
    const ringOffset = headerPlaces.byteLength + namesByteLength;
    const ring = byteOffset + ringOffset, ringByteLength = length * recordByteLength;
    this.now = now;
    this.#origin = now() - performance.now() * 1e6;
    this.#bytes = bytes;
    this.#header = new DataView(buffer, byteOffset, ringOffset);
    this.#words = new Uint32Array(buffer, ring, ringByteLength / 4);
    this.values = new Float64Array(buffer, ring, ringByteLength / 8);
    this.handles = new BigUint64Array(buffer, ring, ringByteLength / 8);
    this.#length = length;
    this.#writeHeader("version", traceVersion);
    this.#writeHeader("namesOffset", headerPlaces.byteLength);
    this.#writeHeader("namesByteLength", namesByteLength);
    this.#writeHeader("ringOffset", ringOffset);
    this.#writeHeader("ringLength", length);
    this.name(nameType.process, 0, JSON.stringify(process));
    // A file without these bytes is no trace, so they are written last.
    new TextEncoder().encodeInto(traceMagic, bytes);
  }

  /** Returns the number of a kind of event, for `begin`. */
  kind(kind: EventKind): number {
    let number = this.#kinds.get(kind.name);
    if (number === undefined) {
      this.#kinds.set(kind.name, number = this.#kinds.size + 1);
      this.name(nameType.kind, number, JSON.stringify(kind));
    }
    return number;
  }

  /** Returns the number of a string, for a value of an event; 0 if it is empty, or if there is no room for it. */
  text(text: string): number {
    let number = this.#texts.get(text);
    if (number === undefined) {
      number = this.#texts.size + 1;
      if (!this.name(nameType.text, number, text)) return 0;
      this.#texts.set(text, number);
    }
    return number;
  }

  /** Names something by its number. Returns false if the name is empty, or if there is no room for it. */
  name(type: number, key: number, text: string): boolean {
    // A length of 0 would end the table.
    if (text === "") return false;
    const view = this.#header, at = this.#nameEnd;
    const bytes = new TextEncoder().encode(text);
    const byteLength = type === nameType.text || type === nameType.kernel
      ? Math.min(bytes.length, longestName)
      : bytes.length;
    const end = at + namePlaces.text + padded(byteLength);
    // After the last name, the table has room for a length of 0.
    const limit = view.byteLength - namePlaces.text - (type === nameType.kind ? 0 : keptForKinds);
    if (end > limit) {
      this.#writeHeader("namesLost", view.getUint32(headerPlaces.namesLost, true) + 1);
      return false;
    }
    view.setUint32(at + namePlaces.type, type, true);
    view.setFloat64(at + namePlaces.key, key, true);
    this.#bytes.set(bytes.subarray(0, byteLength), at + namePlaces.text);
    view.setUint32(at + namePlaces.length, byteLength, true);
    this.#nameEnd = end;
    return true;
  }

  /** Converts a time of `performance.now()`. */
  timeOf(time: number): number {
    return this.#origin + time * 1e6;
  }

  /**
   * Begins to write an event that began at `begin` and ends now. Returns the index in `values` of the event's first
   * value. Values that the caller does not set are those of an older event.
   */
  begin(kind: number, device: number, begin: number, hasThrown = false): number {
    return this.beginTimed(kind, device, begin, this.now(), hasThrown);
  }

  /** Begins to write an event, as `begin` does, that ended at `end`. */
  beginTimed(kind: number, device: number, begin: number, end: number, hasThrown = false): number {
    const place = this.#place;
    const word = place * wordsPerRecord;
    const number = place * numbersPerRecord;
    const words = this.#words, { values } = this;
    // From here on until `end`, this is not a record.
    words[word + recordPlaces.low / 4] = 0;
    words[word + recordPlaces.high / 4] = 0;
    // The kind has two bytes, and the next two fields have one each.
    words[word + recordPlaces.kind / 4] = kind | (device & 255) << 16 | (hasThrown ? 1 << 24 : 0);
    words[word + recordPlaces.site / 4] = this.#hasSites ? this.#site() : 0;
    values[number + recordPlaces.begin / 8] = begin;
    values[number + recordPlaces.duration / 8] = end > begin ? end - begin : 0;
    return number + numbersBeforeValues;
  }

  /**
   * Begins to write an event, as `begin` does, that began at `begin` and has not ended: `finish` ends it. If the process
   * is killed before, the trace shows what it was waiting for.
   */
  beginUnfinished(kind: number, device: number, begin: number): number {
    const at = this.beginTimed(kind, device, begin, begin);
    this.values[at - numbersBeforeValues + recordPlaces.duration / 8] = unfinishedDuration;
    return at;
  }

  /**
   * Ends an unfinished event, which began at `begin`. Returns false if newer events have replaced it.
   *
   * @param number the value of `count` after the event was written
   */
  finish(number: number, begin: number, hasThrown: boolean): boolean {
    if (this.count - number >= this.#length) return false;
    const place = (number - 1) % this.#length;
    if (hasThrown) this.#words[place * wordsPerRecord + recordPlaces.kind / 4]! |= 1 << 24;
    this.values[place * numbersPerRecord + recordPlaces.duration / 8] = Math.max(0, this.now() - begin);
    return true;
  }

  /** The number of events that were written. */
  get count(): number {
    return this.#high * 2 ** 32 + this.#low;
  }

  /** Makes all following events have the place where the program has called, which takes microseconds for each. */
  recordSites(): void {
    this.#hasSites = true;
  }

  #site(): number {
    const [place] = framesOf(stackOf(captureCallStack()));
    return place === undefined ? 0 : this.text(`${place.file}:${place.line}`);
  }

  /** Ends the writing of an event. */
  end(): void {
    const place = this.#place, words = this.#words;
    const word = place * wordsPerRecord;
    const low = this.#low = (this.#low + 1) >>> 0;
    if (low === 0) this.#high++;
    this.#place = place + 1 === this.#length ? 0 : place + 1;
    words[word + recordPlaces.high / 4] = this.#high;
    // An atomic store comes after all stores before it, also for a process that reads at the same time.
    Atomics.store(words, word + recordPlaces.low / 4, low);
  }

  /** Writes a range of the program, which began at `begin` and ends now. */
  range(name: string, begin: number, hasThrown: boolean): void {
    const text = this.text(name);
    const at = this.begin(this.kind({ name: "range", values: ["name"] }), noDeviceByte, begin, hasThrown);
    this.values[at] = text;
    this.end();
  }

  /** Writes how long the program waits for something. Throws what `wait` throws, with the stack that it has. */
  async wait<Result>(
    what: "stream" | "event" | "device" | "entry",
    handle: bigint | number,
    device: number,
    wait: () => Promise<Result>,
  ): Promise<Result> {
    const begin = this.now();
    const kind = this.kind({ name: `wait for ${what}`, values: [what] });
    this.values[this.beginUnfinished(kind, device, begin)] = Number(handle);
    this.end();
    const number = this.count;
    let hasThrown = true;
    try {
      const result = await wait();
      hasThrown = false;
      return result;
    } finally {
      if (!this.finish(number, begin, hasThrown)) {
        this.values[this.begin(kind, device, begin, hasThrown)] = Number(handle);
        this.end();
      }
    }
  }

  /** Writes an event without duration. */
  instant(kind: number, v0 = 0, v1 = 0, v2 = 0, v3 = 0): void {
    this.instantAt(this.now(), kind, v0, v1, v2, v3);
  }

  /** Writes an event without duration, which has happened at `time`. */
  instantAt(time: number, kind: number, v0: number, v1: number, v2: number, v3: number): void {
    const { values } = this;
    const at = this.beginTimed(kind, noDeviceByte, time, time);
    values[at] = v0;
    values[at + 1] = v1;
    values[at + 2] = v2;
    values[at + 3] = v3;
    this.end();
  }

  #writeHeader(field: keyof typeof headerPlaces, value: number): void {
    this.#header.setUint32(headerPlaces[field], value, true);
  }
}
