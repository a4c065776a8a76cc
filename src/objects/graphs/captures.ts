/**
 * The captures of a session's streams. While a stream is captured, the session's calls go through a layer that refuses
 * what CUDA would refuse, before CUDA does: most of its refusals invalidate the capture, and those of the layer do not.
 *
 * @module
 */
import { type CallEffects, effectsOf } from "../../call_effects.ts";
import {
  defaultStream,
  type Driver,
  type HostAllocation,
  type KernelLaunch,
  legacyStream,
  streamFlags,
} from "../../driver.ts";
import { intercept, notedCalls } from "../../driver_layers.ts";
import type { Allocation } from "../../memory/allocation.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import { type CudaError, cudaErrorNumbers, explainedError } from "../../support/errors.ts";
import type { CudaStream } from "../streams/cuda_stream.ts";
import type { GraphParts, RootGraph } from "./graph_parts.ts";
import type { GraphResources } from "./graph_resources.ts";
import type { NodeNote, NodeNotes, NodeSite } from "./node_notes.ts";

/** The members of a session that captures use. */
interface CaptureSession {
  readonly driver: Driver;
  createMarker(device: number): bigint;
  isMarker(event: bigint): boolean;
  destroyMarker(marker: bigint): void;
  /** Returns the current call stack. Undefined without the sanitizer. */
  siteOfCall(): NodeSite | undefined;
}

/** A stream that is captured. */
interface CapturedStream {
  readonly device: number;
  /** One of `streamFlags`. */
  readonly flags: number;
  /** An event that was recorded behind the stream's work before it was captured. */
  readonly marker: bigint;
}

/** A capture that has begun. */
export class ActiveCapture {
  /** The stream on which the capture began, and must end. */
  readonly origin: CudaStream;
  /** The graph that is built, or the one with the body that is. */
  readonly root: RootGraph;
  /** What the captured nodes run. */
  readonly notes: NodeNotes;
  /** The program's graph, or the body of a conditional node, to which the nodes are added. Undefined for a new graph. */
  readonly into: GraphParts | undefined;
  /** Called when the capture has ended, with or without a graph. */
  readonly afterwards: (() => void)[] = [];
  /** Ends the capture without a graph. */
  readonly drop: () => void;

  readonly #allocateHost: (byteLength: number) => HostAllocation;
  readonly #freeHost: (memory: HostAllocation) => void;

  constructor(
    origin: CudaStream,
    { root, notes, into, drop, allocateHost, freeHost }: {
      root: RootGraph;
      notes: NodeNotes;
      into: GraphParts | undefined;
      drop: () => void;
      allocateHost: (byteLength: number) => HostAllocation;
      freeHost: (memory: HostAllocation) => void;
    },
  ) {
    this.origin = origin;
    this.root = root;
    this.notes = notes;
    this.into = into;
    this.drop = drop;
    this.#allocateHost = allocateHost;
    this.#freeHost = freeHost;
  }

  /** What the captured work uses, for the graph. */
  get resources(): GraphResources {
    return this.root.resources;
  }

  /** Adds memory that was allocated in the capture. */
  own(allocation: Allocation, buffer: DeviceBuffer): void {
    this.resources.own(allocation, buffer, { isCaptured: true });
  }

  /** Returns a page-locked copy of bytes, which is kept as long as the graph. */
  keepBytes(bytes: Uint8Array): Uint8Array {
    const memory = this.#allocateHost(bytes.byteLength);
    this.resources.keep(memory, () => () => this.#freeHost(memory));
    const copy = new Uint8Array(memory.buffer, 0, bytes.byteLength);
    copy.set(bytes);
    return copy;
  }
}

/** The calls about streams that harm no capture, whichever stream they name. */
const harmless: ReadonlySet<PropertyKey> = new Set(["streamIsCapturing", "streamGetCaptureInfo", "streamBeginCapture"]);

/** The captures that a session has begun and not ended. */
export class SessionCaptures {
  /** Whether there is a capture. All that captures need of other code is done only then. */
  isActive = false;
  readonly #session: CaptureSession;
  /** The captured streams, by handle. */
  readonly #streams = new Map<bigint, CapturedStream & { readonly capture: ActiveCapture }>();
  /** For each device, an event that orders one stream behind another. It is recorded again for each wait. */
  readonly #orderingEvents = new Map<number, bigint>();
  /** The events whose latest record is a part of a capture. */
  readonly #events = new Map<bigint, ActiveCapture>();
  #layer: { readonly base: Driver; readonly driver: Driver } | undefined;

