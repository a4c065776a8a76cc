/**
 * Cases of cuda.core's tests of memory pools between processes that need only one process. See `counterparts.md`.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import process from "node:process";
import { Worker } from "node:worker_threads";
import { duplicateDescriptor, openDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { ptx } from "../../../kernels/fill.ts";
import * as library from "../../../mod.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import type { DeviceBuffer } from "../../../src/memory/device_buffer.ts";
import type { Driver } from "../../../src/driver.ts";
import { CudaError } from "../../../src/support/errors.ts";
import type { MemoryPool } from "../../../src/memory/pools/memory_pool.ts";
import { Session } from "../../../src/session.ts";
import { ShareableHandle } from "../../../src/memory/handles/shareable_handle.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { watchedDriver } from "../../support/adapted_driver.ts";
import { remainingLines, startScript } from "../../support/child_process.ts";
import { driversUnderTest, testOnEachDriver } from "../../support/drivers.ts";
import { countResources, difference, type Resources } from "../../support/resources.ts";
import { testSoftware } from "../../support/software_devices.ts";
import { test } from "../../support/test.ts";

const byteLength = 10_000;
const places = ["device", "host"] as const;

function createPool(cuda: Cuda, place: typeof places[number]): MemoryPool {
  if (place === "device") return cuda.device(0).createPool({ handleType: "posix-fd" });
  const pool = cuda.createHostPool({ numaNode: 0, handleType: "posix-fd" });
  pool.setAccess(cuda.device(0), "read-write");
  return pool;
}

function allocateFilled(cuda: Cuda, pool: MemoryPool, byte: number): DeviceBuffer {
  const buffer = pool.allocate(byteLength, cuda.device(0).defaultStream);
  buffer.fill(byte);
  cuda.device(0).synchronize();
  return buffer;
}

const assertFilled = (buffer: DeviceBuffer, byte: number) =>
  assertEquals(buffer.readSync(Uint8Array), new Uint8Array(buffer.byteLength).fill(byte));

test("objects made by the library have no public constructors", async () => {
  const uses: Readonly<Record<string, (made: never) => unknown>> = {
    ShareableHandle: () => {},
    ImportedMemoryPool: () => {},
    MemoryPool: () => {},
    DeviceBuffer: () => {},
    CudaDevice: (made: library.CudaDevice) => made.name,
    Exporter: () => {},
    Importer: () => {},
    ChannelProducer: () => {},
    ChannelConsumer: () => {},
    ReceivedSlot: () => {},
    UnixListener: (made: library.UnixListener) => made.accept(),
    UnixSocket: (made: library.UnixSocket) => made.send(new Uint8Array(1)),
    Offer: (made: library.Offer) => made.withdraw(),
    RemoteOffer: (made: library.RemoteOffer) => made.map(),
    Lease: (made: library.Lease) => made.recall(),
    Slot: (made: library.Slot) => made[Symbol.dispose](),
  };
  for (const [name, use] of Object.entries(uses)) {
    const made = (library as unknown as Record<string, new () => never>)[name]!;
    await assertRejects(async () => void await use(new made()), Error, "", name);
  }
  const handle = ShareableHandle as unknown as new (type: string, fd: number) => ShareableHandle;
  assertThrows(() => new handle("posix-fd", 2), TypeError, "ShareableHandle.fromFd");
});

for (const place of places) {
  testOnEachDriver(
    `a closed handle imports nothing, even if the pool in ${place} memory is already imported`,
    (cuda) => {
      using pool = createPool(cuda, place);
      using buffer = allocateFilled(cuda, pool, 3);
      const handle = pool.exportHandle();
      using imported = cuda.device(0).importPool(handle);
      handle[Symbol.dispose]();
      for (const device of cuda.devices) {
        assertThrows(() => device.importPool(handle), ReferenceError, "it was disposed");
      }
      using mapped = imported.importPointer(buffer.exportPointer(), byteLength);
      assertFilled(mapped, 3);
    },
  );

  testOnEachDriver(
    `export data of a pool in ${place} memory, imported twice, are one mapping that two frees unmap`,
    (cuda) => {
      const gpu = cuda.device(0);
      using pool = createPool(cuda, place);
      using buffer = allocateFilled(cuda, pool, 3);
      using handle = pool.exportHandle();
      using imported = gpu.importPool(handle);
      if (place === "host") imported.setAccess(gpu, "read-write");
      using again = gpu.importPool(handle);
      const exportData = buffer.exportPointer();
      const mapped = [imported, imported, again].map((each) => each.importPointer(exportData, byteLength));
      const [first, second, third] = mapped as unknown as [DeviceBuffer, DeviceBuffer, DeviceBuffer];
      assert(first.address === second.address && second.address === third.address);
      first.fill(4);
      gpu.synchronize();
      for (const each of [second, third, buffer]) {
        assertFilled(each, 4);
      }
      const view = place === "host" ? second.hostView() : undefined;
      first.free();
      gpu.synchronize();
      if (view !== undefined) assertEquals(new Uint8Array(view)[byteLength - 1], 4);
      assertFilled(second, 4);
      second.free();
      third.fill(5);
      gpu.synchronize();
      third.free();
      assertFilled(buffer, 5);
    },
  );

  testOnEachDriver(
    `an imported pool in ${place} memory cannot allocate, or be a device's current pool`,
    (cuda, { name }) => {
      const gpu = cuda.device(0);
      using pool = createPool(cuda, place);
      using handle = pool.exportHandle();
      using imported = gpu.importPool(handle);
      for (
        const method of ["allocate", "allocateArray", "usage", "trimTo", "releaseThreshold", "reuse", "exportHandle"]
      ) {
        assert(!(method in imported), method);
      }
      assertThrows(() => gpu.currentPool = imported as never, TypeError, "an ImportedMemoryPool the current pool");
      const driver = driversUnderTest.find((each) => each.name === name)!.open();
      try {
        const type = 1;
        const handleOfOther = driver.memPoolImportFromShareableHandle(0, handle.fd, type);
        const error = assertThrows(() => driver.mallocFromPoolAsync(0, byteLength, handleOfOther, 0n), CudaError);
        assertEquals(error.code, "cudaErrorInvalidValue");
        driver.memPoolDestroy(handleOfOther);
      } finally {
        driver.close();
      }
    },
  );

  testOnEachDriver(`20 rounds of sharing a pool in ${place} memory leave nothing behind`, (cuda) => {
    const gpu = cuda.device(0);
    const share = () => {
      using pool = createPool(cuda, place);
      using buffer = allocateFilled(cuda, pool, 1);
      using handle = pool.exportHandle();
      using again = pool.exportHandle();
      assert(handle.fd !== again.fd);
      using imported = gpu.importPool(again);
      using mapped = imported.importPointer(buffer.exportPointer(), byteLength);
      assertFilled(mapped, 1);
    };
    share();
    gpu.synchronize();
    const before = countResources();
    for (let round = 0; round < 20; round++) share();
    gpu.synchronize();
    assertEquals(difference(before, countResources()), "");
  });
}

testOnEachDriver(
  "a disposed import of a pool maps nothing, even if another import of the pool has mapped it",
  (cuda) => {
    using pool = createPool(cuda, "device");
    using buffer = allocateFilled(cuda, pool, 3);
    using handle = pool.exportHandle();
    using imported = cuda.device(0).importPool(handle);
    using givenUp = cuda.device(0).importPool(handle);
    using mapped = imported.importPointer(buffer.exportPointer(), byteLength);
    givenUp[Symbol.dispose]();
    assertThrows(() => givenUp.importPointer(buffer.exportPointer(), byteLength), ReferenceError, "it was disposed");
    assertFilled(mapped, 3);
  },
);

testOnEachDriver(
  "errors for invalid handles and export data name the value, and the driver is not called",
  (_, underTest) => {
    const calls: PropertyKey[] = [];
    const driver = underTest.open();
    using cuda = new Cuda(new Session(spyOn(driver, calls)));
    const gpu = cuda.device(0);
    using pool = createPool(cuda, "device");
    using buffer = pool.allocate(64);
    using handle = pool.exportHandle();
    using imported = gpu.importPool(handle);
    calls.length = 0;
    const given: [unknown, string][] = [
      [buffer, "a DeviceBuffer"],
      [pool, "a MemoryPool"],
      [undefined, "undefined"],
      [null, "null"],
      [handle.fd, String(handle.fd)],
      ["64 bytes", "a string"],
      [new ArrayBuffer(64), "an ArrayBuffer"],
      [{ byteLength: 64 }, "an Object"],
    ];
    for (const [value, text] of given) {
      const pointer = assertThrows(() => imported.importPointer(value as never, 64), TypeError);
      assertEquals(
        pointer.message,
        `Cannot import a pointer from ${text}: give the Uint8Array of the exporter's exportPointer`,
      );
      const error = assertThrows(() => gpu.importPool(value as never), TypeError);
      assertStringIncludes(error.message, `Cannot import a pool from ${text}: give the ShareableHandle`);
    }
    assertThrows(() => gpu.importPool(new Uint8Array(64) as never), TypeError, "a Uint8Array");
    assertThrows(() => imported.importPointer([...new Uint8Array(64)] as never, 64), TypeError, "an Array");
    assertEquals(calls, []);
  },
);

/** A driver that records the names of its calls. */
function spyOn(driver: Driver, calls: PropertyKey[]): Driver {
  return watchedDriver(driver, (name) => calls.push(name));
}

