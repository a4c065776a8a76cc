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
