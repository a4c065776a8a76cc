// Generated from perceptron.cu by `poolpass bind perceptron.cu --import ../../mod.ts --no-fused-multiply-add`, compiled by nvrtc 13.0. Do not edit.

import type { Pointer, Ptx } from "../../mod.ts";

/** The parameters of the kernels in `perceptron.cu`. */
export interface Kernels {
  /**
   * ```c
   * void forward(
   *   const float* parameters,
   *   unsigned int hidden,
   *   unsigned int first,
   *   unsigned int n,
   *   float* units,
   *   float* errors
   * );
   * ```
   */
  forward: [
    parameters: Pointer<Float32Array>,
    hidden: number,
    first: number,
    n: number,
    units: Pointer<Float32Array>,
    errors: Pointer<Float32Array>,
  ];
  /**
   * ```c
   * void backward(
   *   const float* parameters,
   *   unsigned int hidden,
   *   unsigned int first,
   *   unsigned int n,
   *   const float* units,
   *   const float* errors,
   *   float* gradient
   * );
   * ```
   */
  backward: [
    parameters: Pointer<Float32Array>,
    hidden: number,
    first: number,
    n: number,
    units: Pointer<Float32Array>,
    errors: Pointer<Float32Array>,
    gradient: Pointer<Float32Array>,
  ];
  /** `void descend(float* parameters, const float* gradient, float rate, unsigned int n);` */
  descend: [parameters: Pointer<Float32Array>, gradient: Pointer<Float32Array>, rate: number, n: number];
}

