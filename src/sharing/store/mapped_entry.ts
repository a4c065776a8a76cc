/**
 * An entry of a store that this process has mapped, and that can be unmapped for a while.
 *
 * @module
 */
import { allocationOf, type DeviceBuffer } from "../../memory/device_buffer.ts";
import type { WholeMemory } from "../../memory/virtual/whole_memory.ts";
import { countOf, printAs } from "../../support/printing.ts";
import { checkOptions, type KnownOptions, refuseConstruction, whatIs } from "../../support/validation.ts";
import { throwIfAborted, type WaitOptions } from "../../support/waiting/waiting.ts";
import type { ShareableHandle } from "../../memory/handles/shareable_handle.ts";
import type { JsonValue } from "../protocol/metadata.ts";
import { ReferenceError, TypeError } from "../../support/program_errors.ts";

/** What this process holds of a store's allocation with one mapping. */
export interface Hold {
  /** The number of the allocation. */
  id: number;
  /** Whether the store counts the mapping as asleep. */
  isAsleep: boolean;
}

/** The handle of memory, and the name of the memory that is the same in all processes. */
export interface NamedHandle {
  readonly handle: ShareableHandle;
  readonly name: string;
}

/** The dependencies of a `MappedEntry`, which its client provides. */
export interface MappedEntryParts {
  readonly name: string;
  readonly mapped: WholeMemory;
  readonly hold: Hold;
  readonly generation: number;
  readonly digest: string | undefined;
  readonly metadata: JsonValue | undefined;
  /** Reports to the store that the mapping is asleep. */
  readonly sleep: (hold: Hold) => Promise<void>;
  /** Asks the store for the memory of a mapping that sleeps. The receiver must dispose of the handle. */
  readonly wake: (hold: Hold, options: WakeEntryOptions) => Promise<NamedHandle>;
}

/** A move of an entry's bytes between its device and host memory or a file. */
export interface EntryMove {
  /** The name of the entry. */
  readonly name: string;
  /** The metadata that the entry was published with. */
  readonly metadata: JsonValue | undefined;
  /**
   * The entry's memory on its device: to be read if the entry leaves the device, and to be written if it comes back. It
   * is valid during the move only.
   */
  readonly buffer: DeviceBuffer;
  /** Where the entry lies: `"device"`, `"host"`, or the path of a file. */
  readonly from: string;
  /** Where the entry goes. */
  readonly to: "device" | "host" | "file";
  /** The signal of the call that moves the entry; undefined if it has none. */
  readonly signal: AbortSignal | undefined;
  /**
   * Copies the bytes between the device and host memory; the way is that of the move. May call `onProgress` repeatedly
   * with the number of bytes at the beginning that have all been copied.
   */
  copy(options?: { onProgress?(byteLength: number): void }): Promise<void>;
}

/**
 * Moves an entry's bytes. Resolves when they are where they go, to the absolute path of the file if they go to a file.
 * If it throws, the entry stays where it was.
 */
export type MoveEntry = (move: EntryMove) => Promise<string | void>;

/** Options of `MappedEntry.wake`. */
export interface WakeEntryOptions extends WaitOptions {
  /** Moves the bytes if the entry is not on its device. By default, they are copied; from a file they cannot be. */
  move?(move: EntryMove): Promise<string | void>;
}

const wakeOptions: KnownOptions<WakeEntryOptions> = {
  action: "wake an entry of a store",
  names: { signal: true, move: true },
};
/** Throws unless an option is a function, or absent. */
export function checkMove(move: MoveEntry | undefined): void {
  if (move === undefined || typeof move === "function") return;
  throw new TypeError(`Cannot move an entry with ${whatIs(move)}: the option move is a function`);
}

/** What the errors of a buffer say whose entry sleeps. */
export const whyAsleep = "it is asleep: wake() maps its memory again";

/**
 * An entry of a store that this process has mapped. It can sleep: the memory is then unmapped, and its addresses stay
 * reserved, so that `wake` maps it where it was. Comes from `StoreClient.mapEntry` and `StoredMemory.publish`.
 */
export class MappedEntry implements Disposable {
  /** The name that the entry was mapped by. */
  readonly name: string;
  /** The memory. While the entry sleeps, the buffer and its views refuse any use with a `ReferenceError`. */
  readonly buffer: DeviceBuffer;
  readonly #parts: MappedEntryParts;
  #generation: number;
  #digest: string | undefined;
  #metadata: JsonValue | undefined;
  /** The end of the last call of `sleep`, `wake` or `replaceBy`: these run one after another. */
  #last: Promise<unknown> = Promise.resolve();

