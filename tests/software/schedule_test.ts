/** The order in which the software device does what it may do in any order. */
import { assertEquals, assertThrows } from "@std/assert";
import { type CudaStream, open, type OpenOptions } from "../../mod.ts";
import { eventFlags } from "../../src/driver.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { startScript } from "../support/child_process.ts";
import { test } from "../support/test.ts";

type Schedule = NonNullable<OpenOptions["softwareSchedule"]>;

/** What each of some blocks writes: how many blocks of all kernels have run before. */
const countPtx = `.version 7.0
.target sm_60
.address_size 64
.visible .entry count(.param .u64 counter, .param .u64 to) {
  .reg .b32 %r<3>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [counter];
  ld.param.u64 %rd2, [to];
  atom.global.add.u32 %r1, [%rd1], 1;
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %rd3, %r2, 4;
  add.u64 %rd2, %rd2, %rd3;
  st.global.u32 [%rd2], %r1;
  ret;
}`;

/** The streams in the order in which their blocks run, three of each. */
function orderOf(softwareSchedule?: Schedule): number[] {
  using cuda = open({ driver: "software", ...softwareSchedule === undefined ? {} : { softwareSchedule } });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  const count = gpu.loadModule(countPtx).kernel("count");
  using counter = pool.allocateArray(Uint32Array, 1);
  using numbers = pool.allocateArray(Uint32Array, 9);
  counter.fill(0);
  gpu.synchronize();
  const streams: CudaStream[] = [0, 1, 2].map(() => gpu.createStream({ nonBlocking: true }));
  streams.forEach((stream, index) =>
    count.launch({ grid: 3, block: 1, stream }, counter, numbers.subarray(3 * index, 3 * index + 3))
  );
  gpu.synchronize();
  const order: number[] = [];
  numbers.readSync(Uint32Array).forEach((position, index) => {
    order[position] = Math.floor(index / 3);
  });
  return order;
}

test("streams do their work in the order of the schedule, block by block", () => {
  assertEquals(orderOf("oldest"), [0, 0, 0, 1, 1, 1, 2, 2, 2]);
  assertEquals(orderOf("newest"), [2, 2, 2, 1, 1, 1, 0, 0, 0]);
  const seeds = Array.from({ length: 20 }, (_, seed) => orderOf(`random:${seed}`));
  assertEquals(Array.from({ length: 20 }, (_, seed) => orderOf(`random:${seed}`)), seeds);
  assertEquals(seeds.every((order) => order.toSorted().join() === "0,0,0,1,1,1,2,2,2"), true);
  const different = new Set(seeds.map((order) => order.join()));
  assertEquals(different.size > 10, true, `${different.size} orders`);
});

test("a kernel that waits for one of another stream ends with every schedule", () => {
  const ptx = `.version 7.0
.target sm_60
.address_size 64
.visible .entry wait(.param .u64 flag) {
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [flag];
again:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra again;
  ret;
}
.visible .entry raise(.param .u64 flag) {
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [flag];
  st.volatile.global.u32 [%rd1], 1;
  ret;
}`;
  for (const softwareSchedule of ["oldest", "newest", "random:5"] as const) {
    using cuda = open({ driver: "software", softwareSchedule });
    const gpu = cuda.device(0);
    using pool = gpu.createPool();
    const module = gpu.loadModule(ptx);
    using flag = pool.allocate(4);
    flag.fill(0);
    gpu.synchronize();
    const [first, second] = [0, 1].map(() => gpu.createStream({ nonBlocking: true })) as [CudaStream, CudaStream];
    const isFirstWaiting = softwareSchedule === "oldest";
    module.kernel("wait").launch({ grid: 1, block: 1, stream: isFirstWaiting ? first : second }, flag);
    module.kernel("raise").launch({ grid: 1, block: 1, stream: isFirstWaiting ? second : first }, flag);
    gpu.synchronize();
  }
});

test("an event recorded for an idle device is complete, whichever device's streams a schedule prefers", () => {
  for (const schedule of ["oldest", "newest", "random:1", "random:2", "random:3"] as const) {
    const driver = new SoftwareDriver({ devices: 3, peers: true, schedule });
    const events = driver.usedDevices().map((device) => {
      const event = driver.eventCreateWithFlags(device, eventFlags.disableTiming);
      driver.ctxRecordEvent(device, event);
      return event;
    });
    assertEquals(events.map((event) => driver.eventQuery(event)), [true, true, true], schedule);
    driver.close();
  }
});

test("fresh memory holds a pattern, from a pool and without one", () => {
  for (const options of [{ softwareSchedule: "oldest" }, { sanitize: true, onReport() {} }] as const) {
    using cuda = open({ driver: "software", ...options });
    const gpu = cuda.device(0);
    using pool = gpu.createPool();
    using pooled = pool.allocate(16);
    using alone = gpu.allocate(16);
    for (const buffer of [pooled, alone]) assertEquals(buffer.readSync(Uint8Array), new Uint8Array(16).fill(0xcb));
  }
});

test("the seed of a random schedule is printed once, however the process ends", { long: true }, async () => {
  for (const how of ["end", "exit", "throw", "reject", "hang"]) {
    await using child = startScript("children/software/end_with_schedule.ts", [how]);
    assertEquals(await child.nextLine(), "opened");
    if (how === "hang") child.kill("SIGKILL");
    assertEquals(await child.ended, { end: 0, exit: 3, throw: 1, reject: 1, hang: "SIGKILL" }[how]);
    const errors = await child.errors();
    assertEquals(
      errors.match(/^poolpass: the schedule is POOLPASS_SOFTWARE_SCHEDULE=random:\d+$/gm)?.length,
      1,
      errors,
    );
  }
});

test("a schedule that does not exist is refused", () => {
  for (const softwareSchedule of ["oldest first", "random:", "random:x", 3, null]) {
    assertThrows(
      () => open({ driver: "software", softwareSchedule: softwareSchedule as Schedule }),
      TypeError,
      "as softwareSchedule",
    );
  }
});
