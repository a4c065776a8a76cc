/**
 * Backups of a store's descriptors in other processes, from which a later process takes over the store: systemd, and a
 * standby that is connected to the store.
 *
 * @module
 */
import { closeDescriptor, duplicateDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { connectDatagramsTo, sendTo } from "../../../ffi/native/shim/sockets.ts";
import { environmentVariable } from "../../../ffi/native/environment.ts";
import { errno, errnoName, shim } from "../../../ffi/native/shim/shim.ts";
import { SharingError } from "../../support/errors.ts";
import { Timer } from "../../support/waiting/timer.ts";
import { ShareableHandle } from "../../memory/handles/shareable_handle.ts";
import { Documents, maximumAskByteLength, sendDocument, textOf } from "../protocol/documents.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import { badMessage, type Message } from "../protocol/messages.ts";

/** The name of a descriptor in a backup: `table`, or `memory-` and the number of an allocation. */
export type KeptName = "table" | `memory-${number}`;

/** Holds duplicates of a store's descriptors in another process. */
export interface DescriptorBackup {
  /**
   * Backs up a descriptor. Resolves when the backup holds the descriptor, or when the backup has ended. The descriptor
   * must stay open until then.
   */
  keep(name: KeptName, fd: number): Promise<void>;
  /** Makes the backup close its duplicate of a descriptor. */
  forget(name: KeptName): void;
}

/** A descriptor received from a backup. The receiver must dispose of the handle. */
export interface KeptDescriptor {
  readonly name: KeptName;
  readonly handle: ShareableHandle;
}

/** The number of the first descriptor that systemd passes to a service. */
const firstListenFd = 3;
/** Milliseconds until the next attempt to send a message, if the queue of systemd's socket is full. */
const retryPause = 2;
const prefix = "poolpass-";
const encoder = new TextEncoder();
/** Whether `descriptorsOfSystemd` was called. systemd passes its descriptors to a process only once. */
let areTaken = false;

/** A message to systemd, in the format of `sd_notify`. */
interface Notice {
  readonly text: string;
  readonly fds: readonly number[];
  readonly onSent?: () => void;
}

/** systemd's file descriptor store, which a service unit enables with `FileDescriptorStoreMax=`. */
export class SystemdBackup implements DescriptorBackup {
  readonly #fd: number;
  /**
   * The number of tables stored so far. The number is part of the name that systemd stores a table under: removing a
   * name removes all descriptors with that name, so each table needs a different name.
   */
  #tables: number;
  readonly #queue: Notice[] = [];
  readonly #timer = new Timer(() => this.#flush(), retryPause);
  readonly #onFailure: (error: SharingError) => void;

  private constructor(fd: number, tables: number, onFailure: (error: SharingError) => void) {
    this.#fd = fd;
    this.#tables = tables;
    this.#onFailure = onFailure;
  }

  /**
   * Connects to the file descriptor store of this process's service. Returns undefined if NOTIFY_SOCKET is not set.
   *
   * @param kept the descriptors that systemd already holds
   * @param onFailure called if sending a message to systemd fails
   * @throws {SharingError} `not-listening` if NOTIFY_SOCKET names a socket that does not exist
   */
  static find(
    kept: readonly PassedDescriptor[],
    onFailure: (error: SharingError) => void,
  ): SystemdBackup | undefined {
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
    return new SystemdBackup(fd, Math.max(0, ...kept.map(({ table }) => table ?? 0)), onFailure);
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

  /** Notifies systemd that the store is ready. */
  notifyReady(): void {
    this.#send({ text: "READY=1", fds: [] });
  }

  close(): void {
    this.#timer.stop();
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
    if (!this.#timer.isRunning) this.#flush();
  }

  #flush(): void {
    while (this.#queue.length > 0) {
      const { text, fds, onSent } = this.#queue[0]!;
      const result = sendTo(this.#fd, encoder.encode(text), fds);
      if (result === -errno.EAGAIN) return this.#timer.start();
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

/** A descriptor that systemd has stored and passed to this process. */
interface PassedDescriptor extends KeptDescriptor {
  /**
   * The number of the table; only the table with the highest number is used. Undefined if the descriptor is of an
   * allocation.
   */
  readonly table?: number;
}

/**
 * Returns the descriptors that systemd has kept from an earlier process of this service: the newest table, and one
 * descriptor per allocation. Closes all other descriptors of a store.
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

/** A change to send to the standby: a descriptor that the standby must hold or close. */
interface Change {
  readonly name: KeptName;
  /**
   * The descriptor to hold; undefined if the standby must close the descriptor called `name`. `fd` is not owned, and
   * must stay open until the change is sent.
   */
  readonly fd?: number;
  readonly onKept?: () => void;
}

/** A change that was sent to the standby but is not confirmed. */
interface SentChange {
  /** The duplicate of the descriptor that was sent. */
  readonly handle: ShareableHandle | undefined;
  readonly onKept: (() => void) | undefined;
}

/**
 * The store's end of a connection to a standby. The standby requests one change at a time, and each request confirms
 * the previous change.
 */
export class StandbyConnection implements DescriptorBackup {
  readonly #stream: MessageStream;
  readonly #timeout: number;
  readonly #onEnd: () => void;
  readonly #documents = new Documents(maximumAskByteLength);
  readonly #changes: Change[] = [];
  /** The change that the standby was sent and has not confirmed. */
  #sent: SentChange | undefined;
  /**
   * Closes the connection if the standby does not confirm a change in time, because requests of clients wait for the
   * confirmation.
   */
  readonly #timer = new Timer(() => this.#onLate(), Infinity);
  /** The number of the standby's pending request for the next change. */
  #request: number | undefined;
  #isOver = false;

  /** @param timeout milliseconds within which the standby must confirm each change */
  constructor(stream: MessageStream, timeout: number, onEnd: () => void) {
    this.#stream = stream;
    this.#timeout = timeout;
    this.#onEnd = onEnd;
    stream.start({
      onMessage: (message) => this.#onMessage(message),
      onDrain() {},
      onEnd: () => this.#end(),
    });
  }

  keep(name: KeptName, fd: number): Promise<void> {
    if (this.#isOver) return Promise.resolve();
    return new Promise((resolve) => {
      // Duplicate the descriptor only when it is sent: a new standby needs all descriptors, and the store's descriptor
      // limit may not allow duplicating all at once.
      this.#changes.push({ name, fd, onKept: resolve });
      this.#sendNext();
    });
  }

  forget(name: KeptName): void {
    if (this.#isOver) return;
    const unsent = this.#changes.findIndex((change) => change.name === name && change.fd !== undefined);
    if (unsent >= 0) {
      const [change] = this.#changes.splice(unsent, 1);
      return change!.onKept?.();
    }
    this.#changes.push({ name });
    this.#sendNext();
  }

  /** Closes the connection normally, after which the standby takes over. */
  close(): void {
    if (this.#isOver) return;
    this.#stream.end("done", "the store was closed");
    this.#end();
  }

  #onMessage(message: Message): void {
    if (message.type !== "ask") throw badMessage(`a message "${message.type}" comes from a standby`);
    const document = this.#documents.add(message);
    if (document === undefined) return;
    const what = textOf(document, "do");
    if (what !== "next") throw badMessage(`a standby asks for ${JSON.stringify(what.slice(0, 40))}`);
    if (this.#request !== undefined) throw badMessage("a standby asks for two changes at once");
    this.#request = message.request;
    this.#confirm();
    this.#sendNext();
  }

  #confirm(): void {
    this.#timer.stop();
    const sent = this.#sent;
    this.#sent = undefined;
    sent?.handle?.[Symbol.dispose]();
    sent?.onKept?.();
  }

  #sendNext(): void {
    const request = this.#request;
    if (this.#changes.length === 0) return;
    if (request === undefined) return this.#timer.start(this.#timeout);
    this.#request = undefined;
    const { name, fd, onKept } = this.#changes.shift()!;
    let handle: ShareableHandle | undefined;
    try {
      handle = fd === undefined ? undefined : ShareableHandle.fromFd(duplicateDescriptor(fd));
    } catch {
      onKept?.();
      this.#stream.end("out-of-resources", "the store has no descriptor left");
      return this.#end();
    }
    this.#sent = { handle, onKept };
    this.#timer.start(this.#timeout);
    const send = (message: Message): void => this.#stream.send(message);
    if (handle !== undefined) send({ type: "memory", request, handle });
    sendDocument(send, { type: "answer", request }, { ok: true, [handle === undefined ? "forget" : "keep"]: name });
  }

  #onLate(): void {
    this.#stream.end("timed-out", `the standby did not keep what it should within ${this.#timeout} ms`);
    this.#end();
  }

  /** Ends the backup. Resolves pending calls of `keep`, which would otherwise wait for a standby that is gone. */
  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#confirm();
    for (const { onKept } of this.#changes.splice(0)) onKept?.();
    this.#stream.process[Symbol.dispose]();
    this.#onEnd();
  }
}
