/**
 * Virtual memory: memory without addresses, addresses without memory, and mappings of one to the other.
 */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { inspect } from "node:util";
import { ptx } from "../../../kernels/fill.ts";
import {
  type AddressRange,
  type CudaDevice,
  CudaError,
  type CudaStream,
  type DeviceBuffer,
  open,
} from "../../../mod.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { testSoftware } from "../../support/software_devices.ts";
import { warningsOf } from "../../support/warnings.ts";

const unit = 2 ** 21;

/** Fills a buffer by a kernel. */
function launchFill(gpu: CudaDevice, buffer: DeviceBuffer, byte: number): void {
  using module = gpu.loadModule(ptx);
  module.kernel("fill").launch({ grid: 4, block: 256 }, buffer, buffer.byteLength, byte * 0x01010101);
  gpu.synchronize();
}

testOnEachDriver(
  "memory is mapped, written by a kernel and read, and has the same bytes at two addresses",
  async (cuda) => {
    const gpu = cuda.device(0);
    using memory = gpu.createMemory(1000);
    assertEquals([memory.byteLength, memory.device === gpu, memory.handleType], [unit, true, "none"]);
    using range = cuda.reserveAddresses(2 * unit + 1);
    assertEquals([range.byteLength, range.mappedByteLength, range.address % BigInt(unit)], [3 * unit, 0, 0n]);
    const first = range.map(memory), second = range.map(memory, { byteOffset: 2 * unit });
    assertEquals([first.address, second.address], [range.address, range.address + BigInt(2 * unit)]);
    assertEquals([first.byteLength, first.pool, range.mappedByteLength], [unit, undefined, 2 * unit]);
    launchFill(gpu, first, 5);
    assertEquals(await second.read(Uint8Array), new Uint8Array(unit).fill(5));
    second.fill(6, undefined, { byteOffset: unit - 1 });
    gpu.synchronize();
    assertEquals(await first.read(Uint8Array, { byteOffset: unit - 2 }), Uint8Array.of(5, 6));
  },
);

testOnEachDriver("a range grows, and what is in it keeps its address", async (cuda) => {
  const gpu = cuda.device(0);
  using range = cuda.reserveAddresses(8 * unit);
  const addresses = new Set<bigint>();
  for (let piece = 1; piece <= 3; piece++) {
    using memory = gpu.createMemory(unit);
    range.map(memory).fill(piece);
    const all = range.buffer();
    addresses.add(all.address);
    assertEquals(all.byteLength, piece * unit);
  }
  assertEquals([...addresses], [range.address]);
  const bytes = await range.buffer().read(Uint8Array);
  assertEquals([0, unit - 1, unit, 2 * unit, 3 * unit - 1].map((at) => bytes[at]), [1, 1, 2, 3, 3]);
  launchFill(gpu, range.buffer({ byteOffset: unit - 512, byteLength: 1024 }), 9);
  assertEquals(
    new Set(await range.buffer({ byteOffset: unit - 512, byteLength: 1024 }).read(Uint8Array)),
    new Set([9]),
  );
  assertEquals((await range.buffer().read(Uint8Array, { byteOffset: unit + 512, length: 1 }))[0], 2);
});

testOnEachDriver("unmapped memory keeps its bytes, and its addresses get other memory", async (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.createMemory(unit), other = gpu.createMemory(unit);
  using range = cuda.reserveAddresses(unit);
  using stream = gpu.createStream({ nonBlocking: true });
  const first = range.map(memory);
  first.fill(3, stream);
  // The free waits for the fill.
  first.free();
  assertThrows(() => first.address, ReferenceError, "it was freed");
  assertEquals(range.mappedByteLength, 0);
  const second = range.map(other);
  second.fill(4);
  gpu.synchronize();
  second.free();
  assertEquals(new Set(await range.map(memory).read(Uint8Array)), new Set([3]));
});

