// Generated from histogram.cu by `deno task kernels`, built by nvcc 13.0.88. Do not edit.

/**
 * PTX of the kernels in `histogram.cu`:
 *
 * ```c
 * void histogram(const unsigned char* input, unsigned long long byte_length, unsigned int* bins);
 * ```
 */
export const ptx: string = `.version 7.0
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
	.reg .b16 	%rs<2>;
	.reg .b32 	%r<43>;
	.reg .b64 	%rd<24>;
	.loc	1 7 0
	// demoted variable
	.shared .align 4 .b8 _ZZ9histogramE6counts[1024];

	ld.param.u64 	%rd13, [histogram_param_0];
	ld.param.u64 	%rd11, [histogram_param_1];
	ld.param.u64 	%rd12, [histogram_param_2];
	.loc	1 9 3
	cvta.to.global.u64 	%rd1, %rd13;
	mov.u32 	%r42, %tid.x;
	setp.lt.u32 	%p1, %r42, 256;
	@%p1 bra 	$L__BB0_1;
	bra.uni 	$L__BB0_3;

$L__BB0_1:
	mov.u32 	%r2, %ntid.x;
	mov.u32 	%r10, _ZZ9histogramE6counts;
	mov.u32 	%r41, %r42;

$L__BB0_2:
	shl.b32 	%r9, %r41, 2;
	add.s32 	%r11, %r10, %r9;
	mov.u32 	%r12, 0;
	st.shared.u32 	[%r11], %r12;
	add.s32 	%r41, %r41, %r2;
	setp.lt.u32 	%p2, %r41, 256;
	@%p2 bra 	$L__BB0_2;

$L__BB0_3:
	mov.u32 	%r5, %ntid.x;
	.loc	1 10 3
	bar.sync 	0;
	.loc	1 14 3
	mov.u32 	%r13, %nctaid.x;
	mul.wide.u32 	%rd2, %r13, %r5;
	.loc	1 15 3
	mov.u32 	%r14, %ctaid.x;
	mul.wide.u32 	%rd14, %r14, %r5;
	cvt.u64.u32 	%rd15, %r42;
	add.s64 	%rd3, %rd14, %rd15;
	.loc	1 13 3
	shr.u64 	%rd4, %rd11, 2;
	.loc	1 17 3
	setp.ge.u64 	%p3, %rd3, %rd4;
	@%p3 bra 	$L__BB0_6;

	.loc	1 0 3
	mov.u32 	%r18, _ZZ9histogramE6counts;
	mov.u64 	%rd22, %rd3;

$L__BB0_5:
	.pragma "nounroll";
	.loc	1 18 5
	shl.b64 	%rd16, %rd22, 2;
	add.s64 	%rd17, %rd1, %rd16;
	ld.global.u32 	%r15, [%rd17];
	.loc	1 19 5
	shl.b32 	%r16, %r15, 2;
	and.b32  	%r17, %r16, 1020;
	add.s32 	%r19, %r18, %r17;
	.loc	1 19 5
	.loc	2 112 3, function_name $L__info_string0, inlined_at 1 19 5
	atom.shared.add.u32 	%r20, [%r19], 1;
	.loc	1 20 5
	shr.u32 	%r21, %r15, 6;
	and.b32  	%r22, %r21, 1020;
	add.s32 	%r23, %r18, %r22;
	.loc	1 20 5
	.loc	2 112 3, function_name $L__info_string0, inlined_at 1 20 5
	atom.shared.add.u32 	%r24, [%r23], 1;
	.loc	1 21 5
	shr.u32 	%r25, %r15, 14;
	and.b32  	%r26, %r25, 1020;
	add.s32 	%r27, %r18, %r26;
	.loc	1 21 5
	.loc	2 112 3, function_name $L__info_string0, inlined_at 1 21 5
	atom.shared.add.u32 	%r28, [%r27], 1;
	.loc	1 22 5
	shr.u32 	%r29, %r15, 22;
	and.b32  	%r30, %r29, 1020;
	add.s32 	%r31, %r18, %r30;
	.loc	1 22 5
	.loc	2 112 3, function_name $L__info_string0, inlined_at 1 22 5
	atom.shared.add.u32 	%r32, [%r31], 1;
	.loc	1 17 54
	add.s64 	%rd22, %rd22, %rd2;
	.loc	1 17 3
	setp.lt.u64 	%p4, %rd22, %rd4;
	@%p4 bra 	$L__BB0_5;

$L__BB0_6:
	.loc	1 25 3
	and.b64  	%rd18, %rd11, -4;
	add.s64 	%rd23, %rd18, %rd3;
	setp.ge.u64 	%p5, %rd23, %rd11;
	@%p5 bra 	$L__BB0_9;

	.loc	1 0 3
	mov.u32 	%r34, _ZZ9histogramE6counts;

$L__BB0_8:
	.pragma "nounroll";
	.loc	1 25 3
	add.s64 	%rd19, %rd1, %rd23;
	ld.global.u8 	%rs1, [%rd19];
	mul.wide.u16 	%r33, %rs1, 4;
	add.s32 	%r35, %r34, %r33;
	.loc	1 25 3
	.loc	2 112 3, function_name $L__info_string0, inlined_at 1 25 3
	atom.shared.add.u32 	%r36, [%r35], 1;
	.loc	1 25 3
	add.s64 	%rd23, %rd23, %rd2;
	setp.lt.u64 	%p6, %rd23, %rd11;
	@%p6 bra 	$L__BB0_8;

$L__BB0_9:
	.loc	1 9 3
	setp.gt.u32 	%p7, %r42, 255;
	.loc	1 26 3
	bar.sync 	0;
	.loc	1 29 3
	@%p7 bra 	$L__BB0_14;

	.loc	1 9 3
	cvta.to.global.u64 	%rd10, %rd12;
	mov.u32 	%r38, _ZZ9histogramE6counts;

$L__BB0_11:
	.pragma "nounroll";
	.loc	1 30 5
	shl.b32 	%r37, %r42, 2;
	add.s32 	%r39, %r38, %r37;
	ld.shared.u32 	%r7, [%r39];
	setp.eq.s32 	%p8, %r7, 0;
	@%p8 bra 	$L__BB0_13;

	mul.wide.u32 	%rd20, %r42, 4;
	add.s64 	%rd21, %rd10, %rd20;
	.loc	1 30 5
	.loc	2 112 3, function_name $L__info_string0, inlined_at 1 30 5
	atom.global.add.u32 	%r40, [%rd21], %r7;

$L__BB0_13:
	.loc	1 29 51
	add.s32 	%r42, %r42, %r5;
	.loc	1 29 3
	setp.lt.u32 	%p9, %r42, 256;
	@%p9 bra 	$L__BB0_11;

$L__BB0_14:
	.loc	1 32 1
	ret;

}
	.file	1 "histogram.cu"
	.file	2 "device_atomic_functions.hpp"
	.section	.debug_str
	{
$L__info_string0:
.b8 95,90,78,52,51,95,73,78,84,69,82,78,65,76,95,54,100,56,100,49,100,102,98,95,49,50,95,104,105,115,116,111,103,114,97,109,95,99,117,95
.b8 50,54,50,54,100,100,102,56,57,97,116,111,109,105,99,65,100,100,69,80,106,106,0

	}
`;
