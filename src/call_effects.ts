/**
 * The side effects of each call of a `Driver`: the stream on which the call enqueues work, the work for which the call
 * blocks, and the memory that the call makes accessible or inaccessible. Code that observes or guards driver calls uses
 * this table. A method of `Driver` without a row is a compile-time error.
 *
 * The table describes CUDA, as documented, or as measured where the documentation is silent
 * (`tests/collectives/calls_behind_test.ts`).
 *
 * @module
 */
import type { Driver, KernelLaunch } from "./driver.ts";

/** The name of a method that every `Driver` has. */
export type CallName = {
  [Name in keyof Driver]: Driver[Name] extends (...parameters: never) => unknown ? Name : never;
}[keyof Driver];

/**
 * An operation that is enqueued on a stream. Kernels, copies, fills and graphs occupy a slot of the stream's launch
 * queue until they are done.
 */
export type EnqueuedOperation =
  | "kernel"
  | "copy"
  | "fill"
  | "allocation"
  | "free"
  | "record"
  | "wait"
  | "graph"
  | "prefetch"
  | "discard";

/** The side effects of calling a method of a driver. */
export interface CallEffects {
  /**
   * The stream that the call uses. A number is the index of the argument that is the stream; the first argument is then
   * the device. `"launch"` stands for the stream of the `KernelLaunch` in the first argument, and `"all"` for all
   * streams of the device in the first argument.
   */
  readonly stream?: number | "launch" | "all";
  /** The operation that the call enqueues on `stream`. */
  readonly enqueues?: EnqueuedOperation;
  /**
   * The work that is complete when the call returns: the work of `stream`, the last record of the event in the first
   * argument, the work of the device in the first argument, or the work of all devices.
   */
  readonly blocksOn?: "stream" | "event" | "device" | "all devices";
  /**
   * Work that the call may wait for. Programs must not rely on the wait. Copies wait only if the host memory is
   * pageable.
   */
  readonly mayBlockOn?: "stream" | "device";
  /** Whether the call loads or unloads device code. Such a call blocks only if the driver's `loadingBlocks` is true. */
  readonly loads?: boolean;
  /**
   * `"allocates"` if the call makes memory accessible at an address that it returns, by allocating, importing or
   * mapping the memory or by finding a variable; `"frees"` if it frees memory. Stream-ordered allocations and frees are
   * not included.
   */
  readonly memory?: "allocates" | "frees";
  /**
   * Whether the call fails, and invalidates the capture, while the stream, a stream of the device or the event that it
   * names is captured. Any call that names a default stream does so while a blocking stream of its device is captured.
   */
  readonly endsCapture?: boolean;
  /**
   * Whether the call is one that CUDA calls potentially unsafe: during a capture whose mode is not
   * `streamCaptureMode.relaxed`, it fails and invalidates the capture, unless the thread's own mode is relaxed.
   */
  readonly isUnsafe?: boolean;
}

/** The indices of the parameters whose type is bigint. */
type BigintPlace<Parameters extends readonly unknown[]> = {
  [Place in keyof Parameters]: Parameters[Place] extends bigint ? Place extends `${infer Index extends number}` ? Index
    : never
    : never;
}[number];

/** The effects that a call with the given parameters can have. */
type EffectsOf<Parameters extends readonly unknown[]> = CallEffects & {
  readonly stream?:
    | BigintPlace<Parameters>
    | (Parameters[0] extends KernelLaunch ? "launch" : never)
    | (Parameters[0] extends number ? "all" : never);
};

/** No effects: the call enqueues no work, does not block, and neither allocates nor frees memory. */
const none = {} as const;
const aboutStream = { stream: 1 } as const;
const loading = { mayBlockOn: "device", loads: true } as const;
const unsafe = { isUnsafe: true } as const;
const allocating = { memory: "allocates" } as const;
const launching = { stream: "launch", enqueues: "kernel" } as const;
const copyingPageable = { stream: 3, enqueues: "copy", mayBlockOn: "stream" } as const;

