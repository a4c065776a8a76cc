import { defaultStream, type Driver, eventFlags, streamFlags } from "../../../src/driver.ts";
import { attemptEach, attemptEachAsync } from "../attempts.ts";
import { prepareLongWork } from "../long_work.ts";
import { type RemoteDriver, startRemoteDriver } from "../remote_driver.ts";
import type { Fixture, Situation } from "../situation.ts";

const interprocess = eventFlags.disableTiming | eventFlags.interprocess;
const handleByteLength = 64;
/** Enough to keep a stream busy while two processes exchange messages. */
const manyLaunches = 512;
/** The number of launches that a stream queues before a further launch blocks the host. */
const maxLaunches = 1000;

function delay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Creates an interprocess event in this process, which a peer opens; and a stream with work in this process. */
async function shareEvent(fixture: Fixture) {
  const { driver } = fixture;
  const peer = await startRemoteDriver(fixture);
  const { keepBusy } = prepareLongWork(driver, 0, { observed: "elsewhere" });
  const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
  const event = driver.eventCreateWithFlags(0, interprocess);
  const opened = await peer.call("ipcOpenEventHandle", 0, driver.ipcGetEventHandle(event));
  const peerStream = await peer.call("streamCreateWithPriority", 0, streamFlags.nonBlocking, 0);
  return { peer, stream, event, opened, peerStream, keepBusy: () => keepBusy(stream, manyLaunches) };
}

/** Creates an interprocess event in a peer, which this process opens; and a stream with work in the peer. */
async function openPeerEvent(fixture: Fixture) {
  const { driver } = fixture;
  const peer = await startRemoteDriver(fixture);
  await peer.call("prepareLongWork", 0);
  const peerStream = await peer.call("streamCreateWithPriority", 0, streamFlags.nonBlocking, 0);
  const peerEvent = await peer.call("eventCreateWithFlags", 0, interprocess);
  const event = driver.ipcOpenEventHandle(0, await peer.call("ipcGetEventHandle", peerEvent));
  const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
  return { peer, peerStream, peerEvent, event, stream };
}

/** Returns the handle of an event whose process was killed. */
async function handleOfKilledPeer(fixture: Fixture): Promise<Uint8Array> {
  const peer: RemoteDriver = await startRemoteDriver(fixture);
  const handle = await peer.call("ipcGetEventHandle", await peer.call("eventCreateWithFlags", 0, interprocess));
  await peer.kill();
  return handle;
}

function openBytes(driver: Driver, byte: (index: number) => number): bigint {
  driver.deviceSynchronize(0);
  return driver.ipcOpenEventHandle(0, Uint8Array.from({ length: handleByteLength }, (_, index) => byte(index)));
}

