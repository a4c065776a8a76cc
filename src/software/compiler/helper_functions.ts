/**
 * Functions that the compiled kernels of a module call, beside those that they import.
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
import type { Helper } from "./function_emitter.ts";
import { CodeWriter, type FunctionDefinition, type FunctionType } from "./wasm_encoder.ts";

/** `device.fault`: the kind, the address, the line. It does not return. */
export const faultType: FunctionType = { parameters: ["i32", "i64", "i32"], results: [] };

const faultIndex = 0;

/** The index of each function, of which the imported one comes first. */
export const helperIndices: ReadonlyMap<Helper, number> = new Map([
  ["fault", faultIndex],
  ["faultGlobal", 1],
  ["faultBounded", 2],
  ["resolveGeneric", 3],
  ["fusedMultiplyAdd32", 4],
  ["propagateNaN64", 5],
  ["halfToSingle", 6],
  ["doubleToHalf", 7],
]);

/** The functions in the order of their indices. */
export function helperFunctions(): FunctionDefinition[] {
  return [
    faultGlobal(),
    faultBounded(),
    resolveGeneric(),
    fusedMultiplyAdd32(),
    propagateNaN64(),
    halfToSingle(),
    doubleToHalf(),
  ];
}

/**
 * Reports what is wrong with an access to global memory that is not legal: where it were legal but for its alignment,
 * that. It does not return.
 *
 * Takes the address, the access's bytes, a power of two, its line, and where the limits begin.
 */
function faultGlobal(): FunctionDefinition {
  const [address, bytes, line, limits, aligned] = [0, 1, 2, 3, 4] as const;
  const code = new CodeWriter();
  pushAligned(code, { address, bytes });
  code.set(aligned);
  code.i32(faultKind.misalignedAddress).i32(faultKind.illegalAddress);
  code.get(address).i64(32n).ops("i64ShrU").i64(addressBase >> 32n).ops("i64Eq");
  pushIsWithinLimit(code, { offset: aligned, bytes, limits });
  code.ops("i32And", "select").get(address).get(line).call(faultIndex).ops("unreachable");
  return { type: { parameters: ["i64", "i32", "i32", "i32"], results: [] }, locals: ["i32"], code: code.finish() };
}

/**
 * Reports likewise what is wrong with an access to memory that begins at address 0. It does not return.
 *
 * Takes the address, the access's bytes, a power of two, its line, the memory's bytes, and whether it is shared memory.
 */
