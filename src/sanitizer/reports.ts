/**
 * Words and counts what was found, each mistake once.
 *
 * @module
 */
import { type CallSite, stackOf } from "./call_sites.ts";
import type { EarlyChange } from "./copied_sources.ts";
import type { Conflict, Touch } from "./memory_history.ts";
import type { Operation } from "./operation.ts";
import type { SanitizerAccess, SanitizerReport } from "./sanitizer_report.ts";
import type { Timeline } from "./timelines.ts";

/** An allocation, for messages. */
interface Memory {
  readonly byteLength: number;
  readonly allocated?: Operation;
}

/** A mistake before it is worded. */
interface Finding {
  readonly kind: string;
  readonly later: SanitizerAccess;
  readonly earlier: SanitizerAccess;
  /** Undefined if it is not about memory. */
  readonly memory?: Memory;
  /** The bytes of the memory that both access. Undefined for all of it. */
  readonly bytes?: { readonly begin: number; readonly end: number };
  /** What is wrong, as a sentence. */
  readonly problem: string;
  /** What to do, as a sentence. */
  readonly advice: string;
}

/** The reports of a `Cuda` object. */
export class Reports {
  readonly #onReport: (report: SanitizerReport) => void;
  readonly #found = new Map<string, SanitizerReport>();
  /** What the listener has not got yet. */
  readonly #undelivered: SanitizerReport[] = [];

  /** @param onReport called with each mistake when it is first found */
  constructor(onReport: (report: SanitizerReport) => void) {
    this.#onReport = onReport;
  }

  /** What was found. */
  get all(): readonly SanitizerReport[] {
    return [...this.#found.values()];
  }

  /** Two accesses to the same bytes that nothing orders. */
  addConflict({ region, conflict: { later, earlier, begin, end } }: { region: Memory; conflict: Conflict }): void {
    this.#add({
      kind: `unordered-${earlier.access}-${later.access}`,
      later: accessOf(later),
      earlier: accessOf(earlier),
      memory: region,
      bytes: { begin, end },
      problem: `${nounOf(later)} and ${nounOf(earlier)} may happen in either order, or at once`,
      advice: orderBy(earlier.operation, later.operation),
    });
  }

  /** An access to memory after its free, or one that may happen after it. */
  addFreed({ region, touch, freed }: { region: Memory; touch: Touch; freed: Operation }): void {
    const isLater = freed.timeline === touch.operation.timeline && freed.position <= touch.operation.position;
    this.#add({
      kind: "use-after-free",
      later: isLater ? accessOf(touch) : operationOf(freed, "free"),
      earlier: isLater ? operationOf(freed, "free") : accessOf(touch),
      memory: region,
      bytes: touch,
      problem: isLater
        ? `${nounOf(touch)} comes after the memory was freed`
        : `The memory may be freed, and given to others, before ${nounOf(touch)} is done`,
      advice: isLater ? "Free the memory after its last use" : orderBy(touch.operation, freed),
    });
  }

  /** An access that may happen before the allocation. */
  addUnallocated({ region, touch }: { region: Required<Memory>; touch: Touch }): void {
    this.#add({
      kind: "use-before-allocation",
      later: accessOf(touch),
      earlier: operationOf(region.allocated, "allocate"),
      memory: region,
      bytes: touch,
      problem: `${nounOf(touch)} may happen before the memory is allocated`,
      advice: orderBy(region.allocated, touch.operation),
    });
  }

  /** A free that may happen before the allocation. */
  addFreedBeforeAllocation({ region, freed }: { region: Required<Memory>; freed: Operation }): void {
    this.#add({
      kind: "use-before-allocation",
      later: operationOf(freed, "free"),
      earlier: operationOf(region.allocated, "allocate"),
      memory: region,
      problem: "The memory may be freed before it is allocated",
      advice: orderBy(region.allocated, freed),
    });
  }

  /** A change of page-locked memory that a copy may still have to read. */
  addEarlyChange({ operation, begin, end, byteLength }: EarlyChange): void {
    this.#add({
      kind: "source-overwritten",
      later: { operation: "the program", access: "write", stream: undefined, stack: "" },
      earlier: operationOf(operation, "read"),
      memory: { byteLength },
      bytes: { begin, end },
      problem: `the program changed page-locked memory before ${operation.name} had read it for sure`,
      advice: `Wait for ${operation.timeline.name} before the memory is changed`,
    });
  }

  /** A wait for an event that was never recorded. */
  addUnrecordedEvent({ wait, site, created }: { wait: string; site: CallSite; created: CallSite }): void {
    this.#add({
      kind: "unrecorded-event",
      later: { operation: wait, access: "barrier", stream: undefined, stack: stackOf(site) },
      earlier: { operation: "createEvent", access: "barrier", stream: undefined, stack: stackOf(created) },
      problem: `${wait} that was never recorded: CUDA takes it for done, and waits for nothing`,
      advice: "Record the event on a stream before anything waits for it",
    });
  }

  #add(finding: Finding): void {
    const { kind, later, earlier } = finding;
    const key = [kind, ...[later, earlier].flatMap(({ operation, source, stack }) => [operation, source, stack])].join(
      "\0",
    );
    if (this.#found.has(key)) return;
    const report: SanitizerReport = {
      check: "stream-order",
      kind,
      message: messageOf(finding),
      accesses: [later, earlier],
    };
    this.#found.set(key, report);
    this.#undelivered.push(report);
  }

  /** Calls the listener. Not where something is found: a driver may be in the middle of something. */
  deliver(): void {
    for (let report = this.#undelivered.shift(); report !== undefined; report = this.#undelivered.shift()) {
      this.#onReport(report);
    }
  }
}

