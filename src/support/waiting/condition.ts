/** A wait for something that may have come about whenever it is looked at. There is one at a time. */
export class Condition {
  #look: (() => void) | undefined;

  /** Something has changed. */
  notify(): void {
    this.#look?.();
  }

  /** Resolves once it is settled, or so many milliseconds are over, if they are given. */
  wait(isSettled: () => boolean, milliseconds?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = milliseconds === undefined ? undefined : setTimeout(resolve, milliseconds);
      this.#look = () => {
        if (!isSettled()) return;
        clearTimeout(timer);
        resolve();
      };
      this.notify();
    });
  }
}
