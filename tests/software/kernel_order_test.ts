/** The order in which the blocks, warps and threads of a kernel run. */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { ptx as reducePtx } from "../../kernels/reduce.ts";
import { type Cuda, open, type OpenOptions } from "../../mod.ts";
import { inOrder, kernelOrders } from "../../src/software/schedule.ts";
import { test } from "../support/test.ts";

type Schedule = NonNullable<OpenOptions["softwareSchedule"]>;

const schedules: readonly Schedule[] = ["oldest", "newest", "random:1", "random:2", "random:3"];

function kernelOf(parameters: string, body: string): string {
  return `.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel (${parameters})
{
  .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<4>; .shared .align 4 .b8 s[1024];
${body}
  ret;
}
`;
}

/** Each thread writes how many have run before it. */
function counting(between: string): string {
  return kernelOf(
    ".param .u64 counter, .param .u64 to",
    `  ld.param.u64 %rd1, [counter]; ld.param.u64 %rd2, [to];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.y; mad.lo.u32 %r1, %r3, %r2, %r1;
  mov.u32 %r4, %ntid.y; mul.lo.u32 %r2, %r2, %r4;
  mov.u32 %r5, %ctaid.y; mov.u32 %r6, %nctaid.x; mov.u32 %r7, %ctaid.x; mad.lo.u32 %r5, %r5, %r6, %r7;
  mad.lo.u32 %r1, %r5, %r2, %r1;
  ${between}
  atom.global.add.u32 %r8, [%rd1], 1; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd2, %rd2, %rd3; st.global.u32 [%rd2], %r8;`,
  );
}

const free = counting("");
/** The same with a place where threads may wait. */
const waiting = counting("bar.sync 0;");

interface Shape {
  readonly grid: readonly [number, number];
  readonly block: readonly [number, number];
}

/** For each thread, how many have run before it. */
function positions(ptx: string, { grid, block }: Shape, softwareSchedule?: Schedule): number[] {
  using cuda = opened(softwareSchedule);
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using counter = pool.allocateArray(Uint32Array, 1);
  using to = pool.allocateArray(Uint32Array, grid[0] * grid[1] * block[0] * block[1]);
  counter.fill(0);
  using module = gpu.loadModule(ptx);
  module.kernel("kernel").launch({ grid: [...grid], block: [...block] }, counter, to);
  return [...to.readSync(Uint32Array)];
}

function opened(softwareSchedule: Schedule | undefined): Cuda {
  // Some of the kernels race on purpose.
  return open({ driver: "software", sanitize: false, ...softwareSchedule === undefined ? {} : { softwareSchedule } });
}

const shapes: readonly Shape[] = [
  { grid: [1, 1], block: [1, 1] },
  { grid: [3, 1], block: [5, 1] },
  { grid: [4, 3], block: [16, 4] },
  { grid: [7, 2], block: [70, 3] },
];

for (const [name, ptx] of [["that never wait", free], ["that may wait", waiting]] as const) {
  test(`with every schedule, each of the threads ${name} runs once`, () => {
    for (const shape of shapes) {
      const count = shape.grid[0] * shape.grid[1] * shape.block[0] * shape.block[1];
      for (const schedule of schedules) {
        const found = positions(ptx, shape, schedule).toSorted((a, b) => a - b);
        assertEquals(found, Array.from({ length: count }, (_, index) => index), `${schedule}`);
      }
    }
  });

  test(`the same seed runs threads ${name} in the same order, and others in another`, () => {
    const shape = shapes[3]!;
    const orders = Array.from({ length: 8 }, (_, seed) => positions(ptx, shape, `random:${seed}`));
    assertEquals(Array.from({ length: 8 }, (_, seed) => positions(ptx, shape, `random:${seed}`)), orders);
    assertEquals(new Set(orders.map((order) => order.join())).size, 8);
  });
}

test("threads that never wait run from the last to the first with newest", () => {
  for (const shape of shapes) {
    const count = shape.grid[0] * shape.grid[1] * shape.block[0] * shape.block[1];
    assertEquals(positions(free, shape, "newest"), Array.from({ length: count }, (_, index) => count - 1 - index));
    assertEquals(positions(free, shape, "oldest"), Array.from({ length: count }, (_, index) => index));
  }
});

