import { assertEquals, assertStringIncludes } from "@std/assert";
import { Quarantine } from "../../../src/sharing/channel/channel_slots.ts";
import { test } from "../../support/test.ts";

test("slots of processes that may be ending are waited for, and others are not", { long: true }, async () => {
  let isEnding = true;
  let asked = Promise.withResolvers<void>();
  const { promise, resolve } = Promise.withResolvers<Error>();
  const quarantine = new Quarantine({
    name: "frames",
    slots: 2,
    quarantined: () => new Map([[7, new Set([0, 1])]]),
    hasEndingHolders: () => {
      asked.resolve();
      return isEnding;
    },
    onExhausted: resolve,
    onAvailable: () => {},
  });
  let isExhausted = false;
  void promise.then(() => isExhausted = true);
  // The quarantine does not keep the process alive.
  const timer = setInterval(() => {}, 1000);
  quarantine.update();
  for (let times = 0; times < 2; times++) {
    await asked.promise;
    asked = Promise.withResolvers();
    assertEquals([quarantine.slots, isExhausted], [2, false]);
  }
  isEnding = false;
  assertStringIncludes((await promise).message, "connected any more: 7 (2)");
  clearInterval(timer);
  quarantine.close();
});
