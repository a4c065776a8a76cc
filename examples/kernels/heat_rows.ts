// Generated from heat_rows.cu by `poolpass bind heat_rows.cu --import ../../mod.ts --no-fused-multiply-add`, compiled by nvrtc 13.0. Do not edit.

import type { Pointer, Ptx } from "../../mod.ts";

/** The parameters of the kernels in `heat_rows.cu`. */
export interface Kernels {
  /**
   * ```c
   * void heat_rows(
   *   float* next,
   *   const float* now,
   *   int width,
   *   int height,
   *   int above,
   *   int top,
   *   int bottom,
   *   int stride,
   *   float flame_x,
   *   float flame_y,
   *   float flame_radius
   * );
   * ```
   */
  heat_rows: [
    next: Pointer<Float32Array>,
    now: Pointer<Float32Array>,
    width: number,
    height: number,
    above: number,
    top: number,
    bottom: number,
    stride: number,
    flame_x: number,
    flame_y: number,
    flame_radius: number,
  ];
}

/** PTX of the kernels in `heat_rows.cu`. */
export const ptx: Ptx<Kernels> = `.version 7.0
.target sm_60
.address_size 64

	// .globl	heat_rows

.visible .entry heat_rows(
	.param .u64 heat_rows_param_0,
	.param .u64 heat_rows_param_1,
	.param .u32 heat_rows_param_2,
	.param .u32 heat_rows_param_3,
	.param .u32 heat_rows_param_4,
	.param .u32 heat_rows_param_5,
	.param .u32 heat_rows_param_6,
	.param .u32 heat_rows_param_7,
	.param .f32 heat_rows_param_8,
	.param .f32 heat_rows_param_9,
	.param .f32 heat_rows_param_10
)
{
	.reg .pred 	%p<9>;
	.reg .f32 	%f<26>;
	.reg .b32 	%r<25>;
	.reg .b64 	%rd<16>;
	.loc	1 7 0


	ld.param.u64 	%rd1, [heat_rows_param_0];
	ld.param.u64 	%rd2, [heat_rows_param_1];
	ld.param.u32 	%r3, [heat_rows_param_2];
	ld.param.u32 	%r4, [heat_rows_param_3];
	ld.param.u32 	%r5, [heat_rows_param_4];
	ld.param.u32 	%r6, [heat_rows_param_5];
	ld.param.u32 	%r7, [heat_rows_param_6];
	ld.param.u32 	%r8, [heat_rows_param_7];
	ld.param.f32 	%f1, [heat_rows_param_8];
	ld.param.f32 	%f2, [heat_rows_param_9];
	ld.param.f32 	%f3, [heat_rows_param_10];
	.loc	1 9 3
	mov.u32 	%r9, %ntid.x;
	mov.u32 	%r10, %ctaid.x;
	mov.u32 	%r11, %tid.x;
	mad.lo.s32 	%r1, %r10, %r9, %r11;
	.loc	1 10 3
	mov.u32 	%r12, %ntid.y;
	mov.u32 	%r13, %ctaid.y;
	mov.u32 	%r14, %tid.y;
	mad.lo.s32 	%r15, %r13, %r12, %r14;
	mad.lo.s32 	%r2, %r15, %r8, %r6;
	.loc	1 11 3
	setp.ge.s32 	%p1, %r1, %r3;
	setp.gt.s32 	%p2, %r2, %r7;
	or.pred  	%p3, %p1, %p2;
	@%p3 bra 	$L__BB0_2;

	.loc	1 9 3
	cvta.to.global.u64 	%rd3, %rd2;
	cvta.to.global.u64 	%rd4, %rd1;
	.loc	1 12 3
	mad.lo.s32 	%r16, %r2, %r3, %r1;
	add.s32 	%r17, %r2, %r5;
	add.s32 	%r18, %r17, -1;
	.loc	1 13 3
	mul.wide.s32 	%rd5, %r16, 4;
	add.s64 	%rd6, %rd3, %rd5;
	.loc	1 14 3
	setp.gt.s32 	%p4, %r1, 0;
	selp.b32 	%r19, -1, 0, %p4;
	mul.wide.s32 	%rd7, %r19, 4;
	add.s64 	%rd8, %rd6, %rd7;
	add.s32 	%r20, %r3, -1;
	setp.lt.s32 	%p5, %r1, %r20;
	selp.u32 	%r21, 1, 0, %p5;
	mul.wide.u32 	%rd9, %r21, 4;
	add.s64 	%rd10, %rd6, %rd9;
	.loc	1 15 3
	setp.gt.s32 	%p6, %r17, 1;
	selp.b32 	%r22, %r3, 0, %p6;
	sub.s32 	%r23, %r16, %r22;
	mul.wide.s32 	%rd11, %r23, 4;
	add.s64 	%rd12, %rd3, %rd11;
	setp.lt.s32 	%p7, %r17, %r4;
	selp.b32 	%r24, %r3, 0, %p7;
	mul.wide.s32 	%rd13, %r24, 4;
	add.s64 	%rd14, %rd6, %rd13;
	.loc	1 14 3
	ld.global.f32 	%f4, [%rd10];
	ld.global.f32 	%f5, [%rd8];
	.loc	1 16 3
	add.rn.f32 	%f6, %f5, %f4;
	.loc	1 15 3
	ld.global.f32 	%f7, [%rd12];
	.loc	1 16 3
	add.rn.f32 	%f8, %f6, %f7;
	.loc	1 15 3
	ld.global.f32 	%f9, [%rd14];
	.loc	1 16 3
	add.rn.f32 	%f10, %f8, %f9;
	.loc	1 13 3
	ld.global.f32 	%f11, [%rd6];
	.loc	1 16 3
	mul.rn.f32 	%f12, %f11, 0fC0800000;
	add.rn.f32 	%f13, %f10, %f12;
	mul.rn.f32 	%f14, %f13, 0f3E4CCCCD;
	add.rn.f32 	%f15, %f11, %f14;
	mul.rn.f32 	%f16, %f15, 0f3F7FBE77;
	.loc	1 17 3
	cvt.rn.f32.s32 	%f17, %r1;
	sub.rn.f32 	%f18, %f17, %f1;
	cvt.rn.f32.s32 	%f19, %r18;
	sub.rn.f32 	%f20, %f19, %f2;
	.loc	1 18 3
	mul.rn.f32 	%f21, %f18, %f18;
	mul.rn.f32 	%f22, %f20, %f20;
	add.rn.f32 	%f23, %f21, %f22;
	mul.rn.f32 	%f24, %f3, %f3;
	setp.lt.f32 	%p8, %f23, %f24;
	selp.f32 	%f25, 0f42C80000, %f16, %p8;
	.loc	1 19 3
	add.s64 	%rd15, %rd4, %rd5;
	st.global.f32 	[%rd15], %f25;

$L__BB0_2:
	.loc	1 20 1
	ret;

}

	.file	1 "heat_rows.cu"
` as Ptx<Kernels>;