testOnEachDriver("the JSON of shared objects gives no access to them", (cuda) => {
  const gpu = cuda.device(0);
  using pool = createPool(cuda, "device");
  using buffer = pool.allocate(64);
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  using mapped = imported.importPointer(buffer.exportPointer(), 64);
  // JSON describes the objects. What is read from it is text and numbers, which the library does not accept for them.
  for (const shared of [handle, pool, buffer, imported, mapped]) {
    const parsed = JSON.parse(JSON.stringify(shared));
    for (const name of ["bytes", "unsafeHandle"]) assert(!(name in parsed), name);
    assertThrows(() => gpu.importPool(parsed), TypeError);
    assertThrows(() => buffer.copyFrom(parsed), TypeError);
  }
});

testOnEachDriver("a pool is identified by its handle, even if the descriptor's number was used before", (cuda) => {
  const gpu = cuda.device(0);
  const numbers = new Set<number>();
  for (const place of [...places, ...places]) {
    using pool = createPool(cuda, place);
    using buffer = allocateFilled(cuda, pool, place.length);
    using handle = pool.exportHandle();
    numbers.add(handle.fd);
    using imported = gpu.importPool(handle);
    assertEquals(imported.getAccess(gpu), place === "device" ? "read-write" : "none");
    using mapped = imported.importPointer(buffer.exportPointer(), byteLength);
    if (place === "host") assertEquals(new Uint8Array(mapped.hostView())[0], place.length);
    else assertThrows(() => mapped.hostView(), CudaError);
    assertFilled(mapped, place.length);
  }
  assert(numbers.size < 4, "Numbers come again");
});

