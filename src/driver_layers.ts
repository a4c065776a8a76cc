/**
 * Drivers that make some calls of another driver in their own way.
 *
 * @module
 */
import type { Driver } from "./driver.ts";

/** A method of a driver, which needs the driver as `this`. */
export type DriverMethod = (...parameters: readonly unknown[]) => unknown;

/**
 * Returns a driver that does what another one does, but for some calls.
 *
 * @param calls the calls to make instead of the driver's own
 * @param wrap gets each method when it is first used, those of `calls` too, and returns the method to call instead; by
 * default, the same one
 */
export function intercept(
  driver: Driver,
  calls: Partial<Driver>,
  wrap?: (name: PropertyKey, method: DriverMethod) => DriverMethod,
): Driver {
  // Whatever was used once is a property of its own, which engines find faster than they call a trap.
  const layer: Driver = Object.create(
    // Not a proxy of the driver: if that is a layer itself, its properties are fixed, and a trap must return them as they are.
    new Proxy({}, {
      get(_, name) {
        const value: unknown = calls[name as keyof Driver] ?? Reflect.get(driver, name, driver);
        if (typeof value !== "function") return value;
        const method = wrap === undefined ? value.bind(driver) : wrap(name, value as DriverMethod);
        Object.defineProperty(layer, name, { value: method, writable: true, configurable: true });
        return method;
      },
    }),
  );
  return layer;
}

/** Returns a driver that cannot be used: whatever is asked of it throws an error. */
export function refuse(error: () => Error): Driver {
  return new Proxy({} as Driver, {
    get() {
      throw error();
    },
  });
}
