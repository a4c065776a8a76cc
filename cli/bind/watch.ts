/**
 * Waiting for changes of files.
 *
 * @module
 */
import { type FSWatcher, watch } from "node:fs";
import { dirname } from "node:path";

/** Editors write a file in several steps. */
const settlingMilliseconds = 40;

/** Notices changes in folders. Folders, and not files: an editor may replace a file by another of the same name. */
export class FolderWatcher implements Disposable {
  readonly #watchers = new Map<string, FSWatcher | undefined>();
  readonly #onChange: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param onChange Called some time after something has changed in a folder. */
  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  /** Watches the folders of files. */
  add(files: Iterable<string>): void {
    for (const folder of new Set(Array.from(files, dirname))) {
      if (this.#watchers.get(folder) !== undefined) continue;
      this.#watchers.set(folder, this.#watch(folder));
    }
  }

  /** Undefined if there is no such folder. */
  #watch(folder: string): FSWatcher | undefined {
    try {
      const watcher = watch(folder, () => this.#settle());
      // The folder may be removed. Its files are then found to be missing.
      watcher.on("error", () => {
        watcher.close();
        this.#watchers.delete(folder);
        this.#settle();
      });
      return watcher;
    } catch {
      return undefined;
    }
  }

  #settle(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#onChange, settlingMilliseconds);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    for (const watcher of this.#watchers.values()) watcher?.close();
    this.#watchers.clear();
  }
}

/**
 * Builds, and builds again whenever files have other contents than they had for the last build, until `signal` is
 * aborted.
 *
 * @param read The contents of the files, by path.
 */
export async function rebuildOnChange(
  { read, build, signal }: {
    read: () => ReadonlyMap<string, string | undefined>;
    build: () => void;
    signal: AbortSignal;
  },
): Promise<void> {
  let notify: () => void = () => {};
  using watcher = new FolderWatcher(() => notify());
  signal.addEventListener("abort", () => notify(), { once: true });
  while (!signal.aborted) {
    const contents = read();
    // Before the build, which takes long: a change meanwhile is not missed.
    watcher.add(contents.keys());
    build();
    while (!signal.aborted && isSame(contents, read())) {
      await new Promise<void>((resolve) => notify = resolve);
    }
  }
}

function isSame(a: ReadonlyMap<string, string | undefined>, b: ReadonlyMap<string, string | undefined>): boolean {
  return a.size === b.size && Array.from(a).every(([path, text]) => b.has(path) && b.get(path) === text);
}
