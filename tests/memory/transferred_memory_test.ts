import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { MessageChannel } from "node:worker_threads";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { driversUnderTest } from "../support/drivers.ts";
import { test } from "../support/test.ts";

/** The ways to move an ArrayBuffer. Each leaves the memory where it is. */
const moves: Readonly<Record<string, (buffer: ArrayBuffer) => ArrayBuffer>> = {
  transfer: (buffer) => buffer.transfer(),
  transferToFixedLength: (buffer) => buffer.transferToFixedLength(),
  structuredClone: (buffer) => structuredClone(buffer, { transfer: [buffer] }),
};

/** Declares a test that gets the warnings. It does not count resources, because transferred memory stays. */
function testWithWarnings(name: string, body: (cuda: Cuda, warnings: readonly string[]) => void | Promise<void>): void {
  for (const driver of driversUnderTest) {
    test(`${name} [${driver.name}]`, { skip: driver.skip }, async () => {
      const { warn } = console;
      const warnings: string[] = [];
      console.warn = (message: string) => warnings.push(message);
      try {
        using cuda = new Cuda(new Session(driver.open()));
        await body(cuda, warnings);
      } finally {
        console.warn = warn;
      }
    });
  }
}

testWithWarnings("page-locked memory that was transferred stays after its free, and is reported", (cuda, warnings) => {
  const byteLength = 2 ** 20;
  const moved: ArrayBuffer[] = [];
  for (const move of Object.values(moves)) {
    using host = cuda.allocateHost(byteLength);
    new Uint8Array(host.buffer).fill(7);
    moved.push(move(host.buffer));
    const error = assertThrows(() => host.buffer, ReferenceError);
    assertStringIncludes(error.message, "its ArrayBuffer was transferred; transfer a copy");
    using pool = cuda.device(0).createPool();
    using buffer = pool.allocate(byteLength);
    assertThrows(() => buffer.copyFrom(host), ReferenceError, "was transferred");
    assertThrows(() => buffer.copyTo(host), ReferenceError, "was transferred");
  }
  const others = moved.map(() => new Uint8Array(cuda.allocateHost(byteLength).buffer).fill(9));
  for (const buffer of moved) assertEquals(new Uint8Array(buffer).lastIndexOf(7), byteLength - 1);
  assertEquals(warnings, []);
  cuda[Symbol.dispose]();
  assertEquals(others.map(({ length }) => length), [0, 0, 0]);
  assertEquals(warnings, [
    "poolpass: 3 host buffers (3145728 bytes) not freed before the Cuda object was disposed",
    "poolpass: 3 buffers were not freed before the Cuda object was disposed, because an ArrayBuffer of the memory was " +
    "transferred, 3145728 bytes; transfer a copy of the bytes instead, such as buffer.slice()",
  ]);
  for (const buffer of moved) {
    const bytes = new Uint8Array(buffer);
    assert(bytes.every((byte) => byte === 7));
    bytes.fill(8);
  }
});

testWithWarnings("page-locked memory that was transferred and never freed stays too", (cuda, warnings) => {
  const { port1, port2 } = new MessageChannel();
  const host = cuda.allocateHost(64);
  const { buffer } = host;
  port1.postMessage(buffer, [buffer]);
  port1.close();
  port2.close();
  cuda[Symbol.dispose]();
  assertEquals([warnings.length, warnings[0]?.includes("was transferred, 64 bytes")], [1, true]);
});

testWithWarnings("a transfer of a copy is no transfer of the memory", (cuda, warnings) => {
  using host = cuda.allocateHost(64);
  new Uint8Array(host.buffer).fill(7);
  const moved = host.buffer.slice().transfer();
  host[Symbol.dispose]();
  assertEquals(new Uint8Array(moved)[63], 7);
  cuda[Symbol.dispose]();
  assertEquals(warnings, []);
});

testWithWarnings("a host pool's memory whose view was transferred stays after its free", async (cuda, warnings) => {
  const byteLength = 4096;
  using stream = cuda.device(0).createStream();
  using pool = cuda.createHostPool();
  const buffer = pool.allocate(byteLength, stream);
  const replaced = pool.allocate(byteLength, stream);
  const never = pool.allocate(byteLength, stream);
  await stream.finished();
  const moved = [buffer, replaced, never].map((buffer) => {
    const view = new Uint8Array(buffer.hostView());
    view.fill(7);
    return new Uint8Array(view.buffer.transfer());
  });
  // The memory can be viewed again, and the first view is not forgotten.
  const view = new Uint8Array(replaced.hostView());
  assertEquals(view.lastIndexOf(7), byteLength - 1);
  buffer.free();
  replaced.free();
  assertEquals(view.length, 0);
  await stream.finished();
  for (let count = 0; count < 8; count++) {
    new Uint8Array(pool.allocate(byteLength, stream).hostView()).fill(9);
  }
  for (const bytes of moved) assertEquals(bytes.lastIndexOf(7), byteLength - 1);
  pool[Symbol.dispose]();
  assertEquals([warnings.length, warnings[0]?.includes("9 buffers were not freed before the ")], [1, true]);
  cuda[Symbol.dispose]();
  assertStringIncludes(warnings[1]!, "3 buffers were not freed before the Cuda object was disposed");
  // Whatever is in it, it is there.
  for (const bytes of moved) bytes.fill(8);
  assertEquals(warnings.length, 2);
});
