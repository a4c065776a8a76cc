/**
 * The errors of launches whose kernels faulted.
 *
 * @module
 */
import { describeArguments, describeFault, genericAddress } from "./describe_fault.ts";
import { describeStuck, KernelFault, type LocatedFault, nameLines, nameOfLine, stuckMark } from "./kernel_fault.ts";
import type { LaunchMemory } from "../../memory/linear_memory.ts";
import type { LaunchPlace } from "../launching/launch_state.ts";
import type { SoftwareKernel } from "../modules/module_loader.ts";

/** Returns the error of a launch, given the fault of one of its blocks. */
export function kernelFault(
  { report, block, thread, line, what, stuck = [] }: LocatedFault,
  { compiled, lineInfo }: Pick<SoftwareKernel, "compiled" | "lineInfo">,
  { parameters, memoryNames, sharedMemoryBytes = 0, workspace }: LaunchPlace<LaunchMemory>,
): KernelFault {
  const source = lineInfo.sourceOf(line);
  const nameLine = (line: number) => lineInfo.sourceOf(line) ?? nameOfLine(line);
  return new KernelFault({
    kind: report.kind,
    kernel: compiled.name,
    block,
    thread,
    line,
    source: report.source ?? source,
    address: genericAddress(report),
    what: what !== undefined
      ? nameLines(what.replace(stuckMark, () => describeStuck(stuck)), nameLine)
      : describeFault(report, {
        staticShared: compiled.sharedBytes,
        shared: compiled.sharedBytes + sharedMemoryBytes,
        local: compiled.accessibleLocalBytes,
        parameters: compiled.parameterBytes,
        lacksWorkspace: compiled.findsWorkspace && workspace === undefined,
        memoryNames,
      }),
    launched: describeArguments(report.kind, compiled.parameters, parameters, memoryNames),
  });
}
