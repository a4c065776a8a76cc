/**
 * Whole messages, out of what a socket gives in pieces.
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
 * Reads a socket, many messages at a time, and never more than the longest message ahead. After it has thrown, nothing
 * more can be read.
 */
export class MessageReader {
  readonly #fd: number;
  readonly #peerName: string;
  readonly #buffer = new Uint8Array(headerByteLength + maximumBodyByteLength);
  #begin = 0;
  #end = 0;
  /** Of the message that has come in part. */
  #header: Header | undefined;
  /** They have come, and the messages that announce them have not yet come whole. */
  readonly #descriptors: number[] = [];

  constructor(fd: number, peer: Peer) {
    this.#fd = fd;
    this.#peerName = `process ${peer.pid}`;
  }

  /** Whether there are bytes that are no whole message, once `next` has given none. */
  get hasPart(): boolean {
    return this.#end > this.#begin;
  }

  /**
   * Reads once what has come: call it when `next` has nothing more to give. Gives how many bytes came, 0 for none.
   *
   * @throws {SharingError} `peer-gone`, `bad-message`, `out-of-descriptors`
   */
  receive(): number {
    if (this.#begin > 0) this.#buffer.copyWithin(0, this.#begin, this.#end);
    this.#end -= this.#begin;
    this.#begin = 0;
    // One read gives the descriptors of one write at most, and no message has more than one.
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
        throw this.#gone("closed the connection");
      case errno.ECONNRESET:
        throw this.#gone("reset the connection");
      default: {
        const cause = new SystemError(-byteLength, "recvmsg");
        throw new SharingError("peer-gone", `Cannot receive from ${this.#peerName}: ${cause.message}`, { cause });
      }
    }
  }

  /**
   * The next message that has come whole. The handle in it is the caller's to dispose of.
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
      // What has no header yet may be the message that a descriptor came with.
      const most = header?.descriptors ?? Math.min(available, 1);
      if (this.#descriptors.length > most) throw this.#unannounced();
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

  /** Closes the descriptors that came for messages that did not come. The socket is not closed. */
  close(): void {
    for (const fd of this.#descriptors.splice(0)) closeDescriptor(fd);
  }

  #takeHandle(): ShareableHandle {
    const fd = this.#descriptors.shift();
    if (fd !== undefined) return ShareableHandle.fromFd(fd);
    throw new SharingError(
      "bad-message",
      `Cannot take a message of ${this.#peerName}: the descriptor that it announces did not come`,
    );
  }

  #unannounced(): SharingError {
    return new SharingError(
      "bad-message",
      `Cannot take the messages of ${this.#peerName}: more descriptors came than they announce`,
    );
  }

  #gone(what: string): SharingError {
    const when = this.hasPart ? " in the middle of a message" : "";
    return new SharingError("peer-gone", `Cannot receive from ${this.#peerName}: it ${what}${when}`);
  }
}
