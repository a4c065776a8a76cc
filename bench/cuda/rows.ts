/**
 * What is measured: a row of the table each.
 *
 * @module
 */

/** Who is measured, in the order of the table; all are compared with the first. */
export const contenderNames = ["C++", "poolpass", "cuda.core", "CuPy", "PyTorch"] as const;

/** One of them. */
export type ContenderName = typeof contenderNames[number];

/** Programs that are started together: processes that are timed as such, what calls cost, and what two processes do. */
export const purposes = ["start", "calls", "sharing", "frames"] as const;

/** One of them. */
export type Purpose = typeof purposes[number];

/** What poolpass is to reach. */
export interface Goal {
  /** Its number divided by C++'s: at most this for a time, at least this for a bandwidth. */
  readonly ofNative: number;
  /** How often as fast as the fastest of these. */
  readonly faster?: { readonly than: readonly ContenderName[]; readonly by: number };
}

/** A row: a work with its parameters. */
export interface Row {
  /** What it is called in the table; `--only` takes a part of it. */
  readonly name: string;
  readonly purpose: Purpose;
  /** What the programs are asked to do. */
  readonly work: string;
  /** What C++ is asked to do instead, where it has not the same. */
  readonly nativeWork?: string;
  /** Of the work, beside the samples that a program takes in a round. */
  readonly parameters: Readonly<Record<string, number | string>>;
  /** Samples of each round, of which the median counts. */
  readonly repetitions: number;
  /** Rounds, where fewer do. */
  readonly rounds?: number;
  /** Bytes that an operation moves, where what is said is bytes for each second rather than a time. */
  readonly bytesMoved?: number;
  /** Whether it is limited by the device's memory, whose peak it is shown beside. */
  readonly isOfMemory?: boolean;
  readonly goal?: Goal;
}

const pythonNames: readonly ContenderName[] = ["cuda.core", "CuPy", "PyTorch"];
const bandwidthGoal: Goal = { ofNative: 0.98 };
/** Milliseconds: until a processor that was idle runs at its full speed, and of a sample. */
const warmUpTime = 25;
const sampleTime = 2;
/** For processes that must agree on how often they do something: as long as `warmUpTime` at least. */
const sharedBeforeCounted = 250;

/** All rows; on the software device, with sizes that it can do. */
export function allRows({ isSoftware }: { isSoftware: boolean }): readonly Row[] {
  const sizes = [256, 2 ** 12, 2 ** 16, 2 ** 20, ...isSoftware ? [] : [2 ** 26, 2 ** 30]];
  const largest = isSoftware ? 2 ** 22 : 2 ** 30;
  return [
    start("process start to first allocation", "first-allocation"),
    start("process start to first allocation, one file", "first-allocation-bundled"),
    ...allocationRows(sizes),
    ...callRows(),
    ...pointerRows(isSoftware ? 2 ** 16 : 2 ** 20),
    ...copyRows(4, largest),
    ...memoryRows(largest),
    ...sharingRows(isSoftware),
  ];
}

/** Bytes, in the largest unit that they are a whole number of. */
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
    { ...row("import a pointer", "import-pointer"), goal: { ofNative: 1.4 } },
    row("free an import", "free-import"),
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
      // A copy of pageable memory takes so long that the time until a processor is fast is nothing beside it.
      parameters: { byteLength: largest, memory, warmUpTime: memory === "pinned" ? warmUpTime : 0 },
      repetitions: memory === "pinned" ? 3 : 1,
      rounds: memory === "pinned" ? 5 : 3,
      bytesMoved: largest,
      goal: bandwidthGoal,
    })),
  ];
}

/** Those with a peer are measured where there are two devices. */
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
    // Python cannot.
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
