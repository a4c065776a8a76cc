/**
 * Rows about virtual memory: memory without addresses, reserved addresses, mappings and their access.
 *
 * @module
 */
import { openDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import {
  allocationGranularity,
  defaultStream,
  type Driver,
  memAccessFlags,
  memHandleType,
  type MemLocation,
} from "../../../src/driver.ts";
import { attemptEach, type Attempts } from "../attempts.ts";
import { launch, loadKernel } from "../kernels.ts";
import { launchFill, readBytes } from "../launch.ts";
import { allocate, createPool, createShareablePool, exportPool, firstByte, mebibyte, onDevice } from "../pools.ts";
import type { Fixture, Situation } from "../situation.ts";
import {
  createMemory,
  exportMemory,
  granule,
  importMemory,
  mapMemory,
  memoryTask,
  reserveFor,
} from "../memory_peers.ts";

const { none, read, readWrite } = memAccessFlags;
const flagsToSet = { none, read, "2": 2, "read-write": readWrite, "7": 7 } as const;
const sizes = { "0 bytes": 0, "1 byte": 1, "a page": 4096, "1 MiB": mebibyte, "2 MiB": granule, "2^50 bytes": 2 ** 50 };

const places: Readonly<Record<string, MemLocation>> = {
  "device -1": onDevice(-1),
  "device 99": onDevice(99),
  "the host": { type: 2, id: 0 },
  "an invalid kind of place": { type: 0, id: 0 },
};

/** What a device may do with a mapping. */
const uses: Readonly<Record<string, (driver: Driver, address: bigint) => unknown>> = {
  "copied from the host": (driver, address) => driver.memcpyHtoDAsync(0, address, new Uint8Array(16), defaultStream),
  "copied to the host": (driver, address) => readBytes(driver, 0, address, 1)[0],
  "copied to": (driver, address) => driver.memcpyAsync(0, address, filled(driver), 16, defaultStream),
  "copied from": (driver, address) => driver.memcpyAsync(0, filled(driver), address, 16, defaultStream),
  "set": (driver, address) => driver.memsetAsync(0, address, 1, 16, defaultStream),
  "written by a kernel": (driver, address) => launchFill(driver, 0, { address, byteLength: 16 }),
  "read by a kernel": (driver, address) =>
    launch(driver, loadKernel(driver, 0, "copy"), { parameters: [filled(driver), address] }),
};

function filled(driver: Driver): bigint {
  return allocate(driver, createPool(driver), mebibyte);
}

/** Uses memory, and says what the use and a synchronization behind it did. */
function use(driver: Driver, address: bigint, how: (driver: Driver, address: bigint) => unknown): Attempts {
  return attemptEach({
    use: () => how(driver, address),
    synchronize: () => driver.streamSynchronize(0, defaultStream),
    afterwards: () => driver.memPoolDestroy(createPool(driver)),
  });
}

/** Two memories of 2 MiB side by side, filled with 1 and 2. */
function mapTwo(driver: Driver): bigint {
  const address = reserveFor(driver, 2 * granule);
  for (const [index, byte] of [1, 2].entries()) {
    const part = mapMemory(driver, createMemory(driver), { at: address + BigInt(index * granule) });
    driver.memsetAsync(0, part, byte, granule, defaultStream);
  }
  driver.streamSynchronize(0, defaultStream);
  return address;
}

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "the granularity of memory",
    run({ driver }) {
      const of = (handleTypes: number, location: MemLocation, option: number) => () =>
        driver.memGetAllocationGranularity({ handleTypes, location }, option);
      const { minimum, recommended } = allocationGranularity;
      return attemptEach({
        minimum: of(memHandleType.none, onDevice(0), minimum),
        recommended: of(memHandleType.none, onDevice(0), recommended),
        "with descriptors": of(memHandleType.posixFileDescriptor, onDevice(0), minimum),
        "of an unknown option": of(memHandleType.none, onDevice(0), 2),
        ...Object.fromEntries(Object.entries(places).map(([name, place]) => [name, of(0, place, minimum)])),
      });
    },
  },
  {
    name: "memory of different sizes",
    run: ({ driver }) =>
      attemptEach(Object.fromEntries(
        Object.entries(sizes).map(([name, size]) => [name, () => createMemory(driver, { byteLength: size })]),
      )),
  },
  {
    name: "memory with different types of handles",
    run: ({ driver }) =>
      attemptEach(Object.fromEntries([0, 1, 2, 4, 8, 9].map((handleTypes) => {
        return [`type ${handleTypes}`, () => createMemory(driver, { handleTypes })];
      }))),
  },
  {
    name: "memory in different places",
    run: ({ driver }) =>
      attemptEach(Object.fromEntries(
        Object.entries(places).filter(([name]) => name !== "the host").map(([name, location]) => [
          name,
          () => driver.memCreate({ handleTypes: 0, location }, granule),
        ]),
      )),
  },
  {
    name: "memory exported in different ways",
    run({ driver }) {
      const { none, posixFileDescriptor, fabric } = memHandleType;
      const [plain, shareable] = [createMemory(driver, { handleTypes: none }), createMemory(driver)];
      return attemptEach({
        "without a handle type": () => driver.memExportToShareableHandle(plain, posixFileDescriptor),
        "as a descriptor": () => typeof driver.memExportToShareableHandle(shareable, posixFileDescriptor),
        "as another descriptor": () => typeof driver.memExportToShareableHandle(shareable, posixFileDescriptor),
        "as a fabric handle": () => driver.memExportToShareableHandle(shareable, fabric),
        "as nothing": () => driver.memExportToShareableHandle(shareable, none),
      });
    },
  },
  {
    name: "memory imported in the process that exported it",
    run({ driver }) {
      const memory = createMemory(driver);
      const address = mapMemory(driver, memory);
      driver.memsetAsync(0, address, 7, granule, defaultStream);
      driver.streamSynchronize(0, defaultStream);
      const descriptor = exportMemory(driver, memory);
      const [first, second] = [importMemory(driver, descriptor), importMemory(driver, descriptor)];
      const mapping = mapMemory(driver, first);
      return {
        "is the same handle": first === memory,
        "is the same handle again": first === second,
        "is at another address": mapping !== address,
        byte: firstByte(driver, mapping),
        released: attemptEach({ first: () => driver.memRelease(first), second: () => driver.memRelease(second) }),
      };
    },
  },
  {
    name: "other descriptors imported as memory",
    run({ driver }) {
      return attemptEach({
        "of a file": () => importMemory(driver, openDescriptor("/dev/null", { writable: false })),
        "of nothing": () => importMemory(driver, 9999),
      });
    },
  },
  {
    name: "a pool's descriptor imported as memory",
    run: ({ driver }) => void importMemory(driver, exportPool(driver, createShareablePool(driver))),
  },
  {
    name: "a memory's descriptor imported as nothing",
    run({ driver }) {
      const descriptor = exportMemory(driver, createMemory(driver));
      driver.memImportFromShareableHandle(descriptor, memHandleType.none);
    },
  },
  {
    name: "64 zeros imported as a memory's fabric handle",
    run: ({ driver }) => void driver.memImportFromShareableHandle(new Uint8Array(64), memHandleType.fabric),
  },
  {
    name: "imported memory exported again",
    run({ driver }) {
      const imported = importMemory(driver, exportMemory(driver, createMemory(driver)));
      return attemptEach({ export: () => typeof exportMemory(driver, imported) });
    },
  },
  {
    name: "a memory's descriptor imported as a pool",
    run({ driver }) {
      const descriptor = exportMemory(driver, createMemory(driver));
      driver.memPoolImportFromShareableHandle(0, descriptor, memHandleType.posixFileDescriptor);
    },
  },
  {
    name: "the properties of created and imported memory",
    run({ driver }) {
      const memory = createMemory(driver);
      const imported = importMemory(driver, exportMemory(driver, memory));
      const propertiesOf = (memory: bigint) => {
        const { handleTypes, location: { type, id } } = driver.memGetAllocationPropertiesFromHandle(memory);
        return { handleTypes, type, id };
      };
      return { created: propertiesOf(memory), imported: propertiesOf(imported) };
    },
  },
  {
    name: "addresses of different sizes",
    run: ({ driver }) =>
      attemptEach(Object.fromEntries(
        Object.entries({ ...sizes, "2^60 bytes": 2 ** 60 }).filter(([name]) => name !== "2^50 bytes")
          .map(([name, size]) => [name, () => driver.memAddressReserve(size, 0)]),
      )),
  },
  {
    name: "addresses of different alignments",
    run: ({ driver }) =>
      attemptEach(Object.fromEntries([1, 3, 4096, mebibyte, granule, 16 * mebibyte].map((alignment) => {
        return [`${alignment}`, () => Number(driver.memAddressReserve(granule, alignment) % BigInt(alignment || 1))];
      }))),
  },
  {
    name: "addresses freed in different ways",
    run({ driver }) {
      const address = reserveFor(driver, 2 * granule);
      return attemptEach({
        half: () => driver.memAddressFree(address, granule),
        "the other half": () => driver.memAddressFree(address + BigInt(granule), granule),
        whole: () => driver.memAddressFree(address, 2 * granule),
        again: () => driver.memAddressFree(address, 2 * granule),
      });
    },
  },
  {
    name: "addresses freed with memory mapped there",
    run({ driver }) {
      const address = mapMemory(driver, createMemory(driver));
      return attemptEach({
        mapped: () => driver.memAddressFree(address, granule),
        unmap: () => driver.memUnmap(address, granule),
        unmapped: () => driver.memAddressFree(address, granule),
      });
    },
  },
  {
    name: "memory mapped in different ways",
    run({ driver }) {
      const memory = createMemory(driver, { byteLength: 2 * granule });
      const address = reserveFor(driver, 4 * granule);
      const at = (offset: number, byteLength: number) => () =>
        driver.memMap(address + BigInt(offset), byteLength, memory);
      return attemptEach({
        half: at(0, granule),
        "more than there is": at(0, 4 * granule),
        "at a page": at(4096, 2 * granule),
        nowhere: () => driver.memMap(0n, 2 * granule, memory),
        "nothing of it": at(0, 0),
        whole: at(0, 2 * granule),
        "over itself": at(granule, 2 * granule),
        "at a second address": at(2 * granule, 2 * granule),
        "no memory": () => driver.memMap(reserveFor(driver, granule), granule, 0n),
      });
    },
  },
  {
    name: "memory unmapped in different ways",
    run({ driver }) {
      const address = reserveFor(driver, 4 * granule);
      mapMemory(driver, createMemory(driver, { byteLength: 2 * granule }), { at: address, byteLength: 2 * granule });
      return attemptEach({
        half: () => driver.memUnmap(address, granule),
        "with more": () => driver.memUnmap(address, 3 * granule),
        whole: () => driver.memUnmap(address, 2 * granule),
        again: () => driver.memUnmap(address, 2 * granule),
      });
    },
  },
  {
    name: "several memories unmapped at once",
    run: ({ driver }) => {
      const address = mapTwo(driver);
      return attemptEach({ both: () => driver.memUnmap(address, 2 * granule) });
    },
  },
  {
    name: "memory released while it is mapped",
    run({ driver }) {
      const memory = createMemory(driver);
      const address = mapMemory(driver, memory);
      driver.memRelease(memory);
      driver.memsetAsync(0, address, 5, granule, defaultStream);
      return firstByte(driver, address);
    },
  },
  {
    name: "memory mapped anew has what it had",
    run({ driver }) {
      const memory = createMemory(driver);
      const first = mapMemory(driver, memory);
      driver.memsetAsync(0, first, 9, granule, defaultStream);
      driver.streamSynchronize(0, defaultStream);
      driver.memUnmap(first, granule);
      return firstByte(driver, mapMemory(driver, memory));
    },
  },
  ...Object.entries(flagsToSet).map(([name, flags]): Situation => ({
    name: `the access of mapped memory set to ${name}`,
    run({ driver }) {
      const address = mapMemory(driver, createMemory(driver), { flags: "unset" });
      const get = () => driver.memGetAccess(address, onDevice(0));
      const set = (flags: number) => () => driver.memSetAccess(address, granule, [{ location: onDevice(0), flags }]);
      return attemptEach({ before: get, set: set(flags), get, "set to read-write": set(readWrite), "get again": get });
    },
  })),
  ...Object.entries(places).map(([name, location]): Situation => ({
    name: `the access of ${name} to mapped memory`,
    run({ driver }) {
      const address = mapMemory(driver, createMemory(driver));
      return attemptEach({
        get: () => driver.memGetAccess(address, location),
        set: () => driver.memSetAccess(address, granule, [{ location, flags: readWrite }]),
      });
    },
  })),
  {
    name: "the access of other addresses than those of a mapping",
    run({ driver }) {
      const address = reserveFor(driver, 4 * granule);
      mapMemory(driver, createMemory(driver, { byteLength: 2 * granule }), { at: address, byteLength: 2 * granule });
      const set = (offset: number, byteLength: number) => () =>
        driver.memSetAccess(address + BigInt(offset), byteLength, [{ location: onDevice(0), flags: read }]);
      return attemptEach({
        half: set(0, granule),
        "with more": set(0, 3 * granule),
        "nothing there": set(2 * granule, granule),
        "get of nothing": () => driver.memGetAccess(address + BigInt(2 * granule), onDevice(0)),
        "for nobody": () => driver.memSetAccess(address, 2 * granule, []),
      });
    },
  },
  {
    name: "the access of several memories at once",
    run({ driver }) {
      const address = mapTwo(driver);
      driver.memSetAccess(address, 2 * granule, [{ location: onDevice(0), flags: read }]);
      return [0, 1].map((index) => driver.memGetAccess(address + BigInt(index * granule), onDevice(0)));
    },
  },
  ...Object.entries(uses).flatMap(([name, how]): Situation[] => [
    {
      name: `memory without access ${name}`,
      run: ({ driver }) => use(driver, mapMemory(driver, createMemory(driver), { flags: "unset" }), how),
    },
    {
      name: `memory with access to read ${name}`,
      run: ({ driver }) => use(driver, mapMemory(driver, createMemory(driver), { flags: read }), how),
    },
    {
      name: `memory with access to read and write ${name}`,
      run: ({ driver }) => use(driver, mapMemory(driver, createMemory(driver)), how),
    },
    // For a copy between addresses, the driver takes unknown ones for the host's.
    ...name === "copied to" || name === "copied from" ? [] : [{
      name: `addresses without memory ${name}`,
      run: ({ driver }: Fixture) => use(driver, reserveFor(driver, granule), how),
    }],
  ]),
  {
    name: "memory of two mappings side by side",
    run({ driver }) {
      const address = mapTwo(driver);
      const border = address + BigInt(granule - 4);
      const rangeAt = (address: bigint) => driver.memGetAddressRange(0, address);
      const [first, second] = [rangeAt(address), rangeAt(address + BigInt(granule + 4))];
      const attributes = driver.pointerGetAttributes(0, address + BigInt(granule + 4));
      return {
        bytes: attemptEach({ read: () => readBytes(driver, 0, border, 8).join() }),
        ranges: [first, second].map(({ base, byteLength }) => [Number(base - address), byteLength]),
        attributes: [
          attributes.type,
          attributes.device ?? null,
          Number(attributes.base - address),
          attributes.byteLength,
        ],
        filled: attemptEach({
          fill: () => driver.memsetAsync(0, border, 3, 8, defaultStream),
          kernel: () => launchFill(driver, 0, { address: border, byteLength: 8, pattern: 0x04040404 }),
          read: () => readBytes(driver, 0, border, 8).join(),
        }),
      };
    },
  },
  {
    name: "mapped memory freed like other memory",
    run({ driver }) {
      const address = mapMemory(driver, createMemory(driver));
      return attemptEach({
        free: () => driver.free(0, address),
        freeAsync: () => driver.freeAsync(0, address, defaultStream),
        "memory handle": () => driver.ipcGetMemHandle(0, address),
        "pool pointer": () => driver.memPoolExportPointer(address),
        read: () => firstByte(driver, address),
      });
    },
  },
  {
    name: "memory of another process, which is killed",
    async run({ driver, startPeer }) {
      const peer = await startPeer("holder of memory");
      const { descriptors } = await peer.ask(Uint8Array.of(memoryTask.share));
      const memory = importMemory(driver, descriptors[0]!);
      const address = mapMemory(driver, memory);
      const before = firstByte(driver, address);
      driver.memsetAsync(0, address, 0x77, granule, defaultStream);
      driver.streamSynchronize(0, defaultStream);
      const seen = (await peer.ask(Uint8Array.of(memoryTask.read))).bytes[0]!;
      await peer.kill();
      driver.memUnmap(address, granule);
      driver.memRelease(memory);
      return { before, seen, after: firstByte(driver, mapMemory(driver, importMemory(driver, descriptors[0]!))) };
    },
  },
  {
    name: "memory of another process, mapped to be read only",
    async run({ driver, startPeer }) {
      const peer = await startPeer("holder of memory");
      const { descriptors } = await peer.ask(Uint8Array.of(memoryTask.share));
      const address = mapMemory(driver, importMemory(driver, descriptors[0]!), { flags: read });
      const byte = firstByte(driver, address);
      launchFill(driver, 0, { address, byteLength: 16 });
      return {
        byte,
        ...attemptEach({ synchronize: () => driver.streamSynchronize(0, defaultStream) }),
        seen: (await peer.ask(Uint8Array.of(memoryTask.read))).bytes[0]!,
      };
    },
  },
];
