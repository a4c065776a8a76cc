/**
 * Assembles whole messages from the bytes and descriptors read from a socket.
 *
 * @module
 */
import { canBePool, closeAside } from "../../../ffi/native/shim/descriptors.ts";
import { receiveFrom } from "../../../ffi/native/shim/sockets.ts";
import { errno, SystemError } from "../../../ffi/native/shim/shim.ts";
import { SharingError } from "../../support/errors.ts";
import { ShareableHandle } from "../../memory/handles/shareable_handle.ts";
import { decodeHeader, decodeMessageAt, type Header, headerByteLength } from "./decode_message.ts";
import { maximumBodyByteLength, type Message } from "./messages.ts";
import { outOfDescriptors, type Peer } from "../transport/unix_socket.ts";

/** A descriptor, and the range of the stream's bytes that were received by the same read. */
interface ReceivedDescriptor {
  readonly fd: number;
  /** The offset in the stream of the first byte that the read returned. */
  readonly begin: number;
  /** The offset in the stream after the last byte that the read returned. */
  readonly end: number;
}

/**
 * Reads messages from a socket. A read may return many messages; the buffer is as large as the longest possible
 * message. A reader must not be used after one of its methods has thrown.
 */
export class MessageReader {
  readonly #fd: number;
  readonly #peerName: string;
  readonly #buffer = new Uint8Array(headerByteLength + maximumBodyByteLength);
  #begin = 0;
  #end = 0;
  /** The offset in the stream of the byte at index `#begin` of `#buffer`. */
  #offset = 0;
  /** The header of the next message, if the header has arrived but the body has not arrived completely. */
  #header: Header | undefined;
  /** The descriptors whose messages have not arrived completely, in order of arrival. */
  readonly #descriptors: ReceivedDescriptor[] = [];

  constructor(fd: number, peer: Peer) {
    this.#fd = fd;
    this.#peerName = `process ${peer.pid}`;
  }

  /** Whether part of a message has arrived. Meaningful only after `next` has returned undefined. */
  get hasPartialMessage(): boolean {
    return this.#end > this.#begin;
  }

  /**
   * Reads from the socket once, and returns the number of bytes read; 0 if none are available. Must be called only
   * after `next` has returned undefined.
   *
   * @throws {SharingError} `peer-gone`, `bad-message`, `out-of-descriptors`
   */
  receive(): number {
    if (this.#begin > 0) this.#buffer.copyWithin(0, this.#begin, this.#end);
    this.#end -= this.#begin;
    this.#begin = 0;
    // A read returns the descriptors of at most one write, and a message has at most one descriptor. The returned bytes
    // may include earlier writes without a descriptor; a write with a descriptor is always the last write in the
    // returned bytes.
    const { byteLength, arrived, fds, truncated } = receiveFrom(this.#fd, this.#buffer.subarray(this.#end), 1);
    const begin = this.#offset + this.#end;
    for (const fd of fds) this.#descriptors.push({ fd, begin, end: begin + byteLength });
    if (truncated) throw outOfDescriptors(`receive a descriptor from ${this.#peerName}`);
    if (arrived > fds.length) throw this.#unannounced();
    if (byteLength > 0) {
      this.#end += byteLength;
      return byteLength;
    }
    switch (-byteLength) {
      case errno.EAGAIN:
        return 0;
      case errno.EINTR:
        return this.receive();
      case 0:
        throw this.#peerGone("closed the connection");
      case errno.ECONNRESET:
        throw this.#peerGone("reset the connection");
      default: {
        const cause = new SystemError(-byteLength, "recvmsg");
        throw new SharingError("peer-gone", `Cannot receive from ${this.#peerName}: ${cause.message}`, { cause });
      }
    }
  }

  /**
   * Returns the next whole message; undefined if none has arrived. The caller must dispose of the message's handle.
   *
   * @throws {SharingError} `bad-message`
   */
  next(): Message | undefined {
    const available = this.#end - this.#begin;
    if (this.#header === undefined && available >= headerByteLength) {
      this.#header = decodeHeader(this.#buffer, this.#begin);
    }
    const header = this.#header;
    const byteLength = header === undefined ? Infinity : headerByteLength + header.bodyByteLength;
    if (this.#descriptors.length > 0) this.#checkDescriptors(header, byteLength);
    if (header === undefined || available < byteLength) return undefined;
    const bodyBegin = this.#begin + headerByteLength;
    const handle = header.descriptors > 0 ? this.#takeHandle(this.#offset + byteLength) : undefined;
    this.#begin += byteLength;
    this.#offset += byteLength;
    this.#header = undefined;
    try {
      return decodeMessageAt(this.#buffer, bodyBegin, { header, handle });
    } catch (error) {
      handle?.[Symbol.dispose]();
      throw error;
    }
  }

  /** Closes the received descriptors whose messages have not arrived. Does not close the socket. */
  close(): void {
    for (const { fd } of this.#descriptors.splice(0)) closeAside(fd);
  }

  /**
   * Throws if a descriptor has arrived that belongs to the next message but that the message's header does not declare.
   * A descriptor belongs to the last message that begins in the read that returned the descriptor.
   */
  #checkDescriptors(header: Header | undefined, byteLength: number): void {
    const end = this.#offset + byteLength;
    const own = this.#descriptors.filter((descriptor) => descriptor.end <= end);
    // If the header has not arrived yet, a descriptor may still belong to the message.
    const allowed = header?.descriptors ?? 1;
    if (own.length > allowed || own.some(({ begin }) => begin > this.#offset)) throw this.#unannounced();
  }

  /** Returns the handle that belongs to the next message, whose last byte precedes offset `end` in the stream. */
  #takeHandle(end: number): ShareableHandle {
    const [first] = this.#descriptors;
    if (first === undefined || first.end > end) {
      throw this.#badMessage("the descriptor that it declares did not come with its first byte");
    }
    this.#descriptors.shift();
    let isAccepted = false;
    try {
      isAccepted = canBePool(first.fd);
      if (isAccepted) return ShareableHandle.fromFd(first.fd);
    } finally {
      if (!isAccepted) closeAside(first.fd);
    }
    throw this.#badMessage("the descriptor that came with it is no pool's");
  }

  #badMessage(why: string): SharingError {
    return new SharingError("bad-message", `Cannot accept a message of ${this.#peerName}: ${why}`);
  }

  #unannounced(): SharingError {
    return new SharingError(
      "bad-message",
      `Cannot accept the messages of ${this.#peerName}: more descriptors came than they declare`,
    );
  }

  #peerGone(what: string): SharingError {
    const when = this.hasPartialMessage ? " in the middle of a message" : "";
    return new SharingError("peer-gone", `Cannot receive from ${this.#peerName}: it ${what}${when}`);
  }
}
