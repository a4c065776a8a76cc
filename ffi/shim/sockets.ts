/**
 * Sockets in the Unix domain, with descriptors. Nothing here waits. Where a function gives a number below 0, that is
 * `-errno`, because what it means is for the caller to say.
 *
 * @module
 */
import { withoutSign } from "../host.ts";
import { cString, shim, unwrap } from "./shim.ts";

/** As many descriptors as one message can carry. */
export const maximumDescriptors = 253;

/** Names a file for as long as it exists, whatever happens to its path. */
export type FileIdentity = BigUint64Array<ArrayBuffer>;

/** Who is at the other end of a connection. */
export interface SocketPeer {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
  /** Readable when the process has ended; `-errno` where it cannot be had, `-ESRCH` when the process has ended. */
  readonly pidfd: number;
}

/** What one read of a socket gave. */
export interface ReceivedMessage {
  /** Bytes, 0 at the end of the stream, or `-errno`. */
  readonly byteLength: number;
  /** Descriptors that arrived. */
  readonly arrived: number;
  /** They, or none where more arrived than were asked for, or where some were lost: then all are closed already. */
  readonly fds: readonly number[];
  /** Descriptors were lost, because this process may open no more. */
  readonly truncated: boolean;
}

const peerTable = new Int32Array(4);
const descriptorTable = new Int32Array(maximumDescriptors);
const receivedTable = new Uint32Array(3);
const peerBytes = new Uint8Array(peerTable.buffer);
const descriptorBytes = new Uint8Array(descriptorTable.buffer);
const receivedBytes = new Uint8Array(receivedTable.buffer);

/**
 * A socket that listens at a path, and the file that it made there; `-EADDRINUSE` when there is a file already.
 *
 * @param mode of the file, at no time wider than this
 */
export function listenAt(path: string, mode: number): { readonly fd: number; readonly identity: FileIdentity } {
  const identity = new BigUint64Array(2);
  const fd = shim().poolpass_listen(cString(path), temporaryName(), withoutSign(mode), new Uint8Array(identity.buffer));
  return { fd, identity };
}

/** 1 where somebody listens at a path, 0 where the socket's file was left over, `-ENOTSOCK` for another file. */
export function probe(path: string): { readonly live: number; readonly identity: FileIdentity } {
  const identity = new BigUint64Array(2);
  const live = shim().poolpass_probe(cString(path), new Uint8Array(identity.buffer));
  return { live, identity };
}

/** Removes a socket's file if it is this one and nobody listens to it: 1 if removed, 0 if not. */
export function removeStale(path: string, identity: FileIdentity): number {
  return shim().poolpass_remove(cString(path), temporaryName(), new Uint8Array(identity.buffer), 0);
}

/** Removes a socket's file if it is this one: 1 if removed, 0 if not. Call it before the socket is closed. */
export function removeOwn(path: string, identity: FileIdentity): number {
  return shim().poolpass_remove(cString(path), temporaryName(), new Uint8Array(identity.buffer), 1);
}

/** A connected socket; `-EAGAIN` when the listener has as many waiting connections as it takes. */
export function connectTo(path: string): number {
  return shim().poolpass_connect(cString(path));
}

/** The next waiting connection. */
export function acceptFrom(fd: number): number {
  return shim().poolpass_accept(fd);
}

/** Tells who is at the other end. The pidfd is the caller's to close. */
export function peerOf(fd: number): SocketPeer {
  unwrap(shim().poolpass_peer(fd, peerBytes), "getsockopt of the peer");
  const [pid, uid, gid, pidfd] = peerTable as unknown as [number, number, number, number];
  return { pid, uid: uid >>> 0, gid: gid >>> 0, pidfd };
}

/** The user that this process acts as, and the one that the kernel tells to its peers. */
export function effectiveUserId(): number {
  return shim().poolpass_geteuid();
}

/** Sends what there is room for, and gives the number of bytes. The descriptors travel with the first byte. */
export function sendTo(fd: number, bytes: Uint8Array, fds: readonly number[]): number {
  descriptorTable.set(fds);
  return shim().poolpass_send(fd, bytes, BigInt(bytes.length), descriptorBytes, fds.length);
}

/** Reads what has come, as far as there is room for it, with at most so many descriptors. */
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
