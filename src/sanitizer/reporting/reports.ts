/**
 * Words and counts what was found, each mistake once.
 *
 * @module
 */
import { countOf } from "../../support/printing.ts";
import { type CallSite, stackOf } from "./call_sites.ts";
import type { EarlyChange } from "../order/copied_sources.ts";
import type { LaunchFinding, UnfreedHeap } from "../../kernel_checker.ts";
import { FoundMistakes } from "./found_mistakes.ts";
import type { Leak } from "../leaks.ts";
import type { Conflict, MemoryAccess } from "../memory_history.ts";
import { freeLater, messageOf, orderBy, type ReportedMemory, type UnwordedReport } from "./messages.ts";
import { isBefore, type Operation, type Timeline } from "../order/timelines.ts";
import type { Suppressions, UsedSuppression } from "./suppressions.ts";
import type { SanitizerAccess, SanitizerCheck, SanitizerReport } from "./sanitizer_report.ts";
import { partsOfAccess, partsOfConflict } from "../access_parts.ts";

/** A mistake of a kernel, its launch, and the buffer that it is about. */
export interface KernelMistake {
  readonly finding: LaunchFinding;
  readonly operation: Operation;
  readonly region:
    | Required<ReportedMemory> & { readonly address: number; readonly freed: Operation | undefined }
    | undefined;
}

/** The reports of a `Cuda` object. */
export class Reports {
  readonly #checks: ReadonlySet<SanitizerCheck>;
  readonly #onReport: (report: SanitizerReport) => void;
  readonly #found: FoundMistakes;
  /** What the listener has not got yet. */
  readonly #undelivered: SanitizerReport[] = [];

  /**
   * @param checks the checks that are wanted: mistakes of others are left out
   * @param onReport called with each mistake when it is first found
   * @param suppressions which mistakes are left out
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

  /** What was found. */
  get all(): readonly SanitizerReport[] {
    return this.#found.reports;
  }

  /** What was suppressed. */
  get suppressed(): readonly UsedSuppression[] {
    return this.#found.suppressed;
  }

  /** Two accesses to the same bytes that nothing orders. */
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

  /** An access to memory after its free, or one that may happen after it. */
  addFreed({ region, access, freed }: { region: ReportedMemory; access: MemoryAccess; freed: Operation }): void {
    for (const part of partsOfAccess(access)) this.#addFreed(region, part, freed);
  }

  #addFreed(region: ReportedMemory, access: MemoryAccess, freed: Operation): void {
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

  /** An access that may happen before the allocation. */
  addUnallocated({ region, access }: { region: Required<ReportedMemory>; access: MemoryAccess }): void {
    for (const part of partsOfAccess(access)) this.#addUnallocated(region, part);
  }

  #addUnallocated(region: Required<ReportedMemory>, access: MemoryAccess): void {
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

  /** A free that may happen before the allocation. */
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

  /** A change of page-locked memory that a copy may still have to read. */
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
   * A mistake of a kernel.
   *
   * @param finding what the driver found
   * @param operation the launch
   * @param region the buffer that it is about, if there is one
   */
  addOfKernel({ finding, operation, region }: KernelMistake): void {
    // The order of streams reports these by what the program asked for, and not by what happened this time.
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

  /** Memory that was not freed before something that ends its use: "the pool on device 0 was disposed". */
  addLeak({ kind, count, byteLength, operation }: Leak, before: string): void {
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

  /** Memory that kernels allocated and did not free. */
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

  /** A copy to the host of bytes that nothing has written, from an address on. */
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

  /** A wait for an event that was never recorded. */
  addUnrecordedEvent({ wait, site, created }: { wait: string; site: CallSite; created: CallSite }): void {
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

  /** Calls the listener. Not where something is found: a driver may be in the middle of something. */
  deliver(): void {
    if (this.#undelivered.length === 0) return;
    for (let report = this.#undelivered.shift(); report !== undefined; report = this.#undelivered.shift()) {
      this.#onReport(report);
    }
  }
}

/** @param begin the first of the bytes that a mistake is about: the thread that accesses them is known for those alone */
function accessOf(
  { operation, kind, source, first, ...access }: MemoryAccess,
  begin: number = access.begin,
): SanitizerAccess {
  const described = operationOf(operation, kind);
  const who = begin === access.begin ? first : undefined;
  return source === undefined ? described : { ...described, source, ...who };
}

function operationOf({ name, timeline, site }: Operation, access: SanitizerAccess["access"]): SanitizerAccess {
  const { pid } = timeline;
  return {
    operation: name,
    access,
    stream: streamOf(timeline),
    stack: stackOf(site),
    ...pid === undefined ? {} : { pid },
  };
}

function streamOf({ name, device, pid }: Timeline): string | undefined {
  return device === undefined && pid === undefined ? undefined : name;
}

/** An access, in a sentence: "the write of kernel scale". */
function nounOf({ kind, operation, isPossible }: MemoryAccess): string {
  const noun = kind === "atomic" ? "atomic access" : kind;
  return isPossible ? `a possible ${noun} of ${operation.name}` : `the ${noun} of ${operation.name}`;
}

/** The kind of a mistake that is none if one of the accesses is elsewhere, or is not made. */
function kindOf(kind: string, accesses: readonly MemoryAccess[]): string {
  return accesses.some(({ isPossible }) => isPossible) ? `possible-${kind}` : kind;
}
