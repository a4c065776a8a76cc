import type { KernelCheck } from "../kernel_checker.ts";
import { CudaError, cudaErrorName, cudaErrorNumbers } from "../support/errors.ts";
import { locatesFault } from "../support/driver_errors.ts";
import { formatUuid } from "../support/uuid.ts";
import { faultKind } from "./abi/addresses.ts";
import { fail } from "./failure.ts";
import { softwareUuid, visibleDevices } from "./software_device.ts";
import { KernelFault } from "./execution/faults/kernel_fault.ts";
import type { Schedule } from "./schedule.ts";
import { RangeError } from "../support/program_errors.ts";

/** The maximum number of devices of a driver. */
export const deviceLimit = 16;

/** The maximum number of threads of a driver. */
export const threadLimit = 256;

/** Options of the software driver and its devices. */
export interface SoftwareDriverOptions {
  /** The number of devices. */
  readonly devices: number;
  /** Whether each device may be given access to the memory of the other devices. */
  readonly peers: boolean;
  /** The value of `CUDA_VISIBLE_DEVICES`. */
  readonly visible?: string | undefined;
  /**
   * The absolute path of the folder through which processes share memory with fabric handles. If undefined, fabric
   * handles are unavailable.
   */
  readonly fabric?: string | undefined;
  /**
   * The maximum number of steps that the threads of a block may run before the kernel is stopped. A step is one loop
   * iteration of one thread.
   */
  readonly stepLimit?: number | undefined;
  /**
   * The number of threads that may run kernels, including the calling thread: 1 to 256. Default: the number of CPUs
   * that the process may use.
   */
  readonly threads?: number | undefined;
  /**
   * Whether kernels check the bounds of accesses. Default: true. False is only for measuring the cost of the checks.
   */
  readonly boundsChecks?: boolean;
  /**
   * Whether kernels run several threads at once as a gang, with vector instructions. True, the default, uses gangs for
   * large launches where the cost model expects a gain. False disables gangs. `"always"`, for tests, uses gangs
   * wherever possible.
   */
  readonly gangs?: boolean | "always";
  /**
   * The order in which streams run, switching after each block of a kernel. Default: round-robin, switching after a
   * time slice.
   */
  readonly schedule?: Schedule | undefined;
  /** Whether launches report their memory accesses. If so, threads run one by one. Default: false. */
  readonly observesAccesses?: boolean;
  /** The checks that launches perform. Threads run one by one for all checks but `memory`. Default: no checks. */
  readonly kernelChecks?: ReadonlySet<KernelCheck> | undefined;
}

/** The failure that caused the loss of the devices. */
interface Loss {
  /** The device whose work failed. */
  readonly device: number;
  readonly number: number;
  readonly cause: unknown;
}

/** The devices that a driver exposes. If one of them fails, all of them become unusable ("lost"). */
export class VisibleDevices {
  /** Whether each device may be given access to the memory of the other devices. */
  readonly arePeers: boolean;
  /** For each visible device, its ordinal among all devices, including hidden ones. */
  readonly #physicalOrdinals: readonly number[];
  /**
   * The failure that caused the loss of the devices. Every later call on any device throws the error of this failure.
   */
  #loss: Loss | undefined;

