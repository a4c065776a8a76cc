/** Rows about blocks that wait for other blocks, and about what a driver tells kernels for that. */
import { defaultStream, type Driver } from "../../../src/driver.ts";
import { readBytes } from "../launch.ts";
import type { Answer, Situation } from "../situation.ts";

const header = ".version 8.0\n.target sm_80\n.address_size 64\n";

/** The 32-bit numbers that a launch of blocks of 32 threads stores from `%to` on. */
function storedBy(
  driver: Driver,
  body: string,
  { count, grid = 1, cooperative = false }: { count: number; grid?: number; cooperative?: boolean },
): Answer {
  const ptx = `${header}
.visible .entry body(.param .u64 to) {
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>, %to;
  ld.param.u64 %to, [to];
  mov.u32 %r0, %ctaid.x;
  ${body}
  ret;
}
`;
  const to = driver.malloc(0, 4 * count);
  driver.memsetAsync(0, to, 0, 4 * count, defaultStream);
  const kernel = driver.moduleGetFunction(driver.moduleLoadData(0, ptx), "body");
  const launch = Object.assign(driver.createKernelLaunch(0, kernel, 8), { gridX: grid, blockX: 32 });
  launch.parameters.setBigUint64(0, to, true);
  const attributes = { clusterDim: undefined, programmaticStreamSerialization: false, priority: undefined };
  driver.launchKernelEx(launch, { ...attributes, cooperative });
  return [...new Uint32Array(Uint8Array.from(readBytes(driver, 0, to, 4 * count)).buffer)];
}

/** The rows of this file. */
export const situations: readonly Situation[] = [
  ...[false, true].map((cooperative): Situation => ({
    name: `${cooperative ? "a cooperative" : "an ordinary"} launch whose blocks each wait for the next one`,
    run({ driver }) {
      return storedBy(
        driver,
        `mul.wide.u32 %rd0, %r0, 4;
  add.u64 %to, %to, %rd0;
  mov.u32 %r1, 0;
  setp.eq.u32 %p0, %r0, 3;
WAIT:
  @!%p0 ld.acquire.gpu.u32 %r1, [%to+4];
  setp.eq.and.u32 %p1, %r1, 0, !%p0;
  @%p1 bra WAIT;
  add.u32 %r1, %r1, 1;
  st.release.gpu.u32 [%to], %r1;`,
        { count: 4, grid: 4, cooperative },
      );
    },
  })),
  ...[false, true].map((cooperative): Situation => ({
    name: `whether %envreg1 and %envreg2 give a workspace to ${cooperative ? "a cooperative" : "an ordinary"} launch`,
    run({ driver }) {
      // What `grid_group::is_valid()` of `cooperative_groups.h` asks.
      return storedBy(
        driver,
        `mov.u32 %r1, %envreg1;
  mov.u32 %r2, %envreg2;
  or.b32 %r3, %r1, %r2;
  setp.ne.u32 %p0, %r3, 0;
  @%p0 st.global.u32 [%to], 1;`,
        { count: 1, cooperative },
      );
    },
  })),
  {
    name: "the reserved shared memory: whether it has 288 bytes for libraries, and keeps what is stored there",
    run({ driver }) {
      // What `cooperative_groups/details/memory.h` relies on.
      return storedBy(
        driver,
        `mov.u32 %r1, %reserved_smem_offset_1;
  mov.u32 %r2, %reserved_smem_offset_end;
  mov.u32 %r3, %reserved_smem_offset_begin;
  mov.u32 %r4, %reserved_smem_offset_cap;
  sub.u32 %r5, %r2, %r1;
  setp.ge.u32 %p0, %r5, 288;
  sub.u32 %r5, %r2, %r3;
  setp.le.and.u32 %p0, %r5, %r4, %p0;
  @%p0 st.global.u32 [%to], 1;
  cvt.u64.u32 %rd0, %r1;
  cvta.shared.u64 %rd0, %rd0;
  st.u32 [%rd0+284], 77;
  ld.shared.u32 %r6, [%r1+284];
  st.global.u32 [%to+4], %r6;`,
        { count: 2 },
      );
    },
  },
];
