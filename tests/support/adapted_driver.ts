import type { Driver } from "../../src/driver.ts";
import { intercept } from "../../src/driver_layers.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { CudaError, cudaErrorNumbers } from "../../src/support/errors.ts";

/** Returns a driver that calls other methods in the place of some of its own. */
export function adaptedDriver(driver: Driver, methods: Partial<Driver>): Driver {
  return intercept(driver, methods);
}

/** Returns a driver that calls a function before each call of another one, or of what takes the place of its methods. */
export function watchedDriver(
  driver: Driver,
  onCall: (name: string, parameters: readonly unknown[]) => void,
  methods: Partial<Driver> = {},
): Driver {
  return intercept(driver, methods, (name, method) => (...parameters) => {
    onCall(String(name), parameters);
    return Reflect.apply(method, driver, parameters);
  });
}

/** Returns a `Cuda` object with a driver that calls other methods in the place of some of its own. */
export function adaptedCuda(driver: Driver, methods: Partial<Driver>): Cuda {
  return new Cuda(new Session(adaptedDriver(driver, methods)));
}

/** Returns the driver of an installation before CUDA 12.5, which has no `cuCtxRecordEvent`. */
export function withoutContextEvents(driver: Driver): Driver {
  return adaptedDriver(driver, {
    hasContextEvents: false,
    ctxRecordEvent() {
      throw new CudaError(cudaErrorNumbers.cudaErrorCallRequiresNewerDriver, "cuCtxRecordEvent");
    },
  });
}

/** Gives an object another property of its own, until that is disposed of. */
export function replaceProperty(object: object, name: string, value: unknown): Disposable {
  const own = Object.getOwnPropertyDescriptor(object, name);
  Object.defineProperty(object, name, { value, writable: true, configurable: true });
  return {
    [Symbol.dispose]() {
      if (own === undefined) Reflect.deleteProperty(object, name);
      else Object.defineProperty(object, name, own);
    },
  };
}
