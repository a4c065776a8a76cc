/**
 * Runs random programs on the software device.
 *
 * @module
 */
import { sharingPolicy } from "../../../src/software/execution/workers/workers.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { Session } from "../../../src/session.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import type { CudaStream } from "../../../src/objects/streams/cuda_stream.ts";
import type { CudaEvent } from "../../../src/objects/streams/cuda_event.ts";
import type { DeviceArray } from "../../../src/memory/device_array.ts";
import type { HostBuffer } from "../../../src/memory/transfers/host_buffer.ts";
import type { CudaModule } from "../../../src/objects/modules/cuda_module.ts";
import type { MemoryPool } from "../../../src/memory/pools/memory_pool.ts";
import { CudaError } from "../../../src/support/errors.ts";
import { Random } from "../../differential/random.ts";
import { recordWarnings } from "../../support/warnings.ts";
import { ptx } from "./kernels.ts";
import type { LaunchStep, Program, Step } from "./program.ts";

/** What a program has done. */
export interface Outcome {
  /** What it has read, in order, and the words of all buffers at the end. Empty if a kernel has faulted. */
  readonly read: readonly Uint32Array[];
  /** The description of the fault, without what differs between runs: addresses, times and numbers of steps. */
  readonly fault: string | undefined;
}

/** How to run a program. */
export interface PlayOptions {
  readonly threads: number;
  /** Called before each step. */
  readonly onStep?: (step: Step) => void;
}

/** The steps that a block may make in a program of which a kernel faults. */
const stepLimit = 2 ** 25;

/** Runs a program. Throws if memory is left. */
export async function play(program: Program, { threads, onStep }: PlayOptions): Promise<Outcome | undefined> {
  const usual = { ...sharingPolicy };
  if (program.isEager) sharingPolicy.firstSliceMilliseconds = -1;
  using _warnings = recordWarnings();
  const driver = new SoftwareDriver({
    devices: 1,
    peers: false,
    threads,
    ...program.isFaulty ? { stepLimit } : {},
  });
  const cuda = new Cuda(new Session(driver));
  try {
    return await new Player(cuda, program).play(onStep);
  } finally {
    cuda[Symbol.dispose]();
    Object.assign(sharingPolicy, usual);
  }
}

/** The free memory of a device on which nothing runs, in bytes. */
export function freeMemory(): number {
  using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: false })));
  return cuda.device(0).memoryInfo().free;
}

/** A buffer, and the stream that has used it last. */
interface Held {
  array: DeviceArray<Uint32Array>;
  readonly length: number;
  user: CudaStream;
}

class Player {
  readonly #cuda: Cuda;
  readonly #program: Program;
  readonly #streams: readonly CudaStream[];
  readonly #event: CudaEvent;
  readonly #pool: MemoryPool;
  readonly #module: CudaModule;
  readonly #buffers: readonly Held[];
  readonly #read: HostBuffer[] = [];

  constructor(cuda: Cuda, program: Program) {
    const gpu = cuda.device(0);
    this.#cuda = cuda;
    this.#program = program;
    this.#streams = Array.from({ length: program.streams }, () => gpu.createStream({ nonBlocking: true }));
    this.#event = gpu.createEvent();
    this.#pool = gpu.createPool();
    this.#module = gpu.loadModule(ptx);
    this.#buffers = program.lengths.map((length, index) => {
      const user = this.#streams[index % program.streams]!;
      return { array: this.#filled(length, user), length, user };
    });
  }

  #filled(length: number, stream: CudaStream): DeviceArray<Uint32Array> {
    const array = this.#pool.allocateArray(Uint32Array, length, stream);
    array.fill(length, stream);
    return array;
  }

  async play(onStep?: (step: Step) => void): Promise<Outcome | undefined> {
    const { steps, disposedAfter } = this.#program;
    try {
      for (const [index, step] of steps.entries()) {
        onStep?.(step);
        await this.#take(step);
        if (index === disposedAfter) return undefined;
      }
      for (const held of this.#buffers) this.#readInto(held, held.user);
      this.#cuda.device(0).synchronize();
      return { read: this.#read.map(({ buffer }) => new Uint32Array(buffer).slice()), fault: undefined };
    } catch (error) {
      if (!this.#program.isFaulty || !(error instanceof CudaError)) throw error;
      if (disposedAfter !== undefined) return undefined;
      return { read: [], fault: withoutNumbers(error) };
    }
  }

  async #take(step: Step): Promise<void> {
    const stream = this.#streams[step.stream]!;
    switch (step.kind) {
      case "launch":
        return this.#launch(step, stream);
      case "fill":
        return this.#use(step.buffer, stream).fill(step.byte, stream);
      case "copy": {
        if (step.from === step.to) return;
        const from = this.#use(step.from, stream), to = this.#use(step.to, stream);
        const length = Math.min(from.length, to.length);
        return from.subarray(0, length).copyTo(to.subarray(0, length), stream);
      }
      case "upload": {
        const random = new Random(step.seed);
        const array = this.#use(step.buffer, stream);
        return array.copyFrom(Uint32Array.from({ length: 64 }, () => random.bits32()), stream);
      }
      case "read":
        return this.#readInto(this.#buffers[step.buffer]!, stream);
      case "reallocate": {
        const held = this.#buffers[step.buffer]!;
        this.#use(step.buffer, stream).free(stream);
        held.array = this.#filled(held.length, stream);
        return;
      }
      case "abortWait":
        return await stream.finished({ signal: AbortSignal.timeout(step.milliseconds) }).catch((error: Error) => {
          if (error.name !== "TimeoutError") throw error;
        });
      case "calculate": {
        const end = performance.now() + step.milliseconds;
        while (performance.now() < end);
        return;
      }
      case "synchronize":
        return stream.synchronize();
      case "finish":
        return await stream.finished();
      case "query":
        return void stream.query();
      case "nextTurn":
        return await new Promise((resolve) => setTimeout(resolve));
      case "synchronizeDevice":
        return this.#cuda.device(0).synchronize();
    }
  }

  #launch({ kernel, grid, block, sharedMemoryBytes, n, k, ...step }: LaunchStep, stream: CudaStream): void {
    const source = this.#use(step.in, stream), out = this.#use(step.out, stream);
    if (step.isCleared) out.fill(0, stream);
    const length = Math.min(source.length, out.length);
    this.#module.kernel(kernel).launch({ grid, block, sharedMemoryBytes, stream }, out, source, length, n, k);
  }

  /** Lets a stream wait for the stream that has used a buffer last. */
  #use(index: number, stream: CudaStream): DeviceArray<Uint32Array> {
    const held = this.#buffers[index]!;
    if (held.user !== stream) {
      held.user.record(this.#event);
      stream.wait(this.#event);
      held.user = stream;
    }
    return held.array;
  }

  #readInto(held: Held, stream: CudaStream): void {
    const array = this.#use(this.#buffers.indexOf(held), stream);
    const host = this.#cuda.allocateHost(4 * held.length);
    array.copyTo(host, stream);
    this.#read.push(host);
  }
}

/**
 * Returns the description of a fault without what depends on the time: addresses, numbers of steps, what other blocks
 * have allocated, which buffers the program has freed since, and the call that has failed.
 */
function withoutNumbers({ message }: CudaError): string {
  const [found = message] = /\bkernel \w+( on device \d+)?, block.*?\(cudaError\w+\)/s.exec(message) ?? [];
  return found.replace(/0x[0-9a-f]+/g, "0x").replace(/: it is .* with malloc/, "")
    .replace(/\d+ steps, which took \d+\.\d+ m?s/, "steps");
}