testOnEachDriver("after each refusal, a valid handle and valid export data are imported", (cuda) => {
  const gpu = cuda.device(0);
  using pool = createPool(cuda, "device");
  using other = createPool(cuda, "device");
  using buffer = allocateFilled(cuda, pool, 8);
  using foreign = other.allocate(byteLength);
  using handle = pool.exportHandle();
  using _otherHandle = other.exportHandle();
  const folder = mkdtempSync("/tmp/poolpass-test-");
  writeFileSync(`${folder}/file`, "no pool");
  using noPool = ShareableHandle.fromFd(openDescriptor(`${folder}/file`));
  rmSync(folder, { recursive: true });
  using imported = gpu.importPool(handle);
  const exportData = buffer.exportPointer();
  const refusals: (() => unknown)[] = [
    () => gpu.importPool(noPool),
    () => imported.importPointer(new Uint8Array(64), byteLength),
    () => imported.importPointer(foreign.exportPointer(), byteLength),
    () => imported.importPointer(exportData.subarray(8), byteLength),
    () => imported.importPointer(exportData, 2 ** 40),
    () => imported.importPointer(exportData, 0),
    () => imported.importPointer(exportData, NaN),
  ];
  for (const [index, refuse] of refusals.entries()) {
    assertThrows(refuse, Error, "Cannot ", String(index));
    using again = gpu.importPool(handle);
    using mapped = again.importPointer(exportData, byteLength);
    assertFilled(mapped, 8);
  }
});

