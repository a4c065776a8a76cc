/**
 * The driver for machines without a GPU. It is not a mock: it runs kernels from their PTX, its memory is real memory
 * that another process can map, and its calls fail with the CUDA errors of the real driver in the same situations.
 *
 * @module
 */
import { cudaErrorNumbers } from "../support/errors.ts";
import { reportDroppedLaunches } from "../support/leaks.ts";
import {
  type Driver,
  eventFlags,
  functionCache,
  type HostAllocation,
  type KernelLaunch,
  type LaunchAttributes,
  type LinkedImage,
  type MemAccessDesc,
  memAccessFlags,
  type MemAllocationProps,
  memHandleType,
  type MemLocation,
  memLocationType,
  type MemoryRange,
  memoryType,
  type MemPoolProps,
  type NamedBuffer,
  oneThread,
  type OsHandle,
  type ParameterPlace,
  type PointerAttributes,
  type QueryOptions,
  streamFlags,
} from "../driver.ts";
import type { KernelCheck, KernelChecker, LaunchAccess, LaunchObservation, UnfreedHeap } from "../kernel_checker.ts";
import type { CollectiveLibrary } from "../collective_library.ts";
import { countOf } from "../support/printing.ts";
import { SoftwareCollectives } from "./collectives/software_collectives.ts";
import { Allocations, type DeviceAllocation, type SoftwareAllocation } from "./memory/allocations.ts";
import { Copies } from "./execution/streams/copies.ts";
import type { DeviceMemory } from "./memory/device_memory.ts";
import { checkSharing, fail, failBecause, translateSystemErrors } from "./failure.ts";
import { Fabric, fabricMemoryOf, noDescriptor } from "./memory/fabric/fabric.ts";
import { FabricFile } from "./memory/fabric/fabric_file.ts";
import { HostMemory, type LockedMemory, refusePlainMemory } from "./memory/host_memory.ts";
import { ImportedPool, type PointerMapping } from "./ipc/imported_pool.ts";
import { InterprocessEvent } from "./ipc/interprocess_event.ts";
import { LegacyMemory } from "./ipc/legacy_memory.ts";
import type { OpenedMemory } from "./ipc/opened_memory.ts";
import { ownIdentity } from "./ipc/process_identity.ts";
import { poolAttribute, setPoolAttribute } from "./memory/pool_attributes.ts";
import {
  createPoolId,
  decodeExportData,
  decodePoolFileHeader,
  encodeExportData,
  type PoolFileHeader,
  poolFileHeaderUsedByteLength,
} from "./memory/pool_file.ts";
import { SharedFile, sharedMemoryRefusal } from "./memory/shared_file.ts";
import { multiProcessorCount } from "./abi/launch_record.ts";
import { softwareAttribute } from "./software_device.ts";
import { GridWorkspaces } from "./execution/residency/grid_workspaces.ts";
import {
  kernelAttribute,
  occupancyOf,
  potentialBlockSize,
  setKernelAttribute,
} from "./execution/launching/kernel_attributes.ts";
import { choiceOf } from "./schedule.ts";
import { LaunchChecks, RunningChecks } from "./execution/checks/launch_checks.ts";
import { type KernelOrder, kernelOrders } from "./execution/scheduling/kernel_order.ts";
import { argumentRangesOf } from "./execution/checks/argument_ranges.ts";
import { MemoryCheck } from "./execution/checks/memory_check.ts";
import { checkedLaunch, type KnownAccesses, type LookedAt } from "./execution/launching/checked_launch.ts";
import {
  checkLaunchAttributes,
  type LaunchConfiguration,
  launchOf,
  LoadedKernel,
} from "./execution/launching/launches.ts";
import { LoadedModule, type ModuleVariable } from "./execution/modules/loaded_module.ts";
import type { SkippedChecksOfLaunch } from "./execution/modules/module_loader.ts";
import {
  type FreedKind,
  type FreedRange,
  FreedRanges,
  type MemoryNames,
  type NamedRange,
  nearestOf,
  nearestRange,
} from "./memory/named_memory.ts";
import { CheckMemory } from "./memory/check_memory.ts";
import { MemoryShadow } from "./memory/memory_shadow.ts";
import type { PoolBlock } from "./memory/pool_block.ts";
import type { Range } from "./memory/range_allocator.ts";
import { SoftwarePool } from "./memory/software_pool.ts";
import { isPhysicalMemory } from "./memory/virtual/physical_memory.ts";
import type { VirtualRun } from "./memory/virtual/address_space.ts";
import { VirtualMemory } from "./memory/virtual/virtual_memory.ts";
import { Event, Scheduler, Stream, Work } from "./execution/streams/streams.ts";
import { deviceLimit, type SoftwareDriverOptions, VisibleDevices } from "./visible_devices.ts";
import {
  addressOfOffset,
  freshByte,
  LinearMemory,
  linearMemoryByteLength,
  offsetOfAddress,
  scratch,
} from "./memory/linear_memory.ts";

const emulatedCudaVersion = 13000;
const onlyNumaNode = 0;
/** Larger than the address space of any device. */
const addressableByteLength = 2n ** 44n;
const { read, readWrite } = memAccessFlags;

/** An allocation from a pool of this process. */
interface PoolAllocation extends DeviceAllocation {
  readonly kind: "pool";
  readonly pool: SoftwarePool;
  readonly block: PoolBlock;
}

/** An allocation from a pool of another process, mapped here. */
interface MappedAllocation extends DeviceAllocation {
  readonly kind: "mapped";
  readonly pool: ImportedPool;
  readonly mapping: PointerMapping;
}

/** An allocation that a call to `free` or `freeAsync` frees. */
type FreeableAllocation = PoolAllocation | MappedAllocation | DeviceMemory;

/** Anything that contains device addresses. */
type AnyAllocation = FreeableAllocation | OpenedMemory | ModuleVariable | LockedMemory | VirtualRun;

/** The stream priorities of an H200. The software device treats all priorities alike. */
const streamPriorities = { least: 0, greatest: -5 } as const;

/** An infinite loop takes a minute or two to reach this limit. */
const defaultStepLimit = 2 ** 36;

/** The memory of closed drivers that stays accessible until the process ends. */
const keptMemories: LinearMemory[] = [];

