/**
 * The drivers under test. Every test above the `Driver` interface runs on each of them.
 *
 * @module
 */
import process from "node:process";
import { CudaDriver } from "../../ffi/cuda_driver.ts";
import { Compilers } from "../../src/compile/compilers.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { Driver } from "../../src/driver.ts";
import { CudaUnavailableError } from "../../src/support/errors.ts";
import { kernelChecksAmong, Sanitizer, wantedChecks } from "../../src/sanitizer/sanitizer.ts";
import { Session } from "../../src/session.ts";
import { instructionSupport, SoftwareDriver } from "../../src/software/software_driver.ts";
import { scheduleFrom } from "../../src/software/schedule.ts";
import { assertLeavesNothing } from "./resources.ts";
import { test } from "./test.ts";

/** A driver that tests run on. */
export interface DriverUnderTest {
  readonly name: string;
  /** Why it cannot be tested here, or false. */
  readonly skip: string | false;
  /** Number of conformance rows that one process may run. */
  readonly rowsTogether: number;
  /** Whether rows in one process use the same devices, on which earlier rows may leave state. */
  readonly rowsShareDevices: boolean;
  open(): Driver;
}

const noGpu = reasonWithoutGpu();
const schedule = scheduleFrom(undefined, process.env.POOLPASS_SOFTWARE_SCHEDULE);
const threads = process.env.POOLPASS_SOFTWARE_THREADS ? Number(process.env.POOLPASS_SOFTWARE_THREADS) : undefined;
/** What the sanitizer looks at in the tests: `deno task test:sanitized`. */
const wanted = wantedChecks(undefined, process.env.POOLPASS_SANITIZE);
/** Whether it looks at anything. */
export const isSanitized: boolean = wanted !== undefined;

/** All drivers. Those for a GPU are skipped without a GPU. */
export const driversUnderTest: readonly DriverUnderTest[] = [
  {
    name: "software",
    skip: false,
    rowsTogether: Infinity,
    rowsShareDevices: false,
    open: () =>
      new SoftwareDriver({
        devices: 2,
        peers: true,
        observesAccesses: wanted?.checks.has("stream-order") ?? false,
        kernelChecks: wanted && kernelChecksAmong(wanted),
        schedule,
        threads,
      }),
  },
  onGpu("cuda", () => new CudaDriver()),
  onGpu("cuda without libcudart", () => new CudaDriver({ cudart: null })),
];

/** The driver of a name. */
export function driverNamed(name: "software" | "cuda"): DriverUnderTest {
  return driversUnderTest.find((driver) => driver.name === name)!;
}

/** The requirements of a test. */
export interface TestNeeds {
  /** Number of devices, by default 1. */
  devices?: number;
  /** Whether it is much like others: then only the long run has it. */
  long?: boolean;
  /** Whether it makes mistakes on purpose, of which the sanitizer is not to complain. */
  makesMistakes?: boolean;
  /** The compilers of CUDA C++; none unless given. */
  compilers?: Compilers;
  /** Why it cannot pass on a GPU. */
  notOnGpu?: string;
}

/**
 * Declares a test of the public objects on each driver. Fails if a resource is left behind; see `assertLeavesNothing`.
 */
export function testOnEachDriver(
  name: string,
  body: (cuda: Cuda, driver: DriverUnderTest) => void | Promise<void>,
  { devices = 1, long = false, makesMistakes = false, compilers = new Compilers([]), notOnGpu = "" }: TestNeeds = {},
): void {
  for (const driver of driversUnderTest) {
    const run = async () => {
      using cuda = new Cuda(openSession(driver.open(), { makesMistakes, compilers, instructionSupport }));
      await body(cuda, driver);
    };
    const skip = driver.skip || tooFewDevices(driver, devices) || driver.name !== "software" && notOnGpu;
    test(`${name} [${driver.name}]`, { skip, long }, () => assertLeavesNothing(run));
  }
}

/** Opens a session, which the sanitizer looks at if POOLPASS_SANITIZE asks for it. */
function openSession(
  driver: Driver,
  { makesMistakes, ...options }: Pick<Session, "compilers" | "instructionSupport"> & { makesMistakes: boolean },
): Session {
  if (wanted === undefined) return new Session(driver, options);
  // Tests of what the library warns of want its warnings.
  const checks = makesMistakes ? wanted.checks.difference(new Set(["leak"])) : wanted.checks;
  const sanitizer = new Sanitizer(checks, makesMistakes ? () => {} : undefined);
  return new Session(sanitizer.observe(driver), { ...options, sanitizer });
}

function onGpu(name: string, open: () => Driver): DriverUnderTest {
  return { name, skip: noGpu, rowsTogether: 8, rowsShareDevices: true, open };
}

function reasonWithoutGpu(): string | false {
  try {
    new CudaDriver().close();
    return false;
  } catch (error) {
    if (error instanceof CudaUnavailableError) return error.message.replace(/^Cannot use CUDA: |;.*/g, "");
    throw error;
  }
}

/** Why a test that needs this many devices cannot run, or false. */
export function tooFewDevices(driver: DriverUnderTest, devices: number): string | false {
  if (devices === 1) return false;
  const opened = driver.open();
  const count = opened.getDeviceCount();
  opened.close();
  return count < devices && `needs ${devices} devices, and there is ${count}`;
}
