import type { DeviceBuffer } from "../memory/device_buffer.ts";
import { type Cuda, sessionOf } from "../objects/cuda.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import type { CudaStream } from "../objects/streams/cuda_stream.ts";
import { sessionOfDevice } from "../objects/device_sessions.ts";
import { callSiteHere } from "../sanitizer/reporting/call_sites.ts";
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
  checkCollectiveOptions,
  checkRank,
  checkRoom,
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
  type Issuer,
  issueTogether,
  type UsedMemory,
} from "./collective_group.ts";
import { checkedCommunicatorOptions, checkInt, type CommunicatorOptions } from "./communicator_options.ts";
import { begin, type CreationOptions, libraryOf, type Parts, untilReady } from "./creation.ts";
import { PendingCollectives } from "./pending_collectives.ts";
import { RepeatedCall } from "./repeated_call.ts";

const noOptions: CollectiveOptions = {};
const splitOptions = waitOptionsOf("split a communicator");
const shrinkOptions = waitOptionsOf("shrink a communicator");

/** Makes the object of a communicator that is ready. */
let create: (parts: Parts) => Communicator;

/**
 * A rank of a group of GPUs that compute together: NCCL's communicator. Each process, or each part of one, that works
 * with a GPU has a rank. All ranks call the same collectives in the same order.
 *
 * A collective returns when its work is on the stream, and is done in the stream's order. If a rank ends, the work that
 * waits for it ends, too, and what waits for its stream gets a `SharingError`: `"peer-gone"` soon after a process of this
 * machine has ended, and `"timed-out"` in any case after the communicator's timeout. The communicator makes no more
 * collectives then: {@linkcode Communicator.shrink} makes another one of those that are left.
 *
 * On a GPU, this needs NCCL 2.18 or newer (`libnccl.so.2`). On the software device, the ranks are processes of one
 * machine and one user that exchange bytes by shared memory: a stand-in for tests, which reduces in the order of ranks.
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
  /** The device whose memory it works with. */
  readonly device: CudaDevice;
  /** The number of this rank, from 0. */
  readonly rank: number;
  /** How many ranks there are. */
  readonly size: number;
  readonly #parts: Parts;
  readonly #pending: PendingCollectives;
  readonly #issuer: Issuer;
  /** What the sanitizer knows it by. */
  readonly #sanitized: CommunicatorRank | undefined;
  /** What the last all-reduce read, and that one if it was called twice. */
  #lastSource: DeviceBuffer | undefined;
  #repeated: RepeatedCall | undefined;
  /** How many others were divided from it. */
  #divisions = 0;
  readonly #endWithSession = () => void this.#abort("the Cuda object was disposed").catch(() => {});
  #state: "open" | "aborted" | "disposed" = "open";
  /** Why it is not open any more. */
  #ended = "";
  /** Calls that must not run at the same time. */
  #managing: Promise<unknown> = Promise.resolve();
  /** Resolve when it is disposed of, and when nothing is left of it. */
  #disposing: Promise<void> | undefined;
  #freeing: Promise<void> | undefined;

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

  private constructor(parts: Parts) {
    if (parts?.comm === undefined) refuseConstruction("Communicator", "Communicator.create");
    this.#parts = parts;
    this.device = parts.device;
    this.rank = parts.rank;
    this.size = parts.size;
    const { session: { sanitizer }, library, identity, rank, size } = parts;
    this.#pending = new PendingCollectives({ ...parts, name: this.#name });
    this.#sanitized = sanitizer?.joins(identity, rank, size);
    this.#issuer = { library, sanitizer, rank: this.#sanitized, name: this.#name, pending: this.#pending };
    parts.session.beforeEnd.add(this.#endWithSession);
  }

  /**
   * Creates what all ranks of a communicator need to find each other: one of them creates it, and sends it to the others
   * by whatever the program has. Whoever has it can take part.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html
   * @returns 128 bytes
   * @throws {Error} If there is no NCCL
   */
  static createId(cuda: Cuda): Uint8Array<ArrayBuffer> {
    return libraryOf(sessionOf(cuda)).getUniqueId();
  }

  /**
   * Resolves when all ranks have called it. Does not block the event loop.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html
   * @param device The device that this rank works with. In one communicator, each rank has a device of its own, but for
   * the software device.
   * @throws {TypeError} If an option is missing or has the wrong type
   * @throws {RangeError} If the id has another length, there is no such rank, or another process has it already
   * @throws {SharingError} `timed-out` if not all came in time, `peer-gone` if one has ended meanwhile
   * @throws {CudaError} If NCCL fails: its code is NCCL's, such as `ncclSystemError`
   */
  static async create(device: CudaDevice, options: CommunicatorOptions): Promise<Communicator> {
    const session = sessionOfDevice(device);
    const { id, rank, size, signal, timeout } = checkedCommunicatorOptions(options);
    const creation = { name: `the communicator of rank ${rank} of ${size}`, signal };
    throwIfAborted(signal, creation.name);
    const library = libraryOf(session);
    const comm = begin(creation, () => library.commInitRank(device.ordinal, { id, rank, size, timeout }));
    return await finishCreation({ session, library, device, timeout, identity: id.toHex() }, comm, creation);
  }

  /**
   * Gives the collectives that a function calls to their streams together, when it returns. Needed for sends and
   * receives that would wait for each other, and for several communicators of one thread. They have no order among
   * themselves; copies and kernels that the function calls come before all of them. If the function throws, none of them
   * is made.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/groups.html
   * @param body Calls collectives of any communicators, and awaits nothing.
   * @throws {TypeError} If it is not a function, or returns a promise
   * @throws {RangeError} If a call writes what another one of the group reads or writes
   */
  static group(body: () => void): void {
    issueTogether(body);
  }

  /**
   * Gives each rank, for each element, what is made of that element of all ranks.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html
   * @param source What this rank gives: an array of any type but the 16-bit integers and `Uint8ClampedArray`.
   * @param target Where the result goes; may be the source.
   * @throws {TypeError} If the elements have no type, or NCCL has none such
   * @throws {RangeError} If the target is too small, or overlaps the source otherwise
   * @throws {ReferenceError} If a buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  allReduce(
    source: DeviceBuffer,
    target: DeviceBuffer,
    reduction: Reduction = "sum",
    options: CollectiveOptions = noOptions,
  ): void {
    if (this.#repeated?.isFor(source, target, reduction, options) === true) {
      this.#check();
      return this.#repeated.issue();
    }
    checkCollectiveOptions(options);
    const from = checkBuffer(source, this.#parts, "allReduce");
    const to = checkBuffer(target, this.#parts, "allReduce");
    const elements = reducedElements(source, target, { options, call: "allReduce" });
    const { byteLength } = source;
    const count = countElements(byteLength, elements, "allReduce");
    checkRoom(target, byteLength, "allReduce");
    this.#checkApartOrSame("allReduce", source, target);
    const used = { source: from, readByteLength: byteLength, target: to, writtenByteLength: byteLength };
    const collective = this.#issue("allReduce", streamFor(options, source, this.#parts), used, {
      source: source.address,
      target: target.address,
      count,
      type: elements.type,
      operation: operationOf(reduction),
    });
    // The sanitizer tells where each one was called.
    if (this.#sanitized !== undefined) return;
    if (source === this.#lastSource) {
      this.#repeated = new RepeatedCall(collective, { source, target, reduction, options });
    }
    this.#lastSource = source;
  }

  /**
   * Gives one rank, for each element, what is made of that element of all ranks.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html
   * @param target Where the result goes in the rank `root`; may be the source. Not used by the others.
   * @param root The rank that gets the result.
   * @throws {TypeError} If the elements have no type, or NCCL has none such
   * @throws {RangeError} If the target is too small or overlaps the source otherwise, or there is no such rank
   * @throws {ReferenceError} If a buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  reduce(
    source: DeviceBuffer,
    target: DeviceBuffer,
    root: number,
    reduction: Reduction = "sum",
    options: CollectiveOptions = noOptions,
  ): void {
    checkCollectiveOptions(options);
    const from = checkBuffer(source, this.#parts, "reduce");
    const to = checkBuffer(target, this.#parts, "reduce");
    checkRank(root, this.size, "the root of a reduce");
    const elements = reducedElements(source, target, { options, call: "reduce" });
    const { byteLength } = source;
    const count = countElements(byteLength, elements, "reduce");
    const isRoot = root === this.rank;
    if (isRoot) {
      checkRoom(target, byteLength, "reduce");
      this.#checkApartOrSame("reduce", source, target);
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
   * Copies a buffer of one rank to all others.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html
   * @param buffer Read in the rank `root`, written in the others. It has the same size in all.
   * @param root The rank that has the bytes.
   * @throws {RangeError} If there is no such rank
   * @throws {ReferenceError} If the buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  broadcast(buffer: DeviceBuffer, root: number, options: CollectiveOptions = noOptions): void {
    checkCollectiveOptions(options);
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
   * Gives each rank the buffers of all, one behind the other in the order of ranks.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html
   * @param source What this rank gives: as many bytes as the others.
   * @param target `size` times as large. The source may be this rank's part of it.
   * @throws {RangeError} If the target is too small, or overlaps the source otherwise
   * @throws {ReferenceError} If a buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  allGather(source: DeviceBuffer, target: DeviceBuffer, options: CollectiveOptions = noOptions): void {
    checkCollectiveOptions(options);
    const from = checkBuffer(source, this.#parts, "allGather");
    const to = checkBuffer(target, this.#parts, "allGather");
    const { byteLength } = source;
    const writtenByteLength = byteLength * this.size;
    checkRoom(target, writtenByteLength, "allGather");
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
   * Gives each rank its part of what is made of the elements of all ranks.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html
   * @param source A part for each rank, in the order of ranks.
   * @param target Where this rank's part goes. It may be this rank's part of the source.
   * @throws {TypeError} If the elements have no type, or NCCL has none such
   * @throws {RangeError} If the source cannot be divided, or the target is too small or overlaps the source otherwise
   * @throws {ReferenceError} If a buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  reduceScatter(
    source: DeviceBuffer,
    target: DeviceBuffer,
    reduction: Reduction = "sum",
    options: CollectiveOptions = noOptions,
  ): void {
    const name = "reduceScatter";
    checkCollectiveOptions(options);
    const from = checkBuffer(source, this.#parts, name);
    const to = checkBuffer(target, this.#parts, name);
    const elements = reducedElements(source, target, { options, call: name });
    const count = countForEach(source, elements, { size: this.size, call: name });
    const writtenByteLength = count * elements.size;
    checkRoom(target, writtenByteLength, name);
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
   * Sends a part of the source to each rank, and gets one of each, both in the order of ranks.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html
   * @param source A part for each rank, all of one size.
   * @param target As large, and apart from the source.
   * @throws {RangeError} If the source cannot be divided, or the target is too small or overlaps the source
   * @throws {ReferenceError} If a buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  allToAll(source: DeviceBuffer, target: DeviceBuffer, options: CollectiveOptions = noOptions): void {
    checkCollectiveOptions(options);
    const from = checkBuffer(source, this.#parts, "allToAll");
    const to = checkBuffer(target, this.#parts, "allToAll");
    const count = countForEach(source, bytes, { size: this.size, call: "allToAll" });
    const { byteLength } = source;
    checkRoom(target, byteLength, "allToAll");
    const written = { address: target.address, byteLength };
    checkApart(source, written, { call: "allToAll", inPlace: false, how: undefined });
    const used = { source: from, readByteLength: byteLength, target: to, writtenByteLength: byteLength };
    const call = { source: source.address, target: target.address, count, type: bytes.type };
    this.#issue("allToAll", streamFor(options, source, this.#parts), used, call);
  }

  /**
   * Sends a buffer to another rank, which receives it. On a GPU, the first one to a rank of this machine blocks until
   * that rank receives it, as long as the timeout: NCCL prepares the way then.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/p2p.html
   * @param peer The rank that receives it.
   * @throws {RangeError} If there is no such rank
   * @throws {ReferenceError} If the buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  send(buffer: DeviceBuffer, peer: number, options: CollectiveOptions = noOptions): void {
    checkCollectiveOptions(options);
    const allocation = checkBuffer(buffer, this.#parts, "send");
    checkRank(peer, this.size, "the rank to send to");
    const { address, byteLength } = buffer;
    const used = { source: allocation, readByteLength: byteLength, target: undefined, writtenByteLength: 0 };
    const call = { source: address, target: 0n, count: byteLength, type: bytes.type, root: peer };
    this.#issue("send", streamFor(options, buffer, this.#parts), used, call);
  }

  /**
   * Receives what another rank sends: as many bytes as the buffer has. The first one blocks as the first send does.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/p2p.html
   * @param peer The rank that sends it.
   * @throws {RangeError} If there is no such rank
   * @throws {ReferenceError} If the buffer was freed, or the communicator was disposed
   * @throws {SharingError} `peer-gone` or `timed-out`, if a rank is gone
   */
  receive(buffer: DeviceBuffer, peer: number, options: CollectiveOptions = noOptions): void {
    checkCollectiveOptions(options);
    const allocation = checkBuffer(buffer, this.#parts, "receive");
    checkRank(peer, this.size, "the rank to receive from");
    const { address, byteLength } = buffer;
    const used = { source: undefined, readByteLength: 0, target: allocation, writtenByteLength: byteLength };
    const call = { source: 0n, target: address, count: byteLength, type: bytes.type, root: peer };
    this.#issue("receive", streamFor(options, buffer, this.#parts), used, call);
  }

  /**
   * Divides the communicator: the ranks that give the same color become one of their own. All ranks call it. This one
   * stays as it is.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html
   * @param color A whole number of at least 0; without one, this rank is in none.
   * @param key Ranks of a color are in the order of their keys, and of their ranks where those are equal.
   * @param options.signal Ends the wait for the others.
   * @returns The new communicator, or undefined without a color
   * @throws {RangeError} If a number is not such
   * @throws {SharingError} `timed-out` if not all came in time, `peer-gone` if one has ended meanwhile
   */
  split(color: number | undefined, key: number = 0, options: WaitOptions = {}): Promise<Communicator | undefined> {
    if (color !== undefined) checkInt(color, "the color of a split", 0);
    checkInt(key, "the key of a split", -maximumInt);
    checkOptions(options, splitOptions);
    this.#check();
    const creation = { ...options, name: `a part of ${this.#name}` };
    return this.#manage(async () => {
      throwIfAborted(creation.signal, creation.name);
      this.#check();
      const { library, comm } = this.#parts;
      const child = begin(creation, () => library.commSplit(comm, { color, key }));
      const identity = `${this.#parts.identity}, division ${this.#divisions++} color ${color}`;
      if (child !== 0n) return await finishCreation({ ...this.#parts, identity }, child, creation);
      await untilReady(this.#parts, comm, creation);
      return undefined;
    });
  }

  /**
   * Makes a communicator of all ranks but some, which may be gone. Those that stay call it, with the same numbers. They
   * keep their order. This one is to be disposed of all the same. Its collectives that are not done yet are ended, and
   * what waits for their streams gets a `SharingError` (`cut-off`).
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html
   * @param without The numbers of the ranks that do not stay.
   * @param options.signal Ends the wait for the others.
   * @throws {TypeError} If they are not numbers in an array
   * @throws {RangeError} If there is no such rank, or this one is among them
   * @throws {SharingError} `not-supported` if NCCL is older than 2.27, or a division has not ended; `timed-out` if not all
   * came in time; `peer-gone` if one has ended meanwhile
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
    return this.#manage(async () => {
      throwIfAborted(creation.signal, creation.name);
      this.#checkOpen();
      const { library, comm } = this.#parts;
      if (library.shrinkRefusal !== undefined) {
        throw new SharingError("not-supported", `Cannot shrink ${this.#name}: ${library.shrinkRefusal}`);
      }
      // Its streams must not take for done what is ended.
      if (!this.#pending.isDone) {
        this.#pending.endUnfinished(
          new SharingError("cut-off", `Cannot finish the collectives of ${this.#name}: it was shrunk`),
        );
      }
      await this.#pending.ended();
      const child = begin(creation, () => library.commShrink(comm, excluded));
      const names = excluded.sort((one, other) => one - other).join(" ");
      const identity = `${this.#parts.identity}, division ${this.#divisions++} without ${names}`;
      return await finishCreation({ ...this.#parts, identity }, child, creation);
    });
  }

  /**
   * Ends the work that hangs because a rank is gone, and the communicator with it. Waits for the streams that had it get
   * a `SharingError`. The other ranks of this machine get to know.
   *
   * @see https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html
   */
  async abort(): Promise<void> {
    await this.#abort("it was aborted");
  }

  /**
   * Waits for its work, and frees it. What hangs is ended after the timeout, or when a rank is gone, or by
   * {@linkcode Communicator.abort}.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposing ??= this.#dispose();
    await this.#disposing;
  }

  get #name(): string {
    return `the communicator of rank ${this.rank} of ${this.size}`;
  }

  get #description(): string {
    if (this.#state !== "open") return this.#state;
    return this.#pending.failure === undefined ? "open" : "failed";
  }

  /** Throws unless it can make collectives. */
  #check(): void {
    this.#checkOpen();
    const { failure } = this.#pending;
    if (failure !== undefined) throw failure;
  }

  #checkOpen(): void {
    if (this.#state !== "open") throw new ReferenceError(`Cannot use ${this.#name}: ${this.#ended}`);
  }

  #checkApartOrSame(call: string, source: DeviceBuffer, target: DeviceBuffer): void {
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
    const site = this.#sanitized === undefined ? undefined : callSiteHere();
    const collective = { issuer: this.#issuer, name, call, stream, used, site };
    issue(collective);
    return collective;
  }

  /** Does one thing at a time. */
  #manage<R>(action: () => Promise<R>): Promise<R> {
    const result = this.#managing.then(action, action);
    this.#managing = result.catch(() => {});
    return result;
  }

  async #dispose(): Promise<void> {
    if (this.#state !== "open") return await this.#free();
    this.#state = "disposed";
    this.#ended = "it was disposed";
    await this.#managing;
    try {
      await waitUntil(() => this.#pending.isDone);
    } catch (error) {
      this.#pending.fail(error as Error);
      await this.#free();
      if (!isLoss(error)) throw error;
    }
    await this.#free();
  }

  async #abort(why: string): Promise<void> {
    if (this.#freeing === undefined) {
      if (this.#state === "open") this.#ended = why;
      this.#state = "aborted";
      // What is done already was not ended. A device that is lost tells the program so itself.
      ignoreLoss(() => this.#pending.look());
      const error = new SharingError("cut-off", `Cannot finish the collectives of ${this.#name}: ${why}`);
      this.#pending.endUnfinished(error, { isAborted: true });
    }
    await this.#free();
  }

  /** Frees it, once. Ends what is still there of one that can do no more. */
  #free(): Promise<void> {
    return this.#freeing ??= this.#freeNow();
  }

  async #freeNow(): Promise<void> {
    const { library, comm, session } = this.#parts;
    await this.#pending.ended();
    session.beforeEnd.delete(this.#endWithSession);
    if (this.#sanitized !== undefined) session.sanitizer?.leaves(this.#sanitized);
    this.#pending.stop();
    try {
      await (this.#pending.failure === undefined ? library.commDestroy(comm) : library.commAbort(comm));
    } catch (error) {
      // The end of the driver may have freed it already.
      if (!session.hasEnded) throw error;
    }
  }
}

/** Resolves with a communicator when all its ranks are there. Otherwise nothing is left of it. */
async function finishCreation(
  parts: Omit<Parts, "comm" | "rank" | "size">,
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