testOnEachDriver("a view ends with any of its memory, and is not freed alone", (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.createMemory(unit), other = gpu.createMemory(unit);
  using range = cuda.reserveAddresses(2 * unit);
  const first = range.map(memory), second = range.map(other);
  const [all, begin] = [range.buffer(), range.buffer({ byteLength: 100 })];
  assertThrows(() => all.free(), TypeError, "it is a view of an address range; free the buffers that map has returned");
  second.free();
  assertThrows(() => all.fill(1), ReferenceError, "memory of the address range that it is a view of was unmapped");
  begin.fill(1);
  gpu.synchronize();
  first.free();
  assertThrows(() => begin.fill(1), ReferenceError, "was unmapped");
});

testOnEachDriver("memory that is mapped to be read can be read, and copies and fills do not write it", async (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.createMemory(unit);
  using range = cuda.reserveAddresses(2 * unit);
  range.map(memory).fill(7);
  const readable = range.map(memory, { access: "read" });
  gpu.synchronize();
  assertEquals((await readable.read(Uint8Array, { length: 1 }))[0], 7);
  for (const write of [() => readable.fill(1), () => readable.copyFrom(Uint8Array.of(1))]) {
    const error = assertThrows(write, CudaError);
    assertEquals(error.code, "cudaErrorInvalidValue");
    assertStringIncludes(
      error.message,
      'it is mapped with access "read"; map it with "read-write" (from a store with { write: true }), or call setAccess',
    );
  }
  range.setAccess(gpu, "read-write", { byteOffset: unit });
  readable.fill(8);
  gpu.synchronize();
  range.setAccess(gpu, "read");
  assertThrows(() => readable.fill(9), CudaError);
  assertEquals((await range.buffer().read(Uint8Array, { length: 1 }))[0], 8);
}, { makesMistakes: true });

testSoftware("a copy that is refused says which of its ends has too little access", (cuda) => {
  const [gpu, peer] = [cuda.device(0), cuda.device(1)];
  using pool = gpu.createPool(), host = cuda.createHostPool();
  using plain = pool.allocate(64), ofHost = host.allocate(64, gpu.defaultStream);
  using memory = gpu.createMemory(unit), other = gpu.createMemory(unit), ofPeer = gpu.createMemory(unit);
  using range = cuda.reserveAddresses(3 * unit);
  const readable = range.map(memory, { access: "read" }), closed = range.map(other);
  range.setAccess(gpu, "none", { byteOffset: unit });
  const peers = range.map(ofPeer, { devices: peer });
  const written =
    /: [^;]*; the target is mapped with access "read"; map it with "read-write" \(from a store with \{ write: true \}\), or call setAccess of its/;
  const itself =
    /: [^;]*; it is mapped with access "read"; map it with "read-write" \(from a store with \{ write: true \}\), or call setAccess of its/;
  const from = (name: string) =>
    new RegExp(`; device 0 of the stream has no access to ${name}; call setAccess of its address range$`);
  const cases: readonly (readonly [copy: () => void, said: RegExp])[] = [
    [() => plain.copyTo(readable), written],
    [() => ofHost.copyTo(readable), written],
    [() => readable.subarray(0, 64).copyTo(readable.subarray(64, 128)), itself],
    [() => readable.copyFrom(plain), itself],
    [() => readable.copyFrom(ofHost), itself],
    [() => plain.copyTo(closed), from("the target")],
    [() => plain.copyFrom(closed.subarray(0, 64)), from("the source")],
    [() => ofHost.copyFrom(closed.subarray(0, 64)), from("the source")],
    [() => closed.subarray(0, 64).copyTo(plain), from("it")],
    [() => plain.copyTo(peers, peer.defaultStream), /; device 0 has no access to the target; call setAccess of its/],
    [
      () => ofHost.copyTo(plain, peer.defaultStream),
      /; the stream is one of device 1, which needs access to the target/,
    ],
    [
      () => plain.copyTo(ofHost, peer.defaultStream),
      /; the stream is one of device 1, which needs access to the memory/,
    ],
    // To read is what its access is enough for: what is wrong is the other end.
    [() => readable.subarray(0, 64).copyTo(closed), from("the target")],
    [() => closed.copyFrom(readable.subarray(0, 64)), from("it")],
  ];
  for (const [copy, said] of cases) {
    const error = assertThrows(copy, CudaError);
    assertEquals(error.code, "cudaErrorInvalidValue");
    assertMatch(error.message, said, String(copy));
  }
});

