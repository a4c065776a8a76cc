import { assertEquals, assertThrows } from "@std/assert";
import process from "node:process";
import { errno, errnoName, SystemError } from "../../../ffi/native/shim/shim.ts";
import type { Driver } from "../../../src/driver.ts";
import { RemoteEvents } from "../../../src/sharing/events/remote_events.ts";
import type { Message } from "../../../src/sharing/protocol/messages.ts";
import type { PeerProcess } from "../../../src/sharing/transport/peer_process.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { translateSystemErrors } from "../../../src/software/failure.ts";
import { CudaError } from "../../../src/support/errors.ts";
import { type EventRefusal, refusalStatistics } from "../../../src/support/refusals.ts";
import { adaptedCuda } from "../../support/adapted_driver.ts";
import { driversUnderTest, testOnEachDriver } from "../../support/drivers.ts";
import { test } from "../../support/test.ts";

const ownUser = process.geteuid!();
const peerProcess = 4711;
/** The places of the fields of CUDA's event handles, as indices of u32. */
const field = { process: 0, place: 4 } as const;

/** An event handle as CUDA makes them: of a process, at a place among its events. */
function eventHandle(processId: number, place: number): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(16);
  words[field.process] = processId;
  words[2] = 1;
  words[field.place] = place;
  return new Uint8Array(words.buffer);
}

/** A handle in which a field has another value. */
function changed(handle: Uint8Array, index: number, value: number): Uint8Array<ArrayBuffer> {
  const copy = Uint8Array.from(handle);
  new Uint32Array(copy.buffer)[index] = value;
  return copy;
}

/**
 * Waits for an event that a peer announces. Returns what the peer is sent, and whether the driver was given the handle.
 */
function waitFor(
  methods: Partial<Driver>,
  { handle = new Uint8Array(64), uid = ownUser, isInOwnPidNamespace = true }: {
    handle?: Uint8Array<ArrayBuffer>;
    uid?: number;
    isInOwnPidNamespace?: boolean;
  } = {},
): { sent: Message[]; isOpened: boolean } {
  let isOpened = false;
  const driver = new SoftwareDriver({ devices: 1, peers: false });
  using cuda = adaptedCuda(driver, {
    ...methods,
    ipcOpenEventHandle(device, bytes) {
      isOpened = true;
      return methods.ipcOpenEventHandle?.(device, bytes) ?? driver.eventCreateWithFlags(device, 2);
    },
  });
  const sent: Message[] = [];
  const events = new RemoteEvents({
    findDevice: () => cuda.device(0),
    maximum: 1,
    send: (message) => sent.push(message),
    process: { isInOwnPidNamespace, isKnownToRun: true, peer: { pid: peerProcess, uid } } as PeerProcess,
  });
  events.define({ type: "event", event: 1, deviceUuid: new Uint8Array(16), handle });
  const cancel = events.whenFired(1, () => {});
  cancel();
  events.close();
  return { sent, isOpened };
}

/** What the peer is sent if the driver cannot open its event because of a system call's error. */
function sentBecauseOf(number: number): Message[] {
  return waitFor({
    ipcOpenEventHandle: () =>
      translateSystemErrors("cudaIpcOpenEventHandle", () => {
        throw new SystemError(number, "open of /proc/1/fd/3");
      }),
  }).sent;
}

/** A driver that believes what handles state, as CUDA's does, and whose own have CUDA's layout. */
function credulous(layout: (place: number) => Uint8Array<ArrayBuffer>): Partial<Driver> {
  let place = 4095;
  return { checksHandles: false, ipcGetEventHandle: () => layout(place--) };
}

const asked: Message[] = [{ type: "wait", event: 1 }];

/** How often a function refuses events, by the reason. */
function refusedBy(action: () => void): Partial<Record<EventRefusal, number>> {
  const before = refusalStatistics().events;
  action();
  const after = Object.entries(refusalStatistics().events) as [EventRefusal, number][];
  return Object.fromEntries(
    after.map(([reason, count]) => [reason, count - before[reason]!] as const).filter(([, count]) => count > 0),
  );
}

test("events that are not opened are counted by the reason, each once", () => {
  const own = credulous((place) => eventHandle(process.pid, place));
  const good = eventHandle(peerProcess, 17);
  const other = credulous(() => eventHandle(process.pid, 5));
  const cases: readonly (readonly [ReturnType<typeof refusedBy>, () => void])[] = [
    [{}, () => waitFor(own, { handle: good })],
    [{ forged: 1 }, () => waitFor(own, { handle: changed(good, field.place, 4096) })],
    [{ "unknown-layout": 1 }, () => waitFor(other, { handle: good })],
    [{ "other-user": 1 }, () => waitFor({}, { uid: ownUser + 1 })],
    [{ "other-namespace": 1 }, () => waitFor({}, { isInOwnPidNamespace: false })],
  ];
  for (const [expected, action] of cases) assertEquals(refusedBy(action), expected);
});

