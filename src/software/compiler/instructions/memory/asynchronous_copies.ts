/**
 * `cp.async`: asynchronous copies from global to shared memory. PTX ISA, section 9.7.9.25.
 *
 * The copies are made at once, so waiting for them has no effect.
 *
 * @module
 */
import { addressOperand, pushLocation } from "./address_checks.ts";
import { addressBase, faultKind, shadowOffset } from "../../../abi/addresses.ts";
import { orderBits, orderCountShift } from "../../../abi/check_state.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Emit } from "../instruction_form.ts";
import { pushOrder } from "./memory_instructions.ts";
import { constantOf, repeatable, u32 } from "../integers/integer_instructions.ts";
import { typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import type { ResolvedAddress, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { CodeWriter } from "../../webassembly/code_writer.ts";
import type { MemoryOpName } from "../../webassembly/opcodes.ts";

/**
 * Emits code for `cp.async.ca` and `cp.async.cg`, which copy 4, 8 or 16 bytes. The trailing bytes may be filled with
 * zeros instead of being copied.
 */
export const copyAsynchronously: Emit = (e, i) => {
  const { code } = e;
  const [destination, source, size, given] = i.operands;
  const bytes = Number(constantOf(size) ?? 0n);
  const sizes = i.choices.get("cache") === "cg" ? [16] : [4, 8, 16];
  if (!sizes.includes(bytes)) e.fail(`it must copy ${sizes.join(", ").replace(/, (\d+)$/, " or $1")} bytes`);
  const to = e.temporary("i32"), from = e.temporary("i32");
  pushLocation(e, addressOperand(e, destination), {
    space: "shared",
    bytes,
    operation: "write",
    order: orderBits.asynchronous,
  });
  code.set(to);
  e.shadows?.require(given, "size");
  const copied = given === undefined ? undefined : copiedBytes(e, given, bytes);
  if (copied !== undefined) {
    fillWithZeros(e, { to, bytes });
    // If nothing is copied, the source address is not checked.
    copied().if();
  }
  const address = addressOperand(e, source);
  if (copied === undefined || given?.kind === "not" || isPredicate(given)) {
    pushLocation(e, address, { space: "global", bytes, operation: "read" });
  } else {
    pushLocationOfPart(e, address, { bytes, copied });
  }
  code.set(from);
  if (copied === undefined || given?.kind === "not" || isPredicate(given)) {
    copyWords(e, { to, from, bytes });
  } else {
    const index = e.temporary("i32");
    code.i32(0).set(index).loop().get(to).get(index).ops("i32Add");
    code.get(from).get(index).ops("i32Add").memory("i32Load8U").memory("i32Store8");
    if (e.shadows !== undefined) {
      code.get(to).get(index).ops("i32Add").get(from).get(index).ops("i32Add");
      code.memory("i32Load8U", shadowOffset).memory("i32Store8", shadowOffset);
    }
    code.get(index).i32(1).ops("i32Add").tee(index);
    copied().ops("i32LtU").brIf(0).end();
  }
  if (copied !== undefined) code.end();
};

/**
 * Emits code that pushes the offset in linear memory of a copy's source. Only the bytes that are copied must be
 * accessible, but the source must be aligned to the full size.
 */
function pushLocationOfPart(
  e: FunctionEmitter,
  address: ResolvedAddress,
  { bytes, copied }: { bytes: number; copied: () => CodeWriter },
): void {
  const { code } = e;
  const from = e.temporary("i32");
  copied().i32(bytes).ops("i32Eq").if("i32");
  pushLocation(e, address, { space: "global", bytes, operation: "read" });
  code.else();
  pushLocation(e, address, { space: "global", bytes: 1, alignment: bytes, operation: "read" });
  code.set(from);
  const pushAddress = () => code.get(from).ops("i64ExtendI32U").i64(addressBase).ops("i64Add");
  if (e.options.boundsChecks) {
    pushAddress();
    copied().i32(1).ops("i32Sub", "i64ExtendI32U", "i64Add");
    e.pushPlace({ operation: "read" });
    e.getFixed("bounds");
    e.callHelper("findRange").ops("drop", "drop");
  }
  code.get(from).end();
}

function isPredicate(operand: ResolvedOperand | undefined): boolean {
  return operand?.kind === "register" && operand.type.kind === "predicate";
}

/**
 * Returns a function that pushes the number of bytes to copy. More bytes than the copy has are a fault, unless they are
 * a multiple of them, as on an H200. If `given` is a predicate, which tells the instruction to
 * ignore the source, the function instead pushes whether anything is copied.
 */
function copiedBytes(e: FunctionEmitter, given: ResolvedOperand, bytes: number): () => CodeWriter {
  if (given.kind === "not" || isPredicate(given)) {
    return () => {
      e.push(given, typeNamed("pred"));
      return e.code.ops("i32Eqz");
    };
  }
  const local = e.temporary("i32");
  const size = repeatable(e, given, u32);
  const constant = constantOf(given);
  if (constant === undefined || constant > BigInt(bytes)) {
    size().i32(bytes).ops("i32GtU");
    size().i32(bytes - 1).ops("i32And").i32(0).ops("i32Ne", "i32And").ifUnlikely().i32(faultKind.copySize);
    size().ops("i64ExtendI32U");
    e.pushPlace();
    e.callHelper("fault").ops("unreachable").end();
  }
  size().i32(bytes);
  size().i32(bytes).ops("i32LtU", "select").set(local);
  return () => e.code.get(local);
}

function fillWithZeros({ code, shadows }: FunctionEmitter, { to, bytes }: { to: number; bytes: number }): void {
  for (const distance of shadows === undefined ? [0] : [0, shadowOffset]) {
    if (bytes === 4) code.get(to).i32(0).memory("i32Store", distance);
    else for (let at = 0; at < bytes; at += 8) code.get(to).i64(0n).memory("i64Store", distance + at);
  }
}

function copyWords(
  { code, shadows }: FunctionEmitter,
  { to, from, bytes }: { to: number; from: number; bytes: number },
): void {
  const [load, store]: readonly MemoryOpName[] = bytes === 4 ? ["i32Load", "i32Store"] : ["i64Load", "i64Store"];
  for (const distance of shadows === undefined ? [0] : [0, shadowOffset]) {
    for (let at = 0; at < bytes; at += 8) {
      code.get(to).get(from).memory(load!, distance + at).memory(store!, distance + at);
    }
  }
}

/** Emits code for `cp.async.commit_group`. */
export const commitCopies: Emit = (e) => pushOrder(e, orderBits.commit);

/**
 * Emits code for `cp.async.wait_group` and `cp.async.wait_all`. Every copy has already completed, so there is nothing
 * to wait for.
 */
export const awaitCopies: Emit = (e, i) => {
  const [count] = i.operands;
  const groups = count === undefined ? 0n : constantOf(count);
  if (groups === undefined) e.fail("the number of pending groups must be a literal");
  const mostGroups = 2 ** (30 - orderCountShift);
  pushOrder(e, orderBits.wait | Math.min(Number(groups), mostGroups) << orderCountShift);
};
