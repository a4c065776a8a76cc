/**
 * Observes the calls of a driver, and the allocators that subdivide its memory.
 *
 * @module
 */
import { type CallEffects, type CallName, effectsOf } from "../../call_effects.ts";
import type { Driver, MemoryRange } from "../../driver.ts";
import type { UnfreedHeap } from "../../kernel_checker.ts";
import { type DriverMethod, intercept } from "../../driver_layers.ts";
import { type CallStack, captureCallStack, errorConstructor, frameCount } from "../reporting/call_stacks.ts";
import type { KernelOptions } from "../kernel_accesses/launch_accesses.ts";
import type { LiveAllocation } from "../leaks.ts";
import type { Reports } from "../reporting/reports.ts";
import { StreamOrder } from "../order/stream_order.ts";
import { copiesAndFills, ObservedDeviceMemory } from "./device_memory.ts";
import { ObservedHostMemory } from "./host_memory.ts";
import { ObservedKernels } from "./kernels.ts";
import { ObservedTextures } from "./textures.ts";
import type { CommunicatorRank, RankCall } from "./observed_communicators.ts";
import { ObservedGraphs } from "./observed_graphs.ts";
import { ObservedEvents, ObservedWork } from "./observed_events.ts";
import { ObservedStreams, type StreamHandle } from "./observed_streams.ts";

/** A memory range that a collective reads or writes. */
interface CollectiveAccess {
  readonly access: "read" | "write";
  readonly address: bigint;
  /** The size of the range in bytes. */
  readonly byteLength: number;
}

/** A collective that was enqueued on a stream. */
export interface CollectiveOnStream extends StreamHandle, RankCall {
  readonly name: string;
  /** The site in the program that called the collective. */
  readonly site: CallStack;
  readonly accesses: readonly CollectiveAccess[];
}

/** Observes all calls to a driver, and checks them for errors in the program. */
export class Observer {
  readonly work: ObservedWork;
  readonly #driver: Driver;
  readonly #reports: Reports;
  readonly #streams: ObservedStreams;
  readonly #events: ObservedEvents;
  readonly #hostMemory: ObservedHostMemory;
  readonly #graphs: ObservedGraphs;
  readonly #calls: Partial<Driver>;

