// Generated from scan.cu by `poolpass bind scan.cu --import ../mod.ts --no-fused-multiply-add --ptx`, compiled by nvrtc 13.0. Do not edit.

import type { Pointer, Ptx } from "../mod.ts";

/** The parameters of the kernels in `scan.cu`. */
export interface Kernels {
  /** `void scan_totals(const unsigned int* input, unsigned long long n, unsigned int* totals);` */
  scan_totals: [input: Pointer<Uint32Array>, n: number | bigint, totals: Pointer<Uint32Array>];
  /**
   * ```c
   * void scan_inclusive(
   *   const unsigned int* input,
   *   unsigned long long n,
   *   unsigned int* output,
   *   const unsigned int* totals
   * );
   * ```
   */
  scan_inclusive: [
    input: Pointer<Uint32Array>,
    n: number | bigint,
    output: Pointer<Uint32Array>,
    totals: Pointer<Uint32Array>,
  ];
  /**
   * ```c
   * void scan_exclusive(
   *   const unsigned int* input,
   *   unsigned long long n,
   *   unsigned int* output,
   *   const unsigned int* totals
   * );
   * ```
   */
  scan_exclusive: [
    input: Pointer<Uint32Array>,
    n: number | bigint,
    output: Pointer<Uint32Array>,
    totals: Pointer<Uint32Array>,
  ];
}

