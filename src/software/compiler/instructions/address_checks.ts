/**
 * Where in the memory an operand lies, and whether it may be accessed there.
 *
 * Every access is checked before it is made. A check that fails reports the address and the line and never returns: that
 * it is misaligned, where that alone is wrong. A GPU says of what is neither aligned nor accessible the one or the other.
 *
 * What global memory an instruction accessed last, the kernel remembers for each pointer: where the allocation begins, and
 * how many places there are in it for an access of that size. Rotating the low bits that must be 0 to the top makes one
 * comparison of being aligned and of being in the allocation. Only where that fails, a helper looks the address up.
 *
 * @module
 */
import { localAddressBase, parameterAddressBase, sharedAddressBase } from "../addresses.ts";
import { type FunctionEmitter, imageAddressGlobal } from "../codegen/function_emitter.ts";
import type { Variable } from "../typing/names.ts";
import { typeNamed } from "../typing/scalar_types.ts";
import type { ResolvedAddress, ResolvedInstruction, ResolvedOperand } from "../typing/resolved_instruction.ts";

const u64 = typeNamed("u64");
const u32 = typeNamed("u32");

/** What is accessed. */
export interface MemoryAccess {
  /** The name of the state space, or `generic`. */
  readonly space: string;
  /** A power of two, to which the address must be aligned. */
  readonly bytes: number;
  /** Whether it may store: a kernel's parameters cannot be changed. */
  readonly isStore?: boolean;
}

/** The name of the state space of an access, or `generic`. */
export function spaceOf(i: ResolvedInstruction): string {
  return i.choices.get("space")?.replace(/::.*/, "") ?? "generic";
}

/** The address that an operand in brackets is. */
export function addressOperand(e: FunctionEmitter, operand: ResolvedOperand | undefined): ResolvedAddress {
  return operand?.kind === "address" ? operand : e.fail("its address must stand in brackets");
}

/** Pushes where in the memory an operand lies, after the checks. */
export function pushLocation(e: FunctionEmitter, address: ResolvedAddress, access: MemoryAccess): void {
  const { base } = address;
  if (base?.kind === "variable") {
    const isGeneric = access.space === "generic" && base.space !== "const" &&
      (base.space !== "param" || base.isInFrame);
    if (base.space !== access.space && !isGeneric) e.fail(`"${base.name}" lies in ".${base.space}"`);
    if (isWithin(base, address.offset, access)) return pushPlaceOf(e, base, address.offset);
    const end = address.offset + BigInt(access.bytes);
    if (access.space === "param" && base.isInFrame && (address.offset < 0n || end > BigInt(base.byteLength))) {
      e.fail(`the parameter "${base.name}" has ${base.byteLength} bytes`);
    }
  }
  switch (access.space) {
    case "global":
    case "const":
      return pushGlobal(e, address, access);
    case "shared":
    case "local":
      return pushBounded(e, address, access);
    case "param":
      return pushParameterPlace(e, address, access);
    default:
      return pushGeneric(e, address, access);
  }
}

/** Whether an access lies in a variable and is aligned, which need not be checked then. */
function isWithin(
  { offset: begin, byteLength, space, isInFrame }: Variable,
  offset: bigint,
  { bytes }: MemoryAccess,
): boolean {
  const isPlaced = space !== "param" || isInFrame === true;
  return isPlaced && offset >= 0n && offset + BigInt(bytes) <= BigInt(byteLength) &&
    (BigInt(begin) + offset) % BigInt(bytes) === 0n;
}

/** Pushes where a byte of a variable lies. */
function pushPlaceOf(e: FunctionEmitter, { space, offset: begin }: Variable, offset: bigint): void {
  if (space === "shared") e.getFixed("shared");
  else if (space === "global" || space === "const") e.code.globalGet(imageAddressGlobal).ops("i32WrapI64");
  else e.getFrame();
  const distance = begin + Number(offset);
  if (distance !== 0) e.code.i32(distance).ops("i32Add");
}

