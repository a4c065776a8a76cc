import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import process from "node:process";
import { memLocationType } from "../../src/driver.ts";
import { Cuda, sessionOf } from "../../src/objects/cuda.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import type { ImportedMemoryPool } from "../../src/memory/handles/imported_memory_pool.ts";
import { CudaError, cudaErrorNumbers, SharingError } from "../../src/support/errors.ts";
import { refusalStatistics } from "../../src/support/refusals.ts";
import { Session } from "../../src/session.ts";
import { adaptedCuda } from "../support/adapted_driver.ts";
import { countCalls } from "../sharing/channel/channel_peers.ts";
import { driverNamed, testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";

const mebibyte = 2 ** 20;
const gibibyte = 2 ** 30;

/** The places of the fields, as indices of u64. */
const field = { process: 0, offset: 3, size: 4 } as const;

function outOfMemory(): never {
  throw new CudaError(cudaErrorNumbers.cudaErrorMemoryAllocation, "cudaMallocFromPoolAsync");
}

/** A copy of export data in which fields have other values. */
function forged(exportData: Uint8Array, changes: readonly (readonly [field: number, value: number])[]): Uint8Array {
  const copy = Uint8Array.from(exportData);
  for (const [index, value] of changes) new BigUint64Array(copy.buffer)[index] = BigInt(value);
  return copy;
}

/** A buffer of 1 MiB, its export data, and its pool as it was imported. */
function exported(gpu: CudaDevice, stack: DisposableStack): { exportData: Uint8Array; imported: ImportedMemoryPool } {
  const pool = stack.use(gpu.createPool({ handleType: "posix-fd" }));
  const buffer = stack.use(pool.allocate(mebibyte));
  const handle = stack.use(pool.exportHandle());
  return { exportData: buffer.exportPointer(), imported: stack.use(gpu.importPool(handle)) };
}

testOnEachDriver("what a driver would believe of forged export data is refused before it sees them", (cuda) => {
  using stack = new DisposableStack();
  const { exportData, imported } = exported(cuda.device(0), stack);
  const codeOf = (changes: Parameters<typeof forged>[1], byteLength = 1) => {
    const error = assertThrows(() => imported.importPointer(forged(exportData, changes), byteLength), SharingError);
    assertMatch(error.message, /^Cannot import/);
    return error.code;
  };
  assertEquals(codeOf([[field.size, 0]]), "bad-message");
  assertEquals(codeOf([[field.size, 8 * gibibyte]]), "too-large");
  assertEquals(codeOf([[field.size, 2 ** 53]]), "bad-message");
  assertEquals(codeOf([[field.offset, 2 ** 40]]), "bad-message");
  assertEquals(codeOf([[field.offset, 2 ** 63]]), "bad-message");
  assertEquals(codeOf([[field.size, mebibyte - 1]], mebibyte), "size-mismatch");
  assertEquals(codeOf([], mebibyte + 1), "size-mismatch");
});

testOnEachDriver("refused imports are counted by their codes, and those that succeed are not", (cuda) => {
  using stack = new DisposableStack();
  const { exportData, imported } = exported(cuda.device(0), stack);
  const before = refusalStatistics();
  const refuse = (field: number, value: number, byteLength = 1) =>
    assertThrows(() => imported.importPointer(forged(exportData, [[field, value]]), byteLength), SharingError);
  refuse(field.size, 0);
  refuse(field.size, 8 * gibibyte);
  refuse(field.offset, 2 ** 40);
  refuse(field.size, mebibyte - 1, mebibyte);
  stack.use(imported.importPointer(exportData, mebibyte));
  // Mapped already.
  assertThrows(() => imported.importPointer(exportData, mebibyte + 1), SharingError);
  const { imports, exports, events } = refusalStatistics();
  const more = { "bad-message": 2, "size-mismatch": 2, "too-large": 1, cudaErrorInvalidValue: 0 };
  const codes = Object.keys(more) as (keyof typeof more)[];
  assertEquals(codes.map((code) => imports[code]! - before.imports[code]!), Object.values(more));
  assertEquals([exports, events], [before.exports, before.events]);
});

testOnEachDriver("up to 128 pieces of 32 MiB reach the driver, which finds that they were not exported", (cuda) => {
  using stack = new DisposableStack();
  const { exportData, imported } = exported(cuda.device(0), stack);
  const errorOf = (offset: number, size: number) => {
    const data = forged(exportData, [[field.offset, offset], [field.size, size]]);
    const error = assertThrows(() => imported.importPointer(data, 1));
    return error instanceof SharingError ? error.code : (error as CudaError).code;
  };
  // The software device alone: NVIDIA's driver is not asked what may end this process.
  const isReal = cuda.driver === "cuda";
  for (const offset of [0, 32 * mebibyte, 20 * gibibyte]) {
    if (!isReal) assertEquals(errorOf(offset, 4 * gibibyte), "cudaErrorInvalidValue");
    assertEquals(errorOf(offset, 4 * gibibyte + 1), "too-large");
  }
  for (const offset of [2, 16, 30]) {
    if (!isReal) assertEquals(errorOf(offset * mebibyte, (4096 - offset) * mebibyte), "cudaErrorInvalidValue");
    assertEquals(errorOf(offset * mebibyte, (4096 - offset) * mebibyte + 1), "too-large");
    assertEquals(errorOf(offset * mebibyte, 4096 * mebibyte), "too-large");
  }
});

testOnEachDriver("export data have no bytes that the driver did not write, and are imported", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffers = new DisposableStack();
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  for (const byteLength of [1, 4096, mebibyte + 512, 40 * mebibyte]) {
    const buffer = buffers.use(pool.allocate(byteLength));
    buffer.fill(byteLength % 251 + 1);
    const exportData = buffer.exportPointer();
    assertEquals(exportData.subarray(48), new Uint8Array(16));
    const fields = new BigUint64Array(exportData.buffer);
    assertEquals([fields[field.process], fields[field.size]], [BigInt(process.pid), BigInt(byteLength)]);
    await gpu.finished();
    using mapped = imported.importPointer(exportData, byteLength);
    assertEquals(await mapped.read(Uint8Array, { length: 1 }), Uint8Array.of(byteLength % 251 + 1));
  }
});

