import { assert } from "@std/assert";
import { coarseTime } from "../../ffi/native/clock.ts";
import { test } from "../support/test.ts";

/** Milliseconds between the ticks of a slow system, and what a busy one may be late besides. */
const late = 100;

test("the coarse time is that of performance.now, at most a tick late, whatever clock it comes from", () => {
  // After some readings, the clock is another one.
  for (let reading = 0; reading < 200; reading++) {
    const before = performance.now();
    const time = coarseTime();
    const after = performance.now();
    assert(time >= before - late && time <= after, `${before} ${time} ${after}`);
  }
});

test("the coarse time goes on", async () => {
  const begin = coarseTime();
  await new Promise((resolve) => setTimeout(resolve, 2 * late));
  const passed = coarseTime() - begin;
  assert(passed >= late, `${passed} ms`);
});
