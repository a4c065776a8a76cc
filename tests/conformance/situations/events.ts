import { defaultStream, type Driver, eventFlags, streamFlags } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import { prepareLongWork } from "../long_work.ts";
import type { Situation } from "../situation.ts";

const timing = eventFlags.default;
const { disableTiming } = eventFlags;
const noDevice = 99;

/** Creates two nonblocking streams of device 0 and work for them. */
function setUp(driver: Driver) {
  return {
    keepBusy: prepareLongWork(driver, 0).keepBusy,
    stream: driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0),
    other: driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0),
  };
}

function createEvents(driver: Driver, ...flags: number[]): [bigint, bigint] {
  return flags.map((flag) => driver.eventCreateWithFlags(0, flag)) as [bigint, bigint];
}

/** Rows about events. */
export const situations: readonly Situation[] = [
  {
    name: "events created with flags that go together",
    run({ driver }) {
      const create = (flags: number) => () => driver.eventCreateWithFlags(0, flags);
      return attemptEach({ 0: create(0), 1: create(1), 2: create(2), 3: create(3), 6: create(6), 7: create(7) });
    },
  },
  {
    name: "an interprocess event created with timing",
    run({ driver }) {
      const create = (flags: number) => () => driver.eventCreateWithFlags(0, flags);
      return attemptEach({ 4: create(4), 5: create(5) });
    },
  },
  {
    name: "events created with flags that CUDA does not know",
    run({ driver }) {
      const create = (flags: number) => () => driver.eventCreateWithFlags(0, flags);
      return attemptEach({ 8: create(8), 16: create(16), 32: create(32), 255: create(255), 256: create(256) });
    },
  },
  {
    name: "an event created on a device that there is not",
    run: ({ driver }) => void driver.eventCreateWithFlags(noDevice, 0),
  },
  {
    name: "an event that was never recorded is queried, synchronized and destroyed",
    run({ driver }) {
      const event = driver.eventCreateWithFlags(0, timing);
      return attemptEach({
        query: () => driver.eventQuery(event),
        synchronize: () => driver.eventSynchronize(event),
        destroy: () => driver.eventDestroy(0, event),
      });
    },
  },
  {
    name: "an event queried before and after the work that it was recorded behind",
    run({ driver }) {
      const { stream, keepBusy } = setUp(driver);
      const event = driver.eventCreateWithFlags(0, timing);
      keepBusy(stream);
      driver.eventRecord(0, event, stream);
      const before = driver.eventQuery(event);
      driver.eventSynchronize(event);
      return [before, driver.eventQuery(event), driver.streamQuery(0, stream)];
    },
  },
  {
    name: "an event queried while its stream has more work, given after the record",
    run({ driver }) {
      const { stream, keepBusy } = setUp(driver);
      const event = driver.eventCreateWithFlags(0, timing);
      driver.eventRecord(0, event, stream);
      keepBusy(stream);
      driver.eventSynchronize(event);
      return [driver.eventQuery(event), driver.streamQuery(0, stream)];
    },
  },
  {
    name: "an event that blocks the thread is synchronized",
    run({ driver }) {
      const { stream, keepBusy } = setUp(driver);
      const event = driver.eventCreateWithFlags(0, eventFlags.blockingSync);
      keepBusy(stream);
      driver.eventRecord(0, event, stream);
      const before = driver.eventQuery(event);
      driver.eventSynchronize(event);
      return [before, driver.eventQuery(event)];
    },
  },
  {
    name: "the time between events of which neither, or one, was ever recorded",
    run({ driver }) {
      const [recorded, other] = createEvents(driver, timing, timing);
      const another = driver.eventCreateWithFlags(0, timing);
      driver.eventRecord(0, recorded, defaultStream);
      driver.deviceSynchronize(0);
      return attemptEach({
        neither: () => driver.eventElapsedTime(other, another),
        start: () => driver.eventElapsedTime(recorded, other),
        end: () => driver.eventElapsedTime(other, recorded),
        "one with itself": () => driver.eventElapsedTime(other, other),
      });
    },
  },
  {
    name: "the time between events of which one has no timing",
    run({ driver }) {
      const [timed, untimed] = createEvents(driver, timing, disableTiming);
      const interprocess = driver.eventCreateWithFlags(0, disableTiming | eventFlags.interprocess);
      for (const event of [timed, untimed, interprocess]) driver.eventRecord(0, event, defaultStream);
      driver.deviceSynchronize(0);
      return attemptEach({
        start: () => driver.eventElapsedTime(untimed, timed),
        end: () => driver.eventElapsedTime(timed, untimed),
        interprocess: () => driver.eventElapsedTime(timed, interprocess),
        "one with itself": () => driver.eventElapsedTime(untimed, untimed),
      });
    },
  },
  {
    name: "the time between events of which one has no timing and the other was never recorded",
    run({ driver }) {
      const [timed, untimed] = createEvents(driver, timing, disableTiming);
      driver.eventRecord(0, untimed, defaultStream);
      driver.deviceSynchronize(0);
      return driver.eventElapsedTime(timed, untimed);
    },
  },
  {
    name: "the time between events of which the later has not come to pass",
    run({ driver }) {
      const { stream, keepBusy } = setUp(driver);
      const [start, end] = createEvents(driver, timing, timing);
      driver.eventRecord(0, start, stream);
      keepBusy(stream);
      driver.eventRecord(0, end, stream);
      return driver.eventElapsedTime(start, end);
    },
  },
  {
    name: "the time between events of which neither has come to pass",
    run({ driver }) {
      const { stream, keepBusy } = setUp(driver);
      const [start, end] = createEvents(driver, timing, timing);
      keepBusy(stream);
      driver.eventRecord(0, start, stream);
      driver.eventRecord(0, end, stream);
      return driver.eventElapsedTime(start, end);
    },
  },
  {
    name: "the time between an event and itself",
    run({ driver }) {
      const event = driver.eventCreateWithFlags(0, timing);
      driver.eventRecord(0, event, defaultStream);
      driver.eventSynchronize(event);
      return driver.eventElapsedTime(event, event);
    },
  },
  {
    name: "the time between two events with work between them, forwards and backwards",
    run({ driver }) {
      const { stream, keepBusy } = setUp(driver);
      const [start, end] = createEvents(driver, timing, timing);
      driver.eventRecord(0, start, stream);
      keepBusy(stream, 16);
      driver.eventRecord(0, end, stream);
      driver.eventSynchronize(end);
      const forwards = driver.eventElapsedTime(start, end);
      return { isPositive: forwards > 0, isNegative: driver.eventElapsedTime(end, start) < 0 };
    },
  },
  {
    name: "the time between events of two devices",
    devices: 2,
    run({ driver }) {
      const events = [0, 1].map((device) => {
        const event = driver.eventCreateWithFlags(device, timing);
        driver.eventRecord(device, event, defaultStream);
        driver.eventSynchronize(event);
        return event;
      });
      driver.eventElapsedTime(events[0]!, events[1]!);
    },
  },
  {
    name: "an event recorded on a stream of another device",
    devices: 2,
    run({ driver }) {
      const event = driver.eventCreateWithFlags(0, timing);
      const stream = driver.streamCreateWithPriority(1, streamFlags.nonBlocking, 0);
      return attemptEach({
        "its own current": () => driver.eventRecord(0, event, stream),
        "the stream's current": () => driver.eventRecord(1, event, stream),
        "the default stream": () => driver.eventRecord(1, event, defaultStream),
      });
    },
  },
  {
    name: "an event recorded, queried, synchronized and destroyed while the other device is current",
    devices: 2,
    run({ driver }) {
      const event = driver.eventCreateWithFlags(0, timing);
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      driver.deviceSynchronize(1);
      return attemptEach({
        record: () => driver.eventRecord(1, event, stream),
        synchronize: () => driver.eventSynchronize(event),
        query: () => driver.eventQuery(event),
        destroy: () => driver.eventDestroy(1, event),
      });
    },
  },
  {
    name: "an event recorded twice, first on an idle stream and then behind work",
    run({ driver }) {
      const { stream, other, keepBusy } = setUp(driver);
      const event = driver.eventCreateWithFlags(0, timing);
      driver.eventRecord(0, event, other);
      driver.eventSynchronize(event);
      const first = driver.eventQuery(event);
      keepBusy(stream);
      driver.eventRecord(0, event, stream);
      return [first, driver.eventQuery(event)];
    },
  },
  {
    name: "an event recorded twice, first behind work and then on an idle stream",
    run({ driver }) {
      const { stream, other, keepBusy } = setUp(driver);
      const event = driver.eventCreateWithFlags(0, timing);
      keepBusy(stream);
      driver.eventRecord(0, event, stream);
      const first = driver.eventQuery(event);
      driver.eventRecord(0, event, other);
      driver.eventSynchronize(event);
      return { first, second: driver.eventQuery(event), stream: driver.streamQuery(0, stream) };
    },
  },
  {
    name: "an event destroyed while a stream waits for it: whether the stream still waits, and goes on after",
    run({ driver }) {
      const { stream, other, keepBusy } = setUp(driver);
      const event = driver.eventCreateWithFlags(0, disableTiming);
      keepBusy(stream);
      driver.eventRecord(0, event, stream);
      driver.streamWaitEvent(0, other, event);
      driver.eventDestroy(0, event);
      const before = driver.streamQuery(0, other);
      driver.streamSynchronize(0, other);
      return { before, after: driver.streamQuery(0, other), stream: driver.streamQuery(0, stream) };
    },
  },
  {
    name: "an event destroyed before it came to pass: its stream goes on",
    run({ driver }) {
      const { stream, keepBusy } = setUp(driver);
      const event = driver.eventCreateWithFlags(0, disableTiming);
      keepBusy(stream);
      driver.eventRecord(0, event, stream);
      driver.eventDestroy(0, event);
      const before = driver.streamQuery(0, stream);
      driver.streamSynchronize(0, stream);
      return [before, driver.streamQuery(0, stream)];
    },
  },
  {
    name: "an event recorded on a stream that is destroyed then",
    run({ driver }) {
      const { stream, keepBusy } = setUp(driver);
      const event = driver.eventCreateWithFlags(0, disableTiming);
      keepBusy(stream);
      driver.eventRecord(0, event, stream);
      driver.streamDestroy(0, stream);
      const before = driver.eventQuery(event);
      driver.eventSynchronize(event);
      return [before, driver.eventQuery(event)];
    },
  },
  {
    name: "the null event queried",
    run: ({ driver }) => driver.eventQuery(0n),
  },
  {
    name: "the null event synchronized",
    run: ({ driver }) => driver.eventSynchronize(0n),
  },
  {
    name: "the null event recorded",
    run: ({ driver }) => driver.eventRecord(0, 0n, defaultStream),
  },
  {
    name: "the null event destroyed",
    run: ({ driver }) => driver.eventDestroy(0, 0n),
  },
  {
    name: "the time from the null event",
    run: ({ driver }) => driver.eventElapsedTime(0n, driver.eventCreateWithFlags(0, timing)),
  },
];
