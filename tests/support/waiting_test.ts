import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { test } from "node:test";
import { waitUntil, whenDone } from "../../src/support/waiting/waiting.ts";

/** As long as a turn of the stand-in for the event loop takes. */
const turnMilliseconds = 0.25;
/** Turns in which waits are looked at eagerly: two milliseconds of them. */
const eagerTurns = 8;

interface Globals {
  setImmediate(callback: () => void): unknown;
  setTimeout(callback: () => void, milliseconds: number): unknown;
  clearTimeout(timer: number | undefined): void;
}

/** Stands in for the event loop and the clock until it is disposed. It goes on when it is told to. */
class ManualEventLoop implements Disposable {
  readonly #turns: (() => void)[] = [];
  readonly #timers = new Map<number, { readonly callback: () => void; readonly due: number }>();
  readonly #stack = new DisposableStack();
  #now = 0;
  #lastTimer = 0;

  constructor() {
    const globals = globalThis as unknown as Globals;
    const { setImmediate, setTimeout, clearTimeout } = globals;
    const { now } = performance;
    this.#stack.defer(() => {
      Object.assign(globals, { setImmediate, setTimeout, clearTimeout });
      performance.now = now;
    });
    performance.now = () => this.#now;
    globals.setImmediate = (callback) => this.#turns.push(callback);
    globals.setTimeout = (callback, milliseconds) => {
      this.#timers.set(++this.#lastTimer, { callback, due: this.#now + milliseconds });
      return this.#lastTimer;
    };
    globals.clearTimeout = (timer) => this.#timers.delete(timer!);
  }

  get now(): number {
    return this.#now;
  }

  get scheduled(): { turns: number; timers: number } {
    return { turns: this.#turns.length, timers: this.#timers.size };
  }

  /** Takes what is scheduled for the next turn, or else the next timer; fails where there is nothing. */
  goOn(): void {
    const turn = this.#turns.shift();
    if (turn !== undefined) {
      this.#now += turnMilliseconds;
      return turn();
    }
    const [next] = [...this.#timers].sort(([, a], [, b]) => a.due - b.due);
    if (next === undefined) throw new Error("Nothing is scheduled");
    const [timer, { callback, due }] = next;
    this.#timers.delete(timer);
    this.#now = due;
    callback();
  }

  /** Lets waits that are pending grow old, until they are looked at once in a millisecond. */
  becomePatient(): void {
    while (this.scheduled.turns > 0) this.goOn();
  }

  /** Everything that was begun must have come to its end. */
  [Symbol.dispose](): void {
    this.#stack.dispose();
    assertEquals(this.scheduled, { turns: 0, timers: 0 });
  }
}

function nothing(): void {}

test("what is done at the first look, or fails there, is told at once, and nothing is scheduled", () => {
  using loop = new ManualEventLoop();
  const told: unknown[][] = [];
  const cancel = whenDone(() => true, (...given) => told.push(given));
  assertEquals(told, [[undefined]]);
  const failure = new Error("lost");
  whenDone(() => {
    throw failure;
  }, (...given) => told.push(given));
  assertEquals(told[1], [failure]);
  cancel();
  assertEquals([told.length, loop.scheduled], [2, { turns: 0, timers: 0 }]);
});

test("a wait is looked at in every turn for two milliseconds, and then once in a millisecond", () => {
  using loop = new ManualEventLoop();
  const looks: number[] = [];
  let told = 0;
  whenDone(() => {
    looks.push(loop.now);
    return loop.now >= 5;
  }, () => told++);
  for (; told === 0; loop.goOn()) assertEquals(loop.scheduled.turns + loop.scheduled.timers, 1);
  const eager = Array.from({ length: eagerTurns + 1 }, (_, index) => index * turnMilliseconds);
  assertEquals(looks, [...eager, 3, 4, 5]);
  assertEquals(told, 1);
});

test("one turn or timer looks at all waits, however many there are", () => {
  using loop = new ManualEventLoop();
  const count = 100;
  let looks = 0;
  let isDone = false;
  let told = 0;
  for (let index = 0; index < count; index++) {
    whenDone(() => {
      looks++;
      return isDone;
    }, () => told++);
  }
  assertEquals([looks, loop.scheduled], [count, { turns: 1, timers: 0 }]);
  loop.goOn();
  assertEquals([looks, loop.scheduled], [2 * count, { turns: 1, timers: 0 }]);
  loop.becomePatient();
  assertEquals(loop.scheduled, { turns: 0, timers: 1 });
  looks = 0;
  isDone = true;
  loop.goOn();
  assertEquals([looks, told, loop.scheduled], [count, count, { turns: 0, timers: 0 }]);
});

test("a wait that begins or ends makes all of them eager again", () => {
  using loop = new ManualEventLoop();
  const cancelOld = whenDone(() => false, nothing);
  loop.becomePatient();
  let isDone = false;
  whenDone(() => isDone, nothing);
  assertEquals(loop.scheduled, { turns: 1, timers: 0 }, "the turn comes in place of the timer");
  for (let turn = 1; turn <= eagerTurns; turn++) {
    assertEquals(loop.scheduled, { turns: 1, timers: 0 }, `turn ${turn}`);
    loop.goOn();
  }
  assertEquals(loop.scheduled, { turns: 0, timers: 1 });
  isDone = true;
  loop.goOn();
  assertEquals(loop.scheduled, { turns: 1, timers: 0 });
  loop.becomePatient();
  cancelOld();
});

test("a condition that throws ends its own wait alone", () => {
  using loop = new ManualEventLoop();
  const failure = new Error("lost");
  let isDone = false;
  const told: [string, unknown][] = [];
  const waitFor = (name: string, condition: () => boolean) => whenDone(condition, (error) => told.push([name, error]));
  waitFor("before", () => isDone);
  waitFor("failing", () => {
    if (isDone) throw failure;
    return false;
  });
  waitFor("after", () => isDone);
  const cancel = waitFor("pending", () => false);
  isDone = true;
  loop.goOn();
  assertEquals(told, [["before", undefined], ["failing", failure], ["after", undefined]]);
  assertEquals(loop.scheduled, { turns: 1, timers: 0 });
  cancel();
  loop.goOn();
});

test("a callback may begin waits, which are looked at again in the next turn, and cancel others", () => {
  using loop = new ManualEventLoop();
  let isDone = false;
  let looksAtNew = 0;
  let looksAtCancelled = 0;
  let told = 0;
  whenDone(() => isDone, () => {
    whenDone(() => ++looksAtNew === 2, () => told++);
    cancel();
  });
  const cancel = whenDone(() => {
    looksAtCancelled++;
    return isDone;
  }, () => told++);
  isDone = true;
  loop.goOn();
  assertEquals([looksAtNew, looksAtCancelled, told], [1, 1, 0]);
  loop.goOn();
  assertEquals([looksAtNew, looksAtCancelled, told], [2, 1, 1]);
});

test("a callback that throws does so from the event loop, and the other waits go on", () => {
  using loop = new ManualEventLoop();
  let isDone = false;
  let told = 0;
  whenDone(() => isDone, () => {
    throw new Error("mistake");
  });
  whenDone(() => isDone, () => told++);
  isDone = true;
  assertThrows(() => loop.goOn(), Error, "mistake");
  loop.goOn();
  assertEquals(told, 1);
});

test("nothing runs when the last wait was cancelled", () => {
  using loop = new ManualEventLoop();
  let looks = 0;
  const begin = () =>
    whenDone(() => {
      looks++;
      return false;
    }, nothing);
  const cancelEarly = begin();
  cancelEarly();
  loop.goOn();
  assertEquals([looks, loop.scheduled], [1, { turns: 0, timers: 0 }]);
  const cancelFirst = begin();
  const cancelSecond = begin();
  loop.becomePatient();
  looks = 0;
  cancelFirst();
  cancelFirst();
  assertEquals(loop.scheduled, { turns: 0, timers: 1 });
  cancelSecond();
  assertEquals([looks, loop.scheduled], [0, { turns: 0, timers: 0 }]);
});

test("a promise resolves when it is done, and rejects with what the condition throws", async () => {
  await waitUntil(() => true);
  let looks = 0;
  await waitUntil(() => ++looks === 20);
  assertEquals(looks, 20);
  const failure = new Error("lost");
  const thrower = () => {
    if (++looks > 30) throw failure;
    return false;
  };
  assertEquals(await assertRejects(() => waitUntil(thrower)), failure);
  assertEquals(looks, 31);
  assertEquals(await assertRejects(() => waitUntil(thrower)), failure);
});

test("an aborted signal rejects without a look at the condition, or at once, with its reason", async () => {
  const reason = new Error("changed my mind");
  let looks = 0;
  const isDone = () => {
    looks++;
    return false;
  };
  assertEquals(await assertRejects(() => waitUntil(isDone, { signal: AbortSignal.abort(reason) })), reason);
  assertEquals(looks, 0);
  using loop = new ManualEventLoop();
  const controller = new AbortController();
  const waiting = waitUntil(isDone, { signal: controller.signal });
  loop.becomePatient();
  looks = 0;
  controller.abort(reason);
  assertEquals(await assertRejects(() => waiting), reason);
  assertEquals([looks, loop.scheduled], [0, { turns: 0, timers: 0 }]);
});

test("a condition that aborts its own wait at the first look rejects it", async () => {
  using loop = new ManualEventLoop();
  const reason = new Error("changed my mind");
  const controller = new AbortController();
  const waiting = waitUntil(() => {
    controller.abort(reason);
    return false;
  }, { signal: controller.signal });
  assertEquals(await assertRejects(() => waiting), reason);
  loop.goOn();
});

test("a wait that is at its end does not listen to its signal any more", async () => {
  const { signal } = new AbortController();
  let listeners = 0;
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (...given: unknown[]) => {
    listeners++;
    Reflect.apply(addEventListener, signal, given);
  };
  signal.removeEventListener = (...given: unknown[]) => {
    listeners--;
    Reflect.apply(removeEventListener, signal, given);
  };
  let looks = 0;
  const waiting = waitUntil(() => ++looks === 3, { signal });
  assertEquals(listeners, 1);
  await waiting;
  assertEquals(listeners, 0);
  await waitUntil(() => true, { signal });
  await assertRejects(() =>
    waitUntil(() => {
      throw new Error("lost");
    }, { signal })
  );
  assertEquals(listeners, 0);
});
