// Generated from parameters.ptx by `poolpass bind parameters.ptx --import ../../../mod.ts`. Do not edit.

import { type Pointer, type Ptx, type Struct, struct, type StructArgument } from "../../../mod.ts";

/** `enum Color` */
export const Color = {
  RED: 0,
  GREEN: 4,
  BLUE: 5,
} as const;

/** `enum Level` */
export const Level = {
  LOW: -1,
  HIGH: 1,
} as const;

/** `Inner`: 32 bytes, aligned to 8 */
export const Inner: Struct<{
  readonly tag: "s8";
  readonly values: readonly ["f64", 3];
}> = struct({
  // char tag
  tag: "s8",
  values: ["f64", 3],
});

/** `float4`: 16 bytes, aligned to 16 */
export const float4: Struct<{
  readonly x: "f32";
  readonly y: "f32";
  readonly z: "f32";
  readonly w: "f32";
}> = struct({
  x: "f32",
  y: "f32",
  z: "f32",
  w: "f32",
}, { alignment: 16 });

/** `Params`: 144 bytes, aligned to 16 */
export const Params: Struct<{
  readonly n: "s32";
  readonly scale: "f32";
  readonly inner: readonly [typeof Inner, 2];
  readonly data: "u64";
  readonly flags_more: "u32";
  readonly matrix: readonly ["s32", 6];
  readonly bits: "b32";
  readonly vector: typeof float4;
  readonly half: "f16";
  readonly on: "u8";
  readonly color: "u32";
}> = struct({
  n: "s32",
  scale: "f32",
  inner: [Inner, 2],
  // const float* data
  data: "u64",
  // flags: bits 0 to 2, more: bits 3 to 7
  flags_more: "u32",
  // int matrix[2][3]
  matrix: ["s32", 6],
  // union of float f, unsigned int u
  bits: "b32",
  vector: float4,
  half: "f16",
  // bool on
  on: "u8",
  // Color color
  color: "u32",
});

/** `Aligned`: 16 bytes, aligned to 16 */
export const Aligned: Struct<{
  readonly x: "f32";
  readonly y: "f32";
  readonly z: "f32";
}> = struct({
  x: "f32",
  y: "f32",
  z: "f32",
}, { alignment: 16 });

/** `Base`: 8 bytes, aligned to 4 */
export const Base: Struct<{
  readonly id: "s32";
  readonly rest: "s16";
}> = struct({
  id: "s32",
  rest: "s16",
});

/** `Derived`: 16 bytes, aligned to 8 */
export const Derived: Struct<{
  readonly Base: typeof Base;
  readonly wide: "u64";
}> = struct({
  Base: Base,
  wide: "u64",
});

/** `float3`: 12 bytes, aligned to 4 */
export const float3: Struct<{
  readonly x: "f32";
  readonly y: "f32";
  readonly z: "f32";
}> = struct({
  x: "f32",
  y: "f32",
  z: "f32",
});

/** `Particle`: 24 bytes, aligned to 4 */
export const Particle: Struct<{
  readonly position: typeof float3;
  readonly velocity: typeof float3;
}> = struct({
  position: float3,
  velocity: float3,
});

/** `Point`: 8 bytes, aligned to 4 */
export const Point: Struct<{
  readonly x: "f32";
  readonly id: "s32";
}> = struct({
  x: "f32",
  id: "s32",
});

/** `Point`: 8 bytes, aligned to 8 */
export const Point2: Struct<{
  readonly x: "f64";
}> = struct({
  x: "f64",
});

/** The parameters of the kernels in `parameters.ptx`. */
export interface Kernels {
  /**
   * ```c
   * void numbers(
   *   int n,
   *   unsigned int u,
   *   float a,
   *   double d,
   *   long long l,
   *   unsigned long long ul,
   *   bool flag,
   *   char c,
   *   unsigned char uc,
   *   short s,
   *   Color color,
   *   Level level,
   *   real r,
   *   size_t size,
   *   cudaTextureObject_t texture
   * );
   * ```
   */
  numbers: [
    n: number,
    u: number,
    a: number,
    d: number,
    l: number | bigint,
    ul: number | bigint,
    flag: boolean | number,
    c: number,
    uc: number,
    s: number,
    color: number,
    level: number,
    r: number,
    size: number | bigint,
    texture: number | bigint,
  ];
  /**
   * ```c
   * void pointers(
   *   const float* x,
   *   float* y,
   *   const int* const i,
   *   double* d,
   *   char* c,
   *   unsigned char* uc,
   *   bool* flags,
   *   __half* h,
   *   const __nv_bfloat16* b,
   *   long long* l,
   *   float4* v,
   *   __half2* h2,
   *   void* any,
   *   const void* any_const,
   *   float** rows,
   *   int (*table)[4],
   *   const float2& reference,
   *   short* s,
   *   Color* colors,
   *   void (*function)(...)
   * );
   * ```
   */
  pointers: [
    x: Pointer<Float32Array>,
    y: Pointer<Float32Array>,
    i: Pointer<Int32Array>,
    d: Pointer<Float64Array>,
    c: Pointer<Int8Array | Uint8Array>,
    uc: Pointer<Uint8Array>,
    flags: Pointer<Uint8Array>,
    h: Pointer<Float16Array>,
    b: Pointer<Uint16Array>,
    l: Pointer<BigInt64Array>,
    v: Pointer<Float32Array>,
    h2: Pointer<Float16Array>,
    any: Pointer,
    any_const: Pointer,
    rows: Pointer<BigUint64Array>,
    table: Pointer<Int32Array>,
    reference: Pointer<Float32Array>,
    s: Pointer<Int16Array>,
    colors: Pointer<Int32Array | Uint32Array>,
    function_: bigint,
  ];
  /**
   * ```c
   * void structs(
   *   Params params,
   *   const Params* array,
   *   Aligned aligned,
   *   Packed packed,
   *   Derived derived,
   *   const Particle* particles,
   *   Point point,
   *   Point* points,
   *   float4 vector,
   *   __half half,
   *   Bits bits,
   *   const Inner constant
   * );
   * ```
   */
  structs: [
    params: StructArgument<typeof Params.fields>,
    array: Pointer<Uint8Array>,
    aligned: StructArgument<typeof Aligned.fields>,
    packed: ArrayBufferView,
    derived: StructArgument<typeof Derived.fields>,
    particles: Pointer<Float32Array | Uint8Array>,
    point: StructArgument<typeof Point.fields>,
    points: Pointer<Float64Array | Uint8Array>,
    vector: Float32Array,
    half: Float16Array,
    bits: ArrayBufferView,
    constant: StructArgument<typeof Inner.fields>,
  ];
  /** `void words(int in, float* await, int, float*, unsigned int function_);` */
  words: [
    in_: number,
    await_: Pointer<Float32Array>,
    parameter2: number,
    parameter3: Pointer<Float32Array>,
    function_: number,
  ];
  /** `void scale<float, 3>(float* x, float factor);` */
  _Z5scaleIfLi3EEvPT_S0_: [x: Pointer<Float32Array>, factor: number];
  /** `void scale<double, 1>(double* x, double factor);` */
  _Z5scaleIdLi1EEvPT_S0_: [x: Pointer<Float64Array>, factor: number];
}

/** The kernels' names in the PTX by their names in C++. */
export const names = {
  "scale<float, 3>": "_Z5scaleIfLi3EEvPT_S0_",
  "scale<double, 1>": "_Z5scaleIdLi1EEvPT_S0_",
} as const;

