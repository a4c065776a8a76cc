/**
 * Refusals of properties that objects do not have. JavaScript returns undefined for such a property, and adds it if it is
 * set: nothing says that the name is mistyped. The refusals are inherited, so that they cost the objects nothing.
 *
 * @module
 */
import { startStackAbove } from "./call_stack.ts";
import { didYouMean } from "./nearest_name.ts";

/** What `refuseNewProperties` knows of a class. */
export interface KnownProperties {
  readonly name: string;
  /** The properties that the constructor adds: a compiler that declares no fields would otherwise have them refused. */
  readonly fields: readonly string[];
  /** What to do instead of setting a property, by its name. */
  readonly instead?: Readonly<Record<string, string>>;
}

/**
 * Makes the objects of a class refuse to get new properties, with the nearest name. Properties that exist are found
 * before the refusal, and methods can be replaced.
 */
export function refuseNewProperties(
  constructor: { readonly prototype: object },
  { name, fields, instead = {} }: KnownProperties,
): void {
  const { prototype } = constructor;
  function set(target: object, property: string | symbol, value: unknown, receiver: unknown): boolean {
    if (typeof property === "symbol" || property in target || fields.includes(property)) {
      return Reflect.set(target, property, value, receiver);
    }
    const why = Object.hasOwn(instead, property)
      ? instead[property]
      : `there is no such property${didYouMean(property, [...Object.getOwnPropertyNames(prototype), ...fields])}`;
    throw startStackAbove(new TypeError(`Cannot set "${property}" of a ${name}: ${why}`), set);
  }
  Object.setPrototypeOf(prototype, new Proxy(Object.create(Object.getPrototypeOf(prototype)), { set }));
}

/** Says what to do instead of setting a property that only has a getter, which the runtime refuses without advice. */
export function refuseToReplace(constructor: { readonly prototype: object }, property: string, advice: string): void {
  const { get } = Object.getOwnPropertyDescriptor(constructor.prototype, property)!;
  function set(): never {
    throw startStackAbove(new TypeError(`Cannot replace ${property}: ${advice}`), set);
  }
  Object.defineProperty(constructor.prototype, property, { get: get!, set, configurable: true });
}
