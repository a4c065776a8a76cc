/**
 * Translates address operands to offsets in linear memory, and emits the checks of accesses.
 *
 * Every access is checked before it is made. A failed check reports the address and the line, and never returns. An
 * address that is neither aligned nor accessible is reported as misaligned, as an H200 does for most.
 *
 * For each pointer, the kernel caches the allocation of its last access: the start, and the number of accesses of that
 * size that fit in it. Rotating the low bits that must be 0 to the top checks alignment and bounds in one comparison.
 * Only if that check fails, a helper looks up the address.
 *
 * If the address is the sum of a kernel parameter and an aligned offset, the offset is compared with the number of
 * bytes between the parameter's address and the end of its allocation. Accesses before the parameter's address, which
 * are rare, call the helper each time.
 *
 * @module
 */
import { checkOrigin, checkOriginInHelper } from "../../checks/origin_checks.ts";
import {
  addressBase,
  boundsTable,
  faultKind,
  localAddressBase,
  pageShift,
  parameterAddressBase,
  sharedAddressBase,
} from "../../../abi/addresses.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { ResolvedAddress, ResolvedOperand, Variable } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { CodeWriter } from "../../webassembly/code_writer.ts";
import { typeNamed } from "../../../../ptx/instructions/scalar_types.ts";

const u64 = typeNamed("u64");
const u32 = typeNamed("u32");

/** A memory access that must be checked. */
export interface CheckedAccess {
  /** The name of the state space, or `generic`. */
  readonly space: string;
  /** The size of the access in bytes. The size is a power of two, and also the required alignment. */
  readonly bytes: number;
  /** For global memory: the required alignment in bytes, if it is greater than the size. */
  readonly alignment?: number;
  /** The kind of access. A kernel's parameters can only be read. */
  readonly operation: "read" | "write" | "atomic";
  /**
   * Whether the access is strong (volatile, atomic or ordered), so that other threads may access the memory at the same
   * time. Default: false.
   */
  readonly isStrong?: boolean;
  /**
   * The memory order of the access, in the encoding of `orderBits`. Default: 0, a weak access. Null if the access is
   * not checked for races.
   */
  readonly order?: number | null;
}

/** Returns the address in an operand in brackets. Reports a compilation error for any other operand. */
export function addressOperand(e: FunctionEmitter, operand: ResolvedOperand | undefined): ResolvedAddress {
  return operand?.kind === "address" ? operand : e.fail("its address must be in brackets");
}

/** Returns the address in an operand in brackets, or the address of an element such as `array[4]`. */
export function addressOrElement(e: FunctionEmitter, operand: ResolvedOperand | undefined): ResolvedAddress {
  if (operand?.kind === "sum" && operand.isElement) {
    return { kind: "address", base: operand.variable, offset: operand.offset };
  }
  if (operand?.kind === "register" && operand.isElement) return { kind: "address", base: operand, offset: 0n };
  return addressOperand(e, operand);
}

/** Emits code that checks an access, and pushes the offset in linear memory to which the address operand refers. */
export function pushLocation(e: FunctionEmitter, address: ResolvedAddress, access: CheckedAccess): void {
  if (address.base?.kind === "register") e.shadows?.require(address.base, "address");
  pushChecked(e, address, access);
  if (e.options.kernelChecks.has("memory")) checkStaysInOrigin(e, address, access);
  reportAccess(e, access);
}

/** Emits code that reports an access, whose offset is on the stack and stays there, to the checks that observe it. */
export function reportAccess(e: FunctionEmitter, access: CheckedAccess): void {
  const { space, bytes, operation, isStrong = false, order = 0 } = access;
  const isShared = space === "shared", isGlobal = space === "global" || space === "generic";
  const location = e.temporary("i32");
  if (e.options.checksWrites && isGlobal && operation !== "read") {
    e.code.tee(location);
    faultIfReadOnly(e, { location, bytes, operation });
    e.code.get(location);
  }
  if (e.options.observesAccesses && isGlobal) {
    e.code.tee(location).get(location);
    e.pushPlace({ operation: isStrong ? "atomic" : operation, bytes });
    e.callHelper("noteAccess");
  }
  if (order !== null && e.options.kernelChecks.has("race") && (isGlobal || isShared)) {
    e.code.tee(location).get(location);
    e.pushPlace({ operation, bytes }).i32(order);
    e.callHelper("compareAccess");
    e.noteOrder(order);
  }
}

