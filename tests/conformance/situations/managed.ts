/**
 * Rows about managed memory, which the host and all devices access at one address, and about pools by location.
 *
 * @module
 */
import {
  defaultStream,
  type Driver,
  graphNodeType,
  legacyStream,
  memAccessFlags,
  memAdvice,
  memAllocationType,
  memHandleType,
  type MemLocation,
  memLocationType,
  memRangeAttribute,
  streamCaptureMode,
  streamCaptureStatus,
} from "../../../src/driver.ts";
import { attemptEach, type Attempts } from "../attempts.ts";
import { fillLaunch, launchFill, loadFill, readBytes } from "../launch.ts";
import {
  allocate,
  attributesOf,
  createPool,
  createShareablePool,
  createStream,
  exportPool,
  free,
  importPool,
  infinite,
  mebibyte,
  onDevice,
  onFirstNode,
  setAttribute,
} from "../pools.ts";
import type { Answer, Situation } from "../situation.ts";

const { pinned, managed } = memAllocationType;
const nowhere: MemLocation = { type: memLocationType.none, id: 0 };
const onHost: MemLocation = { type: memLocationType.host, id: 0 };
const onCurrentNode: MemLocation = { type: memLocationType.hostNumaCurrent, id: 0 };
const onNode99: MemLocation = { type: memLocationType.hostNuma, id: 99 };

/** The locations that there are, by their names in rows. */
const places: Readonly<Record<string, MemLocation>> = {
  "no location": nowhere,
  "device 0": onDevice(0),
  "the host": onHost,
  "NUMA node 0": onFirstNode,
};

/** All locations of rows, by their names. */
const locations: Readonly<Record<string, MemLocation>> = {
  ...places,
  "the host with an id": { type: memLocationType.host, id: 1 },
  "no location with an id": { type: memLocationType.none, id: 1 },
  "the current NUMA node": onCurrentNode,
  "NUMA node 99": onNode99,
  "device 99": onDevice(99),
  "device -1": onDevice(-1),
};

/** The names of types that have default pools. */
const types = { "pinned": pinned, "managed": managed } as const;

/** Makes a call for each location. */
function forEachLocation(call: (location: MemLocation) => unknown): Attempts {
  return attemptEach(
    Object.fromEntries(Object.entries(locations).map(([name, location]) => [name, () => call(location)])),
  );
}

function createManagedPool(
  driver: Driver,
  location: MemLocation = nowhere,
  { handleTypes = memHandleType.none as number, maxSize = 0n }: { handleTypes?: number; maxSize?: bigint } = {},
): bigint {
  return driver.memPoolCreate({ handleTypes, location, maxSize, allocationType: managed });
}

/** Memory of each kind that can be prefetched: by itself, and of pools. The allocation is complete. */
const memories: Readonly<Record<string, (driver: Driver) => bigint>> = {
  "managed memory": (driver) => driver.mallocManaged(0, mebibyte),
  "memory of a managed pool": (driver) => {
    const address = allocate(driver, createManagedPool(driver), mebibyte);
    driver.streamSynchronize(0, defaultStream);
    return address;
  },
};

/** Memory that is not managed. */
const others: Readonly<Record<string, (driver: Driver) => bigint>> = {
  "memory of a device": (driver) => driver.malloc(0, mebibyte),
  "memory of a device's pool": (driver) => allocate(driver, createPool(driver), mebibyte),
  "memory of a host pool": (driver) => allocate(driver, createPool(driver, { location: onFirstNode }), mebibyte),
  "page-locked memory": (driver) => driver.hostGetDevicePointer(driver.hostAlloc(mebibyte)),
};

/** Returns a byte of memory, as the processor sees it. */
function seen(driver: Driver, address: bigint): number {
  return new Uint8Array(driver.hostView(address, 1))[0]!;
}

/** Returns each attribute of a range of managed memory. */
function rangeOf(driver: Driver, address: bigint, byteLength = mebibyte): Attempts {
  const one = (attribute: number) => () => driver.memRangeGetAttribute(0, attribute, address, byteLength)[0]!;
  const ofLocation = (type: number, id: number) => () => {
    const [found] = driver.memRangeGetAttribute(0, type, address, byteLength);
    // The id has no meaning for other types.
    const hasId = found === memLocationType.device || found === memLocationType.hostNuma;
    const name = Object.entries(memLocationType).find(([, value]) => value === found)?.[0] ?? String(found);
    return hasId ? `${name} ${driver.memRangeGetAttribute(0, id, address, byteLength)[0]}` : name;
  };
  return attemptEach({
    "read mostly": one(memRangeAttribute.readMostly),
    "preferred location": ofLocation(memRangeAttribute.preferredLocationType, memRangeAttribute.preferredLocationId),
    "accessed by": () => driver.memRangeGetAttribute(0, memRangeAttribute.accessedBy, address, byteLength, 3).join(" "),
    "last prefetch": ofLocation(memRangeAttribute.lastPrefetchLocationType, memRangeAttribute.lastPrefetchLocationId),
  });
}

