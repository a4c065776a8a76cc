/**
 * Counts a process's system resources by kind, so that a test can show that it leaves none behind.
 *
 * @module
 */
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import process from "node:process";
import { sharesProcess } from "./parallel.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { preparePolling } from "../../src/sharing/transport/poller.ts";
import { workerCounts } from "../../src/software/execution/workers/workers.ts";
import { isLong, test, type TestOptions } from "./test.ts";

/** The number of resources of each kind: descriptors ("socket", "memfd", "pidfd" ...), "child process", "mapping". */
export type Resources = ReadonlyMap<string, number>;

/** Milliseconds in which the runtime must finish releasing closed resources. */
const closingTimeout = 3000;
/** Milliseconds in which an idle runtime has finished releasing them. */
const moment = 50;

/** How often a body runs again while only what was there before is gone. */
const mostRuns = 3;

/** CUDA opens a device again on demand, and keeps it open. A leak would grow each time. */
const onlyDevices = /^device: [^;]*$/;

/**
 * Counts this process's open descriptors, unreaped children and mappings of memory files. Counts nothing under
 * `deno test --parallel`, where other files' tests run in the same process at the same time.
 */
export function countResources(): Resources {
  const counts = new Map<string, number>();
  if (sharesProcess()) return counts;
  for (const kind of [...descriptorKinds(), ...children(), ...mappings()]) {
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return counts;
}

/** Describes the resources that were added or removed; an empty string if none were. */
export function difference(before: Resources, after: Resources): string {
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter((kind) => before.get(kind) !== after.get(kind))
    .map((kind) => `${kind}: ${before.get(kind) ?? 0} before, ${after.get(kind) ?? 0} after`)
    .join("; ");
}

/** Fails unless the counts return to those before, immediately or soon. */
export async function assertNothingLeft(before: Resources): Promise<void> {
  refuseLeft(await findLeft(before));
}

/** Whether a difference is only of resources that are gone. */
function hasFewer(left: string): boolean {
  return left.split("; ").every((part) => {
    const [before, after] = part.match(/\d+(?= before)|\d+(?= after)/g)!.map(Number);
    return after! < before!;
  });
}

function refuseLeft(left: string): void {
  if (left !== "") throw new Error(`Not everything was given back: ${left}`);
}

/**
 * Declares a test that also fails if its body leaves resources behind. What the runtime and the library create once and
 * keep must exist before: see `options.warmUp`, which runs outside the count, once for all tests that have it.
 */
export function leakTest(
  name: string,
  body: () => Promise<void> | void,
  options: TestOptions & { readonly warmUp?: () => Promise<void> } = {},
): void {
  test(name, options, async () => {
    if (options.warmUp !== undefined) await onceOf(options.warmUp);
    const before = await countAtRest();
    const { all: workers } = workerCounts();
    await body();
    // Worker threads are started once, by the launch that finds that kernels have run for long enough.
    if (workerCounts().all > workers) return await runAgain(body);
    const left = await findLeft(before);
    if (left === "") return;
    // What an earlier test has closed may be gone only now: then the body runs again, and is counted alone.
    if (!onlyDevices.test(left) && !hasFewer(left)) refuseLeft(left);
    await runAgain(body);
  });
}

const warmUps = new Map<() => Promise<void>, Promise<void>>();

function onceOf(warmUp: () => Promise<void>): Promise<void> {
  const begun = warmUps.get(warmUp) ?? warmUp();
  warmUps.set(warmUp, begun);
  return begun;
}

/**
 * Fails if a body leaves resources behind. The first call of a function may keep resources for later calls, so if
 * something is left the body runs again, and the second run is counted. In the long run the body always runs twice.
 */
export async function assertLeavesNothing(body: () => Promise<void> | void): Promise<void> {
  // What it keeps for later calls is created when something has to be waited for, which it need not be in the first run.
  if (shimRefusal() === undefined) preparePolling();
  const before = countResources();
  await body();
  if (!isLong && await findLeft(before, moment) === "") return;
  await runAgain(body);
}

/** Runs a body again, and fails if it leaves something. A runtime may close late what an earlier run has left to it. */
async function runAgain(body: () => Promise<void> | void): Promise<void> {
  for (let runs = 1;; runs++) {
    const before = await countAtRest();
    const { all: workers } = workerCounts();
    await body();
    if (workerCounts().all > workers) continue;
    const left = await findLeft(before);
    if (left === "") return;
    if (runs === mostRuns || !hasFewer(left)) refuseLeft(left);
  }
}

/**
 * Describes a difference from an earlier count that persists; an empty string if there is none, immediately or soon.
 */
async function findLeft(before: Resources, milliseconds: number = closingTimeout): Promise<string> {
  const deadline = performance.now() + milliseconds;
  for (;;) {
    const left = difference(before, countResources());
    if (left === "" || performance.now() > deadline) return left;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Counts once the runtime has finished releasing closed resources, and once worker threads that were started run. */
async function countAtRest(): Promise<Resources> {
  const deadline = performance.now() + closingTimeout;
  const areStarting = ({ all, started } = workerCounts()) => started < all;
  while (areStarting() && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 10));
  for (;;) {
    const counted = countResources();
    await new Promise((resolve) => setTimeout(resolve, 10));
    if (difference(counted, countResources()) === "") return counted;
  }
}

function descriptorKinds(): string[] {
  const kinds: string[] = [];
  for (const name of readdirSync("/proc/self/fd")) {
    let target: string;
    try {
      target = readlinkSync(`/proc/self/fd/${name}`);
    } catch {
      continue; // The descriptor through which the folder was read.
    }
    kinds.push(kindOf(target));
  }
  return kinds;
}

function kindOf(target: string): string {
  if (target.startsWith("/memfd:")) return "memfd";
  if (target.startsWith("anon_inode:")) return target.slice("anon_inode:".length).replaceAll(/[[\]]/g, "");
  const typed = /^(\w+):\[\d+\]$/.exec(target);
  if (typed !== null) return typed[1]!;
  return target.startsWith("/dev/") ? "device" : "file";
}

/** Each thread lists its own children, ended or not. Where the system has no such lists, all processes are looked at. */
function children(): string[] {
  if (!listsChildren) return childrenAmongAll();
  return readdirSync("/proc/self/task").flatMap((thread) => {
    try {
      return readFileSync(`/proc/self/task/${thread}/children`, "utf8").split(" ").filter(Boolean);
    } catch {
      return []; // The thread ended while the folder was read; another one has its children.
    }
  }).map(() => "child process");
}

const listsChildren = existsSync(`/proc/self/task/${process.pid}/children`);

function childrenAmongAll(): string[] {
  const found: string[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      const parent = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1];
      if (Number(parent) === process.pid) found.push("child process");
    } catch {
      // The process ended while the folder was read.
    }
  }
  return found;
}

function mappings(): string[] {
  return readFileSync("/proc/self/maps", "utf8").split("\n")
    .filter((line) => line.includes("/memfd:poolpass") && !line.includes("/memfd:poolpass-shim"))
    .map(() => "mapping");
}
