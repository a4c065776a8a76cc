/**
 * Reads trace files. Every byte is checked: another process writes them at the same time, was killed while it wrote, or
 * is not to be trusted.
 *
 * @module
 */
import {
  type EventKind,
  headerPlaces,
  mostNamesBytes,
  mostTraceEvents,
  namePlaces,
  nameType,
  noDeviceByte,
  padded,
  recordByteLength,
  recordPlaces,
  type TracedProcess,
  type TracedRank,
  traceMagic,
  traceVersion,
  unfinishedDuration,
  valueCount,
} from "./trace_format.ts";
import { shown } from "../support/validation.ts";

/** An event of a trace. */
export interface TraceEvent {
  /** The number of the event among all events of its file, from 1. */
  readonly number: number;
  /** The name of its kind, such as `"memcpyAsync"`. */
  readonly name: string;
  readonly device: number | undefined;
  readonly hasThrown: boolean;
  /** Where the program has called, if it was recorded. */
  readonly site: string | undefined;
  /** The time at which the event began, in nanoseconds of `CLOCK_MONOTONIC`. */
  readonly begin: number;
  /** The duration in nanoseconds; 0 if the event has not ended. */
  readonly duration: number;
  /** Whether the event has ended. A wait of a process that was killed has not. */
  readonly hasEnded: boolean;
  /** The values, by their names. */
  readonly values: Readonly<Record<string, number>>;
  /** Returns the event with a duration that reaches to a time, for an event that has not ended. */
  endingAt(end: number): TraceEvent;
  /** Returns a value by its name. Undefined if the event has none of this name. Faster than `values`. */
  value(name: string): number | undefined;
}

/** The content of a trace file. */
export interface Trace {
  /** The name of the file. */
  readonly file: string;
  readonly process: TracedProcess;
  /** The events in the order in which they were written: waits when they began, all others when they ended. */
  readonly events: readonly TraceEvent[];
  /** The number of older events that newer ones have replaced. */
  readonly replaced: number;
  /** The number of names for which there was no room. */
  readonly namesLost: number;
  /** The names of kernels by handle. */
  readonly kernels: ReadonlyMap<number, string>;
  /** The texts to which values refer. */
  readonly texts: ReadonlyMap<number, string>;
  /** The process's ranks in each communicator, by a number that all ranks have for the communicator. */
  readonly ranks: ReadonlyMap<number, readonly TracedRank[]>;
  /** The numbers that all processes have for interprocess events, by handle. */
  readonly sharedEvents: ReadonlyMap<number, number>;
}

/** Thrown for a file that is not a trace. */
export class NotATraceError extends Error {
  override name = "NotATraceError";
}

/**
 * Reads a trace file.
 *
 * @param file the file's name, for messages
 * @param options.most the maximum number of events to read, the newest ones
 * @param options.byteLength the size of the file, if its end is empty and not in `bytes`
 * @throws {NotATraceError} If the bytes are not a trace
 */
export function readTrace(
  file: string,
  bytes: Uint8Array<ArrayBuffer>,
  { most = Infinity, byteLength: fileByteLength = bytes.length }: {
    readonly most?: number;
    readonly byteLength?: number;
  } = {},
): Trace {
  const refuse = (why: string): never => {
    throw new NotATraceError(`Cannot read ${shown(file)} as a trace: ${why}`);
  };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < headerPlaces.byteLength) {
    return refuse(`it has ${bytes.length} bytes, and the header alone has ${headerPlaces.byteLength}`);
  }
  const magic = new TextDecoder("latin1").decode(bytes.subarray(0, traceMagic.length));
  if (magic !== traceMagic) return refuse(`it does not begin with "${traceMagic}"`);
  const header = (field: keyof typeof headerPlaces) => view.getUint32(headerPlaces[field], true);
  if (header("version") !== traceVersion) {
    return refuse(`its version is ${header("version")}, and this poolpass reads version ${traceVersion}`);
  }
  const [namesOffset, namesByteLength] = [header("namesOffset"), header("namesByteLength")];
  const [ringOffset, ringLength] = [header("ringOffset"), header("ringLength")];
  const isWithin = (offset: number, byteLength: number) =>
    offset % 8 === 0 && offset >= headerPlaces.byteLength && offset + byteLength <= fileByteLength;
  if (namesByteLength > mostNamesBytes || ringLength > mostTraceEvents) return refuse("it is larger than any trace");
  if (!isWithin(namesOffset, namesByteLength)) return refuse("its table of names is not within the file");
  if (ringLength === 0 || !isWithin(ringOffset, ringLength * recordByteLength)) {
    return refuse("its ring is not within the file");
  }
  const names = readNames(bytes.subarray(namesOffset, namesOffset + namesByteLength));
  if (names.process === undefined) return refuse("it does not name its process");
  let events: RecordedEvent[] = [];
  const source = { view, texts: names.texts };
  const places = Math.min(ringLength, Math.max(0, Math.floor((bytes.length - ringOffset) / recordByteLength)));
  const after = Math.max(0, lastNumber(view, { ringOffset, ringLength, places }) - most);
  for (let place = 0; place < places; place++) {
    const event = readRecord(source, { place, ringOffset, ringLength, after }, names.kinds);
    if (event !== undefined) events.push(event);
  }
  // So that the empty part of the file is not kept.
  if (events.length * recordByteLength < bytes.length / 2) events = copiedEvents(events, names.texts);
  events.sort((a, b) => a.number - b.number);
  const { process, kernels, texts, ranks, sharedEvents } = names;
  return {
    file,
    process,
    events,
    kernels,
    texts,
    ranks,
    sharedEvents,
    namesLost: header("namesLost"),
    replaced: Math.max(0, (events.at(-1)?.number ?? 0) - ringLength),
  };
}