/** Emits code that pops the offset of an access in linear memory, and faults if the accessed memory is read-only. */
function faultIfReadOnly(
  e: FunctionEmitter,
  { location, bytes, operation }: { location: number } & Pick<CheckedAccess, "bytes" | "operation">,
): void {
  const { code } = e;
  code.i32(pageShift).ops("i32ShrU");
  e.getFixed("bounds");
  code.ops("i32Add").memory("i32Load8U", boundsTable.readOnly).ifUnlikely();
  code.i32(faultKind.illegalAddress).get(location).ops("i64ExtendI32U").i64(addressBase).ops("i64Add");
  e.pushPlace({ operation, bytes });
  e.callHelper("fault").ops("unreachable").end();
}

/**
 * Emits code that checks that the access whose offset is on the stack stays within its origin, the variable or
 * allocation that its pointer was derived from.
 */
function checkStaysInOrigin(e: FunctionEmitter, address: ResolvedAddress, { bytes, operation }: CheckedAccess): void {
  const { base, offset } = address;
  if (e.originOf(base) === undefined) return;
  if (base?.kind === "variable" && offset >= 0n && offset + BigInt(bytes) <= BigInt(base.byteLength)) return;
  if (e.sharesChecks && checkOriginInHelper(e, address, { bytes, operation })) return;
  const location = e.temporary("i32");
  e.code.set(location);
  checkOrigin(e, address, { location, bytes, operation });
  e.code.get(location);
}

/**
 * Emits code that checks the bounds of an access in its state space, and pushes the access's offset in linear memory.
 */
function pushChecked(e: FunctionEmitter, address: ResolvedAddress, access: CheckedAccess): void {
  const { base } = address;
  if (base === undefined && access.space !== "local") e.fail("an address that is only a number is one in .local");
  if (base?.kind === "variable") {
    const isGeneric = access.space === "generic" && base.space !== "const" &&
      (base.space !== "param" || base.isInFrame);
    if (base.space !== access.space && !isGeneric) e.fail(`"${base.name}" is in ".${base.space}"`);
    if (isWithin(base, address.offset, access)) return e.pushOffsetOf(base, address.offset);
    const end = address.offset + BigInt(access.bytes);
    if (access.space === "param" && base.isInFrame && (address.offset < 0n || end > BigInt(base.byteLength))) {
      e.fail(`the parameter "${base.name}" has only ${base.byteLength} bytes`);
    }
  }
  if (pushParameterLocation(e, address, access)) return;
  switch (access.space) {
    case "const":
      if (base?.kind === "register" && base.type.bits === 32) e.refuse("an address in .const has 64 bits here");
      return pushGlobal(e, address, access);
    case "global":
      return pushGlobal(e, address, access);
    case "shared":
    case "local":
      return pushBounded(e, address, access);
    case "param":
      return pushParameterOffset(e, address, access);
    default:
      return pushGeneric(e, address, access);
  }
}

/** Whether an access is known to be aligned and within a variable, so that no check is needed at run time. */
function isWithin(
  { offset: begin, byteLength, space, isInFrame }: Variable,
  offset: bigint,
  { bytes, alignment = bytes }: CheckedAccess,
): boolean {
  const isPlaced = space !== "param" || isInFrame === true;
  return isPlaced && offset >= 0n && offset + BigInt(bytes) <= BigInt(byteLength) &&
    (BigInt(begin) + offset) % BigInt(alignment) === 0n;
}

/** Emits code that pushes an address as an i64, in the state space of the access. */
export function pushAddress(e: FunctionEmitter, { base, offset }: ResolvedAddress, space: string): void {
  const { code } = e;
  if (base === undefined) {
    code.i64(offset);
  } else if (base.kind === "variable") {
    e.pushVariable(base, offset);
    // The `.param` address of a variable in a frame is the variable's generic address.
    if (space === "param" && base.isInFrame) code.i64(localAddressBase).ops("i64Add");
    if (space !== "generic") return;
    if (base.space === "shared") code.i64(sharedAddressBase).ops("i64Add");
    else if (base.isInFrame) code.i64(localAddressBase).ops("i64Add");
    else if (base.space === "param") code.i64(parameterAddressBase).ops("i64Add");
  } else if (base.kind === "register") {
    if (base.type.bits === 32) {
      e.push(base, u32);
      code.ops("i64ExtendI32U");
    } else {
      e.push(base, u64);
    }
    if (offset !== 0n) code.i64(offset).ops("i64Add");
  }
}

