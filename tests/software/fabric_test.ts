import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { memAccessFlags, memHandleType, type MemLocation, memLocationType } from "../../src/driver.ts";
import { decodeFabricHandle, encodeFabricHandle } from "../../src/software/memory/fabric.ts";
import { encodePoolFileHeader } from "../../src/software/memory/shared_file.ts";
import { closeDescriptor } from "../../ffi/native/shim/descriptors.ts";
import { ShareableHandle } from "../../src/memory/handles/shareable_handle.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { CudaError } from "../../src/support/errors.ts";
import { noPython, startHostile } from "../sharing/hostile/hostile_peers.ts";
import { remainingLines } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { leakTest } from "../support/resources.ts";
import { codeOf, launchFill, readBytes } from "../support/software_calls.ts";
import { someOf } from "../support/test.ts";
import { type SoftwarePeer, startSoftwarePeer, testInFabric } from "./peers.ts";

const { fabric, posixFileDescriptor } = memHandleType;
const location: MemLocation = { type: memLocationType.device, id: 0 };
const poolProps = { handleTypes: fabric, location, maxSize: 0n };
const memoryProps = { handleTypes: fabric, location };
const granularity = 2 * 2 ** 20;
const sysfs = "/sys/kernel";

/** Allocates memory in the other process, from a new pool, and fills it with 1. */
async function exportPool(peer: SoftwarePeer, byteLength = 100_000) {
  const pool = await peer.call("memPoolCreate", poolProps) as bigint;
  const address = await peer.call("mallocFromPoolAsync", 0, byteLength, pool, 0n) as bigint;
  await peer.call("memsetAsync", 0, address, 1, byteLength, 0n);
  await peer.call("deviceSynchronize", 0);
  const handle = await peer.call("memPoolExportToShareableHandle", pool, fabric) as Uint8Array;
  const pointer = await peer.call("memPoolExportPointer", address) as Uint8Array;
  return { pool, address, handle, pointer };
}

function importPool(driver: SoftwareDriver, handle: Uint8Array): bigint {
  return driver.memPoolImportFromShareableHandle(0, handle, fabric);
}

/** Creates memory in the other process, filled with 1. */
async function exportMemory(peer: SoftwarePeer) {
  const memory = await peer.call("memCreate", memoryProps, granularity) as bigint;
  const address = await peer.call("memAddressReserve", granularity, 0) as bigint;
  await peer.call("memMap", address, granularity, memory);
  await peer.call("memSetAccess", address, granularity, [{ location, flags: memAccessFlags.readWrite }]);
  await peer.call("memsetAsync", 0, address, 1, granularity, 0n);
  await peer.call("deviceSynchronize", 0);
  const handle = await peer.call("memExportToShareableHandle", memory, fabric) as Uint8Array;
  return { memory, address, handle };
}

function mapMemory(driver: SoftwareDriver, memory: bigint): bigint {
  const address = driver.memAddressReserve(granularity, 0);
  driver.memMap(address, granularity, memory);
  driver.memSetAccess(address, granularity, [{ location, flags: memAccessFlags.readWrite }]);
  return address;
}

function unmapMemory(driver: SoftwareDriver, address: bigint): void {
  driver.memUnmap(address, granularity);
  driver.memAddressFree(address, granularity);
}

/** The message of the error that a call throws, with its code. */
function messageOf(call: () => unknown): string {
  const error = assertThrows(call, CudaError);
  return `${error.code}: ${error.message}`;
}

testInFabric("two processes with the same folder have the same bytes of a pool", async ({ driver, peer, folder }) => {
  const { pool, address: theirs, handle, pointer } = await exportPool(peer);
  assertEquals(handle.length, 64);
  assertEquals(readdirSync(folder).length, 1);
  assertEquals(await peer.call("memPoolExportToShareableHandle", pool, fabric), handle);
  const imported = importPool(driver, handle);
  assertEquals(importPool(driver, handle), imported);
  driver.memPoolDestroy(imported);
  const ours = driver.memPoolImportPointer(0, imported, pointer);
  assertEquals(readBytes(driver, ours, 100_000), new Uint8Array(100_000).fill(1));
  launchFill(driver, 0, { address: ours, byteLength: 100_000 });
  driver.deviceSynchronize(0);
  assertEquals(await peer.call("read", theirs, 100_000), new Uint8Array(100_000).fill(5));
  driver.freeAsync(0, ours, 0n);
  driver.memPoolDestroy(imported);
  await peer.call("freeAsync", 0, theirs, 0n);
  await peer.call("memPoolDestroy", pool);
  await peer.call("deviceSynchronize", 0);
  assertEquals(readdirSync(folder), []);
});

