import { defaultStream, type Driver, eventFlags, streamFlags } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import { readBytes } from "../launch.ts";
import { prepareLongWork } from "../long_work.ts";
import type { Answer, Situation } from "../situation.ts";

const noDevice = 99;

/** Creates two blocking streams and a nonblocking stream of device 0, and work for them and the default stream. */
function setUp(driver: Driver) {
  const work = prepareLongWork(driver, 0);
  return {
    keepBusy: work.keepBusy,
    first: driver.streamCreateWithPriority(0, streamFlags.default, 0),
    second: driver.streamCreateWithPriority(0, streamFlags.default, 0),
    nonBlocking: driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0),
  };
}

/** Whether an event recorded on a stream now completes while another stream is still busy. */
function overtakes(driver: Driver, stream: bigint, busy: bigint): boolean {
  const event = driver.eventCreateWithFlags(0, eventFlags.disableTiming);
  driver.eventRecord(0, event, stream);
  // If the event is ordered after the work of the busy stream, this waits for that work.
  driver.eventSynchronize(event);
  return !driver.streamQuery(0, busy);
}

/** Rows about streams. */
export const situations: readonly Situation[] = [
  {
    name: "streams created with flags that CUDA knows and does not know",
    run({ driver }) {
      const create = (flags: number) => () => driver.streamCreateWithPriority(0, flags, 0);
      return attemptEach({ 0: create(0), 1: create(1), 2: create(2), 3: create(3), 4: create(4), 256: create(256) });
    },
  },
  {
    name: "the range of streams' priorities: the least, and whether the greatest is the lower number",
    run({ driver }) {
      const { least, greatest } = driver.deviceGetStreamPriorityRange(0);
      return { least, isLower: greatest < least };
    },
  },
  {
    name: "streams created with priorities that there are and are not",
    run({ driver }) {
      const create = (priority: number) => () => driver.streamCreateWithPriority(0, 0, priority);
      return attemptEach({
        "0": create(0),
        "-1": create(-1),
        "-1000": create(-1000),
        "1000": create(1000),
        "2147483647": create(2 ** 31 - 1),
      });
    },
  },
  {
    name: "the priorities of streams created with priorities that there are and are not",
    run({ driver }) {
      const { least, greatest } = driver.deviceGetStreamPriorityRange(0);
      const given = (priority: number) =>
        driver.streamGetPriority(0, driver.streamCreateWithPriority(0, streamFlags.default, priority));
      return {
        "0": given(0),
        "-1": given(-1),
        greatest: given(greatest) === greatest,
        least: given(least) === least,
        "below the greatest": given(greatest - 1) === greatest,
        "above the least": given(least + 1) === least,
      };
    },
  },
  {
    name: "the priority of the default stream",
    run: ({ driver }) => driver.streamGetPriority(0, defaultStream),
  },
  {
    name: "a stream created on a device that there is not",
    run: ({ driver }) => void driver.streamCreateWithPriority(noDevice, 0, 0),
  },
  {
    name: "two streams have handles that differ from each other and from the default stream's",
    run({ driver }) {
      const handles = [driver.streamCreateWithPriority(0, 0, 0), driver.streamCreateWithPriority(0, 0, 0)];
      return new Set([...handles, defaultStream]).size;
    },
  },
  {
    name: "the default stream destroyed",
    run: ({ driver }) => driver.streamDestroy(0, defaultStream),
  },
  {
    name: "the default stream queried and synchronized while idle",
    run: ({ driver }) =>
      attemptEach({
        query: () => driver.streamQuery(0, defaultStream),
        synchronize: () => driver.streamSynchronize(0, defaultStream),
      }),
  },
  {
    name: "a new stream queried and synchronized",
    run({ driver }) {
      const stream = driver.streamCreateWithPriority(0, 0, 0);
      return attemptEach({
        query: () => driver.streamQuery(0, stream),
        synchronize: () => driver.streamSynchronize(0, stream),
        destroy: () => driver.streamDestroy(0, stream),
      });
    },
  },
  {
    name: "a busy stream queried, and queried again once synchronized",
    run({ driver }) {
      const { first, keepBusy } = setUp(driver);
      keepBusy(first);
      const before = driver.streamQuery(0, first);
      driver.streamSynchronize(0, first);
      return [before, driver.streamQuery(0, first)];
    },
  },
  {
    name: "the default stream queried while its own work goes on, and once that is synchronized",
    run({ driver }) {
      const { keepBusy } = setUp(driver);
      keepBusy(defaultStream);
      const before = driver.streamQuery(0, defaultStream);
      driver.streamSynchronize(0, defaultStream);
      return [before, driver.streamQuery(0, defaultStream)];
    },
  },
  {
    name: "the default stream queried while a blocking stream is busy",
    run({ driver }) {
      const { first, keepBusy } = setUp(driver);
      keepBusy(first);
      return driver.streamQuery(0, defaultStream);
    },
  },
  {
    name: "the default stream queried while a nonblocking stream is busy",
    run({ driver }) {
      const { nonBlocking, keepBusy } = setUp(driver);
      keepBusy(nonBlocking);
      return driver.streamQuery(0, defaultStream);
    },
  },
  {
    name: "a blocking stream queried while the default stream is busy",
    run({ driver }) {
      const { first, keepBusy } = setUp(driver);
      keepBusy(defaultStream);
      return driver.streamQuery(0, first);
    },
  },
  {
    name: "the default stream synchronized while a blocking stream is busy: whether that is done then",
    run({ driver }) {
      const { first, keepBusy } = setUp(driver);
      keepBusy(first);
      driver.streamSynchronize(0, defaultStream);
      return driver.streamQuery(0, first);
    },
  },
  {
    name: "the default stream synchronized while a nonblocking stream is busy: whether that is done then",
    run({ driver }) {
      const { nonBlocking, keepBusy } = setUp(driver);
      keepBusy(nonBlocking);
      driver.streamSynchronize(0, defaultStream);
      return driver.streamQuery(0, nonBlocking);
    },
  },
  {
    name: "the device synchronized while streams of every kind are busy: which are done then",
    run({ driver }) {
      const { first, nonBlocking, keepBusy } = setUp(driver);
      for (const stream of [first, nonBlocking, defaultStream]) keepBusy(stream, 16);
      driver.deviceSynchronize(0);
      return [first, nonBlocking, defaultStream].map((stream) => driver.streamQuery(0, stream));
    },
  },
  {
    name: "an event on a blocking stream while the default stream is busy: whether it comes first",
    run({ driver }) {
      const { first, keepBusy } = setUp(driver);
      keepBusy(defaultStream);
      return overtakes(driver, first, defaultStream);
    },
  },
  {
    name: "an event on a nonblocking stream while the default stream is busy: whether it comes first",
    run({ driver }) {
      const { nonBlocking, keepBusy } = setUp(driver);
      keepBusy(defaultStream);
      return overtakes(driver, nonBlocking, defaultStream);
    },
  },
  {
    name: "an event on the default stream while a blocking stream is busy: whether it comes first",
    run({ driver }) {
      const { first, keepBusy } = setUp(driver);
      keepBusy(first);
      return overtakes(driver, defaultStream, first);
    },
  },
  {
    name: "an event on the default stream while a nonblocking stream is busy: whether it comes first",
    run({ driver }) {
      const { nonBlocking, keepBusy } = setUp(driver);
      keepBusy(nonBlocking);
      return overtakes(driver, defaultStream, nonBlocking);
    },
  },
  {
    name: "an event on a blocking stream while another blocking stream is busy: whether it comes first",
    run({ driver }) {
      const { first, second, keepBusy } = setUp(driver);
      keepBusy(first);
      return overtakes(driver, second, first);
    },
  },
  {
    name:
      "an event on a blocking stream behind work of the default stream behind another busy stream: whether it comes first",
    run({ driver }) {
      const { first, second, keepBusy } = setUp(driver);
      keepBusy(first);
      keepBusy(defaultStream, 1);
      return overtakes(driver, second, first);
    },
  },
  {
    name: "an event on the default stream of one device while that of another is busy: whether it comes first",
    devices: 2,
    run({ driver }) {
      const { keepBusy } = setUp(driver);
      const event = driver.eventCreateWithFlags(1, eventFlags.disableTiming);
      keepBusy(defaultStream);
      driver.eventRecord(1, event, defaultStream);
      driver.eventSynchronize(event);
      return !driver.streamQuery(0, defaultStream);
    },
  },
  {
    name: "a busy stream destroyed: its work is still done",
    run({ driver }) {
      const { first, keepBusy } = setUp(driver);
      const address = driver.malloc(0, 4);
      driver.memsetAsync(0, address, 1, 4, defaultStream);
      driver.deviceSynchronize(0);
      keepBusy(first);
      driver.memsetAsync(0, address, 2, 4, first);
      driver.streamDestroy(0, first);
      driver.deviceSynchronize(0);
      return readBytes(driver, 0, address, 4);
    },
  },
  {
    name: "a stream waits for an event that was never recorded: whether it is idle",
    run({ driver }) {
      const { nonBlocking } = setUp(driver);
      driver.streamWaitEvent(0, nonBlocking, driver.eventCreateWithFlags(0, eventFlags.disableTiming));
      driver.streamSynchronize(0, nonBlocking);
      return driver.streamQuery(0, nonBlocking);
    },
  },
  {
    name: "a stream waits for an event that comes to pass later: whether it is idle before and after",
    run({ driver }) {
      const { first, nonBlocking, keepBusy } = setUp(driver);
      const event = driver.eventCreateWithFlags(0, eventFlags.disableTiming);
      keepBusy(first);
      driver.eventRecord(0, event, first);
      driver.streamWaitEvent(0, nonBlocking, event);
      const before = driver.streamQuery(0, nonBlocking);
      driver.streamSynchronize(0, nonBlocking);
      return { before, after: driver.streamQuery(0, nonBlocking), first: driver.streamQuery(0, first) };
    },
  },
  {
    name: "a stream waits for an event on itself",
    run({ driver }) {
      const { first } = setUp(driver);
      const event = driver.eventCreateWithFlags(0, eventFlags.disableTiming);
      driver.eventRecord(0, event, first);
      driver.streamWaitEvent(0, first, event);
      driver.streamSynchronize(0, first);
      return driver.streamQuery(0, first);
    },
  },
  {
    name: "an event recorded anew after a stream began to wait for it: the stream waits for the earlier record",
    run({ driver }) {
      const { first, second, nonBlocking, keepBusy } = setUp(driver);
      const event = driver.eventCreateWithFlags(0, eventFlags.disableTiming);
      keepBusy(first);
      driver.eventRecord(0, event, first);
      driver.streamWaitEvent(0, second, event);
      driver.eventRecord(0, event, nonBlocking);
      driver.eventSynchronize(event);
      return { event: driver.eventQuery(event), waiting: driver.streamQuery(0, second) };
    },
  },
  {
    name: "the default stream waits for an event of a nonblocking stream, and a blocking stream with it",
    run({ driver }) {
      const { first, nonBlocking, keepBusy } = setUp(driver);
      const event = driver.eventCreateWithFlags(0, eventFlags.disableTiming);
      keepBusy(nonBlocking);
      driver.eventRecord(0, event, nonBlocking);
      driver.streamWaitEvent(0, defaultStream, event);
      return overtakes(driver, first, nonBlocking);
    },
  },
  {
    name: "a stream of one device waits for an event of another",
    devices: 2,
    run({ driver }): Answer {
      const { first, keepBusy } = setUp(driver);
      const stream = driver.streamCreateWithPriority(1, 0, 0);
      const event = driver.eventCreateWithFlags(0, eventFlags.disableTiming);
      keepBusy(first);
      driver.eventRecord(0, event, first);
      driver.streamWaitEvent(1, stream, event);
      const before = driver.streamQuery(1, stream);
      driver.streamSynchronize(1, stream);
      return { before, after: driver.streamQuery(1, stream), first: driver.streamQuery(0, first) };
    },
  },
  {
    name: "a stream used while the other device is current",
    devices: 2,
    run({ driver }) {
      const stream = driver.streamCreateWithPriority(0, 0, 0);
      return attemptEach({
        query: () => driver.streamQuery(1, stream),
        synchronize: () => driver.streamSynchronize(1, stream),
        wait: () => driver.streamWaitEvent(1, stream, driver.eventCreateWithFlags(1, 0)),
        destroy: () => driver.streamDestroy(1, stream),
      });
    },
  },
  {
    name: "a stream waits for the null event",
    run: ({ driver }) => driver.streamWaitEvent(0, driver.streamCreateWithPriority(0, 0, 0), 0n),
  },
];
