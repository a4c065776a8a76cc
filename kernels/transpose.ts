// Generated from transpose.cu by `poolpass bind transpose.cu --import ../mod.ts --no-fused-multiply-add --ptx`, compiled by nvrtc 13.0. Do not edit.

import type { Pointer, Ptx } from "../mod.ts";

/** The parameters of the kernels in `transpose.cu`. */
export interface Kernels {
  /** `void transpose(const float* input, float* output, unsigned int rows, unsigned int columns);` */
  transpose: [input: Pointer<Float32Array>, output: Pointer<Float32Array>, rows: number, columns: number];
}

/** PTX of the kernels in `transpose.cu`. */
export const ptx: Ptx<Kernels> = `.version 7.0
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
	.reg .b32 	%r<14>;
	.reg .b64 	%rd<72>;
	.loc	1 7 0
	// demoted variable
	.shared .align 4 .b8 _ZZ9transposeE4tile[4224];

	ld.param.u64 	%rd42, [transpose_param_0];
	ld.param.u64 	%rd43, [transpose_param_1];
	ld.param.u32 	%rd2, [transpose_param_2];
	ld.param.u32 	%r1, [transpose_param_3];
	.loc	1 12 3
	mov.u32 	%r2, %ctaid.y;
	mul.wide.u32 	%rd62, %r2, 32;
	setp.ge.u64 	%p4, %rd62, %rd2;
	@%p4 bra 	$L__BB0_18;

	.loc	1 14 5
	mov.u32 	%r3, %ctaid.x;
	mul.wide.u32 	%rd3, %r3, 32;
	cvt.u64.u32 	%rd4, %r1;
	.loc	1 16 7
	mov.u32 	%r4, %tid.y;
	cvt.u64.u32 	%rd5, %r4;
	.loc	1 18 9
	mov.u32 	%r5, %tid.x;
	cvt.u64.u32 	%rd6, %r5;
	.loc	1 18 69
	mov.u32 	%r6, %ntid.x;
	cvt.u64.u32 	%rd7, %r6;
	.loc	1 16 61
	mov.u32 	%r7, %ntid.y;
	cvt.u64.u32 	%rd8, %r7;
	.loc	1 14 63
	mov.u32 	%r8, %nctaid.x;
	mul.wide.u32 	%rd9, %r8, 32;
	.loc	1 12 52
	mov.u32 	%r9, %nctaid.y;
	mul.wide.u32 	%rd10, %r9, 32;
	.loc	1 12 3
	mul.wide.u32 	%rd11, %r6, 4;
	mul.wide.u32 	%rd44, %r5, 4;
	mov.u64 	%rd45, _ZZ9transposeE4tile;
	add.s64 	%rd12, %rd45, %rd44;
	add.s64 	%rd13, %rd6, %rd7;
	cvta.to.global.u64 	%rd14, %rd43;
	cvta.to.global.u64 	%rd15, %rd42;
	cvt.u32.u64 	%r10, %rd6;
	cvt.u32.u64 	%r11, %rd5;

$L__BB0_2:
	.pragma "nounroll";
	.loc	1 0 3
	setp.ge.u64 	%p5, %rd3, %rd4;
	.loc	1 14 5
	@%p5 bra 	$L__BB0_17;

	.loc	1 0 5
	setp.lt.u32 	%p6, %r10, 32;
	setp.lt.u32 	%p7, %r11, 32;
	add.s64 	%rd17, %rd62, %rd5;
	setp.lt.u64 	%p8, %rd17, %rd2;
	and.pred  	%p1, %p7, %p8;
	add.s64 	%rd46, %rd62, %rd6;
	setp.lt.u64 	%p9, %rd46, %rd2;
	and.pred  	%p2, %p6, %p9;
	mov.u64 	%rd63, %rd3;

$L__BB0_4:
	.pragma "nounroll";
	.loc	1 16 7
	not.pred 	%p10, %p1;
	@%p10 bra 	$L__BB0_10;

	.loc	1 0 7
	add.s64 	%rd19, %rd63, %rd6;
	setp.lt.u64 	%p12, %rd19, %rd4;
	and.pred  	%p3, %p6, %p12;
	mov.u64 	%rd64, %rd17;
	mov.u64 	%rd65, %rd5;

$L__BB0_6:
	.pragma "nounroll";
	.loc	1 18 9
	not.pred 	%p13, %p3;
	@%p13 bra 	$L__BB0_9;

	.loc	1 0 9
	mul.lo.s64 	%rd47, %rd64, %rd4;
	.loc	1 18 9
	add.s64 	%rd48, %rd19, %rd47;
	shl.b64 	%rd49, %rd48, 2;
	add.s64 	%rd68, %rd15, %rd49;
	mul.lo.s64 	%rd50, %rd65, 132;
	add.s64 	%rd67, %rd12, %rd50;
	mov.u64 	%rd66, %rd13;

$L__BB0_8:
	.pragma "nounroll";
	.loc	1 19 11
	ld.global.f32 	%f1, [%rd68];
	st.shared.f32 	[%rd67], %f1;
	.loc	1 18 9
	add.s64 	%rd51, %rd63, %rd66;
	setp.lt.u64 	%p14, %rd51, %rd4;
	setp.lt.u64 	%p15, %rd66, 32;
	and.pred  	%p16, %p15, %p14;
	add.s64 	%rd68, %rd68, %rd11;
	add.s64 	%rd67, %rd67, %rd11;
	add.s64 	%rd66, %rd66, %rd7;
	@%p16 bra 	$L__BB0_8;

$L__BB0_9:
	.loc	1 16 61
	add.s64 	%rd65, %rd65, %rd8;
	.loc	1 16 7
	setp.lt.u64 	%p17, %rd65, 32;
	add.s64 	%rd64, %rd65, %rd62;
	setp.lt.u64 	%p18, %rd64, %rd2;
	and.pred  	%p19, %p17, %p18;
	@%p19 bra 	$L__BB0_6;

$L__BB0_10:
	.loc	1 0 7
	setp.gt.u32 	%p20, %r11, 31;
	.loc	1 22 7
	bar.sync 	0;
	.loc	1 24 7
	add.s64 	%rd69, %rd63, %rd5;
	setp.ge.u64 	%p21, %rd69, %rd4;
	or.pred  	%p22, %p20, %p21;
	@%p22 bra 	$L__BB0_16;

	.loc	1 0 7
	mov.u64 	%rd70, %rd5;

$L__BB0_12:
	.pragma "nounroll";
	.loc	1 26 9
	not.pred 	%p23, %p2;
	@%p23 bra 	$L__BB0_15;

	.loc	1 0 9
	mul.lo.s64 	%rd52, %rd69, %rd2;
	add.s64 	%rd35, %rd52, %rd62;
	mov.u64 	%rd71, %rd6;

$L__BB0_14:
	.pragma "nounroll";
	.loc	1 27 11
	mul.lo.s64 	%rd53, %rd71, 132;
	add.s64 	%rd55, %rd45, %rd53;
	shl.b64 	%rd56, %rd70, 2;
	add.s64 	%rd57, %rd55, %rd56;
	ld.shared.f32 	%f2, [%rd57];
	add.s64 	%rd58, %rd35, %rd71;
	shl.b64 	%rd59, %rd58, 2;
	add.s64 	%rd60, %rd14, %rd59;
	st.global.f32 	[%rd60], %f2;
	.loc	1 26 63
	add.s64 	%rd71, %rd71, %rd7;
	.loc	1 26 9
	setp.lt.u64 	%p24, %rd71, 32;
	add.s64 	%rd61, %rd71, %rd62;
	setp.lt.u64 	%p25, %rd61, %rd2;
	and.pred  	%p26, %p24, %p25;
	@%p26 bra 	$L__BB0_14;

$L__BB0_15:
	.loc	1 24 67
	add.s64 	%rd70, %rd70, %rd8;
	.loc	1 24 7
	setp.lt.u64 	%p27, %rd70, 32;
	add.s64 	%rd69, %rd70, %rd63;
	setp.lt.u64 	%p28, %rd69, %rd4;
	and.pred  	%p29, %p27, %p28;
	@%p29 bra 	$L__BB0_12;

$L__BB0_16:
	.loc	1 30 7
	bar.sync 	0;
	.loc	1 14 63
	add.s64 	%rd63, %rd63, %rd9;
	.loc	1 14 5
	setp.lt.u64 	%p30, %rd63, %rd4;
	@%p30 bra 	$L__BB0_4;

$L__BB0_17:
	.loc	1 12 52
	add.s64 	%rd62, %rd62, %rd10;
	.loc	1 12 3
	setp.lt.u64 	%p31, %rd62, %rd2;
	@%p31 bra 	$L__BB0_2;

$L__BB0_18:
	.loc	1 33 1
	ret;

}

	.file	1 "transpose.cu"
` as Ptx<Kernels>;
