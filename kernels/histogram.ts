// Generated from histogram.cu by `poolpass bind histogram.cu --import ../mod.ts --no-fused-multiply-add --ptx`, compiled by nvrtc 13.0. Do not edit.

import type { Pointer, Ptx } from "../mod.ts";

/** The parameters of the kernels in `histogram.cu`. */
export interface Kernels {
  /** `void histogram(const unsigned char* input, unsigned long long byte_length, unsigned int* bins);` */
  histogram: [input: Pointer<Uint8Array>, byte_length: number | bigint, bins: Pointer<Uint32Array>];
}

/** PTX of the kernels in `histogram.cu`. */
export const ptx: Ptx<Kernels> = `.version 7.0
.target sm_60
.address_size 64

	// .globl	histogram
// _ZZ9histogramE6counts has been demoted

.visible .entry histogram(
	.param .u64 histogram_param_0,
	.param .u64 histogram_param_1,
	.param .u64 histogram_param_2
)
{
	.reg .pred 	%p<10>;
	.reg .b32 	%r<27>;
	.reg .b64 	%rd<46>;
	.loc	1 7 0
	// demoted variable
	.shared .align 4 .b8 _ZZ9histogramE6counts[1024];

	ld.param.u64 	%rd14, [histogram_param_0];
	ld.param.u64 	%rd12, [histogram_param_1];
	ld.param.u64 	%rd13, [histogram_param_2];
	.loc	1 9 3
	cvta.to.global.u64 	%rd1, %rd14;
	mov.u32 	%r26, %tid.x;
	setp.lt.u32 	%p1, %r26, 256;
	@%p1 bra 	$L__BB0_1;
	bra.uni 	$L__BB0_3;

$L__BB0_1:
	mov.u32 	%r2, %ntid.x;
	mov.u64 	%rd16, _ZZ9histogramE6counts;
	mov.u32 	%r25, %r26;

$L__BB0_2:
	mul.wide.u32 	%rd15, %r25, 4;
	add.s64 	%rd17, %rd16, %rd15;
	mov.u32 	%r9, 0;
	st.shared.u32 	[%rd17], %r9;
	add.s32 	%r25, %r25, %r2;
	setp.lt.u32 	%p2, %r25, 256;
	@%p2 bra 	$L__BB0_2;

$L__BB0_3:
	mov.u32 	%r5, %ntid.x;
	.loc	1 10 3
	bar.sync 	0;
	.loc	1 14 3
	mov.u32 	%r10, %nctaid.x;
	mul.wide.u32 	%rd2, %r10, %r5;
	.loc	1 15 3
	mov.u32 	%r11, %ctaid.x;
	mul.wide.u32 	%rd18, %r11, %r5;
	cvt.u64.u32 	%rd19, %r26;
	add.s64 	%rd3, %rd18, %rd19;
	.loc	1 13 3
	shr.u64 	%rd4, %rd12, 2;
	.loc	1 17 3
	setp.ge.u64 	%p3, %rd3, %rd4;
	@%p3 bra 	$L__BB0_6;

	.loc	1 0 3
	mov.u64 	%rd44, %rd3;

$L__BB0_5:
	.pragma "nounroll";
	.loc	1 18 5
	shl.b64 	%rd20, %rd44, 2;
	add.s64 	%rd21, %rd1, %rd20;
	ld.global.u32 	%r12, [%rd21];
	.loc	1 19 5
	shl.b32 	%r13, %r12, 2;
	cvt.u64.u32 	%rd22, %r13;
	and.b64  	%rd23, %rd22, 1020;
	mov.u64 	%rd24, _ZZ9histogramE6counts;
	add.s64 	%rd25, %rd24, %rd23;
	atom.shared.add.u32 	%r14, [%rd25], 1;
	.loc	1 20 5
	shr.u32 	%r15, %r12, 6;
	cvt.u64.u32 	%rd26, %r15;
	and.b64  	%rd27, %rd26, 1020;
	add.s64 	%rd28, %rd24, %rd27;
	atom.shared.add.u32 	%r16, [%rd28], 1;
	.loc	1 21 5
	shr.u32 	%r17, %r12, 14;
	cvt.u64.u32 	%rd29, %r17;
	and.b64  	%rd30, %rd29, 1020;
	add.s64 	%rd31, %rd24, %rd30;
	atom.shared.add.u32 	%r18, [%rd31], 1;
	.loc	1 22 5
	shr.u32 	%r19, %r12, 24;
	mul.wide.u32 	%rd32, %r19, 4;
	add.s64 	%rd33, %rd24, %rd32;
	atom.shared.add.u32 	%r20, [%rd33], 1;
	.loc	1 17 54
	add.s64 	%rd44, %rd44, %rd2;
	.loc	1 17 3
	setp.lt.u64 	%p4, %rd44, %rd4;
	@%p4 bra 	$L__BB0_5;

$L__BB0_6:
	.loc	1 25 3
	and.b64  	%rd34, %rd12, -4;
	add.s64 	%rd45, %rd34, %rd3;
	setp.ge.u64 	%p5, %rd45, %rd12;
	@%p5 bra 	$L__BB0_9;

	.loc	1 0 3
	mov.u64 	%rd37, _ZZ9histogramE6counts;

$L__BB0_8:
	.pragma "nounroll";
	.loc	1 25 3
	add.s64 	%rd35, %rd1, %rd45;
	ld.global.u8 	%r21, [%rd35];
	mul.wide.u32 	%rd36, %r21, 4;
	add.s64 	%rd38, %rd37, %rd36;
	atom.shared.add.u32 	%r22, [%rd38], 1;
	add.s64 	%rd45, %rd45, %rd2;
	setp.lt.u64 	%p6, %rd45, %rd12;
	@%p6 bra 	$L__BB0_8;

$L__BB0_9:
	.loc	1 9 3
	setp.gt.u32 	%p7, %r26, 255;
	.loc	1 26 3
	bar.sync 	0;
	.loc	1 29 3
	@%p7 bra 	$L__BB0_14;

	.loc	1 9 3
	cvta.to.global.u64 	%rd10, %rd13;
	mov.u64 	%rd40, _ZZ9histogramE6counts;

$L__BB0_11:
	.pragma "nounroll";
	.loc	1 30 5
	cvt.u64.u32 	%rd11, %r26;
	mul.wide.u32 	%rd39, %r26, 4;
	add.s64 	%rd41, %rd40, %rd39;
	ld.shared.u32 	%r7, [%rd41];
	setp.eq.s32 	%p8, %r7, 0;
	@%p8 bra 	$L__BB0_13;

	shl.b64 	%rd42, %rd11, 2;
	add.s64 	%rd43, %rd10, %rd42;
	atom.global.add.u32 	%r23, [%rd43], %r7;

$L__BB0_13:
	.loc	1 0 5
	cvt.u32.u64 	%r24, %rd11;
	.loc	1 29 51
	add.s32 	%r26, %r24, %r5;
	.loc	1 29 3
	setp.lt.u32 	%p9, %r26, 256;
	@%p9 bra 	$L__BB0_11;

$L__BB0_14:
	.loc	1 32 1
	ret;

}

	.file	1 "histogram.cu"
` as Ptx<Kernels>;
