/**
 * Handles by which processes share memory pools, and the functions that export buffers.
 *
 * @module
 */
import { withoutSign } from "../../../ffi/native/host.ts";
import {
  closeAside,
  closeDescriptor,
  isLargeFile,
  isPoolLike,
  judgeDescriptor,
} from "../../../ffi/native/shim/descriptors.ts";
import { closeOnThread } from "../../../ffi/native/file_transfers.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { fabricHandleByteLength } from "../../driver.ts";
import { printAs } from "../../support/printing.ts";
import { CudaError, SharingError } from "../../support/errors.ts";
import { maximumInt } from "../../support/validation.ts";
import { cannot } from "../../support/driver_errors.ts";
import type { Allocation } from "../allocation.ts";
import type { DeviceBuffer } from "../device_buffer.ts";
import { cloneRefusal, shareOrOpen } from "../../support/cloning.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";

/**
 * Must be passed to the constructor, so that only this file can call it: a handle closes its descriptor, which must not
 * be an arbitrary number. The modifier `private` is only checked at compile time.
 */
const constructionToken = Symbol();

const refusalToClone = cloneRefusal("a ShareableHandle", shareOrOpen);

/**
 * A handle to a memory pool that another process can import. It owns a file descriptor, which it closes, or holds the
 * 64 bytes of a fabric handle. Sending or importing the handle does not transfer ownership: dispose it afterwards. The
 * receiver and the imported pool do not depend on the handle.
 *
 * @example
 * ```ts
 * using handle = pool.exportHandle();
 * await socket.send(new Uint8Array(1), { handles: [handle] });
 * ```
 */