function accessOf({ operation, access, source }: Touch): SanitizerAccess {
  const described = operationOf(operation, access);
  return source === undefined ? described : { ...described, source };
}

function operationOf({ name, timeline, site }: Operation, access: SanitizerAccess["access"]): SanitizerAccess {
  return { operation: name, access, stream: streamOf(timeline), stack: stackOf(site) };
}

function streamOf({ name, device }: Timeline): string | undefined {
  return device === undefined ? undefined : name;
}

/** An access, in a sentence: "the write of kernel scale". */
function nounOf({ access, operation }: Touch): string {
  return `the ${access === "atomic" ? "atomic access" : access} of ${operation.name}`;
}

function orderBy(first: Operation, second: Operation): string {
  const { timeline: a, name } = first;
  const { timeline: b } = second;
  if (b.device === undefined) return `Wait for ${a.name} before the ${second.name}`;
  return `Record an event on ${a.name} after ${name}, and let ${b.name} wait for it`;
}

function messageOf({ kind, later, earlier, memory, bytes, problem, advice }: Finding): string {
  const stack = memory?.allocated === undefined ? "" : stackOf(memory.allocated.site);
  return [
    `poolpass sanitizer: ${kind}${memory === undefined ? "" : `: ${rangeOf(memory, bytes)}`}`,
    `  ${capitalized(problem)}.`,
    ...[later, earlier].flatMap(describe),
    ...stack === "" ? [] : ["  The buffer was allocated", ...indented(stack)],
    `  ${advice}.`,
  ].join("\n");
}

function rangeOf({ byteLength }: Memory, bytes: Finding["bytes"]): string {
  return bytes === undefined || bytes.begin === 0 && bytes.end >= byteLength
    ? `all ${byteLength} bytes of a buffer`
    : `bytes ${bytes.begin} to ${bytes.end - 1} of a buffer of ${byteLength} bytes`;
}

const verbs: Readonly<Record<SanitizerAccess["access"], string>> = {
  read: "reads",
  write: "writes",
  atomic: "accesses atomically",
  allocate: "allocates",
  free: "frees",
  barrier: "waits",
};

function describe({ operation, access, stream, source, stack }: SanitizerAccess): string[] {
  if (access === "barrier") return [`  ${capitalized(operation)}`, ...indented(stack)];
  const where = source === undefined ? "" : ` at ${source}`;
  const what = operation === access ? capitalized(operation) : `${capitalized(operation)} ${verbs[access]}${where}`;
  return [`  ${what}, on ${stream ?? "the host"}`, ...indented(stack)];
}

function indented(stack: string): string[] {
  return stack === "" ? [] : stack.split("\n").map((line) => `      ${line}`);
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
