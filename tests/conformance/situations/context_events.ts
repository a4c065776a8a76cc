/**
 * Rows about events that are recorded for all streams of a device.
 *
 * @module
 */
import { defaultStream, type Driver, eventFlags, streamFlags } from "../../../src/driver.ts";
import { readBytes } from "../launch.ts";
import { prepareLongWork } from "../long_work.ts";
import type { Answer, Situation } from "../situation.ts";

/** Creates streams of each kind and an event of device 0, and work for the streams. */
function setUp(driver: Driver) {
  const { keepBusy } = prepareLongWork(driver, 0);
  const create = (flags: number) => driver.streamCreateWithPriority(0, flags, 0);
  return {
    keepBusy,
    first: create(streamFlags.default),
    second: create(streamFlags.default),
    nonBlocking: create(streamFlags.nonBlocking),
    event: driver.eventCreateWithFlags(0, eventFlags.disableTiming),
  };
}

/** Records an event for the device behind work of a stream. Returns whether it is complete before and after a wait. */
function recordBehind(driver: Driver, stream: "first" | "nonBlocking" | "default", { destroyed = false } = {}): Answer {
  const { keepBusy, event, ...streams } = setUp(driver);
  const handle = stream === "default" ? defaultStream : streams[stream];
  const address = driver.malloc(0, 4);
  driver.memsetAsync(0, address, 1, 4, defaultStream);
  driver.deviceSynchronize(0);
  keepBusy(handle);
  driver.memsetAsync(0, address, 2, 4, handle);
  if (destroyed) driver.streamDestroy(0, handle);
  driver.ctxRecordEvent(0, event);
  const before = driver.eventQuery(event);
  driver.eventSynchronize(event);
  return { before, after: driver.eventQuery(event), bytes: readBytes(driver, 0, address, 4) };
}

/** Whether an event on `stream` completes while another stream is busy and an event for the device is pending. */
function overtakes(driver: Driver, stream: "second" | "nonBlocking" | "default"): Answer {
  const { keepBusy, first, event, ...streams } = setUp(driver);
  const later = driver.eventCreateWithFlags(0, eventFlags.disableTiming);
  keepBusy(stream === "default" ? streams.nonBlocking : first);
  driver.ctxRecordEvent(0, event);
  driver.eventRecord(0, later, stream === "default" ? defaultStream : streams[stream]);
  driver.eventSynchronize(later);
  return !driver.eventQuery(event);
}

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "an event recorded for a device behind a blocking stream",
    run: ({ driver }) => recordBehind(driver, "first"),
  },
  {
    name: "an event recorded for a device behind a nonblocking stream",
    run: ({ driver }) => recordBehind(driver, "nonBlocking"),
  },
  {
    name: "an event recorded for a device behind the default stream",
    run: ({ driver }) => recordBehind(driver, "default"),
  },
  {
    name: "an event recorded for a device behind a blocking stream that was destroyed while busy",
    run: ({ driver }) => recordBehind(driver, "first", { destroyed: true }),
  },
  {
    name: "an event recorded for a device behind a nonblocking stream that was destroyed while busy",
    run: ({ driver }) => recordBehind(driver, "nonBlocking", { destroyed: true }),
  },
  {
    name: "an event recorded for a device behind streams of every kind: which are done when it is",
    run({ driver }) {
      const { keepBusy, first, second, nonBlocking, event } = setUp(driver);
      const streams = [first, second, nonBlocking];
      for (const stream of streams) keepBusy(stream, 16);
      driver.ctxRecordEvent(0, event);
      driver.eventSynchronize(event);
      return streams.map((stream) => driver.streamQuery(0, stream));
    },
  },
  {
    name: "an event recorded for a device without work",
    run({ driver }) {
      const { event } = setUp(driver);
      driver.ctxRecordEvent(0, event);
      driver.eventSynchronize(event);
      return driver.eventQuery(event);
    },
  },
  {
    name: "an event recorded for a device before its streams have work: whether it comes first",
    run({ driver }) {
      const { keepBusy, first, nonBlocking, event } = setUp(driver);
      driver.ctxRecordEvent(0, event);
      for (const stream of [first, nonBlocking]) keepBusy(stream);
      driver.eventSynchronize(event);
      return !driver.streamQuery(0, first) && !driver.streamQuery(0, nonBlocking);
    },
  },
  {
    name: "an event on a blocking stream after one for the device behind another: whether it comes first",
    run: ({ driver }) => overtakes(driver, "second"),
  },
  {
    name: "an event on a nonblocking stream after one for the device behind a blocking one: whether it comes first",
    run: ({ driver }) => overtakes(driver, "nonBlocking"),
  },
  {
    name: "an event on the default stream after one for the device behind a nonblocking one: whether it comes first",
    run: ({ driver }) => overtakes(driver, "default"),
  },
  {
    name: "a stream waits for an event recorded for a device: whether it is idle before and after",
    run({ driver }) {
      const { keepBusy, first, nonBlocking, event } = setUp(driver);
      keepBusy(first);
      driver.ctxRecordEvent(0, event);
      driver.streamWaitEvent(0, nonBlocking, event);
      const before = driver.streamQuery(0, nonBlocking);
      driver.streamSynchronize(0, nonBlocking);
      return { before, after: driver.streamQuery(0, nonBlocking), first: driver.streamQuery(0, first) };
    },
  },
  {
    name: "an event recorded for a device while the other device is busy: whether it comes first",
    devices: 2,
    run({ driver }) {
      const { event } = setUp(driver);
      prepareLongWork(driver, 1).keepBusy(defaultStream);
      driver.ctxRecordEvent(0, event);
      driver.eventSynchronize(event);
      return !driver.streamQuery(1, defaultStream);
    },
  },
  {
    name: "an event recorded for another device than its own",
    devices: 2,
    run({ driver }) {
      const { event } = setUp(driver);
      driver.ctxRecordEvent(1, event);
    },
  },
  {
    name: "streams that are not captured asked whether they are",
    run({ driver }) {
      const { first, nonBlocking } = setUp(driver);
      return [first, nonBlocking, defaultStream].map((stream) => driver.streamIsCapturing(0, stream));
    },
  },
];
