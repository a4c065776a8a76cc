/**
 * Waits that a signal may abort, and conditions that are waited for.
 *
 * @module
 */
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

/** A condition variable. It has one waiter at a time. */
export class Condition {
  #check: (() => void) | undefined;

  /** Makes the waiter check its condition. Call it after each change that the condition depends on. */
  notify(): void {
    this.#check?.();
  }

  /** Resolves once `isSettled` returns true, checked at once and at each `notify`, or after `milliseconds` if given. */
  wait(isSettled: () => boolean, milliseconds?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = milliseconds === undefined ? undefined : setTimeout(resolve, milliseconds);
      this.#check = () => {
        if (!isSettled()) return;
        clearTimeout(timer);
        resolve();
      };
      this.notify();
    });
  }
}
