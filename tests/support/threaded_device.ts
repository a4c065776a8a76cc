/**
 * A device for copies in threads, in C: its memory is the process's own.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dlopen } from "../../ffi/native/host.ts";
import { compilerVersion } from "../../ffi/native/shim/build.ts";
import { type ThreadCalls, threadFunctions } from "../../ffi/native/threaded_copies.ts";

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
static u64 base, memory;
void place(u64 address, u64 there) { base = address; memory = there; }
int cuMemcpyHtoDAsync_v2(u64 to, const void *from, u64 n, void *stream) {
  if (to < 4096) return 700;
  memcpy((void *)(to - base + memory), from, n);
  return stream ? 0 : 1;
}
int cuMemcpyDtoHAsync_v2(void *to, u64 from, u64 n, void *stream) { memcpy(to, (void *)from, n); return stream ? 0 : 1; }
`;

/** Why such a device cannot be built here. */
export const skip: string | undefined = compilerVersion("gcc") === undefined ? "gcc is not installed" : undefined;

/** Builds such a device, and calls `use` with what threads call, and with a function that moves its memory. */
export async function withDevice(
  use: (calls: ThreadCalls, place: (address: bigint, memory: bigint) => void) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    writeFileSync(`${folder}/device.c`, device);
    const built = spawnSync("gcc", ["-shared", "-fPIC", "-O1", "-o", `${folder}/device.so`, `${folder}/device.c`]);
    assertEquals(built.status, 0, String(built.stderr));
    const library = dlopen(`${folder}/device.so`, {
      place: { parameters: ["u64", /* u64 address */ "u64" /* u64 there */], result: "void" },
    });
    const { place } = library.symbols;
    await use({ context: 77n, functions: threadFunctions.map((name) => library.addressOfFunction(name)!) }, place!);
    library.close();
  } finally {
    rmSync(folder, { recursive: true });
  }
}
