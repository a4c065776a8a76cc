import type { WaitOptions } from "../waiting.ts";

/**
 * A promise of a callback, which an aborted signal rejects.
 *
 * @param subscribe is given what to call; what it returns, if anything, takes that back
 */
export function until<T = void>(
  subscribe: (resolve: (value: T) => void, reject: (error: unknown) => void) => (() => void) | void,
  { signal }: WaitOptions = {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = (): void => {
      unsubscribe?.();
      reject(signal!.reason);
    };
    const unsubscribe = subscribe(
      (value) => {
        signal?.removeEventListener("abort", onAbort);
        resolve(value);
      },
      (error) => {
        signal?.removeEventListener("abort", onAbort);
        reject(error);
      },
    );
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
