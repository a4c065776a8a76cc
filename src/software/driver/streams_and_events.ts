/**
 * The driver calls about streams and events.
 *
 * @module
 */
import { type Driver, eventFlags, externalEvent, graphNodeType, streamFlags } from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import { Event, Stream, Work } from "../execution/streams.ts";
import type { GraphOperation } from "../execution/software_graph.ts";
import { fail } from "../failure.ts";
import { InterprocessEvent } from "../ipc/interprocess_event.ts";
import type { DriverCore } from "./core.ts";

/** The range of stream priorities of an H200. The software device ignores priorities. */
const streamPriorities = { least: 0, greatest: -5 } as const;

/** The driver calls that manage streams and events. */
type StreamCalls = Pick<
  Driver,
  | "deviceGetStreamPriorityRange"
  | "streamCreateWithPriority"
  | "streamDestroy"
  | "streamQuery"
  | "streamSynchronize"
  | "streamWaitEvent"
  | "streamDescribeKernel"
  | "streamGetFlags"
  | "streamGetPriority"
  | "streamGetDevice"
  | "eventCreateWithFlags"
  | "eventDestroy"
  | "eventRecord"
  | "eventRecordWithFlags"
  | "ctxRecordEvent"
  | "eventQuery"
  | "eventSynchronize"
  | "eventElapsedTime"
  | "ipcGetEventHandle"
  | "ipcOpenEventHandle"
>;

/** The streams and events of a driver. */
export class StreamsAndEvents {
  readonly #core: DriverCore;
  readonly #defaultStreams: readonly Stream[];
  readonly #streams = new Map<bigint, Stream>();
  readonly #events = new Map<bigint, Event>();
  /**
   * The interprocess events, each of which has a page in linear memory. Includes destroyed events that pending work
   * still uses.
   */
  readonly #interprocessEvents = new Set<InterprocessEvent>();

