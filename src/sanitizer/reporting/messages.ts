/**
 * Composes the messages of reports: the mistake, both accesses, and advice.
 *
 * @module
 */
import { framesOf, shortNameOf, stackOf } from "./call_stacks.ts";
import type { FoundMistake } from "./reports.ts";
import type { Operation } from "../order/timelines.ts";
import type { SanitizerAccess, SanitizerCheck } from "./sanitizer_report.ts";

/** The allocation that a report is about. */
export interface ReportedMemory {
  readonly byteLength: number;
  readonly allocated?: Operation;
}

/** A report before its message is composed. */
export interface UnwordedReport extends Pick<FoundMistake, "operationPair" | "count"> {
  /** The check that found the mistake. Default: "stream-order". */
  readonly check?: SanitizerCheck;
  readonly kind: string;
  /** The later access, followed by the earlier one if there are two. */
  readonly accesses: readonly SanitizerAccess[];
  /** The buffer that the report is about, if any. */
  readonly memory?: ReportedMemory | undefined;
  /** A description of the report's subject if it is not a buffer: "the array tile in shared memory". */
  readonly place?: string | undefined;
  /**
   * The operations whose streams the message describes. For each stream, the message says where in the program the
   * stream was created.
   */
  readonly operations?: readonly Operation[];
  /** The affected bytes of the memory. Undefined if all bytes are affected. */
  readonly bytes?: { readonly begin: number; readonly end: number } | undefined;
  /** A description of the mistake: a sentence without a full stop. */
  readonly problem: string;
  /** Advice for fixing the mistake: a sentence without a full stop. */
  readonly advice: string;
}

/** Returns the message of a report. */
export function messageOf(finding: UnwordedReport): string {
  const { kind, accesses, memory, place, bytes, problem, advice } = finding;
  const allocated = memory?.allocated === undefined ? "" : stackOf(memory.allocated.site);
  const isDescribed = accesses.some(({ access, stack }) => access === "allocate" && stack === allocated);
  const where = place ?? (memory === undefined ? undefined : rangeOf(memory, bytes));
  return [
    `poolpass sanitizer: ${kind}${where === undefined ? "" : `: ${where}`}`,
    `  ${capitalized(problem)}.`,
    ...accesses.flatMap((access, index) => describe(access, accesses[index - 1])),
    ...creationsOf(finding),
    ...allocated === "" || isDescribed ? [] : ["  The buffer was allocated", ...indented(allocated)],
    `  ${advice}.`,
  ].join("\n");
}

/**
 * Returns a line for each distinct stream of the operations. The line says where in the program the stream was created.
 */
function creationsOf({ operations = [] }: UnwordedReport): string[] {
  return [...new Set(operations.map(({ timeline }) => timeline))].flatMap(({ name, created }) => {
    const [place] = created === undefined ? [] : framesOf(stackOf(created));
    return place === undefined ? [] : `  ${capitalized(name)} was created at ${shortNameOf(place)}`;
  });
}

function rangeOf({ byteLength }: ReportedMemory, bytes: UnwordedReport["bytes"]): string {
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

/** The participles that describe operations whose name is also the kind of access, such as "allocate". */
const participles: Readonly<Partial<Record<string, string>>> = { allocate: "Allocated", free: "Freed", read: "Read" };

/**
 * Returns the lines that describe an access.
 *
 * @param before the access described before `current`; if both are of the same call, the call stack is not repeated
 */
function describe(current: SanitizerAccess, before: SanitizerAccess | undefined): string[] {
  const { operation, access, stream, source, stack, block, thread, launched } = current;
  if (access === "barrier" && block === undefined) {
    return [
      operation === "createEvent" ? "  The event was created" : `  ${capitalized(operation)}`,
      ...indented(stack),
    ];
  }
  const at = source === undefined ? "" : ` at ${source}`;
  const who = block === undefined ? "" : `, block (${block})${thread === undefined ? "" : `, thread (${thread})`}`;
  const participle = operation === access ? participles[operation] : undefined;
  const what = participle ?? `${capitalized(operation)}${who} ${verbs[access]}${at}`;
  const isSameCall = block !== undefined && before?.operation === operation && before.stack === stack;
  // A kernel's malloc has no call stack, because the launch is unknown.
  if (isSameCall || access === "allocate" && stack === "") return [`  ${what}`];
  if (participle !== undefined) {
    return [
      `  ${what} ${stream === undefined ? "by the host" : `on ${stream}`}${inGraph(launched)}`,
      ...indented(stack),
    ];
  }
  return [`  ${what}, on ${stream ?? "the host"}${inGraph(launched)}`, ...indented(stack)];
}

/** Returns the words for an operation of a graph, whose call stack is that of its capture. */
function inGraph(launched: string | undefined): string {
  if (launched === undefined) return "";
  const [place] = framesOf(launched);
  return `, in a graph${place === undefined ? "" : ` launched at ${shortNameOf(place)}`}, to which it was added`;
}

function indented(stack: string): string[] {
  return stack === "" ? [] : stack.split("\n").map((line) => `      ${line}`);
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Returns a sentence that advises how to order `second` after `first`. */
export function orderBy(first: Operation, second: Operation): string {
  if (first.graph !== undefined && first.graph === second.graph) {
    return `In the graph, let ${nodeOf(second)} depend on ${
      nodeOf(first)
    }; in a capture, let its stream wait for the ` +
      "other one, as in other.wait(stream)";
  }
  const a = placeOf(first), b = placeOf(second);
  if (a.pid !== b.pid) return orderBetweenProcesses(first, second);
  if (b.device === undefined) return `Wait for ${a.stream} before the ${second.name}`;
  return `Record an event on ${a.stream} after ${a.name}, and let ${b.stream} wait for it${earlyRecord(first, second)}`;
}

/** Returns how advice names an operation and its stream: a graph's by the launch. */
function placeOf({ name, timeline, graph }: Operation) {
  const { pid, device } = timeline;
  if (graph !== undefined) return { name: "the launch of the graph", stream: graph.stream, pid, device };
  return { name: nodeOf({ name }), stream: timeline.name, pid, device };
}

function nodeOf({ name }: Pick<Operation, "name">): string {
  return name === "allocate" ? "the allocation" : name === "free" ? "the free" : name;
}

/**
 * Returns a clause about an existing wait for an event that was recorded before the first operation, and thus too
 * early. Empty if there is no such wait.
 */
function earlyRecord(first: Operation, { timeline, position }: Operation): string {
  const wait = timeline.waitFor(first, position);
  const [place] = wait === undefined ? [] : framesOf(stackOf(wait.recorded));
  if (place === undefined) return "";
  return `: the one that it waits for was recorded before ${first.name}, at ${shortNameOf(place)}`;
}

/** Returns a sentence that advises how to order a free after a use of the memory. */
export function freeLater(use: Operation, freed: Operation): string {
  const a = placeOf(use), b = placeOf(freed);
  const isInOneGraph = use.graph !== undefined && use.graph === freed.graph;
  if (isInOneGraph || a.pid !== b.pid || a.device === undefined || b.device === undefined) return orderBy(use, freed);
  const event = `record an event on ${a.stream} after ${a.name}, and let ${b.stream} wait for it before the free`;
  return `Free it on ${a.stream}, or ${event}${earlyRecord(use, freed)}`;
}

function orderBetweenProcesses({ name, timeline: a }: Operation, { name: second, timeline: b }: Operation): string {
  const event = `record an interprocess event on ${a.name} after ${name}, and let ${b.name} wait for it`;
  return `If ${name} comes first, ${event}; else the same in the other direction, from ${second}`;
}
