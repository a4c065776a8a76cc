/**
 * Pools shared by two processes.
 *
 * @module
 */
import { defaultStream, type Driver, memAccessFlags } from "../../../src/driver.ts";
import { attemptEach, attemptEachInTurn } from "../attempts.ts";
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
import type { Peer, Situation, Stage } from "../situation.ts";

/** See the module's own documentation. */
export const situations: readonly Situation[] = [
  {
    name: "memory of another process's pool read",
    async run(stage) {
      const { mapping } = await importFromPeer(stage);
      return firstByte(stage.driver, mapping) === exportedBytes.first;
    },
  },
  {
    name: "memory of another process's pool written by a kernel",
    async run(stage) {
      const { driver } = stage;
      const { peer, mapping } = await importFromPeer(stage);
      launchFill(driver, 0, { address: mapping, byteLength: mebibyte, pattern: 0x31313131 });
      driver.streamSynchronize(0, defaultStream);
      return (await tell(peer, exporterTask.read)).bytes[0] === 0x31;
    },
  },
  {
    name: "the access and the attributes of another process's pool",
    async run(stage) {
      const { imported } = await importFromPeer(stage);
      return {
        access: stage.driver.memPoolGetAccess(imported, onDevice(0)),
        attributes: attributesOf(stage.driver, imported),
      };
    },
  },
  {
    name: "the exporter's access for a second device is not its importer's",
    devices: 2,
    async run(stage) {
      const { peer, imported } = await importFromPeer(stage);
      await tell(peer, exporterTask.giveAccess);
      return stage.driver.memPoolGetAccess(imported, onDevice(1));
    },
  },
  {
    name: "a kernel of a second device that the importer gave access",
    devices: 2,
    async run(stage) {
      const { driver } = stage;
      const { peer, imported, mapping } = await importFromPeer(stage);
      driver.memPoolSetAccess(imported, [{ location: onDevice(1), flags: memAccessFlags.readWrite }]);
      launchFill(driver, 1, { address: mapping, byteLength: mebibyte, pattern: 0x31313131 });
      driver.deviceSynchronize(1);
      return (await tell(peer, exporterTask.read)).bytes[0] === 0x31;
    },
  },
  {
    name: "a pointer imported that was allocated after the pool was imported",
    async run(stage) {
      const { driver } = stage;
      const { peer, imported } = await importFromPeer(stage);
      const { bytes } = await tell(peer, exporterTask.shareAnother);
      return firstByte(driver, driver.memPoolImportPointer(0, imported, bytes)) === exportedBytes.second;
    },
  },
  {
    name: "memory that its exporter freed, read and freed by the importer",
    async run(stage) {
      const { peer, mapping } = await importFromPeer(stage);
      await tell(peer, exporterTask.free);
      return readAndFree(stage.driver, mapping);
    },
  },
  {
    name: "memory that its exporter freed and allocated again, read by the importer",
    async run(stage) {
      const { driver } = stage;
      const { peer, mapping } = await importFromPeer(stage);
      await tell(peer, exporterTask.free);
      await tell(peer, exporterTask.shareAnother);
      return { isOld: firstByte(driver, mapping) === exportedBytes.first };
    },
  },
  {
    name: "memory of a pool that its exporter destroyed, read and freed by the importer",
    async run(stage) {
      const { peer, mapping } = await importFromPeer(stage);
      await tell(peer, exporterTask.free);
      await tell(peer, exporterTask.destroy);
      return readAndFree(stage.driver, mapping);
    },
  },
  {
    name: "memory of an exporter that was killed, read and freed by the importer",
    async run(stage) {
      const { peer, mapping } = await importFromPeer(stage);
      await peer.kill();
      return readAndFree(stage.driver, mapping);
    },
  },
  {
    name: "a pointer of an exporter that was killed imported into its pool",
    async run(stage) {
      const { driver } = stage;
      const { peer, imported } = await importFromPeer(stage);
      const { bytes } = await tell(peer, exporterTask.shareAnother);
      await peer.kill();
      return attemptEach({
        import: () => firstByte(driver, driver.memPoolImportPointer(0, imported, bytes)) === exportedBytes.second,
      });
    },
  },
  {
    name: "a pool of an exporter that was killed imported",
    async run(stage) {
      const { driver } = stage;
      const peer = await stage.startPeer("exporter of a pool");
      const { descriptors } = await tell(peer, exporterTask.share);
      await peer.kill();
      importPool(driver, descriptors[0]!);
    },
  },
  {
    name: "one pool imported by two other processes",
    async run(stage) {
      const { driver } = stage;
      const { address, importers: [one, other] } = await exportToPeers(stage, 2);
      await tell(one!, importerTask.write);
      const seen = (await tell(other!, importerTask.read)).bytes[0] === importedByte;
      return { seenByOther: seen, seenByExporter: firstByte(driver, address) === importedByte };
    },
  },
  {
    name: "an exporter whose importer was killed frees and destroys",
    async run(stage) {
      const { driver } = stage;
      const { pool, address, importers: [importer] } = await exportToPeers(stage, 1);
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
    async run(stage) {
      const { importers: [importer] } = await exportToPeers(stage, 1);
      return await attemptEachInTurn({
        first: () => tell(importer!, importerTask.free),
        second: () => tell(importer!, importerTask.free),
      });
    },
  },
  {
    name: "memory of another process's host pool",
    async run(stage) {
      const { driver } = stage;
      const { peer, imported, mapping } = await importFromPeer(stage, "exporter of a host pool");
      const seen = new Uint8Array(driver.hostView(mapping, mebibyte));
      const isRead = seen[mebibyte - 1] === exportedBytes.first;
      seen[0] = 0x31;
      return {
        isRead,
        isWritten: (await tell(peer, exporterTask.read)).bytes[0] === 0x31,
        ...attemptEach({
          "access of the device": () => driver.memPoolGetAccess(imported, onDevice(0)),
          "access of the node": () => driver.memPoolGetAccess(imported, onFirstNode),
        }),
      };
    },
  },
  {
    name: "a kernel on memory of another process's host pool before its device has access",
    async run(stage) {
      const { driver } = stage;
      const { mapping } = await importFromPeer(stage, "exporter of a host pool");
      launchFill(driver, 0, { address: mapping, byteLength: 4 });
      driver.streamSynchronize(0, defaultStream);
    },
  },
  {
    name: "a kernel on memory of another process's host pool whose device has access",
    async run(stage) {
      const { driver } = stage;
      const { peer, imported, mapping } = await importFromPeer(stage, "exporter of a host pool");
      driver.memPoolSetAccess(imported, [{ location: onDevice(0), flags: memAccessFlags.readWrite }]);
      launchFill(driver, 0, { address: mapping, byteLength: mebibyte, pattern: 0x31313131 });
      driver.streamSynchronize(0, defaultStream);
      return (await tell(peer, exporterTask.read)).bytes[0] === 0x31;
    },
  },
];

/** What a second process shares, mapped in this one. */
async function importFromPeer(
  { driver, startPeer }: Stage,
  role: string = "exporter of a pool",
): Promise<{ peer: Peer; imported: bigint; mapping: bigint }> {
  const peer = await startPeer(role);
  const { bytes, descriptors } = await tell(peer, exporterTask.share);
  const imported = importPool(driver, descriptors[0]!);
  return { peer, imported, mapping: driver.memPoolImportPointer(0, imported, bytes) };
}

/** Memory of this process, mapped in others. */
async function exportToPeers(
  { driver, startPeer }: Stage,
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

function tell(peer: Peer, task: number): ReturnType<Peer["ask"]> {
  return peer.ask(Uint8Array.of(task));
}

function readAndFree(driver: Driver, mapping: bigint): ReturnType<typeof attemptEach> {
  return attemptEach({
    isOld: () => firstByte(driver, mapping) === exportedBytes.first,
    free: () => free(driver, mapping),
    wait: () => driver.streamSynchronize(0, defaultStream),
  });
}
