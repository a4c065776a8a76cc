import { assert, assertEquals, assertRejects } from "@std/assert";
import { memHandleType, memLocationType } from "../../src/driver.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { codeOf, launchFill, readBytes } from "../support/software_calls.ts";
import { type SoftwarePeer, testWithPeer } from "./peers.ts";

/** Allocates memory in the other process, fills it with 1, and returns it with its handle. */
async function allocate(peer: SoftwarePeer, device: number, byteLength: number) {
  const address = await peer.call("malloc", device, byteLength) as bigint;
  await peer.call("memsetAsync", device, address, 1, byteLength, 0n);
  await peer.call("deviceSynchronize", device);
  return { address, handle: await peer.call("ipcGetMemHandle", device, address) as Uint8Array };
}

testWithPeer("opened memory is the same memory, up to its last byte", async (driver, peer) => {
  const { address: theirs, handle } = await allocate(peer, 0, 100_001);
  assertEquals(handle.length, 64);
  assertEquals(await peer.call("ipcGetMemHandle", 0, theirs), handle);
  const ours = driver.ipcOpenMemHandle(0, handle);
  assertEquals(readBytes(driver, ours, 100_001), new Uint8Array(100_001).fill(1));
  assertEquals(driver.memGetAddressRange(0, ours + 9n), { base: ours, byteLength: 100_001 });
  launchFill(driver, 0, { address: ours, byteLength: 100_001 });
  driver.deviceSynchronize(0);
  assertEquals(await peer.call("read", theirs, 100_001), new Uint8Array(100_001).fill(5));
  await peer.call("memsetAsync", 0, theirs, 7, 100_001, 0n);
  await peer.call("deviceSynchronize", 0);
  assertEquals(readBytes(driver, ours + 100_000n, 1), Uint8Array.of(7));
  assertEquals(codeOf(() => driver.free(0, ours)), "cudaErrorInvalidValue");
  assertEquals(codeOf(() => driver.ipcGetMemHandle(0, ours)), "cudaErrorInvalidValue");
  driver.ipcCloseMemHandle(0, ours);
  launchFill(driver, 0, { address: ours, byteLength: 4 });
  assertEquals(codeOf(() => driver.deviceSynchronize(0)), "cudaErrorIllegalAddress");
});

testWithPeer("a handle opened again is the same mapping, which the last close unmaps", async (driver, peer) => {
  const { handle } = await allocate(peer, 0, 4096);
  const { free } = driver.memGetInfo(0);
  const address = driver.ipcOpenMemHandle(0, handle);
  const tables = free - driver.memGetInfo(0).free;
  assertEquals(driver.ipcOpenMemHandle(0, handle), address);
  driver.ipcCloseMemHandle(0, address);
  assertEquals(readBytes(driver, address, 4096), new Uint8Array(4096).fill(1));
  const stream = driver.streamCreateWithPriority(0, 1, 0);
  const ballast = driver.malloc(0, 64 * 2 ** 20);
  driver.memsetAsync(0, ballast, 1, 64 * 2 ** 20, stream);
  driver.ipcCloseMemHandle(0, address);
  assert(driver.streamQuery(0, stream), "The last close waits for the device's work");
  assertEquals(codeOf(() => driver.ipcCloseMemHandle(0, address)), "cudaErrorInvalidValue");
  driver.free(0, ballast);
  assertEquals(driver.ipcOpenMemHandle(0, handle), address);
  assertEquals(free - driver.memGetInfo(0).free, tables);
}, { long: true });

testWithPeer("memory is opened on its own device and on peers, but on no other device", async (driver, peer) => {
  const { handle } = await allocate(peer, 0, 4096);
  const address = driver.ipcOpenMemHandle(1, handle);
  for (const device of [0, 1]) {
    launchFill(driver, device, { address, byteLength: 4096 });
    driver.deviceSynchronize(device);
  }
  assertEquals(readBytes(driver, address, 4096), new Uint8Array(4096).fill(5));
  driver.ipcCloseMemHandle(1, address);
  const refusals = [
    [{ devices: 2, peers: false }, "cudaErrorPeerAccessUnsupported"],
    [{ devices: 2, peers: true, visible: "1" }, "cudaErrorInvalidDevice"],
  ] as const;
  for (const [options, code] of refusals) {
    const other = new SoftwareDriver(options);
    assertEquals(codeOf(() => other.ipcOpenMemHandle(other.getDeviceCount() - 1, handle)), code);
    other.close();
  }
}, { long: true });