  constructor(core: DriverCore) {
    this.#core = core;
    this.#defaultStreams = Array.from({ length: core.devices.count }, (_, device) => {
      return new Stream(device, { isDefault: true });
    });
    for (const stream of this.#defaultStreams) {
      stream.handle = 0n;
      core.scheduler.addStream(stream);
    }
  }

  /**
   * Returns the stream with a handle. The handle 0 is the default stream of `device`. Throws if the handle is invalid.
   */
  stream(device: number, stream: bigint, call: string): Stream {
    const { devices } = this.#core;
    devices.check(device, call);
    const found = stream === 0n ? this.#defaultStreams[device] : this.#streams.get(stream);
    if (found === undefined) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    devices.check(found.device, call);
    return found;
  }

  /** Returns the stream with a handle, for work to be enqueued on it. Throws if a capture forbids that. */
  target(device: number, stream: bigint, call: string): Stream {
    const found = this.stream(device, stream, call);
    this.#core.captures.checkWork(found, call);
    return found;
  }

  /** Returns the stream with a handle. Throws, and invalidates the capture, if the stream is being captured. */
  #uncaptured(device: number, stream: bigint, call: string): Stream {
    const found = this.stream(device, stream, call);
    this.#core.captures.checkWait(found, call);
    return found;
  }

  /** Returns the default stream of a device. */
  defaultStream(device: number): Stream {
    return this.#defaultStreams[device]!;
  }

  /** Releases all interprocess events when the driver closes. */
  close(): void {
    for (const event of this.#interprocessEvents) event.close();
    this.#interprocessEvents.clear();
  }

  /** Returns the driver calls that manage streams and events. */
  calls(): StreamCalls {
    return { ...this.#streamCalls(), ...this.#eventCalls() };
  }

  #streamCalls() {
    const { devices, scheduler, captures } = this.#core;
    return {
      deviceGetStreamPriorityRange(device) {
        devices.check(device, "cudaDeviceGetStreamPriorityRange");
        return { ...streamPriorities };
      },
      streamCreateWithPriority: (device, flags, priority) => {
        devices.check(device, "cudaStreamCreateWithPriority");
        if (flags !== streamFlags.default && flags !== streamFlags.nonBlocking) {
          fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaStreamCreateWithPriority");
        }
        const { least, greatest } = streamPriorities;
        const stream = new Stream(device, {
          isBlocking: flags !== streamFlags.nonBlocking,
          // `| 0` converts -0 to 0.
          priority: Math.max(greatest, Math.min(priority, least)) | 0,
        });
        scheduler.addStream(stream);
        return stream.handle = this.#core.register(this.#streams, stream);
      },
      streamDestroy: (device, stream) => {
        const found = this.stream(device, stream, "cudaStreamDestroy");
        if (found.isDefault) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, "cudaStreamDestroy");
        if (found.capture?.origin === found) captures.delete(found.capture);
        scheduler.removeStream(found);
        this.#streams.delete(stream);
      },
      streamQuery: (device, stream, options) => {
        const found = this.stream(device, stream, "cudaStreamQuery");
        if (options !== undefined && captures.excludes(found)) return false;
        captures.checkWait(found, "cudaStreamQuery");
        // Runs a slice of work, so that programs that poll without returning to the event loop make progress.
        if (!options?.peek && !scheduler.isDone(found)) scheduler.step();
        devices.check(found.device, "cudaStreamQuery");
        return scheduler.isDone(found);
      },
      streamSynchronize: (device, stream) => {
        const found = this.#uncaptured(device, stream, "cudaStreamSynchronize");
        scheduler.runUntil(() => scheduler.isDone(found));
        this.#core.finishSynchronization(found.device, "cudaStreamSynchronize");
      },
      streamDescribeKernel: (device, stream) => this.stream(device, stream, "cudaStreamQuery").describeKernel(),
      streamWaitEvent: (device, stream, event, flags = 0) => {
        const call = "cudaStreamWaitEvent";
        const target = this.target(device, stream, call);
        const found = this.#event(event, call);
        const isExternal = checkEventFlags(flags, target, call);
        if (!isExternal && (target.capture ?? found.captured) !== undefined) {
          const isRecorded = (found.captured ?? found.latest) !== undefined;
          if (isRecorded) captures.waitInCapture(target, found.captured, call);
          return;
        }
        this.#core.submit(target, this.#waitOperation(found));
      },
      streamGetFlags: (device, stream) => {
        const { isBlocking } = this.#uncaptured(device, stream, "cudaStreamGetFlags");
        return isBlocking ? streamFlags.default : streamFlags.nonBlocking;
      },
      streamGetPriority: (device, stream) => this.stream(device, stream, "cudaStreamGetPriority").priority,
      streamGetDevice: (device, stream) => this.stream(device, stream, "cuStreamGetCtx").device,
    } satisfies Partial<Driver>;
  }

  #eventCalls() {
    const core = this.#core;
    const { devices, linearMemory, scheduler } = core;
    return {
      eventCreateWithFlags: (device, flags) => {
        const call = "cudaEventCreateWithFlags";
        devices.check(device, call);
        const { blockingSync, disableTiming, interprocess } = eventFlags;
        const isTimed = (flags & disableTiming) === 0;
        const isInterprocess = (flags & interprocess) !== 0;
        if ((flags & ~(blockingSync | disableTiming | interprocess)) !== 0 || (isInterprocess && isTimed)) {
          fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
        }
        if (!isInterprocess) return core.register(this.#events, new Event(device, flags));
        const deviceUuid = devices.uuid(device);
        return this.#addInterprocess(InterprocessEvent.create(linearMemory, { device, flags, deviceUuid }));
      },
      eventDestroy: (device, event) => {
        const call = "cudaEventDestroy";
        devices.check(device, call);
        const found = this.#event(event, call);
        this.#events.delete(event);
        if (!(found instanceof InterprocessEvent)) return;
        found.destroy();
        this.closeUnusedEvents();
      },
      eventRecord: (device, event, stream) =>
        this.#record({ device, event, stream, flags: 0, call: "cudaEventRecord" }),
      eventRecordWithFlags: (device, event, stream, flags) =>
        this.#record({ device, event, stream, flags, call: "cudaEventRecordWithFlags" }),
      ctxRecordEvent: (device, event) => {
        const call = "cuCtxRecordEvent";
        devices.check(device, call);
        const found = this.#event(event, call);
        if (found.device !== device) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
        core.captures.checkDevice(device, call);
        const work = scheduler.recordDevice(found);
        if (found instanceof InterprocessEvent) found.uses.add(work);
      },
      eventQuery: (event, options) => {
        const { latest, device } = this.#executedEvent(event, "cudaEventQuery");
        if (!options?.peek && latest !== undefined && !latest.done) scheduler.step();
        devices.check(device, "cudaEventQuery");
        return latest === undefined || latest.done;
      },
      eventSynchronize: (event) => {
        const call = "cudaEventSynchronize";
        const { latest, device, isRecordedForDevice } = this.#executedEvent(event, call);
        // If the devices are lost, the wait ends, because the event will never complete.
        const isOver = () => latest === undefined || latest.done || devices.areLost;
        scheduler.runUntil(isOver, { isOutside: !(latest instanceof Work) });
        // `finishSynchronization` makes pools reclaim freed memory. As in CUDA, this is not done if the event was
        // recorded for all streams of a device.
        if (isRecordedForDevice) devices.check(device, call);
        else core.finishSynchronization(device, call);
      },
      eventElapsedTime: (start, end) => {
        const call = "cudaEventElapsedTime";
        const [first, last] = [this.#executedEvent(start, call), this.#executedEvent(end, call)];
        for (const { device, flags, recorded } of [first, last]) {
          // If the devices were lost, the work that would record the event was dropped, so the event will never have a
          // time.
          devices.check(device, call);
          if (recorded === undefined || (flags & eventFlags.disableTiming) !== 0) {
            fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
          }
        }
        if (first.device !== last.device) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
        if (first.time === undefined || last.time === undefined) fail(cudaErrorNumbers.cudaErrorNotReady, call);
        return last.time - first.time;
      },
      ipcGetEventHandle: (event) => {
        const call = "cudaIpcGetEventHandle";
        if (event === 0n) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
        const found = this.#event(event, call);
        return found instanceof InterprocessEvent
          ? found.handle()
          : fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
      },
      ipcOpenEventHandle: (device, handle) => {
        devices.check(device, "cudaIpcOpenEventHandle");
        return this.#addInterprocess(InterprocessEvent.open(linearMemory, { device, handle }));
      },
    } satisfies Partial<Driver>;
  }

  /** Records an event on a stream. During a capture, only notes the nodes before the record, unless it is external. */
  #record(
    { device, event, stream, flags, call }: {
      device: number;
      event: bigint;
      stream: bigint;
      flags: number;
      call: string;
    },
  ): void {
    const found = this.#event(event, call);
    const target = this.target(device, stream, call);
    if (found.device !== target.device) fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    const isExternal = checkEventFlags(flags, target, call);
    if (!isExternal && target.capture !== undefined) {
      found.captured = { capture: target.capture, nodes: target.capture.dependencies.get(target)! };
      return;
    }
    this.#core.submit(target, this.#recordOperation(found));
  }

  /** Returns the operation of a node of a graph that records an event, and the event's device. */
  recordOperation(event: bigint, call: string): { device: number; operation: GraphOperation } {
    const found = this.#event(event, call);
    return { device: found.device, operation: this.#recordOperation(found) };
  }

  /** Returns the operation of a node of a graph that waits for an event, and the event's device. */
  waitOperation(event: bigint, call: string): { device: number; operation: GraphOperation } {
    const found = this.#event(event, call);
    return { device: found.device, operation: this.#waitOperation(found) };
  }

  #recordOperation(event: Event): GraphOperation {
    const enqueue = (stream: Stream): Work => {
      const work = this.#core.scheduler.record(event, stream);
      if (event instanceof InterprocessEvent) event.uses.add(work);
      return work;
    };
    return { type: graphNodeType.eventRecord, fixed: [event.device], enqueue };
  }

  #waitOperation(event: Event): GraphOperation {
    const enqueue = (stream: Stream): Work | undefined => {
      const work = this.#core.scheduler.wait(stream, event);
      if (work !== undefined && event instanceof InterprocessEvent) event.uses.add(work);
      return work;
    };
    return { type: graphNodeType.waitEvent, enqueue };
  }

  /** Returns an event whose latest record is executed. Throws if it is a part of a capture. */
  #executedEvent(event: bigint, call: string): Event {
    const found = this.#event(event, call);
    this.#core.captures.checkEvent(found, call);
    return found;
  }

  #event(event: bigint, call: string): Event {
    return this.#events.get(event) ?? fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
  }

  #addInterprocess(event: InterprocessEvent): bigint {
    this.#interprocessEvents.add(event);
    return this.#core.register(this.#events, event);
  }

  /** Closes the destroyed interprocess events that no pending work uses. */
  closeUnusedEvents(): void {
    for (const event of this.#interprocessEvents) {
      event.closeIfUnused();
      if (event.isClosed) this.#interprocessEvents.delete(event);
    }
  }
}

/** Returns whether the flags of a record or a wait ask for a node of the stream's capture. */
function checkEventFlags(flags: number, { capture }: Stream, call: string): boolean {
  if (flags !== 0 && flags !== externalEvent) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  const isExternal = flags === externalEvent;
  return isExternal && capture === undefined ? fail(cudaErrorNumbers.cudaErrorIllegalState, call) : isExternal;
}