/** PTX of the kernels in `parameters.ptx`. */
export const ptx: Ptx<Kernels> = `//
// Generated by NVIDIA NVVM Compiler
//
// Compiler Build ID: CL-36424714
// Cuda compilation tools, release 13.0, V13.0.88
// Based on NVVM 7.0.1
//

.version 9.0
.target sm_75, debug
.address_size 64

	// .globl	numbers

.visible .entry numbers(
	.param .u32 numbers_param_0,
	.param .u32 numbers_param_1,
	.param .f32 numbers_param_2,
	.param .f64 numbers_param_3,
	.param .u64 numbers_param_4,
	.param .u64 numbers_param_5,
	.param .u8 numbers_param_6,
	.param .u8 numbers_param_7,
	.param .u8 numbers_param_8,
	.param .u16 numbers_param_9,
	.param .u32 numbers_param_10,
	.param .u8 numbers_param_11,
	.param .f32 numbers_param_12,
	.param .u64 numbers_param_13,
	.param .u64 numbers_param_14
)
{
	.reg .b16 	%rs<15>;
	.reg .f32 	%f<5>;
	.reg .b32 	%r<7>;
	.reg .f64 	%fd<3>;
	.reg .b64 	%rd<9>;
	.loc	1 60 0
$L__func_begin0:
	.loc	1 60 0


	ld.param.s8 	%rs5, [numbers_param_11];
	ld.param.u8 	%rs3, [numbers_param_8];
	ld.param.s8 	%rs2, [numbers_param_7];
	ld.param.s8 	%rs1, [numbers_param_6];
	ld.param.u32 	%r1, [numbers_param_0];
	ld.param.u32 	%r2, [numbers_param_1];
	ld.param.f32 	%f1, [numbers_param_2];
	ld.param.f64 	%fd1, [numbers_param_3];
	ld.param.u64 	%rd1, [numbers_param_4];
	ld.param.u64 	%rd2, [numbers_param_5];
	ld.param.u16 	%rs4, [numbers_param_9];
	ld.param.u32 	%r3, [numbers_param_10];
	ld.param.f32 	%f2, [numbers_param_12];
	ld.param.u64 	%rd3, [numbers_param_13];
	ld.param.u64 	%rd4, [numbers_param_14];
	mov.b32 	%r4, %r1;
	mov.b32 	%r5, %r2;
	mov.f32 	%f3, %f1;
	mov.f64 	%fd2, %fd1;
	mov.b64 	%rd5, %rd1;
	mov.b64 	%rd6, %rd2;
	cvt.s16.s8 	%rs6, %rs1;
	mov.b16 	%rs7, %rs6;
	cvt.s16.s8 	%rs8, %rs2;
	mov.b16 	%rs9, %rs8;
	cvt.s16.s8 	%rs10, %rs3;
	mov.b16 	%rs11, %rs10;
	mov.b16 	%rs12, %rs4;
	mov.b32 	%r6, %r3;
	cvt.s16.s8 	%rs13, %rs5;
	mov.b16 	%rs14, %rs13;
	mov.f32 	%f4, %f2;
	mov.b64 	%rd7, %rd3;
	mov.b64 	%rd8, %rd4;
$L__tmp0:
	.loc	1 62 78
	ret;
$L__tmp1:
$L__func_end0:

}
	// .globl	pointers
.visible .entry pointers(
	.param .u64 pointers_param_0,
	.param .u64 pointers_param_1,
	.param .u64 pointers_param_2,
	.param .u64 pointers_param_3,
	.param .u64 pointers_param_4,
	.param .u64 pointers_param_5,
	.param .u64 pointers_param_6,
	.param .u64 pointers_param_7,
	.param .u64 pointers_param_8,
	.param .u64 pointers_param_9,
	.param .u64 pointers_param_10,
	.param .u64 pointers_param_11,
	.param .u64 pointers_param_12,
	.param .u64 pointers_param_13,
	.param .u64 pointers_param_14,
	.param .u64 pointers_param_15,
	.param .u64 pointers_param_16,
	.param .u64 pointers_param_17,
	.param .u64 pointers_param_18,
	.param .u64 pointers_param_19
)
{
	.local .align 8 .b8 	__local_depot1[64];
	.reg .b64 	%SP;
	.reg .b64 	%SPL;
	.reg .b64 	%rd<41>;
	.loc	1 64 0
$L__func_begin1:
	.loc	1 64 0


	mov.u64 	%SPL, __local_depot1;
	cvta.local.u64 	%SP, %SPL;
	ld.param.u64 	%rd1, [pointers_param_0];
	ld.param.u64 	%rd2, [pointers_param_1];
	ld.param.u64 	%rd3, [pointers_param_2];
	ld.param.u64 	%rd4, [pointers_param_3];
	ld.param.u64 	%rd5, [pointers_param_4];
	ld.param.u64 	%rd6, [pointers_param_5];
	ld.param.u64 	%rd7, [pointers_param_6];
	ld.param.u64 	%rd8, [pointers_param_7];
	ld.param.u64 	%rd9, [pointers_param_8];
	ld.param.u64 	%rd10, [pointers_param_9];
	ld.param.u64 	%rd11, [pointers_param_10];
	ld.param.u64 	%rd12, [pointers_param_11];
	ld.param.u64 	%rd13, [pointers_param_12];
	ld.param.u64 	%rd14, [pointers_param_13];
	ld.param.u64 	%rd15, [pointers_param_14];
	ld.param.u64 	%rd16, [pointers_param_15];
	ld.param.u64 	%rd17, [pointers_param_16];
	ld.param.u64 	%rd18, [pointers_param_17];
	ld.param.u64 	%rd19, [pointers_param_18];
	ld.param.u64 	%rd20, [pointers_param_19];
	mov.b64 	%rd21, %rd1;
	mov.b64 	%rd22, %rd2;
	mov.b64 	%rd23, %rd3;
	mov.b64 	%rd24, %rd4;
	mov.b64 	%rd25, %rd5;
	mov.b64 	%rd26, %rd6;
	mov.b64 	%rd27, %rd7;
	mov.b64 	%rd28, %rd8;
	st.u64 	[%SP+0], %rd28;
	mov.b64 	%rd29, %rd9;
	st.u64 	[%SP+8], %rd29;
	mov.b64 	%rd30, %rd10;
	mov.b64 	%rd31, %rd11;
	st.u64 	[%SP+16], %rd31;
	mov.b64 	%rd32, %rd12;
	st.u64 	[%SP+24], %rd32;
	mov.b64 	%rd33, %rd13;
	mov.b64 	%rd34, %rd14;
	mov.b64 	%rd35, %rd15;
	st.u64 	[%SP+32], %rd35;
	mov.b64 	%rd36, %rd16;
	st.u64 	[%SP+40], %rd36;
	mov.b64 	%rd37, %rd17;
	st.u64 	[%SP+48], %rd37;
	mov.b64 	%rd38, %rd18;
	mov.b64 	%rd39, %rd19;
	mov.b64 	%rd40, %rd20;
	st.u64 	[%SP+56], %rd40;
$L__tmp2:
	.loc	1 68 60
	ret;
$L__tmp3:
$L__func_end1:

}
	// .globl	structs
.visible .entry structs(
	.param .align 16 .b8 structs_param_0[144],
	.param .u64 structs_param_1,
	.param .align 16 .b8 structs_param_2[16],
	.param .align 1 .b8 structs_param_3[5],
	.param .align 8 .b8 structs_param_4[16],
	.param .u64 structs_param_5,
	.param .align 4 .b8 structs_param_6[8],
	.param .u64 structs_param_7,
	.param .align 16 .b8 structs_param_8[16],
	.param .align 2 .b8 structs_param_9[2],
	.param .align 4 .b8 structs_param_10[4],
	.param .align 8 .b8 structs_param_11[32]
)
{
	.local .align 16 .b8 	__local_depot2[224];
	.reg .b64 	%SP;
	.reg .b64 	%SPL;
	.reg .b16 	%rs<16>;
	.reg .f32 	%f<16>;
	.reg .b32 	%r<89>;
	.reg .f64 	%fd<4>;
	.reg .b64 	%rd<15>;
	.loc	1 70 0
$L__func_begin2:
	.loc	1 70 0


	mov.u64 	%SPL, __local_depot2;
	cvta.local.u64 	%SP, %SPL;
	mov.u64 	%rd7, structs_param_3;
	add.s64 	%rd8, %rd7, 1;
	mov.b64 	%rd1, structs_param_0;
	ld.param.u32 	%r4, [structs_param_10];
	ld.param.u16 	%rs9, [structs_param_9];
	ld.param.f32 	%f6, [structs_param_8+4];
	ld.param.f32 	%f7, [structs_param_8+8];
	ld.param.f32 	%f8, [structs_param_8+12];
	ld.param.u32 	%r3, [structs_param_6+4];
	ld.param.u64 	%rd2, [structs_param_1];
	ld.param.v4.u8 	{%rs10, %rs11, %rs12, %rs13}, [structs_param_2+12];
	ld.param.v2.u8 	{%rs14, %rs15}, [structs_param_4+6];
	ld.param.u64 	%rd4, [structs_param_5];
	ld.param.u64 	%rd5, [structs_param_7];
	mov.b64 	%rd6, structs_param_11;
	ld.param.u8 	%r5, [%rd8+1];
	shl.b32 	%r6, %r5, 8;
	ld.param.u8 	%r7, [structs_param_3+1];
	or.b32  	%r8, %r6, %r7;
	ld.param.u8 	%r9, [%rd8+2];
	add.s64 	%rd9, %rd8, 2;
	ld.param.u8 	%r10, [%rd9+1];
	shl.b32 	%r11, %r10, 8;
	or.b32  	%r12, %r11, %r9;
	shl.b32 	%r13, %r12, 16;
	or.b32  	%r1, %r13, %r8;
	ld.param.f32 	%f5, [structs_param_8];
	ld.param.f32 	%f4, [structs_param_6];
	ld.param.u64 	%rd3, [structs_param_4+8];
	ld.param.u16 	%rs6, [structs_param_4+4];
	ld.param.u32 	%r2, [structs_param_4];
	ld.param.f32 	%f3, [structs_param_2+8];
	ld.param.f32 	%f2, [structs_param_2+4];
	ld.param.f32 	%f1, [structs_param_2];
	ld.param.u8 	%rs5, [structs_param_3];
	ld.param.v4.u32 	{%r14, %r15, %r16, %r17}, [structs_param_0];
	ld.param.v4.u32 	{%r22, %r23, %r24, %r25}, [structs_param_0+16];
	ld.param.v4.u32 	{%r30, %r31, %r32, %r33}, [structs_param_0+32];
	ld.param.v4.u32 	{%r38, %r39, %r40, %r41}, [structs_param_0+48];
	ld.param.v4.u32 	{%r46, %r47, %r48, %r49}, [structs_param_0+64];
	ld.param.v4.u32 	{%r54, %r55, %r56, %r57}, [structs_param_0+80];
	ld.param.v4.u32 	{%r62, %r63, %r64, %r65}, [structs_param_0+96];
	ld.param.v4.u32 	{%r70, %r71, %r72, %r73}, [structs_param_0+112];
	.pragma "used_bytes_mask 65527";
	ld.param.v4.u32 	{%r78, %r79, %r80, %r81}, [structs_param_0+128];
	st.v4.u32 	[%SP+0], {%r14, %r15, %r16, %r17};
	st.v4.u32 	[%SP+16], {%r22, %r23, %r24, %r25};
	st.v4.u32 	[%SP+32], {%r30, %r31, %r32, %r33};
	st.v4.u32 	[%SP+48], {%r38, %r39, %r40, %r41};
	st.v4.u32 	[%SP+64], {%r46, %r47, %r48, %r49};
	st.v4.u32 	[%SP+80], {%r54, %r55, %r56, %r57};
	st.v4.u32 	[%SP+96], {%r62, %r63, %r64, %r65};
	st.v4.u32 	[%SP+112], {%r70, %r71, %r72, %r73};
	st.v4.u32 	[%SP+128], {%r78, %r79, %r80, %r81};
	cvta.param.u64 	%rd11, %rd6;
	st.u8 	[%SP+159], %rs13;
	st.u8 	[%SP+158], %rs12;
	st.u8 	[%SP+157], %rs11;
	st.u8 	[%SP+156], %rs10;
	st.f32 	[%SP+152], %f3;
	st.f32 	[%SP+148], %f2;
	st.f32 	[%SP+144], %f1;
	shr.u32 	%r86, %r1, 16;
	shr.u32 	%r87, %r86, 8;
	add.u64 	%rd12, %SP, 160;
	add.s64 	%rd13, %rd12, 1;
	add.s64 	%rd14, %rd13, 2;
	st.u8 	[%rd14+1], %r87;
	st.u8 	[%rd13+2], %r86;
	shr.u32 	%r88, %r1, 8;
	st.u8 	[%rd13+1], %r88;
	st.u8 	[%SP+161], %r1;
	st.u8 	[%SP+160], %rs5;
	st.u64 	[%SP+176], %rd3;
	st.u8 	[%SP+175], %rs15;
	st.u8 	[%SP+174], %rs14;
	st.u16 	[%SP+172], %rs6;
	st.u32 	[%SP+168], %r2;
	st.u32 	[%SP+188], %r3;
	st.f32 	[%SP+184], %f4;
	st.f32 	[%SP+204], %f8;
	st.f32 	[%SP+200], %f7;
	st.f32 	[%SP+196], %f6;
	st.f32 	[%SP+192], %f5;
	st.u16 	[%SP+208], %rs9;
	st.u32 	[%SP+212], %r4;
$L__tmp4:
	.loc	1 73 3
	ld.f32 	%f9, [%rd2+4];
	ld.f32 	%f10, [%SP+4];
	add.f32 	%f11, %f9, %f10;
	ld.f32 	%f12, [%SP+184];
	add.f32 	%f13, %f11, %f12;
	ld.f32 	%f14, [%rd4];
	add.f32 	%f15, %f13, %f14;
	cvt.f64.f32 	%fd1, %f15;
	ld.f64 	%fd2, [%rd11+8];
	add.f64 	%fd3, %fd1, %fd2;
	st.f64 	[%rd5], %fd3;
	.loc	1 74 1
	ret;
$L__tmp5:
$L__func_end2:

}
	// .globl	words
.visible .entry words(
	.param .u32 words_param_0,
	.param .u64 words_param_1,
	.param .u32 words_param_2,
	.param .u64 words_param_3,
	.param .u32 words_param_4
)
{
	.reg .b32 	%r<7>;
	.reg .b64 	%rd<5>;
	.loc	1 76 0
$L__func_begin3:
	.loc	1 76 0


	ld.param.u32 	%r1, [words_param_0];
	ld.param.u64 	%rd1, [words_param_1];
	ld.param.u32 	%r2, [words_param_2];
	ld.param.u64 	%rd2, [words_param_3];
	ld.param.u32 	%r3, [words_param_4];
	mov.b32 	%r4, %r1;
	mov.b64 	%rd3, %rd1;
	mov.b32 	%r5, %r2;
	mov.b64 	%rd4, %rd2;
	mov.b32 	%r6, %r3;
$L__tmp6:
	.loc	1 76 41
	ret;
$L__tmp7:
$L__func_end3:

}
	// .weak	_Z5scaleIfLi3EEvPT_S0_
.weak .entry _Z5scaleIfLi3EEvPT_S0_(
	.param .u64 _Z5scaleIfLi3EEvPT_S0__param_0,
	.param .f32 _Z5scaleIfLi3EEvPT_S0__param_1
)
{
	.reg .f32 	%f<5>;
	.reg .b32 	%r<2>;
	.reg .b64 	%rd<5>;
	.loc	1 79 0
$L__func_begin4:
	.loc	1 79 0


	ld.param.u64 	%rd1, [_Z5scaleIfLi3EEvPT_S0__param_0];
	ld.param.f32 	%f1, [_Z5scaleIfLi3EEvPT_S0__param_1];
$L__tmp8:
	.loc	1 80 3
	mul.f32 	%f2, %f1, 0f40400000;
	mov.u32 	%r1, %tid.x;
	cvt.u64.u32 	%rd2, %r1;
	shl.b64 	%rd3, %rd2, 2;
	add.s64 	%rd4, %rd1, %rd3;
	ld.f32 	%f3, [%rd4];
	mul.f32 	%f4, %f3, %f2;
	st.f32 	[%rd4], %f4;
	.loc	1 81 1
	ret;
$L__tmp9:
$L__func_end4:

}
	// .weak	_Z5scaleIdLi1EEvPT_S0_
.weak .entry _Z5scaleIdLi1EEvPT_S0_(
	.param .u64 _Z5scaleIdLi1EEvPT_S0__param_0,
	.param .f64 _Z5scaleIdLi1EEvPT_S0__param_1
)
{
	.reg .b32 	%r<2>;
	.reg .f64 	%fd<5>;
	.reg .b64 	%rd<5>;
	.loc	1 79 0
$L__func_begin5:
	.loc	1 79 0


	ld.param.u64 	%rd1, [_Z5scaleIdLi1EEvPT_S0__param_0];
	ld.param.f64 	%fd1, [_Z5scaleIdLi1EEvPT_S0__param_1];
$L__tmp10:
	.loc	1 80 3
	mul.f64 	%fd2, %fd1, 0d3FF0000000000000;
	mov.u32 	%r1, %tid.x;
	cvt.u64.u32 	%rd2, %r1;
	shl.b64 	%rd3, %rd2, 3;
	add.s64 	%rd4, %rd1, %rd3;
	ld.f64 	%fd3, [%rd4];
	mul.f64 	%fd4, %fd3, %fd2;
	st.f64 	[%rd4], %fd4;
	.loc	1 81 1
	ret;
$L__tmp11:
$L__func_end5:

}
	.file	1 "tmpxft_000010b2_00000000-1_stdin"
	.file	2 "stddef.h"
	.file	3 "texture_types.h"
	.file	4 "cuda_fp16.h"
	.file	5 "cuda_bf16.h"
	.file	6 "vector_types.h"
	.section	.debug_abbrev
	{
.b8 1
.b8 17
.b8 1
.b8 37
.b8 8
.b8 19
.b8 5
.b8 3
.b8 8
.b8 16
.b8 6
.b8 27
.b8 8
.b8 17
.b8 1
.b8 0
.b8 0
.b8 2
.b8 4
.b8 1
.b8 3
.b8 8
.b8 11
.b8 11
.b8 58
.b8 11
.b8 59
.b8 11
.b8 0
.b8 0
.b8 3
.b8 40
.b8 0
.b8 3
.b8 8
.b8 28
.b8 13
.b8 0
.b8 0
.b8 4
.b8 22
.b8 0
.b8 73
.b8 19
.b8 3
.b8 8
.b8 58
.b8 11
.b8 59
.b8 11
.b8 0
.b8 0
.b8 5
.b8 36
.b8 0
.b8 3
.b8 8
.b8 62
.b8 11
.b8 11
.b8 11
.b8 0
.b8 0
.b8 6
.b8 19
.b8 1
.b8 3
.b8 8
.b8 11
.b8 11
.b8 58
.b8 11
.b8 59
.b8 5
.b8 0
.b8 0
.b8 7
.b8 13
.b8 0
.b8 3
.b8 8
.b8 73
.b8 19
.b8 58
.b8 11
.b8 59
.b8 5
.b8 56
.b8 10
.b8 0
.b8 0
.b8 8
.b8 22
.b8 0
.b8 73
.b8 19
.b8 3
.b8 8
.b8 58
.b8 11
.b8 59
.b8 5
.b8 0
.b8 0
.b8 9
.b8 19
.b8 1
.b8 3
.b8 8
.b8 11
.b8 11
.b8 58
.b8 11
.b8 59
.b8 11
.b8 0
.b8 0
.b8 10
.b8 13
.b8 0
.b8 3
.b8 8
.b8 73
.b8 19
.b8 58
.b8 11
.b8 59
.b8 11
.b8 56
.b8 10
.b8 0
.b8 0
.b8 11
.b8 1
.b8 1
.b8 73
.b8 19
.b8 0
.b8 0
.b8 12
.b8 33
.b8 0
.b8 73
.b8 19
.b8 55
.b8 11
.b8 0
.b8 0
.b8 13
.b8 36
.b8 0
.b8 3
.b8 8
.b8 11
.b8 11
.b8 62
.b8 11
.b8 0
.b8 0
.b8 14
.b8 23
.b8 1
.b8 3
.b8 8
.b8 11
.b8 11
.b8 58
.b8 11
.b8 59
.b8 11
.b8 0
.b8 0
.b8 15
.b8 13
.b8 0
.b8 3
.b8 8
.b8 73
.b8 19
.b8 58
.b8 11
.b8 59
.b8 11
.b8 11
.b8 11
.b8 13
.b8 11
.b8 12
.b8 15
.b8 56
.b8 10
.b8 0
.b8 0
.b8 16
.b8 15
.b8 0
.b8 73
.b8 19
.b8 51
.b8 6
.b8 0
.b8 0
.b8 17
.b8 38
.b8 0
.b8 73
.b8 19
.b8 0
.b8 0
.b8 18
.b8 13
.b8 0
.b8 3
.b8 8
.b8 73
.b8 19
.b8 56
.b8 10
.b8 0
.b8 0
.b8 19
.b8 46
.b8 1
.b8 17
.b8 1
.b8 18
.b8 1
.b8 64
.b8 10
.b8 135,64
.b8 8
.b8 3
.b8 8
.b8 58
.b8 11
.b8 59
.b8 11
.b8 73
.b8 19
.b8 63
.b8 12
.b8 0
.b8 0
.b8 20
.b8 5
.b8 0
.b8 2
.b8 10
.b8 51
.b8 11
.b8 3
.b8 8
.b8 58
.b8 11
.b8 59
.b8 11
.b8 73
.b8 19
.b8 0
.b8 0
.b8 21
.b8 5
.b8 0
.b8 51
.b8 11
.b8 2
.b8 10
.b8 3
.b8 8
.b8 58
.b8 11
.b8 59
.b8 11
.b8 73
.b8 19
.b8 0
.b8 0
.b8 22
.b8 5
.b8 0
.b8 2
.b8 10
.b8 51
.b8 11
.b8 73
.b8 19
.b8 0
.b8 0
.b8 23
.b8 59
.b8 0
.b8 3
.b8 8
.b8 0
.b8 0
.b8 24
.b8 16
.b8 0
.b8 73
.b8 19
.b8 51
.b8 6
.b8 0
.b8 0
.b8 25
.b8 21
.b8 1
.b8 73
.b8 19
.b8 0
.b8 0
.b8 26
.b8 5
.b8 0
.b8 73
.b8 19
.b8 0
.b8 0
.b8 27
.b8 53
.b8 0
.b8 73
.b8 19
.b8 0
.b8 0
.b8 0
	}
	.section	.debug_info
	{
.b32 3097
.b8 2
.b8 0
.b32 .debug_abbrev
.b8 8
.b8 1
.b8 108,103,101,110,102,101,58,32,69,68,71,32,54,46,54
.b8 0
.b8 4
.b8 0
.b8 47,116,109,112,47,116,109,112,120,102,116,95,48,48,48,48,49,48,98,50,95,48,48,48,48,48,48,48,48,45,49,95,115,116,100,105,110
.b8 0
.b32 .debug_line
.b8 47,116,109,112,47,119,47,119,116,95,98,105,110,100
.b8 0
.b64 0
.b8 2
.b8 67,111,108,111,114
.b8 0
.b8 4
.b8 1
.b8 6
.b8 3
.b8 82,69,68
.b8 0
.b8 0
.b8 3
.b8 71,82,69,69,78
.b8 0
.b8 4
.b8 3
.b8 66,76,85,69
.b8 0
.b8 5
.b8 0
.b8 2
.b8 76,101,118,101,108
.b8 0
.b8 1
.b8 1
.b8 7
.b8 3
.b8 95,90,78,53,76,101,118,101,108,51,76,79,87,69
.b8 0
.b8 127
.b8 3
.b8 95,90,78,53,76,101,118,101,108,52,72,73,71,72,69
.b8 0
.b8 1
.b8 0
.b8 4
.b32 185
.b8 114,101,97,108
.b8 0
.b8 1
.b8 8
.b8 5
.b8 102,108,111,97,116
.b8 0
.b8 4
.b8 4
.b8 4
.b32 208
.b8 115,105,122,101,95,116
.b8 0
.b8 2
.b8 214
.b8 5
.b8 117,110,115,105,103,110,101,100,32,108,111,110,103
.b8 0
.b8 7
.b8 8
.b8 4
.b32 252
.b8 99,117,100,97,84,101,120,116,117,114,101,79,98,106,101,99,116,95,116
.b8 0
.b8 3
.b8 174
.b8 5
.b8 117,110,115,105,103,110,101,100,32,108,111,110,103,32,108,111,110,103
.b8 0
.b8 7
.b8 8
.b8 6
.b8 95,95,104,97,108,102
.b8 0
.b8 2
.b8 4
.b8 16
.b8 18
.b8 7
.b8 95,95,120
.b8 0
.b32 302
.b8 4
.b8 21
.b8 18
.b8 2
.b8 35
.b8 0
.b8 0
.b8 5
.b8 117,110,115,105,103,110,101,100,32,115,104,111,114,116
.b8 0
.b8 7
.b8 2
.b8 6
.b8 95,95,110,118,95,98,102,108,111,97,116,49,54
.b8 0
.b8 2
.b8 5
.b8 80
.b8 17
.b8 7
.b8 95,95,120
.b8 0
.b32 302
.b8 5
.b8 85
.b8 17
.b8 2
.b8 35
.b8 0
.b8 0
.b8 6
.b8 102,108,111,97,116,52
.b8 0
.b8 16
.b8 6
.b8 134
.b8 1
.b8 7
.b8 120
.b8 0
.b32 185
.b8 6
.b8 136
.b8 1
.b8 2
.b8 35
.b8 0
.b8 7
.b8 121
.b8 0
.b32 185
.b8 6
.b8 136
.b8 1
.b8 2
.b8 35
.b8 4
.b8 7
.b8 122
.b8 0
.b32 185
.b8 6
.b8 136
.b8 1
.b8 2
.b8 35
.b8 8
.b8 7
.b8 119
.b8 0
.b32 185
.b8 6
.b8 136
.b8 1
.b8 2
.b8 35
.b8 12
.b8 0
.b8 8
.b32 355
.b8 102,108,111,97,116,52
.b8 0
.b8 6
.b8 30
.b8 2
.b8 6
.b8 95,95,104,97,108,102,50
.b8 0
.b8 4
.b8 4
.b8 208
.b8 19
.b8 7
.b8 120
.b8 0
.b32 274
.b8 4
.b8 212
.b8 19
.b8 2
.b8 35
.b8 0
.b8 7
.b8 121
.b8 0
.b32 274
.b8 4
.b8 216
.b8 19
.b8 2
.b8 35
.b8 2
.b8 0
.b8 6
.b8 102,108,111,97,116,50
.b8 0
.b8 8
.b8 6
.b8 124
.b8 1
.b8 7
.b8 120
.b8 0
.b32 185
.b8 6
.b8 124
.b8 1
.b8 2
.b8 35
.b8 0
.b8 7
.b8 121
.b8 0
.b32 185
.b8 6
.b8 124
.b8 1
.b8 2
.b8 35
.b8 4
.b8 0
.b8 8
.b32 475
.b8 102,108,111,97,116,50
.b8 0
.b8 6
.b8 28
.b8 2
.b8 9
.b8 73,110,110,101,114
.b8 0
.b8 32
.b8 1
.b8 10
.b8 10
.b8 116,97,103
.b8 0
.b32 571
.b8 1
.b8 11
.b8 2
.b8 35
.b8 0
.b8 10
.b8 118,97,108,117,101,115
.b8 0
.b32 579
.b8 1
.b8 12
.b8 2
.b8 35
.b8 8
.b8 0
.b8 5
.b8 99,104,97,114
.b8 0
.b8 6
.b8 1
.b8 11
.b32 591
.b8 12
.b32 601
.b8 3
.b8 0
.b8 5
.b8 100,111,117,98,108,101
.b8 0
.b8 4
.b8 8
.b8 13
.b8 95,95,65,82,82,65,89,95,83,73,90,69,95,84,89,80,69,95,95
.b8 0
.b8 8
.b8 7
.b8 14
.b8 66,105,116,115
.b8 0
.b8 4
.b8 1
.b8 21
.b8 10
.b8 102
.b8 0
.b32 185
.b8 1
.b8 22
.b8 2
.b8 35
.b8 0
.b8 10
.b8 117
.b8 0
.b32 658
.b8 1
.b8 23
.b8 2
.b8 35
.b8 0
.b8 0
.b8 5
.b8 117,110,115,105,103,110,101,100,32,105,110,116
.b8 0
.b8 7
.b8 4
.b8 9
.b8 80,97,114,97,109,115
.b8 0
.b8 144
.b8 1
.b8 25
.b8 10
.b8 110
.b8 0
.b32 878
.b8 1
.b8 26
.b8 2
.b8 35
.b8 0
.b8 10
.b8 115,99,97,108,101
.b8 0
.b32 185
.b8 1
.b8 27
.b8 2
.b8 35
.b8 4
.b8 10
.b8 105,110,110,101,114
.b8 0
.b32 885
.b8 1
.b8 28
.b8 2
.b8 35
.b8 8
.b8 10
.b8 100,97,116,97
.b8 0
.b32 897
.b8 1
.b8 29
.b8 2
.b8 35
.b8 72
.b8 15
.b8 102,108,97,103,115
.b8 0
.b32 658
.b8 1
.b8 30
.b8 4
.b8 3
.b8 29
.b8 2
.b8 35
.b8 80
.b8 15
.b8 109,111,114,101
.b8 0
.b32 658
.b8 1
.b8 31
.b8 4
.b8 5
.b8 24
.b8 2
.b8 35
.b8 80
.b8 10
.b8 109,97,116,114,105,120
.b8 0
.b32 911
.b8 1
.b8 32
.b8 2
.b8 35
.b8 84
.b8 10
.b8 98,105,116,115
.b8 0
.b32 624
.b8 1
.b8 33
.b8 2
.b8 35
.b8 108
.b8 10
.b8 118,101,99,116,111,114
.b8 0
.b32 420
.b8 1
.b8 34
.b8 2
.b8 35
.b8 112
.b8 10
.b8 104,97,108,102
.b8 0
.b32 274
.b8 1
.b8 35
.b8 3
.b8 35
.b8 128,1
.b8 10
.b8 111,110
.b8 0
.b32 929
.b8 1
.b8 36
.b8 3
.b8 35
.b8 130,1
.b8 10
.b8 99,111,108,111,114
.b8 0
.b32 95
.b8 1
.b8 37
.b8 3
.b8 35
.b8 132,1
.b8 0
.b8 5
.b8 105,110,116
.b8 0
.b8 5
.b8 4
.b8 11
.b32 529
.b8 12
.b32 601
.b8 2
.b8 0
.b8 16
.b32 906
.b32 12
.b8 17
.b32 185
.b8 11
.b32 878
.b8 12
.b32 601
.b8 2
.b8 12
.b32 601
.b8 3
.b8 0
.b8 5
.b8 98,111,111,108
.b8 0
.b8 2
.b8 1
.b8 9
.b8 65,108,105,103,110,101,100
.b8 0
.b8 16
.b8 1
.b8 39
.b8 10
.b8 120
.b8 0
.b32 185
.b8 1
.b8 40
.b8 2
.b8 35
.b8 0
.b8 10
.b8 121
.b8 0
.b32 185
.b8 1
.b8 40
.b8 2
.b8 35
.b8 4
.b8 10
.b8 122
.b8 0
.b32 185
.b8 1
.b8 40
.b8 2
.b8 35
.b8 8
.b8 0
.b8 9
.b8 80,97,99,107,101,100
.b8 0
.b8 5
.b8 1
.b8 42
.b8 10
.b8 99
.b8 0
.b32 571
.b8 1
.b8 43
.b8 2
.b8 35
.b8 0
.b8 10
.b8 105
.b8 0
.b32 878
.b8 1
.b8 44
.b8 2
.b8 35
.b8 1
.b8 0
.b8 9
.b8 66,97,115,101
.b8 0
.b8 8
.b8 1
.b8 14
.b8 10
.b8 105,100
.b8 0
.b32 878
.b8 1
.b8 15
.b8 2
.b8 35
.b8 0
.b8 10
.b8 114,101,115,116
.b8 0
.b32 1060
.b8 1
.b8 16
.b8 2
.b8 35
.b8 4
.b8 0
.b8 5
.b8 115,104,111,114,116
.b8 0
.b8 5
.b8 2
.b8 9
.b8 68,101,114,105,118,101,100
.b8 0
.b8 16
.b8 1
.b8 18
.b8 18
.b8 95,95,98,95,52,66,97,115,101
.b8 0
.b32 1022
.b8 2
.b8 35
.b8 0
.b8 10
.b8 119,105,100,101
.b8 0
.b32 252
.b8 1
.b8 19
.b8 2
.b8 35
.b8 8
.b8 0
.b8 6
.b8 102,108,111,97,116,51
.b8 0
.b8 12
.b8 6
.b8 129
.b8 1
.b8 7
.b8 120
.b8 0
.b32 185
.b8 6
.b8 131
.b8 1
.b8 2
.b8 35
.b8 0
.b8 7
.b8 121
.b8 0
.b32 185
.b8 6
.b8 131
.b8 1
.b8 2
.b8 35
.b8 4
.b8 7
.b8 122
.b8 0
.b32 185
.b8 6
.b8 131
.b8 1
.b8 2
.b8 35
.b8 8
.b8 0
.b8 8
.b32 1115
.b8 102,108,111,97,116,51
.b8 0
.b8 6
.b8 29
.b8 2
.b8 9
.b8 80,97,114,116,105,99,108,101
.b8 0
.b8 24
.b8 1
.b8 46
.b8 10
.b8 112,111,115,105,116,105,111,110
.b8 0
.b32 1167
.b8 1
.b8 47
.b8 2
.b8 35
.b8 0
.b8 10
.b8 118,101,108,111,99,105,116,121
.b8 0
.b32 1167
.b8 1
.b8 48
.b8 2
.b8 35
.b8 12
.b8 0
.b8 9
.b8 80,111,105,110,116
.b8 0
.b8 8
.b8 1
.b8 51
.b8 10
.b8 120
.b8 0
.b32 185
.b8 1
.b8 52
.b8 2
.b8 35
.b8 0
.b8 10
.b8 105,100
.b8 0
.b32 878
.b8 1
.b8 53
.b8 2
.b8 35
.b8 4
.b8 0
.b8 9
.b8 80,111,105,110,116
.b8 0
.b8 8
.b8 1
.b8 56
.b8 10
.b8 120
.b8 0
.b32 591
.b8 1
.b8 57
.b8 2
.b8 35
.b8 0
.b8 0
.b8 19
.b64 $L__func_begin0
.b64 $L__func_end0
.b8 1
.b8 156
.b8 110,117,109,98,101,114,115
.b8 0
.b8 110,117,109,98,101,114,115
.b8 0
.b8 1
.b8 60
.b32 2798
.b8 1
.b8 20
.b8 5
.b8 144
.b8 180
.b8 228
.b8 149
.b8 1
.b8 2
.b8 110
.b8 0
.b8 1
.b8 60
.b32 878
.b8 20
.b8 5
.b8 144
.b8 181
.b8 228
.b8 149
.b8 1
.b8 2
.b8 117
.b8 0
.b8 1
.b8 60
.b32 658
.b8 20
.b8 5
.b8 144
.b8 179
.b8 204
.b8 149
.b8 1
.b8 2
.b8 97
.b8 0
.b8 1
.b8 60
.b32 185
.b8 20
.b8 6
.b8 144
.b8 178
.b8 200
.b8 153
.b8 171
.b8 2
.b8 2
.b8 100
.b8 0
.b8 1
.b8 60
.b32 591
.b8 20
.b8 6
.b8 144
.b8 181
.b8 200
.b8 201
.b8 171
.b8 2
.b8 2
.b8 108
.b8 0
.b8 1
.b8 60
.b32 2804
.b8 20
.b8 6
.b8 144
.b8 182
.b8 200
.b8 201
.b8 171
.b8 2
.b8 2
.b8 117,108
.b8 0
.b8 1
.b8 60
.b32 252
.b8 20
.b8 6
.b8 144
.b8 183
.b8 230
.b8 201
.b8 171
.b8 2
.b8 2
.b8 102,108,97,103
.b8 0
.b8 1
.b8 61
.b32 929
.b8 20
.b8 6
.b8 144
.b8 185
.b8 230
.b8 201
.b8 171
.b8 2
.b8 2
.b8 99
.b8 0
.b8 1
.b8 61
.b32 571
.b8 20
.b8 7
.b8 144
.b8 177
.b8 226
.b8 204
.b8 147
.b8 215
.b8 4
.b8 2
.b8 117,99
.b8 0
.b8 1
.b8 61
.b32 2817
.b8 20
.b8 7
.b8 144
.b8 178
.b8 226
.b8 204
.b8 147
.b8 215
.b8 4
.b8 2
.b8 115
.b8 0
.b8 1
.b8 61
.b32 1060
.b8 20
.b8 5
.b8 144
.b8 182
.b8 228
.b8 149
.b8 1
.b8 2
.b8 99,111,108,111,114
.b8 0
.b8 1
.b8 61
.b32 95
.b8 20
.b8 7
.b8 144
.b8 180
.b8 226
.b8 204
.b8 147
.b8 215
.b8 4
.b8 2
.b8 108,101,118,101,108
.b8 0
.b8 1
.b8 61
.b32 127
.b8 20
.b8 5
.b8 144
.b8 180
.b8 204
.b8 149
.b8 1
.b8 2
.b8 114
.b8 0
.b8 1
.b8 61
.b32 173
.b8 20
.b8 6
.b8 144
.b8 183
.b8 200
.b8 201
.b8 171
.b8 2
.b8 2
.b8 115,105,122,101
.b8 0
.b8 1
.b8 62
.b32 194
.b8 20
.b8 6
.b8 144
.b8 184
.b8 200
.b8 201
.b8 171
.b8 2
.b8 2
.b8 116,101,120,116,117,114,101
.b8 0
.b8 1
.b8 62
.b32 225
.b8 0
.b8 19
.b64 $L__func_begin1
.b64 $L__func_end1
.b8 1
.b8 156
.b8 112,111,105,110,116,101,114,115
.b8 0
.b8 112,111,105,110,116,101,114,115
.b8 0
.b8 1
.b8 64
.b32 2798
.b8 1
.b8 20
.b8 7
.b8 144
.b8 177
.b8 228
.b8 144
.b8 147
.b8 215
.b8 4
.b8 2
.b8 120
.b8 0
.b8 1
.b8 64
.b32 897
.b8 20
.b8 7
.b8 144
.b8 178
.b8 228
.b8 144
.b8 147
.b8 215
.b8 4
.b8 2
.b8 121
.b8 0
.b8 1
.b8 64
.b32 2884
.b8 20
.b8 7
.b8 144
.b8 179
.b8 228
.b8 144
.b8 147
.b8 215
.b8 4
.b8 2
.b8 105
.b8 0
.b8 1
.b8 64
.b32 2948
.b8 20
.b8 7
.b8 144
.b8 180
.b8 228
.b8 144
.b8 147
.b8 215
.b8 4
.b8 2
.b8 100
.b8 0
.b8 1
.b8 64
.b32 2967
.b8 20
.b8 7
.b8 144
.b8 181
.b8 228
.b8 144
.b8 147
.b8 215
.b8 4
.b8 2
.b8 99
.b8 0
.b8 1
.b8 64
.b32 2976
.b8 20
.b8 7
.b8 144
.b8 182
.b8 228
.b8 144
.b8 147
.b8 215
.b8 4
.b8 2
.b8 117,99
.b8 0
.b8 1
.b8 65
.b32 2985
.b8 20
.b8 7
.b8 144
.b8 183
.b8 228
.b8 144
.b8 147
.b8 215
.b8 4
.b8 2
.b8 102,108,97,103,115
.b8 0
.b8 1
.b8 65
.b32 2994
.b8 21
.b8 6
.b8 11
.b8 3
.b64 __local_depot1
.b8 35
.b8 0
.b8 104
.b8 0
.b8 1
.b8 65
.b32 2834
.b8 21
.b8 6
.b8 11
.b8 3
.b64 __local_depot1
.b8 35
.b8 8
.b8 98
.b8 0
.b8 1
.b8 65
.b32 2843
.b8 20
.b8 7
.b8 144
.b8 176
.b8 230
.b8 144
.b8 147
.b8 215
.b8 4
.b8 2
.b8 108
.b8 0
.b8 1
.b8 65
.b32 3003
.b8 21
.b8 6
.b8 11
.b8 3
.b64 __local_depot1
.b8 35
.b8 16
.b8 118
.b8 0
.b8 1
.b8 66
.b32 2857
.b8 21
.b8 6
.b8 11
.b8 3
.b64 __local_depot1
.b8 35
.b8 24
.b8 104,50
.b8 0
.b8 1
.b8 66
.b32 2866
.b8 20
.b8 7
.b8 144
.b8 179
.b8 230
.b8 144
.b8 147
.b8 215
.b8 4
.b8 2
.b8 97,110,121
.b8 0
.b8 1
.b8 66
.b32 3012
.b8 20
.b8 7
.b8 144
.b8 180
.b8 230
.b8 144
.b8 147
.b8 215
.b8 4
.b8 2
.b8 97,110,121,95,99,111,110,115,116
.b8 0
.b8 1
.b8 66
.b32 3021
.b8 21
.b8 6
.b8 11
.b8 3
.b64 __local_depot1
.b8 35
.b8 32
.b8 114,111,119,115
.b8 0
.b8 1
.b8 66
.b32 2875
.b8 21
.b8 6
.b8 11
.b8 3
.b64 __local_depot1
.b8 35
.b8 40
.b8 116,97,98,108,101
.b8 0
.b8 1
.b8 67
.b32 2893
.b8 21
.b8 6
.b8 11
.b8 3
.b64 __local_depot1
.b8 35
.b8 48
.b8 114,101,102,101,114,101,110,99,101
.b8 0
.b8 1
.b8 67
.b32 2914
.b8 20
.b8 7
.b8 144
.b8 184
.b8 230
.b8 144
.b8 147
.b8 215
.b8 4
.b8 2
.b8 115
.b8 0
.b8 1
.b8 67
.b32 3035
.b8 20
.b8 7
.b8 144
.b8 185
.b8 230
.b8 144
.b8 147
.b8 215
.b8 4
.b8 2
.b8 99,111,108,111,114,115
.b8 0
.b8 1
.b8 67
.b32 3049
.b8 21
.b8 6
.b8 11
.b8 3
.b64 __local_depot1
.b8 35
.b8 56
.b8 102,117,110,99,116,105,111,110
.b8 0
.b8 1
.b8 68
.b32 2928
.b8 0
.b8 19
.b64 $L__func_begin2
.b64 $L__func_end2
.b8 1
.b8 156
.b8 115,116,114,117,99,116,115
.b8 0
.b8 115,116,114,117,99,116,115
.b8 0
.b8 1
.b8 70
.b32 2798
.b8 1
.b8 21
.b8 6
.b8 11
.b8 3
.b64 __local_depot2
.b8 35
.b8 0
.b8 112,97,114,97,109,115
.b8 0
.b8 1
.b8 70
.b32 674
.b8 20
.b8 9
.b8 3
.b64 structs_param_1
.b8 7
.b8 97,114,114,97,121
.b8 0
.b8 1
.b8 70
.b32 3063
.b8 21
.b8 6
.b8 12
.b8 3
.b64 __local_depot2
.b8 35
.b8 144,1
.b8 97,108,105,103,110,101,100
.b8 0
.b8 1
.b8 70
.b32 937
.b8 21
.b8 6
.b8 12
.b8 3
.b64 __local_depot2
.b8 35
.b8 160,1
.b8 112,97,99,107,101,100
.b8 0
.b8 1
.b8 70
.b32 986
.b8 21
.b8 6
.b8 12
.b8 3
.b64 __local_depot2
.b8 35
.b8 168,1
.b8 100,101,114,105,118,101,100
.b8 0
.b8 1
.b8 70
.b32 1069
.b8 20
.b8 9
.b8 3
.b64 structs_param_5
.b8 7
.b8 112,97,114,116,105,99,108,101,115
.b8 0
.b8 1
.b8 71
.b32 3077
.b8 21
.b8 6
.b8 12
.b8 3
.b64 __local_depot2
.b8 35
.b8 184,1
.b8 112,111,105,110,116
.b8 0
.b8 1
.b8 71
.b32 1234
.b8 20
.b8 9
.b8 3
.b64 structs_param_7
.b8 7
.b8 112,111,105,110,116,115
.b8 0
.b8 1
.b8 71
.b32 3091
.b8 21
.b8 6
.b8 12
.b8 3
.b64 __local_depot2
.b8 35
.b8 192,1
.b8 118,101,99,116,111,114
.b8 0
.b8 1
.b8 71
.b32 420
.b8 21
.b8 6
.b8 12
.b8 3
.b64 __local_depot2
.b8 35
.b8 208,1
.b8 104,97,108,102
.b8 0
.b8 1
.b8 72
.b32 274
.b8 21
.b8 6
.b8 12
.b8 3
.b64 __local_depot2
.b8 35
.b8 212,1
.b8 98,105,116,115
.b8 0
.b8 1
.b8 72
.b32 624
.b8 20
.b8 9
.b8 3
.b64 structs_param_11
.b8 7
.b8 99,111,110,115,116,97,110,116
.b8 0
.b8 1
.b8 72
.b32 3058
.b8 0
.b8 19
.b64 $L__func_begin3
.b64 $L__func_end3
.b8 1
.b8 156
.b8 119,111,114,100,115
.b8 0
.b8 119,111,114,100,115
.b8 0
.b8 1
.b8 76
.b32 2798
.b8 1
.b8 20
.b8 5
.b8 144
.b8 180
.b8 228
.b8 149
.b8 1
.b8 2
.b8 105,110
.b8 0
.b8 1
.b8 76
.b32 878
.b8 20
.b8 6
.b8 144
.b8 179
.b8 200
.b8 201
.b8 171
.b8 2
.b8 2
.b8 97,119,97,105,116
.b8 0
.b8 1
.b8 76
.b32 2884
.b8 22
.b8 5
.b8 144
.b8 181
.b8 228
.b8 149
.b8 1
.b8 2
.b32 878
.b8 22
.b8 6
.b8 144
.b8 180
.b8 200
.b8 201
.b8 171
.b8 2
.b8 2
.b32 2884
.b8 20
.b8 5
.b8 144
.b8 182
.b8 228
.b8 149
.b8 1
.b8 2
.b8 102,117,110,99,116,105,111,110,95
.b8 0
.b8 1
.b8 76
.b32 658
.b8 0
.b8 19
.b64 $L__func_begin4
.b64 $L__func_end4
.b8 1
.b8 156
.b8 95,90,53,115,99,97,108,101,73,102,76,105,51,69,69,118,80,84,95,83,48,95
.b8 0
.b8 115,99,97,108,101,60,102,108,111,97,116,44,51,62
.b8 0
.b8 1
.b8 79
.b32 2798
.b8 1
.b8 20
.b8 9
.b8 3
.b64 _Z5scaleIfLi3EEvPT_S0__param_0
.b8 7
.b8 120
.b8 0
.b8 1
.b8 79
.b32 2884
.b8 20
.b8 5
.b8 144
.b8 177
.b8 204
.b8 149
.b8 1
.b8 2
.b8 102,97,99,116,111,114
.b8 0
.b8 1
.b8 79
.b32 185
.b8 0
.b8 19
.b64 $L__func_begin5
.b64 $L__func_end5
.b8 1
.b8 156
.b8 95,90,53,115,99,97,108,101,73,100,76,105,49,69,69,118,80,84,95,83,48,95
.b8 0
.b8 115,99,97,108,101,60,100,111,117,98,108,101,44,49,62
.b8 0
.b8 1
.b8 79
.b32 2798
.b8 1
.b8 20
.b8 9
.b8 3
.b64 _Z5scaleIdLi1EEvPT_S0__param_0
.b8 7
.b8 120
.b8 0
.b8 1
.b8 79
.b32 2967
.b8 20
.b8 6
.b8 144
.b8 177
.b8 200
.b8 153
.b8 171
.b8 2
.b8 2
.b8 102,97,99,116,111,114
.b8 0
.b8 1
.b8 79
.b32 591
.b8 0
.b8 23
.b8 118,111,105,100
.b8 0
.b8 5
.b8 108,111,110,103,32,108,111,110,103
.b8 0
.b8 5
.b8 8
.b8 5
.b8 117,110,115,105,103,110,101,100,32,99,104,97,114
.b8 0
.b8 8
.b8 1
.b8 16
.b32 274
.b32 12
.b8 16
.b32 2852
.b32 12
.b8 17
.b32 320
.b8 16
.b32 420
.b32 12
.b8 16
.b32 435
.b32 12
.b8 16
.b32 2884
.b32 12
.b8 16
.b32 185
.b32 12
.b8 16
.b32 2902
.b32 12
.b8 11
.b32 878
.b8 12
.b32 601
.b8 4
.b8 0
.b8 24
.b32 2923
.b32 12
.b8 17
.b32 514
.b8 16
.b32 2937
.b32 12
.b8 25
.b32 2798
.b8 26
.b32 878
.b8 0
.b8 17
.b32 2953
.b8 16
.b32 2962
.b32 12
.b8 17
.b32 878
.b8 16
.b32 591
.b32 12
.b8 16
.b32 571
.b32 12
.b8 16
.b32 2817
.b32 12
.b8 16
.b32 929
.b32 12
.b8 16
.b32 2804
.b32 12
.b8 16
.b32 2798
.b32 12
.b8 16
.b32 3030
.b32 12
.b8 17
.b32 2798
.b8 16
.b32 3044
.b32 12
.b8 27
.b32 1060
.b8 16
.b32 95
.b32 12
.b8 17
.b32 529
.b8 16
.b32 3072
.b32 12
.b8 17
.b32 674
.b8 16
.b32 3086
.b32 12
.b8 17
.b32 1182
.b8 16
.b32 1270
.b32 12
.b8 0
	}
	.section	.debug_macinfo
	{
.b8 0

	}
` as Ptx<Kernels>;
