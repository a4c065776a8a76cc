/**
 * A call that is made again.
 *
 * @module
 */
import type { Allocation } from "../memory/allocation.ts";
import type { DeviceBuffer } from "../memory/device_buffer.ts";
import { type CudaStream, progressOf } from "../objects/streams/cuda_stream.ts";
import type { StreamProgress } from "../objects/streams/stream_progress.ts";
import { cannot } from "../support/driver_errors.ts";
import type { CollectiveOptions, CommunicationType, Reduction } from "./collective_arguments.ts";
import { type Collective, isGrouping, issue } from "./collective_group.ts";
import type { PendingCollectives } from "./pending_collectives.ts";

/** What an all-reduce was called with. */
interface Arguments {
  readonly source: DeviceBuffer;
  readonly target: DeviceBuffer;
  readonly reduction: Reduction;
  readonly options: CollectiveOptions;
}

/**
 * An all-reduce that was checked. Programs call the same one again and again. What its checks touch is not in the
 * processor's cache any more when the last one was given to its stream, and takes a tenth of a small all-reduce. So all
 * that a call needs is in this object.
 */
export class RepeatedCall {
  readonly #source: DeviceBuffer;
  readonly #target: DeviceBuffer;
  readonly #reduction: Reduction;
  readonly #options: CollectiveOptions;
  readonly #type: CommunicationType | undefined;
  readonly #stream: CudaStream;
  readonly #from: Allocation;
  readonly #to: Allocation;
  readonly #allReduce: () => void;
  readonly #progress: StreamProgress;
  readonly #pending: PendingCollectives;
  readonly #collective: Collective;
  /**
   * The position of the stream's progress at which the memory was noted last, and the streams that the buffers had: it
   * need not be again.
   */
  #notedAt = -1;
  #fromStream: CudaStream | undefined;
  #toStream: CudaStream | undefined;

  constructor(collective: Collective, { source, target, reduction, options }: Arguments) {
    const { stream, used, call, issuer: { library, pending } } = collective;
    this.#source = source;
    this.#target = target;
    this.#reduction = reduction;
    this.#options = options;
    this.#type = options.type;
    this.#stream = stream;
    this.#from = used.source!;
    this.#to = used.target!;
    this.#allReduce = library.repeatedAllReduce(call);
    this.#progress = progressOf(stream);
    this.#pending = pending;
    this.#collective = collective;
  }

  /** Whether a call is the same, and as right as it was. */
  isFor(source: DeviceBuffer, target: DeviceBuffer, reduction: Reduction, options: CollectiveOptions): boolean {
    if (source !== this.#source || target !== this.#target) return false;
    if (reduction !== this.#reduction || options !== this.#options) return false;
    // Programs may change what the objects have.
    return options.type === this.#type &&
      (options.stream === undefined ? source.stream : options.stream) === this.#stream &&
      !this.#stream.disposed && !this.#from.isFreed && !this.#to.isFreed;
  }

  /** Gives it to its stream again, or to the group that is being made, as `issue` of a collective does. */
  issue(): void {
    if (isGrouping()) return issue(this.#collective);
    this.#pending.prepare(this.#stream);
    if (this.#pending.failure !== undefined) throw this.#pending.failure;
    try {
      this.#allReduce();
    } catch (error) {
      throw cannot(`call allReduce of ${this.#collective.issuer.name}`, error);
    }
    const { position } = this.#progress;
    const { stream: fromStream } = this.#from, { stream: toStream } = this.#to;
    if (this.#notedAt !== position || this.#fromStream !== fromStream || this.#toStream !== toStream) {
      this.#from.noteUse(this.#stream);
      this.#to.noteUse(this.#stream);
      this.#notedAt = position;
      this.#fromStream = fromStream;
      this.#toStream = toStream;
    }
    this.#pending.add(this.#stream);
  }
}
