import { assert, assertEquals } from "@std/assert";
import { jsRuntime } from "../../ffi/native/host.ts";
import { closeDescriptor } from "../../ffi/native/shim/descriptors.ts";
import { errno, shimRefusal, SystemError } from "../../ffi/native/shim/shim.ts";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { memAccessFlags, memHandleType, memLocationType } from "../../src/driver.ts";
import { IpcFile } from "../../src/software/ipc/ipc_file.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { remainingLines, startScript } from "../support/child_process.ts";
import { leakTest } from "../support/resources.ts";
import { codeOf, launchFill, readBytes } from "../support/software_calls.ts";
import { test } from "../support/test.ts";

const skip = shimRefusal();
const notDeno = jsRuntime !== "deno" && "only Deno can do without FFI";

/** Declares a test of a driver without the public objects. */
function testDriver(name: string, body: (driver: SoftwareDriver) => void | Promise<void>, skip?: string): void {
  leakTest(name, async () => {
    const driver = new SoftwareDriver({ devices: 2, peers: true });
    try {
      await body(driver);
    } finally {
      driver.close();
    }
  }, { skip });
}

/** Fills memory with a kernel and waits for it. */
function fill(
  driver: SoftwareDriver,
  device: number,
  { address, byteLength }: { address: bigint; byteLength: number },
) {
  launchFill(driver, device, { address, byteLength });
  driver.deviceSynchronize(device);
}

testDriver("memory without a pool is copied and filled up to its last byte", (driver) => {
  const { free } = driver.memGetInfo(0);
  const address = driver.malloc(0, 1001);
  driver.memsetAsync(0, address, 1, 1001, 0n);
  assertEquals(readBytes(driver, address + 1000n, 1), Uint8Array.of(1));
  assertEquals(driver.memGetAddressRange(0, address + 1000n), { base: address, byteLength: 1001 });
  assertEquals(codeOf(() => driver.memsetAsync(0, address, 1, 1002, 0n)), "cudaErrorInvalidValue");
  fill(driver, 0, { address, byteLength: 1001 });
  assertEquals(readBytes(driver, address, 1001), new Uint8Array(1001).fill(5));
  driver.free(0, address);
  assertEquals(codeOf(() => driver.memGetAddressRange(0, address)), "cudaErrorSymbolNotFound");
  const tables = free - driver.memGetInfo(0).free;
  driver.free(0, driver.malloc(0, 1001));
  assertEquals(free - driver.memGetInfo(0).free, tables);
  launchFill(driver, 0, { address: driver.malloc(0, 1001), byteLength: 1002 });
  assertEquals(codeOf(() => driver.deviceSynchronize(0)), "cudaErrorIllegalAddress");
});

testDriver("nothing is allocated at address 0, and freeing it does nothing", (driver) => {
  assertEquals(driver.malloc(0, 0), 0n);
  driver.free(0, 0n);
  assertEquals(codeOf(() => driver.malloc(0, 2 ** 33)), "cudaErrorMemoryAllocation");
});

testDriver("an address that is not the start of an allocation cannot be freed", (driver) => {
  const address = driver.malloc(0, 4096);
  for (const wrong of [1n, address + 512n, address - 512n]) {
    assertEquals(codeOf(() => driver.free(0, wrong)), "cudaErrorInvalidValue");
    assertEquals(codeOf(() => driver.freeAsync(0, wrong, 0n)), "cudaErrorInvalidValue");
  }
  driver.free(0, address);
  assertEquals(codeOf(() => driver.free(0, address)), "cudaErrorInvalidValue");
});

testDriver(
  "a free blocks until the device is idle, and a stream-ordered free follows its stream's work",
  (driver) => {
    const stream = driver.streamCreateWithPriority(0, 1, 0);
    const [blocking, inOrder] = [driver.malloc(0, 64 * 2 ** 20), driver.malloc(0, 64 * 2 ** 20)];
    driver.memsetAsync(0, inOrder, 3, 64 * 2 ** 20, stream);
    const host = driver.hostAlloc(4);
    driver.memcpyDtoHAsync(0, new Uint8Array(host.buffer), inOrder + 64n * 2n ** 20n - 4n, stream);
    driver.freeAsync(0, inOrder, stream);
    assertEquals(driver.streamQuery(0, stream), false);
    driver.free(0, blocking);
    assertEquals(driver.streamQuery(0, stream), true);
    assertEquals(new Uint8Array(host.buffer), new Uint8Array(4).fill(3));
    driver.freeHost(host);
  },
);

