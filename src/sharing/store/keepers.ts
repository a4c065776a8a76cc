/**
 * Who keeps a store's descriptors for the process that comes after it.
 *
 * @module
 */
import { closeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { connectDatagramsTo, sendTo } from "../../../ffi/native/shim/sockets.ts";
import { environmentVariable } from "../../../ffi/native/environment.ts";
import { errno, errnoName, shim } from "../../../ffi/native/shim/shim.ts";
import { SharingError } from "../../support/errors.ts";
import { ShareableHandle } from "../../memory/handles/shareable_handle.ts";

/** What a store's descriptors are called: its table, or a memory with its number. */
export type KeptName = "table" | `memory-${number}`;

/** Keeps descriptors. */
export interface Keeper {
  /** Resolves when a descriptor is kept, or the keeper is gone. The descriptor is borrowed until then. */
  keep(name: KeptName, fd: number): Promise<void>;
  /** Lets a descriptor go. */
  forget(name: KeptName): void;
}

/** A descriptor that was kept. The receiver closes it. */
export interface KeptDescriptor {
  readonly name: KeptName;
  readonly handle: ShareableHandle;
}

/** The first descriptor that systemd passes. */
const firstListenFd = 3;
/** Milliseconds until the next attempt when systemd has not read what it was sent. */
const retryPause = 2;
const prefix = "poolpass-";
const encoder = new TextEncoder();
/** Whether the descriptors that systemd has passed have an owner: they are passed once to a process. */
let areTaken = false;

/** A message to systemd. */
interface Notice {
  readonly text: string;
  readonly fds: readonly number[];
  readonly onSent?: () => void;
}

/** systemd's store of descriptors, which the unit has with `FileDescriptorStoreMax=`. */
export class SystemdKeeper implements Keeper {
  readonly #fd: number;
  /** How often the table was kept: its names differ, because a name is forgotten with all that have it. */
  #tables: number;
  readonly #queue: Notice[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #onFailure: (error: SharingError) => void;

  private constructor(fd: number, tables: number, onFailure: (error: SharingError) => void) {
    this.#fd = fd;
    this.#tables = tables;
    this.#onFailure = onFailure;
  }

  /**
   * The one of this process's service. Undefined if it is no service that systemd is told of.
   *
   * @param kept what it has kept before
   * @param onFailure called if it can keep nothing any more
   * @throws {SharingError} `not-listening` if NOTIFY_SOCKET names a socket that is not there
   */
  static find(
    kept: readonly PassedDescriptor[],
    onFailure: (error: SharingError) => void,
  ): SystemdKeeper | undefined {
    const path = environmentVariable("NOTIFY_SOCKET");
    if (path === undefined || path === "") return undefined;
    const fd = connectDatagramsTo(path);
    if (fd < 0) {
      throw new SharingError(
        "not-listening",
        `Cannot tell systemd of the store: NOTIFY_SOCKET is ${path} (${errnoName(-fd)}); unset it, or run the store ` +
          "as a service",
      );
    }
    return new SystemdKeeper(fd, Math.max(0, ...kept.map(({ table }) => table ?? 0)), onFailure);
  }

  keep(name: KeptName, fd: number): Promise<void> {
    const old = this.#tables;
    if (name === "table") this.#tables++;
    const kept = new Promise<void>((resolve) => {
      this.#send({ text: `FDSTORE=1\nFDNAME=${this.#nameOf(name)}\nFDPOLL=0`, fds: [fd], onSent: resolve });
    });
    if (name === "table" && old > 0) this.#remove(`${prefix}table-${old}`);
    return kept;
  }

  forget(name: KeptName): void {
    this.#remove(this.#nameOf(name));
  }

  /** Says that the store can be used. */
  notifyReady(): void {
    this.#send({ text: "READY=1", fds: [] });
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#queue.length = 0;
    closeDescriptor(this.#fd);
  }

  #nameOf(name: KeptName): string {
    return name === "table" ? `${prefix}table-${this.#tables}` : `${prefix}${name}`;
  }

  #remove(name: string): void {
    this.#send({ text: `FDSTOREREMOVE=1\nFDNAME=${name}`, fds: [] });
  }

  #send(notice: Notice): void {
    this.#queue.push(notice);
    if (this.#timer === undefined) this.#flush();
  }

  #flush(): void {
    this.#timer = undefined;
    while (this.#queue.length > 0) {
      const { text, fds, onSent } = this.#queue[0]!;
      const result = sendTo(this.#fd, encoder.encode(text), fds);
      if (result === -errno.EAGAIN) return void (this.#timer = setTimeout(() => this.#flush(), retryPause));
      this.#queue.shift();
      onSent?.();
      if (result >= 0) continue;
      this.#onFailure(
        new SharingError(
          "peer-gone",
          `Cannot tell systemd "${text.split("\n")[0]}": ${errnoName(-result)}; check the service and NOTIFY_SOCKET`,
        ),
      );
    }
  }
}

/** A descriptor that systemd has kept and passes on. */
interface PassedDescriptor extends KeptDescriptor {
  /** Which of the tables it is: only the last one counts. */
  readonly table?: number;
}

/**
 * What systemd has kept of a store of this service that was there before: the newest table, and each memory once. Closes
 * what else there is.
 */
export function descriptorsOfSystemd(): readonly PassedDescriptor[] {
  if (areTaken) return [];
  areTaken = true;
  const count = Number(environmentVariable("LISTEN_FDS") ?? 0);
  const isMeant = Number(environmentVariable("LISTEN_PID")) === shim().poolpass_getpid();
  if (!isMeant || !Number.isInteger(count) || count <= 0) return [];
  const names = (environmentVariable("LISTEN_FDNAMES") ?? "").split(":");
  const kept = new Map<KeptName, PassedDescriptor>();
  for (const [index, listed] of names.slice(0, count).entries()) {
    const [, isTable, number, memory] = /^poolpass-(?:(table)-(\d+)|(memory-\d+))$/.exec(listed) ?? [];
    if (isTable === undefined && memory === undefined) continue;
    const name = isTable === undefined ? memory as KeptName : "table";
    const handle = ShareableHandle.fromFd(firstListenFd + index);
    const table = isTable === undefined ? {} : { table: Number(number) };
    const other = kept.get(name);
    if (other !== undefined && (other.table ?? 0) >= (table.table ?? 0)) {
      handle[Symbol.dispose]();
      continue;
    }
    other?.handle[Symbol.dispose]();
    kept.set(name, { name, handle, ...table });
  }
  return [...kept.values()];
}
