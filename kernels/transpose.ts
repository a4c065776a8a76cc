// Generated from transpose.cu by `deno task kernels`, built by nvcc 13.0.88. Do not edit.

/**
 * PTX of the kernels in `transpose.cu`:
 *
 * ```c
 * void transpose(const float* input, float* output, unsigned int rows, unsigned int columns);
 * ```
 */
export const ptx: string = `.version 7.0
.target sm_60
.address_size 64

	// .globl	transpose
// _ZZ9transposeE4tile has been demoted

.visible .entry transpose(
	.param .u64 transpose_param_0,
	.param .u64 transpose_param_1,
	.param .u32 transpose_param_2,
	.param .u32 transpose_param_3
)
{
	.reg .pred 	%p<32>;
	.reg .f32 	%f<3>;
	.reg .b32 	%r<29>;
	.reg .b64 	%rd<59>;
	.loc	1 7 0
	// demoted variable
	.shared .align 4 .b8 _ZZ9transposeE4tile[4224];

	ld.param.u64 	%rd38, [transpose_param_0];
	ld.param.u64 	%rd39, [transpose_param_1];
	ld.param.u32 	%rd2, [transpose_param_2];
	ld.param.u32 	%r7, [transpose_param_3];
	.loc	1 12 3
	mov.u32 	%r8, %ctaid.y;
	mul.wide.u32 	%rd50, %r8, 32;
	setp.ge.u64 	%p4, %rd50, %rd2;
	@%p4 bra 	$L__BB0_18;

	.loc	1 14 5
	mov.u32 	%r9, %ctaid.x;
	mul.wide.u32 	%rd3, %r9, 32;
	cvt.u64.u32 	%rd4, %r7;
	.loc	1 16 7
	mov.u32 	%r10, %tid.y;
	cvt.u64.u32 	%rd5, %r10;
	.loc	1 18 9
	mov.u32 	%r11, %tid.x;
	cvt.u64.u32 	%rd6, %r11;
	.loc	1 18 69
	mov.u32 	%r12, %ntid.x;
	cvt.u64.u32 	%rd7, %r12;
	.loc	1 16 61
	mov.u32 	%r13, %ntid.y;
	cvt.u64.u32 	%rd8, %r13;
	.loc	1 14 63
	mov.u32 	%r14, %nctaid.x;
	mul.wide.u32 	%rd9, %r14, 32;
	.loc	1 12 52
	mov.u32 	%r15, %nctaid.y;
	mul.wide.u32 	%rd10, %r15, 32;
	.loc	1 12 3
	mul.wide.u32 	%rd11, %r12, 4;
	shl.b32 	%r16, %r11, 2;
	mov.u32 	%r17, _ZZ9transposeE4tile;
	add.s32 	%r1, %r17, %r16;
	shl.b32 	%r2, %r12, 2;
	add.s64 	%rd12, %rd6, %rd7;
	cvta.to.global.u64 	%rd13, %rd39;
	cvta.to.global.u64 	%rd14, %rd38;

$L__BB0_2:
	.pragma "nounroll";
	.loc	1 0 3
	setp.ge.u64 	%p5, %rd3, %rd4;
	.loc	1 14 5
	@%p5 bra 	$L__BB0_17;

	.loc	1 0 5
	cvt.u32.u64 	%r18, %rd6;
	setp.lt.u32 	%p6, %r18, 32;
	cvt.u32.u64 	%r19, %rd5;
	setp.lt.u32 	%p7, %r19, 32;
	add.s64 	%rd16, %rd50, %rd5;
	setp.lt.u64 	%p8, %rd16, %rd2;
	and.pred  	%p1, %p7, %p8;
	add.s64 	%rd40, %rd50, %rd6;
	setp.lt.u64 	%p9, %rd40, %rd2;
	and.pred  	%p2, %p6, %p9;
	mov.u64 	%rd51, %rd3;

$L__BB0_4:
	.pragma "nounroll";
	.loc	1 16 7
	not.pred 	%p10, %p1;
	@%p10 bra 	$L__BB0_10;

	.loc	1 0 7
	add.s64 	%rd18, %rd51, %rd6;
	setp.lt.u64 	%p12, %rd18, %rd4;
	and.pred  	%p3, %p6, %p12;
	mov.u64 	%rd52, %rd16;
	mov.u64 	%rd53, %rd5;

$L__BB0_6:
	.pragma "nounroll";
	.loc	1 18 9
	not.pred 	%p13, %p3;
	@%p13 bra 	$L__BB0_9;

	.loc	1 0 9
	mul.lo.s64 	%rd41, %rd52, %rd4;
	.loc	1 18 9
	add.s64 	%rd42, %rd18, %rd41;
	shl.b64 	%rd43, %rd42, 2;
	add.s64 	%rd55, %rd14, %rd43;
	cvt.u32.u64 	%r21, %rd53;
	mad.lo.s32 	%r28, %r21, 132, %r1;
	mov.u64 	%rd54, %rd12;

$L__BB0_8:
	.pragma "nounroll";
	.loc	1 19 11
	ld.global.f32 	%f1, [%rd55];
	st.shared.f32 	[%r28], %f1;
	.loc	1 18 9
	add.s64 	%rd44, %rd51, %rd54;
	setp.lt.u64 	%p14, %rd44, %rd4;
	setp.lt.u64 	%p15, %rd54, 32;
	and.pred  	%p16, %p15, %p14;
	add.s64 	%rd55, %rd55, %rd11;
	add.s32 	%r28, %r28, %r2;
	add.s64 	%rd54, %rd54, %rd7;
	@%p16 bra 	$L__BB0_8;

$L__BB0_9:
	.loc	1 16 61
	add.s64 	%rd53, %rd53, %rd8;
	.loc	1 16 7
	setp.lt.u64 	%p17, %rd53, 32;
	add.s64 	%rd52, %rd53, %rd50;
	setp.lt.u64 	%p18, %rd52, %rd2;
	and.pred  	%p19, %p17, %p18;
	@%p19 bra 	$L__BB0_6;

$L__BB0_10:
	.loc	1 0 7
	setp.gt.u32 	%p20, %r19, 31;
	.loc	1 22 7
	bar.sync 	0;
	.loc	1 24 7
	add.s64 	%rd56, %rd51, %rd5;
	setp.ge.u64 	%p21, %rd56, %rd4;
	or.pred  	%p22, %p20, %p21;
	@%p22 bra 	$L__BB0_16;

	.loc	1 0 7
	mov.u64 	%rd57, %rd5;

$L__BB0_12:
	.pragma "nounroll";
	.loc	1 26 9
	not.pred 	%p23, %p2;
	@%p23 bra 	$L__BB0_15;

	.loc	1 0 9
	cvt.u32.u64 	%r6, %rd57;
	mul.lo.s64 	%rd45, %rd56, %rd2;
	add.s64 	%rd31, %rd45, %rd50;
	mov.u64 	%rd58, %rd6;

$L__BB0_14:
	.pragma "nounroll";
	.loc	1 27 11
	cvt.u32.u64 	%r23, %rd58;
	mad.lo.s32 	%r25, %r23, 132, %r17;
	shl.b32 	%r26, %r6, 2;
	add.s32 	%r27, %r25, %r26;
	ld.shared.f32 	%f2, [%r27];
	add.s64 	%rd46, %rd31, %rd58;
	shl.b64 	%rd47, %rd46, 2;
	add.s64 	%rd48, %rd13, %rd47;
	st.global.f32 	[%rd48], %f2;
	.loc	1 26 63
	add.s64 	%rd58, %rd58, %rd7;
	.loc	1 26 9
	setp.lt.u64 	%p24, %rd58, 32;
	add.s64 	%rd49, %rd58, %rd50;
	setp.lt.u64 	%p25, %rd49, %rd2;
	and.pred  	%p26, %p24, %p25;
	@%p26 bra 	$L__BB0_14;

$L__BB0_15:
	.loc	1 24 67
	add.s64 	%rd57, %rd57, %rd8;
	.loc	1 24 7
	setp.lt.u64 	%p27, %rd57, 32;
	add.s64 	%rd56, %rd57, %rd51;
	setp.lt.u64 	%p28, %rd56, %rd4;
	and.pred  	%p29, %p27, %p28;
	@%p29 bra 	$L__BB0_12;

$L__BB0_16:
	.loc	1 30 7
	bar.sync 	0;
	.loc	1 14 63
	add.s64 	%rd51, %rd51, %rd9;
	.loc	1 14 5
	setp.lt.u64 	%p30, %rd51, %rd4;
	@%p30 bra 	$L__BB0_4;

$L__BB0_17:
	.loc	1 12 52
	add.s64 	%rd50, %rd50, %rd10;
	.loc	1 12 3
	setp.lt.u64 	%p31, %rd50, %rd2;
	@%p31 bra 	$L__BB0_2;

$L__BB0_18:
	.loc	1 33 1
	ret;

}

	.file	1 "transpose.cu"
`;
