/**
 * The code of strong loads and stores (`.volatile`, `.relaxed`, `.acquire`, `.release` and `.mmio`), and the locks of
 * atomic accesses to 128 bits. PTX ISA, chapter 8.
 *
 * Other threads and other processes may access the memory at the same time, so strong accesses are atomic instructions
 * of WebAssembly. Plain loads would not do: engines assume that no other thread changes the memory, merge loads of the
 * same address, and hoist them out of loops. Atomic instructions are sequentially consistent, which is stronger than any
 * memory order of PTX requires. They trap if the address is misaligned, so its alignment must have been checked. Each
 * element of a vector is accessed by an atomic instruction of its own; PTX requires no more.
 *
 * @module
 */
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { ResolvedAddress } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { ScalarType } from "../../../../ptx/instructions/scalar_types.ts";
import { wideLocks } from "../../../abi/addresses.ts";
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

/**
 * Emits code that acquires the lock of an address, executes the code that `access` emits, and releases the lock. This
 * makes accesses to 128 bits atomic, for which WebAssembly has no instructions.
 *
 * The code that `access` emits must not loop, call a function or fault, because kernels are stopped only where they do.
 * A thread that holds a lock therefore always releases it after a few instructions, and a thread that waits for the lock
 * spins.
 *
 * The locks are in linear memory, so the access is atomic among all kernels of the process, also those of other devices.
 * Other processes that share the accessed memory have other locks, and the host has none: they may see one half of a
 * value change before the other. Each half is accessed by atomic instructions.
 *
 * @param location the local with the offset of the 128 bits in linear memory
 */
export function whileLocked(e: FunctionEmitter, location: number, access: () => void): void {
  const { code } = e;
  const { begin, count, strideShift } = wideLocks;
  const lock = e.temporary("i32");
  // Addresses that are adjacent multiples of 16 have different locks.
  code.get(location).i32(strideShift - 4).ops("i32Shl").i32(count - 1 << strideShift).ops("i32And").set(lock);
  code.loop().get(lock).i32(0).i32(1).atomic("i32AtomicCompareExchange", begin).brIf(0).end();
  access();
  code.get(lock).i32(0).atomic("i32AtomicStore", begin);
}
