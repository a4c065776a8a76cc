/**
 * Element types of arrays in device memory: which types may be copied to and read as each other, and errors for access
 * by index.
 *
 * @module
 */
import { checkArrayType, type TypedArray, type TypedArrayConstructor, whatIs } from "../../support/validation.ts";
import { startStackAbove } from "../../support/printing.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";

/**
 * Returns the class of a typed array, such as "Float32Array", even if the array is an instance of a subclass. Undefined
 * for any other value.
 */
const classOf: (value: unknown) => string | undefined = (() => {
  const { get } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)!;
  return (value) => get!.call(value);
})();

/**
 * Returns the typed array constructor for an array that will be allocated from `data`. For an instance of a subclass,
 * such as Node's Buffer, returns the base class's constructor. Throws a `TypeError` if `data` is not a typed array.
 */
export function typeOfData<T extends TypedArray>(data: T): TypedArrayConstructor<T> {
  const name = classOf(data);
  if (name === undefined) {
    throw new TypeError(`Cannot allocate an array of the elements of ${whatIs(data)}: give a typed array`);
  }
  return (globalThis as unknown as Record<string, TypedArrayConstructor<T>>)[name]!;
}

/** Maps a constructor to the class of its typed arrays. The constructor may be that of a subclass. */
const classes = new WeakMap<TypedArrayConstructor<TypedArray>, string>();
const scratch = new DataView(new ArrayBuffer(8));

function classOfElements(type: TypedArrayConstructor<TypedArray>): string {
  let found = classes.get(type);
  if (found === undefined) classes.set(type, found = classOf(new type(scratch.buffer, 0, 1)) ?? type.name);
  return found;
}

/**
 * Returns whether copying the bytes has the same result as `TypedArray.prototype.set`, which converts each element.
 * True for integers of the same size, whose conversion keeps the bits.
 */
function keepsBits(from: string, to: string): boolean {
  if (from === to) return true;
  // Of the conversions between integers of the same size, only Int8 to Uint8Clamped changes the bits: it clamps
  // negative numbers to 0.
  if (to === "Uint8ClampedArray" && from === "Int8Array") return false;
  const integer = /^(?:Big)?U?[iI]nt(\d+)(?:Clamped)?Array$/;
  const [fromBits, toBits] = [integer.exec(from)?.[1], integer.exec(to)?.[1]];
  return fromBits !== undefined && fromBits === toBits;
}

/**
 * Throws a `TypeError` if `source` is a typed array whose bytes would represent different values as elements of `type`.
 */
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

/**
 * Throws a `TypeError` if the bytes of the source's elements would represent different values as elements of the
 * target's type.
 */
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

/**
 * Throws a `TypeError` if the bytes of the array's elements would represent different values as elements of the type
 * that a read requests.
 */
export function checkReadAs(own: TypedArrayConstructor<TypedArray>, asked: TypedArrayConstructor<TypedArray>): void {
  checkArrayType(asked);
  const [from, to] = [classOfElements(own), classOfElements(asked)];
  // Elements of any type may be read as unsigned integers, to inspect their bits.
  if (keepsBits(from, to) || to.includes("Uint")) return;
  throw new TypeError(
    `Cannot read an array of ${from} elements as ${to}: its bytes would become other values; use toTypedArray, or ` +
      `array.as(${to}) for the bytes as they are`,
  );
}

/** The bits of an element, as 32-bit words. `high` is undefined unless the element has 64 bits. */
export interface ElementBits {
  readonly low: number;
  readonly high: number | undefined;
}

/** Returns the bits of a value as an element of a type. Throws if the type cannot represent the value. */
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
 * The error messages for a class whose elements JavaScript code cannot access by index. `read` and `write` are advice
 * that follows, for example, "Cannot read an element of a HostBuffer by its index:".
 */
interface Advice {
  /**
   * Returns whether an object is an instance of the class. For other objects, accesses do not throw: printing reads the
   * properties of the class's prototype, or of a Proxy.
   */
  readonly isInstance: (object: object) => boolean;
  readonly read: string;
  readonly write: string;
  /** Returns the advice for an object whose memory the host accesses in place; undefined for other objects. */
  readonly inPlace?: (object: object) => string | undefined;
}

/**
 * Adds accessors for index 0 and an iterator to a class, all of which throw, so that `x[0]`, `x[0] = 1`, `for...of`
 * loops and `new Float32Array(x)` fail. Otherwise `x[0]` would be undefined, and the array would contain NaNs.
 */
export function refuseElementAccess(
  constructor: { readonly prototype: object },
  { isInstance, read, write, inPlace }: Advice,
): void {
  function refuse(object: object, what: string, advice: string, accessor: () => unknown): undefined {
    if (!isInstance(object)) return undefined;
    const { name } = object.constructor;
    const refusal = what.replace("$", `a ${name}`);
    throw startStackAbove(new TypeError(`Cannot ${refusal}: ${inPlace?.(object) ?? advice}`), accessor);
  }
  function get(this: object): undefined {
    return refuse(this, "read an element of $ by its index", read, get);
  }
  function set(this: object): void {
    refuse(this, "write an element of $ by its index", write, set);
  }
  function iterator(this: object): undefined {
    return refuse(this, "iterate over $", read, iterator);
  }
  Object.defineProperty(constructor.prototype, "0", { get, set, configurable: true });
  Object.defineProperty(constructor.prototype, Symbol.iterator, { get: iterator, configurable: true });
}

/**
 * Adds an accessor for the property `name`, which a class does not have, so that reading the property of its objects
 * throws. Otherwise the program would get undefined, and the mistake would go unnoticed.
 */
export function refuseProperty(
  constructor: { readonly prototype: object },
  name: string,
  { isInstance, why }: { readonly isInstance: Advice["isInstance"]; readonly why: string },
): void {
  function get(this: object): undefined {
    if (!isInstance(this)) return undefined;
    throw startStackAbove(new TypeError(`Cannot read "${name}" of a ${this.constructor.name}: ${why}`), get);
  }
  // Without a setter, a subclass could not define a property of this name by assignment.
  function set(this: object, value: unknown): void {
    Object.defineProperty(this, name, { value, writable: true, enumerable: true, configurable: true });
  }
  Object.defineProperty(constructor.prototype, name, { get, set, configurable: true });
}
