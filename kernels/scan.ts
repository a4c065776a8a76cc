// Generated from scan.cu by `deno task kernels`, built by nvcc 13.0.88. Do not edit.

/**
 * PTX of the kernels in `scan.cu`:
 *
 * ```c
 * void scan_totals(const unsigned int* input, unsigned long long n, unsigned int* totals);
 * void scan_inclusive(const unsigned int* input, unsigned long long n, unsigned int* output, const unsigned int* totals);
 * void scan_exclusive(const unsigned int* input, unsigned long long n, unsigned int* output, const unsigned int* totals);
 * ```
 */
export const ptx: string = `.version 7.0
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
	.reg .b32 	%r<42>;
	.reg .b64 	%rd<30>;
	.loc	1 53 0


	ld.param.u64 	%rd13, [scan_totals_param_0];
	ld.param.u64 	%rd14, [scan_totals_param_1];
	ld.param.u64 	%rd15, [scan_totals_param_2];
	.loc	1 54 3
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 54 3
	mov.u32 	%r13, %nctaid.x;
	cvt.u64.u32 	%rd1, %r13;
	add.s64 	%rd16, %rd1, %rd14;
	add.s64 	%rd2, %rd16, -1;
	and.b64  	%rd17, %rd2, -4294967296;
	setp.eq.s64 	%p1, %rd17, 0;
	@%p1 bra 	$L__BB0_2;

	.loc	1 0 3
	div.u64 	%rd28, %rd2, %rd1;
	bra.uni 	$L__BB0_3;

$L__BB0_2:
	cvt.u32.u64 	%r14, %rd1;
	cvt.u32.u64 	%r15, %rd2;
	div.u32 	%r16, %r15, %r14;
	cvt.u64.u32 	%rd28, %r16;

$L__BB0_3:
	.loc	1 54 3
	mov.u32 	%r17, %ctaid.x;
	add.s32 	%r18, %r17, 1;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 54 3
	cvt.u64.u32 	%rd18, %r18;
	mul.lo.s64 	%rd19, %rd28, %rd18;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 54 3
	.loc	2 990 3, function_name $L__info_string1, inlined_at 1 13 3
	min.u64 	%rd6, %rd19, %rd14;
	.loc	1 56 3
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 56 3
	cvt.u64.u32 	%rd7, %r17;
	mul.lo.s64 	%rd20, %rd28, %rd7;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 56 3
	.loc	2 990 3, function_name $L__info_string1, inlined_at 1 13 3
	min.u64 	%rd21, %rd20, %rd14;
	.loc	1 56 3
	mov.u32 	%r1, %tid.x;
	cvt.u64.u32 	%rd22, %r1;
	add.s64 	%rd29, %rd21, %rd22;
	setp.lt.u64 	%p2, %rd29, %rd6;
	@%p2 bra 	$L__BB0_5;
	bra.uni 	$L__BB0_4;

$L__BB0_5:
	mov.u32 	%r21, %ntid.x;
	cvt.u64.u32 	%rd9, %r21;
	.loc	1 54 3
	cvta.to.global.u64 	%rd10, %rd13;
	mov.u32 	%r39, 0;

$L__BB0_6:
	.loc	1 56 3
	shl.b64 	%rd23, %rd29, 2;
	add.s64 	%rd24, %rd10, %rd23;
	ld.global.u32 	%r22, [%rd24];
	add.s32 	%r39, %r22, %r39;
	add.s64 	%rd29, %rd29, %rd9;
	setp.lt.u64 	%p3, %rd29, %rd6;
	@%p3 bra 	$L__BB0_6;
	bra.uni 	$L__BB0_7;

$L__BB0_4:
	.loc	1 0 3
	mov.u32 	%r39, 0;

$L__BB0_7:
	.loc	1 57 3
	.loc	1 21 3, function_name $L__info_string2, inlined_at 1 57 3
	add.s32 	%r5, %r1, 1024;
	.loc	1 56 3
	mov.u32 	%r6, %ntid.x;
	.loc	1 22 3, function_name $L__info_string2, inlined_at 1 57 3
	sub.s32 	%r23, %r5, %r6;
	shl.b32 	%r24, %r23, 2;
	mov.u32 	%r25, _ZZ10scan_blockjRjE14zeros_and_sums;
	add.s32 	%r26, %r25, %r24;
	mov.u32 	%r27, 0;
	st.shared.u32 	[%r26], %r27;
	.loc	1 21 3, function_name $L__info_string2, inlined_at 1 57 3
	shl.b32 	%r28, %r1, 2;
	add.s32 	%r7, %r25, %r28;
	.loc	1 23 3, function_name $L__info_string2, inlined_at 1 57 3
	st.shared.u32 	[%r7+4096], %r39;
	.loc	1 24 3, function_name $L__info_string2, inlined_at 1 57 3
	bar.sync 	0;
	.loc	1 26 3, function_name $L__info_string2, inlined_at 1 57 3
	setp.lt.s32 	%p4, %r6, 2;
	@%p4 bra 	$L__BB0_10;

	.loc	1 0 3
	mov.u32 	%r40, 1;

$L__BB0_9:
	.pragma "nounroll";
	.loc	1 27 5, function_name $L__info_string2, inlined_at 1 57 3
	sub.s32 	%r30, %r5, %r40;
	shl.b32 	%r31, %r30, 2;
	add.s32 	%r33, %r25, %r31;
	ld.shared.u32 	%r34, [%r33];
	add.s32 	%r39, %r34, %r39;
	.loc	1 28 5, function_name $L__info_string2, inlined_at 1 57 3
	bar.sync 	0;
	.loc	1 29 5, function_name $L__info_string2, inlined_at 1 57 3
	st.shared.u32 	[%r7+4096], %r39;
	.loc	1 30 5, function_name $L__info_string2, inlined_at 1 57 3
	bar.sync 	0;
	.loc	1 26 46, function_name $L__info_string2, inlined_at 1 57 3
	shl.b32 	%r40, %r40, 1;
	.loc	1 26 3, function_name $L__info_string2, inlined_at 1 57 3
	setp.lt.s32 	%p5, %r40, %r6;
	@%p5 bra 	$L__BB0_9;

$L__BB0_10:
	.loc	1 32 3, function_name $L__info_string2, inlined_at 1 57 3
	shl.b32 	%r35, %r6, 2;
	add.s32 	%r37, %r25, %r35;
	ld.shared.u32 	%r12, [%r37+4092];
	.loc	1 33 3, function_name $L__info_string2, inlined_at 1 57 3
	bar.sync 	0;
	.loc	1 58 3
	setp.ne.s32 	%p6, %r1, 0;
	@%p6 bra 	$L__BB0_12;

	.loc	1 54 3
	cvta.to.global.u64 	%rd25, %rd15;
	.loc	1 58 3
	shl.b64 	%rd26, %rd7, 2;
	add.s64 	%rd27, %rd25, %rd26;
	st.global.u32 	[%rd27], %r12;

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
	.reg .b32 	%r<50>;
	.reg .b64 	%rd<34>;
	.loc	1 61 0


	ld.param.u64 	%rd15, [scan_inclusive_param_0];
	ld.param.u64 	%rd16, [scan_inclusive_param_1];
	ld.param.u64 	%rd17, [scan_inclusive_param_2];
	ld.param.u64 	%rd18, [scan_inclusive_param_3];
	.loc	1 63 3
	.loc	1 40 3, function_name $L__info_string3, inlined_at 1 63 3
	mov.u32 	%r1, %ctaid.x;
	.loc	1 40 3, function_name $L__info_string3, inlined_at 1 63 3
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 40 3
	mov.u32 	%r18, %nctaid.x;
	cvt.u64.u32 	%rd1, %r18;
	add.s64 	%rd19, %rd1, %rd16;
	add.s64 	%rd2, %rd19, -1;
	and.b64  	%rd20, %rd2, -4294967296;
	setp.eq.s64 	%p1, %rd20, 0;
	@%p1 bra 	$L__BB1_2;

	.loc	1 0 3
	div.u64 	%rd32, %rd2, %rd1;
	bra.uni 	$L__BB1_3;

$L__BB1_2:
	cvt.u32.u64 	%r19, %rd1;
	cvt.u32.u64 	%r20, %rd2;
	div.u32 	%r21, %r20, %r19;
	cvt.u64.u32 	%rd32, %r21;

$L__BB1_3:
	.loc	1 40 3, function_name $L__info_string3, inlined_at 1 63 3
	add.s32 	%r22, %r1, 1;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 40 3
	cvt.u64.u32 	%rd21, %r22;
	mul.lo.s64 	%rd22, %rd32, %rd21;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 40 3
	.loc	2 990 3, function_name $L__info_string1, inlined_at 1 13 3
	min.u64 	%rd6, %rd22, %rd16;
	.loc	1 41 3, function_name $L__info_string3, inlined_at 1 63 3
	setp.eq.s64 	%p2, %rd18, 0;
	@%p2 bra 	$L__BB1_5;

	.loc	1 40 3, function_name $L__info_string3, inlined_at 1 63 3
	cvta.to.global.u64 	%rd23, %rd18;
	.loc	1 41 3, function_name $L__info_string3, inlined_at 1 63 3
	mul.wide.u32 	%rd24, %r1, 4;
	add.s64 	%rd25, %rd23, %rd24;
	ld.global.u32 	%r45, [%rd25];
	bra.uni 	$L__BB1_6;

$L__BB1_5:
	.loc	1 0 3
	mov.u32 	%r45, 0;

$L__BB1_6:
	.loc	1 43 3, function_name $L__info_string3, inlined_at 1 63 3
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 43 3
	cvt.u64.u32 	%rd26, %r1;
	mul.lo.s64 	%rd27, %rd32, %rd26;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 43 3
	.loc	2 990 3, function_name $L__info_string1, inlined_at 1 13 3
	min.u64 	%rd33, %rd27, %rd16;
	.loc	1 43 3, function_name $L__info_string3, inlined_at 1 63 3
	setp.ge.u64 	%p3, %rd33, %rd6;
	@%p3 bra 	$L__BB1_16;

	.loc	1 44 5, function_name $L__info_string3, inlined_at 1 63 3
	mov.u32 	%r24, %tid.x;
	cvt.u64.u32 	%rd8, %r24;
	add.s32 	%r4, %r24, 1024;
	shl.b32 	%r25, %r24, 2;
	mov.u32 	%r26, _ZZ10scan_blockjRjE14zeros_and_sums;
	add.s32 	%r5, %r26, %r25;
	.loc	1 47 5, function_name $L__info_string3, inlined_at 1 63 3
	.loc	1 20 3, function_name $L__info_string2, inlined_at 1 47 5
	mov.u32 	%r27, %ntid.x;
	sub.s32 	%r28, %r4, %r27;
	shl.b32 	%r29, %r28, 2;
	add.s32 	%r6, %r26, %r29;
	shl.b32 	%r30, %r27, 2;
	add.s32 	%r31, %r26, %r30;
	cvt.u64.u32 	%rd9, %r27;
	.loc	1 40 3, function_name $L__info_string3, inlined_at 1 63 3
	cvta.to.global.u64 	%rd10, %rd15;
	cvta.to.global.u64 	%rd11, %rd17;

$L__BB1_8:
	.pragma "nounroll";
	.loc	1 44 5, function_name $L__info_string3, inlined_at 1 63 3
	add.s64 	%rd13, %rd33, %rd8;
	.loc	1 45 5, function_name $L__info_string3, inlined_at 1 63 3
	setp.ge.u64 	%p4, %rd13, %rd6;
	mov.u32 	%r32, 0;
	mov.u32 	%r49, %r32;
	@%p4 bra 	$L__BB1_10;

	shl.b64 	%rd28, %rd13, 2;
	add.s64 	%rd29, %rd10, %rd28;
	ld.global.u32 	%r49, [%rd29];

$L__BB1_10:
	.loc	1 0 5
	cvt.u32.u64 	%r33, %rd9;
	setp.lt.s32 	%p5, %r33, 2;
	.loc	1 22 3, function_name $L__info_string2, inlined_at 1 47 5
	st.shared.u32 	[%r6], %r32;
	.loc	1 23 3, function_name $L__info_string2, inlined_at 1 47 5
	st.shared.u32 	[%r5+4096], %r49;
	.loc	1 24 3, function_name $L__info_string2, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 26 3, function_name $L__info_string2, inlined_at 1 47 5
	@%p5 bra 	$L__BB1_13;

	.loc	1 0 3
	mov.u32 	%r47, 1;

$L__BB1_12:
	.pragma "nounroll";
	.loc	1 27 5, function_name $L__info_string2, inlined_at 1 47 5
	sub.s32 	%r36, %r4, %r47;
	shl.b32 	%r37, %r36, 2;
	add.s32 	%r39, %r26, %r37;
	ld.shared.u32 	%r40, [%r39];
	add.s32 	%r49, %r40, %r49;
	.loc	1 28 5, function_name $L__info_string2, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 29 5, function_name $L__info_string2, inlined_at 1 47 5
	st.shared.u32 	[%r5+4096], %r49;
	.loc	1 30 5, function_name $L__info_string2, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 26 46, function_name $L__info_string2, inlined_at 1 47 5
	shl.b32 	%r47, %r47, 1;
	.loc	1 26 3, function_name $L__info_string2, inlined_at 1 47 5
	setp.lt.s32 	%p6, %r47, %r33;
	@%p6 bra 	$L__BB1_12;

$L__BB1_13:
	.loc	1 0 3
	add.s32 	%r43, %r31, 4092;
	.loc	1 32 3, function_name $L__info_string2, inlined_at 1 47 5
	ld.shared.u32 	%r16, [%r43];
	.loc	1 33 3, function_name $L__info_string2, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 48 5, function_name $L__info_string3, inlined_at 1 63 3
	@%p4 bra 	$L__BB1_15;

	shl.b64 	%rd30, %rd13, 2;
	add.s64 	%rd31, %rd11, %rd30;
	.loc	1 47 5, function_name $L__info_string3, inlined_at 1 63 3
	add.s32 	%r42, %r49, %r45;
	.loc	1 48 5, function_name $L__info_string3, inlined_at 1 63 3
	st.global.u32 	[%rd31], %r42;

$L__BB1_15:
	.loc	1 49 5, function_name $L__info_string3, inlined_at 1 63 3
	add.s32 	%r45, %r16, %r45;
	.loc	1 43 78, function_name $L__info_string3, inlined_at 1 63 3
	add.s64 	%rd33, %rd33, %rd9;
	.loc	1 43 3, function_name $L__info_string3, inlined_at 1 63 3
	setp.lt.u64 	%p8, %rd33, %rd6;
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
	.reg .b32 	%r<51>;
	.reg .b64 	%rd<34>;
	.loc	1 66 0


	ld.param.u64 	%rd15, [scan_exclusive_param_0];
	ld.param.u64 	%rd16, [scan_exclusive_param_1];
	ld.param.u64 	%rd17, [scan_exclusive_param_2];
	ld.param.u64 	%rd18, [scan_exclusive_param_3];
	.loc	1 68 3
	.loc	1 40 3, function_name $L__info_string4, inlined_at 1 68 3
	mov.u32 	%r1, %ctaid.x;
	.loc	1 40 3, function_name $L__info_string4, inlined_at 1 68 3
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 40 3
	mov.u32 	%r18, %nctaid.x;
	cvt.u64.u32 	%rd1, %r18;
	add.s64 	%rd19, %rd1, %rd16;
	add.s64 	%rd2, %rd19, -1;
	and.b64  	%rd20, %rd2, -4294967296;
	setp.eq.s64 	%p1, %rd20, 0;
	@%p1 bra 	$L__BB2_2;

	.loc	1 0 3
	div.u64 	%rd32, %rd2, %rd1;
	bra.uni 	$L__BB2_3;

$L__BB2_2:
	cvt.u32.u64 	%r19, %rd1;
	cvt.u32.u64 	%r20, %rd2;
	div.u32 	%r21, %r20, %r19;
	cvt.u64.u32 	%rd32, %r21;

$L__BB2_3:
	.loc	1 40 3, function_name $L__info_string4, inlined_at 1 68 3
	add.s32 	%r22, %r1, 1;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 40 3
	cvt.u64.u32 	%rd21, %r22;
	mul.lo.s64 	%rd22, %rd32, %rd21;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 40 3
	.loc	2 990 3, function_name $L__info_string1, inlined_at 1 13 3
	min.u64 	%rd6, %rd22, %rd16;
	.loc	1 41 3, function_name $L__info_string4, inlined_at 1 68 3
	setp.eq.s64 	%p2, %rd18, 0;
	@%p2 bra 	$L__BB2_5;

	.loc	1 40 3, function_name $L__info_string4, inlined_at 1 68 3
	cvta.to.global.u64 	%rd23, %rd18;
	.loc	1 41 3, function_name $L__info_string4, inlined_at 1 68 3
	mul.wide.u32 	%rd24, %r1, 4;
	add.s64 	%rd25, %rd23, %rd24;
	ld.global.u32 	%r46, [%rd25];
	bra.uni 	$L__BB2_6;

$L__BB2_5:
	.loc	1 0 3
	mov.u32 	%r46, 0;

$L__BB2_6:
	.loc	1 43 3, function_name $L__info_string4, inlined_at 1 68 3
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 43 3
	cvt.u64.u32 	%rd26, %r1;
	mul.lo.s64 	%rd27, %rd32, %rd26;
	.loc	1 13 3, function_name $L__info_string0, inlined_at 1 43 3
	.loc	2 990 3, function_name $L__info_string1, inlined_at 1 13 3
	min.u64 	%rd33, %rd27, %rd16;
	.loc	1 43 3, function_name $L__info_string4, inlined_at 1 68 3
	setp.ge.u64 	%p3, %rd33, %rd6;
	@%p3 bra 	$L__BB2_16;

	.loc	1 44 5, function_name $L__info_string4, inlined_at 1 68 3
	mov.u32 	%r24, %tid.x;
	cvt.u64.u32 	%rd8, %r24;
	add.s32 	%r4, %r24, 1024;
	shl.b32 	%r25, %r24, 2;
	mov.u32 	%r26, _ZZ10scan_blockjRjE14zeros_and_sums;
	add.s32 	%r5, %r26, %r25;
	.loc	1 47 5, function_name $L__info_string4, inlined_at 1 68 3
	.loc	1 20 3, function_name $L__info_string2, inlined_at 1 47 5
	mov.u32 	%r27, %ntid.x;
	sub.s32 	%r28, %r4, %r27;
	shl.b32 	%r29, %r28, 2;
	add.s32 	%r6, %r26, %r29;
	shl.b32 	%r30, %r27, 2;
	add.s32 	%r31, %r26, %r30;
	cvt.u64.u32 	%rd9, %r27;
	.loc	1 40 3, function_name $L__info_string4, inlined_at 1 68 3
	cvta.to.global.u64 	%rd10, %rd15;
	cvta.to.global.u64 	%rd11, %rd17;

$L__BB2_8:
	.pragma "nounroll";
	.loc	1 44 5, function_name $L__info_string4, inlined_at 1 68 3
	add.s64 	%rd13, %rd33, %rd8;
	.loc	1 45 5, function_name $L__info_string4, inlined_at 1 68 3
	setp.ge.u64 	%p4, %rd13, %rd6;
	mov.u32 	%r32, 0;
	mov.u32 	%r47, %r32;
	@%p4 bra 	$L__BB2_10;

	shl.b64 	%rd28, %rd13, 2;
	add.s64 	%rd29, %rd10, %rd28;
	ld.global.u32 	%r47, [%rd29];

$L__BB2_10:
	.loc	1 0 5
	cvt.u32.u64 	%r33, %rd9;
	setp.lt.s32 	%p5, %r33, 2;
	.loc	1 22 3, function_name $L__info_string2, inlined_at 1 47 5
	st.shared.u32 	[%r6], %r32;
	.loc	1 23 3, function_name $L__info_string2, inlined_at 1 47 5
	st.shared.u32 	[%r5+4096], %r47;
	.loc	1 24 3, function_name $L__info_string2, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 26 3, function_name $L__info_string2, inlined_at 1 47 5
	mov.u32 	%r50, %r47;
	@%p5 bra 	$L__BB2_13;

	.loc	1 0 3
	mov.u32 	%r48, 1;
	mov.u32 	%r50, %r47;

$L__BB2_12:
	.pragma "nounroll";
	.loc	1 27 5, function_name $L__info_string2, inlined_at 1 47 5
	sub.s32 	%r36, %r4, %r48;
	shl.b32 	%r37, %r36, 2;
	add.s32 	%r39, %r26, %r37;
	ld.shared.u32 	%r40, [%r39];
	add.s32 	%r50, %r40, %r50;
	.loc	1 28 5, function_name $L__info_string2, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 29 5, function_name $L__info_string2, inlined_at 1 47 5
	st.shared.u32 	[%r5+4096], %r50;
	.loc	1 30 5, function_name $L__info_string2, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 26 46, function_name $L__info_string2, inlined_at 1 47 5
	shl.b32 	%r48, %r48, 1;
	.loc	1 26 3, function_name $L__info_string2, inlined_at 1 47 5
	setp.lt.s32 	%p6, %r48, %r33;
	@%p6 bra 	$L__BB2_12;

$L__BB2_13:
	.loc	1 0 3
	add.s32 	%r44, %r31, 4092;
	.loc	1 32 3, function_name $L__info_string2, inlined_at 1 47 5
	ld.shared.u32 	%r16, [%r44];
	.loc	1 33 3, function_name $L__info_string2, inlined_at 1 47 5
	bar.sync 	0;
	.loc	1 48 5, function_name $L__info_string4, inlined_at 1 68 3
	@%p4 bra 	$L__BB2_15;

	.loc	1 47 5, function_name $L__info_string4, inlined_at 1 68 3
	sub.s32 	%r42, %r46, %r47;
	.loc	1 48 5, function_name $L__info_string4, inlined_at 1 68 3
	add.s32 	%r43, %r42, %r50;
	shl.b64 	%rd30, %rd13, 2;
	add.s64 	%rd31, %rd11, %rd30;
	st.global.u32 	[%rd31], %r43;

$L__BB2_15:
	.loc	1 49 5, function_name $L__info_string4, inlined_at 1 68 3
	add.s32 	%r46, %r16, %r46;
	.loc	1 43 78, function_name $L__info_string4, inlined_at 1 68 3
	add.s64 	%rd33, %rd33, %rd9;
	.loc	1 43 3, function_name $L__info_string4, inlined_at 1 68 3
	setp.lt.u64 	%p8, %rd33, %rd6;
	@%p8 bra 	$L__BB2_8;

$L__BB2_16:
	.loc	1 69 1
	ret;

}
	.file	1 "scan.cu"
	.file	2 "math_functions.hpp"
	.section	.debug_str
	{
$L__info_string0:
.b8 95,90,49,51,98,101,103,105,110,95,111,102,95,112,97,114,116,106,121,0
$L__info_string1:
.b8 95,90,78,51,55,95,73,78,84,69,82,78,65,76,95,102,51,101,55,51,48,97,48,95,55,95,115,99,97,110,95,99,117,95,56,50,52,52,99,48
.b8 102,54,51,109,105,110,69,121,121,0
$L__info_string2:
.b8 95,90,49,48,115,99,97,110,95,98,108,111,99,107,106,82,106,0
$L__info_string3:
.b8 95,90,52,115,99,97,110,73,76,98,49,69,69,118,80,75,106,121,80,106,83,49,95,0
$L__info_string4:
.b8 95,90,52,115,99,97,110,73,76,98,48,69,69,118,80,75,106,121,80,106,83,49,95,0

	}
`;
