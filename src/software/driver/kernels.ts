/**
 * The driver calls about modules, kernels and launches.
 *
 * @module
 */
import { blocksPerCluster } from "../execution/launching/launch_state.ts";
import { encodeIm2col, encodeTiled } from "./tensor_maps.ts";
import {
  type Driver,
  functionCache,
  graphNodeType,
  type KernelLaunch,
  type LaunchAttributes,
  oneThread,
} from "../../driver.ts";
import type { LaunchAccess, LaunchObservation } from "../../kernel_checker.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import { multiProcessorCount } from "../abi/launch_record.ts";
import { argumentRangesOf, MemoryCheck } from "../execution/checks/memory_check.ts";
import { LaunchChecks, RunningChecks } from "../execution/checks/launch_checks.ts";
import { checkedLaunch, type CheckedWork, type PredictedAccesses } from "../execution/launching/kernel_launch.ts";
import {
  clusterOf,
  extentsOfLaunch,
  kernelAttribute,
  type LaunchConfiguration,
  launchOf,
  LoadedKernel,
  occupancyOf,
  potentialBlockSize,
  setKernelAttribute,
} from "../execution/launching/launches.ts";
import { LoadedModule } from "../execution/modules/loaded_module.ts";
import type { ModulePlace, SkippedChecksOfLaunch } from "../execution/modules/module_loader.ts";
import type { GraphOperation } from "../execution/software_graph.ts";
import type { Stream, Work } from "../execution/streams.ts";
import { GridWorkspaces } from "../execution/residency/block_places.ts";
import { type KernelOrder, kernelOrders } from "../schedule.ts";
import { fail } from "../failure.ts";
import { CheckMemory } from "../memory/check_memory.ts";
import { addressOfOffset, granuleByteLength } from "../memory/memory_layout.ts";
import type { SoftwareDriverOptions } from "../visible_devices.ts";
import type { DriverCore } from "./core.ts";
import type { ProgramMemoryNames } from "./memory_names.ts";
import type { ProgramMemory } from "./program_memory.ts";
import type { StreamsAndEvents } from "./streams_and_events.ts";

/** The parts of the driver that the calls in this file use. */
interface KernelParts {
  readonly core: DriverCore;
  readonly streams: StreamsAndEvents;
  readonly memory: ProgramMemory;
  readonly names: ProgramMemoryNames;
}

/** The driver calls that load modules and find their kernels and variables. */
type ModuleCalls = Pick<
  Driver,
  | "moduleLoadData"
  | "linkModules"
  | "moduleUnload"
  | "moduleGetFunction"
  | "moduleGetFunctionNames"
  | "moduleGetGlobal"
  | "funcGetParamInfo"
  | "funcGetAttribute"
  | "funcSetAttribute"
  | "tensorMapEncodeTiled"
  | "tensorMapEncodeIm2col"
  | "funcSetCacheConfig"
>;

/** The driver calls that launch kernels. */
type LaunchCalls = Pick<
  Driver,
  | "createKernelLaunch"
  | "launchKernel"
  | "launchKernelEx"
  | "occupancyMaxActiveBlocksPerMultiprocessor"
  | "occupancyMaxPotentialBlockSize"
  | "occupancyMaxActiveClusters"
>;

/** The operation that a launch, or a node of a graph, enqueues. */
export interface KernelOperation extends GraphOperation {
  readonly attributes: LaunchAttributes | undefined;
}

/** The modules and kernels of a driver. */
export class Kernels {
  readonly #parts: KernelParts;
  readonly #modules = new Map<bigint, LoadedModule>();
  /** The modules that were unloaded, but whose memory was not released yet. */
  readonly #unloadedModules = new Set<LoadedModule>();
  readonly #kernels = new Map<bigint, LoadedKernel>();
  readonly #running = new RunningChecks();
  readonly #loadOptions: Omit<ModulePlace, "reserve">;
  readonly #workspaces: GridWorkspaces;
  /** Returns the order in which the threads of the next launch run. Undefined if threads run in ascending order. */
  readonly #nextOrder: (() => KernelOrder) | undefined;
  /** The memory where checked kernels record accesses. Undefined until a kernel is checked. */
  #checkMemory: CheckMemory | undefined;

  constructor(parts: KernelParts, options: SoftwareDriverOptions) {
    const { boundsChecks = true, gangs = true, schedule } = options;
    const { core: { stepLimit, observesAccesses, kernelChecks, linearMemory } } = parts;
    const variesThreads = schedule !== undefined && schedule !== "oldest";
    const running = this.#running;
    this.#loadOptions = { stepLimit, boundsChecks, gangs, running, observesAccesses, variesThreads, kernelChecks };
    this.#parts = parts;
    this.#workspaces = new GridWorkspaces(linearMemory);
    this.#nextOrder = kernelOrders(schedule);
  }

