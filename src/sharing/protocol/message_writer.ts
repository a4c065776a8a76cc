/**
 * Messages on their way to a socket.
 *
 * @module
 */
import { closeDescriptor, duplicateDescriptor } from "../../../ffi/shim/descriptors.ts";
import { sendTo } from "../../../ffi/shim/sockets.ts";
import { errno, SystemError } from "../../../ffi/shim/system_error.ts";
import { SharingError } from "../../support/errors.ts";
import { encodeInto, encodeMessage, roomFor } from "./encode_message.ts";
import type { Message } from "./messages.ts";
import { isOutOfDescriptors, outOfDescriptors, type Peer } from "../transport/unix_socket.ts";

/** Bytes: short messages are joined to writes of at most so many. */
const joinedByteLength = 16_384;
/** Bytes: with more in the queue, whoever sends should wait. */
const backlogByteLength = 256 * 1024;
const noDescriptors: readonly number[] = [];

interface Outgoing {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** What of the bytes is to be written: behind it, there may be room for other messages. */
  begin: number;
  end: number;
  /** Goes with the first byte, which is of a write of its own; undefined for none, and once it went. */
  fd: number | undefined;
  /** Whether it was made for the queue, and is to be closed. */
  isDuplicate: boolean;
}

/** Room that was used and is free, for whichever connection is the next to write: most have nothing to write. */
let spareRoom: Uint8Array<ArrayBuffer> | undefined;

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

  /** Bytes in the queue. */
  get byteLength(): number {
    return this.#byteLength;
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
    if (this.#failure !== undefined) return;
    const room = roomFor(message);
    if (message.type !== "pool" && room <= joinedByteLength) return this.#join(message, room);
    const bytes = encodeMessage(message);
    const fd = message.type === "pool" ? message.handle.fd : undefined;
    const outgoing: Outgoing = { bytes, begin: 0, end: bytes.length, fd, isDuplicate: false };
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
      const first = this.#queue[0]!;
      const { bytes, begin, end, fd } = first;
      const result = sendTo(this.#fd, bytes.subarray(begin, end), fd === undefined ? noDescriptors : [fd]);
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

  /** Writes a message behind others, where there is room for it, else where others will find room. */
  #join(message: Message, room: number): void {
    const last = this.#queue.at(-1);
    if (last !== undefined && last.end + room <= last.bytes.length) {
      const byteLength = encodeInto(message, last.bytes, last.end);
      last.end += byteLength;
      this.#byteLength += byteLength;
      return;
    }
    const bytes = spareRoom ?? new Uint8Array(joinedByteLength);
    const byteLength = encodeInto(message, bytes, 0);
    spareRoom = undefined;
    this.#queue.push({ bytes, begin: 0, end: byteLength, fd: undefined, isDuplicate: false });
    this.#byteLength += byteLength;
  }

  #sent(first: Outgoing, byteLength: number): void {
    this.#byteLength -= byteLength;
    closeDuplicate(first);
    first.begin += byteLength;
    if (first.begin < first.end) return;
    this.#queue.shift();
    if (first.bytes.length === joinedByteLength) spareRoom = first.bytes;
  }

  #keepDescriptor(outgoing: Outgoing): void {
    if (this.#failure !== undefined) return;
    try {
      outgoing.fd = duplicateDescriptor(outgoing.fd!);
      outgoing.isDuplicate = true;
    } catch (cause) {
      this.#queue.pop();
      this.#byteLength -= outgoing.bytes.length;
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
