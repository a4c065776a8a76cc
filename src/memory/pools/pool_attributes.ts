import { memPoolAttribute } from "../../driver.ts";
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";
import { printObjectAs, stateOf } from "../../support/printing.ts";
import { checkBoolean, checkByteLength, suggestName } from "../../support/validation.ts";

/** When an allocation may reuse memory that was freed on another stream. */
export interface ReusePolicies {
  /** Reuse memory that was freed before an event that the allocating stream waits for. */
  followEventDependencies: boolean;
  /** Reuse memory whose free happens to have completed. */
  allowOpportunistic: boolean;
  /** Reuse memory whose free has not completed, by making the allocating stream wait for it. */
  allowInternalDependencies: boolean;
}

/** Bytes of a pool: current values, and the maximum of each since `resetHigh`. */
export interface PoolUsage {
  /** Bytes that the pool has reserved from the system. */
  reserved: number;
  /** The maximum of `reserved`. */
  reservedHigh: number;
  /** Bytes that are allocated. */
  used: number;
  /** The maximum of `used`. */
  usedHigh: number;
}

const unlimited = 2n ** 64n - 1n;

/** The attributes of a pool that the driver keeps. */
export class PoolAttributes {
  readonly #session: Session;
  readonly #pool: { readonly name: string; readonly handle: bigint };

  /** @param pool The pool's name in error messages, and its handle, which throws once the pool is disposed. */
  constructor(session: Session, pool: { readonly name: string; readonly handle: bigint }) {
    this.#session = session;
    this.#pool = pool;
  }

  get releaseThreshold(): number {
    const value = this.#get(memPoolAttribute.releaseThreshold);
    return value === unlimited ? Infinity : Number(value);
  }

  set releaseThreshold(byteLength: number) {
    if (typeof byteLength === "bigint") {
      throw new TypeError(
        "Cannot use a bigint as a pool's releaseThreshold: it must be a number of bytes; Infinity keeps all memory",
      );
    }
    if (byteLength !== Infinity) checkByteLength(byteLength, "a pool's releaseThreshold");
    const value = byteLength === Infinity ? unlimited : BigInt(byteLength);
    this.#set(memPoolAttribute.releaseThreshold, value);
  }

  /** An object whose properties read and set the policies. */
  get reuse(): ReusePolicies {
    const get = (attribute: number) => this.#get(attribute) !== 0n;
    const set = (attribute: number, value: boolean) => this.#set(attribute, value ? 1n : 0n);
    const policies: ReusePolicies = {
      get followEventDependencies() {
        return get(memPoolAttribute.reuseFollowEventDependencies);
      },
      set followEventDependencies(value) {
        set(memPoolAttribute.reuseFollowEventDependencies, value);
      },
      get allowOpportunistic() {
        return get(memPoolAttribute.reuseAllowOpportunistic);
      },
      set allowOpportunistic(value) {
        set(memPoolAttribute.reuseAllowOpportunistic, value);
      },
      get allowInternalDependencies() {
        return get(memPoolAttribute.reuseAllowInternalDependencies);
      },
      set allowInternalDependencies(value) {
        set(memPoolAttribute.reuseAllowInternalDependencies, value);
      },
    };
    printObjectAs(policies, printPolicies, policyNames);
    return new Proxy(policies, refusingMistypedNames);
  }

  usage(): PoolUsage {
    return {
      reserved: Number(this.#get(memPoolAttribute.reservedMemCurrent)),
      reservedHigh: Number(this.#get(memPoolAttribute.reservedMemHigh)),
      used: Number(this.#get(memPoolAttribute.usedMemCurrent)),
      usedHigh: Number(this.#get(memPoolAttribute.usedMemHigh)),
    };
  }

  resetHigh(): void {
    this.#set(memPoolAttribute.reservedMemHigh, 0n);
    this.#set(memPoolAttribute.usedMemHigh, 0n);
  }

  #get(attribute: number): bigint {
    try {
      return this.#session.driver.memPoolGetAttribute(this.#pool.handle, attribute);
    } catch (error) {
      throw cannot(`read an attribute of ${this.#pool.name}`, error);
    }
  }

  #set(attribute: number, value: bigint): void {
    try {
      this.#session.driver.memPoolSetAttribute(this.#pool.handle, attribute, value);
    } catch (error) {
      throw cannot(`set an attribute of ${this.#pool.name}`, error);
    }
  }
}

const policyNames = ["followEventDependencies", "allowOpportunistic", "allowInternalDependencies"] as const;

/** Refuses mistyped names: an ordinary object takes any property, and does nothing with it. */
const refusingMistypedNames: ProxyHandler<ReusePolicies> = {
  set(policies, name, value) {
    if (!policyNames.some((policy) => policy === name)) {
      const suggestion = suggestName(String(name), policyNames, "the policies are");
      throw new TypeError(`Cannot set the reuse policy "${String(name)}": there is no such policy; ${suggestion}`);
    }
    checkBoolean(value, `the reuse policy ${String(name)}`);
    return Reflect.set(policies, name, value);
  },
};

function printPolicies(policies: ReusePolicies): string {
  return `ReusePolicies { ${
    policyNames.map((name) => `${name}: ${stateOf(() => String(policies[name]))}`).join(", ")
  } }`;
}
