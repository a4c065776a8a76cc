/**
 * Rows about memory of the program that is page-locked, about flags of page-locked memory, and about the limits of a
 * device.
 *
 * @module
 */
import {
  cudaLimit,
  defaultStream,
  type Driver,
  hostAllocFlag,
  hostRegisterFlag,
  memoryType,
  streamCaptureMode,
  streamFlags,
} from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import { launchFill, readBytes } from "../launch.ts";
import { prepareLongWork } from "../long_work.ts";
import { mebibyte } from "../pools.ts";
import type { Answer, Situation } from "../situation.ts";

const page = 4096;
const flags = hostRegisterFlag.portable | hostRegisterFlag.mapped;

/** Memory of the program, of which the first byte is the first of a page. */
function pages(count: number): Uint8Array {
  return new Uint8Array(new WebAssembly.Memory({ initial: Math.ceil(count / 16) }).buffer, 0, count * page);
}

/** Returns the results of registering memory, and of giving it back. */
function registered(driver: Driver, memory: Uint8Array): Answer {
  let address = 0n;
  return attemptEach({
    register: () => void (address = driver.hostRegister(memory, flags)),
    type: () => driver.pointerGetAttributes(0, address).type === memoryType.host ? "host" : "other",
    unregister: () => driver.hostUnregister(address),
  });
}

/** A kernel that allocates memory from the heap, and frees it. */
const heapPtx = `.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b64 result) malloc (.param .b64 size);
.extern .func free (.param .b64 pointer);
.visible .entry allocate(.param .u64 size, .param .u64 to) {
  .reg .b64 %rd<4>;
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [size];
  {
    .param .b64 result;
    .param .b64 bytes;
    st.param.b64 [bytes], %rd1;
    call.uni (result), malloc, (bytes);
    ld.param.b64 %rd2, [result];
  }
  setp.ne.u64 %p1, %rd2, 0;
  selp.u32 %r1, 1, 0, %p1;
  ld.param.u64 %rd3, [to];
  st.global.u32 [%rd3], %r1;
  {
    .param .b64 freed;
    st.param.b64 [freed], %rd2;
    call.uni free, (freed);
  }
  ret;
}
`;

/** Returns whether a kernel gets memory of this size from the heap. */
function allocatesInKernel(driver: Driver, byteLength: number): boolean {
  const to = driver.malloc(0, 4);
  const kernel = driver.moduleGetFunction(driver.moduleLoadData(0, heapPtx), "allocate");
  const launch = driver.createKernelLaunch(0, kernel, 16);
  launch.parameters.setBigUint64(0, BigInt(byteLength), true);
  launch.parameters.setBigUint64(8, to, true);
  driver.launchKernel(Object.assign(launch, { gridX: 1, blockX: 1 }));
  return readBytes(driver, 0, to, 1)[0] === 1;
}