/** PTX of the kernels in `perceptron.cu`. */
export const ptx: Ptx<Kernels> = `.version 7.0
.target sm_60
.address_size 64

	// .globl	forward

.visible .entry forward(
	.param .u64 forward_param_0,
	.param .u32 forward_param_1,
	.param .u32 forward_param_2,
	.param .u32 forward_param_3,
	.param .u64 forward_param_4,
	.param .u64 forward_param_5
)
{
	.reg .pred 	%p<4>;
	.reg .f32 	%f<26>;
	.reg .b32 	%r<46>;
	.reg .b64 	%rd<29>;
	.loc	1 23 0


	ld.param.u64 	%rd13, [forward_param_0];
	ld.param.u32 	%r9, [forward_param_1];
	ld.param.u32 	%r10, [forward_param_2];
	ld.param.u32 	%r11, [forward_param_3];
	ld.param.u64 	%rd11, [forward_param_4];
	ld.param.u64 	%rd12, [forward_param_5];
	.loc	1 25 3
	cvta.to.global.u64 	%rd1, %rd13;
	mov.u32 	%r12, %ntid.x;
	mov.u32 	%r13, %ctaid.x;
	mov.u32 	%r14, %tid.x;
	mad.lo.s32 	%r1, %r13, %r12, %r14;
	.loc	1 26 3
	setp.ge.u32 	%p1, %r1, %r11;
	@%p1 bra 	$L__BB0_5;

	.loc	1 27 3
	add.s32 	%r15, %r1, %r10;
	shl.b32 	%r16, %r15, 1;
	.loc	1 27 3
	.loc	1 10 3, function_name $L__info_string0, inlined_at 1 27 3
	shr.u32 	%r17, %r15, 15;
	and.b32  	%r18, %r17, 65535;
	xor.b32  	%r19, %r16, %r18;
	xor.b32  	%r20, %r19, 61;
	.loc	1 11 3, function_name $L__info_string0, inlined_at 1 27 3
	mul.lo.s32 	%r21, %r20, 9;
	.loc	1 12 3, function_name $L__info_string0, inlined_at 1 27 3
	shr.u32 	%r22, %r21, 4;
	xor.b32  	%r23, %r22, %r21;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 27 3
	mul.lo.s32 	%r24, %r23, 668265261;
	.loc	1 14 3, function_name $L__info_string0, inlined_at 1 27 3
	shr.u32 	%r25, %r24, 15;
	xor.b32  	%r26, %r25, %r24;
	.loc	1 15 3, function_name $L__info_string0, inlined_at 1 27 3
	shr.u32 	%r27, %r26, 8;
	cvt.rn.f32.u32 	%f7, %r27;
	mul.rn.f32 	%f8, %f7, 0f34000000;
	add.rn.f32 	%f1, %f8, 0fBF800000;
	.loc	1 27 3
	or.b32  	%r28, %r16, 1;
	.loc	1 27 3
	.loc	1 10 3, function_name $L__info_string0, inlined_at 1 27 3
	shr.u32 	%r29, %r28, 16;
	xor.b32  	%r30, %r28, %r29;
	xor.b32  	%r31, %r30, 61;
	.loc	1 11 3, function_name $L__info_string0, inlined_at 1 27 3
	mul.lo.s32 	%r32, %r31, 9;
	.loc	1 12 3, function_name $L__info_string0, inlined_at 1 27 3
	shr.u32 	%r33, %r32, 4;
	xor.b32  	%r34, %r33, %r32;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 27 3
	mul.lo.s32 	%r35, %r34, 668265261;
	.loc	1 14 3, function_name $L__info_string0, inlined_at 1 27 3
	shr.u32 	%r36, %r35, 15;
	xor.b32  	%r37, %r36, %r35;
	.loc	1 15 3, function_name $L__info_string0, inlined_at 1 27 3
	shr.u32 	%r38, %r37, 8;
	cvt.rn.f32.u32 	%f9, %r38;
	mul.rn.f32 	%f10, %f9, 0f34000000;
	add.rn.f32 	%f2, %f10, 0fBF800000;
	.loc	1 28 3
	shl.b32 	%r39, %r9, 1;
	cvt.u64.u32 	%rd2, %r39;
	cvt.u64.u32 	%rd14, %r9;
	add.s64 	%rd3, %rd2, %rd14;
	.loc	1 29 3
	add.s64 	%rd15, %rd3, %rd14;
	shl.b64 	%rd16, %rd15, 2;
	add.s64 	%rd17, %rd1, %rd16;
	ld.global.f32 	%f25, [%rd17];
	.loc	1 31 3
	setp.eq.s32 	%p2, %r9, 0;
	@%p2 bra 	$L__BB0_4;

	.loc	1 0 3
	mul.lo.s32 	%r43, %r1, %r9;
	.loc	1 31 3
	shl.b64 	%rd18, %rd3, 2;
	add.s64 	%rd28, %rd1, %rd18;
	shl.b64 	%rd19, %rd2, 2;
	add.s64 	%rd27, %rd1, %rd19;
	.loc	1 25 3
	cvta.to.global.u64 	%rd6, %rd11;
	mov.u32 	%r45, 0;
	mov.u32 	%r44, 1;

$L__BB0_3:
	.pragma "nounroll";
	.loc	1 32 5
	add.s32 	%r42, %r44, -1;
	mul.wide.u32 	%rd20, %r42, 4;
	add.s64 	%rd21, %rd1, %rd20;
	ld.global.f32 	%f11, [%rd21];
	mul.rn.f32 	%f12, %f1, %f11;
	ld.global.f32 	%f13, [%rd21+4];
	mul.rn.f32 	%f14, %f2, %f13;
	add.rn.f32 	%f15, %f12, %f14;
	ld.global.f32 	%f16, [%rd27];
	add.rn.f32 	%f17, %f16, %f15;
	mov.f32 	%f18, 0f00000000;
	max.f32 	%f19, %f18, %f17;
	.loc	1 33 5
	mul.wide.u32 	%rd22, %r43, 4;
	add.s64 	%rd23, %rd6, %rd22;
	st.global.f32 	[%rd23], %f19;
	.loc	1 34 5
	ld.global.f32 	%f20, [%rd28];
	mul.rn.f32 	%f21, %f19, %f20;
	add.rn.f32 	%f25, %f25, %f21;
	.loc	1 31 3
	add.s64 	%rd28, %rd28, 4;
	add.s64 	%rd27, %rd27, 4;
	add.s32 	%r44, %r44, 2;
	add.s32 	%r43, %r43, 1;
	.loc	1 31 40
	add.s32 	%r45, %r45, 1;
	.loc	1 31 3
	setp.lt.u32 	%p3, %r45, %r9;
	@%p3 bra 	$L__BB0_3;

$L__BB0_4:
	.loc	1 36 3
	.loc	1 19 18, function_name $L__info_string1, inlined_at 1 36 3
	mul.rn.f32 	%f22, %f1, %f2;
	.loc	1 36 3
	sub.rn.f32 	%f23, %f25, %f22;
	.loc	1 25 3
	cvta.to.global.u64 	%rd24, %rd12;
	.loc	1 36 3
	mul.wide.u32 	%rd25, %r1, 4;
	add.s64 	%rd26, %rd24, %rd25;
	st.global.f32 	[%rd26], %f23;

$L__BB0_5:
	.loc	1 37 1
	ret;

}
	// .globl	backward
.visible .entry backward(
	.param .u64 backward_param_0,
	.param .u32 backward_param_1,
	.param .u32 backward_param_2,
	.param .u32 backward_param_3,
	.param .u64 backward_param_4,
	.param .u64 backward_param_5,
	.param .u64 backward_param_6
)
{
	.reg .pred 	%p<10>;
	.reg .f32 	%f<28>;
	.reg .b32 	%r<41>;
	.reg .b64 	%rd<23>;
	.loc	1 41 0


	ld.param.u64 	%rd6, [backward_param_0];
	ld.param.u32 	%r16, [backward_param_1];
	ld.param.u32 	%r17, [backward_param_2];
	ld.param.u32 	%r18, [backward_param_3];
	ld.param.u64 	%rd9, [backward_param_4];
	ld.param.u64 	%rd7, [backward_param_5];
	ld.param.u64 	%rd8, [backward_param_6];
	.loc	1 43 3
	cvta.to.global.u64 	%rd1, %rd9;
	mov.u32 	%r19, %ntid.x;
	mov.u32 	%r20, %ctaid.x;
	mov.u32 	%r21, %tid.x;
	mad.lo.s32 	%r1, %r20, %r19, %r21;
	.loc	1 44 3
	shl.b32 	%r2, %r16, 2;
	or.b32  	%r22, %r2, 1;
	setp.gt.u32 	%p1, %r1, %r22;
	@%p1 bra 	$L__BB1_13;

	.loc	1 45 3
	mul.lo.s32 	%r3, %r16, 3;
	.loc	1 48 3
	setp.eq.s32 	%p2, %r18, 0;
	mov.f32 	%f27, 0f00000000;
	@%p2 bra 	$L__BB1_12;

	.loc	1 45 3
	cvt.u64.u32 	%rd10, %r3;
	shl.b32 	%r4, %r16, 1;
	setp.lt.u32 	%p3, %r1, %r4;
	sub.s32 	%r24, %r1, %r4;
	shr.u32 	%r25, %r1, 1;
	selp.b32 	%r38, %r25, %r24, %p3;
	cvt.u64.u32 	%rd11, %r38;
	add.s64 	%rd12, %rd11, %rd10;
	.loc	1 43 3
	cvta.to.global.u64 	%rd13, %rd6;
	shl.b64 	%rd14, %rd12, 2;
	add.s64 	%rd2, %rd13, %rd14;
	.loc	1 48 3
	sub.s32 	%r39, %r1, %r3;
	and.b32  	%r26, %r1, 1;
	bfi.b32 	%r37, %r17, %r26, 1, 31;
	.loc	1 43 3
	cvta.to.global.u64 	%rd22, %rd7;
	mov.f32 	%f27, 0f00000000;
	mov.u32 	%r40, 0;

$L__BB1_3:
	.pragma "nounroll";
	.loc	1 49 5
	ld.global.f32 	%f2, [%rd22];
	add.rn.f32 	%f3, %f2, %f2;
	setp.lt.u32 	%p4, %r1, %r3;
	.loc	1 51 5
	@%p4 bra 	$L__BB1_7;
	bra.uni 	$L__BB1_4;

$L__BB1_7:
	.loc	1 53 7
	mul.wide.u32 	%rd17, %r38, 4;
	add.s64 	%rd18, %rd1, %rd17;
	ld.global.f32 	%f17, [%rd18];
	setp.leu.f32 	%p7, %f17, 0f00000000;
	mov.f32 	%f26, 0f00000000;
	@%p7 bra 	$L__BB1_9;

	ld.global.f32 	%f18, [%rd2];
	mul.rn.f32 	%f26, %f3, %f18;

$L__BB1_9:
	.loc	1 0 7
	setp.ge.u32 	%p8, %r1, %r4;
	.loc	1 54 7
	@%p8 bra 	$L__BB1_11;

	.loc	1 54 7
	.loc	1 10 3, function_name $L__info_string0, inlined_at 1 54 7
	shr.u32 	%r27, %r37, 16;
	xor.b32  	%r28, %r37, %r27;
	xor.b32  	%r29, %r28, 61;
	.loc	1 11 3, function_name $L__info_string0, inlined_at 1 54 7
	mul.lo.s32 	%r30, %r29, 9;
	.loc	1 12 3, function_name $L__info_string0, inlined_at 1 54 7
	shr.u32 	%r31, %r30, 4;
	xor.b32  	%r32, %r31, %r30;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 54 7
	mul.lo.s32 	%r33, %r32, 668265261;
	.loc	1 14 3, function_name $L__info_string0, inlined_at 1 54 7
	shr.u32 	%r34, %r33, 15;
	xor.b32  	%r35, %r34, %r33;
	.loc	1 15 3, function_name $L__info_string0, inlined_at 1 54 7
	shr.u32 	%r36, %r35, 8;
	cvt.rn.f32.u32 	%f19, %r36;
	mul.rn.f32 	%f20, %f19, 0f34000000;
	add.rn.f32 	%f21, %f20, 0fBF800000;
	.loc	1 54 7
	mul.rn.f32 	%f26, %f21, %f26;
	bra.uni 	$L__BB1_11;

$L__BB1_4:
	.loc	1 0 7
	setp.lt.u32 	%p5, %r1, %r2;
	.loc	1 55 12
	@%p5 bra 	$L__BB1_6;
	bra.uni 	$L__BB1_5;

$L__BB1_6:
	.loc	1 56 7
	mul.wide.u32 	%rd15, %r39, 4;
	add.s64 	%rd16, %rd1, %rd15;
	ld.global.f32 	%f15, [%rd16];
	mul.rn.f32 	%f26, %f3, %f15;
	bra.uni 	$L__BB1_11;

$L__BB1_5:
	.loc	1 0 7
	setp.gt.u32 	%p6, %r1, %r2;
	.loc	1 58 7
	mul.rn.f32 	%f14, %f2, %f2;
	.loc	1 57 12
	selp.f32 	%f26, %f14, %f3, %p6;

$L__BB1_11:
	.loc	1 60 5
	add.rn.f32 	%f27, %f27, %f26;
	.loc	1 48 3
	add.s64 	%rd22, %rd22, 4;
	add.s32 	%r39, %r39, %r16;
	add.s32 	%r38, %r38, %r16;
	add.s32 	%r37, %r37, 2;
	.loc	1 48 35
	add.s32 	%r40, %r40, 1;
	.loc	1 48 3
	setp.lt.u32 	%p9, %r40, %r18;
	@%p9 bra 	$L__BB1_3;

$L__BB1_12:
	.loc	1 62 3
	cvt.rn.f32.u32 	%f22, %r18;
	div.rn.f32 	%f23, %f27, %f22;
	.loc	1 43 3
	cvta.to.global.u64 	%rd19, %rd8;
	.loc	1 62 3
	mul.wide.u32 	%rd20, %r1, 4;
	add.s64 	%rd21, %rd19, %rd20;
	st.global.f32 	[%rd21], %f23;

$L__BB1_13:
	.loc	1 63 1
	ret;

}
	// .globl	descend
.visible .entry descend(
	.param .u64 descend_param_0,
	.param .u64 descend_param_1,
	.param .f32 descend_param_2,
	.param .u32 descend_param_3
)
{
	.reg .pred 	%p<2>;
	.reg .f32 	%f<6>;
	.reg .b32 	%r<6>;
	.reg .b64 	%rd<8>;
	.loc	1 66 0


	ld.param.u64 	%rd1, [descend_param_0];
	ld.param.u64 	%rd2, [descend_param_1];
	ld.param.f32 	%f1, [descend_param_2];
	ld.param.u32 	%r2, [descend_param_3];
	.loc	1 67 3
	mov.u32 	%r3, %ctaid.x;
	mov.u32 	%r4, %ntid.x;
	mov.u32 	%r5, %tid.x;
	mad.lo.s32 	%r1, %r3, %r4, %r5;
	.loc	1 68 3
	setp.ge.u32 	%p1, %r1, %r2;
	@%p1 bra 	$L__BB2_2;

	.loc	1 67 3
	cvta.to.global.u64 	%rd3, %rd2;
	.loc	1 68 3
	mul.wide.u32 	%rd4, %r1, 4;
	add.s64 	%rd5, %rd3, %rd4;
	ld.global.f32 	%f2, [%rd5];
	mul.rn.f32 	%f3, %f2, %f1;
	.loc	1 67 3
	cvta.to.global.u64 	%rd6, %rd1;
	.loc	1 68 3
	add.s64 	%rd7, %rd6, %rd4;
	ld.global.f32 	%f4, [%rd7];
	sub.rn.f32 	%f5, %f4, %f3;
	st.global.f32 	[%rd7], %f5;

$L__BB2_2:
	.loc	1 69 1
	ret;

}
	.file	1 "perceptron.cu"
	.section	.debug_str
	{
$L__info_string0:
.b8 95,90,53,110,111,105,115,101,106,0
$L__info_string1:
.b8 95,90,54,119,97,110,116,101,100,102,102,0

	}
` as Ptx<Kernels>;