/**
 * If an address is the sum of a kernel parameter and an offset, emits code that checks the access and pushes the
 * access's offset in linear memory, and returns true. Otherwise emits nothing and returns false.
 */
function pushParameterLocation(e: FunctionEmitter, address: ResolvedAddress, access: CheckedAccess): boolean {
  const { bytes, space, operation, alignment = bytes } = access;
  if (space !== "global" && space !== "const" && space !== "generic" || alignment > bytes) return false;
  const sum = e.parameterOffset(address.base);
  if (sum === undefined) return false;
  const fromParameter: ResolvedAddress = { kind: "address", base: sum.offset, offset: address.offset };
  if (e.zeroBitsOf(fromParameter) < zeroBitsOf(bytes)) return false;
  const { code } = e;
  const { pointer, location, reach } = e.parameterPointer(sum.parameter, bytes);
  const offset = e.temporary("i64");
  pushAddress(e, fromParameter, space);
  code.set(offset);
  const pushLocation = () => code.get(location).get(offset).ops("i32WrapI64", "i32Add");
  if (space === "generic") {
    const found = e.temporary("i32"), generic = e.temporary("i64");
    pushLocation().set(found);
    code.get(offset).get(reach).ops("i64GeU").ifUnlikely();
    code.get(pointer).get(offset).ops("i64Add").set(generic);
    pushFound(e, { address: generic, bytes, operation });
    code.ops("drop", "drop").set(found).end().get(found);
    return true;
  }
  if (e.options.boundsChecks) {
    // The helper computes the sum of the pointer and the offset. If the sum were computed here, some engines would
    // hoist the addition above the check.
    code.get(offset).get(reach).ops("i64GeU").ifUnlikely().get(pointer).get(offset);
    e.pushPlace({ operation, bytes });
    e.getFixed("bounds");
    e.callHelper("checkSum").end();
  }
  pushLocation();
  return true;
}

/** Returns the number of low bits that are 0 in an address that is a multiple of `bytes`. */
function zeroBitsOf(bytes: number): number {
  return Math.log2(bytes);
}

/**
 * Emits code that checks an access to `.global` or `.const` memory, and pushes the access's offset in linear memory.
 */
function pushGlobal(e: FunctionEmitter, address: ResolvedAddress, access: CheckedAccess): void {
  const { bytes, space, operation, alignment = bytes } = access;
  const { code } = e;
  const local = e.temporary("i64");
  pushAddress(e, address, space);
  code.set(local);
  if (e.options.boundsChecks) {
    if (alignment > bytes) {
      code.get(local).ops("i32WrapI64").i32(alignment - 1).ops("i32And").ifUnlikely();
      code.i32(faultKind.misalignedAddress).get(local);
      e.pushPlace({ operation, bytes: alignment });
      e.callHelper("fault").ops("unreachable").end();
    }
    const { begin, count } = e.rangeCache(address.base, bytes);
    pushIsOutside(e, { address: local, begin, count, bytes });
    code.ifUnlikely().get(local);
    e.pushPlace({ operation, bytes });
    e.getFixed("bounds");
    e.callHelper("findRange").set(count).set(begin).end();
  }
  code.get(local).ops("i32WrapI64");
}

/** Emits code that pushes whether an access is outside of the cached allocation or misaligned. */
function pushIsOutside(
  { code }: FunctionEmitter,
  { address, begin, count, bytes }: { address: number; begin: number; count: number; bytes: number },
): void {
  code.get(address).get(begin).ops("i64Sub");
  if (bytes > 1) code.i64(BigInt(zeroBitsOf(bytes))).ops("i64Rotr");
  code.get(count).ops("i64GeU");
}

