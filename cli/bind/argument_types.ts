/**
 * Determines the TypeScript types of the arguments of launches.
 *
 * @module
 */
import { type CType, type StructType, withoutNames } from "./dwarf/types.ts";
import type { BoundParameter } from "./kernels.ts";
import { arraysOf } from "./scalars.ts";

/**
 * Returns the TypeScript type of the argument for a parameter, such as `Pointer<Float32Array>` for a `float*`.
 *
 * @param constantFor returns the name of the generated constant that describes a struct, or undefined if there is none
 */
export function argumentType(
  { ptx, type }: BoundParameter,
  constantFor: (type: StructType) => string | undefined,
): string {
  const plain = type === undefined ? undefined : withoutNames(type);
  if (plain?.kind === "pointer") return pointerType(plain.target(), constantFor);
  if (typeof ptx.type === "object") return aggregateType(plain, constantFor);
  if (ptx.isPointer) return "Pointer";
  if (ptx.byteLength === 8 && ptx.type !== "f64") {
    return plain === undefined ? "Pointer | number | bigint" : "number | bigint";
  }
  return plain?.kind === "scalar" && plain.encoding === "boolean" ? "boolean | number" : "number";
}

function pointerType(target: CType, constantFor: (type: StructType) => string | undefined): string {
  const plain = withoutNames(target);
  // The argument for a function pointer is an address as a `bigint`, because no buffer contains device code.
  if (plain.kind === "function") return "bigint";
  if (plain.kind === "void") return "Pointer";
  const arrays = arraysOf(plain);
  // Accept a `Uint8Array` for structs, because `Struct.encode` returns one.
  if (plain.kind === "struct" && (arrays.length === 0 || constantFor(plain) !== undefined)) arrays.push("Uint8Array");
  return arrays.length === 0 ? "Pointer" : `Pointer<${arrays.join(" | ")}>`;
}

function aggregateType(plain: CType | undefined, constantFor: (type: StructType) => string | undefined): string {
  if (plain === undefined) return "ArrayBufferView";
  const constant = plain.kind === "struct" ? constantFor(plain) : undefined;
  if (constant !== undefined) return `StructArgument<typeof ${constant}.fields>`;
  // Pass any other aggregate as a typed array that contains its bytes. The launch checks the array's size.
  const arrays = arraysOf(plain);
  return arrays.length === 0 ? "ArrayBufferView" : arrays.join(" | ");
}
