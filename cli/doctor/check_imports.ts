/**
 * Checks the driver's imports: whether handles of other processes can be validated, and which sizes can be imported.
 *
 * @module
 */
import { spawn } from "node:child_process";
import process from "node:process";
import type { Readable } from "node:stream";
import { CudaDriver } from "../../ffi/cuda_driver.ts";
import { type Cuda, open } from "../../mod.ts";
import type { Driver } from "../../src/driver.ts";
import { isExportDataKnown, shareableAdvice } from "../../src/memory/handles/export_data.ts";
import { areEventHandlesKnown } from "../../src/objects/ipc_handles.ts";
import type { Terminal } from "../command_line.ts";
import { formatBytes } from "../status/units.ts";
import { type DoctorFinding, finding } from "./finding.ts";
import { type ImportResult, readResult, tryImportOption } from "./try_import.ts";

const device = 0;
const mebibyte = 2 ** 20;
/** The size in MiB of the largest pool allocation that poolpass imports. */
const limitMebibytes = 4096;
/** The sizes in MiB of the allocations that `checkImports` tries to import. */
const triedMebibytes: readonly number[] = [limitMebibytes, 4097, 5376, 16_384];
/**
 * The smallest allocation, in MiB, whose import has been observed to crash with drivers that write past the end of an
 * array.
 */
const fatalMebibytes = 5280;
/**
 * The memory in MiB that must be free on the device in addition to the allocation, for the contexts of the importing
 * process and of other programs.
 */
const reserveMebibytes = 1024;
/** The time limit for an import in another process, in milliseconds. */
const timeout = 20_000;
/** The maximum number of characters of the importing process's output to keep. */
const maximumPrinted = 16_384;
/**
 * The signals that users and other processes commonly send to terminate a process. Any other signal indicates a crash.
 */
const signalsOfOthers: readonly (string | null)[] = ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"];

/** The outcome of an import in another process. */
export type Outcome = ImportResult | { readonly result: "died" | "hung"; readonly why: string };

/**
 * The size and the outcome of an import. If too little memory was free, the outcome states that the import was not
 * tried.
 */
export interface Attempt {
  readonly mebibytes: number;
  readonly outcome: Outcome;
}

/**
 * Checks whether poolpass knows the layout of the driver's handles, and can therefore validate handles of other
 * processes.
 */
export function checkLayouts(): DoctorFinding[] {
  switch (kindOfDriver()) {
    case "cuda":
      return layoutsOf(new CudaDriver());
    case "software":
      return ["export data", "event handles"].map((topic) => finding("ok", topic, "checked by the device itself"));
    default:
      return [];
  }
}

/** Returns the findings on the layouts of handles, for a driver that does not validate handles itself. */
export function layoutsOf(driver: Driver): DoctorFinding[] {
  const unknown = "this driver's have a layout that is not known:";
  return [
    layoutOf("export data", () => isExportDataKnown(driver, device), {
      known: "their layout is known: sizes and offsets are checked before the driver uses them",
      unknown: `${unknown} only the size that an exporter states is checked`,
      advice: 'to exporters of users who are not trusted, connect with { memory: "virtual" }',
    }),
    layoutOf("event handles", () => areEventHandlesKnown(driver, device), {
      known: "their layout is known: forged ones are not opened",
      unknown: `${unknown} events of other processes are not opened, and cost a message`,
    }),
  ];
}

function layoutOf(
  topic: string,
  isKnown: () => boolean,
  { known, unknown, advice }: { known: string; unknown: string; advice?: string },
): DoctorFinding {
  try {
    return isKnown() ? finding("ok", topic, known) : finding("note", topic, unknown, advice);
  } catch (error) {
    return finding("note", topic, `whether their layout is known could not be tried: ${(error as Error).message}`);
  }
}

/** Tries imports of 4 GiB and more, each in a separate process. */
export async function checkImports({ program, signal }: Terminal): Promise<DoctorFinding[]> {
  const notTried = (why: string, advice?: string) => [finding("note", topicOfAll, `not tried: ${why}`, advice)];
  const kind = kindOfDriver();
  if (kind === undefined) return notTried("there is no device that can be used");
  if (kind === "software") return notTried("all software devices together have 4 GiB");
  const driver = new CudaDriver();
  if (driver.sharingRefusal !== undefined) return notTried(driver.sharingRefusal);
  if (program === undefined) return notTried("this program does not run in a process of its own");
  try {
    const { free } = driver.memGetInfo(device);
    const command = program();
    const attempts: Attempt[] = [];
    for (const mebibytes of triedMebibytes) {
      if (signal.aborted) break;
      const args = ["doctor", tryImportOption, `${mebibytes * mebibyte}`];
      const outcome = free < (mebibytes + reserveMebibytes) * mebibyte
        ? { result: "not-tried" as const, why: `only ${formatBytes(free)} of the device's memory are free` }
        : await runAttempt([...command, ...args], { timeout, signal });
      attempts.push({ mebibytes, outcome });
    }
    return judge(attempts);
  } catch (error) {
    const { message } = error as Error;
    return notTried(`another process cannot be started: ${message}`, "in Deno, run this with --allow-run");
  }
}