/** The values that rows set each limit to. */
const valuesOfLimits: Readonly<Record<keyof typeof cudaLimit, readonly number[]>> = {
  stackSize: [0, 1, 1000, 1024, 4096, 65536],
  printfFifoSize: [0, 1, 4096, 2 ** 20, 2 ** 24],
  mallocHeapSize: [0, 1, 4096, 2 ** 22, 2 ** 26],
  pendingLaunchCount: [0, 1, 1000, 4096],
  maxL2FetchGranularity: [0, 1, 31, 32, 33, 64, 100, 128, 129, 10 ** 6],
  persistingL2CacheSize: [0, 1, mebibyte, 2 ** 24, 2 ** 40],
};

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name:
      "memory registered: at the begin of a page, inside one, of 4096 bytes, of one byte, shared, and of WebAssembly",
    run({ driver }) {
      return Object.fromEntries(
        Object.entries({
          "whole pages": pages(16),
          "inside pages": new Uint8Array(2 ** 20).subarray(100, 100 + 10_000),
          "4096 bytes": new Uint8Array(4096),
          "one byte": pages(16).subarray(5, 6),
          "shared": new Uint8Array(new SharedArrayBuffer(65536)),
          "WebAssembly's": new Uint8Array(new WebAssembly.Memory({ initial: 1 }).buffer),
          "WebAssembly's, shared": new Uint8Array(
            new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer as unknown as ArrayBuffer,
          ),
        }).map(([name, memory]) => [name, registered(driver, memory)]),
      );
    },
  },
  {
    name: "memory registered of no bytes, and with flags that there are not",
    run({ driver }) {
      return attemptEach({
        "no bytes": () => driver.hostRegister(pages(16).subarray(0, 0), flags),
        "flag 16": () => driver.hostRegister(pages(16), flags | 16),
        "flag 32": () => driver.hostRegister(pages(16), flags | 32),
        "no flags": () => driver.hostUnregister(driver.hostRegister(pages(16), 0)),
        "portable": () => driver.hostUnregister(driver.hostRegister(pages(16), hostRegisterFlag.portable)),
      });
    },
  },
  {
    name: "memory registered again: all of it, a part, more, the next page, a part of its last page, and after the end",
    run({ driver }) {
      const memory = pages(32);
      const middle = memory.subarray(8 * page, 9 * page + 100);
      const address = driver.hostRegister(middle, flags);
      const results = attemptEach({
        "all of it": () => driver.hostRegister(middle, flags),
        "a part": () => driver.hostRegister(middle.subarray(10, 20), flags),
        "more": () => driver.hostRegister(memory.subarray(7 * page, 12 * page), flags),
        "the page before": () => driver.hostRegister(memory.subarray(7 * page, 8 * page), flags),
        "the rest of its last page": () => driver.hostRegister(memory.subarray(9 * page + 100, 10 * page), flags),
        "the next page": () => driver.hostRegister(memory.subarray(10 * page, 11 * page), flags),
      });
      driver.hostUnregister(address);
      return { ...results, ...attemptEach({ "after its end": () => driver.hostRegister(middle, flags) }) };
    },
  },
  {
    name: "memory from cudaHostAlloc registered, and registered memory freed by cudaFreeHost",
    run({ driver }) {
      const allocation = driver.hostAlloc(65536);
      const memory = pages(16);
      const address = driver.hostRegister(memory, flags);
      return attemptEach({
        "register what was allocated": () => driver.hostRegister(new Uint8Array(allocation.buffer), flags),
        "unregister what was allocated": () => driver.hostUnregister(allocation.address),
        "free what was registered": () => driver.freeHost({ address, buffer: memory.buffer as ArrayBuffer }),
        "unregister what was registered": () => driver.hostUnregister(address),
      });
    },
  },
  {
    name: "memory unregistered: twice, at an address within it, and at addresses where none is registered",
    run({ driver }) {
      const memory = pages(32);
      const address = driver.hostRegister(memory, flags);
      return attemptEach({
        "within it": () => driver.hostUnregister(address + BigInt(page)),
        "0": () => driver.hostUnregister(0n),
        "memory of a device": () => driver.hostUnregister(driver.malloc(0, 64)),
        "at its begin": () => driver.hostUnregister(address),
        "twice": () => driver.hostUnregister(address),
        "nowhere": () => driver.hostUnregister(0x0060_0000_0000n),
      });
    },
  },
  {
    name: "registered memory changed after a copy from it was given to a busy stream: which bytes arrive",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const address = driver.malloc(0, 65536);
      const source = pages(16).fill(1);
      driver.hostRegister(source, flags);
      keepBusy(stream);
      driver.memcpyHtoDAsync(0, address, source, stream);
      source.fill(2);
      driver.streamSynchronize(0, stream);
      return readBytes(driver, 0, address, 4);
    },
  },
  {
    name: "a copy to registered memory given to a busy stream: whether the stream is done when it returns",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const address = driver.malloc(0, 4);
      const target = pages(16).fill(9);
      driver.hostRegister(target, flags);
      driver.memsetAsync(0, address, 3, 4, defaultStream);
      driver.deviceSynchronize(0);
      keepBusy(stream);
      driver.memcpyDtoHAsync(0, target.subarray(0, 4), address, stream);
      const isDone = driver.streamQuery(0, stream);
      const before = target[0]!;
      driver.streamSynchronize(0, stream);
      return { isDone, before, after: target[0]! };
    },
  },
  {
    name: "memory unregistered while a copy from it waits: whether the stream is done then, and the bytes",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const address = driver.malloc(0, 64);
      const source = pages(16).fill(5);
      const registeredAt = driver.hostRegister(source, flags);
      keepBusy(stream, 16);
      driver.memcpyHtoDAsync(0, address, source.subarray(0, 64), stream);
      driver.hostUnregister(registeredAt);
      const isDone = driver.streamQuery(0, stream);
      driver.streamSynchronize(0, stream);
      return { isDone, bytes: readBytes(driver, 0, address, 4) };
    },
  },
  {
    name: "memory registered while a stream is busy: whether the stream is done then",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const memory = pages(16);
      keepBusy(stream);
      driver.hostRegister(memory, flags);
      return driver.streamQuery(0, stream);
    },
  },
  {
    name:
      "copies from memory of which a part is registered: the part, all of it, what begins before, and what ends behind",
    run({ driver }) {
      const memory = pages(32);
      memory.forEach((_, index) => memory[index] = index / page);
      driver.hostRegister(memory.subarray(8 * page, 16 * page), flags);
      const address = driver.malloc(0, memory.byteLength);
      const copied = (begin: number, end: number) => () => {
        driver.memsetAsync(0, address, 99, memory.byteLength, defaultStream);
        driver.memcpyHtoDAsync(0, address, memory.subarray(begin * page, end * page), defaultStream);
        const bytes = readBytes(driver, 0, address, (end - begin) * page);
        return bytes.every((byte, index) => byte === Math.floor(index / page) + begin);
      };
      return attemptEach({
        "the part": copied(8, 16),
        "all of it": copied(0, 32),
        "what begins before": copied(4, 12),
        "what ends behind": copied(12, 20),
        "what is before": copied(0, 8),
      });
    },
  },
  {
    name:
      "a kernel that writes to registered memory, also to a part inside pages, and read-only memory that a kernel reads",
    run({ driver }) {
      const memory = pages(16);
      const address = driver.hostRegister(memory.subarray(100, 200), flags);
      return {
        ...attemptEach({
          launch: () => launchFill(driver, 0, { address: address + 12n, byteLength: 64 }),
          synchronize: () => driver.deviceSynchronize(0),
        }),
        bytes: [99, 111, 112, 175, 176].map((index) => memory[index]!),
      };
    },
  },
  {
    name: "memory registered and unregistered while a stream is captured, in each mode",
    run({ driver }) {
      const results: Record<string, Answer> = {};
      for (const [mode, number] of Object.entries(streamCaptureMode)) {
        const [memory, earlier] = [pages(16), pages(16)];
        const address = driver.hostRegister(earlier, flags);
        const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
        driver.streamBeginCapture(0, stream, number);
        results[mode] = attemptEach({
          register: () => driver.hostRegister(memory, flags),
          unregister: () => driver.hostUnregister(address),
          end: () => driver.graphDestroy(driver.streamEndCapture(0, stream)),
        });
      }
      return results;
    },
  },
  {
    name: "page-locked memory with each flag, and with flags that there are not",
    run({ driver }) {
      const { portable, mapped, writeCombined } = hostAllocFlag;
      const address = driver.malloc(0, 64);
      const use = (flag: number) => () => {
        const allocation = driver.hostAlloc(64, flag);
        const bytes = new Uint8Array(allocation.buffer);
        bytes.fill(flag + 1);
        driver.memcpyHtoDAsync(0, address, bytes, defaultStream);
        const [arrived] = readBytes(driver, 0, address, 1);
        driver.freeHost(allocation);
        return arrived === flag + 1;
      };
      return attemptEach({
        "none": use(0),
        "portable": use(portable),
        "mapped": use(mapped),
        "write-combined": use(writeCombined),
        "all": use(portable | mapped | writeCombined),
        "flag 8": use(8),
        "flag 16": use(16),
      });
    },
  },
  {
    name: "the limits of a device before anything was set",
    run: ({ driver }) =>
      attemptEach(
        Object.fromEntries(
          Object.entries(cudaLimit).map(([name, limit]) => [name, () => driver.deviceGetLimit(0, limit)]),
        ),
      ),
  },
  {
    name: "limits that a device does not have",
    run: ({ driver }) =>
      attemptEach(Object.fromEntries(
        [3, 7, 8, 9, 99, -1].flatMap((limit) => [
          [`get ${limit}`, () => void driver.deviceGetLimit(0, limit)],
          [`set ${limit}`, () => driver.deviceSetLimit(0, limit, 1024)],
        ]),
      )),
  },
  ...Object.entries(valuesOfLimits).map(([name, values]): Situation => ({
    name: `the limit ${name} set to several values, and what it is then`,
    run({ driver }) {
      const limit = cudaLimit[name as keyof typeof cudaLimit];
      const before = driver.deviceGetLimit(0, limit);
      try {
        return attemptEach(Object.fromEntries(values.map((value) => [`to ${value}`, () => {
          driver.deviceSetLimit(0, limit, value);
          return driver.deviceGetLimit(0, limit);
        }])));
      } finally {
        // Other rows may use the same context.
        driver.deviceSetLimit(0, limit, before);
      }
    },
  })),
  {
    name: "a stack of 1000000000 bytes for each thread",
    run({ driver }) {
      const before = driver.deviceGetLimit(0, cudaLimit.stackSize);
      driver.deviceSetLimit(0, cudaLimit.stackSize, 10 ** 9);
      const then = driver.deviceGetLimit(0, cudaLimit.stackSize);
      driver.deviceSetLimit(0, cudaLimit.stackSize, before);
      return then;
    },
  },
  {
    // The heap cannot be set afterwards, so this row needs a process of its own.
    name: "the heap for kernels set before and after a kernel that uses it",
    run({ driver }) {
      const size = () => driver.deviceGetLimit(0, cudaLimit.mallocHeapSize);
      const results = attemptEach({
        "set to 32 MiB": () => driver.deviceSetLimit(0, cudaLimit.mallocHeapSize, 32 * mebibyte),
        "its size": size,
        "16 MiB in a kernel": () => allocatesInKernel(driver, 16 * mebibyte),
        "64 MiB in a kernel": () => allocatesInKernel(driver, 64 * mebibyte),
        "set to the same": () => driver.deviceSetLimit(0, cudaLimit.mallocHeapSize, 32 * mebibyte),
        "set to 64 MiB": () => driver.deviceSetLimit(0, cudaLimit.mallocHeapSize, 64 * mebibyte),
        "its size then": size,
      });
      return results;
    },
  },
  {
    name: "a limit set while a stream is captured, in each mode, and while a stream is busy: whether it is done then",
    run({ driver }) {
      const results: Record<string, Answer> = {};
      const before = driver.deviceGetLimit(0, cudaLimit.stackSize);
      for (const [mode, number] of Object.entries(streamCaptureMode)) {
        const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
        driver.streamBeginCapture(0, stream, number);
        results[mode] = attemptEach({
          get: () => void driver.deviceGetLimit(0, cudaLimit.stackSize),
          set: () => driver.deviceSetLimit(0, cudaLimit.stackSize, before),
          "set to another": () => driver.deviceSetLimit(0, cudaLimit.stackSize, 2048),
          end: () => driver.graphDestroy(driver.streamEndCapture(0, stream)),
        });
      }
      const { keepBusy } = prepareLongWork(driver, 0);
      const busy = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      keepBusy(busy);
      driver.deviceSetLimit(0, cudaLimit.stackSize, 3072);
      results["done"] = driver.streamQuery(0, busy);
      driver.streamSynchronize(0, busy);
      driver.deviceSetLimit(0, cudaLimit.stackSize, before);
      return results;
    },
  },
];
