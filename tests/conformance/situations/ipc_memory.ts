import { defaultStream, type Driver, eventFlags, memHandleType } from "../../../src/driver.ts";
import { attemptEach, attemptEachAsync } from "../attempts.ts";
import { launchFill, readBytes } from "../launch.ts";
import { allocate, createPool, mebibyte } from "../pools.ts";
import { startRemoteDriver } from "../remote_driver.ts";
import type { Fixture, Situation } from "../situation.ts";

const interprocess = eventFlags.disableTiming | eventFlags.interprocess;
/** Large enough to share no page with other memory. */
const byteLength = 4 * mebibyte;
const handleByteLength = 64;

function delay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Allocates memory on device 0 and fills it with a byte. */
function allocateFilled(driver: Driver, byte: number, length = byteLength): bigint {
  const address = driver.malloc(0, length);
  driver.memsetAsync(0, address, byte, length, defaultStream);
  driver.deviceSynchronize(0);
  return address;
}

/** Allocates memory in this process, filled with 7, which a peer opens. */
async function shareMemory(fixture: Fixture) {
  const peer = await startRemoteDriver(fixture);
  const address = allocateFilled(fixture.driver, 7);
  const handle = fixture.driver.ipcGetMemHandle(0, address);
  return { peer, address, handle, opened: await peer.call("ipcOpenMemHandle", 0, handle) };
}

/** Allocates memory in a peer, filled with 0, which this process opens. */
async function openPeerMemory(fixture: Fixture) {
  const peer = await startRemoteDriver(fixture);
  const peerAddress = await peer.call("malloc", 0, byteLength);
  await peer.call("memsetAsync", 0, peerAddress, 0, byteLength, defaultStream);
  await peer.call("deviceSynchronize", 0);
  const handle = await peer.call("ipcGetMemHandle", 0, peerAddress);
  return { peer, peerAddress, handle, address: fixture.driver.ipcOpenMemHandle(0, handle) };
}

function openBytes(driver: Driver, byte: (index: number) => number): bigint {
  driver.deviceSynchronize(0);
  return driver.ipcOpenMemHandle(0, Uint8Array.from({ length: handleByteLength }, (_, index) => byte(index)));
}

