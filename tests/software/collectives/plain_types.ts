/**
 * A reference implementation of the element types, one value at a time, for comparison with the software device's.
 *
 * @module
 */
import { dataType, reductionOperation } from "../../../src/collective_library.ts";

/** A value of any type. */
export type Value = number | bigint;

/** The arithmetic and the byte format of a type. */
export interface PlainType {
  readonly name: keyof typeof dataType;
  readonly number: number;
  readonly byteLength: number;
  /** The value of the type that is nearest to the result of arithmetic. */
  round(value: Value): Value;
  read(view: DataView, at: number): Value;
  write(view: DataView, at: number, value: Value): void;
}

function integer(name: PlainType["name"], bits: number, isSigned: boolean): PlainType {
  const round = (value: Value): bigint => {
    const whole = BigInt(value);
    return isSigned ? BigInt.asIntN(bits, whole) : BigInt.asUintN(bits, whole);
  };
  return {
    name,
    number: dataType[name],
    byteLength: bits / 8,
    round,
    read: (view, at) => {
      let value = 0n;
      for (let byte = bits / 8; byte-- > 0;) value = value << 8n | BigInt(view.getUint8(at + byte));
      return round(value);
    },
    write: (view, at, value) => {
      for (let byte = 0; byte < bits / 8; byte++) {
        view.setUint8(at + byte, Number(BigInt.asUintN(8, BigInt(value) >> BigInt(8 * byte))));
      }
    },
  };
}

/** A float type by the list of all its values, composed of sign, exponent and mantissa. */
function smallFloat(
  name: PlainType["name"],
  { exponentBits, mantissaBits, hasInfinity, saturates }: {
    exponentBits: number;
    mantissaBits: number;
    hasInfinity: boolean;
    saturates: boolean;
  },
): PlainType {
  const bias = 2 ** (exponentBits - 1) - 1, topExponent = 2 ** exponentBits - 1, steps = 2 ** mantissaBits;
  const half = 2 ** (exponentBits + mantissaBits);
  const valueOf = (code: number): number => {
    const exponent = Math.floor(code / steps), mantissa = code % steps;
    if (exponent === 0) return mantissa / steps * 2 ** (1 - bias);
    if (exponent === topExponent && hasInfinity) return mantissa === 0 ? Infinity : NaN;
    if (exponent === topExponent && mantissa === steps - 1) return NaN;
    return (1 + mantissa / steps) * 2 ** (exponent - bias);
  };
  const values = Array.from({ length: half }, (_, code) => valueOf(code));
  const finite = values.filter((value) => Number.isFinite(value));
  const largest = finite.at(-1)!;
  /** The code of the nearest value, by bisection; of the even one if two are equally near. */
  const codeOf = (magnitude: number): number => {
    if (magnitude === Infinity) return saturates && !hasInfinity ? finite.length - 1 : values.indexOf(Infinity);
    if (magnitude >= largest) {
      const isBeyond = magnitude >= largest + (largest - finite.at(-2)!) / 2;
      return isBeyond && !saturates ? values.indexOf(Infinity) : finite.length - 1;
    }
    let low = 0, high = finite.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (finite[middle]! <= magnitude) low = middle;
      else high = middle;
    }
    const toLow = magnitude - finite[low]!, toHigh = finite[high]! - magnitude;
    return toLow < toHigh || (toLow === toHigh && low % 2 === 0) ? low : high;
  };
  const isNegative = (value: number): boolean => value < 0 || Object.is(value, -0);
  return {
    name,
    number: dataType[name],
    byteLength: (1 + exponentBits + mantissaBits) / 8,
    round: (value) => {
      const single = Math.fround(Number(value));
      if (Number.isNaN(single)) return NaN;
      const magnitude = Math.min(Math.abs(single), saturates ? largest : Infinity);
      return (isNegative(single) ? -1 : 1) * values[codeOf(magnitude)]!;
    },
    read: (view, at) => {
      const code = half === 128 ? view.getUint8(at) : view.getUint16(at, true);
      return (code >= half ? -1 : 1) * values[code % half]!;
    },
    write: (view, at, value) => {
      const number = Number(value);
      const code = Number.isNaN(number) ? half - 1 : (isNegative(number) ? half : 0) + codeOf(Math.abs(number));
      if (half === 128) view.setUint8(at, code);
      else view.setUint16(at, code, true);
    },
  };
}

/** All types. */
export const plainTypes: readonly PlainType[] = [
  integer("int8", 8, true),
  integer("uint8", 8, false),
  integer("int32", 32, true),
  integer("uint32", 32, false),
  integer("int64", 64, true),
  integer("uint64", 64, false),
  smallFloat("float16", { exponentBits: 5, mantissaBits: 10, hasInfinity: true, saturates: false }),
  {
    name: "float32",
    number: dataType.float32,
    byteLength: 4,
    round: (value) => Math.fround(Number(value)),
    read: (view, at) => view.getFloat32(at, true),
    write: (view, at, value) => view.setFloat32(at, Number(value), true),
  },
  {
    name: "float64",
    number: dataType.float64,
    byteLength: 8,
    round: (value) => value,
    read: (view, at) => view.getFloat64(at, true),
    write: (view, at, value) => view.setFloat64(at, Number(value), true),
  },
  smallFloat("bfloat16", { exponentBits: 8, mantissaBits: 7, hasInfinity: true, saturates: false }),
  smallFloat("float8e4m3", { exponentBits: 4, mantissaBits: 3, hasInfinity: false, saturates: true }),
  smallFloat("float8e5m2", { exponentBits: 5, mantissaBits: 2, hasInfinity: true, saturates: true }),
];

/** The values in bytes. */
export function valuesOf(type: PlainType, bytes: Uint8Array): Value[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from(
    { length: bytes.byteLength / type.byteLength },
    (_, index) => type.read(view, index * type.byteLength),
  );
}

/** The reduction of the values of ranks, in their order. */
export function reduced(type: PlainType, operation: number, values: readonly Value[]): Value {
  const { average, maximum, minimum } = reductionOperation;
  const isChoice = operation === maximum || operation === minimum;
  const result = values.reduce((one, other) => {
    const value = combined(operation, one, other);
    return isChoice ? value : type.round(value);
  });
  if (operation !== average) return result;
  // A bigint's quotient is rounded toward zero.
  return type.round(typeof result === "bigint" ? result / BigInt(values.length) : result / values.length);
}

function combined(operation: number, one: Value, other: Value): Value {
  const { maximum, minimum, product } = reductionOperation;
  if (operation === maximum || operation === minimum) {
    if (Number.isNaN(one)) return other;
    if (Number.isNaN(other)) return one;
    if (one === other) return Object.is(one, -0) === (operation === minimum) ? one : other;
    return (one > other) === (operation === maximum) ? one : other;
  }
  const [first, second] = [one, other] as [number, number];
  return operation === product ? first * second : first + second;
}
