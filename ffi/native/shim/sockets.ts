/**
 * Unix domain sockets that can pass descriptors. No function blocks. Errors are returned as `-errno` instead of thrown,
 * because only the caller knows their meaning.
 *
 * @module
 */
import { withoutSign } from "../host.ts";
import { cString, shim, unwrap } from "./shim.ts";

/** The maximum number of descriptors in one message. */
export const maximumDescriptors = 253;

/** A file's device and inode, which identify it for as long as it exists, even if it is renamed. */
export type FileIdentity = BigUint64Array<ArrayBuffer>;

/** The process at the other end of a connection. */
export interface SocketPeer {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
  /**
   * A descriptor that becomes readable when the process exits. `-errno` if there is none: `-ESRCH` if the process has
   * already exited.
   */
  readonly pidfd: number;
}

/** The result of one read from a socket. */
export interface ReceivedMessage {
  /** The number of bytes read, 0 at the end of the stream, or `-errno`. */
  readonly byteLength: number;
  /** The number of descriptors that arrived with the bytes. */
  readonly arrived: number;
  /**
   * The received descriptors. Empty if more than `capacity` arrived, or if some were lost: all descriptors that arrived
   * are then closed, possibly after this result is returned.
   */
  readonly fds: readonly number[];
  /** Whether descriptors were lost, because this process cannot open more. */
  readonly truncated: boolean;
}

const peerTable = new Int32Array(4);
const descriptorTable = new Int32Array(maximumDescriptors);
const receivedTable = new Uint32Array(3);
const peerBytes = new Uint8Array(peerTable.buffer);
const descriptorBytes = new Uint8Array(descriptorTable.buffer);
const receivedBytes = new Uint8Array(receivedTable.buffer);

/** The options of `listenAt`. */
export interface ListenAtOptions {
  /** The permissions of the socket file, as mode bits. */
  readonly mode: number;
  /**
   * Whether connecting processes may send descriptors. Linux before 6.16 cannot refuse descriptors: they may arrive
   * anyway.
   */
  readonly passesDescriptors: boolean;
}

/** Creates a listening socket and its file at a path. Fails with `-EADDRINUSE` if the file exists already. */
export function listenAt(
  path: string,
  { mode, passesDescriptors }: ListenAtOptions,
): { readonly fd: number; readonly identity: FileIdentity } {
  const identity = new BigUint64Array(2);
  const fd = shim().poolpass_listen(
    cString(path),
    temporaryName(),
    withoutSign(mode),
    passesDescriptors ? 1 : 0,
    new Uint8Array(identity.buffer),
  );
  return { fd, identity };
}

/**
 * Probes a path: `live` is 1 if a process listens there, 0 if the socket file is stale, `-ENOTSOCK` if the file is not
 * a socket.
 */
export function probe(path: string): { readonly live: number; readonly identity: FileIdentity } {
  const identity = new BigUint64Array(2);
  const live = shim().poolpass_probe(cString(path), new Uint8Array(identity.buffer));
  return { live, identity };
}

/**
 * Removes a socket file if its device and inode equal `identity` and no process listens there. Returns 1 if removed, 0
 * if not.
 */
export function removeStale(path: string, identity: FileIdentity): number {
  return shim().poolpass_remove(cString(path), temporaryName(), new Uint8Array(identity.buffer), 0);
}

/**
 * Removes a socket file if its device and inode equal `identity`. Returns 1 if removed, 0 if not. Call it before
 * closing the socket.
 */
export function removeOwn(path: string, identity: FileIdentity): number {
  return shim().poolpass_remove(cString(path), temporaryName(), new Uint8Array(identity.buffer), 1);
}

/** Connects to a path and returns the socket, or `-EAGAIN` if the listener's queue of pending connections is full. */
export function connectTo(path: string): number {
  return shim().poolpass_connect(cString(path));
}

/**
 * Connects a datagram socket to a path, or to an abstract name if it begins with "@". Returns the socket, or `-errno`.
 */
export function connectDatagramsTo(path: string): number {
  return shim().poolpass_connect_datagram(cString(path));
}

/** Accepts the next pending connection and returns its socket. */
export function acceptFrom(fd: number): number {
  return shim().poolpass_accept(fd);
}

/** Identifies the process at the other end of a connection. The caller must close the pidfd. */
export function peerOf(fd: number): SocketPeer {
  unwrap(shim().poolpass_peer(fd, peerBytes), "getsockopt of the peer");
  const [pid, uid, gid, pidfd] = peerTable as unknown as [number, number, number, number];
  return { pid, uid: uid >>> 0, gid: gid >>> 0, pidfd };
}

/** Returns the effective user ID of this process, which the kernel reports to its peers. */
export function effectiveUserId(): number {
  return shim().poolpass_geteuid();
}

/**
 * Sends as many bytes as fit into the socket's buffer, and returns their number. The descriptors are sent with the
 * first byte.
 */
export function sendTo(fd: number, bytes: Uint8Array, fds: readonly number[]): number {
  descriptorTable.set(fds);
  return shim().poolpass_send(fd, bytes, BigInt(bytes.length), descriptorBytes, fds.length);
}

/** Reads the bytes that have arrived, as many as fit in `bytes`, with at most `capacity` descriptors. */
export function receiveFrom(fd: number, bytes: Uint8Array, capacity: number): ReceivedMessage {
  const byteLength = shim().poolpass_receive(
    fd,
    bytes,
    BigInt(bytes.length),
    descriptorBytes,
    withoutSign(Math.min(capacity, maximumDescriptors)),
    receivedBytes,
  );
  const [handedOut, arrived, truncated] = receivedTable as unknown as [number, number, number];
  return { byteLength, arrived, fds: Array.from(descriptorTable.subarray(0, handedOut)), truncated: truncated !== 0 };
}

function temporaryName(): Uint8Array {
  return cString(`.poolpass-${crypto.getRandomValues(new Uint8Array(8)).toHex()}`);
}
