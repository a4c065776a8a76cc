/**
 * Observes the operations that a program enqueues, and the records and waits of events, which order streams.
 *
 * @module
 */
import type { CallStack } from "../reporting/call_stacks.ts";
import type { LiveAllocation } from "../leaks.ts";
import { type Clock, type Operation, type Point, Timeline } from "../order/timelines.ts";
import type { RangeAccess, SharedContents, StreamOrder } from "../order/stream_order.ts";
import { isVisibleToProgram, type ObservedStreams } from "./observed_streams.ts";
import { type Driver, eventFlags } from "../../driver.ts";

const none: readonly RangeAccess[] = [];

/** Creates operations of streams and of the host, and queues them for checking. */
export class ObservedWork {
  /** The call site in the program for the next operations. */
  site: CallStack = {};
  readonly order: StreamOrder;
  readonly #streams: ObservedStreams;
  /**
   * The live allocations, keyed by address. For a freed allocation, the value is undefined: the key stays, because
   * addresses are usually reused and deleting from a large map is slow.
   */
  readonly #live = new Map<number, LiveAllocation | undefined>();

  constructor(order: StreamOrder, streams: ObservedStreams) {
    this.order = order;
    this.#streams = streams;
  }

  /** Begins the next operation of a stream, and returns it. */
  next(name: string, device: number, stream: bigint): Operation {
    return this.#operation(name, this.#streams.next(device, stream));
  }

  /** Begins the next operation of the host, and returns it. */
  nextOfHost(name: string): Operation {
    return this.#operation(name, this.#streams.nextOfHost());
  }

  /** Queues a new operation of a stream that accesses memory, and returns the operation. */
  add(
    name: string,
    { device, stream }: { device: number; stream: bigint },
    accesses: readonly RangeAccess[],
  ): Operation {
    const operation = this.next(name, device, stream);
    this.order.add({ operation, accesses });
    return operation;
  }

  /**
   * Queues an operation that allocates or maps memory. `contents` returns the shadow state that the memory shares with
   * its other mappings.
   */
  allocated(
    operation: Operation,
    { address, byteLength }: { address: number; byteLength: number },
    contents?: () => SharedContents | undefined,
  ): void {
    this.#live.set(address, { operation, byteLength });
    this.order.add({ operation, allocates: { address, byteLength, contents }, accesses: none });
  }

  /** Queues an operation that frees the allocation at an address. */
  freed(operation: Operation, address: number): void {
    this.#live.set(address, undefined);
    this.order.add({ operation, frees: address, accesses: none });
  }

  /** Returns the live allocation that begins at an address. */
  liveAt(address: number): LiveAllocation | undefined {
    return this.#live.get(address);
  }

  #operation(name: string, { timeline, position, clock }: Point): Operation {
    const { processes: { sequence }, assumed } = this.#streams;
    return { name, site: this.site, sequence, assumed, timeline, position, clock };
  }
}

/** The state of an event: its last record, and whether other processes share it. */
interface ObservedEvent {
  /**
   * Whether other processes may wait for the event. They may then synchronize with this process in ways that cannot be
   * observed, so work before a record of the event is assumed to precede all operations enqueued after the record.
   */
  readonly isInterprocess: boolean;
  /** The event's handle in hexadecimal. Undefined if the event is not shared with other processes. */
  handle?: string | undefined;
  /**
   * The point in a stream at which the event was last recorded. Undefined if it was recorded on all streams of a
   * device.
   */
  record: Point | undefined;
  /** The call site in the program that last recorded the event. */
  recorded?: CallStack;
  /** The clock of the last record, if the event was recorded after the work of all streams of a device. */
  clock: Clock | undefined;
}

/** Observes the calls that create, record, share and wait for events. */
export class ObservedEvents {
  readonly #streams: ObservedStreams;
  readonly #work: ObservedWork;
  readonly #events = new Map<bigint, ObservedEvent>();

  constructor(streams: ObservedStreams, work: ObservedWork) {
    this.#streams = streams;
    this.#work = work;
  }

