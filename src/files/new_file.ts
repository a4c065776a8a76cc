/**
 * Atomic creation of files: a file appears at its path only after all of its bytes have been written to disk.
 *
 * @module
 */
import { shown, whatIs } from "../support/validation.ts";
import { type FileHandle, fileSystem, pathBeside, pathOf } from "./runtime_files.ts";
import { TypeError } from "../support/program_errors.ts";

/**
 * Writes a file atomically. `write` receives a temporary file in the same folder. Once that file has been flushed to
 * disk, it is renamed to `path`. If anything fails, the temporary file is removed, and an existing file at `path` stays
 * unchanged.
 *
 * @param path the path or `file:` URL
 * @param write writes the whole file; its argument `open` returns an additional handle of the file
 * @throws {TypeError} If `path` is not a path or a `file:` URL, or if `path` names something else than a regular file
 */
export async function writeNewFile(
  path: string | URL,
  write: (file: FileHandle, open: () => Promise<FileHandle>) => Promise<void>,
): Promise<void> {
  if (typeof path !== "string" && !(path instanceof URL)) {
    throw new TypeError(`Cannot write to ${whatIs(path)}: give a path or a file: URL`);
  }
  const target = pathOf(path);
  if (target === "" || target.endsWith("/")) throw new TypeError(`Cannot write to ${shown(target)}: it names no file`);
  const temporary = `${target}.${crypto.randomUUID().slice(0, 8)}.tmp`;
  const files = fileSystem();
  // Renaming would replace a device such as /dev/null. If nothing is known of the path, there is nothing to protect.
  const existing = await files.stat(target).catch(() => undefined);
  if (existing?.isFile() === false) throw new TypeError(`Cannot write to ${shown(target)}: it is not a regular file`);
  const handles = [await files.open(temporary, "wx")];
  try {
    await write(handles[0]!, async () => {
      const handle = await files.open(temporary, "r+");
      handles.push(handle);
      return handle;
    });
    await handles[0]!.sync();
    while (handles.length > 0) await handles.pop()!.close();
    await files.rename(temporary, target);
  } catch (error) {
    for (const handle of handles) await handle.close().catch(() => {});
    await files.unlink(temporary).catch(() => {});
    throw error;
  }
  await syncFolderOf(target);
}

/**
 * Flushes the folder, which contains the new name, to disk. Ignores errors: the file already exists, but some file
 * systems do not support this, or the folder may not be readable.
 */
async function syncFolderOf(path: string): Promise<void> {
  let folder: FileHandle | undefined;
  try {
    folder = await fileSystem().open(pathBeside(path, "."), "r");
    await folder.sync();
  } catch {
    // Ignored, as explained above.
  } finally {
    await folder?.close();
  }
}
