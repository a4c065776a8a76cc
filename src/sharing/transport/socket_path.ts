/**
 * Validates socket paths, and checks the system's support for sockets.
 *
 * @module
 */
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { SharingError } from "../../support/errors.ts";
import { escapeControls } from "../../support/printing.ts";
import { whatIs } from "../../support/validation.ts";
import { TypeError } from "../../support/program_errors.ts";

/** The kernel's limit on the length of a socket's path in bytes, without the terminating NUL. */
const maximumByteLength = 107;

/** Matches the scheme of a URL, including the two slashes. */
const urlScheme = /^[a-z][a-z0-9+.-]*:\/\//i;

/**
 * Throws if a string cannot be the path of a socket, or if the system has no Unix domain sockets.
 *
 * @param action the operation for error messages, such as `"listen at"`
 */
export function checkSocketPath(action: string, path: string): void {
  if (typeof path !== "string") {
    throw new TypeError(`Cannot ${action} ${whatIs(path)}: a socket's path must be a string`);
  }
  if (path === "") throw new TypeError(`Cannot ${action} a socket with an empty path: give the path of a file`);
  if (path.includes("\0")) {
    throw new TypeError(
      `Cannot ${action} ${escapeControls(JSON.stringify(path))}: it has a NUL; abstract sockets are not supported`,
    );
  }
  if (path.endsWith("/")) {
    throw new TypeError(`Cannot ${action} ${escapeControls(path)}: it names a folder; add a file name`);
  }
  const scheme = urlScheme.exec(path)?.[0];
  if (scheme !== undefined) {
    const rest = path.slice(scheme.length);
    const advice = rest.startsWith("/") ? `the path alone, ${rest}` : "the path of a file, such as /tmp/pool.sock";
    throw new TypeError(`Cannot ${action} ${escapeControls(path)}: it is a URL; give ${advice}`);
  }
  const byteLength = new TextEncoder().encode(path).length;
  if (byteLength > maximumByteLength) {
    throw new SharingError(
      "path-too-long",
      `Cannot ${action} ${path}: it has ${byteLength} bytes, and a socket's path at most ${maximumByteLength}; ` +
        "use a shorter one, such as one in /tmp",
    );
  }
  checkSocketSupport(`${action} ${path}`);
}

/** Throws if the system has no Unix domain sockets. */
export function checkSocketSupport(action: string): void {
  const refusal = shimRefusal();
  if (refusal !== undefined) throw new SharingError("not-supported", `Cannot ${action}: ${refusal}`);
}

/** Returns the folder of a path. */
export function folderOf(path: string): string {
  const end = path.lastIndexOf("/");
  return end < 0 ? "." : path.slice(0, end) || "/";
}
