/**
 * Pairs of programs: in the wrong one, an access leaves the memory that its address was computed from, and reaches other
 * memory of the program. The device cannot refuse it.
 */
import { assertEquals } from "@std/assert";
import type { MemoryPool } from "../../../mod.ts";
import { test } from "../../support/test.ts";
import { type Context, kernelOf, type Pair, reportsOf, testPairs } from "./programs.ts";

/** y[i] = x[i], for one element of 4 bytes for each thread, up to `last`. */
const copy = kernelOf(
  ".param .u64 x, .param .u64 y, .param .u32 last",
  `  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r9, [last];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r1, %r2, %r3;
  setp.gt.u32 %p1, %r4, %r9; @%p1 bra END;
  cvta.to.global.u64 %rd3, %rd1; cvta.to.global.u64 %rd4, %rd2;
  mul.wide.u32 %rd5, %r4, 4; add.s64 %rd6, %rd3, %rd5; ld.global.u32 %r5, [%rd6];
  add.s64 %rd7, %rd4, %rd5; st.global.u32 [%rd7], %r5;
END:`,
);

/** Sums the elements of x by a pointer that advances. */
const walk = kernelOf(
  ".param .u64 x, .param .u32 count",
  `  ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [count]; mov.u64 %rd2, %rd1;
LOOP: ld.global.u32 %r2, [%rd2]; add.s32 %r3, %r3, %r2; add.s64 %rd2, %rd2, 4; sub.s32 %r1, %r1, 1;
  setp.ne.u32 %p1, %r1, 0; @%p1 bra LOOP;
  st.global.u32 [%rd1], %r3;`,
);

/** Stores to x, which is the second word of a struct, at an offset. */
const byStruct = kernelOf(
  ".param .align 8 .b8 s[16], .param .u64 offset",
  `  ld.param.u64 %rd1, [s+8]; ld.param.u64 %rd2, [offset]; mov.u32 %r1, 7;
  shl.b64 %rd3, %rd2, 2; add.s64 %rd4, %rd1, %rd3; st.u32 [%rd4], %r1;`,
);

/** Stores to one of two arrays at an offset. */
function arrays(space: "shared" | "local", instruction: string): string {
  return kernelOf(
    ".param .u64 offset",
    `  .${space} .align 16 .b8 a[128]; .${space} .align 16 .b8 b[128];
  ld.param.u64 %rd2, [offset]; cvt.u32.u64 %r2, %rd2; mov.u32 %r1, 7; mov.f32 %f1, 0f00000000;
  mov.u32 %r4, b; st.${space}.u32 [%r4], %r1;
  ${instruction}`,
  );
}

/** Two buffers, each of which ends where the next begins. */
function twoBuffers({ pool, stream }: Context, byteLength = 4096) {
  const x = pool.allocate(byteLength, stream), y = pool.allocate(byteLength, stream);
  assertEquals(y.address, x.address + BigInt(byteLength));
  return { x, y };
}

/** Two buffers of a caching allocator. */
function twoParts({ pool, stream }: Context, byteLength: number) {
  const allocator = pool.createCachingAllocator();
  return { x: allocator.allocate(byteLength, stream), y: allocator.allocate(byteLength, stream) };
}

function struct(pointer: bigint): BigUint64Array {
  return new BigUint64Array([0n, pointer]);
}

/** A program that runs with 4 threads, or with so many that they may run in gangs. */
function copying(name: string, grid: number): Pair[] {
  const block = 128;
  return [
    {
      name: `a write from one buffer to the next, ${name}`,
      ptx: copy,
      kind: "out-of-bounds",
      says:
        /4 bytes right past the end of a buffer of 4096 bytes on device 0, argument 1\n {2}It reads element 1024 \(of 4 bytes\), and the last is 1023; other memory is there/,
      right: (context) => {
        const { x, y } = twoBuffers(context);
        context.launch({ grid, block }, x, y, 1023);
      },
      wrong: (context) => {
        const { x } = twoBuffers(context);
        // The target is large enough.
        context.launch({ grid, block }, x, context.pool.allocate(8192, context.stream), 1024);
      },
    },
    {
      name: `a write from one part of an allocator's memory to the next, ${name}`,
      ptx: copy,
      kind: "out-of-bounds",
      says: /4 bytes right past the end of a buffer of 4000 bytes, argument 1/,
      right: (context) => {
        const { x, y } = twoParts(context, 4000);
        context.launch({ grid, block }, x, y, 999);
      },
      wrong: (context) => {
        const { x } = twoParts(context, 4000);
        context.launch({ grid, block }, x, context.pool.allocate(8192, context.stream), 1000);
      },
    },
  ];
}

