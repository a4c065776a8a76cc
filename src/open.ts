import { escapeControls, startStackAbove } from "./support/printing.ts";
import { checkRuntime } from "./support/version.ts";
import { CudaDriver } from "../ffi/cuda_driver.ts";
import { findClang } from "../ffi/compilers/clang.ts";
import { findNvcc } from "../ffi/compilers/nvcc.ts";
import { openNccl } from "../ffi/nccl/load_nccl.ts";
import { findNvrtc } from "../ffi/nvrtc.ts";
import { environmentVariable, variableNames } from "../ffi/native/environment.ts";
import { isFirstInProcess } from "../ffi/native/first_in_process.ts";
import { shimRefusal } from "../ffi/native/shim/shim.ts";
import { openLog } from "../ffi/native/shim/text_files.ts";
import { isStandardErrorTerminal } from "../ffi/native/terminal.ts";
import { cachedSearch, CompileCache } from "./compile/cache/compile_cache.ts";
import { Compilers } from "./compile/compilers.ts";
import { Cuda } from "./objects/cuda.ts";
import type { CollectiveLibrary } from "./collective_library.ts";
import type { Driver } from "./driver.ts";
import { isLogging, logEvent, startLog } from "./support/event_log.ts";
import { CudaUnavailableError } from "./support/errors.ts";
import {
  checkBoolean,
  checkNumber,
  checkOptions,
  didYouMean,
  type KnownOptions,
  nearestNames,
  shown,
  whatIs,
} from "./support/validation.ts";
import { addDisplays, addDisplayToReport } from "./notebook/displays.ts";
import { Session } from "./session.ts";
import { instructionSupport, SoftwareDriver } from "./software/software_driver.ts";
import {
  checkThatDriverMakes,
  kernelChecksAmong,
  Sanitizer,
  type WantedChecks,
  wantedChecks,
} from "./sanitizer/sanitizer.ts";
import { outputsOfEnvironment } from "./sanitizer/reporting/outputs.ts";
import type { SanitizerCheck, SanitizerReport } from "./sanitizer/reporting/sanitizer_report.ts";
import { scheduleFrom } from "./software/schedule.ts";
import type { SoftwareDriverOptions } from "./software/visible_devices.ts";
import { defaultTraceEvents, openTrace } from "./trace/open_trace.ts";
import { mostTraceEvents } from "./trace/trace_format.ts";
import type { TraceRecorder } from "./trace/trace_recorder.ts";
import { tracedCollectives } from "./trace/traced_collectives.ts";
import { recordKernels, tracedDriver } from "./trace/traced_driver.ts";
import { WorkTimes } from "./trace/work_times.ts";
import { addEntries, keepLibraryFrames, RangeError, TypeError } from "./support/program_errors.ts";