testOnEachDriver("with another layout the stated size decides, and nothing is changed", async (_cuda, { open }) => {
  const driver = open();
  const rotated = (data: Uint8Array, by: number): Uint8Array<ArrayBuffer> =>
    Uint8Array.from(data, (_, index) => data.at((index + by) % 64)!);
  const sizes: number[] = [];
  using cuda = adaptedCuda(driver, {
    memPoolExportPointer: (address) => rotated(driver.memPoolExportPointer(address), 8),
    memPoolImportPointer: (device, pool, data) => driver.memPoolImportPointer(device, pool, rotated(data, 56)),
    memGetAddressRange(device, address) {
      const range = driver.memGetAddressRange(device, address);
      sizes.push(range.byteLength);
      return range;
    },
  });
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(4096);
  using handle = pool.exportHandle();
  buffer.fill(3);
  await gpu.finished();
  using imported = gpu.importPool(handle);
  using mapped = imported.importPointer(buffer.exportPointer(), 4096);
  assertEquals(await mapped.read(Uint8Array, { length: 1 }), Uint8Array.of(3));
  assertEquals(sizes, [4096]);
  const error = assertThrows(() => imported.importPointer(new Uint8Array(64), 4 * gibibyte + 1), SharingError);
  assertEquals(error.code, "too-large");
});

test("nothing is imported or opened unchecked while there is no memory to try what is known", () => {
  const open = () => driverNamed("software").open();
  using exporting = new Cuda(new Session(open()));
  using stack = new DisposableStack();
  const pool = stack.use(exporting.device(0).createPool({ handleType: "posix-fd" }));
  const buffer = stack.use(pool.allocate(mebibyte));
  const handle = stack.use(pool.exportHandle());
  const exportData = buffer.exportPointer();
  let hasMemory = false;
  let given = 0;
  const driver = open();
  using cuda = adaptedCuda(driver, {
    checksHandles: false,
    mallocFromPoolAsync: (...args) => hasMemory ? driver.mallocFromPoolAsync(...args) : outOfMemory(),
    malloc: (...args) => hasMemory ? driver.malloc(...args) : outOfMemory(),
    memPoolImportPointer(...args) {
      given++;
      return driver.memPoolImportPointer(...args);
    },
    ipcOpenMemHandle(...args) {
      given++;
      return driver.ipcOpenMemHandle(...args);
    },
  });
  const gpu = cuda.device(0);
  const imported = stack.use(gpu.importPool(handle));
  for (let times = 0; times < 2; times++) {
    for (const attempt of [() => imported.importPointer(exportData, 1), () => gpu.openMemory(new Uint8Array(64), 1)]) {
      assertEquals(assertThrows(attempt, CudaError).code, "cudaErrorMemoryAllocation");
    }
  }
  assertEquals(given, 0);
  hasMemory = true;
  imported.importPointer(exportData, 1).free();
  assertEquals(given, 1);
});

