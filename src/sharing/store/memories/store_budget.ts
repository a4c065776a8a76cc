/**
 * How much a store may have, and how much of that it has.
 *
 * @module
 */
import { type Cuda, sessionOf } from "../../../objects/cuda.ts";
import type { CudaDevice } from "../../../objects/cuda_device.ts";
import { countOf } from "../../../support/printing.ts";
import { isSameUuid } from "../../../support/uuid.ts";
import { limitExceeded } from "../../protocol/messages.ts";
import { isUnclaimed, type Stored } from "./stored.ts";

/** How much a store may have. */
export interface StoreLimits {
  /** The devices on which memory can be created. */
  readonly devices: readonly CudaDevice[];
  readonly maxSize: number;
  readonly maxSizeOfUser: number;
  readonly maximumMetadata: number;
  /** Whether published memory that nobody maps goes, that used longest ago first, if there is no room. */
  readonly evict: boolean;
  /** Whether several users may connect. */
  readonly isShared: boolean;
}

/** Memory that counts: what the table has, and what was allocated for it. */
export interface TakenMemory {
  /** The device's UUID. */
  readonly device: string;
  readonly uid: number;
  readonly size: number;
}

/** What somebody asks for. */
export interface SpaceRequest {
  readonly name: string;
  readonly device: CudaDevice;
  /** The user who asks for it. */
  readonly uid: number;
  readonly size: number;
}

/** The maximum number of memories: each is a descriptor. */
const maximumMemories = 65_536;

/** What the memories of a store take, and whether there may be more. */
export class StoreBudget {
  readonly #cuda: Cuda;
  readonly #limits: StoreLimits;
  readonly #memories: ReadonlyMap<number, Stored>;
  /** What was allocated and is no memory of the table yet. */
  readonly #granted = new Set<TakenMemory>();
  /** Bytes of the metadata of all memories, and of those that are waited for. */
  metadataByteLength = 0;

  /** @param memories those of the table */
  constructor(cuda: Cuda, limits: StoreLimits, memories: ReadonlyMap<number, Stored>) {
    this.#cuda = cuda;
    this.#limits = limits;
    this.#memories = memories;
  }

  /**
   * Refuses what would not be possible however long one waited.
   *
   * @param metadataByteLength bytes of metadata that do not count yet
   * @throws {SharingError} `limit-exceeded`
   */
  check({ name, device, uid, size }: SpaceRequest, metadataByteLength: number): void {
    const what = `create ${countOf(size, "byte")} as ${JSON.stringify(name)}`;
    const { maxSize, maxSizeOfUser, maximumMetadata } = this.#limits;
    if (size > maxSize) throw limitExceeded(what, `${maxSize} bytes of each device (maxSize)`);
    const all = sessionOf(this.#cuda).driver.deviceTotalMem(device.ordinal);
    if (size > all) throw limitExceeded(what, `${all} bytes, all that device ${device.ordinal} has`);
    let ofUser = size;
    for (const memory of this.#memories.values()) {
      if (memory.uid === uid && !isUnclaimed(memory)) ofUser += memory.size;
    }
    for (const granted of this.#granted) if (granted.uid === uid) ofUser += granted.size;
    if (ofUser > maxSizeOfUser) {
      throw limitExceeded(
        what,
        `${maxSizeOfUser} bytes of one user (maxSizeOfUser), and user ${uid} has ${ofUser - size}`,
      );
    }
    if (this.metadataByteLength + metadataByteLength > maximumMetadata) {
      throw limitExceeded(what, `${maximumMetadata} bytes of metadata (maximumMetadata)`);
    }
    if (this.#memories.size >= maximumMemories) throw limitExceeded(what, `${maximumMemories} entries`);
  }

  /** Whether a user may have so many bytes more now. */
  fitsUser(uid: number, size: number): boolean {
    let used = size;
    for (const taken of this.#taken()) if (taken.uid === uid) used += taken.size;
    return used <= this.#limits.maxSizeOfUser;
  }

  /** Whether a device may have so many bytes more now. */
  fits(device: CudaDevice, size: number): boolean {
    let used = size;
    for (const taken of this.#taken()) if (isSameUuid(taken.device, device.uuid)) used += taken.size;
    return used <= this.#limits.maxSize;
  }

  /** Lets memory count that is not in the table yet. */
  grant(memory: TakenMemory): void {
    this.#granted.add(memory);
  }

  /** Ends that: it is in the table, or gone. */
  endGrant(memory: TakenMemory): void {
    this.#granted.delete(memory);
  }

  *#taken(): Iterable<TakenMemory> {
    yield* this.#memories.values();
    yield* this.#granted;
  }
}
