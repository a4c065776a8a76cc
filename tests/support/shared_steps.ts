/**
 * Programs of two processes that share a buffer, step by step: each step is done by one of them, and the next one is not
 * begun before its call has returned.
 *
 * @module
 */
import { closeDescriptor, describeDescriptor, openDescriptor, writeAt } from "../../ffi/native/shim/descriptors.ts";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { ptx as saxpyPtx } from "../../kernels/saxpy.ts";
import {
  Communicator,
  type Cuda,
  type CudaDevice,
  CudaError,
  type CudaEvent,
  type CudaKernel,
  type CudaStream,
  type DeviceBuffer,
  open,
  type OpenOptions,
  type PhysicalMemory,
  type SanitizerReport,
  type ShareableHandle,
  type UnixSocket,
} from "../../mod.ts";

/** The two processes. */
export type Side = "exporter" | "importer";

/** How the memory is shared. */
export type Sharing = "pool" | "legacy" | "virtual";

/** What a process does with the buffer. */
export type Action = "copyFrom" | "fill" | "copyIn" | "copyOut" | "kernelFill" | "kernelSaxpy";

/** A step of a program. Streams and events are numbered; each process has some of both, and can open the other's events. */
export type Step =
  | readonly [side: Side, action: Action, stream: number]
  // With a buffer that the other process does not have.
  | readonly [side: Side, action: "fillOwn" | "kernelFillOwn", stream: number]
  | readonly [side: Side, action: "record" | "waitOwn" | "waitOther", stream: number, event: number]
  | readonly [side: Side, action: "synchronize" | "finished", stream: number]
  | readonly [side: Side, action: "finishedOther", event: number]
  | readonly [side: Side, action: "synchronizeDevice" | "free"]
  /** Of both processes, which have joined a communicator before. */
  | readonly [side: Side, action: "collective", stream: number];

/** What the importer needs. */
export interface Shared {
  readonly sharing: Sharing;
  /** In hexadecimal. Empty if the handle is all that it takes. */
  readonly memory: string;
  readonly events: readonly string[];
}

export const streamCount = 3;
export const eventCount = 2;
const elements = 256;
const byteLength = 4 * elements;
/** The granularity of virtual memory. */
const unit = 2 ** 21;

/** One of the two processes. */
export class Participant implements Disposable {
  readonly reports: SanitizerReport[] = [];
  readonly #cuda: Cuda;
  readonly #gpu: CudaDevice;
  readonly #streams: CudaStream[];
  readonly #events: CudaEvent[];
  #others: CudaEvent[] = [];
  readonly #own: DeviceBuffer;
  #communicator: Communicator | undefined;
  readonly #fill: CudaKernel;
  readonly #saxpy: CudaKernel;
  #shared: DeviceBuffer | undefined;
  /** What is freed, if that is larger. */
  #whole: DeviceBuffer | undefined;
  readonly #stack = new DisposableStack();