testDriver("pool memory can be freed by both kinds of free", (driver) => {
  const pool = driver.memPoolCreate({
    handleTypes: memHandleType.none,
    location: { type: memLocationType.device, id: 0 },
    maxSize: 0n,
  });
  const address = driver.mallocFromPoolAsync(0, 4096, pool, 0n);
  driver.memsetAsync(0, address, 1, 4096, 0n);
  driver.free(0, address);
  assertEquals(codeOf(() => driver.freeAsync(0, address, 0n)), "cudaErrorInvalidValue");
  const again = driver.mallocFromPoolAsync(0, 4096, pool, 0n);
  driver.freeAsync(0, again, 0n);
  driver.memPoolDestroy(pool);
});

testDriver("unused memory kept by pools is released for other allocations", (driver) => {
  const kept = 7 * 2 ** 29;
  const other = new SoftwareDriver({ devices: 1, peers: true });
  const pool = driver.deviceGetDefaultMemPool(1);
  driver.memPoolSetAttribute(pool, 4, 2n ** 64n - 1n);
  const ways: readonly (() => void)[] = [
    () => driver.free(1, driver.malloc(1, 2 ** 30)),
    () => driver.free(0, driver.malloc(0, 2 ** 30)),
    () => driver.freeAsync(0, driver.mallocFromPoolAsync(0, 2 ** 30, driver.deviceGetDefaultMemPool(0), 0n), 0n),
    () => driver.freeHost(driver.hostAlloc(2 ** 30)),
    () => other.free(0, other.malloc(0, 2 ** 30)),
  ];
  for (const way of ways) {
    driver.freeAsync(1, driver.mallocFromPoolAsync(1, kept, pool, 0n), 0n);
    driver.deviceSynchronize(1);
    assertEquals(driver.memPoolGetAttribute(pool, 5), BigInt(kept));
    way();
    assertEquals(driver.memPoolGetAttribute(pool, 5), 0n);
    driver.deviceSynchronize(0);
  }
  other.close();
});

testDriver("memory is unchanged if the system refuses a handle for it", (driver) => {
  const address = driver.malloc(0, 100_001);
  driver.memsetAsync(0, address, 6, 100_001, 0n);
  driver.deviceSynchronize(0);
  const { map } = IpcFile.prototype;
  // The system, too, may discard the contents before it refuses.
  IpcFile.prototype.map = (linearMemory, begin) => {
    linearMemory.discard(begin, 131072);
    throw new SystemError(errno.ENOMEM, "mmap");
  };
  try {
    assertEquals(codeOf(() => driver.ipcGetMemHandle(0, address)), "cudaErrorOperatingSystem");
  } finally {
    IpcFile.prototype.map = map;
  }
  assertEquals(readBytes(driver, address, 100_001), new Uint8Array(100_001).fill(6));
  assertEquals(driver.ipcGetMemHandle(0, address).length, 64);
  driver.free(0, address);
}, skip);

testDriver("a peer's memory is accessible while peer access is enabled", (driver) => {
  const before = driver.malloc(0, 4096);
  driver.deviceEnablePeerAccess(1, 0);
  const after = driver.malloc(0, 4096);
  for (const address of [before, after]) {
    fill(driver, 1, { address, byteLength: 4096 });
    assertEquals(readBytes(driver, address, 4096), new Uint8Array(4096).fill(5));
  }
  const pool = driver.memPoolCreate({
    handleTypes: memHandleType.none,
    location: { type: memLocationType.device, id: 0 },
    maxSize: 0n,
  });
  const own = driver.mallocFromPoolAsync(0, 4096, pool, 0n);
  assertEquals(driver.memPoolGetAccess(pool, { type: memLocationType.device, id: 1 }), memAccessFlags.none);
  driver.freeAsync(0, own, 0n);
  launchFill(driver, 1, { address: after, byteLength: 4096 });
  driver.deviceDisablePeerAccess(1, 0);
  assertEquals(codeOf(() => driver.deviceDisablePeerAccess(1, 0)), "cudaErrorPeerAccessNotEnabled");
  launchFill(driver, 1, { address: before, byteLength: 4 });
  assertEquals(codeOf(() => driver.deviceSynchronize(1)), "cudaErrorIllegalAddress");
});

