/**
 * Captures of streams into graphs, with CUDA's rules: what a capture forbids fails, and most of it invalidates the
 * capture.
 *
 * @module
 */
import { areOrderedByDefaultStream, streamCaptureMode } from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import type { Event, Stream } from "./streams.ts";
import { fail } from "../failure.ts";
import { type GraphOperation, type SoftwareGraph, SoftwareGraphNode } from "./software_graph.ts";

/** A record of an event in a capture, and the nodes before it. */
export interface CapturedRecord {
  readonly capture: Capture;
  readonly nodes: readonly SoftwareGraphNode[];
}

/** A capture of one or more streams. */
export class Capture {
  readonly id: bigint;
  readonly graph: SoftwareGraph;
  readonly origin: Stream;
  readonly mode: number;
  /** The captured streams. Maps each to the nodes on which its next work will depend. */
  readonly dependencies: Map<Stream, readonly SoftwareGraphNode[]>;
  isInvalidated = false;
  /** The nodes that were captured. */
  readonly #captured: SoftwareGraphNode[] = [];
  /** The nodes that need not come before the next work of the origin. */
  readonly #released: SoftwareGraphNode[] = [];

  constructor(
    id: bigint,
    { graph, origin, mode, after }: Pick<Capture, "graph" | "origin" | "mode"> & {
      after?: readonly SoftwareGraphNode[];
    },
  ) {
    this.id = id;
    this.graph = graph;
    this.origin = origin;
    this.mode = mode;
    this.dependencies = new Map([[origin, after ?? []]]);
    origin.capture = this;
  }

  /** Makes a stream a part of the capture, with more nodes on which its next work depends. */
  join(stream: Stream, nodes: readonly SoftwareGraphNode[]): void {
    stream.capture = this;
    this.dependencies.set(stream, [...new Set([...this.dependencies.get(stream) ?? [], ...nodes])]);
  }

  /** Adds a node for an operation on a stream. */
  add(stream: Stream, operation: GraphOperation, handle: bigint): void {
    const dependencies = this.dependencies.get(stream)!;
    const node = new SoftwareGraphNode(handle, { device: stream.device, operation, dependencies });
    this.graph.add(node);
    this.#captured.push(node);
    this.dependencies.set(stream, [node]);
  }

  /** Replaces the nodes on which the next work of a captured stream depends. */
  update(stream: Stream, nodes: readonly SoftwareGraphNode[]): void {
    this.#released.push(...this.dependencies.get(stream)!);
    this.dependencies.set(stream, nodes);
  }

  /** Whether all nodes come before the next work of the origin, so that the capture can end. */
  get isJoined(): boolean {
    const joined = new Set([...this.dependencies.get(this.origin)!, ...this.#released]);
    for (const node of joined) for (const earlier of node.dependencies) joined.add(earlier);
    return this.#captured.every((node) => joined.has(node));
  }

  /** Removes all streams from the capture. */
  release(): void {
    for (const stream of this.dependencies.keys()) stream.capture = undefined;
  }
}

/** The captures of a driver. */
export class Captures {
  /** One of `streamCaptureMode`: which captures forbid potentially unsafe calls. */
  threadMode: number = streamCaptureMode.global;
  readonly #active = new Set<Capture>();

  add(capture: Capture): void {
    this.#active.add(capture);
  }

  delete(capture: Capture): void {
    this.#active.delete(capture);
    capture.release();
  }

  /** Returns whether a stream is being captured into a graph. */
  isBuilding(graph: SoftwareGraph): boolean {
    return [...this.#active].some((capture) => capture.graph === graph);
  }

  /** Returns whether a stream is captured, or is a default stream that is ordered with a captured stream. */
  excludes(stream: Stream): boolean {
    return stream.isDefault ? this.#orderedWith(stream).length > 0 : stream.capture !== undefined;
  }

  /** Throws if no work may be enqueued on a stream: its capture is invalid, or would have to wait for it. */
  checkWork(stream: Stream, call: string): void {
    if (this.#active.size === 0) return;
    if (stream.capture?.isInvalidated) fail(cudaErrorNumbers.cudaErrorStreamCaptureInvalidated, call);
    if (stream.isDefault) this.#checkDefault(stream, call);
  }

  /** Throws, and invalidates the capture, if a stream is captured, or is a default stream that a capture excludes. */
  checkWait(stream: Stream, call: string): void {
    if (this.#active.size === 0) return;
    if (stream.capture !== undefined) this.#refuse([stream.capture], "cudaErrorStreamCaptureUnsupported", call);
    if (stream.isDefault) this.#checkDefault(stream, call);
  }

  /** Throws if the latest record of an event is a part of a capture, which is invalidated. */
  checkEvent({ captured }: Event, call: string): void {
    if (captured === undefined) return;
    if (!this.#active.has(captured.capture)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    this.#refuse([captured.capture], "cudaErrorCapturedEvent", call);
  }

  /** Orders a stream's next work in a capture after the record of an event, which makes the stream a part of it. */
  waitInCapture(stream: Stream, event: CapturedRecord | undefined, call: string): void {
    const { capture } = stream;
    if (event === undefined) this.#refuse([capture!], "cudaErrorStreamCaptureIsolation", call);
    if (!this.#active.has(event.capture)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    if (capture !== undefined && capture !== event.capture) {
      this.#refuse([capture, event.capture], "cudaErrorStreamCaptureMerge", call);
    }
    if (stream.isDefault) this.#refuse([event.capture], "cudaErrorStreamCaptureImplicit", call);
    event.capture.join(stream, event.nodes);
  }

  /** Throws, and invalidates the captures, if a stream of a device is captured. */
  checkDevice(device: number, call: string): void {
    const captures = [...this.#active].filter(({ dependencies }) => {
      return [...dependencies.keys()].some((stream) => stream.device === device);
    });
    if (captures.length > 0) this.#refuse(captures, "cudaErrorStreamCaptureUnsupported", call);
  }

  /** Returns a driver call that fails, and invalidates captures, while one forbids potentially unsafe calls. */
  guardUnsafe<Call extends (...values: never[]) => unknown>(name: string, call: Call): Call {
    const guarded = (...values: Parameters<Call>) => {
      if (this.#active.size > 0) this.#checkUnsafe(`cuda${name[0]!.toUpperCase()}${name.slice(1)}`);
      return call(...values);
    };
    return guarded as Call;
  }

  #checkUnsafe(call: string): void {
    if (this.threadMode === streamCaptureMode.relaxed) return;
    const captures = [...this.#active].filter(({ mode }) => mode !== streamCaptureMode.relaxed);
    if (captures.length > 0) this.#refuse(captures, "cudaErrorStreamCaptureUnsupported", call);
  }

  #checkDefault(stream: Stream, call: string): void {
    const captures = this.#orderedWith(stream);
    if (captures.length > 0) this.#refuse(captures, "cudaErrorStreamCaptureImplicit", call);
  }

  #orderedWith(defaultStream: Stream): Capture[] {
    return [...this.#active].filter(({ dependencies }) => {
      return [...dependencies.keys()].some((stream) => areOrderedByDefaultStream(stream, defaultStream));
    });
  }

  #refuse(captures: readonly Capture[], error: keyof typeof cudaErrorNumbers, call: string): never {
    for (const capture of captures) capture.isInvalidated = true;
    return fail(cudaErrorNumbers[error], call);
  }
}