  constructor({ devices, peers, visible }: SoftwareDriverOptions) {
    if (!Number.isInteger(devices) || devices < 1 || devices > deviceLimit) {
      throw new RangeError(`Cannot open ${devices} software devices: the number must be from 1 to ${deviceLimit}`);
    }
    this.arePeers = peers;
    const uuids = Array.from({ length: devices }, (_, ordinal) => formatUuid(softwareUuid(ordinal)));
    this.#physicalOrdinals = visibleDevices(visible, uuids);
    if (this.#physicalOrdinals.length > 0) return;
    const ordinals = devices === 1 ? "0" : `some of the ordinals 0 to ${devices - 1}`;
    throw new CudaError(
      cudaErrorNumbers.cudaErrorNoDevice,
      "cuInit",
      `Cannot open the software devices: CUDA_VISIBLE_DEVICES="${visible}" leaves none of them visible; unset it, ` +
        `or set it to ${ordinals}, each once`,
    );
  }

  get count(): number {
    return this.#physicalOrdinals.length;
  }

  uuid(device: number): Uint8Array<ArrayBuffer> {
    return softwareUuid(this.#physicalOrdinals[device]!);
  }

  /** Returns the ordinal of the visible device with a UUID, or undefined if there is none. */
  find(uuid: Uint8Array): number | undefined {
    const digits = uuid.toHex();
    const device = this.#physicalOrdinals.findIndex((ordinal) => softwareUuid(ordinal).toHex() === digits);
    return device < 0 ? undefined : device;
  }

  /** Throws `cudaErrorInvalidDevice` if there is no device with the given ordinal. */
  checkOrdinal(device: number, call: string): void {
    if (this.#physicalOrdinals[device] === undefined) fail(cudaErrorNumbers.cudaErrorInvalidDevice, call);
  }

  /** Throws if there is no device with the given ordinal, or if the devices were lost. */
  check(device: number, call: string): void {
    this.checkOrdinal(device, call);
    this.checkAlive(call, device);
  }

  get areLost(): boolean {
    return this.#loss !== undefined;
  }

  /**
   * Throws if the devices were lost. The message names the device that failed, unless the call was for this device.
   * `called` is the device that the call was for.
   */
  checkAlive(call: string, called?: number): void {
    if (this.#loss === undefined) return;
    const { device, number, cause } = this.#loss;
    const name = cudaErrorName(number);
    const isFault = cause instanceof KernelFault;
    const message = isFault
      ? `${cause.describe(called === device || this.count === 1 ? undefined : device)} (${name})${cause.launched}`
      : `${call} failed: ${name} (${number}): device ${device} was lost (${(cause as Error).message})`;
    // Does not attach a fault as the cause, because the fault's stack trace contains only internal functions of the
    // software device.
    throw locatesFault(new CudaError(number, call, message, isFault ? undefined : { cause }));
  }

  /** Marks the devices as lost because work of a device threw an error. Later errors are ignored. */
  lose(device: number, cause: unknown): void {
    const number = cause instanceof KernelFault ? faultErrorNumber(cause) : cudaErrorNumbers.cudaErrorUnknown;
    this.#loss ??= { device, number, cause };
  }
}

const faultErrorNumbers: ReadonlyMap<number, number> = new Map([
  [faultKind.illegalAddress, cudaErrorNumbers.cudaErrorIllegalAddress],
  [faultKind.matrixDescriptor, cudaErrorNumbers.cudaErrorIllegalAddress],
  [faultKind.noTexture, cudaErrorNumbers.cudaErrorIllegalAddress],
  [faultKind.misalignedAddress, cudaErrorNumbers.cudaErrorMisalignedAddress],
  [faultKind.outsideSharedSpan, cudaErrorNumbers.cudaErrorIllegalInstruction],
  [faultKind.noBarrier, cudaErrorNumbers.cudaErrorIllegalInstruction],
  [faultKind.noBarrierCount, cudaErrorNumbers.cudaErrorIllegalInstruction],
  [faultKind.bulkSize, cudaErrorNumbers.cudaErrorIllegalInstruction],
  [faultKind.tensorMap, cudaErrorNumbers.cudaErrorIllegalInstruction],
  [faultKind.trap, cudaErrorNumbers.cudaErrorLaunchFailure],
  [faultKind.arrivals, cudaErrorNumbers.cudaErrorLaunchFailure],
  [faultKind.noClusterBlock, cudaErrorNumbers.cudaErrorLaunchFailure],
  [faultKind.copySize, cudaErrorNumbers.cudaErrorMisalignedAddress],
  [faultKind.pendingBytes, cudaErrorNumbers.cudaErrorLaunchFailure],
  [faultKind.breakpoint, cudaErrorNumbers.cudaErrorLaunchFailure],
  [faultKind.stackOverflow, cudaErrorNumbers.cudaErrorIllegalAddress],
  [faultKind.invalidFunction, cudaErrorNumbers.cudaErrorIllegalInstruction],
  [faultKind.failedAssertion, cudaErrorNumbers.cudaErrorAssert],
  [faultKind.stepLimit, cudaErrorNumbers.cudaErrorLaunchTimeout],
  [faultKind.deadlock, cudaErrorNumbers.cudaErrorLaunchTimeout],
]);

function faultErrorNumber({ kind }: KernelFault): number {
  return faultErrorNumbers.get(kind) ?? cudaErrorNumbers.cudaErrorUnknown;
}
