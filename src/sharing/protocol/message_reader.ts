/**
 * Assembles whole messages from the pieces that a socket returns.
 *
 * @module
 */
import { closeDescriptor } from "../../../ffi/shim/descriptors.ts";
import { receiveFrom } from "../../../ffi/shim/sockets.ts";
import { errno, SystemError } from "../../../ffi/shim/system_error.ts";
import { SharingError } from "../../support/errors.ts";
import { ShareableHandle } from "../../memory/shareable_handle.ts";
import { decodeHeader, decodeMessageAt, type Header, headerByteLength } from "./decode_message.ts";
import { maximumBodyByteLength, type Message } from "./messages.ts";
import { outOfDescriptors, type Peer } from "../transport/unix_socket.ts";

/**
 * Reads a socket, many messages at a time, and never further ahead than the longest message. After it has thrown, it
 * must not be used any more.
 */
export class MessageReader {
  readonly #fd: number;
  readonly #peerName: string;
  readonly #buffer = new Uint8Array(headerByteLength + maximumBodyByteLength);
  #begin = 0;
  #end = 0;
  /** The header of the message that has arrived in part. */
  #header: Header | undefined;
  /** Descriptors that have arrived before the whole message that declares them. */
  readonly #descriptors: number[] = [];

  constructor(fd: number, peer: Peer) {
    this.#fd = fd;
    this.#peerName = `process ${peer.pid}`;
  }

  /** Whether part of a message has arrived. Meaningful once `next` has returned undefined. */
  get hasPartialMessage(): boolean {
    return this.#end > this.#begin;
  }

  /**
   * Reads the socket once. Call it when `next` returns undefined. Returns the number of bytes read; 0 if none are
   * available.
   *
   * @throws {SharingError} `peer-gone`, `bad-message`, `out-of-descriptors`
   */
  receive(): number {
    if (this.#begin > 0) this.#buffer.copyWithin(0, this.#begin, this.#end);
    this.#end -= this.#begin;
    this.#begin = 0;
    // One read returns the descriptors of at most one write, and no message has more than one.
    const { byteLength, arrived, fds, truncated } = receiveFrom(this.#fd, this.#buffer.subarray(this.#end), 1);
    this.#descriptors.push(...fds);
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
   * The next whole message; undefined if there is none. The caller must dispose of the handle in it.
   *
   * @throws {SharingError} `bad-message`
   */
  next(): Message | undefined {
    const available = this.#end - this.#begin;
    if (this.#header === undefined && available >= headerByteLength) {
      this.#header = decodeHeader(this.#buffer, this.#begin);
    }
    const header = this.#header;
    if (header === undefined || available < headerByteLength + header.bodyByteLength) {
      // A descriptor may belong to a message whose header has not arrived yet.
      const allowed = header?.descriptors ?? Math.min(available, 1);
      if (this.#descriptors.length > allowed) throw this.#unannounced();
      return undefined;
    }
    const bodyBegin = this.#begin + headerByteLength;
    this.#begin = bodyBegin + header.bodyByteLength;
    this.#header = undefined;
    const handle = header.descriptors > 0 ? this.#takeHandle() : undefined;
    try {
      return decodeMessageAt(this.#buffer, bodyBegin, { header, handle });
    } catch (error) {
      handle?.[Symbol.dispose]();
      throw error;
    }
  }

  /** Closes the descriptors whose messages have not arrived. Does not close the socket. */
  close(): void {
    for (const fd of this.#descriptors.splice(0)) closeDescriptor(fd);
  }

  #takeHandle(): ShareableHandle {
    const fd = this.#descriptors.shift();
    if (fd !== undefined) return ShareableHandle.fromFd(fd);
    throw new SharingError(
      "bad-message",
      `Cannot accept a message of ${this.#peerName}: the descriptor that it declares did not come`,
    );
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
