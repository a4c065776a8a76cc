/**
 * What a program does with memory that is no typed array as if it were one.
 *
 * @module
 */
import { startStackAbove } from "../../support/printing.ts";

/** Of which objects elements cannot be accessed, and why, as it follows "Cannot read an element of a HostBuffer:". */
interface Advice {
  /** Whether a value is an object of the class, and no prototype or Proxy, whose properties whoever prints it reads. */
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