testInFabric("two processes with the same folder have the same bytes of memory", async ({ driver, peer, folder }) => {
  const { memory, address: theirs, handle } = await exportMemory(peer);
  assertEquals(handle.length, 64);
  const imported = driver.memImportFromShareableHandle(handle, fabric);
  assertEquals(codeOf(() => driver.memExportToShareableHandle(imported, fabric)), "cudaErrorInvalidValue");
  const ours = mapMemory(driver, imported);
  driver.memRelease(imported);
  assertEquals(readBytes(driver, ours, granularity), new Uint8Array(granularity).fill(1));
  launchFill(driver, 0, { address: ours + BigInt(granularity - 4), byteLength: 4 });
  driver.deviceSynchronize(0);
  assertEquals(await peer.call("read", theirs + BigInt(granularity - 8), 8), Uint8Array.of(1, 1, 1, 1, 5, 5, 5, 5));
  // A mapping keeps memory as a handle does.
  await peer.call("memRelease", memory);
  driver.memRelease(driver.memImportFromShareableHandle(handle, fabric));
  unmapMemory(driver, ours);
  await peer.call("memUnmap", theirs, granularity);
  assertEquals(readdirSync(folder), []);
  assertMatch(
    messageOf(() => driver.memImportFromShareableHandle(handle, fabric)),
    /^cudaErrorInvalidResourceHandle: .*its exporter has ended, or has given up the memory/,
  );
});

testInFabric("what an importer has mapped stays when its exporter is killed", async ({ driver, peer, folder }) => {
  const [first, memory] = [await exportPool(peer), await exportMemory(peer)];
  const pool = importPool(driver, first.handle);
  const address = driver.memPoolImportPointer(0, pool, first.pointer);
  const mapped = mapMemory(driver, driver.memImportFromShareableHandle(memory.handle, fabric));
  const second = await peer.call("mallocFromPoolAsync", 0, 4096, first.pool, 0n) as bigint;
  await peer.call("deviceSynchronize", 0);
  const secondPointer = await peer.call("memPoolExportPointer", second) as Uint8Array;
  await peer.kill();
  assertEquals(readdirSync(folder).length, 2);
  // Nobody takes away the pages, so that no access ends the process.
  assertEquals(readBytes(driver, address, 100_000), new Uint8Array(100_000).fill(1));
  launchFill(driver, 0, { address: mapped, byteLength: granularity });
  launchFill(driver, 0, { address, byteLength: 100_000 });
  driver.deviceSynchronize(0);
  assertEquals(readBytes(driver, mapped + BigInt(granularity - 1), 1), Uint8Array.of(5));
  assertMatch(
    messageOf(() => driver.memPoolImportPointer(0, pool, secondPointer)),
    /^cudaErrorInvalidResourceHandle: .*the exporter of the pool has ended/,
  );
  assertEquals(codeOf(() => importPool(driver, first.handle)), "cudaErrorInvalidResourceHandle");
  assertEquals(
    codeOf(() => driver.memImportFromShareableHandle(memory.handle, fabric)),
    "cudaErrorInvalidResourceHandle",
  );
  // The imports have removed the files that were left behind.
  assertEquals(readdirSync(folder), []);
  driver.freeAsync(0, address, 0n);
  driver.memPoolDestroy(pool);
  unmapMemory(driver, mapped);
});

testInFabric("what an importer has mapped stays when its exporter destroys the pool", async ({ driver, peer }) => {
  const { pool: theirs, address, handle, pointer } = await exportPool(peer);
  const pool = importPool(driver, handle);
  const mapped = driver.memPoolImportPointer(0, pool, pointer);
  await peer.call("freeAsync", 0, address, 0n);
  await peer.call("memPoolDestroy", theirs);
  await peer.call("deviceSynchronize", 0);
  assertEquals(readBytes(driver, mapped, 100_000), new Uint8Array(100_000).fill(1));
  assertEquals(codeOf(() => importPool(driver, handle)), "cudaErrorInvalidResourceHandle");
  driver.freeAsync(0, mapped, 0n);
  driver.memPoolDestroy(pool);
}, { long: true });

