/**
 * Kernels whose addresses depend on memory: what they may do is reported only if that is asked for.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import type { CudaStream, DeviceBuffer, SanitizerReport } from "../../../mod.ts";
import { test } from "../../support/test.ts";
import { openUnobserved, type UnobservedOptions } from "./unobserved_cuda.ts";

/** `output[index[thread]] = 0`, and `sum += input[index[thread]]` */
const ptx = `.version 7.0
.target sm_60
.address_size 64
.visible .entry scatter(.param .u64 index, .param .u64 output) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [index];
  ld.param.u64 %rd2, [output];
  mov.u32 %r1, %tid.x;
  mad.wide.u32 %rd1, %r1, 4, %rd1;
  ld.global.u32 %r1, [%rd1];
  mad.wide.u32 %rd2, %r1, 4, %rd2;
  st.global.u32 [%rd2], 0;
  ret;
}
.visible .entry gather(.param .u64 index, .param .u64 input, .param .u64 sum) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [index];
  ld.param.u64 %rd2, [input];
  ld.param.u64 %rd3, [sum];
  mov.u32 %r1, %tid.x;
  mad.wide.u32 %rd1, %r1, 4, %rd1;
  ld.global.u32 %r1, [%rd1];
  mad.wide.u32 %rd2, %r1, 4, %rd2;
  ld.global.u32 %r1, [%rd2];
  red.global.add.u32 [%rd3], %r1;
  ret;
}`;

interface Context {
  readonly streams: readonly [CudaStream, CudaStream];
  readonly buffers: readonly [DeviceBuffer, DeviceBuffer, DeviceBuffer];
  scatter(stream: CudaStream, index: DeviceBuffer, output: DeviceBuffer): void;
  gather(stream: CudaStream, index: DeviceBuffer, input: DeviceBuffer, sum: DeviceBuffer): void;
}

function reportsOf(
  options: UnobservedOptions,
  isOrdered: boolean,
  program: (context: Context, order: () => void) => void,
) {
  const reports: SanitizerReport[] = [];
  {
    using cuda = openUnobserved((report) => reports.push(report), options);
    const gpu = cuda.device(0);
    const streams = [0, 1].map(() => gpu.createStream({ nonBlocking: true })) as [CudaStream, CudaStream];
    using pool = gpu.createPool();
    const buffers = [0, 1, 2].map(() => pool.allocate(256)) as [DeviceBuffer, DeviceBuffer, DeviceBuffer];
    for (const buffer of buffers) buffer.fill(0);
    const module = gpu.loadModule(ptx);
    const [scatter, gather] = ["scatter", "gather"].map((name) => module.kernel(name));
    gpu.synchronize();
    const context: Context = {
      streams,
      buffers,
      scatter: (stream, index, output) =>
        scatter!.launch({ grid: 1, block: 32, stream }, index.address, output.address),
      gather: (stream, index, input, sum) =>
        gather!.launch({ grid: 1, block: 32, stream }, index.address, input.address, sum.address),
    };
    program(context, () => {
      if (isOrdered) streams[0].synchronize();
    });
    gpu.synchronize();
    for (const buffer of buffers) buffer[Symbol.dispose]();
  }
  return reports;
}

/** What each program may do wrong, and what it does wrong for sure. */
const programs: readonly (readonly [
  name: string,
  program: (context: Context, order: () => void) => void,
  possible: readonly string[],
  certain?: readonly string[],
])[] = [
  [
    "a copy and a scattered write",
    ({ streams: [a, b], buffers: [index, x, y], scatter }, order) => {
      x.copyFrom(y, a);
      order();
      scatter(b, index, x);
    },
    ["possible-unordered-write-write"],
  ],
  [
    "a scattered write and a copy",
    ({ streams: [a, b], buffers: [index, x, y], scatter }, order) => {
      scatter(a, index, x);
      order();
      y.copyFrom(x, b);
    },
    ["possible-unordered-write-read"],
  ],
  [
    "two scattered writes",
    ({ streams: [a, b], buffers: [index, x], scatter }, order) => {
      scatter(a, index, x);
      order();
      scatter(b, index, x);
    },
    ["possible-unordered-write-write"],
  ],
  [
    "a scattered write and a free",
    ({ streams: [a, b], buffers: [index, x], scatter }, order) => {
      scatter(a, index, x);
      order();
      x.free(b);
    },
    ["possible-use-after-free"],
  ],
  [
    "a gathering read and a scattered write",
    ({ streams: [a, b], buffers: [index, x, y], scatter, gather }, order) => {
      gather(a, index, x, y);
      order();
      scatter(b, index, x);
    },
    ["possible-unordered-read-write"],
  ],
  [
    "two gathering reads, which add atomically",
    ({ streams: [a, b], buffers: [index, x, y], gather }, order) => {
      gather(a, index, x, y);
      order();
      gather(b, index, x, y);
    },
    [],
  ],
  [
    "a fill and a read of the index, which is certain",
    ({ streams: [a, b], buffers: [index, x], scatter }, order) => {
      index.fill(0, a);
      order();
      scatter(b, index, x);
    },
    [],
    ["unordered-write-read"],
  ],
];

for (const [name, program, possible, certain = []] of programs) {
  test(`${name} on two streams: what may be wrong is reported if that is asked for`, () => {
    const kindsOf = (options: UnobservedOptions, isOrdered: boolean) =>
      // The kernel runs before the memory is freed: else it stops there.
      reportsOf({ softwareSchedule: "oldest", ...options }, isOrdered, program).map(({ kind }) => kind);
    assertEquals(kindsOf({ withPossible: true }, false), [...certain, ...possible]);
    assertEquals(kindsOf({}, false), certain);
    assertEquals(kindsOf({ withPossible: true }, true), []);
  });

  test(`${name} on two streams: what is wrong is reported if the kernels note what they access`, () => {
    const kindsOf = (isOrdered: boolean) =>
      // The kernel runs before the memory is freed: else it stops there.
      reportsOf({ instruments: true, softwareSchedule: "oldest" }, isOrdered, program).map(({ kind }) => kind);
    // The index is 0 everywhere.
    assertEquals(kindsOf(false), [...certain, ...possible.map((kind) => kind.replace("possible-", ""))]);
    assertEquals(kindsOf(true), []);
  });
}

test("a report of what a kernel has noted names the line, and the bytes", () => {
  const [report] = reportsOf({ instruments: true }, false, programs[1]![1]);
  assertEquals(report!.accesses[1]!.source, "PTX line 13");
  assertStringIncludes(report!.message, "bytes 0 to 3 of a buffer of 256 bytes");
});

test("a report of what may be wrong says so, and names the line", () => {
  const [report] = reportsOf({ withPossible: true }, false, programs[1]![1]);
  const { message, accesses } = report!;
  assertEquals(accesses[1]!.source, "PTX line 13");
  assertStringIncludes(
    message,
    "The read of copy and a possible write of kernel scatter may happen in either order, or at once.",
  );
});