/** The driver to open, and its settings. */
export interface OpenOptions {
  /** `"auto"` (the default) uses a GPU if there is one, and the software device otherwise. */
  driver?: "auto" | "cuda" | "software";
  /** Path of libcudart, if it is not found under its usual names. */
  cudart?: string;
  /** Number of devices that the software driver has; 2 unless set here or in `POOLPASS_SOFTWARE_DEVICES`. */
  softwareDevices?: number;
  /**
   * Number of threads on which the software device runs the blocks of kernels, including the thread that calls it: a
   * whole number from 1 to 256. Defaults to `POOLPASS_SOFTWARE_THREADS`, or else to the number of CPUs in the process's
   * affinity or in the CPU quota of its cgroup (rounded up), whichever is less.
   *
   * With `softwareThreads: 1`, the order of blocks repeats, and with it all results and messages. With more threads,
   * blocks run at the same time and in any order, as on a GPU; the results that PTX defines are the same with any
   * number. With a `softwareSchedule`, or a check of the sanitizer other than `"leak"`, one thread runs all blocks,
   * whatever number is set here.
   */
  softwareThreads?: number;
  /**
   * Path of libnvrtc, which compiles CUDA C++. Defaults to the path in `POOLPASS_NVRTC`, or else to the library's usual
   * names.
   */
  nvrtc?: string;
  /**
   * Folder in which compiled programs are cached, so that the same source is not compiled again. Defaults to
   * `POOLPASS_CACHE`. The folder is created if it does not exist. A user who can write to the folder controls the code
   * that runs. Therefore, a folder that another user owns, can write to, or could replace with another folder is an
   * error.
   */
  compileCache?: string;
  /**
   * The sanitizer's checks: true for all, or the names of the checks. Defaults to the checks that `POOLPASS_SANITIZE`
   * names. Programs run more slowly with the sanitizer.
   *
   * `"stream-order"` finds accesses to the same memory that are not ordered by a stream or an event, and accesses
   * before the memory's allocation or after its free. On a GPU, it observes copies, fills, and those accesses of
   * kernels that their PTX determines. `"leak"` finds memory that is never freed. The other checks observe the threads
   * of kernels, on the software device only: `"memory"` finds accesses to memory that is not allocated, or was freed;
   * `"initialization"` finds branches, addresses and atomics that depend on uninitialized memory or variables; `"race"`
   * finds accesses of threads to the same memory that are not ordered by a barrier, fence or atomic;
   * `"synchronization"` finds barriers that only some threads reach, wrong lane masks and deadlocks.
   */
  sanitize?: boolean | readonly SanitizerCheck[];
  /**
   * The order in which the software device executes work whose order CUDA does not specify. The unit of scheduling is a
   * time slice of a thread block. Defaults to `POOLPASS_SOFTWARE_SCHEDULE`. `"oldest"` runs the stream that was created
   * first for as long as possible, `"newest"` the one created last, `"random"` any stream. With `"newest"`, the blocks
   * and threads of a kernel run from the last to the first; with `"random"`, in any order. A correct program gives the
   * same results with every schedule. If a schedule is set, newly allocated memory is filled with a pattern.
   *
   * With `"random"`, a seed is chosen once for the process and printed: `random:SEED` repeats the same order.
   */
  softwareSchedule?: "oldest" | "newest" | "random" | `random:${number}`;
  /**
   * File in which all calls of the driver are recorded, with their times and sizes, for `poolpass trace`, which makes a
   * trace for Perfetto of the files of several processes. Defaults to `POOLPASS_TRACE`. `%p` in the name is replaced
   * with the process ID. The file is created, or replaced, with mode 0600; if a running process records in it already,
   * the process ID is added before the name's extension. Each Worker has its own file. If the process is
   * killed, the file is complete up to that moment. Needs Linux.
   */
  trace?: string;
  /**
   * Number of events that the file of `trace` keeps, of 64 bytes each: newer events replace the oldest. Defaults to
   * `POOLPASS_TRACE_EVENTS`, or else to 262,144.
   */
  traceEvents?: number;
  /**
   * Whether the trace also has the times at which kernels, copies, fills and graphs run, which are measured with two
   * events for each. Defaults to `POOLPASS_TRACE_KERNELS`. Without it, only the kernels of a software device have times.
   */
  traceKernels?: boolean;
  /**
   * Called once for each error that the sanitizer finds. Without this callback, errors are printed, and disposing of
   * the `Cuda` object throws a `SanitizerError`.
   */
  onReport?: (report: SanitizerReport) => void;
}

const openOptions: KnownOptions<OpenOptions> = {
  action: "open CUDA",
  names: {
    driver: true,
    cudart: true,
    softwareDevices: true,
    softwareThreads: true,
    nvrtc: true,
    compileCache: true,
    sanitize: true,
    softwareSchedule: true,
    trace: true,
    traceEvents: true,
    traceKernels: true,
    onReport: true,
  },
  meantBy: (value) => typeof value === "string" ? `{ driver: ${JSON.stringify(value)} }` : undefined,
};

const driverNames = ["auto", "cuda", "software"] as const;
const defaultSoftwareDevices = 2;

