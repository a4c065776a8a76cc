// Generated from matrix_multiply.cu by `deno task kernels`, built by nvcc 13.0.88. Do not edit.

/**
 * PTX of the kernels in `matrix_multiply.cu`:
 *
 * ```c
 * void matrix_multiply(const float* a, const float* b, float* c, unsigned int m, unsigned int n, unsigned int k);
 * ```
 */
export const ptx: string = `.version 7.0
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
	.reg .b32 	%r<54>;
	.reg .b64 	%rd<26>;
	.loc	1 8 0
	// demoted variable
	.shared .align 4 .b8 _ZZ15matrix_multiplyE6a_tile[1024];
	// demoted variable
	.shared .align 4 .b8 _ZZ15matrix_multiplyE6b_tile[1024];

	ld.param.u64 	%rd9, [matrix_multiply_param_0];
	ld.param.u64 	%rd10, [matrix_multiply_param_1];
	ld.param.u64 	%rd11, [matrix_multiply_param_2];
	ld.param.u32 	%r26, [matrix_multiply_param_3];
	ld.param.u32 	%r27, [matrix_multiply_param_4];
	ld.param.u32 	%r28, [matrix_multiply_param_5];
	.loc	1 11 3
	and.b32  	%r29, %r26, 15;
	setp.ne.s32 	%p1, %r29, 0;
	selp.u32 	%r30, 1, 0, %p1;
	shr.u32 	%r31, %r26, 4;
	add.s32 	%r1, %r31, %r30;
	.loc	1 12 3
	and.b32  	%r32, %r27, 15;
	setp.ne.s32 	%p2, %r32, 0;
	selp.u32 	%r33, 1, 0, %p2;
	shr.u32 	%r34, %r27, 4;
	add.s32 	%r2, %r34, %r33;
	.loc	1 13 3
	and.b32  	%r35, %r28, 15;
	setp.ne.s32 	%p3, %r35, 0;
	selp.u32 	%r36, 1, 0, %p3;
	shr.u32 	%r37, %r28, 4;
	add.s32 	%r3, %r37, %r36;
	.loc	1 16 3
	mov.u32 	%r38, %ntid.x;
	setp.eq.s32 	%p4, %r38, 16;
	mov.u32 	%r39, %ntid.y;
	setp.eq.s32 	%p5, %r39, 16;
	and.pred  	%p6, %p5, %p4;
	mov.u32 	%r40, %ntid.z;
	setp.eq.s32 	%p7, %r40, 1;
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
	mov.u32 	%r49, %ctaid.y;
	setp.ge.u32 	%p9, %r49, %r1;
	@%p9 bra 	$L__BB0_17;

	.loc	1 22 5
	mov.u32 	%r7, %ctaid.x;
	cvt.u64.u32 	%rd1, %r28;
	shl.b32 	%r41, %r5, 6;
	mov.u32 	%r42, _ZZ15matrix_multiplyE6a_tile;
	add.s32 	%r12, %r42, %r41;
	shl.b32 	%r43, %r4, 2;
	add.s32 	%r8, %r12, %r43;
	cvt.u64.u32 	%rd2, %r27;
	mov.u32 	%r44, _ZZ15matrix_multiplyE6b_tile;
	add.s32 	%r45, %r44, %r41;
	add.s32 	%r9, %r45, %r43;
	.loc	1 22 77
	mov.u32 	%r10, %nctaid.x;
	.loc	1 20 66
	mov.u32 	%r11, %nctaid.y;
	add.s32 	%r13, %r44, %r43;
	.loc	1 11 3
	cvta.to.global.u64 	%rd3, %rd10;
	cvta.to.global.u64 	%rd4, %rd9;
	cvta.to.global.u64 	%rd5, %rd11;

$L__BB0_4:
	.pragma "nounroll";
	.loc	1 0 3
	setp.ge.u32 	%p10, %r7, %r2;
	.loc	1 22 5
	@%p10 bra 	$L__BB0_16;

	.loc	1 0 5
	shl.b32 	%r46, %r49, 4;
	add.s32 	%r15, %r46, %r5;
	cvt.u64.u32 	%rd12, %r15;
	mul.lo.s64 	%rd6, %rd12, %rd1;
	mul.lo.s64 	%rd7, %rd12, %rd2;
	mov.u32 	%r50, %r7;

$L__BB0_6:
	.pragma "nounroll";
	.loc	1 24 7
	shl.b32 	%r47, %r50, 4;
	add.s32 	%r17, %r47, %r4;
	setp.eq.s32 	%p11, %r3, 0;
	mov.f32 	%f78, 0f00000000;
	.loc	1 27 7
	@%p11 bra 	$L__BB0_13;

	.loc	1 0 7
	cvt.u64.u32 	%rd8, %r17;
	mov.f32 	%f9, 0f00000000;
	mov.u32 	%r53, 0;
	mov.u32 	%r51, %r4;
	mov.u32 	%r52, %r5;
	mov.f32 	%f78, %f9;

$L__BB0_8:
	.pragma "nounroll";
	.loc	1 31 9
	setp.ge.u32 	%p12, %r51, %r28;
	setp.ge.u32 	%p13, %r15, %r26;
	or.pred  	%p14, %p13, %p12;
	mov.f32 	%f76, %f9;
	@%p14 bra 	$L__BB0_10;

	cvt.u64.u32 	%rd13, %r51;
	add.s64 	%rd14, %rd6, %rd13;
	shl.b64 	%rd15, %rd14, 2;
	add.s64 	%rd16, %rd4, %rd15;
	ld.global.f32 	%f76, [%rd16];

$L__BB0_10:
	st.shared.f32 	[%r8], %f76;
	.loc	1 32 9
	setp.ge.u32 	%p15, %r52, %r28;
	setp.ge.u32 	%p16, %r17, %r27;
	mov.f32 	%f77, 0f00000000;
	or.pred  	%p17, %p16, %p15;
	@%p17 bra 	$L__BB0_12;

	cvt.u64.u32 	%rd17, %r52;
	mul.lo.s64 	%rd18, %rd17, %rd2;
	add.s64 	%rd19, %rd18, %rd8;
	shl.b64 	%rd20, %rd19, 2;
	add.s64 	%rd21, %rd3, %rd20;
	ld.global.f32 	%f77, [%rd21];

$L__BB0_12:
	st.shared.f32 	[%r9], %f77;
	.loc	1 33 9
	bar.sync 	0;
	.loc	1 34 9
	ld.shared.f32 	%f12, [%r13];
	ld.shared.f32 	%f13, [%r12];
	mul.rn.f32 	%f14, %f13, %f12;
	add.rn.f32 	%f15, %f78, %f14;
	ld.shared.f32 	%f16, [%r13+64];
	ld.shared.f32 	%f17, [%r12+4];
	mul.rn.f32 	%f18, %f17, %f16;
	add.rn.f32 	%f19, %f15, %f18;
	ld.shared.f32 	%f20, [%r13+128];
	ld.shared.f32 	%f21, [%r12+8];
	mul.rn.f32 	%f22, %f21, %f20;
	add.rn.f32 	%f23, %f19, %f22;
	ld.shared.f32 	%f24, [%r13+192];
	ld.shared.f32 	%f25, [%r12+12];
	mul.rn.f32 	%f26, %f25, %f24;
	add.rn.f32 	%f27, %f23, %f26;
	ld.shared.f32 	%f28, [%r13+256];
	ld.shared.f32 	%f29, [%r12+16];
	mul.rn.f32 	%f30, %f29, %f28;
	add.rn.f32 	%f31, %f27, %f30;
	ld.shared.f32 	%f32, [%r13+320];
	ld.shared.f32 	%f33, [%r12+20];
	mul.rn.f32 	%f34, %f33, %f32;
	add.rn.f32 	%f35, %f31, %f34;
	ld.shared.f32 	%f36, [%r13+384];
	ld.shared.f32 	%f37, [%r12+24];
	mul.rn.f32 	%f38, %f37, %f36;
	add.rn.f32 	%f39, %f35, %f38;
	ld.shared.f32 	%f40, [%r13+448];
	ld.shared.f32 	%f41, [%r12+28];
	mul.rn.f32 	%f42, %f41, %f40;
	add.rn.f32 	%f43, %f39, %f42;
	ld.shared.f32 	%f44, [%r13+512];
	ld.shared.f32 	%f45, [%r12+32];
	mul.rn.f32 	%f46, %f45, %f44;
	add.rn.f32 	%f47, %f43, %f46;
	ld.shared.f32 	%f48, [%r13+576];
	ld.shared.f32 	%f49, [%r12+36];
	mul.rn.f32 	%f50, %f49, %f48;
	add.rn.f32 	%f51, %f47, %f50;
	ld.shared.f32 	%f52, [%r13+640];
	ld.shared.f32 	%f53, [%r12+40];
	mul.rn.f32 	%f54, %f53, %f52;
	add.rn.f32 	%f55, %f51, %f54;
	ld.shared.f32 	%f56, [%r13+704];
	ld.shared.f32 	%f57, [%r12+44];
	mul.rn.f32 	%f58, %f57, %f56;
	add.rn.f32 	%f59, %f55, %f58;
	ld.shared.f32 	%f60, [%r13+768];
	ld.shared.f32 	%f61, [%r12+48];
	mul.rn.f32 	%f62, %f61, %f60;
	add.rn.f32 	%f63, %f59, %f62;
	ld.shared.f32 	%f64, [%r13+832];
	ld.shared.f32 	%f65, [%r12+52];
	mul.rn.f32 	%f66, %f65, %f64;
	add.rn.f32 	%f67, %f63, %f66;
	ld.shared.f32 	%f68, [%r13+896];
	ld.shared.f32 	%f69, [%r12+56];
	mul.rn.f32 	%f70, %f69, %f68;
	add.rn.f32 	%f71, %f67, %f70;
	ld.shared.f32 	%f72, [%r13+960];
	ld.shared.f32 	%f73, [%r12+60];
	mul.rn.f32 	%f74, %f73, %f72;
	add.rn.f32 	%f78, %f71, %f74;
	.loc	1 35 9
	bar.sync 	0;
	.loc	1 27 7
	add.s32 	%r52, %r52, 16;
	add.s32 	%r51, %r51, 16;
	.loc	1 27 49
	add.s32 	%r53, %r53, 1;
	.loc	1 27 7
	setp.lt.u32 	%p18, %r53, %r3;
	@%p18 bra 	$L__BB0_8;

$L__BB0_13:
	.loc	1 37 7
	setp.ge.u32 	%p19, %r17, %r27;
	setp.ge.u32 	%p20, %r15, %r26;
	or.pred  	%p21, %p20, %p19;
	@%p21 bra 	$L__BB0_15;

	cvt.u64.u32 	%rd22, %r17;
	add.s64 	%rd23, %rd7, %rd22;
	shl.b64 	%rd24, %rd23, 2;
	add.s64 	%rd25, %rd5, %rd24;
	st.global.f32 	[%rd25], %f78;

$L__BB0_15:
	.loc	1 22 77
	add.s32 	%r50, %r50, %r10;
	.loc	1 22 5
	setp.lt.u32 	%p22, %r50, %r2;
	@%p22 bra 	$L__BB0_6;

$L__BB0_16:
	.loc	1 20 66
	add.s32 	%r49, %r49, %r11;
	.loc	1 20 3
	setp.lt.u32 	%p23, %r49, %r1;
	@%p23 bra 	$L__BB0_4;

$L__BB0_17:
	.loc	1 40 1
	ret;

}

	.file	1 "matrix_multiply.cu"
`;
