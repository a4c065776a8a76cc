/**
 * What a device makes of bulk copies and of `cp.async`.
 *
 * @module
 */
import type { CudaDevice } from "../../../mod.ts";
import { boxToShared, type Cases, floats, run, waitFor } from "./kernel_body.ts";

const toShared = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
const toGlobal = "cp.async.bulk.global.shared::cta.bulk_group";
const commit = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;";

/** Bulk copies that are wrong, reductions, and copies of some bytes. */
export const bulkCases: Cases = {
  "fault: misaligned in shared memory": (gpu) => run(gpu, `${toShared} [%r1+8], [%rd1], 64, [bar]; ${waitFor}`),
  "fault: misaligned in global memory": (gpu) => run(gpu, `${toShared} [%r1], [%rd1+8], 64, [bar]; ${waitFor}`),
  "fault: a size of 24": (gpu) => run(gpu, `${toShared} [%r1], [%rd1], %r4, [bar]; ${waitFor}`),
  "fault: a size of 0": (gpu) => run(gpu, `${toShared} [%r1], [%rd1+4], %r5, [bar]; st.global.u32 [%rd1], 1;`),
  "fault: outside of shared memory": (gpu) => run(gpu, `${toShared} [%r1+0x80000], [%rd1], 64, [bar]; ${waitFor}`),
  "fault: outside of global memory": (gpu) => run(gpu, `${toShared} [%r1], [%rd1+0x4000000000], 64, [bar]; ${waitFor}`),
  "fault: another block than the cluster has": (gpu) =>
    run(gpu, `mapa.shared::cluster.u32 %r6, %r1, 5; ${toShared} [%r6], [%rd1], 64, [%r2]; ${waitFor}`),
  "fault: a store outside of global memory": (gpu) => run(gpu, `${toGlobal} [%rd1+0x4000000000], [%r1], 64; ${commit}`),
  ...Object.fromEntries(
    [undefined, 1, 2].flatMap((cluster) =>
      Object.entries({
        "a copy": `cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r1+64], 64, [%r2];`,
        "a reduction":
          `cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r1], [%r1+64], 64, [%r2];`,
        "st.async": `st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r1], %r4, [%r2];`,
        "a copy to global memory with a hint":
          `mov.u32 %r4, 77; st.shared.v4.u32 [%r1+64], {%r4, %r5, %r5, %r5}; fence.proxy.async;
          createpolicy.fractional.L2::evict_first.b64 %rd4;
          cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%rd1+16], [%r1+64], 16, %rd4;
          cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;`,
      }).map(([name, body]) => [
        `fault: ${name} of the block itself, cluster ${cluster}`,
        (gpu: CudaDevice) =>
          run(gpu, `mov.u32 %r8, 5; st.shared.u32 [%r1+64], %r8; fence.proxy.async; ${body} ${waitFor}`, {
            grid: cluster ?? 1,
            cluster,
          }),
      ])
    ),
  ),
  "fault: no tensor map": (gpu) => run(gpu, `${boxToShared} [%r1], [%rd1, {%r5, %r5}], [bar]; ${waitFor}`),
  "fault: a tensor map of other dimensions": (gpu) =>
    run(gpu, `${boxToShared.replace("2d", "3d")} [%r1], [%rd2, {%r5, %r5, %r5}], [bar]; ${waitFor}`),
  "fault: a box misaligned in shared memory": (gpu) =>
    run(gpu, `${boxToShared} [%r1+16], [%rd2, {%r5, %r5}], [bar]; ${waitFor}`),
  "fault: a box in the mode im2col of a tiled map": (gpu) =>
    run(
      gpu,
      `mov.u16 %h1, 0; ${boxToShared.replace("2d", "3d").replace("global", "global.im2col")} [%r1], ` +
        `[%rd2, {%r5, %r5, %r5}], [bar], {%h1}; ${waitFor}`,
    ),
  ...Object.fromEntries(
    ([[4, 8], [8, 16], [16, 32]] as const).flatMap(([bytes, most]) =>
      Array.from({ length: most / bytes * 4 + 2 }, (_, index) => bytes === 16 ? index * 3 : index).map((size) => [
        `copy of ${size} of ${bytes} bytes by cp.async`,
        (gpu: CudaDevice) =>
          run(
            gpu,
            `mov.b64 %rd9, 0x0807060504030201; st.global.u64 [%rd1+64], %rd9; st.global.u64 [%rd1+72], %rd9;
             st.global.u64 [%rd1+80], %rd9; mov.b64 %rd9, -1; st.shared.u64 [sm], %rd9; st.shared.u64 [sm+8], %rd9;
             mov.u32 %r9, ${size}; cp.async.ca.shared.global [%r1], [%rd1+64], ${bytes}, %r9; cp.async.wait_all;
             ld.shared.u64 %rd9, [sm]; st.global.u64 [%rd1], %rd9; ld.shared.u64 %rd9, [sm+8]; st.global.u64 [%rd1+8], %rd9;`,
          ).slice(0, 32),
      ])
    ),
  ),
  ...Object.fromEntries(
    ([
      ...["u32", "s32", "u64"].map((type) => ["add", type]),
      ...["u32", "s32", "u64", "s64", "f16", "bf16"].flatMap((type) => [["min", type], ["max", type]]),
      ...["b32", "b64"].flatMap((type) => [["and", type], ["or", type], ["xor", type]]),
      ...[["inc", "u32"], ["dec", "u32"], ["add.noftz", "f16"], ["add.noftz", "bf16"], ["add", "f32"], ["add", "f64"]],
    ] as const).map(([operation, type]) => [
      `bulk reduction ${operation}.${type}`,
      (gpu: CudaDevice) =>
        run(
          gpu,
          `${
            [...floats.subarray(0, 16)].map((bits, index) =>
              `mov.b32 %r9, ${bits}; st.shared.u32 [sm+${4 * index}], %r9; mov.b32 %r9, ${
                floats[(index * 5 + 3) % floats.length]
              };
               st.global.u32 [%rd1+${4 * index}], %r9;`
            ).join("\n")
          }
           fence.proxy.async;
           cp.reduce.async.bulk.global.shared::cta.bulk_group.${operation}.${type} [%rd1], [sm], 64;
           cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;`,
        ).slice(0, 128),
    ]),
  ),
};
