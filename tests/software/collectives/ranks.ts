/**
 * Ranks of a communicator in this process, for tests of the software device's collectives.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import process from "node:process";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import type { CollectiveLibrary } from "../../../src/collective_library.ts";
import { streamFlags } from "../../../src/driver.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import type { SoftwareDriverOptions } from "../../../src/software/visible_devices.ts";
import { waitUntil } from "../../../src/support/waiting/waiting.ts";
import { namesLeftBy } from "../../support/names_left.ts";
import { leakTest } from "../../support/resources.ts";
import type { TestOptions } from "../../support/test.ts";

/** A rank: its communicator, and a stream of its own. */
export class Rank {
  readonly collectives: CollectiveLibrary;
  readonly comm: bigint;
  readonly stream: bigint;
  readonly #driver: SoftwareDriver;
  readonly #device: number;

  constructor(driver: SoftwareDriver, device: number, comm: bigint) {
    this.collectives = driver.collectives;
    this.comm = comm;
    this.#driver = driver;
    this.#device = device;
    this.stream = driver.streamCreateWithPriority(device, streamFlags.nonBlocking, 0);
  }

  /** Allocates memory and copies bytes to it, in stream order. */
  put(bytes: Uint8Array): bigint {
    const address = this.#driver.malloc(this.#device, Math.max(bytes.byteLength, 1));
    this.#driver.memcpyHtoDAsync(this.#device, address, bytes, this.stream);
    return address;
  }

  /** The bytes in memory. */
  get(address: bigint, byteLength: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(byteLength);
    this.#driver.memcpyDtoHAsync(this.#device, bytes, address, 0n);
    return bytes;
  }

  free(...addresses: readonly bigint[]): void {
    for (const address of addresses) this.#driver.free(this.#device, address);
  }

  get isIdle(): boolean {
    return this.#driver.streamQuery(this.#device, this.stream);
  }

  /** The state of its communicator. */
  get state(): "ready" | "in-progress" | Error {
    return this.collectives.commGetAsyncError(this.comm);
  }
}

/** Waits until all of the ranks are ready. Throws the error of one that is not. */
export async function whenReady(ranks: readonly Rank[]): Promise<void> {
  await waitUntil(() => {
    // Query all of them, because each makes progress only when it is queried.
    const states = ranks.map(({ state }) => state);
    for (const state of states) if (state instanceof Error) throw state;
    return states.every((state) => state === "ready");
  });
}

/** Waits until the work of all ranks is complete or was revoked. */
export async function whenIdle(ranks: readonly Rank[]): Promise<void> {
  await waitUntil(() => ranks.every(({ isIdle }) => isIdle));
}

/** Waits until each rank has an error, and returns them. */
export async function errorsOf(ranks: readonly Rank[]): Promise<Error[]> {
  const errors = new Map<Rank, Error>();
  await waitUntil(() => {
    for (const rank of ranks) {
      const { state } = rank;
      if (state instanceof Error) errors.set(rank, state);
    }
    return errors.size === ranks.length;
  });
  return ranks.map((rank) => errors.get(rank)!);
}

/** Creates ranks of one communicator, on the devices in turn. */
export async function createRanks(driver: SoftwareDriver, size: number): Promise<Rank[]> {
  const { collectives } = driver;
  const id = collectives.getUniqueId();
  const ranks = Array.from({ length: size }, (_, rank) => {
    const device = rank % driver.getDeviceCount();
    return new Rank(driver, device, collectives.commInitRank(device, { id, rank, size }));
  });
  await whenReady(ranks);
  return ranks;
}

/** Revokes a rank's work. */
export function revoke({ collectives, comm }: Rank): Promise<void> {
  const done = { collectives: 0, messages: true };
  return collectives.commRevoke(comm, { willAbort: false, completed: done, why: new Error("The test ends it") });
}

/** Declares a test with a driver. Fails if a resource or named memory is left behind. */
export function testCollectives(
  name: string,
  body: (driver: SoftwareDriver) => void | Promise<void>,
  { devices = 2, kernelChecks, ...options }: TestOptions & Partial<SoftwareDriverOptions> = {},
): void {
  leakTest(name, async () => {
    const driver = new SoftwareDriver({ devices, peers: true, kernelChecks });
    try {
      await body(driver);
    } finally {
      driver.close();
    }
    assertEquals(namesLeftBy(process.pid), [], "memory with names");
  }, { skip: shimRefusal(), warmUp, ...options });
}

/** Uses a driver once. */
function warmUp(): Promise<void> {
  new SoftwareDriver({ devices: 2, peers: true }).close();
  return Promise.resolve();
}