const variablePrefix = "POOLPASS_";
/** The environment variables that poolpass reads, without their prefix. */
const variables = [
  "DRIVER",
  "SOFTWARE_DEVICES",
  "SOFTWARE_PEERS",
  "SOFTWARE_STEPS",
  "SOFTWARE_THREADS",
  "SOFTWARE_SCHEDULE",
  "SOFTWARE_FABRIC",
  "DEBUG",
  "LOG",
  "NCCL",
  "NVRTC",
  "CACHE",
  "SANITIZE",
  "SANITIZE_HOST_READS",
  "SANITIZE_INSTRUMENT",
  "SANITIZE_POSSIBLE",
  "SANITIZE_REPORT",
  "SANITIZE_SUPPRESS",
  "SNAPSHOT_ON_OOM",
  "TRACE",
  "TRACE_EVENTS",
  "TRACE_KERNELS",
] as const;
/**
 * The minimum length, without the prefix, of the names that are checked for typos. Shorter names are similar to too
 * many others.
 */
const minimumNameLength = 5;

/**
 * Opens CUDA or the software device.
 *
 * `"auto"` uses a GPU if libcuda loads and reports a device. It uses the software device only if FFI is not permitted
 * or the runtime has none, there is no libcuda, or libcuda reports no device. Any other failure is thrown.
 *
 * If `"auto"` uses the software device, one line on standard error says so, with the reason: once per process (without
 * FFI, once per Worker), and only if standard error is a terminal or `POOLPASS_LOG` is `1`. `"software"` gives the
 * software device without this line.
 *
 * These environment variables are read. An option takes precedence over the variable for the same setting.
 *
 * - `POOLPASS_DRIVER`: `auto`, `cuda` or `software`
 * - `POOLPASS_SOFTWARE_DEVICES`: the number of devices that the software driver has
 * - `POOLPASS_SOFTWARE_PEERS`: `all` or `none`, whether the software devices can access each other's memory
 * - `POOLPASS_SOFTWARE_STEPS`: the number of loop iterations after which a block of a software device's kernel is
 *   stopped
 * - `POOLPASS_SOFTWARE_THREADS`: the number of threads on which the software device runs the blocks of kernels; `1`
 *   makes their order repeatable
 * - `POOLPASS_SOFTWARE_SCHEDULE`: `oldest`, `newest`, `random` or `random:SEED`: the order in which the software device
 *   executes work whose order CUDA does not specify
 * - `POOLPASS_SOFTWARE_FABRIC`: the absolute path of a folder: the software devices of all processes that name the same
 *   folder share pools and memory with `handleType: "fabric"`, and find each other through sockets in the folder
 * - `POOLPASS_NCCL`: the path of libnccl, which executes the collectives of a `Communicator`
 * - `POOLPASS_NVRTC`: the path of libnvrtc, which compiles CUDA C++
 * - `POOLPASS_CACHE`: the folder in which compiled programs are cached. If it cannot be used, a warning is printed
 *   once, and nothing is cached
 * - `POOLPASS_SANITIZE`: `1`, or the names of checks separated by commas: the errors to look for
 * - `POOLPASS_SANITIZE_HOST_READS`: `1` also reports copies of uninitialized memory to the host, with the check
 *   `"initialization"`
 * - `POOLPASS_SANITIZE_INSTRUMENT`: `1` instruments kernels on a GPU to record their accesses where the PTX does not
 *   determine them
 * - `POOLPASS_SANITIZE_POSSIBLE`: `1` also reports the possible accesses of kernels on a GPU: an access at an unknown
 *   address may be anywhere in the buffer from whose address it is computed
 * - `POOLPASS_SANITIZE_REPORT`: a file to which the sanitizer's reports are added as lines of JSON; `%p` in the name is
 *   replaced with the process ID
 * - `POOLPASS_SANITIZE_SUPPRESS`: a file that lists errors not to be reported, in lines such as
 *   `unordered-write-read:pipeline.ts`
 * - `POOLPASS_SNAPSHOT_ON_OOM`: a file to which an allocation that fails because too little memory is left writes a
 *   snapshot of all pools: a picture if the name ends with `.svg`, otherwise as PyTorch's memory viewer opens it; `%p` in
 *   the name is replaced with the process ID
 * - `POOLPASS_TRACE`: a file in which the calls of the driver are recorded, for `poolpass trace`; `%p` in the name is
 *   replaced with the process ID
 * - `POOLPASS_TRACE_EVENTS`: the number of events that the file of `POOLPASS_TRACE` keeps
 * - `POOLPASS_TRACE_KERNELS`: `1` also records when kernels, copies, fills and graphs run
 * - `GITHUB_ACTIONS`: if it is set, the sanitizer's reports are also printed as annotations
 * - `CUDA_VISIBLE_DEVICES`: which devices are visible, and in which order; the software driver reads it too
 * - `POOLPASS_DEBUG`: `1` records the call site of each object's creation, for the report of objects that were not
 *   disposed, and of each kernel launch, for the error of a lost device; warns of waits for events that were never
 *   recorded
 * - `POOLPASS_LOG`: `1` writes a line to standard error for each event that concerns an operator, such as a connection,
 *   an offer, or a process that was cut off. If `"auto"` uses the software device, also writes a line with the reason
 *
 * Prints a warning once if the name of an environment variable is similar to one of these, provided that the names can
 * be read without prompting for a permission: in Deno, with `--allow-env`.
 *
 * Prints a warning once if a device is used through MPS: see `CudaDevice.usesMps`.
 *
 * @throws {TypeError} If `driver` is not a valid driver, `cudart`, `nvrtc` or `compileCache` is not a string,
 * `sanitize` is not a boolean or an array, `softwareSchedule` is not a schedule, or `onReport` is not a function
 * @throws {RangeError} If `softwareDevices`, `softwareThreads` or an environment variable has an invalid value, or
 * `sanitize` names an unknown check
 * @throws {CudaUnavailableError} If the driver is `"cuda"` and there is no usable GPU: FFI is not permitted, there is
 * no libcuda, or it reports no device
 * @throws {CudaError} If CUDA is present and fails
 * @throws {Error} If `cudart` or `compileCache` cannot be used, libcuda does not load or is older than CUDA 11.0, or
 * the runtime is too old
 *
 * @example
 * ```ts
 * import { open } from "./mod.ts";
 *
 * using cuda = open();
 * console.log(cuda.driver, cuda.devices.map((device) => device.name));
 * ```
 */
