// Generated from system_atomics.cu by `poolpass bind system_atomics.cu --import ../../mod.ts --no-fused-multiply-add`, compiled by nvrtc 13.0. Do not edit.

import type { Pointer, Ptx } from "../../mod.ts";

/** The parameters of the kernels in `system_atomics.cu`. */
export interface Kernels {
  /** `void system_atomics(int* values, unsigned int loops);` */
  system_atomics: [values: Pointer<Int32Array>, loops: number];
}

/** PTX of the kernels in `system_atomics.cu`. */
export const ptx: Ptx<Kernels> = `.version 7.0
.target sm_60
.address_size 64

	// .globl	system_atomics

.visible .entry system_atomics(
	.param .u64 system_atomics_param_0,
	.param .u32 system_atomics_param_1
)
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<28>;
	.reg .b64 	%rd<12>;
	.loc	1 5 0


	ld.param.u64 	%rd11, [system_atomics_param_0];
	ld.param.u32 	%r7, [system_atomics_param_1];
	.loc	1 6 3
	cvta.to.global.u64 	%rd1, %rd11;
	mov.u32 	%r8, %ntid.x;
	mov.u32 	%r9, %ctaid.x;
	mov.u32 	%r10, %tid.x;
	mad.lo.s32 	%r1, %r9, %r8, %r10;
	.loc	1 9 3
	setp.eq.s32 	%p1, %r7, 0;
	@%p1 bra 	$L__BB0_3;

	.loc	1 0 3
	add.s64 	%rd2, %rd1, 4;
	add.s64 	%rd3, %rd1, 8;
	add.s64 	%rd4, %rd1, 12;
	add.s64 	%rd5, %rd1, 16;
	add.s64 	%rd6, %rd1, 20;
	add.s64 	%rd7, %rd1, 24;
	add.s64 	%rd8, %rd1, 28;
	shl.b32 	%r12, %r1, 1;
	mov.u32 	%r13, 1;
	add.s64 	%rd9, %rd1, 32;
	and.b32  	%r14, %r1, 31;
	shl.b32 	%r4, %r13, %r14;
	add.s64 	%rd10, %rd1, 36;
	mov.u32 	%r27, 0;

$L__BB0_2:
	.pragma "nounroll";
	.loc	1 10 5
	atom.global.sys.add.u32 	%r15, [%rd1], 10;
	.loc	1 11 5
	atom.global.sys.exch.b32 	%r16, [%rd2], %r1;
	.loc	1 12 5
	atom.global.sys.max.s32 	%r17, [%rd3], %r1;
	.loc	1 13 5
	atom.global.sys.min.s32 	%r18, [%rd4], %r1;
	.loc	1 14 5
	atom.global.sys.inc.u32 	%r19, [%rd5], 17;
	.loc	1 15 5
	atom.global.sys.dec.u32 	%r20, [%rd6], 137;
	add.s32 	%r25, %r1, -1;
	.loc	1 16 5
	atom.global.sys.cas.b32 	%r21, [%rd7], %r25, %r1;
	add.s32 	%r26, %r12, 7;
	.loc	1 17 5
	atom.global.sys.and.b32 	%r22, [%rd8], %r26;
	.loc	1 18 5
	atom.global.sys.or.b32 	%r23, [%rd9], %r4;
	.loc	1 19 5
	atom.global.sys.xor.b32 	%r24, [%rd10], %r1;
	.loc	1 9 45
	add.s32 	%r27, %r27, 1;
	.loc	1 9 3
	setp.lt.u32 	%p2, %r27, %r7;
	@%p2 bra 	$L__BB0_2;

$L__BB0_3:
	.loc	1 21 1
	ret;

}

	.file	1 "system_atomics.cu"
` as Ptx<Kernels>;
