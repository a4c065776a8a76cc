/**
 * Rows about pools that two processes share.
 *
 * @module
 */
import { defaultStream, type Driver, memAccessFlags } from "../../../src/driver.ts";
import { attemptEach, attemptEachAsync } from "../attempts.ts";
import { launchFill } from "../launch.ts";
import {
  allocateFilled,
  attributesOf,
  createShareablePool,
  exportPool,
  firstByte,
  free,
  importPool,
  mebibyte,
  onDevice,
  onFirstNode,
} from "../pools.ts";
import { exportedBytes, exporterTask, importedByte, importerTask } from "../pool_peers.ts";
import type { Fixture, Peer, Situation } from "../situation.ts";

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "memory of another process's pool read",
    async run(fixture) {
      const { mapping } = await importFromPeer(fixture);
      return firstByte(fixture.driver, mapping) === exportedBytes.first;
    },
  },
  {
    name: "memory of another process's pool written by a kernel",
    async run(fixture) {
      const { driver } = fixture;
      const { peer, mapping } = await importFromPeer(fixture);
      launchFill(driver, 0, { address: mapping, byteLength: mebibyte, pattern: 0x31313131 });
      driver.streamSynchronize(0, defaultStream);
      return (await request(peer, exporterTask.read)).bytes[0] === 0x31;
    },
  },
  {
    name: "the access and the attributes of another process's pool",
    async run(fixture) {
      const { imported } = await importFromPeer(fixture);
      return {
        access: fixture.driver.memPoolGetAccess(imported, onDevice(0)),
        attributes: attributesOf(fixture.driver, imported),
      };
    },
  },
  {
    name: "the exporter's access for a second device is not its importer's",
    devices: 2,
    async run(fixture) {
      const { peer, imported } = await importFromPeer(fixture);
      await request(peer, exporterTask.setAccess);
      return fixture.driver.memPoolGetAccess(imported, onDevice(1));
    },
  },
  {
    name: "a kernel of a second device that the importer gave access",
    devices: 2,
    async run(fixture) {
      const { driver } = fixture;
      const { peer, imported, mapping } = await importFromPeer(fixture);
      driver.memPoolSetAccess(imported, [{ location: onDevice(1), flags: memAccessFlags.readWrite }]);
      launchFill(driver, 1, { address: mapping, byteLength: mebibyte, pattern: 0x31313131 });
      driver.deviceSynchronize(1);
      return (await request(peer, exporterTask.read)).bytes[0] === 0x31;
    },
  },
  {
    name: "a pointer imported that was allocated after the pool was imported",
    async run(fixture) {
      const { driver } = fixture;
      const { peer, imported } = await importFromPeer(fixture);
      const { bytes } = await request(peer, exporterTask.shareAnother);
      return firstByte(driver, driver.memPoolImportPointer(0, imported, bytes)) === exportedBytes.second;
    },
  },
  {
    name: "memory that its exporter freed, read and freed by the importer",
    async run(fixture) {
      const { peer, mapping } = await importFromPeer(fixture);
      await request(peer, exporterTask.free);
      return readAndFree(fixture.driver, mapping);
    },
  },
  {
    name: "memory that its exporter freed and allocated again, read by the importer",
    async run(fixture) {
      const { driver } = fixture;
      const { peer, mapping } = await importFromPeer(fixture);
      await request(peer, exporterTask.free);
      await request(peer, exporterTask.shareAnother);
      return { isOld: firstByte(driver, mapping) === exportedBytes.first };
    },
  },
  {
    name: "memory of a pool that its exporter destroyed, read and freed by the importer",
    async run(fixture) {
      const { peer, mapping } = await importFromPeer(fixture);
      await request(peer, exporterTask.free);
      await request(peer, exporterTask.destroy);
      return readAndFree(fixture.driver, mapping);
    },
  },
  {
    name: "memory of an exporter that was killed, read and freed by the importer",
    async run(fixture) {
      const { peer, mapping } = await importFromPeer(fixture);
      await peer.kill();
      return readAndFree(fixture.driver, mapping);
    },
  },
  {
    name: "a pointer of an exporter that was killed imported into its pool",
    async run(fixture) {
      const { driver } = fixture;
      const { peer, imported } = await importFromPeer(fixture);
      const { bytes } = await request(peer, exporterTask.shareAnother);
      await peer.kill();
      return attemptEach({
        import: () => firstByte(driver, driver.memPoolImportPointer(0, imported, bytes)) === exportedBytes.second,
      });
    },
  },
  {
    name: "a pool of an exporter that was killed imported",
    async run(fixture) {
      const { driver } = fixture;
      const peer = await fixture.startPeer("exporter of a pool");
      const { descriptors } = await request(peer, exporterTask.share);
      await peer.kill();
      importPool(driver, descriptors[0]!);
    },
  },
  {
    name: "one pool imported by two other processes",
    async run(fixture) {
      const { driver } = fixture;
      const { address, importers: [one, other] } = await exportToPeers(fixture, 2);
      await request(one!, importerTask.write);
      const seen = (await request(other!, importerTask.read)).bytes[0] === importedByte;
      return { seenByOther: seen, seenByExporter: firstByte(driver, address) === importedByte };
    },
  },
  {
    name: "an exporter whose importer was killed frees and destroys",
    async run(fixture) {
      const { driver } = fixture;
      const { pool, address, importers: [importer] } = await exportToPeers(fixture, 1);
      await importer!.kill();
      return attemptEach({
        read: () => firstByte(driver, address),
        free: () => free(driver, address),
        wait: () => driver.streamSynchronize(0, defaultStream),
        destroy: () => driver.memPoolDestroy(pool),
      });
    },
  },
  {
    name: "an importer frees its mapping twice",
    async run(fixture) {
      const { importers: [importer] } = await exportToPeers(fixture, 1);
      return await attemptEachAsync({
        first: () => request(importer!, importerTask.free),
        second: () => request(importer!, importerTask.free),
      });
    },
  },
  {
    name: "memory of another process's host pool",
    async run(fixture) {
      const { driver } = fixture;
      const { peer, imported, mapping } = await importFromPeer(fixture, "exporter of a host pool");
      const seen = new Uint8Array(driver.hostView(mapping, mebibyte));
      const isRead = seen[mebibyte - 1] === exportedBytes.first;
      seen[0] = 0x31;
      return {
        isRead,
        isWritten: (await request(peer, exporterTask.read)).bytes[0] === 0x31,
        ...attemptEach({
          "access of the device": () => driver.memPoolGetAccess(imported, onDevice(0)),
          "access of the node": () => driver.memPoolGetAccess(imported, onFirstNode),
        }),
      };
    },
  },
  {
    name: "a kernel on memory of another process's host pool before its device has access",
    async run(fixture) {
      const { driver } = fixture;
      const { mapping } = await importFromPeer(fixture, "exporter of a host pool");
      launchFill(driver, 0, { address: mapping, byteLength: 4 });
      driver.streamSynchronize(0, defaultStream);
    },
  },
  {
    name: "a kernel on memory of another process's host pool whose device has access",
    async run(fixture) {
      const { driver } = fixture;
      const { peer, imported, mapping } = await importFromPeer(fixture, "exporter of a host pool");
      driver.memPoolSetAccess(imported, [{ location: onDevice(0), flags: memAccessFlags.readWrite }]);
      launchFill(driver, 0, { address: mapping, byteLength: mebibyte, pattern: 0x31313131 });
      driver.streamSynchronize(0, defaultStream);
      return (await request(peer, exporterTask.read)).bytes[0] === 0x31;
    },
  },
];

