/**
 * Random graphs with arguments, beside an oracle: fills, copies and kernels of parts of buffers, some of which are
 * arguments; executable graphs of the graph and of its clone; updates, some of which must be refused; launches, some
 * after memory was freed.
 */
import { assert, assertEquals } from "@std/assert";
import { ptx } from "../../../kernels/saxpy.ts";
import type { Cuda, CudaGraphExec, CudaKernel, CudaStream, DeviceArray, MemoryPool } from "../../../mod.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { isLong } from "../../support/test.ts";

const length = 16;
const rounds = isLong ? 3000 : 60;
/** The buffers of the capture. The last two are not arguments. */
const buffers = ["x", "y", "z", "u", "v"] as const;

type Buffers = Map<string, Modelled>;

/** A buffer, and what should be in it. */
interface Modelled {
  readonly array: DeviceArray<Float32Array>;
  readonly data: Float64Array;
  isFreed: boolean;
}

/** A part of a buffer of the capture. */
interface Part {
  readonly buffer: string;
  readonly begin: number;
  readonly end: number;
}

/** An executable graph, and the arguments that it should have. */
interface ModelledExec {
  readonly exec: CudaGraphExec;
  buffers: Buffers;
  values: Map<string, number>;
}

type Operation = (buffers: Buffers, values: Map<string, number>) => void;

class Round {
  readonly #below: (limit: number) => number;
  readonly #stream: CudaStream;
  readonly #pool: MemoryPool;
  readonly #saxpy: CudaKernel;
  readonly #all: Modelled[] = [];
  readonly #operations: Operation[] = [];
  /** The names of what the nodes use. */
  readonly #uses = new Set<string>();
  readonly #start: Buffers;
  readonly #values: Map<string, number>;

  constructor(place: { below: (limit: number) => number; stream: CudaStream; pool: MemoryPool; saxpy: CudaKernel }) {
    this.#below = place.below;
    this.#stream = place.stream;
    this.#pool = place.pool;
    this.#saxpy = place.saxpy;
    this.#start = new Map(buffers.map((name) => [name, this.#make()]));
    this.#values = new Map(["a", "b"].map((name) => [name, this.#below(3)]));
  }

