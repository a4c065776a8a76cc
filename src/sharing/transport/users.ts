/**
 * Which users share: who may connect, and who could put another socket in the place of this one.
 *
 * @module
 */
import {
  closeDescriptor,
  describeDescriptor,
  type DescriptorStatus,
  openPath,
  readLink,
} from "../../../ffi/shim/descriptors.ts";
import { effectiveUserId } from "../../../ffi/shim/sockets.ts";
import { errno, SystemError } from "../../../ffi/shim/system_error.ts";
import { SharingError } from "../../support/errors.ts";
import { checkSocketPath, folderOf } from "./socket_path.ts";
import { UnixListener } from "./unix_listener.ts";
import { isOutOfDescriptors, outOfDescriptors, type Peer } from "./unix_socket.ts";

const root = 0;
/** The number above it stands for no user in the kernel's calls. */
const maximumUser = 2 ** 32 - 2;
/** As many as the kernel follows on one way. */
const maximumLinks = 40;
const stickyBit = 0o1000;
const writableByOthers = 0o022;

/** What a file on the way to a socket is, and where it leads if it is a link. */
interface Step extends DescriptorStatus {
  readonly target: string | undefined;
}

/**
 * Listens at a path for processes of this user, and of the users listed: then anyone may connect, and `checkUser` on what
 * was accepted decides. Nobody but this user and root may be able to put another socket in its place.
 *
 * @throws {SharingError} `not-permitted` where others may change a folder or a link on the way to the path, and all that
 * `UnixListener.listen` throws
 */
export function listenFor(path: string, users: readonly number[]): UnixListener {
  checkSocketPath("listen at", path);
  checkUsers(users);
  const own = effectiveUserId();
  checkWay(path, own);
  return UnixListener.listen(path, { mode: users.some((user) => user !== own) ? 0o666 : 0o600 });
}

/**
 * Refuses a peer that runs neither as this process's user nor as one of those listed. Root is let in like any other: only
 * if it is one of them. Users whom a user namespace does not map are all 65534 there, and cannot be told apart.
 *
 * @param action what cannot be done with it, `"connect to /run/frames.sock"`
 * @throws {SharingError} `not-permitted`
 */
export function checkUser(action: string, peer: Peer, users: readonly number[]): void {
  checkUsers(users);
  const own = effectiveUserId();
  if (peer.uid === own || users.includes(peer.uid)) return;
  const allowed = [...new Set([own, ...users])];
  const only = allowed.length === 1 ? `user ${own} is` : `users ${allowed.join(", ")} are`;
  throw new SharingError(
    "not-permitted",
    `Cannot ${action}: process ${peer.pid} at the other end runs as user ${peer.uid}, and only ${only} allowed; run ` +
      `both as the same user, or list ${peer.uid} among the users`,
  );
}

/** Throws unless these are numbers of users. */
function checkUsers(users: readonly number[]): void {
  if (!Array.isArray(users)) {
    throw new TypeError(`Cannot use ${String(users)} as users: list their numbers in an array`);
  }
  for (const user of users) {
    if (typeof user !== "number") {
      throw new TypeError(`Cannot use ${String(user)} as a user: give the number, as of id -u`);
    }
    if (!Number.isInteger(user) || user < 0 || user > maximumUser) {
      throw new RangeError(`Cannot use ${user} as a user: it must be an integer from 0 to ${maximumUser}`);
    }
  }
}

/**
 * Refuses a path that others than this user and root can lead to another socket. The way is gone from the top, as the
 * kernel goes it: what was passed can be changed by nobody else, so what is seen behind it stays true.
 */
function checkWay(path: string, own: number): void {
  const rest = folderOf(path).split("/").reverse();
  if (!path.startsWith("/")) rest.push(...stepAt(path, "/proc/self/cwd").target!.split("/").reverse());
  // The folder that is reached, with no link in it; "" is the root.
  let reached = "";
  checkFolder(path, "/", stepAt(path, "/"), own);
  for (let links = 0; rest.length > 0;) {
    const name = rest.pop()!;
    if (name === "" || name === ".") continue;
    if (name === "..") {
      reached = reached.slice(0, Math.max(0, reached.lastIndexOf("/")));
      continue;
    }
    const at = `${reached}/${name}`;
    const step = stepAt(path, at);
    if (step.target === undefined) {
      checkFolder(path, at, step, own);
      reached = at;
    } else {
      if (++links > maximumLinks) throw new SystemError(errno.ELOOP, `listen at ${path}`);
      checkOwner(path, `the link ${at}`, step, own);
      if (step.target.startsWith("/")) reached = "";
      rest.push(...step.target.split("/").reverse());
    }
  }
}

function checkFolder(path: string, at: string, status: DescriptorStatus, own: number): void {
  if (status.type !== "folder") {
    throw new SharingError("not-found", `Cannot listen at ${path}: ${at} is no folder; correct the path`);
  }
  checkOwner(path, `the folder ${at}`, status, own);
  const { owner, permissions } = status;
  // In a sticky folder only the owner of a file may replace it, and that of each file on the way is looked at.
  if ((permissions & writableByOthers) === 0 || (permissions & stickyBit) !== 0) return;
  throw new SharingError(
    "not-permitted",
    `Cannot listen at ${path}: the folder ${at} of user ${owner} (mode ${octal(permissions)}) lets other users put ` +
      "another socket there; take that from them (chmod go-w), or use another folder",
  );
}

function checkOwner(path: string, what: string, { owner, permissions }: DescriptorStatus, own: number): void {
  if (owner === own || owner === root) return;
  throw new SharingError(
    "not-permitted",
    `Cannot listen at ${path}: ${what} (mode ${octal(permissions)}) belongs to user ${owner}, who could put another ` +
      `socket there; use a folder of this process's user, ${own}`,
  );
}

function stepAt(path: string, at: string): Step {
  let fd: number;
  try {
    fd = openPath(at);
  } catch (cause) {
    throw wayError(path, at, cause);
  }
  try {
    const status = describeDescriptor(fd);
    return { ...status, target: status.type === "link" ? readLink(fd) : undefined };
  } finally {
    closeDescriptor(fd);
  }
}

function wayError(path: string, at: string, cause: unknown): unknown {
  if (isOutOfDescriptors(cause)) return outOfDescriptors(`listen at ${path}`, cause);
  switch ((cause as SystemError).errno) {
    case errno.ENOENT:
      return new SharingError("not-found", `Cannot listen at ${path}: there is no folder ${at}; make it first`, {
        cause,
      });
    case errno.EACCES:
      return new SharingError(
        "not-permitted",
        `Cannot listen at ${path}: the folder above ${at} is closed to this user; use another folder`,
        { cause },
      );
    default:
      return cause;
  }
}

function octal(permissions: number): string {
  return `0${permissions.toString(8).padStart(3, "0")}`;
}
