/**
 * The code of strong loads and stores (`.volatile`, `.relaxed`, `.acquire`, `.release` and `.mmio`). PTX ISA, chapter 8.
 *
 * Other threads and other processes may access the memory at the same time, so strong accesses are atomic instructions
 * of WebAssembly. Plain loads would not do: engines assume that no other thread changes the memory, merge loads of the
 * same address, and hoist them out of loops. Atomic instructions are sequentially consistent, which is stronger than any
 * memory order of PTX requires. They trap if the address is misaligned, so its alignment must have been checked. Each
 * element of a vector is accessed by an atomic instruction of its own; PTX requires no more.
 *
 * @module
 */
import type { ResolvedAddress } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { ScalarType } from "../../../../ptx/instructions/scalar_types.ts";
import type { CodeWriter } from "../../webassembly/code_writer.ts";
import type { AtomicOpName } from "../../webassembly/opcodes.ts";

/** Whether only one thread can access the memory at an address, so that plain loads and stores are atomic. */
export function isPrivate({ base }: ResolvedAddress): boolean {
  return base?.kind === "variable" && ["local", "param", "const"].includes(base.space);
}

/** Emits code that pops an offset in linear memory and pushes the value there, which is loaded atomically. */
export function loadAtomically(code: CodeWriter, { bits, kind, value }: ScalarType, offset: number): CodeWriter {
  if (bits === 8) code.atomic("i32AtomicLoad8U", offset);
  else if (bits === 16) code.atomic("i32AtomicLoad16U", offset);
  else code.atomic(bits === 64 ? "i64AtomicLoad" : "i32AtomicLoad", offset);
  if (kind === "signed" && bits < 32) code.ops(bits === 8 ? "i32Extend8S" : "i32Extend16S");
  if (value === "f32") code.ops("f32ReinterpretI32");
  else if (value === "f64") code.ops("f64ReinterpretI64");
  return code;
}

const stores: Readonly<Record<number, AtomicOpName>> = {
  8: "i32AtomicStore8",
  16: "i32AtomicStore16",
  32: "i32AtomicStore",
  64: "i64AtomicStore",
};

/** Emits code that pops an offset in linear memory and a value, and stores the value there atomically. */
export function storeAtomically(code: CodeWriter, { bits, value }: ScalarType, offset: number): CodeWriter {
  if (value === "f32") code.ops("i32ReinterpretF32");
  else if (value === "f64") code.ops("i64ReinterpretF64");
  return code.atomic(stores[bits]!, offset);
}
