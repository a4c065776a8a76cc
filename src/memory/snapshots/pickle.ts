/** A value that can be pickled. */
export type Picklable =
  | null
  | boolean
  | number
  | string
  | readonly Picklable[]
  | { readonly [key: string]: Picklable };

/** Opcodes of the protocol, by the names that Python's module `pickletools` has for them. */
const opcode = {
  proto: 0x80,
  mark: 0x28,
  stop: 0x2e,
  none: 0x4e,
  newTrue: 0x88,
  newFalse: 0x89,
  binInt: 0x4a,
  long1: 0x8a,
  binFloat: 0x47,
  binUnicode: 0x58,
  emptyList: 0x5d,
  appends: 0x65,
  emptyDict: 0x7d,
  setItems: 0x75,
} as const;
const protocol = 2;
/** The number of elements that are appended at once: the viewer of PyTorch passes them as arguments of a function. */
const batch = 1000;

/**
 * Encodes a value as Python's module `pickle` does, with protocol 2, which needs nothing to be imported when it is
 * loaded.
 */
export function pickle(value: Picklable): Uint8Array<ArrayBuffer> {
  let bytes = new Uint8Array(4096);
  let view = new DataView(bytes.buffer);
  let length = 0;
  const reserve = (count: number): void => {
    if (length + count <= bytes.length) return;
    const larger = new Uint8Array(2 * (length + count));
    larger.set(bytes);
    bytes = larger;
    view = new DataView(bytes.buffer);
  };
  const byte = (value: number): void => {
    reserve(1);
    bytes[length++] = value;
  };
  const writeNumber = (value: number): void => {
    reserve(10);
    if (!Number.isSafeInteger(value)) {
      byte(opcode.binFloat);
      view.setFloat64(length, value);
      length += 8;
    } else if (value === (value | 0)) {
      byte(opcode.binInt);
      view.setInt32(length, value, true);
      length += 4;
    } else {
      byte(opcode.long1);
      byte(8);
      view.setBigInt64(length, BigInt(value), true);
      length += 8;
    }
  };
  const writeString = (value: string): void => {
    const encoded = new TextEncoder().encode(value);
    reserve(5 + encoded.length);
    byte(opcode.binUnicode);
    view.setUint32(length, encoded.length, true);
    bytes.set(encoded, length + 4);
    length += 4 + encoded.length;
  };
  const write = (value: Picklable): void => {
    if (value === null) byte(opcode.none);
    else if (typeof value === "boolean") byte(value ? opcode.newTrue : opcode.newFalse);
    else if (typeof value === "number") writeNumber(value);
    else if (typeof value === "string") writeString(value);
    else if (Array.isArray(value)) {
      byte(opcode.emptyList);
      for (let begin = 0; begin < value.length; begin += batch) {
        byte(opcode.mark);
        for (const element of value.slice(begin, begin + batch)) write(element);
        byte(opcode.appends);
      }
    } else {
      byte(opcode.emptyDict);
      byte(opcode.mark);
      for (const [key, element] of Object.entries(value)) {
        writeString(key);
        write(element);
      }
      byte(opcode.setItems);
    }
  };
  byte(opcode.proto);
  byte(protocol);
  write(value);
  byte(opcode.stop);
  return bytes.slice(0, length);
}