  constructor(driver: "software" | "cuda", softwareSchedule: OpenOptions["softwareSchedule"]) {
    this.#cuda = this.#stack.use(open({
      driver,
      sanitize: ["stream-order"],
      onReport: (report) => this.reports.push(report),
      ...softwareSchedule === undefined ? {} : { softwareSchedule },
    }));
    this.#gpu = this.#cuda.device(0);
    this.#streams = Array.from({ length: streamCount }, () => this.#gpu.createStream({ nonBlocking: true }));
    this.#events = Array.from({ length: eventCount }, () => this.#gpu.createEvent({ interprocess: true }));
    this.#own = this.#stack.use(this.#gpu.allocate(byteLength));
    this.#own.fill(0);
    this.#fill = this.#gpu.loadModule(fillPtx).kernel("fill");
    this.#saxpy = this.#gpu.loadModule(saxpyPtx).kernel("saxpy");
    this.#gpu.synchronize();
  }

  get events(): string[] {
    return this.#events.map((event) => event.exportHandle().toHex());
  }

  /** Shares a buffer. */
  share(sharing: Sharing): { shared: Shared; handle: ShareableHandle | undefined } {
    let handle: ShareableHandle | undefined;
    let memory: Uint8Array;
    if (sharing === "pool") {
      const pool = this.#stack.use(this.#gpu.createPool({ handleType: "posix-fd" }));
      this.#shared = pool.allocate(byteLength, this.#streams[0]!);
      handle = this.#stack.use(pool.exportHandle() as ShareableHandle);
      memory = this.#shared.exportPointer();
    } else if (sharing === "virtual") {
      const physical = this.#stack.use(this.#gpu.createMemory(byteLength, { handleType: "posix-fd" }));
      handle = this.#stack.use(physical.exportHandle());
      memory = new Uint8Array();
      this.#mapVirtual(physical);
    } else {
      this.#shared = this.#gpu.allocate(byteLength);
      memory = this.#shared.exportHandle();
    }
    this.#shared!.fill(0);
    this.#gpu.synchronize();
    return { shared: { sharing, memory: memory.toHex(), events: this.events }, handle };
  }

  /** Maps the buffer of the other process. */
  map({ sharing, memory, events }: Shared, handle: ShareableHandle | undefined): void {
    const bytes = Uint8Array.fromHex(memory);
    if (sharing === "pool") {
      const pool = this.#stack.use(this.#gpu.importPool(handle!));
      this.#shared = pool.importPointer(bytes, byteLength);
    } else if (sharing === "virtual") {
      // Memory has whole units.
      this.#mapVirtual(this.#stack.use(this.#gpu.importMemory(handle!, unit)));
    } else {
      this.#shared = this.#gpu.openMemory(bytes, byteLength);
    }
    this.openEvents(events);
  }

  #mapVirtual(physical: PhysicalMemory): void {
    const range = this.#stack.use(this.#cuda.reserveAddresses(physical.byteLength));
    this.#whole = range.map(physical);
    this.#shared = this.#whole.subarray(0, byteLength);
  }

  /** Opens the events of the other process. */
  openEvents(events: readonly string[]): void {
    this.#others = events.map((event) => this.#gpu.openEvent(Uint8Array.fromHex(event)));
  }

  /** Joins a communicator of both processes. Returns when the other one has, too. */
  async join(id: Uint8Array, rank: number): Promise<void> {
    this.#communicator = await Communicator.create(this.#gpu, { id, rank, size: 2 });
  }

  /** The id of a communicator. */
  createId(): Uint8Array {
    return Communicator.createId(this.#cuda);
  }

  /** Leaves the communicator. */
  async leave(): Promise<void> {
    await this.#communicator?.[Symbol.asyncDispose]();
    this.#communicator = undefined;
  }

  /** Does a step. */
  async run([, action, first = 0, event = 0]: Step): Promise<void> {
    const stream = this.#streams[first]!;
    const x = this.#shared!;
    const launch = { grid: 1, block: elements, stream };
    switch (action) {
      case "copyFrom":
        return x.copyFrom(new Uint8Array(byteLength), stream);
      case "fill":
        return x.fill(1, stream);
      case "copyIn":
        // The private buffer is used by one stream at a time.
        return x.subarray(0, 512).copyFrom(this.#own.subarray(512 * (first % 2), 512 * (first % 2) + 512), stream);
      case "copyOut":
        return this.#private().copyFrom(x, stream);
      // By addresses, so that the library does not know of the use.
      case "kernelFill":
        return this.#fill.launch(launch, x.address, elements, 7);
      case "kernelSaxpy":
        return this.#saxpy.launch(launch, elements, 2, x.address, this.#private().address);
      case "fillOwn":
        return this.#own.fill(0, stream);
      case "kernelFillOwn":
        return this.#fill.launch(launch, this.#own.address, elements, 7);
      case "record":
        return stream.record(this.#events[event]!);
      case "waitOwn":
        return stream.wait(this.#events[event]!);
      case "waitOther":
        return stream.wait(this.#others[event]!);
      case "synchronize":
        return stream.synchronize();
      case "finished":
        return await stream.finished();
      case "collective":
        return this.#communicator!.allReduce(
          this.#own.as(Uint32Array).subarray(0, 1),
          this.#own.as(Uint32Array).subarray(0, 1),
          "sum",
          { stream },
        );
      case "finishedOther":
        return await this.#others[first]!.finished();
      case "synchronizeDevice":
        return this.#gpu.synchronize();
      case "free":
        return (this.#whole ?? x).free(this.#streams[0]!);
    }
  }

  /**
   * Does steps while the kernels that they launch wait: the host does nothing else meanwhile. Between two parts, it
   * writes a byte to a file and waits until the other process has answered with another one.
   */
  runWithoutTurns(file: string, parts: readonly (readonly Step[])[]): void {
    const descriptor = openDescriptor(file, { writable: true });
    for (const [index, steps] of parts.entries()) {
      if (index > 0) {
        writeAt(descriptor, Uint8Array.of(1), { offset: 2 * index - 2 });
        while (describeDescriptor(descriptor).byteLength < 2 * index);
      }
      for (const step of steps) void this.run(step);
    }
    closeDescriptor(descriptor);
  }

  #private(): DeviceBuffer {
    return this.#stack.use(this.#gpu.allocate(byteLength));
  }

  /** Waits for all work. */
  settle(): void {
    try {
      this.#gpu.synchronize();
    } catch (error) {
      // In some orders, memory is freed before a kernel runs.
      if (!(error instanceof CudaError) || error.code !== "cudaErrorIllegalAddress") throw error;
    }
  }

  [Symbol.dispose](): void {
    (this.#whole ?? this.#shared)?.[Symbol.dispose]();
    this.#stack.dispose();
  }
}

/** Sends a message. */
export async function send(socket: UnixSocket, message: unknown, handle?: ShareableHandle): Promise<void> {
  const body = new TextEncoder().encode(JSON.stringify(message));
  const handles = handle === undefined ? [] : [handle];
  await socket.send(new Uint8Array(new Uint32Array([body.length, handles.length]).buffer));
  await socket.send(body, { handles });
}

/** Receives a message. */
export async function receive(socket: UnixSocket): Promise<{ message: unknown; handle: ShareableHandle | undefined }> {
  const header = await socket.receive(8);
  const [byteLength, count] = new Uint32Array(header.bytes.slice().buffer);
  const { bytes, handles } = await socket.receive(byteLength!, { handles: count! });
  return { message: JSON.parse(new TextDecoder().decode(bytes)), handle: handles[0] };
}
