/**
 * A process of random programs of several processes: does steps on its streams, and reports what the sanitizer found.
 *
 * @module
 */
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { ptx as saxpyPtx } from "../../kernels/saxpy.ts";
import {
  type Cuda,
  type CudaDevice,
  CudaError,
  type CudaEvent,
  type CudaKernel,
  type CudaStream,
  type DeviceBuffer,
  open,
  type OpenOptions,
  type SanitizerReport,
  type ShareableHandle,
} from "../../mod.ts";
import { callAs, stepOf } from "./numbered_calls.ts";

/** What a process does. Numbers of processes, streams, events and buffers are those of the program. */
export type RandomStep =
  & { readonly number: number; readonly process: number; readonly stream: number }
  & (
    | {
      readonly do: "fill" | "kernelFill" | "read" | "kernelRead";
      readonly buffer: number;
      readonly begin: number;
      readonly end: number;
    }
    | { readonly do: "record" | "wait" | "finishEvent"; readonly event: number }
    | { readonly do: "synchronize" | "synchronizeDevice" | "query" }
    | { readonly do: "free"; readonly buffer: number }
  );

/** What a process begins a program with. */
export interface Beginning {
  readonly process: number;
  /** Of each stream, whether it waits for the default stream, which is the first. */
  readonly streams: readonly boolean[];
  readonly events: number;
  /** How each of its buffers is shared. */
  readonly buffers: readonly ("pool" | "legacy")[];
  readonly schedule: OpenOptions["softwareSchedule"] & string;
}

/** What others need to use what a process has. In hexadecimal. */
export interface Offered {
  readonly events: readonly string[];
  readonly buffers: readonly { readonly sharing: "pool" | "legacy"; readonly memory: string }[];
}

/** A pair of operations that was reported, by the numbers of their steps, the smaller one first. */
export interface ReportedPair {
  readonly kind: string;
  readonly steps: readonly (number | undefined)[];
  readonly message: string;
}

/** In bytes. */
export const bufferByteLength = 64;

/** A process. */
export class RandomParticipant implements Disposable {
  readonly #reports: SanitizerReport[] = [];
  readonly #cuda: Cuda;
  readonly #gpu: CudaDevice;
  readonly #streams: CudaStream[];
  readonly #ownEvents: CudaEvent[];
  readonly #ownBuffers: DeviceBuffer[];
  readonly #sharings: Beginning["buffers"];
  /** Those of all processes, by number. */
  readonly #events: CudaEvent[] = [];
  readonly #buffers: DeviceBuffer[] = [];
  readonly #fill: CudaKernel;
  readonly #saxpy: CudaKernel;
  readonly #stack = new DisposableStack();
  /** Of its pools, in order. */
  readonly handles: ShareableHandle[] = [];

