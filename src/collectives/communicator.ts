import type { DeviceBuffer } from "../memory/device_buffer.ts";
import { type Cuda, sessionOf } from "../objects/cuda.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import type { CudaStream } from "../objects/streams/cuda_stream.ts";
import type { OrStream } from "../objects/streams/stream_option.ts";
import { sessionOfDevice } from "../objects/device_sessions.ts";
import { captureCallStack } from "../sanitizer/reporting/call_stacks.ts";
import type { CommunicatorRank } from "../sanitizer/observer/observed_communicators.ts";
import { ignoreLoss, isLoss } from "../support/driver_errors.ts";
import { SharingError } from "../support/errors.ts";
import { printAs, refuseUsing } from "../support/printing.ts";
import { checkOptions, maximumInt, refuseConstruction, whatIs } from "../support/validation.ts";
import {
  disposedMeanwhile,
  throwIfAborted,
  type WaitOptions,
  waitOptionsOf,
  waitUntil,
} from "../support/waiting/waiting.ts";
import {
  bytes,
  checkApart,
  checkBuffer,
  checkedCollectiveOptions,
  checkRank,
  checkTargetSize,
  type CollectiveOptions,
  countElements,
  countForEach,
  operationOf,
  reducedElements,
  type Reduction,
  streamFor,
} from "./collective_arguments.ts";
import {
  type AnyCall,
  type Collective,
  type CollectiveName,
  issue,
  issueGroup,
  type Issuer,
  type UsedMemory,
} from "./collective_group.ts";
import {
  beginCreation,
  checkedCommunicatorOptions,
  checkInt,
  collectiveLibraryOf,
  type CommunicatorOptions,
  type CommunicatorParts,
  type CreationOptions,
  untilReady,
} from "./communicator_creation.ts";
import { CollectiveWatchdog } from "./collective_watchdog.ts";
import { RepeatedAllReduce } from "./repeated_all_reduce.ts";
import { RangeError, ReferenceError, TypeError } from "../support/program_errors.ts";

const noOptions: CollectiveOptions = {};
const splitOptions = waitOptionsOf("split a communicator");
const shrinkOptions = waitOptionsOf("shrink a communicator");

/** Calls the private constructor of `Communicator`. */
let create: (parts: CommunicatorParts) => Communicator;

/**
 * One rank of a group of GPUs that compute together: NCCL's communicator. Each process, or each part of a process, that
 * works with a GPU is a rank. All ranks call the same collectives in the same order.
 *
 * A call enqueues its collective on a stream, and returns before the collective has run. If a rank exits, the
 * collectives that wait for this rank are aborted, and any wait for their streams throws a `SharingError`:
 * `"peer-gone"` soon after a process on this machine has exited, and `"timed-out"` in any case after the communicator's
 * timeout. Further collectives of the communicator throw the same error; {@linkcode Communicator.shrink} creates a
 * communicator of the remaining ranks.
 *
 * On a GPU, collectives need NCCL 2.18 or newer (`libnccl.so.2`). On the software device, they are a stand-in for tests:
 * the ranks run on one machine as one user, exchange bytes through shared memory, and reduce in rank order.
 *
 * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/index.html
 *
 * @example Two ranks in one process
 * ```ts
 * import { Communicator, open } from "./mod.ts";
 *
 * using cuda = open({ driver: "software", softwareDevices: 2 });
 * const id = Communicator.createId(cuda);
 * const ranks = await Promise.all(cuda.devices.map((device, rank) => Communicator.create(device, { id, rank, size: 2 })));
 * const buffers = cuda.devices.map((device) => device.allocate(16));
 * const arrays = buffers.map((buffer) => buffer.as(Float32Array));
 * arrays.forEach((array, rank) => array.fill(rank + 1));
 * Communicator.group(() => ranks.forEach((rank, index) => rank.allReduce(arrays[index]!, arrays[index]!)));
 * console.log(await arrays[0]!.toTypedArray()); // 3, 3, 3, 3
 * for (const rank of ranks) await rank[Symbol.asyncDispose]();
 * for (const buffer of buffers) buffer.free();
 * ```
 */