test("host memory tells what is known if the device has none", () => {
  const driver = driverNamed("software").open();
  const places: number[] = [];
  using cuda = adaptedCuda(driver, {
    memPoolCreate(props) {
      places.push(props.location.type);
      return driver.memPoolCreate(props);
    },
    mallocFromPoolAsync: (...args) => places.length === 1 ? outOfMemory() : driver.mallocFromPoolAsync(...args),
  });
  assert(sessionOf(cuda).exportDataLayout.isKnownOn(0));
  assertEquals(places, [memLocationType.device, memLocationType.hostNuma]);
});

testOnEachDriver("an import whose data are understood makes one call", (_cuda, { open }) => {
  const driver = open();
  using cuda = new Cuda(new Session(driver));
  using stack = new DisposableStack();
  const gpu = cuda.device(0);
  const pool = stack.use(gpu.createPool({ handleType: "posix-fd" }));
  const handle = stack.use(pool.exportHandle());
  const imported = stack.use(gpu.importPool(handle));
  const buffers = [1, 2].map(() => stack.use(pool.allocate(4096)));
  const [first, second] = buffers.map((buffer) => buffer.exportPointer());
  stack.use(imported.importPointer(first!, 4096));
  using counted = countCalls(driver);
  stack.use(imported.importPointer(second!, 4096));
  assertEquals(counted.calls, { memPoolImportPointer: 1 });
});

testOnEachDriver("an allocation that no process could import is not exported", (_cuda, { open }) => {
  const driver = open();
  const large = 4 * gibibyte + 1;
  let address: bigint | undefined;
  using cuda = adaptedCuda(driver, {
    // Takes less, because the software device has 4 GiB in all; its size is stated all the same.
    mallocFromPoolAsync(device, byteLength, pool, stream) {
      const result = driver.mallocFromPoolAsync(device, Math.min(byteLength, mebibyte), pool, stream);
      if (byteLength === large) address = result;
      return result;
    },
    memPoolExportPointer(exportedAddress) {
      const data = driver.memPoolExportPointer(exportedAddress);
      if (exportedAddress === address) new BigUint64Array(data.buffer)[field.size] = BigInt(large);
      return data;
    },
  });
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  using _handle = pool.exportHandle();
  using buffer = pool.allocate(large);
  const before = refusalStatistics();
  const error = assertThrows(() => buffer.exportPointer(), SharingError);
  assertEquals(error.code, "too-large");
  assertEquals(refusalStatistics(), { ...before, exports: { "too-large": before.exports["too-large"]! + 1 } });
  assertMatch(error.message, /CudaDevice\.allocate\(byteLength, \{ handleType: "posix-fd" \}\)/);
});

testOnEachDriver("an allocator of a pool that can be shared makes no slab that no process could import", (cuda) => {
  const gpu = cuda.device(0);
  using shared = gpu.createPool({ handleType: "posix-fd" });
  const most = 4064 * mebibyte;
  assertThrows(() => shared.createCachingAllocator({ slabByteLength: most + 256 }), RangeError, "other processes");
  using allocator = shared.createCachingAllocator({ slabByteLength: most });
  const error = assertThrows(() => allocator.allocate(most + 1), CudaError);
  assertEquals(error.code, "cudaErrorMemoryAllocation");
  assertMatch(error.message, /allocate it from the pool itself, or for other processes by CudaDevice\.allocate/);
  using own = gpu.createPool();
  using other = own.createCachingAllocator({ slabByteLength: most + 256 });
  assert(other.usage().reserved === 0);
});
