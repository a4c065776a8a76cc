/**
 * What a device makes of the shared memory of a cluster's blocks.
 *
 * @module
 */
import type { CudaDevice } from "../../../mod.ts";
import { boxToShared, type Cases, run, waitFor } from "./kernel_body.ts";

/**
 * Lets 256 threads of two blocks update 8 bytes of shared memory, of the first block's or, for each thread, of the other
 * block's, and returns what is there.
 */
function updated(gpu: CudaDevice, operation: string, where: number): string {
  const type = operation.split(".").at(-1)!;
  const wide = type.endsWith("64");
  const [register, size] = ({ f32: ["%f", 32], f64: ["%fd", 64] } as const)[type as "f32"] ??
    (wide ? ["%rd", 64] : ["%r", 32]);
  const initial = operation.startsWith("min") || operation.startsWith("and") ? "-1" : "0";
  // The factors make bits of both halves change.
  const value = `${register}5`;
  const given = ({
    f32: "cvt.rn.f32.u32 %f5, %r5;",
    f64: "cvt.rn.f64.u32 %fd5, %r5;",
    f16x2: "mov.u32 %r5, 0x3c003c00;",
  } as const)[type as "f32"] ?? (wide ? "mul.lo.u64 %rd5, %rd5, 0x100000001;" : "");
  const bits = operation.startsWith("and") || operation.startsWith("or")
    ? wide
      ? "and.b32 %r6, %r5, 63; mov.u64 %rd5, 1; shl.b64 %rd5, %rd5, %r6;" +
        (operation.startsWith("and") ? " not.b64 %rd5, %rd5;" : "")
      : ""
    : given;
  const minimum = operation.startsWith("min") ? "sub.u64 %rd5, 100000, %rd5;" : "";
  const extra = operation.startsWith("cas") ? `, ${value}` : "";
  const old = operation.startsWith("cas") ? `${register}6` : value;
  const repeated = operation.startsWith("cas")
    ? `AGAIN: add.u${size} ${value}, ${register}6, 1; mov.b${size} ${register}7, ${register}6;
       atom.relaxed.cluster.shared::cluster.${operation} ${register}6, [%r10], ${register}7${extra};
       setp.ne.b${size} %p1, ${register}6, ${register}7; @%p1 bra AGAIN;`
    : `atom.relaxed.cluster.shared::cluster.${operation} ${register}7, [%r10], ${old};`;
  return run(
    gpu,
    `.shared .align 8 .b64 large; .reg .f32 %f<9>; .reg .f64 %fd<9>;
     mov.u64 %rd3, ${initial}; st.shared.u64 [large], %rd3;
     mov.u32 %r5, %tid.x; mov.u32 %r6, %ntid.x; mad.lo.u32 %r5, %r3, %r6, %r5; add.u32 %r5, %r5, 1; cvt.u64.u32 %rd5, %r5;
     ${bits} ${minimum} mov.b64 %rd6, 0; mov.b32 %r6, 0;
     mov.u32 %r10, large; ${
      where === 0 ? "mov.u32 %r11, 0;" : "xor.b32 %r11, %r3, 1;"
    } mapa.shared::cluster.u32 %r10, %r10, %r11;
     barrier.cluster.arrive; barrier.cluster.wait;
     ${repeated}
     barrier.cluster.arrive; barrier.cluster.wait;
     mov.u32 %r11, %tid.x; setp.ne.u32 %p2, %r11, 0; mul.wide.u32 %rd8, %r3, 8; add.u64 %rd8, %rd1, %rd8;
     @%p2 bra END; ld.shared.u64 %rd9, [large]; st.global.u64 [%rd8], %rd9;
     END: barrier.cluster.arrive; barrier.cluster.wait;`,
    { grid: 2, block: 128, cluster: 2 },
  ).slice(0, 32);
}

/**
 * Sends 64 bytes from the last block to others of its cluster, at an offset in their shared memory, and returns the
 * first and the last 8 bytes that each block has.
 */
function sent(gpu: CudaDevice, mask: number, what: string): string {
  const copy = what === "bytes"
    ? `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
       [%r1+128], [%rd1+512], 64, [%r2], %h1;`
    : `${boxToShared}.multicast::cluster [%r1+128], [%rd2, {%r7, %r8}], [%r2], %h1;`;
  return run(
    gpu,
    `mov.u32 %r7, 4; mov.u32 %r8, ${what === "a box" ? 8 : 14}; mov.u16 %h1, ${mask}; mov.b64 %rd9, -1;
     st.shared.u64 [sm+128], %rd9; st.shared.u64 [sm+184], %rd9; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64; setp.ne.u32 %p2, %r3, 3;
     mov.u32 %r9, 256;
     NUMBERS: @%p2 bra NUMBERED; cvt.u64.u32 %rd3, %r9; add.u64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], %r9;
     add.u32 %r9, %r9, 4; setp.lt.u32 %p1, %r9, 1024; @%p1 bra NUMBERS;
     NUMBERED: fence.proxy.async; barrier.cluster.arrive; barrier.cluster.wait;
     @%p2 bra SENT; ${copy}
     SENT: mov.u32 %r9, ${mask}; shr.u32 %r9, %r9, %r3; and.b32 %r9, %r9, 1; setp.eq.u32 %p3, %r9, 0; @%p3 bra SHOW;
     COMING: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra COMING;
     SHOW: ld.shared.u64 %rd3, [sm+128]; ld.shared.u64 %rd4, [sm+184]; mul.wide.u32 %rd5, %r3, 16; add.u64 %rd5, %rd1, %rd5;
     st.global.u64 [%rd5], %rd3; st.global.u64 [%rd5+8], %rd4; barrier.cluster.arrive; barrier.cluster.wait;`,
    { grid: 4, cluster: 4 },
  );
}