/** Rows about events that two processes share. */
export const situations: readonly Situation[] = [
  {
    name: "the handle of an event that is not interprocess",
    run: ({ driver }) =>
      attemptEach({
        timing: () => driver.ipcGetEventHandle(driver.eventCreateWithFlags(0, eventFlags.default)),
        disableTiming: () => driver.ipcGetEventHandle(driver.eventCreateWithFlags(0, eventFlags.disableTiming)),
      }),
  },
  {
    name: "the handle of an interprocess event: its length, and whether it has zeros alone",
    run({ driver }) {
      const handle = driver.ipcGetEventHandle(driver.eventCreateWithFlags(0, interprocess));
      return { byteLength: handle.length, isZero: handle.every((byte) => byte === 0) };
    },
  },
  {
    name: "the handles of two interprocess events, and of one asked for twice: whether they are the same",
    run({ driver }) {
      const events = [driver.eventCreateWithFlags(0, interprocess), driver.eventCreateWithFlags(0, interprocess)];
      const [first, second, again] = [events[0]!, events[1]!, events[0]!].map((event) =>
        String(driver.ipcGetEventHandle(event))
      );
      return { two: first === second, twice: first === again };
    },
  },
  {
    name: "the handle of the null event",
    run({ driver }) {
      driver.deviceSynchronize(0);
      driver.ipcGetEventHandle(0n);
    },
  },
  {
    name: "an event opened in the process that made it",
    run: ({ driver }) =>
      void driver.ipcOpenEventHandle(0, driver.ipcGetEventHandle(driver.eventCreateWithFlags(0, interprocess))),
  },
  {
    name: "an event opened by 64 bytes of zero",
    run: ({ driver }) => void openBytes(driver, () => 0),
  },
  {
    name: "an event opened by 64 bytes of nothing in particular",
    run: ({ driver }) => void openBytes(driver, (index) => (index * 73 + 41) % 256),
  },
  {
    name: "an event opened by a handle of memory",
    run: ({ driver }) => void driver.ipcOpenEventHandle(0, driver.ipcGetMemHandle(0, driver.malloc(0, 4096))),
  },
  {
    name: "an event of a process that is gone opened",
    async run(fixture) {
      const handle = await handleOfKilledPeer(fixture);
      fixture.driver.ipcOpenEventHandle(0, handle);
    },
  },
  {
    name: "an event of another process that was never recorded is queried, synchronized and waited for there",
    async run(fixture) {
      const { peer, opened, peerStream } = await shareEvent(fixture);
      return attemptEachAsync({
        query: () => peer.call("eventQuery", opened),
        synchronize: () => peer.call("eventSynchronize", opened),
        wait: () => peer.call("streamWaitEvent", 0, peerStream, opened),
        stream: () => peer.call("streamSynchronize", 0, peerStream),
      });
    },
  },
  {
    name: "an event of another process queried there while it has not come to pass, and when it has",
    async run(fixture) {
      const { peer, event, stream, opened, keepBusy } = await shareEvent(fixture);
      keepBusy();
      fixture.driver.eventRecord(0, event, stream);
      const before = await peer.call("eventQuery", opened);
      fixture.driver.eventSynchronize(event);
      return [before, await peer.call("eventQuery", opened)];
    },
  },
  {
    name: "an event recorded before another process opened it, queried there",
    async run(fixture) {
      const { driver } = fixture;
      const peer = await startRemoteDriver(fixture);
      const event = driver.eventCreateWithFlags(0, interprocess);
      driver.eventRecord(0, event, defaultStream);
      driver.eventSynchronize(event);
      return await peer.call("eventQuery", await peer.call("ipcOpenEventHandle", 0, driver.ipcGetEventHandle(event)));
    },
  },
  {
    name: "an event recorded behind work before another process opened it, queried there",
    async run(fixture) {
      const { driver } = fixture;
      const peer = await startRemoteDriver(fixture);
      const { keepBusy } = prepareLongWork(driver, 0, { observed: "elsewhere" });
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const event = driver.eventCreateWithFlags(0, interprocess);
      // The peer's first call creates its context, which takes long.
      await peer.call("deviceSynchronize", 0);
      keepBusy(stream, manyLaunches);
      driver.eventRecord(0, event, stream);
      const opened = await peer.call("ipcOpenEventHandle", 0, driver.ipcGetEventHandle(event));
      const before = await peer.call("eventQuery", opened);
      driver.eventSynchronize(event);
      return [before, await peer.call("eventQuery", opened)];
    },
  },
  {
    name: "another process's stream waits for an event: whether it is idle before and after",
    async run(fixture) {
      const { peer, event, stream, opened, peerStream, keepBusy } = await shareEvent(fixture);
      keepBusy();
      fixture.driver.eventRecord(0, event, stream);
      await peer.call("streamWaitEvent", 0, peerStream, opened);
      const before = await peer.call("streamQuery", 0, peerStream);
      fixture.driver.eventSynchronize(event);
      await peer.call("streamSynchronize", 0, peerStream);
      return [before, await peer.call("streamQuery", 0, peerStream)];
    },
  },
  {
    name: "another process's stream waits for an event that is recorded only after: whether it is idle",
    async run(fixture) {
      const { peer, event, stream, opened, peerStream, keepBusy } = await shareEvent(fixture);
      await peer.call("streamWaitEvent", 0, peerStream, opened);
      keepBusy();
      fixture.driver.eventRecord(0, event, stream);
      await peer.call("streamSynchronize", 0, peerStream);
      return { waiting: await peer.call("streamQuery", 0, peerStream), event: fixture.driver.eventQuery(event) };
    },
  },
  {
    name: "another process synchronizes with an event: it has come to pass in both then",
    async run(fixture) {
      const { peer, event, stream, opened, keepBusy } = await shareEvent(fixture);
      keepBusy();
      fixture.driver.eventRecord(0, event, stream);
      // The peer answers when this process's work is done. Awaiting the answer leaves the event loop free for that
      // work.
      await peer.call("eventSynchronize", opened);
      return [fixture.driver.eventQuery(event), await peer.call("eventQuery", opened)];
    },
  },
  {
    name: "an event recorded by the process that opened it: what the one that made it sees",
    async run(fixture) {
      const { driver } = fixture;
      const { peer, event, stream, opened, peerStream } = await shareEvent(fixture);
      await peer.call("prepareLongWork", 0);
      await peer.call("keepBusy", peerStream, manyLaunches);
      await peer.call("eventRecord", 0, opened, peerStream);
      const before = driver.eventQuery(event);
      driver.streamWaitEvent(0, stream, event);
      const waiting = driver.streamQuery(0, stream);
      await peer.call("streamSynchronize", 0, peerStream);
      driver.streamSynchronize(0, stream);
      return { before, waiting, after: driver.eventQuery(event) };
    },
  },
  {
    name: "an event recorded in one process and then in the other: the later record is what both see",
    async run(fixture) {
      const { driver } = fixture;
      const { peer, event, stream, opened, peerStream } = await shareEvent(fixture);
      await peer.call("prepareLongWork", 0);
      driver.eventRecord(0, event, stream);
      driver.eventSynchronize(event);
      await peer.call("keepBusy", peerStream, manyLaunches);
      await peer.call("eventRecord", 0, opened, peerStream);
      const during = [driver.eventQuery(event), await peer.call("eventQuery", opened)];
      await peer.call("eventSynchronize", opened);
      return [during, [driver.eventQuery(event), await peer.call("eventQuery", opened)]];
    },
  },
  {
    name: "the time between events of which one is another process's",
    async run(fixture) {
      const { driver } = fixture;
      const { event, peer, peerEvent, peerStream } = await openPeerEvent(fixture);
      const timed = driver.eventCreateWithFlags(0, eventFlags.default);
      driver.eventRecord(0, timed, defaultStream);
      await peer.call("eventRecord", 0, peerEvent, peerStream);
      await peer.call("eventSynchronize", peerEvent);
      driver.deviceSynchronize(0);
      driver.eventElapsedTime(timed, event);
    },
  },
  {
    name: "the handle of an event that is another process's",
    async run(fixture) {
      const { event } = await openPeerEvent(fixture);
      fixture.driver.ipcGetEventHandle(event);
    },
  },
  {
    name: "an event opened twice by a process: whether it has one handle there, and both work",
    async run(fixture) {
      const { driver } = fixture;
      const { event, peer, peerEvent, peerStream } = await openPeerEvent(fixture);
      const again = driver.ipcOpenEventHandle(0, await peer.call("ipcGetEventHandle", peerEvent));
      await peer.call("keepBusy", peerStream, manyLaunches);
      await peer.call("eventRecord", 0, peerEvent, peerStream);
      const during = [driver.eventQuery(event), driver.eventQuery(again)];
      await peer.call("eventSynchronize", peerEvent);
      const after = [driver.eventQuery(event), driver.eventQuery(again)];
      return { isOne: event === again, during, after };
    },
  },
  {
    name: "an event opened twice by a process and destroyed once: the other still works",
    async run(fixture) {
      const { driver } = fixture;
      const { event, peer, peerEvent, peerStream } = await openPeerEvent(fixture);
      const again = driver.ipcOpenEventHandle(0, await peer.call("ipcGetEventHandle", peerEvent));
      if (again === event) return "one handle";
      driver.eventDestroy(0, event);
      await peer.call("eventRecord", 0, peerEvent, peerStream);
      await peer.call("eventSynchronize", peerEvent);
      return driver.eventQuery(again);
    },
  },
  {
    name: "an event destroyed by the process that opened it: the one that made it goes on",
    async run(fixture) {
      const { driver } = fixture;
      const { peer, event, stream, opened } = await shareEvent(fixture);
      await peer.call("eventDestroy", 0, opened);
      driver.eventRecord(0, event, stream);
      driver.eventSynchronize(event);
      return driver.eventQuery(event);
    },
  },
  {
    name: "an event destroyed by the process that made it, and then by the one that opened it",
    async run(fixture) {
      const { peer, event, opened } = await shareEvent(fixture);
      return attemptEachAsync({
        maker: () => fixture.driver.eventDestroy(0, event),
        opener: () => peer.call("eventDestroy", 0, opened),
      });
    },
  },
  {
    name: "a wait for an event whose recorder is killed before it came to pass: the stream is busy 3 s later",
    async run(fixture) {
      const { driver } = fixture;
      const { peer, peerEvent, peerStream, event, stream } = await openPeerEvent(fixture);
      await peer.call("keepBusy", peerStream, maxLaunches);
      await peer.call("eventRecord", 0, peerEvent, peerStream);
      driver.streamWaitEvent(0, stream, event);
      const before = driver.streamQuery(0, stream);
      await peer.kill();
      await delay(3000);
      return { before, stream: driver.streamQuery(0, stream), event: driver.eventQuery(event) };
    },
  },
  {
    name: "an event that came to pass before its recorder was killed: a query and a wait",
    async run(fixture) {
      const { driver } = fixture;
      const { peer, peerEvent, peerStream, event, stream } = await openPeerEvent(fixture);
      await peer.call("eventRecord", 0, peerEvent, peerStream);
      await peer.call("eventSynchronize", peerEvent);
      await peer.kill();
      return attemptEach({
        query: () => driver.eventQuery(event),
        wait: () => driver.streamWaitEvent(0, stream, event),
        synchronize: () => driver.streamSynchronize(0, stream),
        record: () => driver.eventRecord(0, event, stream),
        "synchronize again": () => driver.streamSynchronize(0, stream),
        destroy: () => driver.eventDestroy(0, event),
      });
    },
  },
  {
    name: "an event of one device opened in another process on another device",
    devices: 2,
    async run(fixture) {
      const { driver } = fixture;
      const peer = await startRemoteDriver(fixture);
      const event = driver.eventCreateWithFlags(0, interprocess);
      const handle = driver.ipcGetEventHandle(event);
      const opened = await peer.call("ipcOpenEventHandle", 1, handle);
      const stream = await peer.call("streamCreateWithPriority", 1, streamFlags.nonBlocking, 0);
      driver.eventRecord(0, event, defaultStream);
      driver.eventSynchronize(event);
      return attemptEachAsync({
        query: () => peer.call("eventQuery", opened),
        wait: () => peer.call("streamWaitEvent", 1, stream, opened),
        synchronize: () => peer.call("streamSynchronize", 1, stream),
        record: () => peer.call("eventRecord", 1, opened, stream),
      });
    },
  },
];