const nameOfType = (type: number) =>
  Object.entries(graphNodeType).find(([, value]) => value === type)?.[0] ?? String(type);
const nameOfStatus = (status: number) =>
  Object.entries(streamCaptureStatus).find(([, value]) => value === status)?.[0] ?? String(status);

/** What a call in a capture returns, what the capture's state is then, and what ending it returns. */
function inCapture(
  driver: Driver,
  mode: keyof typeof streamCaptureMode,
  call: (stream: bigint) => unknown,
): Answer {
  const stream = createStream(driver);
  driver.streamBeginCapture(0, stream, streamCaptureMode[mode]);
  const answers = attemptEach({
    "call": () => call(stream),
    "the state": () => nameOfStatus(driver.streamGetCaptureInfo(0, stream).status),
  });
  let nodes: Answer = null;
  const ended = attemptEach({
    end: () => {
      const graph = driver.streamEndCapture(0, stream);
      nodes = driver.graphGetNodes(graph).map((node) => nameOfType(driver.graphNodeGetType(node)));
    },
  });
  return { ...answers, "the end": nodes ?? ended["end"]! };
}

/** Calls about managed memory during a capture, by their names in rows. */
const capturedCalls: Readonly<Record<string, (driver: Driver, address: bigint, stream: bigint) => unknown>> = {
  "managed memory prefetched to the device": (driver, address, stream) =>
    driver.memPrefetchAsync(0, address, mebibyte, onDevice(0), stream),
  "managed memory prefetched to the host": (driver, address, stream) =>
    driver.memPrefetchAsync(0, address, mebibyte, onHost, stream),
  "managed memory discarded": (driver, address, stream) =>
    driver.memDiscardBatchAsync(0, [{ address, byteLength: mebibyte }], stream),
  "managed memory discarded and prefetched": (driver, address, stream) =>
    driver.memDiscardAndPrefetchBatchAsync(0, [{ address, byteLength: mebibyte }], onDevice(0), stream),
  "advice for managed memory": (driver, address) =>
    driver.memAdvise(0, address, mebibyte, memAdvice.setReadMostly, onHost),
  "an attribute of managed memory": (driver, address) =>
    driver.memRangeGetAttribute(0, memRangeAttribute.readMostly, address, mebibyte)[0],
  "managed memory allocated": (driver) => driver.mallocManaged(0, mebibyte),
  "managed memory freed": (driver, address) => driver.free(0, address),
  "managed memory filled": (driver, address, stream) => driver.memsetAsync(0, address, 1, mebibyte, stream),
  "the default pool of the host": (driver) => driver.memGetDefaultMemPool(onHost, pinned),
  "the current pool of the host": (driver) => driver.memGetMemPool(onHost, pinned),
  "the current managed pool of the device": (driver) => driver.memGetMemPool(onDevice(0), managed),
};

/** Makes each call in a capture of its own. */
function capturedAnswers(
  driver: Driver,
  mode: keyof typeof streamCaptureMode,
  create: (driver: Driver) => bigint,
): Answer {
  return Object.fromEntries(
    Object.entries(capturedCalls).map(([name, call]) => {
      const address = create(driver);
      return [name, inCapture(driver, mode, (stream) => call(driver, address, stream))];
    }),
  );
}