export class ShareableHandle implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The type of the handle: a `"posix-fd"` handle has `fd`, a `"fabric"` handle has `bytes`. */
  readonly type: "posix-fd" | "fabric";
  #fd: number;
  #bytes: Uint8Array<ArrayBuffer>;
  /** Whether to close the descriptor on another thread, because another process may be able to delay the close. */
  readonly #closesAside: boolean;
  /** Whether the descriptor, which came from `fromFd`, is that of a memory file. */
  readonly #isMemoryFile: boolean;
  #disposed = false;

  static {
    printAs(this, "ShareableHandle", (handle) => {
      const fd = handle.type === "posix-fd" && !handle.#disposed ? ` ${handle.#fd}` : "";
      return `ShareableHandle { ${handle.type}${fd}${handle.#disposed ? ", disposed" : ""} }`;
    }, ["type", ["fd", (handle) => handle.type === "posix-fd" && !handle.#disposed ? handle.#fd : undefined], [
      "disposed",
      (handle) => handle.#disposed,
    ]]);
  }

  private constructor(
    token: typeof constructionToken,
    parts: {
      type: "posix-fd" | "fabric";
      fd?: number;
      bytes?: Uint8Array<ArrayBuffer>;
      closesAside?: boolean;
      isMemoryFile?: boolean;
    },
  ) {
    if (token !== constructionToken) {
      throw new TypeError(
        "Cannot construct a ShareableHandle: use MemoryPool.exportHandle, ShareableHandle.fromFd or .fromBytes",
      );
    }
    this.type = parts.type;
    this.#fd = parts.fd ?? -1;
    this.#bytes = parts.bytes ?? new Uint8Array(0);
    this.#closesAside = parts.closesAside ?? false;
    this.#isMemoryFile = parts.isMemoryFile ?? false;
  }

  /**
   * Creates a handle that owns a file descriptor, and closes it when disposed.
   *
   * @throws {TypeError} If `fd` is not an integer
   * @throws {RangeError} If `fd` is out of range, or not open
   * @throws {SharingError} `not-supported` if file descriptors cannot be used: without FFI, or on a system other than
   * Linux
   */
  static fromFd(fd: number): ShareableHandle {
    fd = checkDescriptor(fd);
    const refusal = shimRefusal();
    if (refusal !== undefined) throw new SharingError("not-supported", `Cannot take over a descriptor: ${refusal}`);
    try {
      const judgement = judgeDescriptor(fd);
      const { isMemoryFile } = judgement;
      const closesAside = !isPoolLike(judgement);
      return new ShareableHandle(constructionToken, { type: "posix-fd", fd, closesAside, isMemoryFile });
    } catch (cause) {
      throw new RangeError(`Cannot take over descriptor ${fd}: it is not open`, { cause });
    }
  }

  /**
   * Creates a fabric handle from a copy of the bytes.
   *
   * @throws {TypeError} If `bytes` is not a `Uint8Array`
   * @throws {RangeError} If `bytes` is not 64 bytes long
   */
  static fromBytes(bytes: Uint8Array): ShareableHandle {
    if (!(bytes instanceof Uint8Array)) {
      throw new TypeError("Cannot make a fabric handle: its bytes must be a Uint8Array");
    }
    if (bytes.length !== fabricHandleByteLength) {
      throw new RangeError(
        `Cannot make a fabric handle of ${bytes.length} bytes: it must have ${fabricHandleByteLength}`,
      );
    }
    return new ShareableHandle(constructionToken, { type: "fabric", bytes: Uint8Array.from(bytes) });
  }

  /**
   * The file descriptor. The handle still owns it.
   *
   * @throws {TypeError} If this is a fabric handle
   * @throws {ReferenceError} If the handle was disposed
   */
  get fd(): number {
    this.#check();
    if (this.type !== "posix-fd") throw new TypeError("Cannot read the fd of a fabric handle: it has bytes instead");
    return this.#fd;
  }

  /**
   * The 64 bytes of a fabric handle.
   *
   * @throws {TypeError} If this handle owns a file descriptor instead
   * @throws {ReferenceError} If the handle was disposed
   */
  get bytes(): Uint8Array<ArrayBuffer> {
    this.#check();
    if (this.type !== "fabric") throw new TypeError("Cannot read the bytes of a posix-fd handle: it has an fd instead");
    return this.#bytes;
  }

  /**
   * Closes the descriptor. If it does not belong to a pool, or is a large memory file, it is closed on another thread,
   * because the close may block.
   */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    if (this.type !== "posix-fd") return;
    if (this.#closesAside) closeAside(this.#fd);
    else if (this.#isMemoryFile && isLargeFile(this.#fd)) closeOnThread(this.#fd);
    else closeDescriptor(this.#fd);
  }

  #check(): void {
    if (this.#disposed) throw new ReferenceError(`Cannot use the ${this.type} handle: it was disposed`);
  }
}

/**
 * Returns `fd` if it is a valid descriptor number, and throws otherwise: the runtimes differ in how they treat other
 * numbers.
 */
export function checkDescriptor(fd: number): number {
  if (!Number.isInteger(fd)) throw new TypeError(`Cannot take over descriptor ${String(fd)}: it is not an integer`);
  if (fd < 0 || fd > maximumInt) throw new RangeError(`Cannot take over descriptor ${fd}: it is out of range`);
  return withoutSign(fd);
}

/** Advice in error messages: the requirements of a fabric handle, and the alternative. */
const channelHint =
  "a fabric handle needs an IMEX channel, by which processes of one NVLink domain share memory: an administrator loads " +
  "the driver with NVreg_CreateImexChannel0=1, or makes /dev/nvidia-caps-imex-channels/channel0 with mknod and lets " +
  "this user open it, and runs the service nvidia-imex on each machine; in Kubernetes, NVIDIA's DRA driver gives a " +
  'channel to those that claim one; on one machine, use handleType "posix-fd"';

/**
 * Returns advice for an error that occurred when creating or exporting a pool or memory with handleType "fabric".
 * Undefined if there is no advice for the error.
 */
export function fabricHint(error: unknown): string | undefined {
  return error instanceof CudaError && error.code === "cudaErrorNotPermitted" ? channelHint : undefined;
}

/**
 * Returns advice for an error that occurred when importing a fabric handle.
 *
 * @param what the object that the handle must come from: "a pool"
 */
export function fabricImportHint(error: unknown, what: string): string {
  return fabricHint(error) ??
    `it must come from exportHandle of ${what} that its exporter still has, on this machine or another of its NVLink ` +
      "domain, and this process must have the exporter's IMEX channel";
}

/** Returns the export data of a buffer from a pool. `isPart` is whether the buffer is part of another one. */
export function exportPointerOf(
  buffer: DeviceBuffer,
  allocation: Allocation,
  isPart: boolean,
): Uint8Array<ArrayBuffer> {
  checkIsOurs(buffer, allocation);
  checkIsNotManaged(allocation);
  checkIsWhole(buffer, allocation, isPart);
  checkIsNotMapped(allocation, "pointer");
  if (allocation.pool === undefined) {
    throw new TypeError(
      "Cannot export a pointer to memory that is not from a pool: allocate it from one, or use exportHandle",
    );
  }
  return allocation.exportPointer();
}

/**
 * Returns the legacy handle of a buffer that is not from a pool. `isPart` is whether the buffer is part of another one.
 */
export function exportHandleOf(buffer: DeviceBuffer, allocation: Allocation, isPart: boolean): Uint8Array<ArrayBuffer> {
  checkIsOurs(buffer, allocation);
  const { exportHandle } = allocation.owner;
  checkIsNotManaged(allocation);
  checkIsNotMapped(allocation, "handle");
  if (exportHandle === undefined) {
    throw new TypeError(
      "Cannot export a handle to this memory: only memory from CudaDevice.allocate has one; use exportPointer for " +
        "memory of a pool",
    );
  }
  checkIsWhole(buffer, allocation, isPart);
  try {
    return exportHandle(buffer.address);
  } catch (error) {
    throw cannot(`export the memory on device ${allocation.device.ordinal}`, error);
  }
}

/** Throws if the memory is managed, which CUDA shares in no way. */
function checkIsNotManaged({ owner }: Allocation): void {
  if (!owner.isManaged) return;
  throw new TypeError(
    "Cannot export managed memory: no other process can map it; copy it to memory that can be shared",
  );
}

/** Throws if the memory is virtual memory, which can be shared only by file descriptors. */
function checkIsNotMapped({ owner }: Allocation, what: string): void {
  if (owner.accessOf === undefined) return;
  const hint = owner.physical === undefined
    ? "it is mapped in an address range; use exportHandle of the PhysicalMemory that is mapped"
    : "it is shared by a descriptor; offer it with an Exporter, or create it with createMemory to export it yourself";
  throw new TypeError(`Cannot export a ${what} to this memory: ${hint}`);
}

/** Throws if a buffer wraps memory that other code owns. */
export function checkIsOurs(buffer: DeviceBuffer, { owner }: Allocation): void {
  if (!owner.isForeign) return;
  // For a freed buffer, this access throws the more specific error.
  void buffer.address;
  throw new TypeError(
    "Cannot export the buffer: it wraps memory that other code owns, which alone can export it; copy it to a buffer " +
      "of a pool that can be shared",
  );
}

function checkIsWhole(buffer: DeviceBuffer, { owner }: Allocation, isPart: boolean): void {
  if (owner.part !== undefined) {
    // For a freed buffer, this access throws the more specific error.
    void buffer.address;
    throw new TypeError(
      "Cannot export the buffer: it is a part of a slab; offer it with an Exporter, or export the slab that its " +
        "allocator's slabOf returns, and send the offset with it",
    );
  }
  if (!isPart) return;
  throw new TypeError(
    "Cannot export a part of a buffer: export the whole buffer, and send the part's offset with it",
  );
}
