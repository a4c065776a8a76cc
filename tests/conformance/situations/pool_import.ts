/**
 * Rows about importing pools and pointers, with valid and invalid arguments, in the process that exports them.
 *
 * @module
 */
import { openSync } from "node:fs";
import { closeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../../ffi/native/shim/memory_files.ts";
import { defaultStream, memAccessFlags, memHandleType, memPoolAttribute } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import { launchFill, readBytes } from "../launch.ts";
import {
  allocate,
  allocateFilled,
  attributeNames,
  attributesOf,
  createPool,
  createShareablePool,
  exportPool,
  firstByte,
  free,
  importPool,
  mebibyte,
  onDevice,
  setAttribute,
  shareWithSelf,
} from "../pools.ts";
import type { Situation } from "../situation.ts";

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "a pool imported from what is no pool's descriptor",
    run: ({ driver }) =>
      attemptEach({
        "a device file's": () => importPool(driver, openSync("/dev/null", "r")),
        "a folder's": () => importPool(driver, openSync("/", "r")),
        "a file's": () => importPool(driver, openSync(new URL(import.meta.url), "r")),
        "an empty memory file's": () => importPool(driver, createMemoryFile("poolpass-test", 0)),
        "a memory file's": () => importPool(driver, createMemoryFile("poolpass-test", mebibyte)),
        "one that is closed": () => {
          const descriptor = createMemoryFile("poolpass-test", mebibyte);
          closeDescriptor(descriptor);
          importPool(driver, descriptor);
        },
      }),
  },
  {
    name: "a pool imported from the descriptor -1",
    run: ({ driver }) => void importPool(driver, -1),
  },
  {
    name: "a pool imported from bytes that are no fabric handle",
    run: ({ driver }) =>
      attemptEach({
        zeros: () => driver.memPoolImportFromShareableHandle(0, new Uint8Array(64), memHandleType.fabric),
        ones: () => driver.memPoolImportFromShareableHandle(0, new Uint8Array(64).fill(255), memHandleType.fabric),
      }),
  },
  {
    name: "a pool imported from its descriptor as a handle of another type",
    run({ driver }) {
      const descriptor = exportPool(driver, createShareablePool(driver));
      return attemptEach({
        none: () => driver.memPoolImportFromShareableHandle(0, descriptor, 0),
        kmt: () => driver.memPoolImportFromShareableHandle(0, descriptor, 4),
        "99": () => driver.memPoolImportFromShareableHandle(0, descriptor, 99),
      });
    },
  },
  {
    name: "a pool imported on a device that there is not",
    run({ driver }) {
      const descriptor = exportPool(driver, createShareablePool(driver));
      const { posixFileDescriptor } = memHandleType;
      return attemptEach({
        "-1": () => driver.memPoolImportFromShareableHandle(-1, descriptor, posixFileDescriptor),
        "99": () => driver.memPoolImportFromShareableHandle(99, descriptor, posixFileDescriptor),
      });
    },
  },
  {
    name: "a pool of device 0 imported on device 1",
    devices: 2,
    run({ driver }) {
      const descriptor = exportPool(driver, createShareablePool(driver));
      const imported = driver.memPoolImportFromShareableHandle(1, descriptor, memHandleType.posixFileDescriptor);
      return [driver.memPoolGetAccess(imported, onDevice(0)), driver.memPoolGetAccess(imported, onDevice(1))];
    },
  },
  {
    name: "a pool imported in the process that exported it is another pool",
    run({ driver }) {
      const pool = createShareablePool(driver);
      return importPool(driver, exportPool(driver, pool)) !== pool;
    },
  },
  {
    name: "a pool imported after its descriptor was imported and closed",
    run({ driver }) {
      const pool = createShareablePool(driver);
      const descriptor = exportPool(driver, pool);
      importPool(driver, descriptor);
      closeDescriptor(descriptor);
      importPool(driver, exportPool(driver, pool));
    },
  },
  {
    name: "a pool imported from a descriptor of a pool that was destroyed",
    run({ driver }) {
      const pool = createShareablePool(driver);
      const descriptor = exportPool(driver, pool);
      driver.memPoolDestroy(pool);
      importPool(driver, descriptor);
    },
  },
  {
    name: "a pool imported twice and destroyed once",
    run({ driver }) {
      const { imported, pool, mapping, exportData } = shareWithSelf(driver, 5);
      free(driver, mapping);
      driver.streamSynchronize(0, defaultStream);
      const isSame = importPool(driver, exportPool(driver, pool)) === imported;
      driver.memPoolDestroy(imported);
      return {
        isSame,
        ...attemptEach({
          use: () => firstByte(driver, driver.memPoolImportPointer(0, imported, exportData)),
        }),
      };
    },
  },
  {
    name: "memory allocated from an imported pool",
    run: ({ driver }) => void allocate(driver, shareWithSelf(driver).imported, 1024),
  },
  {
    name: "the attributes of an imported pool asked for",
    run: ({ driver }) => attributesOf(driver, shareWithSelf(driver).imported),
  },
  {
    name: "the attributes of an imported pool set",
    run({ driver }) {
      const { imported } = shareWithSelf(driver);
      return attemptEach(
        Object.fromEntries(attributeNames.map((name) => [name, () => setAttribute(driver, imported, name, 0n)])),
      );
    },
  },
  {
    name: "an imported pool asked for attributes that there are not",
    run({ driver }) {
      const { imported } = shareWithSelf(driver);
      return attemptEach({
        get: () => driver.memPoolGetAttribute(imported, 99),
        set: () => driver.memPoolSetAttribute(imported, 0, 0n),
        "set a figure": () => driver.memPoolSetAttribute(imported, memPoolAttribute.usedMemCurrent, 1n),
      });
    },
  },
  {
    name: "an imported pool trimmed",
    run: ({ driver }) => driver.memPoolTrimTo(shareWithSelf(driver).imported, 0n),
  },
  {
    name: "the access of an imported pool's own device",
    run({ driver }) {
      const { imported } = shareWithSelf(driver);
      const get = () => driver.memPoolGetAccess(imported, onDevice(0));
      const set = (flags: number) => () => driver.memPoolSetAccess(imported, [{ location: onDevice(0), flags }]);
      return attemptEach({
        before: get,
        "set to read-write": set(memAccessFlags.readWrite),
        "set to read": set(memAccessFlags.read),
        "set to none": set(memAccessFlags.none),
        after: get,
        "of device 99": () => driver.memPoolGetAccess(imported, onDevice(99)),
      });
    },
  },
  {
    name: "the access of a peer device to an imported pool is not that to the exporter's",
    devices: 2,
    run({ driver }) {
      const { pool, imported } = shareWithSelf(driver);
      const set = (of: bigint) => driver.memPoolSetAccess(of, [{ location: onDevice(1), flags: 3 }]);
      const get = (of: bigint) => () => driver.memPoolGetAccess(of, onDevice(1));
      return attemptEach({
        exporter: () => set(pool),
        "exporter's": get(pool),
        "importer's": get(imported),
        importer: () => set(imported),
        "importer's now": get(imported),
      });
    },
  },
  {
    name: "a kernel of a peer device without access to an imported pointer",
    devices: 2,
    run({ driver }) {
      const { mapping } = shareWithSelf(driver);
      launchFill(driver, 1, { address: mapping, byteLength: 4 });
      driver.deviceSynchronize(1);
    },
  },
  {
    name: "a kernel of a peer device with access to an imported pointer",
    devices: 2,
    run({ driver }) {
      const { imported, mapping, address } = shareWithSelf(driver);
      driver.memPoolSetAccess(imported, [{ location: onDevice(1), flags: memAccessFlags.readWrite }]);
      launchFill(driver, 1, { address: mapping, byteLength: 4, pattern: 0x09090909 });
      driver.deviceSynchronize(1);
      return firstByte(driver, address);
    },
  },
  {
    name: "an imported pool destroyed while a pointer is mapped",
    run({ driver }) {
      const { imported, mapping } = shareWithSelf(driver, 8);
      return attemptEach({
        destroy: () => driver.memPoolDestroy(imported),
        read: () => firstByte(driver, mapping),
        free: () => free(driver, mapping),
        wait: () => driver.streamSynchronize(0, defaultStream),
        "destroy again": () => driver.memPoolDestroy(imported),
      });
    },
  },
  {
    name: "the exporter's pool destroyed while its memory is mapped by an importer",
    run({ driver }) {
      const { pool, address, mapping } = shareWithSelf(driver, 8);
      free(driver, address);
      driver.streamSynchronize(0, defaultStream);
      return attemptEach({
        destroy: () => driver.memPoolDestroy(pool),
        read: () => firstByte(driver, mapping),
        free: () => free(driver, mapping),
        wait: () => driver.streamSynchronize(0, defaultStream),
      });
    },
  },
  {
    name: "a pointer imported from zeros and from garbage",
    run({ driver }) {
      const { imported } = shareWithSelf(driver);
      return attemptEach({
        zeros: () => driver.memPoolImportPointer(0, imported, new Uint8Array(64)),
        ones: () => driver.memPoolImportPointer(0, imported, new Uint8Array(64).fill(255)),
      });
    },
  },
  {
    name: "a pointer imported into another pool's import",
    run({ driver }) {
      const [one, other] = [shareWithSelf(driver), shareWithSelf(driver)];
      driver.memPoolImportPointer(0, one.imported, other.exportData);
    },
  },
  {
    name: "a pointer imported into the exporter's own pool, and into one that is not to be shared",
    run({ driver }) {
      const { pool, exportData } = shareWithSelf(driver);
      return attemptEach({
        "the exporter's own": () => driver.memPoolImportPointer(0, pool, exportData),
        "one not to be shared": () => driver.memPoolImportPointer(0, createPool(driver), exportData),
      });
    },
  },
  {
    name: "an imported pointer is another address of the same memory",
    run({ driver }) {
      const { address, mapping } = shareWithSelf(driver, 4);
      const before = firstByte(driver, mapping);
      launchFill(driver, 0, { address: mapping, byteLength: mebibyte, pattern: 0x06060606 });
      return {
        isAnother: mapping !== address,
        before,
        written: readBytes(driver, 0, address + BigInt(mebibyte) - 4n, 4),
      };
    },
  },
  {
    name: "one pointer imported twice, and freed twice",
    run({ driver }) {
      const { imported, mapping, exportData } = shareWithSelf(driver);
      const isSame = driver.memPoolImportPointer(0, imported, exportData) === mapping;
      return {
        isSame,
        ...attemptEach({ first: () => free(driver, mapping), second: () => free(driver, mapping) }),
      };
    },
  },
  {
    name: "one pointer imported by two imports of its pool, and freed twice",
    run({ driver }) {
      const { pool, mapping, exportData } = shareWithSelf(driver);
      const again = importPool(driver, exportPool(driver, pool));
      const isSame = driver.memPoolImportPointer(0, again, exportData) === mapping;
      return {
        isSame,
        ...attemptEach({ first: () => free(driver, mapping), second: () => free(driver, mapping) }),
      };
    },
  },
  {
    name: "a pointer imported again after its mapping was freed",
    run({ driver }) {
      const { imported, mapping, exportData } = shareWithSelf(driver, 3);
      return attemptEach({
        free: () => free(driver, mapping),
        wait: () => driver.streamSynchronize(0, defaultStream),
        again: () => firstByte(driver, driver.memPoolImportPointer(0, imported, exportData)),
      });
    },
  },
  {
    name: "two pointers of one pool imported",
    run({ driver }) {
      const { pool, imported, mapping } = shareWithSelf(driver, 1);
      const address = allocateFilled(driver, pool, mebibyte, 2);
      const other = driver.memPoolImportPointer(0, imported, driver.memPoolExportPointer(address));
      return { bytes: [firstByte(driver, mapping), firstByte(driver, other)], differ: mapping !== other };
    },
  },
  {
    name: "a part of an imported pointer freed",
    run({ driver }) {
      const { mapping } = shareWithSelf(driver);
      return attemptEach({
        part: () => free(driver, mapping + 512n),
        whole: () => free(driver, mapping),
      });
    },
  },
  {
    name: "the exporter's memory after its importer has freed the mapping",
    run({ driver }) {
      const { address, mapping } = shareWithSelf(driver, 3);
      free(driver, mapping);
      driver.streamSynchronize(0, defaultStream);
      return attemptEach({ read: () => firstByte(driver, address), free: () => free(driver, address) });
    },
  },
  {
    name: "a mapping after its exporter has freed the memory",
    run({ driver }) {
      const { address, mapping } = shareWithSelf(driver, 3);
      free(driver, address);
      driver.streamSynchronize(0, defaultStream);
      return attemptEach({ read: () => firstByte(driver, mapping), free: () => free(driver, mapping) });
    },
  },
  {
    name: "a pointer imported after its exporter has freed the memory",
    run({ driver }) {
      const { imported, address, mapping, exportData } = shareWithSelf(driver, 3);
      free(driver, mapping);
      free(driver, address);
      driver.streamSynchronize(0, defaultStream);
      driver.memPoolImportPointer(0, imported, exportData);
    },
  },
];
