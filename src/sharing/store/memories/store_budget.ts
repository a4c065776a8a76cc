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
import { isCounted, isUnclaimed, nameWithRank, sharersOf, type Stored } from "./store_table.ts";

/** The limits of a store. */
export interface BudgetLimits {
  /** The devices on which memory can be created. */
  readonly devices: readonly CudaDevice[];
  readonly maxSize: number;
  readonly maxSizeOfUser: number;
  /** The maximum number of bytes of host memory that moved allocations occupy. */
  readonly maxHostSize: number;
  readonly maximumMetadata: number;
  /**
   * Whether published allocations that no process has mapped are evicted, least recently used first, if not enough
   * memory is available; or "host" if clients move them to host memory.
   */
  readonly evict: boolean | "host";
  /** Whether several users may connect. */
  readonly isShared: boolean;
}

/** The properties of an allocation that determine how much is charged to whom. */
export interface TakenMemory {
  /** The UUID of the device that holds the allocation. */
  readonly device: string;
  readonly uid: number;
  readonly size: number;
}

/** A request to allocate memory. */
export interface SpaceRequest {
  readonly name: string;
  readonly device: CudaDevice;
  /** The ID of the user that requests the memory. */
  readonly uid: number;
  readonly size: number;
  /**
   * The ID of the user whose allocations the client that asks can move to host memory to make room. Undefined if it
   * cannot.
   */
  readonly mover?: number | undefined;
}

/** The users to whom an allocation is currently charged. */
interface Payment {
  /** The IDs of the users to whom the allocation is charged; empty if the allocation counts only toward the totals. */
  readonly payers: readonly number[];
  /** Whether the allocation is charged to its readers instead of its creator. */
  readonly isHeld: boolean;
  /** Whether the allocation will be freed after `reclaimTimeout` unless a client claims it. */
  readonly isUnclaimed: boolean;
  /** The bytes of device memory, and of host memory, that the allocation occupies. */
  readonly deviceSize: number;
  readonly hostSize: number;
}

/** The maximum number of allocations, each of which occupies a descriptor. */
const maximumMemories = 65_536;
/** The number of descriptors reserved for the runtime and the library. */
const ownDescriptors = 64;

/** Charges the allocations of a store to its users, and decides whether more memory may be allocated. */
export class StoreBudget {
  readonly #cuda: Cuda;
  readonly #limits: BudgetLimits;
  readonly #isPublished: (name: string) => boolean;
  readonly #payments = new Map<Stored, Payment>();
  readonly #memories: Shares;
  /** The budget for the bytes of metadata of allocations and of waiting requests. */
  readonly metadata: Shares;
  /** The budget for the bytes of host memory. */
  readonly #host: Shares;
  /** The bytes of memory charged to each user, keyed by user ID. */
  readonly #ofUser = new Map<number, number>();
  /** The part of `#ofUser` that is unclaimed memory: the bytes charged to each user, keyed by user ID. */
  readonly #unclaimedOfUser = new Map<number, number>();
  /** The bytes allocated on each device, keyed by the device's UUID. */
  readonly #ofDevice = new Map<string, number>();
  /**
   * The bytes of replaced or removed memory on each device that are charged to its readers, keyed by the device's UUID.
   */
  readonly #held = new Map<string, Shares>();
  /** For each name, with its rank in a set, and user ID, the latest replaced generation of the name that the user still reads. */
  readonly #lastHeld = new Map<string, Map<number, Stored>>();

