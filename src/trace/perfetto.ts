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
  readonly name?: string;
  readonly category?: string;
  /** The duration in nanoseconds. An item without one is an instant. */
  readonly duration?: number;
  /** The value, if the track is a counter. */
  readonly value?: number;
  /** The numbers of the flows that pass here: arrows from one item to the next. */
  readonly flows?: readonly bigint[];
  /** What is shown when the item is selected. */
  readonly details?: Readonly<Record<string, number | string | boolean>>;
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
  detail: { nameId: 1, flag: 2, integer: 4, double: 5, text: 6 },
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
  const tracks = new Map<Track, number>();
  const names = { names: new Map<string, number>(), categories: new Map(), details: new Map() } as const;
  let isFirst = true;
  const moments: { readonly time: number; readonly item: TrackItem; readonly isEnd: boolean }[] = [];
  for (const item of items) {
    moments.push({ time: item.begin, item, isEnd: false });
    if (item.duration !== undefined) moments.push({ time: item.begin + item.duration, item, isEnd: true });
  }
  // Of the same time, a slice ends before the next begins, and a longer slice begins before one within it. A slice whose
  // duration is 0 comes last.
  const rankOf = ({ item, isEnd }: (typeof moments)[0]) => !isEnd ? 1 : item.duration === 0 ? 2 : 0;
  moments.sort((a, b) => a.time - b.time || rankOf(a) - rankOf(b) || durationOf(b.item) - durationOf(a.item));
  for (const { time, item, isEnd } of moments) {
    describe(item.track);
    writer.message(fields.trace.packet, () => writeEvent(time, item, isEnd));
    if (writer.length > partByteLength) yield writer.take();
  }
  yield writer.take();

  /** Describes a track, and those above it, before its first item. */
  function describe(track: Track): void {
    if (tracks.has(track)) return;
    if (track.parent !== undefined) describe(track.parent);
    const uuid = tracks.size + 1;
    tracks.set(track, uuid);
    writer.message(fields.trace.packet, () => {
      writer.integer(fields.packet.sequence, sequence);
      if (isFirst) writer.integer(fields.packet.sequenceFlags, sequenceFlag.stateCleared);
      isFirst = false;
      writer.message(fields.packet.track, () => {
        const { process, parent } = track;
        writer.integer(fields.track.uuid, uuid);
        if (process === undefined) writer.text(fields.track.name, track.name);
        if (parent !== undefined) writer.integer(fields.track.parent, tracks.get(parent)!);
        if (track.isCounter) writer.message(fields.track.counter, () => {});
        if (process !== undefined) {
          writer.message(fields.track.process, () => {
            writer.integer(fields.process.pid, process.pid);
            writer.text(fields.process.name, process.name);
          });
        }
      });
    });
  }

  function writeEvent(time: number, item: TrackItem, isEnd: boolean): void {
    const { name, category, duration, value, flows = [], details = {} } = item;
    const added: (() => void)[] = [];
    const idOf = (map: Map<string, number>, field: number, text: string): number => {
      let id = map.get(text);
      if (id === undefined) {
        map.set(text, id = map.size + 1);
        added.push(() =>
          writer.message(field, () => {
            writer.integer(fields.internedName.id, id!);
            writer.text(fields.internedName.name, text);
          })
        );
      }
      return id;
    };
    writer.integer(fields.packet.timestamp, Math.round(time));
    writer.integer(fields.packet.sequence, sequence);
    writer.integer(fields.packet.sequenceFlags, sequenceFlag.needsState);
    writer.message(fields.packet.event, () => {
      const type = value !== undefined ? "counter" : isEnd ? "end" : duration === undefined ? "instant" : "begin";
      writer.integer(fields.event.type, eventType[type]);
      writer.integer(fields.event.track, tracks.get(item.track)!);
      if (value !== undefined) writer.double(fields.event.value, value);
      if (isEnd) return;
      if (category !== undefined) {
        writer.integer(fields.event.categories, idOf(names.categories, fields.interned.categories, category));
      }
      if (name !== undefined) writer.integer(fields.event.nameId, idOf(names.names, fields.interned.names, name));
      for (const flow of flows) writer.fixed64(fields.event.flows, flow);
      for (const [key, detail] of Object.entries(details)) {
        writer.message(fields.event.details, () => {
          writer.integer(fields.detail.nameId, idOf(names.details, fields.interned.detailNames, key));
          if (typeof detail === "string") writer.text(fields.detail.text, detail);
          else if (typeof detail === "boolean") writer.integer(fields.detail.flag, Number(detail));
          else if (Number.isSafeInteger(detail)) writer.integer(fields.detail.integer, detail);
          else writer.double(fields.detail.double, detail);
        });
      }
    });
    if (added.length > 0) writer.message(fields.packet.interned, () => added.forEach((add) => add()));
  }
}

function durationOf({ duration = 0 }: TrackItem): number {
  return duration;
}

/** The size in bytes of the parts into which a file is divided. */
const partByteLength = 2 ** 20;
/** The types of a protocol buffer's fields. */
const wireType = { varint: 0, fixed64: 1, bytes: 2 } as const;
/** The number of bytes that hold the length of a message, whatever the length. */
const lengthByteLength = 4;

/** Writes a protocol buffer. */
class ProtocolWriter {
  #bytes = new Uint8Array(2 * partByteLength);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Returns what was written since the last call. */
  take(): Uint8Array {
    const bytes = this.#bytes.slice(0, this.#length);
    this.#length = 0;
    return bytes;
  }

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
    this.message(field, () => {
      const { written } = new TextEncoder().encodeInto(value, this.#bytes.subarray(this.#length));
      this.#length += written;
    });
  }

  /** Writes a message, whose fields `write` writes. */
  message(field: number, write: () => void): void {
    this.#reserve(20);
    this.#tag(field, wireType.bytes);
    const at = this.#length;
    this.#length += lengthByteLength;
    write();
    let rest = this.#length - at - lengthByteLength;
    for (let index = 0; index < lengthByteLength; index++) {
      const isLast = index === lengthByteLength - 1;
      this.#bytes[at + index] = rest % 128 + (isLast ? 0 : 128);
      rest = Math.floor(rest / 128);
    }
  }

  #tag(field: number, type: number): void {
    this.#varint(field * 8 + type);
  }

  /** Writes an integer of at most 53 bits; a negative one has two's complement of 64 bits. */
  #varint(value: number): void {
    let rest = BigInt.asUintN(64, BigInt(value));
    if (value >= 0) {
      let small = value;
      for (; small >= 128; small = Math.floor(small / 128)) this.#bytes[this.#length++] = small % 128 + 128;
      this.#bytes[this.#length++] = small;
      return;
    }
    for (; rest >= 128n; rest >>= 7n) this.#bytes[this.#length++] = Number(rest & 127n) + 128;
    this.#bytes[this.#length++] = Number(rest);
  }

  #reserve(byteLength: number): void {
    if (this.#length + byteLength <= this.#bytes.length) return;
    const bytes = new Uint8Array(2 * (this.#length + byteLength));
    bytes.set(this.#bytes);
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer);
  }
}
