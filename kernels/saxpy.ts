// Generated from saxpy.cu by `poolpass bind saxpy.cu --import ../mod.ts --no-fused-multiply-add --ptx`, compiled by nvrtc 13.0. Do not edit.

import type { Pointer, Ptx } from "../mod.ts";

/** The parameters of the kernels in `saxpy.cu`. */
export interface Kernels {
  /** `void saxpy(unsigned int n, float a, const float* x, float* y);` */
  saxpy: [n: number, a: number, x: Pointer<Float32Array>, y: Pointer<Float32Array>];
}

/** PTX of the kernels in `saxpy.cu`. */
export const ptx: Ptx<Kernels> = `.version 7.0
.target sm_60
.address_size 64

	// .globl	saxpy

.visible .entry saxpy(
	.param .u32 saxpy_param_0,
	.param .f32 saxpy_param_1,
	.param .u64 saxpy_param_2,
	.param .u64 saxpy_param_3
)
{
	.reg .pred 	%p<3>;
	.reg .f32 	%f<6>;
	.reg .b32 	%r<5>;
	.reg .b64 	%rd<18>;
	.loc	1 2 0


	ld.param.u32 	%rd3, [saxpy_param_0];
	ld.param.f32 	%f1, [saxpy_param_1];
	ld.param.u64 	%rd9, [saxpy_param_2];
	ld.param.u64 	%rd10, [saxpy_param_3];
	.loc	1 3 3
	mov.u32 	%r1, %ntid.x;
	cvt.u64.u32 	%rd1, %r1;
	.loc	1 4 3
	mov.u32 	%r2, %ctaid.x;
	mul.wide.u32 	%rd11, %r2, %r1;
	mov.u32 	%r3, %tid.x;
	cvt.u64.u32 	%rd12, %r3;
	add.s64 	%rd17, %rd11, %rd12;
	.loc	1 6 3
	setp.ge.u64 	%p1, %rd17, %rd3;
	@%p1 bra 	$L__BB0_3;

	.loc	1 3 3
	mov.u32 	%r4, %nctaid.x;
	cvt.u64.u32 	%rd13, %r4;
	mul.lo.s64 	%rd4, %rd13, %rd1;
	cvta.to.global.u64 	%rd5, %rd9;
	cvta.to.global.u64 	%rd6, %rd10;

$L__BB0_2:
	.pragma "nounroll";
	.loc	1 6 3
	shl.b64 	%rd14, %rd17, 2;
	add.s64 	%rd15, %rd5, %rd14;
	ld.global.f32 	%f2, [%rd15];
	mul.rn.f32 	%f3, %f2, %f1;
	add.s64 	%rd16, %rd6, %rd14;
	ld.global.f32 	%f4, [%rd16];
	add.rn.f32 	%f5, %f3, %f4;
	st.global.f32 	[%rd16], %f5;
	add.s64 	%rd17, %rd17, %rd4;
	setp.lt.u64 	%p2, %rd17, %rd3;
	@%p2 bra 	$L__BB0_2;

$L__BB0_3:
	.loc	1 7 1
	ret;

}

	.file	1 "saxpy.cu"
` as Ptx<Kernels>;