  /** @param isPublished returns whether memory is published under a name */
  constructor(cuda: Cuda, limits: BudgetLimits, isPublished: (name: string) => boolean) {
    this.#cuda = cuda;
    this.#limits = limits;
    this.#isPublished = isPublished;
    const { isShared, maximumMetadata, maxHostSize } = limits;
    const descriptors = Math.floor((descriptorLimit() - ownDescriptors) / 2);
    this.#memories = new Shares(Math.max(1, Math.min(maximumMemories, descriptors)), {
      unit: descriptors < maximumMemories
        ? "memories, for which half of the descriptors are that the store may open (ulimit -n)"
        : "memories",
      isShared,
    });
    this.metadata = new Shares(maximumMetadata, { unit: "bytes of metadata (maximumMetadata)", isShared });
    this.#host = new Shares(maxHostSize, { unit: "bytes of host memory (maxHostSize)", isShared });
  }

  /**
   * Throws if a request exceeds a limit. Such a request is rejected instead of waiting for memory.
   *
   * @param metadataByteLength the number of bytes of the request's metadata, or 0 if they are charged already
   * @throws {SharingError} `limit-exceeded` if the request exceeds the size of the device, a limit of the store, or the
   * user's share
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

  /** Returns whether `size` more bytes may be charged to a user now. */
  fitsUser(uid: number, size: number): boolean {
    return (this.#ofUser.get(uid) ?? 0) + size <= this.#limits.maxSizeOfUser;
  }

  /** Returns whether `size` more bytes may be allocated on a device now. */
  fits({ uuid }: CudaDevice, size: number): boolean {
    return (this.#ofDevice.get(uuid) ?? 0) + size <= this.#limits.maxSize;
  }

  /**
   * Throws `limit-exceeded` if a user may not map another allocation, because the user has mapped too much memory that
   * other users have replaced or removed.
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
   * Returns whether a user may map another allocation. If false, the user has mapped too much memory that other users
   * have replaced or removed.
   */
  mayRead(uid: number, { uid: writer, device }: Stored): boolean {
    const held = this.#held.get(device);
    const byteLength = held?.usedBy(uid) ?? 0;
    if (uid === writer || byteLength === 0) return true;
    const isWithin = held!.fits(uid, 0) && this.#memories.fits(uid, 0) && this.metadata.fits(uid, 0);
    return isWithin && byteLength < this.#limits.maxSizeOfUser;
  }

  /**
   * Throws if an allocation may not be moved to host memory.
   *
   * @throws {SharingError} `limit-exceeded`
   */
  checkHost({ name, uid, size }: Stored): void {
    const taken = `${this.#host.total} bytes of which are taken`;
    this.#host.check(uid, size, `move the ${size} bytes of ${JSON.stringify(name)} to host memory, ${taken}`);
  }

  /** Returns whether an allocation may be moved to host memory. */
  fitsHost({ uid, size }: Stored): boolean {
    return this.#host.fits(uid, size);
  }

  /** Charges newly allocated memory to its user until `endGrant` is called. */
  grant({ device, uid, size }: TakenMemory): void {
    addTo(this.#ofDevice, device, size);
    addTo(this.#ofUser, uid, size);
    this.#memories.add([uid], 1);
  }

  /** Ends the charge that `grant` made, because `update` now charges the memory, or the memory was freed. */
  endGrant({ device, uid, size }: TakenMemory): void {
    addTo(this.#ofDevice, device, -size);
    addTo(this.#ofUser, uid, -size);
    this.#memories.add([uid], -1);
  }

  /**
   * Charges a new allocation, or updates the charge for an allocation whose state or readers have changed.
   *
   * @returns whether the charge may have changed
   */
  update(memory: Stored): boolean {
    let hasChanged = false;
    for (const each of sharersOf(memory)) hasChanged = this.#update(each) || hasChanged;
    return hasChanged;
  }

  #update(memory: Stored): boolean {
    // Unpublished and published allocations are charged to their creators.
    const isMakers = memory.state === "new" || memory.state === "published";
    // This may update the charge for this allocation, too, if it shares the memory of another generation.
    const holders = isMakers ? undefined : this.#holdersOf(memory);
    const last = this.#payments.get(memory);
    const size = isCounted(memory) ? memory.size : 0;
    const deviceSize = memory.place === "device" ? size : 0, hostSize = memory.place === "host" ? size : 0;
    const isSame = last?.deviceSize === deviceSize && last.hostSize === hostSize;
    if (isSame && isMakers && !memory.mayBeClaimed && !last.isUnclaimed) return false;
    const next: Payment = {
      payers: holders ?? [memory.uid],
      isHeld: holders !== undefined,
      isUnclaimed: isUnclaimed(memory),
      ...{ deviceSize, hostSize },
    };
    if (last !== undefined) this.#pay(memory, last, -1);
    this.#pay(memory, next, 1);
    this.#payments.set(memory, next);
    return true;
  }

  /** Ends the charge for an allocation that was freed. */
  remove(memory: Stored): void {
    const payment = this.#payments.get(memory);
    if (payment === undefined) return;
    this.#payments.delete(memory);
    this.#pay(memory, payment, -1);
    const key = nameWithRank(memory);
    const last = this.#lastHeld.get(key);
    for (const [uid, held] of last ?? []) if (held === memory) last!.delete(uid);
    if (last?.size === 0) this.#lastHeld.delete(key);
  }

  /**
   * Updates the charges after the name of an allocation was removed. The latest replaced generation that a user still reads is then
   * charged to the user, because there is no newer generation that the user could switch to.
   */
  onNameRemoved(memory: Stored): void {
    const key = nameWithRank(memory);
    const last = this.#lastHeld.get(key);
    this.#lastHeld.delete(key);
    for (const held of new Set(last?.values())) this.update(held);
  }

  /**
   * Returns the users to charge for a replaced or removed allocation: the users whose processes read the allocation.
   * Returns undefined if the creator is to be charged: no process reads the allocation, or one of the creator's
   * processes reads it. A reader that switches from one generation of a name to the next briefly reads both, so the
   * latest replaced generation of each name that a user reads is not charged to that user.
   */
  #holdersOf(memory: Stored): readonly number[] | undefined {
    const { name, generation } = memory;
    const users = new Set([...memory.readers.keys()].map(({ peer: { uid } }) => uid));
    const key = nameWithRank(memory);
    const last = this.#lastHeld.get(key) ?? new Map<number, Stored>();
    for (const [uid, held] of last) if (held === memory && !users.has(uid)) last.delete(uid);
    if (users.size === 0 || users.has(memory.uid)) return undefined;
    if (memory.state === "removed" || !this.#isPublished(name)) return [...users];
    this.#lastHeld.set(key, last);
    return [...users].filter((uid) => {
      const held = last.get(uid);
      if (held !== undefined && held !== memory && held.generation > generation) return true;
      last.set(uid, memory);
      if (held !== undefined && held !== memory) this.update(held);
      return false;
    });
  }

  #pay(memory: Stored, payment: Payment, sign: 1 | -1): void {
    const { metadata, device } = memory;
    const { payers, isHeld, isUnclaimed, deviceSize, hostSize } = payment;
    addTo(this.#ofDevice, device, sign * deviceSize);
    for (const uid of payers) {
      addTo(this.#ofUser, uid, sign * deviceSize);
      if (isUnclaimed) addTo(this.#unclaimedOfUser, uid, sign * deviceSize);
    }
    this.#memories.add(payers, sign);
    this.metadata.add(payers, sign * (metadata?.length ?? 0));
    this.#host.add(payers, sign * hostSize);
    if (isHeld && payers.length > 0) this.#heldOf(device).add(payers, sign * deviceSize);
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

/** Describes a budget in the error message for a user that would exceed its share. */
export interface ShareDescription {
  /** The unit of the amounts, such as `"bytes of metadata (maximumMetadata)"`. */
  readonly unit: string;
  /** Whether several users share the budget. */
  readonly isShared: boolean;
}

/**
 * An amount of a resource that is divided among users. If several users share the budget, an amount may be charged to a
 * user only if the remainder of the budget is then at least as large as the user's total. Therefore, a single user gets
 * at most half of the budget, and part of the budget always remains for further users.
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

  /** The amount that is used in all. */
  get total(): number {
    return this.#total;
  }

  /** Returns the amount that is charged to a user. */
  usedBy(uid: number): number {
    return this.#used.get(uid) ?? 0;
  }

  /** Returns whether an additional amount may be charged to a user. */
  fits(uid: number, amount: number): boolean {
    const left = this.#maximum - this.#total - amount;
    return left >= (this.#description.isShared ? this.usedBy(uid) + amount : 0);
  }

  /**
   * Throws `limit-exceeded` if an additional amount may not be charged to a user.
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
   * Adds `amount`, which may be negative, to the amounts charged to users. Does not check the limits.
   *
   * @param uids the users, each of which is charged the whole amount; if empty, only the total changes
   */
  add(uids: readonly number[], amount: number): void {
    this.#total += amount;
    for (const uid of uids) addTo(this.#used, uid, amount);
  }
}

/**
 * Adds `amount` to the number in `sums` with the given key. An absent number counts as 0; a number that becomes 0 is
 * removed.
 */
function addTo<Key>(sums: Map<Key, number>, key: Key, amount: number): void {
  const sum = (sums.get(key) ?? 0) + amount;
  if (sum === 0) sums.delete(key);
  else sums.set(key, sum);
}