test("the blocks of a random schedule are each of the grid's once, however many there are", () => {
  for (const count of [1, 2, 3, 5, 64, 1000, 65_537]) {
    const order = kernelOrders("random:7")!()!;
    const blocks = new Set(Array.from({ length: count }, (_, position) => order.blockAt(position, count)));
    assertEquals(blocks.size, count);
    assert([...blocks].every((block) => Number.isInteger(block) && block >= 0 && block < count));
  }
  const huge = kernelOrders("random:7")!()!;
  const found = new Set(Array.from({ length: 1000 }, (_, position) => huge.blockAt(position, 2 ** 32 - 5)));
  assertEquals(found.size, 1000);
  assert([...found].every((block) => block >= 0 && block < 2 ** 32 - 5));
  assert([...found].some((block) => block > 2 ** 31));
});

test("an order of threads has each once", () => {
  assertEquals([...inOrder(4, { start: 1, isReversed: false })], [1, 2, 3, 0]);
  assertEquals([...inOrder(4, { start: 1, isReversed: true })], [2, 1, 0, 3]);
});

/** s[i] = i; then out[i] = s[(i + shift) % count]: wrong without the barrier between them. */
function neighbours(barrier: string): string {
  return kernelOf(
    ".param .u64 out, .param .u32 shift",
    `  ld.param.u64 %rd1, [out]; ld.param.u32 %r2, [shift]; mov.u32 %r1, %tid.x; mov.u32 %r3, %ntid.x;
  shl.b32 %r4, %r1, 2; mov.u32 %r5, s; add.s32 %r4, %r4, %r5; add.s32 %r7, %r1, 1; st.shared.u32 [%r4], %r7; ${barrier}
  add.s32 %r6, %r1, %r2; rem.u32 %r6, %r6, %r3; shl.b32 %r6, %r6, 2; add.s32 %r6, %r6, %r5; ld.shared.u32 %r8, [%r6];
  mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r8;`,
  );
}

function neighboursOf(barrier: string, shift: number, schedule?: Schedule): number[] {
  using cuda = opened(schedule);
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using out = pool.allocateArray(Uint32Array, 128);
  using module = gpu.loadModule(neighbours(barrier));
  module.kernel("kernel").launch({ grid: 1, block: 128 }, out, shift);
  return [...out.readSync(Uint32Array)];
}

test("a missing barrier gives other results with some schedule, and a barrier the same with each", () => {
  for (const shift of [32, 96]) {
    const expected = Array.from({ length: 128 }, (_, index) => (index + shift) % 128 + 1);
    for (const schedule of schedules) assertEquals(neighboursOf("bar.sync 0;", shift, schedule), expected);
    const wrong = schedules.filter((schedule) => neighboursOf("", shift, schedule).join() !== expected.join());
    assertNotEquals(wrong, []);
  }
});

test("a kernel that relies on the order of blocks gives other results with newest", () => {
  // Each block adds 1 to what the block before it has written.
  const ptx = kernelOf(
    ".param .u64 x",
    `  ld.param.u64 %rd1, [x]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
  ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1; st.global.u32 [%rd1+4], %r2;`,
  );
  const last = (schedule?: Schedule) => {
    using cuda = opened(schedule);
    const gpu = cuda.device(0);
    using pool = gpu.createPool();
    using x = pool.allocateArray(Uint32Array, 11);
    x.fill(0);
    using module = gpu.loadModule(ptx);
    module.kernel("kernel").launch({ grid: 10, block: 1 }, x);
    return x.readSync(Uint32Array)[10];
  };
  assertEquals([last("oldest"), last("newest")], [10, 1]);
});

test("a reduction gives the same sum with every schedule", () => {
  for (const schedule of schedules) {
    using cuda = opened(schedule);
    const gpu = cuda.device(0);
    using pool = gpu.createPool();
    using module = gpu.loadModule(reducePtx);
    const numbers = Float32Array.from({ length: 10_000 }, (_, index) => index % 17);
    using x = pool.allocateArray(Float32Array, numbers.length);
    using sum = pool.allocateArray(Float32Array, 1);
    x.copyFrom(numbers);
    sum.fill(0);
    using partial = pool.allocateArray(Float32Array, 8);
    const reduce = module.kernel("reduce_sum");
    reduce.launch({ grid: 8, block: 256 }, x, BigInt(numbers.length), partial);
    reduce.launch({ grid: 1, block: 256 }, partial, 8n, sum);
    assertEquals(sum.readSync(Float32Array)[0], numbers.reduce((total, number) => total + number, 0));
  }
});
