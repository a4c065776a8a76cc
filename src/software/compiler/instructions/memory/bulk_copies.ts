/**
 * `cp.async.bulk` and `cp.reduce.async.bulk`: asynchronous copies and reductions of ranges of memory. PTX ISA, sections
 * 9.7.9.25.4 and 9.7.9.25.6; and asynchronous stores and reductions of registers, sections 9.7.9.12 and 9.7.13.7.
 *
 * They are complete at once. Those that complete bytes at an `mbarrier` do so immediately, so a thread that does not
 * wait for the barrier sees the new values, too; the check `race` reports that it did not wait. There is nothing to wait
 * for in a bulk group.
 *
 * @module
 */
import { addressOperand, pushAddress, pushCluster, reportAccess } from "./address_checks.ts";
import { faultKind, shadowOffset, sharedSpan } from "../../../abi/addresses.ts";
import { mostClusterBlocks } from "../../../abi/launch_record.ts";
import { tensorMapByteLength } from "../../../abi/tensor_map.ts";
import { typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import { PtxError } from "../../../../ptx/syntax.ts";
import type { Emit, ExpandedInstruction } from "../instruction_form.ts";
import { completeBytes } from "./memory_barriers.ts";
import { constantOf, u32 } from "../integers/integer_instructions.ts";
import { storeElements } from "./memory_instructions.ts";
import { orderBits } from "../../../abi/check_state.ts";
import {
  type ResolvedInstruction,
  type ResolvedOperand,
  spaceOf,
} from "../../../../ptx/instructions/resolved_instruction.ts";
import { atomic, updateRange } from "./atomic_instructions.ts";

const u16 = typeNamed("u16");
const u64 = typeNamed("u64");

/** The number of bytes of which the addresses and the sizes of bulk copies are multiples. */
const bulkBytes = 16;
/** The greatest size in bytes that `ptxas` accepts for a bulk copy. */
const mostBulkBytes = 2n ** 20n - 16n;

/** A range of memory that a bulk copy accesses. */
interface BulkRange {
  readonly space: "shared" | "global";
  readonly operation: "read" | "write" | "atomic";
  /** The local that holds the size of the range in bytes. */
  readonly bytes: number;
}

/** Returns the lowering of `cp.async.bulk` from one state space to another one. */
export function copyBulk(from: BulkRange["space"], to: BulkRange["space"]): Emit {
  return (e, i) => {
    const [destination, source, size, barrier] = i.operands;
    const bytes = bulkSize(e, size);
    copyRange(e, {
      to: bulkRange(e, destination, { space: to, operation: "write", bytes }),
      from: bulkRange(e, source, { space: from, operation: "read", bytes }),
      bytes,
    });
    if (barrier !== undefined) completeBytes(e, barrier, { space: to, pushBytes: () => e.code.get(bytes) });
  };
}

/** Emits code for `cp.async.bulk` from global memory to the shared memory of several blocks of the cluster. */
export const multicastBulk: Emit = (e, i) => {
  const [destination, source, size, barrier, mask] = i.operands;
  const bytes = bulkSize(e, size);
  const from = bulkRange(e, source, { space: "global", operation: "read", bytes });
  forEachBlock(e, mask, (rank) => {
    const to = e.temporary("i32");
    pushAddressIn(e, rank, destination);
    findRange(e, to, { space: "shared", operation: "write", bytes });
    copyRange(e, { to, from, bytes });
    completeBytesIn(e, rank, { barrier, bytes });
  });
};

/**
 * Emits a loop over the blocks of the cluster whose bits in a mask are set. `emit` emits its body, given the local with
 * the rank of the block.
 */
export function forEachBlock(
  e: FunctionEmitter,
  mask: ResolvedOperand | undefined,
  emit: (rank: number) => void,
): void {
  const { code } = e;
  const ranks = e.temporary("i32"), rank = e.temporary("i32");
  e.push(mask, u16);
  code.i32(0xffff).ops("i32And").set(ranks);
  code.block().loop().get(ranks).ops("i32Eqz").brIf(1).get(ranks).ops("i32Ctz").set(rank);
  emit(rank);
  code.get(ranks).get(ranks).i32(1).ops("i32Sub", "i32And").set(ranks).br(0).end().end();
}

/** Emits code that pushes, as an i64, the address at the same offset in the shared memory of another block. */
export function pushAddressIn(e: FunctionEmitter, rank: number, operand: ResolvedOperand | undefined): void {
  const { base } = addressOperand(e, operand);
  if (base?.kind === "variable" && base.space !== "shared") e.fail(`"${base.name}" is in ".${base.space}"`);
  e.shadows?.require(base, "address");
  pushAddress(e, addressOperand(e, operand), "shared");
  e.code.i64(~BigInt((mostClusterBlocks - 1) * sharedSpan.byteLength)).ops("i64And");
  e.code.get(rank).ops("i64ExtendI32U").i64(BigInt(sharedSpan.byteLength)).ops("i64Mul", "i64Or");
}

/** Emits code that completes bytes at the barrier at the same offset in the shared memory of another block. */
export function completeBytesIn(
  e: FunctionEmitter,
  rank: number,
  { barrier, bytes }: { readonly barrier: ResolvedOperand | undefined; readonly bytes: number },
): void {
  pushAddressIn(e, rank, barrier);
  e.pushPlace({ operation: "atomic", bytes: 8, space: "shared" });
  e.getFixed("shared");
  e.getFixed("sharedBytes");
  pushCluster(e).i32(0);
  e.callHelper("findClusterShared");
  const { cluster, release, phased, strong } = orderBits;
  reportAccess(e, { space: "shared", bytes: 8, operation: "atomic", order: strong | release | phased | cluster });
  e.code.i64(0n).i64(0n).i64(0n).get(bytes).ops("i64ExtendI32U", "i64Sub");
  e.callHelper("arriveInMemory").ops("drop");
}

/** Emits code for `cp.reduce.async.bulk`. */
export const reduceBulk: Emit = (e, i) => {
  const [destination, source, size, barrier] = i.operands;
  const space = spaceOf(i) as BulkRange["space"];
  const bytes = bulkSize(e, size);
  updateRange(e, i, {
    to: bulkRange(e, destination, { space, operation: "atomic", bytes }),
    from: bulkRange(e, source, { space: "shared", operation: "read", bytes }),
    bytes,
  });
  if (barrier !== undefined) completeBytes(e, barrier, { space, pushBytes: () => e.code.get(bytes) });
};

/**
 * The lowering of `tensormap.cp_fenceproxy`, which copies a tensor map from shared to global memory. Each lane copies 4
 * bytes, as the code for a GPU does, so the copy of a warp with fewer than 32 lanes is not whole. The lanes wait for each
 * other before the copy, and after it: any of them may have written the map, and each may write the next one.
 */
export const copyTensorMap: ExpandedInstruction = {
  expand(i, inserted) {
    const [destination, source, size] = i.operands;
    if (constantOf(size) !== BigInt(tensorMapByteLength)) {
      throw new PtxError(i.line, `cannot compile "${i.text}": its size must be ${tensorMapByteLength}`);
    }
    const lane = inserted.add("mov.u32", u32, [{ kind: "special", name: "%laneid" }]);
    const placeOf = (address: ResolvedOperand | undefined): ResolvedOperand => {
      if (address?.kind !== "address" || address.base === undefined) {
        throw new PtxError(i.line, `cannot compile "${i.text}": it needs two addresses`);
      }
      const { base } = address;
      const pointer = base.kind === "register" ? base : inserted.add("mov.u64", u64, [base]);
      const type = pointer.type.bits === 32 ? u32 : u64;
      const multiply = `mad.${type === u64 ? "wide" : "lo"}.u32`;
      const place = inserted.add(multiply, type, [lane, { kind: "integer", value: 4n }, pointer]);
      return { ...address, base: place };
    };
    const waitForWarp = () => inserted.addTo("bar.warp.sync", [{ kind: "integer", value: 0xffff_ffffn }]);
    waitForWarp();
    const word = inserted.add("ld.shared.b32", u32, [placeOf(source)]);
    inserted.addTo("st.global.b32", [placeOf(destination), word]);
    waitForWarp();
    inserted.addTo(`fence.proxy.tensormap::generic.release.${i.choices.get("scope")}`, []);
  },
};

/** Emits code for `cp.async.bulk.commit_group` and `cp.async.bulk.wait_group`: all copies are complete already. */
export const awaitBulkCopies: Emit = (e, i) => {
  const [groups] = i.operands;
  if (groups !== undefined && constantOf(groups) === undefined) {
    e.fail("the number of pending groups must be a literal");
  }
};

/** Emits code for `st.async`. */
export const storeAsynchronously: Emit = (e, i) => {
  storeElements(e, i);
  completeElements(e, i);
};

/** Emits code for `red.async`. */
export const reduceAsynchronously: Emit = (e, i) => {
  atomic(false)(e, { ...i, operands: i.operands.slice(0, 2) });
  completeElements(e, i);
};

/** Emits code that completes the bytes of the elements that an instruction has stored at the barrier in its operands. */
function completeElements(e: FunctionEmitter, i: ResolvedInstruction): void {
  const elements = Number(i.choices.get("vector")?.slice(1) ?? 1);
  completeBytes(e, i.operands[2], {
    space: spaceOf(i),
    pushBytes: () => e.code.i32(elements * i.type.bits / 8),
  });
}

/**
 * Emits code for `cp.async.bulk.prefetch`. The instruction is only a hint, so only its operands are checked. Like
 * `ptxas`, this does not check a size that is in a register.
 */
export const prefetchBulk: Emit = (e, i) => {
  const [source, size] = i.operands;
  addressOperand(e, source);
  checkConstantSize(e, size);
  e.push(size, u32);
  e.code.ops("drop");
};

/** Reports a compilation error for a constant size that `ptxas` refuses. */
function checkConstantSize(e: FunctionEmitter, size: ResolvedOperand | undefined): bigint | undefined {
  const bytes = constantOf(size);
  if (bytes === undefined) return undefined;
  if (bytes < 0n || bytes > mostBulkBytes || bytes % BigInt(bulkBytes) !== 0n) {
    e.fail(`its size must be a multiple of ${bulkBytes} from 0 to ${mostBulkBytes}`);
  }
  return bytes;
}

/** Emits code that checks the size of a bulk copy. Returns the local that holds it. */
function bulkSize(e: FunctionEmitter, size: ResolvedOperand | undefined): number {
  const { code } = e;
  const bytes = e.temporary("i32");
  const constant = checkConstantSize(e, size);
  e.shadows?.require(size, "size");
  e.push(size, u32);
  code.set(bytes);
  if (constant !== undefined) return bytes;
  code.get(bytes).i32(bulkBytes - 1).ops("i32And").ifUnlikely();
  code.i32(faultKind.bulkSize).get(bytes).ops("i64ExtendI32U");
  e.pushPlace();
  e.callHelper("fault").ops("unreachable").end();
  return bytes;
}

/** Emits code that checks the range at an address. Returns the local that holds the range's offset in linear memory. */
function bulkRange(
  e: FunctionEmitter,
  operand: ResolvedOperand | undefined,
  range: BulkRange,
): number {
  const { space } = range;
  const address = addressOperand(e, operand);
  const { base } = address;
  if (base === undefined) e.fail("an address that is only a number is one in .local");
  if (base.kind === "variable" && base.space !== space) e.fail(`"${base.name}" is in ".${base.space}"`);
  e.shadows?.require(base, "address");
  const location = e.temporary("i32");
  pushAddress(e, address, space);
  findRange(e, location, range);
  return location;
}

/** Emits code that pops the address of a range, checks it, and sets a local to the range's offset in linear memory. */
function findRange(e: FunctionEmitter, location: number, range: BulkRange): void {
  const { code } = e;
  const { space, operation, bytes } = range;
  code.get(bytes);
  e.pushPlace({ operation, bytes: bulkBytes, space: space === "shared" ? "shared" : "generic" });
  if (space === "shared") {
    e.getFixed("shared");
    e.getFixed("sharedBytes");
    pushCluster(e);
    e.callHelper("findBulkShared");
  } else {
    e.getFixed("bounds");
    e.callHelper("findBulkGlobal");
  }
  code.set(location);
  reportRange(e, location, range);
}

/** Emits code that reports the accesses to a range, 16 bytes at a time, to the checks that observe accesses. */
function reportRange(
  e: FunctionEmitter,
  location: number,
  { space, operation, bytes }: BulkRange,
): void {
  const { checksWrites, observesAccesses, kernelChecks } = e.options;
  if (!checksWrites && !observesAccesses && !kernelChecks.has("race")) return;
  const index = e.temporary("i32");
  const { code } = e;
  code.i32(0).set(index).block().loop().get(index).get(bytes).ops("i32GeU").brIf(1);
  code.get(location).get(index).ops("i32Add");
  const isStrong = operation === "atomic";
  const order = orderBits.proxy | (isStrong ? orderBits.strong : 0);
  reportAccess(e, { space, operation, bytes: bulkBytes, isStrong, order });
  code.ops("drop").get(index).i32(bulkBytes).ops("i32Add").set(index).br(0).end().end();
}

/** Emits code that copies a range, and the shadow of the range. */
function copyRange(
  { code, shadows }: FunctionEmitter,
  { to, from, bytes }: { to: number; from: number; bytes: number },
): void {
  for (const distance of shadows === undefined ? [0] : [0, shadowOffset]) {
    for (const local of [to, from]) {
      code.get(local);
      if (distance !== 0) code.i32(distance).ops("i32Add");
    }
    code.get(bytes).memoryCopy();
  }
}