testInFabric("files that killed processes left are removed, and no others", async ({ driver, peer, folder }) => {
  const alive = await exportPool(peer);
  const killed = await startSoftwarePeer(folder);
  await exportPool(killed);
  await exportMemory(killed);
  await killed.kill();
  await killed[Symbol.asyncDispose]();
  const id = "0123456789abcdef".repeat(2);
  writeFileSync(`${folder}/.poolpass-${"0".repeat(16)}`, "somebody's own");
  writeFileSync(`${folder}/poolpass-fabric-${id}.txt`, "somebody's own");
  symlinkSync("/etc/passwd", `${folder}/poolpass-fabric-${id}`);
  mkdirSync(`${folder}/poolpass-fabric-${"0".repeat(32)}`);
  assertEquals(readdirSync(folder).length, 7);
  const pool = importPool(driver, alive.handle);
  assertEquals(
    readdirSync(folder).toSorted(),
    [
      `.poolpass-${"0".repeat(16)}`,
      `poolpass-fabric-${"0".repeat(32)}`,
      `poolpass-fabric-${id}`,
      `poolpass-fabric-${id}.txt`,
      `poolpass-fabric-${decodeFabricHandle(alive.handle)!.id}`,
    ].toSorted(),
  );
  driver.memPoolDestroy(pool);
});

testInFabric("nobody can make memory of a fabric shorter, and so end those who have mapped it", async (parts) => {
  const { driver, peer, folder } = parts;
  const [pool, memory] = [await exportPool(peer), await exportMemory(peer)];
  const imported = importPool(driver, pool.handle);
  const ours = driver.memPoolImportPointer(0, imported, pool.pointer);
  const mapped = mapMemory(driver, driver.memImportFromShareableHandle(memory.handle, fabric));
  await using attacker = startHostile("fabric_peers.py", ["shorten", folder]);
  assertEquals([await remainingLines(attacker), await attacker.errors()], [["sealed", "sealed"], ""]);
  assertEquals(readBytes(driver, ours, 100_000), new Uint8Array(100_000).fill(1));
  assertEquals(readBytes(driver, mapped, granularity), new Uint8Array(granularity).fill(1));
  assertEquals(await peer.call("read", pool.address, 100_000), new Uint8Array(100_000).fill(1));
  assertEquals(await peer.call("read", memory.address, 8), new Uint8Array(8).fill(1));
  driver.freeAsync(0, ours, 0n);
  driver.memPoolDestroy(imported);
  unmapMemory(driver, mapped);
}, { skip: noPython });

testInFabric("memory that is not sealed, and a peer that gives none, are refused in time", async (parts) => {
  const { driver, peer, folder } = parts;
  const { handle, pool } = await exportPool(peer);
  const { deviceUuid } = decodeFabricHandle(handle)!;
  const header = encodePoolFileHeader({ id: "00".repeat(16), deviceUuid, handleTypes: fabric, processId: 1 });
  await using stack = new AsyncDisposableStack();
  for (
    const [how, error] of [
      ["file", "cudaErrorInvalidResourceHandle"],
      ["path", "cudaErrorInvalidResourceHandle"],
      ["pipe", "cudaErrorInvalidResourceHandle"],
      ["other", "cudaErrorInvalidResourceHandle"],
      ["nothing", "cudaErrorOperatingSystem"],
    ] as const
  ) {
    const id = crypto.getRandomValues(new Uint8Array(16)).toHex();
    const forged = encodeFabricHandle({ ...decodeFabricHandle(handle)!, id });
    const args = ["serve", folder, `poolpass-fabric-${id}`, how, forged.toHex(), header.toHex()];
    // It takes root to become another user.
    if (how === "other" && process.getuid!() !== 0) continue;
    if (how === "other") chmodSync(folder, 0o777);
    const attacker = stack.use(startHostile("fabric_peers.py", args));
    assertEquals(await attacker.nextLine() ?? await attacker.errors(), "serving");
    const begin = performance.now();
    assertEquals(codeOf(() => importPool(driver, forged)), error, how);
    assert(performance.now() - begin < 2000, how);
  }
  // An honest one beside them is served meanwhile.
  const begin = performance.now();
  driver.memPoolDestroy(importPool(driver, handle));
  assert(performance.now() - begin < 2000);
  await peer.call("memPoolDestroy", pool);
}, { skip: noPython });

