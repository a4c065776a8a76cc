import { checkOptions, type KnownOptions } from "../validation.ts";
import { abortError } from "./abort_error.ts";
import { throwIfAborted, type WaitOptions } from "./waiting.ts";

/**
 * A promise that a callback settles. An aborted signal rejects it.
 *
 * @param subscribe registers the callbacks, and may return a function that unregisters them
 * @param options the application's options
 * @param description what is awaited, for the error of an aborted wait; the known options, unless they were checked before
 */
export function abortable<T = void>(
  subscribe: (resolve: (value: T) => void, reject: (error: unknown) => void) => (() => void) | void,
  options: WaitOptions = {},
  { awaited, known }: { readonly awaited?: string; readonly known?: KnownOptions<WaitOptions> } = {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    if (known !== undefined) checkOptions(options, known);
    const { signal } = options;
    throwIfAborted(signal, awaited);
    let isOver = false;
    const onAbort = (): void => {
      unsubscribe?.();
      reject(abortError(signal!.reason, awaited));
    };
    const settle = (): void => {
      isOver = true;
      signal?.removeEventListener("abort", onAbort);
    };
    const unsubscribe = subscribe(
      (value) => {
        settle();
        resolve(value);
      },
      (error) => {
        settle();
        reject(error);
      },
    );
    if (!isOver) signal?.addEventListener("abort", onAbort, { once: true });
  });
}
