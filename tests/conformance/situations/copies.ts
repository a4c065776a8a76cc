import { defaultStream, type Driver, streamFlags } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import { readBytes } from "../launch.ts";
import { prepareLongWork } from "../long_work.ts";
import { allocate, createPool, mebibyte } from "../pools.ts";
import type { Fixture, Situation } from "../situation.ts";

/** An address where no device has an allocation. */
const farAddress = 0x0060_0000_0000n;
const noDevice = 99;

/** Options of `useMemory`. */
interface UseOptions {
  /** The current device, which is also passed as the memory's device. Default: 0. */
  readonly device?: number;
  /** The other end of copies within the device. Default: new memory of the device. */
  readonly other?: bigint;
}

/** Returns the results of copies and fills of device memory at an address. Waits for each one. */
function useMemory(driver: Driver, address: bigint, byteLength: number, { device = 0, other }: UseOptions = {}) {
  other ??= driver.malloc(device, Math.max(byteLength, 1));
  const host = new Uint8Array(byteLength);
  const waitingFor = (call: () => void) => () => {
    call();
    driver.deviceSynchronize(device);
  };
  return attemptEach({
    memcpyHtoDAsync: waitingFor(() => driver.memcpyHtoDAsync(device, address, host, defaultStream)),
    memcpyDtoHAsync: waitingFor(() => driver.memcpyDtoHAsync(device, host, address, defaultStream)),
    "memcpyPeerAsync from": waitingFor(() =>
      driver.memcpyPeerAsync(device, other, device, address, device, byteLength, defaultStream)
    ),
    "memcpyPeerAsync to": waitingFor(() =>
      driver.memcpyPeerAsync(device, address, device, other, device, byteLength, defaultStream)
    ),
    memsetAsync: waitingFor(() => driver.memsetAsync(device, address, 0, byteLength, defaultStream)),
  });
}

/** Returns the run function of a row that copies and fills a range of a new allocation. */
function useAllocation(allocated: number, offset: number, byteLength: number) {
  return ({ driver }: Fixture) => useMemory(driver, driver.malloc(0, allocated) + BigInt(offset), byteLength);
}

/**
 * Returns the results of copies and fills of memory of device 0 on a stream of device 1, with either device current.
 */
function useOnStreamOfPeer(driver: Driver, address: bigint) {
  const stream = driver.streamCreateWithPriority(1, 0, 0);
  const bytes = new Uint8Array(4);
  return {
    ...attemptEach({
      "memcpyHtoDAsync, its own current": () => driver.memcpyHtoDAsync(0, address, Uint8Array.of(1, 2, 3, 4), stream),
      "memsetAsync, its own current": () => driver.memsetAsync(0, address + 3n, 9, 1, stream),
      "memcpyDtoHAsync, its own current": () => driver.memcpyDtoHAsync(0, bytes, address, stream),
      "memcpyHtoDAsync, the stream's current": () => driver.memcpyHtoDAsync(1, address, Uint8Array.of(5), stream),
      "memcpyDtoHAsync, the stream's current": () => driver.memcpyDtoHAsync(1, bytes, address, stream),
      synchronize: () => driver.streamSynchronize(1, stream),
    }),
    bytes: [...bytes],
  };
}

/** Returns the address range of the allocation that contains an address, and whether it starts at `base`. */
function rangeAt(driver: Driver, address: bigint, base: bigint) {
  const range = driver.memGetAddressRange(0, address);
  return { base: range.base === base, byteLength: range.byteLength };
}

