/**
 * The driver for machines without a GPU. It is not a mock: the driver executes PTX kernels, allocates memory that other
 * processes can map, and fails with the same CUDA errors as the real driver in the same situations.
 *
 * The calls are implemented in groups in `driver/`; this file combines them.
 *
 * @module
 */
import { type CallName, effectsOf } from "../call_effects.ts";
import type { CollectiveLibrary } from "../collective_library.ts";
import type { Driver } from "../driver.ts";
import type { KernelChecker } from "../kernel_checker.ts";
import { reportDroppedLaunches } from "../support/leaks.ts";
import { SoftwareCollectives } from "./collectives/software_collectives.ts";
import { addressCalls, deviceMemoryCalls, hostMemoryCalls } from "./driver/allocations.ts";
import { limitCalls } from "./driver/limits.ts";
import { managedMemoryCalls } from "./driver/managed_memory.ts";
import { copyAndFillCalls } from "./driver/copies_and_fills.ts";
import { deviceCalls, DriverCore, emulatedCudaVersion } from "./driver/core.ts";
import { captureAndGraphCalls } from "./driver/graphs.ts";
import { SoftwareGraphMemory } from "./driver/graph_memory.ts";
import { Kernels } from "./driver/kernels.ts";
import { ProgramMemoryNames } from "./driver/memory_names.ts";
import { Pools } from "./driver/pools.ts";
import { ProgramMemory } from "./driver/program_memory.ts";
import { StreamsAndEvents } from "./driver/streams_and_events.ts";
import { Textures } from "./driver/textures.ts";
import type { KernelSpan } from "./execution/streams.ts";
import type { LinearMemory } from "./memory/linear_memory.ts";
import { VirtualMemory } from "./memory/virtual/virtual_memory.ts";
import { deviceLimit, type SoftwareDriverOptions, threadLimit } from "./visible_devices.ts";
import type { InstructionSupport, SurveyedPtx } from "../ptx/instruction_support.ts";
import { surveyInstructions } from "./compiler/linking/instruction_survey.ts";
import { errorOfPtx } from "./execution/modules/loaded_module.ts";

/**
 * The linear memories of drivers that were closed with `keepMemory`. They must stay accessible until the process exits.
 */
const keptMemories: LinearMemory[] = [];

/** All calls of a driver except `close`. The files in `driver/` implement them. */
type Calls = Pick<Driver, Exclude<CallName, "close">>;

/** A `Driver` that runs on the CPU. */
export interface SoftwareDriver extends Calls {}

/** A `Driver` that runs on the CPU. */
export class SoftwareDriver implements Driver {
  /** The maximum number of devices of a driver. */
  static readonly deviceLimit: number = deviceLimit;
  /** The maximum number of threads of a driver. */
  static readonly threadLimit: number = threadLimit;
  readonly kind = "software";
  readonly contextsAreShared = false;
  readonly loadingBlocks = false;
  readonly runsOnHost = true;
  readonly dropsWork = true;
  readonly executesMachineCode = false;
  readonly runtimeVersion: number = emulatedCudaVersion;
  readonly sharingRefusal: string | undefined;
  readonly checksHandles: boolean = true;
  readonly hasContextEvents: boolean = true;
  readonly hasBatchedCopies: boolean = true;
  readonly checker: KernelChecker;
  readonly threadCalls = undefined;
  readonly useBufferNames: NonNullable<Driver["useBufferNames"]>;
  readonly #core: DriverCore;
  readonly #streams: StreamsAndEvents;
  readonly #memory: ProgramMemory;
  readonly #pools: Pools;
  readonly #virtualMemory: VirtualMemory;
  readonly #kernels: Kernels;
  readonly #textures: Textures;
  #collectives: SoftwareCollectives | undefined;

