/**
 * Summarizes, formats and stores the measured rows.
 *
 * @module
 */
import { formatTable } from "../../examples/table.ts";
import { median } from "../harness/measurement.ts";
import type { DeviceDescription } from "../harness/machine.ts";
import { type ContenderName, contenderNames, type Goal, type Row } from "./rows.ts";

/** The median of each round, for each contender: nanoseconds, or bytes per second. */
export type Rounds = Partial<Record<ContenderName, number[]>>;

/** A row with its results. */
export interface MeasuredRow {
  readonly name: string;
  readonly work: string;
  readonly parameters: Row["parameters"];
  readonly unit: "nanoseconds" | "bytesPerSecond";
  readonly isOfMemory: boolean;
  readonly goal?: Goal;
  /** Whether poolpass meets the goal; undefined if there is no goal or nothing to compare with. */
  readonly isMet?: boolean;
  readonly contenders: Partial<Record<ContenderName, Summary>>;
}

/** The results of a contender in a row. */
export interface Summary {
  readonly rounds: readonly number[];
  readonly median: number;
  /** The median of the ratios to C++, each within the same round. */
  readonly ofNative?: number;
}

/** The garbage of many operations of a hot path. */
export interface GarbageRow {
  readonly name: string;
  readonly operations: number;
  readonly bytesEach: number;
  readonly scavenges: number;
  readonly majorCollections: number;
}

/** The results of a complete run. */
export interface Report {
  readonly date: string;
  readonly host: string;
  readonly device: DeviceDescription;
  readonly nvidiaDriver: string | undefined;
  readonly versions: Partial<Record<ContenderName, string>>;
  readonly rows: readonly MeasuredRow[];
  readonly garbage: readonly GarbageRow[];
  readonly absences: readonly string[];
  readonly failures: readonly string[];
}

/** Summarizes the rounds of all contenders. */
export function summarizeRow(row: Row, rounds: Rounds): MeasuredRow {
  const { name, work, parameters, goal, bytesMoved, isOfMemory = false } = row;
  const unit = bytesMoved === undefined ? "nanoseconds" : "bytesPerSecond";
  const contenders: Partial<Record<ContenderName, Summary>> = {};
  for (const contender of contenderNames) {
    const ownRounds = rounds[contender];
    if (ownRounds === undefined) continue;
    const ratios = ratiosOf(ownRounds, rounds["C++"]);
    const ofNative = ratios.length === 0 ? undefined : roundToDigits(median(ratios));
    contenders[contender] = {
      rounds: ownRounds.map(roundToDigits),
      median: roundToDigits(median(ownRounds)),
      ...ofNative && { ofNative },
    };
  }
  const measured = { name, work, parameters, unit, isOfMemory, ...goal && { goal }, contenders } as const;
  const isMet = reachesGoal(measured);
  return isMet === undefined ? measured : { ...measured, isMet };
}

/** Divides the number of each round by another contender's number of the same round. */
export function ratiosOf(rounds: readonly number[], others: readonly number[] = []): number[] {
  return rounds.slice(0, others.length).map((value, round) => value / others[round]!);
}

/** Rounds to the significant digits. */
function roundToDigits(value: number): number {
  return Number(value.toPrecision(5));
}

function reachesGoal({ goal, unit, contenders }: MeasuredRow): boolean | undefined {
  const { poolpass } = contenders;
  if (goal === undefined || poolpass?.ofNative === undefined) return undefined;
  const isMoreBetter = unit === "bytesPerSecond";
  if (isMoreBetter ? poolpass.ofNative < goal.ofNative : poolpass.ofNative > goal.ofNative) return false;
  if (goal.faster === undefined) return true;
  const others = goal.faster.than.flatMap((name) => contenders[name]?.median ?? []);
  if (others.length === 0) return undefined;
  const timesFaster = isMoreBetter ? poolpass.median / Math.max(...others) : Math.min(...others) / poolpass.median;
  return timesFaster >= goal.faster.by;
}