/** The effects of each method of `Driver`. */
export const callEffects: { readonly [Name in CallName]: EffectsOf<Required<Parameters<Driver[Name]>>> } = {
  close: none,

  driverGetVersion: none,
  getDeviceCount: none,
  deviceGetName: none,
  deviceGetUuid: none,
  deviceGetAttribute: none,
  deviceInitialize: none,
  deviceTotalMem: none,
  memGetInfo: none,
  deviceSynchronize: { blocksOn: "device", endsCapture: true },
  deviceCanAccessPeer: none,
  deviceEnablePeerAccess: none,
  deviceDisablePeerAccess: { mayBlockOn: "device" },

  deviceGetLimit: none,
  deviceSetLimit: { mayBlockOn: "device", isUnsafe: true },

  deviceGetStreamPriorityRange: none,
  streamCreateWithPriority: none,
  streamDestroy: aboutStream,
  streamQuery: { stream: 1, isUnsafe: true, endsCapture: true },
  streamSynchronize: { stream: 1, blocksOn: "stream", isUnsafe: true, endsCapture: true },
  streamWaitEvent: { stream: 1, enqueues: "wait" },
  streamIsCapturing: aboutStream,
  streamBeginCapture: aboutStream,
  streamBeginCaptureToGraph: aboutStream,
  streamEndCapture: aboutStream,
  streamGetCaptureInfo: aboutStream,
  streamUpdateCaptureDependencies: aboutStream,
  threadExchangeStreamCaptureMode: none,
  streamDescribeKernel: aboutStream,
  streamGetFlags: { stream: 1, endsCapture: true },
  streamGetPriority: aboutStream,
  streamGetDevice: aboutStream,

  eventCreateWithFlags: none,
  eventDestroy: none,
  eventRecord: { stream: 2, enqueues: "record" },
  eventRecordWithFlags: { stream: 2, enqueues: "record" },
  ctxRecordEvent: { stream: "all", enqueues: "record", endsCapture: true },
  usedDevices: none,
  eventQuery: { isUnsafe: true, endsCapture: true },
  eventSynchronize: { blocksOn: "event", isUnsafe: true, endsCapture: true },
  eventElapsedTime: { endsCapture: true },
  ipcGetEventHandle: none,
  ipcOpenEventHandle: none,

  deviceGetDefaultMemPool: none,
  deviceGetMemPool: none,
  deviceSetMemPool: unsafe,
  memPoolCreate: unsafe,
  memPoolDestroy: unsafe,
  memPoolGetAttribute: unsafe,
  memPoolSetAttribute: unsafe,
  memPoolTrimTo: unsafe,
  memPoolGetAccess: unsafe,
  memPoolSetAccess: unsafe,
  memGetDefaultMemPool: none,
  memGetMemPool: none,
  memSetMemPool: unsafe,
  mallocFromPoolAsync: { stream: 3, enqueues: "allocation", isUnsafe: true },
  freeAsync: { stream: 2, enqueues: "free", isUnsafe: true },

  malloc: { memory: "allocates", isUnsafe: true },
  free: { blocksOn: "device", memory: "frees", isUnsafe: true },
  mallocManaged: { memory: "allocates", isUnsafe: true },
  memPrefetchAsync: { stream: 4, enqueues: "prefetch", endsCapture: true },
  memDiscardBatchAsync: { stream: 2, enqueues: "discard", endsCapture: true },
  memDiscardAndPrefetchBatchAsync: { stream: 3, enqueues: "discard", endsCapture: true },
  memAdvise: unsafe,
  memRangeGetAttribute: none,
  ipcGetMemHandle: none,
  ipcOpenMemHandle: allocating,
  ipcCloseMemHandle: { mayBlockOn: "device", memory: "frees" },

  memPoolExportToShareableHandle: unsafe,
  memPoolImportFromShareableHandle: none,
  memPoolExportPointer: unsafe,
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
  hostAlloc: { memory: "allocates", isUnsafe: true },
  hostRegister: { memory: "allocates", isUnsafe: true },
  hostUnregister: { blocksOn: "all devices", memory: "frees", isUnsafe: true },
  hostGetDevicePointer: none,
  freeHost: { blocksOn: "all devices", memory: "frees", isUnsafe: true },

  memcpyHtoDAsync: copyingPageable,
  memcpyDtoHAsync: copyingPageable,
  memcpyAsync: { stream: 4, enqueues: "copy" },
  memcpyPeerAsync: { stream: 6, enqueues: "copy", endsCapture: true },
  memcpy3DAsync: { stream: 2, enqueues: "copy", mayBlockOn: "stream" },
  memcpy3DPeerAsync: { stream: 4, enqueues: "copy", endsCapture: true },
  memcpyBatchAsync: { stream: 2, enqueues: "copy", endsCapture: true },
  memcpy3DArrayAsync: { stream: 2, enqueues: "copy", mayBlockOn: "stream" },
  memsetAsync: { stream: 4, enqueues: "fill" },
  memsetD16Async: { stream: 4, enqueues: "fill" },
  memsetD32Async: { stream: 4, enqueues: "fill" },
  memsetD2D8Async: { stream: 6, enqueues: "fill" },
  memsetD2D16Async: { stream: 6, enqueues: "fill" },
  memsetD2D32Async: { stream: 6, enqueues: "fill" },

  arrayCreate: unsafe,
  arrayDestroy: { mayBlockOn: "device", isUnsafe: true },
  mipmappedArrayCreate: unsafe,
  mipmappedArrayGetLevel: none,
  mipmappedArrayDestroy: { mayBlockOn: "device", isUnsafe: true },
  texObjectCreate: unsafe,
  texObjectDestroy: none,
  surfObjectCreate: unsafe,
  surfObjectDestroy: none,

  moduleLoadData: loading,
  linkModules: loading,
  moduleUnload: { ...loading, isUnsafe: true },
  moduleGetFunction: none,
  moduleGetFunctionNames: none,
  funcGetParamInfo: none,
  moduleGetGlobal: allocating,
  funcGetAttribute: none,
  funcSetAttribute: none,
  funcSetCacheConfig: none,
  tensorMapEncodeTiled: none,
  tensorMapEncodeIm2col: none,
  createKernelLaunch: none,
  launchKernel: launching,
  launchKernelEx: launching,
  occupancyMaxActiveBlocksPerMultiprocessor: none,
  occupancyMaxPotentialBlockSize: none,
  occupancyMaxActiveClusters: none,

  graphCreate: none,
  graphDestroy: none,
  graphClone: none,
  graphNodeFindInClone: none,
  graphAddKernelNode: none,
  graphAddMemcpyNode: none,
  graphAddMemsetNode: none,
  graphAddEmptyNode: none,
  graphAddChildGraphNode: none,
  graphAddEventRecordNode: none,
  graphAddEventWaitNode: none,
  graphAddMemAllocNode: none,
  graphAddMemFreeNode: none,
  graphConditionalHandleCreate: none,
  graphAddConditionalNode: none,
  graphAddDependencies: none,
  graphRemoveDependencies: none,
  graphDestroyNode: none,
  graphGetNodes: none,
  graphNodeGetType: none,
  graphGetEdges: none,
  graphDebugDotPrint: none,
  graphInstantiate: unsafe,
  graphUpload: { stream: 2, endsCapture: true },
  graphLaunch: { stream: 2, enqueues: "graph", endsCapture: true },
  graphExecDestroy: unsafe,
  graphExecUpdate: none,
  graphExecKernelNodeSetParams: none,
  graphExecMemcpyNodeSetParams: none,
  graphExecMemsetNodeSetParams: none,
  graphExecEventRecordNodeSetEvent: none,
  graphExecEventWaitNodeSetEvent: none,
  graphExecChildGraphNodeSetParams: none,
  graphNodeSetEnabled: none,
  graphNodeGetEnabled: none,

  deviceGetGraphMemAttribute: none,
  deviceSetGraphMemAttribute: none,
  deviceGraphMemTrim: none,

  profilerStart: none,
  profilerStop: none,
};

/** Returns the effects of the driver method `name`. For any other property of a driver, returns no effects. */
export function effectsOf(name: PropertyKey): CallEffects {
  return Object.hasOwn(callEffects, name) ? callEffects[name as CallName] : none;
}

/**
 * Returns whether a call enqueues an operation that occupies a slot of the stream's queue. Such a call blocks until a
 * slot is free.
 */
export function takesSlot({ enqueues }: CallEffects): boolean {
  return enqueues === "kernel" || enqueues === "copy" || enqueues === "fill" || enqueues === "graph";
}
