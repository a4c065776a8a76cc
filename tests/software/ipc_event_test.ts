import { assert, assertEquals } from "@std/assert";
import { eventFlags } from "../../src/driver.ts";
import { InterprocessEvent } from "../../src/software/ipc/interprocess_event.ts";
import type { SoftwareDriver } from "../../src/software/software_driver.ts";
import { LinearMemory } from "../../src/software/memory/linear_memory.ts";
import { waitUntil } from "../../src/support/waiting/waiting.ts";
import { startScript } from "../support/child_process.ts";
import { codeOf } from "../support/software_calls.ts";
import { type SoftwarePeer, testWithPeer } from "./peers.ts";

const shared = eventFlags.interprocess | eventFlags.disableTiming;

/** An event of this process whose records complete when the test says so. */
function heldEvent(): InterprocessEvent & Disposable {
  const event = InterprocessEvent.create(new LinearMemory(), {
    device: 0,
    flags: shared,
    deviceUuid: new Uint8Array(16),
  });
  return Object.assign(event, { [Symbol.dispose]: () => event.close() });
}

/** Creates an event in the other process, and returns it with its handle. */
async function createEvent(peer: SoftwarePeer): Promise<{ event: bigint; handle: Uint8Array }> {
  const event = await peer.call("eventCreateWithFlags", 0, shared) as bigint;
  return { event, handle: await peer.call("ipcGetEventHandle", event) as Uint8Array };
}

/** Makes further work on the other process's default stream wait for an event. */
async function holdPeer(peer: SoftwarePeer, held: InterprocessEvent): Promise<void> {
  await peer.call("streamWaitEvent", 0, 0n, await peer.call("ipcOpenEventHandle", 0, held.handle()));
}

function finished(driver: SoftwareDriver, stream: bigint): Promise<void> {
  return waitUntil(() => driver.streamQuery(0, stream));
}

testWithPeer("a stream waits for a record of another process, and continues behind it", async (driver, peer) => {
  using held = heldEvent();
  const complete = held.beginRecord();
  await holdPeer(peer, held);
  const theirs = await peer.call("malloc", 0, 4096) as bigint;
  await peer.call("memsetAsync", 0, theirs, 4, 4096, 0n);
  const { event, handle } = await createEvent(peer);
  await peer.call("eventRecord", 0, event, 0n);
  const ours = driver.ipcOpenMemHandle(0, await peer.call("ipcGetMemHandle", 0, theirs) as Uint8Array);
  const opened = driver.ipcOpenEventHandle(0, handle);
  driver.streamWaitEvent(0, 0n, opened);
  const bytes = driver.hostAlloc(4096);
  driver.memcpyDtoHAsync(0, new Uint8Array(bytes.buffer), ours, 0n);
  const other = driver.streamCreateWithPriority(0, 1, 0);
  driver.memsetAsync(0, driver.malloc(0, 64), 1, 64, other);
  await finished(driver, other);
  assertEquals([driver.eventQuery(opened), driver.streamQuery(0, 0n)], [false, false]);
  complete();
  driver.deviceSynchronize(0);
  assertEquals(new Uint8Array(bytes.buffer), new Uint8Array(4096).fill(4));
  assertEquals(driver.eventQuery(opened), true);
  driver.freeHost(bytes);
});

testWithPeer("both sides can record an event and wait for it", async (driver, peer) => {
  const event = driver.eventCreateWithFlags(0, shared);
  assertEquals(driver.eventQuery(event), true);
  const theirs = await peer.call("ipcOpenEventHandle", 0, driver.ipcGetEventHandle(event)) as bigint;
  using held = heldEvent();
  const complete = held.beginRecord();
  await holdPeer(peer, held);
  await peer.call("eventRecord", 0, theirs, 0n);
  assertEquals(driver.eventQuery(event), false);
  complete();
  driver.eventSynchronize(event);
  driver.eventRecord(0, event, 0n);
  await peer.call("eventSynchronize", theirs);
  assertEquals(driver.eventQuery(event), true);
}, { long: true });

