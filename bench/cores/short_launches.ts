/**
 * Launches that are too short for several threads, which must cost no more than on one.
 *
 * @module
 */
import type { CudaDevice } from "../../mod.ts";

/** Launches of a kernel that are timed together. */
export interface ShortLaunches {
  readonly name: string;
  readonly blocks: number;
  /** The numbers that each of the 64 threads of a block calculates. */
  readonly steps: number;
  /** The number of launches in a row, each of which is waited for. */
  readonly count: number;
  /** Whether only the last launch is waited for. */
  readonly isPipelined?: boolean;
}

/** All of them, in the order of the table. */
export const shortLaunches: readonly ShortLaunches[] = [
  { name: "empty launch and synchronize", blocks: 1, steps: 0, count: 20_000 },
  { name: "1000 empty launches, then synchronize", blocks: 1, steps: 0, count: 20_000, isPipelined: true },
  { name: "launch of one block and synchronize", blocks: 1, steps: 400, count: 1000 },
  { name: "launch of 16 blocks and synchronize", blocks: 16, steps: 25, count: 1000 },
];

const pipelined = 1000;

const ptx = `.version 7.0
.target sm_70
.address_size 64
.visible .entry calculate(.param .u64 out, .param .u32 steps) {
.reg .pred %p<2>;
.reg .u32 %r<12>;
.reg .u64 %rd<4>;
ld.param.u64 %rd0, [out];
ld.param.u32 %r0, [steps];
setp.eq.u32 %p0, %r0, 0;
@%p0 bra END;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, %tid.x;
mad.lo.u32 %r4, %r1, %r2, %r3;
mul.wide.u32 %rd1, %r4, 4;
add.u64 %rd2, %rd0, %rd1;
add.u32 %r5, %r4, 1;
mov.u32 %r6, 0;
LOOP: shl.b32 %r7, %r5, 13;
xor.b32 %r5, %r5, %r7;
shr.u32 %r7, %r5, 17;
xor.b32 %r5, %r5, %r7;
shl.b32 %r7, %r5, 5;
xor.b32 %r5, %r5, %r7;
add.u32 %r6, %r6, 1;
setp.lt.u32 %p1, %r6, %r0;
@%p1 bra LOOP;
st.global.u32 [%rd2], %r5;
END: ret;
}`;

/** Short launches that are ready to run on a device. */
export interface PreparedLaunches extends Disposable {
  /** Runs all launches. Returns the milliseconds that one of them took on average. */
  run(): number;
}

/** Loads the kernel. */
export function prepareLaunches(
  device: CudaDevice,
  { blocks, steps, count, isPipelined = false }: ShortLaunches,
): PreparedLaunches {
  const owned = new DisposableStack();
  const kernel = owned.use(device.loadModule(ptx)).kernel("calculate");
  const stream = owned.use(device.createStream());
  const pool = owned.use(device.createPool());
  const buffer = owned.use(pool.allocate(4 * 64 * blocks, stream));
  const options = { grid: blocks, block: 64, stream };
  return {
    run() {
      const start = performance.now();
      for (let done = 0; done < count;) {
        kernel.launch(options, buffer, steps);
        if (++done % pipelined === 0 || !isPipelined) stream.synchronize();
      }
      return (performance.now() - start) / count;
    },
    [Symbol.dispose]: () => owned.dispose(),
  };
}
