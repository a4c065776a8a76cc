/**
 * Elements of typed arrays in device memory: which types and ranges may be copied and read, and why there is no access
 * by index.
 *
 * @module
 */
import { checkArrayType, type TypedArray, type TypedArrayConstructor, whatIs } from "../../support/validation.ts";
import { startStackAbove } from "../../support/printing.ts";

/** The class of a typed array, such as "Float32Array"; undefined for any other value. Subclasses have their base's. */
const classOf: (value: unknown) => string | undefined = (() => {
  const { get } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)!;
  return (value) => get!.call(value);
})();

/** By constructor, which may be that of a subclass. */
const classes = new WeakMap<TypedArrayConstructor<TypedArray>, string>();
const scratch = new DataView(new ArrayBuffer(8));

function classOfElements(type: TypedArrayConstructor<TypedArray>): string {
  let found = classes.get(type);
  if (found === undefined) classes.set(type, found = classOf(new type(scratch.buffer, 0, 1)) ?? type.name);
  return found;
}

/**
 * Whether a copy of bytes has the result that a conversion of each element has, as `TypedArray.prototype.set` makes it.
 * That is so among integers of one size, which convert by keeping their bits.
 */
function keepsBits(from: string, to: string): boolean {
  if (from === to) return true;
  // Of all conversions between integers of one size, only this one clamps.
  if (to === "Uint8ClampedArray" && from === "Int8Array") return false;
  const integer = /^(?:Big)?U?[iI]nt(\d+)(?:Clamped)?Array$/;
  const [fromBits, toBits] = [integer.exec(from)?.[1], integer.exec(to)?.[1]];
  return fromBits !== undefined && fromBits === toBits;
}

/** Throws a `TypeError` if `source` is a typed array whose bytes would be other values as elements of `type`. */
export function checkCopyFromView(source: unknown, type: TypedArrayConstructor<TypedArray>): void {
  const [from, to] = [classOf(source), classOfElements(type)];
  if (from === undefined || keepsBits(from, to)) return;
  throw new TypeError(
    `Cannot copy from ${
      whatIs(source)
    } to an array of ${to} elements: its bytes would become other values; convert it to a ` +
      `${to} first, or copy the bytes as they are to array.as(${from})`,
  );
}

/** Throws a `TypeError` if elements of one type would be other values as elements of the other. */
export function checkCopyBetween(
  source: TypedArrayConstructor<TypedArray>,
  target: TypedArrayConstructor<TypedArray>,
): void {
  if (source === target) return;
  const [from, to] = [classOfElements(source), classOfElements(target)];
  if (keepsBits(from, to)) return;
  throw new TypeError(
    `Cannot copy an array of ${from} elements to one of ${to} elements: its bytes would become other values; convert ` +
      `the elements in a kernel, or copy the bytes as they are to target.as(${from})`,
  );
}

/** Throws a `TypeError` if elements of a type would be other values as elements of the type that a read asks for. */
export function checkReadAs(own: TypedArrayConstructor<TypedArray>, asked: TypedArrayConstructor<TypedArray>): void {
  checkArrayType(asked);
  const [from, to] = [classOfElements(own), classOfElements(asked)];
  // Unsigned integers show the bits.
  if (keepsBits(from, to) || to.includes("Uint")) return;
  throw new TypeError(
    `Cannot read an array of ${from} elements as ${to}: its bytes would become other values; use toTypedArray, or ` +
      `array.as(${to}) for the bytes as they are`,
  );
}

/** The bits of an element, as words of 32 bits. `high` is undefined unless it has 64. */
export interface ElementBits {
  readonly low: number;
  readonly high: number | undefined;
}

