/**
 * The measured rows of the table.
 *
 * @module
 */

import { allocationTrace } from "./allocation_trace.ts";

/** The contenders, in the order of the table. All are compared with the first. */
export const contenderNames = ["C++", "poolpass", "cuda.core", "CuPy", "PyTorch"] as const;

/** The name of a contender. */
export type ContenderName = typeof contenderNames[number];

/**
 * The purposes of programs: process starts, calls, sharing between two processes, frames. Each purpose starts together.
 */
export const purposes = ["start", "calls", "sharing", "frames"] as const;

/** The purpose of a program. */
export type Purpose = typeof purposes[number];

/** The goal of poolpass in a row. */
export interface Goal {
  /** The limit of poolpass's number divided by C++'s: the maximum for times, the minimum for bandwidths. */
  readonly ofNative: number;
  /** The factor by which poolpass must be faster than the fastest of some contenders. */
  readonly faster?: { readonly than: readonly ContenderName[]; readonly by: number };
}

/** A row: a workload with its parameters. */
export interface Row {
  /** The row's name in the table. `--only` matches a part of it. */
  readonly name: string;
  readonly purpose: Purpose;
  /** The name of the workload. */
  readonly work: string;
  /** The name of C++'s workload, if C++ lacks the same one. */
  readonly nativeWork?: string;
  /** The parameters of the workload, without the number of samples. */
  readonly parameters: Readonly<Record<string, number | string>>;
  /** The number of samples in each round, of which the median counts. */
  readonly repetitions: number;
  /** The number of rounds, if fewer than the default are enough. */
  readonly rounds?: number;
  /** The number of bytes that an operation moves, for rows that report bytes per second instead of a time. */
  readonly bytesMoved?: number;
  /** Whether the device's memory limits the row. Such rows are also reported as shares of the memory's peak. */
  readonly isOfMemory?: boolean;
  readonly goal?: Goal;
}

const pythonNames: readonly ContenderName[] = ["cuda.core", "CuPy", "PyTorch"];
const bandwidthGoal: Goal = { ofNative: 0.98 };
/** Milliseconds until an idle processor runs at full speed. */
const warmUpTime = 25;
/** The duration of a sample, in milliseconds. */
const sampleTime = 2;
/** A warm-up count for two processes, which must agree on a number of repetitions. Takes at least `warmUpTime`. */
const sharedBeforeCounted = 250;

/** Returns all rows. On the software device, the sizes are small enough for it. */
export function allRows({ isSoftware }: { isSoftware: boolean }): readonly Row[] {
  const sizes = [256, 2 ** 12, 2 ** 16, 2 ** 20, ...isSoftware ? [] : [2 ** 26, 2 ** 30]];
  const largest = isSoftware ? 2 ** 22 : 2 ** 30;
  return [
    start("process start to first allocation", "first-allocation"),
    start("process start to first allocation, one file", "first-allocation-bundled"),
    ...allocationRows(sizes),
    ...randomAllocationRows(),
    ...awaitRows(largest),
    ...callRows(),
    ...graphRows(),
    ...pointerRows(isSoftware ? 2 ** 16 : 2 ** 20),
    ...manyCopiesRows(),
    ...copyRows(4, largest),
    ...memoryRows(largest),
    ...sharingRows(isSoftware),
  ];
}

/** Formats a number of bytes in the largest unit that gives a whole number. */
export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  const power = units.findLastIndex((_, power) => bytes % 1024 ** power === 0);
  return `${bytes / 1024 ** power} ${units[power]}`;
}

function start(name: string, work: string): Row {
  const goal: Goal = { ofNative: 1.3, faster: { than: pythonNames, by: 1.7 } };
  return { name, purpose: "start", work, parameters: {}, repetitions: 1, rounds: 5, goal };
}

function calls(name: string, work: string, batch: number): Row {
  return { name, purpose: "calls", work, parameters: { batch, warmUpTime, sampleTime }, repetitions: 5 };
}

