/**
 * What a process holds of the system, counted by kind, so that a test can show that nothing is left of it.
 *
 * @module
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import process from "node:process";
import { isLong, type SkipReason, test } from "./test.ts";

/** How many of each kind: descriptors ("socket", "memfd", "pidfd" ...), "child process", "mapping". */
export type Resources = ReadonlyMap<string, number>;

/** Milliseconds that the runtime has to finish with what is closed already. */
const patience = 3000;
/** Milliseconds in which a runtime that is not busy has finished with it. */
const moment = 50;

/** CUDA opens a device once more when it comes to need that, and keeps it: a leak would grow each time. */
const onlyDevices = /^device: [^;]*$/;

/** Counts what this process holds: open descriptors, children that were not waited for, mappings of memory files. */
export function countResources(): Resources {
  const counts = new Map<string, number>();
  for (const kind of [...descriptorKinds(), ...children(), ...mappings()]) {
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return counts;
}

/** Says what is there now and was not before, or the other way round; an empty string when nothing is. */
export function difference(before: Resources, after: Resources): string {
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter((kind) => before.get(kind) !== after.get(kind))
    .map((kind) => `${kind}: ${before.get(kind) ?? 0} before, ${after.get(kind) ?? 0} after`)
    .join("; ");
}

/** Fails unless everything is as it was counted before, at once or soon. */
export async function assertNothingLeft(before: Resources): Promise<void> {
  refuseLeft(await findLeft(before));
}

function refuseLeft(left: string): void {
  if (left !== "") throw new Error(`Not everything was given back: ${left}`);
}

/**
 * A test that also fails if its body leaves anything behind. What the runtime and the library make once and keep must have
 * been made before: see `options.warmUp`, which is run outside the count, once for all tests that have it.
 */
export function leakTest(
  name: string,
  body: () => Promise<void> | void,
  options: { readonly skip?: SkipReason; readonly warmUp?: () => Promise<void> } = {},
): void {
  test(name, { skip: options.skip }, async () => {
    if (options.warmUp !== undefined) await onceOf(options.warmUp);
    const before = await countAtRest();
    await body();
    const left = await findLeft(before);
    if (!onlyDevices.test(left)) return refuseLeft(left);
    const again = await countAtRest();
    await body();
    await assertNothingLeft(again);
  });
}

const warmUps = new Map<() => Promise<void>, Promise<void>>();

function onceOf(warmUp: () => Promise<void>): Promise<void> {
  const begun = warmUps.get(warmUp) ?? warmUp();
  warmUps.set(warmUp, begun);
  return begun;
}

/**
 * Fails if a body leaves anything behind. The first call of anything keeps what later ones use: where something is left
 * the body runs again, and that time is accounted for. In the long run it always runs twice.
 */
export async function assertLeavesNothing(body: () => Promise<void> | void): Promise<void> {
  const before = countResources();
  await body();
  if (!isLong && await findLeft(before, moment) === "") return;
  const again = await countAtRest();
  await body();
  await assertNothingLeft(again);
}

/** Says what differs from what was counted before and stays so: an empty string when that is nothing, at once or soon. */
async function findLeft(before: Resources, milliseconds: number = patience): Promise<string> {
  const deadline = performance.now() + milliseconds;
  for (;;) {
    const left = difference(before, countResources());
    if (left === "" || performance.now() > deadline) return left;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Counts once the runtime has finished with what was closed before. */
async function countAtRest(): Promise<Resources> {
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
      continue; // The descriptor that the folder was read through.
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

function children(): string[] {
  const found: string[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      const parent = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1];
      if (Number(parent) === process.pid) found.push("child process");
    } catch {
      // It ended while the folder was read.
    }
  }
  return found;
}

function mappings(): string[] {
  return readFileSync("/proc/self/maps", "utf8").split("\n")
    .filter((line) => line.includes("/memfd:poolpass") && !line.includes("/memfd:poolpass-shim"))
    .map(() => "mapping");
}
