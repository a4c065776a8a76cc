import type { CudaDevice } from "../../objects/cuda_device.ts";
import {
  disownStream,
  isOrderedByDefaultStream,
  lastWorkOf,
  pendingWorkOf,
  progressOf,
} from "../../objects/streams/cuda_stream.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { Session } from "../../session.ts";

/**
 * Streams of the library's own, on which it frees memory that several streams have used. They wait for those streams, so
 * that no stream of the application has to.
 *
 * Each stream of the application whose work a free must wait for has a release stream: work that never completes delays
 * only the frees of memory that it uses.
 */
export class ReleaseStreams {
  readonly #session: Session;
  readonly #byStream = new Map<CudaStream, CudaStream>();
  /** Release streams whose stream was disposed and has done its work. */
  readonly #idle: CudaStream[] = [];
  /** An event for each device, recorded anew for each wait. */
  readonly #events = new Map<number, bigint>();

  constructor(session: Session) {
    this.#session = session;
  }

  /**
   * Returns a stream whose next work runs after the work so far of `stream`, and after that of `others` up to the given
   * positions: `stream` itself if that is so already, otherwise a release stream.
   *
   * @param options.isStreamOrdered Whether it suffices that CUDA runs the next work on the stream after theirs, as the
   * default stream does without waiting for an event.
   */
  join(
    stream: CudaStream,
    others: ReadonlyMap<CudaStream, number>,
    { isStreamOrdered }: { readonly isStreamOrdered: boolean },
  ): CudaStream {
    let busy: CudaStream[] | undefined;
    for (const [other, position] of others) {
      if (other === stream || progressOf(stream).isAfter(progressOf(other), position)) continue;
      if (isStreamOrdered && isOrderedByDefaultStream(other, stream)) continue;
      // To ask would let the sanitizer take the work for known to the program, which may be luck.
      if (this.#session.sanitizer !== undefined || this.#isBusy(other)) (busy ??= []).push(other);
    }
    if (busy === undefined) return stream;
    const release = this.#streamFor(busy[0]!);
    for (const each of [stream, ...busy]) this.#makeWait(release, each);
    return release;
  }

  #isBusy(stream: CudaStream): boolean {
    const { driver } = this.#session;
    if (stream.disposed) return pendingWorkOf(stream) !== undefined;
    return !driver.streamQuery(stream.device.ordinal, stream.unsafeHandle);
  }

  #makeWait(release: CudaStream, stream: CudaStream): void {
    const { device: { ordinal }, unsafeHandle } = release;
    if (stream.disposed) return lastWorkOf(stream)?.precede({ device: ordinal, stream: unsafeHandle });
    const { driver } = this.#session;
    const event = this.#eventOf(stream.device.ordinal);
    driver.eventRecord(stream.device.ordinal, event, stream.unsafeHandle);
    driver.streamWaitEvent(ordinal, unsafeHandle, event);
  }

  #eventOf(device: number): bigint {
    let event = this.#events.get(device);
    if (event === undefined) {
      event = this.#session.createMarker(device);
      this.#events.set(device, event);
    }
    return event;
  }

  #streamFor(stream: CudaStream): CudaStream {
    let release = this.#byStream.get(stream);
    if (release === undefined) {
      this.#collectIdle();
      release = this.#takeIdle(stream.device.ordinal) ?? this.#create(stream.device);
      this.#byStream.set(stream, release);
    }
    return release;
  }

  #create(device: CudaDevice): CudaStream {
    const release = device.createStream({ nonBlocking: true });
    disownStream(release);
    return release;
  }

  #takeIdle(device: number): CudaStream | undefined {
    const index = this.#idle.findIndex((idle) => idle.device.ordinal === device && !this.#isBusy(idle));
    return index < 0 ? undefined : this.#idle.splice(index, 1)[0];
  }

  /** Keeps the release streams of streams that were disposed and have done their work, for other streams. */
  #collectIdle(): void {
    for (const [stream, release] of this.#byStream) {
      if (!stream.disposed || pendingWorkOf(stream) !== undefined) continue;
      this.#byStream.delete(stream);
      this.#idle.push(release);
    }
  }
}
