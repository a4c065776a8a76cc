import { assert, assertEquals } from "@std/assert";
import type { Driver } from "../../src/driver.ts";
import { DeviceClock } from "../../src/trace/device_clock.ts";
import { xorshift } from "../../bench/cuda/allocation_trace.ts";
import { test } from "../support/test.ts";

/** A GPU whose clock drifts from the host's, and the time of each event on the host. */
class FakeGpu {
  /** The time on the host in nanoseconds. */
  time = 1e12;
  /** The longest time in nanoseconds from the record of an event to its completion. */
  latency = 20_000;
  readonly times = new Map<bigint, number>();
  readonly drift: number;
  readonly #random: () => number;
  #handles = 0n;
  readonly destroyed: bigint[] = [];

  constructor(drift: number) {
    this.drift = drift;
    const random = xorshift();
    this.#random = () => (random() % 2 ** 20) / 2 ** 20;
  }

  /** Any moment within a time. */
  within(nanoseconds: number): number {
    return this.#random() * nanoseconds;
  }

  now(): number {
    return this.time += this.within(200);
  }

  get driver(): Driver {
    const calls: Partial<Driver> = {
      runsOnHost: false,
      deviceGetStreamPriorityRange: () => ({ least: 0, greatest: -5 }),
      streamCreateWithPriority: () => 7n,
      streamDestroy: (_, stream) => void this.destroyed.push(stream),
      eventCreateWithFlags: () => 100n + this.#handles++,
      eventDestroy: (_, event) => void this.destroyed.push(event),
      eventRecord: (_, event) => {
        this.time += this.within(2000);
        this.times.set(event, this.time + this.within(this.latency));
        this.time += this.within(2000);
      },
      eventQuery: (event) => (this.time += this.within(1000)) > this.times.get(event)!,
      eventElapsedTime: (begin, end) => {
        const at = (event: bigint) => Math.floor(this.times.get(event)! * (1 + this.drift) / 500) * 500;
        return Math.fround((at(end) - at(begin)) / 1e6);
      },
    };
    return calls as Driver;
  }

  /** Records an event, and waits until it is complete. Returns it. */
  complete(event: bigint, driver: Driver): bigint {
    driver.eventRecord(0, event, 1n);
    this.time = Math.max(this.time, this.times.get(event)!) + this.within(1e6);
    return event;
  }
}

test("the bound of the error holds for any drift of the clocks, and for events of any age", () => {
  for (const drift of [0, 1e-4, -1e-4, 3e-6]) {
    const gpu = new FakeGpu(drift);
    const driver = gpu.driver;
    const clock = new DeviceClock(driver, 0, () => gpu.now());
    for (let round = 0; round < 500; round++) {
      // Most programs launch often. Some wait for minutes.
      gpu.time += gpu.within(round % 100 === 0 ? 100e9 : 20e6);
      if (clock.isDue) clock.synchronize();
      const anchor = clock.use()!;
      if (round % 50 === 0) gpu.time += gpu.within(10e9);
      const event = gpu.complete(1n, driver);
      const { time, error } = clock.timeOf(anchor, event);
      const wrong = Math.abs(time - gpu.times.get(event)!);
      assert(wrong <= error, `${wrong} ns of ${error}`);
      if (round % 50 !== 0) assert(error < 40_000, `${error} ns`);
      clock.release(anchor);
    }
    clock.close();
    assertEquals(new Set(gpu.destroyed).size, gpu.destroyed.length);
  }
});

test("a busy GPU delays nothing by more than the time of an attempt, and the last anchor is used", () => {
  const gpu = new FakeGpu(0);
  const clock = new DeviceClock(gpu.driver, 0, () => gpu.now());
  const synchronize = (): number => {
    const before = gpu.time;
    clock.synchronize();
    return gpu.time - before;
  };
  gpu.latency = 1e12;
  assert(synchronize() < 21e6);
  assertEquals(clock.use(), undefined);
  assert(!clock.isDue);
  gpu.latency = 1000;
  gpu.time += 1e9;
  assert(clock.isDue);
  clock.synchronize();
  const anchor = clock.use()!;
  gpu.latency = 1e12;
  gpu.time += 1e9;
  assert(synchronize() < 250_000);
  assertEquals(clock.use(), anchor);
});

test("anchors that nothing uses any more are used again, and all are destroyed", () => {
  const gpu = new FakeGpu(0);
  const driver = gpu.driver;
  let created = 0;
  const { eventCreateWithFlags } = driver;
  driver.eventCreateWithFlags = (...args) => (created++, eventCreateWithFlags(...args));
  const clock = new DeviceClock(driver, 0, () => gpu.now());
  for (let round = 0; round < 100; round++) {
    clock.synchronize();
    clock.release(clock.use()!);
  }
  assert(created < 10, `${created} events`);
  const used = Array.from({ length: 10 }, () => (clock.synchronize(), clock.use()!));
  assertEquals(new Set(used.map(({ event }) => event)).size, 10);
  for (const anchor of used) clock.release(anchor);
  clock.close();
  assertEquals(new Set(gpu.destroyed).size, created + 1);
});
