import { assert, assertEquals } from "@std/assert";
import { statSync } from "node:fs";
import process from "node:process";
import { dlopen } from "../../ffi/native/host.ts";
import { growMemoryFile } from "../../ffi/native/shim/memory_files.ts";
import { errno, shimRefusal, SystemError } from "../../ffi/native/shim/shim.ts";
import { MappingLeases } from "../../src/software/ipc/imported_pool.ts";
import { PoolSpace } from "../../src/software/memory/pool_space.ts";
import { SharedFile, unitByteLength } from "../../src/software/memory/shared_file.ts";
import { startScript } from "../support/child_process.ts";
import { leakTest } from "../support/resources.ts";
import { codeOf } from "../support/software_calls.ts";
import { testSoftware } from "../support/software_devices.ts";

const skip = shimRefusal();
const mebibyte = 2 ** 20;
const headerByteLength = 65536;

/** Declares a test with a pool's file and the leases of two imports of it. */
function testLeases(
  name: string,
  body: (file: SharedFile, leases: MappingLeases, others: MappingLeases) => Promise<void> | void,
): void {
  leakTest(name, async () => {
    const file = SharedFile.createPoolFile({
      id: "00".repeat(16),
      deviceUuid: undefined,
      handleTypes: 1,
      processId: 1,
    });
    const imports = [SharedFile.openPoolFile(file.fd)!.file, SharedFile.openPoolFile(file.fd)!.file] as const;
    try {
      await body(file, new MappingLeases(imports[0]), new MappingLeases(imports[1]));
      imports.forEach((each) => each.close());
      assertEquals(leasedUnits(file), []);
    } finally {
      file.close();
    }
  }, { skip });
}

/** The leased ones of a file's first 100 units. */
function leasedUnits(file: SharedFile): number[] {
  const units = Array.from({ length: 100 }, (_, unit) => unit);
  return units.filter((unit) => file.isLocked(offsetOf(unit), unitByteLength));
}

function offsetOf(unit: number): number {
  return headerByteLength + unit * unitByteLength;
}

/** A range of bytes, from its first unit and the offset in it. */
function rangeIn(unit: number, { at = 0, byteLength = 1 }: { at?: number; byteLength?: number } = {}) {
  return { begin: offsetOf(unit) + at, end: offsetOf(unit) + at + byteLength };
}

/** Takes a write lock of a whole file, which no importer takes, until the descriptor is closed. */
function writeLock(fd: number): void {
  const [setLock, writeType] = [37, 1];
  const libc = dlopen("libc.so.6", { fcntl: { parameters: ["i32", "i32", "buffer"], result: "i32" } });
  assertEquals(
    libc.symbols.fcntl!(fd, setLock, new Uint8Array(new BigInt64Array([BigInt(writeType), 0n, 0n, 0n]).buffer)),
    0,
  );
  libc.close();
}

/** The bytes of memory that the system has allocated to a file. */
function bytesTaken(fd: number): number {
  return statSync(`/proc/self/fd/${fd}`).blocks * 512;
}

testLeases("a lease holds the units that its range touches, until it is released", (file, leases) => {
  assert(leases.acquire(rangeIn(0)));
  assert(leases.acquire(rangeIn(2, { at: unitByteLength - 1, byteLength: 2 })));
  assert(leases.acquire(rangeIn(5, { byteLength: 2 * unitByteLength })));
  assertEquals(leasedUnits(file), [0, 2, 3, 5, 6]);
  leases.release(rangeIn(2, { at: unitByteLength - 1, byteLength: 2 }));
  assertEquals(leasedUnits(file), [0, 5, 6]);
});

testLeases("leases of one range count, within an import and between imports", (file, leases, others) => {
  const [first, second] = [rangeIn(1, { byteLength: 64 }), rangeIn(1, { at: 32, byteLength: unitByteLength })];
  for (const range of [first, first, second]) assert(leases.acquire(range));
  assert(others.acquire(first));
  for (const range of [first, second]) leases.release(range);
  assertEquals(leasedUnits(file), [1]);
  leases.release(first);
  assertEquals(leasedUnits(file), [1]);
  others.release(first);
  assertEquals(leasedUnits(file), []);
});

testLeases("a lease that is refused in part leaves nothing locked", (file) => {
  const opened = SharedFile.openPoolFile(file.fd)!.file;
  const refusing = {
    lock(offset: number, byteLength: number): void {
      if (offset + byteLength > offsetOf(5)) throw new SystemError(errno.ENOMEM, "F_OFD_SETLK");
      opened.lock(offset, byteLength);
    },
    unlock: (offset: number, byteLength: number) => opened.unlock(offset, byteLength),
  };
  const leases = new MappingLeases(refusing as unknown as SharedFile);
  assertEquals(leases.acquire(rangeIn(3, { byteLength: 3 * unitByteLength })), false);
  assertEquals(leasedUnits(file), []);
  assert(leases.acquire(rangeIn(3, { byteLength: 2 * unitByteLength })));
  assertEquals(leasedUnits(file), [3, 4]);
  assertEquals(leases.acquire(rangeIn(2, { byteLength: 4 * unitByteLength })), false);
  assertEquals(leasedUnits(file), [3, 4]);
  opened.close();
});

