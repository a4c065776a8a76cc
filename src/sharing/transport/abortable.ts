/**
 * Promises that a signal can abort, and condition variables.
 *
 * @module
 */
import { checkOptions, type KnownOptions } from "../../support/validation.ts";
import { abortError, throwIfAborted, type WaitOptions } from "../../support/waiting/waiting.ts";

/** The description of a wait, for validating its options and for the error if it is aborted. */
export interface AbortableDescription {
  /** A phrase for what is awaited, such as `a free slot of "frames"`. */
  readonly awaited?: string;
  /** Returns the reason why the wait is not over; undefined if it is unknown. */
  readonly why?: (() => string | undefined) | undefined;
  /** The options that are allowed; absent if they were checked before. */
  readonly known?: KnownOptions<WaitOptions>;
}

/**
 * Returns a promise that the callbacks passed to `subscribe` settle, and that is rejected if the signal aborts.
 *
 * @param subscribe registers the callbacks, and may return a function that unregisters them, called if the signal
 * aborts
 * @param options the application's options
 * @param description the object of the wait, and the options that are allowed
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

/** A condition variable with at most one waiter at a time. */
export class Condition {
  #check: (() => void) | undefined;

  /** Makes the waiter check its condition. Call this after each change that may affect the condition. */
  notify(): void {
    this.#check?.();
  }

  /**
   * Resolves once `isSettled` returns true, or after `milliseconds` if given. Checks `isSettled` immediately and at
   * each `notify`.
   */
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
