/**
 * The state that all parts of the software driver share, and the driver calls about devices.
 *
 * @module
 */
import { availableCpus } from "../../../ffi/native/available_cpus.ts";
import type { Driver } from "../../driver.ts";
import type { KernelCheck } from "../../kernel_checker.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import { Scheduler, type Stream, type Work } from "../execution/streams.ts";
import { fail, failBecause } from "../failure.ts";
import { Captures } from "../execution/captures.ts";
import type { GraphOperation } from "../execution/software_graph.ts";
import type { LaunchSharing } from "../execution/workers/shared_launch.ts";
import { processWorkers } from "../execution/workers/workers.ts";
import { LegacyMemory } from "../ipc/legacy_memory.ts";
import { Fabric } from "../memory/fabric.ts";
import { HostMemory } from "../memory/host_memory.ts";
import { LinearMemory } from "../memory/linear_memory.ts";
import { sharedMemoryRefusal } from "../memory/shared_file.ts";
import { streamChoiceOf } from "../schedule.ts";
import { softwareAttribute } from "../software_device.ts";
import { type SoftwareDriverOptions, threadLimit, VisibleDevices } from "../visible_devices.ts";

/** The CUDA version that the software driver reports. */
export const emulatedCudaVersion = 13000;

/**
 * The default maximum number of steps of a block. An infinite loop reaches this limit in minutes, or in an hour if it
 * accesses memory.
 */
const defaultStepLimit = 2 ** 36;

/** Returns how worker threads run work of a driver. */
function sharingOf(core: DriverCore): LaunchSharing {
  const { scheduler, linearMemory } = core;
  return {
    workers: processWorkers(linearMemory),
    linearMemory,
    get threads() {
      return core.threads;
    },
    get isAwaited() {
      return scheduler.isAwaited;
    },
  };
}

/** The state that all parts of a software driver share. */
export class DriverCore {
  /** The maximum number of steps that the threads of a block may make in total. */
  readonly stepLimit: number;
  readonly observesAccesses: boolean;
  readonly kernelChecks: ReadonlySet<KernelCheck>;
  /** The stack sizes that were set for the threads of a device's kernels, in bytes. */
  readonly stackBytes: Map<number, number> = new Map();
  /** Whether streams run in the order that {@linkcode SoftwareDriverOptions.schedule} specifies. */
  readonly isScheduled: boolean;
  /** Whether there is a schedule, or launches are observed: the program is run to find its mistakes. */
  readonly isChecked: boolean;
  readonly linearMemory: LinearMemory;
  readonly devices: VisibleDevices;
  readonly scheduler: Scheduler;
  readonly captures: Captures = new Captures();
  readonly hostMemory: HostMemory;
  readonly legacyMemory: LegacyMemory;
  readonly fabric: Fabric;
  /** The reason why memory cannot be shared with other processes. Undefined if sharing is possible. */
  readonly sharingRefusal: string | undefined = sharedMemoryRefusal();
  /**
   * Releases pool memory, events and modules that were kept only for work that has now finished. Set by the driver's
   * constructor.
   */
  releaseFinished: () => void = () => {};
  /** The number of threads that may run kernels. Undefined until it is first needed. */
  #threads: number | undefined;
  #lastHandle = 0x5000n;