  constructor({ streams, events, buffers, schedule }: Beginning) {
    this.#cuda = this.#stack.use(open({
      driver: "software",
      softwareSchedule: schedule,
      sanitize: ["stream-order"],
      onReport: (report) => this.#reports.push(report),
    }));
    this.#gpu = this.#cuda.device(0);
    this.#streams = streams.map((blocking, index) =>
      index === 0 ? this.#gpu.defaultStream : this.#gpu.createStream({ nonBlocking: !blocking })
    );
    this.#ownEvents = Array.from({ length: events }, () => this.#gpu.createEvent({ interprocess: true }));
    this.#ownBuffers = buffers.map((sharing) => {
      if (sharing === "legacy") return this.#gpu.allocate(bufferByteLength);
      const pool = this.#gpu.createPool({ handleType: "posix-fd" });
      this.handles.push(this.#stack.use(pool.exportHandle() as ShareableHandle));
      return pool.allocate(bufferByteLength, this.#gpu.defaultStream);
    });
    for (const buffer of this.#ownBuffers) buffer.fill(0);
    this.#fill = this.#gpu.loadModule(fillPtx).kernel("fill");
    this.#saxpy = this.#gpu.loadModule(saxpyPtx).kernel("saxpy");
    this.#gpu.synchronize();
    this.#sharings = buffers;
  }

  /** Shares what it has. */
  offer(): Offered {
    return {
      events: this.#ownEvents.map((event) => event.exportHandle().toHex()),
      buffers: this.#ownBuffers.map((buffer, index) => {
        const sharing = this.#sharings[index]!;
        const memory = sharing === "pool" ? buffer.exportPointer() : buffer.exportHandle();
        return { sharing, memory: memory.toHex() };
      }),
    };
  }

  /** Adds the events and buffers of the next process. */
  add({ events, buffers }: Offered, handles: readonly ShareableHandle[]): void {
    const pools = handles.map((handle) => this.#gpu.importPool(handle));
    for (const event of events) this.#events.push(this.#gpu.openEvent(Uint8Array.fromHex(event)));
    for (const { sharing, memory } of buffers) {
      const bytes = Uint8Array.fromHex(memory);
      this.#buffers.push(
        sharing === "pool"
          ? pools.shift()!.importPointer(bytes, bufferByteLength)
          : this.#gpu.openMemory(bytes, bufferByteLength),
      );
    }
  }

  /** Adds its own events and buffers. */
  addOwn(): void {
    this.#events.push(...this.#ownEvents);
    this.#buffers.push(...this.#ownBuffers);
  }

  /** Does a step. Returns whether a stream's work is done, if that was asked, and `"lost"` if the device is lost. */
  run(step: RandomStep): boolean | "lost" {
    let result = false;
    try {
      callAs(step.number, () => void (result = this.#run(step)));
    } catch (error) {
      checkLost(error);
      return "lost";
    }
    return result;
  }

  #run(step: RandomStep): boolean {
    const stream = this.#streams[step.stream]!;
    switch (step.do) {
      case "fill":
        this.#buffers[step.buffer]!.subarray(step.begin, step.end).fill(1, stream);
        break;
      // By addresses, so that the library does not know of the use.
      case "kernelFill":
        this.#fill.launch(
          { grid: 1, block: 32, stream },
          this.#buffers[step.buffer]!.address + BigInt(step.begin),
          step.end - step.begin,
          7,
        );
        break;
      case "read":
        this.#private().subarray(step.begin, step.end)
          .copyFrom(this.#buffers[step.buffer]!.subarray(step.begin, step.end), stream);
        break;
      case "kernelRead":
        this.#saxpy.launch(
          { grid: 1, block: 32, stream },
          (step.end - step.begin) / 4,
          2,
          this.#buffers[step.buffer]!.address + BigInt(step.begin),
          this.#private().address,
        );
        break;
      case "record":
        stream.record(this.#events[step.event]!);
        break;
      case "wait":
        stream.wait(this.#events[step.event]!);
        break;
      case "finishEvent":
        this.#events[step.event]!.synchronize();
        break;
      case "synchronize":
        stream.synchronize();
        break;
      case "synchronizeDevice":
        this.#gpu.synchronize();
        break;
      case "query":
        return stream.query();
      case "free":
        this.#buffers[step.buffer]!.free(stream);
    }
    return false;
  }

  /** Memory of its own: each read has another. */
  #private(): DeviceBuffer {
    return this.#stack.use(this.#gpu.allocate(bufferByteLength));
  }

  /** Waits for all work. */
  settle(): void {
    try {
      this.#gpu.synchronize();
    } catch (error) {
      checkLost(error);
    }
  }

  /** What was reported. */
  reports(): ReportedPair[] {
    return this.#reports.map(({ kind, message, accesses }) => {
      return { kind, message, steps: accesses.map(({ stack }) => stepOf(stack)).sort((a, b) => (a ?? -1) - (b ?? -1)) };
    });
  }

  [Symbol.dispose](): void {
    for (const buffer of this.#buffers) buffer[Symbol.dispose]();
    this.#stack.dispose();
  }
}

/** In some orders, memory is freed before a kernel runs. */
function checkLost(error: unknown): void {
  if (!(error instanceof CudaError) || error.code !== "cudaErrorIllegalAddress") throw error;
}
