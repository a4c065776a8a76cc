import { cudaErrorNumbers } from "../support/cuda_error_codes.ts";
import { CudaError, cudaErrorName } from "../support/errors.ts";
import { formatUuid } from "../support/uuid.ts";
import { faultKind } from "./compiler/compile.ts";
import { fail } from "./failure.ts";
import { softwareUuid, visibleDevices } from "./software_device.ts";
import { KernelFault } from "./execution/kernel_fault.ts";

const deviceLimit = 16;

/** What the software devices are like. */
export interface SoftwareDriverOptions {
  /** How many there are. */
  readonly devices: number;
  /** Whether each may access the others' memory. */
  readonly peers: boolean;
  /** The value of `CUDA_VISIBLE_DEVICES`. */
  readonly visible?: string | undefined;
  /** How many steps the threads of a block may do before the kernel is stopped; a step is once around a loop. */
  readonly stepLimit?: number | undefined;
  /** Whether kernels check their addresses, as they do unless it is false: to measure what that costs. */
  readonly boundsChecks?: boolean;
  /**
   * Whether kernels run several threads at once, by vectors: in large launches where it is likely to be faster, as they do
   * unless it is said, or never, or wherever it is possible, for tests.
   */
  readonly packedThreads?: boolean | "always";
}

/** Why the devices were lost. */
interface Loss {
  /** The one whose work it was. */
  readonly device: number;
  readonly number: number;
  readonly cause: unknown;
}

/** The devices that a driver shows, and whether they were lost: as those of one process are, all at once. */
export class VisibleDevices {
  /** Whether each may access the others' memory. */
  readonly arePeers: boolean;
  /** The ordinal that each has where none is hidden. */
  readonly #physical: readonly number[];
  /** What they were lost to: every call on any of them gives that error again. */
  #loss: Loss | undefined;

  constructor({ devices, peers, visible }: SoftwareDriverOptions) {
    if (!Number.isInteger(devices) || devices < 1 || devices > deviceLimit) {
      throw new RangeError(`Cannot show ${devices} software devices: the number is from 1 to ${deviceLimit}`);
    }
    this.arePeers = peers;
    const uuids = Array.from({ length: devices }, (_, ordinal) => formatUuid(softwareUuid(ordinal)));
    this.#physical = visibleDevices(visible, uuids);
    if (this.#physical.length > 0) return;
    const ordinals = devices === 1 ? "0" : `some of the ordinals 0 to ${devices - 1}`;
    throw new CudaError(
      cudaErrorNumbers.cudaErrorNoDevice,
      "cuInit",
      `Cannot open the software devices: CUDA_VISIBLE_DEVICES="${visible}" leaves none of them visible; unset it, ` +
        `or set it to ${ordinals}, each once`,
    );
  }

  get count(): number {
    return this.#physical.length;
  }

  uuid(device: number): Uint8Array<ArrayBuffer> {
    return softwareUuid(this.#physical[device]!);
  }

  /** The ordinal of the device with a UUID; undefined where none is visible. */
  find(uuid: Uint8Array): number | undefined {
    const digits = uuid.toHex();
    const device = this.#physical.findIndex((ordinal) => softwareUuid(ordinal).toHex() === digits);
    return device < 0 ? undefined : device;
  }

  /** Fails where there is no such device. */
  checkOrdinal(device: number, call: string): void {
    if (this.#physical[device] === undefined) fail(cudaErrorNumbers.cudaErrorInvalidDevice, call);
  }

  /** Fails where there is no such device, or the devices were lost. */
  check(device: number, call: string): void {
    this.checkOrdinal(device, call);
    this.checkAlive(call);
  }

  get areLost(): boolean {
    return this.#loss !== undefined;
  }

  /** Fails where the devices were lost. */
  checkAlive(call: string): void {
    if (this.#loss === undefined) return;
    const { device, number, cause } = this.#loss;
    const { message } = cause as Error;
    const what = cause instanceof KernelFault
      ? `a kernel on device ${device} was stopped`
      : `device ${device} was lost`;
    throw new CudaError(number, call, `${call} failed: ${cudaErrorName(number)} (${number}): ${what} (${message})`, {
      cause,
    });
  }

  /** Takes note of what a piece of work threw: the first error is the one that stays. */
  lose(device: number, cause: unknown): void {
    const number = cause instanceof KernelFault ? errorOfFault(cause) : cudaErrorNumbers.cudaErrorUnknown;
    this.#loss ??= { device, number, cause };
  }
}

const errorsOfFaults: ReadonlyMap<number, number> = new Map([
  [faultKind.illegalAddress, cudaErrorNumbers.cudaErrorIllegalAddress],
  [faultKind.misalignedAddress, cudaErrorNumbers.cudaErrorMisalignedAddress],
  [faultKind.outsideSharedWindow, cudaErrorNumbers.cudaErrorIllegalInstruction],
  [faultKind.noBarrier, cudaErrorNumbers.cudaErrorIllegalInstruction],
  [faultKind.noBarrierCount, cudaErrorNumbers.cudaErrorIllegalInstruction],
  [faultKind.trap, cudaErrorNumbers.cudaErrorLaunchFailure],
  [faultKind.stackOverflow, cudaErrorNumbers.cudaErrorIllegalAddress],
  [faultKind.invalidFunction, cudaErrorNumbers.cudaErrorIllegalInstruction],
  [faultKind.failedAssertion, cudaErrorNumbers.cudaErrorAssert],
  [faultKind.stepLimit, cudaErrorNumbers.cudaErrorLaunchTimeout],
  [faultKind.deadlock, cudaErrorNumbers.cudaErrorLaunchTimeout],
]);

function errorOfFault({ kind }: KernelFault): number {
  return errorsOfFaults.get(kind) ?? cudaErrorNumbers.cudaErrorUnknown;
}
