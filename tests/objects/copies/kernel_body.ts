/**
 * Runs bodies of kernels that show what a device does, and the parts that they have in common.
 *
 * @module
 */
import type { CudaDevice } from "../../../mod.ts";

/** What a device shows, by the name of the case. Each function returns what the device has written, or throws. */
export type Cases = Readonly<Record<string, (gpu: CudaDevice) => string>>;

/** Special numbers, as the bits of 32-bit floats. */
export const floats: Uint32Array<ArrayBuffer> = Uint32Array.of(
  ...[0, 0x8000_0000, 1, 0x8000_0001, 0x007f_ffff, 0x0080_0000, 0x3f80_0000, 0x3f80_0fff, 0x3f80_1000, 0x3f80_1001],
  ...[
    0x3f80_2fff,
    0x3f80_3000,
    0x7f7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0001,
    0x7f80_0001,
    0xffff_ffff,
    0x4049_0fdb,
  ],
  ...[0x1234_5678, 0xbf7f_ffff, 0x0000_1000, 0x7f7f_efff, 0x7f7f_f000],
);

/** Runs a body in which \`%r1\` is the address of 1024 bytes of shared memory and \`%rd1\` of 1024 bytes of global memory. */
export function run(
  gpu: CudaDevice,
  body: string,
  { grid = 1, block = 1, cluster, sharedMemoryBytes = 0 }: {
    grid?: number;
    block?: number;
    cluster?: number | undefined;
    sharedMemoryBytes?: number;
  } = {},
): string {
  const pool = gpu.createPool();
  const memory = pool.allocate(1024);
  memory.fill(0);
  const module = gpu.loadModule(`.version 8.6
.target sm_90a
.address_size 64
.visible .entry test(.param .u64 out, .param .align 64 .b8 map[128]) {
  .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<10>; .reg .b16 %h<4>;
  .shared .align 1024 .b8 sm[1024]; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [out]; mov.u32 %r1, sm; mov.u32 %r2, bar; mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2;
  mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
  mov.u32 %r3, %cluster_ctarank; mov.u32 %r4, 24; mov.u32 %r5, 0;
  ${body}
  ret;
}`);
  const map = gpu.createTensorMap(memory, { shape: [16, 16], box: [4, 4], dtype: "uint32" });
  module.kernel("test").launch(
    { grid, block, sharedMemoryBytes, ...(cluster === undefined ? {} : { cluster }) },
    memory,
    map,
  );
  return memory.readSync(Uint8Array).slice(0, 128).toHex();
}

/** Copies a box of two dimensions to shared memory. */
export const boxToShared: string = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes";
/** Waits for 64 bytes at the barrier for a time, and stores 0xdead if they do not come. */
export const waitFor: string = `mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64; mov.u32 %r9, 0;
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @%p1 bra DONE;
  add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 100000; @%p1 bra WAIT; st.global.u32 [%rd1], 0xdead; DONE:`;
