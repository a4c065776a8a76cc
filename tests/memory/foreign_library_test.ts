/**
 * Memory and streams of other code in the process, which calls libcuda by itself. Nothing here but `dlopen` is the
 * library's, and that only loads the functions of this file.
 */
import { assertEquals, assertThrows } from "@std/assert";
import { dlopen } from "../../ffi/native/host.ts";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { CudaError } from "../../src/support/errors.ts";
import { Session } from "../../src/session.ts";
import { driversUnderTest } from "../support/drivers.ts";
import { test } from "../support/test.ts";

const byteLength = 2 ** 20;
/** The flags of the foreign streams: CU_STREAM_NON_BLOCKING. */
const nonBlocking = 1;

/** Other code: it allocates, creates streams, and copies to the host, by the driver library. */
class ForeignCode {
  readonly #libcuda = dlopen("libcuda.so.1", {
    cuInit: { parameters: ["u32"], result: "i32" },
    cuDevicePrimaryCtxRetain: { parameters: ["buffer", "i32"], result: "i32" },
    cuDevicePrimaryCtxRelease_v2: { parameters: ["i32"], result: "i32" },
    cuCtxSetCurrent: { parameters: ["u64"], result: "i32" },
    cuCtxCreate_v2: { parameters: ["buffer", "u32", "i32"], result: "i32" },
    cuCtxDestroy_v2: { parameters: ["u64"], result: "i32" },
    cuMemAlloc_v2: { parameters: ["buffer", "u64"], result: "i32" },
    cuMemFree_v2: { parameters: ["u64"], result: "i32" },
    cuMemHostAlloc: { parameters: ["buffer", "u64", "u32"], result: "i32" },
    cuMemFreeHost: { parameters: ["u64"], result: "i32" },
    cuMemcpyDtoH_v2: { parameters: ["buffer", "u64", "u64"], result: "i32" },
    cuStreamCreate: { parameters: ["buffer", "u32"], result: "i32" },
    cuStreamSynchronize: { parameters: ["u64"], result: "i32" },
    cuStreamQuery: { parameters: ["u64"], result: "i32" },
    cuStreamDestroy_v2: { parameters: ["u64"], result: "i32" },
  });

  /** Calls a function and fails if it fails. */
  call(name: string, ...args: readonly unknown[]): void {
    const functions = this.#libcuda.symbols as Record<string, (...args: readonly unknown[]) => number>;
    assertEquals(functions[name]!(...args), 0, name);
  }

  /** Calls a function whose first parameter is where its result goes. */
  get(name: string, ...args: readonly unknown[]): bigint {
    const out = new BigUint64Array(1);
    this.call(name, new Uint8Array(out.buffer), ...args);
    return out[0]!;
  }
}

for (const { name, skip, open } of driversUnderTest.filter(({ name }) => name !== "software")) {
  test(`memory and a stream of code that calls CUDA by itself [${name}]`, { skip }, async () => {
    const theirs = new ForeignCode();
    theirs.call("cuInit", 0);
    const context = theirs.get("cuDevicePrimaryCtxRetain", 0);
    theirs.call("cuCtxSetCurrent", context);
    const address = theirs.get("cuMemAlloc_v2", BigInt(byteLength));
    const hostAddress = theirs.get("cuMemHostAlloc", BigInt(byteLength), 0);
    const handle = theirs.get("cuStreamCreate", nonBlocking);
    {
      using cuda = new Cuda(new Session(open()));
      const gpu = cuda.device(0);
      using stream = gpu.wrapStream(handle);
      using memory = gpu.wrap(address, byteLength, { stream });
      using host = gpu.wrap(hostAddress + 4096n, byteLength - 4096, { stream });
      using module = gpu.loadModule(fillPtx);
      using pool = gpu.createPool();
      using ours = pool.allocate(byteLength, stream);
      const fill = module.kernel("fill");
      fill.launch({ grid: 64, block: 256, stream }, memory, byteLength, 0x01010101);
      memory.subarray(4096).copyTo(host);
      fill.launch({ grid: 64, block: 256, stream }, host, 4096, 0x02020202);
      ours.copyFrom(memory);
      ours.subarray(0, 4096).copyFrom(host.subarray(0, 4096));
      host.subarray(0, 4).fill(3);
      host.copyFrom(Uint8Array.of(4, 5), stream, { byteOffset: 2 });
      assertEquals(await host.read(Uint8Array, { length: 8 }), Uint8Array.of(3, 3, 4, 5, 2, 2, 2, 2));
      assertEquals(ours.readSync(Uint32Array, { byteOffset: 4092, length: 2 }), Uint32Array.of(0x02020202, 0x01010101));
      assertEquals(host.readSync(Uint32Array, { byteOffset: 4096, length: 1 }), Uint32Array.of(0x01010101));
      const { median } = await stream.benchmark(
        (stream) => fill.launch({ grid: 64, block: 256, stream }, memory, byteLength, 0x06060606),
        { repetitions: 5 },
      );
      assertEquals(median > 0, true);
      assertThrows(() => gpu.wrap(address, byteLength + 1), RangeError, "the allocation there has");
      assertThrows(() => gpu.wrap(address, 4).exportHandle(), TypeError, "other code owns");
      await stream.finished();
    }
    // All of it is still there, and theirs to free.
    const bytes = new Uint8Array(4);
    theirs.call("cuCtxSetCurrent", context);
    theirs.call("cuStreamSynchronize", handle);
    theirs.call("cuStreamQuery", handle);
    theirs.call("cuMemcpyDtoH_v2", bytes, address, 4n);
    assertEquals(bytes, Uint8Array.of(6, 6, 6, 6));
    theirs.call("cuStreamDestroy_v2", handle);
    theirs.call("cuMemFree_v2", address);
    theirs.call("cuMemFreeHost", hostAddress);
    using cuda = new Cuda(new Session(open()));
    for (const freed of [address, hostAddress]) {
      assertThrows(() => cuda.device(0).wrap(freed, 4), CudaError, "CUDA knows no memory at this address");
    }
    theirs.call("cuDevicePrimaryCtxRelease_v2", 0);
  });

  test(`a stream of another context is refused [${name}]`, { skip }, () => {
    const theirs = new ForeignCode();
    using cuda = new Cuda(new Session(open()));
    const gpu = cuda.device(0);
    gpu.synchronize();
    const primary = theirs.get("cuDevicePrimaryCtxRetain", 0);
    const other = theirs.get("cuCtxCreate_v2", 0, 0);
    const handle = theirs.get("cuStreamCreate", nonBlocking);
    theirs.call("cuCtxSetCurrent", primary);
    assertThrows(() => gpu.wrapStream(handle), RangeError, "a context other than the device's primary context");
    theirs.call("cuCtxDestroy_v2", other);
    theirs.call("cuDevicePrimaryCtxRelease_v2", 0);
  });
}
