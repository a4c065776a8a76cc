// Generated from matrix_multiply.cu by `poolpass bind matrix_multiply.cu --import ../mod.ts --no-fused-multiply-add --ptx`, compiled by nvrtc 13.0. Do not edit.

import type { Pointer, Ptx } from "../mod.ts";

/** The parameters of the kernels in `matrix_multiply.cu`. */
export interface Kernels {
  /**
   * ```c
   * void matrix_multiply(
   *   const float* a,
   *   const float* b,
   *   float* c,
   *   unsigned int m,
   *   unsigned int n,
   *   unsigned int k
   * );
   * ```
   */
  matrix_multiply: [
    a: Pointer<Float32Array>,
    b: Pointer<Float32Array>,
    c: Pointer<Float32Array>,
    m: number,
    n: number,
    k: number,
  ];
}

/** PTX of the kernels in `matrix_multiply.cu`. */
export const ptx: Ptx<Kernels> = `.version 7.0
.target sm_60
.address_size 64

	// .globl	matrix_multiply
// _ZZ15matrix_multiplyE6a_tile has been demoted
// _ZZ15matrix_multiplyE6b_tile has been demoted

.visible .entry matrix_multiply(
	.param .u64 matrix_multiply_param_0,
	.param .u64 matrix_multiply_param_1,
	.param .u64 matrix_multiply_param_2,
	.param .u32 matrix_multiply_param_3,
	.param .u32 matrix_multiply_param_4,
	.param .u32 matrix_multiply_param_5
)
{
	.reg .pred 	%p<24>;
	.reg .f32 	%f<79>;
	.reg .b32 	%r<45>;
	.reg .b64 	%rd<35>;
	.loc	1 8 0
	// demoted variable
	.shared .align 4 .b8 _ZZ15matrix_multiplyE6a_tile[1024];
	// demoted variable
	.shared .align 4 .b8 _ZZ15matrix_multiplyE6b_tile[1024];

	ld.param.u64 	%rd13, [matrix_multiply_param_0];
	ld.param.u64 	%rd14, [matrix_multiply_param_1];
	ld.param.u64 	%rd15, [matrix_multiply_param_2];
	ld.param.u32 	%r22, [matrix_multiply_param_3];
	ld.param.u32 	%r23, [matrix_multiply_param_4];
	ld.param.u32 	%r24, [matrix_multiply_param_5];
	.loc	1 11 3
	and.b32  	%r25, %r22, 15;
	setp.ne.s32 	%p1, %r25, 0;
	selp.u32 	%r26, 1, 0, %p1;
	shr.u32 	%r27, %r22, 4;
	add.s32 	%r1, %r27, %r26;
	.loc	1 12 3
	and.b32  	%r28, %r23, 15;
	setp.ne.s32 	%p2, %r28, 0;
	selp.u32 	%r29, 1, 0, %p2;
	shr.u32 	%r30, %r23, 4;
	add.s32 	%r2, %r30, %r29;
	.loc	1 13 3
	and.b32  	%r31, %r24, 15;
	setp.ne.s32 	%p3, %r31, 0;
	selp.u32 	%r32, 1, 0, %p3;
	shr.u32 	%r33, %r24, 4;
	add.s32 	%r3, %r33, %r32;
	.loc	1 16 3
	mov.u32 	%r34, %ntid.x;
	setp.eq.s32 	%p4, %r34, 16;
	mov.u32 	%r35, %ntid.y;
	setp.eq.s32 	%p5, %r35, 16;
	and.pred  	%p6, %p5, %p4;
	mov.u32 	%r36, %ntid.z;
	setp.eq.s32 	%p7, %r36, 1;
	and.pred  	%p8, %p7, %p6;
	@%p8 bra 	$L__BB0_2;

	// begin inline asm
	trap;
	// end inline asm

$L__BB0_2:
	.loc	1 17 3
	mov.u32 	%r4, %tid.x;
	.loc	1 18 3
	mov.u32 	%r5, %tid.y;
	.loc	1 20 3
	mov.u32 	%r40, %ctaid.y;
	setp.ge.u32 	%p9, %r40, %r1;
	@%p9 bra 	$L__BB0_17;

	.loc	1 22 5
	mov.u32 	%r7, %ctaid.x;
	cvt.u64.u32 	%rd1, %r24;
	mul.wide.u32 	%rd16, %r5, 64;
	mov.u64 	%rd17, _ZZ15matrix_multiplyE6a_tile;
	add.s64 	%rd5, %rd17, %rd16;
	mul.wide.u32 	%rd18, %r4, 4;
	add.s64 	%rd2, %rd5, %rd18;
	cvt.u64.u32 	%rd3, %r23;
	mov.u64 	%rd19, _ZZ15matrix_multiplyE6b_tile;
	add.s64 	%rd20, %rd19, %rd16;
	add.s64 	%rd4, %rd20, %rd18;
	.loc	1 22 77
	mov.u32 	%r8, %nctaid.x;
	.loc	1 20 66
	mov.u32 	%r9, %nctaid.y;
	add.s64 	%rd6, %rd19, %rd18;
	.loc	1 11 3
	cvta.to.global.u64 	%rd7, %rd14;
	cvta.to.global.u64 	%rd8, %rd13;
	cvta.to.global.u64 	%rd9, %rd15;

$L__BB0_4:
	.pragma "nounroll";
	.loc	1 0 3
	setp.ge.u32 	%p10, %r7, %r2;
	.loc	1 22 5
	@%p10 bra 	$L__BB0_16;

	.loc	1 0 5
	shl.b32 	%r37, %r40, 4;
	add.s32 	%r11, %r37, %r5;
	cvt.u64.u32 	%rd21, %r11;
	mul.lo.s64 	%rd10, %rd21, %rd1;
	mul.lo.s64 	%rd11, %rd21, %rd3;
	mov.u32 	%r41, %r7;

$L__BB0_6:
	.pragma "nounroll";
	.loc	1 24 7
	shl.b32 	%r38, %r41, 4;
	add.s32 	%r13, %r38, %r4;
	setp.eq.s32 	%p11, %r3, 0;
	mov.f32 	%f78, 0f00000000;
	.loc	1 27 7
	@%p11 bra 	$L__BB0_13;

	.loc	1 0 7
	cvt.u64.u32 	%rd12, %r13;
	mov.f32 	%f9, 0f00000000;
	mov.u32 	%r44, 0;
	mov.u32 	%r42, %r4;
	mov.u32 	%r43, %r5;
	mov.f32 	%f78, %f9;

$L__BB0_8:
	.pragma "nounroll";
	.loc	1 31 9
	setp.ge.u32 	%p12, %r42, %r24;
	setp.ge.u32 	%p13, %r11, %r22;
	or.pred  	%p14, %p13, %p12;
	mov.f32 	%f76, %f9;
	@%p14 bra 	$L__BB0_10;

	cvt.u64.u32 	%rd22, %r42;
	add.s64 	%rd23, %rd10, %rd22;
	shl.b64 	%rd24, %rd23, 2;
	add.s64 	%rd25, %rd8, %rd24;
	ld.global.f32 	%f76, [%rd25];

$L__BB0_10:
	st.shared.f32 	[%rd2], %f76;
	.loc	1 32 9
	setp.ge.u32 	%p15, %r43, %r24;
	setp.ge.u32 	%p16, %r13, %r23;
	mov.f32 	%f77, 0f00000000;
	or.pred  	%p17, %p16, %p15;
	@%p17 bra 	$L__BB0_12;

	cvt.u64.u32 	%rd26, %r43;
	mul.lo.s64 	%rd27, %rd26, %rd3;
	add.s64 	%rd28, %rd27, %rd12;
	shl.b64 	%rd29, %rd28, 2;
	add.s64 	%rd30, %rd7, %rd29;
	ld.global.f32 	%f77, [%rd30];

$L__BB0_12:
	st.shared.f32 	[%rd4], %f77;
	.loc	1 33 9
	bar.sync 	0;
	.loc	1 34 9
	ld.shared.f32 	%f12, [%rd6];
	ld.shared.f32 	%f13, [%rd5];
	mul.rn.f32 	%f14, %f13, %f12;
	add.rn.f32 	%f15, %f78, %f14;
	ld.shared.f32 	%f16, [%rd6+64];
	ld.shared.f32 	%f17, [%rd5+4];
	mul.rn.f32 	%f18, %f17, %f16;
	add.rn.f32 	%f19, %f15, %f18;
	ld.shared.f32 	%f20, [%rd6+128];
	ld.shared.f32 	%f21, [%rd5+8];
	mul.rn.f32 	%f22, %f21, %f20;
	add.rn.f32 	%f23, %f19, %f22;
	ld.shared.f32 	%f24, [%rd6+192];
	ld.shared.f32 	%f25, [%rd5+12];
	mul.rn.f32 	%f26, %f25, %f24;
	add.rn.f32 	%f27, %f23, %f26;
	ld.shared.f32 	%f28, [%rd6+256];
	ld.shared.f32 	%f29, [%rd5+16];
	mul.rn.f32 	%f30, %f29, %f28;
	add.rn.f32 	%f31, %f27, %f30;
	ld.shared.f32 	%f32, [%rd6+320];
	ld.shared.f32 	%f33, [%rd5+20];
	mul.rn.f32 	%f34, %f33, %f32;
	add.rn.f32 	%f35, %f31, %f34;
	ld.shared.f32 	%f36, [%rd6+384];
	ld.shared.f32 	%f37, [%rd5+24];
	mul.rn.f32 	%f38, %f37, %f36;
	add.rn.f32 	%f39, %f35, %f38;
	ld.shared.f32 	%f40, [%rd6+448];
	ld.shared.f32 	%f41, [%rd5+28];
	mul.rn.f32 	%f42, %f41, %f40;
	add.rn.f32 	%f43, %f39, %f42;
	ld.shared.f32 	%f44, [%rd6+512];
	ld.shared.f32 	%f45, [%rd5+32];
	mul.rn.f32 	%f46, %f45, %f44;
	add.rn.f32 	%f47, %f43, %f46;
	ld.shared.f32 	%f48, [%rd6+576];
	ld.shared.f32 	%f49, [%rd5+36];
	mul.rn.f32 	%f50, %f49, %f48;
	add.rn.f32 	%f51, %f47, %f50;
	ld.shared.f32 	%f52, [%rd6+640];
	ld.shared.f32 	%f53, [%rd5+40];
	mul.rn.f32 	%f54, %f53, %f52;
	add.rn.f32 	%f55, %f51, %f54;
	ld.shared.f32 	%f56, [%rd6+704];
	ld.shared.f32 	%f57, [%rd5+44];
	mul.rn.f32 	%f58, %f57, %f56;
	add.rn.f32 	%f59, %f55, %f58;
	ld.shared.f32 	%f60, [%rd6+768];
	ld.shared.f32 	%f61, [%rd5+48];
	mul.rn.f32 	%f62, %f61, %f60;
	add.rn.f32 	%f63, %f59, %f62;
	ld.shared.f32 	%f64, [%rd6+832];
	ld.shared.f32 	%f65, [%rd5+52];
	mul.rn.f32 	%f66, %f65, %f64;
	add.rn.f32 	%f67, %f63, %f66;
	ld.shared.f32 	%f68, [%rd6+896];
	ld.shared.f32 	%f69, [%rd5+56];
	mul.rn.f32 	%f70, %f69, %f68;
	add.rn.f32 	%f71, %f67, %f70;
	ld.shared.f32 	%f72, [%rd6+960];
	ld.shared.f32 	%f73, [%rd5+60];
	mul.rn.f32 	%f74, %f73, %f72;
	add.rn.f32 	%f78, %f71, %f74;
	.loc	1 35 9
	bar.sync 	0;
	.loc	1 27 7
	add.s32 	%r43, %r43, 16;
	add.s32 	%r42, %r42, 16;
	.loc	1 27 49
	add.s32 	%r44, %r44, 1;
	.loc	1 27 7
	setp.lt.u32 	%p18, %r44, %r3;
	@%p18 bra 	$L__BB0_8;

$L__BB0_13:
	.loc	1 37 7
	setp.ge.u32 	%p19, %r13, %r23;
	setp.ge.u32 	%p20, %r11, %r22;
	or.pred  	%p21, %p20, %p19;
	@%p21 bra 	$L__BB0_15;

	cvt.u64.u32 	%rd31, %r13;
	add.s64 	%rd32, %rd11, %rd31;
	shl.b64 	%rd33, %rd32, 2;
	add.s64 	%rd34, %rd9, %rd33;
	st.global.f32 	[%rd34], %f78;

$L__BB0_15:
	.loc	1 22 77
	add.s32 	%r41, %r41, %r8;
	.loc	1 22 5
	setp.lt.u32 	%p22, %r41, %r2;
	@%p22 bra 	$L__BB0_6;

$L__BB0_16:
	.loc	1 20 66
	add.s32 	%r40, %r40, %r9;
	.loc	1 20 3
	setp.lt.u32 	%p23, %r40, %r1;
	@%p23 bra 	$L__BB0_4;

$L__BB0_17:
	.loc	1 40 1
	ret;

}

	.file	1 "matrix_multiply.cu"
` as Ptx<Kernels>;