/**
 * Formats the table: for each contender, the median and the quartiles of its rounds, and the median of the ratios to
 * C++.
 */
export function formatRows(rows: readonly MeasuredRow[]): string {
  const present = contenderNames.filter((name) => rows.some(({ contenders }) => contenders[name] !== undefined));
  const heads = present.flatMap((name) => name === "C++" ? [name] : [name, "/ C++"]);
  const lines = rows.map((row) => [
    row.name,
    row.goal === undefined ? "" : formatGoal(row.goal, row.unit),
    row.isMet === undefined ? "" : row.isMet ? "yes" : "NO",
    ...present.flatMap((name) => {
      const summary = row.contenders[name];
      if (summary === undefined) return name === "C++" ? ["-"] : ["-", ""];
      const cell = formatSummary(summary, row.unit);
      return name === "C++" ? [cell] : [cell, summary.ofNative?.toFixed(row.unit === "nanoseconds" ? 2 : 3) ?? ""];
    }),
  ]);
  return formatTable([["", "goal", "met", ...heads], ...lines]);
}

/** Formats the bandwidths of kernels and copies on the device as shares of the memory's peak. */
export function formatMemoryShares(rows: readonly MeasuredRow[], memoryPeak: number): string {
  const lines = rows.filter(({ isOfMemory }) => isOfMemory).flatMap(({ name, contenders }) => {
    const { poolpass } = contenders;
    return poolpass === undefined ? [] : [`${name}: ${(100 * poolpass.median / memoryPeak).toFixed(0)} %`];
  });
  return lines.length === 0 ? "" : `shares of the memory's peak of ${formatBandwidth(memoryPeak)}: ${lines.join(", ")}`;
}

/** Formats the table of garbage. */
export function formatGarbage(rows: readonly GarbageRow[]): string {
  return formatTable([
    ["garbage", "operations", "bytes each", "minor collections", "major collections (goal: 0)"],
    ...rows.map(({ name, operations, bytesEach, scavenges, majorCollections }) => [
      name,
      String(operations),
      bytesEach.toFixed(0),
      String(scavenges),
      String(majorCollections),
    ]),
  ]);
}

/** Returns the lower and the upper quartile. */
export function quartiles(rounds: readonly number[]): [lower: number, upper: number] {
  const sorted = rounds.toSorted((a, b) => a - b);
  return [median(sorted.slice(0, Math.ceil(sorted.length / 2))), median(sorted.slice(Math.floor(sorted.length / 2)))];
}

/** Formats a goal in a few characters. */
export function formatGoal({ ofNative, faster }: Goal, unit: MeasuredRow["unit"]): string {
  const limit = `${unit === "nanoseconds" ? "<=" : ">="} ${ofNative.toFixed(2)}`;
  if (faster === undefined) return limit;
  const than = faster.than.length === 3 ? "Python" : faster.than.join(", ");
  return `${limit}, ${than} / ${faster.by}`;
}

function formatSummary({ median, rounds }: Summary, unit: MeasuredRow["unit"]): string {
  if (unit === "bytesPerSecond") {
    const [lower, upper] = quartiles(rounds).map(gigabytes);
    return `${formatBandwidth(median)} (${lower} to ${upper})`;
  }
  const scale = [{ name: "ns", size: 1 }, { name: "us", size: 1e3 }, { name: "ms", size: 1e6 }, {
    name: "s",
    size: 1e9,
  }]
    .findLast(({ size }) => median >= size)!;
  const [middle, lower, upper] = [median, ...quartiles(rounds)].map((time) =>
    Number((time / scale.size).toPrecision(3))
  );
  return `${middle} ${scale.name} (${lower} to ${upper})`;
}

function formatBandwidth(bytesPerSecond: number): string {
  return `${gigabytes(bytesPerSecond)} GB/s`;
}

function gigabytes(bytes: number): number {
  return Number((bytes / 1e9).toPrecision(3));
}
