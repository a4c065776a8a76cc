import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { test } from "node:test";
import { open } from "../../mod.ts";
import { waitUntil, whenDone } from "../../src/support/waiting/waiting.ts";

/** Milliseconds that a turn of the fake event loop takes. */
const turnMilliseconds = 0.25;
/** Turns in which conditions are polled eagerly: two milliseconds. */
const eagerTurns = 8;

interface Globals {
  setImmediate(callback: () => void): unknown;
  setTimeout(callback: () => void, milliseconds: number): unknown;
  clearTimeout(timer: number | undefined): void;
}

/** Replaces the event loop and the clock until it is disposed. It advances only on request. */
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

  /** Runs the next turn's callback, or else the next timer's. Throws if nothing is scheduled. */
  advance(): void {
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

  /** Advances until pending conditions are polled only once a millisecond. */
  advanceToSlowPolling(): void {
    while (this.scheduled.turns > 0) this.advance();
  }

  /** Fails unless everything scheduled has run or was cancelled. */
  [Symbol.dispose](): void {
    this.#stack.dispose();
    assertEquals(this.scheduled, { turns: 0, timers: 0 });
  }
}

function nothing(): void {}

test("a condition met or failed at the first poll is reported immediately, and nothing is scheduled", () => {
  using loop = new ManualEventLoop();
  const notified: unknown[][] = [];
  const cancel = whenDone(() => true, (...given) => notified.push(given));
  assertEquals(notified, [[undefined]]);
  const failure = new Error("lost");
  whenDone(() => {
    throw failure;
  }, (...given) => notified.push(given));
  assertEquals(notified[1], [failure]);
  cancel();
  assertEquals([notified.length, loop.scheduled], [2, { turns: 0, timers: 0 }]);
});

test("a condition is polled every turn for two milliseconds, and then once a millisecond", () => {
  using loop = new ManualEventLoop();
  const polls: number[] = [];
  let notified = 0;
  whenDone(() => {
    polls.push(loop.now);
    return loop.now >= 5;
  }, () => notified++);
  for (; notified === 0; loop.advance()) assertEquals(loop.scheduled.turns + loop.scheduled.timers, 1);
  const eager = Array.from({ length: eagerTurns + 1 }, (_, index) => index * turnMilliseconds);
  assertEquals(polls, [...eager, 3, 4, 5]);
  assertEquals(notified, 1);
});

test("one turn or timer polls all conditions, however many there are", () => {
  using loop = new ManualEventLoop();
  const count = 100;
  let polls = 0;
  let isDone = false;
  let notified = 0;
  for (let index = 0; index < count; index++) {
    whenDone(() => {
      polls++;
      return isDone;
    }, () => notified++);
  }
  assertEquals([polls, loop.scheduled], [count, { turns: 1, timers: 0 }]);
  loop.advance();
  assertEquals([polls, loop.scheduled], [2 * count, { turns: 1, timers: 0 }]);
  loop.advanceToSlowPolling();
  assertEquals(loop.scheduled, { turns: 0, timers: 1 });
  polls = 0;
  isDone = true;
  loop.advance();
  assertEquals([polls, notified, loop.scheduled], [count, count, { turns: 0, timers: 0 }]);
});

test("a wait that begins or ends makes all others poll eagerly again", () => {
  using loop = new ManualEventLoop();
  const cancelOld = whenDone(() => false, nothing);
  loop.advanceToSlowPolling();
  let isDone = false;
  whenDone(() => isDone, nothing);
  assertEquals(loop.scheduled, { turns: 1, timers: 0 }, "the turn comes in place of the timer");
  for (let turn = 1; turn <= eagerTurns; turn++) {
    assertEquals(loop.scheduled, { turns: 1, timers: 0 }, `turn ${turn}`);
    loop.advance();
  }
  assertEquals(loop.scheduled, { turns: 0, timers: 1 });
  isDone = true;
  loop.advance();
  assertEquals(loop.scheduled, { turns: 1, timers: 0 });
  loop.advanceToSlowPolling();
  cancelOld();
});

test("a condition that throws ends only its own wait", () => {
  using loop = new ManualEventLoop();
  const failure = new Error("lost");
  let isDone = false;
  const notified: [string, unknown][] = [];
  const waitFor = (name: string, condition: () => boolean) =>
    whenDone(condition, (error) => notified.push([name, error]));
  waitFor("before", () => isDone);
  waitFor("failing", () => {
    if (isDone) throw failure;
    return false;
  });
  waitFor("after", () => isDone);
  const cancel = waitFor("pending", () => false);
  isDone = true;
  loop.advance();
  assertEquals(notified, [["before", undefined], ["failing", failure], ["after", undefined]]);
  assertEquals(loop.scheduled, { turns: 1, timers: 0 });
  cancel();
  loop.advance();
});