testLeases("the leases of a process that is killed end with it", async (file) => {
  await using child = startScript("children/software/software_lease_holder.ts", [`/proc/${process.pid}/fd/${file.fd}`]);
  assertEquals(await child.nextLine(), "leased");
  assertEquals(leasedUnits(file), [7]);
  child.kill("SIGKILL");
  await child.ended;
  assertEquals(leasedUnits(file), []);
});

testLeases(
  "a pool looks for leases when it trims, and before it grows its file",
  (file, leases) => {
    let looks = 0;
    const counted = {
      isLocked(offset: number, byteLength: number): boolean {
        looks++;
        return file.isLocked(offset, byteLength);
      },
      punchHole: () => {},
    };
    const space = new PoolSpace(counted as unknown as SharedFile);
    const begin = space.allocate(4 * unitByteLength)!;
    const end = begin + 4 * unitByteLength;
    const leased = { begin, end: begin + 1 };
    assert(leases.acquire(leased));
    for (let unit = begin; unit < end; unit += unitByteLength) space.free({ begin: unit, end: unit + unitByteLength });
    space.reclaim();
    assertEquals(looks, 4);
    assertEquals(space.allocate(3 * unitByteLength), begin + unitByteLength);
    assertEquals(looks, 4);
    assertEquals(space.allocate(unitByteLength), end);
    assertEquals(looks, 5);
    leases.release(leased);
    assertEquals(space.allocate(unitByteLength), begin);
    assertEquals(looks, 6);
  },
);

testSoftware("memory that its exporter frees keeps its contents until its importer unmaps it", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  const first = pool.allocate(mebibyte);
  first.fill(1);
  gpu.synchronize();
  const mapped = imported.importPointer(first.exportPointer(), mebibyte);
  first.free();
  gpu.synchronize();
  assertEquals(pool.usage().reserved, 0);
  using second = pool.allocate(mebibyte);
  second.fill(2);
  assertEquals(mapped.readSync(Uint8Array), new Uint8Array(mebibyte).fill(1));
  assertEquals(second.readSync(Uint8Array), new Uint8Array(mebibyte).fill(2));
  const [taken, header] = [bytesTaken(handle.fd), 65536];
  assertEquals(taken >= 2 * mebibyte && taken <= 2 * mebibyte + header, true, String(taken));
  mapped.free();
  gpu.synchronize();
  pool.trimTo(0);
  const left = bytesTaken(handle.fd);
  assertEquals(left >= mebibyte && left <= mebibyte + header, true, String(left));
}, { skip });

testSoftware("memory is not mapped if another process keeps everybody from leasing it", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  using buffer = pool.allocate(1);
  const data = buffer.exportPointer();
  const hostile = SharedFile.openPoolFile(handle.fd)!.file;
  writeLock(hostile.fd);
  assertEquals(codeOf(() => imported.importPointer(data, 1)), "cudaErrorMemoryAllocation");
  hostile.close();
  using mapped = imported.importPointer(data, 1);
  assertEquals(mapped.byteLength, 1);
}, { skip });

testSoftware("memory is not mapped if linear memory has no room, and leaves nothing behind", (cuda, driver) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  using buffer = pool.allocate(mebibyte);
  const data = buffer.exportPointer();
  // Leaves less room than the memory needs.
  const spared = driver.malloc(0, mebibyte / 2);
  const ballast: bigint[] = [];
  for (let byteLength = 2 ** 31; byteLength >= 65536;) {
    try {
      ballast.push(driver.malloc(0, byteLength));
    } catch {
      byteLength /= 2;
    }
  }
  driver.free(0, spared);
  assertEquals(codeOf(() => imported.importPointer(data, mebibyte)), "cudaErrorMemoryAllocation");
  assertEquals(driver.memGetInfo(0).free, mebibyte / 2);
  const shared = SharedFile.openPoolFile(handle.fd)!.file;
  assertEquals(leasedUnits(shared), []);
  shared.close();
  for (const address of ballast) driver.free(0, address);
  using mapped = imported.importPointer(data, mebibyte);
  assertEquals(mapped.byteLength, mebibyte);
}, { skip });

testSoftware("a pool stays usable after another process lengthened its file", (cuda) => {
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  pool.allocate(mebibyte).free();
  growMemoryFile(handle.fd, 2 ** 33);
  using buffer = pool.allocate(64 * mebibyte);
  buffer.fill(3);
  assertEquals(buffer.readSync(Uint8Array).at(-1), 3);
}, { skip });