testDriver("peer access is one-way", (driver) => {
  driver.deviceEnablePeerAccess(1, 0);
  launchFill(driver, 0, { address: driver.malloc(1, 4096), byteLength: 4 });
  assertEquals(codeOf(() => driver.deviceSynchronize(0)), "cudaErrorIllegalAddress");
});

for (const type of ["host", "hostNuma"] as const) {
  testDriver(`a pool in ${type} memory has no device, and every device can be given access`, (driver) => {
    const pool = driver.memPoolCreate({
      handleTypes: memHandleType.none,
      location: { type: memLocationType[type], id: 0 },
      maxSize: 0n,
    });
    const accessOf = (type: number) => driver.memPoolGetAccess(pool, { type, id: 0 });
    assertEquals(accessOf(memLocationType.device), memAccessFlags.none);
    assertEquals(accessOf(memLocationType.hostNuma), memAccessFlags.readWrite);
    assertEquals(codeOf(() => driver.deviceSetMemPool(0, pool)), "cudaErrorInvalidValue");
    const address = driver.mallocFromPoolAsync(1, 5000, pool, 0n);
    const bytes = new Uint8Array(5000).fill(7);
    driver.memcpyHtoDAsync(0, address, bytes, 0n);
    assertEquals(readBytes(driver, address, 5000), bytes);
    const location = { type: memLocationType.device, id: 0 };
    driver.memPoolSetAccess(pool, [{ location, flags: memAccessFlags.readWrite }]);
    fill(driver, 0, { address, byteLength: 5000 });
    driver.memPoolSetAccess(pool, [{ location, flags: memAccessFlags.none }]);
    assertEquals(codeOf(() => driver.memsetAsync(1, address, 1, 4, 0n)), "cudaErrorInvalidValue");
    driver.freeAsync(0, address, 0n);
    driver.memPoolDestroy(pool);
    launchFill(driver, 0, { address, byteLength: 4 });
    assertEquals(codeOf(() => driver.deviceSynchronize(0)), "cudaErrorIllegalAddress");
  });
}

testDriver("pools need an existing NUMA node, and host pools can be shared only with a node", (driver) => {
  const create = (type: number, id: number, handleTypes: number) =>
    driver.memPoolCreate({ handleTypes, location: { type, id }, maxSize: 0n });
  const { none, posixFileDescriptor, fabric } = memHandleType;
  const { host, hostNuma } = memLocationType;
  assertEquals(codeOf(() => create(hostNuma, 1, none)), "cudaErrorInvalidValue");
  assertEquals(codeOf(() => create(4, 0, none)), "cudaErrorInvalidValue");
  assertEquals(codeOf(() => create(host, 0, posixFileDescriptor)), "cudaErrorInvalidValue");
  assertEquals(codeOf(() => create(host, 0, fabric)), "cudaErrorInvalidValue");
  driver.memPoolDestroy(create(host, 3, none));
});

