/**
 * Drivers that override some calls of another driver.
 *
 * @module
 */
import type { Driver } from "./driver.ts";

/** A method of a driver, which must be called with the driver as `this`. */
export type DriverMethod = (...parameters: readonly unknown[]) => unknown;

/**
 * Returns a driver that forwards to another driver, except for some calls.
 *
 * @param calls the calls that replace those of `driver`
 * @param wrap called with each method, including those in `calls`, on first use. Returns the method to call instead. By
 * default, the method is called unchanged
 */
export function intercept(
  driver: Driver,
  calls: Partial<Driver>,
  wrap?: (name: PropertyKey, method: DriverMethod) => DriverMethod,
): Driver {
  // On first use, a property is defined on the layer itself: engines find an own property faster than they call a trap.
  const layer: Driver = Object.create(
    // The proxy's target is an empty object and not `driver`: a trap must return the target's own non-configurable
    // properties unchanged, and a `driver` that is itself a layer may have such properties.
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

/** Returns a driver that cannot be used: every property access throws an error. */
export function refuse(error: () => Error): Driver {
  return new Proxy({} as Driver, {
    get() {
      throw error();
    },
  });
}
