import type { Driver } from "./driver.ts";
import { Staging } from "./staging.ts";

/** What all objects of one `Cuda` share. */
export class Session {
  /** The driver; once the session has ended, one whose every method throws a `ReferenceError`. */
  driver: Driver;
  /** Page-locked memory that copies to pageable memory go through. */
  readonly staging: Staging;
  /** Whether pools remember where each buffer was allocated. */
  readonly debug: boolean;

  constructor(driver: Driver, { debug = false }: { debug?: boolean } = {}) {
    this.driver = driver;
    this.staging = new Staging(driver);
    this.debug = debug;
  }

  get hasEnded(): boolean {
    return this.driver === endedDriver;
  }

  /** Gives back what the session itself holds. */
  end(): void {
    if (this.hasEnded) return;
    const { driver } = this;
    this.driver = endedDriver;
    try {
      this.staging.close();
    } finally {
      driver.close();
    }
  }
}

const endedDriver = new Proxy({} as Driver, {
  get(_, name) {
    throw new ReferenceError(`Cannot call ${String(name)}: the Cuda object was disposed`);
  },
});