testDriver("the host sees host memory in place immediately, and that of an imported pool as well", (driver) => {
  const pool = driver.memPoolCreate({
    handleTypes: memHandleType.posixFileDescriptor,
    location: { type: memLocationType.hostNuma, id: 0 },
    maxSize: 0n,
  });
  const address = driver.mallocFromPoolAsync(0, 5000, pool, 0n);
  const view = driver.hostView(address + 8n, 4992);
  assertEquals(view.byteLength, 4992);
  new Uint8Array(view)[0] = 9;
  const fd = driver.memPoolExportToShareableHandle(pool, memHandleType.posixFileDescriptor) as number;
  const other = new SoftwareDriver({ devices: 2, peers: true });
  const imported = other.memPoolImportFromShareableHandle(1, fd, memHandleType.posixFileDescriptor);
  for (const id of [0, 1]) {
    assertEquals(other.memPoolGetAccess(imported, { type: memLocationType.device, id }), memAccessFlags.none);
  }
  const mapped = other.memPoolImportPointer(1, imported, driver.memPoolExportPointer(address));
  const mappedView = other.hostView(mapped, 5000);
  assertEquals(new Uint8Array(mappedView)[8], 9);
  new Uint8Array(mappedView)[4999] = 8;
  assertEquals(new Uint8Array(view)[4991], 8);
  assertEquals(readBytes(driver, address + 4999n, 1), Uint8Array.of(8));
  const location = { type: memLocationType.device, id: 0 };
  other.memPoolSetAccess(imported, [{ location, flags: memAccessFlags.readWrite }]);
  fill(other, 0, { address: mapped, byteLength: 5000 });
  assertEquals(new Uint8Array(view)[100], 5);
  mappedView.transfer();
  other.freeAsync(1, mapped, 0n);
  other.memPoolDestroy(imported);
  other.close();
  assertEquals(codeOf(() => driver.hostView(address, 5001)), "cudaErrorInvalidValue");
  assertEquals(codeOf(() => driver.hostView(driver.malloc(0, 64), 64)), "cudaErrorInvalidValue");
  view.transfer();
  closeDescriptor(fd);
}, skip);

testDriver("access flags must be valid, and a device keeps access to its own memory", (driver) => {
  const pool = driver.memPoolCreate({
    handleTypes: memHandleType.none,
    location: { type: memLocationType.device, id: 0 },
    maxSize: 0n,
  });
  const set = (id: number, flags: number) =>
    driver.memPoolSetAccess(pool, [{ location: { type: memLocationType.device, id }, flags }]);
  assertEquals(codeOf(() => set(1, 2)), "cudaErrorInvalidValue");
  assertEquals(codeOf(() => set(0, memAccessFlags.none)), "cudaErrorInvalidDevice");
  for (const id of [0, 1]) assertEquals(codeOf(() => set(id, memAccessFlags.read)), "cudaErrorNotSupported");
  set(0, memAccessFlags.readWrite);
  assertEquals(driver.memPoolGetAccess(pool, { type: memLocationType.device, id: 0 }), memAccessFlags.readWrite);
});

test("export data with nonzero unused bytes are refused", { skip }, () => {
  const driver = new SoftwareDriver({ devices: 1, peers: true });
  const pool = driver.memPoolCreate({
    handleTypes: memHandleType.posixFileDescriptor,
    location: { type: memLocationType.device, id: 0 },
    maxSize: 0n,
  });
  const fd = driver.memPoolExportToShareableHandle(pool, memHandleType.posixFileDescriptor) as number;
  const imported = driver.memPoolImportFromShareableHandle(0, fd, memHandleType.posixFileDescriptor);
  const data = driver.memPoolExportPointer(driver.mallocFromPoolAsync(0, 64, pool, 0n));
  for (const index of [40, 63]) {
    const changed = data.slice();
    changed[index] = 1;
    assertEquals(codeOf(() => driver.memPoolImportPointer(0, imported, changed)), "cudaErrorInvalidValue");
  }
  assert(driver.memPoolImportPointer(0, imported, data) !== 0n);
  driver.close();
  closeDescriptor(fd);
});

test(
  "without FFI memory works, and sharing it is refused with the reason",
  { skip: notDeno },
  async () => {
    await using child = startScript("children/software/software_refusals.ts", [], { permissions: [] });
    const lines = await remainingLines(child);
    const reason = "cudaErrorNotSupported (FFI is not permitted; run with --allow-ffi)";
    const calls = [
      "cudaPointerGetAttributes",
      "cudaIpcGetMemHandle",
      "cudaIpcOpenMemHandle",
      "cudaEventCreateWithFlags",
      "cudaIpcOpenEventHandle",
    ];
    assertEquals(lines, ["7 0", ...calls.map((call) => `${call} failed: ${reason}`)]);
    assertEquals(await child.ended, 0);
  },
);

testDriver("a name that no variable of a module has is not found", (driver) => {
  const module = driver.moduleLoadData(0, fillPtx);
  assertEquals(codeOf(() => driver.moduleGetGlobal(module, "nothing")), "cudaErrorSymbolNotFound");
});