test("a callback may begin waits, which are polled in the next turn, and cancel others", () => {
  using loop = new ManualEventLoop();
  let isDone = false;
  let looksAtNew = 0;
  let looksAtCancelled = 0;
  let notified = 0;
  whenDone(() => isDone, () => {
    whenDone(() => ++looksAtNew === 2, () => notified++);
    cancel();
  });
  const cancel = whenDone(() => {
    looksAtCancelled++;
    return isDone;
  }, () => notified++);
  isDone = true;
  loop.advance();
  assertEquals([looksAtNew, looksAtCancelled, notified], [1, 1, 0]);
  loop.advance();
  assertEquals([looksAtNew, looksAtCancelled, notified], [2, 1, 1]);
});

test("a callback's error is thrown from the event loop, and the other waits continue", () => {
  using loop = new ManualEventLoop();
  let isDone = false;
  let notified = 0;
  whenDone(() => isDone, () => {
    throw new Error("mistake");
  });
  whenDone(() => isDone, () => notified++);
  isDone = true;
  assertThrows(() => loop.advance(), Error, "mistake");
  loop.advance();
  assertEquals(notified, 1);
});

test("nothing runs after the last wait was cancelled", () => {
  using loop = new ManualEventLoop();
  let polls = 0;
  const begin = () =>
    whenDone(() => {
      polls++;
      return false;
    }, nothing);
  const cancelEarly = begin();
  cancelEarly();
  loop.advance();
  assertEquals([polls, loop.scheduled], [1, { turns: 0, timers: 0 }]);
  const cancelFirst = begin();
  const cancelSecond = begin();
  loop.advanceToSlowPolling();
  polls = 0;
  cancelFirst();
  cancelFirst();
  assertEquals(loop.scheduled, { turns: 0, timers: 1 });
  cancelSecond();
  assertEquals([polls, loop.scheduled], [0, { turns: 0, timers: 0 }]);
});

test("a promise resolves when the condition is met, and rejects if it throws", async () => {
  await waitUntil(() => true);
  let polls = 0;
  await waitUntil(() => ++polls === 20);
  assertEquals(polls, 20);
  const failure = new Error("lost");
  const thrower = () => {
    if (++polls > 30) throw failure;
    return false;
  };
  assertEquals(await assertRejects(() => waitUntil(thrower)), failure);
  assertEquals(polls, 31);
  assertEquals(await assertRejects(() => waitUntil(thrower)), failure);
});

test("an aborted signal rejects with its reason, immediately or without polling the condition", async () => {
  const reason = new Error("changed my mind");
  let polls = 0;
  const isDone = () => {
    polls++;
    return false;
  };
  assertEquals(await assertRejects(() => waitUntil(isDone, { signal: AbortSignal.abort(reason) })), reason);
  assertEquals(polls, 0);
  using loop = new ManualEventLoop();
  const controller = new AbortController();
  const waiting = waitUntil(isDone, { signal: controller.signal });
  loop.advanceToSlowPolling();
  polls = 0;
  controller.abort(reason);
  assertEquals(await assertRejects(() => waiting), reason);
  assertEquals([polls, loop.scheduled], [0, { turns: 0, timers: 0 }]);
});

test("a condition that aborts its own wait at the first poll rejects it", async () => {
  using loop = new ManualEventLoop();
  const reason = new Error("changed my mind");
  const controller = new AbortController();
  const waiting = waitUntil(() => {
    controller.abort(reason);
    return false;
  }, { signal: controller.signal });
  assertEquals(await assertRejects(() => waiting), reason);
  loop.advance();
});

test("a finished wait no longer listens to its signal", async () => {
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
  let polls = 0;
  const waiting = waitUntil(() => ++polls === 3, { signal });
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

test("a program that waits for nothing calls no timer functions, which Deno loads at their first use", () => {
  const functions = ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] as const;
  const descriptors = functions.map((name) => Object.getOwnPropertyDescriptor(globalThis, name)!);
  const used: string[] = [];
  for (const name of functions) {
    Object.defineProperty(globalThis, name, { configurable: true, get: () => void used.push(name) });
  }
  try {
    using cuda = open({ driver: "software" });
    using pool = cuda.device(0).createPool();
    pool.allocate(1024).free();
  } finally {
    for (const [index, name] of functions.entries()) Object.defineProperty(globalThis, name, descriptors[index]!);
  }
  assertEquals(used, []);
});