testInFabric("two exporters and their importers keep apart", async ({ driver, peer, folder }) => {
  const theirs = [await exportPool(peer), await exportPool(peer)] as const;
  const pool = driver.memPoolCreate(poolProps);
  const address = driver.mallocFromPoolAsync(0, 4096, pool, 0n);
  driver.memsetAsync(0, address, 9, 4096, 0n);
  driver.deviceSynchronize(0);
  const handle = driver.memPoolExportToShareableHandle(pool, fabric) as Uint8Array;
  assertEquals(readdirSync(folder).length, 3);
  const [first, second] = theirs.map(({ handle }) => importPool(driver, handle)) as [bigint, bigint];
  assert(first !== second);
  assertEquals(codeOf(() => driver.memPoolImportPointer(0, first, theirs[1].pointer)), "cudaErrorInvalidValue");
  const imported = await peer.call("memPoolImportFromShareableHandle", 0, handle, fabric) as bigint;
  const mapped = await peer.call("memPoolImportPointer", 0, imported, driver.memPoolExportPointer(address)) as bigint;
  assertEquals(await peer.call("read", mapped, 4096), new Uint8Array(4096).fill(9));
  driver.close();
  assertEquals(readdirSync(folder).length, 2);
});

testInFabric("memory that an importer has mapped is not reused when it is freed", async ({ driver, peer }) => {
  const { pool: theirs, address, handle, pointer } = await exportPool(peer, 32 * 2 ** 20);
  const pool = importPool(driver, handle);
  const mapped = driver.memPoolImportPointer(0, pool, pointer);
  await peer.call("freeAsync", 0, address, 0n);
  await peer.call("deviceSynchronize", 0);
  const next = await peer.call("mallocFromPoolAsync", 0, 32 * 2 ** 20, theirs, 0n) as bigint;
  await peer.call("memsetAsync", 0, next, 3, 32 * 2 ** 20, 0n);
  await peer.call("deviceSynchronize", 0);
  assertEquals(readBytes(driver, mapped, 4), Uint8Array.of(1, 1, 1, 1));
  driver.freeAsync(0, mapped, 0n);
  driver.memPoolDestroy(pool);
}, { long: true });

testInFabric("a handle is checked in every byte", async ({ driver, peer }) => {
  const { handle } = await exportPool(peer);
  const { handle: memory } = await exportMemory(peer);
  for (const at of someOf(Array.from({ length: 64 }, (_, at) => at), 5)) {
    for (const flipped of [1, 0x80, 0xff]) {
      const [damagedPool, damagedMemory] = [handle.slice(), memory.slice()];
      damagedPool[at]! ^= flipped;
      damagedMemory[at]! ^= flipped;
      assertEquals(codeOf(() => importPool(driver, damagedPool)), "cudaErrorInvalidValue", `byte ${at}`);
      assertEquals(
        codeOf(() => driver.memImportFromShareableHandle(damagedMemory, fabric)),
        "cudaErrorInvalidValue",
        `byte ${at}`,
      );
    }
  }
  for (const bytes of [new Uint8Array(64), new Uint8Array(64).fill(255), handle.slice(1), new Uint8Array(0)]) {
    assertMatch(messageOf(() => importPool(driver, bytes)), /^cudaErrorInvalidValue: .*no fabric handle/);
  }
  // A checksum that is right does not help: the file has the same bytes.
  const decoded = decodeFabricHandle(handle)!;
  for (
    const changed of [
      { id: "00".repeat(16) },
      { deviceUuid: new Uint8Array(16).fill(7) },
      { byteLength: 4096 },
    ]
  ) {
    const forged = encodeFabricHandle({ ...decoded, ...changed });
    assertEquals(codeOf(() => importPool(driver, forged)), "cudaErrorInvalidResourceHandle");
  }
  const elsewhere = encodeFabricHandle({ ...decoded, folder: decoded.folder + 1n });
  assertEquals(codeOf(() => importPool(driver, elsewhere)), "cudaErrorNotPermitted");
  // The handle of one kind is no handle of the other.
  assertMatch(messageOf(() => importPool(driver, memory)), /^cudaErrorNotSupported: .*import it as memory/);
  assertMatch(
    messageOf(() => driver.memImportFromShareableHandle(handle, fabric)),
    /^cudaErrorNotSupported: .*import it as a pool/,
  );
  assertEquals(codeOf(() => driver.memPoolImportFromShareableHandle(0, 5, fabric)), "cudaErrorInvalidValue");
  driver.memPoolDestroy(importPool(driver, handle));
});