function faultBounded(): FunctionDefinition {
  const [address, bytes, line, size, isShared] = [0, 1, 2, 3, 4] as const;
  const code = new CodeWriter();
  code.i32(faultKind.outsideSharedWindow);
  code.i32(faultKind.misalignedAddress).i32(faultKind.illegalAddress);
  pushAligned(code, { address, bytes });
  code.ops("i64ExtendI32U").get(bytes).ops("i64ExtendI32U", "i64Add").get(size).ops("i64ExtendI32U", "i64LeU");
  code.get(address).i64(32n).ops("i64ShrU", "i64Eqz", "i32And", "select");
  code.get(address).ops("i32WrapI64");
  pushIsOutsideSharedWindow(code);
  code.get(isShared).ops("i32And", "select").get(address).get(line).call(faultIndex).ops("unreachable");
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
function resolveGeneric(): FunctionDefinition {
  const [address, bytes, line, shared, sharedBytes, local, localBytes, limits] = [0, 1, 2, 3, 4, 5, 6, 7] as const;
  const [offset, aligned] = [8, 9] as const;
  const code = new CodeWriter();
  const isIn = (base: bigint) => code.get(address).i64(32n).ops("i64ShrU").i64(base >> 32n).ops("i64Eq");
  const fault = (kind: number) => code.i32(kind).get(address).get(line).call(faultIndex).ops("unreachable");
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

/**
 * a * b + c, rounded once, for finite and other numbers.
 *
 * The product is exact in 64 bits. The sum's rounding error is found by Knuth's two-sum; where there is one, the sum is
 * moved to the neighbour with an odd last bit that the error points to (rounding to odd), from which rounding to 32 bits
 * gives what rounding the exact sum would have.
 */
function fusedMultiplyAdd32(): FunctionDefinition {
  const [a, b, c, product, addend, sum, back, error, bits] = [0, 1, 2, 3, 4, 5, 6, 7, 8] as const;
  const code = new CodeWriter();
  code.get(a).ops("f64PromoteF32").get(b).ops("f64PromoteF32", "f64Mul").set(product);
  code.get(c).ops("f64PromoteF32").tee(addend).get(product).ops("f64Add").set(sum);
  code.get(sum).get(product).ops("f64Sub").set(back);
  code.get(product).get(sum).get(back).ops("f64Sub", "f64Sub").get(addend).get(back).ops("f64Sub", "f64Add");
  code.set(error).get(sum).ops("i64ReinterpretF64").set(bits);
  // False where the error is NaN, as it is where the sum is not finite.
  code.get(error).f64Bits(0n).ops("f64Lt").get(error).f64Bits(0n).ops("f64Gt", "i32Or");
  code.get(bits).i64(1n).ops("i64And", "i64Eqz", "i32And").if();
  // An error of the sum's own sign lies further from zero, where the bits are one more.
  code.get(bits).i64(1n).i64(-1n);
  code.get(error).f64Bits(0n).ops("f64Lt").get(sum).f64Bits(0n).ops("f64Lt", "i32Eq", "select", "i64Add").set(bits)
    .end();
  code.get(bits).ops("f64ReinterpretI64", "f32DemoteF64");
  return {
    type: { parameters: ["f32", "f32", "f32"], results: ["f32"] },
    locals: ["f64", "f64", "f64", "f64", "f64", "i64"],
    code: code.finish(),
  };
}

/** The NaN that arithmetic on two numbers gives: the second where it is a NaN, else the first, or that of no operand. */
function propagateNaN64(): FunctionDefinition {
  const code = new CodeWriter();
  for (const operand of [1, 0]) {
    code.get(operand).get(operand).ops("f64Ne").if().get(operand).ops("i64ReinterpretF64");
    code.i64(0x0008_0000_0000_0000n).ops("i64Or", "f64ReinterpretI64", "return").end();
  }
  code.f64Bits(0xfff8_0000_0000_0000n);
  return { type: { parameters: ["f64", "f64"], results: ["f64"] }, locals: [], code: code.finish() };
}

/** The number of a half's bits. A NaN keeps its sign and fraction, and is made quiet. */
function halfToSingle(): FunctionDefinition {
  const [half, magnitude, sign] = [0, 1, 2] as const;
  const code = new CodeWriter();
  code.get(half).i32(0x7fff).ops("i32And").tee(magnitude);
  code.get(half).i32(0x8000).ops("i32And").i32(16).ops("i32Shl").set(sign);
  code.i32(0x7c00).ops("i32LtU").if("f32");
  // In a single's place, the half's exponent is too small by the difference of the biases. Subnormal numbers come right.
  code.get(magnitude).i32(13).ops("i32Shl").get(sign).ops("i32Or", "f32ReinterpretI32");
  code.f32Bits(0x7780_0000n).ops("f32Mul").else();
  code.get(magnitude).i32(13).ops("i32Shl").get(sign).ops("i32Or").i32(0x7f80_0000).ops("i32Or");
  code.i32(0x0040_0000).i32(0).get(magnitude).i32(0x7c00).ops("i32GtU", "select", "i32Or", "f32ReinterpretI32").end();
  return { type: { parameters: ["i32"], results: ["f32"] }, locals: ["i32", "i32"], code: code.finish() };
}

/** The bits of the half nearest to a number, even where two are. A NaN keeps its sign and the top of its fraction. */
function doubleToHalf(): FunctionDefinition {
  const [number, magnitude, bits, sign] = [0, 1, 2, 3] as const;
  const code = new CodeWriter();
  const highBits = (shift: bigint) => code.get(bits).i64(shift).ops("i64ShrU", "i32WrapI64");
  code.get(number).ops("f64Abs").tee(magnitude).ops("i64ReinterpretF64").set(bits);
  code.get(number).ops("i64ReinterpretF64").i64(48n).ops("i64ShrU", "i32WrapI64").i32(0x8000).ops("i32And").set(sign);
  code.get(magnitude).get(magnitude).ops("f64Ne").if();
  highBits(42n).i32(0x3ff).ops("i32And").i32(0x7e00).ops("i32Or").get(sign).ops("i32Or", "return").end();
  // 65520 is halfway between the largest half and what would come next.
  code.get(magnitude).f64Bits(0x40ef_fe00_0000_0000n).ops("f64Ge").if();
  code.i32(0x7c00).get(sign).ops("i32Or", "return").end();
  // Below 2 to the -14, halves are multiples of 2 to the -24: the last bit of 2 to the 28, so that adding that rounds.
  code.get(magnitude).f64Bits(0x3f10_0000_0000_0000n).ops("f64Lt").if();
  code.get(magnitude).f64Bits(0x41b0_0000_0000_0000n).ops("f64Add", "i64ReinterpretF64", "i32WrapI64");
  code.get(sign).ops("i32Or", "return").end();
  // Half of the last bit that stays is added, less the least where that bit is 0. Carries go on into the exponent.
  code.get(bits).i64(0x1ff_ffff_ffffn).ops("i64Add").get(bits).i64(42n).ops("i64ShrU").i64(1n).ops("i64And", "i64Add");
  code.set(bits);
  highBits(42n).i32((1023 - 15) << 10).ops("i32Sub").get(sign).ops("i32Or");
  return { type: { parameters: ["f64"], results: ["i32"] }, locals: ["f64", "i64", "i32"], code: code.finish() };
}