export class Communicator implements AsyncDisposable {
  /** The device whose memory the communicator works with. */
  readonly device: CudaDevice;
  /** The number of this rank, from 0. */
  readonly rank: number;
  /** The number of ranks of the communicator. */
  readonly size: number;
  readonly #parts: CommunicatorParts;
  readonly #watchdog: CollectiveWatchdog;
  readonly #issuer: Issuer;
  /** The sanitizer's state for this rank. Undefined if the sanitizer is not active. */
  readonly #observedRank: CommunicatorRank | undefined;
  /** The source buffer of the last all-reduce. */
  #lastSource: DeviceBuffer | undefined;
  /** The last all-reduce that was called twice in a row with the same source, with its checked arguments. */
  #repeatedAllReduce: RepeatedAllReduce | undefined;
  /** The number of communicators that were split or shrunk from this one. Each child's identity contains its number. */
  #divisionCount = 0;
  readonly #abortWithSession = () => void this.#abort("the Cuda object was disposed").catch(() => {});
  #state: "open" | "aborted" | "disposed" = "open";
  /** The reason why the communicator is no longer open, for error messages. */
  #endReason = "";
  /** Settles when the last split or shrink is complete. The next split or shrink waits for this promise. */
  #lastDivision: Promise<unknown> = Promise.resolve();
  /** Resolves when the disposal is complete. Undefined if the disposal has not begun. */
  #disposal: Promise<void> | undefined;
  /** Resolves when the library has freed its communicator. Undefined if the release has not begun. */
  #release: Promise<void> | undefined;

