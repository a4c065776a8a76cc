/**
 * What programs of others are built from, who wrote them for the checks of their own tools: streams, events, and
 * operations that read or write a buffer.
 */
import {
  type Cuda,
  type CudaDevice,
  type CudaEvent,
  type CudaStream,
  type DeviceBuffer,
  type MemoryPool,
  open,
  type SanitizerReport,
} from "../../../mod.ts";

const byteLength = 1024;

/** A program's streams, events and buffers. Each is created when it is first named. */
export class StreamProgram {
  readonly gpu: CudaDevice;
  readonly pool: MemoryPool;
  readonly #streams = new Map<number, CudaStream>();
  readonly #events = new Map<number, CudaEvent>();
  readonly #buffers = new Map<number, DeviceBuffer>();
  readonly #copies: DeviceBuffer[] = [];

  constructor(cuda: Cuda) {
    this.gpu = cuda.device(0);
    this.pool = this.gpu.createPool();
  }

  /** A stream that only events and synchronization order. */
  stream(number: number): CudaStream {
    return created(this.#streams, number, () => this.gpu.createStream({ nonBlocking: true }));
  }

  /** A stream that the default stream orders, too. */
  blockingStream(number: number): CudaStream {
    return created(this.#streams, number, () => this.gpu.createStream());
  }

  event(number: number): CudaEvent {
    return created(this.#events, number, () => this.gpu.createEvent());
  }

  /** Destroys an event: the next one of that number is another one. */
  forgetEvent(number: number): void {
    this.#events.get(number)?.[Symbol.dispose]();
    this.#events.delete(number);
  }

  /** A buffer that all streams may use. */
  buffer(number: number): DeviceBuffer {
    return created(this.#buffers, number, () => {
      const buffer = this.pool.allocate(byteLength);
      buffer.fill(0);
      this.gpu.synchronize();
      return buffer;
    });
  }

  /** Creates buffers before the program begins, because that synchronizes. */
  prepare(buffers: number): void {
    for (let number = 0; number < buffers; number++) this.buffer(number);
  }

  read(stream: CudaStream, ...buffers: readonly number[]): void {
    for (const number of buffers) {
      const copy = this.pool.allocate(byteLength, stream);
      copy.copyFrom(this.buffer(number), stream);
      this.#copies.push(copy);
    }
  }

  write(stream: CudaStream, ...buffers: readonly number[]): void {
    for (const number of buffers) this.buffer(number).fill(1, stream);
  }

  record(event: number, stream: CudaStream): void {
    stream.record(this.event(event));
  }

  wait(event: number, stream: CudaStream): void {
    stream.wait(this.event(event));
  }

  /**
   * The program itself reads memory that both it and the device can access, at once: as a copy of a stream that comes
   * after what the program has waited for, and nothing else.
   */
  readByHost(buffer: number): void {
    this.read(this.gpu.createStream({ nonBlocking: true }), buffer);
  }

  /** Frees all that the program has not. */
  end(): void {
    this.gpu.synchronize();
    for (const buffer of [...this.#copies, ...this.#buffers.values()]) buffer[Symbol.dispose]();
    this.pool[Symbol.dispose]();
  }
}

/** Runs a program, in several orders of the device, and returns what was reported, which is the same in each. */
export async function reportsOf(
  program: (program: StreamProgram) => void | Promise<void>,
): Promise<SanitizerReport[]> {
  let first: SanitizerReport[] | undefined;
  for (const softwareSchedule of ["oldest", "newest", "random:1"] as const) {
    const reports: SanitizerReport[] = [];
    using cuda = open({
      driver: "software",
      softwareSchedule,
      sanitize: ["stream-order"],
      onReport: (report) => reports.push(report),
    });
    const state = new StreamProgram(cuda);
    state.prepare(3);
    await program(state);
    state.end();
    const kinds = (reports: readonly SanitizerReport[]) => reports.map(({ kind }) => kind).join();
    first ??= reports;
    if (kinds(first) !== kinds(reports)) throw new Error(`${softwareSchedule}: ${kinds(reports)}, not ${kinds(first)}`);
  }
  return first!;
}

function created<Value>(values: Map<number, Value>, number: number, create: () => Value): Value {
  let value = values.get(number);
  if (value === undefined) values.set(number, value = create());
  return value;
}