  constructor(options: SoftwareDriverOptions) {
    const { stepLimit = defaultStepLimit, observesAccesses = false, kernelChecks = new Set(), schedule } = options;
    const { threads } = options;
    if (!Number.isSafeInteger(stepLimit) || stepLimit < 1) {
      throw new RangeError(
        `Cannot limit kernels to ${stepLimit} steps: the limit must be a whole number of at least 1`,
      );
    }
    if (threads !== undefined && !(Number.isInteger(threads) && threads >= 1 && threads <= threadLimit)) {
      throw new RangeError(
        `Cannot run kernels on ${threads} threads: softwareThreads must be a whole number from 1 to ${threadLimit}; ` +
          "leave it out to use all CPUs that the process may use",
      );
    }
    this.stepLimit = stepLimit;
    this.#threads = threads;
    this.observesAccesses = observesAccesses;
    this.kernelChecks = kernelChecks;
    this.isScheduled = schedule !== undefined;
    this.isChecked = this.isScheduled || observesAccesses || kernelChecks.size > 0;
    this.devices = new VisibleDevices(options);
    this.linearMemory = new LinearMemory({ findsMistakes: kernelChecks.has("memory") });
    this.scheduler = new Scheduler(
      (device, cause) => this.devices.lose(device, cause),
      schedule && streamChoiceOf(schedule),
    );
    this.#sharing = sharingOf(this);
    this.hostMemory = new HostMemory(this.linearMemory);
    this.legacyMemory = new LegacyMemory(this.linearMemory, this.devices);
    this.fabric = new Fabric(options.fabric);
  }

  /**
   * The number of threads that may run kernels, including the calling thread. A checked program runs on one, whatever
   * number was set, because the order of its blocks must repeat. The first read takes up to 2 milliseconds if no number
   * was set, so read it only when a launch runs long.
   */
  get threads(): number {
    if (this.isChecked) return 1;
    return this.#threads ??= Math.min(availableCpus(), threadLimit);
  }

  readonly #sharing: LaunchSharing;
  /** Returns how worker threads can run work now. Undefined if only the main thread may run it. */
  readonly sharing: () => LaunchSharing | undefined = () => {
    if (this.isChecked) return undefined;
    const { scheduler } = this;
    // Only the main thread copies registered memory of the program to and from linear memory, before and after each slice.
    return scheduler.onSlice === undefined ? this.#sharing : undefined;
  };

  /** Call when memory of the program was registered, or is no longer registered. */
  onRegisteredMemoryChanged(): void {
    const { hostMemory, scheduler } = this;
    scheduler.onSlice = hostMemory.registered.size === 0 ? undefined : () => hostMemory.exchange();
  }

  /** Returns a new handle. Handles are unique among all objects of the driver. */
  newHandle(): bigint {
    this.#lastHandle += 0x10n;
    return this.#lastHandle;
  }

  /** Adds an object to a registry, and returns its new handle. */
  register<T>(registry: Map<bigint, T>, object: T): bigint {
    const handle = this.newHandle();
    registry.set(handle, object);
    return handle;
  }

  /**
   * Creates the bounds table of a device if it does not exist. Throws `cudaErrorMemoryAllocation` if linear memory is
   * full.
   */
  ensureBoundsTable(device: number, call: string): void {
    if (!this.linearMemory.ensureBoundsTable(device)) fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
  }

  /**
   * Throws the error for an allocation that exceeds the device's free memory. The message includes the amount of memory
   * that the sanitizer uses.
   */
  failForMemory(call: string): never {
    const { freeBytes, totalBytes, shadowBytes } = this.linearMemory;
    const number = cudaErrorNumbers.cudaErrorMemoryAllocation;
    if (shadowBytes === 0) fail(number, call);
    const free = `${freeBytes} of the device's ${totalBytes} bytes are free`;
    return failBecause(number, call, `${free}; the sanitizer's check "initialization" uses the other ${shadowBytes}`);
  }

  /** Enqueues an operation on a stream, or adds it to the graph that the stream is being captured into. */
  submit(stream: Stream, operation: GraphOperation): Work | undefined {
    if (stream.capture === undefined) return operation.enqueue(stream);
    stream.capture.add(stream, operation, this.newHandle());
    return undefined;
  }

  /** Blocks until all work of a device has finished. */
  finishWork(device: number, call: string): void {
    this.scheduler.runUntil(() => this.scheduler.isIdle(device));
    this.finishSynchronization(device, call);
  }

