// Generated from reduce.cu by `poolpass bind reduce.cu --import ../mod.ts --no-fused-multiply-add --ptx`, compiled by nvrtc 13.0. Do not edit.

import type { Pointer, Ptx } from "../mod.ts";

/** The parameters of the kernels in `reduce.cu`. */
export interface Kernels {
  /** `void reduce_sum(const float* input, unsigned long long n, float* output);` */
  reduce_sum: [input: Pointer<Float32Array>, n: number | bigint, output: Pointer<Float32Array>];
  /** `void reduce_min(const float* input, unsigned long long n, float* output);` */
  reduce_min: [input: Pointer<Float32Array>, n: number | bigint, output: Pointer<Float32Array>];
  /** `void reduce_max(const float* input, unsigned long long n, float* output);` */
  reduce_max: [input: Pointer<Float32Array>, n: number | bigint, output: Pointer<Float32Array>];
}

/** PTX of the kernels in `reduce.cu`. */
export const ptx: Ptx<Kernels> = `.version 7.0
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
	.reg .b32 	%r<12>;
	.reg .b64 	%rd<26>;
	.loc	1 44 0
	// demoted variable
	.shared .align 4 .b8 _ZZ6reduceI3SumEvPKfyPfE7partial[4096];

	ld.param.u64 	%rd11, [reduce_sum_param_0];
	ld.param.u64 	%rd12, [reduce_sum_param_1];
	ld.param.u64 	%rd13, [reduce_sum_param_2];
	.loc	1 45 3
	.loc	1 28 3, function_name $L__info_string0, inlined_at 1 45 3
	mov.u32 	%r1, %ntid.x;
	cvt.u64.u32 	%rd1, %r1;
	.loc	1 29 3, function_name $L__info_string0, inlined_at 1 45 3
	mov.u32 	%r5, %ctaid.x;
	cvt.u64.u32 	%rd2, %r5;
	mul.wide.u32 	%rd14, %r5, %r1;
	.loc	1 27 3, function_name $L__info_string0, inlined_at 1 45 3
	mov.u32 	%r6, %tid.x;
	.loc	1 29 3, function_name $L__info_string0, inlined_at 1 45 3
	cvt.u64.u32 	%rd3, %r6;
	add.s64 	%rd25, %rd14, %rd3;
	.loc	1 31 3, function_name $L__info_string0, inlined_at 1 45 3
	setp.ge.u64 	%p1, %rd25, %rd12;
	mov.f32 	%f12, 0f00000000;
	@%p1 bra 	$L__BB0_3;

	.loc	1 28 3, function_name $L__info_string0, inlined_at 1 45 3
	mov.u32 	%r7, %nctaid.x;
	cvt.u64.u32 	%rd15, %r7;
	mul.lo.s64 	%rd5, %rd15, %rd1;
	.loc	1 27 3, function_name $L__info_string0, inlined_at 1 45 3
	cvta.to.global.u64 	%rd6, %rd11;
	mov.f32 	%f12, 0f00000000;

$L__BB0_2:
	.loc	1 31 3, function_name $L__info_string0, inlined_at 1 45 3
	shl.b64 	%rd16, %rd25, 2;
	add.s64 	%rd17, %rd6, %rd16;
	ld.global.f32 	%f6, [%rd17];
	.loc	1 31 3, function_name $L__info_string0, inlined_at 1 45 3
	.loc	1 13 27, function_name $L__info_string1, inlined_at 1 31 3
	add.rn.f32 	%f12, %f12, %f6;
	.loc	1 31 3, function_name $L__info_string0, inlined_at 1 45 3
	add.s64 	%rd25, %rd25, %rd5;
	setp.lt.u64 	%p2, %rd25, %rd12;
	@%p2 bra 	$L__BB0_2;

$L__BB0_3:
	.loc	1 32 3, function_name $L__info_string0, inlined_at 1 45 3
	shl.b64 	%rd18, %rd3, 2;
	mov.u64 	%rd19, _ZZ6reduceI3SumEvPKfyPfE7partial;
	add.s64 	%rd9, %rd19, %rd18;
	st.shared.f32 	[%rd9], %f12;
	.loc	1 33 3, function_name $L__info_string0, inlined_at 1 45 3
	bar.sync 	0;
	.loc	1 27 3, function_name $L__info_string0, inlined_at 1 45 3
	cvta.to.global.u64 	%rd10, %rd13;
	mov.u32 	%r11, 512;
	cvt.u32.u64 	%r9, %rd3;

$L__BB0_4:
	.pragma "nounroll";
	.loc	1 36 5, function_name $L__info_string0, inlined_at 1 45 3
	setp.ge.u32 	%p3, %r9, %r11;
	add.s32 	%r3, %r11, %r9;
	setp.ge.u32 	%p4, %r3, %r1;
	or.pred  	%p5, %p3, %p4;
	@%p5 bra 	$L__BB0_6;

	.loc	1 37 7, function_name $L__info_string0, inlined_at 1 45 3
	ld.shared.f32 	%f7, [%rd9];
	mul.wide.u32 	%rd20, %r3, 4;
	add.s64 	%rd22, %rd19, %rd20;
	ld.shared.f32 	%f8, [%rd22];
	.loc	1 37 7, function_name $L__info_string0, inlined_at 1 45 3
	.loc	1 13 27, function_name $L__info_string1, inlined_at 1 37 7
	add.rn.f32 	%f9, %f7, %f8;
	.loc	1 37 7, function_name $L__info_string0, inlined_at 1 45 3
	st.shared.f32 	[%rd9], %f9;

$L__BB0_6:
	.loc	1 39 5, function_name $L__info_string0, inlined_at 1 45 3
	bar.sync 	0;
	.loc	1 35 45, function_name $L__info_string0, inlined_at 1 45 3
	shr.u32 	%r11, %r11, 1;
	.loc	1 35 3, function_name $L__info_string0, inlined_at 1 45 3
	setp.ne.s32 	%p6, %r11, 0;
	@%p6 bra 	$L__BB0_4;

	.loc	1 41 3, function_name $L__info_string0, inlined_at 1 45 3
	setp.ne.s32 	%p7, %r9, 0;
	@%p7 bra 	$L__BB0_9;

	ld.shared.f32 	%f10, [_ZZ6reduceI3SumEvPKfyPfE7partial];
	shl.b64 	%rd23, %rd2, 2;
	add.s64 	%rd24, %rd10, %rd23;
	st.global.f32 	[%rd24], %f10;

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
	.reg .b32 	%r<12>;
	.reg .b64 	%rd<26>;
	.loc	1 48 0
	// demoted variable
	.shared .align 4 .b8 _ZZ6reduceI7MinimumEvPKfyPfE7partial[4096];

	ld.param.u64 	%rd11, [reduce_min_param_0];
	ld.param.u64 	%rd12, [reduce_min_param_1];
	ld.param.u64 	%rd13, [reduce_min_param_2];
	.loc	1 49 3
	.loc	1 28 3, function_name $L__info_string2, inlined_at 1 49 3
	mov.u32 	%r1, %ntid.x;
	cvt.u64.u32 	%rd1, %r1;
	.loc	1 29 3, function_name $L__info_string2, inlined_at 1 49 3
	mov.u32 	%r5, %ctaid.x;
	cvt.u64.u32 	%rd2, %r5;
	mul.wide.u32 	%rd14, %r5, %r1;
	.loc	1 27 3, function_name $L__info_string2, inlined_at 1 49 3
	mov.u32 	%r6, %tid.x;
	.loc	1 29 3, function_name $L__info_string2, inlined_at 1 49 3
	cvt.u64.u32 	%rd3, %r6;
	add.s64 	%rd25, %rd14, %rd3;
	.loc	1 31 3, function_name $L__info_string2, inlined_at 1 49 3
	setp.ge.u64 	%p1, %rd25, %rd12;
	mov.f32 	%f12, 0f7F800000;
	@%p1 bra 	$L__BB1_3;

	.loc	1 28 3, function_name $L__info_string2, inlined_at 1 49 3
	mov.u32 	%r7, %nctaid.x;
	cvt.u64.u32 	%rd15, %r7;
	mul.lo.s64 	%rd5, %rd15, %rd1;
	.loc	1 27 3, function_name $L__info_string2, inlined_at 1 49 3
	cvta.to.global.u64 	%rd6, %rd11;
	mov.f32 	%f12, 0f7F800000;

$L__BB1_2:
	.loc	1 31 3, function_name $L__info_string2, inlined_at 1 49 3
	shl.b64 	%rd16, %rd25, 2;
	add.s64 	%rd17, %rd6, %rd16;
	ld.global.f32 	%f6, [%rd17];
	.loc	1 31 3, function_name $L__info_string2, inlined_at 1 49 3
	.loc	1 17 27, function_name $L__info_string3, inlined_at 1 31 3
	min.f32 	%f12, %f12, %f6;
	.loc	1 31 3, function_name $L__info_string2, inlined_at 1 49 3
	add.s64 	%rd25, %rd25, %rd5;
	setp.lt.u64 	%p2, %rd25, %rd12;
	@%p2 bra 	$L__BB1_2;

$L__BB1_3:
	.loc	1 32 3, function_name $L__info_string2, inlined_at 1 49 3
	shl.b64 	%rd18, %rd3, 2;
	mov.u64 	%rd19, _ZZ6reduceI7MinimumEvPKfyPfE7partial;
	add.s64 	%rd9, %rd19, %rd18;
	st.shared.f32 	[%rd9], %f12;
	.loc	1 33 3, function_name $L__info_string2, inlined_at 1 49 3
	bar.sync 	0;
	.loc	1 27 3, function_name $L__info_string2, inlined_at 1 49 3
	cvta.to.global.u64 	%rd10, %rd13;
	mov.u32 	%r11, 512;
	cvt.u32.u64 	%r9, %rd3;

$L__BB1_4:
	.pragma "nounroll";
	.loc	1 36 5, function_name $L__info_string2, inlined_at 1 49 3
	setp.ge.u32 	%p3, %r9, %r11;
	add.s32 	%r3, %r11, %r9;
	setp.ge.u32 	%p4, %r3, %r1;
	or.pred  	%p5, %p3, %p4;
	@%p5 bra 	$L__BB1_6;

	.loc	1 37 7, function_name $L__info_string2, inlined_at 1 49 3
	ld.shared.f32 	%f7, [%rd9];
	mul.wide.u32 	%rd20, %r3, 4;
	add.s64 	%rd22, %rd19, %rd20;
	ld.shared.f32 	%f8, [%rd22];
	.loc	1 37 7, function_name $L__info_string2, inlined_at 1 49 3
	.loc	1 17 27, function_name $L__info_string3, inlined_at 1 37 7
	min.f32 	%f9, %f7, %f8;
	.loc	1 37 7, function_name $L__info_string2, inlined_at 1 49 3
	st.shared.f32 	[%rd9], %f9;

$L__BB1_6:
	.loc	1 39 5, function_name $L__info_string2, inlined_at 1 49 3
	bar.sync 	0;
	.loc	1 35 45, function_name $L__info_string2, inlined_at 1 49 3
	shr.u32 	%r11, %r11, 1;
	.loc	1 35 3, function_name $L__info_string2, inlined_at 1 49 3
	setp.ne.s32 	%p6, %r11, 0;
	@%p6 bra 	$L__BB1_4;

	.loc	1 41 3, function_name $L__info_string2, inlined_at 1 49 3
	setp.ne.s32 	%p7, %r9, 0;
	@%p7 bra 	$L__BB1_9;

	ld.shared.f32 	%f10, [_ZZ6reduceI7MinimumEvPKfyPfE7partial];
	shl.b64 	%rd23, %rd2, 2;
	add.s64 	%rd24, %rd10, %rd23;
	st.global.f32 	[%rd24], %f10;

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
	.reg .b32 	%r<12>;
	.reg .b64 	%rd<26>;
	.loc	1 52 0
	// demoted variable
	.shared .align 4 .b8 _ZZ6reduceI7MaximumEvPKfyPfE7partial[4096];

	ld.param.u64 	%rd11, [reduce_max_param_0];
	ld.param.u64 	%rd12, [reduce_max_param_1];
	ld.param.u64 	%rd13, [reduce_max_param_2];
	.loc	1 53 3
	.loc	1 28 3, function_name $L__info_string4, inlined_at 1 53 3
	mov.u32 	%r1, %ntid.x;
	cvt.u64.u32 	%rd1, %r1;
	.loc	1 29 3, function_name $L__info_string4, inlined_at 1 53 3
	mov.u32 	%r5, %ctaid.x;
	cvt.u64.u32 	%rd2, %r5;
	mul.wide.u32 	%rd14, %r5, %r1;
	.loc	1 27 3, function_name $L__info_string4, inlined_at 1 53 3
	mov.u32 	%r6, %tid.x;
	.loc	1 29 3, function_name $L__info_string4, inlined_at 1 53 3
	cvt.u64.u32 	%rd3, %r6;
	add.s64 	%rd25, %rd14, %rd3;
	.loc	1 31 3, function_name $L__info_string4, inlined_at 1 53 3
	setp.ge.u64 	%p1, %rd25, %rd12;
	mov.f32 	%f12, 0fFF800000;
	@%p1 bra 	$L__BB2_3;

	.loc	1 28 3, function_name $L__info_string4, inlined_at 1 53 3
	mov.u32 	%r7, %nctaid.x;
	cvt.u64.u32 	%rd15, %r7;
	mul.lo.s64 	%rd5, %rd15, %rd1;
	.loc	1 27 3, function_name $L__info_string4, inlined_at 1 53 3
	cvta.to.global.u64 	%rd6, %rd11;
	mov.f32 	%f12, 0fFF800000;

$L__BB2_2:
	.loc	1 31 3, function_name $L__info_string4, inlined_at 1 53 3
	shl.b64 	%rd16, %rd25, 2;
	add.s64 	%rd17, %rd6, %rd16;
	ld.global.f32 	%f6, [%rd17];
	.loc	1 31 3, function_name $L__info_string4, inlined_at 1 53 3
	.loc	1 21 27, function_name $L__info_string5, inlined_at 1 31 3
	max.f32 	%f12, %f12, %f6;
	.loc	1 31 3, function_name $L__info_string4, inlined_at 1 53 3
	add.s64 	%rd25, %rd25, %rd5;
	setp.lt.u64 	%p2, %rd25, %rd12;
	@%p2 bra 	$L__BB2_2;

$L__BB2_3:
	.loc	1 32 3, function_name $L__info_string4, inlined_at 1 53 3
	shl.b64 	%rd18, %rd3, 2;
	mov.u64 	%rd19, _ZZ6reduceI7MaximumEvPKfyPfE7partial;
	add.s64 	%rd9, %rd19, %rd18;
	st.shared.f32 	[%rd9], %f12;
	.loc	1 33 3, function_name $L__info_string4, inlined_at 1 53 3
	bar.sync 	0;
	.loc	1 27 3, function_name $L__info_string4, inlined_at 1 53 3
	cvta.to.global.u64 	%rd10, %rd13;
	mov.u32 	%r11, 512;
	cvt.u32.u64 	%r9, %rd3;

$L__BB2_4:
	.pragma "nounroll";
	.loc	1 36 5, function_name $L__info_string4, inlined_at 1 53 3
	setp.ge.u32 	%p3, %r9, %r11;
	add.s32 	%r3, %r11, %r9;
	setp.ge.u32 	%p4, %r3, %r1;
	or.pred  	%p5, %p3, %p4;
	@%p5 bra 	$L__BB2_6;

	.loc	1 37 7, function_name $L__info_string4, inlined_at 1 53 3
	ld.shared.f32 	%f7, [%rd9];
	mul.wide.u32 	%rd20, %r3, 4;
	add.s64 	%rd22, %rd19, %rd20;
	ld.shared.f32 	%f8, [%rd22];
	.loc	1 37 7, function_name $L__info_string4, inlined_at 1 53 3
	.loc	1 21 27, function_name $L__info_string5, inlined_at 1 37 7
	max.f32 	%f9, %f7, %f8;
	.loc	1 37 7, function_name $L__info_string4, inlined_at 1 53 3
	st.shared.f32 	[%rd9], %f9;

$L__BB2_6:
	.loc	1 39 5, function_name $L__info_string4, inlined_at 1 53 3
	bar.sync 	0;
	.loc	1 35 45, function_name $L__info_string4, inlined_at 1 53 3
	shr.u32 	%r11, %r11, 1;
	.loc	1 35 3, function_name $L__info_string4, inlined_at 1 53 3
	setp.ne.s32 	%p6, %r11, 0;
	@%p6 bra 	$L__BB2_4;

	.loc	1 41 3, function_name $L__info_string4, inlined_at 1 53 3
	setp.ne.s32 	%p7, %r9, 0;
	@%p7 bra 	$L__BB2_9;

	ld.shared.f32 	%f10, [_ZZ6reduceI7MaximumEvPKfyPfE7partial];
	shl.b64 	%rd23, %rd2, 2;
	add.s64 	%rd24, %rd10, %rd23;
	st.global.f32 	[%rd24], %f10;

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
` as Ptx<Kernels>;