  static {
    create = (parts) => new Communicator(parts);
    printAs(
      this,
      "Communicator",
      (own) => `Communicator { rank ${own.rank} of ${own.size}, device ${own.device.ordinal}, ${own.#description} }`,
      ["rank", "size", "device", ["state", (own) => own.#description]],
    );
    refuseUsing(this, "Communicator");
  }

  private constructor(parts: CommunicatorParts) {
    if (parts?.comm === undefined) refuseConstruction("Communicator", "Communicator.create");
    this.#parts = parts;
    this.device = parts.device;
    this.rank = parts.rank;
    this.size = parts.size;
    const { session: { sanitizer }, library, identity, rank, size } = parts;
    this.#watchdog = new CollectiveWatchdog({ ...parts, name: this.#name });
    this.#observedRank = sanitizer?.onRankJoined(identity, rank, size);
    this.#issuer = { library, sanitizer, rank: this.#observedRank, name: this.#name, watchdog: this.#watchdog };
    parts.session.beforeEnd.add(this.#abortWithSession);
  }

  /**
   * Creates the id by which the ranks of a communicator find each other. One process creates the id and sends it to the
   * others, by any means. Every process that has the id can join.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html
   * @returns 128 bytes
   * @throws {Error} If NCCL is not available
   */
  static createId(cuda: Cuda): Uint8Array<ArrayBuffer> {
    return collectiveLibraryOf(sessionOf(cuda)).getUniqueId();
  }

  /**
   * Joins a communicator as one of its ranks. Resolves when all ranks have joined. Does not block the event loop.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html
   * @param device The device that this rank works with. Each rank of a communicator needs a device of its own, except
   * on the software device, which ranks may share.
   * @throws {TypeError} If an option is missing or has the wrong type
   * @throws {RangeError} If the id does not have 128 bytes, the rank is not below `size`, or another process has taken
   * the rank
   * @throws {SharingError} `timed-out` if not all ranks joined in time, `peer-gone` if a rank has exited in the
   * meantime
   * @throws {CudaError} If NCCL fails; the code is NCCL's, such as `ncclSystemError`
   */
  static async create(device: CudaDevice, options: CommunicatorOptions): Promise<Communicator> {
    const session = sessionOfDevice(device);
    const { id, rank, size, signal, timeout } = checkedCommunicatorOptions(options);
    const creation = { name: `the communicator of rank ${rank} of ${size}`, signal };
    throwIfAborted(signal, creation.name);
    const library = collectiveLibraryOf(session);
    const comm = beginCreation(creation, () => library.commInitRank(device.ordinal, { id, rank, size, timeout }));
    return await finishCreation({ session, library, device, timeout, identity: id.toHex() }, comm, creation);
  }

  /**
   * Calls a function, and enqueues the collectives that it has called together when it returns. A group is needed for
   * sends and receives that would otherwise wait for each other, and for calls that one thread makes for several ranks.
   * The collectives of a group are unordered; copies and kernels that the function enqueues come before all of them. If
   * the function throws, none of its collectives is enqueued.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/groups.html
   * @param body Calls collectives of any communicators. Must not be asynchronous.
   * @throws {TypeError} If `body` is not a function, or returns a promise
   * @throws {RangeError} If a collective writes memory that another collective of the group reads or writes
   */
  static group(body: () => void): void {
    issueGroup(body);
  }

  /**
   * Reduces each element over all ranks, and stores the result in every rank's target.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html
   * @param source This rank's elements: an array of any type except 16-bit integers and `Uint8ClampedArray`.
   * @param target The buffer for the result; may be the source.
   * @throws {TypeError} If the buffers have no element type, or a type that NCCL does not support
   * @throws {RangeError} If the target is too small, or overlaps the source without being the source
   * @throws {ReferenceError} If a buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  allReduce(
    source: DeviceBuffer,
    target: DeviceBuffer,
    reduction: Reduction = "sum",
    given: OrStream<CollectiveOptions> = noOptions,
  ): void {
    if (this.#repeatedAllReduce?.matches(source, target, reduction, given) === true) {
      this.#check();
      return this.#repeatedAllReduce.issue();
    }
    const options = checkedCollectiveOptions(given);
    const from = checkBuffer(source, this.#parts, "allReduce");
    const to = checkBuffer(target, this.#parts, "allReduce");
    const elements = reducedElements(source, target, { options, call: "allReduce" });
    const { byteLength } = source;
    const count = countElements(byteLength, elements, "allReduce");
    checkTargetSize(target, byteLength, "allReduce");
    this.#checkApartOrInPlace("allReduce", source, target);
    const used = { source: from, readByteLength: byteLength, target: to, writtenByteLength: byteLength };
    const collective = this.#issue("allReduce", streamFor(options, source, this.#parts), used, {
      source: source.address,
      target: target.address,
      count,
      type: elements.type,
      operation: operationOf(reduction),
    });
    // The sanitizer reports the call site of each collective, so do not cache the arguments of this call.
    if (this.#observedRank !== undefined) return;
    if (source === this.#lastSource) {
      this.#repeatedAllReduce = new RepeatedAllReduce(collective, { source, target, reduction, options: given });
    }
    this.#lastSource = source;
  }

  /**
   * Reduces each element over all ranks, and stores the result in the target of the rank `root`.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html
   * @param target The buffer for the result; may be the source. Only the rank `root` uses its target.
   * @param root The rank that receives the result.
   * @throws {TypeError} If the buffers have no element type, or a type that NCCL does not support
   * @throws {RangeError} If the target is too small or overlaps the source without being the source, or `root` is not a
   * rank
   * @throws {ReferenceError} If a buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  reduce(
    source: DeviceBuffer,
    target: DeviceBuffer,
    root: number,
    reduction: Reduction = "sum",
    given: OrStream<CollectiveOptions> = noOptions,
  ): void {
    const options = checkedCollectiveOptions(given);
    const from = checkBuffer(source, this.#parts, "reduce");
    const to = checkBuffer(target, this.#parts, "reduce");
    checkRank(root, this.size, "the root of a reduce");
    const elements = reducedElements(source, target, { options, call: "reduce" });
    const { byteLength } = source;
    const count = countElements(byteLength, elements, "reduce");
    const isRoot = root === this.rank;
    if (isRoot) {
      checkTargetSize(target, byteLength, "reduce");
      this.#checkApartOrInPlace("reduce", source, target);
    }
    const used = {
      source: from,
      readByteLength: byteLength,
      target: isRoot ? to : undefined,
      writtenByteLength: byteLength,
    };
    this.#issue("reduce", streamFor(options, source, this.#parts), used, {
      source: source.address,
      target: target.address,
      count,
      type: elements.type,
      operation: operationOf(reduction),
      root,
    });
  }

  /**
   * Copies a buffer of one rank to all other ranks.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html
   * @param buffer Read on the rank `root`, written on the other ranks. Must have the same size on all ranks.
   * @param root The rank whose bytes are copied.
   * @throws {RangeError} If `root` is not a rank
   * @throws {ReferenceError} If the buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  broadcast(buffer: DeviceBuffer, root: number, given: OrStream<CollectiveOptions> = noOptions): void {
    const options = checkedCollectiveOptions(given);
    const allocation = checkBuffer(buffer, this.#parts, "broadcast");
    checkRank(root, this.size, "the root of a broadcast");
    const { address, byteLength } = buffer;
    const isRoot = root === this.rank;
    const used = {
      source: isRoot ? allocation : undefined,
      readByteLength: byteLength,
      target: isRoot ? undefined : allocation,
      writtenByteLength: byteLength,
    };
    const call = { source: address, target: address, count: byteLength, type: bytes.type, root };
    this.#issue("broadcast", streamFor(options, buffer, this.#parts), used, call);
  }

  /**
   * Concatenates the source buffers of all ranks, in rank order, in every rank's target.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html
   * @param source This rank's buffer. Must have the same size on all ranks.
   * @param target A buffer of `size` times the source's size. The source may be this rank's part of the target.
   * @throws {RangeError} If the target is too small, or overlaps the source without the source being this rank's part
   * of it
   * @throws {ReferenceError} If a buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  allGather(source: DeviceBuffer, target: DeviceBuffer, given: OrStream<CollectiveOptions> = noOptions): void {
    const options = checkedCollectiveOptions(given);
    const from = checkBuffer(source, this.#parts, "allGather");
    const to = checkBuffer(target, this.#parts, "allGather");
    const { byteLength } = source;
    const writtenByteLength = byteLength * this.size;
    checkTargetSize(target, writtenByteLength, "allGather");
    checkApart(source, { address: target.address, byteLength: writtenByteLength }, {
      call: "allGather",
      inPlace: source.address === target.address + BigInt(byteLength * this.rank),
      how: "this rank's own part of the target as its source",
    });
    const used = { source: from, readByteLength: byteLength, target: to, writtenByteLength };
    const call = { source: source.address, target: target.address, count: byteLength, type: bytes.type };
    this.#issue("allGather", streamFor(options, source, this.#parts), used, call);
  }

  /**
   * Reduces each element over all ranks, and stores a part of the result in each rank's target.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html
   * @param source A part for each rank, in the order of ranks.
   * @param target The buffer for this rank's part of the result. May be this rank's part of the source.
   * @throws {TypeError} If the buffers have no element type, or a type that NCCL does not support
   * @throws {RangeError} If the source cannot be divided evenly, or the target is too small, or overlaps the source
   * without being this rank's part of it
   * @throws {ReferenceError} If a buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  reduceScatter(
    source: DeviceBuffer,
    target: DeviceBuffer,
    reduction: Reduction = "sum",
    given: OrStream<CollectiveOptions> = noOptions,
  ): void {
    const name = "reduceScatter";
    const options = checkedCollectiveOptions(given);
    const from = checkBuffer(source, this.#parts, name);
    const to = checkBuffer(target, this.#parts, name);
    const elements = reducedElements(source, target, { options, call: name });
    const count = countForEach(source, elements, { size: this.size, call: name });
    const writtenByteLength = count * elements.size;
    checkTargetSize(target, writtenByteLength, name);
    checkApart(source, { address: target.address, byteLength: writtenByteLength }, {
      call: name,
      inPlace: target.address === source.address + BigInt(writtenByteLength * this.rank),
      how: "this rank's own part of the source as its target",
    });
    const used = { source: from, readByteLength: source.byteLength, target: to, writtenByteLength };
    this.#issue(name, streamFor(options, source, this.#parts), used, {
      source: source.address,
      target: target.address,
      count,
      type: elements.type,
      operation: operationOf(reduction),
    });
  }

  /**
   * Sends a part of the source to each rank, and receives a part of the target from each rank, in the order of ranks.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html
   * @param source A part for each rank, all of the same size.
   * @param target A buffer of the source's size that does not overlap the source.
   * @throws {RangeError} If the source cannot be divided evenly, or the target is too small or overlaps the source
   * @throws {ReferenceError} If a buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  allToAll(source: DeviceBuffer, target: DeviceBuffer, given: OrStream<CollectiveOptions> = noOptions): void {
    const options = checkedCollectiveOptions(given);
    const from = checkBuffer(source, this.#parts, "allToAll");
    const to = checkBuffer(target, this.#parts, "allToAll");
    const count = countForEach(source, bytes, { size: this.size, call: "allToAll" });
    const { byteLength } = source;
    checkTargetSize(target, byteLength, "allToAll");
    const written = { address: target.address, byteLength };
    checkApart(source, written, { call: "allToAll", inPlace: false, how: undefined });
    const used = { source: from, readByteLength: byteLength, target: to, writtenByteLength: byteLength };
    const call = { source: source.address, target: target.address, count, type: bytes.type };
    this.#issue("allToAll", streamFor(options, source, this.#parts), used, call);
  }

  /**
   * Sends a buffer to another rank, which must receive it. On a GPU, the first send to a rank of this machine blocks
   * until that rank receives, for up to the timeout, because NCCL then connects the ranks.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/p2p.html
   * @param peer The rank that receives the buffer.
   * @throws {RangeError} If `peer` is not a rank
   * @throws {ReferenceError} If the buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  send(buffer: DeviceBuffer, peer: number, given: OrStream<CollectiveOptions> = noOptions): void {
    const options = checkedCollectiveOptions(given);
    const allocation = checkBuffer(buffer, this.#parts, "send");
    checkRank(peer, this.size, "the rank to send to");
    const { address, byteLength } = buffer;
    const used = { source: allocation, readByteLength: byteLength, target: undefined, writtenByteLength: 0 };
    const call = { source: address, target: 0n, count: byteLength, type: bytes.type, root: peer };
    this.#issue("send", streamFor(options, buffer, this.#parts), used, call);
  }

  /**
   * Receives the contents of a buffer of the same size that another rank sends. On a GPU, the first receive from a rank
   * of this machine blocks until that rank sends, for up to the timeout, because NCCL then connects the ranks.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/p2p.html
   * @param peer The rank that sends the buffer.
   * @throws {RangeError} If `peer` is not a rank
   * @throws {ReferenceError} If the buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  receive(buffer: DeviceBuffer, peer: number, given: OrStream<CollectiveOptions> = noOptions): void {
    const options = checkedCollectiveOptions(given);
    const allocation = checkBuffer(buffer, this.#parts, "receive");
    checkRank(peer, this.size, "the rank to receive from");
    const { address, byteLength } = buffer;
    const used = { source: undefined, readByteLength: 0, target: allocation, writtenByteLength: byteLength };
    const call = { source: 0n, target: address, count: byteLength, type: bytes.type, root: peer };
    this.#issue("receive", streamFor(options, buffer, this.#parts), used, call);
  }

  /**
   * Divides the communicator: ranks that pass the same color form a new communicator. All ranks must call this method.
   * This communicator stays usable.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html
   * @param color An integer of at least 0. Without a color, this rank joins no new communicator.
   * @param key Determines this rank's number in the new communicator: ranks of a color are sorted by key, and by their
   * current numbers if keys are equal.
   * @param options.signal Aborts the wait for the other ranks.
   * @returns The new communicator, or undefined without a color
   * @throws {RangeError} If the color or the key is out of range
   * @throws {SharingError} `timed-out` if not all ranks called this method in time, `peer-gone` if a rank has exited in
   * the meantime
   */
  split(color: number | undefined, key: number = 0, options: WaitOptions = {}): Promise<Communicator | undefined> {
    if (color !== undefined) checkInt(color, "the color of a split", 0);
    checkInt(key, "the key of a split", -maximumInt);
    checkOptions(options, splitOptions);
    this.#check();
    const creation = { ...options, name: `a part of ${this.#name}` };
    return this.#oneAtATime(async () => {
      throwIfAborted(creation.signal, creation.name);
      this.#check();
      const { library, comm } = this.#parts;
      const child = beginCreation(creation, () => library.commSplit(comm, { color, key }));
      const identity = `${this.#parts.identity}, division ${this.#divisionCount++} color ${color}`;
      if (child !== 0n) return await finishCreation({ ...this.#parts, identity }, child, creation);
      await untilReady(this.#parts, comm, creation);
      return undefined;
    });
  }

  /**
   * Creates a communicator without some of the ranks, which may be gone. All remaining ranks must call this method with
   * the same numbers. The remaining ranks keep their order. Unfinished collectives of this communicator are aborted,
   * and any wait for their streams throws a `SharingError` (`cut-off`). This communicator must still be disposed of.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html
   * @param without The numbers of the ranks to exclude.
   * @param options.signal Aborts the wait for the other ranks.
   * @throws {TypeError} If `without` is not an array of numbers
   * @throws {RangeError} If a number is not a rank, or is this rank
   * @throws {SharingError} `not-supported` if NCCL is older than 2.27, or a split or shrink is pending; `timed-out` if
   * not all ranks called this method in time; `peer-gone` if a rank has exited in the meantime
   */
  shrink(without: readonly number[], options: WaitOptions = {}): Promise<Communicator> {
    if (!Array.isArray(without)) {
      throw new TypeError(`Cannot shrink without ${whatIs(without)}: give the numbers of ranks, such as [2]`);
    }
    const excluded = [...new Set<number>(without)];
    for (const rank of excluded) checkRank(rank, this.size, "a rank to leave out");
    if (excluded.includes(this.rank)) {
      throw new RangeError(`Cannot shrink without rank ${this.rank}: it is the one that calls; dispose of it instead`);
    }
    checkOptions(options, shrinkOptions);
    this.#checkOpen();
    const creation = { ...options, name: `the rest of ${this.#name}` };
    return this.#oneAtATime(async () => {
      throwIfAborted(creation.signal, creation.name);
      this.#checkOpen();
      const { library, comm } = this.#parts;
      if (library.shrinkRefusal !== undefined) {
        throw new SharingError("not-supported", `Cannot shrink ${this.#name}: ${library.shrinkRefusal}`);
      }
      // CUDA reports aborted work as complete, so make waits for the communicator's streams throw.
      if (!this.#watchdog.isDone) {
        this.#watchdog.failUnfinished(
          new SharingError("cut-off", `Cannot finish the collectives of ${this.#name}: it was shrunk`),
        );
      }
      await this.#watchdog.whenRevoked();
      const child = beginCreation(creation, () => library.commShrink(comm, excluded));
      const names = excluded.sort((one, other) => one - other).join(" ");
      const identity = `${this.#parts.identity}, division ${this.#divisionCount++} without ${names}`;
      return await finishCreation({ ...this.#parts, identity }, child, creation);
    });
  }

  /**
   * Aborts the communicator and its unfinished collectives, for example because they hang after a rank has exited. Any
   * later wait for the stream of an aborted collective throws a `SharingError`. Other ranks of this machine are
   * notified of the abort.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html
   */
  async abort(): Promise<void> {
    await this.#abort("it was aborted");
  }

  /**
   * Waits for the communicator's collectives, and frees the communicator. Collectives that hang are aborted after the
   * timeout, when a rank is gone, or by {@linkcode Communicator.abort}.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposal ??= this.#dispose();
    await this.#disposal;
  }

  get #name(): string {
    return `the communicator of rank ${this.rank} of ${this.size}`;
  }

  get #description(): string {
    if (this.#state !== "open") return this.#state;
    return this.#watchdog.failure === undefined ? "open" : "failed";
  }

  /** Throws unless collectives can be called on the communicator. */
  #check(): void {
    this.#checkOpen();
    const { failure } = this.#watchdog;
    if (failure !== undefined) throw failure;
  }

  #checkOpen(): void {
    if (this.#state !== "open") throw new ReferenceError(`Cannot use ${this.#name}: ${this.#endReason}`);
  }

  #checkApartOrInPlace(call: string, source: DeviceBuffer, target: DeviceBuffer): void {
    const { byteLength } = source;
    const inPlace = source === target || source.address === target.address;
    checkApart(source, { address: target.address, byteLength }, { call, inPlace, how: "the same one twice" });
  }

  #issue(
    name: CollectiveName,
    stream: CudaStream,
    used: UsedMemory,
    { source, target, count, type, operation = 0, root = 0 }:
      & Pick<AnyCall, "source" | "target" | "count" | "type">
      & Partial<Pick<AnyCall, "operation" | "root">>,
  ): Collective {
    this.#check();
    const { comm } = this.#parts;
    const call = { comm, source, target, count, type, operation, root, stream: stream.unsafeHandle };
    const site = this.#observedRank === undefined ? undefined : captureCallStack();
    const collective = { issuer: this.#issuer, name, call, stream, used, site };
    issue(collective);
    return collective;
  }

  #oneAtATime<R>(action: () => Promise<R>): Promise<R> {
    const result = this.#lastDivision.then(action, action);
    this.#lastDivision = result.catch(() => {});
    return result;
  }

