/** Memory of an address range that the system does not unmap, as it may refuse when it has no memory for that. */
import { assert, assertEquals } from "@std/assert";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { memAccessFlags, memHandleType, memLocationType } from "../../src/driver.ts";
import { LinearMemory } from "../../src/software/memory/linear_memory.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { codeOf, readBytes } from "../support/software_calls.ts";
import { test } from "../support/test.ts";

const unit = 2 ** 21;
const location = { type: memLocationType.device, id: 0 };

interface Fixture {
  readonly driver: SoftwareDriver;
  readonly memory: bigint;
  /** Where the memory is mapped. It is full of sevens. */
  readonly address: bigint;
  /** Maps the memory where it was not yet. */
  map(address: bigint): void;
}

function unmappingTest(name: string, body: (fixture: Fixture) => void): void {
  test(name, { skip: shimRefusal() }, () => {
    const driver = new SoftwareDriver({ devices: 1, peers: false });
    try {
      const memory = driver.memCreate({ handleTypes: memHandleType.posixFileDescriptor, location }, unit);
      const map = (address: bigint) => {
        driver.memMap(address, unit, memory);
        driver.memSetAccess(address, unit, [{ location, flags: memAccessFlags.readWrite }]);
      };
      const address = driver.memAddressReserve(unit, 0);
      map(address);
      driver.memsetAsync(0, address, 7, unit, 0n);
      driver.deviceSynchronize(0);
      body({ driver, memory, address, map });
    } finally {
      driver.close();
    }
  });
}

/** Lets the system refuse to unmap pages meanwhile. */
function whileUnmappingFails(body: () => void): void {
  const { discard } = LinearMemory.prototype;
  LinearMemory.prototype.discard = () => false;
  try {
    body();
  } finally {
    LinearMemory.prototype.discard = discard;
  }
}

unmappingTest("memory that could not be unmapped is not written through its former addresses", (fixture) => {
  const { driver, address, map } = fixture;
  whileUnmappingFails(() => {
    driver.memUnmap(address, unit);
    driver.memAddressFree(address, unit);
  });
  assertEquals(codeOf(() => driver.memsetAsync(0, address, 1, unit, 0n)), "cudaErrorInvalidValue");
  // The former addresses would be the first to be handed out: the free range that they are in fits best.
  driver.memsetAsync(0, driver.malloc(0, unit), 1, unit, 0n);
  const again = driver.memAddressReserve(unit, 0);
  map(again);
  assert(readBytes(driver, again, unit).every((byte) => byte === 7), "the memory was written");
});

unmappingTest(
  "addresses that could not be unmapped get other memory, or are unmapped when they are freed",
  (fixture) => {
    const { driver, memory, address, map } = fixture;
    whileUnmappingFails(() => driver.memUnmap(address, unit));
    const other = driver.memCreate({ handleTypes: memHandleType.none, location }, unit);
    driver.memMap(address, unit, other);
    driver.memSetAccess(address, unit, [{ location, flags: memAccessFlags.readWrite }]);
    assertEquals(readBytes(driver, address, 1), Uint8Array.of(0));
    driver.memUnmap(address, unit);
    map(address);
    assertEquals(readBytes(driver, address, 1), Uint8Array.of(7));
    whileUnmappingFails(() => driver.memUnmap(address, unit));
    driver.memAddressFree(address, unit);
    // Other free ranges may fit as well.
    const found = new Set<bigint>();
    while (!found.has(address) && found.size < 100) found.add(driver.malloc(0, unit));
    assert(found.has(address), "the addresses are not handed out again");
    assertEquals(readBytes(driver, address, 1), Uint8Array.of(0));
    driver.memRelease(memory);
  },
);
