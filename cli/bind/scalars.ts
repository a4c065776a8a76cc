/**
 * Maps scalar and vector types of C++ to types of PTX and to typed arrays of JavaScript.
 *
 * @module
 */
import { type BaseType, type CType, type EnumType, type StructType, withoutNames } from "./dwarf/types.ts";

/** Returns the name of a scalar type in PTX, such as `f32`. Undefined if PTX or `struct` has no such type. */
export function ptxTypeOf(type: CType): string | undefined {
  const plain = withoutNames(type);
  if (plain.kind === "pointer") return "u64";
  if (plain.kind === "struct") return halfType(plain);
  if (plain.kind !== "scalar" && plain.kind !== "enum") return undefined;
  const bits = 8 * plain.byteLength;
  const isFloat = plain.kind === "scalar" && plain.encoding === "float";
  if (!(isFloat ? [16, 32, 64] : [8, 16, 32, 64]).includes(bits)) return undefined;
  return `${isFloat ? "f" : isSigned(plain) ? "s" : "u"}${bits}`;
}

/**
 * Returns the PTX type for a CUDA struct that contains one 16-bit float. A bfloat16 is `u16`, because JavaScript has no
 * typed array for bfloat16.
 */
function halfType({ name, byteLength }: StructType): string | undefined {
  if (byteLength !== 2) return undefined;
  return name === "__half" ? "f16" : name === "__nv_bfloat16" ? "u16" : undefined;
}

function isSigned(type: BaseType | EnumType): boolean {
  return type.kind === "enum" ? type.values.some(({ value }) => value < 0) : type.encoding === "signed";
}

/** The name of the typed array for each PTX type. */
const arrays: Readonly<Record<string, string>> = {
  u8: "Uint8Array",
  s8: "Int8Array",
  u16: "Uint16Array",
  s16: "Int16Array",
  f16: "Float16Array",
  u32: "Uint32Array",
  s32: "Int32Array",
  f32: "Float32Array",
  f64: "Float64Array",
  u64: "BigUint64Array",
  s64: "BigInt64Array",
};

/**
 * Returns the names of the typed arrays that can hold an array of a C++ type. A struct of scalars of one type, such as
 * `float3`, counts as an array of that type. Returns an empty array if there is no such typed array.
 */
export function arraysOf(type: CType): string[] {
  const plain = withoutNames(type);
  const scalar = ptxTypeOf(plain) ?? soleScalarOf(plain);
  const array = scalar === undefined ? undefined : arrays[scalar];
  if (array === undefined) return [];
  // The type does not show whether a plain `char` is a number or a byte, or whether an enum's values are signed. So
  // accept both the signed and the unsigned typed array.
  if (plain.kind === "scalar" && plain.name === "char") return ["Int8Array", "Uint8Array"];
  if (plain.kind === "enum" && plain.byteLength === 4) return ["Int32Array", "Uint32Array"];
  return [array];
}

/** Returns the PTX type of all scalars in a struct or array. Undefined if they differ, or if there is padding. */
function soleScalarOf(type: CType): string | undefined {
  const scalars = new Set<string | undefined>();
  if (collect(type, scalars) === undefined || scalars.size !== 1) return undefined;
  const [scalar] = scalars;
  return scalar;
}

/**
 * Adds the PTX types of all scalars in `type` to `scalars`. Returns the size of `type` in bytes, or undefined if the
 * type contains pointers, unions, bit fields or padding.
 */
function collect(type: CType, scalars: Set<string | undefined>): number | undefined {
  const plain = withoutNames(type);
  const scalar = ptxTypeOf(plain);
  if (scalar !== undefined) {
    if (plain.kind === "pointer") return undefined;
    scalars.add(scalar);
    return Number(scalar.slice(1)) / 8;
  }
  if (plain.kind === "array") {
    const size = collect(plain.element, scalars);
    return size === undefined ? undefined : plain.lengths.reduce((product, length) => product * length, size);
  }
  if (plain.kind !== "struct" || plain.isUnion || plain.byteLength === 0) return undefined;
  let end = 0;
  for (const { type, offset, bits } of plain.members) {
    const size = collect(type, scalars);
    if (size === undefined || bits !== undefined || offset !== end) return undefined;
    end += size;
  }
  return end === plain.byteLength ? end : undefined;
}

/** Matches the names of CUDA's vector types, with the scalar, the count and the alignment suffix. */
const vectorPattern = /^(u?(?:char|short|int|long|longlong)|float|double)([1-4])(_16a|_32a)?$/;
/** The size in bytes of each scalar type that occurs in the names of vector types. */
const vectorSizes: Readonly<Record<string, number>> = {
  char: 1,
  short: 2,
  int: 4,
  float: 4,
  long: 8,
  longlong: 8,
  double: 8,
};

/** Returns the alignment in bytes of a CUDA vector type, such as 16 for `float4`. Undefined for any other struct. */
export function vectorAlignment({ name, byteLength }: StructType): number | undefined {
  if (name === "dim3") return 4;
  if ((name === "__half2" || name === "__nv_bfloat162") && byteLength === 4) return 4;
  const [, scalar, count, suffix] = vectorPattern.exec(name) ?? [];
  if (scalar === undefined) return undefined;
  const size = vectorSizes[scalar.replace(/^u/, "")]!;
  if (byteLength !== size * Number(count)) return undefined;
  if (count === "1" || count === "3") return size;
  return Math.min(byteLength, suffix === "_32a" ? 32 : 16);
}