/** A `Driver` that runs on the CPU. */
export class SoftwareDriver implements Driver {
  /** The largest number of devices. */
  static readonly deviceLimit: number = deviceLimit;
  readonly kind = "software";
  readonly contextsAreShared = false;
  readonly loadingBlocks = false;
  readonly runsOnHost = true;
  readonly dropsWork = true;
  readonly executesMachineCode = false;
  readonly checker: KernelChecker;
  readonly runtimeVersion: number = emulatedCudaVersion;
  readonly sharingRefusal: string | undefined = sharedMemoryRefusal();
  readonly checksHandles: boolean = true;
  readonly hasContextEvents: boolean = true;
  readonly #linearMemory: LinearMemory;
  readonly #workspaces: GridWorkspaces;
  readonly #devices: VisibleDevices;
  readonly #scheduler: Scheduler;
  readonly #isScheduled: boolean;
  /** The order of the next launch's threads. Undefined if they run as they are counted. */
  readonly #nextOrder: (() => KernelOrder) | undefined;
  readonly #hostMemory: HostMemory;
  readonly #copies: Copies;
  /** What knows which memory is initialized, if kernels are checked for that. */
  readonly #shadow: MemoryShadow | undefined;
  /** Where kernels note what they access, once one does. */
  #checkMemory: CheckMemory | undefined;
  /** The allocations that other processes may write. */
  readonly #exported = new WeakSet<AnyAllocation>();
  readonly #defaultStreams: readonly Stream[];
  readonly #defaultPools = new Map<number, bigint>();
  readonly #currentPools = new Map<number, bigint>();
  readonly #streams = new Map<bigint, Stream>();
  readonly #events = new Map<bigint, Event>();
  /** The events that have a page in linear memory, including destroyed ones that pending work still uses. */
  readonly #interprocessEvents = new Set<InterprocessEvent>();
  readonly #pools = new Map<bigint, SoftwarePool | ImportedPool>();
  /** The pools of this process, including destroyed ones whose memory is still in use. */
  readonly #openPools = new Set<SoftwarePool>();
  /** The imported pools, including destroyed ones with mappings that are still in use. */
  readonly #openImports = new Set<ImportedPool>();
  readonly #legacyMemory: LegacyMemory;
  readonly #fabric: Fabric;
  readonly #virtualMemory: VirtualMemory;
  readonly #allocations = new Allocations<AnyAllocation>();
  /** The parts of allocations that an allocator has handed out. */
  readonly #parts = new Allocations<SoftwareAllocation>();
  /** For the messages of faults. */
  readonly #freedRanges = new FreedRanges();
  #namedBuffers: () => Iterable<NamedBuffer> = () => [];
  /** For the kernels of each device. */
  readonly #memoryNames: readonly MemoryNames[];
  readonly #modules = new Map<bigint, LoadedModule>();
  /** Modules that were unloaded and whose memory is not released yet. */
  readonly #unloadedModules = new Set<LoadedModule>();
  readonly #kernels = new Map<bigint, LoadedKernel>();
  #collectives: SoftwareCollectives | undefined;
  readonly #kernelOptions: Required<Pick<SoftwareDriverOptions, "boundsChecks" | "gangs">> & {
    readonly stepLimit: number;
    readonly running: RunningChecks;
    readonly observesAccesses: boolean;
    readonly variesThreads: boolean;
    readonly kernelChecks: ReadonlySet<KernelCheck>;
  };
  #lastHandle = 0x5000n;

  constructor(options: SoftwareDriverOptions) {
    const { stepLimit = defaultStepLimit, boundsChecks = true, gangs = true } = options;
    const { observesAccesses = false, kernelChecks = new Set(), schedule } = options;
    if (!Number.isSafeInteger(stepLimit) || stepLimit < 1) {
      throw new RangeError(
        `Cannot limit kernels to ${stepLimit} steps: the limit must be a whole number of at least 1`,
      );
    }
    this.checker = {
      checks: kernelChecks,
      observesAccesses,
      launch: (launch, attributes, observation) => {
        if (attributes === undefined) this.#enqueueLaunch(launch, "cuLaunchKernel", { observation });
        else this.#launchWithAttributes(launch, attributes, observation);
      },
      partAllocated: (part, device, stream) => this.#partAllocated(part, device, stream),
      partFreed: (address) => this.#partFreed(address),
      unfreedHeap: () => this.#unfreedHeap(),
    };
    this.#linearMemory = new LinearMemory({ findsMistakes: kernelChecks.has("memory") });
    this.#workspaces = new GridWorkspaces(this.#linearMemory);
    this.#hostMemory = new HostMemory(this.#linearMemory);
    const running = new RunningChecks();
    const variesThreads = schedule !== undefined && schedule !== "oldest";
    this.#kernelOptions = { stepLimit, boundsChecks, gangs, running, observesAccesses, variesThreads, kernelChecks };
    this.#devices = new VisibleDevices(options);
    this.#isScheduled = schedule !== undefined;
    this.#nextOrder = kernelOrders(schedule);
    const choice = schedule && choiceOf(schedule);
    this.#scheduler = new Scheduler((device, cause) => this.#devices.lose(device, cause), choice);
    this.#shadow = kernelChecks.has("initialization") ? this.#openShadow() : undefined;
    this.#copies = new Copies(this.#scheduler, this.#hostMemory, this.#shadow);
    this.#legacyMemory = new LegacyMemory(this.#linearMemory, this.#devices);
    this.#fabric = new Fabric(options.fabric);
    this.#virtualMemory = new VirtualMemory({
      linearMemory: this.#linearMemory,
      devices: this.#devices,
      fabric: this.#fabric,
      newHandle: () => this.#newHandle(),
      added: (run) => this.#allocations.add(run),
      removed: (run) => this.#forget(run),
    });
    this.#defaultStreams = Array.from({ length: this.#devices.count }, (_, device) => {
      return new Stream(device, { isDefault: true });
    });
    for (const stream of this.#defaultStreams) this.#scheduler.addStream(stream);
    this.#memoryNames = this.#defaultStreams.map((_, device) => ({
      position: (offset, byteLength) => nearestOf({ begin: offset, byteLength }, this.#namedMemory(device)),
      bytesFrom: (offset) => this.#bytesFrom(offset),
    }));
  }

  /** The software device's own collectives. */
  get collectives(): CollectiveLibrary {
    return this.#collectives ??= new SoftwareCollectives({
      scheduler: this.#scheduler,
      shadow: this.#shadow,
      checkDevice: (device, call) => this.#devices.check(device, call),
      areLost: () => this.#devices.areLost,
      deviceUuid: (device) => this.#devices.uuid(device),
      stream: (device, handle, call) => this.#stream(device, handle, call),
      range: (address, byteLength, { device, flags, call }) => {
        const isPermitted = (allocation: AnyAllocation) => this.#isAccessible(allocation, device);
        return this.#range(address, byteLength, { call, isPermitted, device, flags });
      },
    });
  }

  close({ keepMemory = false }: { readonly keepMemory?: boolean } = {}): void {
    // While they are there, dropped work means that the devices were lost.
    this.#collectives?.close();
    reportDroppedLaunches(this.#scheduler.close());
    for (const pool of [...this.#openImports, ...this.#openPools]) pool.close();
    this.#openImports.clear();
    this.#openPools.clear();
    this.#pools.clear();
    this.#legacyMemory.close();
    this.#virtualMemory.close();
    if (keepMemory) keptMemories.push(this.#linearMemory);
    else this.#hostMemory.close();
    for (const module of [...this.#modules.values(), ...this.#unloadedModules]) module.release();
    this.#modules.clear();
    this.#unloadedModules.clear();
    for (const event of this.#interprocessEvents) event.close();
    this.#interprocessEvents.clear();
    this.#workspaces.close();
    this.#checkMemory?.release();
    this.#linearMemory.close();
  }

  driverGetVersion(): number {
    return emulatedCudaVersion;
  }

  getDeviceCount(): number {
    return this.#devices.count;
  }

  deviceGetName(device: number): string {
    this.#devices.checkOrdinal(device, "cuDeviceGetName");
    return "poolpass software device";
  }

  deviceGetUuid(device: number): Uint8Array {
    this.#devices.checkOrdinal(device, "cuDeviceGetUuid");
    return this.#devices.uuid(device);
  }

  deviceGetAttribute(device: number, attribute: number): number {
    this.#devices.checkOrdinal(device, "cudaDeviceGetAttribute");
    const value = softwareAttribute(attribute, { sharing: this.sharingRefusal === undefined });
    return value ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaDeviceGetAttribute");
  }

  deviceTotalMem(device: number): number {
    this.#devices.checkOrdinal(device, "cuDeviceTotalMem");
    return linearMemoryByteLength - scratch.local.begin - scratch.local.byteLength;
  }

  memGetInfo(device: number): { free: number; total: number } {
    this.#devices.check(device, "cudaMemGetInfo");
    return { free: this.#linearMemory.freeBytes, total: this.deviceTotalMem(device) };
  }

  deviceSynchronize(device: number): void {
    this.#devices.check(device, "cudaDeviceSynchronize");
    this.#finishWork(device, "cudaDeviceSynchronize");
  }

  deviceCanAccessPeer(device: number, peer: number): boolean {
    this.#devices.checkOrdinal(device, "cudaDeviceCanAccessPeer");
    this.#devices.checkOrdinal(peer, "cudaDeviceCanAccessPeer");
    return this.#devices.arePeers && device !== peer;
  }

  deviceEnablePeerAccess(device: number, peer: number): void {
    const call = "cudaDeviceEnablePeerAccess";
    this.#devices.check(device, call);
    this.#devices.checkOrdinal(peer, call);
    if (device === peer || !this.#devices.arePeers) fail(cudaErrorNumbers.cudaErrorPeerAccessUnsupported, call);
    this.#ensureBoundsTable(device, call);
    const { peerAccess } = this.#legacyMemory;
    if (peerAccess.isEnabled(device, peer)) fail(cudaErrorNumbers.cudaErrorPeerAccessAlreadyEnabled, call);
    peerAccess.enable(device, peer);
  }

  deviceDisablePeerAccess(device: number, peer: number): void {
    const call = "cudaDeviceDisablePeerAccess";
    this.#devices.check(device, call);
    this.#devices.checkOrdinal(peer, call);
    const { peerAccess } = this.#legacyMemory;
    if (!peerAccess.isEnabled(device, peer)) fail(cudaErrorNumbers.cudaErrorPeerAccessNotEnabled, call);
    // Kernels that were launched earlier must still run with the access they had at their launch.
    this.#finishWork(device, call);
    peerAccess.disable(device, peer);
  }

  deviceGetStreamPriorityRange(device: number): { least: number; greatest: number } {
    this.#devices.check(device, "cudaDeviceGetStreamPriorityRange");
    return { ...streamPriorities };
  }

  streamCreateWithPriority(device: number, flags: number, _priority: number): bigint {
    this.#devices.check(device, "cudaStreamCreateWithPriority");
    if (flags !== streamFlags.default && flags !== streamFlags.nonBlocking) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaStreamCreateWithPriority");
    }
    const stream = new Stream(device, { nonBlocking: flags === streamFlags.nonBlocking });
    this.#scheduler.addStream(stream);
    return this.#register(this.#streams, stream);
  }

  streamDestroy(device: number, stream: bigint): void {
    const found = this.#stream(device, stream, "cudaStreamDestroy");
    if (found.isDefault) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, "cudaStreamDestroy");
    this.#scheduler.removeStream(found);
    this.#streams.delete(stream);
  }

  streamQuery(device: number, stream: bigint, options?: QueryOptions): boolean {
    const found = this.#stream(device, stream, "cudaStreamQuery");
    // Makes progress for programs that poll without returning to the event loop.
    if (!options?.peek && !this.#scheduler.isDone(found)) this.#scheduler.step();
    this.#devices.check(found.device, "cudaStreamQuery");
    return this.#scheduler.isDone(found);
  }

  streamSynchronize(device: number, stream: bigint): void {
    const found = this.#stream(device, stream, "cudaStreamSynchronize");
    this.#scheduler.runUntil(() => this.#scheduler.isDone(found));
    this.#finishSynchronization(found.device, "cudaStreamSynchronize");
  }

  streamWaitEvent(device: number, stream: bigint, event: bigint): void {
    const target = this.#stream(device, stream, "cudaStreamWaitEvent");
    const found = this.#event(event, "cudaStreamWaitEvent");
    const work = this.#scheduler.wait(target, found);
    if (work !== undefined && found instanceof InterprocessEvent) found.uses.add(work);
  }

  /** Always false: the software device has no graphs. */
  streamIsCapturing(device: number, stream: bigint): boolean {
    this.#stream(device, stream, "cudaStreamIsCapturing");
    return false;
  }

  streamGetFlags(device: number, stream: bigint): number {
    return this.#stream(device, stream, "cudaStreamGetFlags").nonBlocking
      ? streamFlags.nonBlocking
      : streamFlags.default;
  }

  streamGetDevice(device: number, stream: bigint): number {
    return this.#stream(device, stream, "cuStreamGetCtx").device;
  }

  eventCreateWithFlags(device: number, flags: number): bigint {
    const call = "cudaEventCreateWithFlags";
    this.#devices.check(device, call);
    const { blockingSync, disableTiming, interprocess } = eventFlags;
    const isTimed = (flags & disableTiming) === 0;
    const isInterprocess = (flags & interprocess) !== 0;
    if ((flags & ~(blockingSync | disableTiming | interprocess)) !== 0 || (isInterprocess && isTimed)) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    }
    if (!isInterprocess) return this.#register(this.#events, new Event(device, flags));
    const deviceUuid = this.#devices.uuid(device);
    return this.#registerInterprocessEvent(InterprocessEvent.create(this.#linearMemory, { device, flags, deviceUuid }));
  }

  #registerInterprocessEvent(event: InterprocessEvent): bigint {
    this.#interprocessEvents.add(event);
    return this.#register(this.#events, event);
  }

  eventDestroy(device: number, event: bigint): void {
    const call = "cudaEventDestroy";
    this.#devices.check(device, call);
    const found = this.#event(event, call);
    this.#events.delete(event);
    if (!(found instanceof InterprocessEvent)) return;
    found.destroy();
    this.#closeUnusedEvents();
  }

  eventRecord(device: number, event: bigint, stream: bigint): void {
    const call = "cudaEventRecord";
    const found = this.#event(event, call);
    const target = this.#stream(device, stream, call);
    if (found.device !== target.device) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    const work = this.#scheduler.record(found, target);
    if (found instanceof InterprocessEvent) found.uses.add(work);
  }

  /** All of them: there are no contexts to create. */
  usedDevices(): number[] {
    return Array.from({ length: this.getDeviceCount() }, (_, device) => device);
  }

  ctxRecordEvent(device: number, event: bigint): void {
    const call = "cuCtxRecordEvent";
    this.#devices.check(device, call);
    const found = this.#event(event, call);
    if (found.device !== device) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    const work = this.#scheduler.recordDevice(found);
    if (found instanceof InterprocessEvent) found.uses.add(work);
  }

  eventQuery(event: bigint, options?: QueryOptions): boolean {
    const { latest, device } = this.#event(event, "cudaEventQuery");
    if (!options?.peek && latest !== undefined && !latest.done) this.#scheduler.step();
    this.#devices.check(device, "cudaEventQuery");
    return latest === undefined || latest.done;
  }

  eventSynchronize(event: bigint): void {
    const call = "cudaEventSynchronize";
    const { latest, device, isRecordedForDevice } = this.#event(event, call);
    // Lost devices make no further progress and wait for no other process.
    const isOver = () => latest === undefined || latest.done || this.#devices.areLost;
    this.#scheduler.runUntil(isOver, { isOutside: !(latest instanceof Work) });
    // For CUDA's pools, an event for all streams of a device is not one of the streams on which memory was freed.
    if (isRecordedForDevice) this.#devices.check(device, call);
    else this.#finishSynchronization(device, call);
  }

  eventElapsedTime(start: bigint, end: bigint): number {
    const call = "cudaEventElapsedTime";
    const [first, last] = [this.#event(start, call), this.#event(end, call)];
    for (const { device, flags, recorded } of [first, last]) {
      // If the device was lost, the record was dropped with its work, and the event never gets a time.
      this.#devices.check(device, call);
      if (recorded === undefined || (flags & eventFlags.disableTiming) !== 0) {
        fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
      }
    }
    if (first.device !== last.device) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    if (first.time === undefined || last.time === undefined) fail(cudaErrorNumbers.cudaErrorNotReady, call);
    return last.time - first.time;
  }

  ipcGetEventHandle(event: bigint): Uint8Array<ArrayBuffer> {
    const call = "cudaIpcGetEventHandle";
    if (event === 0n) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const found = this.#event(event, call);
    return found instanceof InterprocessEvent
      ? found.handle()
      : fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
  }

  ipcOpenEventHandle(device: number, handle: Uint8Array): bigint {
    this.#devices.check(device, "cudaIpcOpenEventHandle");
    return this.#registerInterprocessEvent(InterprocessEvent.open(this.#linearMemory, { device, handle }));
  }

  deviceGetDefaultMemPool(device: number): bigint {
    this.#devices.checkOrdinal(device, "cudaDeviceGetDefaultMemPool");
    let pool = this.#defaultPools.get(device);
    if (pool === undefined) {
      pool = this.#createPool(device, { handleTypes: memHandleType.none, maxByteLength: Infinity });
      this.#defaultPools.set(device, pool);
    }
    return pool;
  }

  deviceGetMemPool(device: number): bigint {
    this.#devices.checkOrdinal(device, "cudaDeviceGetMemPool");
    return this.#currentPools.get(device) ?? this.deviceGetDefaultMemPool(device);
  }

  deviceSetMemPool(device: number, pool: bigint): void {
    this.#devices.checkOrdinal(device, "cudaDeviceSetMemPool");
    const found = this.#localPool(pool, "cudaDeviceSetMemPool");
    if (found.device !== device) fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaDeviceSetMemPool");
    this.#currentPools.set(device, pool);
  }

  memPoolCreate({ handleTypes, location, maxSize }: MemPoolProps): bigint {
    const call = "cudaMemPoolCreate";
    const { cudaErrorInvalidValue, cudaErrorMemoryAllocation } = cudaErrorNumbers;
    const { posixFileDescriptor, fabric } = memHandleType;
    const isShareable = handleTypes !== memHandleType.none;
    const device = location.type === memLocationType.device ? location.id : undefined;
    if ((handleTypes & ~(posixFileDescriptor | fabric)) !== 0) fail(cudaErrorInvalidValue, call);
    if (device !== undefined) {
      this.#devices.checkOrdinal(device, call);
    } else if (location.type === memLocationType.host) {
      // CUDA shares host pools only if they are bound to a NUMA node.
      if (isShareable) fail(cudaErrorInvalidValue, call);
    } else if (location.type !== memLocationType.hostNuma || location.id !== onlyNumaNode) {
      fail(cudaErrorInvalidValue, call);
    }
    if (maxSize > addressableByteLength) fail(cudaErrorMemoryAllocation, call);
    return this.#createPool(device, { handleTypes, maxByteLength: maxSize === 0n ? Infinity : Number(maxSize) });
  }

  #createPool(device: number | undefined, options: { handleTypes: number; maxByteLength: number }): bigint {
    const call = "cudaMemPoolCreate";
    if (device !== undefined) this.#ensureBoundsTable(device, call);
    const id = createPoolId();
    const { handleTypes } = options;
    let file: SharedFile | string | undefined;
    if (handleTypes !== memHandleType.none && this.sharingRefusal !== undefined) {
      fail(cudaErrorNumbers.cudaErrorNotSupported, call);
    }
    if (handleTypes !== memHandleType.none) {
      const deviceUuid = device === undefined ? undefined : this.#devices.uuid(device);
      const header = { id, deviceUuid, handleTypes, processId: ownIdentity().pid };
      file = (handleTypes & memHandleType.fabric) !== 0
        ? this.#fabric.create(fabricMemoryOf(header), call)
        : translateSystemErrors(call, () => SharedFile.createPoolFile(header));
    }
    const services = { linearMemory: this.#linearMemory, scheduler: this.#scheduler };
    const place = typeof file === "string" ? { file: undefined, refusal: file } : { file };
    const pool = new SoftwarePool(services, { device, id, ...place, ...options });
    this.#openPools.add(pool);
    return this.#register(this.#pools, pool);
  }

  memPoolDestroy(pool: bigint): void {
    const call = "cudaMemPoolDestroy";
    const found = this.#pool(pool, call);
    if ([...this.#defaultPools.values()].includes(pool)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    if (found instanceof ImportedPool) {
      if (found.mappings.size > 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      if (--found.importCount > 0) return;
      found.destroy();
      if (found.isClosed) this.#openImports.delete(found);
    } else {
      found.destroy();
      if (found.isClosed) this.#openPools.delete(found);
      for (const [device, current] of this.#currentPools) if (current === pool) this.#currentPools.delete(device);
    }
    this.#pools.delete(pool);
  }

  memPoolGetAttribute(pool: bigint, attribute: number): bigint {
    return poolAttribute(this.#localPool(pool, "cudaMemPoolGetAttribute"), attribute);
  }

  memPoolSetAttribute(pool: bigint, attribute: number, value: bigint): void {
    setPoolAttribute(this.#localPool(pool, "cudaMemPoolSetAttribute"), attribute, value);
  }

  memPoolTrimTo(pool: bigint, minBytesToKeep: bigint): void {
    this.#localPool(pool, "cudaMemPoolTrimTo").trimTo(minBytesToKeep);
  }

  memPoolGetAccess(pool: bigint, { type, id }: MemLocation): number {
    const call = "cudaMemPoolGetAccess";
    const found = this.#pool(pool, call);
    if (isHost({ type, id })) return found.device === undefined ? memAccessFlags.readWrite : memAccessFlags.none;
    const isDevice = type === memLocationType.device && id >= 0 && id < this.#devices.count;
    if (!isDevice) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    return found.access.get(id) ?? memAccessFlags.none;
  }

  memPoolSetAccess(pool: bigint, descriptions: readonly MemAccessDesc[]): void {
    const call = "cudaMemPoolSetAccess";
    const { cudaErrorInvalidDevice, cudaErrorInvalidValue, cudaErrorNotSupported } = cudaErrorNumbers;
    const found = this.#pool(pool, call);
    const devices: { id: number; flags: number }[] = [];
    for (const { location, flags } of descriptions) {
      const { type, id } = location;
      if (!Object.values<number>(memAccessFlags).includes(flags)) fail(cudaErrorInvalidValue, call);
      if (type !== memLocationType.device) {
        // The CPU always has access to host memory and never gets access to device memory.
        const isHostAccess = found.device === undefined && isHost(location) && flags === memAccessFlags.readWrite;
        if (!isHostAccess) fail(cudaErrorNotSupported, call);
        continue;
      }
      this.#devices.checkOrdinal(id, call);
      // GPUs have no read-only memory for kernels.
      if (flags === memAccessFlags.read) fail(cudaErrorNotSupported, call);
      // A device cannot lose access to its own memory.
      if (id === found.device && flags === memAccessFlags.none) fail(cudaErrorInvalidDevice, call);
      const isOwnOrPeer = found.device === undefined || id === found.device || this.#devices.arePeers;
      if (!isOwnOrPeer) fail(cudaErrorInvalidDevice, call);
      devices.push({ id, flags });
    }
    for (const { id, flags } of devices) {
      this.#ensureBoundsTable(id, call);
      found.setAccess(id, flags);
    }
  }

  mallocFromPoolAsync(device: number, byteLength: number, pool: bigint, stream: bigint): bigint {
    const call = "cudaMallocFromPoolAsync";
    const target = this.#stream(device, stream, call);
    const found = this.#localPool(pool, call);
    if (byteLength === 0) return 0n;
    const block = found.allocate(byteLength, target);
    if (block === undefined) fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    const { begin } = block;
    const owner = found.device ?? target.device;
    const allocation: PoolAllocation = { kind: "pool", begin, byteLength, device: owner, pool: found, block };
    this.#allocations.add(allocation);
    // The host may write memory of a host pool at once.
    if (found.device !== undefined && this.#isChecked) {
      this.#scheduler.enqueue(target, () => this.#markFresh(allocation));
    }
    return addressOfOffset(begin);
  }

  freeAsync(device: number, address: bigint, stream: bigint): void {
    const call = "cudaFreeAsync";
    const target = this.#stream(device, stream, call);
    if (address === 0n) return;
    this.#enqueueFree(this.#freeableAllocation(address, call), target);
  }

  /** Whether fresh memory is to show what was not initialized. */
  get #isChecked(): boolean {
    return this.#isScheduled || this.checker.observesAccesses || this.checker.checks.size > 0;
  }

  /** The free of an allocation may have been asked for already. */
  #markFresh(allocation: PoolAllocation | DeviceMemory): void {
    const { begin, byteLength } = allocation;
    this.#linearMemory.bytes.fill(freshByte, begin, begin + byteLength);
    if (!this.#exported.has(allocation)) this.#shadow?.markUninitialized(begin, byteLength);
  }

  #openShadow(): MemoryShadow {
    const shadow = MemoryShadow.open(this.#linearMemory, (offset) => {
      const found = this.#allocations.containing(offset, 1);
      if (found === undefined || found.kind === "variable") return false;
      if (found.kind === "pool") return found.pool.device === undefined || this.#exported.has(found);
      return found.kind !== "plain" || this.#exported.has(found);
    });
    if (shadow !== undefined) return shadow;
    throw new RangeError(
      `Cannot make the check "initialization": it needs half of the 4 GiB of the software device's memory, and other ` +
        `objects of this process use some of that half; open this one first`,
    );
  }

  /** Lets other processes write an allocation. What they write is not seen, so that all of it counts as written. */
  #export(allocation: PoolAllocation | DeviceMemory): void {
    this.#exported.add(allocation);
    this.#shadow?.markInitialized(allocation.begin, allocation.byteLength);
  }

  malloc(device: number, byteLength: number): bigint {
    const call = "cudaMalloc";
    this.#devices.check(device, call);
    if (byteLength === 0) return 0n;
    this.#ensureBoundsTable(device, call);
    const memory = this.#legacyMemory.allocate(device, byteLength);
    if (memory === undefined) fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    this.#allocations.add(memory);
    if (this.#isChecked) {
      this.#markFresh(memory);
    }
    return addressOfOffset(memory.begin);
  }

  free(device: number, address: bigint): void {
    const call = "cudaFree";
    this.#devices.check(device, call);
    if (address === 0n) return;
    const found = this.#freeableAllocation(address, call);
    this.#finishWork(device, call);
    this.#finishWork(found.device, call);
    const freed = this.#enqueueFree(found, this.#defaultStreams[found.device]!);
    this.#scheduler.runUntil(() => freed.done);
    this.#reclaimPools();
  }

  /** Returns the allocation that starts at an address, if a free may end it. */
  #freeableAllocation(address: bigint, call: string): FreeableAllocation {
    const found = this.#allocationStartingAt(address);
    if (found !== undefined && (isPoolMemory(found) || found.kind === "plain")) return found;
    fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  }

  #enqueueFree(allocation: FreeableAllocation, stream: Stream): Work {
    this.#forget(allocation);
    if (allocation.kind === "pool") return allocation.pool.free(allocation, stream);
    if (allocation.kind === "mapped") {
      const { pool, mapping } = allocation;
      pool.mappings.delete(mapping.key);
      return this.#scheduler.enqueue(stream, () => pool.unmap(mapping), { outlivesDevice: true });
    }
    return this.#scheduler.enqueue(stream, () => this.#legacyMemory.release(allocation), { outlivesDevice: true });
  }

  /** Removes an allocation that is freed, and remembers it for the messages of faults. */
  #forget(allocation: Exclude<AnyAllocation, ModuleVariable>): void {
    this.#allocations.remove(allocation);
    this.#parts.removeWithin(allocation);
    const device = allocation.kind === "locked" ? 0 : allocation.device;
    this.#freedRanges.add(allocation.begin, allocation.byteLength, freedKindOf(allocation), device);
  }

  #unfreedHeap(): UnfreedHeap[] {
    const isBusy = this.#defaultStreams.some(({ device }) => !this.#scheduler.isIdle(device));
    if (isBusy || this.#devices.areLost) return [];
    const found = new Map<string, UnfreedHeap>();
    for (const { device } of this.#defaultStreams) {
      for (const { byteLength, site } of this.#linearMemory.heapOf(device)?.blocks ?? []) {
        const { kernel, source } = site ?? {};
        const key = `${kernel}\n${source}`;
        const { count, byteLength: bytes } = found.get(key) ?? { count: 0, byteLength: 0 };
        found.set(key, { kernel, source, count: count + 1, byteLength: bytes + byteLength });
      }
    }
    return [...found.values()];
  }

  #partAllocated({ address, byteLength }: MemoryRange, device: number, stream: bigint): void {
    const begin = offsetOfAddress(address)!;
    this.#parts.add({ begin, byteLength });
    const shadow = this.#shadow;
    if (shadow === undefined) return;
    // What had the part before may not be done with it.
    const target = this.#stream(device, stream, "cudaMallocFromPoolAsync");
    // Nor may the slab be there any more, which may be exported until then.
    const slab = this.#allocations.containing(begin, byteLength);
    const note = (): void => {
      if (slab === undefined || !this.#exported.has(slab)) shadow.noteAllocation(begin, byteLength);
    };
    this.#scheduler.enqueue(target, note, { outlivesDevice: true });
  }

  #partFreed(address: bigint): void {
    const part = this.#parts.at(offsetOfAddress(address)!);
    if (part !== undefined) this.#parts.remove(part);
  }

  useBufferNames(buffers: () => Iterable<NamedBuffer>): void {
    this.#namedBuffers = buffers;
  }

  /** The memory that a kernel of a device may have meant to access. */
  #namedMemory(device: number): NamedRange[] {
    const named = [...this.#namedBuffers()];
    const live: NamedRange[] = this.#allocations.toArray().flatMap((allocation) => {
      const refusal = this.#refusalOf(allocation, device);
      return namedRangesOf(allocation, named).map((range) => ({ ...range, ...refusal }));
    });
    // Memory that was allocated again is no longer that of the freed buffer.
    const freed: NamedRange[] = [];
    for (const range of this.#freedRanges) {
      const { begin } = range;
      const end = begin + range.byteLength;
      const isReused = [...live, ...freed].some((other) => other.begin < end && begin < other.begin + other.byteLength);
      if (isReused) continue;
      const isFreed = !this.#linearMemory.isAllowed(device, begin);
      const mistake = isFreed ? "use-after-free" as const : undefined;
      freed.push({ begin, byteLength: range.byteLength, name: nameOfFreed(range, isFreed, named), mistake });
    }
    return [...live, ...freed, ...this.#linearMemory.heapOf(device)?.ranges() ?? []];
  }

  /** Why kernels of a device cannot access an allocation. */
  #refusalOf(allocation: AnyAllocation, device: number): Pick<NamedRange, "reason" | "mistake"> {
    if (!this.#isAccessible(allocation, device)) {
      const reason = `which device ${device} has no access to: ${accessAdvice(allocation)}`;
      return { reason, mistake: "inaccessible" };
    }
    if (allocation.kind === "virtual" && !allocation.permits(device, wholeOf(allocation), readWrite)) {
      const reason = `of which device ${device} may only read some: call setAccess of its address range`;
      return { reason, mistake: "inaccessible" };
    }
    if (this.#linearMemory.isAllowed(device, allocation.begin)) return {};
    return { reason: "which is allocated only later in the order of the streams", mistake: "use-before-allocation" };
  }

  /** The number of bytes from an offset to the end of the buffer there. */
  #bytesFrom(offset: number): number | undefined {
    const named = [...this.#namedBuffers()];
    for (const allocation of this.#allocations.toArray()) {
      const range = namedRangesOf(allocation, named).find(({ begin, byteLength }) => {
        return offset >= begin && offset < begin + byteLength;
      });
      if (range !== undefined) return range.begin + range.byteLength - offset;
    }
    return undefined;
  }

  ipcGetMemHandle(device: number, address: bigint): Uint8Array<ArrayBuffer> {
    const call = "cudaIpcGetMemHandle";
    this.#devices.check(device, call);
    // The handle names the whole allocation, even if the address points into the middle of it.
    const found = this.#allocationAt(address, 1, call);
    if (found.kind !== "plain") fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    this.#export(found);
    return this.#legacyMemory.handleOf(found);
  }

  ipcOpenMemHandle(device: number, handle: Uint8Array): bigint {
    this.#devices.check(device, "cudaIpcOpenMemHandle");
    const memory = this.#legacyMemory.open(device, handle);
    if (memory.openCount === 1) this.#allocations.add(memory);
    return addressOfOffset(memory.begin);
  }

  ipcCloseMemHandle(device: number, address: bigint): void {
    const call = "cudaIpcCloseMemHandle";
    this.#devices.check(device, call);
    const found = this.#allocationStartingAt(address);
    if (found?.kind !== "opened") fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    if (--found.openCount > 0) return;
    this.#forget(found);
    for (const user of [device, found.device]) this.#scheduler.runUntil(() => this.#scheduler.isIdle(user));
    this.#legacyMemory.unmap(found);
    for (const user of [device, found.device]) this.#finishSynchronization(user, call);
  }

  memPoolExportToShareableHandle(pool: bigint, handleType: number): OsHandle {
    const call = "cudaMemPoolExportToShareableHandle";
    const found = this.#localPool(pool, call);
    const { file, handleTypes } = found;
    const { posixFileDescriptor, fabric } = memHandleType;
    const isSupported = [posixFileDescriptor, fabric].some((type) => type === handleType && (handleTypes & type) !== 0);
    if (!isSupported) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    // Without an IMEX channel, CUDA exports no pool that supports fabric handles.
    if (file === undefined) failBecause(cudaErrorNumbers.cudaErrorNotPermitted, call, found.refusal!);
    if (file instanceof FabricFile) {
      if (handleType !== fabric) failBecause(cudaErrorNumbers.cudaErrorNotSupported, call, noDescriptor);
      found.isExported = true;
      return file.handle.slice();
    }
    const descriptor = translateSystemErrors(call, () => file.duplicate());
    found.isExported = true;
    return descriptor;
  }

  memPoolImportFromShareableHandle(device: number, handle: OsHandle, handleType: number): bigint {
    const call = "cudaMemPoolImportFromShareableHandle";
    this.#devices.check(device, call);
    const { posixFileDescriptor, fabric } = memHandleType;
    const isFabric = handleType === fabric;
    if ((!isFabric && handleType !== posixFileDescriptor) || isFabric !== (typeof handle !== "number")) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    }
    const opened = typeof handle === "number"
      ? translateSystemErrors(call, () => SharedFile.openPoolFile(handle))
      : this.#openFabricPool(handle, call);
    if (opened === undefined) {
      if (typeof handle !== "number") fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      const { cudaErrorNotSupported, cudaErrorUnknown } = cudaErrorNumbers;
      fail(isPhysicalMemory(handle) ? cudaErrorNotSupported : cudaErrorUnknown, call);
    }
    const known = this.#retainImport(opened.file.identity());
    if (known !== undefined) {
      opened.file.close();
      return known;
    }
    const { deviceUuid } = opened.header;
    const owner = deviceUuid === undefined ? undefined : this.#devices.find(deviceUuid);
    try {
      if (deviceUuid !== undefined && owner === undefined) fail(cudaErrorNumbers.cudaErrorInvalidDevice, call);
      if (owner !== undefined) this.#ensureBoundsTable(owner, call);
    } catch (error) {
      opened.file.close();
      throw error;
    }
    const imported = new ImportedPool(this.#linearMemory, { device: owner, ...opened });
    this.#openImports.add(imported);
    return this.#register(this.#pools, imported);
  }

  #openFabricPool(handle: Uint8Array, call: string): { file: SharedFile; header: PoolFileHeader } | undefined {
    const { file } = this.#fabric.open("pool", handle, call);
    const header = decodePoolFileHeader(file.read(poolFileHeaderUsedByteLength));
    if (header === undefined) file.close();
    return header && { file, header };
  }

  memPoolExportPointer(address: bigint): Uint8Array<ArrayBuffer> {
    const found = this.#allocationStartingAt(address);
    // As on a GPU, a pool exports pointers only after the first export of its own handle.
    if (found?.kind !== "pool" || !found.pool.isExported) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaMemPoolExportPointer");
    }
    const { pool, block, byteLength } = found;
    this.#export(found);
    return encodeExportData({ processId: ownIdentity().pid, poolId: pool.id, fileOffset: block.offset, byteLength });
  }

  memPoolImportPointer(device: number, pool: bigint, exportData: Uint8Array): bigint {
    const call = "cudaMemPoolImportPointer";
    this.#devices.check(device, call);
    const found = this.#pool(pool, call);
    const pointer = decodeExportData(exportData);
    const isOfPool = found instanceof ImportedPool && pointer?.poolId === found.id &&
      pointer.processId === found.processId;
    if (!isOfPool) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const mapping = found.map(pointer);
    if (mapping === "out of memory") fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    if (mapping === "not in the file") fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    if (mapping === "no exporter") {
      const reason = "the exporter of the pool has ended, or has destroyed it, and its memory is gone with it";
      failBecause(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call, reason);
    }
    if (this.#allocations.at(mapping.begin) === undefined) {
      const { begin, byteLength } = mapping;
      const owner = found.device ?? device;
      this.#allocations.add({ kind: "mapped", begin, byteLength, device: owner, pool: found, mapping });
    }
    return addressOfOffset(mapping.begin);
  }

  memGetAllocationGranularity(_props: MemAllocationProps, option: number): number {
    return this.#virtualMemory.granularity(option);
  }

  memCreate(props: MemAllocationProps, byteLength: number): bigint {
    return this.#virtualMemory.create(props, byteLength);
  }

  memRelease(memory: bigint): void {
    this.#virtualMemory.release(memory);
  }

  memExportToShareableHandle(memory: bigint, handleType: number): OsHandle {
    return this.#virtualMemory.export(memory, handleType);
  }

  memImportFromShareableHandle(handle: OsHandle, handleType: number): bigint {
    return this.#virtualMemory.import(handle, handleType);
  }

  memGetAllocationPropertiesFromHandle(memory: bigint): MemAllocationProps {
    return this.#virtualMemory.propsOf(memory);
  }

  memAddressReserve(byteLength: number, alignment: number): bigint {
    return this.#virtualMemory.reserve(byteLength, alignment);
  }

  memAddressFree(address: bigint, byteLength: number): void {
    this.#virtualMemory.free(address, byteLength);
  }

  memMap(address: bigint, byteLength: number, memory: bigint): void {
    this.#virtualMemory.map(address, byteLength, memory);
  }

  memUnmap(address: bigint, byteLength: number): void {
    this.#virtualMemory.unmap(address, byteLength);
  }

  memSetAccess(address: bigint, byteLength: number, descriptions: readonly MemAccessDesc[]): void {
    this.#virtualMemory.setAccess(address, byteLength, descriptions);
  }

  memGetAccess(address: bigint, location: MemLocation): number {
    return this.#virtualMemory.getAccess(address, location);
  }

  memGetAddressRange(device: number, address: bigint): { base: bigint; byteLength: number } {
    const call = "cuMemGetAddressRange";
    this.#devices.check(device, call);
    const offset = offsetOfAddress(address);
    const found = offset === undefined ? undefined : this.#allocations.containing(offset, 1);
    if (found === undefined) fail(cudaErrorNumbers.cudaErrorSymbolNotFound, call);
    if (found.kind === "virtual") return this.#virtualMemory.rangeAt(found, address);
    const { begin, byteLength } = found;
    if (this.#isAccessible(found, device)) return { base: addressOfOffset(begin), byteLength };
    // For host pool memory that the device has no access to, CUDA reports the size but not the base address.
    if (isPoolMemory(found) && found.pool.device === undefined) return { base: address, byteLength };
    return fail(cudaErrorNumbers.cudaErrorSymbolNotFound, call);
  }

  pointerGetAttributes(device: number, address: bigint): PointerAttributes {
    const call = "cuPointerGetAttribute";
    this.#devices.check(device, call);
    const found = this.#allocationAt(address, 1, call);
    const isHost = found.kind === "locked" || isHostMemory(found);
    return {
      type: isHost ? memoryType.host : memoryType.device,
      device: isHost ? undefined : found.device,
      isManaged: false,
      base: addressOfOffset(found.begin),
      byteLength: found.byteLength,
    };
  }

  hostView(address: bigint, byteLength: number): ArrayBuffer {
    const call = "cudaPointerGetAttributes";
    const found = this.#allocationAt(address, byteLength, call);
    if (!isPoolMemory(found) || found.pool.device !== undefined) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    checkSharing(call);
    return this.#linearMemory.view(offsetOfAddress(address)!, byteLength);
  }

  hostAlloc(byteLength: number): HostAllocation {
    const call = "cudaHostAlloc";
    this.#devices.checkAlive(call);
    if (byteLength === 0) return { buffer: new ArrayBuffer(0), address: 0n };
    const memory = this.#hostMemory.allocate(byteLength);
    if (memory === undefined) fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    if (memory instanceof ArrayBuffer) return { buffer: memory, address: this.#newHandle() };
    this.#allocations.add(memory);
    return { buffer: memory.buffer, address: addressOfOffset(memory.begin) };
  }

  hostGetDevicePointer({ address }: HostAllocation): bigint {
    const offset = offsetOfAddress(address);
    if (offset !== undefined && this.#allocations.at(offset)?.kind === "locked") return address;
    return refusePlainMemory("cudaHostGetDevicePointer");
  }

  freeHost({ address, buffer }: HostAllocation): void {
    const call = "cudaFreeHost";
    this.#devices.checkAlive(call);
    if (address === 0n) return;
    if (!this.#hostMemory.has(buffer)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    // The pending work of any device may use the memory.
    for (let device = 0; device < this.#devices.count; device++) this.#finishWork(device, call);
    const freed = this.#hostMemory.free(buffer);
    if (freed !== undefined) this.#forget(freed);
  }

  memcpyHtoDAsync(device: number, destination: bigint, source: Uint8Array, stream: bigint): void {
    const call = "cudaMemcpyAsync";
    const target = this.#stream(device, stream, call);
    this.#copies.fromHost(
      target,
      this.#rangeForHostCopy(destination, source.byteLength, { device, call, flags: readWrite }),
      source,
    );
  }

  memcpyDtoHAsync(
    device: number,
    destination: Uint8Array,
    source: bigint,
    stream: bigint,
    onUninitialized?: (address: bigint) => void,
  ): void {
    const call = "cudaMemcpyAsync";
    const target = this.#stream(device, stream, call);
    const from = this.#rangeForHostCopy(source, destination.byteLength, { device, call, flags: read });
    this.#copies.toHost(target, destination, from, onUninitialized && ((at) => onUninitialized(source + BigInt(at))));
    this.#devices.check(target.device, call);
  }

  memcpyAsync(device: number, destination: bigint, source: bigint, byteLength: number, stream: bigint): void {
    const call = "cudaMemcpyAsync";
    const target = this.#stream(device, stream, call);
    const to = this.#rangeForHostCopy(destination, byteLength, { device, call, flags: readWrite });
    this.#copies.copy(target, to, this.#rangeForHostCopy(source, byteLength, { device, call, flags: read }));
  }

  memcpyPeerAsync(
    device: number,
    destination: bigint,
    destinationDevice: number,
    source: bigint,
    sourceDevice: number,
    byteLength: number,
    stream: bigint,
  ): void {
    const call = "cudaMemcpyPeerAsync";
    const target = this.#stream(device, stream, call);
    this.#devices.check(destinationDevice, call);
    this.#devices.check(sourceDevice, call);
    // Memory of a host pool belongs to no device.
    const isPermitted = (allocation: AnyAllocation) =>
      !isPoolMemory(allocation) || allocation.pool.device !== undefined;
    const to = this.#range(destination, byteLength, { call, isPermitted, device: destinationDevice, flags: readWrite });
    const from = this.#range(source, byteLength, { call, isPermitted, device: sourceDevice, flags: read });
    this.#copies.copy(target, to, from);
  }

  memsetAsync(device: number, address: bigint, byte: number, byteLength: number, stream: bigint): void {
    const call = "cudaMemsetAsync";
    const target = this.#stream(device, stream, call);
    const isPermitted = (allocation: AnyAllocation) => this.#isAccessible(allocation, target.device);
    const to = this.#range(address, byteLength, { call, isPermitted, device: target.device, flags: readWrite });
    this.#copies.fill(target, to, byte);
  }

  memsetD16Async(device: number, address: bigint, value: number, count: number, stream: bigint): void {
    const call = "cuMemsetD16Async";
    const to = this.#rangeToFill(address, 2 * count, { alignment: 2, device, stream, call });
    const halves = new Uint16Array(to.bytes.buffer, to.bytes.byteOffset, count);
    this.#copies.fill(to.stream, halves, value);
  }

  memsetD32Async(device: number, address: bigint, value: number, count: number, stream: bigint): void {
    const call = "cuMemsetD32Async";
    const to = this.#rangeToFill(address, 4 * count, { alignment: 4, device, stream, call });
    const words = new Uint32Array(to.bytes.buffer, to.bytes.byteOffset, count);
    this.#copies.fill(to.stream, words, value);
  }

  memsetD2D32Async(
    device: number,
    address: bigint,
    pitch: number,
    value: number,
    width: number,
    height: number,
    stream: bigint,
  ): void {
    const call = "cuMemsetD2D32Async";
    const isEmpty = width === 0 || height === 0;
    const byteLength = isEmpty ? 0 : (height - 1) * pitch + 4 * width;
    if (!isEmpty && (pitch % 4 !== 0 || height > 1 && pitch < 4 * width)) {
      fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    }
    const to = this.#rangeToFill(address, byteLength, { alignment: 4, device, stream, call });
    const words = new Uint32Array(to.bytes.buffer, to.bytes.byteOffset, byteLength / 4);
    this.#copies.fillRows(to.stream, words, { value, width, pitch: pitch / 4, height: isEmpty ? 0 : height });
  }

  /** The stream and the bytes of a fill with values of `alignment` bytes. */
  #rangeToFill(
    address: bigint,
    byteLength: number,
    { alignment, device, stream, call }: { alignment: number; device: number; stream: bigint; call: string },
  ): { stream: Stream; bytes: Uint8Array } {
    const target = this.#stream(device, stream, call);
    if (byteLength !== 0 && address % BigInt(alignment) !== 0n) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const isPermitted = (allocation: AnyAllocation) => this.#isAccessible(allocation, target.device);
    const bytes = this.#range(address, byteLength, { call, isPermitted, device: target.device, flags: readWrite });
    return { stream: target, bytes };
  }

  moduleLoadData(device: number, image: string | Uint8Array): bigint {
    const call = "cuModuleLoadDataEx";
    this.#devices.check(device, call);
    this.#ensureBoundsTable(device, call);
    return this.#addModule(LoadedModule.load(this.#linearMemory, image, { device, ...this.#kernelOptions }));
  }

  linkModules(device: number, images: readonly LinkedImage[]): bigint {
    const call = "cuLinkCreate";
    this.#devices.check(device, call);
    this.#ensureBoundsTable(device, call);
    return this.#addModule(LoadedModule.link(this.#linearMemory, images, { device, ...this.#kernelOptions }));
  }

  #addModule(module: LoadedModule): bigint {
    for (const variable of module.variables.values()) {
      this.#allocations.add(variable);
      this.#legacyMemory.peerAccess.add(variable);
    }
    return this.#register(this.#modules, module);
  }

  moduleUnload(device: number, module: bigint): void {
    const call = "cuModuleUnload";
    this.#devices.check(device, call);
    const found = this.#module(module, call);
    for (const handle of found.functions.values()) this.#kernels.delete(handle);
    this.#modules.delete(module);
    for (const variable of found.variables.values()) {
      this.#allocations.remove(variable);
      this.#legacyMemory.peerAccess.remove(variable);
    }
    this.#unloadedModules.add(found);
    this.#scheduler.runUntil(() => found.pendingLaunches === 0);
    this.#releaseModules();
  }

  /** Releases the memory of unloaded modules on idle devices: copies may still use their variables. */
  #releaseModules(): void {
    for (const module of this.#unloadedModules) {
      if (!this.#scheduler.isIdle(module.device)) continue;
      this.#unloadedModules.delete(module);
      module.release();
    }
  }

  moduleGetFunction(module: bigint, name: string): bigint {
    const call = "cuModuleGetFunction";
    const found = this.#module(module, call);
    const { functions } = found;
    const kernel = found.kernel(name, call);
    let handle = functions.get(name);
    if (handle === undefined) {
      functions.set(name, handle = this.#register(this.#kernels, new LoadedKernel(found, kernel)));
    }
    return handle;
  }

  moduleGetFunctionNames(module: bigint): string[] {
    return this.#module(module, "cuModuleEnumerateFunctions").kernelNames();
  }

  funcGetParamInfo(kernel: bigint): ParameterPlace[] {
    const { parameters } = this.#kernel(kernel, "cuFuncGetParamInfo").kernel.compiled;
    return parameters.map(({ offset, byteLength }) => ({ offset, byteLength }));
  }

  moduleGetGlobal(module: bigint, name: string): { address: bigint; byteLength: number } {
    const call = "cuModuleGetGlobal";
    const { begin, byteLength } = this.#module(module, call).variable(name, call);
    return { address: addressOfOffset(begin), byteLength };
  }

  funcGetAttribute(kernel: bigint, attribute: number): number {
    const call = "cuFuncGetAttribute";
    this.#devices.checkAlive(call);
    return kernelAttribute(this.#kernel(kernel, call), attribute);
  }

  funcSetAttribute(kernel: bigint, attribute: number, value: number): void {
    const call = "cuFuncSetAttribute";
    this.#devices.checkAlive(call);
    setKernelAttribute(this.#kernel(kernel, call), attribute, value);
  }

  /** A preference between caches, of which there are none. */
  funcSetCacheConfig(kernel: bigint, config: number): void {
    const call = "cuFuncSetCacheConfig";
    this.#devices.checkAlive(call);
    this.#kernel(kernel, call);
    const configs: readonly number[] = Object.values(functionCache);
    if (!configs.includes(config)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  }

  createKernelLaunch(
    device: number,
    kernel: bigint,
    parameterBytes: number,
    buffers: readonly (MemoryRange | undefined)[] = [],
  ): KernelLaunch {
    return { ...oneThread(device, kernel), parameters: new DataView(new ArrayBuffer(parameterBytes)), buffers };
  }

  launchKernel(launch: KernelLaunch): void {
    this.#enqueueLaunch(launch, "cuLaunchKernel");
  }

  launchKernelEx(launch: KernelLaunch, attributes: LaunchAttributes): void {
    this.#launchWithAttributes(launch, attributes);
  }

  #launchWithAttributes(launch: KernelLaunch, attributes: LaunchAttributes, observation?: LaunchObservation): void {
    const call = "cuLaunchKernelEx";
    checkLaunchAttributes(attributes, call);
    this.#enqueueLaunch(launch, call, { cooperative: attributes.cooperative, observation });
  }

  #enqueueLaunch(
    launch: KernelLaunch,
    call: string,
    { cooperative = false, observation = {} }: Partial<Pick<LaunchAttributes, "cooperative">> & {
      observation?: LaunchObservation | undefined;
    } = {},
  ): void {
    const target = this.#stream(launch.device, launch.stream, call);
    const loaded = this.#kernel(launch.kernel, call);
    const { device, module } = loaded;
    // A stream of any device takes copies and waits. A kernel runs only on a stream of the device it was loaded for.
    if (target.device !== device) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    this.#ensureBoundsTable(device, call);
    const { onAccesses, onFindings, isRaceFree: races = false, hasUniformBarriers: barriers = false } = observation;
    const accesses = this.#accessesOf(observation);
    const configuration: LaunchConfiguration = {
      grid: [launch.gridX, launch.gridY, launch.gridZ],
      block: [launch.blockX, launch.blockY, launch.blockZ],
      sharedMemoryBytes: launch.sharedMemoryBytes,
      cooperative,
      call,
      parameters: new Uint8Array(accesses === undefined ? launch.parameters.buffer : launch.parameters.buffer.slice()),
    };
    const services = {
      linearMemory: this.#linearMemory,
      memoryNames: this.#memoryNames[device]!,
      isDivided: this.#isScheduled,
      order: this.#nextOrder?.(),
      argumentRanges: this.#argumentRangesOf(launch),
      shadow: this.#shadow,
      accesses: observation.globalAccesses,
      workspaces: this.#workspaces,
    };
    const workOf = (left: SkippedChecksOfLaunch) => {
      const found = loaded.without(left);
      const checks = this.#checksOf({ onAccesses, onFindings }, found, left);
      return { checks, work: launchOf(found, configuration, { ...services, checks }) };
    };
    const { checks, work } = workOf({ races, barriers, accesses: accesses !== undefined });
    const { running } = this.#kernelOptions;
    const known: KnownAccesses | undefined = accesses && {
      accesses,
      isAllowed: () => module.areBuffers(accesses),
      observed: () => workOf({ races, barriers, accesses: false }) as LookedAt,
    };
    const { run, release } = checks === undefined
      ? work
      : checkedLaunch({ work, checks }, { running, onAccesses, onFindings, known });
    module.pendingLaunches++;
    this.#scheduler.enqueue(target, run, {
      kernel: loaded.kernel.compiled.name,
      release() {
        module.pendingLaunches--;
        release?.();
      },
    });
  }

  /** All that a launch accesses, unless that is to be observed. */
  #accessesOf({ onAccesses, accesses }: LaunchObservation): readonly LaunchAccess[] | undefined {
    // In another order, other threads access memory first.
    return onAccesses === undefined || !this.checker.observesAccesses || this.#isScheduled ? undefined : accesses;
  }

  /** What looks at a launch, if anything does. */
  #checksOf(
    { onAccesses, onFindings }: Pick<LaunchObservation, "onAccesses" | "onFindings">,
    { device, kernel, module: { imageBegin } }: LoadedKernel,
    left: SkippedChecksOfLaunch,
  ): LaunchChecks | undefined {
    const observesAccesses = this.checker.observesAccesses && onAccesses !== undefined;
    if (!observesAccesses && (onFindings === undefined || this.checker.checks.size === 0)) return undefined;
    const { lineInfo } = kernel;
    return new LaunchChecks({
      lineInfo,
      allocations: this.#linearMemory.allocationsOf(device),
      memoryOfChecks: this.#checkMemory ??= new CheckMemory(this.#linearMemory),
      observesAccesses: observesAccesses && !left.accesses,
      checksSynchronization: onFindings !== undefined && this.checker.checks.has("synchronization"),
      hasWholeBarriers: left.barriers,
      racyMemory: onFindings && !left.races && this.checker.checks.has("race") ? this.#linearMemory.bytes : undefined,
      memory: this.checker.checks.has("memory") ? this.#memoryCheckOf(device) : undefined,
      shadow: onFindings && this.#shadow,
      imageBegin,
    });
  }

  /** The memory that the arguments of a launch point into, for kernels that check it. */
  #argumentRangesOf({ parameters, buffers }: KernelLaunch): Uint32Array | undefined {
    if (!this.checker.checks.has("memory")) return undefined;
    return argumentRangesOf(parameters, {
      allocationAt: (offset) => this.#parts.containing(offset, 1) ?? this.#allocations.containing(offset, 1),
      isBuffer: (offset) => buffers.some((buffer) => buffer?.address === addressOfOffset(offset)),
    });
  }

  #memoryCheckOf(device: number): MemoryCheck {
    return new MemoryCheck({
      nearest: (begin, byteLength) => nearestRange({ begin, byteLength }, this.#namedMemory(device)),
    });
  }

  occupancyMaxActiveBlocksPerMultiprocessor(kernel: bigint, blockSize: number, sharedMemoryBytes: number): number {
    const call = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
    this.#devices.checkAlive(call);
    return occupancyOf(this.#kernel(kernel, call), { blockSize, sharedMemoryBytes });
  }

  occupancyMaxPotentialBlockSize(
    kernel: bigint,
    sharedMemoryBytes: number,
    blockSizeLimit: number,
  ): { minGridSize: number; blockSize: number } {
    const call = "cuOccupancyMaxPotentialBlockSize";
    this.#devices.checkAlive(call);
    return potentialBlockSize(this.#kernel(kernel, call), { sharedMemoryBytes, blockSizeLimit });
  }

  occupancyMaxActiveClusters(launch: KernelLaunch, attributes: LaunchAttributes): number {
    const call = "cuOccupancyMaxActiveClusters";
    this.#devices.checkAlive(call);
    const loaded = this.#kernel(launch.kernel, call);
    checkLaunchAttributes(attributes, call);
    const { blockX, blockY, blockZ, sharedMemoryBytes } = launch;
    // A cluster of one block is a block.
    return multiProcessorCount * occupancyOf(loaded, { blockSize: blockX * blockY * blockZ, sharedMemoryBytes });
  }

  /** Does nothing: no tool profiles the software device. */
  profilerStart(): void {}

  profilerStop(): void {}

  #newHandle(): bigint {
    this.#lastHandle += 0x10n;
    return this.#lastHandle;
  }

  #register<T>(registry: Map<bigint, T>, object: T): bigint {
    const handle = this.#newHandle();
    registry.set(handle, object);
    return handle;
  }

  /** Creates the bounds table of the device's kernels, or throws, before a stream needs the table. */
  #ensureBoundsTable(device: number, call: string): void {
    if (!this.#linearMemory.ensureBoundsTable(device)) fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
  }

  #stream(device: number, stream: bigint, call: string): Stream {
    this.#devices.check(device, call);
    const found = stream === 0n ? this.#defaultStreams[device] : this.#streams.get(stream);
    if (found === undefined) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    this.#devices.check(found.device, call);
    return found;
  }

  #event(event: bigint, call: string): Event {
    return this.#events.get(event) ?? fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
  }

  #pool(pool: bigint, call: string): SoftwarePool | ImportedPool {
    return this.#pools.get(pool) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  }

  #localPool(pool: bigint, call: string): SoftwarePool {
    const found = this.#pool(pool, call);
    return found instanceof SoftwarePool ? found : fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  }

  /** Returns the handle of the pool that was already imported from a file, and counts another import. */
  #retainImport(identity: string): bigint | undefined {
    for (const [handle, pool] of this.#pools) {
      if (!(pool instanceof ImportedPool) || pool.identity !== identity) continue;
      pool.importCount++;
      return handle;
    }
    return undefined;
  }

  #module(module: bigint, call: string): LoadedModule {
    return this.#modules.get(module) ?? fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
  }

  #kernel(kernel: bigint, call: string): LoadedKernel {
    return this.#kernels.get(kernel) ?? fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
  }

  #allocationStartingAt(address: bigint): AnyAllocation | undefined {
    const offset = offsetOfAddress(address);
    return offset === undefined ? undefined : this.#allocations.at(offset);
  }

  #allocationAt(address: bigint, byteLength: number, call: string): AnyAllocation {
    const offset = offsetOfAddress(address);
    const found = offset === undefined ? undefined : this.#allocations.containing(offset, byteLength);
    return found ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  }

  /** Whether the kernels of a device may access an allocation. */
  #isAccessible(allocation: AnyAllocation, device: number): boolean {
    if (allocation.kind === "locked") return true;
    if (!isPoolMemory(allocation)) return allocation.isAllowed(device);
    const { access } = allocation.pool;
    return (access.get(device) ?? memAccessFlags.none) !== memAccessFlags.none;
  }

  /**
   * Returns the bytes of a range that a device copies from or to host memory. If the range lies in a device's pool, the
   * copying device must have access to that pool.
   */
  #rangeForHostCopy(
    address: bigint,
    byteLength: number,
    { device, call, flags }: { device: number; call: string; flags: number },
  ): Uint8Array {
    const isPermitted = (allocation: AnyAllocation) =>
      !isPoolMemory(allocation) || allocation.pool.device === undefined || this.#isAccessible(allocation, device);
    return this.#range(address, byteLength, { call, isPermitted, device, flags });
  }

  /**
   * Returns the bytes of a range. The range must lie within one allocation that `isPermitted` accepts, or in mapped
   * memory that a device may access as `flags` say. An empty range may lie anywhere.
   */
  #range(
    address: bigint,
    byteLength: number,
    { call, isPermitted, device, flags }: {
      call: string;
      isPermitted: (allocation: AnyAllocation) => boolean;
      device: number;
      flags: number;
    },
  ): Uint8Array {
    if (byteLength === 0) return new Uint8Array(0);
    const found = this.#allocationAt(address, byteLength, call);
    const begin = offsetOfAddress(address)!, end = begin + byteLength;
    const isAllowed = found.kind === "virtual" ? found.permits(device, { begin, end }, flags) : isPermitted(found);
    if (!isAllowed) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    return this.#linearMemory.bytes.subarray(begin, end);
  }

  /** Blocks until a device has finished all its work. */
  #finishWork(device: number, call: string): void {
    this.#scheduler.runUntil(() => this.#scheduler.isIdle(device));
    this.#finishSynchronization(device, call);
  }

  #finishSynchronization(device: number, call: string): void {
    this.#reclaimPools();
    this.#closeUnusedEvents();
    this.#releaseModules();
    this.#devices.check(device, call);
  }

  #reclaimPools(): void {
    for (const pool of this.#openPools) {
      pool.reclaim();
      if (pool.isClosed) this.#openPools.delete(pool);
    }
    for (const pool of this.#openImports) if (pool.isClosed) this.#openImports.delete(pool);
  }

  #closeUnusedEvents(): void {
    for (const event of this.#interprocessEvents) {
      event.closeIfUnused();
      if (event.isClosed) this.#interprocessEvents.delete(event);
    }
  }
}

