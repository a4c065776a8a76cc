/**
 * Writes traces in Perfetto's format: a protocol buffer, `perfetto.protos.Trace`
 * (https://perfetto.dev/docs/reference/trace-packet-proto).
 *
 * @module
 */

/** A row of a trace in Perfetto. */
export interface Track {
  readonly name: string;
  /** The track below which this one is shown. */
  readonly parent?: Track;
  /** The process, for the track of a process. */
  readonly process?: { readonly pid: number; readonly name: string };
  /** Whether the track shows a number over time. */
  readonly isCounter?: boolean;
}

/** What a track shows. Slices of one track do not overlap, except that one may be within another. */
export interface TrackItem {
  readonly track: Track;
  /** The time in nanoseconds. */
  readonly begin: number;
  /** The name; of a counter, nothing. */
  readonly name?: string | undefined;
  readonly category?: string | undefined;
  /** The duration in nanoseconds. An item without one is an instant. */
  readonly duration?: number | undefined;
  /** The value, if the track is a counter. */
  readonly value?: number | undefined;
  /** The numbers of the flows that pass here: arrows from one item to the next. */
  readonly flows?: readonly bigint[] | undefined;
  /** What is shown when the item is selected. */
  readonly details?: ItemDetails | undefined;
}

/** What is shown of an item when it is selected. */
export interface ItemDetails {
  writeTo(writer: DetailWriter): void;
}

/** Takes the details of an item, each with its name. */
export interface DetailWriter {
  number(name: string, value: number): void;
  /** A handle or an address, which is shown in hexadecimal. */
  address(name: string, value: number): void;
  text(name: string, value: string): void;
  flag(name: string, value: boolean): void;
}

/** The numbers of the protocol buffer's fields. */
const fields = {
  trace: { packet: 1 },
  packet: {
    timestamp: 8,
    sequence: 10,
    event: 11,
    interned: 12,
    sequenceFlags: 13,
    track: 60,
  },
  track: { uuid: 1, name: 2, process: 3, parent: 5, counter: 8 },
  process: { pid: 1, name: 6 },
  event: { categories: 3, details: 4, type: 9, nameId: 10, track: 11, value: 44, flows: 47 },
  interned: { categories: 1, names: 2, detailNames: 3 },
  internedName: { id: 1, name: 2 },
  detail: { nameId: 1, flag: 2, integer: 4, double: 5, text: 6, pointer: 7 },
} as const;

/** The values of `TrackEvent.Type`. */
const eventType = { begin: 1, end: 2, instant: 3, counter: 4 } as const;
/** The values of `TracePacket.SequenceFlags`. */
const sequenceFlag = { stateCleared: 1, needsState: 2 } as const;
/** The number of the only sequence of packets. */
const sequence = 1;

/**
 * Encodes a trace. Items may come in any order.
 *
 * @returns the parts of the file, in their order
 */
export function* encodePerfetto(items: readonly TrackItem[]): Generator<Uint8Array> {
  const writer = new ProtocolWriter();
  const packets = new PacketWriter(writer);
  const { times, order } = momentsOf(items);
  for (const moment of order) {
    const item = items[moment >> 1]!;
    packets.describe(item.track);
    packets.writeEvent(times[moment]!, item, (moment & 1) === 1);
    if (writer.length > partByteLength) yield writer.take();
  }
  yield writer.take();
}

/**
 * Returns the times in nanoseconds at which items begin and end, and the order of these moments. The moment at which
 * item n begins has the index 2n, and that at which it ends has the next one.
 */
function momentsOf(items: readonly TrackItem[]): { times: Float64Array; order: number[] } {
  const times = new Float64Array(2 * items.length);
  const order: number[] = [];
  for (const [index, { begin, duration }] of items.entries()) {
    times[2 * index] = Math.round(begin);
    order.push(2 * index);
    if (duration === undefined) continue;
    times[2 * index + 1] = Math.round(begin + duration);
    order.push(2 * index + 1);
  }
  const lengthOf = (moment: number) => times[moment | 1]! - times[moment & ~1]!;
  // Of the same time, a slice ends before the next begins, and a longer slice begins before one within it. A slice whose
  // duration is 0 comes last.
  const rankOf = (moment: number) => (moment & 1) === 0 ? 1 : lengthOf(moment) === 0 ? 2 : 0;
  order.sort((a, b) => times[a]! - times[b]! || rankOf(a) - rankOf(b) || lengthOf(b) - lengthOf(a));
  return { times, order };
}