export function open(options: OpenOptions = {}): Cuda {
  checkOptions(options, openOptions);
  checkRuntime();
  warnOfMistypedVariables();
  const wanted = checksFor(options);
  let driver: Driver;
  let unavailable: CudaUnavailableError | undefined;
  try {
    ({ driver, unavailable } = openDriver(options, observationFor(wanted)));
  } catch (error) {
    // Makes the stack trace start at the call of `open`: the message is complete, so the stack of the search for the
    // libraries is not needed.
    if (error instanceof CudaUnavailableError) startStackAbove(error, open);
    throw error;
  }
  try {
    if (wanted !== undefined) checkThatDriverMakes(wanted, driver);
    const kernels = {
      withPossible: choiceFrom("POOLPASS_SANITIZE_POSSIBLE", ["0", "1"]) === "1",
      withHostReads: choiceFrom("POOLPASS_SANITIZE_HOST_READS", ["0", "1"]) === "1",
      instruments: choiceFrom("POOLPASS_SANITIZE_INSTRUMENT", ["0", "1"]) === "1",
    };
    const outputs = { ...outputsOfEnvironment(), prepare: addDisplayToReport };
    const sanitizer = wanted && new Sanitizer(wanted.checks, options.onReport, outputs, kernels);
    addDisplays();
    choiceFrom("POOLPASS_LOG", ["0", "1"]);
    startLog(openLog);
    const debug = choiceFrom("POOLPASS_DEBUG", ["0", "1"]) === "1";
    keepLibraryFrames(debug);
    const compilers = compilersFor(options);
    const recorder = traceFor(options, driver);
    const timesWork = timesWorkFor(options);
    const recorded = recorder === undefined ? driver : recordDriver(driver, recorder, timesWork);
    if (debug) recorder?.recordSites();
    const observed = sanitizer?.observe(recorded) ?? recorded;
    const collectives = () => {
      const library = collectivesOf(driver);
      return recorder === undefined ? library : tracedCollectives(library, recorder);
    };
    const cuda = new Cuda(
      new Session(observed, { debug, compilers, instructionSupport, sanitizer, recorder, collectives }),
    );
    warnOfMps(cuda);
    if (isLogging) logEvent("open", { driver: cuda.driver, devices: cuda.devices.length });
    if (unavailable !== undefined) reportFallback(cuda, unavailable);
    return cuda;
  } catch (error) {
    driver.close();
    throw error;
  }
}