testOnEachDriver("imported memory cannot be exported again, and the exporter's data stay valid", (cuda) => {
  const gpu = cuda.device(0);
  using pool = createPool(cuda, "device");
  using buffer = allocateFilled(cuda, pool, 8);
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  using mapped = imported.importPointer(buffer.exportPointer(), byteLength);
  const error = assertThrows(() => mapped.exportPointer(), CudaError);
  assertMatch(error.message, /only the process that allocated it can: forward its pool's handle and the 64 bytes/);
  assertThrows(() => mapped.exportHandle(), TypeError, "Cannot export a handle to this memory");
  using again = gpu.importPool(handle);
  using mappedAgain = again.importPointer(buffer.exportPointer(), byteLength);
  assertFilled(mappedAgain, 8);
});

testOnEachDriver(
  "a duplicate of the descriptor works after the handle is disposed, and each is closed by its owner",
  (cuda) => {
    using pool = createPool(cuda, "device");
    using buffer = allocateFilled(cuda, pool, 8);
    // The resources that a driver keeps after first use are not counted.
    for (let round = 0; round < 2; round++) {
      const before = countResources();
      const handle = pool.exportHandle();
      const again = pool.exportHandle();
      assert(handle.fd !== again.fd);
      again[Symbol.dispose]();
      const duplicate = ShareableHandle.fromFd(duplicateDescriptor(handle.fd));
      handle[Symbol.dispose]();
      using imported = cuda.device(0).importPool(duplicate);
      duplicate[Symbol.dispose]();
      using mapped = imported.importPointer(buffer.exportPointer(), byteLength);
      assertFilled(mapped, 8);
      mapped.free();
      imported[Symbol.dispose]();
      if (round > 0) assertEquals(difference(before, countResources()), "");
    }
  },
);

testOnEachDriver(
  "a message with a closed handle is not sent, and a valid handle beside it stays open",
  async (cuda) => {
    using pool = createPool(cuda, "device");
    using good = pool.exportHandle();
    const closed = pool.exportHandle();
    closed[Symbol.dispose]();
    const folder = mkdtempSync("/tmp/poolpass-test-");
    try {
      await using listener = UnixListener.listen(`${folder}/socket`);
      await using near = await UnixSocket.connect(listener.path);
      await using far = await listener.accept();
      await assertRejects(() => near.send(Uint8Array.of(1), { handles: [good, closed] }), ReferenceError, "disposed");
      await near.send(Uint8Array.of(2), { handles: [good] });
      const { bytes, handles } = await far.receive(1, { handles: 1 });
      using received = handles[0]!;
      assertEquals(bytes[0], 2);
      using _imported = cuda.device(0).importPool(received);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);

testOnEachDriver(
  "access to an imported pool is granted, queried and revoked, without affecting the exporter's access",
  async (cuda) => {
    const [peer, owner] = [cuda.device(0), cuda.device(1)];
    if (!peer.canAccessPeer(owner)) return;
    using pool = owner.createPool({ handleType: "posix-fd" });
    pool.setAccess(peer, "read-write");
    using buffer = pool.allocate(byteLength);
    buffer.fill(1);
    await owner.finished();
    using handle = pool.exportHandle();
    assertThrows(() => peer.importPool(handle), RangeError, "its memory is on device 1");
    using imported = owner.importPool(handle);
    assert(imported.device === owner);
    assertEquals(imported.getAccess(peer), "none");
    using mapped = imported.importPointer(buffer.exportPointer(), byteLength);
    imported.setAccess(peer, "read-write");
    assertEquals(imported.getAccess(peer), "read-write");
    using module = peer.loadModule(ptx);
    using stream = peer.createStream();
    const fill = module.kernel("fill");
    fill.launch({ grid: 1, block: 64, stream }, mapped, byteLength, 0x02020202);
    await stream.finished();
    assertEquals(await buffer.read(Uint8Array), new Uint8Array(byteLength).fill(2));
    imported.setAccess(peer, "none");
    assertEquals([imported.getAccess(peer), pool.getAccess(peer)], ["none", "read-write"]);
    fill.launch({ grid: 1, block: 64, stream }, buffer, byteLength, 0x03030303);
    await stream.finished();
    assertEquals(await mapped.read(Uint8Array), new Uint8Array(byteLength).fill(3));
  },
  { devices: 2 },
);

for (const { name, skip } of driversUnderTest) {
  test(
    `a process without free descriptors fails with the reason, leaks none, and shares again once there are some [${name}]`,
    {
      skip,
    },
    async () => {
      await using child = startScript("children/memory/counterpart_few_descriptors.ts", [name], {
        permissions: ["--allow-all"],
        descriptorLimit: 200,
      });
      const lines = await remainingLines(child);
      assertEquals(await child.ended, 0, await child.errors());
      const [before, create, exported, imported, left, after] = lines as [
        string,
        string,
        string,
        string,
        string,
        string,
      ];
      assertEquals([before, left, after], ["before: 4", "left: ", "after: 4"]);
      // Drivers differ in which calls need descriptors.
      const answer = name === "software"
        ? /^\w+: CudaError cudaErrorOperatingSystem Cannot .*EMFILE.*; the process may have run out of file descriptors: .* ulimit -n/
        : /^\w+: (none$|CudaError cudaError\w+ Cannot )/;
      for (const line of [create, exported, imported]) assertMatch(line, answer);
    },
  );
}

for (const place of places) {
  testSoftware(
    `threads and Cuda objects of one process map its ${place} memory at the same time, independently`,
    async (cuda) => {
      using pool = createPool(cuda, place);
      using buffer = allocateFilled(cuda, pool, 6);
      using handle = pool.exportHandle();
      const exportData = buffer.exportPointer();
      const workerData = { driverName: "software", fd: handle.fd, exportData, byteLength };
      const expected = { pid: process.pid, seen: [6] };
      assertEquals(await runThread("children/memory/counterpart_thread.ts", workerData), expected);
      const before = countSharing();
      const seen = await Promise.all(
        [1, 2, 3].map(() => runThread("children/memory/counterpart_thread.ts", workerData)),
      );
      assertEquals(seen, [expected, expected, expected]);
      {
        using others = new DisposableStack();
        const mapped = [1, 2].map(() => {
          const other = others.use(new Cuda(new Session(new SoftwareDriver({ devices: 2, peers: true }))));
          return others.use(others.use(other.device(0).importPool(handle)).importPointer(exportData, byteLength));
        });
        mapped[0]!.free();
        mapped[0]!.device.synchronize();
        assertFilled(mapped[1]!, 6);
      }
      assertEquals(difference(before, countSharing()), "");
    },
    { long: true },
  );
}

/** The resources held for sharing. A thread's own resources are released some time after it ends. */
function countSharing(): Resources {
  return new Map([...countResources()].filter(([kind]) => ["memfd", "mapping", "pidfd"].includes(kind)));
}

/** Runs a thread to its end and returns what it posted. */
function runThread(path: string, workerData: unknown): Promise<unknown> {
  const worker = new Worker(new URL(path, new URL("../../", import.meta.url)), { workerData });
  return new Promise((resolve, reject) => {
    let said: unknown;
    worker.on("message", (message) => said = message);
    worker.on("error", reject);
    worker.on("exit", () => resolve(said));
  });
}