const pairs: readonly Pair[] = [
  ...copying("thread by thread", 9),
  ...copying("in gangs", 200),
  {
    name: "a pointer that runs from one buffer to the next",
    ptx: walk,
    kind: "out-of-bounds",
    says: /right past the end of a buffer of 512 bytes on device 0, argument 1/,
    right: (context) => context.launch({}, twoBuffers(context, 512).x, 128),
    wrong: (context) => context.launch({}, twoBuffers(context, 512).x, 129),
  },
  {
    name: "a write before a buffer, into another",
    ptx: byStruct,
    kind: "out-of-bounds",
    says: /4 bytes, 4 bytes before a buffer of 512 bytes/,
    right: (context) => context.launch({}, struct(twoBuffers(context, 512).y.address), 0n),
    wrong: (context) => context.launch({}, struct(twoBuffers(context, 512).y.address + 4n), -2n),
  },
  {
    name: "a pointer in a struct",
    ptx: byStruct,
    kind: "out-of-bounds",
    says: /at the start of a buffer of 512 bytes on device 0\./,
    right: (context) => context.launch({}, struct(twoBuffers(context, 512).x.address), 127n),
    wrong: (context) => context.launch({}, struct(twoBuffers(context, 512).x.address), 128n),
  },
  {
    name: "an index far behind the buffer",
    ptx: byStruct,
    kind: "out-of-bounds",
    says: /496 bytes past the end of a buffer of 512 bytes/,
    right: (context) => context.launch({}, struct(twoBuffers(context, 512).x.address), 1n),
    wrong: (context) => context.launch({}, struct(twoBuffers(context, 512).x.address), 252n),
  },
  {
    name: "a module's variable, into the next",
    ptx: kernelOf(
      ".param .u64 offset",
      `  ld.param.u64 %rd2, [offset]; mov.u32 %r1, 7; mov.u64 %rd1, a; add.s64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r1; mov.u64 %rd3, b; st.global.u32 [%rd3], %r1;`,
      ".global .align 4 .b8 a[512];\n.global .align 4 .b8 b[512];",
    ),
    kind: "out-of-bounds",
    says: /right past the end of the array a of 512 bytes\n.*at the start of the variable b of 512 bytes/,
    right: ({ launch }) => launch({}, 508n),
    wrong: ({ launch }) => launch({}, 512n),
  },
  ...(["shared", "local"] as const).flatMap((space): Pair[] =>
    [
      ["a write", `mov.u32 %r3, a; add.s32 %r3, %r3, %r2; st.${space}.u32 [%r3], %r1;`],
      ["a vector", `mov.u32 %r3, a; add.s32 %r3, %r3, %r2; ld.${space}.v4.f32 {%f1, %f2, %f3, %f4}, [%r3];`],
      ["a write by a 64-bit address", `mov.u64 %rd3, a; add.s64 %rd3, %rd3, %rd2; st.${space}.u32 [%rd3], %r1;`],
      [
        "a generic write",
        `mov.u64 %rd3, a; cvta.${space}.u64 %rd3, %rd3; add.s64 %rd3, %rd3, %rd2; st.u32 [%rd3], %r1;`,
      ],
      ...space === "local"
        ? []
        : [["an atomic operation", "mov.u32 %r3, a; add.s32 %r3, %r3, %r2; red.shared.add.u32 [%r3], 1;"] as const],
    ].map(([name, instruction]) => ({
      name: `${name} from one array in ${space} memory to the next`,
      ptx: arrays(space, instruction!),
      kind: "out-of-bounds",
      says: /right past the end of the array a of 128 bytes in \w+ memory\n.*at the start of the array b of 128 bytes/,
      right: ({ launch }) => launch({}, 112n),
      wrong: ({ launch }) => launch({}, 128n),
    }))
  ),
  {
    name: "an array in shared memory, from its end into dynamic shared memory",
    ptx: kernelOf(
      ".param .u64 offset",
      `  .shared .align 16 .b8 a[128]; ld.param.u64 %rd2, [offset]; cvt.u32.u64 %r2, %rd2; mov.u32 %r1, 7;
  mov.u32 %r3, a; add.s32 %r3, %r3, %r2; st.shared.u32 [%r3], %r1; mov.u32 %r4, dynamic; st.shared.u32 [%r4], %r1;`,
      ".extern .shared .align 16 .b8 dynamic[];",
    ),
    kind: "out-of-bounds",
    says: /right past the end of the array a of 128 bytes in shared memory/,
    right: ({ launch }) => launch({ sharedMemoryBytes: 64 }, 124n),
    wrong: ({ launch }) => launch({ sharedMemoryBytes: 64 }, 128n),
  },
  {
    name: "shared memory in gangs",
    ptx: kernelOf(
      ".param .u32 shift",
      `  .shared .align 16 .b8 a[512]; .shared .align 16 .b8 b[512];
  ld.param.u32 %r2, [shift]; mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 2; mov.u32 %r4, b; add.s32 %r4, %r4, %r1;
  st.shared.u32 [%r4], %r1; add.s32 %r1, %r1, %r2; mov.u32 %r3, a; add.s32 %r3, %r3, %r1; st.shared.u32 [%r3], %r1;`,
    ),
    kind: "out-of-bounds",
    says: /thread \(127,0,0\) writes/,
    right: ({ launch }) => launch({ grid: 200, block: 128 }, 0),
    wrong: ({ launch }) => launch({ grid: 200, block: 128 }, 4),
  },
];