/** Emits code that checks an access through a generic address, and pushes the access's offset in linear memory. */
function pushGeneric(e: FunctionEmitter, address: ResolvedAddress, { bytes, operation }: CheckedAccess): void {
  const { code } = e;
  const local = e.temporary("i64"), location = e.temporary("i32");
  const { begin, count } = e.rangeCache(address.base, bytes);
  pushAddress(e, address, "generic");
  code.tee(local).ops("i32WrapI64").set(location);
  pushIsOutside(e, { address: local, begin, count, bytes });
  code.ifUnlikely();
  pushFound(e, { address: local, bytes, operation });
  code.set(count).set(begin).set(location).end().get(location);
}

/**
 * Emits a call of the helper for generic addresses. The helper returns the address's offset in linear memory, and the
 * start and the capacity of the allocation, which later accesses can reuse.
 */
function pushFound(
  e: FunctionEmitter,
  { address, bytes, operation }: { address: number } & Pick<CheckedAccess, "bytes" | "operation">,
): void {
  e.code.get(address);
  e.pushPlace({ operation, bytes });
  pushSpaces(e, operation === "read" ? e.sizes.parameters : 0);
  if (e.sizes.usesClusterMemory) {
    pushCluster(e).i32(Number(e.sizes.usesReservedShared));
    e.callHelper("findGenericOrCluster");
  } else {
    e.callHelper(e.sizes.usesReservedShared ? "findGenericOrReserved" : "findGeneric");
  }
}

/**
 * Emits code that pushes arguments that describe the cluster to a helper: the first address of the block's shared memory,
 * and the offset of the table of the cluster's shared memory. Both are 0 if the kernel cannot access other blocks' memory.
 */
export function pushCluster(e: FunctionEmitter): CodeWriter {
  if (!e.sizes.usesClusterMemory) return e.code.i32(0).i32(0);
  e.getFixed("clusterBase");
  return e.getFixed("clusterTable");
}

/**
 * Emits code that pushes arguments that describe the accessible memory to a helper: the offsets and sizes of the
 * block's shared memory, of the thread's local memory and of the kernel's parameters, and the offset of the bounds
 * table.
 */
export function pushSpaces(e: FunctionEmitter, parameterBytes: number = e.sizes.parameters): void {
  e.getFixed("shared");
  e.getFixed("sharedBytes");
  e.getFixed("local").i32(e.sizes.local);
  e.getFixed("parameters").i32(parameterBytes);
  e.getFixed("bounds");
}

/**
 * Emits code that checks an access through a `.param` address in a register, and pushes the access's offset in linear
 * memory. The address is either an offset into the kernel's parameters, or the generic address of a variable in a
 * frame.
 */
function pushParameterOffset(
  e: FunctionEmitter,
  address: ResolvedAddress,
  { bytes, operation }: CheckedAccess,
): void {
  const { code } = e;
  const local = e.temporary("i64");
  pushAddress(e, address, "param");
  code.tee(local).i64(32n).ops("i64ShrU", "i64Eqz").if().get(local).i64(parameterAddressBase).ops("i64Add").set(local);
  code.end();
  pushFound(e, { address: local, bytes, operation });
  code.ops("drop", "drop");
}

/**
 * Emits code that checks an access to `.shared` or `.local`, whose addresses begin at 0, and pushes the access's offset
 * in linear memory. The sum of a 32-bit address and an offset wraps around at 32 bits.
 */