addEntries(open);

let hasWarnedOfVariables = false;

/** Warns once of environment variables with names similar to poolpass's own variables. */
function warnOfMistypedVariables(): void {
  if (hasWarnedOfVariables) return;
  for (const variable of variableNames()) {
    const name = variable.startsWith(variablePrefix) ? variable.slice(variablePrefix.length) : "";
    if (name.length < minimumNameLength || variables.some((known) => known === name)) continue;
    const [nearest] = nearestNames(name, variables);
    if (nearest === undefined) continue;
    hasWarnedOfVariables = true;
    console.warn(
      `poolpass: the environment variable ${
        escapeControls(variable)
      } does nothing: there is no such variable; did you mean ` +
        `"${variablePrefix}${nearest}"?`,
    );
  }
}

let hasWarnedOfMps = false;

/**
 * Warns once if a device is used through MPS: if another process that uses the device is killed, this process may lose
 * the device.
 */
function warnOfMps({ driver, devices }: Cuda): void {
  if (hasWarnedOfMps || driver === "software") return;
  const ordinals = devices.filter(({ usesMps }) => usesMps).map(({ ordinal }) => ordinal);
  if (ordinals.length === 0) return;
  hasWarnedOfMps = true;
  console.warn(
    `${ordinals.length === 1 ? "Device" : "Devices"} ${ordinals.join(", ")} of this process ${
      ordinals.length === 1 ? "is" : "are"
    } used through MPS: if another process is killed while it works there, this one may lose its device, and memory ` +
      "that the two shared may still be written after its reuse",
  );
}

/**
 * Reports, once per process, that the software device is used although it was not requested, and why: on standard error
 * if that is a terminal, or in the log for operators.
 */
function reportFallback(cuda: Cuda, unavailable: CudaUnavailableError): void {
  if (!isLogging && !isStandardErrorTerminal()) return;
  const [device] = cuda.devices;
  if (device === undefined || !isFirstInProcess("fallback")) return;
  const reason = unavailable.message.replace(/^Cannot use CUDA: /, "");
  if (isLogging) logEvent("fallback", { device: device.name, reason });
  else {
    console.warn(
      `poolpass: running on the software device, not on a GPU: ${reason}. To choose it without this message, set ` +
        'POOLPASS_DRIVER=software or call open({ driver: "software" })',
    );
  }
}

function checksFor({ sanitize, onReport }: OpenOptions): WantedChecks | undefined {
  if (onReport !== undefined && typeof onReport !== "function") {
    throw new TypeError(`Cannot report to ${whatIs(onReport)}: onReport is a function`);
  }
  return wantedChecks(sanitize, environmentVariable("POOLPASS_SANITIZE"));
}

type Observation = Pick<SoftwareDriverOptions, "observesAccesses" | "kernelChecks">;

/** Returns the software device's options for observing kernels and accesses, as required by the requested checks. */
function observationFor(wanted: WantedChecks | undefined): Observation {
  if (wanted === undefined) return {};
  return { observesAccesses: wanted.checks.has("stream-order"), kernelChecks: kernelChecksAmong(wanted) };
}

interface OpenedDriver {
  readonly driver: Driver;
  /** Why the software device is used although it was not requested. */
  readonly unavailable?: CudaUnavailableError;
}

