/**
 * Promises that a signal can abort, and condition variables.
 *
 * @module
 */
import { checkOptions, type KnownOptions } from "../../support/validation.ts";
import { abortError, throwIfAborted, type WaitOptions } from "../../support/waiting/waiting.ts";

/** Describes a wait. Used to validate the wait's options, and quoted in the error if the wait is aborted. */
export interface AbortableDescription {
  /** What is awaited, as a phrase such as `a free slot of "frames"`. */
  readonly awaited?: string;
  /** Returns the reason why the wait has not ended yet, for the error message; undefined if the reason is unknown. */
  readonly why?: (() => string | undefined) | undefined;
  /** The permitted options. Undefined if the options have been checked already. */
  readonly known?: KnownOptions<WaitOptions>;
}

/**
 * Returns a promise that is settled by the callbacks passed to `subscribe`, or rejected when the signal is aborted.
 *
 * @param subscribe registers the callbacks, and may return a function that unregisters them; that function is called
 * when the signal is aborted
 * @param options the application's options
 * @param description what is awaited, and the permitted options
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
export class ConditionVariable {
  #check: (() => void) | undefined;

  /** Makes the waiter check its condition. Must be called after each change that may affect the condition. */
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
