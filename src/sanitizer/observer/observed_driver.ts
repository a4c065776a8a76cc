/**
 * A driver whose calls are observed: which work comes before which, and what it accesses.
 *
 * @module
 */
import type { Driver } from "../../driver.ts";
import { errors, frameCount } from "../reporting/call_sites.ts";
import type { Reports } from "../reporting/reports.ts";
import type { Observer } from "./observer.ts";

/**
 * Returns a driver that does what another one does, and lets an observer look at the calls. Reports are delivered when a
 * call has returned.
 */
export function observedDriver(driver: Driver, observer: Observer, reports: Reports): Driver {
  const calls = observer.calls();
  const { work } = observer;
  const methodOf = (target: Driver, value: CallableFunction) => (...args: unknown[]) => {
    try {
      return Reflect.apply(value, target, args);
    } finally {
      reports.deliver();
    }
  };
  // As far out as can be, and not by a function of its own: each frame of the stack takes time.
  const methodWithSiteOf = (target: Driver, value: CallableFunction) => (...args: unknown[]) => {
    const limit = errors.stackTraceLimit;
    if (!(limit > frameCount)) errors.stackTraceLimit = frameCount;
    work.site = new Error();
    errors.stackTraceLimit = limit;
    try {
      return Reflect.apply(value, target, args);
    } finally {
      reports.deliver();
    }
  };
  // Whatever was used once is a property of its own, which engines find faster than they call a trap.
  const observed: Driver = Object.create(
    new Proxy(driver, {
      get(target, name) {
        // The other driver's methods need it as `this`.
        const value = calls[name as keyof Driver] ?? Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        const method = observer.hasSite(name) ? methodWithSiteOf(target, value) : methodOf(target, value);
        Object.defineProperty(observed, name, { value: method });
        return method;
      },
    }),
  );
  return observed;
}
