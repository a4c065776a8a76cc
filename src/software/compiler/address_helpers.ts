/**
 * Functions by which compiled kernels check and find addresses.
 *
 * @module
 */
import {
  addressBase,
  faultKind,
  limitGranuleBytes,
  localAddressBase,
  sharedAddressBase,
  sharedWindow,
} from "./addresses.ts";
import type { HelperFunction } from "./helper_function.ts";
import { hostIndex } from "./host_functions.ts";
import { CodeWriter } from "./wasm_encoder.ts";

/** What they are called. */
export type AddressHelper = "faultGlobal" | "faultBounded" | "resolveGeneric";

/** By name. */
export const addressHelpers: Readonly<Record<AddressHelper, () => HelperFunction>> = {
  faultGlobal,
  faultBounded,
  resolveGeneric,
};

/**
 * Reports what is wrong with an access to global memory that is not legal: where it were legal but for its alignment,
 * that. It does not return.
 *
 * Takes the address, the access's bytes, a power of two, its line, and where the limits begin.
 */
function faultGlobal(): HelperFunction {
  const [address, bytes, line, limits, aligned] = [0, 1, 2, 3, 4] as const;
  const code = new CodeWriter();
  pushAligned(code, { address, bytes });
  code.set(aligned);
  code.i32(faultKind.misalignedAddress).i32(faultKind.illegalAddress);
  code.get(address).i64(32n).ops("i64ShrU").i64(addressBase >> 32n).ops("i64Eq");
  pushIsWithinLimit(code, { offset: aligned, bytes, limits });
  code.ops("i32And", "select").get(address).get(line).call(hostIndex("fault")).ops("unreachable");
  return { type: { parameters: ["i64", "i32", "i32", "i32"], results: [] }, locals: ["i32"], code: code.finish() };
}

/**
 * Reports likewise what is wrong with an access to memory that begins at address 0. It does not return.
 *
 * Takes the address, the access's bytes, a power of two, its line, the memory's bytes, and whether it is shared memory.
 */
function faultBounded(): HelperFunction {
  const [address, bytes, line, size, isShared] = [0, 1, 2, 3, 4] as const;
  const code = new CodeWriter();
  code.i32(faultKind.outsideSharedWindow);
  code.i32(faultKind.misalignedAddress).i32(faultKind.illegalAddress);
  pushAligned(code, { address, bytes });
  code.ops("i64ExtendI32U").get(bytes).ops("i64ExtendI32U", "i64Add").get(size).ops("i64ExtendI32U", "i64LeU");
  code.get(address).i64(32n).ops("i64ShrU", "i64Eqz", "i32And", "select");
  code.get(address).ops("i32WrapI64");
  pushIsOutsideSharedWindow(code);
  code.get(isShared).ops("i32And", "select").get(address).get(line).call(hostIndex("fault")).ops("unreachable");
  return { type: { parameters: ["i64", "i32", "i32", "i32", "i32"], results: [] }, locals: [], code: code.finish() };
}

/** Takes a place in shared memory, and pushes whether no address of shared memory is of that. */
function pushIsOutsideSharedWindow(code: CodeWriter): void {
  code.i32(sharedWindow.reserved).ops("i32Add").i32(sharedWindow.byteLength).ops("i32GeU");
}

/** Pushes the low half of an address, rounded down to a multiple of the access's bytes. */
function pushAligned(code: CodeWriter, { address, bytes }: { address: number; bytes: number }): void {
  code.get(address).ops("i32WrapI64").i32(0).get(bytes).ops("i32Sub", "i32And");
}

/** Pushes whether an aligned access is within the limit of its granule. */
function pushIsWithinLimit(
  code: CodeWriter,
  { offset, bytes, limits }: { offset: number; bytes: number; limits: number },
): void {
  code.get(offset).i32(limitGranuleBytes - 1).ops("i32And").get(bytes).ops("i32Add");
  code.get(limits).get(offset).i32(9).ops("i32ShrU").i32(1).ops("i32Shl", "i32Add").memory("i32Load16U");
  code.ops("i32LeU");
}

/**
 * Finds where in the memory a generic address lies, by its high half, and faults where the access is not legal.
 *
 * Takes the address, the access's bytes, a power of two, its line, where the shared memory begins and its bytes, the same
 * of the local memory, and where the limits begin. What would be legal but for its alignment faults as misaligned.
 */
function resolveGeneric(): HelperFunction {
  const [address, bytes, line, shared, sharedBytes, local, localBytes, limits] = [0, 1, 2, 3, 4, 5, 6, 7] as const;
  const [offset, aligned] = [8, 9] as const;
  const code = new CodeWriter();
  const isIn = (base: bigint) => code.get(address).i64(32n).ops("i64ShrU").i64(base >> 32n).ops("i64Eq");
  const fault = (kind: number) => code.i32(kind).get(address).get(line).call(hostIndex("fault")).ops("unreachable");
  const checkAlignment = () => {
    code.get(offset).get(aligned).ops("i32Ne").if();
    fault(faultKind.misalignedAddress).end();
  };
  code.get(address).ops("i32WrapI64").set(offset);
  pushAligned(code, { address, bytes });
  code.set(aligned);
  isIn(addressBase).if();
  pushIsWithinLimit(code, { offset: aligned, bytes, limits });
  code.if();
  checkAlignment();
  code.get(offset).ops("return").end().end();
  for (
    const [base, begin, size] of [[sharedAddressBase, shared, sharedBytes], [
      localAddressBase,
      local,
      localBytes,
    ]] as const
  ) {
    isIn(base).if();
    code.get(aligned).ops("i64ExtendI32U").get(bytes).ops("i64ExtendI32U", "i64Add");
    code.get(size).ops("i64ExtendI32U", "i64LeU").if();
    checkAlignment();
    code.get(begin).get(offset).ops("i32Add", "return").end().end();
  }
  isIn(sharedAddressBase).get(offset);
  pushIsOutsideSharedWindow(code);
  code.ops("i32And").if();
  fault(faultKind.outsideSharedWindow).end();
  fault(faultKind.illegalAddress);
  return {
    type: { parameters: ["i64", "i32", "i32", "i32", "i32", "i32", "i32", "i32"], results: ["i32"] },
    locals: ["i32", "i32"],
    code: code.finish(),
  };
}