/** Writes the packets of a trace, in the order of their times. */
class PacketWriter implements DetailWriter {
  readonly #writer: ProtocolWriter;
  readonly #tracks = new Map<Track, number>();
  readonly #names = new Map<string, number>();
  readonly #categories = new Map<string, number>();
  readonly #detailNames = new Map<string, number>();
  /** The names that the current packet is the first to have: the field of each, its number and the name. */
  readonly #added: { readonly field: number; readonly id: number; readonly name: string }[] = [];

  constructor(writer: ProtocolWriter) {
    this.#writer = writer;
  }

  /** Describes a track, and those above it, before its first item. */
  describe(track: Track): void {
    if (this.#tracks.has(track)) return;
    const { process, parent } = track;
    if (parent !== undefined) this.describe(parent);
    const writer = this.#writer;
    const uuid = this.#tracks.size + 1;
    this.#tracks.set(track, uuid);
    writer.begin(fields.trace.packet);
    writer.integer(fields.packet.sequence, sequence);
    if (uuid === 1) writer.integer(fields.packet.sequenceFlags, sequenceFlag.stateCleared);
    writer.begin(fields.packet.track);
    writer.integer(fields.track.uuid, uuid);
    if (process === undefined) writer.text(fields.track.name, track.name);
    if (parent !== undefined) writer.integer(fields.track.parent, this.#tracks.get(parent)!);
    if (track.isCounter) {
      writer.begin(fields.track.counter);
      writer.end();
    }
    if (process !== undefined) {
      writer.begin(fields.track.process);
      writer.integer(fields.process.pid, process.pid);
      writer.text(fields.process.name, process.name);
      writer.end();
    }
    writer.end();
    writer.end();
  }

  writeEvent(time: number, item: TrackItem, isEnd: boolean): void {
    const writer = this.#writer;
    writer.begin(fields.trace.packet);
    writer.integer(fields.packet.timestamp, time);
    writer.integer(fields.packet.sequence, sequence);
    writer.integer(fields.packet.sequenceFlags, sequenceFlag.needsState);
    writer.begin(fields.packet.event);
    const { value } = item;
    const type = value !== undefined ? "counter" : isEnd ? "end" : item.duration === undefined ? "instant" : "begin";
    writer.integer(fields.event.type, eventType[type]);
    writer.integer(fields.event.track, this.#tracks.get(item.track)!);
    if (value !== undefined) writer.double(fields.event.value, value);
    if (!isEnd) this.#writeContent(item);
    writer.end();
    if (this.#added.length > 0) this.#writeNames();
    writer.end();
  }

  number(name: string, value: number): void {
    this.#beginDetail(name);
    if (Number.isSafeInteger(value)) this.#writer.integer(fields.detail.integer, value);
    else this.#writer.double(fields.detail.double, value);
    this.#writer.end();
  }

  address(name: string, value: number): void {
    this.#beginDetail(name);
    this.#writer.integer(fields.detail.pointer, value);
    this.#writer.end();
  }

  text(name: string, value: string): void {
    this.#beginDetail(name);
    this.#writer.text(fields.detail.text, value);
    this.#writer.end();
  }

  flag(name: string, value: boolean): void {
    this.#beginDetail(name);
    this.#writer.integer(fields.detail.flag, Number(value));
    this.#writer.end();
  }

  #writeContent({ name, category, flows, details }: TrackItem): void {
    const writer = this.#writer;
    if (category !== undefined) {
      writer.integer(fields.event.categories, this.#idOf(this.#categories, fields.interned.categories, category));
    }
    if (name !== undefined) writer.integer(fields.event.nameId, this.#idOf(this.#names, fields.interned.names, name));
    if (flows !== undefined) { for (const flow of flows) writer.fixed64(fields.event.flows, flow); }
    details?.writeTo(this);
  }

  #beginDetail(name: string): void {
    this.#writer.begin(fields.event.details);
    this.#writer.integer(fields.detail.nameId, this.#idOf(this.#detailNames, fields.interned.detailNames, name));
  }

  /** Returns the number of a name. */
  #idOf(ids: Map<string, number>, field: number, name: string): number {
    let id = ids.get(name);
    if (id === undefined) {
      ids.set(name, id = ids.size + 1);
      this.#added.push({ field, id, name });
    }
    return id;
  }

  #writeNames(): void {
    const writer = this.#writer;
    writer.begin(fields.packet.interned);
    for (const { field, id, name } of this.#added.splice(0)) {
      writer.begin(field);
      writer.integer(fields.internedName.id, id);
      writer.text(fields.internedName.name, name);
      writer.end();
    }
    writer.end();
  }
}

/** The size in bytes of the parts into which a file is divided. */
const partByteLength = 2 ** 20;
/** The types of a protocol buffer's fields. */
const wireType = { varint: 0, fixed64: 1, bytes: 2 } as const;
/** The number of bytes that hold the length of a message, whatever the length. */
const lengthByteLength = 4;

/** The length in UTF-16 units up to which a string is encoded here: a call of an encoder takes longer. */
const shortText = 64;
const encoder = new TextEncoder();

/** Writes a protocol buffer. */
class ProtocolWriter {
  #bytes = new Uint8Array(2 * partByteLength);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;
  /** The offsets of the contents of the messages that have begun. */
  readonly #begun: number[] = [];

  get length(): number {
    return this.#length;
  }

  /** Returns what was written since the last call. */
  take(): Uint8Array {
    const bytes = this.#bytes.slice(0, this.#length);
    this.#length = 0;
    return bytes;
  }

  /** Writes an integer of at most 53 bits, or an address, which may be larger. A negative one has 64 bits. */
  integer(field: number, value: number): void {
    this.#reserve(20);
    this.#tag(field, wireType.varint);
    this.#varint(value);
  }

  double(field: number, value: number): void {
    this.#reserve(20);
    this.#tag(field, wireType.fixed64);
    this.#view.setFloat64(this.#length, value, true);
    this.#length += 8;
  }

  fixed64(field: number, value: bigint): void {
    this.#reserve(20);
    this.#tag(field, wireType.fixed64);
    this.#view.setBigUint64(this.#length, value, true);
    this.#length += 8;
  }

  text(field: number, value: string): void {
    // A UTF-16 unit takes at most three bytes of UTF-8.
    this.#reserve(20 + 3 * value.length);
    this.begin(field);
    if (!this.#writeAscii(value)) {
      this.#length += encoder.encodeInto(value, this.#bytes.subarray(this.#length)).written;
    }
    this.end();
  }

  /** Begins a message. */
  begin(field: number): void {
    this.#reserve(20);
    this.#tag(field, wireType.bytes);
    this.#length += lengthByteLength;
    this.#begun.push(this.#length);
  }

  /** Ends the message that has begun last. */
  end(): void {
    const bytes = this.#bytes, begin = this.#begun.pop()!;
    const at = begin - lengthByteLength;
    const byteLength = this.#length - begin;
    bytes[at] = byteLength & 127 | 128;
    bytes[at + 1] = byteLength >> 7 & 127 | 128;
    bytes[at + 2] = byteLength >> 14 & 127 | 128;
    bytes[at + 3] = byteLength >> 21;
  }

  /** Writes a short string of ASCII characters. Returns false, and writes nothing, if it is another one. */
  #writeAscii(value: string): boolean {
    if (value.length > shortText) return false;
    const bytes = this.#bytes, begin = this.#length;
    for (let index = 0; index < value.length; index++) {
      const code = value.charCodeAt(index);
      if (code >= 128) return false;
      bytes[begin + index] = code;
    }
    this.#length += value.length;
    return true;
  }

  #tag(field: number, type: number): void {
    this.#smallVarint(field * 8 + type);
  }

  #varint(value: number): void {
    if (value < 0 || value >= 2 ** 56) {
      let rest = BigInt.asUintN(64, BigInt(Math.trunc(value)));
      for (; rest >= 128n; rest >>= 7n) this.#bytes[this.#length++] = Number(rest & 127n) + 128;
      this.#bytes[this.#length++] = Number(rest);
      return;
    }
    let rest = value;
    if (value >= 2 ** 28) {
      const low = value % 2 ** 28;
      rest = (value - low) / 2 ** 28;
      for (let shift = 0; shift < 28; shift += 7) this.#bytes[this.#length++] = low >> shift & 127 | 128;
    }
    this.#smallVarint(rest);
  }

  /** Writes an integer of at most 28 bits that is not negative. */
  #smallVarint(value: number): void {
    const bytes = this.#bytes;
    let rest = value;
    for (; rest >= 128; rest >>= 7) bytes[this.#length++] = rest & 127 | 128;
    bytes[this.#length++] = rest;
  }

  #reserve(byteLength: number): void {
    if (this.#length + byteLength <= this.#bytes.length) return;
    const bytes = new Uint8Array(2 * (this.#length + byteLength));
    bytes.set(this.#bytes);
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer);
  }
}