  /** Returns wrappers of the driver's event calls that observe and forward each call. */
  calls(driver: Driver): Partial<Driver> {
    return { ...this.#handleCalls(driver), ...this.#recordCalls(driver), ...this.#waitCalls(driver) };
  }

  /** Returns whether the work before an event's last record is ordered before the host's current point. */
  isKnown(event: bigint): boolean {
    const { record } = this.#eventOf(event);
    return record === undefined || this.#streams.isKnown(record);
  }

  /** Call when a graph was launched that records an event. */
  recorded(event: bigint, record: Point, site: CallStack): void {
    const observed = this.#eventOf(event);
    Object.assign(observed, { record, recorded: site, clock: undefined });
    this.#publishEventRecord(observed);
    if (observed.isInterprocess) this.#streams.assume(record);
  }

  #handleCalls(driver: Driver): Partial<Driver> {
    const { processes } = this.#streams;
    return {
      eventCreateWithFlags: (device, flags) => {
        const event = driver.eventCreateWithFlags(device, flags);
        const isInterprocess = (flags & eventFlags.interprocess) !== 0;
        this.#events.set(event, { isInterprocess, record: undefined, clock: undefined });
        return event;
      },
      ipcOpenEventHandle: (device, handle) => {
        const event = driver.ipcOpenEventHandle(device, handle);
        const shared = processes.shared(handle);
        this.#events.set(event, { isInterprocess: true, handle: shared, record: undefined, clock: undefined });
        return event;
      },
      ipcGetEventHandle: (event) => {
        const handle = driver.ipcGetEventHandle(event);
        const observed = this.#eventOf(event);
        if (observed.handle === undefined) {
          observed.handle = processes.shared(handle);
          this.#publishEventRecord(observed);
        }
        return handle;
      },
      eventDestroy: (device, event) => {
        driver.eventDestroy(device, event);
        this.#events.delete(event);
      },
    };
  }

  #recordCalls(driver: Driver): Partial<Driver> {
    const observe = (device: number, event: bigint, stream: bigint, recordEvent: () => void) => {
      const observed = this.#eventOf(event);
      const record = this.#streams.next(device, stream);
      // Publish before recording, because other processes may wait for the event as soon as it is recorded.
      if (observed.handle !== undefined) this.#publishEventRecord({ ...observed, record, clock: undefined });
      recordEvent();
      observed.record = record;
      observed.recorded = this.#work.site;
      observed.clock = undefined;
      if (observed.isInterprocess) this.#streams.assume(record);
    };
    return {
      eventRecord: (device, event, stream) =>
        observe(device, event, stream, () => driver.eventRecord(device, event, stream)),
      eventRecordWithFlags: (device, event, stream, flags) =>
        observe(device, event, stream, () => driver.eventRecordWithFlags(device, event, stream, flags)),
      ctxRecordEvent: (device, event) => {
        const all = new Timeline("all streams");
        for (const stream of this.#streams.allOf(device)) all.joinTimeline(stream);
        const observed = this.#eventOf(event);
        this.#publishEventRecord({ ...observed, record: undefined, clock: all.known() });
        driver.ctxRecordEvent(device, event);
        observed.record = undefined;
        observed.clock = all.known();
      },
    };
  }

  #waitCalls(driver: Driver): Partial<Driver> {
    return {
      streamWaitEvent: (device, stream, event, flags) => {
        driver.streamWaitEvent(device, stream, event, flags);
        if (this.#streams.joinsCapture(driver, device, stream)) return;
        this.joinRecords(this.#streams.streamOf(device, stream), event);
      },
      eventQuery: (event, options) => {
        const isDone = driver.eventQuery(event, options);
        if (isDone && isVisibleToProgram(options)) this.#syncHostWith(event);
        return isDone;
      },
      eventSynchronize: (event) => {
        driver.eventSynchronize(event);
        this.#syncHostWith(event);
      },
      eventElapsedTime: (start, end) => {
        const milliseconds = driver.eventElapsedTime(start, end);
        this.#syncHostWith(start);
        this.#syncHostWith(end);
        return milliseconds;
      },
    };
  }

  #eventOf(event: bigint): ObservedEvent {
    let observed = this.#events.get(event);
    if (observed === undefined) {
      this.#events.set(event, observed = { isInterprocess: false, record: undefined, clock: undefined });
    }
    return observed;
  }

  #syncHostWith(event: bigint): void {
    this.joinRecords(this.#streams.host, event);
    this.#streams.afterHostSync();
  }

  /** Joins the clocks of an event's last records, in this process and in others, into the clock of a timeline. */
  joinRecords(timeline: Timeline, event: bigint): void {
    const { record, recorded, clock, handle } = this.#eventOf(event);
    if (record !== undefined) {
      if (recorded !== undefined) timeline.recordWait(record, recorded);
      timeline.join(record.clock);
      timeline.joinPoint(record.timeline, record.position);
    }
    if (clock !== undefined) timeline.join(clock);
    if (handle === undefined) return;
    for (const other of this.#streams.processes.clocksOf(handle)) timeline.join(other);
  }

  #publishEventRecord({ handle, record, clock }: ObservedEvent): void {
    if (handle === undefined || record === undefined && clock === undefined) return;
    this.#streams.processes.recorded(handle, record === undefined ? [] : [record], record?.clock ?? clock!);
  }
}
