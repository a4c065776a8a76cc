// Generated from relax.cu by `poolpass bind relax.cu --import ../../mod.ts --no-fused-multiply-add`, compiled by nvcc 13.0. Do not edit.

import type { Pointer, Ptx } from "../../mod.ts";

/** The parameters of the kernels in `relax.cu`. */
export interface Kernels {
  /** `void relax(float* next, const float* now, unsigned int elements, unsigned int* change);` */
  relax: [next: Pointer<Float32Array>, now: Pointer<Float32Array>, elements: number, change: Pointer<Uint32Array>];
  /** `void decide(unsigned long long condition, const unsigned int* change, float tolerance, unsigned int* steps);` */
  decide: [condition: number | bigint, change: Pointer<Uint32Array>, tolerance: number, steps: Pointer<Uint32Array>];
}

/** PTX of the kernels in `relax.cu`. */
export const ptx: Ptx<Kernels> = `.version 7.0
.target sm_60
.address_size 64

	// .globl	relax
.extern .func cudaGraphSetConditional
(
	.param .b64 cudaGraphSetConditional_param_0,
	.param .b32 cudaGraphSetConditional_param_1
)
;

.visible .entry relax(
	.param .u64 relax_param_0,
	.param .u64 relax_param_1,
	.param .u32 relax_param_2,
	.param .u64 relax_param_3
)
{
	.reg .pred 	%p<5>;
	.reg .f32 	%f<11>;
	.reg .b32 	%r<11>;
	.reg .b64 	%rd<15>;
	.loc	1 8 0


	ld.param.u64 	%rd3, [relax_param_0];
	ld.param.u64 	%rd5, [relax_param_1];
	ld.param.u32 	%r2, [relax_param_2];
	ld.param.u64 	%rd4, [relax_param_3];
	.loc	1 9 3
	cvta.to.global.u64 	%rd1, %rd5;
	mov.u32 	%r3, %ntid.x;
	mov.u32 	%r4, %ctaid.x;
	mov.u32 	%r5, %tid.x;
	mad.lo.s32 	%r1, %r4, %r3, %r5;
	.loc	1 10 3
	setp.ge.u32 	%p1, %r1, %r2;
	@%p1 bra 	$L__BB0_5;

	.loc	1 11 3
	setp.eq.s32 	%p2, %r1, 0;
	add.s32 	%r6, %r2, -1;
	setp.eq.s32 	%p3, %r1, %r6;
	or.pred  	%p4, %p2, %p3;
	.loc	1 14 3
	mul.wide.u32 	%rd6, %r1, 4;
	add.s64 	%rd2, %rd1, %rd6;
	.loc	1 12 3
	@%p4 bra 	$L__BB0_3;
	bra.uni 	$L__BB0_2;

$L__BB0_3:
	ld.global.f32 	%f10, [%rd2];
	bra.uni 	$L__BB0_4;

$L__BB0_2:
	add.s32 	%r7, %r1, -1;
	mul.wide.u32 	%rd7, %r7, 4;
	add.s64 	%rd8, %rd1, %rd7;
	add.s32 	%r8, %r1, 1;
	mul.wide.u32 	%rd9, %r8, 4;
	add.s64 	%rd10, %rd1, %rd9;
	ld.global.f32 	%f4, [%rd10];
	ld.global.f32 	%f5, [%rd8];
	add.rn.f32 	%f6, %f5, %f4;
	mul.rn.f32 	%f10, %f6, 0f3F000000;

$L__BB0_4:
	.loc	1 9 3
	cvta.to.global.u64 	%rd11, %rd3;
	.loc	1 13 3
	add.s64 	%rd13, %rd11, %rd6;
	st.global.f32 	[%rd13], %f10;
	.loc	1 14 3
	ld.global.f32 	%f7, [%rd2];
	sub.rn.f32 	%f8, %f10, %f7;
	abs.f32 	%f9, %f8;
	mov.b32 	%r9, %f9;
	.loc	1 9 3
	cvta.to.global.u64 	%rd14, %rd4;
	.loc	1 14 3
	.loc	2 157 3, function_name $L__info_string0, inlined_at 1 14 3
	atom.global.max.u32 	%r10, [%rd14], %r9;

$L__BB0_5:
	.loc	1 15 1
	ret;

}
	// .globl	decide
.visible .entry decide(
	.param .u64 decide_param_0,
	.param .u64 decide_param_1,
	.param .f32 decide_param_2,
	.param .u64 decide_param_3
)
{
	.reg .pred 	%p<2>;
	.reg .f32 	%f<3>;
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<6>;
	.loc	1 18 0


	ld.param.u64 	%rd1, [decide_param_0];
	ld.param.u64 	%rd2, [decide_param_1];
	ld.param.f32 	%f1, [decide_param_2];
	ld.param.u64 	%rd3, [decide_param_3];
	.loc	1 20 3
	cvta.to.global.u64 	%rd4, %rd2;
	cvta.to.global.u64 	%rd5, %rd3;
	ld.global.u32 	%r1, [%rd5];
	add.s32 	%r2, %r1, 1;
	st.global.u32 	[%rd5], %r2;
	.loc	1 21 3
	ld.global.f32 	%f2, [%rd4];
	setp.gt.f32 	%p1, %f2, %f1;
	selp.u32 	%r3, 1, 0, %p1;
	{ // callseq 0, 0
	.reg .b32 temp_param_reg;
	.param .b64 param0;
	st.param.b64 	[param0+0], %rd1;
	.param .b32 param1;
	st.param.b32 	[param1+0], %r3;
	call.uni 
	cudaGraphSetConditional, 
	(
	param0, 
	param1
	);
	} // callseq 0
	.loc	1 22 1
	ret;

}
	.file	1 "relax.cu"
	.file	2 "device_atomic_functions.hpp"
	.section	.debug_str
	{
$L__info_string0:
.b8 95,90,78,50,57,95,73,78,84,69,82,78,65,76,95,100,53,99,100,98,101,101,55,95,50,95,50,51,95,114,101,108,97,120,57,97,116,111,109,105
.b8 99,77,97,120,69,80,106,106,0

	}
` as Ptx<Kernels>;
