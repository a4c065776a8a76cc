/**
 * What is reported where launches are not observed because it is known what they access, and where they all are.
 */
import { assert, assertEquals } from "@std/assert";
import type { Cuda, CudaStream, DeviceBuffer } from "../../../mod.ts";
import { Random } from "../../differential/random.ts";
import { isLong, test } from "../../support/test.ts";
import { assertSameReports } from "./same_reports.ts";
import { kernelOf } from "../memory/programs.ts";
import { bufferBytes, randomLaunch } from "./random_kernels.ts";

/** Each thread from one of them on stores to a word, and loads the next one. */
const shifting = kernelOf(
  ".param .u64 x, .param .u64 y, .param .u32 from",
  `  ld.param.u64 %rd1, [x]; ld.param.u64 %rd3, [y]; ld.param.u32 %r7, [from];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
  mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; add.s64 %rd3, %rd3, %rd2;
  setp.lt.u32 %p1, %r1, %r7; @%p1 bra END;
  ld.global.u32 %r4, [%rd3+4];
  ld.global.u32 %r5, [%rd1];
  st.global.u32 [%rd1], %r4;
END:`,
  ".visible .global .align 4 .b8 variable[1024];",
);

interface Place {
  readonly cuda: Cuda;
  readonly x: DeviceBuffer;
  readonly y: DeviceBuffer;
  readonly a: CudaStream;
  readonly b: CudaStream;
  readonly launch: (stream: CudaStream, x: bigint, y: bigint, from?: number) => void;
  readonly variable: DeviceBuffer["address"];
}

const programs: Readonly<Record<string, { readonly known: number; readonly run: (place: Place) => void }>> = {
  "that are known": {
    known: 2,
    run({ x, y, a, b, launch }) {
      launch(a, x.address, y.address, 40);
      launch(b, y.address, x.address);
    },
  },
  "that change while they wait": {
    known: 3,
    run({ x, y, a, b, launch }) {
      for (const from of [3, 20, 41]) launch(from === 20 ? b : a, x.address, y.address, from);
    },
  },
  "to the same memory": {
    known: 0,
    run({ x, a, b, launch }) {
      launch(a, x.address, x.address);
      launch(b, x.address + 8n, x.address);
    },
  },
  "outside of a buffer": {
    known: 2,
    run({ x, y, a, b, launch }) {
      launch(a, x.address, y.address);
      launch(b, y.address + 512n, x.address);
    },
  },
  "to memory that was freed": {
    known: 2,
    run({ x, y, a, b, launch }) {
      launch(a, y.address, x.address, 9);
      const { address } = x;
      x.free();
      launch(b, address, y.address);
    },
  },
  "that are not aligned": {
    known: 0,
    run({ x, y, a, b, launch }) {
      launch(a, x.address + 2n, y.address);
      y.fill(0, b);
    },
  },
  "to variables": {
    known: 2,
    run({ x, a, b, launch, variable }) {
      launch(a, variable, x.address);
      launch(b, x.address, variable);
    },
  },
};

for (const [name, { known, run }] of Object.entries(programs)) {
  test(`the reports of accesses ${name} are those of observed ones`, () => {
    const found = assertSameReports((cuda) => {
      const gpu = cuda.device(0);
      const [a, b] = [gpu.createStream({ nonBlocking: true }), gpu.createStream({ nonBlocking: true })];
      const [x, y] = [gpu.allocate(1024), gpu.allocate(1024)];
      const module = gpu.loadModule(shifting);
      const kernel = module.kernel("kernel");
      const variable = module.getGlobal("variable").address;
      gpu.synchronize();
      const launch: Place["launch"] = (stream, x, y, from = 0) =>
        kernel.launch({ grid: 4, block: 32, stream }, x, y, from);
      run({ cuda, x, y, a, b, launch, variable });
    }, name);
    assertEquals(found.known, known);
  });
}

test("the reports of random kernels are the same whether their accesses are known or observed", () => {
  let known = 0, reports = 0;
  for (let seed = 0; seed < (isLong ? 500 : 2); seed++) {
    const found = assertSameReports(
      (cuda) => {
        const random = new Random(seed);
        const gpu = cuda.device(0);
        const streams = [0, 1].map(() => gpu.createStream({ nonBlocking: true }));
        const buffers = [0, 1, 2].map(() => gpu.allocate(2 * bufferBytes));
        for (const buffer of buffers) buffer.fill(0);
        gpu.synchronize();
        for (let count = 0; count < 6; count++) {
          const { ptx, grid, block, n } = randomLaunch(random);
          const [a, b] = [0, 1].map(() => {
            const shift = random.below(4) > 0 ? 0 : [16, 64, 272, 4096][random.below(4)]!;
            return buffers[random.below(3)]!.address + BigInt(bufferBytes + shift);
          });
          const stream = streams[random.below(2)]!;
          gpu.loadModule(ptx).kernel("kernel").launch({ grid, block, stream }, a!, b!, n);
        }
      },
      `seed ${seed}`,
      { runsAtOnce: true },
    );
    known += found.known;
    reports += found.reports.length;
  }
  assert(known > 3 && reports > 3, `${known} known launches, ${reports} reports`);
});
