import type { Driver } from "../../src/driver.ts";
import { CudaError, cudaErrorNumbers } from "../../src/support/errors.ts";

/** A driver that can lose its devices as a GPU does, which does not say what kernel has caused it. */
export interface LosableDriver {
  readonly driver: Driver;
  /** Makes all calls fail from now on. */
  lose(code?: keyof typeof cudaErrorNumbers): void;
}

/** Returns a driver that calls another one until it loses its devices. */
export function losableDriver(driver: Driver): LosableDriver {
  let code: keyof typeof cudaErrorNumbers | undefined;
  const losable = new Proxy(driver, {
    get(_, name: keyof Driver) {
      const value: unknown = driver[name];
      if (typeof value !== "function") return value;
      if (code === undefined || name === "close") return value.bind(driver);
      const number = cudaErrorNumbers[code];
      return () => {
        throw new CudaError(number, name);
      };
    },
  });
  return { driver: losable, lose: (given = "cudaErrorIllegalAddress") => void (code = given) };
}