/** Rows about copies and fills, and about the memory that they use. */
export const situations: readonly Situation[] = [
  {
    name: "bytes copied to a device, within it and back",
    run({ driver }) {
      const [first, second] = [driver.malloc(0, 8), driver.malloc(0, 8)];
      const bytes = new Uint8Array(8);
      driver.memcpyHtoDAsync(0, first, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8), defaultStream);
      driver.memcpyPeerAsync(0, second, 0, first, 0, 8, defaultStream);
      driver.memcpyHtoDAsync(0, second + 3n, Uint8Array.of(9), defaultStream);
      driver.memcpyDtoHAsync(0, bytes, second, defaultStream);
      driver.streamSynchronize(0, defaultStream);
      return [...bytes];
    },
  },
  { name: "copies and fills of no bytes of an allocation", run: useAllocation(64, 0, 0) },
  { name: "copies and fills of no bytes at an allocation's end", run: useAllocation(2 * mebibyte, 2 * mebibyte, 0) },
  { name: "copies and fills of no bytes at address 0", run: ({ driver }) => useMemory(driver, 0n, 0) },
  {
    name: "copies and fills of no bytes where no allocation is",
    run: ({ driver }) => useMemory(driver, farAddress, 0),
  },
  { name: "copies and fills of 4 bytes at address 0", run: ({ driver }) => useMemory(driver, 0n, 4) },
  {
    name: "copies and fills of 4 bytes where no allocation is",
    run: ({ driver }) => useMemory(driver, farAddress, 4),
  },
  { name: "copies and fills of all of an allocation of 1000 bytes", run: useAllocation(1000, 0, 1000) },
  { name: "copies and fills of an allocation of 1000 bytes and a byte past it", run: useAllocation(1000, 0, 1001) },
  {
    name: "copies and fills of an allocation of 2 MiB and a byte past it",
    run: useAllocation(2 * mebibyte, 0, 2 * mebibyte + 1),
  },
  {
    name: "copies and fills of the last byte of an allocation of 2 MiB and one past it",
    run: useAllocation(2 * mebibyte, 2 * mebibyte - 1, 2),
  },
  {
    name: "copies and fills of an allocation of 2 MiB and 64 MiB past it",
    run: useAllocation(2 * mebibyte, 0, 66 * mebibyte),
  },
  {
    name: "copies and fills of pool memory of 4096 bytes and 256 MiB past it",
    run({ driver }) {
      const address = allocate(driver, createPool(driver), 4096);
      driver.deviceSynchronize(0);
      return useMemory(driver, address, 256 * mebibyte);
    },
  },
  {
    name: "copies and fills of memory that was freed",
    run({ driver }) {
      const [address, other] = [driver.malloc(0, 4 * mebibyte), driver.malloc(0, 4)];
      driver.free(0, address);
      return useMemory(driver, address, 4, { other });
    },
  },
  {
    name: "copies and fills of another device's memory by the device that is current",
    devices: 2,
    run({ driver }) {
      const address = driver.malloc(0, 64);
      return useMemory(driver, address, 64, { device: 1 });
    },
  },
  {
    name: "fills with numbers that are no bytes: what is in memory then",
    run({ driver }) {
      const address = driver.malloc(0, 1);
      const fillWith = (value: number) => () => {
        driver.memsetAsync(0, address, value, 1, defaultStream);
        return readBytes(driver, 0, address, 1)[0];
      };
      return attemptEach({ "256": fillWith(256), "511": fillWith(511), "-1": fillWith(-1), "-2": fillWith(-2) });
    },
  },
  {
    name: "a fill that does not start or end at a multiple of 4",
    run({ driver }) {
      const address = driver.malloc(0, 12);
      driver.memsetAsync(0, address, 1, 12, defaultStream);
      driver.memsetAsync(0, address + 3n, 2, 6, defaultStream);
      return readBytes(driver, 0, address, 12);
    },
  },
  {
    name: "fills with values of 16 and 32 bits: what is in memory then",
    run({ driver }) {
      const address = driver.malloc(0, 20);
      driver.memsetAsync(0, address, 0, 20, defaultStream);
      driver.memsetD16Async(0, address, 0x1234, 2, defaultStream);
      driver.memsetD32Async(0, address + 8n, 0xfedcba98, 2, defaultStream);
      return readBytes(driver, 0, address, 20);
    },
  },
  {
    name: "a fill of rows of 32-bit values whose pitch is larger than a row, and of one whose pitch is a row",
    run({ driver }) {
      const address = driver.malloc(0, 68);
      driver.memsetAsync(0, address, 0, 68, defaultStream);
      driver.memsetD2D32Async(0, address, 12, 1, 2, 2, defaultStream);
      driver.memsetD2D32Async(0, address + 24n, 8, 2, 1, 3, defaultStream);
      driver.memsetD2D32Async(0, address + 52n, 8, 3, 2, 2, defaultStream);
      return [...new Uint32Array(Uint8Array.from(readBytes(driver, 0, address, 68)).buffer)];
    },
  },
  {
    name: "the two halves of a million values of 64 bits, each filled as a column",
    run({ driver }) {
      const count = 1_000_003;
      const address = driver.malloc(0, 8 * count);
      driver.memsetD2D32Async(0, address, 8, 0x89abcdef, 1, count, defaultStream);
      driver.memsetD2D32Async(0, address + 4n, 8, 0x01234567, 1, count, defaultStream);
      const bytes = new Uint8Array(8 * count);
      driver.memcpyDtoHAsync(0, bytes, address, defaultStream);
      driver.streamSynchronize(0, defaultStream);
      return new BigUint64Array(bytes.buffer).every((value) => value === 0x0123456789abcdefn);
    },
  },
  {
    name: "fills with values of 16 and 32 bits at addresses that are not multiples of 2 and 4",
    run({ driver }) {
      const address = driver.malloc(0, 64);
      return attemptEach({
        "memsetD16Async + 1": () => driver.memsetD16Async(0, address + 1n, 1, 2, defaultStream),
        "memsetD32Async + 2": () => driver.memsetD32Async(0, address + 2n, 1, 2, defaultStream),
        "memsetD2D32Async + 2": () => driver.memsetD2D32Async(0, address + 2n, 8, 1, 1, 2, defaultStream),
        "memsetD2D32Async, a pitch of 6": () => driver.memsetD2D32Async(0, address, 6, 1, 1, 2, defaultStream),
        "memsetD2D32Async, a pitch below the width": () =>
          driver.memsetD2D32Async(0, address, 4, 1, 2, 2, defaultStream),
      });
    },
  },
  {
    name: "fills with no values of 16 and 32 bits, and with values past the end of an allocation",
    run({ driver }) {
      const address = driver.malloc(0, 2 * mebibyte);
      const [halves, words] = [mebibyte, mebibyte / 2];
      return attemptEach({
        "memsetD16Async of none": () => driver.memsetD16Async(0, address, 1, 0, defaultStream),
        "memsetD32Async of none": () => driver.memsetD32Async(0, address, 1, 0, defaultStream),
        "memsetD2D32Async of no rows": () => driver.memsetD2D32Async(0, address, 8, 1, 1, 0, defaultStream),
        "memsetD2D32Async of empty rows": () => driver.memsetD2D32Async(0, address, 8, 1, 0, 1, defaultStream),
        "memsetD16Async past the end": () => driver.memsetD16Async(0, address, 1, halves + 1, defaultStream),
        "memsetD32Async past the end": () => driver.memsetD32Async(0, address, 1, words + 1, defaultStream),
        "memsetD2D32Async past the end": () =>
          driver.memsetD2D32Async(0, address, 8, 1, 1, words / 2 + 1, defaultStream),
      });
    },
  },
  {
    name: "pageable memory changed after a copy from it was given to a busy stream: which bytes arrive",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const address = driver.malloc(0, 4);
      const source = Uint8Array.of(1, 1, 1, 1);
      keepBusy(stream);
      driver.memcpyHtoDAsync(0, address, source, stream);
      source.fill(2);
      driver.streamSynchronize(0, stream);
      return readBytes(driver, 0, address, 4);
    },
  },
  {
    name: "64 KiB of pageable memory copied by a busy stream: which bytes arrive, and whether it is done at the return",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const address = driver.malloc(0, 65536);
      const source = new Uint8Array(65536).fill(1);
      keepBusy(stream);
      driver.memcpyHtoDAsync(0, address, source, stream);
      source.fill(2);
      const isDone = driver.streamQuery(0, stream);
      driver.streamSynchronize(0, stream);
      return { isDone, bytes: readBytes(driver, 0, address + 65532n, 4) };
    },
  },
  {
    name: "page-locked memory allocated while a stream is busy: whether the stream is done then",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      keepBusy(stream);
      driver.hostAlloc(8 * mebibyte);
      return driver.streamQuery(0, stream);
    },
  },
  {
    name: "page-locked memory changed after a copy from it was given to a busy stream: which bytes arrive",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const address = driver.malloc(0, 65536);
      const source = new Uint8Array(driver.hostAlloc(65536).buffer).fill(1);
      keepBusy(stream);
      driver.memcpyHtoDAsync(0, address, source, stream);
      source.fill(2);
      driver.streamSynchronize(0, stream);
      return readBytes(driver, 0, address, 4);
    },
  },
  {
    name: "a copy to pageable memory given to a busy stream: whether the stream is done when it returns",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const address = driver.malloc(0, 4);
      keepBusy(stream);
      driver.memcpyDtoHAsync(0, new Uint8Array(4), address, stream);
      return driver.streamQuery(0, stream);
    },
  },
  {
    name: "a copy to page-locked memory given to a busy stream: whether the stream is done when it returns",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const address = driver.malloc(0, 4);
      const target = new Uint8Array(driver.hostAlloc(4).buffer).fill(9);
      driver.memsetAsync(0, address, 3, 4, defaultStream);
      driver.deviceSynchronize(0);
      keepBusy(stream);
      driver.memcpyDtoHAsync(0, target, address, stream);
      const isDone = driver.streamQuery(0, stream);
      const before = target[0]!;
      driver.streamSynchronize(0, stream);
      return { isDone, before, after: target[0]! };
    },
  },
  {
    name: "copies of parts of page-locked memory",
    run({ driver }) {
      const address = driver.malloc(0, 8);
      const { buffer } = driver.hostAlloc(8);
      new Uint8Array(buffer).set([1, 2, 3, 4, 5, 6, 7, 8]);
      driver.memcpyHtoDAsync(0, address, new Uint8Array(buffer, 2, 4), defaultStream);
      driver.memcpyDtoHAsync(0, new Uint8Array(buffer, 4, 4), address, defaultStream);
      driver.deviceSynchronize(0);
      return [...new Uint8Array(buffer)];
    },
  },
  {
    name: "page-locked memory of no bytes",
    run: ({ driver }) => void driver.hostAlloc(0),
  },
  {
    name: "page-locked memory of more bytes than there are",
    run: ({ driver }) => void driver.hostAlloc(2 ** 50),
  },
  {
    name: "page-locked memory freed twice",
    run({ driver }) {
      const allocation = driver.hostAlloc(64);
      return attemptEach({
        once: () => driver.freeHost(allocation),
        twice: () => driver.freeHost(allocation),
      });
    },
  },
  {
    name: "page-locked memory freed while a copy from it waits: the bytes arrive",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const address = driver.malloc(0, 64);
      const allocation = driver.hostAlloc(64);
      new Uint8Array(allocation.buffer).fill(5);
      keepBusy(stream, 16);
      driver.memcpyHtoDAsync(0, address, new Uint8Array(allocation.buffer), stream);
      driver.freeHost(allocation);
      const isDone = driver.streamQuery(0, stream);
      return { isDone, bytes: readBytes(driver, 0, address, 4) };
    },
  },
  {
    name: "copies of cudaMalloc memory on a stream of another device",
    devices: 2,
    run: ({ driver }) => useOnStreamOfPeer(driver, driver.malloc(0, 4)),
  },
  {
    name: "copies of pool memory on a stream of another device",
    devices: 2,
    run({ driver }) {
      const address = allocate(driver, createPool(driver), 4);
      driver.deviceSynchronize(0);
      return useOnStreamOfPeer(driver, address);
    },
  },
  {
    name: "copies between devices without peer access, and with it",
    devices: 2,
    run({ driver }) {
      const [near, far] = [driver.malloc(0, 4), driver.malloc(1, 4)];
      driver.memsetAsync(0, near, 3, 4, defaultStream);
      driver.deviceSynchronize(0);
      driver.memcpyPeerAsync(0, far, 1, near, 0, 4, defaultStream);
      driver.deviceSynchronize(0);
      const without = readBytes(driver, 1, far, 4);
      driver.deviceEnablePeerAccess(1, 0);
      driver.memsetAsync(1, far, 4, 4, defaultStream);
      driver.memcpyPeerAsync(1, near, 0, far, 1, 4, defaultStream);
      driver.deviceSynchronize(1);
      return [without, readBytes(driver, 0, near, 4)];
    },
  },
  {
    name: "copies between devices with ordinals that are not those of the memory",
    devices: 2,
    run({ driver }) {
      const [near, far] = [driver.malloc(0, 4), driver.malloc(1, 4)];
      const copy = (to: number, from: number) => () => {
        driver.memcpyPeerAsync(0, far, to, near, from, 4, defaultStream);
        driver.deviceSynchronize(0);
      };
      return attemptEach({
        right: copy(1, 0),
        exchanged: copy(0, 1),
        "both the target's": copy(1, 1),
        "both the source's": copy(0, 0),
        "no such target": copy(noDevice, 0),
        "no such source": copy(1, noDevice),
      });
    },
  },
  {
    name: "the allocation that an address lies in: at its begin, inside and at its last byte",
    run({ driver }) {
      const base = driver.malloc(0, 1000);
      return {
        begin: rangeAt(driver, base, base),
        inside: rangeAt(driver, base + 500n, base),
        last: rangeAt(driver, base + 999n, base),
      };
    },
  },
  {
    name: "the allocation that an address lies in: one byte past 2 MiB",
    run({ driver }) {
      const base = driver.malloc(0, 2 * mebibyte);
      driver.memGetAddressRange(0, base + BigInt(2 * mebibyte));
    },
  },
  {
    name: "the allocation that an address lies in: freed, 0 or nowhere",
    run({ driver }) {
      const freed = driver.malloc(0, 4 * mebibyte);
      driver.free(0, freed);
      const ask = (address: bigint) => () => driver.memGetAddressRange(0, address);
      return attemptEach({ freed: ask(freed), "0": ask(0n), nowhere: ask(farAddress) });
    },
  },
  {
    name: "the allocation that an address lies in: of another device",
    devices: 2,
    run({ driver }) {
      const base = driver.malloc(0, 1000);
      const range = driver.memGetAddressRange(1, base + 500n);
      return { base: range.base === base, byteLength: range.byteLength };
    },
  },
  {
    name: "the allocation that an address lies in: of page-locked host memory",
    run({ driver }) {
      const { address } = driver.hostAlloc(1000);
      return rangeAt(driver, address + 500n, address);
    },
  },
  {
    name: "page-locked host memory filled and copied by its address, as a device's is",
    run({ driver }) {
      const { address, buffer } = driver.hostAlloc(4);
      const device = driver.malloc(0, 4);
      return {
        ...attemptEach({
          memsetAsync: () => driver.memsetAsync(0, address, 7, 4, defaultStream),
          "memcpyPeerAsync from": () => driver.memcpyPeerAsync(0, device, 0, address, 0, 4, defaultStream),
          synchronize: () => driver.deviceSynchronize(0),
        }),
        bytes: [...new Uint8Array(buffer)],
      };
    },
  },
  {
    name: "cudaMalloc on a device that there is not",
    run: ({ driver }) => void driver.malloc(noDevice, 4),
  },
  {
    name: "cudaMalloc: where allocations start",
    run({ driver }) {
      const addresses = [driver.malloc(0, 1), driver.malloc(0, 1000), driver.malloc(0, 1)];
      return addresses.every((address) => address % 256n === 0n) && new Set(addresses).size === 3;
    },
  },
];
