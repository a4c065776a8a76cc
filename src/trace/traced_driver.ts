import { type CallName, effectsOf } from "../call_effects.ts";
import type { Driver, KernelLaunch } from "../driver.ts";
import { type DriverMethod, intercept } from "../driver_layers.ts";
import { hashOf, nameType, noDeviceByte } from "./trace_format.ts";
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
  ipcGetEventHandle: "event ->handle.hash",
  ipcOpenEventHandle: "device handle.hash ->event",

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
    const recorded = isLaunch
      ? recordLaunches(driver, recorder, name)
      : recordCalls(driver, recorder, name, nameEvents(name, method, recorder));
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

/** Returns a method that names interprocess events, also for when newer events have replaced its record. */
function nameEvents(name: PropertyKey, method: DriverMethod, recorder: TraceRecorder): DriverMethod {
  if (name !== "ipcGetEventHandle" && name !== "ipcOpenEventHandle") return method;
  return function (this: unknown, ...parameters): unknown {
    const result: unknown = method.apply(this, [...parameters]);
    const [event, handle] = name === "ipcGetEventHandle" ? [parameters[0], result] : [result, parameters[1]];
    recorder.name(nameType.event, Number(event), String(hashOf(handle as Uint8Array)));
    return result;
  };
}

function recordCalls(driver: Driver, recorder: TraceRecorder, name: PropertyKey, method: DriverMethod): DriverMethod {
  const { names, places, properties, takesDevice } = describe(name);
  const { values, handles, now } = recorder;
  const count = places.length;
  /** Which values are bigints, one bit for each. Known from the first call on, and 0 stands for one that is not then. */
  let handleMask = 0;
  let kind = 0;
  const defineKind = (call: readonly unknown[]): void => {
    const found = places.map((place, index) => propertyOf(call[place], properties[index]!));
    const handles = [...found.keys()].filter((index) => typeof found[index] === "bigint");
    handleMask = handles.reduce((mask, index) => mask | 1 << index, 0);
    kind = recorder.kind({ name: String(name), values: names, handles });
  };
  // Written out instead of with arrays, which would be allocated for each call.
  const record = (
    begin: number,
    /** Undefined for a call that has not returned. */
    end: number | undefined,
    hasThrown: boolean,
    a: unknown,
    b: unknown,
    c: unknown,
    d: unknown,
    e: unknown,
    f: unknown,
    g: unknown,
    result: unknown,
  ): void => {
    if (kind === 0) defineKind([a, b, c, d, e, f, g, result]);
    const device = takesDevice ? a as number : noDeviceByte;
    const at = end === undefined
      ? recorder.beginUnfinished(kind, device, begin)
      : recorder.beginTimed(kind, device, begin, end, hasThrown);
    for (let index = 0; index < count; index++) {
      let value: unknown;
      switch (places[index]) {
        case 0:
          value = a;
          break;
        case 1:
          value = b;
          break;
        case 2:
          value = c;
          break;
        case 3:
          value = d;
          break;
        case 4:
          value = e;
          break;
        case 5:
          value = f;
          break;
        case 6:
          value = g;
          break;
        default:
          value = result;
      }
      if (properties[index] !== "") value = propertyOf(value, properties[index]!);
      if ((handleMask >> index & 1) === 0) values[at + index] = typeof value === "number" ? value : Number(value);
      else handles[at + index] = typeof value === "bigint" ? value : 0n;
    }
    recorder.end();
  };
  if (recordedIfTrue.has(name)) {
    return (a, b, c) => {
      const result = method.call(driver, a, b, c);
      if (result !== true) return result;
      const time = now();
      record(time, time, false, a, b, c, undefined, undefined, undefined, undefined, result);
      return result;
    };
  }
  const { blocksOn, loads = false } = effectsOf(name);
  if (blocksOn !== undefined || loads) {
    return (a, b, c, d, e, f, g) => {
      const begin = now();
      record(begin, undefined, false, a, b, c, d, e, f, g, undefined);
      const number = recorder.count;
      let hasThrown = true;
      try {
        const result = method.call(driver, a, b, c, d, e, f, g);
        hasThrown = false;
        return result;
      } finally {
        if (!recorder.finish(number, begin, hasThrown)) {
          record(begin, now(), hasThrown, a, b, c, d, e, f, g, undefined);
        }
      }
    };
  }
  return (a, b, c, d, e, f, g) => {
    const begin = now();
    let result: unknown;
    try {
      result = method.call(driver, a, b, c, d, e, f, g);
    } catch (error) {
      record(begin, now(), true, a, b, c, d, e, f, g, undefined);
      throw error;
    }
    record(begin, now(), false, a, b, c, d, e, f, g, result);
    return result;
  };
}

/** The place of a call's result, after its arguments. */
const placeOfResult = 7;

/** Returns a property of an argument; the argument itself if `property` is empty. */
function propertyOf(value: unknown, property: string): unknown {
  if (property === "") return value;
  // Named, because engines find a property whose name varies slowly.
  if (property === "hash") return value instanceof Uint8Array ? hashOf(value) : 0;
  if (property === "byteLength") return (value as ArrayBufferView | undefined)?.byteLength;
  return (value as Record<string, unknown> | undefined)?.[property];
}

/** Returns the places of the values that are recorded of a call, and which properties of what is there. */
function describe(
  name: PropertyKey,
): { names: string[]; places: number[]; properties: string[]; takesDevice: boolean } {
  const { stream } = effectsOf(name);
  // A call that names a stream by an argument has the device as its first one.
  const unlisted = typeof stream === "number" ? `device${" -".repeat(stream - 1)} stream` : "";
  const listed = Object.hasOwn(recordedValues, name) ? recordedValues[name as CallName]! : unlisted;
  const names: string[] = [], places: number[] = [], properties: string[] = [];
  let takesDevice = false;
  for (const [index, word] of listed.split(" ").entries()) {
    if (word === "device") takesDevice = true;
    if (word === "device" || word === "-" || word === "") continue;
    const [argument, property = ""] = word.replace("->", "").split(".");
    names.push(property === "byteLength" || property === "length" ? property : argument!);
    places.push(word.startsWith("->") ? placeOfResult : index);
    properties.push(property);
  }
  return { names, places, properties, takesDevice };
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