  static {
    printAs(this, "MappedEntry", (entry) => {
      return `MappedEntry { ${entry.name}, ${countOf(entry.buffer.byteLength, "byte")}, ${entry.#state} }`;
    }, ["name", "generation", "buffer", ["state", (entry) => entry.#state]]);
  }

  /**
   * Created by `StoreClient.mapEntry`.
   *
   * @ignore
   */
  constructor(parts: MappedEntryParts) {
    if (parts?.mapped === undefined) refuseConstruction("MappedEntry", "StoreClient.mapEntry");
    this.name = parts.name;
    this.buffer = parts.mapped.buffer;
    this.#parts = parts;
    this.#generation = parts.generation;
    this.#digest = parts.digest;
    this.#metadata = parts.metadata;
  }

  /** The number of the generation that is mapped. */
  get generation(): number {
    return this.#generation;
  }

  /** The digest that the generation was published with, as 64 hexadecimal digits. Undefined if there is none. */
  get digest(): string | undefined {
    return this.#digest;
  }

  /** The metadata of the generation that is mapped. */
  get metadata(): JsonValue | undefined {
    return this.#metadata;
  }

  /** Whether the entry sleeps: its memory is not mapped in this process. */
  get isAsleep(): boolean {
    return allocationOf(this.buffer).suspension !== undefined;
  }

  get #state(): string {
    if (this.#isGone) return "disposed";
    return this.isAsleep ? "asleep" : `generation ${this.#generation}`;
  }

  get #isGone(): boolean {
    const allocation = allocationOf(this.buffer);
    return allocation.isGone || allocation.session.hasEnded;
  }

  /**
   * Waits for the work that uses the memory, and unmaps the memory. The addresses stay reserved, and the store keeps
   * the entry for this process, even if it is replaced or removed. Does nothing if the entry sleeps already.
   *
   * A kernel that was given an address of the memory, such as one in a captured graph, must not run until `wake`.
   *
   * @throws {ReferenceError} If this object was disposed
   * @throws {TypeError} If the memory is being read, or is lent to other processes
   * @throws {SharingError} `bad-message` if the store is of an earlier version, which has no such request; `peer-gone`.
   * The memory then stays mapped
   */
  sleep(): Promise<void> {
    return this.#inTurn(async () => {
      this.#check("let sleep");
      if (this.isAsleep) return;
      const { mapped, hold, sleep } = this.#parts;
      await mapped.idle();
      this.#check("let sleep");
      const unmapped = mapped.unmap(whyAsleep);
      try {
        await sleep(hold);
        unmapped.release();
      } catch (error) {
        unmapped.undo();
        throw error;
      }
    });
  }

  /**
   * Maps the memory of an entry that sleeps at the addresses where it was. Does nothing if the entry does not sleep. If
   * the entry was moved from its device, brings it back first, or waits while another process does; this waits until
   * there is room on the device. If this throws, the entry sleeps on.
   *
   * @throws {ReferenceError} If this object was disposed
   * @throws {SharingError} `limit-exceeded` if the store can never have enough memory on the device; `not-found` if the
   * store was started again without the memory; `peer-gone`
   */
  async wake(options: WakeEntryOptions = {}): Promise<void> {
    checkOptions(options, wakeOptions);
    checkMove(options.move);
    throwIfAborted(options.signal);
    await this.#inTurn(async () => {
      this.#check("wake");
      if (!this.isAsleep) return;
      const { mapped, hold, sleep, wake } = this.#parts;
      if (mapped.isUnmapped) return mapped.mapNow();
      const { handle, name } = await wake(hold, options);
      using _closed = handle;
      try {
        this.#check("wake");
        mapped.remap({ handle, name });
      } catch (error) {
        // A store that is gone learns from the next claim that the mapping sleeps.
        if (!this.#isGone) await sleep(hold).catch(() => {});
        throw error;
      }
    });
  }

  /**
   * Maps the memory of another entry at this entry's addresses. Releases this entry's own memory, and disposes of
   * `next`. Waits for the work that uses either memory. If this throws, the entry is unchanged.
   *
   * The caller ensures that no work which uses the memory is enqueued meanwhile.
   *
   * @param next An entry of the same size on the same device, such as the next generation. It is awake, or has been
   * mapped by `mapEntry` with the option `asleep`
   * @throws {RangeError} If the memory of `next` has another size, or is on another device
   * @throws {ReferenceError} If one of the two was disposed, or `next` sleeps, unless it has never been awake
   * @throws {CudaError} If CUDA cannot map the memory
   */
  replaceBy(next: MappedEntry): Promise<void> {
    if (!(next instanceof MappedEntry) || next === this) {
      throw new TypeError(`Cannot replace an entry by ${whatIs(next)}: give another entry from mapEntry`);
    }
    return this.#inTurn(async () => {
      this.#check("replace");
      const { mapped, hold } = this.#parts, other = next.#parts;
      await Promise.all([mapped.idle(), next.#last]);
      if (!other.mapped.isUnmapped) {
        await other.mapped.idle();
        void next.buffer.address;
      }
      this.#check("replace");
      mapped.replaceBy(other.mapped);
      // From now on, `next` holds what this entry has held, and releases it.
      [hold.id, other.hold.id] = [other.hold.id, hold.id];
      [hold.isAsleep, other.hold.isAsleep] = [other.hold.isAsleep, hold.isAsleep];
      this.#generation = next.#generation;
      this.#digest = next.#digest;
      this.#metadata = next.#metadata;
      next[Symbol.dispose]();
    });
  }

  /** Unmaps the memory, and blocks until the work that uses it is done. */
  [Symbol.dispose](): void {
    if (!this.#isGone) this.buffer.free();
  }

  #check(action: string): void {
    if (!this.#isGone) return;
    throw new ReferenceError(`Cannot ${action} ${JSON.stringify(this.name)}: it was disposed`);
  }

  #inTurn(act: () => Promise<void>): Promise<void> {
    const done = this.#last.then(act);
    this.#last = done.catch(() => {});
    return done;
  }
}
