import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { addressOf, dlopen } from "../../ffi/native/host.ts";
import { compilerVersion } from "../../ffi/native/shim/build.ts";
import { closeDescriptor, readAt, writeAt } from "../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../ffi/native/shim/memory_files.ts";
import { errno } from "../../ffi/native/shim/shim.ts";
import { type ThreadCalls, ThreadedCopy, threadFunctions } from "../../ffi/native/threaded_copies.ts";
import { waitUntil } from "../../src/support/waiting/waiting.ts";
import { test } from "../support/test.ts";

/** A device whose memory is the process's own. A copy to an address below 4096 fails, as do all calls with a wrong context. */
const device = `
#include <string.h>
typedef unsigned long u64;
int cuCtxSetCurrent(void *context) { return context == (void *)77 ? 0 : 201; }
int cuMemHostRegister_v2(void *memory, u64 length, unsigned flags) { (void)memory; (void)length; return (int)flags; }
int cuMemHostUnregister(void *memory) { (void)memory; return 0; }
int cuStreamCreate(void **stream, unsigned flags) { *stream = stream; return flags == 1 ? 0 : 1; }
int cuStreamSynchronize(void *stream) { return stream ? 0 : 1; }
int cuStreamDestroy_v2(void *stream) { return stream ? 0 : 1; }
int cuMemcpyHtoDAsync_v2(u64 to, const void *from, u64 n, void *stream) {
  if (to < 4096) return 700;
  memcpy((void *)to, from, n);
  return stream ? 0 : 1;
}
int cuMemcpyDtoHAsync_v2(void *to, u64 from, u64 n, void *stream) { memcpy(to, (void *)from, n); return stream ? 0 : 1; }
`;

const skip = compilerVersion("gcc") === undefined ? "gcc is not installed" : undefined;

async function withDevice(use: (calls: ThreadCalls) => Promise<void>): Promise<void> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    writeFileSync(`${folder}/device.c`, device);
    const built = spawnSync("gcc", ["-shared", "-fPIC", "-O1", "-o", `${folder}/device.so`, `${folder}/device.c`]);
    assertEquals(built.status, 0, String(built.stderr));
    const library = dlopen(`${folder}/device.so`, {});
    await use({ context: 77n, functions: threadFunctions.map((name) => library.addressOfFunction(name)!) });
    library.close();
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const pieceByteLength = 4 * 2 ** 20;
/** The threads, of which there are 12, copy more than one piece each; the last piece is not whole. */
const byteLength = 13 * pieceByteLength + 12345;

async function ended(copy: ThreadedCopy): Promise<{ readonly error: number; readonly offset: number }> {
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
      assertEquals(await ended(read), { error: 0, offset: 0 });
      assert(content.equals(memory), "the device has the file's bytes");

      const written = new ThreadedCopy(calls, [{ ...range, fd: target }], target);
      assertEquals(await ended(written), { error: 0, offset: 0 });
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
      assertEquals(cut, { error: -errno.ENODATA, offset: length - 1000 });
      const piece = { ...range, byteLength: 1000 };
      const faulty = await ended(new ThreadedCopy(calls, [{ ...piece, address: 8n }]));
      assertEquals(faulty, { error: 700, offset: 0 });
      const lost = await ended(new ThreadedCopy({ ...calls, context: 78n }, [piece]));
      assertEquals(lost, { error: 201, offset: 0 });
    } finally {
      closeDescriptor(file);
    }
  });
});
