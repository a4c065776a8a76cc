/** Memory of the program that is page-locked, and flags of page-locked memory. */
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { inspect } from "node:util";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { CudaError, type DeviceBuffer } from "../../mod.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { countHandles } from "../support/handle_balance.ts";
import { driverNamed, testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";
import { warningsOf } from "../support/warnings.ts";

const byteLength = 65536;

/** Memory of each kind that can be registered. Each has other memory in front of it and behind it. */
const memories: Readonly<Record<string, () => ArrayBuffer | SharedArrayBuffer | ArrayBufferView>> = {
  "an ArrayBuffer": () => new ArrayBuffer(byteLength),
  "a SharedArrayBuffer": () => new SharedArrayBuffer(byteLength),
  "memory of WebAssembly": () => new WebAssembly.Memory({ initial: 1 }).buffer,
  "shared memory of WebAssembly": () => new WebAssembly.Memory({ initial: 1, maximum: 2, shared: true }).buffer,
  "a typed array": () => new Float32Array(2 * byteLength).subarray(1001, 1001 + byteLength / 4),
  "a DataView": () => new DataView(new ArrayBuffer(2 * byteLength), 4100, byteLength),
};

function bytesOf(memory: ArrayBuffer | SharedArrayBuffer | ArrayBufferView): Uint8Array {
  return ArrayBuffer.isView(memory)
    ? new Uint8Array(memory.buffer, memory.byteOffset, memory.byteLength)
    : new Uint8Array(memory);
}

testOnEachDriver(
  "memory of each kind is registered, copied and used by kernels, and remains afterwards",
  async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using module = gpu.loadModule(fillPtx);
    using buffer = pool.allocate(byteLength, stream);
    for (const [name, create] of Object.entries(memories)) {
      const memory = create();
      const bytes = bytesOf(memory).fill(1);
      const host = cuda.registerHost(memory);
      assertEquals([host.byteLength, host.byteOffset], [byteLength, bytes.byteOffset], name);
      assert(host.buffer as ArrayBufferLike === bytes.buffer);
      assertEquals(inspect(host), "HostBuffer { host, 65536 bytes, registered }");
      buffer.copyFrom(host, { stream });
      assertEquals((await buffer.read(Uint8Array, stream)).indexOf(1), 0, name);
      buffer.fill(2, { stream, byteLength: 8 });
      buffer.subarray(0, 100).copyTo(host, stream);
      module.kernel("fill").launch({ grid: 1, block: 64, stream }, host.address + 4n, 4n, 0x03030303);
      await stream.finished();
      assertEquals([...bytes.subarray(0, 10), bytes[100], bytes[byteLength - 1]], [2, 2, 2, 2, 3, 3, 3, 3, 1, 1, 1, 1]);
      host[Symbol.dispose]();
      host[Symbol.dispose]();
      assertThrows(() => host.buffer, ReferenceError, "it was disposed");
      assertThrows(() => buffer.copyFrom(host), ReferenceError, "it was disposed");
      assertEquals([bytes[0], bytes[4], bytes.byteLength], [2, 3, byteLength], name);
      cuda.registerHost(memory)[Symbol.dispose]();
    }
  },
);

testOnEachDriver(
  "copies of views of registered memory need no staging, and parts of it are copied right",
  async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    const whole = new Uint8Array(4 * byteLength);
    whole.forEach((_, index) => whole[index] = index / 4096);
    using _host = cuda.registerHost(whole.subarray(8192, 8192 + 2 * byteLength));
    using buffer = pool.allocateArray(Uint8Array, whole.length, { stream });
    for (
      const [begin, end] of [[8192, 20_000], [0, 4096], [5000, 9000], [byteLength, whole.length], [0, whole.length]]
    ) {
      buffer.fill(255, stream);
      const source = whole.subarray(begin, end);
      buffer.copyFrom(source, stream);
      assertEquals(await buffer.read(Uint8Array, { stream, length: source.length }), source);
    }
  },
);

