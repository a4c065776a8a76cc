import { assertEquals } from "@std/assert";
import { statSync } from "node:fs";
import { growMemoryFile } from "../../ffi/shim/memory_files.ts";
import { shimRefusal } from "../../ffi/shim/shim.ts";
import { leasedRanges, MappingLeases } from "../../src/software/ipc/mapping_leases.ts";
import { PoolSpace, unitByteLength } from "../../src/software/memory/pool_space.ts";
import { ownIdentity, ownNamespace } from "../../src/software/ipc/process_identity.ts";
import { SharedFile } from "../../src/software/memory/shared_file.ts";
import { LinearMemory } from "../../src/software/memory/linear_memory.ts";
import { leakTest } from "../support/resources.ts";
import { codeOf } from "../support/software_calls.ts";
import { testSoftware } from "../support/software_devices.ts";

const skip = shimRefusal();
const mebibyte = 2 ** 20;
const tableOffset = 4096;
const leaseLength = 32;
const tableLength = (65536 - tableOffset) / leaseLength;

/** Declares a test with a pool's file and this process's leases in it. */
function testLeases(name: string, body: (file: SharedFile, leases: MappingLeases) => void): void {
  leakTest(name, () => {
    const file = SharedFile.createPoolFile({ id: "00".repeat(16), deviceUuid: undefined, handleTypes: 1 });
    const linearMemory = new LinearMemory();
    const { freeBytes } = linearMemory;
    const leases = MappingLeases.open(linearMemory, file)!;
    try {
      body(file, leases);
    } finally {
      leases.close();
      file.close();
      assertEquals(linearMemory.freeBytes, freeBytes);
    }
  }, { skip });
}

/** Encodes a lease as it is stored in a file. */
function leaseOf({ pid, startTime, namespace, begin, end }: Lease): Uint8Array {
  const process = BigInt(namespace) << 32n | BigInt(pid);
  return new Uint8Array(new BigInt64Array([process, startTime, BigInt(begin), BigInt(end - begin)]).buffer);
}

interface Lease {
  pid: number;
  startTime: bigint;
  namespace: number;
  begin: number;
  end: number;
}

/** The bytes of memory that the system has allocated to a file. */
function bytesTaken(fd: number): number {
  return statSync(`/proc/self/fd/${fd}`).blocks * 512;
}

testLeases("leases list the mapped ranges until they are released", (file, leases) => {
  const [first, second] = [{ begin: 65536, end: 65537 }, { begin: 2 ** 35, end: 2 ** 35 + 4096 }];
  assertEquals(leasedRanges(file), []);
  const place = leases.acquire(first)!;
  leases.acquire(second);
  assertEquals(leasedRanges(file), [first, second]);
  leases.release(place);
  assertEquals(leasedRanges(file), [second]);
  assertEquals(leases.acquire(first), place);
});

testLeases("a lease of a dead process is ignored, and its place is reused", (file, leases) => {
  const { pid, startTime } = ownIdentity();
  const gone = { pid, startTime: startTime - 1n, namespace: ownNamespace(), begin: 65536, end: 65537 };
  file.write(leaseOf(gone), tableOffset);
  file.write(leaseOf({ ...gone, pid: 2 ** 32 - 2, startTime: 2n ** 63n - 1n }), tableOffset + leaseLength);
  const own = { begin: 65536, end: 65538 };
  const place = leases.acquire(own);
  assertEquals(leasedRanges(file), [own]);
  const [one, other] = [leases.acquire(own), leases.acquire(own)];
  assertEquals(new Set([place, one, other]), new Set([0, 4, 8]));
});

testLeases("a lease of a process in another PID namespace stays", (file) => {
  const range = { begin: 65536, end: 65537 };
  const elsewhere = { pid: 2 ** 22, startTime: 1n, namespace: ownNamespace() ^ 1, ...range };
  file.write(leaseOf(elsewhere), tableOffset);
  for (let read = 0; read < 2; read++) assertEquals(leasedRanges(file), [range]);
});

testLeases("a lease written while the table is read is not taken for a dead process's lease", (file, leases) => {
  const range = { begin: 65536, end: 65537 };
  leases.acquire(range);
  const { pid, startTime } = ownIdentity();
  const namespace = ownNamespace();
  let reads = 0;
  const torn = {
    read(byteLength: number, offset: number): Uint8Array {
      const bytes = file.read(byteLength, offset);
      if (reads++ === 0) bytes.set(leaseOf({ pid, startTime: startTime - 1n, namespace, ...range }));
      return bytes;
    },
    write: (bytes: Uint8Array, offset: number) => file.write(bytes, offset),
  };
  assertEquals(leasedRanges(torn as unknown as SharedFile), [range]);
  assertEquals(leasedRanges(file), [range]);
});

testLeases("a full table has no room for another lease", (_file, leases) => {
  for (let count = 0; count < tableLength; count++) leases.acquire({ begin: 65536, end: 65537 });
  assertEquals(leases.acquire({ begin: 65536, end: 65537 }), undefined);
});

testLeases(
  "a pool reads the leases once for everything that it frees, and once to grow its file",
  (file, leases) => {
    let reads = 0;
    const counted = {
      read(byteLength: number, offset: number): Uint8Array {
        reads++;
        return file.read(byteLength, offset);
      },
      punchHole: () => {},
    };
    const space = new PoolSpace(counted as unknown as SharedFile);
    const begin = space.allocate(4 * unitByteLength)!;
    const end = begin + 4 * unitByteLength;
    const place = leases.acquire({ begin, end: begin + 1 })!;
    for (let unit = begin; unit < end; unit += unitByteLength) space.free({ begin: unit, end: unit + unitByteLength });
    space.reclaim();
    assertEquals(reads, 1);
    assertEquals(space.allocate(3 * unitByteLength), begin + unitByteLength);
    assertEquals(reads, 1);
    assertEquals(space.allocate(unitByteLength), end);
    assertEquals(reads, 2);
    leases.release(place);
    assertEquals(space.allocate(unitByteLength), begin);
    assertEquals(reads, 3);
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

testSoftware("memory is not mapped if the table of leases is full", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  const buffers = Array.from({ length: tableLength + 1 }, () => pool.allocate(1));
  const data = buffers.map((buffer) => buffer.exportPointer());
  const last = data.pop()!;
  const mapped = data.map((one) => imported.importPointer(one, 1));
  assertEquals(codeOf(() => imported.importPointer(last, 1)), "cudaErrorMemoryAllocation");
  mapped.pop()!.free();
  gpu.synchronize();
  mapped.push(imported.importPointer(last, 1));
  for (const buffer of [...mapped, ...buffers]) buffer.free();
}, { skip });

testSoftware("memory is not mapped if linear memory has no room, and leaves nothing behind", (cuda, driver) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  using buffer = pool.allocate(mebibyte);
  const data = buffer.exportPointer();
  // Leaves exactly enough room for the memory, but not for the lease.
  const spared = driver.malloc(0, mebibyte);
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
  assertEquals(driver.memGetInfo(0).free, mebibyte);
  const shared = SharedFile.openPoolFile(handle.fd)!.file;
  assertEquals(leasedRanges(shared), []);
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
