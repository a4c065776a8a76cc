/**
 * Kernels whose blocks work together in clusters, for the tests of clusters.
 *
 * @module
 */

const registers = `
  .reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .b16 %h<4>;
  ld.param.u64 %rd0, [out]; cvta.to.global.u64 %rd0, %rd0;
  mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %cluster_nctarank;
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r5, %r3, %r4, %r0;`;

/** Waits for all threads of the cluster. */
const barrier = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";

/** Waits for a phase of the barrier \`bar\`. */
function waitFor(parity: number, label: string): string {
  return `
${label}:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p7, [bar], ${parity};
  @!%p7 bra ${label};`;
}

const kernels: Readonly<Record<string, string>> = {
  // Each block stores its registers of clusters: 14 words.
  registers: `
  mov.u32 %r6, %ctaid.y; mov.u32 %r7, %ctaid.z; mov.u32 %r8, %nctaid.x; mov.u32 %r9, %nctaid.y;
  mad.lo.u32 %r6, %r7, %r9, %r6; mad.lo.u32 %r6, %r6, %r8, %r3; mul.wide.u32 %rd1, %r6, 56; add.u64 %rd1, %rd0, %rd1;
  ${
    [
      ...["cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid"].flatMap((name) =>
        ["x", "y", "z"].map((axis) => `%${name}.${axis}`)
      ),
      "%cluster_ctarank",
      "%cluster_nctarank",
    ].map((name, index) => `mov.u32 %r10, ${name}; st.global.u32 [%rd1+${4 * index}], %r10;`).join("\n  ")
  }`,
  // Each thread stores to the next block, reads what it got, and what the thread of the block before has now.
  exchange: `
  .shared .b32 sm[64];
  mov.u32 %r6, sm; shl.b32 %r7, %r0, 2; add.u32 %r7, %r6, %r7;
  add.u32 %r8, %r1, 1; rem.u32 %r8, %r8, %r2; add.u32 %r9, %r1, %r2; sub.u32 %r9, %r9, 1; rem.u32 %r9, %r9, %r2;
  ${barrier}
  mapa.shared::cluster.u32 %r10, %r7, %r8;
  mad.lo.u32 %r11, %r3, 1000, %r0;
  st.shared::cluster.u32 [%r10], %r11;
  ${barrier}
  ld.shared.u32 %r12, [%r7];
  mov.u64 %rd2, sm; cvta.shared.u64 %rd2, %rd2; mapa.u64 %rd3, %rd2, %r9; mul.wide.u32 %rd4, %r0, 4;
  add.u64 %rd3, %rd3, %rd4; ld.u32 %r13, [%rd3]; getctarank.u64 %r14, %rd3; getctarank.shared::cluster.u32 %r15, %r10;
  isspacep.shared::cluster %p1, %rd3; selp.u32 %r16, 1, 0, %p1; isspacep.shared %p1, %rd3; selp.u32 %r17, 2, 0, %p1;
  isspacep.shared::cta %p1, %rd2; selp.u32 %r18, 4, 0, %p1; add.u32 %r16, %r16, %r17; add.u32 %r16, %r16, %r18;
  mapa.shared::cluster.u32 %r19, %r7, %r1; setp.eq.u32 %p1, %r19, %r7; selp.u32 %r19, 8, 0, %p1; add.u32 %r16, %r16, %r19;
  ${barrier}
  mul.wide.u32 %rd5, %r5, 20; add.u64 %rd5, %rd0, %rd5; st.global.u32 [%rd5], %r12; st.global.u32 [%rd5+4], %r13;
  st.global.u32 [%rd5+8], %r14; st.global.u32 [%rd5+12], %r15; st.global.u32 [%rd5+16], %r16;`,
  // All threads of a cluster add to a counter of its first block, and read it.
  count: `
  .shared .b32 counter; .shared .b64 large;
  mov.u32 %r6, 0; mov.u64 %rd9, 0; st.shared.u32 [counter], %r6; st.shared.u64 [large], %rd9;
  ${barrier}
  mov.u32 %r7, counter; mapa.shared::cluster.u32 %r7, %r7, 0; mov.u32 %r10, large; mapa.shared::cluster.u32 %r10, %r10, 0;
  add.u32 %r8, %r5, 1; cvt.u64.u32 %rd8, %r8;
  red.relaxed.cluster.shared::cluster.add.u32 [%r7], %r8;
  atom.relaxed.cluster.shared::cluster.max.u32 %r12, [%r10], %r8;
  barrier.cluster.arrive; barrier.cluster.wait;
  ld.relaxed.cluster.shared::cluster.u32 %r9, [%r7]; ld.shared::cluster.u64 %rd6, [%r10]; cvt.u32.u64 %r11, %rd6;
  mul.wide.u32 %rd5, %r5, 8; add.u64 %rd5, %rd0, %rd5; st.global.u32 [%rd5], %r9; st.global.u32 [%rd5+4], %r11;
  ${barrier}`,
  // Each thread stores a pair asynchronously to the next block, which waits at its barrier.
  stores: `
  .shared .align 16 .b32 sm[128]; .shared .b64 bar;
  setp.ne.u32 %p1, %r0, 0;
  @!%p1 mbarrier.init.shared.b64 [bar], 1;
  shl.b32 %r6, %r4, 3;
  @!%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], %r6;
  fence.mbarrier_init.release.cluster;
  ${barrier}
  add.u32 %r8, %r1, 1; rem.u32 %r8, %r8, %r2; mov.u32 %r9, sm; shl.b32 %r7, %r0, 3; add.u32 %r7, %r9, %r7;
  mapa.shared::cluster.u32 %r10, %r7, %r8; mov.u32 %r11, bar; mapa.shared::cluster.u32 %r11, %r11, %r8;
  add.u32 %r12, %r5, 7;
  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r10], {%r5, %r12}, [%r11];
  ${waitFor(0, "WAIT")}
  ld.shared.v2.u32 {%r13, %r14}, [%r7];
  mul.wide.u32 %rd5, %r5, 8; add.u64 %rd5, %rd0, %rd5; st.global.v2.u32 [%rd5], {%r13, %r14};
  ${barrier}`,
  // The threads of all blocks arrive at a barrier of the first one, after each has stored there.
  arrivals: `
  .shared .b32 sm[512]; .shared .b64 bar;
  setp.ne.u32 %p1, %r0, 0;
  mul.lo.u32 %r6, %r2, %r4;
  @!%p1 mbarrier.init.shared.b64 [bar], %r6;
  fence.mbarrier_init.release.cluster;
  ${barrier}
  mad.lo.u32 %r7, %r1, %r4, %r0; shl.b32 %r7, %r7, 2; mov.u32 %r8, sm; add.u32 %r9, %r8, %r7;
  mapa.shared::cluster.u32 %r9, %r9, 0; st.shared::cluster.u32 [%r9], %r5;
  mov.u32 %r10, bar; mapa.shared::cluster.u32 %r10, %r10, 0;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10];
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra END;
  ${waitFor(0, "WAIT")}
  mov.u32 %r11, 0; mov.u32 %r12, 0;
SUM:
  shl.b32 %r13, %r12, 2; add.u32 %r13, %r8, %r13; ld.shared.u32 %r14, [%r13]; add.u32 %r11, %r11, %r14;
  add.u32 %r12, %r12, 1; setp.lt.u32 %p3, %r12, %r6;
  @%p3 bra SUM;
  mul.wide.u32 %rd5, %r5, 4; add.u64 %rd5, %rd0, %rd5; st.global.u32 [%rd5], %r11;
END:
  ${barrier}`,
  // Each block copies a part of the input to all blocks of its cluster, or to every second one.
  multicast: `
  .param .u64 in;
  ld.param.u64 %rd1, [in]; cvta.to.global.u64 %rd1, %rd1;
  .shared .align 128 .b8 sm[1024]; .shared .b64 bar;
  setp.ne.u32 %p1, %r0, 0; mov.u32 %r6, sm; mov.u32 %r7, 0;
FILL:
  add.u32 %r8, %r6, %r7; mov.u32 %r9, 0; st.shared.u32 [%r8], %r9; add.u32 %r7, %r7, 4; setp.lt.u32 %p2, %r7, 1024;
  @%p2 bra FILL;
  mov.u32 %r10, 0; and.b32 %r11, %r1, 1; setp.eq.u32 %p3, %r11, 0; add.u32 %r12, %r2, 1; shr.u32 %r12, %r12, 1;
  selp.u32 %r12, %r2, %r12, %p3; shl.b32 %r12, %r12, 6;
  @!%p1 mbarrier.init.shared.b64 [bar], 1;
  @!%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], %r12;
  fence.mbarrier_init.release.cluster; fence.proxy.async;
  ${barrier}
  @%p1 bra WAIT;
  mov.u32 %r13, 1; shl.b32 %r13, %r13, %r2; sub.u32 %r13, %r13, 1; and.b32 %r14, %r13, 0x5555;
  selp.u32 %r13, %r13, %r14, %p3; cvt.u16.u32 %h1, %r13; shl.b32 %r15, %r1, 6; add.u32 %r16, %r6, %r15;
  cvt.u64.u32 %rd2, %r15; add.u64 %rd1, %rd1, %rd2;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r16], [%rd1], 64, [bar], %h1;
  ${waitFor(0, "WAIT")}
  mov.u32 %r7, 0; mul.wide.u32 %rd5, %r3, 1024; add.u64 %rd5, %rd0, %rd5;
STORE:
  add.u32 %r8, %r6, %r7; ld.shared.u32 %r9, [%r8]; cvt.u64.u32 %rd6, %r7; add.u64 %rd6, %rd5, %rd6;
  st.global.u32 [%rd6], %r9; add.u32 %r7, %r7, 4; setp.lt.u32 %p2, %r7, 1024;
  @%p2 bra STORE;
  ${barrier}`,
  // Each block copies a part of its shared memory to the next one.
  copies: `
  .shared .align 16 .b32 from[64]; .shared .align 16 .b32 sm[64]; .shared .b64 bar;
  setp.ne.u32 %p1, %r0, 0;
  mov.u32 %r6, from; shl.b32 %r7, %r0, 2; add.u32 %r8, %r6, %r7; st.shared.u32 [%r8], %r5; shl.b32 %r9, %r4, 2;
  @!%p1 mbarrier.init.shared.b64 [bar], 1;
  @!%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], %r9;
  fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;
  ${barrier}
  @%p1 bra WAIT;
  add.u32 %r10, %r1, 1; rem.u32 %r10, %r10, %r2; mov.u32 %r11, sm; mapa.shared::cluster.u32 %r11, %r11, %r10;
  mov.u32 %r12, bar; mapa.shared::cluster.u32 %r12, %r12, %r10;
  cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r11], [%r6], %r9, [%r12];
  ${waitFor(0, "WAIT")}
  mov.u32 %r11, sm; add.u32 %r11, %r11, %r7; ld.shared.u32 %r13, [%r11];
  mul.wide.u32 %rd5, %r5, 4; add.u64 %rd5, %rd0, %rd5; st.global.u32 [%rd5], %r13;
  ${barrier}`,
  // In each round threads store to another block's memory, arrive and wait. Before the first one, all blocks have started.
  phases: `
  .shared .b32 sm[64];
  mov.u32 %r6, 0; mov.u32 %r7, sm; shl.b32 %r8, %r0, 2; add.u32 %r7, %r7, %r8;
  add.u32 %r9, %r1, 1; rem.u32 %r9, %r9, %r2; mapa.shared::cluster.u32 %r10, %r7, %r9; mov.u32 %r11, %r5;
  ${barrier}
ROUND:
  st.shared::cluster.u32 [%r10], %r11;
  barrier.cluster.arrive.release; 
  add.u32 %r12, %r6, 1;
  barrier.cluster.wait.acquire;
  ld.shared.u32 %r11, [%r7]; add.u32 %r11, %r11, %r12;
  barrier.cluster.arrive; barrier.cluster.wait;
  add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 5;
  @%p1 bra ROUND;
  mul.wide.u32 %rd5, %r5, 4; add.u64 %rd5, %rd0, %rd5; st.global.u32 [%rd5], %r11;`,
};

/** A module with these kernels, whose parameter is \`out\`; \`multicast\` has \`in\`, too. */
export const clusterKernels: string = `.version 8.1
.target sm_90
.address_size 64
${
  Object.entries(kernels).map(([name, body]) => {
    const given = body.includes(".param .u64 in;") ? ", .param .u64 in" : "";
    return `.visible .entry ${name}(.param .u64 out${given}) {${registers}${
      body.replace(".param .u64 in;", "")
    }\n  ret;\n}`;
  }).join("\n")
}
`;
