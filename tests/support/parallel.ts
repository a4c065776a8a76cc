/**
 * What `deno test --parallel` needs: it runs test files as Workers of one process at the same time.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

interface LockableFile extends Disposable {
  lock(exclusive: boolean): Promise<void>;
}

interface DenoNamespace {
  open(path: string): Promise<LockableFile>;
}

let isParallel: boolean | undefined;

/** Whether the tests of other files run in this process at the same time. */
export function sharesProcess(): boolean {
  return isParallel ??= readFileSync("/proc/self/cmdline", "utf8").split("\0").includes("--parallel");
}

/**
 * Wraps a test's body so that no other such body runs meanwhile in this process. The Workers of a process share each
 * GPU's context: if two tests held their streams with kernels at the same time, each could wait for the other's.
 */
export function inTurn(body: () => void | Promise<void>): () => Promise<void> {
  return async () => {
    const { Deno: deno } = globalThis as unknown as { Deno: DenoNamespace };
    // Any file does. The lock is of the open file, not of the process, and closing the file releases it.
    using file = await deno.open(fileURLToPath(import.meta.url));
    await file.lock(true);
    await body();
  };
}