  constructor(options: SoftwareDriverOptions) {
    const core = this.#core = new DriverCore(options);
    const streams = this.#streams = new StreamsAndEvents(core);
    const memory = this.#memory = new ProgramMemory(core, streams);
    const names = new ProgramMemoryNames(core, memory);
    const pools = this.#pools = new Pools(core, memory);
    const virtualMemory = this.#virtualMemory = new VirtualMemory({
      linearMemory: core.linearMemory,
      devices: core.devices,
      fabric: core.fabric,
      newHandle: () => core.newHandle(),
      added: (run) => memory.allocations.add(run),
      removed: (run) => memory.forget(run),
    });
    const graphMemory = new SoftwareGraphMemory(core, memory);
    const textures = this.#textures = new Textures(core, memory);
    const parts = { core, streams, memory, names, pools, virtualMemory, graphMemory, textures };
    const kernels = this.#kernels = new Kernels(parts, options);
    const copies = copyAndFillCalls(parts);
    core.releaseFinished = () => {
      pools.reclaim();
      streams.closeUnusedEvents();
      kernels.releaseModules();
    };
    this.sharingRefusal = core.sharingRefusal;
    this.checker = {
      checks: core.kernelChecks,
      observesAccesses: core.observesAccesses,
      launch: (launch, attributes, observation) => kernels.launch(launch, attributes, observation),
      partAllocated: (part, device, stream) => memory.partAllocated(part, device, stream),
      partFreed: (address) => memory.partFreed(address),
      unfreedHeap: () => memory.unfreedHeap(),
    };
    this.useBufferNames = (buffers) => names.useBufferNames(buffers);
    const calls: Calls = {
      ...deviceCalls(core),
      ...streams.calls(),
      ...pools.calls(),
      ...deviceMemoryCalls(parts),
      ...addressCalls(parts),
      ...hostMemoryCalls(parts),
      ...managedMemoryCalls(parts),
      ...limitCalls(core),
      ...virtualMemory.calls(),
      ...copies.calls,
      ...textures.calls(),
      ...kernels.moduleCalls(),
      ...kernels.launchCalls(),
      ...captureAndGraphCalls({ ...parts, kernels, nodes: copies.nodes }),
    };
    // Defines the properties one by one: if `Object.assign` added so many properties, V8 would store them in a hash
    // table, where each lookup is slower.
    for (const [name, value] of Object.entries(calls)) {
      const method = effectsOf(name).isUnsafe ? core.captures.guardUnsafe(name, value) : value;
      Object.defineProperty(this, name, { value: method, writable: true, enumerable: true, configurable: true });
    }
  }

  /** The number of threads that may run kernels, including the calling thread. */
  get threads(): number {
    return this.#core.threads;
  }

  /** Calls a function with each kernel that has run. */
  observeKernels(onKernel: (kernel: KernelSpan) => void): void {
    this.#core.scheduler.onKernel = onKernel;
  }

  /** The library that runs collective operations on the software devices. */
  get collectives(): CollectiveLibrary {
    const { scheduler, devices } = this.#core;
    return this.#collectives ??= new SoftwareCollectives({
      scheduler,
      shadow: this.#memory.shadow,
      checkDevice: (device, call) => devices.check(device, call),
      areLost: () => devices.areLost,
      deviceUuid: (device) => devices.uuid(device),
      stream: (device, handle, call) => this.#streams.stream(device, handle, call),
      range: (address, byteLength, use) => this.#memory.range(address, byteLength, use),
    });
  }

  close({ keepMemory = false }: { readonly keepMemory?: boolean } = {}): void {
    const { scheduler, legacyMemory, linearMemory, hostMemory } = this.#core;
    // Must precede closing the scheduler: otherwise, open collective operations would interpret dropped work as a loss
    // of the devices.
    this.#collectives?.close();
    reportDroppedLaunches(scheduler.close());
    this.#pools.close();
    legacyMemory.close();
    for (const managed of this.#memory.managed) managed.release();
    this.#virtualMemory.close();
    this.#textures.close();
    hostMemory.staging.releaseUnused();
    if (keepMemory) keptMemories.push(linearMemory);
    else hostMemory.close();
    this.#kernels.close();
    this.#streams.close();
    linearMemory.close();
  }
}

/**
 * Returns how the software device supports the instructions of a module, regardless of the driver that loaded the
 * module.
 *
 * @throws {CudaError} The same error as from loading the module on the software device
 */
export function instructionSupport(images: readonly SurveyedPtx[]): readonly InstructionSupport[] {
  try {
    return surveyInstructions(images);
  } catch (error) {
    throw errorOfPtx(error, "cuModuleLoadDataEx");
  }
}
