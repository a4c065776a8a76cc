/**
 * What is reported of a program where launches are not observed because it is known what they access, and where all are.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { CudaError, type SanitizerReport } from "../../../mod.ts";
import type { KernelChecker } from "../../../src/kernel_checker.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import { Sanitizer } from "../../../src/sanitizer/sanitizer.ts";
import { Session } from "../../../src/session.ts";
import { instructionSupport, SoftwareDriver } from "../../../src/software/software_driver.ts";
import { adaptedDriver } from "../../support/adapted_driver.ts";

/** How to run a program. */
export interface Options {
  /** Whether launches run when they are asked for, so that kernels find the same in memory each time. */
  readonly runsAtOnce?: boolean;
  /**
   * Whether reports may come in another order, and end their bytes elsewhere: what is known as a whole is not divided
   * where other accesses that are observed begin.
   */
  readonly comparesWholes?: boolean;
}

/** The reports of a program, and how many of its launches were not observed. */
export interface ProgramResult {
  readonly reports: readonly Pick<SanitizerReport, "kind" | "message" | "accesses" | "count">[];
  readonly known: number;
}

function resultOf(
  program: (cuda: Cuda) => void,
  { observesAll, runsAtOnce = false }: Pick<Options, "runsAtOnce"> & { observesAll: boolean },
): ProgramResult {
  const reports: SanitizerReport[] = [];
  const sanitizer = new Sanitizer(new Set(["stream-order"]), (report) => reports.push(report));
  const driver = new SoftwareDriver({ devices: 1, peers: true, observesAccesses: true });
  let known = 0;
  const launch: KernelChecker["launch"] = (launch, attributes, observation) => {
    const accesses = observesAll ? undefined : observation.accesses;
    if (accesses !== undefined) known++;
    driver.checker.launch(launch, attributes, { ...observation, accesses });
    // The sanitizer does not see that the host waits.
    if (runsAtOnce) driver.deviceSynchronize(launch.device);
  };
  const session = new Session(sanitizer.observe(adaptedDriver(driver, { checker: { ...driver.checker, launch } })), {
    instructionSupport,
    sanitizer,
  });
  const cuda = new Cuda(session);
  try {
    program(cuda);
    cuda.device(0).synchronize();
  } catch (error) {
    if (!(error instanceof CudaError)) throw error;
  }
  try {
    cuda[Symbol.dispose]();
  } catch (error) {
    if (!(error instanceof CudaError)) throw error;
  }
  return { reports: reports.map(({ kind, message, accesses, count }) => ({ kind, message, accesses, count })), known };
}

/** Runs a program both ways, and returns what it reports. */
export function assertSameReports(
  program: (cuda: Cuda) => void,
  what: string,
  { runsAtOnce = false, comparesWholes = false }: Options = {},
): ProgramResult {
  const [one, other] = [false, true].map((observesAll) => resultOf(program, { observesAll, runsAtOnce }));
  const compared = ({ reports }: ProgramResult) =>
    comparesWholes
      ? reports.map((report) => ({ ...report, message: report.message.replace(/(bytes \d+) to \d+/, "$1 on") }))
        .sort((a, b) => a.message < b.message ? -1 : 1)
      : reports;
  assertEquals(compared(one!), compared(other!), what);
  return one!;
}
