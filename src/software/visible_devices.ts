import type { KernelCheck } from "../kernel_checker.ts";
import { CudaError, cudaErrorName, cudaErrorNumbers } from "../support/errors.ts";
import { locatesFault } from "../support/driver_errors.ts";
import { formatUuid } from "../support/uuid.ts";
import { faultKind } from "./abi/addresses.ts";
import { fail } from "./failure.ts";
import { softwareUuid, visibleDevices } from "./software_device.ts";
import { KernelFault } from "./execution/faults/kernel_fault.ts";
import type { Schedule } from "./schedule.ts";

/** The largest number of devices. */
export const deviceLimit = 16;

/** Options of the software driver and its devices. */
export interface SoftwareDriverOptions {
  /** The number of devices. */
  readonly devices: number;
  /** Whether each device may access the memory of the others. */
  readonly peers: boolean;
  /** The value of `CUDA_VISIBLE_DEVICES`. */
  readonly visible?: string | undefined;
  /** The absolute path of the folder through which processes share memory by fabric handles. Default: none do. */
  readonly fabric?: string | undefined;
  /** The number of steps after which a block's kernel is stopped. A step is one loop iteration of one thread. */
  readonly stepLimit?: number | undefined;
  /** Whether kernels check their addresses: true by default. False serves to measure the cost of the checks. */
  readonly boundsChecks?: boolean;
  /**
   * Whether kernels run several threads at once as a gang, with vector instructions. By default, true: in large
   * launches where the cost model expects a gain. False: never. `"always"`: wherever possible, for tests.
   */
  readonly gangs?: boolean | "always";
  /** The order in which streams do their work, in slices of a block. Default: they take turns, in slices of time. */
  readonly schedule?: Schedule | undefined;
  /** Whether launches say what they have accessed. They run thread by thread then. Default: no. */
  readonly observesAccesses?: boolean;
  /** The checks of kernels that launches make. They run thread by thread then. Default: none. */
  readonly kernelChecks?: ReadonlySet<KernelCheck> | undefined;
}

/** The failure that the devices were lost to. */
interface Loss {
  /** The device whose work failed. */
  readonly device: number;
  readonly number: number;
  readonly cause: unknown;
}

/** The devices that a driver shows. A failure on one of them loses all of them at once. */
export class VisibleDevices {
  /** Whether each device may access the memory of the others. */
  readonly arePeers: boolean;
  /** The ordinal of each visible device among all devices, hidden ones included. */
  readonly #physicalOrdinals: readonly number[];
  /** The failure that the devices were lost to. Every later call on any of them throws its error again. */
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

  /** Throws if there is no such device. */
  checkOrdinal(device: number, call: string): void {
    if (this.#physicalOrdinals[device] === undefined) fail(cudaErrorNumbers.cudaErrorInvalidDevice, call);
  }

  /** Throws if there is no such device, or if the devices were lost. */
  check(device: number, call: string): void {
    this.checkOrdinal(device, call);
    this.checkAlive(call, device);
  }

  get areLost(): boolean {
    return this.#loss !== undefined;
  }

  /** Throws if the devices were lost. The message names the lost device unless the call is for it. */
  checkAlive(call: string, called?: number): void {
    if (this.#loss === undefined) return;
    const { device, number, cause } = this.#loss;
    const name = cudaErrorName(number);
    const isFault = cause instanceof KernelFault;
    const message = isFault
      ? `${cause.describe(called === device || this.count === 1 ? undefined : device)} (${name})${cause.launched}`
      : `${call} failed: ${name} (${number}): device ${device} was lost (${(cause as Error).message})`;
    // A fault's stack has only the software device's own functions.
    throw locatesFault(new CudaError(number, call, message, isFault ? undefined : { cause }));
  }

  /** Records the error that a piece of work threw. Only the first error is kept. */
  lose(device: number, cause: unknown): void {
    const number = cause instanceof KernelFault ? faultErrorNumber(cause) : cudaErrorNumbers.cudaErrorUnknown;
    this.#loss ??= { device, number, cause };
  }
}

const faultErrorNumbers: ReadonlyMap<number, number> = new Map([
  [faultKind.illegalAddress, cudaErrorNumbers.cudaErrorIllegalAddress],
  [faultKind.misalignedAddress, cudaErrorNumbers.cudaErrorMisalignedAddress],
  [faultKind.outsideSharedSpan, cudaErrorNumbers.cudaErrorIllegalInstruction],
  [faultKind.noBarrier, cudaErrorNumbers.cudaErrorIllegalInstruction],
  [faultKind.noBarrierCount, cudaErrorNumbers.cudaErrorIllegalInstruction],
  [faultKind.trap, cudaErrorNumbers.cudaErrorLaunchFailure],
  [faultKind.stackOverflow, cudaErrorNumbers.cudaErrorIllegalAddress],
  [faultKind.invalidFunction, cudaErrorNumbers.cudaErrorIllegalInstruction],
  [faultKind.failedAssertion, cudaErrorNumbers.cudaErrorAssert],
  [faultKind.stepLimit, cudaErrorNumbers.cudaErrorLaunchTimeout],
  [faultKind.deadlock, cudaErrorNumbers.cudaErrorLaunchTimeout],
]);

function faultErrorNumber({ kind }: KernelFault): number {
  return faultErrorNumbers.get(kind) ?? cudaErrorNumbers.cudaErrorUnknown;
}
