import { type CallName, effectsOf } from "../call_effects.ts";
import type { Driver, KernelLaunch } from "../driver.ts";
import { type DriverMethod, intercept } from "../driver_layers.ts";
import { nameType, noDeviceByte } from "./trace_format.ts";
import type { TraceRecorder } from "./trace_recorder.ts";
import type { WorkTimes } from "./work_times.ts";

/**
 * The values that are recorded of each call: the names of its arguments, in their order. `device` is the device of the
 * event. An argument without a name is not recorded, of bytes their number is recorded, and of an object the property
 * after the dot. The last name is that of the result if it follows an arrow. Of other calls, only the time is recorded.
 */
export const recordedValues: { readonly [Name in CallName]?: string } = {
  streamCreateWithPriority: "device flags priority ->stream",
  streamDestroy: "device stream",
  streamQuery: "device stream",
  streamSynchronize: "device stream",
  streamWaitEvent: "device stream event",
  streamBeginCapture: "device stream",
  streamEndCapture: "device stream ->graph",
  deviceSynchronize: "device",
  deviceInitialize: "device",

  eventCreateWithFlags: "device flags ->event",
  eventDestroy: "device event",
  eventRecord: "device event stream",
  eventRecordWithFlags: "device event stream",
  ctxRecordEvent: "device event",
  eventQuery: "event",
  eventSynchronize: "event",
  ipcOpenEventHandle: "device - ->event",

  memPoolCreate: "- ->pool",
  memPoolDestroy: "pool",
  memPoolTrimTo: "pool minBytesToKeep",
  memPoolExportToShareableHandle: "pool",
  memPoolImportFromShareableHandle: "device - - ->pool",
  memPoolExportPointer: "address",
  memPoolImportPointer: "device pool - ->address",
  mallocFromPoolAsync: "device byteLength pool stream ->address",
  freeAsync: "device address stream",
  malloc: "device byteLength ->address",
  free: "device address",
  mallocManaged: "device byteLength ->address",
  memPrefetchAsync: "device address byteLength location.id stream",
  memAdvise: "device address byteLength advice",
  memCreate: "- byteLength ->memory",
  memRelease: "memory",
  memMap: "address byteLength memory",
  memUnmap: "address byteLength",
  ipcOpenMemHandle: "device - ->address",
  ipcCloseMemHandle: "device address",
  hostAlloc: "byteLength",
  hostRegister: "memory.byteLength - ->address",

  memcpyHtoDAsync: "device destination source.byteLength stream",
  memcpyDtoHAsync: "device destination.byteLength source stream",
  memcpyAsync: "device destination source byteLength stream",
  memcpyPeerAsync: "device destination - source - byteLength stream",
  memcpy3DAsync: "device - stream",
  memcpy3DPeerAsync: "device - - - stream",
  memcpyBatchAsync: "device copies.length stream",
  memcpy3DArrayAsync: "device - stream",
  memsetAsync: "device address byte byteLength stream",
  memsetD16Async: "device address value count stream",
  memsetD32Async: "device address value count stream",
  memsetD2D8Async: "device address - - width height stream",
  memsetD2D16Async: "device address - - width height stream",
  memsetD2D32Async: "device address - - width height stream",

  moduleLoadData: "device image.length",
  moduleUnload: "device module",
  graphInstantiate: "graph - ->exec",
  graphUpload: "device exec stream",
  graphLaunch: "device exec stream",
};

/**
 * Calls that are recorded only if they return true: a program asks again and again until something has ended, and what
 * counts is when it knew.
 */
const recordedIfTrue: ReadonlySet<PropertyKey> = new Set(["streamQuery", "eventQuery"] satisfies CallName[]);
/** Calls that are not recorded: they only tell what the driver knows. */
const unrecorded: ReadonlySet<PropertyKey> = new Set(
  [
    "close",
    "usedDevices",
    "createKernelLaunch",
    "streamDescribeKernel",
    "streamIsCapturing",
    "streamGetFlags",
    "streamGetPriority",
    "streamGetDevice",
    "memGetInfo",
    "funcGetAttribute",
    "deviceGetAttribute",
    "hostView",
    "pointerGetAttributes",
    "memPoolGetAttribute",
    "moduleGetFunction",
  ] satisfies CallName[],
);

/** Returns a driver that records the calls of another one and, with `times`, when the work runs that they enqueue. */
export function tracedDriver(driver: Driver, recorder: TraceRecorder, times?: WorkTimes): Driver {
  return intercept(driver, overridingCalls(driver, recorder, times), (name, method) => {
    if (unrecorded.has(name)) return method.bind(driver);
    const isLaunch = name === "launchKernel" || name === "launchKernelEx";
    const recorded = isLaunch ? recordLaunches(driver, recorder, name) : recordCalls(driver, recorder, name, method);
    return times === undefined ? recorded : times.wrap(name, recorded);
  });
}

/** A kernel that has run. */
export interface ObservedKernel {
  readonly name: string;
  readonly device: number;
  /** The stream's handle. Undefined for a branch of a graph. */
  readonly stream: bigint | undefined;
  /** The times, as `performance.now()`, between which the kernel ran. */
  readonly begin: number;
  readonly end: number;
}

/** Records the kernels that a driver runs itself. */
export function recordKernels(
  driver: { observeKernels(onKernel: (kernel: ObservedKernel) => void): void },
  recorder: TraceRecorder,
): void {
  const kind = recorder.kind({ name: "kernel", values: ["name", "stream", "error"] });
  const { values } = recorder;
  driver.observeKernels(({ name, device, stream, begin, end }) => {
    const at = recorder.beginTimed(kind, device, recorder.timeOf(begin), recorder.timeOf(end));
    values[at] = recorder.text(name);
    values[at + 1] = Number(stream ?? -1);
    values[at + 2] = 0;
    recorder.end();
  });
}