  constructor(session: CaptureSession) {
    this.#session = session;
  }

  /** Returns the layer over a driver through which the session's calls go while a stream is captured. */
  guard(base: Driver): Driver {
    if (this.#layer?.base !== base) this.#layer = { base, driver: this.#guarded(base) };
    return this.#layer.driver;
  }

  /** Returns the capture that a stream of the session is a part of. */
  of(stream: bigint): ActiveCapture | undefined {
    return this.#streams.get(stream)?.capture;
  }

  /** Returns the event that was recorded behind a captured stream's work before the capture. */
  markerBefore(stream: bigint): bigint | undefined {
    return this.#streams.get(stream)?.marker;
  }

  /** Whether the latest record of an event is a part of a capture. */
  hasRecorded(event: bigint): boolean {
    return this.#events.has(event);
  }

  /** Notes the node that a call has just added to the capture of a stream. Does nothing if it has added none. */
  noteNode(device: number, stream: bigint, note: NodeNote): void {
    const notes = this.of(stream)?.notes;
    if (notes === undefined) return;
    const { dependencies } = this.#session.driver.streamGetCaptureInfo(device, stream);
    const node = dependencies[0];
    if (dependencies.length !== 1 || notes.get(node!) !== undefined) return;
    notes.add(node!, note, this.#session.siteOfCall());
  }

  /** Adds a capture that is about to begin on `capture.origin`. */
  add(capture: ActiveCapture): void {
    const { device, unsafeHandle } = capture.origin;
    this.#join(capture, this.#session.driver, { device: device.ordinal, stream: unsafeHandle });
    this.isActive = true;
  }

  /** Removes a capture that has ended, or could not begin. */
  delete(capture: ActiveCapture): void {
    for (const [handle, stream] of this.#streams) {
      if (stream.capture !== capture) continue;
      this.#streams.delete(handle);
      this.#session.destroyMarker(stream.marker);
    }
    for (const [event, other] of this.#events) if (other === capture) this.#events.delete(event);
    this.isActive = this.#streams.size > 0;
    for (const callback of capture.afterwards.splice(0)) ignoreLoss(callback);
  }

  /** Call when a stream was destroyed: another one may get its handle. The capture goes on, if it began elsewhere. */
  forget(stream: bigint): void {
    const captured = this.#streams.get(stream);
    if (captured === undefined) return;
    this.#streams.delete(stream);
    this.#session.destroyMarker(captured.marker);
  }

  /** Returns an event of a device for making a stream wait for another stream's work so far. */
  orderingEvent(device: number): bigint {
    let event = this.#orderingEvents.get(device);
    if (event === undefined) this.#orderingEvents.set(device, event = this.#session.createMarker(device));
    return event;
  }

  /** Throws if a stream is captured: the host can read nothing that a capture copies. */
  refuseRead(stream: CudaStream): void {
    this.refuse(stream, "cudaMemcpyAsync", readsNothing);
  }

  /** Throws if a stream is captured, for the record of an event that other processes can wait for. */
  refuseSharedRecord(stream: CudaStream): void {
    this.refuse(stream, "cudaEventRecord", sharesNothing);
  }

  /** Throws if a stream is captured, for a call that waits for its work. `what` is the action that failed. */
  refuseWait(stream: CudaStream, what: string): void {
    this.refuse(stream, "cudaStreamSynchronize", `the stream ${isCaptured}`, what);
  }

  /**
   * Throws if a stream is captured, for memory that may be handed out again while a graph uses it. `what` is the action
   * that failed.
   */
  refuseReuse(stream: CudaStream, what: string): void {
    this.refuse(stream, "cudaMallocFromPoolAsync", reusesNothing, what);
  }

  /** Throws if memory would be freed in a capture, unless it is memory of the capture's graph. */
  checkFree(allocation: Allocation, stream: CudaStream): void {
    const capture = this.of(stream.unsafeHandle);
    if (capture === undefined || capture.resources.owned.has(allocation)) return;
    const what = `free the buffer of ${allocation.byteLength} bytes on device ${allocation.device.ordinal}`;
    throw cannot(what, refusal("cudaErrorStreamCaptureUnsupported", "cudaFreeAsync", freesNothing));
  }

  /** Throws if a stream is captured into the body of a conditional node, which allocates no memory. */
  refuseInBody(stream: CudaStream, what: string): void {
    if (this.of(stream.unsafeHandle)?.into?.around === undefined) return;
    const why =
      "the stream is captured into the body of a conditional node, which allocates nothing; allocate it before";
    throw cannot(what, explainedError(cudaErrorNumbers.cudaErrorInvalidValue, "cudaMallocFromPoolAsync", why));
  }

  /**
   * Keeps an event which launches of the graph that a stream is captured into will record or wait for. Throws if the
   * graph cannot have such a node.
   */
  keepEvent(stream: CudaStream, event: unknown, { keep, call }: { keep: () => () => void; call: string }): void {
    const capture = this.of(stream.unsafeHandle);
    if (capture?.into?.around !== undefined) {
      const why = "the stream is captured into the body of a conditional node, which records and waits for no events";
      throw explainedError(cudaErrorNumbers.cudaErrorInvalidValue, call, why);
    }
    if (capture === undefined) return;
    capture.resources.hasEvents = true;
    capture.resources.keep(event, keep);
  }

  /**
   * Throws if a stream is captured, for a call that cannot be a part of a graph.
   *
   * @param what the action that failed, phrased to follow "Cannot". By default, the caller adds it
   */
  refuse(stream: CudaStream, call: string, why: string, what?: string): void {
    if (!this.isActive || this.of(stream.unsafeHandle) === undefined) return;
    const error = refusal("cudaErrorStreamCaptureUnsupported", call, why);
    throw what === undefined ? error : cannot(what, error);
  }

  /** Drops all captures, at the end of the session. */
  dropAll(): void {
    for (const { capture } of [...this.#streams.values()]) ignoreLoss(capture.drop);
  }

  #join(
    capture: ActiveCapture,
    driver: Driver,
    { device, stream }: { readonly device: number; readonly stream: bigint },
  ): void {
    const marker = this.#session.createMarker(device);
    try {
      const flags = driver.streamGetFlags(device, stream);
      driver.eventRecord(device, marker, stream);
      this.#streams.set(stream, { capture, device, flags, marker });
    } catch (error) {
      this.#session.destroyMarker(marker);
      throw error;
    }
  }

  #guarded(base: Driver): Driver {
    const calls: Partial<Driver> = {
      ...notedCalls(base, (...node) => this.noteNode(...node)),
      eventRecord: (device, event, stream) => {
        // The event would become a part of the capture: it could neither be queried nor waited for any more.
        if (this.#streams.has(stream) && this.#session.isMarker(event) && !this.#isOrdering(device, event)) {
          throw refusal("cudaErrorStreamCaptureUnsupported", "cudaEventRecord", `the stream ${isCaptured}`);
        }
        base.eventRecord(device, event, stream);
        this.#noteRecord(event, stream);
      },
      streamWaitEvent: (device, stream, event, flags) => {
        if (!flags) this.#beforeWait(base, { device, stream, event });
        base.streamWaitEvent(device, stream, event, flags);
        if (flags) this.noteNode(device, stream, { kind: "wait", event });
      },
      eventRecordWithFlags: (device, event, stream, flags) => {
        base.eventRecordWithFlags(device, event, stream, flags);
        if (flags) this.noteNode(device, stream, { kind: "record", event });
        else this.#noteRecord(event, stream);
      },
      streamQuery: (device, stream, options) => {
        if (options !== undefined && this.#excludes(device, stream)) return false;
        return base.streamQuery(device, stream, options);
      },
      eventDestroy: (device, event) => {
        base.eventDestroy(device, event);
        this.#events.delete(event);
      },
    };
    return intercept(base, calls, (name, method) => {
      const check = this.#checkOf(name);
      if (check === undefined) return method.bind(base);
      return (...parameters) => {
        check(parameters);
        return Reflect.apply(method, base, parameters);
      };
    });
  }

  /** Returns a function that throws if a call with the given parameters would fail because of a capture. */
  #checkOf(name: PropertyKey): ((parameters: readonly unknown[]) => void) | undefined {
    const effects: CallEffects = effectsOf(name);
    const { stream, endsCapture = false, blocksOn } = effects;
    const call = `cuda${String(name)[0]!.toUpperCase()}${String(name).slice(1)}`;
    if (stream === "all" || blocksOn === "device" && endsCapture) {
      return ([device]) => this.#checkDevice(device as number, call);
    }
    if (stream === "launch") return ([launch]) => this.#checkStream(launch as KernelLaunch, { call, endsCapture });
    if (stream !== undefined) {
      if (harmless.has(name)) return undefined;
      return (parameters) => {
        // The library's own queries are answered without CUDA.
        if (name === "streamQuery" && parameters[2] !== undefined) return;
        const [device, handle] = [parameters[0] as number, parameters[stream] as bigint];
        this.#checkStream({ device, stream: handle }, { call, endsCapture });
      };
    }
    return endsCapture ? (parameters) => this.#checkEvents(parameters, call) : undefined;
  }

  #checkStream(
    { device, stream }: { readonly device: number; readonly stream: bigint },
    { call, endsCapture }: { readonly call: string; readonly endsCapture: boolean },
  ): void {
    if (isDefault(stream)) {
      if (!this.#hasBlocking(device)) return;
      throw refusal("cudaErrorStreamCaptureImplicit", call, besideBlocking);
    }
    if (endsCapture && this.#streams.has(stream)) {
      const why = call.startsWith("cudaGraph") ? launchesNothing : `the stream ${isCaptured}`;
      throw refusal("cudaErrorStreamCaptureUnsupported", call, why);
    }
  }

  #checkDevice(device: number, call: string): void {
    for (const stream of this.#streams.values()) {
      if (stream.device !== device) continue;
      throw refusal("cudaErrorStreamCaptureUnsupported", call, `a stream of the device ${isCaptured}`);
    }
  }

  #checkEvents(parameters: readonly unknown[], call: string): void {
    for (const event of parameters) {
      if (!this.#events.has(event as bigint)) continue;
      throw refusal("cudaErrorCapturedEvent", call, onlyOrders);
    }
  }

  #beforeWait(base: Driver, { device, stream, event }: { device: number; stream: bigint; event: bigint }): void {
    const call = "cudaStreamWaitEvent";
    const own = this.of(stream);
    const captured = this.#events.get(event);
    if (captured === undefined) {
      if (own === undefined) return;
      throw refusal("cudaErrorStreamCaptureIsolation", call, isFromOutside);
    }
    if (own === captured) return;
    if (own !== undefined) throw refusal("cudaErrorStreamCaptureMerge", call, "the event belongs to another capture");
    if (isDefault(stream)) throw refusal("cudaErrorStreamCaptureImplicit", call, besideBlocking);
    this.#join(captured, base, { device, stream });
  }

  #isOrdering(device: number, event: bigint): boolean {
    return this.#orderingEvents.get(device) === event;
  }