test("the owner of an event is asked that this user may not open, but not while resources are lacking", () => {
  for (const number of [errno.EACCES, errno.EPERM]) assertEquals(sentBecauseOf(number), asked, errnoName(number));
  for (const number of [errno.EMFILE, errno.ENFILE, errno.ENOMEM]) assertEquals(sentBecauseOf(number), []);
});

test("no event of another user is opened: its owner is asked", () => {
  assertEquals(waitFor({}, { uid: ownUser + 1 }), { sent: asked, isOpened: false });
  assertEquals(waitFor({}), { sent: [], isOpened: true });
});

test("an event handle that the driver would believe, and that no driver has made, is not opened", () => {
  const own = credulous((place) => eventHandle(process.pid, place));
  const good = eventHandle(peerProcess, 17);
  assertEquals(waitFor(own, { handle: good }), { sent: [], isOpened: true });
  assertEquals(waitFor(own, { handle: changed(good, field.place, 4095) }).isOpened, true);
  const forgeries = [
    changed(good, field.place, 4096),
    changed(good, field.place, 0xff_00_00_11),
    changed(good, field.process, peerProcess + 1),
    ...[1, 3, 5, 6, 15].map((index) => changed(good, index, 1)),
    new Uint8Array(64).fill(0xa5),
  ];
  for (const handle of forgeries) assertEquals(waitFor(own, { handle }), { sent: asked, isOpened: false });
});

test("no event is opened if the driver's handles have another layout", () => {
  const handle = eventHandle(peerProcess, 17);
  const others = [
    (place: number) => eventHandle(process.pid + 1, place),
    () => eventHandle(process.pid, 5),
    (place: number) => eventHandle(process.pid, place + 4096),
    (place: number) => changed(eventHandle(process.pid, place), 9, 1),
  ];
  for (const layout of others) assertEquals(waitFor(credulous(layout), { handle }), { sent: asked, isOpened: false });
  const refusing: Partial<Driver> = {
    checksHandles: false,
    ipcGetEventHandle() {
      throw new CudaError(801, "cudaIpcGetEventHandle");
    },
  };
  assertEquals(waitFor(refusing, { handle }), { sent: asked, isOpened: false });
});

testOnEachDriver("a forged handle of an event or of memory is refused, and costs this process nothing", async (
  cuda,
  { name },
) => {
  const gpu = cuda.device(0);
  using event = gpu.createEvent({ interprocess: true, timing: false });
  using memory = gpu.allocate(2 ** 20);
  const ofEvent = event.exportHandle();
  const ofMemory = memory.exportHandle();
  const codeOf = (action: () => Disposable): string => assertThrows(action, CudaError).code;
  assertEquals(codeOf(() => gpu.openEvent(new Uint8Array(64).fill(0xa5))), "cudaErrorMapBufferObjectFailed");
  assertEquals(codeOf(() => gpu.openMemory(new Uint8Array(64).fill(0xa5), 1)), "cudaErrorInvalidValue");
  const before = refusalStatistics();
  if (name !== "software") {
    // Each of these would end this process, or cost it its context.
    for (const place of [4096, 2 ** 31, 2 ** 32 - 1]) {
      assertEquals(codeOf(() => gpu.openEvent(changed(ofEvent, field.place, place))), "cudaErrorMapBufferObjectFailed");
    }
    for (const [index, value] of [[7, 2 ** 31], [7, 2 ** 22], [6, 0], [5, 1]] as const) {
      assertEquals(codeOf(() => gpu.openMemory(changed(ofMemory, index, value), 1)), "cudaErrorInvalidValue");
    }
    const { imports, events } = refusalStatistics();
    assertEquals(events.forged, before.events.forged! + 3);
    assertEquals(imports.cudaErrorInvalidValue, before.imports.cudaErrorInvalidValue! + 4);
  }
  memory.fill(1);
  await gpu.finished();
});

test("every driver says whether it checks handles", () => {
  const open = driversUnderTest.filter(({ skip }) => skip === false).map((driver) => driver.open());
  assertEquals(open.map(({ kind, checksHandles }) => checksHandles === (kind === "software")), open.map(() => true));
  for (const driver of open) driver.close();
});
