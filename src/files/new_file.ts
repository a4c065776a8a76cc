/**
 * Files that appear under their path only when all of their bytes are on the disk.
 *
 * @module
 */
import { shown, whatIs } from "../support/validation.ts";
import { type FileHandle, fileSystem, pathBeside, pathOf } from "./runtime_files.ts";
import { TypeError } from "../support/program_errors.ts";

/**
 * Writes a file: `write` gets a new file beside it, which takes the path when it is written to the disk. If that fails,
 * the new file is removed, and whatever was at the path stays.
 *
 * @param path the path, or the `file:` URL
 * @param write writes all of the file. `open` returns further handles of it
 * @throws {TypeError} If it is not a path
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

/** Writes the new name to the disk. Some file systems cannot, or the folder may not be read: the file is there anyway. */
async function syncFolderOf(path: string): Promise<void> {
  let folder: FileHandle | undefined;
  try {
    folder = await fileSystem().open(pathBeside(path, "."), "r");
    await folder.sync();
  } catch {
    // See above.
  } finally {
    await folder?.close();
  }
}
