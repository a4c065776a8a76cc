/**
 * Kernels for tests of graphs.
 *
 * @module
 */
import type { Ptx } from "../../../mod.ts";
import type { Pointer } from "../../../mod.ts";

/** The parameters of the kernels. */
export interface Kernels {
  /** A cell becomes three times itself, plus another cell, plus a constant. */
  mix: [to: Pointer<Uint32Array>, from: Pointer<Uint32Array>, constant: number];
  /** A condition becomes what is in a cell. */
  decide: [condition: number | bigint, from: Pointer<Uint32Array>];
  /** A counter is decreased, and a condition becomes what it is then. */
  countDown: [condition: number | bigint, counter: Pointer<Uint32Array>];
}

/** PTX of the kernels. */
export const ptx: Ptx<Kernels> = `.version 7.0
.target sm_60
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);
.visible .entry mix(.param .u64 to, .param .u64 from, .param .u32 constant) {
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [from];
  ld.param.u32 %r1, [constant];
  ld.global.u32 %r2, [%rd1];
  ld.global.u32 %r3, [%rd2];
  mad.lo.u32 %r4, %r2, 3, %r3;
  add.u32 %r4, %r4, %r1;
  st.global.u32 [%rd1], %r4;
  ret;
}
.visible .entry decide(.param .u64 condition, .param .u64 from) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [condition];
  ld.param.u64 %rd2, [from];
  ld.global.u32 %r1, [%rd2];
  {
    .param .b64 first;
    .param .b32 second;
    st.param.b64 [first], %rd1;
    st.param.b32 [second], %r1;
    call.uni cudaGraphSetConditional, (first, second);
  }
  ret;
}
.visible .entry countDown(.param .u64 condition, .param .u64 counter) {
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [condition];
  ld.param.u64 %rd2, [counter];
  ld.global.u32 %r1, [%rd2];
  sub.u32 %r2, %r1, 1;
  st.global.u32 [%rd2], %r2;
  {
    .param .b64 first;
    .param .b32 second;
    st.param.b64 [first], %rd1;
    st.param.b32 [second], %r2;
    call.uni cudaGraphSetConditional, (first, second);
  }
  ret;
}` as Ptx<Kernels>;
