import { checkOptions, type KnownOptions } from "../../support/validation.ts";
import { abortError, throwIfAborted, type WaitOptions } from "../../support/waiting/waiting.ts";

/** The description of a wait, for the error if it is aborted. */
export interface AbortableDescription {
  /** What is awaited. */
  readonly awaited?: string;
  /** Returns why the wait is not over, if that is known. */
  readonly why?: (() => string | undefined) | undefined;
  /** The known options, unless they were checked before. */
  readonly known?: KnownOptions<WaitOptions>;
}

/**
 * A promise that a callback settles. An aborted signal rejects it.
 *
 * @param subscribe registers the callbacks, and may return a function that unregisters them
 * @param options the application's options
 * @param description what is awaited, and which options there are
 */
export function abortable<T = void>(
  subscribe: (resolve: (value: T) => void, reject: (error: unknown) => void) => (() => void) | void,
  options: WaitOptions = {},
  { awaited, why, known }: AbortableDescription = {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    if (known !== undefined) checkOptions(options, known);
    const { signal } = options;
    throwIfAborted(signal, awaited, why);
    let isOver = false;
    const onAbort = (): void => {
      unsubscribe?.();
      reject(abortError(signal!.reason, awaited, why));
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
