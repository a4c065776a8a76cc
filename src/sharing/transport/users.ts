/**
 * Access control by user: the users that may connect, and the users that could replace the socket by their own.
 *
 * @module
 */
import { checkFolderPath, FolderRefusal } from "../../../ffi/native/shim/folder_files.ts";
import { openLog } from "../../../ffi/native/shim/text_files.ts";
import { readSmallFile } from "../../../ffi/native/shim/processes.ts";
import { effectiveUserId } from "../../../ffi/native/shim/sockets.ts";
import { SharingError } from "../../support/errors.ts";
import { isLogging, logEvent, startLog } from "../../support/event_log.ts";
import { shown } from "../../support/validation.ts";
import { checkSocketPath, folderOf } from "./socket_path.ts";
import { listenWithoutDescriptors, type UnixListener } from "./unix_listener.ts";
import { isOutOfDescriptors, outOfDescriptors, type Peer } from "./unix_socket.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";

/**
 * The user ID that stands for all users that a user namespace does not map, unless the system is configured otherwise.
 */
const overflowUser = 65_534;
/** The number of user IDs that a user namespace can map. */
const allUsers = 2 ** 32 - 1;
/** The largest user ID; the next larger number means "no user" in system calls. */
const maximumUser = 2 ** 32 - 2;

/**
 * Listens at a path for processes of this user and of the listed users. If other users are listed, the socket's file is
 * open to everyone, and the caller must pass each accepted peer to `checkUser`. Throws if users other than this one and
 * root could replace the socket. Connecting processes cannot send descriptors.
 *
 * @throws {SharingError} `not-permitted` if other users can change a folder or a link on the path, or in the same cases
 * as `UnixListener.listen`
 */
export function listenFor(path: string, users: readonly number[]): UnixListener {
  checkSocketPath("listen at", path);
  startLog(openLog);
  checkUsers(users);
  const own = effectiveUserId();
  checkPath(path);
  const listener = listenWithoutDescriptors(path, { mode: users.some((user) => user !== own) ? 0o666 : 0o600 });
  if (isLogging) logEvent("listen", { path });
  return listener;
}

/**
 * Throws unless a peer runs as this process's user or as one of the listed users. Root gets no exception: it must be
 * listed as well. In a user namespace, all unmapped users have the ID 65534 and cannot be distinguished. Two processes
 * with this ID are not assumed to have the same user: the ID must be listed.
 *
 * @param action the refused operation for error messages, such as `"connect to /run/frames.sock"`
 * @throws {SharingError} `not-permitted`
 */
export function checkUser(action: string, peer: Peer, users: readonly number[]): void {
  checkUsers(users);
  const own = effectiveUserId();
  const allowed = allowedUsers(users);
  if (users.includes(peer.uid) || (peer.uid === own && !isUnmapped(own))) return;
  if (peer.uid === own) {
    throw new SharingError(
      "not-permitted",
      `Cannot ${action}: user ${own} is every user that this process's user namespace does not map; map its user, or ` +
        `list ${own} among the users to allow all of them`,
    );
  }
  const only = allowed.length === 1 ? `user ${own} is` : `users ${allowed.join(", ")} are`;
  throw new SharingError(
    "not-permitted",
    `Cannot ${action}: process ${peer.pid} at the other end runs as user ${peer.uid}, and only ${only} allowed; run ` +
      `both as the same user, or list ${peer.uid} among the users`,
  );
}

/** Returns the users whose processes may connect: this process's user, and the listed ones. */
export function allowedUsers(users: readonly number[]): readonly number[] {
  return [...new Set([effectiveUserId(), ...users])];
}

/**
 * Returns whether a peer is known to run as this process's user. Such a peer may be trusted, because processes of one
 * user can harm each other in other ways anyway.
 */
export function isOwnUser({ uid }: Peer): boolean {
  const own = effectiveUserId();
  return uid === own && !isUnmapped(own);
}

/** Returns whether a user ID may stand for several users in this process's user namespace. */
function isUnmapped(user: number): boolean {
  if (user !== overflowUser) return false;
  // Each line has the first ID in this namespace, the first ID in the parent's namespace, and the number of IDs.
  const lines = readSmallFile("/proc/self/uid_map")?.trim().split("\n") ?? [];
  return lines.reduce((sum, line) => sum + Number(line.trim().split(/\s+/)[2] ?? 0), 0) < allUsers;
}

/** Throws a `TypeError` or `RangeError` unless `users` is an array of user IDs. */
function checkUsers(users: readonly number[]): void {
  if (!Array.isArray(users)) {
    throw new TypeError(`Cannot use ${shown(users)} as users: give an array of user IDs, such as [1001]`);
  }
  for (const user of users) {
    if (typeof user !== "number") {
      throw new TypeError(`Cannot use ${shown(user)} as a user: give a user ID, a number such as id -u prints`);
    }
    if (!Number.isInteger(user) || user < 0 || user > maximumUser) {
      throw new RangeError(`Cannot use ${user} as a user: it must be an integer from 0 to ${maximumUser}`);
    }
  }
}

/**
 * Throws `not-permitted` if a user other than this process's user and root could make `path` refer to another socket.
 */
function checkPath(path: string): void {
  try {
    checkFolderPath(folderOf(path), { content: "another socket", mayBeSticky: true });
  } catch (error) {
    if (isOutOfDescriptors(error)) throw outOfDescriptors(`listen at ${path}`, error);
    if (!(error instanceof FolderRefusal)) throw error;
    const { code, message, cause } = error;
    throw new SharingError(code, `Cannot listen at ${path}: ${message}`, cause === undefined ? {} : { cause });
  }
}
