// Generated from fill.cu by `poolpass bind fill.cu --import ../mod.ts --no-fused-multiply-add --ptx`, compiled by nvrtc 13.0. Do not edit.

import type { Pointer, Ptx } from "../mod.ts";

/** The parameters of the kernels in `fill.cu`. */
export interface Kernels {
  /** `void fill(void* out, unsigned long long byte_length, unsigned int pattern);` */
  fill: [out: Pointer, byte_length: number | bigint, pattern: number];
}

/** PTX of the kernels in `fill.cu`. */
export const ptx: Ptx<Kernels> = `.version 7.0
.target sm_60
.address_size 64

	// .globl	fill

.visible .entry fill(
	.param .u64 fill_param_0,
	.param .u64 fill_param_1,
	.param .u32 fill_param_2
)
{
	.reg .pred 	%p<5>;
	.reg .b32 	%r<10>;
	.reg .b64 	%rd<20>;
	.loc	1 5 0


	ld.param.u64 	%rd11, [fill_param_0];
	ld.param.u64 	%rd10, [fill_param_1];
	ld.param.u32 	%r1, [fill_param_2];
	.loc	1 6 3
	cvta.to.global.u64 	%rd1, %rd11;
	.loc	1 8 3
	mov.u32 	%r2, %nctaid.x;
	mov.u32 	%r3, %ntid.x;
	mul.wide.u32 	%rd2, %r2, %r3;
	.loc	1 9 3
	mov.u32 	%r4, %ctaid.x;
	mul.wide.u32 	%rd12, %r4, %r3;
	mov.u32 	%r5, %tid.x;
	cvt.u64.u32 	%rd13, %r5;
	add.s64 	%rd3, %rd12, %rd13;
	.loc	1 7 3
	shr.u64 	%rd4, %rd10, 2;
	.loc	1 11 3
	setp.ge.u64 	%p1, %rd3, %rd4;
	@%p1 bra 	$L__BB0_3;

	.loc	1 0 3
	mov.u64 	%rd18, %rd3;

$L__BB0_2:
	.pragma "nounroll";
	.loc	1 11 3
	shl.b64 	%rd14, %rd18, 2;
	add.s64 	%rd15, %rd1, %rd14;
	st.global.u32 	[%rd15], %r1;
	add.s64 	%rd18, %rd18, %rd2;
	setp.lt.u64 	%p2, %rd18, %rd4;
	@%p2 bra 	$L__BB0_2;

$L__BB0_3:
	.loc	1 13 3
	and.b64  	%rd16, %rd10, -4;
	add.s64 	%rd19, %rd16, %rd3;
	setp.ge.u64 	%p3, %rd19, %rd10;
	@%p3 bra 	$L__BB0_5;

$L__BB0_4:
	.pragma "nounroll";
	.loc	1 14 5
	cvt.u32.u64 	%r6, %rd19;
	shl.b32 	%r7, %r6, 3;
	and.b32  	%r8, %r7, 24;
	shr.u32 	%r9, %r1, %r8;
	add.s64 	%rd17, %rd1, %rd19;
	st.global.u8 	[%rd17], %r9;
	.loc	1 13 72
	add.s64 	%rd19, %rd19, %rd2;
	.loc	1 13 3
	setp.lt.u64 	%p4, %rd19, %rd10;
	@%p4 bra 	$L__BB0_4;

$L__BB0_5:
	.loc	1 16 1
	ret;

}

	.file	1 "fill.cu"
` as Ptx<Kernels>;
