/**
 * The limits of a store, its use of them, and the users to whom that is charged, who share the budgets.
 *
 * @module
 */
import { descriptorLimit } from "../../../../ffi/native/shim/descriptors.ts";
import { type Cuda, sessionOf } from "../../../objects/cuda.ts";
import type { CudaDevice } from "../../../objects/cuda_device.ts";
import { countOf } from "../../../support/printing.ts";
import { isSameUuid } from "../../../support/uuid.ts";
import { limitExceeded } from "../../protocol/messages.ts";
import { isUnclaimed, type Stored } from "./store_table.ts";

/** The limits of a store. */
export interface BudgetLimits {
  /** The devices on which memory can be created. */
  readonly devices: readonly CudaDevice[];
  readonly maxSize: number;
  readonly maxSizeOfUser: number;
  readonly maximumMetadata: number;
  /** Whether published memory that no process maps is evicted if there is no room, least recently used first. */
  readonly evict: boolean;
  /** Whether several users may connect. */
  readonly isShared: boolean;
}

/** Memory that is charged: memory in the table, and memory allocated for it. */
export interface TakenMemory {
  /** The device's UUID. */
  readonly device: string;
  readonly uid: number;
  readonly size: number;
}

/** A request for memory. */
export interface SpaceRequest {
  readonly name: string;
  readonly device: CudaDevice;
  /** The user who requests it. */
  readonly uid: number;
  readonly size: number;
}

/** The users to whom a memory is charged. */
interface Payment {
  /** Empty if only the totals are charged. */
  readonly payers: readonly number[];
  /** Whether its readers are charged, instead of its creator. */
  readonly isHeld: boolean;
  /** Whether it is dropped soon unless a client claims it. */
  readonly isUnclaimed: boolean;
}

/** The maximum number of memories: each is a descriptor. */
const maximumMemories = 65_536;
/** Descriptors that the runtime and the library need. */
const ownDescriptors = 64;

/** Charges the memories of a store to its users, and decides whether there may be more. */
export class StoreBudget {
  readonly #cuda: Cuda;
  readonly #limits: BudgetLimits;
  readonly #isPublished: (name: string) => boolean;
  readonly #payments = new Map<Stored, Payment>();
  readonly #memories: Shares;
  /** Bytes of metadata, of all memories and of waiting requests. */
  readonly metadata: Shares;
  /** Bytes of each user, and the unclaimed part of them. */
  readonly #ofUser = new Map<number, number>();
  readonly #unclaimedOfUser = new Map<number, number>();
  /** Bytes of each device, by its UUID. */
  readonly #ofDevice = new Map<string, number>();
  /** Bytes of each device that are charged to readers, by its UUID. */
  readonly #held = new Map<string, Shares>();
  /** By name and user, the last generation before the published one that the user reads. */
  readonly #lastHeld = new Map<string, Map<number, Stored>>();

