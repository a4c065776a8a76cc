/**
 * Programs whose work is timed in a trace, for tests and for runs on a GPU.
 *
 * @module
 */
import { openSharedClock } from "../../ffi/native/clock.ts";
import type { Driver } from "../../src/driver.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { readTrace, type Trace, type TraceEvent } from "../../src/trace/read_trace.ts";
import { timedWork } from "../../src/trace/trace_format.ts";
import { traceByteLength, TraceRecorder } from "../../src/trace/trace_recorder.ts";
import { recordKernels, tracedDriver } from "../../src/trace/traced_driver.ts";
import { WorkTimes } from "../../src/trace/work_times.ts";

/** A kernel that runs for a number of nanoseconds, and stores when its thread began and ended. */
export const stampPtx = `.version 7.0
.target sm_60
.address_size 64

.visible .entry stamp(.param .u64 out, .param .u64 nanoseconds) {
  .reg .pred %p<2>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [nanoseconds];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u64 %rd3, %globaltimer;
  add.u64 %rd2, %rd2, %rd3;
again:
  mov.u64 %rd4, %globaltimer;
  setp.lt.u64 %p1, %rd4, %rd2;
  @%p1 bra again;
  st.global.u64 [%rd1], %rd3;
  st.global.u64 [%rd1+8], %rd4;
  ret;
}
`;

/** What was recorded of a program. */
export interface RecordedWork {
  readonly trace: Trace;
  /** The work that events have timed, by their order in the trace. */
  readonly work: readonly TraceEvent[];
  /** On a software device, the kernels with the times that the device itself knows. */
  readonly exact: readonly TraceEvent[];
}

/** Runs a program on a driver, and records when its work runs. `measuring` makes the calls that measure the times. */
export async function recordWork(
  driver: Driver,
  body: (cuda: Cuda) => void | Promise<void>,
  measuring: Driver = driver,
): Promise<RecordedWork> {
  const timed = makeRecorder();
  // The exact times are in a trace of their own.
  const exact = makeRecorder();
  if (driver instanceof SoftwareDriver) recordKernels(driver, exact.recorder);
  {
    const times = new WorkTimes(measuring, timed.recorder);
    using cuda = new Cuda(new Session(tracedDriver(driver, timed.recorder, times)));
    await body(cuda);
  }
  const trace = readTrace("timed", timed.bytes);
  return {
    trace,
    work: trace.events.filter(({ name }) => timedWork.some((known) => known === name)),
    exact: readTrace("exact", exact.bytes).events,
  };
}

/** Returns a recorder that writes into memory. */
export function makeRecorder(): { recorder: TraceRecorder; bytes: Uint8Array<ArrayBuffer> } {
  const length = 2 ** 16;
  const bytes = new Uint8Array(traceByteLength(length));
  const now = openSharedClock();
  const process = { pid: 1, thread: 0, runtime: "", program: "", driver: "", began: 0, beganMonotonic: now() };
  return { recorder: new TraceRecorder(bytes, length, process, now), bytes };
}
