/**
 * Random programs of streams, events, waits, fills, copies and kernels, beside an oracle that knows their true order: a
 * graph of all operations, in which one comes before another if there is a path. It shares nothing with the sanitizer.
 */
import { assert, assertEquals } from "@std/assert";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { type Cuda, CudaError, type DeviceBuffer, open } from "../../mod.ts";
import { Random } from "../differential/random.ts";
import { isLong, test } from "../support/test.ts";

const bufferBytes = 64;
const counts = { streams: 4, events: 3, buffers: 3, steps: 20 };

/** An operation, with its direct predecessors. */
interface Node {
  readonly after: readonly Node[];
}

/** An access of an operation to a buffer. */
interface Touch {
  readonly node: Node;
  /** The index of its stream. */
  readonly stream: number;
  readonly access: "read" | "write" | "allocate";
  /** Offsets in bytes. */
  readonly begin: number;
  readonly end: number;
}

interface Memory {
  readonly buffer: DeviceBuffer;
  readonly touches: Touch[];
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

/** The kinds of the unordered pairs of accesses to the same bytes. */
function conflictsOf({ touches }: Memory): string[] {
  const kinds: string[] = [];
  for (const [index, later] of touches.entries()) {
    for (const earlier of touches.slice(0, index)) {
      if (later.access === "read" && earlier.access === "read") continue;
      if (later.begin >= earlier.end || earlier.begin >= later.end) continue;
      if (comesBefore(earlier.node, later.node)) continue;
      const isAllocation = earlier.access === "allocate";
      kinds.push(isAllocation ? "use-before-allocation" : `unordered-${earlier.access}-${later.access}`);
    }
  }
  return kinds;
}

/** Runs a program. Returns the kinds of its reports, and those of its mistakes by the oracle. */
function run(seed: number): { reported: Set<string>; wrong: Set<string> } {
  const reported = new Set<string>(), memories: Memory[] = [];
  using cuda = open({ driver: "software", sanitize: true, onReport: ({ kind }) => reported.add(kind) });
  try {
    runOn(cuda, new Random(seed), memories);
  } catch (error) {
    // A kernel ran before its memory was allocated, and the device is lost. Its other mistakes may be reported or not.
    if (!(error instanceof CudaError)) throw error;
    assert(memories.flatMap(conflictsOf).includes("use-before-allocation"), error.message);
  }
  return { reported, wrong: new Set(memories.flatMap(conflictsOf)) };
}

function runOn(cuda: Cuda, random: Random, memories: Memory[]): void {
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  const fill = gpu.loadModule(fillPtx).kernel("fill");
  // The first stream is the default stream, which orders blocking streams.
  const isBlocking = Array.from({ length: counts.streams }, (_, index) => index === 0 || random.percent(20));
  const streams = isBlocking.map((blocking, index) =>
    index === 0 ? gpu.defaultStream : gpu.createStream({ nonBlocking: !blocking })
  );
  const events = Array.from({ length: counts.events }, () => gpu.createEvent());
  const records: (Node | undefined)[] = events.map(() => undefined);
  /** The direct predecessors of each stream's next operation, and of everything that the host enqueues. */
  const before: Node[][] = streams.map(() => []);
  const host: Node[] = [];
  const ordered = (a: number, b: number) => isBlocking[a] && isBlocking[b] && (a === 0) !== (b === 0);
  const others = (index: number) => [...streams.keys()].filter((other) => ordered(index, other));
  const add = (index: number): Node => {
    const node = { after: [...before[index]!, ...host, ...others(index).flatMap((other) => before[other]!)] };
    before[index] = [node];
    return node;
  };
  const allocateOn = (index: number): Memory => {
    const buffer = pool.allocate(bufferBytes, streams[index]);
    return { buffer, touches: [{ node: add(index), stream: index, access: "allocate", begin: 0, end: bufferBytes }] };
  };
  /** How often the program orders operations that need it, in percent. */
  const care = random.pick([0, 80, 100, 100]);
  const order = (index: number, { touches }: Memory, access: Touch["access"], begin: number, end: number) => {
    for (const earlier of touches) {
      if (access === "read" && earlier.access === "read" || begin >= earlier.end || earlier.begin >= end) continue;
      const next: Node = { after: [...before[index]!, ...host, ...others(index).flatMap((other) => before[other]!)] };
      if (comesBefore(earlier.node, next) || !random.percent(care)) continue;
      const event = gpu.createEvent();
      streams[earlier.stream]!.record(event);
      const record = add(earlier.stream);
      streams[index]!.wait(event);
      before[index]!.push(record);
    }
  };
  for (let count = 0; count < counts.buffers; count++) memories.push(allocateOn(random.below(counts.streams)));
  for (let step = 0; step < counts.steps; step++) {
    const index = random.below(counts.streams), stream = streams[index]!;
    const event = random.below(counts.events), record = records[event];
    const memory = random.pick(memories), source = random.pick(memories);
    const begin = 4 * random.below(8), end = begin + 4 + 4 * random.below(7);
    switch (random.below(10)) {
      case 0:
      case 1:
        stream.record(events[event]!);
        records[event] = add(index);
        break;
      case 2:
      case 3:
      case 4:
        if (record === undefined) break;
        stream.wait(events[event]!);
        before[index]!.push(record);
        break;
      case 5:
        if (random.percent(50)) {
          stream.synchronize();
          host.push(...before[index]!, ...index === 0 ? others(0).flatMap((other) => before[other]!) : []);
        } else if (record !== undefined) {
          events[event]!.synchronize();
          host.push(record);
        }
        break;
      case 6:
        order(index, memory, "write", begin, end);
        memory.buffer.subarray(begin, end).fill(1, stream);
        memory.touches.push({ node: add(index), stream: index, access: "write", begin, end });
        break;
      case 7:
        order(index, memory, "write", begin, end);
        // By address, so that the library does not notice the use.
        fill.launch({ grid: 1, block: 32, stream }, memory.buffer.address + BigInt(begin), end - begin, 7);
        memory.touches.push({ node: add(index), stream: index, access: "write", begin, end });
        break;
      default: {
        if (memory === source) break;
        order(index, source, "read", begin, end);
        order(index, memory, "write", begin, end);
        memory.buffer.subarray(begin, end).copyFrom(source.buffer.subarray(begin, end), stream);
        const node = add(index);
        source.touches.push({ node, stream: index, access: "read", begin, end });
        memory.touches.push({ node, stream: index, access: "write", begin, end });
      }
    }
  }
  gpu.synchronize();
  for (const { buffer } of memories) buffer.free();
  pool[Symbol.dispose]();
}

test("random programs are reported if and only if something in them is not ordered", () => {
  const programs = isLong ? 5000 : 60;
  let right = 0;
  for (let seed = 0; seed < programs; seed++) {
    const { reported, wrong } = run(seed);
    const shown = `program ${seed}: ${[...reported]} reported, ${[...wrong]} wrong`;
    assertEquals(reported.size > 0, wrong.size > 0, shown);
    assert(reported.isSubsetOf(wrong), shown);
    if (wrong.size === 0) right++;
  }
  assert(right > programs / 4 && right < programs * 0.95, `${right} of ${programs} programs are right`);
});
