/**
 * Rows about pools through the public objects, where the driver's own behavior is undefined or a crash.
 *
 * @module
 */
import { openSync } from "node:fs";
import { Cuda } from "../../../src/objects/cuda.ts";
import type { CudaDevice } from "../../../src/objects/cuda_device.ts";
import type { DeviceBuffer } from "../../../src/memory/device_buffer.ts";
import type { ImportedMemoryPool } from "../../../src/memory/handles/imported_memory_pool.ts";
import type { MemoryPool } from "../../../src/memory/pools/memory_pool.ts";
import { Session } from "../../../src/session.ts";
import { ShareableHandle } from "../../../src/memory/handles/shareable_handle.ts";
import { attemptEach } from "../attempts.ts";
import { prepareLongWork } from "../long_work.ts";
import { mebibyte } from "../pools.ts";
import { exporterTask } from "../pool_peers.ts";
import type { Fixture, Situation } from "../situation.ts";

type PoolUse = (pool: MemoryPool, gpu: CudaDevice) => void;

const usesOfPools: Readonly<Record<string, PoolUse>> = {
  "allocated from": (pool) => pool.allocate(1024),
  "asked for its usage": (pool) => pool.usage(),
  "given a release threshold": (pool) => pool.releaseThreshold = 0,
  "given a reuse policy": (pool) => pool.reuse.allowOpportunistic = false,
  "trimmed": (pool) => pool.trimTo(0),
  "asked for access": (pool, gpu) => pool.getAccess(gpu),
  "given access": (pool, gpu) => pool.setAccess(gpu, "read-write"),
  "exported": (pool) => pool.exportHandle(),
  "made current": (pool, gpu) => gpu.currentPool = pool,
  "disposed again": (pool) => pool[Symbol.dispose](),
};