testWithPeer("opened memory stays when its process is killed, but cannot be opened again", async (driver, peer) => {
  const { handle } = await allocate(peer, 0, 4096);
  const address = driver.ipcOpenMemHandle(0, handle);
  await peer.kill();
  assertEquals(readBytes(driver, address, 4096), new Uint8Array(4096).fill(1));
  driver.ipcCloseMemHandle(0, address);
  assertEquals(codeOf(() => driver.ipcOpenMemHandle(0, handle)), "cudaErrorInvalidResourceHandle");
}, { long: true });

testWithPeer("freed memory cannot be opened, even if its descriptor's number was reused", async (driver, peer) => {
  const { address, handle } = await allocate(peer, 0, 4096);
  await peer.call("free", 0, address);
  assertEquals(codeOf(() => driver.ipcOpenMemHandle(0, handle)), "cudaErrorInvalidValue");
  const second = await allocate(peer, 0, 4096);
  assert(second.handle.toHex() !== handle.toHex());
  assertEquals(codeOf(() => driver.ipcOpenMemHandle(0, handle)), "cudaErrorInvalidValue");
});

testWithPeer("a handle with any byte changed is refused", async (driver, peer) => {
  const { handle } = await allocate(peer, 0, 4096);
  for (const index of handle.keys()) {
    const changed = handle.slice();
    changed[index]! ^= 0x80;
    // These bytes identify the process, and where it lives.
    const isProcess = (index >= 8 && index < 12) || (index >= 16 && index < 24);
    const isPlace = index >= 24 && index < 32;
    const code = isProcess
      ? "cudaErrorInvalidResourceHandle"
      : isPlace
      ? "cudaErrorMapBufferObjectFailed"
      : "cudaErrorInvalidValue";
    assertEquals(codeOf(() => driver.ipcOpenMemHandle(0, changed)), code, `byte ${index}`);
  }
  for (const garbage of [new Uint8Array(64), new Uint8Array(64).fill(255), handle.subarray(1)]) {
    assertEquals(codeOf(() => driver.ipcOpenMemHandle(0, garbage)), "cudaErrorInvalidValue");
  }
  const event = await peer.call("eventCreateWithFlags", 0, 6);
  const eventHandle = await peer.call("ipcGetEventHandle", event) as Uint8Array;
  assertEquals(codeOf(() => driver.ipcOpenMemHandle(0, eventHandle)), "cudaErrorInvalidValue");
});

testWithPeer("a handle needs the start of memory without a pool, and another process to open it", (driver) => {
  const pool = driver.memPoolCreate({
    handleTypes: memHandleType.posixFileDescriptor,
    location: { type: memLocationType.device, id: 0 },
    maxSize: 0n,
  });
  const ofPool = driver.mallocFromPoolAsync(0, 4096, pool, 0n);
  assertEquals(codeOf(() => driver.ipcGetMemHandle(0, ofPool)), "cudaErrorInvalidValue");
  const address = driver.malloc(0, 4096);
  const handle = driver.ipcGetMemHandle(0, address);
  assertEquals(driver.ipcGetMemHandle(0, address + 4095n), handle);
  assertEquals(codeOf(() => driver.ipcGetMemHandle(0, address + 4096n)), "cudaErrorInvalidValue");
  assertEquals(codeOf(() => driver.ipcOpenMemHandle(0, handle)), "cudaErrorDeviceUninitialized");
  assertEquals(codeOf(() => driver.ipcCloseMemHandle(0, address)), "cudaErrorInvalidValue");
  driver.memsetAsync(0, address, 3, 4096, 0n);
  assertEquals(readBytes(driver, address, 4096), new Uint8Array(4096).fill(3));
});

testWithPeer("work queued before a handle was requested runs on the shared memory", async (driver, peer) => {
  const address = driver.malloc(0, 64 * 2 ** 20);
  driver.memsetAsync(0, address, 6, 64 * 2 ** 20, 0n);
  assertEquals(driver.streamQuery(0, 0n), false);
  const handle = driver.ipcGetMemHandle(0, address);
  driver.deviceSynchronize(0);
  const theirs = await peer.call("ipcOpenMemHandle", 0, handle) as bigint;
  for (const offset of [0n, 64n * 2n ** 20n - 8n]) {
    assertEquals(await peer.call("read", theirs + offset, 8), new Uint8Array(8).fill(6));
  }
  driver.free(0, address);
  assertEquals(await peer.call("read", theirs, 8), new Uint8Array(8).fill(6));
  await assertRejects(() => peer.call("ipcCloseMemHandle", 0, theirs + 512n), Error, "cudaErrorInvalidValue");
  await peer.call("ipcCloseMemHandle", 0, theirs);
});