function allocationRows(sizes: readonly number[]): Row[] {
  const kinds = [
    {
      name: "allocate + free",
      work: "allocate-free",
      batch: 200,
      goal: { ofNative: 1.2, faster: { than: ["cuda.core"], by: 3 } },
    },
    { name: "sub-allocator", work: "allocate-free-cached", batch: 2000, goal: { ofNative: 0.2 } },
  ] as const;
  return kinds.flatMap(({ name, work, batch, goal }) =>
    [1, 8].flatMap((streams) =>
      sizes.map((byteLength): Row => {
        const { parameters, ...row } = calls(
          `${name}, ${streams === 1 ? "" : `${streams} streams, `}${formatBytes(byteLength)}`,
          work,
          batch,
        );
        return { ...row, nativeWork: "allocate-free", parameters: { ...parameters, byteLength, streams }, goal };
      })
    )
  );
}

/** Returns the rows of random sizes, lifetimes and streams. */
function randomAllocationRows(): Row[] {
  // Sizes from 256 bytes to below 32 MiB.
  const trace = { steps: 4096, slots: 64, streams: 4, leastByteLength: 256, octaves: 17 };
  const { checksum } = allocationTrace(trace);
  const row = (name: string, work: string): Row => ({
    name: `${name}, random sizes, lifetimes and streams`,
    purpose: "calls",
    work,
    nativeWork: "allocate-free-random",
    // Steps differ more than the calls of other rows, so a sample has about as many of them as the trace.
    parameters: { batch: 256, warmUpTime, sampleTime: 10 * sampleTime, ...trace, checksum },
    repetitions: 5,
  });
  return [
    row("allocate + free", "allocate-free-random"),
    { ...row("sub-allocator", "allocate-free-random-cached"), goal: { ofNative: 0.4 } },
  ];
}

/** Returns the rows of a loop that awaits its stream in each step, next to the two ways of waiting in C++. */
function awaitRows(byteLength: number): Row[] {
  return ["0", "Infinity"].flatMap((releaseThreshold) =>
    [
      { waits: "queries", nativeWork: "await-loop-querying" },
      { waits: "synchronizes", nativeWork: "await-loop-synchronizing" },
    ].map(({ waits, nativeWork }): Row => ({
      name: `await ${formatBytes(byteLength)}, threshold ${releaseThreshold}, C++ ${waits}`,
      purpose: "calls",
      work: "await-loop",
      nativeWork,
      parameters: { batch: 5, warmUpTime, sampleTime: 10 * sampleTime, byteLength, releaseThreshold },
      repetitions: 5,
    }))
  );
}

function callRows(): Row[] {
  return [
    calls("launch, 0 arguments", "launch-0", 200),
    {
      ...calls("launch, 3 arguments", "launch-3", 200),
      goal: { ofNative: 1.05, faster: { than: ["cuda.core", "CuPy"], by: 1 } },
    },
    calls("launch, 12 arguments", "launch-12", 200),
    { ...calls("event record", "event-record", 500), goal: { ofNative: 1.5 } },
    { ...calls("stream wait", "stream-wait", 500), goal: { ofNative: 1.5 } },
  ];
}

/** Returns the rows of graphs of small kernels. "20 launches" is what a graph of 20 kernels replaces. */
function graphRows(): Row[] {
  const row = (name: string, work: string, kernels: number, goal?: Goal): Row => {
    // The launches of a batch must fit the stream's queue.
    const { parameters, ...row } = calls(name, work, 10);
    return { ...row, parameters: { ...parameters, kernels }, ...goal === undefined ? {} : { goal } };
  };
  const goal: Goal = { ofNative: 1.1 };
  return [
    row("instantiate a graph, 20 kernels", "graph-instantiate", 20, goal),
    row("launch a graph, 20 kernels", "graph-launch", 20, goal),
    row("20 launches", "kernels-launch", 20),
    row("launch a graph, 80 kernels", "graph-launch", 80, goal),
    row("update a graph by another, 20 kernels", "graph-update", 20, goal),
    row("change an argument of 20 kernels of a graph", "graph-argument", 20, goal),
  ];
}

function pointerRows(byteLength: number): Row[] {
  const row = (name: string, work: string): Row => ({
    name,
    purpose: "calls",
    work,
    parameters: { batch: 64, warmUpTime, sampleTime, byteLength },
    repetitions: 5,
  });
  return [
    row("export a pointer", "export-pointer"),
    { ...row("import a pointer", "import-pointer"), goal: { ofNative: 1.15 } },
    row("free an import", "free-import"),
  ];
}

