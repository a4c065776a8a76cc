/**
 * Composes and counts the report of each mistake, and delivers it once.
 *
 * @module
 */
import { countOf } from "../../support/printing.ts";
import { type CallStack, stackOf } from "./call_stacks.ts";
import type { EarlyChange } from "../order/copied_sources.ts";
import type { LaunchFinding, UnfreedHeap } from "../../kernel_checker.ts";
import type { LeakGroup } from "../leaks.ts";
import { type Conflict, partsOfAccess, partsOfConflict, type TrackedAccess } from "../memory_history.ts";
import { freeLater, messageOf, orderBy, type ReportedMemory, type UnwordedReport } from "./messages.ts";
import { isBefore, type Operation, type Timeline } from "../order/timelines.ts";
import type { Suppression, Suppressions, UsedSuppression } from "./suppressions.ts";
import type { SanitizerAccess, SanitizerCheck, SanitizerReport } from "./sanitizer_report.ts";

/** One occurrence of a mistake in the program. */
export interface FoundMistake extends Pick<SanitizerReport, "check" | "kind" | "accesses"> {
  /** The two conflicting operations. A pair is counted once, even if the operations conflict in several ranges. */
  readonly operationPair?: readonly [later: object, earlier: object] | undefined;
  /** The number of occurrences to add. Default: 1. */
  readonly count?: number | undefined;
  /** Composes the message. Called only if the mistake is new and not suppressed. */
  message(): string;
}

/** A distinct mistake, which may occur many times. */
interface Mistake {
  /** The report of the mistake, with the count of occurrences. Undefined if the mistake is suppressed. */
  readonly report: { -readonly [Name in keyof SanitizerReport]: SanitizerReport[Name] } | undefined;
  readonly suppression: Suppression | undefined;
  /** The later operation of the last counted occurrence. */
  later: object | undefined;
  /** The earlier operations that have been counted together with `later`. */
  readonly earlier: Set<object>;
}

/** Merges occurrences of the same mistake, and counts them. */
export class FoundMistakes {
  readonly #suppressions: Suppressions | undefined;
  readonly #mistakes = new Map<string, Mistake>();
  readonly #suppressed = new Map<Suppression, number>();

  constructor(suppressions?: Suppressions) {
    this.#suppressions = suppressions;
  }

  /** The reports of mistakes that are not suppressed. */
  get reports(): readonly SanitizerReport[] {
    return [...this.#mistakes.values()].flatMap(({ report }) => report ?? []);
  }

  /** The suppressions that matched a mistake, with the number of suppressed occurrences. */
  get suppressed(): readonly UsedSuppression[] {
    return Array.from(this.#suppressed, ([suppression, count]) => ({ suppression, count }));
  }

  /** Counts an occurrence. Returns a report if the mistake is new and not suppressed, otherwise undefined. */
  add(sighting: FoundMistake): SanitizerReport | undefined {
    const { check, kind, accesses, operationPair, count = 1 } = sighting;
    const key = [kind, ...accesses.flatMap(({ operation, source, stack }) => [operation, source, stack])].join("\0");
    const known = this.#mistakes.get(key);
    if (known !== undefined) {
      this.#countAgain(known, operationPair, count);
      return undefined;
    }
    const suppression = this.#suppressions?.find(sighting);
    const report = suppression === undefined
      ? { check, kind, message: sighting.message(), accesses, count }
      : undefined;
    const [later, earlier] = operationPair ?? [];
    this.#mistakes.set(key, { report, suppression, later, earlier: new Set(earlier && [earlier]) });
    if (suppression !== undefined) this.#countSuppressed(suppression, count);
    return report;
  }

  #countAgain(mistake: Mistake, operationPair: FoundMistake["operationPair"], count: number): void {
    if (operationPair !== undefined) {
      const [later, earlier] = operationPair;
      if (mistake.later !== later) mistake.earlier.clear();
      else if (mistake.earlier.has(earlier)) return;
      mistake.later = later;
      mistake.earlier.add(earlier);
    }
    if (mistake.report !== undefined) mistake.report.count += count;
    if (mistake.suppression !== undefined) this.#countSuppressed(mistake.suppression, count);
  }

  #countSuppressed(suppression: Suppression, count: number): void {
    this.#suppressed.set(suppression, (this.#suppressed.get(suppression) ?? 0) + count);
  }
}