  #noteRecord(event: bigint, stream: bigint): void {
    const capture = this.of(stream);
    if (capture === undefined) this.#events.delete(event);
    else this.#events.set(event, capture);
  }

  /** Whether a stream can neither be queried nor waited for because of a capture. */
  #excludes(device: number, stream: bigint): boolean {
    return isDefault(stream) ? this.#hasBlocking(device) : this.#streams.has(stream);
  }

  #hasBlocking(device: number): boolean {
    for (const stream of this.#streams.values()) {
      if (stream.flags !== streamFlags.nonBlocking && stream.device === device) return true;
    }
    return false;
  }
}

const isCaptured = "is being captured into a graph; end the capture first, and wait after a launch of the graph";
const readsNothing = "the stream is being captured; copy to a HostBuffer in the capture, and read that after a launch";
const reusesNothing =
  "the stream is being captured, and the memory would be handed out again while the graph uses it; allocate it before " +
  "the capture, or with allocate of a pool";
const sharesNothing =
  "the stream is being captured, and other processes would wait for work that is not executed; share memory, release " +
  "it or record the event behind a launch of the graph";
const freesNothing = "the stream is being captured; free it after the capture, or on a stream that is not captured";
const launchesNothing =
  "the stream is being captured, and CUDA launches no graph in a capture; use another stream, or launch it afterwards";
const onlyOrders =
  "the event was recorded in a capture, where it only orders streams; wait after a launch of the graph";
const isFromOutside =
  "the event was not recorded in the capture; wait for it before the capture, or record it on a stream of the capture";
const besideBlocking =
  "the default stream would have to wait for a stream that is being captured; use another stream, " +
  "or capture a stream that is nonBlocking";

/** The code of an error that a capture causes. */
type CaptureErrorCode = Extract<
  keyof typeof cudaErrorNumbers,
  `cudaErrorStreamCapture${string}` | "cudaErrorCapturedEvent"
>;

/** Returns the error that CUDA would return for a call. */
function refusal(code: CaptureErrorCode, call: string, why: string): CudaError {
  return explainedError(cudaErrorNumbers[code], call, why);
}

function isDefault(stream: bigint): boolean {
  return stream === defaultStream || stream === legacyStream;
}
