/**
 * Loads and stores of gangs whose threads access adjacent 32-bit values or 64-bit floats: one check, then whole
 * vectors. If the check fails, the threads access memory one by one, as single threads do. Strong accesses load and store
 * the lanes of the vectors one by one, because WebAssembly has no atomic accesses to vectors.
 *
 * @module
 */
import {
  type Register,
  type ResolvedAddress,
  type ResolvedOperand,
  spaceOf,
} from "../../../../ptx/instructions/resolved_instruction.ts";
import { pushIsStray } from "../../checks/origin_checks.ts";
import type { CompiledInstruction, EmitVectors, GangForm } from "../instruction_form.ts";
import { hasOnlyModifiers, mayHave } from "../../../../ptx/instructions/instruction_traits.ts";
import type { GangEmitter } from "../../simd/gang_emitter.ts";
import { loadAtomically, storeAtomically } from "../memory/strong_accesses.ts";
import { typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import type { CodeWriter } from "../../webassembly/code_writer.ts";

const u32 = typeNamed("u32");
const u64 = typeNamed("u64");
const b32 = typeNamed("b32");
const b64 = typeNamed("b64");
/** The kinds of modifiers that need no special code in vector loads and stores. */
const implemented: readonly string[] = [
  ...["weak", "volatile", "mmio", "relaxed", "semantics", "sys", "scope"],
  ...["space", "nc", "cache", "eviction", "prefetch"],
];

/** The gang form of a load whose values are adjacent in memory for adjacent threads. */
export const gangLoad: GangForm = (gang, instruction) => {
  const [value, address] = instruction.operands;
  return value?.kind === "register" ? access(gang, instruction, { value, address, isLoad: true }) : undefined;
};

/** The gang form of a store whose values are adjacent in memory for adjacent threads. */
export const gangStore: GangForm = (gang, instruction) => {
  const [address, value] = instruction.operands;
  return access(gang, instruction, { value, address, isLoad: false });
};

/**
 * Returns a function that emits the vector code of a load or store. Returns undefined if the instruction must be
 * executed for one thread at a time.
 */
function access(
  gang: GangEmitter,
  instruction: CompiledInstruction,
  { value, address, isLoad }: {
    value: ResolvedOperand | undefined;
    address: ResolvedOperand | undefined;
    isLoad: boolean;
  },
): EmitVectors | undefined {
  const { form, type } = instruction;
  const bytes = type.bits / 8;
  if (bytes !== 4 && bytes !== 8 || !hasOnlyModifiers(instruction, implemented)) return undefined;
  if (address?.kind !== "address") return undefined;
  const { base } = address;
  if (base?.kind !== "register" || gang.uniformity.strideOf(base) !== BigInt(bytes)) return undefined;
  const space = spaceOf(instruction);
  const isBounded = space === "shared";
  if (!isBounded && space !== "global" && space !== "const" && space !== "generic") return undefined;
  if (base.type.bits !== (isBounded ? 32 : 64)) return undefined;
  if (bytes === 4 ? !gang.hasVectors(value) : !gang.hasDoubles(value)) return undefined;
  return () => {
    const { code, emitter: e } = gang;
    const firstOffset = e.temporary("i32");
    const emit = (location: () => void) => {
      if (isLoad) {
        gang.assignVectors(value as Register, (part) => {
          if (mayHave(instruction, "observes")) return pushLanes(gang, instruction, { part, location });
          location();
          return code.v128Load(16 * part);
        });
      } else {
        store(gang, instruction, { value: value!, location });
      }
    };
    const one = () => gang.emitMembers(instruction, form.emit!);
    if (isBounded) {
      pushBoundedIsOutside(gang, { base, offset: address.offset, firstOffset, bytes });
      orIsStray(gang, address, { bytes, pushLocation: () => e.getFixed("shared").get(firstOffset).ops("i32Add") });
      code.if();
      one();
      code.else();
      emit(() => e.getFixed("shared").get(firstOffset).ops("i32Add"));
      code.end();
    } else {
      const wide = e.temporary("i64");
      e.push(base, u64);
      if (address.offset !== 0n) code.i64(address.offset).ops("i64Add");
      code.tee(wide).ops("i32WrapI64").set(firstOffset);
      if (!e.options.boundsChecks && space !== "generic") {
        emit(() => code.get(firstOffset));
        return;
      }
      const { begin, count } = gang.rangeCache(address, bytes);
      code.get(wide).get(begin).ops("i64Sub").i64(BigInt(Math.log2(bytes))).ops("i64Rotr").get(count).ops("i64GeU");
      orIsStray(gang, address, { bytes, pushLocation: () => code.get(firstOffset) });
      code.if();
      one();
      remember(gang, address, { begin, count, bytes });
      code.else();
      emit(() => code.get(firstOffset));
      code.end();
    }
  };
}

/**
 * Emits code that pops a condition, and pushes whether the condition is true or an access by any thread of the gang is
 * outside of the variable or allocation that the pointer was derived from.
 */
function orIsStray(
  { code, emitter: e, width }: GangEmitter,
  address: ResolvedAddress,
  { bytes, pushLocation }: { bytes: number; pushLocation: () => void },
): void {
  if (e.originOf(address.base) === undefined) return;
  const location = e.temporary("i32");
  pushLocation();
  code.set(location);
  if (pushIsStray(e, address, { location, bytes: bytes * width })) code.ops("i32Or");
}

/** Emits code that pushes a vector whose lanes are loaded atomically one by one. */
function pushLanes(
  { code }: GangEmitter,
  { type }: CompiledInstruction,
  { part, location }: { part: number; location: () => void },
): CodeWriter {
  const [bits, splat, replace] = type.bits === 64
    ? [b64, "i64x2Splat", "i64x2ReplaceLane"] as const
    : [b32, "i32x4Splat", "i32x4ReplaceLane"] as const;
  for (let lane = 0; lane < 128 / type.bits; lane++) {
    location();
    loadAtomically(code, bits, 16 * part + lane * type.bits / 8);
    if (lane === 0) code.simd(splat);
    else code.simdLane(replace, lane);
  }
  return code;
}

/**
 * Emits code that stores one value for each thread of the gang, vector by vector. The lanes of a strong store are stored
 * atomically one by one.
 */
function store(
  gang: GangEmitter,
  instruction: CompiledInstruction,
  { value, location }: { value: ResolvedOperand; location: () => void },
): void {
  const { code, emitter: e } = gang;
  const isDouble = instruction.type.bits === 64;
  const push = isDouble ? gang.doubles(value) : gang.vector(instruction, { operand: value });
  const parts = Array.from({ length: (isDouble ? 2 : 1) * gang.vectors }, (_, part) => part);
  if (instruction.form.traits.isPlainStore === true) {
    for (const part of parts) {
      location();
      push(part).v128Store(16 * part);
    }
    return;
  }
  const lanes = e.temporary("v128");
  for (const part of parts) {
    push(part).set(lanes);
    for (let lane = 0; lane < (isDouble ? 2 : 4); lane++) {
      location();
      code.get(lanes).simdLane(isDouble ? "i64x2ExtractLane" : "i32x4ExtractLane", lane);
      storeAtomically(code, isDouble ? b64 : b32, 16 * part + lane * (isDouble ? 8 : 4));
    }
  }
}

/**
 * Emits code that caches the allocation in which the access of the gang's last thread was found, for later accesses by
 * the gang.
 */
function remember(
  gang: GangEmitter,
  address: ResolvedAddress,
  { begin, count, bytes }: { begin: number; count: number; bytes: number },
): void {
  const { code, emitter: e } = gang;
  const single = e.rangeCache(address.base, bytes);
  code.get(single.begin).set(begin);
  code.get(single.count).i64(BigInt(gang.width - 1)).ops("i64Sub").i64(0n).get(single.count);
  code.i64(BigInt(gang.width - 1)).ops("i64GtU", "select").set(count);
}

/** Emits code that pushes whether the access of any thread of the gang is outside of shared memory or misaligned. */
function pushBoundedIsOutside(
  gang: GangEmitter,
  { base, offset, firstOffset, bytes }: { base: Register; offset: bigint; firstOffset: number; bytes: number },
): void {
  const { code, emitter: e } = gang;
  e.push(base, u32);
  if (offset !== 0n) code.i32(Number(BigInt.asIntN(32, offset))).ops("i32Add");
  code.tee(firstOffset);
  if (!e.options.boundsChecks) {
    code.ops("drop").i32(0);
    return;
  }
  code.i32(Math.log2(bytes)).ops("i32Rotr");
  const { shared } = e.sizes;
  const gangBytes = bytes * gang.width;
  if (shared !== undefined) {
    code.i32(shared < gangBytes ? 0 : Math.floor((shared - gangBytes) / bytes) + 1).ops("i32GeU");
    return;
  }
  const capacity = e.temporary("i32");
  code.get(e.sharedCapacity(bytes)).i32(gang.width - 1).ops("i32Sub").tee(capacity).i32(0).get(capacity);
  code.i32(0).ops("i32GtS", "select", "i32GeU");
}