/** Names an allocation, or the buffers that were cut from it. */
function namedRangesOf(allocation: AnyAllocation, named: readonly NamedBuffer[]): NamedRange[] {
  const { begin, byteLength } = allocation;
  const address = addressOfOffset(begin);
  const within = named.filter((buffer) => {
    return !buffer.isFreed && buffer.address >= address && buffer.address < address + BigInt(byteLength);
  });
  const parts = within.filter((buffer) => buffer.byteLength < byteLength);
  if (parts.length === 0) return [{ begin, byteLength, name: nameOf(allocation, byteLength, within[0]) }];
  return parts.map((buffer) => ({
    begin: offsetOfAddress(buffer.address)!,
    byteLength: buffer.byteLength,
    name: nameOf(allocation, buffer.byteLength, buffer),
  }));
}

/** Names an allocation, or a buffer in it, in a message. */
function nameOf(allocation: AnyAllocation, byteLength: number, buffer: NamedBuffer | undefined): string {
  const { kind } = allocation;
  const bytes = `${buffer?.isRounded ? "at most " : ""}${countOf(byteLength, "byte")}`;
  if (kind === "locked") return `page-locked memory of ${bytes}`;
  if (kind === "variable") {
    return `the ${allocation.space === "const" ? "constant" : "variable"} ${allocation.name} of ${bytes}`;
  }
  const place = isHostMemory(allocation) ? "in host memory" : `on device ${allocation.device}`;
  const imported = kind === "mapped" || kind === "opened" ? "an imported buffer" : "a buffer";
  const site = buffer?.allocated === undefined ? "" : `, allocated ${buffer.allocated}`;
  return `${imported} of ${bytes} ${place}${site}`;
}