  /**
   * Releases the resources of finished work. Must be called after the host has waited for work. Throws if the devices
   * were lost.
   */
  finishSynchronization(device: number, call: string): void {
    this.releaseFinished();
    this.devices.check(device, call);
  }
}

/** The driver calls that manage devices. */
type DeviceCalls = Pick<
  Driver,
  | "driverGetVersion"
  | "getDeviceCount"
  | "deviceGetName"
  | "deviceGetUuid"
  | "deviceGetAttribute"
  | "deviceInitialize"
  | "deviceTotalMem"
  | "memGetInfo"
  | "deviceSynchronize"
  | "usedDevices"
  | "deviceCanAccessPeer"
  | "deviceEnablePeerAccess"
  | "deviceDisablePeerAccess"
  | "profilerStart"
  | "profilerStop"
>;

/** Returns the driver calls that manage devices. */
export function deviceCalls(core: DriverCore): DeviceCalls {
  const { devices, linearMemory, legacyMemory: { peerAccess } } = core;
  const deviceTotalMem = (device: number): number => {
    devices.checkOrdinal(device, "cuDeviceTotalMem");
    return linearMemory.totalBytes;
  };
  return {
    driverGetVersion: () => emulatedCudaVersion,
    getDeviceCount: () => devices.count,
    deviceGetName(device) {
      devices.checkOrdinal(device, "cuDeviceGetName");
      return "poolpass software device";
    },
    deviceGetUuid(device) {
      devices.checkOrdinal(device, "cuDeviceGetUuid");
      return devices.uuid(device);
    },
    deviceGetAttribute(device, attribute) {
      devices.checkOrdinal(device, "cudaDeviceGetAttribute");
      const value = softwareAttribute(attribute, { sharing: core.sharingRefusal === undefined });
      return value ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaDeviceGetAttribute");
    },
    deviceInitialize: (device) => Promise.try(() => devices.check(device, "cuDevicePrimaryCtxRetain")),
    deviceTotalMem,
    memGetInfo(device) {
      devices.check(device, "cudaMemGetInfo");
      return { free: linearMemory.freeBytes, total: deviceTotalMem(device) };
    },
    deviceSynchronize(device) {
      devices.check(device, "cudaDeviceSynchronize");
      core.captures.checkDevice(device, "cudaDeviceSynchronize");
      core.finishWork(device, "cudaDeviceSynchronize");
    },
    /** Returns all devices, since the software device has no contexts. */
    usedDevices: () => Array.from({ length: devices.count }, (_, device) => device),
    deviceCanAccessPeer(device, peer) {
      devices.checkOrdinal(device, "cudaDeviceCanAccessPeer");
      devices.checkOrdinal(peer, "cudaDeviceCanAccessPeer");
      return devices.arePeers && device !== peer;
    },
    deviceEnablePeerAccess(device, peer) {
      const call = "cudaDeviceEnablePeerAccess";
      devices.check(device, call);
      devices.checkOrdinal(peer, call);
      if (device === peer || !devices.arePeers) fail(cudaErrorNumbers.cudaErrorPeerAccessUnsupported, call);
      core.ensureBoundsTable(device, call);
      if (peerAccess.isEnabled(device, peer)) fail(cudaErrorNumbers.cudaErrorPeerAccessAlreadyEnabled, call);
      peerAccess.enable(device, peer);
    },
    deviceDisablePeerAccess(device, peer) {
      const call = "cudaDeviceDisablePeerAccess";
      devices.check(device, call);
      devices.checkOrdinal(peer, call);
      if (!peerAccess.isEnabled(device, peer)) fail(cudaErrorNumbers.cudaErrorPeerAccessNotEnabled, call);
      // Finishes the launched kernels first, because they must run with the access that the device had at their launch.
      core.finishWork(device, call);
      peerAccess.disable(device, peer);
    },
    /** Does nothing, since the software device supports no profiling tool. */
    profilerStart() {},
    profilerStop() {},
  };
}
