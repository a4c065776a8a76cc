/**
 * Collectives of each kind and type, beside what they must give, computed by the host.
 *
 * @module
 */
import { assert } from "@std/assert";
import {
  type CollectiveOptions,
  type CommunicationType,
  Communicator,
  type CudaDevice,
  type CudaStream,
  type DeviceBuffer,
  type Reduction,
  type TypedArray,
  type TypedArrayConstructor,
} from "../../mod.ts";

/** A type of elements, and how to write and read them. */
export interface ElementType {
  readonly name: string;
  readonly byteLength: number;
  readonly options: CollectiveOptions;
  readonly isInteger: boolean;
  encode(values: readonly number[]): Uint8Array<ArrayBuffer>;
  decode(bytes: Uint8Array<ArrayBuffer>): number[];
  /** A buffer's elements of the type. */
  view(buffer: DeviceBuffer): DeviceBuffer;
}

function typed(type: TypedArrayConstructor<TypedArray>): ElementType {
  const isBig = type.name.startsWith("Big");
  return {
    name: type.name,
    byteLength: type.BYTES_PER_ELEMENT,
    options: {},
    isInteger: !type.name.startsWith("Float"),
    encode(values) {
      const array = new type(new ArrayBuffer(values.length * type.BYTES_PER_ELEMENT));
      values.forEach((value, index) =>
        (array as unknown as (number | bigint)[])[index] = isBig ? BigInt(value) : value
      );
      return new Uint8Array(array.buffer as ArrayBuffer);
    },
    decode: (bytes) => Array.from(new type(bytes.buffer) as ArrayLike<number | bigint>, Number),
    view: (buffer) => buffer.as(type),
  };
}

function named(type: CommunicationType, byteLength: number, decodeOne: (bits: number) => number): ElementType {
  const codes = new Map<number, number>();
  for (let bits = 0; bits < 256 ** byteLength; bits++) {
    const value = decodeOne(bits);
    if (!codes.has(value)) codes.set(value, bits);
  }
  const arrayType = byteLength === 1 ? Uint8Array : Uint16Array;
  return {
    name: type,
    byteLength,
    options: { type },
    isInteger: false,
    encode(values) {
      const bits = values.map((value) => {
        const code = codes.get(value);
        if (code === undefined) throw new Error(`${type} has no ${value}`);
        return code;
      });
      return new Uint8Array(arrayType.from(bits).buffer);
    },
    decode: (bytes) => Array.from(new arrayType(bytes.buffer), decodeOne),
    view: (buffer) => buffer,
  };
}

function smallFloat(exponentBits: number, mantissaBits: number): (bits: number) => number {
  const bias = 2 ** (exponentBits - 1) - 1;
  return (bits) => {
    const sign = bits >> (exponentBits + mantissaBits) ? -1 : 1;
    const exponent = (bits >> mantissaBits) & (2 ** exponentBits - 1);
    const mantissa = (bits & (2 ** mantissaBits - 1)) / 2 ** mantissaBits;
    return sign * (exponent === 0 ? mantissa * 2 ** (1 - bias) : (1 + mantissa) * 2 ** (exponent - bias));
  };
}

/** All types that NCCL and JavaScript share. */
export const elementTypes: readonly ElementType[] = [
  ...[Int8Array, Uint8Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array, Float32Array, Float64Array]
    .map((type) => typed(type as TypedArrayConstructor<TypedArray>)),
  typed(Float16Array as unknown as TypedArrayConstructor<TypedArray>),
  named("bf16", 2, (bits) => new Float32Array(Uint32Array.of(bits * 2 ** 16).buffer)[0]!),
  named("f8e4m3", 1, smallFloat(4, 3)),
  named("f8e5m2", 1, smallFloat(5, 2)),
];

/** All reductions. */
export const reductions: readonly Reduction[] = ["sum", "product", "minimum", "maximum", "average"];

/** An element that a rank gives. Small, so that each type has all sums. */
function valueOf(rank: number, index: number, reduction: Reduction, size: number): number {
  if (reduction === "product") return index % size === rank ? 2 : 1;
  if (reduction === "sum" || reduction === "average") return (rank + index) % 3 === 0 ? 1 : 0;
  return (rank + index) % size;
}

function reduced(index: number, reduction: Reduction, size: number): number {
  const values = Array.from({ length: size }, (_, rank) => valueOf(rank, index, reduction, size));
  switch (reduction) {
    case "sum":
      return values.reduce((sum, value) => sum + value);
    case "average":
      return values.reduce((sum, value) => sum + value) / size;
    case "product":
      return values.reduce((product, value) => product * value);
    case "minimum":
      return Math.min(...values);
    case "maximum":
      return Math.max(...values);
  }
}

/** A rank of this process, its device and a stream of it. */
export interface LocalRank {
  readonly communicator: Communicator;
  readonly device: CudaDevice;
  readonly stream: CudaStream;
}

/** A collective, what each rank gives, and what it gets. */
interface Case {
  readonly name: string;
  readonly type: ElementType;
  /** The elements that a rank gives, and how many it gets. */
  source(rank: number): number[];
  expected(rank: number): number[] | undefined;
  call(own: LocalRank, source: DeviceBuffer, target: DeviceBuffer, options: CollectiveOptions): void;
}

