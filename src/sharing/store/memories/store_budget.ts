/**
 * The limits of a store, and the accounting of memory and metadata to the users that share these limits.
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
  /**
   * Whether published memory that no process maps is evicted, least recently used first, if not enough memory is left.
   */
  readonly evict: boolean;
  /** Whether several users may connect. */
  readonly isShared: boolean;
}

/** The properties of memory that determine its charge. */
export interface TakenMemory {
  /** The UUID of the memory's device. */
  readonly device: string;
  readonly uid: number;
  readonly size: number;
}

/** A request for memory. */
export interface SpaceRequest {
  readonly name: string;
  readonly device: CudaDevice;
  /** The ID of the user that requests the memory. */
  readonly uid: number;
  readonly size: number;
}

/** The current charge of a memory. */
interface Payment {
  /** The IDs of the users that are charged; empty if only the totals are charged. */
  readonly payers: readonly number[];
  /** Whether the memory's readers are charged instead of its creator. */
  readonly isHeld: boolean;
  /** Whether the memory is dropped soon unless a client claims it. */
  readonly isUnclaimed: boolean;
}

/** The maximum number of memories, each of which occupies a descriptor. */
const maximumMemories = 65_536;
/** The number of descriptors reserved for the runtime and the library. */
const ownDescriptors = 64;

/** Charges the memories of a store to its users, and decides whether more may be allocated. */
export class StoreBudget {
  readonly #cuda: Cuda;
  readonly #limits: BudgetLimits;
  readonly #isPublished: (name: string) => boolean;
  readonly #payments = new Map<Stored, Payment>();
  readonly #memories: Shares;
  /** The budget for bytes of metadata, of memories and of waiting requests. */
  readonly metadata: Shares;
  /** The bytes of memory charged to each user. */
  readonly #ofUser = new Map<number, number>();
  /** The bytes of unclaimed memory charged to each user, which `#ofUser` includes. */
  readonly #unclaimedOfUser = new Map<number, number>();
  /** The bytes of memory on each device, by the device's UUID. */
  readonly #ofDevice = new Map<string, number>();
  /** The bytes of memory on each device that are charged to readers, by the device's UUID. */
  readonly #held = new Map<string, Shares>();
  /** By name and user, the latest replaced generation that the user still reads. */
  readonly #lastHeld = new Map<string, Map<number, Stored>>();

  /** @param isPublished returns whether memory is published under a name */
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
   * Throws if a request could never be granted.
   *
   * @param metadataByteLength the bytes of metadata that are not charged yet
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

  /** Whether a user may currently be charged `size` more bytes. */
  fitsUser(uid: number, size: number): boolean {
    return (this.#ofUser.get(uid) ?? 0) + size <= this.#limits.maxSizeOfUser;
  }

  /** Whether a device may currently hold `size` more bytes. */
  fits({ uuid }: CudaDevice, size: number): boolean {
    return (this.#ofDevice.get(uuid) ?? 0) + size <= this.#limits.maxSize;
  }

  /**
   * Throws if a user may not map another generation, because the user holds too much memory that other users have
   * replaced or removed.
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
   * Whether a user may map another generation, that is, whether the replaced or removed memory of other users that the
   * user holds is within the user's share.
   */
  mayRead(uid: number, { uid: writer, device }: Stored): boolean {
    const held = this.#held.get(device);
    const byteLength = held?.usedBy(uid) ?? 0;
    if (uid === writer || byteLength === 0) return true;
    const isWithin = held!.fits(uid, 0) && this.#memories.fits(uid, 0) && this.metadata.fits(uid, 0);
    return isWithin && byteLength < this.#limits.maxSizeOfUser;
  }

  /** Charges memory that was allocated but is not in the table yet. */
  grant({ device, uid, size }: TakenMemory): void {
    addTo(this.#ofDevice, device, size);
    addTo(this.#ofUser, uid, size);
    this.#memories.add([uid], 1);
  }

  /** Ends the charge of `grant`, because the memory is in the table or was freed. */
  endGrant({ device, uid, size }: TakenMemory): void {
    addTo(this.#ofDevice, device, -size);
    addTo(this.#ofUser, uid, -size);
    this.#memories.add([uid], -1);
  }

  /**
   * Charges memory that is new, or updates the charge of memory whose state or holders have changed.
   *
   * @returns whether the charge may have changed
   */
  update(memory: Stored): boolean {
    const last = this.#payments.get(memory);
    // Unpublished and published memory is charged to its creator.
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

  /** Ends the charge of memory that was freed. */
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
   * Updates charges after a name was removed: the generations that users still hold are then charged, because no later
   * generation will replace them.
   */
  onNameRemoved(name: string): void {
    const last = this.#lastHeld.get(name);
    this.#lastHeld.delete(name);
    for (const memory of new Set(last?.values())) this.update(memory);
  }

  /**
   * Returns the users to charge for replaced or removed memory: its readers, or undefined to charge the creator, if the
   * creator's processes or no processes read the memory. A reader that switches from one generation of a name to the
   * next briefly holds both, so the latest replaced generation of each name that a user reads is not charged to that
   * user.
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

/** The description of a budget, for the error if a user would exceed it. */
export interface ShareDescription {
  /** The unit of the amounts, such as `"bytes of metadata (maximumMetadata)"`. */
  readonly unit: string;
  /** Whether several users share the budget. */
  readonly isShared: boolean;
}

/**
 * A budget for all users. If several users share the budget, a user may be charged an amount only if the remainder of
 * the budget is then at least as large as the user's total. A single user thus gets at most half of the budget, and
 * some always remains for later users, however many there are.
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

  /** Returns the amount that is charged to a user. */
  usedBy(uid: number): number {
    return this.#used.get(uid) ?? 0;
  }

  /** Whether a user may be charged an additional amount. */
  fits(uid: number, amount: number): boolean {
    const left = this.#maximum - this.#total - amount;
    return left >= (this.#description.isShared ? this.usedBy(uid) + amount : 0);
  }

  /**
   * Throws if a user may not be charged an additional amount.
   *
   * @param what the refused operation, such as `'create "x"'`
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
   * @param uids the users, each of which is charged the whole amount; if empty, only the total changes
   */
  add(uids: readonly number[], amount: number): void {
    this.#total += amount;
    for (const uid of uids) addTo(this.#used, uid, amount);
  }
}

/** Adds to a number in a map. An absent number is 0, and zeros are removed from the map. */
function addTo<Key>(sums: Map<Key, number>, key: Key, amount: number): void {
  const sum = (sums.get(key) ?? 0) + amount;
  if (sum === 0) sums.delete(key);
  else sums.set(key, sum);
}