/** How to give a device access to memory. */
function accessAdvice(allocation: AnyAllocation): string {
  if (allocation.kind === "virtual") return "call setAccess of its address range";
  return isPoolMemory(allocation) ? "call setAccess of its pool" : "call enablePeerAccess of the device";
}

function wholeOf({ begin, byteLength }: SoftwareAllocation): Range {
  return { begin, end: begin + byteLength };
}

function isHostMemory(allocation: AnyAllocation): boolean {
  return isPoolMemory(allocation) && allocation.pool.device === undefined;
}

function freedKindOf(allocation: Exclude<AnyAllocation, ModuleVariable>): FreedKind {
  if (allocation.kind === "locked") return "pageLocked";
  if (isHostMemory(allocation)) return "hostBuffer";
  return allocation.kind === "mapped" || allocation.kind === "opened" ? "imported" : "buffer";
}

/** Names memory that was freed. `isFreed` is false if kernels can still access it, because the free is queued. */
function nameOfFreed(
  { kind, begin, byteLength, device }: FreedRange,
  isFreed: boolean,
  named: readonly NamedBuffer[],
): string {
  const address = addressOfOffset(begin);
  const buffer = named.find((buffer) => {
    return buffer.isFreed && buffer.address === address && buffer.byteLength === byteLength;
  });
  const bytes = countOf(byteLength, "byte");
  const name = {
    buffer: `a buffer of ${bytes} on device ${device}`,
    hostBuffer: `a buffer of ${bytes} in host memory`,
    imported: `an imported buffer of ${bytes} on device ${device}`,
    pageLocked: `page-locked memory of ${bytes}`,
  }[kind];
  const freed = isFreed ? " that was freed" : "";
  if (buffer?.allocated === undefined) return `${name}${freed}`;
  const freedAt = isFreed && buffer.freed !== undefined ? ` ${buffer.freed}` : "";
  return `${name}${freed}${freedAt}, allocated ${buffer.allocated}`;
}

/** Whether a location is host memory. */
function isHost({ type, id }: MemLocation): boolean {
  return type === memLocationType.host || (type === memLocationType.hostNuma && id === onlyNumaNode);
}

function isPoolMemory(allocation: AnyAllocation): allocation is PoolAllocation | MappedAllocation {
  return allocation.kind === "pool" || allocation.kind === "mapped";
}