/** The bits of a value as an element. Throws if the type cannot represent it. */
export function elementBits(type: TypedArrayConstructor<TypedArray>, value: number | bigint): ElementBits {
  const view = new type(scratch.buffer as ArrayBuffer, 0, 1);
  const name = classOfElements(type);
  const isBigInt = name.startsWith("Big");
  if (isBigInt ? typeof value !== "bigint" : typeof value !== "number") {
    const given = typeof value === "bigint" || typeof value === "number"
      ? `the ${typeof value} ${value}`
      : whatIs(value);
    const needed = isBigInt
      ? `a bigint${typeof value === "number" ? `, such as ${Math.trunc(value) || 0}n` : ""}`
      : "a number";
    throw new TypeError(`Cannot fill an array of ${name} elements with ${given}: give ${needed}`);
  }
  view[0] = value as never;
  const isFloat = name.startsWith("Float");
  const isRepresented = isFloat ? Number.isFinite(view[0]) || !Number.isFinite(value) : view[0] === value;
  if (!isRepresented) {
    throw new RangeError(`Cannot fill an array of ${name} elements with ${value}: ${rangeOf(name)}`);
  }
  switch (type.BYTES_PER_ELEMENT) {
    case 1:
      return { low: scratch.getUint8(0), high: undefined };
    case 2:
      return { low: scratch.getUint16(0, true), high: undefined };
    case 4:
      return { low: scratch.getUint32(0, true), high: undefined };
    default:
      return { low: scratch.getUint32(0, true), high: scratch.getUint32(4, true) };
  }
}

function rangeOf(name: string): string {
  const bits = Number(/\d+/.exec(name));
  if (name.startsWith("Float")) return `it is too large for ${bits} bits`;
  const isSigned = !name.includes("Uint");
  const [minimum, maximum] = isSigned
    ? [-(2n ** BigInt(bits - 1)), 2n ** BigInt(bits - 1) - 1n]
    : [0n, 2n ** BigInt(bits) - 1n];
  return `an element is a whole number from ${minimum} to ${maximum}`;
}

/**
 * Objects whose elements cannot be accessed, with the reason that follows "Cannot read an element of a HostBuffer:".
 */
interface Advice {
  /** Whether a value is an object of the class, and not a prototype or a Proxy, whose properties a printer reads. */
  readonly isInstance: (object: object) => boolean;
  readonly read: string;
  readonly write: string;
}

/**
 * Makes the first element and the iterator of a class's objects throw, so that `x[0]`, `x[0] = 1`, loops and
 * `new Float32Array(x)` are refused. Without that, `x[0]` is undefined and the array has NaNs.
 */
export function refuseElementAccess(
  constructor: { readonly prototype: object },
  { isInstance, read, write }: Advice,
): void {
  function refuse(object: object, what: string, accessor: () => unknown): undefined {
    if (!isInstance(object)) return undefined;
    const { name } = object.constructor;
    const refusal = what.replace("$", `a ${name}`);
    throw startStackAbove(new TypeError(`Cannot ${refusal}`), accessor);
  }
  function get(this: object): undefined {
    return refuse(this, `read an element of $ by its index: ${read}`, get);
  }
  function set(this: object): void {
    refuse(this, `write an element of $ by its index: ${write}`, set);
  }
  function iterator(this: object): undefined {
    return refuse(this, `iterate over $: ${read}`, iterator);
  }
  Object.defineProperty(constructor.prototype, "0", { get, set, configurable: true });
  Object.defineProperty(constructor.prototype, Symbol.iterator, { get: iterator, configurable: true });
}

/** Makes a property that a class's objects do not have throw when it is read, where undefined would go unnoticed. */
export function refuseProperty(
  constructor: { readonly prototype: object },
  name: string,
  { isInstance, why }: { readonly isInstance: Advice["isInstance"]; readonly why: string },
): void {
  function get(this: object): undefined {
    if (!isInstance(this)) return undefined;
    throw startStackAbove(new TypeError(`Cannot read "${name}" of a ${this.constructor.name}: ${why}`), get);
  }
  // Without a setter, a subclass could not assign its own.
  function set(this: object, value: unknown): void {
    Object.defineProperty(this, name, { value, writable: true, enumerable: true, configurable: true });
  }
  Object.defineProperty(constructor.prototype, name, { get, set, configurable: true });
}
