/**
 * What a device has in special registers, and how kernels end.
 *
 * @module
 */
import type { CudaDevice } from "../../../mod.ts";
import { type Cases, run } from "./kernel_body.ts";

/** Special registers with and without clusters, and instructions that end a thread. */
export const registerCases: Cases = {
  ...Object.fromEntries(
    [undefined, 2].flatMap((cluster) =>
      [
        ...["%aggr_smem_size", "%total_smem_size", "%dynamic_smem_size", "%cluster_ctarank", "%cluster_nctarank"],
        ...["%cluster_ctaid.w", "%cluster_nctaid.w", "%clusterid.w", "%nclusterid.w", "%clusterid.x", "%nclusterid.x"],
        ...["%reserved_smem_offset_begin", "%reserved_smem_offset_end", "%reserved_smem_offset_cap"],
        ...["%reserved_smem_offset_0", "%reserved_smem_offset_1", "%tid.w", "%ntid.w", "%ctaid.w", "%nctaid.w"],
        ...["%pm0", "%envreg0", "%envreg31", "%nwarpid", "%nsmid"],
      ].map((register) => [
        `register ${register}, cluster ${cluster}`,
        (gpu: CudaDevice) =>
          run(gpu, `mov.u32 %r9, ${register}; st.global.u32 [%rd1], %r9;`, {
            grid: cluster ?? 1,
            cluster,
            sharedMemoryBytes: 256,
          }),
      ]).concat([
        [
          `register %is_explicit_cluster, cluster ${cluster}`,
          (gpu: CudaDevice) =>
            run(gpu, "mov.pred %p1, %is_explicit_cluster; selp.u32 %r9, 1, 0, %p1; st.global.u32 [%rd1], %r9;", {
              grid: cluster ?? 1,
              cluster,
            }),
        ],
        [
          `register %current_graph_exec, cluster ${cluster}`,
          (gpu: CudaDevice) =>
            run(gpu, "mov.u64 %rd9, %current_graph_exec; st.global.u64 [%rd1], %rd9;", { grid: cluster ?? 1, cluster }),
        ],
      ])
    ),
  ),
  ...Object.fromEntries(
    [0, 1, 100, 128, 200, 1000].flatMap((sharedMemoryBytes) =>
      ["%aggr_smem_size", "%total_smem_size", "%dynamic_smem_size"].map((register) => [
        `register ${register}, ${sharedMemoryBytes} dynamic bytes`,
        (gpu: CudaDevice) => run(gpu, `mov.u32 %r9, ${register}; st.global.u32 [%rd1], %r9;`, { sharedMemoryBytes }),
      ])
    ),
  ),
  ...Object.fromEntries(
    ["brkpt", "trap", "exit", "setp.ne.u32 %p1, %r5, 0; @%p1 brkpt"].map((instruction) => [
      `ending: ${instruction}`,
      (gpu: CudaDevice) => run(gpu, `st.global.u32 [%rd1], 7; ${instruction}; st.global.u32 [%rd1+4], 8;`),
    ]),
  ),
};