function openDriver(options: OpenOptions, observation: Observation): OpenedDriver {
  const { driver, cudart, softwareDevices, softwareThreads } = options;
  if (driver !== undefined && !driverNames.includes(driver)) {
    throw new TypeError(
      `Cannot open the driver ${shown(driver)}: it must be "auto", "cuda" or "software"${
        didYouMean(driver, driverNames)
      }`,
    );
  }
  if (cudart !== undefined && typeof cudart !== "string") {
    throw new TypeError(`Cannot use ${whatIs(cudart)} as libcudart: give the path of a library`);
  }
  if (softwareDevices !== undefined) checkNumber(softwareDevices, "softwareDevices");
  if (softwareThreads !== undefined) checkNumber(softwareThreads, "softwareThreads");
  const wanted = driver ?? choiceFrom("POOLPASS_DRIVER", driverNames) ?? "auto";
  if (wanted === "software") return { driver: openSoftwareDriver(options, observation) };
  try {
    return { driver: new CudaDriver(cudart === undefined ? {} : { cudart }) };
  } catch (error) {
    if (wanted === "cuda" || !(error instanceof CudaUnavailableError)) throw error;
    return { driver: openSoftwareDriver(options, observation), unavailable: error };
  }
}

/** Returns the library for collectives, which is opened for the first communicator. */
function collectivesOf(driver: Driver): CollectiveLibrary {
  if (driver instanceof SoftwareDriver) return driver.collectives;
  const path = environmentVariable("POOLPASS_NCCL");
  const cuda = driver as CudaDriver;
  return openNccl(path === "" ? undefined : path, (device) => cuda.makeCurrent(device));
}

/** Returns the compilers, which are searched for when the first source is compiled. */
function compilersFor({ nvrtc = environmentVariable("POOLPASS_NVRTC"), compileCache }: OpenOptions): Compilers {
  if (nvrtc !== undefined && typeof nvrtc !== "string") {
    throw new TypeError(`Cannot use ${whatIs(nvrtc)} as libnvrtc: give the path of a library`);
  }
  const searches = [() => findNvrtc(nvrtc === "" ? undefined : nvrtc), findNvcc, findClang];
  const cache = compileCacheFor(compileCache);
  return new Compilers(cache === undefined ? searches : searches.map((search) => cachedSearch(search, cache)));
}

/** Returns the recorder of the trace that the options or the environment ask for. */
function traceFor({ trace, traceEvents }: OpenOptions, driver: Driver): TraceRecorder | undefined {
  if (trace !== undefined && typeof trace !== "string") {
    throw new TypeError(`Cannot record a trace in ${whatIs(trace)}: give the path of a file`);
  }
  if (traceEvents !== undefined) checkNumber(traceEvents, "traceEvents");
  const length = traceEvents ?? numberFrom("POOLPASS_TRACE_EVENTS", { from: 1, to: mostTraceEvents }) ??
    defaultTraceEvents;
  if (!(Number.isInteger(length) && length >= 1 && length <= mostTraceEvents)) {
    throw new RangeError(`Cannot record a trace of ${length} events: give a whole number from 1 to ${mostTraceEvents}`);
  }
  const name = driver instanceof SoftwareDriver ? "software" : "cuda";
  if (trace !== undefined) {
    if (trace === "" || trace.includes("\0")) {
      throw new RangeError(`Cannot record a trace in ${shown(trace)}: give the path of a file`);
    }
    return openTrace(trace, length, name);
  }
  const named = environmentVariable("POOLPASS_TRACE");
  if (named === undefined || named === "") return undefined;
  return unlessImpossible("POOLPASS_TRACE", () => openTrace(named, length, name));
}

/** Returns whether the options or the environment ask for the times of work. */
function timesWorkFor({ traceKernels }: OpenOptions): boolean {
  if (traceKernels !== undefined) checkBoolean(traceKernels, "traceKernels");
  return traceKernels ?? choiceFrom("POOLPASS_TRACE_KERNELS", ["0", "1"]) === "1";
}

/** Returns a driver that records the calls of another one, and when their work runs. */
function recordDriver(driver: Driver, recorder: TraceRecorder, timesWork: boolean): Driver {
  if (timesWork) return tracedDriver(driver, recorder, new WorkTimes(driver, recorder));
  if (driver instanceof SoftwareDriver) recordKernels(driver, recorder);
  return tracedDriver(driver, recorder);
}