testWithPeer("a wait ends with the record that it waits for, not with a later one", async (driver, peer) => {
  using held = heldEvent();
  const complete = held.beginRecord();
  const event = await peer.call("ipcOpenEventHandle", 0, held.handle());
  await peer.call("streamWaitEvent", 0, 0n, event);
  held.beginRecord()();
  assertEquals(await peer.call("eventQuery", event), true);
  assertEquals(await peer.call("streamQuery", 0, 0n), false);
  complete();
  await peer.call("deviceSynchronize", 0);
  for (let count = 0; count < 10_000; count++) held.beginRecord()();
  assertEquals(await peer.call("eventQuery", event), true);
  assertEquals(driver.eventQuery(driver.eventCreateWithFlags(0, shared)), true);
});

testWithPeer("a wait ends when either side destroys the event", async (driver, peer) => {
  using held = heldEvent();
  const complete = held.beginRecord();
  await holdPeer(peer, held);
  const { event, handle } = await createEvent(peer);
  await peer.call("eventRecord", 0, event, 0n);
  const opened = driver.ipcOpenEventHandle(0, handle);
  driver.streamWaitEvent(0, 0n, opened);
  driver.eventDestroy(0, opened);
  await peer.call("eventDestroy", 0, event);
  assertEquals(driver.eventQuery(driver.ipcOpenEventHandle(0, handle)), true, "What is gone is opened as new");
  assertEquals(driver.streamQuery(0, 0n), false);
  complete();
  await finished(driver, 0n);
}, { long: true });

testWithPeer(
  "a wait for a killed process never completes, but the waiting process continues and can exit",
  async (driver, peer) => {
    using held = heldEvent();
    held.beginRecord();
    await holdPeer(peer, held);
    const { event, handle } = await createEvent(peer);
    await peer.call("eventRecord", 0, event, 0n);
    const opened = driver.ipcOpenEventHandle(0, handle);
    driver.streamWaitEvent(0, 0n, opened);
    await peer.kill();
    const stream = driver.streamCreateWithPriority(0, 1, 0);
    driver.memsetAsync(0, driver.malloc(0, 64), 1, 64, stream);
    await finished(driver, stream);
    assertEquals([driver.streamQuery(0, 0n), driver.eventQuery(opened)], [false, false]);
    const { free } = driver.memGetInfo(0);
    const again = driver.ipcOpenEventHandle(0, handle);
    assertEquals(driver.eventQuery(again), true);
    driver.eventRecord(0, again, stream);
    driver.eventSynchronize(again);
    assertEquals(driver.eventQuery(again), true);
    driver.eventDestroy(0, again);
    assertEquals(driver.memGetInfo(0).free, free);
  },
);

testWithPeer("a process exits although one of its streams waits for another process", async () => {
  using held = heldEvent();
  held.beginRecord();
  await using waiter = startScript("children/software/software_waiter.ts", [held.handle().toHex()]);
  assertEquals([await waiter.nextLine(), await waiter.ended, await waiter.errors()], ["waiting", 0, ""]);
}, { long: true });

testWithPeer("a process that cannot open files does not take another for dead", async () => {
  using held = heldEvent();
  held.beginRecord();
  const args = [held.handle().toHex()];
  await using child = startScript("children/software/software_few_descriptors.ts", args, { descriptorLimit: 256 });
  assertEquals([await child.nextLine(), await child.nextLine(), await child.nextLine(), await child.ended], [
    "no descriptors: cudaErrorOperatingSystem",
    "mapped: 7",
    "event: false",
    0,
  ], await child.errors());
});