  async #dispose(): Promise<void> {
    if (this.#state !== "open") return await this.#freeOnce();
    this.#state = "disposed";
    this.#endReason = "it was disposed";
    await this.#lastDivision;
    try {
      await waitUntil(() => this.#watchdog.isDone);
    } catch (error) {
      this.#watchdog.fail(error as Error);
      await this.#freeOnce();
      if (!isLoss(error)) throw error;
    }
    await this.#freeOnce();
  }

  async #abort(why: string): Promise<void> {
    if (this.#release === undefined) {
      if (this.#state === "open") this.#endReason = why;
      this.#state = "aborted";
      // Retire completed work first, so that it is not aborted. Ignore a lost device: the program's other calls report
      // it.
      ignoreLoss(() => this.#watchdog.poll());
      const error = new SharingError("cut-off", `Cannot finish the collectives of ${this.#name}: ${why}`);
      this.#watchdog.failUnfinished(error, { isAborted: true });
    }
    await this.#freeOnce();
  }

  /** Frees the library's communicator, or aborts it if it has failed, unless this was done already. */
  #freeOnce(): Promise<void> {
    return this.#release ??= this.#releaseNow();
  }

  async #releaseNow(): Promise<void> {
    const { library, comm, session } = this.#parts;
    await this.#watchdog.whenRevoked();
    session.beforeEnd.delete(this.#abortWithSession);
    if (this.#observedRank !== undefined) session.sanitizer?.onRankLeft(this.#observedRank);
    this.#watchdog.stop();
    try {
      await (this.#watchdog.failure === undefined ? library.commDestroy(comm) : library.commAbort(comm));
    } catch (error) {
      // Closing the driver may have freed the communicator already.
      if (!session.hasEnded) throw error;
    }
  }
}

/** Resolves with the communicator when all of its ranks have joined. Frees it if an error or timeout prevents that. */
async function finishCreation(
  parts: Omit<CommunicatorParts, "comm" | "rank" | "size">,
  comm: bigint,
  options: CreationOptions,
): Promise<Communicator> {
  const { library, session } = parts;
  try {
    await untilReady(parts, comm, options);
    if (session.hasEnded) throw disposedMeanwhile(`create ${options.name}`, "the Cuda object");
    return create({ ...parts, comm, rank: library.commUserRank(comm), size: library.commCount(comm) });
  } catch (error) {
    await library.commAbort(comm).catch(() => {});
    throw error;
  }
}