/**
 * Returns the kind of driver that `open` uses, or undefined if there is no driver. `checkDevices` reports a missing
 * driver.
 */
function kindOfDriver(): Cuda["driver"] | undefined {
  try {
    using cuda = open();
    return cuda.driver;
  } catch {
    return undefined;
  }
}

/**
 * Runs a command that prints an `ImportResult`. Returns another outcome if the process crashes, hangs or fails.
 *
 * @throws If the process cannot be started
 */
export function runAttempt(
  [file, ...args]: readonly string[],
  { timeout, signal }: { timeout: number; signal: AbortSignal },
): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    // Prevents Bun from uploading a crash report to its developers.
    const env = { ...process.env, BUN_ENABLE_CRASH_REPORTING: "0" };
    const child = spawn(file!, args, {
      stdio: ["ignore", "pipe", "pipe"],
      ...process.versions.bun === undefined ? {} : { env },
    });
    const [printed, errors] = [child.stdout, child.stderr].map(gather);
    const end = (outcome: Outcome): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      resolve(outcome);
    };
    /** Kills the process. Does not wait until it exits, because it may hang in the kernel. */
    const kill = (outcome: Outcome): void => {
      child.kill("SIGKILL");
      child.stdout.destroy();
      child.stderr.destroy();
      child.unref();
      end(outcome);
    };
    const onAbort = () => kill({ result: "not-tried", why: "it was interrupted" });
    const timer = setTimeout(
      () => kill({ result: "hung", why: `the import did not end within ${timeout} ms` }),
      timeout,
    );
    signal.addEventListener("abort", onAbort, { once: true });
    child.once("error", (error) => {
      reject(error);
      end({ result: "not-tried", why: error.message });
    });
    child.once("close", (code, signal) => {
      const result = code === 0 ? readResult(printed!()) : undefined;
      if (result !== undefined) return end(result);
      if (signal !== null && !signalsOfOthers.includes(signal)) {
        return end({ result: "died", why: `the driver ended the importing process: ${signal}` });
      }
      const how = signal === null ? `with exit code ${code}` : `by ${signal}`;
      end({ result: "not-tried", why: `the other process ended ${how}: ${errors!().trim().split("\n").at(-1)}` });
    });
  });
}

/** Collects the output of a process. Returns a function that returns the output so far. */
function gather(stream: Readable): () => string {
  let printed = "";
  stream.setEncoding("utf8").on("data", (text: string) => {
    if (printed.length < maximumPrinted) printed += text;
  });
  return () => printed;
}

const topicOfAll = "large imports";

/** Returns a finding for each import, and a summary. */
export function judge(attempts: readonly Attempt[]): DoctorFinding[] {
  const above = attempts.filter(({ mebibytes }) => mebibytes > limitMebibytes);
  const failed = above.filter(({ outcome }) => isFailure(outcome));
  const imported = above.filter(({ outcome }) => outcome.result === "imported");
  return [
    ...attempts.map((attempt) => judgeOne(attempt, failed.length > 0)),
    failed.length > 0
      ? finding(
        "note",
        topicOfAll,
        "this driver does not import every allocation of more than 4 GiB, and poolpass refuses them",
        `allocate such memory ${shareableAdvice}`,
      )
      : imported.some(({ mebibytes }) => mebibytes >= fatalMebibytes)
      ? finding(
        "ok",
        topicOfAll,
        "this driver imports allocations of more than 4 GiB; poolpass refuses them all the same",
      )
      : finding(
        "note",
        topicOfAll,
        `whether this driver imports allocations of more than 4 GiB is not known: none of at least ${fatalMebibytes} MiB ` +
          "could be tried",
      ),
  ];
}

function judgeOne({ mebibytes, outcome }: Attempt, isDefective: boolean): DoctorFinding {
  const topic = `${mebibytes} MiB`;
  const isAbove = mebibytes > limitMebibytes;
  if (outcome.result !== "imported") {
    const level = isFailure(outcome) && !isAbove ? "problem" : "note";
    return finding(level, topic, `${outcome.result === "not-tried" ? "not tried: " : ""}${outcome.why}`);
  }
  if (!outcome.isRight) return finding(isAbove ? "note" : "problem", topic, "imported, and its last byte is wrong");
  if (isAbove && isDefective) {
    return finding(
      "note",
      topic,
      "imported; the driver may have overwritten memory of the process, as it fails for more",
    );
  }
  return finding("ok", topic, "imported");
}

/** Returns whether an import was tried and has failed, or has mapped the wrong memory. */
function isFailure(outcome: Outcome): boolean {
  if (outcome.result === "imported") return !outcome.isRight;
  return outcome.result === "refused" || outcome.result === "died" || outcome.result === "hung";
}
