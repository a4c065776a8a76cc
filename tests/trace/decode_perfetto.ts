/**
 * Decodes what a test looks at in a trace of Perfetto. Shares no code with the encoder: it knows the wire format of
 * protocol buffers, and the numbers of the fields from Perfetto's definition of `TracePacket`.
 *
 * @module
 */

/** The fields of a message: their values by number, in their order. */
type Fields = ReadonlyMap<number, readonly (bigint | Uint8Array)[]>;

/** An event of a track. */
export interface DecodedEvent {
  readonly type: "begin" | "end" | "instant" | "counter";
  readonly time: bigint;
  /** The names of its track and those above, from the process on. */
  readonly track: readonly string[];
  readonly name: string | undefined;
  readonly flows: readonly bigint[];
}

function fieldsOf(bytes: Uint8Array): Fields {
  const fields = new Map<number, (bigint | Uint8Array)[]>();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n;; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined || shift > 63n) throw new Error("The varint does not end");
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(varint());
    let value: bigint | Uint8Array;
    if (tag % 8 === 0) value = varint();
    else if (tag % 8 === 1) {
      value = view.getBigUint64(at, true);
      at += 8;
    } else if (tag % 8 === 2) {
      const length = Number(varint());
      value = bytes.subarray(at, at + length);
      if (value.length !== length) throw new Error("The message is longer than what it is in");
      at += length;
    } else throw new Error(`There is no wire type ${tag % 8} here`);
    const known = fields.get(Math.floor(tag / 8));
    if (known === undefined) fields.set(Math.floor(tag / 8), [value]);
    else known.push(value);
  }
  return fields;
}

const number = (fields: Fields, field: number): bigint | undefined => fields.get(field)?.[0] as bigint | undefined;
const message = (fields: Fields, field: number): Fields | undefined => {
  const bytes = fields.get(field)?.[0];
  return bytes instanceof Uint8Array ? fieldsOf(bytes) : undefined;
};
const text = (fields: Fields, field: number): string | undefined => {
  const bytes = fields.get(field)?.[0];
  return bytes instanceof Uint8Array ? new TextDecoder("utf-8", { fatal: true }).decode(bytes) : undefined;
};

/** Decodes the events of a trace. Throws if a track or a name is not defined before it is used. */
export function decodePerfetto(bytes: Uint8Array): DecodedEvent[] {
  const tracks = new Map<bigint, readonly string[]>();
  const names = new Map<bigint, string>();
  const events: DecodedEvent[] = [];
  for (const packetBytes of fieldsOf(bytes).get(1) ?? []) {
    const packet = fieldsOf(packetBytes as Uint8Array);
    const track = message(packet, 60);
    if (track !== undefined) {
      const process = message(track, 3);
      const parent = number(track, 5);
      const own = process === undefined ? text(track, 2) : `${text(process, 6)} ${number(process, 1)}`;
      const above = parent === undefined ? [] : tracks.get(parent);
      if (own === undefined || above === undefined) throw new Error("A track has no name, or none above it");
      tracks.set(number(track, 1)!, [...above, own]);
    }
    const interned = message(packet, 12);
    for (const name of interned?.get(2) ?? []) {
      const fields = fieldsOf(name as Uint8Array);
      names.set(number(fields, 1)!, text(fields, 2)!);
    }
    const event = message(packet, 11);
    if (event === undefined) continue;
    const type = (["begin", "end", "instant", "counter"] as const)[Number(number(event, 9)) - 1];
    const of = tracks.get(number(event, 11)!);
    const id = number(event, 10);
    const name = id === undefined ? undefined : names.get(id);
    if (type === undefined || of === undefined || id !== undefined && name === undefined) {
      throw new Error("An event has no type, or names a track or a name that was not defined");
    }
    events.push({ type, time: number(packet, 8)!, track: of, name, flows: (event.get(47) ?? []) as bigint[] });
  }
  return events;
}