function pushBounded(e: FunctionEmitter, address: ResolvedAddress, access: CheckedAccess): void {
  const { space, bytes } = access;
  const { code } = e;
  const { base, offset } = address;
  if (space === "shared" && e.sizes.usesClusterMemory) return pushInCluster(e, address, access);
  const begin = space === "shared" ? "shared" : "local";
  const size = space === "shared" ? e.sizes.shared : e.sizes.local;
  const isAligned = size !== undefined && e.zeroBitsOf(address) >= zeroBitsOf(bytes);
  // In a kernel that uses reserved shared memory, valid addresses are in two ranges with a gap between them.
  const isImplied = isAligned && e.isImplied(address) && !(space === "shared" && e.sizes.usesReservedShared);
  if (base?.kind === "register" && base.type.bits === 32) {
    const location = e.temporary("i32");
    e.push(base, u32);
    if (offset !== 0n) code.i32(Number(BigInt.asIntN(32, offset))).ops("i32Add");
    code.set(location);
    if (e.options.boundsChecks && !isImplied) {
      code.get(location);
      if (!isAligned && bytes > 1) code.i32(zeroBitsOf(bytes)).ops("i32Rotr");
      pushCapacity(e, { space, bytes, isAligned });
      code.ops("i32GeU").ifUnlikely().get(location).ops("i64ExtendI32U");
      checkBounded(e, access);
    }
    e.getFixed(begin);
    code.get(location).ops("i32Add");
    return;
  }
  const local = e.temporary("i64");
  pushAddress(e, address, space);
  code.set(local);
  if (!isImplied) {
    code.get(local);
    if (!isAligned && bytes > 1) code.i64(BigInt(zeroBitsOf(bytes))).ops("i64Rotr");
    pushCapacity(e, { space, bytes, isAligned });
    code.ops("i64ExtendI32U", "i64GeU").ifUnlikely().get(local);
    checkBounded(e, access);
  }
  e.getFixed(begin);
  code.get(local).ops("i32WrapI64", "i32Add");
}

/**
 * Emits code that checks an access to the shared memory of a cluster, and pushes the access's offset in linear memory.
 * Only accesses to other memory than the block's own call a helper.
 */
function pushInCluster(e: FunctionEmitter, address: ResolvedAddress, access: CheckedAccess): void {
  const { bytes, operation } = access;
  const { code } = e;
  const { base, offset } = address;
  const absolute = e.temporary("i64"), location = e.temporary("i32");
  if (base?.kind === "register" && base.type.bits === 32) {
    e.push(base, u32);
    code.i32(Number(BigInt.asIntN(32, offset))).ops("i32Add", "i64ExtendI32U");
  } else {
    pushAddress(e, address, "shared");
  }
  code.tee(absolute).ops("i32WrapI64");
  e.getFixed("clusterBase").ops("i32Sub").tee(location);
  if (bytes > 1) code.i32(zeroBitsOf(bytes)).ops("i32Rotr");
  pushCapacity(e, { space: "shared", bytes, isAligned: false });
  code.ops("i32GeU").get(absolute).i64(32n).ops("i64ShrU").i64(0n).ops("i64Ne", "i32Or").ifUnlikely().get(absolute);
  e.pushPlace({ operation, bytes, space: "shared" });
  e.getFixed("shared");
  e.getFixed("sharedBytes");
  pushCluster(e).i32(Number(e.sizes.usesReservedShared));
  e.callHelper("findClusterShared");
  e.getFixed("shared").ops("i32Sub").set(location).end();
  e.getFixed("shared").get(location).ops("i32Add");
}

/**
 * Emits code that pushes the limit for the inline check of an access. If the access is known to be aligned, its address
 * must be below the limit. Otherwise, the address divided by the size of the access must be below the limit. If the
 * kernel declares no dynamic shared memory, the limit excludes dynamic shared memory that a launch may add.
 */
function pushCapacity(
  e: FunctionEmitter,
  { space, bytes, isAligned }: Pick<CheckedAccess, "space" | "bytes"> & { readonly isAligned: boolean },
): void {
  const size = space === "shared" ? e.sizes.shared : e.sizes.local;
  if (size === undefined) e.code.get(e.sharedCapacity(bytes));
  else if (isAligned) e.code.i32(Math.max(0, size - bytes + 1));
  else e.code.i32(size < bytes ? 0 : Math.floor((size - bytes) / bytes) + 1);
}

/**
 * Emits the slow path for an access that has failed the inline check: pops the address, calls the helper that checks
 * the address again, and ends the `if`.
 */
function checkBounded(e: FunctionEmitter, { space, bytes, operation }: CheckedAccess): void {
  e.pushPlace({ operation, bytes, space: space === "shared" ? "shared" : "local" });
  if (space === "shared") e.getFixed("sharedBytes");
  else e.code.i32(e.sizes.local);
  const { usesReservedShared } = e.sizes;
  e.code.i32(space !== "shared" ? 0 : usesReservedShared ? 2 : 1);
  e.callHelper("checkBounded");
  if (space !== "shared" || e.sizes.shared === undefined && !usesReservedShared) e.code.ops("unreachable");
  e.code.end();
}
