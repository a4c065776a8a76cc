/**
 * Handles of arrays, textures and surfaces, which the driver frees when the work that uses them is done.
 *
 * @module
 */
import type { Driver } from "../../driver.ts";
import type { OpenedObject } from "../../objects/opened_objects.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { Session } from "../../session.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";

/** A handle that streams and graphs use. Levels of a mipmapped array share that of the array. */
export interface UsedHandle {
  readonly handle: bigint;
  readonly isDisposed: boolean;
  /** Records that work of a stream uses what the handle stands for. */
  noteUse(stream: CudaStream): void;
  /** Keeps the handle valid until the returned function is called, even if it is disposed. */
  hold(): () => void;
}

/** Returns how work uses a texture or surface, and the array that it is made of, if any. */
export function usedTogether(own: UsedHandle, memory: UsedHandle | undefined): Pick<UsedHandle, "noteUse" | "hold"> {
  return {
    noteUse(stream) {
      own.noteUse(stream);
      memory?.noteUse(stream);
    },
    hold() {
      const releases = [own.hold(), memory?.hold()];
      return () => {
        for (const release of releases) release?.();
      };
    },
  };
}

/** A handle that is freed when it was disposed, and the work that uses it is done, and no graph uses it. */
export class TrackedHandle implements UsedHandle {
  readonly handle: bigint;
  readonly #session: Session;
  readonly #release: (driver: Driver) => void;
  readonly #opened: OpenedObject;
  readonly #streams = new Set<CudaStream>();
  #holders = 0;
  #isDisposed = false;

  constructor(
    session: Session,
    { handle, kind, release }: {
      handle: bigint;
      kind: string;
      release: (driver: Driver, handle: bigint) => void;
    },
  ) {
    this.#session = session;
    this.handle = handle;
    this.#release = (driver) => release(driver, handle);
    this.#opened = { kind, release: this.#release };
    session.opened.add(this.#opened);
  }

  get isDisposed(): boolean {
    return this.#isDisposed;
  }

  noteUse(stream: CudaStream): void {
    this.#streams.add(stream);
  }

  hold(): () => void {
    this.#holders++;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      if (--this.#holders === 0 && this.#isDisposed) this.#free();
    };
  }

  /** Frees the handle when the streams that have used it have done their work so far, and no graph uses it. */
  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    if (this.#session.hasEnded) return;
    this.#session.opened.markDisposed(this.#opened);
    if (this.#holders === 0) this.#free();
  }

  #free(): void {
    if (this.#session.hasEnded) return;
    const streams = [...this.#streams].filter(({ disposed }) => !disposed);
    ignoreLoss(() =>
      this.#session.afterWork(streams, () => {
        ignoreLoss(() => this.#release(this.#session.driver));
        this.#session.opened.delete(this.#opened);
      })
    );
  }
}
