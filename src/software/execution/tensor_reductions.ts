/**
 * Reductions of elements into global memory by `cp.reduce.async.bulk.tensor`. Each element is updated atomically, as the
 * instruction `red` does.
 *
 * @module
 */
import { type tensorOperations, tensorTypes } from "../abi/tensor_map.ts";

/** A reduction of adjacent elements. */
interface ElementReduction {
  /** The elements to reduce. Must begin at the start of their buffer, or at a multiple of their size. */
  readonly part: Uint8Array;
  /** The index of the element type in `tensorTypes`. */
  readonly type: number;
  readonly operation: typeof tensorOperations[number];
}

type Words = Uint16Array | Uint32Array | BigUint64Array;

const quietNaN16 = 0x7fff;
const quietNaN32 = 0x7fff_ffff;

/** Updates the elements at an offset in memory by those of `part`. */
export function reduceElements(bytes: Uint8Array, offset: number, { part, type, operation }: ElementReduction): void {
  const { name, bytes: elementBytes } = tensorTypes[type]!;
  const count = part.length / elementBytes;
  const updated = updateOf(name, operation);
  const source = new DataView(part.buffer, part.byteOffset, part.byteLength);
  if (elementBytes === 8) {
    const words = new BigUint64Array(bytes.buffer, bytes.byteOffset + offset, count);
    for (let index = 0; index < count; index++) {
      const added = source.getBigUint64(8 * index, true);
      replace(words, index, (old) => updated(old as bigint, added));
    }
    return;
  }
  const words: Words = elementBytes === 4
    ? new Uint32Array(bytes.buffer, bytes.byteOffset + offset, count)
    : new Uint16Array(bytes.buffer, bytes.byteOffset + offset, count);
  for (let index = 0; index < count; index++) {
    const added = elementBytes === 4 ? source.getUint32(4 * index, true) : source.getUint16(2 * index, true);
    replace(words, index, (old) => updated(old as number, added));
  }
}

/** Replaces an element by its update, again until no other thread has changed the element meanwhile. */
function replace<Value extends number | bigint>(words: Words, index: number, updated: (old: Value) => Value): void {
  const array = words as unknown as Uint32Array;
  for (let old = Atomics.load(array, index);;) {
    const seen = Atomics.compareExchange(array, index, old, updated(old as Value) as number);
    if (seen === old) return;
    old = seen;
  }
}

type Update = <Value extends number | bigint>(old: Value, added: Value) => Value;

/** Returns the function that computes the bits of an element from its old ones and those to reduce. */
function updateOf(type: string, operation: ElementReduction["operation"]): Update {
  if (type === "f16" || type === "bf16") {
    return (type === "f16" ? halfUpdate : brainUpdate)(operation) as unknown as Update;
  }
  if (type === "f64") return doubleSum as unknown as Update;
  if (type.endsWith("ftz")) return flushedSum as unknown as Update;
  if (type.includes("f32")) return singleSum as unknown as Update;
  const bits = type.endsWith("64") ? 64 : 32;
  const isSigned = type.startsWith("s");
  return ((old: number | bigint, added: number | bigint) => {
    const updated = integerUpdate(operation, { old: BigInt(old), added: BigInt(added), bits, isSigned });
    return typeof old === "bigint" ? updated : Number(updated);
  }) as Update;
}

function integerUpdate(
  operation: ElementReduction["operation"],
  { old, added, bits, isSigned }: { old: bigint; added: bigint; bits: number; isSigned: boolean },
): bigint {
  const isLess = isSigned ? BigInt.asIntN(bits, old) < BigInt.asIntN(bits, added) : old < added;
  switch (operation) {
    case "add":
      return BigInt.asUintN(bits, old + added);
    case "min":
      return isLess ? old : added;
    case "max":
      return isLess ? added : old;
    case "inc":
      return old >= added ? 0n : old + 1n;
    case "dec":
      return old === 0n || old > added ? added : old - 1n;
    case "and":
      return old & added;
    case "or":
      return old | added;
    default:
      return old ^ added;
  }
}

const scratch = new DataView(new ArrayBuffer(8));

function singleSum(old: number, added: number): number {
  return bitsOf(singleOf(old) + singleOf(added));
}

/** Returns the sum of numbers of which subnormal ones are zeros. */
function flushedSum(old: number, added: number): number {
  return bitsOf(flushed(Math.fround(flushed(singleOf(old)) + flushed(singleOf(added)))));
}

function bitsOf(sum: number): number {
  if (Number.isNaN(sum)) return quietNaN32;
  scratch.setFloat32(0, sum);
  return scratch.getUint32(0);
}

function singleOf(bits: number): number {
  scratch.setUint32(0, bits);
  return scratch.getFloat32(0);
}

/** Returns a number, or the zero of its sign if it is subnormal in 32 bits. */
function flushed(number: number): number {
  return Math.abs(number) < 2 ** -126 ? number * 0 : number;
}

function doubleSum(old: bigint, added: bigint): bigint {
  scratch.setBigUint64(0, old);
  const first = scratch.getFloat64(0);
  scratch.setBigUint64(0, added);
  const second = scratch.getFloat64(0);
  if (Number.isNaN(second)) return added;
  if (Number.isNaN(first)) return old;
  const sum = first + second;
  if (Number.isNaN(sum)) return 0x7fff_ffff_ffff_ffffn;
  scratch.setFloat64(0, sum);
  return scratch.getBigUint64(0);
}

function halfUpdate(operation: ElementReduction["operation"]): (old: number, added: number) => number {
  return floatUpdate(operation, {
    decode(bits) {
      scratch.setUint16(0, bits);
      return scratch.getFloat16(0);
    },
    encode(number) {
      scratch.setFloat16(0, number);
      return scratch.getUint16(0);
    },
  });
}

function brainUpdate(operation: ElementReduction["operation"]): (old: number, added: number) => number {
  return floatUpdate(operation, {
    decode: (bits) => singleOf(bits * 2 ** 16),
    encode(number) {
      // The sum is first rounded to 32 bits, which has no effect on the correctly rounded one.
      scratch.setFloat32(0, number);
      const bits = scratch.getUint32(0);
      return (bits + 0x7fff + (bits >>> 16 & 1)) / 2 ** 16 & 0xffff;
    },
  });
}

function floatUpdate(
  operation: ElementReduction["operation"],
  { decode, encode }: { decode: (bits: number) => number; encode: (number: number) => number },
): (old: number, added: number) => number {
  return (old, added) => {
    const [first, second] = [decode(old), decode(added)];
    if (operation === "add") {
      const sum = first + second;
      return Number.isNaN(sum) ? quietNaN16 : encode(sum);
    }
    if (Number.isNaN(first)) return Number.isNaN(second) ? quietNaN16 : added;
    if (Number.isNaN(second)) return old;
    return encode(operation === "min" ? Math.min(first, second) : Math.max(first, second));
  };
}