testSoftware("a kernel that writes memory that is mapped to be read fails, and the message says why", async (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.createMemory(unit);
  const range = cuda.reserveAddresses(2 * unit);
  const writable = range.map(memory), readable = range.map(memory, { access: "read" });
  launchFill(gpu, writable, 1);
  const module = gpu.loadModule(ptx);
  module.kernel("fill").launch({ grid: 1, block: 32 }, readable, 64, 2);
  const error = await assertRejects(() => gpu.finished(), CudaError);
  assertEquals(error.code, "cudaErrorIllegalAddress");
  assertStringIncludes(error.message, "device 0 may only read some: call setAccess of its address range");
});

testOnEachDriver("mistakes are refused before anything is done", (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.createMemory(unit);
  using range = cuda.reserveAddresses(2 * unit);
  const buffer = range.map(memory);
  for (const size of [0, -1, 1.5, NaN]) {
    assertThrows(() => gpu.createMemory(size), RangeError, `Cannot use ${size}`);
    assertThrows(() => cuda.reserveAddresses(size), RangeError, `Cannot use ${size}`);
  }
  assertThrows(() => cuda.reserveAddresses(unit, { alignment: 3 }), RangeError, "it must be a power of two");
  assertThrows(() => gpu.createMemory(unit, { handleType: "fd" as never }), TypeError, 'it must be "none", "posix-fd"');
  assertThrows(() => memory.exportHandle(), TypeError, 'it was created with handleType "none"; create it with');
  assertThrows(() => range.map(buffer as never), TypeError, "give memory from CudaDevice.createMemory or importMemory");
  assertThrows(() => range.map(memory, { byteOffset: 2 * unit }), RangeError, "it has 4194304 bytes; reserve more");
  assertThrows(() => range.map(memory, { byteOffset: 0 }), RangeError, "2097152 bytes are mapped at byte 0");
  assertThrows(() => range.map(memory, { access: "write" as never }), TypeError, 'Cannot set the access "write"');
  assertThrows(() => range.map(memory, { byteOffset: unit + 512 }), RangeError);
  assertThrows(() => range.buffer({ byteLength: unit + 1 }), RangeError, "only 2097152 are mapped there");
  assertThrows(() => range.buffer({ byteOffset: unit }), RangeError, "nothing is mapped there");
  const error = assertThrows(() => gpu.createMemory(2 ** 46), CudaError);
  assertEquals(error.code, "cudaErrorMemoryAllocation");
  assertMatch(error.message, /^Cannot create memory of 70368744177664 bytes on device 0: /);
  range[Symbol.dispose]();
  memory[Symbol.dispose]();
  assertThrows(() => range.map(memory), ReferenceError, "Cannot use the address range: it was disposed");
  assertThrows(() => memory.unsafeHandle, ReferenceError, "it was disposed");
  range[Symbol.dispose]();
  memory[Symbol.dispose]();
});

testOnEachDriver("a mapping that is refused leaves its place free", (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.createMemory(unit);
  using range = cuda.reserveAddresses(2 * unit);
  assertThrows(() => range.map(memory, { byteOffset: 4096 }), CudaError, "Cannot map 2097152 bytes at byte 4096");
  assertEquals(range.mappedByteLength, 0);
  range.map(memory).fill(1);
  gpu.synchronize();
});

testOnEachDriver("memory is gone when nobody has it", (cuda) => {
  const gpu = cuda.device(0);
  const large = 64 * unit;
  gpu.synchronize();
  const range = cuda.reserveAddresses(large);
  const memory = gpu.createMemory(large);
  const buffer = range.map(memory);
  buffer.fill(1);
  gpu.synchronize();
  const { free } = gpu.memoryInfo();
  memory[Symbol.dispose]();
  buffer.fill(2);
  gpu.synchronize();
  assert(gpu.memoryInfo().free < free + large / 2, "a mapping keeps the memory");
  range[Symbol.dispose]();
  if (cuda.driver === "cuda") assert(gpu.memoryInfo().free >= free + large / 2, "nothing keeps it");
});

