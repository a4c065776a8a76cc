// Generated from textures.cu by `poolpass bind textures.cu --import ../../mod.ts --no-fused-multiply-add`, compiled by nvrtc 13.0. Do not edit.

import type { Pointer, Ptx } from "../../mod.ts";

/** The parameters of the kernels in `textures.cu`. */
export interface Kernels {
  /**
   * ```c
   * void shift(
   *   float* moved,
   *   int pitch,
   *   int width,
   *   int height,
   *   int shift_x,
   *   int shift_y,
   *   cudaTextureObject_t matrix
   * );
   * ```
   */
  shift: [
    moved: Pointer<Float32Array>,
    pitch: number,
    width: number,
    height: number,
    shift_x: number,
    shift_y: number,
    matrix: number | bigint,
  ];
  /**
   * ```c
   * void enlarge(
   *   unsigned char* pixels,
   *   int width,
   *   int height,
   *   float left,
   *   float top,
   *   float scale,
   *   int filter,
   *   cudaTextureObject_t image
   * );
   * ```
   */
  enlarge: [
    pixels: Pointer<Uint8Array>,
    width: number,
    height: number,
    left: number,
    top: number,
    scale: number,
    filter: number,
    image: number | bigint,
  ];
}

/** PTX of the kernels in `textures.cu`. */
export const ptx: Ptx<Kernels> = `.version 7.0
.target sm_60
.address_size 64

	// .globl	shift

.visible .entry shift(
	.param .u64 shift_param_0,
	.param .u32 shift_param_1,
	.param .u32 shift_param_2,
	.param .u32 shift_param_3,
	.param .u32 shift_param_4,
	.param .u32 shift_param_5,
	.param .u64 shift_param_6
)
{
	.reg .pred 	%p<4>;
	.reg .f32 	%f<13>;
	.reg .b32 	%r<17>;
	.reg .b64 	%rd<6>;
	.loc	1 4 0


	ld.param.u64 	%rd1, [shift_param_0];
	ld.param.u32 	%r3, [shift_param_1];
	ld.param.u32 	%r4, [shift_param_2];
	ld.param.u32 	%r5, [shift_param_3];
	ld.param.u32 	%r6, [shift_param_4];
	ld.param.u32 	%r7, [shift_param_5];
	ld.param.u64 	%rd2, [shift_param_6];
	.loc	1 13 3
	mov.u32 	%r8, %ctaid.x;
	mov.u32 	%r9, %ntid.x;
	mov.u32 	%r10, %tid.x;
	mad.lo.s32 	%r1, %r8, %r9, %r10;
	mov.u32 	%r11, %ntid.y;
	mov.u32 	%r12, %ctaid.y;
	mov.u32 	%r13, %tid.y;
	mad.lo.s32 	%r2, %r12, %r11, %r13;
	.loc	1 14 3
	setp.ge.s32 	%p1, %r1, %r4;
	setp.ge.s32 	%p2, %r2, %r5;
	or.pred  	%p3, %p1, %p2;
	@%p3 bra 	$L__BB0_2;

	.loc	1 13 3
	cvta.to.global.u64 	%rd3, %rd1;
	.loc	1 15 3
	add.s32 	%r14, %r1, %r6;
	cvt.rn.f32.s32 	%f1, %r14;
	add.rn.f32 	%f2, %f1, 0f3F000000;
	cvt.rn.f32.s32 	%f3, %r4;
	div.rn.f32 	%f4, %f2, %f3;
	add.s32 	%r15, %r2, %r7;
	cvt.rn.f32.s32 	%f5, %r15;
	add.rn.f32 	%f6, %f5, 0f3F000000;
	cvt.rn.f32.s32 	%f7, %r5;
	div.rn.f32 	%f8, %f6, %f7;
	.loc	1 16 3
	.loc	2 4815 1, function_name $L__info_string0, inlined_at 1 16 3
	.loc	2 4809 1, function_name $L__info_string1, inlined_at 2 4815 1
	tex.2d.v4.f32.f32 	{%f9, %f10, %f11, %f12}, [%rd2, {%f4, %f8}];
	.loc	1 16 3
	mad.lo.s32 	%r16, %r2, %r3, %r1;
	mul.wide.s32 	%rd4, %r16, 4;
	add.s64 	%rd5, %rd3, %rd4;
	st.global.f32 	[%rd5], %f9;

$L__BB0_2:
	.loc	1 17 1
	ret;

}
	// .globl	enlarge
.visible .entry enlarge(
	.param .u64 enlarge_param_0,
	.param .u32 enlarge_param_1,
	.param .u32 enlarge_param_2,
	.param .f32 enlarge_param_3,
	.param .f32 enlarge_param_4,
	.param .f32 enlarge_param_5,
	.param .u32 enlarge_param_6,
	.param .u64 enlarge_param_7
)
{
	.reg .pred 	%p<15>;
	.reg .f32 	%f<265>;
	.reg .b32 	%r<26>;
	.reg .b64 	%rd<6>;
	.loc	1 64 0


	ld.param.u64 	%rd1, [enlarge_param_0];
	ld.param.u32 	%r9, [enlarge_param_1];
	ld.param.u32 	%r11, [enlarge_param_2];
	ld.param.f32 	%f50, [enlarge_param_3];
	ld.param.f32 	%f51, [enlarge_param_4];
	ld.param.f32 	%f52, [enlarge_param_5];
	ld.param.u32 	%r10, [enlarge_param_6];
	ld.param.u64 	%rd2, [enlarge_param_7];
	.loc	1 74 3
	mov.u32 	%r12, %ntid.x;
	mov.u32 	%r13, %ctaid.x;
	mov.u32 	%r14, %tid.x;
	mad.lo.s32 	%r1, %r13, %r12, %r14;
	mov.u32 	%r15, %ntid.y;
	mov.u32 	%r16, %ctaid.y;
	mov.u32 	%r17, %tid.y;
	mad.lo.s32 	%r2, %r16, %r15, %r17;
	.loc	1 75 3
	setp.ge.s32 	%p1, %r1, %r9;
	setp.ge.s32 	%p2, %r2, %r11;
	or.pred  	%p3, %p1, %p2;
	@%p3 bra 	$L__BB1_17;

	.loc	1 76 3
	cvt.rn.f32.s32 	%f53, %r1;
	add.rn.f32 	%f54, %f53, 0f3F000000;
	mul.rn.f32 	%f55, %f54, %f52;
	add.rn.f32 	%f1, %f55, %f50;
	cvt.rn.f32.s32 	%f56, %r2;
	add.rn.f32 	%f57, %f56, 0f3F000000;
	mul.rn.f32 	%f58, %f57, %f52;
	add.rn.f32 	%f2, %f58, %f51;
	.loc	1 77 3
	setp.eq.s32 	%p4, %r10, 0;
	@%p4 bra 	$L__BB1_4;

	setp.ne.s32 	%p5, %r10, 2;
	@%p5 bra 	$L__BB1_5;

	.loc	1 80 18
	.loc	1 54 3, function_name $L__info_string2, inlined_at 1 80 18
	add.rn.f32 	%f59, %f1, 0fBF000000;
	cvt.rmi.f32.f32 	%f60, %f59;
	add.rn.f32 	%f61, %f2, 0fBF000000;
	cvt.rmi.f32.f32 	%f62, %f61;
	sub.rn.f32 	%f63, %f59, %f60;
	sub.rn.f32 	%f64, %f61, %f62;
	.loc	1 55 3, function_name $L__info_string2, inlined_at 1 80 18
	.loc	1 20 18, function_name $L__info_string3, inlined_at 1 55 3
	mov.f32 	%f65, 0f3F800000;
	sub.rn.f32 	%f66, %f65, %f63;
	mul.rn.f32 	%f67, %f66, %f66;
	mul.rn.f32 	%f68, %f66, %f67;
	div.rn.f32 	%f69, %f68, 0f40C00000;
	.loc	1 55 3, function_name $L__info_string2, inlined_at 1 80 18
	.loc	1 21 18, function_name $L__info_string4, inlined_at 1 55 3
	mul.rn.f32 	%f70, %f63, 0f40C00000;
	mul.rn.f32 	%f71, %f63, %f70;
	mov.f32 	%f72, 0f40800000;
	sub.rn.f32 	%f73, %f72, %f71;
	mul.rn.f32 	%f74, %f63, 0f40400000;
	mul.rn.f32 	%f75, %f63, %f74;
	mul.rn.f32 	%f76, %f63, %f75;
	add.rn.f32 	%f77, %f73, %f76;
	div.rn.f32 	%f78, %f77, 0f40C00000;
	.loc	1 55 3, function_name $L__info_string2, inlined_at 1 80 18
	add.rn.f32 	%f79, %f69, %f78;
	.loc	1 55 3, function_name $L__info_string2, inlined_at 1 80 18
	.loc	1 22 18, function_name $L__info_string5, inlined_at 1 55 3
	add.rn.f32 	%f80, %f74, 0f3F800000;
	add.rn.f32 	%f81, %f80, %f75;
	sub.rn.f32 	%f82, %f81, %f76;
	div.rn.f32 	%f83, %f82, 0f40C00000;
	.loc	1 55 3, function_name $L__info_string2, inlined_at 1 80 18
	.loc	1 23 18, function_name $L__info_string6, inlined_at 1 55 3
	mul.rn.f32 	%f84, %f63, %f63;
	mul.rn.f32 	%f85, %f63, %f84;
	div.rn.f32 	%f86, %f85, 0f40C00000;
	.loc	1 55 3, function_name $L__info_string2, inlined_at 1 80 18
	add.rn.f32 	%f87, %f86, %f83;
	.loc	1 56 3, function_name $L__info_string2, inlined_at 1 80 18
	.loc	1 20 18, function_name $L__info_string3, inlined_at 1 56 3
	sub.rn.f32 	%f88, %f65, %f64;
	mul.rn.f32 	%f89, %f88, %f88;
	mul.rn.f32 	%f90, %f88, %f89;
	div.rn.f32 	%f91, %f90, 0f40C00000;
	.loc	1 56 3, function_name $L__info_string2, inlined_at 1 80 18
	.loc	1 21 18, function_name $L__info_string4, inlined_at 1 56 3
	mul.rn.f32 	%f92, %f64, 0f40C00000;
	mul.rn.f32 	%f93, %f64, %f92;
	sub.rn.f32 	%f94, %f72, %f93;
	mul.rn.f32 	%f95, %f64, 0f40400000;
	mul.rn.f32 	%f96, %f64, %f95;
	mul.rn.f32 	%f97, %f64, %f96;
	add.rn.f32 	%f98, %f94, %f97;
	div.rn.f32 	%f99, %f98, 0f40C00000;
	.loc	1 56 3, function_name $L__info_string2, inlined_at 1 80 18
	add.rn.f32 	%f100, %f91, %f99;
	.loc	1 56 3, function_name $L__info_string2, inlined_at 1 80 18
	.loc	1 22 18, function_name $L__info_string5, inlined_at 1 56 3
	add.rn.f32 	%f101, %f95, 0f3F800000;
	add.rn.f32 	%f102, %f101, %f96;
	sub.rn.f32 	%f103, %f102, %f97;
	div.rn.f32 	%f104, %f103, 0f40C00000;
	.loc	1 56 3, function_name $L__info_string2, inlined_at 1 80 18
	.loc	1 23 18, function_name $L__info_string6, inlined_at 1 56 3
	mul.rn.f32 	%f105, %f64, %f64;
	mul.rn.f32 	%f106, %f64, %f105;
	div.rn.f32 	%f107, %f106, 0f40C00000;
	.loc	1 56 3, function_name $L__info_string2, inlined_at 1 80 18
	add.rn.f32 	%f108, %f107, %f104;
	.loc	1 57 3, function_name $L__info_string2, inlined_at 1 80 18
	add.rn.f32 	%f109, %f60, 0fBF000000;
	div.rn.f32 	%f110, %f78, %f79;
	add.rn.f32 	%f111, %f109, %f110;
	add.rn.f32 	%f112, %f60, 0f3FC00000;
	div.rn.f32 	%f113, %f86, %f87;
	add.rn.f32 	%f114, %f112, %f113;
	.loc	1 58 3, function_name $L__info_string2, inlined_at 1 80 18
	add.rn.f32 	%f115, %f62, 0fBF000000;
	div.rn.f32 	%f116, %f99, %f100;
	add.rn.f32 	%f117, %f115, %f116;
	add.rn.f32 	%f118, %f62, 0f3FC00000;
	div.rn.f32 	%f119, %f107, %f108;
	add.rn.f32 	%f120, %f118, %f119;
	.loc	1 59 3, function_name $L__info_string2, inlined_at 1 80 18
	.loc	2 4815 1, function_name $L__info_string0, inlined_at 1 59 3
	.loc	2 4809 1, function_name $L__info_string1, inlined_at 2 4815 1
	tex.2d.v4.f32.f32 	{%f121, %f122, %f123, %f124}, [%rd2, {%f111, %f117}];
	.loc	1 59 3, function_name $L__info_string2, inlined_at 1 80 18
	mul.rn.f32 	%f125, %f121, %f79;
	.loc	1 59 3, function_name $L__info_string2, inlined_at 1 80 18
	.loc	2 4815 1, function_name $L__info_string0, inlined_at 1 59 3
	.loc	2 4809 1, function_name $L__info_string1, inlined_at 2 4815 1
	tex.2d.v4.f32.f32 	{%f126, %f127, %f128, %f129}, [%rd2, {%f114, %f117}];
	.loc	1 59 3, function_name $L__info_string2, inlined_at 1 80 18
	mul.rn.f32 	%f130, %f126, %f87;
	add.rn.f32 	%f131, %f125, %f130;
	mul.rn.f32 	%f132, %f100, %f131;
	.loc	1 60 5, function_name $L__info_string2, inlined_at 1 80 18
	.loc	2 4815 1, function_name $L__info_string0, inlined_at 1 60 5
	.loc	2 4809 1, function_name $L__info_string1, inlined_at 2 4815 1
	tex.2d.v4.f32.f32 	{%f133, %f134, %f135, %f136}, [%rd2, {%f111, %f120}];
	.loc	1 60 5, function_name $L__info_string2, inlined_at 1 80 18
	mul.rn.f32 	%f137, %f133, %f79;
	.loc	1 60 5, function_name $L__info_string2, inlined_at 1 80 18
	.loc	2 4815 1, function_name $L__info_string0, inlined_at 1 60 5
	.loc	2 4809 1, function_name $L__info_string1, inlined_at 2 4815 1
	tex.2d.v4.f32.f32 	{%f138, %f139, %f140, %f141}, [%rd2, {%f114, %f120}];
	.loc	1 60 5, function_name $L__info_string2, inlined_at 1 80 18
	mul.rn.f32 	%f142, %f138, %f87;
	add.rn.f32 	%f143, %f137, %f142;
	mul.rn.f32 	%f144, %f108, %f143;
	add.rn.f32 	%f264, %f132, %f144;
	.loc	1 80 18
	bra.uni 	$L__BB1_16;

$L__BB1_4:
	.loc	1 78 20
	.loc	2 4815 1, function_name $L__info_string0, inlined_at 1 78 20
	.loc	2 4809 1, function_name $L__info_string1, inlined_at 2 4815 1
	tex.2d.v4.f32.f32 	{%f264, %f145, %f146, %f147}, [%rd2, {%f1, %f2}];
	.loc	1 78 20
	bra.uni 	$L__BB1_16;

$L__BB1_5:
	.loc	1 81 13
	setp.eq.s32 	%p6, %r10, 3;
	.loc	1 81 13
	.loc	1 39 3, function_name $L__info_string7, inlined_at 1 81 13
	add.rn.f32 	%f148, %f1, 0fBF000000;
	cvt.rmi.f32.f32 	%f5, %f148;
	add.rn.f32 	%f149, %f2, 0fBF000000;
	cvt.rmi.f32.f32 	%f6, %f149;
	sub.rn.f32 	%f150, %f148, %f5;
	sub.rn.f32 	%f151, %f149, %f6;
	mul.rn.f32 	%f152, %f150, %f150;
	mul.rn.f32 	%f7, %f150, %f152;
	add.rn.f32 	%f153, %f152, %f152;
	mov.f32 	%f154, 0f40000000;
	sub.rn.f32 	%f155, %f153, %f150;
	sub.rn.f32 	%f8, %f155, %f7;
	mov.f32 	%f156, 0f3F800000;
	sub.rn.f32 	%f157, %f156, %f150;
	mul.rn.f32 	%f158, %f157, %f157;
	mul.rn.f32 	%f9, %f157, %f158;
	mul.rn.f32 	%f159, %f152, 0f40A00000;
	sub.rn.f32 	%f160, %f154, %f159;
	mul.rn.f32 	%f161, %f7, 0f40400000;
	add.rn.f32 	%f10, %f160, %f161;
	mul.rn.f32 	%f162, %f150, 0f40C00000;
	mul.rn.f32 	%f163, %f150, %f162;
	mov.f32 	%f164, 0f40800000;
	sub.rn.f32 	%f165, %f164, %f163;
	mul.rn.f32 	%f166, %f150, 0f40400000;
	mul.rn.f32 	%f167, %f150, %f166;
	mul.rn.f32 	%f168, %f150, %f167;
	add.rn.f32 	%f11, %f165, %f168;
	mul.rn.f32 	%f169, %f152, 0f40800000;
	add.rn.f32 	%f170, %f150, %f169;
	sub.rn.f32 	%f12, %f170, %f161;
	sub.rn.f32 	%f13, %f7, %f152;
	add.rn.f32 	%f171, %f166, 0f3F800000;
	add.rn.f32 	%f172, %f171, %f167;
	sub.rn.f32 	%f14, %f172, %f168;
	mul.rn.f32 	%f173, %f151, %f151;
	mul.rn.f32 	%f15, %f151, %f173;
	add.rn.f32 	%f174, %f173, %f173;
	sub.rn.f32 	%f175, %f174, %f151;
	sub.rn.f32 	%f16, %f175, %f15;
	sub.rn.f32 	%f176, %f156, %f151;
	mul.rn.f32 	%f177, %f176, %f176;
	mul.rn.f32 	%f17, %f176, %f177;
	mul.rn.f32 	%f178, %f173, 0f40A00000;
	sub.rn.f32 	%f179, %f154, %f178;
	mul.rn.f32 	%f180, %f15, 0f40400000;
	add.rn.f32 	%f18, %f179, %f180;
	mul.rn.f32 	%f181, %f151, 0f40C00000;
	mul.rn.f32 	%f182, %f151, %f181;
	sub.rn.f32 	%f183, %f164, %f182;
	mul.rn.f32 	%f184, %f151, 0f40400000;
	mul.rn.f32 	%f185, %f151, %f184;
	mul.rn.f32 	%f186, %f151, %f185;
	add.rn.f32 	%f19, %f183, %f186;
	mul.rn.f32 	%f187, %f173, 0f40800000;
	add.rn.f32 	%f188, %f151, %f187;
	sub.rn.f32 	%f20, %f188, %f180;
	sub.rn.f32 	%f21, %f15, %f173;
	add.rn.f32 	%f189, %f184, 0f3F800000;
	add.rn.f32 	%f190, %f189, %f185;
	sub.rn.f32 	%f22, %f190, %f186;
	.loc	1 41 3, function_name $L__info_string7, inlined_at 1 81 13
	@%p6 bra 	$L__BB1_11;
	bra.uni 	$L__BB1_6;

$L__BB1_11:
	.loc	1 0 3
	mul.rn.f32 	%f36, %f8, 0f3F000000;
	add.rn.f32 	%f225, %f5, 0f00000000;
	mov.f32 	%f264, 0f00000000;
	add.rn.f32 	%f37, %f225, 0fBF000000;
	mul.rn.f32 	%f38, %f10, 0f3F000000;
	add.rn.f32 	%f226, %f5, 0f3F800000;
	add.rn.f32 	%f39, %f226, 0fBF000000;
	mul.rn.f32 	%f40, %f12, 0f3F000000;
	add.rn.f32 	%f227, %f5, 0f40000000;
	add.rn.f32 	%f41, %f227, 0fBF000000;
	mul.rn.f32 	%f42, %f13, 0f3F000000;
	add.rn.f32 	%f228, %f5, 0f40400000;
	add.rn.f32 	%f43, %f228, 0fBF000000;
	mov.u32 	%r25, 0;
	mov.u32 	%r24, 4;

$L__BB1_12:
	cvt.rn.f32.s32 	%f229, %r25;
	add.rn.f32 	%f230, %f6, %f229;
	add.rn.f32 	%f231, %f230, 0fBF000000;
	.loc	1 45 7, function_name $L__info_string7, inlined_at 1 81 13
	.loc	2 4815 1, function_name $L__info_string0, inlined_at 1 45 7
	.loc	2 4809 1, function_name $L__info_string1, inlined_at 2 4815 1
	tex.2d.v4.f32.f32 	{%f232, %f233, %f234, %f235}, [%rd2, {%f37, %f231}];
	.loc	1 45 7, function_name $L__info_string7, inlined_at 1 81 13
	mul.rn.f32 	%f236, %f36, %f232;
	add.rn.f32 	%f237, %f236, 0f00000000;
	.loc	2 4809 1, function_name $L__info_string1, inlined_at 2 4815 1
	tex.2d.v4.f32.f32 	{%f238, %f239, %f240, %f241}, [%rd2, {%f39, %f231}];
	.loc	1 45 7, function_name $L__info_string7, inlined_at 1 81 13
	mul.rn.f32 	%f242, %f38, %f238;
	add.rn.f32 	%f243, %f237, %f242;
	.loc	2 4809 1, function_name $L__info_string1, inlined_at 2 4815 1
	tex.2d.v4.f32.f32 	{%f244, %f245, %f246, %f247}, [%rd2, {%f41, %f231}];
	.loc	1 45 7, function_name $L__info_string7, inlined_at 1 81 13
	mul.rn.f32 	%f248, %f40, %f244;
	add.rn.f32 	%f249, %f243, %f248;
	.loc	2 4809 1, function_name $L__info_string1, inlined_at 2 4815 1
	tex.2d.v4.f32.f32 	{%f250, %f251, %f252, %f253}, [%rd2, {%f43, %f231}];
	.loc	1 45 7, function_name $L__info_string7, inlined_at 1 81 13
	mul.rn.f32 	%f254, %f42, %f250;
	add.rn.f32 	%f45, %f249, %f254;
	.loc	1 47 5, function_name $L__info_string7, inlined_at 1 81 13
	.loc	1 28 3, function_name $L__info_string8, inlined_at 1 47 5
	setp.eq.s32 	%p11, %r25, 0;
	mov.f32 	%f263, %f16;
	@%p11 bra 	$L__BB1_15;

	setp.ne.s32 	%p12, %r25, 1;
	mov.f32 	%f263, %f18;
	@%p12 bra 	$L__BB1_14;
	bra.uni 	$L__BB1_15;

$L__BB1_14:
	.loc	1 30 3, function_name $L__info_string8, inlined_at 1 47 5
	setp.eq.s32 	%p13, %r24, 2;
	selp.f32 	%f263, %f20, %f21, %p13;

$L__BB1_15:
	mul.rn.f32 	%f255, %f263, 0f3F000000;
	.loc	1 47 5, function_name $L__info_string7, inlined_at 1 81 13
	mul.rn.f32 	%f256, %f45, %f255;
	add.rn.f32 	%f264, %f264, %f256;
	.loc	1 41 30, function_name $L__info_string7, inlined_at 1 81 13
	add.s32 	%r25, %r25, 1;
	.loc	1 41 3, function_name $L__info_string7, inlined_at 1 81 13
	add.s32 	%r24, %r24, -1;
	setp.ne.s32 	%p14, %r25, 4;
	@%p14 bra 	$L__BB1_12;
	bra.uni 	$L__BB1_16;

$L__BB1_6:
	.loc	1 0 3
	div.rn.f32 	%f23, %f9, 0f40C00000;
	add.rn.f32 	%f192, %f5, 0f00000000;
	mov.f32 	%f264, 0f00000000;
	add.rn.f32 	%f24, %f192, 0fBF000000;
	div.rn.f32 	%f25, %f11, 0f40C00000;
	add.rn.f32 	%f193, %f5, 0f3F800000;
	add.rn.f32 	%f26, %f193, 0fBF000000;
	div.rn.f32 	%f27, %f14, 0f40C00000;
	add.rn.f32 	%f194, %f5, 0f40000000;
	add.rn.f32 	%f28, %f194, 0fBF000000;
	div.rn.f32 	%f29, %f7, 0f40C00000;
	add.rn.f32 	%f195, %f5, 0f40400000;
	add.rn.f32 	%f30, %f195, 0fBF000000;
	mov.u32 	%r23, 0;

$L__BB1_7:
	cvt.rn.f32.s32 	%f196, %r23;
	add.rn.f32 	%f197, %f6, %f196;
	add.rn.f32 	%f198, %f197, 0fBF000000;
	.loc	2 4809 1, function_name $L__info_string1, inlined_at 2 4815 1
	tex.2d.v4.f32.f32 	{%f199, %f200, %f201, %f202}, [%rd2, {%f24, %f198}];
	.loc	1 45 7, function_name $L__info_string7, inlined_at 1 81 13
	mul.rn.f32 	%f203, %f23, %f199;
	add.rn.f32 	%f204, %f203, 0f00000000;
	.loc	2 4809 1, function_name $L__info_string1, inlined_at 2 4815 1
	tex.2d.v4.f32.f32 	{%f205, %f206, %f207, %f208}, [%rd2, {%f26, %f198}];
	.loc	1 45 7, function_name $L__info_string7, inlined_at 1 81 13
	mul.rn.f32 	%f209, %f25, %f205;
	add.rn.f32 	%f210, %f204, %f209;
	.loc	2 4809 1, function_name $L__info_string1, inlined_at 2 4815 1
	tex.2d.v4.f32.f32 	{%f211, %f212, %f213, %f214}, [%rd2, {%f28, %f198}];
	.loc	1 45 7, function_name $L__info_string7, inlined_at 1 81 13
	mul.rn.f32 	%f215, %f27, %f211;
	add.rn.f32 	%f216, %f210, %f215;
	.loc	2 4809 1, function_name $L__info_string1, inlined_at 2 4815 1
	tex.2d.v4.f32.f32 	{%f217, %f218, %f219, %f220}, [%rd2, {%f30, %f198}];
	.loc	1 45 7, function_name $L__info_string7, inlined_at 1 81 13
	mul.rn.f32 	%f221, %f29, %f217;
	add.rn.f32 	%f32, %f216, %f221;
	.loc	1 47 5, function_name $L__info_string7, inlined_at 1 81 13
	.loc	1 34 3, function_name $L__info_string9, inlined_at 1 47 5
	setp.eq.s32 	%p7, %r23, 0;
	mov.f32 	%f261, %f17;
	@%p7 bra 	$L__BB1_10;

	setp.ne.s32 	%p8, %r23, 1;
	mov.f32 	%f261, %f19;
	@%p8 bra 	$L__BB1_9;
	bra.uni 	$L__BB1_10;

$L__BB1_9:
	setp.eq.s32 	%p9, %r23, 2;
	selp.f32 	%f261, %f22, %f15, %p9;

$L__BB1_10:
	div.rn.f32 	%f222, %f261, 0f40C00000;
	.loc	1 47 5, function_name $L__info_string7, inlined_at 1 81 13
	mul.rn.f32 	%f223, %f32, %f222;
	add.rn.f32 	%f264, %f264, %f223;
	.loc	1 41 30, function_name $L__info_string7, inlined_at 1 81 13
	add.s32 	%r23, %r23, 1;
	.loc	1 41 3, function_name $L__info_string7, inlined_at 1 81 13
	setp.eq.s32 	%p10, %r23, 4;
	@%p10 bra 	$L__BB1_16;
	bra.uni 	$L__BB1_7;

$L__BB1_16:
	.loc	1 82 3
	cvt.sat.f32.f32 	%f257, %f264;
	mul.rn.f32 	%f258, %f257, 0f437F0000;
	add.rn.f32 	%f259, %f258, 0f3F000000;
	cvt.rzi.u32.f32 	%r21, %f259;
	mad.lo.s32 	%r22, %r2, %r9, %r1;
	cvt.s64.s32 	%rd3, %r22;
	.loc	1 74 3
	cvta.to.global.u64 	%rd4, %rd1;
	.loc	1 82 3
	add.s64 	%rd5, %rd4, %rd3;
	st.global.u8 	[%rd5], %r21;

$L__BB1_17:
	.loc	1 83 1
	ret;

}
	.file	1 "textures.cu"
	.file	2 "__nv_nvrtc_builtin_header.h"
	.section	.debug_str
	{
$L__info_string0:
.b8 95,90,78,51,57,95,73,78,84,69,82,78,65,76,95,48,48,48,48,48,48,48,48,95,49,49,95,116,101,120,116,117,114,101,115,95,99,117,95,115
.b8 104,105,102,116,53,116,101,120,50,68,73,102,69,69,84,95,121,102,102,0
$L__info_string1:
.b8 95,90,78,51,57,95,73,78,84,69,82,78,65,76,95,48,48,48,48,48,48,48,48,95,49,49,95,116,101,120,116,117,114,101,115,95,99,117,95,115
.b8 104,105,102,116,53,116,101,120,50,68,73,102,69,69,78,49,53,95,95,110,118,95,105,116,101,120,95,116,114,97,105,116,73,84,95,69,52,116,121,112
.b8 101,69,80,83,50,95,121,102,102,0
$L__info_string2:
.b8 95,90,49,48,102,97,115,116,95,99,117,98,105,99,121,102,102,0
$L__info_string3:
.b8 95,90,54,98,101,102,111,114,101,102,0
$L__info_string4:
.b8 95,90,54,115,101,99,111,110,100,102,0
$L__info_string5:
.b8 95,90,53,116,104,105,114,100,102,0
$L__info_string6:
.b8 95,90,52,108,97,115,116,102,0
$L__info_string7:
.b8 95,90,53,99,117,98,105,99,121,102,102,98,0
$L__info_string8:
.b8 95,90,55,99,97,116,109,117,108,108,105,102,0
$L__info_string9:
.b8 95,90,54,115,112,108,105,110,101,105,102,0

	}
` as Ptx<Kernels>;