testInFabric("a handle of another folder is refused, with what to do", async ({ peer }) => {
  const { handle } = await exportPool(peer);
  await inFolder((other) => {
    const driver = new SoftwareDriver({ devices: 1, peers: true, fabric: other });
    try {
      assertMatch(
        messageOf(() => importPool(driver, handle)),
        /^cudaErrorNotPermitted: .*another folder in POOLPASS_SOFTWARE_FABRIC than .*: name the same in both processes/,
      );
    } finally {
      driver.close();
    }
    return Promise.resolve();
  });
  const without = new SoftwareDriver({ devices: 1, peers: true });
  try {
    assertMatch(messageOf(() => importPool(without, handle)), /^cudaErrorNotSupported: .*POOLPASS_SOFTWARE_FABRIC/);
  } finally {
    without.close();
  }
});

testInFabric("a device that the importer does not see is refused", async ({ peer, folder }) => {
  const pool = await peer.call("memPoolCreate", { ...poolProps, location: { ...location, id: 1 } }) as bigint;
  const handle = await peer.call("memPoolExportToShareableHandle", pool, fabric) as Uint8Array;
  const memory = await peer.call("memCreate", { ...memoryProps, location: { ...location, id: 1 } }, granularity);
  const memoryHandle = await peer.call("memExportToShareableHandle", memory, fabric) as Uint8Array;
  const driver = new SoftwareDriver({ devices: 1, peers: true, fabric: folder });
  try {
    assertEquals(codeOf(() => importPool(driver, handle)), "cudaErrorInvalidDevice");
    assertEquals(codeOf(() => driver.memImportFromShareableHandle(memoryHandle, fabric)), "cudaErrorInvalidDevice");
  } finally {
    driver.close();
  }
}, { long: true });

/** Calls the body with a driver whose fabric is a folder. */
function withFabric(folder: string, body: (driver: SoftwareDriver) => void): void {
  const driver = new SoftwareDriver({ devices: 1, peers: true, fabric: folder });
  try {
    body(driver);
  } finally {
    driver.close();
  }
}

leakTest("a pool can be created, but not exported, in a folder that cannot be used", () =>
  inFolder((folder) => {
    writeFileSync(`${folder}/file`, "");
    chmodSync(folder, 0o500);
    // For root, no folder of its own is read-only.
    const readOnly = process.getuid!() === 0 ? sysfs : folder;
    for (
      const [path, reason] of [
        [`${folder}/missing`, /there is no such folder/],
        [`${folder}/file`, /it is no folder/],
        [readOnly, /may not create files there|read-only/],
      ] as const
    ) {
      withFabric(path, (driver) => {
        const pool = driver.memPoolCreate(poolProps);
        const address = driver.mallocFromPoolAsync(0, 4096, pool, 0n);
        driver.memsetAsync(0, address, 1, 4096, 0n);
        driver.freeAsync(0, address, 0n);
        for (
          const refused of [
            () => driver.memPoolExportToShareableHandle(pool, fabric),
            () => driver.memCreate(memoryProps, granularity),
          ]
        ) {
          const message = messageOf(refused);
          assertMatch(message, /^cudaErrorNotPermitted: .*POOLPASS_SOFTWARE_FABRIC names/);
          assertMatch(message, reason);
        }
        driver.memPoolDestroy(pool);
      });
    }
    chmodSync(folder, 0o700);
    return Promise.resolve();
  }));

leakTest(
  "memory that can be shared by both has a fabric handle only, and a pool has either",
  () =>
    inFolder((folder) => {
      withFabric(folder, (driver) => {
        const pool = driver.memPoolCreate({ ...poolProps, handleTypes: fabric | posixFileDescriptor });
        const memory = driver.memCreate({ ...memoryProps, handleTypes: fabric | posixFileDescriptor }, granularity);
        assertEquals((driver.memPoolExportToShareableHandle(pool, fabric) as Uint8Array).length, 64);
        assertEquals((driver.memExportToShareableHandle(memory, fabric) as Uint8Array).length, 64);
        const refused = () => driver.memExportToShareableHandle(memory, posixFileDescriptor);
        assertMatch(messageOf(refused), /^cudaErrorNotSupported: .*no descriptor/);
        const descriptor = driver.memPoolExportToShareableHandle(pool, posixFileDescriptor) as number;
        driver.memPoolDestroy(driver.memPoolImportFromShareableHandle(0, descriptor, posixFileDescriptor));
        closeDescriptor(descriptor);
        const imported = importPool(driver, driver.memPoolExportToShareableHandle(pool, fabric) as Uint8Array);
        driver.memPoolDestroy(pool);
        driver.memPoolDestroy(imported);
        driver.memRelease(memory);
        assertEquals(readdirSync(folder), []);
      });
      return Promise.resolve();
    }),
);