testOnEachDriver("a device reaches the memory of its peer where it is given access", async (cuda) => {
  const [gpu, peer] = [cuda.device(0), cuda.device(1)];
  if (!peer.canAccessPeer(gpu)) return;
  using memory = gpu.createMemory(unit);
  using range = cuda.reserveAddresses(unit);
  const buffer = range.map(memory, { devices: [gpu, peer] });
  using stream = peer.createStream();
  using module = peer.loadModule(ptx);
  module.kernel("fill").launch({ grid: 1, block: 64, stream }, buffer, unit, 0x04040404);
  await stream.finished();
  assertEquals(new Set(await buffer.read(Uint8Array)), new Set([4]));
}, { devices: 2 });

/** Launches kernels that fill a buffer again and again, which takes a while. */
function launchFills(gpu: CudaDevice, buffer: DeviceBuffer, stream: CudaStream): void {
  const module = gpu.loadModule(ptx);
  const fill = module.kernel("fill");
  for (let byte = 0; byte < 20; byte++) {
    fill.launch({ grid: 64, block: 256, stream }, buffer, buffer.byteLength, byte * 0x01010101);
  }
}

testOnEachDriver("memory is unmapped after the work of every stream, disposed or not", (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.createMemory(16 * unit);
  const ends: readonly ((buffer: DeviceBuffer, range: AddressRange, stream: CudaStream) => void)[] = [
    (_buffer, range, stream) => (stream[Symbol.dispose](), range[Symbol.dispose]()),
    (_buffer, range) => range[Symbol.dispose](),
    (buffer, _range, stream) => (stream[Symbol.dispose](), buffer.free()),
    (buffer) => buffer.free(gpu.createStream({ nonBlocking: true })),
  ];
  for (const end of ends) {
    for (const ofView of [false, true]) {
      const range = cuda.reserveAddresses(16 * unit);
      const buffer = range.map(memory), used = ofView ? range.buffer() : buffer;
      const stream = gpu.createStream({ nonBlocking: true });
      used.stream = stream;
      launchFills(gpu, used, stream);
      end(buffer, range, stream);
      assertEquals(range.mappedByteLength, 0);
      gpu.synchronize();
      range[Symbol.dispose]();
    }
  }
}, { long: true });

testOnEachDriver("access is set after the work of a disposed stream, for all mappings or for none", (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.createMemory(unit);
  using range = cuda.reserveAddresses(4 * unit);
  const first = range.map(memory), last = range.map(memory, { byteOffset: 3 * unit });
  const stream = gpu.createStream({ nonBlocking: true });
  first.stream = stream;
  launchFills(gpu, first, stream);
  stream[Symbol.dispose]();
  range.setAccess(gpu, "read");
  gpu.synchronize();
  for (const buffer of [first, last]) assertThrows(() => buffer.fill(1, gpu.defaultStream), CudaError, '"read"');
  range.setAccess(gpu, "read-write", { byteOffset: 3 * unit });
  assertThrows(() => first.fill(1, gpu.defaultStream), CudaError, '"read"');
  last.fill(1);
  gpu.synchronize();
}, { makesMistakes: true });

testOnEachDriver("memory of another Cuda object is not mapped", (cuda) => {
  using other = open({ driver: cuda.driver });
  using memory = other.device(0).createMemory(unit);
  using range = cuda.reserveAddresses(unit);
  assertThrows(() => range.map(memory, { devices: cuda.device(0) }), TypeError, "another Cuda object");
  assertEquals(range.mappedByteLength, 0);
});

