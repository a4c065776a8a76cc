import { openSharedClock } from "../../ffi/native/clock.ts";
import { isFirstInProcess } from "../../ffi/native/first_in_process.ts";
import { jsRuntime } from "../../ffi/native/host.ts";
import { createMappedFile } from "../../ffi/native/shim/mapped_file.ts";
import { shim, shimRefusal } from "../../ffi/native/shim/shim.ts";
import { readTextFile, reasonNotCreated } from "../../ffi/native/shim/text_files.ts";
import { shown } from "../support/validation.ts";
import { traceByteLength, TraceRecorder } from "./trace_recorder.ts";

/** The number of events that a trace file keeps, unless set: 16 MiB of them. */
export const defaultTraceEvents: number = 2 ** 18;
/** The maximum number of characters of the program's name in a trace. */
const longestProgram = 300;

/** The number of this thread in its traces. */
let thread: number | undefined;

/** The recorders of this thread by the paths that were asked for. */
const recorders = new Map<string, TraceRecorder>();

/** Returns the recorder of what is not about a single `Cuda` object, such as messages: the first one of the thread. */
export function currentRecorder(): TraceRecorder | undefined {
  return recorders.values().next().value;
}

/**
 * Returns the recorder that writes to a file. All `Cuda` objects of a thread that name the same file share it.
 *
 * @param file `%p` stands for the process ID. If another process or thread writes to the file, the process ID and a
 * number are added before the name's extension
 * @param length the number of events that the file keeps; that of the first call with the file counts
 * @param driver the name of the driver
 * @throws {Error} If the file cannot be created
 */
export function openTrace(file: string, length: number, driver: string): TraceRecorder {
  const known = recorders.get(file);
  if (known !== undefined) return known;
  const refusal = shimRefusal();
  if (refusal !== undefined) throw new Error(`Cannot record a trace in ${shown(file)}: ${refusal}`);
  const pid = shim().poolpass_getpid();
  const path = file.replaceAll("%p", String(pid));
  thread ??= isFirstInProcess("trace") ? 0 : 1 + Math.floor(Math.random() * 2 ** 31);
  const paths = [path, extended(path, `${pid}`), extended(path, `${pid}.${thread}`)];
  const now = openSharedClock();
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = createMappedFile(paths, traceByteLength(length));
  } catch (error) {
    throw new Error(`Cannot record a trace in ${shown(path)}: ${reasonNotCreated(error)}`, { cause: error });
  }
  const process = {
    pid,
    thread,
    runtime: jsRuntime,
    program: programName(),
    driver,
    began: Date.now(),
    beganMonotonic: now(),
  };
  const recorder = new TraceRecorder(bytes, length, process, now);
  recorders.set(file, recorder);
  return recorder;
}

/** Adds to the name of a file, before its extension, so that `*.trace` names the files of all processes and threads. */
function extended(path: string, addition: string): string {
  return path.replace(/(\.[^./]*)?$/, `.${addition}$1`);
}

/** Returns the command line of this process. */
function programName(): string {
  try {
    return readTextFile("/proc/self/cmdline").replaceAll("\0", " ").trim().slice(0, longestProgram);
  } catch {
    return "";
  }
}
