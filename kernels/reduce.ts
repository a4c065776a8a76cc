// Generated from reduce.cu by `deno task kernels`, built by nvcc 13.0.88. Do not edit.

/**
 * PTX of the kernels in `reduce.cu`:
 *
 * ```c
 * void reduce_sum(const float* input, unsigned long long n, float* output);
 * void reduce_min(const float* input, unsigned long long n, float* output);
 * void reduce_max(const float* input, unsigned long long n, float* output);
 * ```
 */
export const ptx: string = `.version 7.0
.target sm_60
.address_size 64

	// .globl	reduce_sum
// _ZZ6reduceI3SumEvPKfyPfE7partial has been demoted
// _ZZ6reduceI7MinimumEvPKfyPfE7partial has been demoted
// _ZZ6reduceI7MaximumEvPKfyPfE7partial has been demoted

.visible .entry reduce_sum(
	.param .u64 reduce_sum_param_0,
	.param .u64 reduce_sum_param_1,
	.param .u64 reduce_sum_param_2
)
{
	.reg .pred 	%p<8>;
	.reg .f32 	%f<13>;
	.reg .b32 	%r<15>;
	.reg .b64 	%rd<20>;
	.loc	1 44 0
	// demoted variable
	.shared .align 4 .b8 _ZZ6reduceI3SumEvPKfyPfE7partial[4096];

	ld.param.u64 	%rd9, [reduce_sum_param_0];
	ld.param.u64 	%rd10, [reduce_sum_param_1];
	ld.param.u64 	%rd11, [reduce_sum_param_2];
	.loc	1 45 3
	.loc	1 28 3, function_name $L__info_string0, inlined_at 1 45 3
	mov.u32 	%r1, %ntid.x;
	cvt.u64.u32 	%rd1, %r1;
	.loc	1 29 3, function_name $L__info_string0, inlined_at 1 45 3
	mov.u32 	%r6, %ctaid.x;
	cvt.u64.u32 	%rd2, %r6;
	mul.wide.u32 	%rd12, %r6, %r1;
	.loc	1 27 3, function_name $L__info_string0, inlined_at 1 45 3
	mov.u32 	%r2, %tid.x;
	.loc	1 29 3, function_name $L__info_string0, inlined_at 1 45 3
	cvt.u64.u32 	%rd13, %r2;
	add.s64 	%rd19, %rd12, %rd13;
	.loc	1 31 3, function_name $L__info_string0, inlined_at 1 45 3
	setp.ge.u64 	%p1, %rd19, %rd10;
	mov.f32 	%f12, 0f00000000;
	@%p1 bra 	$L__BB0_3;

	.loc	1 28 3, function_name $L__info_string0, inlined_at 1 45 3
	mov.u32 	%r7, %nctaid.x;
	cvt.u64.u32 	%rd14, %r7;
	mul.lo.s64 	%rd4, %rd14, %rd1;
	.loc	1 27 3, function_name $L__info_string0, inlined_at 1 45 3
	cvta.to.global.u64 	%rd5, %rd9;
	mov.f32 	%f12, 0f00000000;

$L__BB0_2:
	.loc	1 31 3, function_name $L__info_string0, inlined_at 1 45 3
	shl.b64 	%rd15, %rd19, 2;
	add.s64 	%rd16, %rd5, %rd15;
	ld.global.f32 	%f6, [%rd16];
	.loc	1 31 3, function_name $L__info_string0, inlined_at 1 45 3
	.loc	1 13 40, function_name $L__info_string1, inlined_at 1 31 3
	add.rn.f32 	%f12, %f12, %f6;
	.loc	1 31 3, function_name $L__info_string0, inlined_at 1 45 3
	add.s64 	%rd19, %rd19, %rd4;
	setp.lt.u64 	%p2, %rd19, %rd10;
	@%p2 bra 	$L__BB0_2;

$L__BB0_3:
	.loc	1 32 3, function_name $L__info_string0, inlined_at 1 45 3
	shl.b32 	%r9, %r2, 2;
	mov.u32 	%r10, _ZZ6reduceI3SumEvPKfyPfE7partial;
	add.s32 	%r3, %r10, %r9;
	st.shared.f32 	[%r3], %f12;
	.loc	1 33 3, function_name $L__info_string0, inlined_at 1 45 3
	bar.sync 	0;
	.loc	1 27 3, function_name $L__info_string0, inlined_at 1 45 3
	cvta.to.global.u64 	%rd8, %rd11;
	mov.u32 	%r14, 512;

$L__BB0_4:
	.pragma "nounroll";
	.loc	1 36 5, function_name $L__info_string0, inlined_at 1 45 3
	add.s32 	%r11, %r14, %r2;
	setp.ge.u32 	%p3, %r11, %r1;
	setp.ge.u32 	%p4, %r2, %r14;
	or.pred  	%p5, %p4, %p3;
	@%p5 bra 	$L__BB0_6;

	.loc	1 37 7, function_name $L__info_string0, inlined_at 1 45 3
	ld.shared.f32 	%f7, [%r3];
	shl.b32 	%r12, %r14, 2;
	add.s32 	%r13, %r3, %r12;
	ld.shared.f32 	%f8, [%r13];
	.loc	1 37 7, function_name $L__info_string0, inlined_at 1 45 3
	.loc	1 13 40, function_name $L__info_string1, inlined_at 1 37 7
	add.rn.f32 	%f9, %f7, %f8;
	.loc	1 37 7, function_name $L__info_string0, inlined_at 1 45 3
	st.shared.f32 	[%r3], %f9;

$L__BB0_6:
	.loc	1 39 5, function_name $L__info_string0, inlined_at 1 45 3
	bar.sync 	0;
	.loc	1 35 45, function_name $L__info_string0, inlined_at 1 45 3
	shr.u32 	%r14, %r14, 1;
	.loc	1 35 3, function_name $L__info_string0, inlined_at 1 45 3
	setp.ne.s32 	%p6, %r14, 0;
	@%p6 bra 	$L__BB0_4;

	.loc	1 41 3, function_name $L__info_string0, inlined_at 1 45 3
	setp.ne.s32 	%p7, %r2, 0;
	@%p7 bra 	$L__BB0_9;

	ld.shared.f32 	%f10, [_ZZ6reduceI3SumEvPKfyPfE7partial];
	shl.b64 	%rd17, %rd2, 2;
	add.s64 	%rd18, %rd8, %rd17;
	st.global.f32 	[%rd18], %f10;

$L__BB0_9:
	.loc	1 46 1
	ret;

}
	// .globl	reduce_min
.visible .entry reduce_min(
	.param .u64 reduce_min_param_0,
	.param .u64 reduce_min_param_1,
	.param .u64 reduce_min_param_2
)
{
	.reg .pred 	%p<8>;
	.reg .f32 	%f<13>;
	.reg .b32 	%r<15>;
	.reg .b64 	%rd<20>;
	.loc	1 48 0
	// demoted variable
	.shared .align 4 .b8 _ZZ6reduceI7MinimumEvPKfyPfE7partial[4096];

	ld.param.u64 	%rd9, [reduce_min_param_0];
	ld.param.u64 	%rd10, [reduce_min_param_1];
	ld.param.u64 	%rd11, [reduce_min_param_2];
	.loc	1 49 3
	.loc	1 28 3, function_name $L__info_string2, inlined_at 1 49 3
	mov.u32 	%r1, %ntid.x;
	cvt.u64.u32 	%rd1, %r1;
	.loc	1 29 3, function_name $L__info_string2, inlined_at 1 49 3
	mov.u32 	%r6, %ctaid.x;
	cvt.u64.u32 	%rd2, %r6;
	mul.wide.u32 	%rd12, %r6, %r1;
	.loc	1 27 3, function_name $L__info_string2, inlined_at 1 49 3
	mov.u32 	%r2, %tid.x;
	.loc	1 29 3, function_name $L__info_string2, inlined_at 1 49 3
	cvt.u64.u32 	%rd13, %r2;
	add.s64 	%rd19, %rd12, %rd13;
	.loc	1 31 3, function_name $L__info_string2, inlined_at 1 49 3
	setp.ge.u64 	%p1, %rd19, %rd10;
	mov.f32 	%f12, 0f7F800000;
	@%p1 bra 	$L__BB1_3;

	.loc	1 28 3, function_name $L__info_string2, inlined_at 1 49 3
	mov.u32 	%r7, %nctaid.x;
	cvt.u64.u32 	%rd14, %r7;
	mul.lo.s64 	%rd4, %rd14, %rd1;
	.loc	1 27 3, function_name $L__info_string2, inlined_at 1 49 3
	cvta.to.global.u64 	%rd5, %rd9;
	mov.f32 	%f12, 0f7F800000;

$L__BB1_2:
	.loc	1 31 3, function_name $L__info_string2, inlined_at 1 49 3
	shl.b64 	%rd15, %rd19, 2;
	add.s64 	%rd16, %rd5, %rd15;
	ld.global.f32 	%f6, [%rd16];
	.loc	1 31 3, function_name $L__info_string2, inlined_at 1 49 3
	.loc	1 17 40, function_name $L__info_string3, inlined_at 1 31 3
	min.f32 	%f12, %f12, %f6;
	.loc	1 31 3, function_name $L__info_string2, inlined_at 1 49 3
	add.s64 	%rd19, %rd19, %rd4;
	setp.lt.u64 	%p2, %rd19, %rd10;
	@%p2 bra 	$L__BB1_2;

$L__BB1_3:
	.loc	1 32 3, function_name $L__info_string2, inlined_at 1 49 3
	shl.b32 	%r9, %r2, 2;
	mov.u32 	%r10, _ZZ6reduceI7MinimumEvPKfyPfE7partial;
	add.s32 	%r3, %r10, %r9;
	st.shared.f32 	[%r3], %f12;
	.loc	1 33 3, function_name $L__info_string2, inlined_at 1 49 3
	bar.sync 	0;
	.loc	1 27 3, function_name $L__info_string2, inlined_at 1 49 3
	cvta.to.global.u64 	%rd8, %rd11;
	mov.u32 	%r14, 512;

$L__BB1_4:
	.pragma "nounroll";
	.loc	1 36 5, function_name $L__info_string2, inlined_at 1 49 3
	add.s32 	%r11, %r14, %r2;
	setp.ge.u32 	%p3, %r11, %r1;
	setp.ge.u32 	%p4, %r2, %r14;
	or.pred  	%p5, %p4, %p3;
	@%p5 bra 	$L__BB1_6;

	.loc	1 37 7, function_name $L__info_string2, inlined_at 1 49 3
	ld.shared.f32 	%f7, [%r3];
	shl.b32 	%r12, %r14, 2;
	add.s32 	%r13, %r3, %r12;
	ld.shared.f32 	%f8, [%r13];
	.loc	1 37 7, function_name $L__info_string2, inlined_at 1 49 3
	.loc	1 17 40, function_name $L__info_string3, inlined_at 1 37 7
	min.f32 	%f9, %f7, %f8;
	.loc	1 37 7, function_name $L__info_string2, inlined_at 1 49 3
	st.shared.f32 	[%r3], %f9;

$L__BB1_6:
	.loc	1 39 5, function_name $L__info_string2, inlined_at 1 49 3
	bar.sync 	0;
	.loc	1 35 45, function_name $L__info_string2, inlined_at 1 49 3
	shr.u32 	%r14, %r14, 1;
	.loc	1 35 3, function_name $L__info_string2, inlined_at 1 49 3
	setp.ne.s32 	%p6, %r14, 0;
	@%p6 bra 	$L__BB1_4;

	.loc	1 41 3, function_name $L__info_string2, inlined_at 1 49 3
	setp.ne.s32 	%p7, %r2, 0;
	@%p7 bra 	$L__BB1_9;

	ld.shared.f32 	%f10, [_ZZ6reduceI7MinimumEvPKfyPfE7partial];
	shl.b64 	%rd17, %rd2, 2;
	add.s64 	%rd18, %rd8, %rd17;
	st.global.f32 	[%rd18], %f10;

$L__BB1_9:
	.loc	1 50 1
	ret;

}
	// .globl	reduce_max
.visible .entry reduce_max(
	.param .u64 reduce_max_param_0,
	.param .u64 reduce_max_param_1,
	.param .u64 reduce_max_param_2
)
{
	.reg .pred 	%p<8>;
	.reg .f32 	%f<13>;
	.reg .b32 	%r<15>;
	.reg .b64 	%rd<20>;
	.loc	1 52 0
	// demoted variable
	.shared .align 4 .b8 _ZZ6reduceI7MaximumEvPKfyPfE7partial[4096];

	ld.param.u64 	%rd9, [reduce_max_param_0];
	ld.param.u64 	%rd10, [reduce_max_param_1];
	ld.param.u64 	%rd11, [reduce_max_param_2];
	.loc	1 53 3
	.loc	1 28 3, function_name $L__info_string4, inlined_at 1 53 3
	mov.u32 	%r1, %ntid.x;
	cvt.u64.u32 	%rd1, %r1;
	.loc	1 29 3, function_name $L__info_string4, inlined_at 1 53 3
	mov.u32 	%r6, %ctaid.x;
	cvt.u64.u32 	%rd2, %r6;
	mul.wide.u32 	%rd12, %r6, %r1;
	.loc	1 27 3, function_name $L__info_string4, inlined_at 1 53 3
	mov.u32 	%r2, %tid.x;
	.loc	1 29 3, function_name $L__info_string4, inlined_at 1 53 3
	cvt.u64.u32 	%rd13, %r2;
	add.s64 	%rd19, %rd12, %rd13;
	.loc	1 31 3, function_name $L__info_string4, inlined_at 1 53 3
	setp.ge.u64 	%p1, %rd19, %rd10;
	mov.f32 	%f12, 0fFF800000;
	@%p1 bra 	$L__BB2_3;

	.loc	1 28 3, function_name $L__info_string4, inlined_at 1 53 3
	mov.u32 	%r7, %nctaid.x;
	cvt.u64.u32 	%rd14, %r7;
	mul.lo.s64 	%rd4, %rd14, %rd1;
	.loc	1 27 3, function_name $L__info_string4, inlined_at 1 53 3
	cvta.to.global.u64 	%rd5, %rd9;
	mov.f32 	%f12, 0fFF800000;

$L__BB2_2:
	.loc	1 31 3, function_name $L__info_string4, inlined_at 1 53 3
	shl.b64 	%rd15, %rd19, 2;
	add.s64 	%rd16, %rd5, %rd15;
	ld.global.f32 	%f6, [%rd16];
	.loc	1 31 3, function_name $L__info_string4, inlined_at 1 53 3
	.loc	1 21 40, function_name $L__info_string5, inlined_at 1 31 3
	max.f32 	%f12, %f12, %f6;
	.loc	1 31 3, function_name $L__info_string4, inlined_at 1 53 3
	add.s64 	%rd19, %rd19, %rd4;
	setp.lt.u64 	%p2, %rd19, %rd10;
	@%p2 bra 	$L__BB2_2;

$L__BB2_3:
	.loc	1 32 3, function_name $L__info_string4, inlined_at 1 53 3
	shl.b32 	%r9, %r2, 2;
	mov.u32 	%r10, _ZZ6reduceI7MaximumEvPKfyPfE7partial;
	add.s32 	%r3, %r10, %r9;
	st.shared.f32 	[%r3], %f12;
	.loc	1 33 3, function_name $L__info_string4, inlined_at 1 53 3
	bar.sync 	0;
	.loc	1 27 3, function_name $L__info_string4, inlined_at 1 53 3
	cvta.to.global.u64 	%rd8, %rd11;
	mov.u32 	%r14, 512;

$L__BB2_4:
	.pragma "nounroll";
	.loc	1 36 5, function_name $L__info_string4, inlined_at 1 53 3
	add.s32 	%r11, %r14, %r2;
	setp.ge.u32 	%p3, %r11, %r1;
	setp.ge.u32 	%p4, %r2, %r14;
	or.pred  	%p5, %p4, %p3;
	@%p5 bra 	$L__BB2_6;

	.loc	1 37 7, function_name $L__info_string4, inlined_at 1 53 3
	ld.shared.f32 	%f7, [%r3];
	shl.b32 	%r12, %r14, 2;
	add.s32 	%r13, %r3, %r12;
	ld.shared.f32 	%f8, [%r13];
	.loc	1 37 7, function_name $L__info_string4, inlined_at 1 53 3
	.loc	1 21 40, function_name $L__info_string5, inlined_at 1 37 7
	max.f32 	%f9, %f7, %f8;
	.loc	1 37 7, function_name $L__info_string4, inlined_at 1 53 3
	st.shared.f32 	[%r3], %f9;

$L__BB2_6:
	.loc	1 39 5, function_name $L__info_string4, inlined_at 1 53 3
	bar.sync 	0;
	.loc	1 35 45, function_name $L__info_string4, inlined_at 1 53 3
	shr.u32 	%r14, %r14, 1;
	.loc	1 35 3, function_name $L__info_string4, inlined_at 1 53 3
	setp.ne.s32 	%p6, %r14, 0;
	@%p6 bra 	$L__BB2_4;

	.loc	1 41 3, function_name $L__info_string4, inlined_at 1 53 3
	setp.ne.s32 	%p7, %r2, 0;
	@%p7 bra 	$L__BB2_9;

	ld.shared.f32 	%f10, [_ZZ6reduceI7MaximumEvPKfyPfE7partial];
	shl.b64 	%rd17, %rd2, 2;
	add.s64 	%rd18, %rd8, %rd17;
	st.global.f32 	[%rd18], %f10;

$L__BB2_9:
	.loc	1 54 1
	ret;

}
	.file	1 "reduce.cu"
	.section	.debug_str
	{
$L__info_string0:
.b8 95,90,54,114,101,100,117,99,101,73,51,83,117,109,69,118,80,75,102,121,80,102,0
$L__info_string1:
.b8 95,90,78,51,83,117,109,50,111,102,69,102,102,0
$L__info_string2:
.b8 95,90,54,114,101,100,117,99,101,73,55,77,105,110,105,109,117,109,69,118,80,75,102,121,80,102,0
$L__info_string3:
.b8 95,90,78,55,77,105,110,105,109,117,109,50,111,102,69,102,102,0
$L__info_string4:
.b8 95,90,54,114,101,100,117,99,101,73,55,77,97,120,105,109,117,109,69,118,80,75,102,121,80,102,0
$L__info_string5:
.b8 95,90,78,55,77,97,120,105,109,117,109,50,111,102,69,102,102,0

	}
`;
