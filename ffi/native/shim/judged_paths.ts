/**
 * Checks paths and files before use: whether a user other than this one or root controls their content.
 *
 * @module
 */
import {
  closeDescriptor,
  describeDescriptor,
  type DescriptorStatus,
  openDescriptor,
  openPath,
  readLink,
} from "./descriptors.ts";
import { createFolder } from "./folder_files.ts";
import { shim } from "./shim.ts";
import { errno, SystemError } from "./system_error.ts";

const root = 0;
/** The number of symbolic links that the kernel follows when it resolves a path. */
const maximumLinks = 40;
const stickyBit = 0o1000;
const writableByOthers = 0o022;

/** A component of a path: its status, and its target if it is a symbolic link. */
interface PathComponent extends DescriptorStatus {
  readonly target: string | undefined;
}

/** How a folder will be used. */
export interface FolderUse {
  /** What another user could put into the folder, for the message: `"another socket"`. */
  readonly content: string;
  /**
   * Whether other users may write to the folder if it is sticky, as `/tmp` is. The caller must then check the owner of
   * each file in it.
   */
  readonly mayBeSticky: boolean;
}

/** Why a folder is not used. The message is the reason alone. */
export class FolderRefusal extends Error {
  readonly code: "not-found" | "not-permitted";

  constructor(code: FolderRefusal["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Whether a file belongs to this user or to root. */
export function isOwnOrRoots({ owner }: Pick<DescriptorStatus, "owner">): boolean {
  return owner === root || owner === shim().poolpass_geteuid();
}

/**
 * Throws if a user other than this one or root could redirect a path to another folder, or change the folder's content.
 * Resolves the path from the root, as the kernel does: once a component has passed the check, no other user can change
 * it, so what it leads to stays valid.
 *
 * @returns the folder's absolute path, free of links
 * @throws {FolderRefusal}
 * @throws {SystemError} If the path cannot be looked at for another reason
 */
export function checkFolderPath(folder: string, use: FolderUse): string {
  const rest = folder.split("/").reverse();
  if (!folder.startsWith("/")) rest.push(...componentAt("/proc/self/cwd").target!.split("/").reverse());
  // The folder reached so far, free of links; "" is the root.
  let reached = "";
  let status: DescriptorStatus = componentAt("/");
  checkFolder("/", status, use);
  for (let links = 0; rest.length > 0;) {
    const name = rest.pop()!;
    if (name === "" || name === ".") continue;
    if (name === "..") {
      reached = reached.slice(0, Math.max(0, reached.lastIndexOf("/")));
      status = componentAt(reached || "/");
      continue;
    }
    const at = `${reached}/${name}`;
    const component = componentAt(at);
    if (component.target === undefined) {
      checkFolder(at, component, use);
      reached = at;
      status = component;
    } else {
      if (++links > maximumLinks) throw new SystemError(errno.ELOOP, `open of ${folder}`);
      checkOwner(`the link ${at}`, component, use);
      if (component.target.startsWith("/")) reached = "";
      rest.push(...component.target.split("/").reverse());
    }
  }
  if (!use.mayBeSticky && (status.permissions & writableByOthers) !== 0) throw writable(reached || "/", status, use);
  return reached || "/";
}

/**
 * As `checkFolderPath`, but creates the folder, and those above it, if they do not exist. Creates none where the path is
 * refused.
 */
export function createFolderPath(folder: string, use: FolderUse): string {
  try {
    return checkFolderPath(folder, use);
  } catch (error) {
    const [, above = "."] = /^(.*[^/]|)\/+[^/]+\/*$/.exec(folder) ?? [];
    const isMissing = error instanceof FolderRefusal && error.cause instanceof SystemError &&
      error.code === "not-found";
    if (!isMissing || folder === ".") throw error;
    createFolderPath(above || "/", { ...use, mayBeSticky: true });
    createFolder(folder);
    return checkFolderPath(folder, use);
  }
}

function checkFolder(at: string, status: DescriptorStatus, use: FolderUse): void {
  if (status.type !== "folder") throw new FolderRefusal("not-found", `${at} is not a folder; correct the path`);
  checkOwner(`the folder ${at}`, status, use);
  const { permissions } = status;
  // In a sticky folder, only a file's owner may replace it, and the owner of each file on the path is checked.
  if ((permissions & writableByOthers) !== 0 && (permissions & stickyBit) === 0) throw writable(at, status, use);
}

function writable(at: string, { owner, permissions }: DescriptorStatus, { content }: FolderUse): FolderRefusal {
  return new FolderRefusal(
    "not-permitted",
    `the folder ${at} of user ${owner} (mode ${octal(permissions)}) lets other users put ${content} there; remove ` +
      "their write permission (chmod go-w), or use another folder",
  );
}

function checkOwner(what: string, status: DescriptorStatus, { content }: FolderUse): void {
  if (isOwnOrRoots(status)) return;
  const { owner, permissions } = status;
  throw new FolderRefusal(
    "not-permitted",
    `${what} (mode ${octal(permissions)}) belongs to user ${owner}, who could put ${content} there; use a folder of ` +
      `this process's user, ${shim().poolpass_geteuid()}`,
  );
}

function componentAt(at: string): PathComponent {
  let fd: number;
  try {
    fd = openPath(at);
  } catch (cause) {
    throw pathError(at, cause);
  }
  try {
    const status = describeDescriptor(fd);
    return { ...status, target: status.type === "link" ? readLink(fd) : undefined };
  } finally {
    closeDescriptor(fd);
  }
}

function pathError(at: string, cause: unknown): unknown {
  switch ((cause as SystemError).errno) {
    case errno.ENOENT:
      return new FolderRefusal("not-found", `there is no folder ${at}; make it first`, { cause });
    case errno.EACCES:
      return new FolderRefusal(
        "not-permitted",
        `the folder above ${at} is not accessible to this user; use another folder`,
        { cause },
      );
    default:
      return cause;
  }
}

function octal(permissions: number): string {
  return `0${permissions.toString(8).padStart(3, "0")}`;
}

/**
 * Opens a file that nobody but this user and root may write to, and says how long it is. Returns undefined if there is
 * none. Anything else that has the name, such as a pipe, a device, a link or a file of another user, is not opened:
 * neither the open nor a read then waits for anybody.
 *
 * @throws {SystemError} If the system cannot open it
 */
export function openOwnFile(
  path: string,
  options: { readonly writable?: boolean } = {},
): { readonly fd: number; readonly byteLength: number } | undefined {
  let found: number | undefined;
  try {
    found = openPath(path);
    const status = describeDescriptor(found);
    const { type, permissions, byteLength } = status;
    if (type !== "file" || !isOwnOrRoots(status) || (permissions & writableByOthers) !== 0) return undefined;
    // What was judged is opened: another file may have the name meanwhile.
    return { fd: openDescriptor(`/proc/self/fd/${found}`, options), byteLength };
  } catch (error) {
    if (error instanceof SystemError && error.errno === errno.ENOENT) return undefined;
    throw error;
  } finally {
    if (found !== undefined) closeDescriptor(found);
  }
}