/** Imports the memory that a second process exports. */
async function importFromPeer(
  { driver, startPeer }: Fixture,
  role: string = "exporter of a pool",
): Promise<{ peer: Peer; imported: bigint; mapping: bigint }> {
  const peer = await startPeer(role);
  const { bytes, descriptors } = await request(peer, exporterTask.share);
  const imported = importPool(driver, descriptors[0]!);
  return { peer, imported, mapping: driver.memPoolImportPointer(0, imported, bytes) };
}

/** Exports memory of this process, which other processes import. */
async function exportToPeers(
  { driver, startPeer }: Fixture,
  count: number,
): Promise<{ pool: bigint; address: bigint; importers: Peer[] }> {
  const pool = createShareablePool(driver);
  const descriptor = exportPool(driver, pool);
  const address = allocateFilled(driver, pool, mebibyte, exportedBytes.first);
  const exportData = driver.memPoolExportPointer(address);
  const importers: Peer[] = [];
  for (let index = 0; index < count; index++) {
    const importer = await startPeer("importer of a pool");
    await importer.ask(Uint8Array.of(importerTask.import, ...exportData), [descriptor]);
    importers.push(importer);
  }
  return { pool, address, importers };
}

function request(peer: Peer, task: number): ReturnType<Peer["ask"]> {
  return peer.ask(Uint8Array.of(task));
}

function readAndFree(driver: Driver, mapping: bigint): ReturnType<typeof attemptEach> {
  return attemptEach({
    isOld: () => firstByte(driver, mapping) === exportedBytes.first,
    free: () => free(driver, mapping),
    wait: () => driver.streamSynchronize(0, defaultStream),
  });
}
