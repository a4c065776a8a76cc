/**
 * Random programs of several processes, beside an oracle that knows their true order: a graph of all operations of all
 * processes, in which one comes before another if there is a path. It shares nothing with the sanitizer.
 *
 * @module
 */
import type { Random } from "../differential/random.ts";
import { bufferByteLength, type RandomStep } from "./random_participant.ts";

/** An operation, with those that it comes after directly. */
interface Node {
  readonly after: readonly Node[];
}

/** What an operation does with a buffer. */
interface Touch {
  readonly node: Node;
  readonly number: number;
  readonly process: number;
  readonly stream: number;
  readonly access: "read" | "write" | "free";
  readonly begin: number;
  readonly end: number;
  /** Whether the library knows of it, and lets a free wait for it. */
  readonly isTracked: boolean;
  /** The records of interprocess events of its process so far, which are taken to order what comes before. */
  readonly recorded: readonly Node[];
}

type Bytes = Pick<Touch, "access" | "begin" | "end">;

/** A pair of operations that nothing orders. */
export interface UnorderedPair {
  /** The numbers of the steps, the smaller one first. */
  readonly steps: readonly [number, number];
  readonly buffer: number;
  /**
   * Whether it need not be reported: the record of an interprocess event is taken to order what one process does, and a
   * free may wait for more of a stream's work than it has to.
   */
  readonly isAssumed: boolean;
}

/** A step without what the program adds. */
export type Part = RandomStep extends infer Step ? Step extends unknown ? Omit<Step, "number"> : never : never;
type AccessPart = Extract<Part, { readonly buffer: number }>;
/** Does a step. Returns whether a stream's work is done, if that was asked. */
type Run = (step: RandomStep) => Promise<boolean>;

/** Of each process, and of a program. */
export const counts = { streams: 3, events: 2, steps: 24 };

/** What a program is about. */
export interface Setting {
  /** Of each process and stream, whether it waits for the default stream. */
  readonly isBlocking: readonly (readonly boolean[])[];
  /** The process of each buffer, and how it is shared. */
  readonly buffers: readonly { readonly process: number; readonly sharing: "pool" | "legacy" }[];
}

/** A program as it is generated, and what is wrong with it. */
export class ProcessProgram {
  readonly steps: RandomStep[] = [];
  readonly #random: Random;
  readonly #setting: Setting;
  /** In percent, how often the program orders what it has to. */
  readonly #care: number;
  /** What the next work of each stream of each process comes after. */
  readonly #before: Node[][][];
  /** What all hosts know: they may tell each other. */
  readonly #host: Node[] = [];
  readonly #recorded: Node[][];
  /** By event and process: what comes before the last record. */
  readonly #records: Map<number, Node>[];
  readonly #touches: Touch[][];
  readonly #freed = new Set<number>();

  constructor(random: Random, setting: Setting) {
    this.#random = random;
    this.#setting = setting;
    this.#care = random.pick([0, 80, 100, 100]);
    this.#before = setting.isBlocking.map((streams) => streams.map(() => []));
    this.#recorded = setting.isBlocking.map(() => []);
    this.#records = Array.from({ length: setting.isBlocking.length * counts.events }, () => new Map());
    this.#touches = setting.buffers.map(() => []);
  }