leakTest("a driver that closes leaves no file, whatever was not disposed", () =>
  inFolder((folder) => {
    withFabric(folder, (driver) => {
      const pool = driver.memPoolCreate(poolProps);
      driver.mallocFromPoolAsync(0, 4096, pool, 0n);
      mapMemory(driver, driver.memCreate(memoryProps, granularity));
      assertEquals(readdirSync(folder).length, 2);
    });
    assertEquals(readdirSync(folder), []);
    return Promise.resolve();
  }));

testInFabric("a process that is killed while it exports leaves only what the next one removes", async ({ folder }) => {
  for (let round = 0; round < 3; round++) {
    const peer = await startSoftwarePeer(folder);
    await exportPool(peer, 4096);
    const last = exportPool(peer, 4096).catch(() => {});
    await peer.kill();
    await last;
    await peer[Symbol.asyncDispose]();
  }
  assert(readdirSync(folder).length > 0);
  withFabric(folder, (driver) => {
    driver.memPoolDestroy(driver.memPoolCreate(poolProps));
    assertEquals(readdirSync(folder), []);
  });
}, { long: true });

testInFabric("an importer of memory that has gone says so", async ({ peer }) => {
  const { memory, address, handle } = await exportMemory(peer);
  await peer.call("memUnmap", address, granularity);
  await peer.call("memRelease", memory);
  await assertRejects(
    () => peer.call("memImportFromShareableHandle", handle, fabric),
    Error,
    "cudaErrorInvalidResourceHandle",
  );
}, { long: true });

const noMounts = process.getuid!() !== 0 || spawnSync("unshare", ["-m", "true"]).status !== 0
  ? "no mount namespaces for this user"
  : false;

leakTest(
  "processes in other PID namespaces are in one fabric, and see who has ended",
  () =>
    inFolder(async (folder) => {
      const peer = await startSoftwarePeer(folder, { namespaces: ["-mpf", "--mount-proc", "--kill-child"] });
      const driver = new SoftwareDriver({ devices: 2, peers: true, fabric: folder });
      try {
        const { handle, pointer } = await exportPool(peer);
        const pool = importPool(driver, handle);
        const address = driver.memPoolImportPointer(0, pool, pointer);
        assertEquals(readBytes(driver, address, 100_000), new Uint8Array(100_000).fill(1));
        driver.freeAsync(0, address, 0n);
        driver.memPoolDestroy(pool);
        await peer.kill();
        // The namespace's processes end a moment after the one that has started them.
        for (;;) {
          try {
            driver.memPoolDestroy(importPool(driver, handle));
            await new Promise((resolve) => setTimeout(resolve, 5));
          } catch (error) {
            assertEquals((error as CudaError).code, "cudaErrorInvalidResourceHandle");
            break;
          }
        }
      } finally {
        await peer[Symbol.asyncDispose]();
        driver.close();
      }
    }),
  { skip: noMounts, long: true },
);

testInFabric("the public objects share pools and memory by fabric handles", async ({ driver, peer }) => {
  const [pool, memory] = [await exportPool(peer), await exportMemory(peer)];
  const other = new SoftwareDriver({ devices: 1, peers: true });
  {
    using cuda = new Cuda(new Session(driver));
    const gpu = cuda.device(0);
    using imported = gpu.importPool(ShareableHandle.fromBytes(pool.handle));
    using buffer = imported.importPointer(pool.pointer, 100_000);
    assertEquals(await buffer.read(Uint8Array), new Uint8Array(100_000).fill(1));
    using mapped = gpu.importMemory(ShareableHandle.fromBytes(memory.handle), granularity);
    using range = cuda.reserveAddresses(granularity);
    assertEquals((await range.map(mapped).read(Uint8Array, { length: 1 }))[0], 1);
    assertMatch(
      messageOf(() => gpu.importPool(ShareableHandle.fromBytes(new Uint8Array(64)))),
      /^cudaErrorInvalidValue: Cannot import a pool from a fabric handle: .*; it must come from exportHandle of a pool/,
    );
  }
  using cuda = new Cuda(new Session(other));
  const gpu = cuda.device(0);
  using unshared = gpu.createPool({ handleType: "fabric" });
  for (const refused of [() => unshared.exportHandle(), () => gpu.createMemory(1, { handleType: "fabric" })]) {
    assertMatch(
      messageOf(refused),
      /^cudaErrorNotPermitted: Cannot (export|create) .*POOLPASS_SOFTWARE_FABRIC.*; a fabric handle needs an IMEX channel/,
    );
  }
});