/** The rows of this file. */
export const situations: readonly Situation[] = [
  ...Object.entries(types).flatMap(([name, type]): Situation[] => [
    {
      name: `the ${name} default pool of each location`,
      run: ({ driver }) => forEachLocation((location) => driver.memGetDefaultMemPool(location, type)),
    },
    {
      name: `the ${name} current pool of each location`,
      run: ({ driver }) => forEachLocation((location) => driver.memGetMemPool(location, type)),
    },
    {
      name: `whether the ${name} current pool of a location is the default pool`,
      run: ({ driver }) =>
        forEachLocation((location) =>
          driver.memGetMemPool(location, type) === driver.memGetDefaultMemPool(location, type)
        ),
    },
  ]),
  {
    name: "default pools that are the same",
    run: ({ driver }) =>
      attemptEach({
        "a device's and its pinned one": () =>
          driver.deviceGetDefaultMemPool(0) === driver.memGetDefaultMemPool(onDevice(0), pinned),
        "a device's pinned and managed one": () =>
          driver.memGetDefaultMemPool(onDevice(0), pinned) === driver.memGetDefaultMemPool(onDevice(0), managed),
        "a host's and a node's pinned one": () =>
          driver.memGetDefaultMemPool(onHost, pinned) === driver.memGetDefaultMemPool(onFirstNode, pinned),
        "a host's and a node's managed one": () =>
          driver.memGetDefaultMemPool(onHost, managed) === driver.memGetDefaultMemPool(onFirstNode, managed),
        "a host's with another id": () =>
          driver.memGetDefaultMemPool(onHost, pinned) ===
            driver.memGetDefaultMemPool({ type: memLocationType.host, id: 1 }, pinned),
        "managed ones of a device and of none": () =>
          driver.memGetDefaultMemPool(onDevice(0), managed) === driver.memGetDefaultMemPool(nowhere, managed),
      }),
  },
  {
    name: "the default pools of types that there are not",
    run: ({ driver }) =>
      attemptEach({
        "type 0": () => driver.memGetDefaultMemPool(onDevice(0), 0),
        "type 3": () => driver.memGetDefaultMemPool(onDevice(0), 3),
        "current pool of type 0": () => driver.memGetMemPool(onDevice(0), 0),
      }),
  },
  ...Object.entries(
    {
      "the host": [onHost, pinned],
      "NUMA node 0": [onFirstNode, pinned],
      "managed memory": [nowhere, managed],
      "managed memory on device 0": [onDevice(0), managed],
    } as const,
  ).flatMap(([name, [location, type]]): Situation[] => [
    {
      name: `the attributes of the default pool of ${name}`,
      run: ({ driver }) => attributesOf(driver, driver.memGetDefaultMemPool(location, type)),
    },
    {
      name: `who has access to the default pool of ${name}`,
      run({ driver }) {
        const pool = driver.memGetDefaultMemPool(location, type);
        return attemptEach({
          "device 0": () => driver.memPoolGetAccess(pool, onDevice(0)),
          "the host": () => driver.memPoolGetAccess(pool, onHost),
          "NUMA node 0": () => driver.memPoolGetAccess(pool, onFirstNode),
        });
      },
    },
    {
      name: `what can be done with the default pool of ${name}`,
      run({ driver }) {
        const pool = driver.memGetDefaultMemPool(location, type);
        return attemptEach({
          "set the release threshold": () => setAttribute(driver, pool, "releaseThreshold", infinite),
          "trim": () => driver.memPoolTrimTo(pool, 0n),
          "export": () => exportPool(driver, pool),
          "destroy": () => driver.memPoolDestroy(pool),
          "give the device access": () =>
            driver.memPoolSetAccess(pool, [{ location: onDevice(0), flags: memAccessFlags.readWrite }]),
          "access of the device": () => driver.memPoolGetAccess(pool, onDevice(0)),
          "give the host access": () =>
            driver.memPoolSetAccess(pool, [{ location: onHost, flags: memAccessFlags.readWrite }]),
        });
      },
    },
    {
      name: `memory of the default pool of ${name} written by the processor`,
      run({ driver }) {
        const address = allocate(driver, driver.memGetDefaultMemPool(location, type), 1000);
        driver.streamSynchronize(0, defaultStream);
        new Uint8Array(driver.hostView(address, 1000))[0] = 42;
        return { ...attemptEach({ seen: () => seen(driver, address) }), copied: readBytes(driver, 0, address, 1) };
      },
    },
    {
      // Without access, an illegal address, which ends the context.
      name: `a kernel on memory of the default pool of ${name}`,
      run({ driver }) {
        const address = allocate(driver, driver.memGetDefaultMemPool(location, type), mebibyte);
        driver.streamSynchronize(0, defaultStream);
        return fillAt(driver, address);
      },
    },
  ]),
  ...Object.entries(types).map(([name, type]): Situation => ({
    name: `pools made current for the ${name} memory of places`,
    run({ driver }) {
      const own = {
        "device 0": createPool(driver),
        "the host": createPool(driver, { location: onHost }),
        "NUMA node 0": createPool(driver, { location: onFirstNode }),
        "managed, no location": createManagedPool(driver),
        "managed, device 0": createManagedPool(driver, onDevice(0)),
        "managed, the host": createManagedPool(driver, onHost),
        "managed, NUMA node 0": createManagedPool(driver, onFirstNode),
      };
      return attemptEach(
        Object.fromEntries(
          Object.entries(places).flatMap(([place, location]) =>
            Object.entries(own).map(([pool, handle]) => [
              `${pool} at ${place}`,
              () => driver.memSetMemPool(location, type, handle),
            ])
          ),
        ),
      );
    },
  })),
  {
    name: "a pool made current at the host",
    run({ driver }) {
      const pool = createPool(driver, { location: onHost });
      driver.memSetMemPool(onHost, pinned, pool);
      return attemptEach({
        "is current": () => driver.memGetMemPool(onHost, pinned) === pool,
        "is current at the node": () => driver.memGetMemPool(onFirstNode, pinned) === pool,
        "set the default": () => driver.memSetMemPool(onHost, pinned, driver.memGetDefaultMemPool(onHost, pinned)),
        "is still current": () => driver.memGetMemPool(onHost, pinned) === pool,
      });
    },
  },
  {
    name: "a pool made current by cudaMemSetMemPool and by cudaDeviceSetMemPool",
    run({ driver }) {
      const [first, second] = [createPool(driver), createPool(driver)];
      return attemptEach({
        "by location": () => driver.memSetMemPool(onDevice(0), pinned, first),
        "of the device": () => driver.deviceGetMemPool(0) === first,
        "by device": () => driver.deviceSetMemPool(0, second),
        "of the location": () => driver.memGetMemPool(onDevice(0), pinned) === second,
      });
    },
  },
  {
    name: "a managed pool made a device's current pool",
    run: ({ driver }) => driver.deviceSetMemPool(0, createManagedPool(driver, onDevice(0))),
  },
  {
    name: "an imported pool made current by location",
    run({ driver }) {
      const imported = importPool(driver, exportPool(driver, createShareablePool(driver)));
      return driver.memSetMemPool(onDevice(0), pinned, imported);
    },
  },
  {
    name: "the current pools of places destroyed",
    run: ({ driver }) =>
      attemptEach(
        Object.fromEntries(
          Object.entries(
            {
              "the host": [onHost, pinned],
              "NUMA node 0": [onFirstNode, pinned],
              "managed": [nowhere, managed],
              "managed, device 0": [onDevice(0), managed],
            } as const,
          ).map(([name, [location, type]]) => [name, () => {
            const pool = driver.memPoolCreate({
              handleTypes: memHandleType.none,
              location,
              maxSize: 0n,
              allocationType: type,
            });
            driver.memSetMemPool(location, type, pool);
            driver.memPoolDestroy(pool);
            return driver.memGetMemPool(location, type) === driver.memGetDefaultMemPool(location, type);
          }]),
        ),
      ),
  },
  {
    name: "managed pools created at each location",
    run: ({ driver }) => forEachLocation((location) => createManagedPool(driver, location)),
  },
  {
    name: "pools that are not managed created without a location",
    run: ({ driver }) => createPool(driver, { location: nowhere }),
  },
  {
    name: "pools of types that there are not created",
    run: ({ driver }) =>
      attemptEach(
        Object.fromEntries(
          [0, 3].map((allocationType) => [`type ${allocationType}`, () =>
            driver.memPoolCreate({ handleTypes: 0, location: onDevice(0), maxSize: 0n, allocationType })]
          ),
        ),
      ),
  },
  {
    name: "managed pools created to be shared",
    run: ({ driver }) =>
      attemptEach({
        "posix-fd": () => createManagedPool(driver, nowhere, { handleTypes: memHandleType.posixFileDescriptor }),
        "posix-fd on a device": () =>
          createManagedPool(driver, onDevice(0), { handleTypes: memHandleType.posixFileDescriptor }),
        "fabric": () => createManagedPool(driver, nowhere, { handleTypes: memHandleType.fabric }),
      }),
  },
  {
    name: "more memory than a managed pool's maxSize",
    run({ driver }) {
      const create = (location: MemLocation) => createManagedPool(driver, location, { maxSize: BigInt(2 * mebibyte) });
      return attemptEach({
        "create": () => create(nowhere),
        "create on the device": () => create(onDevice(0)),
        "64 MiB": () => allocate(driver, create(nowhere), 64 * mebibyte),
        "64 MiB on the device": () => allocate(driver, create(onDevice(0)), 64 * mebibyte),
      });
    },
  },
  ...Object.entries(places).flatMap(([name, location]): Situation[] => [
    {
      name: `who has access to a new managed pool with ${name}`,
      run({ driver }) {
        const pool = createManagedPool(driver, location);
        return attemptEach({
          "device 0": () => driver.memPoolGetAccess(pool, onDevice(0)),
          "the host": () => driver.memPoolGetAccess(pool, onHost),
          "NUMA node 0": () => driver.memPoolGetAccess(pool, onFirstNode),
        });
      },
    },
    {
      name: `the attributes of memory of a managed pool with ${name}`,
      run({ driver }) {
        const address = allocate(driver, createManagedPool(driver, location), 1000);
        driver.streamSynchronize(0, defaultStream);
        return describe(driver, address);
      },
    },
    {
      name: `the range attributes of memory of a managed pool with ${name}`,
      run({ driver }) {
        const address = allocate(driver, createManagedPool(driver, location), mebibyte);
        driver.streamSynchronize(0, defaultStream);
        return rangeOf(driver, address);
      },
    },
    {
      name: `memory of a managed pool with ${name} written by the processor, then by a kernel`,
      run({ driver }) {
        const address = allocate(driver, createManagedPool(driver, location), mebibyte);
        driver.streamSynchronize(0, defaultStream);
        new Uint8Array(driver.hostView(address, mebibyte)).fill(3);
        return { ...attemptEach({ seen: () => seen(driver, address) }), ...fillAt(driver, address) };
      },
    },
  ]),
  {
    // May crash the process: nothing says that the address is valid for the host at once.
    name: "memory of a managed pool written by the processor before its allocation is complete",
    run({ driver }) {
      const address = allocate(driver, createManagedPool(driver), mebibyte);
      new Uint8Array(driver.hostView(address, mebibyte)).fill(3);
      driver.streamSynchronize(0, defaultStream);
      return [seen(driver, address), ...readBytes(driver, 0, address, 1)];
    },
  },
  {
    name: "access to a managed pool set",
    run({ driver }) {
      const set = (location: MemLocation, flags: number) => () =>
        driver.memPoolSetAccess(createManagedPool(driver), [{ location, flags }]);
      return attemptEach({
        "device to read-write": set(onDevice(0), memAccessFlags.readWrite),
        "device to read": set(onDevice(0), memAccessFlags.read),
        "device to none": set(onDevice(0), memAccessFlags.none),
        "host to read-write": set(onHost, memAccessFlags.readWrite),
        "host to none": set(onHost, memAccessFlags.none),
        "node to read-write": set(onFirstNode, memAccessFlags.readWrite),
      });
    },
  },
  {
    name: "the host's access to a device's pool set",
    run({ driver }) {
      const set = (location: MemLocation, flags: number) => () =>
        driver.memPoolSetAccess(createPool(driver), [{ location, flags }]);
      return attemptEach({
        "host to read-write": set(onHost, memAccessFlags.readWrite),
        "host to none": set(onHost, memAccessFlags.none),
        "node to read-write": set(onFirstNode, memAccessFlags.readWrite),
        "get of the host": () => driver.memPoolGetAccess(createPool(driver), onHost),
        "get of the node": () => driver.memPoolGetAccess(createPool(driver), onFirstNode),
        "get of no location": () => driver.memPoolGetAccess(createPool(driver), nowhere),
        "get of the current node": () => driver.memPoolGetAccess(createPool(driver), onCurrentNode),
      });
    },
  },
  {
    name: "the attributes of a managed pool with one byte allocated",
    run({ driver }) {
      const pool = createManagedPool(driver);
      allocate(driver, pool, 1);
      return attributesOf(driver, pool);
    },
  },
  {
    name: "the attributes of a managed pool after 64 MiB were freed and synchronized",
    run({ driver }) {
      const pool = createManagedPool(driver);
      free(driver, allocate(driver, pool, 64 * mebibyte));
      driver.streamSynchronize(0, defaultStream);
      return attributesOf(driver, pool);
    },
  },
  {
    name: "memory of a managed pool exported",
    run: ({ driver }) =>
      attemptEach({
        "the pool": () => exportPool(driver, createManagedPool(driver)),
        "a pointer": () => driver.memPoolExportPointer(allocate(driver, createManagedPool(driver), mebibyte)),
        "a pool's memory as IPC memory": () =>
          driver.ipcGetMemHandle(0, allocate(driver, createManagedPool(driver), mebibyte)),
        "managed memory as IPC memory": () => driver.ipcGetMemHandle(0, driver.mallocManaged(0, mebibyte)),
      }),
  },
  {
    name: "managed memory allocated and freed",
    run: ({ driver }) =>
      attemptEach({
        "no bytes": () => driver.mallocManaged(0, 0),
        "on device 99": () => driver.mallocManaged(99, 1),
        "freed": () => driver.free(0, driver.mallocManaged(0, 1)),
        "freed in stream order": () => driver.freeAsync(0, driver.mallocManaged(0, 1), defaultStream),
        "freed twice": () => {
          const address = driver.mallocManaged(0, 1);
          driver.free(0, address);
          driver.free(0, address);
        },
        "freed by an inner address": () => driver.free(0, driver.mallocManaged(0, 1000) + 4n),
        "a managed pool's memory freed by cudaFree": () =>
          driver.free(0, allocate(driver, createManagedPool(driver), mebibyte)),
      }),
  },
  {
    name: "the alignment of managed memory",
    run({ driver }) {
      const pool = createManagedPool(driver);
      const aligned = (address: bigint) => [16n, 256n, 512n, 4096n].filter((unit) => address % unit === 0n).join(" ");
      driver.mallocManaged(0, 1);
      allocate(driver, pool, 1);
      return {
        isAligned: aligned(driver.mallocManaged(0, 1)).startsWith("16 256 512"),
        ofPool: aligned(allocate(driver, pool, 1)).startsWith("16 256 512"),
      };
    },
  },
  {
    name: "the attributes of managed memory",
    run: ({ driver }) => describe(driver, driver.mallocManaged(0, 1000)),
  },
  {
    name: "managed memory written by the processor, then by a kernel",
    run({ driver }) {
      const address = driver.mallocManaged(0, mebibyte);
      new Uint8Array(driver.hostView(address, mebibyte)).fill(3);
      return { ...attemptEach({ seen: () => seen(driver, address) }), ...fillAt(driver, address) };
    },
  },
  ...Object.entries(memories).flatMap(([name, create]): Situation[] => [
    {
      name: `${name} copied, and filled`,
      run({ driver }) {
        const address = create(driver);
        const onGpu = driver.malloc(0, 64);
        return attemptEach({
          "from the host": () => driver.memcpyHtoDAsync(0, address, new Uint8Array(64).fill(9), defaultStream),
          "to the device": () => driver.memcpyAsync(0, onGpu, address, 64, defaultStream),
          "to the host": () => readBytes(driver, 0, onGpu, 1)[0],
          "fill": () => driver.memsetAsync(0, address, 8, 64, defaultStream),
          "fill of 32 bits": () => driver.memsetD32Async(0, address, 0x04040404, 16, defaultStream),
          "read": () => readBytes(driver, 0, address, 1)[0],
          "seen": () => seen(driver, address),
        });
      },
    },
    {
      name: `${name} prefetched to each location`,
      run({ driver }) {
        const address = create(driver), stream = createStream(driver);
        return {
          ...forEachLocation((location) => driver.memPrefetchAsync(0, address, mebibyte, location, stream)),
          ...attemptEach({ wait: () => driver.streamSynchronize(0, stream) }),
        };
      },
    },
    {
      name: `the last location to which ${name} was prefetched`,
      run({ driver }) {
        const address = create(driver), stream = createStream(driver);
        const last = () => rangeOf(driver, address)["last prefetch"]!;
        const after = Object.entries({ ...places, "the current NUMA node": onCurrentNode }).map(([place, location]) => {
          attemptEach({ prefetch: () => driver.memPrefetchAsync(0, address, mebibyte, location, stream) });
          return [place, last()] as const;
        });
        return Object.fromEntries(after);
      },
    },
    {
      name: `parts of ${name} prefetched`,
      run({ driver }) {
        const address = create(driver), stream = createStream(driver);
        const prefetch = (from: number, byteLength: number, location = onDevice(0)) => () =>
          driver.memPrefetchAsync(0, address + BigInt(from), byteLength, location, stream);
        return {
          ...attemptEach({
            "nothing": prefetch(0, 0),
            "one byte": prefetch(4096, 1),
            "on the default stream": () => driver.memPrefetchAsync(0, address, mebibyte, onHost, defaultStream),
            "beyond the end": prefetch(0, 65 * mebibyte),
          }),
          whole: rangeOf(driver, address)["last prefetch"]!,
          ...attemptEach({ "the first half to the device": prefetch(0, mebibyte / 2) }),
          first: rangeOf(driver, address, mebibyte / 2)["last prefetch"]!,
          both: rangeOf(driver, address)["last prefetch"]!,
        };
      },
    },
    {
      name: `advice for ${name} set, and taken back`,
      run({ driver }) {
        const address = create(driver);
        const advise = (advice: number, location: MemLocation) => () =>
          driver.memAdvise(0, address, mebibyte, advice, location);
        const answers: Record<string, Answer> = { fresh: rangeOf(driver, address) };
        Object.assign(
          answers,
          attemptEach({
            "read mostly": advise(memAdvice.setReadMostly, onHost),
            "preferred device": advise(memAdvice.setPreferredLocation, onDevice(0)),
            "accessed by the device": advise(memAdvice.setAccessedBy, onDevice(0)),
          }),
        );
        answers.set = rangeOf(driver, address);
        Object.assign(answers, attemptEach({ "accessed by the host": advise(memAdvice.setAccessedBy, onHost) }));
        answers.host = rangeOf(driver, address);
        Object.assign(
          answers,
          attemptEach({
            "not read mostly": advise(memAdvice.unsetReadMostly, onHost),
            "no preferred location": advise(memAdvice.unsetPreferredLocation, onHost),
            "not accessed by the device": advise(memAdvice.unsetAccessedBy, onDevice(0)),
            "not accessed by the host": advise(memAdvice.unsetAccessedBy, onHost),
          }),
        );
        answers.unset = rangeOf(driver, address);
        return answers;
      },
    },
    {
      name: `preferred locations of ${name}`,
      run({ driver }) {
        const address = create(driver);
        return Object.fromEntries(
          Object.entries(locations).map(([place, location]) => {
            const answers = attemptEach({
              set: () => driver.memAdvise(0, address, mebibyte, memAdvice.setPreferredLocation, location),
            });
            return [place, [answers["set"]!, rangeOf(driver, address)["preferred location"]!]];
          }),
        );
      },
    },
    {
      name: `who ${name} is accessed by`,
      run({ driver }) {
        const address = create(driver);
        return forEachLocation((location) => driver.memAdvise(0, address, mebibyte, memAdvice.setAccessedBy, location));
      },
    },
    {
      name: `${name} with advice for a part`,
      run({ driver }) {
        const address = create(driver);
        driver.memAdvise(0, address + 4096n, 1, memAdvice.setReadMostly, onHost);
        const isReadMostly = (from: number, byteLength: number) => () =>
          driver.memRangeGetAttribute(0, memRangeAttribute.readMostly, address + BigInt(from), byteLength)[0];
        return attemptEach({
          "the byte": isReadMostly(4096, 1),
          "its page": isReadMostly(4096, 4096),
          "the page before": isReadMostly(0, 4096),
          "two pages": isReadMostly(4096, 8192),
          "all": isReadMostly(0, mebibyte),
          "nothing": isReadMostly(0, 0),
          "advice for nothing": () => driver.memAdvise(0, address, 0, memAdvice.setReadMostly, onHost),
          "advice 0": () => driver.memAdvise(0, address, mebibyte, 0, onHost),
          "attribute 0": () => driver.memRangeGetAttribute(0, 0, address, mebibyte)[0],
        });
      },
    },
    {
      name: `${name} discarded`,
      run({ driver }) {
        const address = create(driver), stream = createStream(driver);
        const discard = (byteLength: number, on: bigint) => () =>
          driver.memDiscardBatchAsync(0, [{ address, byteLength }], on);
        return attemptEach({
          "on a stream": discard(mebibyte, stream),
          "a part": discard(1, stream),
          "no bytes": discard(0, stream),
          "no ranges": () => driver.memDiscardBatchAsync(0, [], stream),
          "on the default stream": discard(mebibyte, defaultStream),
          "on the legacy stream": discard(mebibyte, legacyStream),
          "two ranges": () =>
            driver.memDiscardBatchAsync(
              0,
              [{ address, byteLength: 4096 }, { address: address + 8192n, byteLength: 4096 }],
              stream,
            ),
          "the same range twice": () =>
            driver.memDiscardBatchAsync(0, [{ address, byteLength: 4096 }, { address, byteLength: 4096 }], stream),
          "wait": () => driver.streamSynchronize(0, stream),
          "fill": () => driver.memsetAsync(0, address, 6, mebibyte, stream),
          "wait for the fill": () => driver.streamSynchronize(0, stream),
          "seen": () => seen(driver, address),
        });
      },
    },
    {
      name: `${name} discarded and prefetched`,
      run({ driver }) {
        const address = create(driver), stream = createStream(driver);
        const discard = (location: MemLocation, on = stream) => () =>
          driver.memDiscardAndPrefetchBatchAsync(0, [{ address, byteLength: mebibyte }], location, on);
        return {
          ...forEachLocation((location) => discard(location)()),
          ...attemptEach({
            "on the default stream": discard(onDevice(0), defaultStream),
            "wait": () => driver.streamSynchronize(0, stream),
            "fill": () => driver.memsetAsync(0, address, 6, mebibyte, stream),
            "wait for the fill": () => driver.streamSynchronize(0, stream),
            "seen": () => seen(driver, address),
          }),
        };
      },
    },
    {
      name: `calls about ${name} in relaxed captures`,
      run: ({ driver }) => capturedAnswers(driver, "relaxed", create),
    },
  ]),
  {
    name: "calls about managed memory in global captures",
    run: ({ driver }) => capturedAnswers(driver, "global", (driver) => driver.mallocManaged(0, mebibyte)),
  },
  {
    name: "a managed pool made current in a global capture",
    run({ driver }) {
      const pool = createManagedPool(driver);
      return inCapture(driver, "global", () => driver.memSetMemPool(nowhere, managed, pool));
    },
  },
  ...Object.entries({
    "a managed pool": (driver: Driver) => createManagedPool(driver),
    "a managed pool on device 0": (driver: Driver) => createManagedPool(driver, onDevice(0)),
    "the default pool of the host": (driver: Driver) => driver.memGetDefaultMemPool(onHost, pinned),
    "the managed default pool": (driver: Driver) => driver.memGetDefaultMemPool(nowhere, managed),
  }).map(([name, create]): Situation => ({
    name: `memory of ${name} allocated in a capture`,
    run({ driver }) {
      const pool = create(driver);
      return inCapture(driver, "relaxed", (stream) => allocate(driver, pool, mebibyte, stream));
    },
  })),
  {
    name: "a graph that writes to managed memory",
    run({ driver }) {
      const address = driver.mallocManaged(0, mebibyte), stream = createStream(driver);
      const kernel = loadFill(driver, 0);
      new Uint8Array(driver.hostView(address, mebibyte)).fill(3);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      driver.launchKernel(fillLaunch(driver, { device: 0, kernel }, { address, byteLength: 4096, stream }));
      driver.memsetAsync(0, address + 4096n, 2, 4096, stream);
      driver.memcpyAsync(0, address + 8192n, address + 4096n, 4096, stream);
      const graph = driver.streamEndCapture(0, stream);
      const before = seen(driver, address);
      driver.graphLaunch(0, driver.graphInstantiate(graph, 0), stream);
      driver.streamSynchronize(0, stream);
      return [before, ...[0n, 4096n, 8192n, 12288n].map((at) => seen(driver, address + at))];
    },
  },
  {
    name: "memory that is not managed prefetched, advised and discarded",
    run({ driver }) {
      const stream = createStream(driver);
      return Object.fromEntries(
        Object.entries(others).map(([name, create]) => {
          const address = create(driver);
          driver.streamSynchronize(0, defaultStream);
          return [
            name,
            attemptEach({
              "prefetch": () => driver.memPrefetchAsync(0, address, mebibyte, onDevice(0), stream),
              "advise": () => driver.memAdvise(0, address, mebibyte, memAdvice.setReadMostly, onHost),
              "discard": () => driver.memDiscardBatchAsync(0, [{ address, byteLength: mebibyte }], stream),
              "attribute": () => driver.memRangeGetAttribute(0, memRangeAttribute.readMostly, address, mebibyte)[0],
            }),
          ];
        }),
      );
    },
  },
  {
    name: "the advice for memory of a managed pool that was freed and allocated again",
    run({ driver }) {
      const pool = createManagedPool(driver);
      setAttribute(driver, pool, "releaseThreshold", infinite);
      const address = allocate(driver, pool, mebibyte);
      driver.streamSynchronize(0, defaultStream);
      driver.memAdvise(0, address, mebibyte, memAdvice.setReadMostly, onHost);
      driver.memAdvise(0, address, mebibyte, memAdvice.setPreferredLocation, onHost);
      driver.memPrefetchAsync(0, address, mebibyte, onDevice(0), defaultStream);
      free(driver, address);
      driver.streamSynchronize(0, defaultStream);
      const again = allocate(driver, pool, mebibyte);
      driver.streamSynchronize(0, defaultStream);
      return { isSame: again === address, ...rangeOf(driver, again) };
    },
  },
  {
    // May crash the process or the device: memory is used after its discard, which CUDA calls indeterminate.
    name: "whether discarded memory can be written by the processor, and read by a kernel's copy",
    run({ driver }) {
      const address = driver.mallocManaged(0, mebibyte), stream = createStream(driver);
      driver.memsetAsync(0, address, 5, mebibyte, stream);
      driver.memDiscardBatchAsync(0, [{ address, byteLength: mebibyte }], stream);
      driver.streamSynchronize(0, stream);
      new Uint8Array(driver.hostView(address, mebibyte)).fill(9);
      return readBytes(driver, 0, address, 2);
    },
  },
  {
    name: "memory that is no longer there: managed memory after its free",
    run({ driver }) {
      const address = driver.mallocManaged(0, mebibyte), stream = createStream(driver);
      driver.free(0, address);
      return attemptEach({
        "prefetch": () => driver.memPrefetchAsync(0, address, mebibyte, onDevice(0), stream),
        "advise": () => driver.memAdvise(0, address, mebibyte, memAdvice.setReadMostly, onHost),
        "attribute": () => driver.memRangeGetAttribute(0, memRangeAttribute.readMostly, address, mebibyte)[0],
        "pointer": () => driver.pointerGetAttributes(0, address).isManaged,
        "view": () => driver.hostView(address, mebibyte).byteLength,
      });
    },
  },
];

/** Returns what the driver says of an address. */
function describe(driver: Driver, address: bigint): Answer {
  const { type, device, isManaged, base, byteLength } = driver.pointerGetAttributes(0, address);
  return {
    type,
    device: device ?? "none",
    isManaged,
    isBase: base === address,
    byteLength,
    ...attemptEach({
      "the range begins there": () => driver.memGetAddressRange(0, address).base === address,
      "size of the range": () => driver.memGetAddressRange(0, address).byteLength,
      "view of the host": () => driver.hostView(address, byteLength).byteLength,
    }),
  };
}

/** Runs a kernel on device 0 and returns the result, with the first byte that the processor sees afterwards. */
function fillAt(driver: Driver, address: bigint): Attempts {
  return attemptEach({
    launch: () => launchFill(driver, 0, { address, byteLength: mebibyte, pattern: 0x07070707 }),
    wait: () => driver.streamSynchronize(0, defaultStream),
    see: () => seen(driver, address),
  });
}
