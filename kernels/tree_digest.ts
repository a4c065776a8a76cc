// Generated from tree_digest.cu by `poolpass bind tree_digest.cu --import ../mod.ts --no-fused-multiply-add --ptx`, compiled by nvrtc 13.0. Do not edit.

import type { Pointer, Ptx } from "../mod.ts";

/** The parameters of the kernels in `tree_digest.cu`. */
export interface Kernels {
  /**
   * ```c
   * void tree_digest(const unsigned long long* ranges, unsigned int range_count, unsigned long long piece_count);
   * ```
   */
  tree_digest: [ranges: Pointer<BigUint64Array>, range_count: number, piece_count: number | bigint];
}

/** PTX of the kernels in `tree_digest.cu`. */
export const ptx: Ptx<Kernels> = `.version 7.0
.target sm_60
.address_size 64

	// .globl	tree_digest
.const .align 4 .b8 round_constants[256] = {152, 47, 138, 66, 145, 68, 55, 113, 207, 251, 192, 181, 165, 219, 181, 233, 91, 194, 86, 57, 241, 17, 241, 89, 164, 130, 63, 146, 213, 94, 28, 171, 152, 170, 7, 216, 1, 91, 131, 18, 190, 133, 49, 36, 195, 125, 12, 85, 116, 93, 190, 114, 254, 177, 222, 128, 167, 6, 220, 155, 116, 241, 155, 193, 193, 105, 155, 228, 134, 71, 190, 239, 198, 157, 193, 15, 204, 161, 12, 36, 111, 44, 233, 45, 170, 132, 116, 74, 220, 169, 176, 92, 218, 136, 249, 118, 82, 81, 62, 152, 109, 198, 49, 168, 200, 39, 3, 176, 199, 127, 89, 191, 243, 11, 224, 198, 71, 145, 167, 213, 81, 99, 202, 6, 103, 41, 41, 20, 133, 10, 183, 39, 56, 33, 27, 46, 252, 109, 44, 77, 19, 13, 56, 83, 84, 115, 10, 101, 187, 10, 106, 118, 46, 201, 194, 129, 133, 44, 114, 146, 161, 232, 191, 162, 75, 102, 26, 168, 112, 139, 75, 194, 163, 81, 108, 199, 25, 232, 146, 209, 36, 6, 153, 214, 133, 53, 14, 244, 112, 160, 106, 16, 22, 193, 164, 25, 8, 108, 55, 30, 76, 119, 72, 39, 181, 188, 176, 52, 179, 12, 28, 57, 74, 170, 216, 78, 79, 202, 156, 91, 243, 111, 46, 104, 238, 130, 143, 116, 111, 99, 165, 120, 20, 120, 200, 132, 8, 2, 199, 140, 250, 255, 190, 144, 235, 108, 80, 164, 247, 163, 249, 190, 242, 120, 113, 198};

.visible .entry tree_digest(
	.param .u64 tree_digest_param_0,
	.param .u32 tree_digest_param_1,
	.param .u64 tree_digest_param_2
)
{
	.reg .pred 	%p<140>;
	.reg .b32 	%r<1666>;
	.reg .b64 	%rd<103>;
	.loc	1 73 0


	ld.param.u64 	%rd14, [tree_digest_param_0];
	ld.param.u32 	%r1541, [tree_digest_param_1];
	ld.param.u64 	%rd15, [tree_digest_param_2];
	.loc	1 75 3
	mov.u32 	%r362, %ctaid.x;
	mov.u32 	%r363, %ntid.x;
	mul.wide.u32 	%rd16, %r362, %r363;
	mov.u32 	%r364, %tid.x;
	cvt.u64.u32 	%rd17, %r364;
	add.s64 	%rd1, %rd16, %rd17;
	.loc	1 76 3
	setp.ge.u64 	%p1, %rd1, %rd15;
	@%p1 bra 	$L__BB0_206;

	.loc	1 0 3
	cvta.to.global.u64 	%rd2, %rd14;
	.loc	1 80 3
	setp.lt.u32 	%p2, %r1541, 2;
	mov.u64 	%rd101, 0;
	@%p2 bra 	$L__BB0_5;

	.loc	1 0 3
	mov.u32 	%r1543, 0;
	mov.u32 	%r1542, %r1541;

$L__BB0_3:
	.pragma "nounroll";
	.loc	1 81 5
	shr.u32 	%r366, %r1541, 1;
	add.s32 	%r367, %r366, %r1543;
	.loc	1 82 5
	mul.wide.u32 	%rd19, %r367, 32;
	add.s64 	%rd20, %rd2, %rd19;
	ld.global.u64 	%rd21, [%rd20+24];
	setp.le.u64 	%p3, %rd21, %rd1;
	selp.b32 	%r1543, %r367, %r1543, %p3;
	selp.b32 	%r1542, %r1542, %r367, %p3;
	.loc	1 80 3
	sub.s32 	%r1541, %r1542, %r1543;
	setp.gt.u32 	%p4, %r1541, 1;
	@%p4 bra 	$L__BB0_3;

	cvt.u64.u32 	%rd101, %r1543;

$L__BB0_5:
	.loc	1 85 3
	shl.b64 	%rd22, %rd101, 5;
	add.s64 	%rd23, %rd2, %rd22;
	ld.global.u64 	%rd5, [%rd23+16];
	ld.global.u64 	%rd24, [%rd23+24];
	.loc	1 86 3
	sub.s64 	%rd6, %rd1, %rd24;
	.loc	1 87 3
	shl.b64 	%rd7, %rd6, 14;
	.loc	1 85 3
	ld.global.u64 	%rd25, [%rd23+8];
	.loc	1 88 3
	sub.s64 	%rd26, %rd25, %rd7;
	.loc	1 89 3
	min.u64 	%rd27, %rd26, 16384;
	cvt.u32.u64 	%r7, %rd27;
	.loc	1 85 3
	ld.global.u64 	%rd8, [%rd23];
	.loc	1 95 3
	add.s32 	%r376, %r7, 72;
	shr.u32 	%r8, %r376, 6;
	.loc	1 97 3
	setp.eq.s32 	%p5, %r8, 0;
	mov.u32 	%r1665, 1779033703;
	mov.u32 	%r1664, -1150833019;
	mov.u32 	%r1663, 1013904242;
	mov.u32 	%r1662, -1521486534;
	mov.u32 	%r1661, 1359893119;
	mov.u32 	%r1660, -1694144372;
	mov.u32 	%r1659, 528734635;
	mov.u32 	%r1658, 1541459225;
	@%p5 bra 	$L__BB0_205;

	.loc	1 0 3
	add.s32 	%r9, %r8, -1;
	mov.u32 	%r1552, 0;
	mov.u32 	%r1665, 1779033703;
	mov.u32 	%r1664, -1150833019;
	mov.u32 	%r1663, 1013904242;
	mov.u32 	%r1662, -1521486534;
	mov.u32 	%r1661, 1359893119;
	mov.u32 	%r1660, -1694144372;
	mov.u32 	%r1659, 528734635;
	mov.u32 	%r1658, 1541459225;

$L__BB0_7:
	.pragma "nounroll";
	mov.u32 	%r1617, 0;
	.loc	1 99 5
	shl.b32 	%r20, %r1552, 6;
	.loc	1 101 5
	setp.gt.u32 	%p6, %r20, %r7;
	mov.u32 	%r1618, %r1617;
	mov.u32 	%r1619, %r1617;
	mov.u32 	%r1620, %r1617;
	mov.u32 	%r1621, %r1617;
	mov.u32 	%r1622, %r1617;
	mov.u32 	%r1623, %r1617;
	mov.u32 	%r1624, %r1617;
	mov.u32 	%r1625, %r1617;
	mov.u32 	%r1626, %r1617;
	mov.u32 	%r1627, %r1617;
	mov.u32 	%r1628, %r1617;
	mov.u32 	%r1629, %r1617;
	mov.u32 	%r1630, %r1617;
	mov.u32 	%r1631, %r1617;
	mov.u32 	%r1632, %r1617;
	@%p6 bra 	$L__BB0_202;

	.loc	1 90 3
	and.b64  	%rd100, %rd8, 3;
	setp.eq.s64 	%p7, %rd100, 0;
	.loc	1 102 7
	cvt.u64.u32 	%rd28, %r20;
	add.s64 	%rd10, %rd7, %rd28;
	add.s64 	%rd11, %rd8, %rd10;
	sub.s32 	%r21, %r7, %r20;
	.loc	1 102 7
	.loc	1 56 3, function_name $L__info_string0, inlined_at 1 102 7
	setp.gt.u32 	%p8, %r21, 63;
	and.pred  	%p9, %p7, %p8;
	@%p9 bra 	$L__BB0_201;
	bra.uni 	$L__BB0_9;

$L__BB0_201:
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r451, [%rd11];
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	mov.u32 	%r452, 291;
	mov.u32 	%r453, 0;
	prmt.b32 	%r1632, %r451, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r454, [%rd11+4];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1631, %r454, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r455, [%rd11+8];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1630, %r455, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r456, [%rd11+12];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1629, %r456, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r457, [%rd11+16];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1628, %r457, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r458, [%rd11+20];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1627, %r458, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r459, [%rd11+24];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1626, %r459, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r460, [%rd11+28];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1625, %r460, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r461, [%rd11+32];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1624, %r461, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r462, [%rd11+36];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1623, %r462, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r463, [%rd11+40];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1622, %r463, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r464, [%rd11+44];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1621, %r464, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r465, [%rd11+48];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1620, %r465, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r466, [%rd11+52];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1619, %r466, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r467, [%rd11+56];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1618, %r467, %r453, %r452;
	.loc	1 59 5, function_name $L__info_string0, inlined_at 1 102 7
	ld.u32 	%r468, [%rd11+60];
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 59 5
	prmt.b32 	%r1617, %r468, %r453, %r452;
	bra.uni 	$L__BB0_202;

$L__BB0_9:
	.loc	1 67 7, function_name $L__info_string0, inlined_at 1 102 7
	setp.eq.s32 	%p10, %r21, 0;
	mov.u32 	%r1553, 128;
	@%p10 bra 	$L__BB0_11;

	ld.u8 	%r1553, [%rd11];

$L__BB0_11:
	setp.gt.u32 	%p11, %r21, 1;
	@%p11 bra 	$L__BB0_13;
	bra.uni 	$L__BB0_12;

$L__BB0_13:
	ld.u8 	%r1554, [%rd11+1];
	bra.uni 	$L__BB0_14;

$L__BB0_12:
	setp.eq.s32 	%p12, %r21, 1;
	selp.b32 	%r1554, 128, 0, %p12;

$L__BB0_14:
	shl.b32 	%r403, %r1553, 8;
	or.b32  	%r27, %r1554, %r403;
	setp.gt.u32 	%p13, %r21, 2;
	@%p13 bra 	$L__BB0_16;
	bra.uni 	$L__BB0_15;

$L__BB0_16:
	ld.u8 	%r1555, [%rd11+2];
	bra.uni 	$L__BB0_17;

$L__BB0_15:
	setp.eq.s32 	%p14, %r21, 2;
	selp.b32 	%r1555, 128, 0, %p14;

$L__BB0_17:
	shl.b32 	%r404, %r27, 8;
	or.b32  	%r31, %r1555, %r404;
	setp.gt.u32 	%p15, %r21, 3;
	@%p15 bra 	$L__BB0_19;
	bra.uni 	$L__BB0_18;

$L__BB0_19:
	ld.u8 	%r1556, [%rd11+3];
	bra.uni 	$L__BB0_20;

$L__BB0_18:
	setp.eq.s32 	%p16, %r21, 3;
	selp.b32 	%r1556, 128, 0, %p16;

$L__BB0_20:
	shl.b32 	%r405, %r31, 8;
	or.b32  	%r1632, %r1556, %r405;
	setp.gt.u32 	%p17, %r21, 4;
	@%p17 bra 	$L__BB0_22;
	bra.uni 	$L__BB0_21;

$L__BB0_22:
	ld.u8 	%r1557, [%rd11+4];
	bra.uni 	$L__BB0_23;

$L__BB0_21:
	setp.eq.s32 	%p18, %r21, 4;
	selp.b32 	%r1557, 128, 0, %p18;

$L__BB0_23:
	setp.gt.u32 	%p19, %r21, 5;
	@%p19 bra 	$L__BB0_25;
	bra.uni 	$L__BB0_24;

$L__BB0_25:
	ld.u8 	%r1558, [%rd11+5];
	bra.uni 	$L__BB0_26;

$L__BB0_24:
	setp.eq.s32 	%p20, %r21, 5;
	selp.b32 	%r1558, 128, 0, %p20;

$L__BB0_26:
	shl.b32 	%r406, %r1557, 8;
	or.b32  	%r42, %r1558, %r406;
	setp.gt.u32 	%p21, %r21, 6;
	@%p21 bra 	$L__BB0_28;
	bra.uni 	$L__BB0_27;

$L__BB0_28:
	ld.u8 	%r1559, [%rd11+6];
	bra.uni 	$L__BB0_29;

$L__BB0_27:
	setp.eq.s32 	%p22, %r21, 6;
	selp.b32 	%r1559, 128, 0, %p22;

$L__BB0_29:
	shl.b32 	%r407, %r42, 8;
	or.b32  	%r46, %r1559, %r407;
	setp.gt.u32 	%p23, %r21, 7;
	@%p23 bra 	$L__BB0_31;
	bra.uni 	$L__BB0_30;

$L__BB0_31:
	ld.u8 	%r1560, [%rd11+7];
	bra.uni 	$L__BB0_32;

$L__BB0_30:
	setp.eq.s32 	%p24, %r21, 7;
	selp.b32 	%r1560, 128, 0, %p24;

$L__BB0_32:
	shl.b32 	%r408, %r46, 8;
	or.b32  	%r1631, %r1560, %r408;
	setp.gt.u32 	%p25, %r21, 8;
	@%p25 bra 	$L__BB0_34;
	bra.uni 	$L__BB0_33;

$L__BB0_34:
	ld.u8 	%r1561, [%rd11+8];
	bra.uni 	$L__BB0_35;

$L__BB0_33:
	setp.eq.s32 	%p26, %r21, 8;
	selp.b32 	%r1561, 128, 0, %p26;

$L__BB0_35:
	setp.gt.u32 	%p27, %r21, 9;
	@%p27 bra 	$L__BB0_37;
	bra.uni 	$L__BB0_36;

$L__BB0_37:
	ld.u8 	%r1562, [%rd11+9];
	bra.uni 	$L__BB0_38;

$L__BB0_36:
	setp.eq.s32 	%p28, %r21, 9;
	selp.b32 	%r1562, 128, 0, %p28;

$L__BB0_38:
	shl.b32 	%r409, %r1561, 8;
	or.b32  	%r57, %r1562, %r409;
	setp.gt.u32 	%p29, %r21, 10;
	@%p29 bra 	$L__BB0_40;
	bra.uni 	$L__BB0_39;

$L__BB0_40:
	ld.u8 	%r1563, [%rd11+10];
	bra.uni 	$L__BB0_41;

$L__BB0_39:
	setp.eq.s32 	%p30, %r21, 10;
	selp.b32 	%r1563, 128, 0, %p30;

$L__BB0_41:
	shl.b32 	%r410, %r57, 8;
	or.b32  	%r61, %r1563, %r410;
	setp.gt.u32 	%p31, %r21, 11;
	@%p31 bra 	$L__BB0_43;
	bra.uni 	$L__BB0_42;

$L__BB0_43:
	ld.u8 	%r1564, [%rd11+11];
	bra.uni 	$L__BB0_44;

$L__BB0_42:
	setp.eq.s32 	%p32, %r21, 11;
	selp.b32 	%r1564, 128, 0, %p32;

$L__BB0_44:
	shl.b32 	%r411, %r61, 8;
	or.b32  	%r1630, %r1564, %r411;
	setp.gt.u32 	%p33, %r21, 12;
	@%p33 bra 	$L__BB0_46;
	bra.uni 	$L__BB0_45;

$L__BB0_46:
	ld.u8 	%r1565, [%rd11+12];
	bra.uni 	$L__BB0_47;

$L__BB0_45:
	setp.eq.s32 	%p34, %r21, 12;
	selp.b32 	%r1565, 128, 0, %p34;

$L__BB0_47:
	setp.gt.u32 	%p35, %r21, 13;
	@%p35 bra 	$L__BB0_49;
	bra.uni 	$L__BB0_48;

$L__BB0_49:
	ld.u8 	%r1566, [%rd11+13];
	bra.uni 	$L__BB0_50;

$L__BB0_48:
	setp.eq.s32 	%p36, %r21, 13;
	selp.b32 	%r1566, 128, 0, %p36;

$L__BB0_50:
	shl.b32 	%r412, %r1565, 8;
	or.b32  	%r72, %r1566, %r412;
	setp.gt.u32 	%p37, %r21, 14;
	@%p37 bra 	$L__BB0_52;
	bra.uni 	$L__BB0_51;

$L__BB0_52:
	ld.u8 	%r1567, [%rd11+14];
	bra.uni 	$L__BB0_53;

$L__BB0_51:
	setp.eq.s32 	%p38, %r21, 14;
	selp.b32 	%r1567, 128, 0, %p38;

$L__BB0_53:
	shl.b32 	%r413, %r72, 8;
	or.b32  	%r76, %r1567, %r413;
	setp.gt.u32 	%p39, %r21, 15;
	@%p39 bra 	$L__BB0_55;
	bra.uni 	$L__BB0_54;

$L__BB0_55:
	ld.u8 	%r1568, [%rd11+15];
	bra.uni 	$L__BB0_56;

$L__BB0_54:
	setp.eq.s32 	%p40, %r21, 15;
	selp.b32 	%r1568, 128, 0, %p40;

$L__BB0_56:
	shl.b32 	%r414, %r76, 8;
	or.b32  	%r1629, %r1568, %r414;
	setp.gt.u32 	%p41, %r21, 16;
	@%p41 bra 	$L__BB0_58;
	bra.uni 	$L__BB0_57;

$L__BB0_58:
	ld.u8 	%r1569, [%rd11+16];
	bra.uni 	$L__BB0_59;

$L__BB0_57:
	setp.eq.s32 	%p42, %r21, 16;
	selp.b32 	%r1569, 128, 0, %p42;

$L__BB0_59:
	setp.gt.u32 	%p43, %r21, 17;
	@%p43 bra 	$L__BB0_61;
	bra.uni 	$L__BB0_60;

$L__BB0_61:
	ld.u8 	%r1570, [%rd11+17];
	bra.uni 	$L__BB0_62;

$L__BB0_60:
	setp.eq.s32 	%p44, %r21, 17;
	selp.b32 	%r1570, 128, 0, %p44;

$L__BB0_62:
	shl.b32 	%r415, %r1569, 8;
	or.b32  	%r87, %r1570, %r415;
	setp.gt.u32 	%p45, %r21, 18;
	@%p45 bra 	$L__BB0_64;
	bra.uni 	$L__BB0_63;

$L__BB0_64:
	ld.u8 	%r1571, [%rd11+18];
	bra.uni 	$L__BB0_65;

$L__BB0_63:
	setp.eq.s32 	%p46, %r21, 18;
	selp.b32 	%r1571, 128, 0, %p46;

$L__BB0_65:
	shl.b32 	%r416, %r87, 8;
	or.b32  	%r91, %r1571, %r416;
	setp.gt.u32 	%p47, %r21, 19;
	@%p47 bra 	$L__BB0_67;
	bra.uni 	$L__BB0_66;

$L__BB0_67:
	ld.u8 	%r1572, [%rd11+19];
	bra.uni 	$L__BB0_68;

$L__BB0_66:
	setp.eq.s32 	%p48, %r21, 19;
	selp.b32 	%r1572, 128, 0, %p48;

$L__BB0_68:
	shl.b32 	%r417, %r91, 8;
	or.b32  	%r1628, %r1572, %r417;
	setp.gt.u32 	%p49, %r21, 20;
	@%p49 bra 	$L__BB0_70;
	bra.uni 	$L__BB0_69;

$L__BB0_70:
	ld.u8 	%r1573, [%rd11+20];
	bra.uni 	$L__BB0_71;

$L__BB0_69:
	setp.eq.s32 	%p50, %r21, 20;
	selp.b32 	%r1573, 128, 0, %p50;

$L__BB0_71:
	setp.gt.u32 	%p51, %r21, 21;
	@%p51 bra 	$L__BB0_73;
	bra.uni 	$L__BB0_72;

$L__BB0_73:
	ld.u8 	%r1574, [%rd11+21];
	bra.uni 	$L__BB0_74;

$L__BB0_72:
	setp.eq.s32 	%p52, %r21, 21;
	selp.b32 	%r1574, 128, 0, %p52;

$L__BB0_74:
	shl.b32 	%r418, %r1573, 8;
	or.b32  	%r102, %r1574, %r418;
	setp.gt.u32 	%p53, %r21, 22;
	@%p53 bra 	$L__BB0_76;
	bra.uni 	$L__BB0_75;

$L__BB0_76:
	ld.u8 	%r1575, [%rd11+22];
	bra.uni 	$L__BB0_77;

$L__BB0_75:
	setp.eq.s32 	%p54, %r21, 22;
	selp.b32 	%r1575, 128, 0, %p54;

$L__BB0_77:
	shl.b32 	%r419, %r102, 8;
	or.b32  	%r106, %r1575, %r419;
	setp.gt.u32 	%p55, %r21, 23;
	@%p55 bra 	$L__BB0_79;
	bra.uni 	$L__BB0_78;

$L__BB0_79:
	ld.u8 	%r1576, [%rd11+23];
	bra.uni 	$L__BB0_80;

$L__BB0_78:
	setp.eq.s32 	%p56, %r21, 23;
	selp.b32 	%r1576, 128, 0, %p56;

$L__BB0_80:
	shl.b32 	%r420, %r106, 8;
	or.b32  	%r1627, %r1576, %r420;
	setp.gt.u32 	%p57, %r21, 24;
	@%p57 bra 	$L__BB0_82;
	bra.uni 	$L__BB0_81;

$L__BB0_82:
	ld.u8 	%r1577, [%rd11+24];
	bra.uni 	$L__BB0_83;

$L__BB0_81:
	setp.eq.s32 	%p58, %r21, 24;
	selp.b32 	%r1577, 128, 0, %p58;

$L__BB0_83:
	setp.gt.u32 	%p59, %r21, 25;
	@%p59 bra 	$L__BB0_85;
	bra.uni 	$L__BB0_84;

$L__BB0_85:
	ld.u8 	%r1578, [%rd11+25];
	bra.uni 	$L__BB0_86;

$L__BB0_84:
	setp.eq.s32 	%p60, %r21, 25;
	selp.b32 	%r1578, 128, 0, %p60;

$L__BB0_86:
	shl.b32 	%r421, %r1577, 8;
	or.b32  	%r117, %r1578, %r421;
	setp.gt.u32 	%p61, %r21, 26;
	@%p61 bra 	$L__BB0_88;
	bra.uni 	$L__BB0_87;

$L__BB0_88:
	ld.u8 	%r1579, [%rd11+26];
	bra.uni 	$L__BB0_89;

$L__BB0_87:
	setp.eq.s32 	%p62, %r21, 26;
	selp.b32 	%r1579, 128, 0, %p62;

$L__BB0_89:
	shl.b32 	%r422, %r117, 8;
	or.b32  	%r121, %r1579, %r422;
	setp.gt.u32 	%p63, %r21, 27;
	@%p63 bra 	$L__BB0_91;
	bra.uni 	$L__BB0_90;

$L__BB0_91:
	ld.u8 	%r1580, [%rd11+27];
	bra.uni 	$L__BB0_92;

$L__BB0_90:
	setp.eq.s32 	%p64, %r21, 27;
	selp.b32 	%r1580, 128, 0, %p64;

$L__BB0_92:
	shl.b32 	%r423, %r121, 8;
	or.b32  	%r1626, %r1580, %r423;
	setp.gt.u32 	%p65, %r21, 28;
	@%p65 bra 	$L__BB0_94;
	bra.uni 	$L__BB0_93;

$L__BB0_94:
	ld.u8 	%r1581, [%rd11+28];
	bra.uni 	$L__BB0_95;

$L__BB0_93:
	setp.eq.s32 	%p66, %r21, 28;
	selp.b32 	%r1581, 128, 0, %p66;

$L__BB0_95:
	setp.gt.u32 	%p67, %r21, 29;
	@%p67 bra 	$L__BB0_97;
	bra.uni 	$L__BB0_96;

$L__BB0_97:
	ld.u8 	%r1582, [%rd11+29];
	bra.uni 	$L__BB0_98;

$L__BB0_96:
	setp.eq.s32 	%p68, %r21, 29;
	selp.b32 	%r1582, 128, 0, %p68;

$L__BB0_98:
	shl.b32 	%r424, %r1581, 8;
	or.b32  	%r132, %r1582, %r424;
	setp.gt.u32 	%p69, %r21, 30;
	@%p69 bra 	$L__BB0_100;
	bra.uni 	$L__BB0_99;

$L__BB0_100:
	ld.u8 	%r1583, [%rd11+30];
	bra.uni 	$L__BB0_101;

$L__BB0_99:
	setp.eq.s32 	%p70, %r21, 30;
	selp.b32 	%r1583, 128, 0, %p70;

$L__BB0_101:
	shl.b32 	%r425, %r132, 8;
	or.b32  	%r136, %r1583, %r425;
	setp.gt.u32 	%p71, %r21, 31;
	@%p71 bra 	$L__BB0_103;
	bra.uni 	$L__BB0_102;

$L__BB0_103:
	ld.u8 	%r1584, [%rd11+31];
	bra.uni 	$L__BB0_104;

$L__BB0_102:
	setp.eq.s32 	%p72, %r21, 31;
	selp.b32 	%r1584, 128, 0, %p72;

$L__BB0_104:
	shl.b32 	%r426, %r136, 8;
	or.b32  	%r1625, %r1584, %r426;
	setp.gt.u32 	%p73, %r21, 32;
	@%p73 bra 	$L__BB0_106;
	bra.uni 	$L__BB0_105;

$L__BB0_106:
	ld.u8 	%r1585, [%rd11+32];
	bra.uni 	$L__BB0_107;

$L__BB0_105:
	setp.eq.s32 	%p74, %r21, 32;
	selp.b32 	%r1585, 128, 0, %p74;

$L__BB0_107:
	setp.gt.u32 	%p75, %r21, 33;
	@%p75 bra 	$L__BB0_109;
	bra.uni 	$L__BB0_108;

$L__BB0_109:
	ld.u8 	%r1586, [%rd11+33];
	bra.uni 	$L__BB0_110;

$L__BB0_108:
	setp.eq.s32 	%p76, %r21, 33;
	selp.b32 	%r1586, 128, 0, %p76;

$L__BB0_110:
	shl.b32 	%r427, %r1585, 8;
	or.b32  	%r147, %r1586, %r427;
	setp.gt.u32 	%p77, %r21, 34;
	@%p77 bra 	$L__BB0_112;
	bra.uni 	$L__BB0_111;

$L__BB0_112:
	ld.u8 	%r1587, [%rd11+34];
	bra.uni 	$L__BB0_113;

$L__BB0_111:
	setp.eq.s32 	%p78, %r21, 34;
	selp.b32 	%r1587, 128, 0, %p78;

$L__BB0_113:
	shl.b32 	%r428, %r147, 8;
	or.b32  	%r151, %r1587, %r428;
	setp.gt.u32 	%p79, %r21, 35;
	@%p79 bra 	$L__BB0_115;
	bra.uni 	$L__BB0_114;

$L__BB0_115:
	ld.u8 	%r1588, [%rd11+35];
	bra.uni 	$L__BB0_116;

$L__BB0_114:
	setp.eq.s32 	%p80, %r21, 35;
	selp.b32 	%r1588, 128, 0, %p80;

$L__BB0_116:
	shl.b32 	%r429, %r151, 8;
	or.b32  	%r1624, %r1588, %r429;
	setp.gt.u32 	%p81, %r21, 36;
	@%p81 bra 	$L__BB0_118;
	bra.uni 	$L__BB0_117;

$L__BB0_118:
	ld.u8 	%r1589, [%rd11+36];
	bra.uni 	$L__BB0_119;

$L__BB0_117:
	setp.eq.s32 	%p82, %r21, 36;
	selp.b32 	%r1589, 128, 0, %p82;

$L__BB0_119:
	setp.gt.u32 	%p83, %r21, 37;
	@%p83 bra 	$L__BB0_121;
	bra.uni 	$L__BB0_120;

$L__BB0_121:
	ld.u8 	%r1590, [%rd11+37];
	bra.uni 	$L__BB0_122;

$L__BB0_120:
	setp.eq.s32 	%p84, %r21, 37;
	selp.b32 	%r1590, 128, 0, %p84;

$L__BB0_122:
	shl.b32 	%r430, %r1589, 8;
	or.b32  	%r162, %r1590, %r430;
	setp.gt.u32 	%p85, %r21, 38;
	@%p85 bra 	$L__BB0_124;
	bra.uni 	$L__BB0_123;

$L__BB0_124:
	ld.u8 	%r1591, [%rd11+38];
	bra.uni 	$L__BB0_125;

$L__BB0_123:
	setp.eq.s32 	%p86, %r21, 38;
	selp.b32 	%r1591, 128, 0, %p86;

$L__BB0_125:
	shl.b32 	%r431, %r162, 8;
	or.b32  	%r166, %r1591, %r431;
	setp.gt.u32 	%p87, %r21, 39;
	@%p87 bra 	$L__BB0_127;
	bra.uni 	$L__BB0_126;

$L__BB0_127:
	ld.u8 	%r1592, [%rd11+39];
	bra.uni 	$L__BB0_128;

$L__BB0_126:
	setp.eq.s32 	%p88, %r21, 39;
	selp.b32 	%r1592, 128, 0, %p88;

$L__BB0_128:
	shl.b32 	%r432, %r166, 8;
	or.b32  	%r1623, %r1592, %r432;
	setp.gt.u32 	%p89, %r21, 40;
	@%p89 bra 	$L__BB0_130;
	bra.uni 	$L__BB0_129;

$L__BB0_130:
	ld.u8 	%r1593, [%rd11+40];
	bra.uni 	$L__BB0_131;

$L__BB0_129:
	setp.eq.s32 	%p90, %r21, 40;
	selp.b32 	%r1593, 128, 0, %p90;

$L__BB0_131:
	setp.gt.u32 	%p91, %r21, 41;
	@%p91 bra 	$L__BB0_133;
	bra.uni 	$L__BB0_132;

$L__BB0_133:
	ld.u8 	%r1594, [%rd11+41];
	bra.uni 	$L__BB0_134;

$L__BB0_132:
	setp.eq.s32 	%p92, %r21, 41;
	selp.b32 	%r1594, 128, 0, %p92;

$L__BB0_134:
	shl.b32 	%r433, %r1593, 8;
	or.b32  	%r177, %r1594, %r433;
	setp.gt.u32 	%p93, %r21, 42;
	@%p93 bra 	$L__BB0_136;
	bra.uni 	$L__BB0_135;

$L__BB0_136:
	ld.u8 	%r1595, [%rd11+42];
	bra.uni 	$L__BB0_137;

$L__BB0_135:
	setp.eq.s32 	%p94, %r21, 42;
	selp.b32 	%r1595, 128, 0, %p94;

$L__BB0_137:
	shl.b32 	%r434, %r177, 8;
	or.b32  	%r181, %r1595, %r434;
	setp.gt.u32 	%p95, %r21, 43;
	@%p95 bra 	$L__BB0_139;
	bra.uni 	$L__BB0_138;

$L__BB0_139:
	ld.u8 	%r1596, [%rd11+43];
	bra.uni 	$L__BB0_140;

$L__BB0_138:
	setp.eq.s32 	%p96, %r21, 43;
	selp.b32 	%r1596, 128, 0, %p96;

$L__BB0_140:
	shl.b32 	%r435, %r181, 8;
	or.b32  	%r1622, %r1596, %r435;
	setp.gt.u32 	%p97, %r21, 44;
	@%p97 bra 	$L__BB0_142;
	bra.uni 	$L__BB0_141;

$L__BB0_142:
	ld.u8 	%r1597, [%rd11+44];
	bra.uni 	$L__BB0_143;

$L__BB0_141:
	setp.eq.s32 	%p98, %r21, 44;
	selp.b32 	%r1597, 128, 0, %p98;

$L__BB0_143:
	setp.gt.u32 	%p99, %r21, 45;
	@%p99 bra 	$L__BB0_145;
	bra.uni 	$L__BB0_144;

$L__BB0_145:
	ld.u8 	%r1598, [%rd11+45];
	bra.uni 	$L__BB0_146;

$L__BB0_144:
	setp.eq.s32 	%p100, %r21, 45;
	selp.b32 	%r1598, 128, 0, %p100;

$L__BB0_146:
	shl.b32 	%r436, %r1597, 8;
	or.b32  	%r192, %r1598, %r436;
	setp.gt.u32 	%p101, %r21, 46;
	@%p101 bra 	$L__BB0_148;
	bra.uni 	$L__BB0_147;

$L__BB0_148:
	ld.u8 	%r1599, [%rd11+46];
	bra.uni 	$L__BB0_149;

$L__BB0_147:
	setp.eq.s32 	%p102, %r21, 46;
	selp.b32 	%r1599, 128, 0, %p102;

$L__BB0_149:
	shl.b32 	%r437, %r192, 8;
	or.b32  	%r196, %r1599, %r437;
	setp.gt.u32 	%p103, %r21, 47;
	@%p103 bra 	$L__BB0_151;
	bra.uni 	$L__BB0_150;

$L__BB0_151:
	ld.u8 	%r1600, [%rd11+47];
	bra.uni 	$L__BB0_152;

$L__BB0_150:
	setp.eq.s32 	%p104, %r21, 47;
	selp.b32 	%r1600, 128, 0, %p104;

$L__BB0_152:
	shl.b32 	%r438, %r196, 8;
	or.b32  	%r1621, %r1600, %r438;
	setp.gt.u32 	%p105, %r21, 48;
	@%p105 bra 	$L__BB0_154;
	bra.uni 	$L__BB0_153;

$L__BB0_154:
	ld.u8 	%r1601, [%rd11+48];
	bra.uni 	$L__BB0_155;

$L__BB0_153:
	setp.eq.s32 	%p106, %r21, 48;
	selp.b32 	%r1601, 128, 0, %p106;

$L__BB0_155:
	setp.gt.u32 	%p107, %r21, 49;
	@%p107 bra 	$L__BB0_157;
	bra.uni 	$L__BB0_156;

$L__BB0_157:
	ld.u8 	%r1602, [%rd11+49];
	bra.uni 	$L__BB0_158;

$L__BB0_156:
	setp.eq.s32 	%p108, %r21, 49;
	selp.b32 	%r1602, 128, 0, %p108;

$L__BB0_158:
	shl.b32 	%r439, %r1601, 8;
	or.b32  	%r207, %r1602, %r439;
	setp.gt.u32 	%p109, %r21, 50;
	@%p109 bra 	$L__BB0_160;
	bra.uni 	$L__BB0_159;

$L__BB0_160:
	ld.u8 	%r1603, [%rd11+50];
	bra.uni 	$L__BB0_161;

$L__BB0_159:
	setp.eq.s32 	%p110, %r21, 50;
	selp.b32 	%r1603, 128, 0, %p110;

$L__BB0_161:
	shl.b32 	%r440, %r207, 8;
	or.b32  	%r211, %r1603, %r440;
	setp.gt.u32 	%p111, %r21, 51;
	@%p111 bra 	$L__BB0_163;
	bra.uni 	$L__BB0_162;

$L__BB0_163:
	ld.u8 	%r1604, [%rd11+51];
	bra.uni 	$L__BB0_164;

$L__BB0_162:
	setp.eq.s32 	%p112, %r21, 51;
	selp.b32 	%r1604, 128, 0, %p112;

$L__BB0_164:
	shl.b32 	%r441, %r211, 8;
	or.b32  	%r1620, %r1604, %r441;
	setp.gt.u32 	%p113, %r21, 52;
	@%p113 bra 	$L__BB0_166;
	bra.uni 	$L__BB0_165;

$L__BB0_166:
	ld.u8 	%r1605, [%rd11+52];
	bra.uni 	$L__BB0_167;

$L__BB0_165:
	setp.eq.s32 	%p114, %r21, 52;
	selp.b32 	%r1605, 128, 0, %p114;

$L__BB0_167:
	setp.gt.u32 	%p115, %r21, 53;
	@%p115 bra 	$L__BB0_169;
	bra.uni 	$L__BB0_168;

$L__BB0_169:
	ld.u8 	%r1606, [%rd11+53];
	bra.uni 	$L__BB0_170;

$L__BB0_168:
	setp.eq.s32 	%p116, %r21, 53;
	selp.b32 	%r1606, 128, 0, %p116;

$L__BB0_170:
	shl.b32 	%r442, %r1605, 8;
	or.b32  	%r222, %r1606, %r442;
	setp.gt.u32 	%p117, %r21, 54;
	@%p117 bra 	$L__BB0_172;
	bra.uni 	$L__BB0_171;

$L__BB0_172:
	ld.u8 	%r1607, [%rd11+54];
	bra.uni 	$L__BB0_173;

$L__BB0_171:
	setp.eq.s32 	%p118, %r21, 54;
	selp.b32 	%r1607, 128, 0, %p118;

$L__BB0_173:
	shl.b32 	%r443, %r222, 8;
	or.b32  	%r226, %r1607, %r443;
	setp.gt.u32 	%p119, %r21, 55;
	@%p119 bra 	$L__BB0_175;
	bra.uni 	$L__BB0_174;

$L__BB0_175:
	ld.u8 	%r1608, [%rd11+55];
	bra.uni 	$L__BB0_176;

$L__BB0_174:
	setp.eq.s32 	%p120, %r21, 55;
	selp.b32 	%r1608, 128, 0, %p120;

$L__BB0_176:
	shl.b32 	%r444, %r226, 8;
	or.b32  	%r1619, %r1608, %r444;
	setp.gt.u32 	%p121, %r21, 56;
	@%p121 bra 	$L__BB0_178;
	bra.uni 	$L__BB0_177;

$L__BB0_178:
	ld.u8 	%r1609, [%rd11+56];
	bra.uni 	$L__BB0_179;

$L__BB0_177:
	setp.eq.s32 	%p122, %r21, 56;
	selp.b32 	%r1609, 128, 0, %p122;

$L__BB0_179:
	setp.gt.u32 	%p123, %r21, 57;
	@%p123 bra 	$L__BB0_181;
	bra.uni 	$L__BB0_180;

$L__BB0_181:
	ld.u8 	%r1610, [%rd11+57];
	bra.uni 	$L__BB0_182;

$L__BB0_180:
	setp.eq.s32 	%p124, %r21, 57;
	selp.b32 	%r1610, 128, 0, %p124;

$L__BB0_182:
	shl.b32 	%r445, %r1609, 8;
	or.b32  	%r237, %r1610, %r445;
	setp.gt.u32 	%p125, %r21, 58;
	@%p125 bra 	$L__BB0_184;
	bra.uni 	$L__BB0_183;

$L__BB0_184:
	ld.u8 	%r1611, [%rd11+58];
	bra.uni 	$L__BB0_185;

$L__BB0_183:
	setp.eq.s32 	%p126, %r21, 58;
	selp.b32 	%r1611, 128, 0, %p126;

$L__BB0_185:
	shl.b32 	%r446, %r237, 8;
	or.b32  	%r241, %r1611, %r446;
	setp.gt.u32 	%p127, %r21, 59;
	@%p127 bra 	$L__BB0_187;
	bra.uni 	$L__BB0_186;

$L__BB0_187:
	ld.u8 	%r1612, [%rd11+59];
	bra.uni 	$L__BB0_188;

$L__BB0_186:
	setp.eq.s32 	%p128, %r21, 59;
	selp.b32 	%r1612, 128, 0, %p128;

$L__BB0_188:
	shl.b32 	%r447, %r241, 8;
	or.b32  	%r1618, %r1612, %r447;
	setp.gt.u32 	%p129, %r21, 60;
	@%p129 bra 	$L__BB0_190;
	bra.uni 	$L__BB0_189;

$L__BB0_190:
	ld.u8 	%r1613, [%rd11+60];
	bra.uni 	$L__BB0_191;

$L__BB0_189:
	setp.eq.s32 	%p130, %r21, 60;
	selp.b32 	%r1613, 128, 0, %p130;

$L__BB0_191:
	setp.gt.u32 	%p131, %r21, 61;
	@%p131 bra 	$L__BB0_193;
	bra.uni 	$L__BB0_192;

$L__BB0_193:
	ld.u8 	%r1614, [%rd11+61];
	bra.uni 	$L__BB0_194;

$L__BB0_192:
	setp.eq.s32 	%p132, %r21, 61;
	selp.b32 	%r1614, 128, 0, %p132;

$L__BB0_194:
	shl.b32 	%r448, %r1613, 8;
	or.b32  	%r252, %r1614, %r448;
	setp.gt.u32 	%p133, %r21, 62;
	@%p133 bra 	$L__BB0_196;
	bra.uni 	$L__BB0_195;

$L__BB0_196:
	ld.u8 	%r1615, [%rd11+62];
	bra.uni 	$L__BB0_197;

$L__BB0_195:
	setp.eq.s32 	%p134, %r21, 62;
	selp.b32 	%r1615, 128, 0, %p134;

$L__BB0_197:
	shl.b32 	%r449, %r252, 8;
	or.b32  	%r256, %r1615, %r449;
	@%p8 bra 	$L__BB0_199;
	bra.uni 	$L__BB0_198;

$L__BB0_199:
	ld.u8 	%r1616, [%rd11+63];
	bra.uni 	$L__BB0_200;

$L__BB0_198:
	setp.eq.s32 	%p136, %r21, 63;
	selp.b32 	%r1616, 128, 0, %p136;

$L__BB0_200:
	shl.b32 	%r450, %r256, 8;
	or.b32  	%r1617, %r1616, %r450;

$L__BB0_202:
	.loc	1 0 7
	shl.b32 	%r1540, %r7, 3;
	.loc	1 107 5
	setp.eq.s32 	%p137, %r1552, %r9;
	selp.b32 	%r1633, %r1540, %r1617, %p137;
	mov.u32 	%r1649, 0;
	mov.u64 	%rd102, round_constants;
	mov.u32 	%r1650, %r1665;
	mov.u32 	%r1651, %r1664;
	mov.u32 	%r1652, %r1663;
	mov.u32 	%r1653, %r1662;
	mov.u32 	%r1654, %r1661;
	mov.u32 	%r1655, %r1660;
	mov.u32 	%r1656, %r1659;
	mov.u32 	%r1657, %r1658;

$L__BB0_203:
	.pragma "nounroll";
	.loc	1 108 5
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	mov.u32 	%r1073, 6;
	// begin inline asm
	shf.r.wrap.b32 %r470, %r1654, %r1654, %r1073;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	mov.u32 	%r1077, 11;
	// begin inline asm
	shf.r.wrap.b32 %r474, %r1654, %r1654, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1110, %r474, %r470;
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	mov.u32 	%r1081, 25;
	// begin inline asm
	shf.r.wrap.b32 %r478, %r1654, %r1654, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1111, %r1110, %r478;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	not.b32 	%r1112, %r1654;
	and.b32  	%r1113, %r1656, %r1112;
	and.b32  	%r1114, %r1654, %r1655;
	or.b32  	%r1115, %r1114, %r1113;
	add.s32 	%r1116, %r1115, %r1657;
	add.s32 	%r1117, %r1116, %r1111;
	ld.const.u32 	%r1118, [%rd102];
	add.s32 	%r1119, %r1117, %r1118;
	add.s32 	%r1120, %r1119, %r1632;
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	mov.u32 	%r1085, 2;
	// begin inline asm
	shf.r.wrap.b32 %r482, %r1650, %r1650, %r1085;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	mov.u32 	%r1089, 13;
	// begin inline asm
	shf.r.wrap.b32 %r486, %r1650, %r1650, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1121, %r486, %r482;
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	mov.u32 	%r1093, 22;
	// begin inline asm
	shf.r.wrap.b32 %r490, %r1650, %r1650, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1122, %r1121, %r490;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1123, %r1651, %r1652;
	and.b32  	%r1124, %r1650, %r1123;
	and.b32  	%r1125, %r1651, %r1652;
	xor.b32  	%r1126, %r1124, %r1125;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r520, %r1120, %r1653;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1127, %r1120, %r1126;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r532, %r1127, %r1122;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	mov.u32 	%r1097, 7;
	// begin inline asm
	shf.r.wrap.b32 %r494, %r1631, %r1631, %r1097;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	mov.u32 	%r1101, 18;
	// begin inline asm
	shf.r.wrap.b32 %r498, %r1631, %r1631, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1128, %r1631, 3;
	xor.b32  	%r1129, %r494, %r1128;
	xor.b32  	%r1130, %r1129, %r498;
	add.s32 	%r1131, %r1130, %r1623;
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	mov.u32 	%r1105, 17;
	// begin inline asm
	shf.r.wrap.b32 %r502, %r1618, %r1618, %r1105;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	mov.u32 	%r1109, 19;
	// begin inline asm
	shf.r.wrap.b32 %r506, %r1618, %r1618, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1132, %r1618, 10;
	xor.b32  	%r1133, %r502, %r1132;
	xor.b32  	%r1134, %r1133, %r506;
	add.s32 	%r1135, %r1131, %r1632;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1632, %r1135, %r1134;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r510, %r520, %r520, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r514, %r520, %r520, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1136, %r514, %r510;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r518, %r520, %r520, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1137, %r1136, %r518;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1138, %r520, %r1654;
	not.b32 	%r1139, %r520;
	and.b32  	%r1140, %r1655, %r1139;
	or.b32  	%r1141, %r1138, %r1140;
	add.s32 	%r1142, %r1141, %r1656;
	add.s32 	%r1143, %r1142, %r1137;
	ld.const.u32 	%r1144, [%rd102+4];
	add.s32 	%r1145, %r1143, %r1144;
	add.s32 	%r1146, %r1145, %r1631;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r522, %r532, %r532, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r526, %r532, %r532, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1147, %r526, %r522;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r530, %r532, %r532, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1148, %r1147, %r530;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1149, %r1650, %r1651;
	and.b32  	%r1150, %r532, %r1149;
	and.b32  	%r1151, %r1650, %r1651;
	xor.b32  	%r1152, %r1150, %r1151;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r560, %r1146, %r1652;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1153, %r1146, %r1152;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r572, %r1153, %r1148;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r534, %r1630, %r1630, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r538, %r1630, %r1630, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1154, %r1630, 3;
	xor.b32  	%r1155, %r534, %r1154;
	xor.b32  	%r1156, %r1155, %r538;
	add.s32 	%r1157, %r1156, %r1622;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r542, %r1633, %r1633, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r546, %r1633, %r1633, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1158, %r1633, 10;
	xor.b32  	%r1159, %r542, %r1158;
	xor.b32  	%r1160, %r1159, %r546;
	add.s32 	%r1161, %r1157, %r1631;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1631, %r1161, %r1160;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r550, %r560, %r560, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r554, %r560, %r560, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1162, %r554, %r550;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r558, %r560, %r560, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1163, %r1162, %r558;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1164, %r560, %r520;
	not.b32 	%r1165, %r560;
	and.b32  	%r1166, %r1654, %r1165;
	or.b32  	%r1167, %r1164, %r1166;
	add.s32 	%r1168, %r1167, %r1655;
	add.s32 	%r1169, %r1168, %r1163;
	ld.const.u32 	%r1170, [%rd102+8];
	add.s32 	%r1171, %r1169, %r1170;
	add.s32 	%r1172, %r1171, %r1630;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r562, %r572, %r572, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r566, %r572, %r572, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1173, %r566, %r562;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r570, %r572, %r572, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1174, %r1173, %r570;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1175, %r532, %r1650;
	and.b32  	%r1176, %r572, %r1175;
	and.b32  	%r1177, %r532, %r1650;
	xor.b32  	%r1178, %r1176, %r1177;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r600, %r1172, %r1651;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1179, %r1172, %r1178;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r612, %r1179, %r1174;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r574, %r1629, %r1629, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r578, %r1629, %r1629, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1180, %r1629, 3;
	xor.b32  	%r1181, %r574, %r1180;
	xor.b32  	%r1182, %r1181, %r578;
	add.s32 	%r1183, %r1182, %r1621;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r582, %r1632, %r1632, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r586, %r1632, %r1632, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1184, %r1632, 10;
	xor.b32  	%r1185, %r582, %r1184;
	xor.b32  	%r1186, %r1185, %r586;
	add.s32 	%r1187, %r1183, %r1630;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1630, %r1187, %r1186;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r590, %r600, %r600, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r594, %r600, %r600, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1188, %r594, %r590;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r598, %r600, %r600, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1189, %r1188, %r598;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1190, %r600, %r560;
	not.b32 	%r1191, %r600;
	and.b32  	%r1192, %r520, %r1191;
	or.b32  	%r1193, %r1190, %r1192;
	add.s32 	%r1194, %r1193, %r1654;
	add.s32 	%r1195, %r1194, %r1189;
	ld.const.u32 	%r1196, [%rd102+12];
	add.s32 	%r1197, %r1195, %r1196;
	add.s32 	%r1198, %r1197, %r1629;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r602, %r612, %r612, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r606, %r612, %r612, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1199, %r606, %r602;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r610, %r612, %r612, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1200, %r1199, %r610;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1201, %r572, %r532;
	and.b32  	%r1202, %r612, %r1201;
	and.b32  	%r1203, %r572, %r532;
	xor.b32  	%r1204, %r1202, %r1203;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r640, %r1198, %r1650;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1205, %r1198, %r1204;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r652, %r1205, %r1200;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r614, %r1628, %r1628, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r618, %r1628, %r1628, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1206, %r1628, 3;
	xor.b32  	%r1207, %r614, %r1206;
	xor.b32  	%r1208, %r1207, %r618;
	add.s32 	%r1209, %r1208, %r1620;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r622, %r1631, %r1631, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r626, %r1631, %r1631, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1210, %r1631, 10;
	xor.b32  	%r1211, %r622, %r1210;
	xor.b32  	%r1212, %r1211, %r626;
	add.s32 	%r1213, %r1209, %r1629;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1629, %r1213, %r1212;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r630, %r640, %r640, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r634, %r640, %r640, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1214, %r634, %r630;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r638, %r640, %r640, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1215, %r1214, %r638;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1216, %r640, %r600;
	not.b32 	%r1217, %r640;
	and.b32  	%r1218, %r560, %r1217;
	or.b32  	%r1219, %r1216, %r1218;
	add.s32 	%r1220, %r1219, %r520;
	add.s32 	%r1221, %r1220, %r1215;
	ld.const.u32 	%r1222, [%rd102+16];
	add.s32 	%r1223, %r1221, %r1222;
	add.s32 	%r1224, %r1223, %r1628;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r642, %r652, %r652, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r646, %r652, %r652, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1225, %r646, %r642;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r650, %r652, %r652, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1226, %r1225, %r650;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1227, %r612, %r572;
	and.b32  	%r1228, %r652, %r1227;
	and.b32  	%r1229, %r612, %r572;
	xor.b32  	%r1230, %r1228, %r1229;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r680, %r1224, %r532;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1231, %r1224, %r1230;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r692, %r1231, %r1226;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r654, %r1627, %r1627, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r658, %r1627, %r1627, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1232, %r1627, 3;
	xor.b32  	%r1233, %r654, %r1232;
	xor.b32  	%r1234, %r1233, %r658;
	add.s32 	%r1235, %r1234, %r1619;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r662, %r1630, %r1630, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r666, %r1630, %r1630, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1236, %r1630, 10;
	xor.b32  	%r1237, %r662, %r1236;
	xor.b32  	%r1238, %r1237, %r666;
	add.s32 	%r1239, %r1235, %r1628;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1628, %r1239, %r1238;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r670, %r680, %r680, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r674, %r680, %r680, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1240, %r674, %r670;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r678, %r680, %r680, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1241, %r1240, %r678;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1242, %r680, %r640;
	not.b32 	%r1243, %r680;
	and.b32  	%r1244, %r600, %r1243;
	or.b32  	%r1245, %r1242, %r1244;
	add.s32 	%r1246, %r1245, %r560;
	add.s32 	%r1247, %r1246, %r1241;
	ld.const.u32 	%r1248, [%rd102+20];
	add.s32 	%r1249, %r1247, %r1248;
	add.s32 	%r1250, %r1249, %r1627;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r682, %r692, %r692, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r686, %r692, %r692, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1251, %r686, %r682;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r690, %r692, %r692, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1252, %r1251, %r690;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1253, %r652, %r612;
	and.b32  	%r1254, %r692, %r1253;
	and.b32  	%r1255, %r652, %r612;
	xor.b32  	%r1256, %r1254, %r1255;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r720, %r1250, %r572;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1257, %r1250, %r1256;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r732, %r1257, %r1252;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r694, %r1626, %r1626, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r698, %r1626, %r1626, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1258, %r1626, 3;
	xor.b32  	%r1259, %r694, %r1258;
	xor.b32  	%r1260, %r1259, %r698;
	add.s32 	%r1261, %r1260, %r1618;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r702, %r1629, %r1629, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r706, %r1629, %r1629, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1262, %r1629, 10;
	xor.b32  	%r1263, %r702, %r1262;
	xor.b32  	%r1264, %r1263, %r706;
	add.s32 	%r1265, %r1261, %r1627;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1627, %r1265, %r1264;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r710, %r720, %r720, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r714, %r720, %r720, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1266, %r714, %r710;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r718, %r720, %r720, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1267, %r1266, %r718;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1268, %r720, %r680;
	not.b32 	%r1269, %r720;
	and.b32  	%r1270, %r640, %r1269;
	or.b32  	%r1271, %r1268, %r1270;
	add.s32 	%r1272, %r1271, %r600;
	add.s32 	%r1273, %r1272, %r1267;
	ld.const.u32 	%r1274, [%rd102+24];
	add.s32 	%r1275, %r1273, %r1274;
	add.s32 	%r1276, %r1275, %r1626;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r722, %r732, %r732, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r726, %r732, %r732, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1277, %r726, %r722;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r730, %r732, %r732, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1278, %r1277, %r730;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1279, %r692, %r652;
	and.b32  	%r1280, %r732, %r1279;
	and.b32  	%r1281, %r692, %r652;
	xor.b32  	%r1282, %r1280, %r1281;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r760, %r1276, %r612;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1283, %r1276, %r1282;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r772, %r1283, %r1278;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r734, %r1625, %r1625, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r738, %r1625, %r1625, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1284, %r1625, 3;
	xor.b32  	%r1285, %r734, %r1284;
	xor.b32  	%r1286, %r1285, %r738;
	add.s32 	%r1287, %r1286, %r1633;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r742, %r1628, %r1628, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r746, %r1628, %r1628, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1288, %r1628, 10;
	xor.b32  	%r1289, %r742, %r1288;
	xor.b32  	%r1290, %r1289, %r746;
	add.s32 	%r1291, %r1287, %r1626;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1626, %r1291, %r1290;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r750, %r760, %r760, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r754, %r760, %r760, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1292, %r754, %r750;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r758, %r760, %r760, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1293, %r1292, %r758;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1294, %r760, %r720;
	not.b32 	%r1295, %r760;
	and.b32  	%r1296, %r680, %r1295;
	or.b32  	%r1297, %r1294, %r1296;
	add.s32 	%r1298, %r1297, %r640;
	add.s32 	%r1299, %r1298, %r1293;
	ld.const.u32 	%r1300, [%rd102+28];
	add.s32 	%r1301, %r1299, %r1300;
	add.s32 	%r1302, %r1301, %r1625;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r762, %r772, %r772, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r766, %r772, %r772, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1303, %r766, %r762;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r770, %r772, %r772, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1304, %r1303, %r770;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1305, %r732, %r692;
	and.b32  	%r1306, %r772, %r1305;
	and.b32  	%r1307, %r732, %r692;
	xor.b32  	%r1308, %r1306, %r1307;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r800, %r1302, %r652;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1309, %r1302, %r1308;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r812, %r1309, %r1304;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r774, %r1624, %r1624, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r778, %r1624, %r1624, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1310, %r1624, 3;
	xor.b32  	%r1311, %r774, %r1310;
	xor.b32  	%r1312, %r1311, %r778;
	add.s32 	%r1313, %r1312, %r1632;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r782, %r1627, %r1627, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r786, %r1627, %r1627, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1314, %r1627, 10;
	xor.b32  	%r1315, %r782, %r1314;
	xor.b32  	%r1316, %r1315, %r786;
	add.s32 	%r1317, %r1313, %r1625;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1625, %r1317, %r1316;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r790, %r800, %r800, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r794, %r800, %r800, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1318, %r794, %r790;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r798, %r800, %r800, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1319, %r1318, %r798;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1320, %r800, %r760;
	not.b32 	%r1321, %r800;
	and.b32  	%r1322, %r720, %r1321;
	or.b32  	%r1323, %r1320, %r1322;
	add.s32 	%r1324, %r1323, %r680;
	add.s32 	%r1325, %r1324, %r1319;
	ld.const.u32 	%r1326, [%rd102+32];
	add.s32 	%r1327, %r1325, %r1326;
	add.s32 	%r1328, %r1327, %r1624;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r802, %r812, %r812, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r806, %r812, %r812, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1329, %r806, %r802;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r810, %r812, %r812, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1330, %r1329, %r810;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1331, %r772, %r732;
	and.b32  	%r1332, %r812, %r1331;
	and.b32  	%r1333, %r772, %r732;
	xor.b32  	%r1334, %r1332, %r1333;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r840, %r1328, %r692;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1335, %r1328, %r1334;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r852, %r1335, %r1330;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r814, %r1623, %r1623, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r818, %r1623, %r1623, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1336, %r1623, 3;
	xor.b32  	%r1337, %r814, %r1336;
	xor.b32  	%r1338, %r1337, %r818;
	add.s32 	%r1339, %r1338, %r1631;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r822, %r1626, %r1626, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r826, %r1626, %r1626, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1340, %r1626, 10;
	xor.b32  	%r1341, %r822, %r1340;
	xor.b32  	%r1342, %r1341, %r826;
	add.s32 	%r1343, %r1339, %r1624;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1624, %r1343, %r1342;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r830, %r840, %r840, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r834, %r840, %r840, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1344, %r834, %r830;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r838, %r840, %r840, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1345, %r1344, %r838;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1346, %r840, %r800;
	not.b32 	%r1347, %r840;
	and.b32  	%r1348, %r760, %r1347;
	or.b32  	%r1349, %r1346, %r1348;
	add.s32 	%r1350, %r1349, %r720;
	add.s32 	%r1351, %r1350, %r1345;
	ld.const.u32 	%r1352, [%rd102+36];
	add.s32 	%r1353, %r1351, %r1352;
	add.s32 	%r1354, %r1353, %r1623;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r842, %r852, %r852, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r846, %r852, %r852, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1355, %r846, %r842;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r850, %r852, %r852, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1356, %r1355, %r850;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1357, %r812, %r772;
	and.b32  	%r1358, %r852, %r1357;
	and.b32  	%r1359, %r812, %r772;
	xor.b32  	%r1360, %r1358, %r1359;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r880, %r1354, %r732;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1361, %r1354, %r1360;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r892, %r1361, %r1356;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r854, %r1622, %r1622, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r858, %r1622, %r1622, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1362, %r1622, 3;
	xor.b32  	%r1363, %r854, %r1362;
	xor.b32  	%r1364, %r1363, %r858;
	add.s32 	%r1365, %r1364, %r1630;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r862, %r1625, %r1625, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r866, %r1625, %r1625, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1366, %r1625, 10;
	xor.b32  	%r1367, %r862, %r1366;
	xor.b32  	%r1368, %r1367, %r866;
	add.s32 	%r1369, %r1365, %r1623;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1623, %r1369, %r1368;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r870, %r880, %r880, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r874, %r880, %r880, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1370, %r874, %r870;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r878, %r880, %r880, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1371, %r1370, %r878;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1372, %r880, %r840;
	not.b32 	%r1373, %r880;
	and.b32  	%r1374, %r800, %r1373;
	or.b32  	%r1375, %r1372, %r1374;
	add.s32 	%r1376, %r1375, %r760;
	add.s32 	%r1377, %r1376, %r1371;
	ld.const.u32 	%r1378, [%rd102+40];
	add.s32 	%r1379, %r1377, %r1378;
	add.s32 	%r1380, %r1379, %r1622;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r882, %r892, %r892, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r886, %r892, %r892, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1381, %r886, %r882;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r890, %r892, %r892, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1382, %r1381, %r890;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1383, %r852, %r812;
	and.b32  	%r1384, %r892, %r1383;
	and.b32  	%r1385, %r852, %r812;
	xor.b32  	%r1386, %r1384, %r1385;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r920, %r1380, %r772;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1387, %r1380, %r1386;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r932, %r1387, %r1382;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r894, %r1621, %r1621, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r898, %r1621, %r1621, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1388, %r1621, 3;
	xor.b32  	%r1389, %r894, %r1388;
	xor.b32  	%r1390, %r1389, %r898;
	add.s32 	%r1391, %r1390, %r1629;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r902, %r1624, %r1624, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r906, %r1624, %r1624, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1392, %r1624, 10;
	xor.b32  	%r1393, %r902, %r1392;
	xor.b32  	%r1394, %r1393, %r906;
	add.s32 	%r1395, %r1391, %r1622;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1622, %r1395, %r1394;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r910, %r920, %r920, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r914, %r920, %r920, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1396, %r914, %r910;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r918, %r920, %r920, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1397, %r1396, %r918;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1398, %r920, %r880;
	not.b32 	%r1399, %r920;
	and.b32  	%r1400, %r840, %r1399;
	or.b32  	%r1401, %r1398, %r1400;
	add.s32 	%r1402, %r1401, %r800;
	add.s32 	%r1403, %r1402, %r1397;
	ld.const.u32 	%r1404, [%rd102+44];
	add.s32 	%r1405, %r1403, %r1404;
	add.s32 	%r1406, %r1405, %r1621;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r922, %r932, %r932, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r926, %r932, %r932, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1407, %r926, %r922;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r930, %r932, %r932, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1408, %r1407, %r930;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1409, %r892, %r852;
	and.b32  	%r1410, %r932, %r1409;
	and.b32  	%r1411, %r892, %r852;
	xor.b32  	%r1412, %r1410, %r1411;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r960, %r1406, %r812;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1413, %r1406, %r1412;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r972, %r1413, %r1408;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r934, %r1620, %r1620, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r938, %r1620, %r1620, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1414, %r1620, 3;
	xor.b32  	%r1415, %r934, %r1414;
	xor.b32  	%r1416, %r1415, %r938;
	add.s32 	%r1417, %r1416, %r1628;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r942, %r1623, %r1623, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r946, %r1623, %r1623, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1418, %r1623, 10;
	xor.b32  	%r1419, %r942, %r1418;
	xor.b32  	%r1420, %r1419, %r946;
	add.s32 	%r1421, %r1417, %r1621;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1621, %r1421, %r1420;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r950, %r960, %r960, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r954, %r960, %r960, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1422, %r954, %r950;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r958, %r960, %r960, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1423, %r1422, %r958;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1424, %r960, %r920;
	not.b32 	%r1425, %r960;
	and.b32  	%r1426, %r880, %r1425;
	or.b32  	%r1427, %r1424, %r1426;
	add.s32 	%r1428, %r1427, %r840;
	add.s32 	%r1429, %r1428, %r1423;
	ld.const.u32 	%r1430, [%rd102+48];
	add.s32 	%r1431, %r1429, %r1430;
	add.s32 	%r1432, %r1431, %r1620;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r962, %r972, %r972, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r966, %r972, %r972, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1433, %r966, %r962;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r970, %r972, %r972, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1434, %r1433, %r970;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1435, %r932, %r892;
	and.b32  	%r1436, %r972, %r1435;
	and.b32  	%r1437, %r932, %r892;
	xor.b32  	%r1438, %r1436, %r1437;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1657, %r1432, %r852;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1439, %r1432, %r1438;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1653, %r1439, %r1434;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r974, %r1619, %r1619, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r978, %r1619, %r1619, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1440, %r1619, 3;
	xor.b32  	%r1441, %r974, %r1440;
	xor.b32  	%r1442, %r1441, %r978;
	add.s32 	%r1443, %r1442, %r1627;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r982, %r1622, %r1622, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r986, %r1622, %r1622, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1444, %r1622, 10;
	xor.b32  	%r1445, %r982, %r1444;
	xor.b32  	%r1446, %r1445, %r986;
	add.s32 	%r1447, %r1443, %r1620;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1620, %r1447, %r1446;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r990, %r1657, %r1657, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r994, %r1657, %r1657, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1448, %r994, %r990;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r998, %r1657, %r1657, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1449, %r1448, %r998;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1450, %r1657, %r960;
	not.b32 	%r1451, %r1657;
	and.b32  	%r1452, %r920, %r1451;
	or.b32  	%r1453, %r1450, %r1452;
	add.s32 	%r1454, %r1453, %r880;
	add.s32 	%r1455, %r1454, %r1449;
	ld.const.u32 	%r1456, [%rd102+52];
	add.s32 	%r1457, %r1455, %r1456;
	add.s32 	%r1458, %r1457, %r1619;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r1002, %r1653, %r1653, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r1006, %r1653, %r1653, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1459, %r1006, %r1002;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r1010, %r1653, %r1653, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1460, %r1459, %r1010;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1461, %r972, %r932;
	and.b32  	%r1462, %r1653, %r1461;
	and.b32  	%r1463, %r972, %r932;
	xor.b32  	%r1464, %r1462, %r1463;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1656, %r1458, %r892;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1465, %r1458, %r1464;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1652, %r1465, %r1460;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r1014, %r1618, %r1618, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r1018, %r1618, %r1618, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1466, %r1618, 3;
	xor.b32  	%r1467, %r1014, %r1466;
	xor.b32  	%r1468, %r1467, %r1018;
	add.s32 	%r1469, %r1468, %r1626;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r1022, %r1621, %r1621, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r1026, %r1621, %r1621, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1470, %r1621, 10;
	xor.b32  	%r1471, %r1022, %r1470;
	xor.b32  	%r1472, %r1471, %r1026;
	add.s32 	%r1473, %r1469, %r1619;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1619, %r1473, %r1472;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r1030, %r1656, %r1656, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r1034, %r1656, %r1656, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1474, %r1034, %r1030;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r1038, %r1656, %r1656, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1475, %r1474, %r1038;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1476, %r1656, %r1657;
	not.b32 	%r1477, %r1656;
	and.b32  	%r1478, %r960, %r1477;
	or.b32  	%r1479, %r1476, %r1478;
	add.s32 	%r1480, %r1479, %r920;
	add.s32 	%r1481, %r1480, %r1475;
	ld.const.u32 	%r1482, [%rd102+56];
	add.s32 	%r1483, %r1481, %r1482;
	add.s32 	%r1484, %r1483, %r1618;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r1042, %r1652, %r1652, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r1046, %r1652, %r1652, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1485, %r1046, %r1042;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r1050, %r1652, %r1652, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1486, %r1485, %r1050;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1487, %r1653, %r972;
	and.b32  	%r1488, %r1652, %r1487;
	and.b32  	%r1489, %r1653, %r972;
	xor.b32  	%r1490, %r1488, %r1489;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1655, %r1484, %r932;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1491, %r1484, %r1490;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1651, %r1491, %r1486;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r1054, %r1633, %r1633, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r1058, %r1633, %r1633, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1492, %r1633, 3;
	xor.b32  	%r1493, %r1054, %r1492;
	xor.b32  	%r1494, %r1493, %r1058;
	add.s32 	%r1495, %r1494, %r1625;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r1062, %r1620, %r1620, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r1066, %r1620, %r1620, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1496, %r1620, 10;
	xor.b32  	%r1497, %r1062, %r1496;
	xor.b32  	%r1498, %r1497, %r1066;
	add.s32 	%r1499, %r1495, %r1618;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1618, %r1499, %r1498;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r1070, %r1655, %r1655, %r1073;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r1074, %r1655, %r1655, %r1077;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1500, %r1074, %r1070;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 39 7
	// begin inline asm
	shf.r.wrap.b32 %r1078, %r1655, %r1655, %r1081;
	// end inline asm
	.loc	1 39 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1501, %r1500, %r1078;
	.loc	1 40 7, function_name $L__info_string2, inlined_at 1 108 5
	and.b32  	%r1502, %r1655, %r1656;
	not.b32 	%r1503, %r1655;
	and.b32  	%r1504, %r1657, %r1503;
	or.b32  	%r1505, %r1502, %r1504;
	add.s32 	%r1506, %r1505, %r960;
	add.s32 	%r1507, %r1506, %r1501;
	ld.const.u32 	%r1508, [%rd102+60];
	add.s32 	%r1509, %r1507, %r1508;
	add.s32 	%r1510, %r1509, %r1633;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r1082, %r1651, %r1651, %r1085;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r1086, %r1651, %r1651, %r1089;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1511, %r1086, %r1082;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 41 7
	// begin inline asm
	shf.r.wrap.b32 %r1090, %r1651, %r1651, %r1093;
	// end inline asm
	.loc	1 41 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1512, %r1511, %r1090;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	xor.b32  	%r1513, %r1652, %r1653;
	and.b32  	%r1514, %r1651, %r1513;
	and.b32  	%r1515, %r1652, %r1653;
	xor.b32  	%r1516, %r1514, %r1515;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1654, %r1510, %r972;
	.loc	1 42 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1517, %r1510, %r1516;
	.loc	1 43 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1650, %r1517, %r1512;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r1094, %r1632, %r1632, %r1097;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 45 7
	// begin inline asm
	shf.r.wrap.b32 %r1098, %r1632, %r1632, %r1101;
	// end inline asm
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1518, %r1632, 3;
	xor.b32  	%r1519, %r1094, %r1518;
	xor.b32  	%r1520, %r1519, %r1098;
	add.s32 	%r1521, %r1520, %r1624;
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r1102, %r1619, %r1619, %r1105;
	// end inline asm
	.loc	1 23 3, function_name $L__info_string3, inlined_at 1 46 16
	// begin inline asm
	shf.r.wrap.b32 %r1106, %r1619, %r1619, %r1109;
	// end inline asm
	.loc	1 46 16, function_name $L__info_string2, inlined_at 1 108 5
	shr.u32 	%r1522, %r1619, 10;
	xor.b32  	%r1523, %r1102, %r1522;
	xor.b32  	%r1524, %r1523, %r1106;
	add.s32 	%r1525, %r1521, %r1633;
	.loc	1 45 7, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1633, %r1525, %r1524;
	.loc	1 36 3, function_name $L__info_string2, inlined_at 1 108 5
	add.s64 	%rd102, %rd102, 64;
	.loc	1 36 35, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1649, %r1649, 16;
	.loc	1 36 3, function_name $L__info_string2, inlined_at 1 108 5
	setp.lt.u32 	%p138, %r1649, 64;
	@%p138 bra 	$L__BB0_203;

	.loc	1 49 3, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1665, %r1665, %r1650;
	add.s32 	%r1664, %r1664, %r1651;
	add.s32 	%r1663, %r1663, %r1652;
	add.s32 	%r1662, %r1662, %r1653;
	.loc	1 50 3, function_name $L__info_string2, inlined_at 1 108 5
	add.s32 	%r1661, %r1661, %r1654;
	add.s32 	%r1660, %r1660, %r1655;
	add.s32 	%r1659, %r1659, %r1656;
	add.s32 	%r1658, %r1658, %r1657;
	.loc	1 97 53
	add.s32 	%r1552, %r1552, 1;
	.loc	1 97 3
	setp.lt.u32 	%p139, %r1552, %r8;
	@%p139 bra 	$L__BB0_7;

$L__BB0_205:
	.loc	1 75 3
	mov.u32 	%r1538, %ntid.x;
	mov.u32 	%r1537, %ctaid.x;
	mov.u32 	%r1536, %tid.x;
	cvt.u64.u32 	%rd99, %r1536;
	mul.wide.u32 	%rd98, %r1537, %r1538;
	add.s64 	%rd97, %rd98, %rd99;
	.loc	1 86 3
	sub.s64 	%rd96, %rd97, %rd24;
	.loc	1 112 3
	shl.b64 	%rd94, %rd96, 5;
	add.s64 	%rd95, %rd5, %rd94;
	.loc	1 112 3
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 112 3
	mov.u32 	%r1526, 291;
	mov.u32 	%r1527, 0;
	prmt.b32 	%r1528, %r1665, %r1527, %r1526;
	.loc	1 112 3
	st.u32 	[%rd95], %r1528;
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 112 3
	prmt.b32 	%r1529, %r1664, %r1527, %r1526;
	.loc	1 112 3
	st.u32 	[%rd95+4], %r1529;
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 112 3
	prmt.b32 	%r1530, %r1663, %r1527, %r1526;
	.loc	1 112 3
	st.u32 	[%rd95+8], %r1530;
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 112 3
	prmt.b32 	%r1531, %r1662, %r1527, %r1526;
	.loc	1 112 3
	st.u32 	[%rd95+12], %r1531;
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 112 3
	prmt.b32 	%r1532, %r1661, %r1527, %r1526;
	.loc	1 112 3
	st.u32 	[%rd95+16], %r1532;
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 112 3
	prmt.b32 	%r1533, %r1660, %r1527, %r1526;
	.loc	1 112 3
	st.u32 	[%rd95+20], %r1533;
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 112 3
	prmt.b32 	%r1534, %r1659, %r1527, %r1526;
	.loc	1 112 3
	st.u32 	[%rd95+24], %r1534;
	.loc	1 28 3, function_name $L__info_string1, inlined_at 1 112 3
	prmt.b32 	%r1535, %r1658, %r1527, %r1526;
	.loc	1 112 3
	st.u32 	[%rd95+28], %r1535;

$L__BB0_206:
	.loc	1 113 1
	ret;

}
	.file	1 "tree_digest.cu"
	.section	.debug_str
	{
$L__info_string0:
.b8 95,90,49,48,114,101,97,100,95,98,108,111,99,107,80,75,104,106,98,80,106,0
$L__info_string1:
.b8 95,90,49,48,115,119,97,112,95,98,121,116,101,115,106,0
$L__info_string2:
.b8 95,90,56,99,111,109,112,114,101,115,115,80,106,83,95,0
$L__info_string3:
.b8 95,90,49,50,114,111,116,97,116,101,95,114,105,103,104,116,106,105,0

	}
` as Ptx<Kernels>;