testOnEachDriver("memory that cannot be registered is refused", (cuda) => {
  // deno-lint-ignore no-explicit-any
  const register = (memory: any, options?: any) => () => cuda.registerHost(memory, options);
  using host = cuda.allocateHost(byteLength);
  using pool = cuda.device(0).createPool();
  using buffer = pool.allocate(byteLength);
  const moved = new ArrayBuffer(byteLength);
  moved.transfer();
  const refusals: [call: () => unknown, error: typeof TypeError | typeof RangeError, message: string][] = [
    [register(host), TypeError, "Cannot register a HostBuffer as page-locked memory: it is page-locked already"],
    [
      register(buffer),
      TypeError,
      "Cannot register a DeviceBuffer as page-locked memory: give an ArrayBuffer, a Shared",
    ],
    [register(byteLength), TypeError, "Cannot register 65536 as page-locked memory"],
    [register(undefined), TypeError, "Cannot register undefined as page-locked memory"],
    [register([1, 2]), TypeError, "Cannot register an Array as page-locked memory"],
    [register(moved), TypeError, "Cannot register an ArrayBuffer that was transferred"],
    [register(new ArrayBuffer(4096, { maxByteLength: 8192 })), TypeError, "an ArrayBuffer whose size can change"],
    [register(new SharedArrayBuffer(4096, { maxByteLength: 8192 })), TypeError, "a SharedArrayBuffer whose size can"],
    [register(new Uint8Array(4095)), RangeError, "Cannot register 4095 bytes of memory: it must have at least 4096"],
    [register(new ArrayBuffer(byteLength), { readonly: true }), TypeError, 'did you mean "readOnly"?'],
    [register(new ArrayBuffer(byteLength), { readOnly: 1 }), TypeError, "Cannot use 1 as readOnly"],
  ];
  for (const [call, error, message] of refusals) assertThrows(call, error, message);
  const memory = new Uint8Array(new WebAssembly.Memory({ initial: 2 }).buffer);
  using _registered = cuda.registerHost(memory.subarray(4096, 12_000));
  for (const again of [memory, memory.subarray(4096, 12_000), memory.subarray(11_999, 20_000)]) {
    const error = assertThrows(register(again), CudaError);
    assertEquals(error.code, "cudaErrorHostMemoryAlreadyRegistered");
    assertStringIncludes(error.message, "a part of it is page-locked already: register all of the memory once");
  }
  const error = assertThrows(register(host.buffer), CudaError, "it is memory of this library, which is page-locked");
  assertEquals(error.code, "cudaErrorInvalidValue");
  using _next = cuda.registerHost(memory.subarray(12_000));
});

test("registered memory is unregistered on each path, also when it was transferred", async () => {
  const { driver, open } = (() => {
    const counting = countHandles(driverNamed("software").open());
    return { driver: counting, open: () => new Cuda(new Session(counting.driver)) };
  })();
  const cuda = open();
  const kept = new ArrayBuffer(byteLength);
  cuda.registerHost(kept);
  const shared = cuda.registerHost(new SharedArrayBuffer(byteLength));
  const lost = new ArrayBuffer(byteLength);
  const host = cuda.registerHost(lost);
  const moved = lost.transfer();
  assertThrows(() => host.buffer, ReferenceError, "its ArrayBuffer was transferred");
  host[Symbol.dispose]();
  shared[Symbol.dispose]();
  assertEquals(driver.open, { "registered memory": 1 });
  const warnings = await warningsOf(() => cuda[Symbol.dispose]());
  assertEquals(driver.open, {});
  assertEquals(warnings, ["poolpass: 1 registered memory (65536 bytes) not freed before the Cuda object was disposed"]);
  assertEquals([kept.byteLength, moved.byteLength], [byteLength, byteLength]);
});

testOnEachDriver("a graph that uses registered memory is not launched after it was unregistered", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using module = gpu.loadModule(fillPtx);
  using buffer = pool.allocate(64, stream);
  const memory = new SharedArrayBuffer(byteLength);
  const host = cuda.registerHost(memory);
  const uses: (() => void)[] = [
    () => buffer.copyFrom(new Uint8Array(memory, 128, 64), stream),
    () => buffer.copyTo(host, stream),
    () => module.kernel("fill").launch({ grid: 1, block: 64, stream }, host, 64n, 5),
  ];
  using graphs = new DisposableStack();
  const execs = uses.map((use) => graphs.use(graphs.use(stream.capture(use)).instantiate()));
  for (const exec of execs) exec.launch(stream);
  stream.synchronize();
  assertEquals(new Uint32Array(memory)[0], 5);
  host[Symbol.dispose]();
  using _again = cuda.registerHost(memory);
  for (const exec of execs) assertThrows(() => exec.launch(stream), ReferenceError, "uses a HostBuffer that was freed");
});

testOnEachDriver("a kernel that writes to memory that devices only read fails", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using module = gpu.loadModule(fillPtx);
  const memory = new Uint8Array(new SharedArrayBuffer(byteLength)).fill(7);
  using host = cuda.registerHost(memory, { readOnly: true });
  using pool = gpu.createPool();
  using buffer = pool.allocate(byteLength, stream);
  buffer.copyFrom(host, stream);
  assertEquals((await buffer.read(Uint8Array, stream)).lastIndexOf(7), byteLength - 1);
  module.kernel("fill").launch({ grid: 1, block: 64, stream }, host, 64n, 5);
  const error = await assertRejects(() => stream.finished(), CudaError);
  assertEquals([error.code, memory[0]], ["cudaErrorIllegalAddress", 7]);
}, { makesMistakes: true, notOnGpu: "the fault ends the context" });

testOnEachDriver("write-combined memory is used as any page-locked memory", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using host = cuda.allocateHost(byteLength, { writeCombined: true });
  new Uint8Array(host.buffer).fill(7);
  using buffer: DeviceBuffer = pool.allocate(byteLength, stream);
  buffer.copyFrom(host, stream);
  assertEquals((await buffer.read(Uint8Array, stream)).lastIndexOf(7), byteLength - 1);
  assertThrows(
    () => cuda.allocateHost(4, { writecombined: true } as never),
    TypeError,
    'did you mean "writeCombined"?',
  );
  assertThrows(() => cuda.allocateHost(4, { writeCombined: "yes" as never }), TypeError, "as writeCombined");
  assertThrows(() => cuda.allocateHost(4, true as never), TypeError, "such as { writeCombined }");
});