/** The environment variables of which a warning was printed. */
const warnedOf = new Set<string>();

/**
 * Returns what an environment variable asks for. If that fails, only warns, once: the program itself has not requested
 * it, and works without it.
 */
function unlessImpossible<Result>(variable: string, make: () => Result): Result | undefined {
  try {
    return make();
  } catch (error) {
    if (!warnedOf.has(variable)) console.warn(`poolpass: ${variable} does nothing: ${(error as Error).message}`);
    warnedOf.add(variable);
    return undefined;
  }
}

/** Returns the cache in the folder that the options or the environment name. */
function compileCacheFor(folder: string | undefined): CompileCache | undefined {
  if (folder !== undefined) {
    if (typeof folder !== "string") {
      throw new TypeError(`Cannot use ${whatIs(folder)} as compileCache: give the path of a folder`);
    }
    if (folder === "" || folder.includes("\0")) {
      throw new RangeError(`Cannot use ${shown(folder)} as compileCache: give the path of a folder`);
    }
    // Without FFI or on a system other than Linux, nothing can be compiled.
    return shimRefusal() === undefined ? new CompileCache(folder) : undefined;
  }
  const named = environmentVariable("POOLPASS_CACHE");
  if (named === undefined || named === "" || shimRefusal() !== undefined) return undefined;
  return unlessImpossible("POOLPASS_CACHE", () => new CompileCache(named));
}

function openSoftwareDriver(
  { softwareDevices, softwareThreads, softwareSchedule }: OpenOptions,
  observation: Observation,
): SoftwareDriver {
  return new SoftwareDriver({
    ...observation,
    schedule: scheduleFrom(softwareSchedule, environmentVariable("POOLPASS_SOFTWARE_SCHEDULE")),
    devices: softwareDevices ?? numberFrom("POOLPASS_SOFTWARE_DEVICES", { from: 1, to: SoftwareDriver.deviceLimit }) ??
      defaultSoftwareDevices,
    peers: choiceFrom("POOLPASS_SOFTWARE_PEERS", ["all", "none"]) !== "none",
    visible: environmentVariable("CUDA_VISIBLE_DEVICES"),
    stepLimit: numberFrom("POOLPASS_SOFTWARE_STEPS"),
    threads: softwareThreads ?? numberFrom("POOLPASS_SOFTWARE_THREADS", { from: 1, to: SoftwareDriver.threadLimit }),
    fabric: fabricFolder(),
  });
}

/**
 * Returns the folder that serves as the fabric of the software devices. The folder is checked when memory is exported.
 */
function fabricFolder(): string | undefined {
  const folder = environmentVariable("POOLPASS_SOFTWARE_FABRIC");
  if (folder === undefined || folder === "") return undefined;
  // A relative path would depend on the working folder, and could refer to different folders in different processes.
  if (folder.startsWith("/")) return folder;
  throw new RangeError(`Cannot use POOLPASS_SOFTWARE_FABRIC="${folder}": give the absolute path of a folder`);
}

function choiceFrom<C extends string>(variable: string, choices: readonly C[]): C | undefined {
  const value = environmentVariable(variable);
  if (value === undefined || value === "") return undefined;
  const choice = choices.find((choice) => choice === value);
  if (choice === undefined) {
    throw new RangeError(
      `Cannot use ${variable}="${value}": it must be one of ${choices.join(", ")}${didYouMean(value, choices)}`,
    );
  }
  return choice;
}

function numberFrom(variable: string, { from = 0, to = Infinity } = {}): number | undefined {
  const value = environmentVariable(variable);
  if (value === undefined || value === "") return undefined;
  if (/^\d+$/.test(value) && Number(value) >= from && Number(value) <= to) return Number(value);
  const range = to === Infinity ? "" : ` from ${from} to ${to}`;
  throw new RangeError(`Cannot use ${variable}="${value}": it must be a whole number${range}`);
}