  /**
   * @param reports receives the errors found
   * @param options how to find the accesses of kernels that the driver does not observe
   */
  constructor(driver: Driver, reports: Reports, options: KernelOptions = {}) {
    this.#driver = driver;
    this.#reports = reports;
    const reportsHostReads = options.withHostReads === true && driver.checker?.checks.has("initialization") === true;
    const order = new StreamOrder(reports, (operation, access) => streams.processes.onAccess(operation, access));
    const streams = this.#streams = new ObservedStreams({
      reports,
      order,
      beforeWait: () => kernels.collectInstrumented(),
      afterWait: (now) => hostMemory.compareBefore(now),
    });
    const work = this.work = new ObservedWork(order, streams);
    const hostMemory = this.#hostMemory = new ObservedHostMemory(driver, { reports, streams, work });
    const textures = new ObservedTextures(work, hostMemory);
    const kernels = new ObservedKernels(driver, options, { reports, work, hostMemory, textures });
    const events = this.#events = new ObservedEvents(streams, work);
    this.#graphs = new ObservedGraphs(driver, { streams, work, events, kernels, hostMemory, textures });
    this.#calls = {
      ...streams.calls(driver),
      ...this.#events.calls(driver),
      ...kernels.calls(),
      ...new ObservedDeviceMemory(streams, work).calls(driver),
      ...hostMemory.calls(),
      ...textures.calls(driver),
      ...this.#graphs.calls(),
      ...copiesAndFills(driver, { reports, streams, work, hostMemory, textures, reportsHostReads }),
    };
  }

  /** The names of the driver's calls that the observer wraps. */
  get observedCalls(): ReadonlySet<string> {
    return new Set(Object.keys(this.#calls));
  }

  /** Returns a layer over the driver that observes and forwards all calls, and delivers reports after each call. */
  layer(): Driver {
    const driver = this.#driver, reports = this.#reports, { work } = this;
    return intercept(driver, this.#calls, (name, method) => {
      const effects = effectsOf(name);
      const unobserved = driver[name as CallName] as DriverMethod;
      if (!isReported(effects)) {
        return (...parameters) => {
          if (this.#streams.isCaptured(effects, parameters)) return this.#graphs.capture(name, parameters, unobserved);
          try {
            return Reflect.apply(method, driver, parameters);
          } finally {
            reports.deliver();
          }
        };
      }
      return (...parameters) => {
        // Capture the stack here: a helper function would add a stack frame, which costs time.
        const limit = errorConstructor.stackTraceLimit;
        if (!(limit > frameCount)) errorConstructor.stackTraceLimit = frameCount;
        work.site = new Error();
        errorConstructor.stackTraceLimit = limit;
        if (this.#streams.isCaptured(effects, parameters)) return this.#graphs.capture(name, parameters, unobserved);
        try {
          return Reflect.apply(method, driver, parameters);
        } finally {
          reports.deliver();
        }
      };
    });
  }

  /**
   * Returns whether the program has learned, by its own wait or query, that the work before an event's record is
   * complete.
   */
  isKnown(event: bigint): boolean {
    return this.#events.isKnown(event);
  }

  /** Call when a rank of this process has joined a communicator. */
  onRankJoined(key: string, rank: number, size: number): CommunicatorRank {
    return this.#streams.communicators.join(key, rank, size);
  }

  /** Call when a rank has left its communicator and enqueues no more collectives. */
  onRankLeft(rank: CommunicatorRank): void {
    this.#streams.communicators.leave(rank);
  }

  /** Call when a group of collectives was enqueued. */
  onCollectives(collectives: readonly CollectiveOnStream[]): void {
    const add = (wanted: "read" | "write"): void => {
      for (const { name, site, device, stream, accesses } of collectives) {
        const ranges = accesses.filter(({ access }) => access === wanted);
        if (ranges.length === 0) continue;
        this.work.site = site;
        for (const { address, byteLength } of ranges) {
          if (wanted === "write") this.#hostMemory.beforeWrite(address, byteLength);
        }
        this.work.add(name, { device, stream }, ranges.map((range) => ({ ...range, address: Number(range.address) })));
      }
    };
    // A collective's result is ordered after all ranks' reads of the inputs, but not after other ranks' writes of
    // outputs.
    this.#streams.onCollectives(collectives, { read: () => add("read"), write: () => add("write") });
  }

  /** Call when an allocator has allocated a part of its memory to the program. */
  partAllocated({ device, stream }: StreamHandle, { address, byteLength }: MemoryRange): void {
    this.work.site = captureCallStack();
    this.#driver.checker?.partAllocated({ address, byteLength }, device, stream);
    this.work.allocated(this.work.next("allocate", device, stream), { address: Number(address), byteLength });
  }

  /** Call when the program has freed a part of an allocator's memory. */
  partFreed({ device, stream }: StreamHandle, address: bigint): void {
    this.work.site = captureCallStack();
    this.#driver.checker?.partFreed(address);
    this.work.freed(this.work.next("free", device, stream), Number(address));
  }

  /** Call when the program receives a buffer of page-locked memory. */
  onExposedToProgram(buffer: ArrayBufferLike): void {
    this.#hostMemory.onExposedToProgram(buffer);
  }

  /** Call when the library reads a view on the host. If the view's memory is page-locked, checks the read. */
  hostRead(view: Uint8Array, name: string): void {
    const accesses = this.#hostMemory.rangeOf("read", view);
    if (accesses.length === 0) return;
    this.work.site = captureCallStack();
    this.work.order.add({ operation: this.work.nextOfHost(name), accesses });
  }

  /** Returns the live allocation at an address, or the live allocation of a buffer of page-locked memory. */
  allocationAt(at: bigint | ArrayBufferLike): LiveAllocation | undefined {
    const address = typeof at === "bigint" ? Number(at) : this.#hostMemory.addressOf(at);
    return address === undefined ? undefined : this.work.liveAt(address);
  }

  /** Returns the memory blocks that kernels have allocated with the device function `malloc` and have not freed. */
  unfreedHeap(): readonly UnfreedHeap[] {
    return this.#driver.checker?.unfreedHeap() ?? [];
  }

  /** Reads the last records that other processes have published, and releases this process's slot in the shared records. */
  finish(): void {
    this.#streams.processes.read();
    this.#streams.processes.leave();
  }
}

/**
 * Returns whether reports may name the call site of a call. They may if the call affects memory, or enqueues work that
 * is not a wait.
 */
function isReported({ enqueues, memory }: CallEffects): boolean {
  return memory !== undefined || enqueues !== undefined && enqueues !== "wait";
}