/** A mistake in a kernel that the driver has found, with the launch's operation and the affected buffer. */
export interface KernelMistake {
  readonly finding: LaunchFinding;
  readonly operation: Operation;
  readonly region:
    | Required<ReportedMemory> & { readonly address: number; readonly freed: Operation | undefined }
    | undefined;
}

/** Composes, counts and delivers the reports of one `Cuda` object. */
export class Reports {
  readonly #checks: ReadonlySet<SanitizerCheck>;
  readonly #onReport: (report: SanitizerReport) => void;
  readonly #found: FoundMistakes;
  /** The reports that `deliver` has not passed to the listener yet. */
  readonly #undelivered: SanitizerReport[] = [];

  /**
   * @param checks the enabled checks: mistakes found by other checks are dropped
   * @param onReport the listener, which `deliver` calls with the report of each new mistake
   * @param suppressions the mistakes to suppress
   */
  constructor(
    checks: ReadonlySet<SanitizerCheck>,
    onReport: (report: SanitizerReport) => void,
    suppressions?: Suppressions,
  ) {
    this.#checks = checks;
    this.#onReport = onReport;
    this.#found = new FoundMistakes(suppressions);
  }

  /** All reports created so far. */
  get all(): readonly SanitizerReport[] {
    return this.#found.reports;
  }

  /** The suppressions that matched a mistake, with the number of suppressed occurrences. */
  get suppressed(): readonly UsedSuppression[] {
    return this.#found.suppressed;
  }

  /** Adds a report of two unordered accesses to the same bytes. */
  addConflict({ region, conflict }: { region: ReportedMemory; conflict: Conflict }): void {
    for (const part of partsOfConflict(conflict)) this.#addConflict(region, part);
  }