  #make(): Modelled {
    const value = this.#below(5);
    const array = this.#pool.allocateArray(Float32Array.from({ length }, () => value), this.#stream);
    const made = { array, data: new Float64Array(length).fill(value), isFreed: false };
    this.#all.push(made);
    return made;
  }

  #part(size: number): Part {
    const begin = this.#below(length - size + 1);
    const buffer = buffers[this.#below(buffers.length)]!;
    return { buffer, begin, end: begin + size };
  }

  /** Returns a part of a buffer, for a node. */
  #of({ buffer, begin, end }: Part): DeviceArray<Float32Array> {
    this.#uses.add(buffer);
    return this.#start.get(buffer)!.array.subarray(begin, end);
  }

  async run(): Promise<void> {
    using stack = new DisposableStack();
    const named = Object.fromEntries(["x", "y", "z"].map((name) => [name, this.#start.get(name)!.array]));
    const graph = stack.use(this.#stream.capture(({ arguments: bound }) => {
      for (let count = 1 + this.#below(6); count > 0; count--) this.#addNode(bound as Record<string, never>);
    }, { arguments: { ...named, ...Object.fromEntries(this.#values) } }));
    const graphs = this.#below(3) === 0 ? [graph, stack.use(graph.clone())] : [graph];
    const execs = Array.from({ length: 1 + this.#below(3) }, (): ModelledExec => {
      const exec = stack.use(graphs[this.#below(graphs.length)]!.instantiate());
      return { exec: exec as CudaGraphExec, buffers: new Map(this.#start), values: new Map(this.#values) };
    });
    for (let step = 0; step < 12; step++) {
      const changed = execs[this.#below(execs.length)]!;
      const action = this.#below(10);
      if (action < 4) this.#update(changed);
      else if (action < 8) this.#launch(changed);
      else if (action === 8) this.#free();
    }
    for (const { array, data, isFreed } of this.#all) {
      if (!isFreed) assertEquals([...await array.toTypedArray({ stream: this.#stream })], [...data].map(Math.fround));
    }
    for (const made of this.#all) if (!made.isFreed) made.array.free(this.#stream);
  }

  #addNode(bound: Readonly<Record<string, never>>): void {
    const size = 1 + this.#below(length);
    const kind = this.#below(4);
    const target = this.#part(size);
    if (kind === 0) {
      const value = this.#below(9);
      this.#of(target).fill(value, this.#stream);
      this.#operations.push((all) => all.get(target.buffer)!.data.fill(value, target.begin, target.end));
      return;
    }
    const source = this.#part(size);
    // Neither CUDA nor the oracle knows what happens to ranges that overlap.
    if (source.buffer === target.buffer && Math.abs(source.begin - target.begin) < size) return;
    const read = (all: Buffers) => all.get(source.buffer)!.data.slice(source.begin, source.end);
    if (kind === 1) {
      this.#of(target).copyFrom(this.#of(source), this.#stream);
      this.#operations.push((all) => all.get(target.buffer)!.data.set(read(all), target.begin));
      return;
    }
    const name = ["a", "b"][this.#below(3)];
    const literal = this.#below(3);
    if (name !== undefined) this.#uses.add(name);
    const factor = name === undefined ? literal : bound[name]!;
    const launch = { grid: 1, block: 32, stream: this.#stream };
    this.#saxpy.launch(launch, size, factor, this.#of(source), this.#of(target));
    this.#operations.push((all, values) => {
      const { data } = all.get(target.buffer)!;
      const a = name === undefined ? literal : values.get(name)!;
      for (const [index, x] of read(all).entries()) data[target.begin + index]! += a * x;
    });
  }

  #update(changed: ModelledExec): void {
    const given: Record<string, unknown> = {};
    const [all, values] = [new Map(changed.buffers), new Map(changed.values)];
    let isWrong = false;
    for (let count = 1 + this.#below(3); count > 0; count--) {
      const name = ["a", "b", "x", "y", "z", "other"][this.#below(this.#below(4) === 0 ? 6 : 5)]!;
      if (name in given) continue;
      if (!this.#uses.has(name)) isWrong = true;
      if (name === "a" || name === "b") {
        given[name] = this.#below(12) === 0 ? "text" : this.#below(4);
        if (typeof given[name] === "string") isWrong = true;
        else values.set(name, given[name] as number);
      } else {
        const made = this.#unaliased(all, name);
        given[name] = made.array;
        if (made.isFreed) isWrong = true;
        all.set(name, made);
      }
    }
    try {
      changed.exec.update(given);
      assert(!isWrong, "A wrong update is refused");
      changed.buffers = all;
      changed.values = values;
    } catch (error) {
      // A copy whose other end was freed is not changed.
      if (!isWrong && !/that was freed; replace that in the same call/.test((error as Error).message)) throw error;
    }
  }

  /** Returns a new buffer, or one that is not another argument already: kernels would read what they write. */
  #unaliased(all: Buffers, name: string): Modelled {
    const used = new Set([...all].filter(([other]) => other !== name).map(([, made]) => made));
    const free = this.#all.filter((made) => !used.has(made));
    return this.#below(3) === 0 && free.length > 0 ? free[this.#below(free.length)]! : this.#make();
  }

  #launch({ exec, buffers, values }: ModelledExec): void {
    const isLost = [...buffers].some(([name, { isFreed }]) => this.#uses.has(name) && isFreed);
    try {
      exec.launch(this.#stream);
    } catch (error) {
      assert(isLost && error instanceof ReferenceError, String(error));
      return;
    }
    assert(!isLost, "A graph that has lost memory is not launched");
    for (const operation of this.#operations) operation(buffers, values);
  }

  #free(): void {
    const made = this.#all[this.#below(this.#all.length)]!;
    if (made.isFreed || this.#below(2) === 0) return;
    made.array.free(this.#stream);
    made.isFreed = true;
  }
}

/** Returns a function that returns random numbers below a limit, from a seed. */
function randomFrom(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * limit);
  };
}

testOnEachDriver("random updates of random graphs have the effects of an oracle", async (cuda: Cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using module = gpu.loadModule(ptx);
  const saxpy = module.kernel("saxpy");
  for (let seed = 1; seed <= rounds; seed++) {
    try {
      await new Round({ below: randomFrom(seed), stream, pool, saxpy }).run();
    } catch (error) {
      throw new Error(`Round ${seed} has failed: ${error}`, { cause: error });
    }
  }
});
