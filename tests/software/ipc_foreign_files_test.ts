import { assert, assertEquals } from "@std/assert";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { codeOf } from "../support/software_calls.ts";
import { type SoftwarePeer, testWithPeer } from "./peers.ts";

/** Milliseconds for which opening may block. A lease blocks for 45 s. */
const promptly = 2000;

async function memoryHandle(peer: SoftwarePeer): Promise<Uint8Array> {
  return await peer.call("ipcGetMemHandle", 0, await peer.call("malloc", 0, 4096)) as Uint8Array;
}

testWithPeer("a lease on the file of shared memory is an error and not a wait", async (driver, peer) => {
  const handle = await memoryHandle(peer);
  await peer.call("leaseMemory");
  const since = performance.now();
  assertEquals(codeOf(() => driver.ipcOpenMemHandle(0, handle)), "cudaErrorInvalidValue");
  assert(performance.now() - since < promptly, `It took ${performance.now() - since} ms`);
});

testWithPeer("what a handle names is not opened if it is no memory file", async (driver, peer) => {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    const handle = await memoryHandle(peer);
    writeFileSync(`${folder}/file`, new Uint8Array(65_536));
    const fd = await peer.call("leaseFile", `${folder}/file`);
    const since = performance.now();
    // Opening the file would break the lease.
    assertEquals(codeOf(() => driver.ipcOpenMemHandle(0, handle)), "cudaErrorInvalidValue");
    assertEquals(await peer.call("hasLease", fd), true);
    assert(performance.now() - since < promptly, `It took ${performance.now() - since} ms`);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

testWithPeer("a handle that names a FIFO or a device file is refused", async (driver, peer) => {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    await peer.call("createFifo", `${folder}/fifo`);
    for (const path of [`${folder}/fifo`, "/dev/zero", "/dev/ptmx"]) {
      const handle = await memoryHandle(peer);
      await peer.call("replaceMemory", path);
      assertEquals(codeOf(() => driver.ipcOpenMemHandle(0, handle)), "cudaErrorInvalidValue", path);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}, { long: true });
