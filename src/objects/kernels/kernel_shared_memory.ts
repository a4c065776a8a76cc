import { functionAttribute } from "../../driver.ts";
import { cannot } from "../../support/driver_errors.ts";
import { checkByteLength } from "../../support/validation.ts";
import type { LaunchedKernel } from "./launch_attributes.ts";

/** The maximum of the C type, an unsigned int. */
const maximumSharedMemoryBytes = 2 ** 32 - 1;

const optsIn = "launch opts in to as much shared memory as its sharedMemoryBytes by itself";
/** What others set to opt in. */
export const optInInstead: Readonly<Record<string, string>> = {
  maxDynamicSharedMemorySize: optsIn,
  max_dynamic_shared_size_bytes: optsIn,
};

/**
 * The dynamic shared memory that a kernel's blocks can have. If the device supports it but CUDA's default for the kernel
 * is less, the kernel opts in to as much as the device supports.
 */
export class KernelSharedMemory {
  readonly #kernel: LaunchedKernel;
  /** The largest dynamic shared memory that a block may have, in bytes, as far as it was needed yet. */
  #limit = 0;

  constructor(kernel: LaunchedKernel) {
    this.#kernel = kernel;
  }

  /** Throws unless the blocks of a launch can have this much. */
  prepare(byteLength: number): void {
    checkSharedMemory(byteLength);
    if (byteLength <= this.#limit) return;
    try {
      if (!this.allows(byteLength)) this.refuse(byteLength, "launch");
    } catch (error) {
      throw cannot(`launch ${this.#kernel.name} with ${byteLength} bytes of shared memory for each block`, error);
    }
  }

  /** Whether a block can have this much. */
  allows(byteLength: number): boolean {
    if (byteLength <= this.#limit) return true;
    const { device, handle, session: { driver } } = this.#kernel;
    const { maxDynamicSharedSizeBytes } = functionAttribute;
    this.#limit = driver.funcGetAttribute(handle, maxDynamicSharedSizeBytes);
    if (byteLength <= this.#limit) return true;
    const supported = device.attribute("maxSharedMemoryPerBlockOptin") - this.#declaredBytes();
    if (byteLength > supported) return false;
    driver.funcSetAttribute(handle, maxDynamicSharedSizeBytes, supported);
    this.#limit = supported;
    return true;
  }

  /** The bytes of static shared memory. */
  #declaredBytes(): number {
    const { handle, session: { driver } } = this.#kernel;
    return driver.funcGetAttribute(handle, functionAttribute.sharedSizeBytes);
  }

  /** Throws the error of more than the device supports. `action` is what cannot be done with the kernel. */
  refuse(byteLength: number, action: string): never {
    const declared = this.#declaredBytes();
    const beside = declared === 0 ? "" : ` beside the ${declared} bytes that the kernel declares`;
    const { device, name } = this.#kernel;
    throw new RangeError(
      `Cannot ${action} ${name} with ${byteLength} bytes of shared memory for each block${beside}: ` +
        `the device's attribute("maxSharedMemoryPerBlockOptin") is ${device.attribute("maxSharedMemoryPerBlockOptin")}`,
    );
  }
}

/** Throws unless a number can be the bytes of shared memory of a launch. */
export function checkSharedMemory(byteLength: number): void {
  checkByteLength(byteLength, "a launch's sharedMemoryBytes");
  if (byteLength <= maximumSharedMemoryBytes) return;
  throw new RangeError(
    `Cannot use ${byteLength} as a launch's sharedMemoryBytes: it must be at most ${maximumSharedMemoryBytes}`,
  );
}
