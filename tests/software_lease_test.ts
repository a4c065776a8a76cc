import { assertEquals } from "@std/assert";
import { statSync } from "node:fs";
import { shimRefusal } from "../ffi/shim/shim.ts";
import { leasedRanges, MappingLeases } from "../src/software/mapping_leases.ts";
import { ownIdentity } from "../src/software/process_identity.ts";
import { SharedFile } from "../src/software/shared_file.ts";
import { Window } from "../src/software/window.ts";
import { leakTest } from "./resources.ts";
import { testSoftware } from "./software_devices.ts";

const skip = shimRefusal();
const mebibyte = 2 ** 20;
const tableOffset = 4096;
const tableLength = (65536 - tableOffset) / 32;

/** A pool's file, and this process's leases in it. */
function testLeases(name: string, body: (file: SharedFile, leases: MappingLeases) => void): void {
  leakTest(name, () => {
    const file = SharedFile.createPoolFile({ id: "00".repeat(16), deviceUuid: undefined, handleTypes: 1 });
    const window = new Window();
    const { freeBytes } = window;
    const leases = MappingLeases.open(window, file)!;
    try {
      body(file, leases);
    } finally {
      leases.close();
      file.close();
      assertEquals(window.freeBytes, freeBytes);
    }
  }, { skip });
}

/** The bytes of memory that a file takes of the system. */
function bytesTaken(fd: number): number {
  return statSync(`/proc/self/fd/${fd}`).blocks * 512;
}

testLeases("leases name what is mapped, until they are given back", (file, leases) => {
  const [first, second] = [{ begin: 65536, end: 65537 }, { begin: 2 ** 35, end: 2 ** 35 + 4096 }];
  assertEquals(leasedRanges(file), []);
  const place = leases.take(first)!;
  leases.take(second);
  assertEquals(leasedRanges(file), [first, second]);
  leases.giveBack(place);
  assertEquals(leasedRanges(file), [second]);
  assertEquals(leases.take(first), place);
});

testLeases("a lease of a process that is gone holds nothing, and its place is free again", (file, leases) => {
  const { pid, startTime } = ownIdentity();
  const earlier = new BigInt64Array([BigInt(pid), startTime - 1n, 65536n, 1n]);
  const nobody = new BigInt64Array([-2n, 2n ** 63n - 1n, -1n, -1n]);
  file.write(new Uint8Array(earlier.buffer), tableOffset);
  file.write(new Uint8Array(nobody.buffer), tableOffset + earlier.byteLength);
  const own = { begin: 65536, end: 65538 };
  const place = leases.take(own);
  assertEquals(leasedRanges(file), [own]);
  const [one, other] = [leases.take(own), leases.take(own)];
  assertEquals(new Set([place, one, other]), new Set([0, 4, 8]));
});

testLeases("a full table has no room for another lease", (_file, leases) => {
  for (let count = 0; count < tableLength; count++) leases.take({ begin: 65536, end: 65537 });
  assertEquals(leases.take({ begin: 65536, end: 65537 }), undefined);
});

testSoftware("memory that its exporter frees stays as it was until its importer has unmapped it", (cuda) => {
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
}, { skip: skip !== undefined });

testSoftware("what an importer maps of a full table is mapped all the same", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  const buffers = Array.from({ length: tableLength + 1 }, () => pool.allocate(1));
  for (const buffer of [buffers[0]!, buffers.at(-1)!]) buffer.fill(7);
  gpu.synchronize();
  const mapped = buffers.map((buffer) => imported.importPointer(buffer.exportPointer(), 1));
  assertEquals([mapped[0]!, mapped.at(-1)!].map((buffer) => buffer.readSync(Uint8Array)[0]), [7, 7]);
  for (const buffer of [...mapped, ...buffers]) buffer.free();
}, { skip: skip !== undefined });