testSoftware("what was freed during a read is not used again, and its place is free after the read", async (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.createMemory(64 * unit);
  using range = cuda.reserveAddresses(64 * unit);
  const buffer = range.map(memory);
  buffer.fill(9);
  const reading = buffer.read(Uint8Array);
  buffer.free();
  assertThrows(() => range.buffer(), RangeError, "nothing is mapped there");
  assertThrows(() => range.setAccess(gpu, "read"), RangeError, "nothing is mapped there");
  assertThrows(() => range.map(memory), RangeError, "reserve more addresses");
  assertThrows(() => range.map(memory, { byteOffset: 0 }), RangeError, "they were freed, and stay until the reads");
  assertEquals((await reading).findIndex((byte) => byte !== 9), -1);
  range.map(memory, { byteOffset: 0 });
}, { long: true });

testSoftware("a read of a view that was unmapped fails, and says why", async (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.createMemory(64 * unit);
  const range = cuda.reserveAddresses(64 * unit);
  range.map(memory);
  const reading = assertRejects(() => range.buffer().read(Uint8Array), ReferenceError, "view of was unmapped");
  range[Symbol.dispose]();
  await reading;
});

testSoftware(
  "after the loss of a device, everything can be disposed of, and the loss is what is thrown",
  async (cuda) => {
    const gpu = cuda.device(0);
    const memory = gpu.createMemory(unit), range = cuda.reserveAddresses(2 * unit);
    const buffer = range.map(memory, { access: "read" });
    const module = gpu.loadModule(ptx);
    module.kernel("fill").launch({ grid: 1, block: 32 }, buffer, 64, 2);
    await assertRejects(() => gpu.finished(), CudaError);
    for (const use of [() => buffer.free(), () => range.setAccess(gpu, "read")]) {
      assertEquals(assertThrows(use, CudaError).code, "cudaErrorIllegalAddress");
    }
    range[Symbol.dispose]();
    memory[Symbol.dispose]();
    const warnings = await warningsOf(() => cuda[Symbol.dispose]());
    assertEquals(warnings, []);
  },
);

testOnEachDriver("a peer copies what only it has access to, and is told how to get access", async (cuda) => {
  const [gpu, peer] = [cuda.device(0), cuda.device(1)];
  if (!peer.canAccessPeer(gpu)) return;
  using memory = gpu.createMemory(unit);
  using range = cuda.reserveAddresses(unit);
  const buffer = range.map(memory, { devices: peer });
  using stream = peer.createStream();
  buffer.stream = stream;
  buffer.copyFrom(Uint8Array.of(1, 2, 3));
  assertEquals(await buffer.read(Uint8Array, { length: 3 }), Uint8Array.of(1, 2, 3));
  const error = assertThrows(() => buffer.fill(1, gpu.defaultStream), CudaError);
  assertStringIncludes(error.message, "has no access to it; call setAccess of its address range");
}, { devices: 2, makesMistakes: true });

testOnEachDriver("copies within memory that is mapped do not overlap, and its handle is the memory's", (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.createMemory(unit);
  using range = cuda.reserveAddresses(unit);
  const buffer = range.map(memory), view = range.buffer();
  const part = buffer.subarray(0, 100);
  assertThrows(() => view.subarray(4, 104).copyFrom(part), RangeError, "they overlap");
  for (const exported of [() => buffer.exportPointer(), () => buffer.exportHandle()]) {
    assertThrows(exported, TypeError, "use exportHandle of the PhysicalMemory");
  }
});

testSoftware("what is left is named, and what was mapped is reported", async (cuda) => {
  const warnings = await warningsOf(() => {
    const gpu = cuda.device(0);
    const range = cuda.reserveAddresses(2 * unit);
    range.map(gpu.createMemory(unit));
    cuda[Symbol.dispose]();
  });
  assertEquals(warnings, ["poolpass: 1 mapped buffer (2097152 bytes) not freed before the Cuda object was disposed"]);
});

testSoftware("objects print what they are", (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.createMemory(1, { handleType: "posix-fd" });
  using range = cuda.reserveAddresses(1);
  assertEquals(inspect(memory), "PhysicalMemory { device 0, 2097152 bytes, posix-fd }");
  range.map(memory);
  assertMatch(inspect(range), /^AddressRange \{ 0x[0-9a-f]+, 2097152 bytes, 2097152 mapped \}$/);
});