  #addConflict(region: ReportedMemory, { later, earlier, begin, end }: Conflict): void {
    this.#add({
      kind: kindOf(`unordered-${earlier.kind}-${later.kind}`, [earlier, later]),
      accesses: [accessOf(later, begin), accessOf(earlier, begin)],
      operationPair: [later.operation, earlier.operation],
      operations: [later.operation, earlier.operation],
      memory: region,
      bytes: { begin, end },
      problem: `${nounOf(later)} and ${nounOf(earlier)} may happen in either order, or at once`,
      advice: orderBy(earlier.operation, later.operation),
    });
  }

  /** Adds a report of an access that happens, or may happen, after its memory was freed. */
  addFreed({ region, access, freed }: { region: ReportedMemory; access: TrackedAccess; freed: Operation }): void {
    for (const part of partsOfAccess(access)) this.#addFreed(region, part, freed);
  }

  #addFreed(region: ReportedMemory, access: TrackedAccess, freed: Operation): void {
    const isLater = isBefore(freed, access.operation);
    this.#add({
      kind: kindOf("use-after-free", [access]),
      accesses: [
        isLater ? accessOf(access) : operationOf(freed, "free"),
        isLater ? operationOf(freed, "free") : accessOf(access),
      ],
      memory: region,
      bytes: access,
      operationPair: [access.operation, freed],
      operations: [access.operation, freed],
      problem: isLater
        ? `${nounOf(access)} comes after the memory was freed`
        : `The memory may be freed, and given to others, before ${nounOf(access)} is done`,
      advice: isLater ? "Free the memory after its last use" : freeLater(access.operation, freed),
    });
  }

  /** Adds a report of an access that may happen before its memory is allocated. */
  addUnallocated({ region, access }: { region: Required<ReportedMemory>; access: TrackedAccess }): void {
    for (const part of partsOfAccess(access)) this.#addUnallocated(region, part);
  }

  #addUnallocated(region: Required<ReportedMemory>, access: TrackedAccess): void {
    this.#add({
      kind: "use-before-allocation",
      accesses: [accessOf(access), operationOf(region.allocated, "allocate")],
      memory: region,
      bytes: access,
      operationPair: [access.operation, region.allocated],
      operations: [access.operation, region.allocated],
      problem: `${nounOf(access)} may happen before the memory is allocated`,
      advice: orderBy(region.allocated, access.operation),
    });
  }

  /** Adds a report of memory that may be freed before it is allocated. */
  addFreedBeforeAllocation({ region, freed }: { region: Required<ReportedMemory>; freed: Operation }): void {
    this.#add({
      kind: "use-before-allocation",
      accesses: [operationOf(freed, "free"), operationOf(region.allocated, "allocate")],
      operations: [freed, region.allocated],
      memory: region,
      problem: "The memory may be freed before it is allocated",
      advice: orderBy(region.allocated, freed),
    });
  }

  /** Adds a report that the program has changed page-locked memory that a pending copy may still read. */
  addEarlyChange({ operation, begin, end, byteLength }: EarlyChange, allocated: Operation | undefined): void {
    this.#add({
      kind: "source-overwritten",
      accesses: [
        { operation: "the program", access: "write", stream: undefined, stack: "" },
        operationOf(operation, "read"),
      ],
      operations: [operation],
      memory: { byteLength, ...allocated === undefined ? {} : { allocated } },
      bytes: { begin, end },
      problem:
        `the program changed page-locked memory after it asked for ${operation.name}, while ${operation.name} may ` +
        `still be reading it (the first byte that differs is ${begin})`,
      advice:
        `Wait for ${operation.timeline.name} between ${operation.name} and the next change, inside of the loop if ` +
        "there is one, or use two buffers in turn",
    });
  }

  /**
   * Adds a report of a mistake in a kernel.
   *
   * @param finding the driver's description of the mistake
   * @param operation the operation of the launch
   * @param region the affected buffer, if there is one
   */
  addOfKernel({ finding, operation, region }: KernelMistake): void {
    // The check "stream-order" also finds mistakes of these two kinds, and does so regardless of the timing of a run.
    const isOfOrder = finding.kind === "use-after-free" || finding.kind === "use-before-allocation";
    if (isOfOrder && region !== undefined && this.#checks.has("stream-order")) return;
    const { check, kind, problem, advice, memory, range, accesses, count } = finding;
    const begin = range === undefined || region === undefined ? 0 : Number(range.address) - region.address;
    const made: SanitizerAccess[] = accesses.map(({ access, source, block, thread }) => {
      return { ...operationOf(operation, access), source, block, ...thread === undefined ? {} : { thread } };
    });
    const freed = kind === "use-after-free" ? region?.freed : undefined;
    this.#add({
      check,
      kind,
      count,
      accesses: freed === undefined ? made : [...made, operationOf(freed, "free")],
      memory: region,
      place: memory,
      bytes: range && { begin, end: begin + range.byteLength },
      problem,
      advice,
    });
  }

  /**
   * Adds a report of memory that was not freed. `before` describes the event before which it should have been freed.
   */
  addLeak({ kind, count, byteLength, operation }: LeakGroup, before: string): void {
    this.#add({
      check: "leak",
      kind: "leak",
      accesses: [operationOf(operation, "allocate")],
      place: `${countOf(count, kind)}, ${byteLength} bytes`,
      count,
      problem: `${count === 1 ? "it was" : "they were"} not freed before ${before}`,
      advice: `Declare ${count === 1 ? "it" : "each"} with using, or free it when nothing uses it any more`,
    });
  }

  /**
   * Adds a report of memory that a kernel's malloc has allocated and that was not freed. `before` describes the event
   * before which it should have been freed.
   */
  addHeapLeak({ kernel, source, count, byteLength }: UnfreedHeap, before: string): void {
    const operation = kernel === undefined ? "a kernel" : `kernel ${kernel}`;
    this.#add({
      check: "leak",
      kind: "leak",
      accesses: [{
        operation,
        access: "allocate",
        stream: undefined,
        stack: "",
        ...source === undefined ? {} : { source },
      }],
      place: `${countOf(count, "block")} of a kernel's malloc, ${byteLength} bytes`,
      count,
      problem: `${count === 1 ? "it was" : "they were"} not freed by a kernel before ${before}`,
      advice: "Free each block in a kernel when nothing uses it any more",
    });
  }

  /** Adds a report of a copy to the host that reads uninitialized bytes. `at` is the address of the first such byte. */
  addUnwritten({ operation, region, at }: {
    operation: Operation;
    region: KernelMistake["region"];
    at: bigint;
  }): void {
    const begin = region === undefined ? 0 : Number(at) - region.address;
    this.#add({
      check: "initialization",
      kind: "uninitialized-host-read",
      accesses: [operationOf(operation, "read")],
      memory: region,
      bytes: { begin, end: begin + 1 },
      problem: `from byte ${begin} on, the host reads what nothing has written`,
      advice: "Write the memory before it is read, by a copy, a fill or a kernel, or read less of it",
    });
  }

  /** Adds a report of a wait for an event that was never recorded. */
  addUnrecordedEvent({ wait, site, created }: { wait: string; site: CallStack; created: CallStack }): void {
    this.#add({
      kind: "unrecorded-event",
      accesses: [{ operation: wait, access: "barrier", stream: undefined, stack: stackOf(site) }, {
        operation: "createEvent",
        access: "barrier",
        stream: undefined,
        stack: stackOf(created),
      }],
      problem: `${wait} that was never recorded: CUDA takes it for done, and waits for nothing`,
      advice: "Record the event on a stream before anything waits for it",
    });
  }

  #add(finding: UnwordedReport): void {
    const { check = "stream-order" } = finding;
    if (!this.#checks.has(check)) return;
    const report = this.#found.add({ ...finding, check, message: () => messageOf(finding) });
    if (report !== undefined) this.#undelivered.push(report);
  }

  /**
   * Passes new reports to the listener. Call only when no driver call is in progress: a report may be added in the
   * middle of a driver call.
   */
  deliver(): void {
    if (this.#undelivered.length === 0) return;
    for (let report = this.#undelivered.shift(); report !== undefined; report = this.#undelivered.shift()) {
      this.#onReport(report);
    }
  }
}

