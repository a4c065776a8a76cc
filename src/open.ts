import { CudaDriver } from "../ffi/cuda_driver.ts";
import { CudaUnavailableError } from "../ffi/cuda_libraries.ts";
import { environmentVariable } from "../ffi/environment.ts";
import { Cuda } from "./cuda.ts";
import type { Driver } from "./driver.ts";
import { Session } from "./session.ts";
import { SoftwareDriver } from "./software/software_driver.ts";

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
 * "auto" takes a GPU when libcuda loads and reports a device, and the software device only where FFI is not permitted,
 * there is no libcuda, or it reports no device: any other failure is thrown. Where the options say nothing, these
 * variables of the environment hold:
 *
 * - `POOLPASS_DRIVER`: `auto`, `cuda` or `software`
 * - `POOLPASS_SOFTWARE_DEVICES`: how many devices the software driver shows
 * - `POOLPASS_SOFTWARE_PEERS`: `all` or `none`, whether those can reach each other's memory
 * - `POOLPASS_SOFTWARE_STEPS`: how often a block of a kernel may go around loops before it is stopped there
 * - `CUDA_VISIBLE_DEVICES`: which devices are seen, and in which order; of the software driver too
 * - `POOLPASS_DEBUG`: `1` remembers where each buffer was allocated, for the report of those that were forgotten
 *
 * @throws {CudaError} where CUDA is there and fails
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
  try {
    return new CudaDriver(options.cudart === undefined ? {} : { cudart: options.cudart });
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
