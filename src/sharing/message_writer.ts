/**
 * Messages on their way to a socket.
 *
 * @module
 */
import { closeDescriptor, duplicateDescriptor } from "../../ffi/shim/descriptors.ts";
import { sendTo } from "../../ffi/shim/sockets.ts";
import { errno, SystemError } from "../../ffi/shim/system_error.ts";
import { SharingError } from "../errors.ts";
import { encodeMessage } from "./encode_message.ts";
import type { Message } from "./messages.ts";
import { isOutOfDescriptors, outOfDescriptors, type Peer } from "./unix_socket.ts";

/** Bytes: short messages are joined to writes of about so many. */
const joinedByteLength = 65_536;
/** Bytes: with more in the queue, whoever sends should wait. */
const backlogByteLength = 256 * 1024;

interface Outgoing {
  bytes: Uint8Array<ArrayBuffer>;
  /** Goes with the first byte, which is of a write of its own; undefined for none, and once it went. */
  fd: number | undefined;
  /** Whether it was made for the queue, and is to be closed. */
  isDuplicate: boolean;
}

/** A queue of messages, which waits while the socket takes nothing. */
export class MessageWriter {
  readonly #fd: number;
  readonly #peerName: string;
  readonly #queue: Outgoing[] = [];
  #byteLength = 0;
  #isBlocked = false;
  #failure: SharingError | undefined;

  constructor(fd: number, peer: Peer) {
    this.#fd = fd;
    this.#peerName = `process ${peer.pid}`;
  }

  /** Whether the socket did not take all when it was last tried. */
  get isBlocked(): boolean {
    return this.#isBlocked;
  }

  /** Whether nothing is left to be written. */
  get isEmpty(): boolean {
    return this.#queue.length === 0;
  }

  /** Whether over 256 KiB are in the queue. */
  get isBacklogged(): boolean {
    return this.#byteLength > backlogByteLength;
  }

  /**
   * Why nothing can be sent any more: `peer-gone` when the peer does not read, which may have said something before, or
   * `out-of-descriptors`.
   */
  get failure(): SharingError | undefined {
    return this.#failure;
  }

  /**
   * Puts a message into the queue. One with a handle is written at once where the socket takes it, since the handle is
   * borrowed.
   */
  add(message: Message): void {
    const bytes = encodeMessage(message);
    if (this.#failure !== undefined) return;
    const fd = message.type === "pool" ? message.handle.fd : undefined;
    const outgoing = { bytes, fd, isDuplicate: false };
    this.#queue.push(outgoing);
    this.#byteLength += bytes.length;
    if (fd === undefined) return;
    this.flush();
    if (outgoing.fd !== undefined) this.#keepDescriptor(outgoing);
  }

  /** Writes what the socket takes. */
  flush(): void {
    this.#isBlocked = false;
    while (this.#queue.length > 0 && !this.#isBlocked) {
      const first = this.#joinFirst();
      const result = sendTo(this.#fd, first.bytes, first.fd === undefined ? [] : [first.fd]);
      if (result > 0) this.#sent(first, result);
      else if (result === -errno.EAGAIN) this.#isBlocked = true;
      else if (result !== -errno.EINTR) this.#fail(this.#sendError(-result));
    }
  }

  /** Drops what was not written. The socket is not closed. */
  close(): void {
    this.#isBlocked = false;
    this.#byteLength = 0;
    for (const outgoing of this.#queue.splice(0)) closeDuplicate(outgoing);
  }

  /** What is to be written next: as many of the first messages as go into one write. */
  #joinFirst(): Outgoing {
    let count = 0;
    let byteLength = 0;
    for (const { bytes, fd } of this.#queue) {
      if (fd !== undefined || (count > 0 && byteLength + bytes.length > joinedByteLength)) break;
      byteLength += bytes.length;
      count++;
    }
    if (count > 1) {
      const joined = new Uint8Array(byteLength);
      let position = 0;
      for (const { bytes } of this.#queue.slice(0, count)) {
        joined.set(bytes, position);
        position += bytes.length;
      }
      this.#queue.splice(0, count, { bytes: joined, fd: undefined, isDuplicate: false });
    }
    return this.#queue[0]!;
  }

  #sent(first: Outgoing, byteLength: number): void {
    this.#byteLength -= byteLength;
    closeDuplicate(first);
    first.bytes = first.bytes.subarray(byteLength);
    if (first.bytes.length === 0) this.#queue.shift();
  }

  #keepDescriptor(outgoing: Outgoing): void {
    if (this.#failure !== undefined) return;
    try {
      outgoing.fd = duplicateDescriptor(outgoing.fd!);
      outgoing.isDuplicate = true;
    } catch (cause) {
      this.#queue.pop();
      const action = `keep a descriptor for ${this.#peerName} until it reads`;
      if (isOutOfDescriptors(cause)) this.#fail(outOfDescriptors(action, cause));
      else throw cause;
    }
  }

  #fail(failure: SharingError): void {
    this.#failure = failure;
    this.close();
  }

  #sendError(number: number): SharingError {
    if (number === errno.ETOOMANYREFS) {
      return outOfDescriptors(`send a descriptor to ${this.#peerName}: too many are on their way unread`);
    }
    const cause = new SystemError(number, "sendmsg");
    const what = number === errno.EPIPE || number === errno.ECONNRESET ? "it reads no more" : cause.message;
    return new SharingError("peer-gone", `Cannot send to ${this.#peerName}: ${what}`, { cause });
  }
}

function closeDuplicate(outgoing: Outgoing): void {
  if (outgoing.isDuplicate) closeDescriptor(outgoing.fd!);
  outgoing.fd = undefined;
  outgoing.isDuplicate = false;
}
