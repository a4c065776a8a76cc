/**
 * Watches files for changes.
 *
 * @module
 */
import { type FSWatcher, watch } from "node:fs";
import { dirname } from "node:path";

/**
 * The delay in milliseconds between the last change to a file and the callback. Editors write a file in several steps.
 */
const settlingMilliseconds = 40;

/**
 * Watches folders for changes. Single files cannot be watched reliably, because editors may replace a file with a new
 * one of the same name.
 */
export class FolderWatcher implements Disposable {
  readonly #watchers = new Map<string, FSWatcher | undefined>();
  readonly #onChange: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param onChange called shortly after a change in one of the folders */
  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  /** Watches the folders that contain the given files. */
  add(files: Iterable<string>): void {
    for (const folder of new Set(Array.from(files, dirname))) {
      if (this.#watchers.get(folder) !== undefined) continue;
      this.#watchers.set(folder, this.#watch(folder));
    }
  }

  /** Starts to watch a folder. Returns undefined if there is no such folder. */
  #watch(folder: string): FSWatcher | undefined {
    try {
      const watcher = watch(folder, () => this.#settle());
      // The folder may have been removed: call `onChange`, which checks that.
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
 * Calls `build` once, and again each time the contents of the files have changed since the last build, until `signal`
 * is aborted.
 *
 * @param read returns the contents of the files, keyed by path
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
    // The build may take long. Start watching before it, so that no change during the build is missed.
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
