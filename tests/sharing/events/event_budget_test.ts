import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { AskedEvents, EventBudget } from "../../../src/sharing/events/event_waits.ts";

test("no user takes another user's share of the events that an exporter keeps", () => {
  const budget = new EventBudget(2);
  const keepAll = (uid: number): number => {
    let kept = 0;
    while (budget.tryAdd(uid)) kept++;
    return kept;
  };
  assertEquals([keepAll(0), keepAll(1000), keepAll(0)], [2048, 2048, 0]);
  for (let count = 0; count < 5; count++) budget.remove(0);
  assertEquals([keepAll(1000), keepAll(0)], [0, 5]);
});

test("an event of which only the number is kept has one unanswered WAIT at a time", () => {
  const asked: number[] = [];
  const fired: string[] = [];
  const events = new AskedEvents((event) => void asked.push(event));
  events.add(7);
  assertEquals([events.has(7), events.has(8), events.onFired(7)], [true, false, false]);
  const cancel = events.whenFired(7, () => void fired.push("first"));
  cancel();
  // Its WAIT is unanswered: the next wait takes the answer.
  events.whenFired(7, (_, event) => void fired.push(`second ${event}`));
  cancel();
  assertEquals([asked, events.onFired(7), fired], [[7], true, ["second 7"]]);
  assertEquals(events.onFired(7), false);
  events.whenFired(7, () => {})();
  assertEquals([asked, events.onFired(7), fired.length], [[7, 7], true, 1]);
});
