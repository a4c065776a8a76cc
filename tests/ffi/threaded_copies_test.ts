import { assert, assertEquals, assertRejects } from "@std/assert";
import { Buffer } from "node:buffer";
import { truncateSync, writeFileSync } from "node:fs";
import { addressOf } from "../../ffi/native/host.ts";
import { closeDescriptor, readAt, writeAt } from "../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../ffi/native/shim/memory_files.ts";
import { errno } from "../../ffi/native/shim/shim.ts";
import { type EndOfCopy, ThreadedCopy } from "../../ffi/native/threaded_copies.ts";
import { waitUntil } from "../../src/support/waiting/waiting.ts";
import { openSafetensors } from "../../safetensors.ts";
import { adaptedCuda } from "../support/adapted_driver.ts";
import { driverNamed } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";
import { test } from "../support/test.ts";
import { skip, withDevice } from "../support/threaded_device.ts";

const pieceByteLength = 4 * 2 ** 20;
/** The threads, of which there are 12, copy more than one piece each; the last piece is not whole. */
const byteLength = 13 * pieceByteLength + 12345;

async function ended(copy: ThreadedCopy): Promise<EndOfCopy> {
  await waitUntil(() => copy.isOver);
  return copy.end();
}

test("threads copy a file to a device, and the device's memory to a file", { skip }, async () => {
  await withDevice(async (calls) => {
    const content = Buffer.alloc(byteLength);
    for (let begin = 0; begin < byteLength; begin += 997) content[begin] = begin % 251;
    const file = createMemoryFile("source", byteLength), target = createMemoryFile("target", byteLength);
    try {
      writeAt(file, content);
      const memory = new Uint8Array(byteLength);
      const range = { fd: file, fileOffset: 0, byteLength, address: addressOf(memory) };
      const read = new ThreadedCopy(calls, [range]);
      assertEquals(await ended(read), { error: 0, fd: 0, offset: 0 });
      assert(content.equals(memory), "the device has the file's bytes");

      const written = new ThreadedCopy(calls, [{ ...range, fd: target }], target);
      assertEquals(await ended(written), { error: 0, fd: 0, offset: 0 });
      const copied = new Uint8Array(byteLength);
      readAt(target, copied);
      assert(content.equals(copied), "the file has the device's bytes");
    } finally {
      closeDescriptor(file);
      closeDescriptor(target);
    }
  });
});

test("a copy in threads ends with the first error, and where it was", { skip }, async () => {
  await withDevice(async (calls) => {
    const length = 5 * 2 ** 20;
    const file = createMemoryFile("source", length - 1000);
    try {
      const memory = new Uint8Array(length);
      const range = { fd: file, fileOffset: 0, byteLength: length, address: addressOf(memory) };
      const cut = await ended(new ThreadedCopy(calls, [range]));
      assertEquals(cut, { error: -errno.ENODATA, fd: file, offset: length - 1000 });
      const piece = { ...range, byteLength: 1000 };
      const faulty = await ended(new ThreadedCopy(calls, [{ ...piece, address: 8n }]));
      assertEquals(faulty, { error: 700, fd: file, offset: 0 });
      const lost = await ended(new ThreadedCopy({ ...calls, context: 78n }, [piece]));
      assertEquals(lost, { error: 201, fd: 0, offset: 0 });
    } finally {
      closeDescriptor(file);
    }
  });
});

test("a large file is read by threads, and ends as other reads do", { skip }, async () => {
  await withDevice(async (calls, place) => {
    await inFolder(async (folder) => {
      const length = 20 * 2 ** 20;
      const header = Buffer.from(JSON.stringify({ a: { dtype: "U8", shape: [length], data_offsets: [0, length] } }));
      const size = Buffer.alloc(8);
      size.writeUInt32LE(header.length);
      const content = Buffer.alloc(length);
      for (let begin = 0; begin < length; begin += 997) content[begin] = begin % 251;
      const path = `${folder}/a.safetensors`;
      writeFileSync(path, Buffer.concat([size, header, content]));

      // The software device, whose memory the threads take to be elsewhere.
      using cuda = adaptedCuda(driverNamed("software").open(), { threadCalls: () => calls });
      using pool = cuda.device(0).createPool();
      const buffer = pool.allocate(length);
      await buffer.stream.finished();
      const memory = new Uint8Array(length);
      place(buffer.address, addressOf(memory));
      await using file = await openSafetensors(path);
      const loaded: number[] = [];
      await file.load(buffer, { onProgress: (progress) => loaded.push(progress.loaded) });
      assert(content.equals(memory), "the device has the file's bytes");
      assertEquals(loaded.at(-1), length);

      const fail = () => {
        throw new Error("Cannot go on");
      };
      await assertRejects(() => file.load(buffer, { onProgress: fail }), Error, "Cannot go on");
      const stop = new AbortController();
      await assertRejects(
        () => file.load(buffer, { signal: stop.signal, onProgress: () => stop.abort() }),
        DOMException,
        "aborted",
      );
      truncateSync(path, 18 * 2 ** 20);
      await assertRejects(() => file.load(buffer), Error, `was cut to ${18 * 2 ** 20} while`);
      // The copies have ended, or this would wait for ever.
      buffer.free();
      await cuda.device(0).defaultStream.finished();
      assertEquals(pool.usage().used, 0);
    });
  });
});