/** PTX of the kernels in `scan.cu`. */
export const ptx: Ptx<Kernels> = `.version 7.0
.target sm_60
.address_size 64

	// .globl	scan_totals
.shared .align 4 .b8 _ZZ10scan_blockjRjE14zeros_and_sums[8192];

.visible .entry scan_totals(
	.param .u64 scan_totals_param_0,
	.param .u64 scan_totals_param_1,
	.param .u64 scan_totals_param_2
)
{
	.reg .pred 	%p<7>;
	.reg .b32 	%r<32>;
	.reg .b64 	%rd<42>;
	.loc	1 53 0


	ld.param.u64 	%rd15, [scan_totals_param_0];
	ld.param.u64 	%rd16, [scan_totals_param_1];
	ld.param.u64 	%rd17, [scan_totals_param_2];
	.loc	1 54 3
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 54 3
	mov.u32 	%r11, %nctaid.x;
	cvt.u64.u32 	%rd1, %r11;
	add.s64 	%rd18, %rd1, %rd16;
	add.s64 	%rd2, %rd18, -1;
	and.b64  	%rd19, %rd2, -4294967296;
	setp.eq.s64 	%p1, %rd19, 0;
	@%p1 bra 	$L__BB0_2;

	.loc	1 0 3
	div.u64 	%rd40, %rd2, %rd1;
	bra.uni 	$L__BB0_3;

$L__BB0_2:
	cvt.u32.u64 	%r12, %rd1;
	cvt.u32.u64 	%r13, %rd2;
	div.u32 	%r14, %r13, %r12;
	cvt.u64.u32 	%rd40, %r14;

$L__BB0_3:
	.loc	1 54 3
	mov.u32 	%r15, %ctaid.x;
	add.s32 	%r16, %r15, 1;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 54 3
	cvt.u64.u32 	%rd20, %r16;
	mul.lo.s64 	%rd21, %rd40, %rd20;
	min.u64 	%rd6, %rd21, %rd16;
	.loc	1 56 3
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 56 3
	cvt.u64.u32 	%rd7, %r15;
	mul.lo.s64 	%rd22, %rd40, %rd7;
	min.u64 	%rd23, %rd22, %rd16;
	.loc	1 56 3
	mov.u32 	%r1, %tid.x;
	cvt.u64.u32 	%rd24, %r1;
	add.s64 	%rd41, %rd23, %rd24;
	setp.lt.u64 	%p2, %rd41, %rd6;
	@%p2 bra 	$L__BB0_5;
	bra.uni 	$L__BB0_4;

$L__BB0_5:
	mov.u32 	%r19, %ntid.x;
	cvt.u64.u32 	%rd9, %r19;
	.loc	1 54 3
	cvta.to.global.u64 	%rd10, %rd15;
	mov.u32 	%r29, 0;

$L__BB0_6:
	.loc	1 56 3
	shl.b64 	%rd25, %rd41, 2;
	add.s64 	%rd26, %rd10, %rd25;
	ld.global.u32 	%r20, [%rd26];
	add.s32 	%r29, %r20, %r29;
	add.s64 	%rd41, %rd41, %rd9;
	setp.lt.u64 	%p3, %rd41, %rd6;
	@%p3 bra 	$L__BB0_6;
	bra.uni 	$L__BB0_7;

$L__BB0_4:
	.loc	1 0 3
	mov.u32 	%r29, 0;

$L__BB0_7:
	.loc	1 57 3
	.loc	1 21 3, function_name $L__info_string1, inlined_at 1 57 3
	add.s32 	%r21, %r1, 1024;
	mul.wide.u32 	%rd27, %r1, 4;
	mov.u64 	%rd28, _ZZ10scan_blockjRjE14zeros_and_sums;
	add.s64 	%rd13, %rd28, %rd27;
	mul.wide.u32 	%rd29, %r21, 4;
	add.s64 	%rd14, %rd28, %rd29;
	.loc	1 56 3
	mov.u32 	%r5, %ntid.x;
	.loc	1 22 3, function_name $L__info_string1, inlined_at 1 57 3
	neg.s32 	%r22, %r5;
	mov.u32 	%r23, 0;
	mul.wide.s32 	%rd30, %r22, 4;
	add.s64 	%rd31, %rd14, %rd30;
	st.shared.u32 	[%rd31], %r23;
	.loc	1 23 3, function_name $L__info_string1, inlined_at 1 57 3
	st.shared.u32 	[%rd13+4096], %r29;
	.loc	1 24 3, function_name $L__info_string1, inlined_at 1 57 3
	bar.sync 	0;
	.loc	1 26 3, function_name $L__info_string1, inlined_at 1 57 3
	setp.lt.s32 	%p4, %r5, 2;
	@%p4 bra 	$L__BB0_10;

	.loc	1 0 3
	mov.u32 	%r30, 1;

$L__BB0_9:
	.pragma "nounroll";
	.loc	1 27 5, function_name $L__info_string1, inlined_at 1 57 3
	neg.s32 	%r25, %r30;
	mul.wide.s32 	%rd32, %r25, 4;
	add.s64 	%rd33, %rd14, %rd32;
	ld.shared.u32 	%r26, [%rd33];
	add.s32 	%r29, %r26, %r29;
	.loc	1 28 5, function_name $L__info_string1, inlined_at 1 57 3
	bar.sync 	0;
	.loc	1 29 5, function_name $L__info_string1, inlined_at 1 57 3
	st.shared.u32 	[%rd13+4096], %r29;
	.loc	1 30 5, function_name $L__info_string1, inlined_at 1 57 3
	bar.sync 	0;
	.loc	1 26 46, function_name $L__info_string1, inlined_at 1 57 3
	shl.b32 	%r30, %r30, 1;
	.loc	1 26 3, function_name $L__info_string1, inlined_at 1 57 3
	setp.lt.s32 	%p5, %r30, %r5;
	@%p5 bra 	$L__BB0_9;

$L__BB0_10:
	.loc	1 32 3, function_name $L__info_string1, inlined_at 1 57 3
	add.s32 	%r27, %r5, 1023;
	mul.wide.s32 	%rd34, %r27, 4;
	add.s64 	%rd36, %rd28, %rd34;
	ld.shared.u32 	%r10, [%rd36];
	.loc	1 33 3, function_name $L__info_string1, inlined_at 1 57 3
	bar.sync 	0;
	.loc	1 58 3
	setp.ne.s32 	%p6, %r1, 0;
	@%p6 bra 	$L__BB0_12;

	.loc	1 54 3
	cvta.to.global.u64 	%rd37, %rd17;
	.loc	1 58 3
	shl.b64 	%rd38, %rd7, 2;
	add.s64 	%rd39, %rd37, %rd38;
	st.global.u32 	[%rd39], %r10;

$L__BB0_12:
	.loc	1 59 1
	ret;

}
	// .globl	scan_inclusive
.visible .entry scan_inclusive(
	.param .u64 scan_inclusive_param_0,
	.param .u64 scan_inclusive_param_1,
	.param .u64 scan_inclusive_param_2,
	.param .u64 scan_inclusive_param_3
)
{
	.reg .pred 	%p<9>;
	.reg .b32 	%r<39>;
	.reg .b64 	%rd<45>;
	.loc	1 61 0


	ld.param.u64 	%rd19, [scan_inclusive_param_0];
	ld.param.u64 	%rd20, [scan_inclusive_param_1];
	ld.param.u64 	%rd21, [scan_inclusive_param_2];
	ld.param.u64 	%rd22, [scan_inclusive_param_3];
	.loc	1 63 3
	.loc	1 40 3, function_name $L__info_string2, inlined_at 1 63 3
	mov.u32 	%r1, %ctaid.x;
	.loc	1 40 3, function_name $L__info_string2, inlined_at 1 63 3
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 40 3
	mov.u32 	%r14, %nctaid.x;
	cvt.u64.u32 	%rd1, %r14;
	add.s64 	%rd23, %rd1, %rd20;
	add.s64 	%rd2, %rd23, -1;
	and.b64  	%rd24, %rd2, -4294967296;
	setp.eq.s64 	%p1, %rd24, 0;
	@%p1 bra 	$L__BB1_2;

	.loc	1 0 3
	div.u64 	%rd43, %rd2, %rd1;
	bra.uni 	$L__BB1_3;

$L__BB1_2:
	cvt.u32.u64 	%r15, %rd1;
	cvt.u32.u64 	%r16, %rd2;
	div.u32 	%r17, %r16, %r15;
	cvt.u64.u32 	%rd43, %r17;

$L__BB1_3:
	.loc	1 40 3, function_name $L__info_string2, inlined_at 1 63 3
	add.s32 	%r18, %r1, 1;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 40 3
	cvt.u64.u32 	%rd25, %r18;
	mul.lo.s64 	%rd26, %rd43, %rd25;
	min.u64 	%rd6, %rd26, %rd20;
	.loc	1 41 3, function_name $L__info_string2, inlined_at 1 63 3
	setp.eq.s64 	%p2, %rd22, 0;
	@%p2 bra 	$L__BB1_5;

	.loc	1 40 3, function_name $L__info_string2, inlined_at 1 63 3
	cvta.to.global.u64 	%rd27, %rd22;
	.loc	1 41 3, function_name $L__info_string2, inlined_at 1 63 3
	mul.wide.u32 	%rd28, %r1, 4;
	add.s64 	%rd29, %rd27, %rd28;
	ld.global.u32 	%r34, [%rd29];
	bra.uni 	$L__BB1_6;

$L__BB1_5:
	.loc	1 0 3
	mov.u32 	%r34, 0;

$L__BB1_6:
	.loc	1 43 3, function_name $L__info_string2, inlined_at 1 63 3
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 43 3
	cvt.u64.u32 	%rd30, %r1;
	mul.lo.s64 	%rd31, %rd43, %rd30;
	min.u64 	%rd44, %rd31, %rd20;
	.loc	1 43 3, function_name $L__info_string2, inlined_at 1 63 3
	setp.ge.u64 	%p3, %rd44, %rd6;
	@%p3 bra 	$L__BB1_16;

	.loc	1 44 5, function_name $L__info_string2, inlined_at 1 63 3
	mov.u32 	%r20, %tid.x;
	cvt.u64.u32 	%rd8, %r20;
	add.s32 	%r21, %r20, 1024;
	mul.wide.u32 	%rd32, %r20, 4;
	mov.u64 	%rd33, _ZZ10scan_blockjRjE14zeros_and_sums;
	add.s64 	%rd9, %rd33, %rd32;
	mul.wide.u32 	%rd34, %r21, 4;
	add.s64 	%rd10, %rd33, %rd34;
	.loc	1 47 5, function_name $L__info_string2, inlined_at 1 63 3
	.loc	1 20 3, function_name $L__info_string1, inlined_at 1 47 5
	mov.u32 	%r22, %ntid.x;
	neg.s32 	%r23, %r22;
	mul.wide.s32 	%rd35, %r23, 4;
	add.s64 	%rd11, %rd10, %rd35;
	add.s32 	%r24, %r22, 1023;
	mul.wide.s32 	%rd36, %r24, 4;
	add.s64 	%rd12, %rd33, %rd36;
	cvt.u64.u32 	%rd13, %r22;
	.loc	1 40 3, function_name $L__info_string2, inlined_at 1 63 3
	cvta.to.global.u64 	%rd14, %rd19;
	cvta.to.global.u64 	%rd15, %rd21;

$L__BB1_8:
	.pragma "nounroll";
	.loc	1 44 5, function_name $L__info_string2, inlined_at 1 63 3
	add.s64 	%rd17, %rd44, %rd8;
	.loc	1 45 5, function_name $L__info_string2, inlined_at 1 63 3
	setp.ge.u64 	%p4, %rd17, %rd6;
	mov.u32 	%r25, 0;
	mov.u32 	%r38, %r25;
	@%p4 bra 	$L__BB1_10;

	shl.b64 	%rd37, %rd17, 2;
	add.s64 	%rd38, %rd14, %rd37;
	ld.global.u32 	%r38, [%rd38];

$L__BB1_10:
	.loc	1 0 5
	cvt.u32.u64 	%r26, %rd13;
	setp.lt.s32 	%p5, %r26, 2;
	.loc	1 22 3, function_name $L__info_string1, inlined_at 1 47 5
	st.shared.u32 	[%rd11], %r25;
	.loc	1 23 3, function_name $L__info_string1, inlined_at 1 47 5
	st.shared.u32 	[%rd9+4096], %r38;
	.loc	1 24 3, function_name $L__info_string1, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 26 3, function_name $L__info_string1, inlined_at 1 47 5
	@%p5 bra 	$L__BB1_13;

	.loc	1 0 3
	mov.u32 	%r36, 1;

$L__BB1_12:
	.pragma "nounroll";
	.loc	1 27 5, function_name $L__info_string1, inlined_at 1 47 5
	neg.s32 	%r29, %r36;
	mul.wide.s32 	%rd39, %r29, 4;
	add.s64 	%rd40, %rd10, %rd39;
	ld.shared.u32 	%r30, [%rd40];
	add.s32 	%r38, %r30, %r38;
	.loc	1 28 5, function_name $L__info_string1, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 29 5, function_name $L__info_string1, inlined_at 1 47 5
	st.shared.u32 	[%rd9+4096], %r38;
	.loc	1 30 5, function_name $L__info_string1, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 26 46, function_name $L__info_string1, inlined_at 1 47 5
	shl.b32 	%r36, %r36, 1;
	.loc	1 26 3, function_name $L__info_string1, inlined_at 1 47 5
	setp.lt.s32 	%p6, %r36, %r26;
	@%p6 bra 	$L__BB1_12;

$L__BB1_13:
	.loc	1 32 3, function_name $L__info_string1, inlined_at 1 47 5
	ld.shared.u32 	%r12, [%rd12];
	.loc	1 33 3, function_name $L__info_string1, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 48 5, function_name $L__info_string2, inlined_at 1 63 3
	@%p4 bra 	$L__BB1_15;

	shl.b64 	%rd41, %rd17, 2;
	add.s64 	%rd42, %rd15, %rd41;
	.loc	1 47 5, function_name $L__info_string2, inlined_at 1 63 3
	add.s32 	%r32, %r38, %r34;
	.loc	1 48 5, function_name $L__info_string2, inlined_at 1 63 3
	st.global.u32 	[%rd42], %r32;

$L__BB1_15:
	.loc	1 49 5, function_name $L__info_string2, inlined_at 1 63 3
	add.s32 	%r34, %r12, %r34;
	.loc	1 43 78, function_name $L__info_string2, inlined_at 1 63 3
	add.s64 	%rd44, %rd44, %rd13;
	.loc	1 43 3, function_name $L__info_string2, inlined_at 1 63 3
	setp.lt.u64 	%p8, %rd44, %rd6;
	@%p8 bra 	$L__BB1_8;

$L__BB1_16:
	.loc	1 64 1
	ret;

}
	// .globl	scan_exclusive
.visible .entry scan_exclusive(
	.param .u64 scan_exclusive_param_0,
	.param .u64 scan_exclusive_param_1,
	.param .u64 scan_exclusive_param_2,
	.param .u64 scan_exclusive_param_3
)
{
	.reg .pred 	%p<9>;
	.reg .b32 	%r<40>;
	.reg .b64 	%rd<45>;
	.loc	1 66 0


	ld.param.u64 	%rd19, [scan_exclusive_param_0];
	ld.param.u64 	%rd20, [scan_exclusive_param_1];
	ld.param.u64 	%rd21, [scan_exclusive_param_2];
	ld.param.u64 	%rd22, [scan_exclusive_param_3];
	.loc	1 68 3
	.loc	1 40 3, function_name $L__info_string3, inlined_at 1 68 3
	mov.u32 	%r1, %ctaid.x;
	.loc	1 40 3, function_name $L__info_string3, inlined_at 1 68 3
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 40 3
	mov.u32 	%r14, %nctaid.x;
	cvt.u64.u32 	%rd1, %r14;
	add.s64 	%rd23, %rd1, %rd20;
	add.s64 	%rd2, %rd23, -1;
	and.b64  	%rd24, %rd2, -4294967296;
	setp.eq.s64 	%p1, %rd24, 0;
	@%p1 bra 	$L__BB2_2;

	.loc	1 0 3
	div.u64 	%rd43, %rd2, %rd1;
	bra.uni 	$L__BB2_3;

$L__BB2_2:
	cvt.u32.u64 	%r15, %rd1;
	cvt.u32.u64 	%r16, %rd2;
	div.u32 	%r17, %r16, %r15;
	cvt.u64.u32 	%rd43, %r17;

$L__BB2_3:
	.loc	1 40 3, function_name $L__info_string3, inlined_at 1 68 3
	add.s32 	%r18, %r1, 1;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 40 3
	cvt.u64.u32 	%rd25, %r18;
	mul.lo.s64 	%rd26, %rd43, %rd25;
	min.u64 	%rd6, %rd26, %rd20;
	.loc	1 41 3, function_name $L__info_string3, inlined_at 1 68 3
	setp.eq.s64 	%p2, %rd22, 0;
	@%p2 bra 	$L__BB2_5;

	.loc	1 40 3, function_name $L__info_string3, inlined_at 1 68 3
	cvta.to.global.u64 	%rd27, %rd22;
	.loc	1 41 3, function_name $L__info_string3, inlined_at 1 68 3
	mul.wide.u32 	%rd28, %r1, 4;
	add.s64 	%rd29, %rd27, %rd28;
	ld.global.u32 	%r35, [%rd29];
	bra.uni 	$L__BB2_6;

$L__BB2_5:
	.loc	1 0 3
	mov.u32 	%r35, 0;

$L__BB2_6:
	.loc	1 43 3, function_name $L__info_string3, inlined_at 1 68 3
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 43 3
	cvt.u64.u32 	%rd30, %r1;
	mul.lo.s64 	%rd31, %rd43, %rd30;
	min.u64 	%rd44, %rd31, %rd20;
	.loc	1 43 3, function_name $L__info_string3, inlined_at 1 68 3
	setp.ge.u64 	%p3, %rd44, %rd6;
	@%p3 bra 	$L__BB2_16;

	.loc	1 44 5, function_name $L__info_string3, inlined_at 1 68 3
	mov.u32 	%r20, %tid.x;
	cvt.u64.u32 	%rd8, %r20;
	add.s32 	%r21, %r20, 1024;
	mul.wide.u32 	%rd32, %r20, 4;
	mov.u64 	%rd33, _ZZ10scan_blockjRjE14zeros_and_sums;
	add.s64 	%rd9, %rd33, %rd32;
	mul.wide.u32 	%rd34, %r21, 4;
	add.s64 	%rd10, %rd33, %rd34;
	.loc	1 47 5, function_name $L__info_string3, inlined_at 1 68 3
	.loc	1 20 3, function_name $L__info_string1, inlined_at 1 47 5
	mov.u32 	%r22, %ntid.x;
	neg.s32 	%r23, %r22;
	mul.wide.s32 	%rd35, %r23, 4;
	add.s64 	%rd11, %rd10, %rd35;
	add.s32 	%r24, %r22, 1023;
	mul.wide.s32 	%rd36, %r24, 4;
	add.s64 	%rd12, %rd33, %rd36;
	cvt.u64.u32 	%rd13, %r22;
	.loc	1 40 3, function_name $L__info_string3, inlined_at 1 68 3
	cvta.to.global.u64 	%rd14, %rd19;
	cvta.to.global.u64 	%rd15, %rd21;

$L__BB2_8:
	.pragma "nounroll";
	.loc	1 44 5, function_name $L__info_string3, inlined_at 1 68 3
	add.s64 	%rd17, %rd44, %rd8;
	.loc	1 45 5, function_name $L__info_string3, inlined_at 1 68 3
	setp.ge.u64 	%p4, %rd17, %rd6;
	mov.u32 	%r25, 0;
	mov.u32 	%r36, %r25;
	@%p4 bra 	$L__BB2_10;

	shl.b64 	%rd37, %rd17, 2;
	add.s64 	%rd38, %rd14, %rd37;
	ld.global.u32 	%r36, [%rd38];

$L__BB2_10:
	.loc	1 0 5
	cvt.u32.u64 	%r26, %rd13;
	setp.lt.s32 	%p5, %r26, 2;
	.loc	1 22 3, function_name $L__info_string1, inlined_at 1 47 5
	st.shared.u32 	[%rd11], %r25;
	.loc	1 23 3, function_name $L__info_string1, inlined_at 1 47 5
	st.shared.u32 	[%rd9+4096], %r36;
	.loc	1 24 3, function_name $L__info_string1, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 26 3, function_name $L__info_string1, inlined_at 1 47 5
	mov.u32 	%r39, %r36;
	@%p5 bra 	$L__BB2_13;

	.loc	1 0 3
	mov.u32 	%r37, 1;
	mov.u32 	%r39, %r36;

$L__BB2_12:
	.pragma "nounroll";
	.loc	1 27 5, function_name $L__info_string1, inlined_at 1 47 5
	neg.s32 	%r29, %r37;
	mul.wide.s32 	%rd39, %r29, 4;
	add.s64 	%rd40, %rd10, %rd39;
	ld.shared.u32 	%r30, [%rd40];
	add.s32 	%r39, %r30, %r39;
	.loc	1 28 5, function_name $L__info_string1, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 29 5, function_name $L__info_string1, inlined_at 1 47 5
	st.shared.u32 	[%rd9+4096], %r39;
	.loc	1 30 5, function_name $L__info_string1, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 26 46, function_name $L__info_string1, inlined_at 1 47 5
	shl.b32 	%r37, %r37, 1;
	.loc	1 26 3, function_name $L__info_string1, inlined_at 1 47 5
	setp.lt.s32 	%p6, %r37, %r26;
	@%p6 bra 	$L__BB2_12;

$L__BB2_13:
	.loc	1 32 3, function_name $L__info_string1, inlined_at 1 47 5
	ld.shared.u32 	%r12, [%rd12];
	.loc	1 33 3, function_name $L__info_string1, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 48 5, function_name $L__info_string3, inlined_at 1 68 3
	@%p4 bra 	$L__BB2_15;

	.loc	1 47 5, function_name $L__info_string3, inlined_at 1 68 3
	sub.s32 	%r32, %r35, %r36;
	.loc	1 48 5, function_name $L__info_string3, inlined_at 1 68 3
	add.s32 	%r33, %r32, %r39;
	shl.b64 	%rd41, %rd17, 2;
	add.s64 	%rd42, %rd15, %rd41;
	st.global.u32 	[%rd42], %r33;

$L__BB2_15:
	.loc	1 49 5, function_name $L__info_string3, inlined_at 1 68 3
	add.s32 	%r35, %r12, %r35;
	.loc	1 43 78, function_name $L__info_string3, inlined_at 1 68 3
	add.s64 	%rd44, %rd44, %rd13;
	.loc	1 43 3, function_name $L__info_string3, inlined_at 1 68 3
	setp.lt.u64 	%p8, %rd44, %rd6;
	@%p8 bra 	$L__BB2_8;

$L__BB2_16:
	.loc	1 69 1
	ret;

}
	.file	1 "scan.cu"
	.section	.debug_str
	{
$L__info_string0:
.b8 95,90,49,51,98,101,103,105,110,95,111,102,95,112,97,114,116,106,121,0
$L__info_string1:
.b8 95,90,49,48,115,99,97,110,95,98,108,111,99,107,106,82,106,0
$L__info_string2:
.b8 95,90,52,115,99,97,110,73,76,98,49,69,69,118,80,75,106,121,80,106,83,49,95,0
$L__info_string3:
.b8 95,90,52,115,99,97,110,73,76,98,48,69,69,118,80,75,106,121,80,106,83,49,95,0

	}
` as Ptx<Kernels>;
