/**
 * Kernels for launches that ask for more than blocks and threads.
 *
 * @module
 */

const header = `.version 7.8
.target sm_90
.address_size 64
`;

/** Each block stores the number of the next block of its cluster, which it reads from that block's shared memory. */
const exchangeInCluster = `
  .shared .align 4 .b32 word;
  .reg .b32 %block, %row, %width, %rank, %size, %address, %value;
  .reg .b64 %to, %distance;
  mov.u32 %block, %ctaid.x;
  mov.u32 %row, %ctaid.y;
  mov.u32 %width, %nctaid.x;
  mad.lo.u32 %block, %row, %width, %block;
  mov.u32 %rank, %cluster_ctarank;
  mov.u32 %size, %cluster_nctarank;
  mov.u32 %address, word;
  st.shared.u32 [%address], %block;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  add.u32 %rank, %rank, 1;
  rem.u32 %rank, %rank, %size;
  mapa.shared::cluster.u32 %address, %address, %rank;
  ld.shared::cluster.u32 %value, [%address];
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ld.param.u64 %to, [to];
  mul.wide.u32 %distance, %block, 4;
  add.u64 %to, %to, %distance;
  st.global.u32 [%to], %value;
  ret;`;

/** Kernels that need clusters. `pairs` states at compile time that its clusters have two blocks. */
export const clustersPtx: string = `${header}
.visible .entry neighbors(.param .u64 to)
{${exchangeInCluster}
}

.visible .entry pairs(.param .u64 to)
.explicitcluster
.reqnctapercluster 2, 1, 1
{${exchangeInCluster}
}
`;

/**
 * Every block stores its number plus one, waits at a barrier of the whole grid, which counts blocks in `arrived`, and
 * stores what the next block has stored.
 */
export const gridBarrierPtx: string = `${header}
.visible .entry meet(.param .u64 arrived, .param .u64 first, .param .u64 second)
{
  .reg .pred %p;
  .reg .b32 %thread, %block, %count, %next, %value, %seen;
  .reg .b64 %arrived, %first, %second, %at, %distance;
  mov.u32 %thread, %tid.x;
  setp.ne.u32 %p, %thread, 0;
  @%p bra END;
  ld.param.u64 %arrived, [arrived];
  ld.param.u64 %first, [first];
  ld.param.u64 %second, [second];
  mov.u32 %block, %ctaid.x;
  mov.u32 %count, %nctaid.x;
  mul.wide.u32 %distance, %block, 4;
  add.u64 %at, %first, %distance;
  add.u32 %value, %block, 1;
  st.global.u32 [%at], %value;
  fence.acq_rel.gpu;
  red.relaxed.gpu.global.add.u32 [%arrived], 1;
WAIT:
  ld.relaxed.gpu.global.u32 %seen, [%arrived];
  setp.lt.u32 %p, %seen, %count;
  @%p bra WAIT;
  fence.acq_rel.gpu;
  add.u32 %next, %block, 1;
  rem.u32 %next, %next, %count;
  mul.wide.u32 %distance, %next, 4;
  add.u64 %at, %first, %distance;
  ld.relaxed.gpu.global.u32 %value, [%at];
  mul.wide.u32 %distance, %block, 4;
  add.u64 %at, %second, %distance;
  st.global.u32 [%at], %value;
END:
  ret;
}
`;

/**
 * `produce` lets its dependents start, looks up to `tries` times whether `consume` has started, and stores 42 and what it
 * saw. `consume` says that it has started, waits for the work in front of it, and stores the 42 plus one.
 */
export const dependentPtx: string = `${header}
.visible .entry produce(.param .u64 to, .param .u64 started, .param .u32 tries)
{
  .reg .pred %p;
  .reg .b32 %seen, %tries;
  .reg .b64 %to, %started;
  ld.param.u64 %to, [to];
  ld.param.u64 %started, [started];
  ld.param.u32 %tries, [tries];
  griddepcontrol.launch_dependents;
WAIT:
  ld.acquire.gpu.global.u32 %seen, [%started];
  setp.ne.u32 %p, %seen, 0;
  @%p bra SEEN;
  sub.u32 %tries, %tries, 1;
  setp.ne.u32 %p, %tries, 0;
  @%p bra WAIT;
SEEN:
  st.global.u32 [%to], 42;
  st.global.u32 [%to+4], %seen;
  ret;
}

.visible .entry consume(.param .u64 from, .param .u64 started, .param .u64 to)
{
  .reg .b32 %value;
  .reg .b64 %from, %started, %to;
  ld.param.u64 %from, [from];
  ld.param.u64 %started, [started];
  ld.param.u64 %to, [to];
  st.release.gpu.global.u32 [%started], 1;
  griddepcontrol.wait;
  ld.global.u32 %value, [%from];
  add.u32 %value, %value, 1;
  st.global.u32 [%to], %value;
  ret;
}
`;