testPairs(pairs);

/** Programs that are right although they look like the wrong ones. */
const right: readonly { readonly name: string; readonly ptx: string; run(context: Context): void }[] = [
  {
    name: "a pointer to the end of a buffer, where another one begins",
    ptx: byStruct,
    run: (context) => context.launch({}, struct(twoBuffers(context, 512).y.address), -1n),
  },
  {
    name: "a pointer that is one of two",
    ptx: kernelOf(
      ".param .u64 x, .param .u64 y, .param .u32 which",
      `  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [which]; setp.ne.u32 %p1, %r1, 0;
  selp.b64 %rd3, %rd1, %rd2, %p1; st.global.u32 [%rd3+508], %r1;
  mov.u64 %rd4, %rd1; @%p1 mov.u64 %rd4, %rd2; st.global.u32 [%rd4+508], %r1;`,
    ),
    run: (context) => {
      const { x, y } = twoBuffers(context, 512);
      for (const which of [0, 1]) context.launch({}, x, y, which);
    },
  },
  {
    name: "the distance between two buffers",
    ptx: kernelOf(
      ".param .u64 x, .param .u64 y",
      `  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; sub.s64 %rd3, %rd2, %rd1; add.s64 %rd4, %rd1, %rd3;
  st.global.u32 [%rd4+508], %r1;`,
    ),
    run: (context) => {
      const { x, y } = twoBuffers(context, 512);
      context.launch({}, x, y);
    },
  },
  {
    name: "a pointer in memory",
    ptx: kernelOf(
      ".param .u64 table, .param .u64 offset",
      `  ld.param.u64 %rd1, [table]; ld.param.u64 %rd2, [offset]; ld.global.u64 %rd3, [%rd1+8];
  add.s64 %rd4, %rd3, %rd2; st.global.u32 [%rd4], %r1;`,
    ),
    run: (context) => {
      const { x, y } = twoBuffers(context, 512);
      x.copyFrom(new BigUint64Array([x.address, y.address]));
      context.launch({}, x, 508n);
    },
  },
  {
    name: "more parameters than have ranges",
    ptx: kernelOf(
      ".param .align 8 .b8 s[24000], .param .u64 x",
      `  .shared .align 4 .b8 a[1024]; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [s+23992]; mov.u32 %r1, a;
  ld.shared.u32 %r2, [%r1]; st.global.u32 [%rd1], %r2; st.global.u32 [%rd2], %r2;`,
    ),
    run: (context) => {
      const { x, y } = twoBuffers(context, 512);
      context.launch({}, new BigUint64Array(3000).fill(y.address), x);
    },
  },
  {
    name: "dynamic shared memory that the kernel divides itself",
    ptx: kernelOf(
      ".param .u32 bytes",
      `  ld.param.u32 %r1, [bytes]; mov.u32 %r2, dynamic; add.s32 %r3, %r2, %r1; st.shared.u32 [%r3], %r1;
  st.shared.u32 [%r2+124], %r1;`,
      ".extern .shared .align 16 .b8 dynamic[];",
    ),
    run: ({ launch }) => launch({ sharedMemoryBytes: 256 }, 252),
  },
  {
    name: "an allocator's memory after its part was freed and allocated again, larger",
    ptx: copy,
    run: ({ launch, pool, stream }) => {
      const allocator = pool.createCachingAllocator();
      const target = pool.allocate(8192, stream);
      for (const byteLength of [3500, 4000, 3000]) {
        const x = allocator.allocate(byteLength, stream);
        launch({ grid: 9, block: 128 }, x, target, byteLength / 4 - 1);
        x.free();
      }
    },
  },
  {
    name: "memory that is freed and allocated again before the kernels run",
    ptx: copy,
    run: ({ launch, pool, stream }: { pool: MemoryPool } & Context) => {
      const target = pool.allocate(8192, stream);
      for (const byteLength of [4096, 1000, 4096]) {
        const x = pool.allocate(byteLength, stream);
        launch({ grid: 9, block: 128 }, x, target, byteLength / 4 - 1);
        x.free();
      }
    },
  },
];

for (const { name, ptx, run } of right) {
  test(`${name}: silent`, () => assertEquals(reportsOf(ptx, run).map(({ message }) => message), []));
}