interface Names {
  process: TracedProcess | undefined;
  readonly kinds: Map<number, EventKind>;
  readonly kernels: Map<number, string>;
  readonly texts: Map<number, string>;
  readonly ranks: Map<number, TracedRank[]>;
  readonly sharedEvents: Map<number, number>;
}

function readNames(bytes: Uint8Array<ArrayBuffer>): Names {
  const names: Names = {
    process: undefined,
    kinds: new Map(),
    kernels: new Map(),
    texts: new Map(),
    ranks: new Map(),
    sharedEvents: new Map(),
  };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at + namePlaces.text <= bytes.length;) {
    const byteLength = view.getUint32(at + namePlaces.length, true);
    if (byteLength === 0 || at + namePlaces.text + byteLength > bytes.length) break;
    const type = view.getUint32(at + namePlaces.type, true);
    const key = view.getFloat64(at + namePlaces.key, true);
    // A long name may be cut within a character.
    const text = new TextDecoder().decode(bytes.subarray(at + namePlaces.text, at + namePlaces.text + byteLength));
    if (type === nameType.process) names.process = processFrom(text);
    else if (type === nameType.kind) addKind(names.kinds, key, text);
    else if (type === nameType.kernel) names.kernels.set(key, text);
    else if (type === nameType.text) names.texts.set(key, text);
    else if (type === nameType.event) names.sharedEvents.set(key, Number(text));
    else if (type === nameType.communicator) addRank(names.ranks, key, text);
    at += namePlaces.text + padded(byteLength);
  }
  return names;
}

function processFrom(text: string): TracedProcess | undefined {
  const value = parsed(text);
  if (value === undefined) return undefined;
  const numbers = ["began", "beganMonotonic"].every((name) => Number.isFinite(value[name])) &&
    ["pid", "thread"].every((name) => isInt32(value[name]));
  const strings = ["runtime", "program", "driver"].every((name) => typeof value[name] === "string");
  return numbers && strings ? value as unknown as TracedProcess : undefined;
}

function isInt32(value: unknown): boolean {
  return typeof value === "number" && value >= 0 && value === (value | 0);
}

function addKind(kinds: Map<number, EventKind>, key: number, text: string): void {
  const value = parsed(text);
  if (typeof value?.name !== "string" || !Array.isArray(value.values)) return;
  if (value.values.length > valueCount || !value.values.every((name) => typeof name === "string")) return;
  const handles = Array.isArray(value.handles) ? value.handles : [];
  kinds.set(key, { name: value.name, values: value.values, handles });
}