function range(length: number, of: (index: number) => number): number[] {
  return Array.from({ length }, (_, index) => of(index));
}

/** The cases of one type, each with `count` elements. */
function casesOf(type: ElementType, size: number, count: number): Case[] {
  const cases: Case[] = [];
  const average = (value: number) => type.isInteger ? Math.trunc(value) : value;
  for (const reduction of reductions) {
    const give = (rank: number, length: number) => range(length, (index) => valueOf(rank, index, reduction, size));
    const get = (from: number, length: number) =>
      range(length, (index) => average(reduced(from + index, reduction, size)));
    cases.push({
      name: `allReduce ${reduction}`,
      type,
      source: (rank) => give(rank, count),
      expected: () => get(0, count),
      call: ({ communicator }, source, target, options) => communicator.allReduce(source, target, reduction, options),
    }, {
      name: `reduce ${reduction}`,
      type,
      source: (rank) => give(rank, count),
      expected: (rank) => rank === size - 1 ? get(0, count) : undefined,
      call: ({ communicator }, source, target, options) =>
        communicator.reduce(source, target, size - 1, reduction, options),
    }, {
      name: `reduceScatter ${reduction}`,
      type,
      source: (rank) => give(rank, count * size),
      expected: (rank) => get(rank * count, count),
      call: ({ communicator }, source, target, options) =>
        communicator.reduceScatter(source, target, reduction, options),
    });
  }
  const own = (rank: number, index: number) => (rank + index) % 4;
  cases.push({
    name: "broadcast",
    type,
    source: () => [],
    expected: () => range(count, (index) => own(0, index)),
    call: ({ communicator }, _, target, options) => communicator.broadcast(target, 0, options),
  }, {
    name: "allGather",
    type,
    source: (rank) => range(count, (index) => own(rank, index)),
    expected: () => range(count * size, (index) => own(Math.floor(index / count), index % count)),
    call: ({ communicator }, source, target, options) => communicator.allGather(source, target, options),
  }, {
    name: "allToAll",
    type,
    source: (rank) => range(count * size, (index) => own(rank, index)),
    expected: (rank) => range(count * size, (index) => own(Math.floor(index / count), rank * count + index % count)),
    call: ({ communicator }, source, target, options) => communicator.allToAll(source, target, options),
  }, {
    name: "send and receive around a ring",
    type,
    source: (rank) => range(count, (index) => own(rank, index)),
    expected: (rank) => range(count, (index) => own((rank + size - 1) % size, index)),
    call({ communicator }, source, target, options) {
      communicator.send(source, (communicator.rank + 1) % size, options);
      communicator.receive(target, (communicator.rank + size - 1) % size, options);
    },
  });
  return cases;
}

/** Runs collectives of all kinds among all ranks, of which some are of this process. Returns how many were checked. */
export async function checkCollectives(
  ranks: readonly LocalRank[],
  { types = elementTypes, counts }: { types?: readonly ElementType[]; counts: readonly number[] },
): Promise<number> {
  const { size } = ranks[0]!.communicator;
  let checked = 0;
  for (const type of types) {
    for (const count of counts) {
      for (const each of casesOf(type, size, count)) {
        if (each.name.includes("average") && type.name.startsWith("f8") && size % 2 !== 0) continue;
        const buffers = ranks.map(({ communicator: { rank }, device, stream }) => {
          const source = device.allocate(Math.max(1, each.source(rank).length) * type.byteLength);
          const target = device.allocate(Math.max(1, count * size) * type.byteLength);
          target.fill(0x7b, stream);
          source.copyFrom(type.encode(each.source(rank)), stream);
          if (each.name === "broadcast" && rank === 0) target.copyFrom(type.encode(each.expected(0)!), stream);
          return { source, target };
        });
        const part = (buffer: DeviceBuffer, length: number) => type.view(buffer.subarray(0, length * type.byteLength));
        Communicator.group(() => {
          for (const [index, own] of ranks.entries()) {
            const { rank } = own.communicator;
            const { source, target } = buffers[index]!;
            const length = each.expected(rank)?.length ?? count;
            each.call(own, part(source, each.source(rank).length), part(target, length), {
              ...type.options,
              stream: own.stream,
            });
          }
        });
        for (const [index, { communicator: { rank }, stream }] of ranks.entries()) {
          const expected = each.expected(rank);
          const { source, target } = buffers[index]!;
          if (expected !== undefined) {
            const read = await part(target, expected.length).read(Uint8Array, { stream });
            const got = type.decode(read);
            const limit = each.name.includes("average") ? 0.01 : 0;
            const wrong = expected.findIndex((value, index) => !(Math.abs(got[index]! - value) <= limit));
            const what = `${each.name} of ${count} ${type.name}, rank ${rank} of ${size}, element ${wrong}`;
            assert(wrong < 0, `${what}: ${got[wrong]} instead of ${expected[wrong]}`);
          }
          source.free(stream);
          target.free(stream);
        }
        checked++;
      }
    }
  }
  return checked;
}