testWithPeer("a process that blocks on another's work yields the processor", async (_, peer) => {
  using held = heldEvent();
  for (const [call, ...args] of [["eventSynchronize"], ["deviceSynchronize", 0]]) {
    const complete = held.beginRecord();
    const event = await peer.call("ipcOpenEventHandle", 0, held.handle());
    await peer.call("streamWaitEvent", 0, 0n, event);
    const before = await peer.call("processorTime") as number;
    const blocked = peer.call(call as string, ...call === "eventSynchronize" ? [event] : args);
    await new Promise((resolve) => setTimeout(resolve, 400));
    complete();
    await blocked;
    const used = await peer.call("processorTime") as number - before;
    assert(used < 200, `${call} used ${used} ms of 400`);
  }
}, { long: true });

testWithPeer("a waiting stream is not polled without pause", async (_, peer) => {
  using held = heldEvent();
  const complete = held.beginRecord();
  await holdPeer(peer, held);
  const before = await peer.call("processorTime") as number;
  await new Promise((resolve) => setTimeout(resolve, 400));
  const used = await peer.call("processorTime") as number - before;
  assert(used < 200, `${used} ms of 400`);
  complete();
  await peer.call("deviceSynchronize", 0);
}, { long: true });

testWithPeer("only interprocess events have handles, and only other processes open them", async (driver, peer) => {
  using held = heldEvent();
  const complete = held.beginRecord();
  const { disableTiming, interprocess } = eventFlags;
  assertEquals(codeOf(() => driver.eventCreateWithFlags(0, interprocess)), "cudaErrorInvalidValue");
  assertEquals(codeOf(() => driver.eventCreateWithFlags(0, 8)), "cudaErrorInvalidValue");
  const plain = driver.eventCreateWithFlags(0, disableTiming);
  assertEquals(codeOf(() => driver.ipcGetEventHandle(plain)), "cudaErrorInvalidResourceHandle");
  const event = driver.eventCreateWithFlags(0, shared);
  const handle = driver.ipcGetEventHandle(event);
  assertEquals(handle.length, 64);
  assertEquals(codeOf(() => driver.ipcOpenEventHandle(0, handle)), "cudaErrorDeviceUninitialized");
  const theirs = await createEvent(peer);
  const opened = driver.ipcOpenEventHandle(0, theirs.handle);
  assertEquals(codeOf(() => driver.ipcGetEventHandle(opened)), "cudaErrorInvalidResourceHandle");
  await peer.call("streamWaitEvent", 0, 0n, await peer.call("ipcOpenEventHandle", 0, held.handle()));
  await peer.call("eventRecord", 0, theirs.event, 0n);
  assertEquals(driver.eventQuery(opened), false);
  for (const index of theirs.handle.keys()) {
    const changed = theirs.handle.slice();
    // A nearby number may belong to a thread of that process, which has the same descriptors.
    changed[index]! ^= 0x80;
    // The magic, or where the process lives: it may exist there.
    if (index < 8 || (index >= 24 && index < 32)) {
      assertEquals(codeOf(() => driver.ipcOpenEventHandle(0, changed)), "cudaErrorMapBufferObjectFailed");
    } else {
      // The handle names no existing event.
      const other = driver.ipcOpenEventHandle(0, changed);
      assertEquals(driver.eventQuery(other), true, `byte ${index}`);
      driver.eventDestroy(0, other);
    }
  }
  complete();
});

testWithPeer("destroyed events release all their resources, used or not", async (driver, peer) => {
  driver.deviceSynchronize(0);
  const { free } = driver.memGetInfo(0);
  for (let round = 0; round < 20; round++) {
    const event = driver.eventCreateWithFlags(0, shared);
    driver.eventRecord(0, event, 0n);
    driver.eventDestroy(0, event);
  }
  const { handle } = await createEvent(peer);
  for (let round = 0; round < 20; round++) driver.eventDestroy(0, driver.ipcOpenEventHandle(0, handle));
  await finished(driver, 0n);
  await waitUntil(() => driver.memGetInfo(0).free === free);
}, { long: true });