  /** @param isPublished returns whether something is published under a name */
  constructor(cuda: Cuda, limits: BudgetLimits, isPublished: (name: string) => boolean) {
    this.#cuda = cuda;
    this.#limits = limits;
    this.#isPublished = isPublished;
    const { isShared, maximumMetadata } = limits;
    const descriptors = Math.floor((descriptorLimit() - ownDescriptors) / 2);
    this.#memories = new Shares(Math.max(1, Math.min(maximumMemories, descriptors)), {
      unit: descriptors < maximumMemories
        ? "memories, for which half of the descriptors are that the store may open (ulimit -n)"
        : "memories",
      isShared,
    });
    this.metadata = new Shares(maximumMetadata, { unit: "bytes of metadata (maximumMetadata)", isShared });
  }

  /**
   * Refuses a request that could never be granted.
   *
   * @param metadataByteLength bytes of metadata that are not charged yet
   * @throws {SharingError} `limit-exceeded`
   */
  check({ name, device, uid, size }: SpaceRequest, metadataByteLength: number): void {
    const what = `create ${countOf(size, "byte")} as ${JSON.stringify(name)}`;
    const { maxSize, maxSizeOfUser } = this.#limits;
    if (size > maxSize) throw limitExceeded(what, `${maxSize} bytes of each device (maxSize)`);
    const all = this.#totalOf(device);
    if (size > all) throw limitExceeded(what, `${all} bytes, all that device ${device.ordinal} has`);
    const ofUser = (this.#ofUser.get(uid) ?? 0) - (this.#unclaimedOfUser.get(uid) ?? 0);
    if (ofUser + size > maxSizeOfUser) {
      throw limitExceeded(what, `${maxSizeOfUser} bytes of one user (maxSizeOfUser), and user ${uid} has ${ofUser}`);
    }
    if (metadataByteLength > 0) this.metadata.check(uid, metadataByteLength, what);
    this.#memories.check(uid, 1, what);
  }

  /** Whether a user may have this many more bytes now. */
  fitsUser(uid: number, size: number): boolean {
    return (this.#ofUser.get(uid) ?? 0) + size <= this.#limits.maxSizeOfUser;
  }

  /** Whether a device may have this many more bytes now. */
  fits({ uuid }: CudaDevice, size: number): boolean {
    return (this.#ofDevice.get(uuid) ?? 0) + size <= this.#limits.maxSize;
  }

  /**
   * Refuses another generation to a user who holds too much that other users have replaced or removed.
   *
   * @throws {SharingError} `limit-exceeded`
   */
  checkReader(uid: number, memory: Stored): void {
    if (this.mayRead(uid, memory)) return;
    const { device, name } = memory;
    const bytes = countOf(this.#held.get(device)?.usedBy(uid) ?? 0, "byte");
    throw limitExceeded(
      `map ${JSON.stringify(name)} while user ${uid} holds ${bytes} that others have replaced or removed`,
      "a share of half of the device, and the quota (maxSizeOfUser); free the oldest first",
    );
  }

  /**
   * Whether a user may hold another generation: what it holds of replaced or removed memory of other users is within
   * its share.
   */
  mayRead(uid: number, { uid: writer, device }: Stored): boolean {
    const held = this.#held.get(device);
    const byteLength = held?.usedBy(uid) ?? 0;
    if (uid === writer || byteLength === 0) return true;
    const isWithin = held!.fits(uid, 0) && this.#memories.fits(uid, 0) && this.metadata.fits(uid, 0);
    return isWithin && byteLength < this.#limits.maxSizeOfUser;
  }

  /** Charges memory that is not in the table yet. */
  grant({ device, uid, size }: TakenMemory): void {
    addTo(this.#ofDevice, device, size);
    addTo(this.#ofUser, uid, size);
    this.#memories.add([uid], 1);
  }

  /** Ends the charge of `grant`: the memory is in the table, or gone. */
  endGrant({ device, uid, size }: TakenMemory): void {
    addTo(this.#ofDevice, device, -size);
    addTo(this.#ofUser, uid, -size);
    this.#memories.add([uid], -1);
  }

  /**
   * Charges memory that is new, or whose state or holders have changed.
   *
   * @returns whether it may be charged to another user now
   */
  update(memory: Stored): boolean {
    const last = this.#payments.get(memory);
    // As long as it can be mapped, it is charged to its creator.
    const isMakers = memory.state === "new" || memory.state === "published";
    if (last !== undefined && isMakers && !memory.mayBeClaimed && !last.isUnclaimed) return false;
    const holders = isMakers ? undefined : this.#holdersOf(memory);
    const next: Payment = {
      payers: holders ?? [memory.uid],
      isHeld: holders !== undefined,
      isUnclaimed: isUnclaimed(memory),
    };
    if (last === undefined) addTo(this.#ofDevice, memory.device, memory.size);
    else this.#pay(memory, last, -1);
    this.#pay(memory, next, 1);
    this.#payments.set(memory, next);
    return true;
  }

  /** Ends the charge of memory that is gone. */
  remove(memory: Stored): void {
    const payment = this.#payments.get(memory);
    if (payment === undefined) return;
    this.#payments.delete(memory);
    this.#pay(memory, payment, -1);
    addTo(this.#ofDevice, memory.device, -memory.size);
    const last = this.#lastHeld.get(memory.name);
    for (const [uid, held] of last ?? []) if (held === memory) last!.delete(uid);
    if (last?.size === 0) this.#lastHeld.delete(memory.name);
  }

  /**
   * Call when nothing is published under a name any longer: generations that users still hold are then not about to be
   * replaced.
   */
  onNameRemoved(name: string): void {
    const last = this.#lastHeld.get(name);
    this.#lastHeld.delete(name);
    for (const memory of new Set(last?.values())) this.update(memory);
  }

  /**
   * The users to whom memory without a name is charged: those who hold it, other than its creator. Undefined if
   * processes of its creator hold it. A reader that changes from one generation of a name to the next holds both for a
   * short time, so the last generation of each name that a user has is not charged.
   */
  #holdersOf(memory: Stored): readonly number[] | undefined {
    const { name, generation } = memory;
    const users = new Set([...memory.readers.keys()].map(({ peer: { uid } }) => uid));
    const last = this.#lastHeld.get(name) ?? new Map<number, Stored>();
    for (const [uid, held] of last) if (held === memory && !users.has(uid)) last.delete(uid);
    if (users.size === 0 || users.has(memory.uid)) return undefined;
    if (memory.state === "removed" || !this.#isPublished(name)) return [...users];
    this.#lastHeld.set(name, last);
    return [...users].filter((uid) => {
      const held = last.get(uid);
      if (held !== undefined && held !== memory && held.generation > generation) return true;
      last.set(uid, memory);
      if (held !== undefined && held !== memory) this.update(held);
      return false;
    });
  }

  #pay(memory: Stored, { payers, isHeld, isUnclaimed }: Payment, sign: 1 | -1): void {
    const { size, metadata, device } = memory;
    for (const uid of payers) {
      addTo(this.#ofUser, uid, sign * size);
      if (isUnclaimed) addTo(this.#unclaimedOfUser, uid, sign * size);
    }
    this.#memories.add(payers, sign);
    this.metadata.add(payers, sign * (metadata?.length ?? 0));
    if (isHeld && payers.length > 0) this.#heldOf(device).add(payers, sign * size);
  }

  #heldOf(uuid: string): Shares {
    let held = this.#held.get(uuid);
    if (held === undefined) {
      const device = this.#limits.devices.find((device) => isSameUuid(device.uuid, uuid));
      const all = Math.min(this.#limits.maxSize, device === undefined ? Infinity : this.#totalOf(device));
      this.#held.set(uuid, held = new Shares(all / 2, { unit: "bytes", isShared: true }));
    }
    return held;
  }

  #totalOf({ ordinal }: CudaDevice): number {
    return sessionOf(this.#cuda).driver.deviceTotalMem(ordinal);
  }
}

/** What a budget limits, for the error of a user who would exceed it. */
export interface ShareDescription {
  /** Such as `"bytes of metadata (maximumMetadata)"`. */
  readonly unit: string;
  /** Whether several users share it. */
  readonly isShared: boolean;
}

/**
 * A budget of all users. If several users share it, each may take more as long as the rest stays at least as large as
 * its own share: a single user gets half, and later users always get something, without knowing how many there will be.
 */
export class Shares {
  readonly #maximum: number;
  readonly #description: ShareDescription;
  readonly #used = new Map<number, number>();
  #total = 0;

  constructor(maximum: number, description: ShareDescription) {
    this.#maximum = maximum;
    this.#description = description;
  }

  /** The amount that a user has taken. */
  usedBy(uid: number): number {
    return this.#used.get(uid) ?? 0;
  }

  /** Whether a user may take this much more. */
  fits(uid: number, amount: number): boolean {
    const left = this.#maximum - this.#total - amount;
    return left >= (this.#description.isShared ? this.usedBy(uid) + amount : 0);
  }

  /**
   * Throws if a user may not take this much more.
   *
   * @param what what is refused, such as `'create "x"'`
   * @throws {SharingError} `limit-exceeded`
   */
  check(uid: number, amount: number, what: string): void {
    if (this.fits(uid, amount)) return;
    const { unit, isShared } = this.#description;
    const share = isShared
      ? `; user ${uid} has ${this.usedBy(uid)} of them, and at least as much must be left for the others`
      : "";
    throw limitExceeded(what, `${this.#maximum} ${unit}${share}`);
  }

  /**
   * Adds to the amounts of users, without a check. Negative amounts subtract.
   *
   * @param uids the users, each of whom is charged the whole amount; if empty, only the total is charged
   */
  add(uids: readonly number[], amount: number): void {
    this.#total += amount;
    for (const uid of uids) addTo(this.#used, uid, amount);
  }
}

/** Adds to a number in a map, from which zeros are removed. */
function addTo<Key>(sums: Map<Key, number>, key: Key, amount: number): void {
  const sum = (sums.get(key) ?? 0) + amount;
  if (sum === 0) sums.delete(key);
  else sums.set(key, sum);
}
