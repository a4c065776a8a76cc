/**
 * What each call of a `Driver` does besides its result: the stream that it enqueues on, what it blocks on, the memory
 * that it makes accessible or takes away. Code that watches or guards the calls of a driver reads this table. A method
 * of `Driver` without a row does not compile.
 *
 * The table is CUDA's: its documentation's, and where that is silent, what was measured
 * (`tests/collectives/calls_behind_test.ts`).
 *
 * @module
 */
import type { Driver, KernelLaunch } from "./driver.ts";

/** The name of a method of `Driver` that every driver has. */
export type CallName = {
  [Name in keyof Driver]: Driver[Name] extends (...parameters: never) => unknown ? Name : never;
}[keyof Driver];

/** What a stream is given. Kernels, copies and fills take a slot of its queue until they are done. */
export type EnqueuedOperation = "kernel" | "copy" | "fill" | "allocation" | "free" | "record" | "wait";

/** What a call of a driver does besides its result. */
export interface CallEffects {
  /**
   * The place of the argument that is a stream; the device comes first then. `"launch"` stands for the stream of the
   * launch that is the first argument, `"all"` for all streams of the device that is the first argument.
   */
  readonly stream?: number | "launch" | "all";
  /** What it enqueues there. */
  readonly enqueues?: EnqueuedOperation;
  /**
   * What is done when it returns: the work of the stream; the last record of the event that is the first argument; the
   * work of the device that is the first argument; or that of all devices.
   */
  readonly blocksOn?: "stream" | "event" | "device" | "all devices";
  /** What it may wait for, although it need not: no program may rely on that. For copies, if the memory is pageable. */
  readonly mayBlockOn?: "stream" | "device";
  /** Whether it loads or unloads code. It blocks only with a driver whose `loadingBlocks` is true. */
  readonly loads?: boolean;
  /**
   * Whether it returns the address of memory that may be used from now on, or frees memory, in no stream's order: also
   * by importing or mapping it, or finding a variable.
   */
  readonly memory?: "allocates" | "frees";
}

/** The places of the parameters that are bigints. */
type BigintPlace<Parameters extends readonly unknown[]> = {
  [Place in keyof Parameters]: Parameters[Place] extends bigint ? Place extends `${infer Index extends number}` ? Index
    : never
    : never;
}[number];

/** The effects that a call with these parameters can have. */
type EffectsOf<Parameters extends readonly unknown[]> = CallEffects & {
  readonly stream?:
    | BigintPlace<Parameters>
    | (Parameters[0] extends KernelLaunch ? "launch" : never)
    | (Parameters[0] extends number ? "all" : never);
};

/** It enqueues nothing, does not block, and no memory is accessible afterwards that was not before. */
const none = {} as const;
const aboutStream = { stream: 1 } as const;
const loading = { mayBlockOn: "device", loads: true } as const;
const allocating = { memory: "allocates" } as const;
const launching = { stream: "launch", enqueues: "kernel" } as const;
const copyingPageable = { stream: 3, enqueues: "copy", mayBlockOn: "stream" } as const;

/** The effects of each call. */
export const callEffects: { readonly [Name in CallName]: EffectsOf<Required<Parameters<Driver[Name]>>> } = {
  close: none,

  driverGetVersion: none,
  getDeviceCount: none,
  deviceGetName: none,
  deviceGetUuid: none,
  deviceGetAttribute: none,
  deviceTotalMem: none,
  memGetInfo: none,
  deviceSynchronize: { blocksOn: "device" },
  deviceCanAccessPeer: none,
  deviceEnablePeerAccess: none,
  deviceDisablePeerAccess: { mayBlockOn: "device" },

  deviceGetStreamPriorityRange: none,
  streamCreateWithPriority: none,
  streamDestroy: aboutStream,
  streamQuery: aboutStream,
  streamSynchronize: { stream: 1, blocksOn: "stream" },
  streamWaitEvent: { stream: 1, enqueues: "wait" },
  streamIsCapturing: aboutStream,
  streamGetFlags: aboutStream,
  streamGetPriority: aboutStream,
  streamGetDevice: aboutStream,

  eventCreateWithFlags: none,
  eventDestroy: none,
  eventRecord: { stream: 2, enqueues: "record" },
  ctxRecordEvent: { stream: "all", enqueues: "record" },
  usedDevices: none,
  eventQuery: none,
  eventSynchronize: { blocksOn: "event" },
  eventElapsedTime: none,
  ipcGetEventHandle: none,
  ipcOpenEventHandle: none,

  deviceGetDefaultMemPool: none,
  deviceGetMemPool: none,
  deviceSetMemPool: none,
  memPoolCreate: none,
  memPoolDestroy: none,
  memPoolGetAttribute: none,
  memPoolSetAttribute: none,
  memPoolTrimTo: none,
  memPoolGetAccess: none,
  memPoolSetAccess: none,
  mallocFromPoolAsync: { stream: 3, enqueues: "allocation" },
  freeAsync: { stream: 2, enqueues: "free" },

  malloc: allocating,
  free: { blocksOn: "device", memory: "frees" },
  ipcGetMemHandle: none,
  ipcOpenMemHandle: allocating,
  ipcCloseMemHandle: { mayBlockOn: "device", memory: "frees" },

  memPoolExportToShareableHandle: none,
  memPoolImportFromShareableHandle: none,
  memPoolExportPointer: none,
  memPoolImportPointer: allocating,
  memGetAddressRange: none,

  memGetAllocationGranularity: none,
  memCreate: none,
  memRelease: none,
  memExportToShareableHandle: none,
  memImportFromShareableHandle: none,
  memGetAllocationPropertiesFromHandle: none,
  memAddressReserve: none,
  memAddressFree: none,
  memMap: allocating,
  memUnmap: { memory: "frees" },
  memSetAccess: none,
  memGetAccess: none,

  pointerGetAttributes: none,
  hostView: none,
  hostAlloc: allocating,
  hostGetDevicePointer: none,
  freeHost: { blocksOn: "all devices", memory: "frees" },

  memcpyHtoDAsync: copyingPageable,
  memcpyDtoHAsync: copyingPageable,
  memcpyAsync: { stream: 4, enqueues: "copy" },
  memcpyPeerAsync: { stream: 6, enqueues: "copy" },
  memsetAsync: { stream: 4, enqueues: "fill" },
  memsetD16Async: { stream: 4, enqueues: "fill" },
  memsetD32Async: { stream: 4, enqueues: "fill" },
  memsetD2D32Async: { stream: 6, enqueues: "fill" },

  moduleLoadData: loading,
  linkModules: loading,
  moduleUnload: loading,
  moduleGetFunction: none,
  moduleGetFunctionNames: none,
  funcGetParamInfo: none,
  moduleGetGlobal: allocating,
  funcGetAttribute: none,
  funcSetAttribute: none,
  funcSetCacheConfig: none,
  createKernelLaunch: none,
  launchKernel: launching,
  launchKernelEx: launching,
  occupancyMaxActiveBlocksPerMultiprocessor: none,
  occupancyMaxPotentialBlockSize: none,
  occupancyMaxActiveClusters: none,

  profilerStart: none,
  profilerStop: none,
};

/** The effects of a call; none of whatever else a driver has. */
export function effectsOf(name: PropertyKey): CallEffects {
  return Object.hasOwn(callEffects, name) ? callEffects[name as CallName] : none;
}

/** Whether a call takes a slot of a stream's queue. When none is left, the next such call blocks until one is. */
export function takesSlot({ enqueues }: CallEffects): boolean {
  return enqueues === "kernel" || enqueues === "copy" || enqueues === "fill";
}
