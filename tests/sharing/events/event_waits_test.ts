import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { EventWaits } from "../../../src/sharing/events/event_waits.ts";

/** Events that a peer has lent. None fires at first. */
class LentEvents {
  readonly waits = new EventWaits();
  readonly fired: number[] = [];
  queries = 0;
  hasAllFired = false;
  readonly cancels: (() => void)[];

  constructor(count: number) {
    this.cancels = Array.from({ length: count }, (_, index) =>
      this.waits.start(() => {
        this.queries++;
        return this.hasAllFired;
      }, { callback: () => this.fired.push(index), event: index }));
  }
}

/** Resolves when a condition holds that is checked every 10 milliseconds. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 10));
}

test("events that never fire are queried less and less, and any that fire are noticed together", async () => {
  const events = new LentEvents(4000);
  const begin = performance.now();
  await until(() => performance.now() > begin + 300);
  const { queries } = events;
  await until(() => performance.now() > begin + 600);
  // At each turn of the event loop or each millisecond, it would be a million.
  assert(events.queries - queries < 4000, `${events.queries - queries} queries`);
  events.hasAllFired = true;
  const changed = performance.now();
  await until(() => events.fired.length === 4000);
  assert(performance.now() - changed < 1000);
  assertEquals(new Set(events.fired).size, 4000);
});

test("an event that fires soon is noticed as soon as this process's own", async () => {
  const waits = new EventWaits();
  const many = new LentEvents(1000);
  const late: number[] = [];
  for (const delay of [0, 1, 5]) {
    const { promise, resolve } = Promise.withResolvers<number>();
    const fires = performance.now() + delay;
    const order: string[] = [];
    const callback = () => (order.push("fired"), resolve(performance.now() - fires));
    waits.start(() => performance.now() >= fires, { callback, event: 1 });
    if (delay === 0) assertEquals(order, ["fired"]);
    late.push(await promise);
  }
  many.waits.cancelAll();
  assert(Math.max(...late) < 1000);
});

test("an error ends one wait alone, and a cancelled one is not polled again", async () => {
  const waits = new EventWaits();
  const errors: unknown[] = [];
  const never = Array.from(
    { length: 100 },
    () => waits.start(() => false, { callback: () => errors.push("fired"), event: 1 }),
  );
  let fails = false;
  const failing = () => {
    if (fails) throw new Error("the device is lost");
    return false;
  };
  const other = Promise.withResolvers<void>();
  const callback = (error: unknown) => errors.push((error as Error).message);
  for (let count = 0; count < 2; count++) waits.start(failing, { callback, event: 1 });
  fails = true;
  waits.start(() => errors.length === 2, { callback: () => other.resolve(), event: 1 });
  await other.promise;
  assertEquals(errors, ["the device is lost", "the device is lost"]);
  for (const cancel of never) cancel();
});

test("after the end of the connection, a bounded number of waits continues", async () => {
  const events = new LentEvents(4000);
  assertEquals(events.waits.end().size, 64);
  events.hasAllFired = true;
  await until(() => events.fired.length === 64);
  const { queries } = events;
  const { promise, resolve } = Promise.withResolvers<void>();
  let polls = 0;
  events.waits.start(() => ++polls === 3, { callback: () => resolve(), event: 1 });
  await promise;
  assertEquals([events.fired.length, events.queries], [64, queries]);
});
