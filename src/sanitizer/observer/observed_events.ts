/**
 * Events: their records and waits, which order streams.
 *
 * @module
 */
import { type Driver, eventFlags } from "../../driver.ts";
import type { CallSite } from "../reporting/call_sites.ts";
import { type Clock, type Point, Timeline } from "../order/timelines.ts";
import { isVisibleToProgram, type ObservedStreams } from "./observed_streams.ts";
import type { ObservedWork } from "./observed_work.ts";

/** An event, with the clock of its last record. */
interface ObservedEvent {
  /**
   * Whether other processes may wait for it, and then synchronize with this one by means that are not observed: what
   * comes before its records counts as before everything that this process enqueues afterwards.
   */
  readonly isInterprocess: boolean;
  /** Its handle in hexadecimal. Undefined if no other process has it. */
  handle?: string | undefined;
  /** Its last record on a stream. */
  record: Point | undefined;
  /** Where the program called that record. */
  recorded?: CallSite;
  /** The clock of its last record behind all streams of a device. */
  clock: Clock | undefined;
}

/** The events of a program. */
export class ObservedEvents {
  readonly #streams: ObservedStreams;
  readonly #work: ObservedWork;
  readonly #events = new Map<bigint, ObservedEvent>();

  constructor(streams: ObservedStreams, work: ObservedWork) {
    this.#streams = streams;
    this.#work = work;
  }

  /** The calls to make instead of the driver's own. */
  calls(driver: Driver): Partial<Driver> {
    return { ...this.#handleCalls(driver), ...this.#recordCalls(driver), ...this.#waitCalls(driver) };
  }

  /** Whether the host knows that the work before an event's last record is complete. */
  isKnown(event: bigint): boolean {
    const { record } = this.#eventOf(event);
    return record === undefined || this.#streams.isKnown(record);
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
    return {
      eventRecord: (device, event, stream) => {
        const observed = this.#eventOf(event);
        const record = this.#streams.next(device, stream);
        // Publish first: others can wait for the record as soon as it is made.
        if (observed.handle !== undefined) this.#publishEventRecord({ ...observed, record, clock: undefined });
        driver.eventRecord(device, event, stream);
        observed.record = record;
        observed.recorded = this.#work.site;
        observed.clock = undefined;
        if (observed.isInterprocess) this.#streams.assume(record);
      },
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
      streamWaitEvent: (device, stream, event) => {
        driver.streamWaitEvent(device, stream, event);
        this.#joinRecords(this.#streams.streamOf(device, stream), event);
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
    this.#joinRecords(this.#streams.host, event);
    this.#streams.afterHostSync();
  }

  /** Joins the clocks of an event's last records, here and in other processes, into a timeline's. */
  #joinRecords(timeline: Timeline, event: bigint): void {
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
