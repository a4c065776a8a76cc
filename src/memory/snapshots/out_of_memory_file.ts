import { environmentVariable } from "../../../ffi/native/environment.ts";
import { closeDescriptor, writeAt } from "../../../ffi/native/shim/descriptors.ts";
import { checkFilePath, createFile, removeFile, renameFile } from "../../../ffi/native/shim/folder_files.ts";
import { shim, shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { reasonNotCreated } from "../../../ffi/native/shim/text_files.ts";
import type { MemorySnapshot } from "./memory_snapshot.ts";

/** The minimum time in milliseconds between two files. */
const pause = 1000;

let last = -Infinity;

/**
 * Writes a snapshot to the file that `POOLPASS_SNAPSHOT_ON_OOM` names, which replaces an older one, and returns what to
 * add to the error. Returns undefined if no file is named, or if one was written just before: a program may try again
 * and again.
 */
export function describeOutOfMemoryFile(take: () => MemorySnapshot): string | undefined {
  const named = environmentVariable("POOLPASS_SNAPSHOT_ON_OOM");
  if (named === undefined || named === "" || performance.now() - last < pause) return undefined;
  last = performance.now();
  let path = named;
  try {
    const refusal = shimRefusal();
    if (refusal !== undefined) throw new Error(refusal);
    path = named.replaceAll("%p", String(shim().poolpass_getpid()));
    const snapshot = take();
    replaceFile(path, path.endsWith(".svg") ? new TextEncoder().encode(snapshot.toSVG()) : snapshot.toPickle());
    return `a snapshot of the memory is in ${path}`;
  } catch (error) {
    // The error of the allocation matters more.
    return `no snapshot of the memory could be written to ${path}: ${reasonNotCreated(error)}`;
  }
}

/** Writes a file that only this user can read, and which has its name when it is complete. */
function replaceFile(path: string, bytes: Uint8Array): void {
  checkFilePath(path);
  const temporary = `${path}.${crypto.randomUUID()}`;
  const fd = createFile(temporary);
  try {
    writeAt(fd, bytes);
    renameFile(temporary, path);
  } catch (error) {
    removeFile(temporary);
    throw error;
  } finally {
    closeDescriptor(fd);
  }
}
