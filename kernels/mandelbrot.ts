// Generated from mandelbrot.cu by `poolpass bind mandelbrot.cu --import ../mod.ts --no-fused-multiply-add --ptx`, compiled by nvrtc 13.0. Do not edit.

import type { Pointer, Ptx } from "../mod.ts";

/** The parameters of the kernels in `mandelbrot.cu`. */
export interface Kernels {
  /**
   * ```c
   * void mandelbrot(
   *   unsigned int* out,
   *   unsigned int width,
   *   unsigned int height,
   *   float left,
   *   float top,
   *   float step,
   *   unsigned int limit
   * );
   * ```
   */
  mandelbrot: [
    out: Pointer<Uint32Array>,
    width: number,
    height: number,
    left: number,
    top: number,
    step: number,
    limit: number,
  ];
}

/** PTX of the kernels in `mandelbrot.cu`. */
export const ptx: Ptx<Kernels> = `.version 7.0
.target sm_60
.address_size 64

	// .globl	mandelbrot

.visible .entry mandelbrot(
	.param .u64 mandelbrot_param_0,
	.param .u32 mandelbrot_param_1,
	.param .u32 mandelbrot_param_2,
	.param .f32 mandelbrot_param_3,
	.param .f32 mandelbrot_param_4,
	.param .f32 mandelbrot_param_5,
	.param .u32 mandelbrot_param_6
)
{
	.reg .pred 	%p<12>;
	.reg .f32 	%f<30>;
	.reg .b32 	%r<19>;
	.reg .b64 	%rd<35>;
	.loc	1 7 0


	ld.param.u64 	%rd19, [mandelbrot_param_0];
	ld.param.u32 	%r3, [mandelbrot_param_1];
	ld.param.u32 	%rd4, [mandelbrot_param_2];
	ld.param.f32 	%f11, [mandelbrot_param_3];
	ld.param.f32 	%f12, [mandelbrot_param_4];
	ld.param.f32 	%f13, [mandelbrot_param_5];
	ld.param.u32 	%r4, [mandelbrot_param_6];
	.loc	1 11 3
	cvta.to.global.u64 	%rd1, %rd19;
	mov.u32 	%r5, %ctaid.y;
	mov.u32 	%r6, %ntid.y;
	cvt.u64.u32 	%rd2, %r6;
	mul.wide.u32 	%rd20, %r5, %r6;
	mov.u32 	%r7, %tid.y;
	cvt.u64.u32 	%rd21, %r7;
	add.s64 	%rd31, %rd20, %rd21;
	setp.ge.u64 	%p1, %rd31, %rd4;
	@%p1 bra 	$L__BB0_12;

	.loc	1 13 5
	mov.u32 	%r8, %ctaid.x;
	mov.u32 	%r9, %ntid.x;
	mul.wide.u32 	%rd22, %r8, %r9;
	mov.u32 	%r10, %tid.x;
	cvt.u64.u32 	%rd23, %r10;
	add.s64 	%rd5, %rd22, %rd23;
	cvt.u64.u32 	%rd6, %r3;
	.loc	1 14 10
	mov.u32 	%r11, %nctaid.x;
	mul.wide.u32 	%rd7, %r11, %r9;
	.loc	1 11 80
	mov.u32 	%r12, %nctaid.y;
	cvt.u64.u32 	%rd24, %r12;
	mul.lo.s64 	%rd8, %rd24, %rd2;
	setp.eq.s32 	%p2, %r4, 0;
	.loc	1 11 3
	@%p2 bra 	$L__BB0_8;

$L__BB0_2:
	.pragma "nounroll";
	.loc	1 0 3
	setp.ge.u64 	%p3, %rd5, %rd6;
	.loc	1 13 5
	@%p3 bra 	$L__BB0_7;

	.loc	1 0 5
	cvt.u32.u64 	%r13, %rd31;
	cvt.rn.f32.u32 	%f14, %r13;
	mul.rn.f32 	%f15, %f14, %f13;
	add.rn.f32 	%f1, %f15, %f12;
	mul.lo.s64 	%rd10, %rd31, %rd6;
	mov.u64 	%rd32, %rd5;

$L__BB0_4:
	.pragma "nounroll";
	.loc	1 15 7
	cvt.u32.u64 	%r15, %rd32;
	cvt.rn.f32.u32 	%f20, %r15;
	mul.rn.f32 	%f21, %f20, %f13;
	add.rn.f32 	%f2, %f21, %f11;
	mov.f32 	%f26, 0f00000000;
	mov.u32 	%r18, 0;
	mov.f32 	%f27, %f26;
	mov.f32 	%f28, %f26;
	mov.f32 	%f29, %f26;

$L__BB0_5:
	.loc	1 0 7
	mov.u32 	%r1, %r18;
	.loc	1 20 9
	add.rn.f32 	%f22, %f29, %f29;
	mul.rn.f32 	%f23, %f22, %f28;
	add.rn.f32 	%f28, %f1, %f23;
	.loc	1 21 9
	sub.rn.f32 	%f24, %f27, %f26;
	add.rn.f32 	%f29, %f2, %f24;
	.loc	1 22 9
	mul.rn.f32 	%f27, %f29, %f29;
	.loc	1 23 9
	mul.rn.f32 	%f26, %f28, %f28;
	.loc	1 24 9
	add.s32 	%r18, %r1, 1;
	.loc	1 19 7
	setp.lt.u32 	%p4, %r18, %r4;
	add.rn.f32 	%f25, %f27, %f26;
	setp.le.f32 	%p5, %f25, 0f40800000;
	and.pred  	%p6, %p4, %p5;
	@%p6 bra 	$L__BB0_5;

	.loc	1 26 7
	add.s64 	%rd25, %rd32, %rd10;
	shl.b64 	%rd26, %rd25, 2;
	add.s64 	%rd27, %rd1, %rd26;
	.loc	1 24 9
	add.s32 	%r17, %r1, 1;
	.loc	1 26 7
	st.global.u32 	[%rd27], %r17;
	.loc	1 14 10
	add.s64 	%rd32, %rd32, %rd7;
	.loc	1 13 5
	setp.lt.u64 	%p7, %rd32, %rd6;
	@%p7 bra 	$L__BB0_4;

$L__BB0_7:
	.loc	1 11 80
	add.s64 	%rd31, %rd31, %rd8;
	.loc	1 11 3
	setp.lt.u64 	%p8, %rd31, %rd4;
	@%p8 bra 	$L__BB0_2;
	bra.uni 	$L__BB0_12;

$L__BB0_8:
	.pragma "nounroll";
	.loc	1 0 3
	setp.ge.u64 	%p9, %rd5, %rd6;
	.loc	1 13 5
	@%p9 bra 	$L__BB0_11;

	.loc	1 0 5
	mul.lo.s64 	%rd15, %rd31, %rd6;
	mov.u64 	%rd34, %rd5;

$L__BB0_10:
	.pragma "nounroll";
	.loc	1 26 7
	add.s64 	%rd28, %rd34, %rd15;
	shl.b64 	%rd29, %rd28, 2;
	add.s64 	%rd30, %rd1, %rd29;
	mov.u32 	%r16, 0;
	st.global.u32 	[%rd30], %r16;
	.loc	1 14 10
	add.s64 	%rd34, %rd34, %rd7;
	.loc	1 13 5
	setp.lt.u64 	%p10, %rd34, %rd6;
	@%p10 bra 	$L__BB0_10;

$L__BB0_11:
	.loc	1 11 80
	add.s64 	%rd31, %rd31, %rd8;
	.loc	1 11 3
	setp.lt.u64 	%p11, %rd31, %rd4;
	@%p11 bra 	$L__BB0_8;

$L__BB0_12:
	.loc	1 29 1
	ret;

}

	.file	1 "mandelbrot.cu"
` as Ptx<Kernels>;
