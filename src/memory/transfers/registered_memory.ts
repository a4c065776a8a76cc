/**
 * Checks of memory of the program that is to be page-locked.
 *
 * @module
 */
import { hostRegisterFlag } from "../../driver.ts";
import { CudaError } from "../../support/errors.ts";
import { countOf } from "../../support/printing.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";
import { checkBoolean, checkOptions, type KnownOptions, whatIs } from "../../support/validation.ts";

/** Options of `Cuda.registerHost`. */
export interface RegisterHostOptions {
  /**
   * Whether devices only read the memory. Needed for memory that the process itself can only read. Defaults to false.
   */
  readOnly?: boolean;
}

const registerOptions: KnownOptions<RegisterHostOptions> = {
  action: "register host memory",
  names: { readOnly: true },
};

/** The minimum size in bytes: engines move smaller typed arrays, and CUDA locks whole pages. */
const minimumByteLength = 4096;

/** Returns the bytes of memory that is to be page-locked. Throws unless it stays where it is. */
export function checkRegistrable(memory: unknown): Uint8Array {
  const buffer: unknown = ArrayBuffer.isView(memory) ? memory.buffer : memory;
  // Not instanceof, which is false for an ArrayBuffer from another realm.
  const tag = Object.prototype.toString.call(buffer);
  if (tag !== "[object ArrayBuffer]" && tag !== "[object SharedArrayBuffer]") {
    const isLocked = typeof memory === "object" && memory?.constructor?.name === "HostBuffer";
    const advice = isLocked ? "it is page-locked already" : "give an ArrayBuffer, a SharedArrayBuffer or a typed array";
    throw new TypeError(`Cannot register ${whatIs(memory)} as page-locked memory: ${advice}`);
  }
  const { resizable, growable, detached } = buffer as {
    readonly resizable?: boolean;
    readonly growable?: boolean;
    readonly detached?: boolean;
  };
  const what = `Cannot register ${whatIs(buffer)}`;
  if (detached === true) throw new TypeError(`${what} that was transferred: its memory is elsewhere`);
  if (resizable === true || growable === true) {
    throw new TypeError(`${what} whose size can change: create it without a maxByteLength`);
  }
  const bytes = ArrayBuffer.isView(memory)
    ? new Uint8Array(memory.buffer, memory.byteOffset, memory.byteLength)
    : new Uint8Array(buffer as ArrayBuffer);
  if (bytes.byteLength >= minimumByteLength) return bytes;
  throw new RangeError(
    `Cannot register ${countOf(bytes.byteLength, "byte")} of memory: it must have at least ${minimumByteLength}; for ` +
      "less, use allocateHost",
  );
}

/** Returns the driver's flags for the options of a registration. Throws unless they are valid. */
export function registrationFlags(options: RegisterHostOptions): number {
  checkOptions(options, registerOptions);
  const { readOnly = false } = options;
  checkBoolean(readOnly, "readOnly");
  return hostRegisterFlag.portable | hostRegisterFlag.mapped | (readOnly ? hostRegisterFlag.readOnly : 0);
}

/** Returns advice for an error of a registration. */
export function adviceForRegistration(error: unknown): string | undefined {
  const code = error instanceof CudaError ? error.code : undefined;
  if (code === "cudaErrorHostMemoryAlreadyRegistered") {
    return "a part of it is page-locked already: register all of the memory once";
  }
  if (code !== "cudaErrorNotSupported" && code !== "cudaErrorInvalidValue") return undefined;
  return "memory that the process can only read, and memory of a file that is shared, need { readOnly: true }";
}