/** Pushes an address as 64 bits; that of a variable in the space that is accessed. */
function pushAddress(e: FunctionEmitter, { base, offset }: ResolvedAddress, space: string): void {
  const { code } = e;
  if (base === undefined) {
    code.i64(offset);
  } else if (base.kind === "variable") {
    e.pushVariable(base, offset);
    // What lies in a frame has generic addresses in `.param` too.
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

/** The bits that an access's alignment leaves 0. */
function zeroBitsOf(bytes: number): number {
  return Math.log2(bytes);
}

function pushGlobal(e: FunctionEmitter, address: ResolvedAddress, { bytes, space }: MemoryAccess): void {
  const { code } = e;
  const local = e.temporary("i64");
  pushAddress(e, address, space);
  code.set(local);
  if (e.options.boundsChecks) {
    const { begin, count } = e.rangeCache(address.base, bytes);
    pushIsOutside(e, { address: local, begin, count, bytes });
    code.ifUnlikely().get(local).i32(bytes).i32(e.line);
    e.getFixed("bounds");
    e.callHelper("findRange").set(count).set(begin).end();
  }
  code.get(local).ops("i32WrapI64");
}

/** Pushes whether an address is none of the places that were found last. */
function pushIsOutside(
  { code }: FunctionEmitter,
  { address, begin, count, bytes }: { address: number; begin: number; count: number; bytes: number },
): void {
  code.get(address).get(begin).ops("i64Sub");
  if (bytes > 1) code.i64(BigInt(zeroBitsOf(bytes))).ops("i64Rotr");
  code.get(count).ops("i64GeU");
}

function pushGeneric(e: FunctionEmitter, address: ResolvedAddress, { bytes, isStore = false }: MemoryAccess): void {
  const { code } = e;
  const local = e.temporary("i64"), location = e.temporary("i32");
  const { begin, count } = e.rangeCache(address.base, bytes);
  pushAddress(e, address, "generic");
  code.tee(local).ops("i32WrapI64").set(location);
  pushIsOutside(e, { address: local, begin, count, bytes });
  code.ifUnlikely();
  pushFound(e, { address: local, bytes, isStore });
  code.set(count).set(begin).set(location).end().get(location);
}

/** Pushes where a generic address lies, and what is remembered of it. */
function pushFound(
  e: FunctionEmitter,
  { address, bytes, isStore }: { address: number; bytes: number; isStore: boolean },
): void {
  e.code.get(address).i32(bytes).i32(e.line);
  pushSpaces(e, isStore ? 0 : e.sizes.parameters);
  e.callHelper("findGeneric");
}

/**
 * Pushes what may be accessed: where the block's shared memory begins and its bytes, the same of the thread's local memory
 * and of the kernel's parameters, and where the bounds begin.
 */
export function pushSpaces(e: FunctionEmitter, parameterBytes: number = e.sizes.parameters): void {
  e.getFixed("shared");
  e.pushSharedBytes();
  e.getFixed("local").i32(e.sizes.local);
  e.getFixed("parameters").i32(parameterBytes);
  e.getFixed("bounds");
}

/** `.param` by a register: within a kernel's parameters, or in a frame, whose variables' addresses are generic ones. */
function pushParameterPlace(
  e: FunctionEmitter,
  address: ResolvedAddress,
  { bytes, isStore = false }: MemoryAccess,
): void {
  const { code } = e;
  const local = e.temporary("i64");
  pushAddress(e, address, "param");
  code.tee(local).i64(32n).ops("i64ShrU", "i64Eqz").if().get(local).i64(parameterAddressBase).ops("i64Add").set(local);
  code.end();
  pushFound(e, { address: local, bytes, isStore });
  code.ops("drop", "drop");
}

/** In `.shared` and `.local`, whose addresses begin at 0. A sum with an address of 32 bits has no more than those. */
function pushBounded(e: FunctionEmitter, address: ResolvedAddress, { space, bytes }: MemoryAccess): void {
  const { code } = e;
  const { base, offset } = address;
  const begin = space === "shared" ? "shared" : "local";
  if (base?.kind === "register" && base.type.bits === 32) {
    const place = e.temporary("i32");
    e.push(base, u32);
    if (offset !== 0n) code.i32(Number(BigInt.asIntN(32, offset))).ops("i32Add");
    code.set(place);
    if (e.options.boundsChecks) {
      code.get(place);
      if (bytes > 1) code.i32(zeroBitsOf(bytes)).ops("i32Rotr");
      pushPlaces(e, { space, bytes });
      code.ops("i32GeU").ifUnlikely().get(place).ops("i64ExtendI32U");
      faultBounded(e, { space, bytes });
    }
    e.getFixed(begin);
    code.get(place).ops("i32Add");
    return;
  }
  const local = e.temporary("i64");
  pushAddress(e, address, space);
  code.set(local).get(local);
  if (bytes > 1) code.i64(BigInt(zeroBitsOf(bytes))).ops("i64Rotr");
  pushPlaces(e, { space, bytes });
  code.ops("i64ExtendI32U", "i64GeU").ifUnlikely().get(local);
  faultBounded(e, { space, bytes });
  e.getFixed(begin);
  code.get(local).ops("i32WrapI64", "i32Add");
}

/** Pushes how many aligned places a space has for an access. */
function pushPlaces(e: FunctionEmitter, { space, bytes }: MemoryAccess): void {
  const size = space === "shared" ? e.sizes.shared : e.sizes.local;
  if (size === undefined) e.code.get(e.sharedPlaces(bytes));
  else e.code.i32(size < bytes ? 0 : Math.floor((size - bytes) / bytes) + 1);
}

/** Takes the address from the stack, and ends the `if` that a check has opened. */
function faultBounded(e: FunctionEmitter, { space, bytes }: MemoryAccess): void {
  e.code.i32(bytes).i32(e.line);
  if (space === "shared") e.pushSharedBytes();
  else e.code.i32(e.sizes.local);
  e.code.i32(space === "shared" ? 1 : 0);
  e.callHelper("faultBounded").ops("unreachable").end();
}
