/**
 * Loads and stores of shadows, for the check `initialization`.
 *
 * @module
 */
import { shadowOffset } from "../../abi/addresses.ts";
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import type { ScalarType } from "../../../ptx/instructions/scalar_types.ts";
import type { CodeWriter } from "../webassembly/code_writer.ts";
import type { MemoryOpName } from "../webassembly/opcodes.ts";
import { shadowType } from "./register_shadows.ts";

/** The registers of a load or store, whose values are adjacent in memory, and the location of these values. */
export interface MovedElements {
  readonly elements: readonly ResolvedOperand[];
  /** The type of each value in memory. */
  readonly type: ScalarType;
  /** The local that holds the offset in linear memory. */
  readonly location: number;
  /** The distance in bytes from the offset in `location` to the first value. Default: 0. */
  readonly distance?: number;
}

/** Emits code that loads the shadows of the registers that a load sets. */
export function loadShadows(e: FunctionEmitter, { elements, type, location, distance = 0 }: MovedElements): void {
  const { shadows, code } = e;
  if (shadows === undefined) return;
  const bytes = type.bits / 8;
  elements.forEach((element, index) => {
    shadows.assign(element, type, () => {
      code.get(location).memory(shadowLoad(type), shadowOffset + distance + index * bytes);
    });
  });
  if (!elements.some((element) => shadows.mayBeUninitialized(element))) return;
  shadows.pushAny(elements);
  callWith(e, "loadUninitialized", { location, bytes: bytes * elements.length });
}

/** Emits code that reports a load of 16 bytes, which lanes read for each other, if any of the bits is uninitialized. */
export function reportLoadOfRow(e: FunctionEmitter, location: number): void {
  if (e.shadows === undefined) return;
  e.code.get(location).v128Load(shadowOffset).simd("v128AnyTrue");
  callWith(e, "loadUninitialized", { location, bytes: 16 });
}

/** Emits code that stores the shadows of the values that a store writes. */
export function storeShadows(e: FunctionEmitter, { elements, type, location, distance = 0 }: MovedElements): void {
  const { shadows, code } = e;
  if (shadows === undefined) return;
  const bytes = type.bits / 8;
  elements.forEach((element, index) => {
    code.get(location);
    shadows.push(element, type);
    code.memory(shadowStore(type), shadowOffset + distance + index * bytes);
  });
  if (!elements.some((element) => shadows.mayBeUninitialized(element))) return;
  shadows.pushAny(elements);
  callWith(e, "storeUninitialized", { location, bytes: bytes * elements.length });
}

/**
 * Emits code that pops a flag and, if it is 1, calls a function with the offset and the encoded source location of an
 * access.
 */
function callWith(
  e: FunctionEmitter,
  name: "loadUninitialized" | "storeUninitialized",
  { location, bytes }: { location: number; bytes: number },
): void {
  e.code.ifUnlikely().get(location);
  e.pushPlace({ operation: name === "loadUninitialized" ? "read" : "write", bytes });
  e.callHelper(name).end();
}

/** Emits code that pushes the shadow of a value in memory. */
export function pushMemoryShadow(code: CodeWriter, location: number, { type, distance = 0 }: {
  readonly type: ScalarType;
  readonly distance?: number;
}): void {
  code.get(location).memory(shadowLoad(type), shadowOffset + distance);
}

/**
 * Returns the WebAssembly instruction that loads the shadow of a value. The shadow is sign- or zero-extended like the
 * value.
 */
export function shadowLoad({ bits, kind }: ScalarType): MemoryOpName {
  if (bits === 8) return kind === "signed" ? "i32Load8S" : "i32Load8U";
  if (bits === 16) return kind === "signed" ? "i32Load16S" : "i32Load16U";
  return bits === 64 ? "i64Load" : "i32Load";
}

/** Returns the WebAssembly instruction that stores the shadow of a value. */
export function shadowStore({ bits }: ScalarType): MemoryOpName {
  return bits === 8 ? "i32Store8" : bits === 16 ? "i32Store16" : bits === 64 ? "i64Store" : "i32Store";
}

/**
 * Emits code that reports an atomic operation if it reads uninitialized memory or has an uninitialized operand.
 * Afterward, the accessed memory counts as initialized.
 */
export function atomicShadows(
  e: FunctionEmitter,
  { elements, type, location, distance = 0, others, readsMemory }: MovedElements & {
    readonly others: readonly (ResolvedOperand | undefined)[];
    readonly readsMemory: boolean;
  },
): void {
  const { shadows, code } = e;
  if (shadows === undefined) return;
  for (const operand of [...elements, ...others]) shadows.require(operand, "atomic operand");
  const own = shadowType(type);
  const bytes = type.bits / 8;
  elements.forEach((_, index) => {
    const at = { type: own, distance: distance + index * bytes };
    if (readsMemory) {
      pushMemoryShadow(code, location, at);
      if (own.value === "i64") code.i64(0n).ops("i64Ne");
      code.ifUnlikely().get(location);
      e.pushPlace({ operation: "atomic", bytes });
      e.callHelper("loadUninitialized").i32(1);
      shadows.reportIf("atomic memory");
      code.end();
    }
    code.get(location);
    if (own.value === "i64") code.i64(0n);
    else code.i32(0);
    code.memory(shadowStore(own), shadowOffset + at.distance);
  });
}

/**
 * Emits code that pops an offset in linear memory, and marks memory as uninitialized, beginning `distance` bytes after
 * that offset. `pushByteLength` pushes the number of bytes to mark.
 */
export function fillShadow(code: CodeWriter, distance: number, pushByteLength: () => unknown): void {
  code.i32(shadowOffset + distance | 0).ops("i32Add").i32(0xff);
  pushByteLength();
  code.memoryFill();
}
