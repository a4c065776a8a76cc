/**
 * Queues the messages to be written to a socket.
 *
 * @module
 */
import { closeDescriptor, duplicateDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { sendTo } from "../../../ffi/native/shim/sockets.ts";
import { errno, SystemError } from "../../../ffi/native/shim/shim.ts";
import { SharingError } from "../../support/errors.ts";
import { encodeInto, encodeMessage, roomFor } from "./encode_message.ts";
import { hasHandle, type Message } from "./messages.ts";
import type { TrafficStatistics } from "./message_stream.ts";
import { isOutOfDescriptors, outOfDescriptors, type Peer } from "../transport/unix_socket.ts";

/** The maximum number of bytes of short messages that are combined into one write. */
const batchByteLength = 16_384;
/** The length of the queue in bytes above which senders should pause. */
const backlogByteLength = 256 * 1024;
const noDescriptors: readonly number[] = [];

interface Outgoing {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The offset in `bytes` of the first byte to write. */
  begin: number;
  /** The offset in `bytes` after the last byte to write; more messages may be appended there. */
  end: number;
  /** The descriptor to send with the first byte of `bytes`; undefined if there is none or it was sent already. */
  fd: number | undefined;
  /** Whether `fd` is a duplicate that belongs to the queue and must be closed. */
  isDuplicate: boolean;
}

/**
 * An unused buffer for the next short message of any connection, so that idle connections, of which there may be many,
 * do not need a buffer each.
 */
let spareBuffer: Uint8Array<ArrayBuffer> | undefined;

/** The queue of messages to be written to a socket. */
export class MessageWriter {
  readonly #fd: number;
  readonly #peerName: string;
  readonly #traffic: TrafficStatistics;
  readonly #queue: Outgoing[] = [];
  #byteLength = 0;
  #isBlocked = false;
  #failure: SharingError | undefined;

  constructor(fd: number, peer: Peer, traffic: TrafficStatistics) {
    this.#fd = fd;
    this.#peerName = `process ${peer.pid}`;
    this.#traffic = traffic;
  }

  /** Whether the socket did not accept the whole queue at the last attempt. */
  get isBlocked(): boolean {
    return this.#isBlocked;
  }

  /** Whether the queue is empty. */
  get isEmpty(): boolean {
    return this.#queue.length === 0;
  }

  /** The number of bytes in the queue. */
  get byteLength(): number {
    return this.#byteLength;
  }

  /** Whether the queue holds more than 256 KiB. */
  get isBacklogged(): boolean {
    return this.#byteLength > backlogByteLength;
  }

  /**
   * The error that stopped writing, after which no messages can be sent: `peer-gone` if the peer no longer reads, or
   * `out-of-descriptors`. Undefined while writing works. Messages from the peer may still be unread.
   */
  get failure(): SharingError | undefined {
    return this.#failure;
  }

  /**
   * Appends a message to the queue. A message with a handle is written immediately if the socket accepts it; otherwise
   * the handle's descriptor is duplicated, because the caller may close the handle afterwards.
   */
  add(message: Message): void {
    if (this.#failure !== undefined) return;
    this.#traffic.messagesSent++;
    const room = roomFor(message);
    const hasDescriptor = hasHandle(message);
    if (!hasDescriptor && room <= batchByteLength) return this.#append(message, room);
    const bytes = encodeMessage(message);
    const fd = hasDescriptor ? message.handle.fd : undefined;
    const outgoing: Outgoing = { bytes, begin: 0, end: bytes.length, fd, isDuplicate: false };
    this.#queue.push(outgoing);
    this.#byteLength += bytes.length;
    if (fd === undefined) return;
    this.flush();
    if (outgoing.fd !== undefined) this.#duplicateDescriptor(outgoing);
  }

  /** Writes as many queued bytes as the socket accepts. */
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

  /** Discards all queued messages. Does not close the socket. */
  close(): void {
    this.#isBlocked = false;
    this.#byteLength = 0;
    for (const outgoing of this.#queue.splice(0)) closeDuplicate(outgoing);
  }

  /**
   * Appends a message to the last buffer of the queue if at least `room` bytes are free there, or else to a new buffer.
   */
  #append(message: Message, room: number): void {
    const last = this.#queue.at(-1);
    if (last !== undefined && last.end + room <= last.bytes.length) {
      const byteLength = encodeInto(message, last.bytes, last.end);
      last.end += byteLength;
      this.#byteLength += byteLength;
      return;
    }
    const bytes = spareBuffer ?? new Uint8Array(batchByteLength);
    const byteLength = encodeInto(message, bytes, 0);
    spareBuffer = undefined;
    this.#queue.push({ bytes, begin: 0, end: byteLength, fd: undefined, isDuplicate: false });
    this.#byteLength += byteLength;
  }

  #sent(first: Outgoing, byteLength: number): void {
    this.#byteLength -= byteLength;
    this.#traffic.bytesSent += byteLength;
    closeDuplicate(first);
    first.begin += byteLength;
    if (first.begin < first.end) return;
    this.#queue.shift();
    if (first.bytes.length === batchByteLength) spareBuffer = first.bytes;
  }

  #duplicateDescriptor(outgoing: Outgoing): void {
    if (this.#failure !== undefined) return;
    try {
      outgoing.fd = duplicateDescriptor(outgoing.fd!);
      outgoing.isDuplicate = true;
    } catch (cause) {
      this.#queue.pop();
      this.#byteLength -= outgoing.bytes.length;
      const action = `keep a descriptor for ${this.#peerName} until it is read`;
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
      return outOfDescriptors(`send a descriptor to ${this.#peerName}: too many sent descriptors are unread`);
    }
    const cause = new SystemError(number, "sendmsg");
    const what = number === errno.EPIPE || number === errno.ECONNRESET ? "it has stopped reading" : cause.message;
    return new SharingError("peer-gone", `Cannot send to ${this.#peerName}: ${what}`, { cause });
  }
}

function closeDuplicate(outgoing: Outgoing): void {
  if (outgoing.isDuplicate) closeDescriptor(outgoing.fd!);
  outgoing.fd = undefined;
  outgoing.isDuplicate = false;
}