  /** Does a random step, and before it what it takes to order it. */
  async next(run: Run): Promise<void> {
    const part = this.#randomPart();
    if (!this.#isAllowed(part)) return;
    if ("buffer" in part) await this.#orderAccess(part, run);
    await this.#do(part, run);
  }

  /** Does a given step, if it makes sense. */
  async repeat(part: Part, run: Run): Promise<void> {
    if (this.#isAllowed(part)) await this.#do(part, run);
  }

  #randomPart(): Part {
    const random = this.#random;
    const process = random.below(this.#before.length), stream = random.below(counts.streams);
    const at = { process, stream };
    const own = process * counts.events + random.below(counts.events);
    const event = random.below(this.#records.length);
    const choice = random.below(100);
    if (choice < 20) return { ...at, do: "record", event: random.percent(90) ? own : event };
    if (choice < 45) return { ...at, do: "wait", event };
    if (choice < 46) return { ...at, do: "synchronize" };
    if (choice < 47) return { ...at, do: "synchronizeDevice" };
    if (choice < 48) return { ...at, do: "query" };
    if (choice < 49) return { ...at, do: "finishEvent", event };
    const buffer = random.below(this.#touches.length);
    if (choice < 52) return { process: this.#setting.buffers[buffer]!.process, stream, do: "free", buffer };
    const begin = 4 * random.below(8), end = begin + 4 + 4 * random.below(7);
    return { ...at, do: random.pick(["fill", "kernelFill", "read", "kernelRead"] as const), buffer, begin, end };
  }

  /** Whether a step makes sense: a wait needs a record, and memory that was freed is used no more. */
  #isAllowed(part: Part): boolean {
    if (part.do === "wait" || part.do === "finishEvent") return this.#records[part.event]!.size > 0;
    if (!("buffer" in part)) return true;
    // Other memory is freed at once, when the device has done all.
    return !this.#freed.has(part.buffer) &&
      (part.do !== "free" || this.#setting.buffers[part.buffer]!.sharing === "pool");
  }

  /** The pairs that nothing orders. */
  unordered(): UnorderedPair[] {
    return this.#touches.flatMap((touches, buffer) =>
      touches.flatMap((later, index) =>
        touches.slice(0, index).filter((earlier) =>
          isConflict(earlier, later) && !comesBefore(earlier.node, later.node)
        )
          .map((earlier) => {
            const isAssumed = earlier.process === later.process &&
              (later.recorded.some((record) => comesBefore(earlier.node, record)) ||
                isOfAwaited(earlier, later, touches));
            return { steps: [earlier.number, later.number] as const, buffer, isAssumed };
          })
      )
    );
  }

  /** Orders an access after those before, if the program takes care. */
  async #orderAccess(part: AccessPart, run: Run): Promise<void> {
    const bytes = bytesOf(part);
    for (const earlier of this.#touches[part.buffer]!) {
      if (!isConflict(earlier, bytes) || this.#isDone(earlier, part) || isAwaitedByFree(earlier, part)) continue;
      if (this.#random.percent(this.#care)) await this.#order(earlier, part, run);
    }
  }

  /** Notes an access. */
  #addAccess(step: AccessPart & { readonly number: number }): void {
    const { process, stream, number, buffer } = step;
    const touches = this.#touches[buffer]!;
    const after = this.#after(process, stream);
    if (step.do === "free") {
      this.#freed.add(buffer);
      // It may be on a stream of the library's own: what the program does next on the stream does not come after it.
      after.push(...touches.filter((earlier) => isAwaitedByFree(earlier, step)).map(({ node }) => node));
    }
    touches.push({
      ...bytesOf(step),
      node: step.do === "free" ? { after } : this.#add(process, stream),
      number,
      process,
      stream,
      // The memory was allocated on the default stream: a program that frees it elsewhere has to wait for that itself.
      isTracked: (step.do === "fill" || step.do === "read") && stream !== 0,
      recorded: [...this.#recorded[process]!],
    });
  }

  /** Whether what a stream does next comes after an access. */
  #isDone({ node }: Touch, { process, stream }: { process: number; stream: number }): boolean {
    return comesBefore(node, { after: this.#after(process, stream) });
  }

  /** Orders what a stream does next after an access, in one of the ways. */
  async #order(
    { process, stream }: Touch,
    later: { process: number; stream: number },
    run: Run,
  ): Promise<void> {
    if (this.#random.percent(20)) return await this.#do({ process, stream, do: "synchronize" }, run);
    const event = process * counts.events + this.#random.below(counts.events);
    await this.#do({ process, stream, do: "record", event }, run);
    const how = this.#random.percent(20) ? "finishEvent" : "wait";
    await this.#do({ process: later.process, stream: later.stream, do: how, event }, run);
  }

  /** Does a step, and notes what it orders. */
  async #do(part: Part, run: Run): Promise<void> {
    const step = { ...part, number: this.steps.length } as RandomStep;
    this.steps.push(step);
    const isDone = await run(step);
    const { process, stream } = step;
    switch (step.do) {
      case "record": {
        const node = this.#add(process, stream);
        this.#records[step.event]!.set(process, node);
        this.#recorded[process]!.push(node);
        return;
      }
      case "wait":
        // What several processes have recorded is taken to be awaited all.
        this.#before[process]![stream]!.push(...this.#records[step.event]!.values());
        return;
      case "finishEvent":
        this.#host.push(...this.#records[step.event]!.values());
        return;
      case "synchronize":
        return this.#know(process, stream);
      case "synchronizeDevice":
        for (const index of this.#before[process]!.keys()) this.#know(process, index);
        return;
      case "query":
        if (isDone) this.#know(process, stream);
        return;
      default:
        return this.#addAccess(step);
    }
  }

  /** What the next work of a stream comes after. */
  #after(process: number, stream: number): Node[] {
    const before = this.#before[process]!;
    return [...before[stream]!, ...this.#host, ...this.#others(process, stream).flatMap((other) => before[other]!)];
  }

  #add(process: number, stream: number): Node {
    const node = { after: this.#after(process, stream) };
    this.#before[process]![stream] = [node];
    return node;
  }

  /** Notes that a host knows the work of a stream to be done. */
  #know(process: number, stream: number): void {
    const before = this.#before[process]!;
    this.#host.push(...before[stream]!);
    if (stream === 0) this.#host.push(...this.#others(process, 0).flatMap((other) => before[other]!));
  }

  /** The streams that wait for a stream, and for which it waits. */
  #others(process: number, stream: number): number[] {
    const isBlocking = this.#setting.isBlocking[process]!;
    return [...isBlocking.keys()].filter((other) =>
      isBlocking[stream] && isBlocking[other] && (stream === 0) !== (other === 0)
    );
  }
}

function comesBefore(first: Node, second: Node): boolean {
  const waiting = [second], seen = new Set<Node>();
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (node === first) return true;
    if (seen.has(node)) continue;
    seen.add(node);
    waiting.push(...node.after);
  }
  return false;
}

function isConflict(earlier: Bytes, later: Bytes): boolean {
  if (earlier.access === "read" && later.access === "read") return false;
  return earlier.begin < later.end && later.begin < earlier.end;
}

function bytesOf(part: AccessPart): Bytes {
  if (part.do === "free") return { access: "free", begin: 0, end: bufferByteLength };
  const { begin, end } = part;
  return { access: part.do === "fill" || part.do === "kernelFill" ? "write" : "read", begin, end };
}

/** Whether an access comes before a free because the library lets the free wait for it. */
function isAwaitedByFree(earlier: Touch, part: AccessPart): boolean {
  return part.do === "free" && earlier.isTracked && earlier.process === part.process;
}

/** Whether an access is of the same process as a free that waits for streams, which may have waited for other streams. */
function isOfAwaited(earlier: Touch, later: Touch, touches: readonly Touch[]): boolean {
  return later.access === "free" &&
    touches.some(({ process, isTracked }) => isTracked && process === earlier.process);
}