/** The rows of this file. */
export const situations: readonly Situation[] = [
  ...Object.entries(usesOfPools).map(([name, use]): Situation => ({
    name: `a disposed pool ${name}`,
    run(fixture) {
      const gpu = firstDevice(fixture);
      const pool = gpu.createPool({ handleType: "posix-fd" });
      pool[Symbol.dispose]();
      use(pool, gpu);
    },
  })),
  {
    name: "a disposed imported pool used, and disposed again",
    run(fixture) {
      const { gpu, imported, buffer, exportData } = shareWithSelf(fixture);
      buffer.free();
      imported[Symbol.dispose]();
      return attemptEach({
        "imported into": () => imported.importPointer(exportData, 1),
        "asked for access": () => imported.getAccess(gpu),
        "given access": () => imported.setAccess(gpu, "read-write"),
        "disposed again": () => imported[Symbol.dispose](),
      });
    },
  },
  {
    name: "an imported pool disposed while a buffer is mapped",
    run(fixture) {
      const { imported, buffer } = shareWithSelf(fixture);
      return attemptEach({
        dispose: () => imported[Symbol.dispose](),
        read: () => buffer.readSync(Uint8Array, { length: 1 })[0]!,
        free: () => buffer.free(),
        "dispose again": () => imported[Symbol.dispose](),
      });
    },
  },
  {
    name: "an imported pool disposed while the stream that frees its buffer is busy",
    run(fixture) {
      const { gpu, imported, buffer } = shareWithSelf(fixture);
      const work = prepareLongWork(fixture.driver, 0);
      const stream = gpu.createStream({ nonBlocking: true });
      work.keepBusy(stream.unsafeHandle);
      buffer.free(stream);
      const isBusy = !stream.query();
      imported[Symbol.dispose]();
      return { isBusy, isDone: stream.query() };
    },
  },
  {
    name: "a pool disposed while the stream that frees its buffer is busy, and another after it",
    run(fixture) {
      const gpu = firstDevice(fixture);
      const work = prepareLongWork(fixture.driver, 0);
      const stream = gpu.createStream({ nonBlocking: true });
      const [pool, next] = [gpu.createPool(), gpu.createPool()];
      const buffer = pool.allocate(mebibyte, stream);
      gpu.synchronize();
      work.keepBusy(stream.unsafeHandle);
      buffer.free();
      pool[Symbol.dispose]();
      next[Symbol.dispose]();
      return stream.query();
    },
  },
  {
    name: "a buffer used and freed after its pool was disposed, and another pool after it",
    run(fixture) {
      const gpu = firstDevice(fixture);
      const pool = gpu.createPool();
      const buffer = pool.allocate(mebibyte);
      pool[Symbol.dispose]();
      return attemptEach({
        fill: () => buffer.fill(3),
        read: () => buffer.readSync(Uint8Array, { length: 1 })[0]!,
        free: () => buffer.free(),
        "another pool": () => gpu.createPool()[Symbol.dispose](),
      });
    },
  },
  {
    name: "a freed buffer used",
    run(fixture) {
      const gpu = firstDevice(fixture);
      const pool = gpu.createPool({ handleType: "posix-fd" });
      pool.exportHandle();
      const buffer = pool.allocate(mebibyte);
      buffer.free();
      return attemptEach({
        address: () => buffer.address > 0n,
        fill: () => buffer.fill(0),
        "copy into": () => buffer.copyFrom(new Uint8Array(1)),
        "export its pointer": () => buffer.exportPointer(),
        "take a part": () => buffer.subarray(0, 1),
        free: () => buffer.free(),
        dispose: () => buffer[Symbol.dispose](),
      });
    },
  },
  {
    name: "a part of a buffer freed",
    run(fixture) {
      const buffer = firstDevice(fixture).createPool().allocate(2 * mebibyte);
      const part = buffer.subarray(mebibyte);
      return attemptEach({ part: () => part.free(), whole: () => buffer.free(), "use the part": () => part.fill(0) });
    },
  },
  {
    name: "sizes that no allocation can have",
    run(fixture) {
      const pool = firstDevice(fixture).createPool();
      return attemptEach({
        "0": () => pool.allocate(0),
        "-1": () => pool.allocate(-1),
        "half": () => pool.allocate(0.5),
        "not a number": () => pool.allocate(NaN),
        "text": () => pool.allocate("1" as unknown as number),
        "2 ** 50": () => pool.allocate(2 ** 50),
        "Infinity": () => pool.allocate(Infinity),
      });
    },
  },
  {
    name: "properties that no pool can have",
    run(fixture) {
      const gpu = firstDevice(fixture);
      return attemptEach({
        "an unknown handle type": () => gpu.createPool({ handleType: "win32" as "none" }),
        "a negative maxSize": () => gpu.createPool({ maxSize: -1 }),
        "an infinite maxSize": () => gpu.createPool({ maxSize: Infinity }),
        "a negative release threshold": () => gpu.createPool({ releaseThreshold: -1 }),
        "an unknown access": () => gpu.createPool().setAccess(gpu, "write" as "read"),
        "a negative trim": () => gpu.createPool().trimTo(-1),
      });
    },
  },
  {
    name: "a pool with a maxSize that the driver does not survive, through the objects",
    run: (fixture) => void firstDevice(fixture).createPool({ maxSize: 2 ** 64 }),
  },
  {
    name: "a pool that is not to be shared exported through the objects",
    run(fixture) {
      const pool = firstDevice(fixture).createPool();
      return attemptEach({
        handle: () => pool.exportHandle(),
        pointer: () => pool.allocate(1024).exportPointer(),
      });
    },
  },
  {
    name: "the default pool disposed, and used afterwards",
    run(fixture) {
      const gpu = firstDevice(fixture);
      gpu.defaultPool[Symbol.dispose]();
      return attemptEach({ allocate: () => gpu.defaultPool.allocate(1024).free() });
    },
  },
  {
    name: "a pool of another device made current through the objects",
    devices: 2,
    run: (fixture) => {
      const cuda = new Cuda(new Session(fixture.driver));
      cuda.device(0).currentPool = cuda.device(1).createPool();
    },
  },
  {
    name: "export data that no pointer can be imported from",
    run(fixture) {
      const { imported, exportData } = shareWithSelf(fixture);
      return attemptEach({
        "too short": () => imported.importPointer(exportData.subarray(1), 1),
        "too long": () => imported.importPointer(new Uint8Array(65), 1),
        "zeros": () => imported.importPointer(new Uint8Array(64), 1),
      });
    },
  },
  {
    name: "more bytes of a pointer imported than its exporter has allocated",
    run(fixture) {
      const { imported, exportData, buffer } = shareWithSelf(fixture);
      return attemptEach({
        "all": () => imported.importPointer(exportData, mebibyte).byteLength,
        "none": () => imported.importPointer(exportData, 0),
        "twice as many": () => imported.importPointer(exportData, 2 * mebibyte),
        "what was mapped stays": () => buffer.readSync(Uint8Array, { length: 1 })[0]!,
      });
    },
  },
  {
    name: "one pointer imported twice through the objects, and freed twice",
    run(fixture) {
      const { imported, exportData, buffer } = shareWithSelf(fixture);
      const again = imported.importPointer(exportData, mebibyte);
      return attemptEach({
        isSame: () => again.address === buffer.address,
        first: () => buffer.free(),
        read: () => again.readSync(Uint8Array, { length: 1 })[0]!,
        second: () => again.free(),
        dispose: () => imported[Symbol.dispose](),
      });
    },
  },
  {
    name: "a handle that was disposed imported, and one whose descriptor is no pool's",
    run(fixture) {
      const gpu = firstDevice(fixture);
      const handle = gpu.createPool({ handleType: "posix-fd" }).exportHandle();
      handle[Symbol.dispose]();
      return attemptEach({
        disposed: () => gpu.importPool(handle),
        "no pool's": () => gpu.importPool(ShareableHandle.fromFd(openSync("/dev/null", "r"))),
        "a fabric handle of zeros": () => gpu.importPool(ShareableHandle.fromBytes(new Uint8Array(64))),
      });
    },
  },
  {
    name: "the buffer of an exporter that was killed, freed and its pool disposed",
    async run(fixture) {
      const gpu = firstDevice(fixture);
      const peer = await fixture.startPeer("exporter of a pool");
      const { bytes, descriptors } = await peer.ask(Uint8Array.of(exporterTask.share));
      const imported = gpu.importPool(ShareableHandle.fromFd(descriptors[0]!));
      const buffer = imported.importPointer(bytes, mebibyte);
      await peer.kill();
      return attemptEach({
        read: () => buffer.readSync(Uint8Array, { length: 1 })[0]!,
        free: () => buffer.free(),
        dispose: () => imported[Symbol.dispose](),
      });
    },
  },
];

function firstDevice({ driver }: Fixture): CudaDevice {
  return new Cuda(new Session(driver)).device(0);
}

/** Exports a buffer of one mebibyte, filled with 1, and imports it in the same process. */
function shareWithSelf(fixture: Fixture): {
  gpu: CudaDevice;
  imported: ImportedMemoryPool;
  buffer: DeviceBuffer;
  exportData: Uint8Array<ArrayBuffer>;
} {
  const gpu = firstDevice(fixture);
  const pool = gpu.createPool({ handleType: "posix-fd" });
  const imported = gpu.importPool(pool.exportHandle());
  const original = pool.allocate(mebibyte);
  original.fill(1);
  gpu.synchronize();
  const exportData = original.exportPointer();
  return { gpu, imported, buffer: imported.importPointer(exportData, mebibyte), exportData };
}
