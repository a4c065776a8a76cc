import { CudaDriver } from "../ffi/cuda_driver.ts";
import { environmentVariable } from "../ffi/environment.ts";
import { Cuda } from "./objects/cuda.ts";
import type { Driver } from "./driver.ts";
import { CudaUnavailableError } from "./support/errors.ts";
import { Session } from "./session.ts";
import { SoftwareDriver } from "./software/software_driver.ts";
import { checkOptions, whatIs } from "./support/validation.ts";

/** Which driver to use, and how. */
export interface OpenOptions {
  /** "auto" (the default) takes a GPU where there is one, else the software device. */
  driver?: "auto" | "cuda" | "software";
  /** Path of libcudart, where the usual names do not find it. */
  cudart?: string;
  /** Devices that the software driver shows; 2 unless set here or in POOLPASS_SOFTWARE_DEVICES. */
  softwareDevices?: number;
}

const defaultSoftwareDevices = 2;

/**
 * Opens CUDA, or the software device.
 *
 * "auto" takes a GPU when libcuda loads and reports a device, and the software device only where FFI is not permitted or
 * the runtime has none, there is no libcuda, or it reports no device: any other failure is thrown. Where the options say
 * nothing, these variables of the environment hold:
 *
 * - `POOLPASS_DRIVER`: `auto`, `cuda` or `software`
 * - `POOLPASS_SOFTWARE_DEVICES`: how many devices the software driver shows
 * - `POOLPASS_SOFTWARE_PEERS`: `all` or `none`, whether those can reach each other's memory
 * - `POOLPASS_SOFTWARE_STEPS`: how often a block of a kernel may go around loops before it is stopped there
 * - `CUDA_VISIBLE_DEVICES`: which devices are seen, and in which order; of the software driver too
 * - `POOLPASS_DEBUG`: `1` remembers where each buffer was allocated, for the report of those that were forgotten
 *
 * @throws {TypeError} for a driver that there is not, and for a `cudart` that is no text
 * @throws {RangeError} for a variable of the environment that means nothing, and for `softwareDevices` that cannot be
 * @throws {CudaUnavailableError} with "cuda": there is no GPU to be used, as FFI is not permitted, there is no libcuda, or
 * it reports no device
 * @throws {CudaError} where CUDA is there and fails
 * @throws {Error} for a `cudart` that cannot be used, a libcuda that does not load or that is older than CUDA 11.0, and a
 * runtime that is too old
 *
 * @example
 * ```ts
 * import { open } from "./mod.ts";
 *
 * using cuda = open();
 * console.log(cuda.driver, cuda.devices.map((device) => device.name));
 * ```
 */
export function open(options: OpenOptions = {}): Cuda {
  checkOptions(options, "open");
  if (!("toHex" in Uint8Array.prototype)) {
    throw new Error("Cannot run here: this runtime is too old; use Deno 2.9, Bun 1.4 or Node 26.10, or a newer one");
  }
  const driver = openDriver(options);
  try {
    return new Cuda(new Session(driver, { debug: environmentVariable("POOLPASS_DEBUG") === "1" }));
  } catch (error) {
    driver.close();
    throw error;
  }
}

function openDriver(options: OpenOptions): Driver {
  const wanted = options.driver ?? choiceOf("POOLPASS_DRIVER", ["auto", "cuda", "software"]) ?? "auto";
  if (wanted === "software") return openSoftwareDriver(options);
  if (wanted !== "auto" && wanted !== "cuda") {
    throw new TypeError(`Cannot open the driver "${wanted}": it is "auto", "cuda" or "software"`);
  }
  const { cudart } = options;
  if (cudart !== undefined && typeof cudart !== "string") {
    throw new TypeError(`Cannot use ${whatIs(cudart)} as libcudart: give the path of a library`);
  }
  try {
    return new CudaDriver(cudart === undefined ? {} : { cudart });
  } catch (error) {
    if (wanted === "cuda" || !(error instanceof CudaUnavailableError)) throw error;
    return openSoftwareDriver(options);
  }
}

function openSoftwareDriver({ softwareDevices }: OpenOptions): SoftwareDriver {
  return new SoftwareDriver({
    devices: softwareDevices ?? countOf("POOLPASS_SOFTWARE_DEVICES") ?? defaultSoftwareDevices,
    peers: choiceOf("POOLPASS_SOFTWARE_PEERS", ["all", "none"]) !== "none",
    visible: environmentVariable("CUDA_VISIBLE_DEVICES"),
    stepLimit: countOf("POOLPASS_SOFTWARE_STEPS"),
  });
}

function choiceOf<C extends string>(variable: string, choices: readonly C[]): C | undefined {
  const value = environmentVariable(variable);
  if (value === undefined || value === "") return undefined;
  const choice = choices.find((choice) => choice === value);
  if (choice === undefined) {
    throw new RangeError(`Cannot use ${variable}="${value}": it is one of ${choices.join(", ")}`);
  }
  return choice;
}

function countOf(variable: string): number | undefined {
  const value = environmentVariable(variable);
  if (value === undefined || value === "") return undefined;
  if (!/^\d+$/.test(value)) throw new RangeError(`Cannot use ${variable}="${value}": it must be a whole number`);
  return Number(value);
}
