import { assert, assertEquals, assertThrows } from "@std/assert";
import type { CachingAllocator } from "../../../src/memory/caching/caching_allocator.ts";
import { type Cuda, sessionOf } from "../../../src/objects/cuda.ts";
import type { CudaEvent } from "../../../src/objects/streams/cuda_event.ts";
import type { CudaKernel } from "../../../src/objects/kernels/cuda_kernel.ts";
import type { CudaStream } from "../../../src/objects/streams/cuda_stream.ts";
import { allocationOf, type DeviceBuffer } from "../../../src/memory/device_buffer.ts";
import { CudaError } from "../../../src/support/errors.ts";
import type { MemoryPool } from "../../../src/memory/pools/memory_pool.ts";
import type { FakeDriver } from "./caching_fake_driver.ts";
import {
  AllocatorModel,
  type ModelledAllocator,
  type ModelledBuffer,
  pointsOf,
  roundedByteLength,
} from "./caching_model.ts";
import type { Observers } from "./caching_observed_driver.ts";
import type { Operation, TraceSettings, TraceState } from "./caching_operations.ts";
import type { OrderedStream, Point } from "./caching_stream_order.ts";
import type { Gate } from "../../support/gate.ts";

/** The environment that traces run in. */
export interface Bench {
  readonly cuda: Cuda;
  readonly observers: Observers;
  /** The driver if it is a fake. Otherwise the device computes, and the contents of buffers are checked. */
  readonly fake: FakeDriver | undefined;
  /** By device: memory for work that only takes time. `kernels` has a fill kernel for each device. */
  readonly scratch: readonly DeviceBuffer[];
  readonly kernels: readonly CudaKernel[];
  /** A stream for work that makes the software device advance the others. */
  readonly helper: CudaStream;
  readonly gate: Gate | undefined;
}

interface Stream {
  readonly id: number;
  readonly stream: CudaStream;
  readonly ordered: OrderedStream;
  /** Recorded when another stream must wait for this one, and finally before the stream is disposed. */
  readonly event: CudaEvent;
}

interface Buffer {
  readonly id: number;
  readonly byteLength: number;
  readonly buffer: DeviceBuffer;
  readonly allocator: Allocator;
  readonly modelled: ModelledBuffer;
  /** The stream on which it was allocated. */
  readonly stream: number;
  /** Its expected contents; undefined on a fake. */
  readonly bytes: Uint8Array | undefined;
  readonly letGo: (() => void)[];
  /** The stream on which it was freed while it was kept. */
  freedOn: Stream | undefined;
  onFreeCalls: number;
}

interface Allocator {
  readonly allocator: CachingAllocator;
  readonly modelled: ModelledAllocator;
}

const longestRead = 2 ** 20;

/** A running trace. An operation throws if it reveals an error. */
export class Trace implements TraceState {
  readonly #bench: Bench;
  readonly #settings: TraceSettings;
  readonly #model: AllocatorModel;
  readonly #pool: MemoryPool;
  readonly #allocators: readonly Allocator[];
  readonly #streams = new Map<number, Stream>();
  readonly #goneStreams: Stream[] = [];
  readonly #events = new Map<number, CudaEvent>();
  readonly #buffers = new Map<number, Buffer>();
  readonly #freed: Buffer[] = [];
  /** Promises of reads, each of which checks its bytes. */
  readonly #reads: Promise<void>[] = [];
  readonly #warnings: string[] = [];
  readonly #expectedWarnings: string[] = [];
  readonly #warn = console.warn;
  readonly #eventsBefore: ReadonlySet<bigint>;
  #isPoolDisposed = false;
  #fills = 0;