function addRank(ranks: Map<number, TracedRank[]>, key: number, text: string): void {
  const { rank, size } = parsed(text) ?? {};
  if (typeof rank !== "number" || typeof size !== "number") return;
  const known = ranks.get(key);
  if (known === undefined) ranks.set(key, [{ rank, size }]);
  else known.push({ rank, size });
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value as Record<string, unknown> : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the largest number of a record in the ring; 0 if there is none. */
function lastNumber(
  view: DataView,
  { ringOffset, ringLength, places }: { ringOffset: number; ringLength: number; places: number },
): number {
  let last = 0;
  for (let place = 0; place < places; place++) {
    const number = numberAt(view, ringOffset + place * recordByteLength);
    if ((number - 1) % ringLength === place) last = Math.max(last, number);
  }
  return last;
}

/** Returns the number of the record at an offset; 0 if there is none. */
function numberAt(view: DataView, at: number): number {
  const number = view.getUint32(at + recordPlaces.high, true) * 2 ** 32 + view.getUint32(at + recordPlaces.low, true);
  return number > Number.MAX_SAFE_INTEGER ? 0 : number;
}

/** Reads the record at a place of the ring. Returns undefined if there is none, or if its number is at most `after`. */
function readRecord(
  source: EventSource,
  { place, ringOffset, ringLength, after }: {
    place: number;
    ringOffset: number;
    ringLength: number;
    after: number;
  },
  kinds: ReadonlyMap<number, EventKind>,
): RecordedEvent | undefined {
  const { view } = source;
  const at = ringOffset + place * recordByteLength;
  const number = numberAt(view, at);
  if (number <= after || (number - 1) % ringLength !== place) return undefined;
  const kind = kinds.get(view.getUint16(at + recordPlaces.kind, true));
  const begin = view.getFloat64(at + recordPlaces.begin, true);
  const written = view.getFloat64(at + recordPlaces.duration, true);
  const duration = written === unfinishedDuration ? 0 : written;
  if (kind === undefined || !(begin >= 0 && duration >= 0 && Number.isFinite(begin + duration))) return undefined;
  return new RecordedEvent(source, at, kind);
}

/** Returns events that keep nothing of the file but their records. */
function copiedEvents(events: readonly RecordedEvent[], texts: ReadonlyMap<number, string>): RecordedEvent[] {
  const source = { view: new DataView(new ArrayBuffer(events.length * recordByteLength)), texts };
  return events.map((event, index) => event.copyTo(source, index * recordByteLength));
}

/** The bytes of a trace, and its texts. */
interface EventSource {
  readonly view: DataView;
  readonly texts: ReadonlyMap<number, string>;
}

/** An event that is read from its record when it is asked for something: a trace may have millions. */
class RecordedEvent implements TraceEvent {
  readonly #source: EventSource;
  /** The offset of the record. */
  readonly #at: number;
  readonly #kind: EventKind;
  /** The time at which it ends if its record has no duration. */
  readonly #end: number;

  constructor(source: EventSource, at: number, kind: EventKind, end = 0) {
    this.#source = source;
    this.#at = at;
    this.#kind = kind;
    this.#end = end;
  }

  get number(): number {
    return numberAt(this.#source.view, this.#at);
  }

  get name(): string {
    return this.#kind.name;
  }

  get device(): number | undefined {
    const device = this.#source.view.getUint8(this.#at + recordPlaces.device);
    return device === noDeviceByte ? undefined : device;
  }

  get hasThrown(): boolean {
    return this.#source.view.getUint8(this.#at + recordPlaces.hasThrown) !== 0;
  }

  get site(): string | undefined {
    const { view, texts } = this.#source;
    return texts.get(view.getUint32(this.#at + recordPlaces.site, true));
  }

  get begin(): number {
    return this.#source.view.getFloat64(this.#at + recordPlaces.begin, true);
  }

  get duration(): number {
    return this.hasEnded ? this.#duration : Math.max(0, this.#end - this.begin);
  }

  get hasEnded(): boolean {
    return this.#duration !== unfinishedDuration;
  }

  get #duration(): number {
    return this.#source.view.getFloat64(this.#at + recordPlaces.duration, true);
  }

  /** Copies the record to another place, and returns the event there. */
  copyTo(source: EventSource, at: number): RecordedEvent {
    const bytesOf = ({ view }: EventSource, at: number) =>
      new Uint8Array(view.buffer, view.byteOffset + at, recordByteLength);
    bytesOf(source, at).set(bytesOf(this.#source, this.#at));
    return new RecordedEvent(source, at, this.#kind);
  }

  endingAt(end: number): TraceEvent {
    return new RecordedEvent(this.#source, this.#at, this.#kind, end);
  }

  get values(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#kind.values.map((name, index) => [name, this.#value(index)]));
  }

  value(name: string): number | undefined {
    const index = this.#kind.values.indexOf(name);
    return index < 0 ? undefined : this.#value(index);
  }

  #value(index: number): number {
    const { view } = this.#source;
    const at = this.#at + recordPlaces.values + index * 8;
    const isHandle = this.#kind.handles?.includes(index) === true;
    return isHandle ? Number(view.getBigUint64(at, true)) : view.getFloat64(at, true);
  }
}