/** Addresses, atomic operations and wrong accesses. */
export const clusterCases: Cases = {
  "addresses of a cluster": (gpu) =>
    run(
      gpu,
      `mul.wide.u32 %rd3, %r3, 32; add.u64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], %r1;
       mapa.shared::cluster.u32 %r6, %r1, %r3; st.global.u32 [%rd3+4], %r6;
       mapa.shared::cluster.u32 %r6, %r1, 0; st.global.u32 [%rd3+8], %r6;
       mapa.shared::cluster.u32 %r6, %r1, 1; st.global.u32 [%rd3+12], %r6;
       getctarank.shared::cluster.u32 %r6, %r1; st.global.u32 [%rd3+16], %r6;`,
      { grid: 2, cluster: 2 },
    ),
  ...Object.fromEntries(
    [0b1111, 0b1011, 0b0100, 0b0001].flatMap((mask) =>
      ["a box", "a box at the end", "bytes"].map((what) => [
        `multicast of ${what} to the blocks ${mask.toString(2)}`,
        (gpu: CudaDevice) => sent(gpu, mask, what),
      ])
    ),
  ),
  "an address of another block that was stored": (gpu) =>
    run(
      gpu,
      `st.shared.u32 [sm+64], %r3; st.shared.u32 [sm], %r1; barrier.cluster.arrive; barrier.cluster.wait;
       xor.b32 %r6, %r3, 1; mapa.shared::cluster.u32 %r6, %r1, %r6; ld.shared::cluster.u32 %r7, [%r6];
       ld.shared::cluster.u32 %r8, [%r7+64]; mul.wide.u32 %rd3, %r3, 4; add.u64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], %r8;
       barrier.cluster.arrive; barrier.cluster.wait;`,
      { grid: 2, cluster: 2 },
    ),
  ...Object.fromEntries(
    [0, 1].flatMap((where) =>
      [
        ...[
          "add.u32",
          "max.u32",
          "add.u64",
          "min.u64",
          "min.s64",
          "max.u64",
          "max.s64",
          "and.b64",
          "or.b64",
          "xor.b64",
        ],
        ...["cas.b64", "add.f32", "add.f64", "add.noftz.f16x2", "cas.b32"],
      ].map((operation) => [
        `atomic ${operation} in ${where === 0 ? "the first block" : "another block"}`,
        (gpu: CudaDevice) => updated(gpu, operation, where),
      ])
    ),
  ),
  ...Object.fromEntries(
    Object.entries({
      "a load of a block that the cluster does not have":
        "mapa.shared::cluster.u32 %r6, %r1, 5; ld.shared::cluster.u32 %r7, [%r6]; st.global.u32 [%rd1], %r7;",
      "a store to a block that the cluster does not have":
        "mapa.shared::cluster.u32 %r6, %r1, 5; st.shared::cluster.u32 [%r6], %r4; st.global.u32 [%rd1], 1;",
      "an atomic operation on a block that the cluster does not have":
        "mapa.shared::cluster.u32 %r6, %r1, 5; atom.shared::cluster.add.u32 %r7, [%r6], 1; st.global.u32 [%rd1], %r7;",
      "an arrival at a block that the cluster does not have":
        "mapa.shared::cluster.u32 %r6, %r2, 5; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6]; st.global.u32 [%rd1], 1;",
      "a generic load of a block that the cluster does not have":
        "mov.u64 %rd3, sm; cvta.shared.u64 %rd3, %rd3; mapa.u64 %rd3, %rd3, 5; ld.u32 %r7, [%rd3]; st.global.u32 [%rd1], %r7;",
      "a misaligned load of another block":
        "mapa.shared::cluster.u32 %r6, %r1, 1; ld.shared::cluster.u32 %r7, [%r6+2]; st.global.u32 [%rd1], %r7;",
      "a load beyond the memory of another block":
        "mapa.shared::cluster.u32 %r6, %r1, 1; ld.shared::cluster.u32 %r7, [%r6+0x80000]; st.global.u32 [%rd1], %r7;",
      "a misaligned barrier": "mbarrier.arrive.shared.b64 _, [%r2+4]; st.global.u32 [%rd1], 1;",
      "a barrier that nobody has initialized":
        "st.shared.u64 [sm], 0; mbarrier.arrive.shared.b64 _, [sm]; st.global.u32 [%rd1], 1;",
      "a bulk reduction that is misaligned":
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u64 [%rd1+8], [%r1], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
      "a tensor map at a multiple of 32":
        `add.u64 %rd3, %rd2, 32; ${boxToShared} [%r1], [%rd3, {%r5, %r5}], [bar]; ${waitFor}`,
    }).map(([name, body]) => [
      `fault: ${name}`,
      (gpu: CudaDevice) =>
        run(gpu, `${body} barrier.cluster.arrive; barrier.cluster.wait;`, { grid: 2, cluster: 2 }).slice(0, 16),
    ]),
  ),
};