  /** Releases all modules, workspaces and the memory used by checks when the driver closes. */
  close(): void {
    for (const module of [...this.#modules.values(), ...this.#unloadedModules]) module.release();
    this.#modules.clear();
    this.#unloadedModules.clear();
    this.#workspaces.close();
    this.#checkMemory?.release();
  }

  /** Returns the driver calls that load modules and find their kernels and variables. */
  moduleCalls(): ModuleCalls {
    const { core, memory: { allocations } } = this.#parts;
    const { devices, linearMemory, legacyMemory: { peerAccess }, scheduler } = core;

    const add = (module: LoadedModule): bigint => {
      for (const variable of module.variables.values()) {
        allocations.add(variable);
        peerAccess.add(variable);
      }
      return core.register(this.#modules, module);
    };

    return {
      moduleLoadData: (device, image) => {
        const call = "cuModuleLoadDataEx";
        devices.check(device, call);
        core.ensureBoundsTable(device, call);
        return add(
          LoadedModule.load(linearMemory, image, {
            device,
            ...this.#loadOptions,
            stackBytes: core.stackBytes.get(device),
          }),
        );
      },
      linkModules: (device, images) => {
        const call = "cuLinkCreate";
        devices.check(device, call);
        core.ensureBoundsTable(device, call);
        return add(
          LoadedModule.link(linearMemory, images, {
            device,
            ...this.#loadOptions,
            stackBytes: core.stackBytes.get(device),
          }),
        );
      },
      moduleUnload: (device, module) => {
        const call = "cuModuleUnload";
        devices.check(device, call);
        const found = this.#module(module, call);
        for (const handle of found.functions.values()) this.#kernels.delete(handle);
        this.#modules.delete(module);
        for (const variable of found.variables.values()) {
          allocations.remove(variable);
          peerAccess.remove(variable);
        }
        this.#unloadedModules.add(found);
        scheduler.runUntil(() => found.pendingLaunches === 0);
        this.releaseModules();
      },
      moduleGetFunction: (module, name) => {
        const call = "cuModuleGetFunction";
        const found = this.#module(module, call);
        const { functions } = found;
        const kernel = found.kernel(name, call);
        let handle = functions.get(name);
        if (handle === undefined) {
          functions.set(name, handle = core.register(this.#kernels, new LoadedKernel(found, kernel)));
        }
        return handle;
      },
      moduleGetFunctionNames: (module) => this.#module(module, "cuModuleEnumerateFunctions").kernelNames(),
      moduleGetGlobal: (module, name) => {
        const call = "cuModuleGetGlobal";
        const { begin, byteLength } = this.#module(module, call).variable(name, call);
        return { address: addressOfOffset(begin), byteLength };
      },
      funcGetParamInfo: (kernel) => {
        const { parameters } = this.#kernel(kernel, "cuFuncGetParamInfo").kernel.compiled;
        return parameters.map(({ offset, byteLength }) => ({ offset, byteLength }));
      },
      funcGetAttribute: (kernel, attribute) => {
        const call = "cuFuncGetAttribute";
        devices.checkAlive(call);
        return kernelAttribute(this.#kernel(kernel, call), attribute);
      },
      funcSetAttribute: (kernel, attribute, value) => {
        const call = "cuFuncSetAttribute";
        devices.checkAlive(call);
        setKernelAttribute(this.#kernel(kernel, call), attribute, value);
      },
      tensorMapEncodeTiled: (device, tensor) => {
        const call = "cuTensorMapEncodeTiled";
        devices.check(device, call);
        return encodeTiled(tensor, call);
      },
      tensorMapEncodeIm2col: (device, tensor) => {
        const call = "cuTensorMapEncodeIm2col";
        devices.check(device, call);
        return encodeIm2col(tensor, call);
      },
      /** Only validates the arguments: the software device has no caches to prefer. */
      funcSetCacheConfig: (kernel, config) => {
        const call = "cuFuncSetCacheConfig";
        devices.checkAlive(call);
        this.#kernel(kernel, call);
        const configs: readonly number[] = Object.values(functionCache);
        if (!configs.includes(config)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      },
    };
  }

  /** Returns the driver calls that launch kernels. */
  launchCalls(): LaunchCalls {
    const { devices } = this.#parts.core;
    return {
      createKernelLaunch: (device, kernel, parameterBytes, buffers = []) => {
        return { ...oneThread(device, kernel), parameters: new DataView(new ArrayBuffer(parameterBytes)), buffers };
      },
      launchKernel: (launch) => this.launch(launch, undefined),
      launchKernelEx: (launch, attributes) => this.launch(launch, attributes),
      occupancyMaxActiveBlocksPerMultiprocessor: (kernel, blockSize, sharedMemoryBytes) => {
        const call = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
        devices.checkAlive(call);
        return occupancyOf(this.#kernel(kernel, call), { blockSize, sharedMemoryBytes });
      },
      occupancyMaxPotentialBlockSize: (kernel, sharedMemoryBytes, blockSizeLimit) => {
        const call = "cuOccupancyMaxPotentialBlockSize";
        devices.checkAlive(call);
        return potentialBlockSize(this.#kernel(kernel, call), { sharedMemoryBytes, blockSizeLimit });
      },
      occupancyMaxActiveClusters: (launch, attributes) => {
        const call = "cuOccupancyMaxActiveClusters";
        devices.checkAlive(call);
        const loaded = this.#kernel(launch.kernel, call);
        const { grid, block: [x, y, z] } = extentsOfLaunch(loaded, launch);
        const cluster = clusterOf(loaded, { attributes, call, grid });
        const { sharedMemoryBytes } = launch;
        const blocks = multiProcessorCount * occupancyOf(loaded, { blockSize: x * y * z, sharedMemoryBytes });
        // Blocks of a cluster may be on the same multiprocessor, and one cluster runs even if its blocks do not fit.
        return blocks === 0 ? 0 : Math.max(1, Math.floor(blocks / blocksPerCluster({ cluster })));
      },
    };
  }

  /**
   * Launches a kernel. Implements `cuLaunchKernel`, `cuLaunchKernelEx` (with `attributes`), and `KernelChecker.launch`
   * (with `observation`).
   */
  launch(launch: KernelLaunch, attributes: LaunchAttributes | undefined, observation: LaunchObservation = {}): void {
    const call = attributes === undefined ? "cuLaunchKernel" : "cuLaunchKernelEx";
    const { core, streams } = this.#parts;
    const target = streams.target(launch.device, launch.stream, call);
    // Unlike copies and waits, a kernel runs only on streams of the device for which it was loaded.
    if (target.device !== this.#kernel(launch.kernel, call).device) {
      fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    }
    const isKept = target.capture !== undefined;
    core.submit(target, this.#operationOf(launch, { attributes, observation, isKept, call }));
  }

  /** Returns the bounds table's entry for an offset when a stream has reached what was enqueued on it. */
  readonly #entryAt = (offset: number): number | undefined => {
    const found = this.#parts.memory.allocations.containing(offset, 1);
    return found && found.begin / granuleByteLength + 1;
  };

  /** Returns the operation of a node of a graph that launches a kernel. Throws what the launch would throw. */
  nodeOperation(launch: KernelLaunch, attributes: LaunchAttributes | undefined, call: string): KernelOperation {
    // A node has no stream whose earlier work it could overlap: that is a matter of its edges.
    if (attributes?.programmaticStreamSerialization) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    return this.#operationOf(launch, { attributes, observation: {}, isKept: true, call });
  }

  /**
   * Returns the operation of a launch.
   *
   * @param options.isKept whether the operation is a node of a graph, which runs later, and any number of times, with
   * the arguments of now
   */
  #operationOf(
    launch: KernelLaunch,
    { attributes, observation, isKept, call }: {
      attributes: LaunchAttributes | undefined;
      observation: LaunchObservation;
      isKept: boolean;
      call: string;
    },
  ): KernelOperation {
    const { core, memory: { shadow }, names } = this.#parts;
    const loaded = this.#kernel(launch.kernel, call);
    const { device, module } = loaded;
    core.ensureBoundsTable(device, call);
    const { onAccesses, onFindings, isRaceFree: races = false, hasUniformBarriers: barriers = false } = observation;
    const accesses = this.#accessesOf(observation);
    const { grid, block } = extentsOfLaunch(loaded, launch);
    const configuration: LaunchConfiguration = {
      grid,
      cluster: clusterOf(loaded, { attributes, call, grid }),
      block,
      sharedMemoryBytes: launch.sharedMemoryBytes,
      cooperative: attributes?.cooperative ?? false,
      call,
      parameters: new Uint8Array(
        accesses === undefined && !isKept ? launch.parameters.buffer : launch.parameters.buffer.slice(),
      ),
    };
    const services = {
      linearMemory: core.linearMemory,
      memoryNames: names.of(device),
      isDivided: core.isScheduled,
      order: this.#nextOrder?.(),
      argumentRanges: this.#argumentRangesOf(launch),
      shadow,
      accesses: observation.globalAccesses,
      workspaces: this.#workspaces,
      sharing: core.sharing,
      entryAt: this.#entryAt,
    };
    const workOf = (left: SkippedChecksOfLaunch) => {
      const found = loaded.without(left);
      const checks = this.#checksOf(observation, found, left);
      return { checks, work: launchOf(found, configuration, { ...services, checks }) };
    };
    const prepare = () => {
      const { checks, work } = workOf({ races, barriers, accesses: accesses !== undefined });
      const known: PredictedAccesses | undefined = accesses && {
        accesses,
        isAllowed: () => module.areBuffers(accesses),
        observed: () => workOf({ races, barriers, accesses: false }) as CheckedWork,
      };
      return checks === undefined
        ? work
        : checkedLaunch({ work, checks }, { running: this.#running, onAccesses, onFindings, known });
    };
    const enqueue = (stream: Stream): Work => {
      const { run, release, delegate, takesLong } = prepare();
      module.pendingLaunches++;
      return core.scheduler.enqueue(stream, run, {
        kernel: loaded.kernel.compiled.name,
        delegate,
        takesLong,
        release() {
          module.pendingLaunches--;
          release?.();
        },
      });
    };
    // Throws what the launch would throw.
    if (isKept) prepare().release?.();
    const retain = () => {
      module.pendingLaunches++;
      return () => void module.pendingLaunches--;
    };
    const fixed = [device, attributes?.cooperative ?? false];
    const { sharedMemoryBytes } = configuration;
    const describe = () => ({
      name: loaded.kernel.compiled.name,
      details: `grid ${grid.join(" x ")}, block ${block.join(" x ")}, ${sharedMemoryBytes} bytes of shared memory`,
    });
    return { type: graphNodeType.kernel, fixed, attributes, describe, enqueue, retain };
  }

  /** Returns the accesses of a launch if they are known before it runs. Returns undefined if they must be observed. */
  #accessesOf({ onAccesses, accesses }: LaunchObservation): readonly LaunchAccess[] | undefined {
    const { observesAccesses, isScheduled } = this.#parts.core;
    // The given `accesses` state which thread accesses each range first, which depends on the order in which threads
    // run.
    return onAccesses === undefined || !observesAccesses || isScheduled ? undefined : accesses;
  }

  /** Returns the checks of a launch, or undefined if nothing is checked or observed. */
  #checksOf(
    { onAccesses, onFindings }: LaunchObservation,
    { device, kernel, module: { imageBegin } }: LoadedKernel,
    left: SkippedChecksOfLaunch,
  ): LaunchChecks | undefined {
    const { core, memory, names } = this.#parts;
    const { kernelChecks, linearMemory } = core;
    const observesAccesses = core.observesAccesses && onAccesses !== undefined;
    if (!observesAccesses && (onFindings === undefined || kernelChecks.size === 0)) return undefined;
    const nearest = (begin: number, byteLength: number) => names.nearest(device, begin, byteLength);
    return new LaunchChecks({
      lineInfo: kernel.lineInfo,
      allocations: linearMemory.allocationsOf(device),
      memoryOfChecks: this.#checkMemory ??= new CheckMemory(linearMemory),
      observesAccesses: observesAccesses && !left.accesses,
      checksSynchronization: onFindings !== undefined && kernelChecks.has("synchronization"),
      hasUniformBarriers: left.barriers,
      racyMemory: onFindings && !left.races && kernelChecks.has("race") ? linearMemory.bytes : undefined,
      memory: kernelChecks.has("memory") ? new MemoryCheck({ nearest }) : undefined,
      shadow: onFindings && memory.shadow,
      imageBegin,
    });
  }

  /**
   * Returns the table of the memory ranges that the arguments of a launch point into. Undefined unless the `memory`
   * check is enabled.
   */
  #argumentRangesOf({ parameters, buffers }: KernelLaunch): Uint32Array | undefined {
    const { core, memory: { allocations, parts } } = this.#parts;
    if (!core.kernelChecks.has("memory")) return undefined;
    return argumentRangesOf(parameters, {
      allocationAt: (offset) => parts.containing(offset, 1) ?? allocations.containing(offset, 1),
      isBuffer: (offset) => buffers.some((buffer) => buffer?.address === addressOfOffset(offset)),
    });
  }

  #module(module: bigint, call: string): LoadedModule {
    return this.#modules.get(module) ?? fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
  }

  #kernel(kernel: bigint, call: string): LoadedKernel {
    return this.#kernels.get(kernel) ?? fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
  }

  /**
   * Releases the memory of unloaded modules of idle devices. On busy devices, pending copies may still use the
   * variables.
   */
  releaseModules(): void {
    for (const module of this.#unloadedModules) {
      if (!this.#parts.core.scheduler.isIdle(module.device)) continue;
      this.#unloadedModules.delete(module);
      module.release();
    }
  }
}