  constructor(bench: Bench, settings: TraceSettings) {
    const { cuda, observers, fake } = bench;
    this.#bench = bench;
    this.#settings = settings;
    this.#eventsBefore = new Set(observers.events.keys());
    this.#model = new AllocatorModel(observers.order, {
      poolMaxSize: settings.poolMaxSize === 0 ? Infinity : settings.poolMaxSize,
      isSeenDone: ({ device, handle }) => fake?.isSeenDone(device, handle) ?? false,
    });
    observers.model = this.#model;
    console.warn = (message: string) => this.#warnings.push(message);
    const options = { maxSize: settings.poolMaxSize };
    this.#pool = settings.isInHostMemory
      ? cuda.createHostPool({ ...options, numaNode: 0 })
      : cuda.device(0).createPool(options);
    if (fake === undefined) {
      const others = settings.isInHostMemory ? cuda.devices : cuda.devices.slice(1);
      this.#pool.setAccess(others, "read-write");
    }
    const { slabByteLength, maxSize, maxUnused } = settings;
    this.#allocators = Array.from({ length: settings.allocators }, (_, index) => ({
      allocator: this.#pool.createCachingAllocator({
        ...(slabByteLength === 0 ? {} : { slabByteLength }),
        maxSize,
        maxUnused,
      }),
      modelled: this.#model.newAllocator(`allocator ${index}`, {
        maxSize,
        maxUnused,
        mayDedicate: slabByteLength === 0,
      }),
    }));
    this.#addStream(0, cuda.device(0).defaultStream);
  }

  get buffers(): { readonly id: number; readonly byteLength: number; readonly stream: number }[] {
    return [...this.#buffers.values()].filter(({ freedOn }) => freedOn === undefined);
  }

  get kept(): number[] {
    return [...this.#buffers.values()].filter(({ letGo }) => letGo.length > 0).map(({ id }) => id);
  }

  get streams(): number[] {
    return [...this.#streams.keys()];
  }

  /** Runs an operation, unless it names a missing object, and checks the state afterwards. */
  do(operation: Operation): void {
    try {
      this.#do(operation);
    } finally {
      this.#model.end();
    }
    this.#check();
  }

  /** Frees and disposes everything, in the order of the settings, and checks that nothing is left. */
  async finish(): Promise<void> {
    const { cuda, fake, gate, observers } = this.#bench;
    const { ending } = this.#settings;
    gate?.open();
    if (fake !== undefined) fake.late = "none";
    if (ending === "session") return this.#endSession();
    if (ending === "pool") this.do({ do: "dispose pool" });
    if (ending === "allocators") this.#disposeAllocators();
    for (const buffer of [...this.#buffers.values()]) this.#freeCompletely(buffer);
    this.#disposeAllocators();
    for (const device of cuda.devices) device.synchronize();
    if (!this.#isPoolDisposed) {
      assertEquals(this.#pool.usage().used, 0);
      this.do({ do: "dispose pool" });
    }
    fake?.finish();
    await Promise.all(this.#reads);
    for (const id of this.streams) this.do({ do: "dispose stream", stream: id });
    this.#disposeEvents();
    // Streams that were busy when they were disposed have left events behind their work.
    for (const device of cuda.devices) device.synchronize();
    fake?.finish();
    sessionOf(cuda).releaseCompleted();
    const left = [...observers.events].filter(([event, kind]) => !this.#eventsBefore.has(event) && !isKept(kind));
    assertEquals(left.map(([, kind]) => kind), [], "events were not destroyed");
  }

  /** Disposes what a failed trace left. */
  async abandon(): Promise<void> {
    const { cuda, fake, gate } = this.#bench;
    gate?.open();
    fake?.finish();
    if (fake === undefined) { for (const device of cuda.devices) device.synchronize(); }
    await Promise.allSettled(this.#reads);
    if (fake !== undefined) return;
    const gone = [
      ...[...this.#buffers.values()].map(({ buffer }) => buffer),
      this.#pool,
      ...[...this.#streams.values()].map(({ stream }) => stream),
    ];
    for (const each of gone) {
      try {
        each[Symbol.dispose]();
      } catch {
        // The first error is the one to report.
      }
    }
    this.#disposeEvents();
  }

  /** Restores the environment, whether or not the trace failed. */
  close(): void {
    console.warn = this.#warn;
    this.#bench.observers.model = undefined;
  }

  #disposeEvents(): void {
    for (const { event } of [...this.#streams.values(), ...this.#goneStreams]) event[Symbol.dispose]();
    for (const event of this.#events.values()) event[Symbol.dispose]();
  }

  #check(): void {
    for (const { allocator, modelled } of this.#allocators) this.#model.checkUsage(modelled, allocator.usage());
    if (this.#model.violation !== undefined) throw new Error(this.#model.violation);
    assertEquals(this.#warnings, []);
  }

  #do(operation: Operation): void {
    switch (operation.do) {
      case "allocate":
        return this.#allocate(operation);
      case "fill":
        return this.#fill(operation);
      case "copy":
        return this.#copy(operation);
      case "read": {
        const stream = this.#streams.get(operation.stream);
        const buffer = this.#usable(operation.buffer);
        return stream && buffer && this.#read(buffer, stream);
      }
      case "keep":
        return this.#keep(operation.buffer);
      case "let go":
        return this.#letGo(operation.buffer);
      case "free":
        return this.#free(operation);
      case "create stream": {
        const nonBlocking = operation.stream % 3 !== 0;
        return this.#addStream(
          operation.stream,
          this.#bench.cuda.device(operation.device).createStream({ nonBlocking }),
        );
      }
      case "dispose stream":
        return this.#disposeStream(operation.stream);
      case "trim":
        return this.#trim(operation);
      case "reset high": {
        const { allocator, modelled } = this.#allocators[operation.allocator]!;
        allocator.resetHigh();
        modelled.reservedHigh = modelled.reserved;
        modelled.usedHigh = modelled.used;
        return;
      }
      case "misuse":
        return this.#misuse(operation);
      case "dispose allocator":
        return this.#disposeAllocator(this.#allocators[operation.allocator]!);
      case "dispose pool":
        return this.#disposePool();
      case "record": {
        const stream = this.#streams.get(operation.stream);
        if (stream === undefined || stream.stream.device.ordinal !== 0) return;
        let event = this.#events.get(operation.event);
        if (event === undefined) this.#events.set(operation.event, event = stream.stream.device.createEvent());
        return stream.stream.record(event);
      }
      case "wait": {
        const event = this.#events.get(operation.event);
        return event && this.#streams.get(operation.stream)?.stream.wait(event);
      }
      case "answer late":
        if (this.#bench.fake !== undefined) this.#bench.fake.late = operation.late;
        return;
      case "open":
        return this.#bench.gate?.open();
      default: {
        const stream = this.#streams.get(operation.stream);
        if (stream !== undefined) this.#doOnStream(operation, stream.stream);
      }
    }
  }

  #doOnStream(operation: Operation, stream: CudaStream): void {
    const { fake, gate, helper, scratch } = this.#bench;
    switch (operation.do) {
      case "delay":
        for (let left = operation.works; left > 0; left--) scratch[stream.device.ordinal]!.fill(left, stream);
        return;
      case "hold":
        if (stream.device.ordinal === 0 && stream.unsafeHandle !== 0n) gate?.hold(stream);
        return;
      case "query":
        return void stream.query();
      case "synchronize":
        gate?.open();
        return stream.synchronize();
      case "progress":
        if (fake !== undefined) return fake.progress(stream.device.ordinal, stream.unsafeHandle, operation.steps);
        for (let left = operation.steps; left > 0; left--) scratch[0]!.fill(left, helper);
        return helper.synchronize();
    }
  }

  #addStream(id: number, stream: CudaStream): void {
    const ordered = this.#bench.observers.order.stream(stream.device.ordinal, stream.unsafeHandle);
    this.#streams.set(id, { id, stream, ordered, event: stream.device.createEvent() });
  }

  #usable(id: number): Buffer | undefined {
    const buffer = this.#buffers.get(id);
    return buffer?.freedOn === undefined ? buffer : undefined;
  }

  #orderedOf(stream: CudaStream): OrderedStream {
    return [...this.#streams.values(), ...this.#goneStreams].find((other) => other.stream === stream)!.ordered;
  }

  /** Makes a stream wait for points of other streams, as a program must. */
  #orderBehind({ stream, ordered }: Stream, points: readonly Point[]): void {
    const { order } = this.#bench.observers;
    for (const point of points) {
      if (order.isBefore(point, ordered)) continue;
      const living = [...this.#streams.values()].find((other) => other.ordered === point.stream);
      const event = living?.event ?? this.#goneStreams.find((other) => other.ordered === point.stream)!.event;
      living?.stream.record(event);
      stream.wait(event);
    }
  }

  /**
   * The points that a stream must wait for before it uses a buffer; if contents are checked, all other uses as well.
   */
  #usesOf({ modelled: { allocated, uses, reads }, bytes }: Buffer): Point[] {
    return bytes === undefined ? [allocated] : [allocated, ...pointsOf(uses), ...pointsOf(reads)];
  }

  #allocate(operation: Operation & { do: "allocate" }): void {
    const stream = this.#streams.get(operation.stream);
    if (stream === undefined) return;
    const { byteLength, isArray } = operation;
    const { allocator, modelled } = this.#allocators[operation.allocator]!;
    const allocate = () =>
      isArray
        ? allocator.allocateArray(Uint8Array, byteLength, stream.stream)
        : allocator.allocate(byteLength, stream.stream);
    if (modelled.isDisposed) return void assertThrows(allocate, ReferenceError, "it was disposed");
    const request = { byteLength: roundedByteLength(byteLength), stream: stream.ordered };
    this.#model.begin({ kind: "allocate", allocator: modelled, request });
    const predicted = this.#model.mustBeFree();
    let buffer: DeviceBuffer;
    try {
      buffer = allocate();
    } catch (error) {
      if (!(error instanceof CudaError && error.code === "cudaErrorMemoryAllocation")) throw error;
      return this.#model.refused();
    }
    const name = `buffer ${operation.buffer}`;
    const entry: Buffer = {
      id: operation.buffer,
      byteLength,
      buffer,
      allocator: { allocator, modelled },
      modelled: this.#model.allocated(name, Number(buffer.address), predicted),
      stream: stream.id,
      bytes: this.#bench.fake === undefined ? new Uint8Array(byteLength) : undefined,
      letGo: [],
      freedOn: undefined,
      onFreeCalls: 0,
    };
    this.#buffers.set(operation.buffer, entry);
    this.#model.end();
    if (this.#model.violation !== undefined) return;
    assertEquals([buffer.byteLength, buffer.pool, buffer.stream], [byteLength, this.#pool, stream.stream]);
    const { slab, byteOffset } = allocator.slabOf(buffer);
    assertEquals(slab.address + BigInt(byteOffset), buffer.address);
    if (entry.bytes === undefined) return;
    this.#fill({ do: "fill", buffer: entry.id, stream: stream.id, begin: 0, end: byteLength, byKernel: false });
  }

  #fill({ buffer: id, stream: streamId, begin, end, byKernel }: Operation & { do: "fill" }): void {
    const entry = this.#usable(id);
    const stream = this.#streams.get(streamId);
    if (entry === undefined || stream === undefined) return;
    const byte = ++this.#fills * 37 % 251;
    this.#orderBehind(stream, this.#usesOf(entry));
    const part = entry.buffer.subarray(begin, end);
    const kernel = this.#bench.kernels[stream.stream.device.ordinal];
    if (byKernel && kernel !== undefined && end > begin && begin % 4 === 0) {
      kernel.launch(
        { grid: 1, block: 64, stream: stream.stream },
        part,
        end - begin,
        Math.imul(byte, 0x01010101) >>> 0,
      );
      this.#model.used(part.address, end - begin, stream.ordered);
    } else {
      part.fill(byte, stream.stream);
    }
    part[Symbol.dispose]();
    entry.bytes?.fill(byte, begin, end);
  }

  #copy({ from: fromId, to: toId, stream: streamId }: Operation & { do: "copy" }): void {
    const from = this.#usable(fromId);
    const to = this.#usable(toId);
    const stream = this.#streams.get(streamId);
    if (from === undefined || to === undefined || from === to || stream === undefined) return;
    this.#orderBehind(stream, [...this.#usesOf(from), ...this.#usesOf(to)]);
    const length = Math.min(from.byteLength, to.byteLength);
    from.buffer.subarray(0, length).copyTo(to.buffer, stream.stream);
    if (from.bytes !== undefined) to.bytes!.set(from.bytes.subarray(0, length));
  }

  #read(entry: Buffer, stream: Stream): void {
    if (entry.byteLength > longestRead) return;
    this.#orderBehind(stream, this.#usesOf(entry));
    this.#model.begin({ kind: "read" });
    const expected = entry.bytes?.slice();
    const { id } = entry;
    const check = (bytes: Uint8Array) => {
      if (expected === undefined) return;
      const wrong = bytes.findIndex((byte, index) => byte !== expected[index]);
      assert(wrong < 0, `buffer ${id} has ${bytes[wrong]} at ${wrong} where it should have ${expected[wrong]}`);
    };
    const read = entry.buffer.read(Uint8Array, { stream: stream.stream }).then(check);
    // It is awaited at the end of the trace.
    read.catch(() => {});
    this.#reads.push(read);
    this.#model.end();
  }

  #keep(id: number): void {
    const entry = this.#usable(id);
    entry?.letGo.push(allocationOf(entry.buffer).keep(() => entry.onFreeCalls++));
  }

  #letGo(id: number): void {
    const entry = this.#buffers.get(id);
    const letGo = entry?.letGo.pop();
    if (entry === undefined || letGo === undefined) return;
    const { freedOn, modelled, buffer } = entry;
    const { defaultStream } = buffer.device;
    const stream = freedOn?.stream.disposed
      ? this.#bench.observers.order.stream(defaultStream.device.ordinal, 0n)
      : freedOn?.ordered;
    const { modelled: allocator } = entry.allocator;
    this.#model.begin({
      kind: "free",
      allocator,
      buffer: modelled,
      ...(stream === undefined ? {} : { freedOn: stream }),
    });
    letGo();
    letGo();
    if (entry.letGo.length > 0 || stream === undefined) return;
    this.#model.released(modelled, stream, { mustBeSilent: false });
    this.#removeBuffer(entry);
  }

  #free({ buffer: id, stream: streamId, byDispose, isUnordered }: Operation & { do: "free" }): void {
    const entry = this.#usable(id);
    const stream = this.#streams.get(streamId);
    if (entry === undefined || stream === undefined) return;
    const { buffer, modelled, allocator, letGo } = entry;
    // The library waits for uses on other streams than the buffer's own, unless the free is on another one, too.
    const own = this.#orderedOf(buffer.stream);
    const uses = pointsOf(modelled.uses).filter((point) => !isUnordered || point.stream === own);
    this.#orderBehind(stream, [modelled.allocated, ...uses]);
    if (entry.bytes !== undefined && !isUnordered) this.#read(entry, stream);
    this.#model.begin({ kind: "free", allocator: allocator.modelled, buffer: modelled, freedOn: stream.ordered });
    if (byDispose) {
      buffer.stream = stream.stream;
      buffer[Symbol.dispose]();
      buffer[Symbol.dispose]();
    } else {
      buffer.free(stream.stream);
    }
    if (letGo.length > 0) {
      entry.freedOn = stream;
      modelled.isAwaitingRelease = true;
      assertEquals(entry.onFreeCalls, letGo.length);
      return;
    }
    const users = [...[...modelled.uses.keys()].filter((user) => user !== own), ...modelled.reads.keys()];
    const isUsedElsewhere = users.some((user) => user !== stream.ordered);
    const mustBeSilent = !isUsedElsewhere && !allocator.modelled.isDisposed && this.#settings.maxUnused === Infinity;
    this.#model.released(modelled, stream.ordered, { mustBeSilent });
    this.#removeBuffer(entry);
  }

  #removeBuffer(entry: Buffer): void {
    this.#buffers.delete(entry.id);
    this.#freed.push(entry);
  }

  #disposeStream(id: number): void {
    const entry = this.#streams.get(id);
    if (entry === undefined || entry.stream.unsafeHandle === 0n) return;
    entry.stream.record(entry.event);
    this.#model.begin({ kind: "disposeStream" });
    entry.stream[Symbol.dispose]();
    this.#model.end();
    this.#streams.delete(id);
    this.#goneStreams.push(entry);
  }

  #trim({ allocator: index, byteLength }: Operation & { do: "trim" }): void {
    const { allocator, modelled } = this.#allocators[index]!;
    if (modelled.isDisposed) return void assertThrows(() => allocator.trimTo(0), ReferenceError, "it was disposed");
    this.#model.begin({ kind: "trim", allocator: modelled, keep: byteLength });
    allocator.trimTo(byteLength);
    this.#model.trimmed();
  }

  /** Makes calls that must be refused and change nothing. */
  #misuse({ buffer: id, allocator: index, stream: streamId }: Operation & { do: "misuse" }): void {
    const { allocator, modelled } = this.#allocators[index]!;
    const stream = this.#streams.get(streamId)?.stream;
    const gone = this.#goneStreams.at(-1)?.stream;
    if (stream === undefined || modelled.isDisposed) return;
    this.#model.begin({ kind: "misuse", allocator: modelled });
    if (gone !== undefined) assertThrows(() => allocator.allocate(1, gone), ReferenceError, "it was disposed");
    for (const byteLength of [0, -1, 1.5, NaN, 2 ** 60]) {
      assertThrows(() => allocator.allocate(byteLength, stream), RangeError);
    }
    assertThrows(() => allocator.allocate(2 ** 40, stream), CudaError, "Cannot allocate 1099511627776 bytes");
    assertThrows(() => allocator.trimTo(-1), RangeError);
    const freed = this.#freed.at(-1)?.buffer;
    if (freed !== undefined) {
      assertThrows(() => freed.free(stream), ReferenceError, "it was freed");
      freed[Symbol.dispose]();
    }
    const buffer = this.#usable(id)?.buffer;
    if (buffer === undefined) return;
    if (gone !== undefined) assertThrows(() => buffer.free(gone), ReferenceError, "it was disposed");
    assertThrows(() => buffer.subarray(0).free(stream), TypeError, "free the whole");
    const owner = this.#usable(id)!.allocator.allocator;
    assertThrows(() => owner.slabOf(buffer).slab.free(stream), TypeError, "slab of an allocator");
    owner.slabOf(buffer).slab[Symbol.dispose]();
  }

  #disposeAllocators(): void {
    for (const index of this.#allocators.keys()) this.do({ do: "dispose allocator", allocator: index });
  }

  #disposeAllocator({ allocator, modelled }: Allocator): void {
    this.#bench.gate?.open();
    this.#expectDisposalWarning(modelled);
    this.#model.begin({ kind: "dispose", allocator: modelled });
    allocator[Symbol.dispose]();
    this.#checkWarnings();
  }

  #disposePool(): void {
    if (this.#isPoolDisposed) return;
    this.#bench.gate?.open();
    for (const { modelled } of this.#allocators) this.#expectDisposalWarning(modelled);
    this.#model.begin({ kind: "dispose" });
    this.#pool[Symbol.dispose]();
    this.#isPoolDisposed = true;
    this.#checkWarnings();
  }

  #expectDisposalWarning(modelled: ModelledAllocator): void {
    if (modelled.isDisposed) return;
    modelled.isDisposed = true;
    const leaked = leakedBy(modelled);
    if (leaked.length === 0) return;
    const bytes = bytesOf(leaked);
    const buffers = leaked.length === 1 ? "1 buffer was" : `${leaked.length} buffers were`;
    const place = this.#settings.isInHostMemory ? "in host memory" : "on device 0";
    this.#expectedWarnings.push(
      `poolpass: ${buffers} not freed before the allocator ${place} was disposed, ${bytes} bytes`,
    );
  }

  #checkWarnings(): void {
    assertEquals(this.#warnings.splice(0), this.#expectedWarnings.splice(0));
  }

  #freeCompletely({ id, stream }: Buffer): void {
    const on = this.#streams.has(stream) ? stream : 0;
    this.do({ do: "free", buffer: id, stream: on, byDispose: false, isUnordered: false });
    while (this.#buffers.has(id)) this.do({ do: "let go", buffer: id });
  }

  /** Ends the session first. After that nothing can be used, but disposing and releasing do not throw. */
  async #endSession(): Promise<void> {
    const { cuda, fake, observers, scratch } = this.#bench;
    this.#model.begin({ kind: "dispose" });
    for (const buffer of scratch) buffer.free();
    fake!.finish();
    const leaked = this.#allocators.filter(({ modelled }) => !modelled.isDisposed)
      .flatMap(({ modelled }) => leakedBy(modelled));
    if (leaked.length > 0) {
      const buffers = `${leaked.length} buffer${leaked.length === 1 ? "" : "s"} (${bytesOf(leaked)} bytes)`;
      this.#expectedWarnings.push(`poolpass: ${buffers} not freed before the Cuda object was disposed`);
    }
    cuda[Symbol.dispose]();
    this.#checkWarnings();
    for (const { buffer, letGo } of this.#buffers.values()) {
      buffer.stream = this.#streams.get(0)!.stream;
      buffer[Symbol.dispose]();
      for (const each of letGo) each();
    }
    for (const { allocator } of this.#allocators) allocator[Symbol.dispose]();
    this.#pool[Symbol.dispose]();
    for (const { stream, event } of [...this.#streams.values(), ...this.#goneStreams]) {
      stream[Symbol.dispose]();
      event[Symbol.dispose]();
    }
    assertEquals([...observers.events.values()].filter((kind) => kind !== "application"), []);
    await Promise.allSettled(this.#reads);
    assertEquals(this.#warnings, []);
  }
}

/** The buffers of an allocator that were not freed. */
function leakedBy({ slabs }: ModelledAllocator) {
  return [...slabs].flatMap(({ buffers }) => [...buffers]).filter(({ isAwaitingRelease }) => !isAwaitingRelease);
}

function bytesOf(buffers: readonly { readonly begin: number; readonly end: number }[]): number {
  return buffers.reduce((sum, { begin, end }) => sum + end - begin, 0);
}

/** Whether an event belongs to the library and stays until the session ends. */
function isKept(kind: string): boolean {
  return kind === "read" || kind === "disposeStream" || kind === "free";
}