/** Rows about memory that two processes share by a legacy handle. */
export const situations: readonly Situation[] = [
  {
    name: "the legacy handle of cudaMalloc memory: its length, and whether it has zeros alone",
    run({ driver }) {
      const handle = driver.ipcGetMemHandle(0, driver.malloc(0, byteLength));
      return { byteLength: handle.length, isZero: handle.every((byte) => byte === 0) };
    },
  },
  {
    name: "the legacy handle of one allocation asked for twice, and of another: whether they are the same",
    run({ driver }) {
      const addresses = [driver.malloc(0, byteLength), driver.malloc(0, byteLength)];
      const [first, again, other] = [addresses[0]!, addresses[0]!, addresses[1]!].map((address) =>
        String(driver.ipcGetMemHandle(0, address))
      );
      return { twice: first === again, other: first === other };
    },
  },
  {
    name: "the legacy handle of the inside of an allocation",
    run: ({ driver }) => void driver.ipcGetMemHandle(0, driver.malloc(0, byteLength) + BigInt(mebibyte)),
  },
  {
    name: "the legacy handle of pool memory",
    run({ driver }) {
      const forTypes = (handleTypes: number) => () =>
        driver.ipcGetMemHandle(0, allocate(driver, createPool(driver, { handleTypes }), byteLength));
      return attemptEach({ none: forTypes(memHandleType.none), fd: forTypes(memHandleType.posixFileDescriptor) });
    },
  },
  {
    name: "the legacy handle of memory that was freed",
    run({ driver }) {
      const address = driver.malloc(0, byteLength);
      driver.free(0, address);
      driver.ipcGetMemHandle(0, address);
    },
  },
  {
    name: "the legacy handle of page-locked host memory",
    run: ({ driver }) => void driver.ipcGetMemHandle(0, driver.hostAlloc(4096).address),
  },
  {
    name: "the legacy handle of address 0, and of an address that is no allocation's",
    run({ driver }) {
      driver.deviceSynchronize(0);
      return attemptEach({
        "0": () => driver.ipcGetMemHandle(0, 0n),
        nowhere: () => driver.ipcGetMemHandle(0, 0x0060_0000_0000n),
      });
    },
  },
  {
    name: "the legacy handle of another device's memory",
    devices: 2,
    run({ driver }) {
      const address = driver.malloc(0, byteLength);
      driver.deviceSynchronize(1);
      driver.ipcGetMemHandle(1, address);
    },
  },
  {
    name: "legacy memory opened in the process that allocated it",
    run: ({ driver }) => void driver.ipcOpenMemHandle(0, driver.ipcGetMemHandle(0, driver.malloc(0, byteLength))),
  },
  {
    name: "legacy memory opened by 64 bytes of zero",
    run: ({ driver }) => void openBytes(driver, () => 0),
  },
  {
    name: "legacy memory opened by 64 bytes of nothing in particular",
    run: ({ driver }) => void openBytes(driver, (index) => (index * 73 + 41) % 256),
  },
  {
    name: "legacy memory opened by a handle of an event",
    run: ({ driver }) =>
      void driver.ipcOpenMemHandle(0, driver.ipcGetEventHandle(driver.eventCreateWithFlags(0, interprocess))),
  },
  {
    name: "legacy memory of a process that is gone opened",
    async run(fixture) {
      const peer = await startRemoteDriver(fixture);
      const handle = await peer.call("ipcGetMemHandle", 0, await peer.call("malloc", 0, byteLength));
      await peer.kill();
      fixture.driver.ipcOpenMemHandle(0, handle);
    },
  },
  {
    name: "legacy memory that was freed before it is opened",
    async run(fixture) {
      const { driver } = fixture;
      const peer = await startRemoteDriver(fixture);
      const address = driver.malloc(0, byteLength);
      const handle = driver.ipcGetMemHandle(0, address);
      driver.free(0, address);
      await peer.call("ipcOpenMemHandle", 0, handle);
    },
  },
  {
    name: "legacy memory opened by another process: what it reads there",
    async run(fixture) {
      const { peer, opened } = await shareMemory(fixture);
      return [
        await peer.call("read", 0, opened, 4),
        await peer.call("read", 0, opened + BigInt(byteLength - 4), 4),
      ];
    },
  },
  {
    name: "legacy memory of 1000 bytes beside other memory, opened by another process: what it reads there",
    async run(fixture) {
      const { driver } = fixture;
      const peer = await startRemoteDriver(fixture);
      const addresses = [1, 2, 3].map((byte) => allocateFilled(driver, byte, 1000));
      const opened = await peer.call("ipcOpenMemHandle", 0, driver.ipcGetMemHandle(0, addresses[1]!));
      return await peer.call("read", 0, opened, 4);
    },
  },
  {
    name: "legacy memory opened by another process: what is written there, by a fill, a copy and a kernel",
    async run(fixture) {
      const { driver } = fixture;
      const { peer, opened, address } = await shareMemory(fixture);
      await peer.call("memsetAsync", 0, opened + 4n, 1, 4, defaultStream);
      await peer.call("memcpyHtoDAsync", 0, opened + 8n, Uint8Array.of(2, 2, 2, 2), defaultStream);
      await peer.call("fill", 0, { address: opened + 12n, byteLength: 4, pattern: 0x03030303 });
      await peer.call("deviceSynchronize", 0);
      return readBytes(driver, 0, address, 20);
    },
  },
  {
    name: "legacy memory opened by another process: what the one that allocated it writes after",
    async run(fixture) {
      const { driver } = fixture;
      const { peer, opened, address } = await shareMemory(fixture);
      launchFill(driver, 0, { address, byteLength: 4, pattern: 0x09090909 });
      driver.deviceSynchronize(0);
      return await peer.call("read", 0, opened, 8);
    },
  },
  {
    name: "legacy memory of 4 MiB opened by another process: the allocation that its address lies in there",
    async run(fixture) {
      const { peer, opened } = await shareMemory(fixture);
      const begin = await peer.call("memGetAddressRange", 0, opened);
      const inside = await peer.call("memGetAddressRange", 0, opened + 5000n);
      return {
        base: begin.base === opened,
        byteLength: begin.byteLength,
        inside: inside.base === opened && inside.byteLength === begin.byteLength,
      };
    },
  },
  {
    name: "legacy memory opened by another process: a copy from past its end there",
    async run(fixture) {
      const { peer, opened } = await shareMemory(fixture);
      await peer.call("read", 0, opened + BigInt(byteLength - 4), 8);
    },
  },
  {
    name: "legacy memory opened twice by a process: whether it has one address there",
    async run(fixture) {
      const { peer, opened, handle } = await shareMemory(fixture);
      return await peer.call("ipcOpenMemHandle", 0, handle) === opened;
    },
  },
  {
    name: "legacy memory opened twice by a process, and closed once, twice and three times",
    async run(fixture) {
      const { peer, opened, handle } = await shareMemory(fixture);
      await peer.call("ipcOpenMemHandle", 0, handle);
      const close = () => peer.call("ipcCloseMemHandle", 0, opened);
      const range = async () => void await peer.call("memGetAddressRange", 0, opened);
      return attemptEachAsync({
        "close once": close,
        "range after": range,
        "close twice": close,
        "range after that": range,
        "close three times": close,
      });
    },
  },
  {
    name: "legacy memory closed and opened again: what it reads",
    async run(fixture) {
      const { peer, opened, handle } = await shareMemory(fixture);
      await peer.call("ipcCloseMemHandle", 0, opened);
      const again = await peer.call("ipcOpenMemHandle", 0, handle);
      return await peer.call("read", 0, again, 4);
    },
  },
  {
    name: "legacy memory closed by an address inside of it, by the null address and by one that is no allocation's",
    async run(fixture) {
      const { peer, opened } = await shareMemory(fixture);
      return attemptEachAsync({
        inside: () => peer.call("ipcCloseMemHandle", 0, opened + 4096n),
        "0": () => peer.call("ipcCloseMemHandle", 0, 0n),
        nowhere: () => peer.call("ipcCloseMemHandle", 0, 0x0060_0000_0000n),
        "close after these": () => peer.call("ipcCloseMemHandle", 0, opened),
      });
    },
  },
  {
    name: "cudaMalloc memory closed as if it had been opened, by the process that allocated it",
    run({ driver }) {
      const address = driver.malloc(0, byteLength);
      return attemptEach({
        close: () => driver.ipcCloseMemHandle(0, address),
        free: () => driver.free(0, address),
      });
    },
  },
  {
    name: "legacy memory freed by the process that opened it, and then closed",
    async run(fixture) {
      const { peer, opened } = await shareMemory(fixture);
      return attemptEachAsync({
        free: () => peer.call("free", 0, opened),
        freeAsync: () => peer.call("freeAsync", 0, opened, defaultStream),
        synchronize: () => peer.call("deviceSynchronize", 0),
        close: () => peer.call("ipcCloseMemHandle", 0, opened),
      });
    },
  },
  {
    name: "legacy memory exported again by the process that opened it, by either kind of export",
    async run(fixture) {
      const { peer, opened } = await shareMemory(fixture);
      return attemptEachAsync({
        ipcGetMemHandle: () => peer.call("ipcGetMemHandle", 0, opened),
        memPoolExportPointer: () => peer.call("memPoolExportPointer", opened),
      });
    },
  },
  {
    name: "legacy memory closed by the process that opened it, and freed by the one that allocated it",
    async run(fixture) {
      const { peer, opened, address } = await shareMemory(fixture);
      return attemptEachAsync({
        close: () => peer.call("ipcCloseMemHandle", 0, opened),
        free: () => fixture.driver.free(0, address),
        "free again": () => fixture.driver.free(0, address),
      });
    },
  },
  {
    name: "legacy memory whose allocating process is killed while it is open: what it reads, and the close",
    async run(fixture) {
      const { driver } = fixture;
      const { peer, address, peerAddress } = await openPeerMemory(fixture);
      await peer.call("memsetAsync", 0, peerAddress, 5, byteLength, defaultStream);
      await peer.call("deviceSynchronize", 0);
      await peer.kill();
      // The driver may take some time to release the resources of a killed process.
      await delay(500);
      return {
        bytes: readBytes(driver, 0, address, 4),
        ...attemptEach({ close: () => driver.ipcCloseMemHandle(0, address) }),
      };
    },
  },
  {
    name: "legacy memory of one device opened by another process on another device: what it reads there",
    devices: 2,
    async run(fixture) {
      const peer = await startRemoteDriver(fixture);
      const address = allocateFilled(fixture.driver, 7);
      const opened = await peer.call("ipcOpenMemHandle", 1, fixture.driver.ipcGetMemHandle(0, address));
      await peer.call("fill", 1, { address: opened, byteLength: 2, pattern: 0x08080808 });
      await peer.call("deviceSynchronize", 1);
      return [await peer.call("read", 1, opened, 4), readBytes(fixture.driver, 0, address, 4)];
    },
  },
  {
    name: "legacy memory opened by another process on both devices: whether it has one address there",
    devices: 2,
    async run(fixture) {
      const { peer, opened, handle } = await shareMemory(fixture);
      const other = await peer.call("ipcOpenMemHandle", 1, handle);
      return { isOne: other === opened, bytes: await peer.call("read", 1, other, 4) };
    },
  },
];