/** Returns the calls whose results are named in the trace, and `close`, which comes after the last time. */
function overridingCalls(driver: Driver, recorder: TraceRecorder, times: WorkTimes | undefined): Partial<Driver> {
  return {
    moduleGetFunction(module, name) {
      const kernel = driver.moduleGetFunction(module, name);
      recorder.name(nameType.kernel, Number(kernel), name);
      times?.nameKernel(kernel, name);
      return kernel;
    },
    close(options) {
      times?.close();
      driver.close(options);
    },
  };
}

function recordCalls(driver: Driver, recorder: TraceRecorder, name: PropertyKey, method: DriverMethod): DriverMethod {
  const { names, sources, takesDevice } = describe(name);
  const { values, handles, now } = recorder;
  const call = method.bind(driver);
  const count = sources.length;
  /** Whether each value is a bigint. Known from the first call on, and 0 stands for one that is not then. */
  let areHandles: boolean[] | undefined;
  let kind = 0;
  // Written out instead of with arrays, which would be allocated for each call.
  const record = (begin: number, hasThrown: boolean, ...[a, b, c, d, e, f, g, result]: Call): void => {
    if (areHandles === undefined) {
      areHandles = sources.map((source) => typeof source(a, b, c, d, e, f, g, result) === "bigint");
      const handles = [...areHandles.keys()].filter((index) => areHandles![index]);
      kind = recorder.kind({ name: String(name), values: names, handles });
    }
    const at = recorder.begin(kind, takesDevice ? a as number : noDeviceByte, begin, hasThrown);
    for (let index = 0; index < count; index++) {
      const value = sources[index]!(a, b, c, d, e, f, g, result);
      if (!areHandles[index]) values[at + index] = Number(value);
      else handles[at + index] = typeof value === "bigint" ? value : 0n;
    }
    recorder.end();
  };
  if (recordedIfTrue.has(name)) {
    return (a, b, c) => {
      const result = call(a, b, c);
      if (result === true) record(now(), false, a, b, c, undefined, undefined, undefined, undefined, result);
      return result;
    };
  }
  return (a, b, c, d, e, f, g) => {
    const begin = now();
    let result: unknown;
    try {
      result = call(a, b, c, d, e, f, g);
    } catch (error) {
      record(begin, true, a, b, c, d, e, f, g, undefined);
      throw error;
    }
    record(begin, false, a, b, c, d, e, f, g, result);
    return result;
  };
}

/** The parameters of `record`: the arguments of a call, and its result. */
type Call = [a: unknown, b: unknown, c: unknown, d: unknown, e: unknown, f: unknown, g: unknown, result: unknown];
/** Returns the value to record of a call. */
type Source = (...call: Call) => unknown;

/** Each argument of a call. */
const sourceOfArgument: readonly Source[] = [
  (a) => a,
  (_a, b) => b,
  (_a, _b, c) => c,
  (_a, _b, _c, d) => d,
  (_a, _b, _c, _d, e) => e,
  (_a, _b, _c, _d, _e, f) => f,
  (_a, _b, _c, _d, _e, _f, g) => g,
];
const sourceOfResult: Source = (_a, _b, _c, _d, _e, _f, _g, result) => result;

/** Returns the values that are recorded of a call. */
function describe(name: PropertyKey): { names: string[]; sources: Source[]; takesDevice: boolean } {
  const { stream } = effectsOf(name);
  // A call that names a stream by an argument has the device as its first one.
  const unlisted = typeof stream === "number" ? `device${" -".repeat(stream - 1)} stream` : "";
  const listed = Object.hasOwn(recordedValues, name) ? recordedValues[name as CallName]! : unlisted;
  const names: string[] = [], sources: Source[] = [];
  let takesDevice = false;
  for (const [index, word] of listed.split(" ").entries()) {
    if (word === "device") takesDevice = true;
    if (word === "device" || word === "-" || word === "") continue;
    const isResult = word.startsWith("->");
    const [argument, property] = word.replace("->", "").split(".");
    names.push(property === "byteLength" || property === "length" ? property : argument!);
    const source = isResult ? sourceOfResult : sourceOfArgument[index]!;
    sources.push(
      property === undefined ? source : (...call) => {
        return (source(...call) as Record<string, unknown> | undefined)?.[property];
      },
    );
  }
  return { names, sources, takesDevice };
}

/** Launches are the most frequent calls, so what is recorded of them is written out. */
function recordLaunches(
  driver: Driver,
  recorder: TraceRecorder,
  name: "launchKernel" | "launchKernelEx",
): DriverMethod {
  const kind = recorder.kind({ name, values: ["kernel", "stream", "blocks", "threads"], handles: [0, 1] });
  const { values, handles, now } = recorder;
  const record = (begin: number, launch: KernelLaunch, hasThrown: boolean): void => {
    const at = recorder.begin(kind, launch.device, begin, hasThrown);
    handles[at] = launch.kernel;
    handles[at + 1] = launch.stream;
    values[at + 2] = launch.gridX * launch.gridY * launch.gridZ;
    values[at + 3] = launch.blockX * launch.blockY * launch.blockZ;
    recorder.end();
  };
  const call = driver[name].bind(driver) as (launch: KernelLaunch, attributes?: unknown) => void;
  const launchRecorded = (launch: KernelLaunch, attributes?: unknown): void => {
    const begin = now();
    try {
      call(launch, attributes);
    } catch (error) {
      record(begin, launch, true);
      throw error;
    }
    record(begin, launch, false);
  };
  return launchRecorded as DriverMethod;
}