/** Returns the rows of what copies of rows and of many small ranges cost the host. */
function manyCopiesRows(): Row[] {
  const row = (name: string, work: string, batch: number, goal?: Goal): Row => {
    const { parameters, ...row } = calls(name, work, batch);
    return { ...row, parameters: { ...parameters, copies: 256, byteLength: 4096 }, ...goal && { goal } };
  };
  const goal: Goal = { ofNative: 1.2 };
  // The copies of a batch must fit the stream's queue.
  return [
    row("copy 64 rows of 256 bytes", "copy-rows", 200, goal),
    row("256 copies of 4 KiB in a batch", "copy-batch", 2, goal),
    row("256 copies of 4 KiB", "copy-each", 2, goal),
  ];
}

function copyRows(least: number, largest: number): Row[] {
  const ways = [{ work: "copy-to-device", to: "device" }, { work: "copy-to-host", to: "host" }] as const;
  const rows = (row: (way: typeof ways[number], memory: "pinned" | "pageable") => Row) =>
    ways.flatMap((way) => (["pinned", "pageable"] as const).map((memory) => row(way, memory)));
  return [
    ...rows(({ work, to }, memory) => ({
      name: `copy ${formatBytes(least)} to ${to}, ${memory}`,
      purpose: "calls",
      work,
      parameters: { batch: 20, warmUpTime, sampleTime, byteLength: least, memory },
      repetitions: 5,
    })),
    ...rows(({ work, to }, memory) => ({
      name: `copy ${formatBytes(largest)} to ${to}, ${memory}`,
      purpose: "calls",
      work,
      // A copy of pageable memory takes so long that the processor's warm-up does not matter.
      parameters: { byteLength: largest, memory, warmUpTime: memory === "pinned" ? warmUpTime : 0 },
      repetitions: memory === "pinned" ? 3 : 1,
      rounds: memory === "pinned" ? 5 : 3,
      bytesMoved: largest,
      goal: bandwidthGoal,
    })),
  ];
}

/**
 * Returns the rows of copies and kernels on devices. The rows with a peer are measured only if there are two devices.
 */
function memoryRows(byteLength: number): Row[] {
  const row = (name: string, work: string, timesMoved: number, isOfMemory: boolean): Row => ({
    name: `${name}, ${formatBytes(byteLength)}`,
    purpose: "calls",
    work,
    parameters: { batch: isOfMemory ? 20 : 5, warmUpTime, byteLength },
    repetitions: 5,
    bytesMoved: timesMoved * byteLength,
    isOfMemory,
    goal: bandwidthGoal,
  });
  return [
    row("copy on device", "copy-on-device", 2, true),
    row("fill kernel", "fill-kernel", 1, true),
    row("copy kernel", "copy-kernel", 2, true),
    row("peer copy", "peer-copy", 1, false),
    row("peer kernel write", "peer-write", 1, false),
  ];
}

function sharingRows(isSoftware: boolean): Row[] {
  const byteLength = isSoftware ? 2 ** 20 : 2 ** 26;
  const oneGoal = { ofNative: 1.25, faster: { than: ["cuda.core", "PyTorch"], by: 2.3 } } as const;
  const one = (name: string, work: string, goal: Goal = oneGoal): Row => ({
    name: `${name}, ${formatBytes(byteLength)}`,
    purpose: "sharing",
    work,
    parameters: { byteLength, warmUp: isSoftware ? 20 : sharedBeforeCounted },
    repetitions: isSoftware ? 20 : 200,
    rounds: 5,
    goal,
  });
  const thousand = (name: string, work: string): Row => ({
    name: `${name} 1000 buffers of a slab, 64 KiB each`,
    purpose: "sharing",
    work,
    parameters: { byteLength: 2 ** 16, count: 1000, warmUp: isSoftware ? 20 : 10 },
    repetitions: isSoftware ? 2 : 10,
    rounds: 5,
    goal: { ofNative: 0.1 },
  });
  return [
    one("share a new buffer", "share-one"),
    // The Python libraries cannot do this.
    one("share a new buffer without a synchronization", "share-one-asked", { ofNative: oneGoal.ofNative }),
    one("offer a new buffer", "share-one-offer"),
    thousand("share", "share-thousand"),
    thousand("offer", "share-thousand-offer"),
    {
      name: `a channel's frame, ${formatBytes(byteLength)}`,
      purpose: "frames",
      work: "frames",
      parameters: { slotByteLength: byteLength },
      repetitions: isSoftware ? 50 : 300,
      rounds: 5,
    },
  ];
}
