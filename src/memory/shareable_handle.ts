/**
 * What names a memory pool to another process.
 *
 * @module
 */
import { withoutSign } from "../../ffi/host.ts";
import { closeDescriptor, describeDescriptor } from "../../ffi/shim/descriptors.ts";
import { shimRefusal } from "../../ffi/shim/shim.ts";
import { printAs } from "../support/printing.ts";
import { SharingError } from "../support/errors.ts";
import { maximumInt } from "../support/validation.ts";

const fabricByteLength = 64;
/** Types alone keep nobody from the constructor, and a handle closes whatever descriptor it is made of. */
const factory = Symbol();

/**
 * Owns a file descriptor, closed once, or a 64-byte fabric handle. Sending it and importing from it borrow it: it is
 * still to be disposed of afterwards, and what was sent or imported does not depend on it any more.
 *
 * @example
 * ```ts
 * using handle = pool.exportHandle();
 * await socket.send(new Uint8Array(1), { handles: [handle] });
 * ```
 */
export class ShareableHandle implements Disposable {
  /** `"posix-fd"` has a descriptor, `"fabric"` has bytes. */
  readonly type: "posix-fd" | "fabric";
  #fd: number;
  #bytes: Uint8Array<ArrayBuffer>;
  #disposed = false;

  static {
    printAs(this, "ShareableHandle", (handle) => {
      const fd = handle.type === "posix-fd" && !handle.#disposed ? ` ${handle.#fd}` : "";
      return `ShareableHandle { ${handle.type}${fd}${handle.#disposed ? ", disposed" : ""} }`;
    });
  }

  private constructor(
    maker: typeof factory,
    parts: { type: "posix-fd" | "fabric"; fd?: number; bytes?: Uint8Array<ArrayBuffer> },
  ) {
    if (maker !== factory) {
      throw new TypeError(
        "Cannot construct a ShareableHandle: MemoryPool.exportHandle, ShareableHandle.fromFd and .fromBytes make them",
      );
    }
    this.type = parts.type;
    this.#fd = parts.fd ?? -1;
    this.#bytes = parts.bytes ?? new Uint8Array(0);
  }

  /**
   * Takes a descriptor over: from now on the handle closes it.
   *
   * @throws {TypeError} when it is no integer
   * @throws {RangeError} when it is negative, or not open
   * @throws {SharingError} `not-supported` where descriptors cannot be used
   */
  static fromFd(fd: number): ShareableHandle {
    fd = checkDescriptor(fd);
    const refusal = shimRefusal();
    if (refusal !== undefined) throw new SharingError("not-supported", `Cannot take over a descriptor: ${refusal}`);
    try {
      describeDescriptor(fd);
    } catch (cause) {
      throw new RangeError(`Cannot take over descriptor ${fd}: it is not open`, { cause });
    }
    return new ShareableHandle(factory, { type: "posix-fd", fd });
  }

  /**
   * A fabric handle of these bytes, which are copied.
   *
   * @throws {RangeError} unless there are 64
   */
  static fromBytes(bytes: Uint8Array): ShareableHandle {
    if (!(bytes instanceof Uint8Array)) throw new TypeError("Cannot make a fabric handle: it takes a Uint8Array");
    if (bytes.length !== fabricByteLength) {
      throw new RangeError(`Cannot make a fabric handle of ${bytes.length} bytes: it has ${fabricByteLength}`);
    }
    return new ShareableHandle(factory, { type: "fabric", bytes: Uint8Array.from(bytes) });
  }

  /** The descriptor; it stays the handle's. */
  get fd(): number {
    this.#check();
    if (this.type !== "posix-fd") throw new TypeError("Cannot read the fd of a fabric handle: it has bytes instead");
    return this.#fd;
  }

  /** The 64 bytes of a fabric handle. */
  get bytes(): Uint8Array<ArrayBuffer> {
    this.#check();
    if (this.type !== "fabric") throw new TypeError("Cannot read the bytes of a posix-fd handle: it has an fd instead");
    return this.#bytes;
  }

  /** Closes the descriptor. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    if (this.type === "posix-fd") closeDescriptor(this.#fd);
  }

  #check(): void {
    if (this.#disposed) throw new ReferenceError(`Cannot use the ${this.type} handle: it was disposed`);
  }
}

/** The number of a descriptor. Throws unless there can be one of it: the runtimes make what they like of the others. */
export function checkDescriptor(fd: number): number {
  if (!Number.isInteger(fd)) throw new TypeError(`Cannot take over descriptor ${String(fd)}: it is no integer`);
  if (fd < 0 || fd > maximumInt) throw new RangeError(`Cannot take over descriptor ${fd}: it is out of range`);
  return withoutSign(fd);
}