/**
 * Returns a report's description of an access.
 *
 * @param begin the offset of the first affected byte; the description names the thread only if the access begins there
 */
function accessOf(
  { operation, kind, source, first, ...access }: TrackedAccess,
  begin: number = access.begin,
): SanitizerAccess {
  const described = operationOf(operation, kind);
  const who = begin === access.begin ? first : undefined;
  return source === undefined ? described : { ...described, source, ...who };
}

function operationOf({ name, timeline, site, graph }: Operation, access: SanitizerAccess["access"]): SanitizerAccess {
  const { pid } = timeline;
  return {
    operation: name,
    access,
    stream: graph?.stream ?? streamOf(timeline),
    stack: stackOf(site),
    ...graph === undefined ? {} : { launched: stackOf(graph.launched) },
    ...pid === undefined ? {} : { pid },
  };
}

function streamOf({ name, device, pid }: Timeline): string | undefined {
  return device === undefined && pid === undefined ? undefined : name;
}

/** Returns a noun phrase for an access: "the write of kernel scale". */
function nounOf({ kind, operation, isPossible }: TrackedAccess): string {
  const noun = kind === "atomic" ? "atomic access" : kind;
  return isPossible ? `a possible ${noun} of ${operation.name}` : `the ${noun} of ${operation.name}`;
}

/** Returns the kind of a mistake for reports: `kind`, with the prefix "possible-" if an access is only possible. */
function kindOf(kind: string, accesses: readonly TrackedAccess[]): string {
  return accesses.some(({ isPossible }) => isPossible) ? `possible-${kind}` : kind;
}
