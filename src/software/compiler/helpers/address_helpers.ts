/**
 * Helper functions that check and translate addresses, and that implement `mbarrier`, a barrier in shared memory.
 *
 * Where a helper has the parameters, `place` is the encoded source location and kind of the access (`encodePlace`), and
 * `thread` identifies the thread, as for `device.fault`.
 *
 * @module
 */
import {
  addressBase,
  boundsGranuleShift,
  boundsTable,
  faultKind,
  localAddressBase,
  parameterAddressBase,
  placeBytesShift,
  sharedAddressBase,
  sharedSpan,
} from "../../abi/addresses.ts";
import type { HelperBuilder, HelperFunction, HelperIndex } from "./helper_function.ts";
import { hostIndex } from "../../abi/host_functions.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";
import { memoryBarrierFields, mostClusterBlocks } from "../../abi/launch_record.ts";

/** The names of the address helpers. */
export type AddressHelper =
  | "findRange"
  | "findReach"
  | "checkSum"
  | "findGeneric"
  | "findGenericOrReserved"
  | "checkBounded"
  | "findBulkGlobal"
  | "findBulkShared"
  | "findClusterShared"
  | "findGenericOrCluster"
  | "checkParameterOrigin";

/** Maps each name of an address helper to its builder. */
export const addressHelpers: Readonly<Record<AddressHelper, HelperBuilder>> = {
  findRange,
  findReach,
  checkSum,
  findGeneric,
  findGenericOrReserved,
  checkBounded,
  findBulkGlobal,
  findBulkShared,
  findClusterShared,
  findGenericOrCluster,
  checkParameterOrigin,
};

/**
 * Builds the helper that finds the allocation that contains an access to global memory. The helper faults if the access
 * is misaligned or not within an allocation. An access that is misaligned and not within an allocation is reported as
 * misaligned.
 *
 * The helper's parameters are the address, the encoded source location, the thread, and the offset of the bounds table.
 * The helper returns the address of the allocation, and the number of accesses of this size that fit in the allocation.
 */
function findRange(): HelperFunction {
  const [address, place, thread, bounds, begin, length, offset, bytes] = [0, 1, 2, 3, 4, 5, 6, 7] as const;
  const code = new CodeWriter();
  pushBytes(code, place);
  code.set(bytes);
  pushFaultIfMisaligned(code, { address, bytes, place, thread });
  pushIsIn(code, address, addressBase);
  code.if();
  pushAllocation(code, { address, bounds, begin, length, offset });
  code.if();
  pushIsInside(code, { offset, bytes, length });
  code.if();
  pushRange(code, { begin, length, bytes });
  code.ops("return").end().end().end();
  pushFault(code, { kind: faultKind.illegalAddress, address, place, thread });
  return {
    type: { parameters: ["i64", "i32", "i32", "i32"], results: ["i64", "i64"] },
    locals: ["i32", "i32", "i32", "i32"],
    code: code.finish(),
  };
}

/**
 * Builds the helper that computes how many consecutive addresses, starting at a pointer, can begin an access that stays
 * within the pointer's allocation.
 *
 * The helper's parameters are the pointer, the size of the access in bytes, and the offset of the bounds table. The
 * helper returns 0 if the pointer is misaligned for accesses of this size or not in an allocation.
 */
function findReach(): HelperFunction {
  const [address, bytes, bounds, begin, length, offset] = [0, 1, 2, 3, 4, 5] as const;
  const code = new CodeWriter();
  pushIsIn(code, address, addressBase);
  code.get(address).ops("i32WrapI64").get(bytes).i32(1).ops("i32Sub", "i32And", "i32Eqz", "i32And").if();
  pushAllocation(code, { address, bounds, begin, length, offset });
  code.if();
  pushIsInside(code, { offset, bytes, length });
  code.if();
  code.get(length).get(offset).ops("i32Sub").get(bytes).ops("i32Sub", "i64ExtendI32U").i64(1n).ops("i64Add", "return");
  code.end().end().end().i64(0n);
  return {
    type: { parameters: ["i64", "i32", "i32"], results: ["i64"] },
    locals: ["i32", "i32", "i32"],
    code: code.finish(),
  };
}

/**
 * Builds the helper that checks an access to global memory in the same way as `findRange`.
 *
 * The helper's parameters are a pointer and an offset, whose sum is the address; the encoded source location; the
 * thread; and the offset of the bounds table.
 */
function checkSum(indexOf: HelperIndex): HelperFunction {
  const [pointer, offset, place, thread, bounds] = [0, 1, 2, 3, 4] as const;
  const code = new CodeWriter();
  code.get(pointer).get(offset).ops("i64Add").get(place).get(thread).get(bounds);
  code.call(indexOf("findRange")).ops("drop", "drop");
  return { type: { parameters: ["i64", "i64", "i32", "i32", "i32"], results: [] }, locals: [], code: code.finish() };
}

/** Emits code that pushes whether an address is in the 4 GiB that begin at `base`. */
function pushIsIn(code: CodeWriter, address: number, base: bigint): void {
  code.get(address).i64(32n).ops("i64ShrU").i64(base >> 32n).ops("i64Eq");
}

/** Emits a call of `device.fault`, which does not return. */
function pushFault(
  code: CodeWriter,
  { kind, address, place, thread }: {
    kind: number;
    address: number;
    place: number;
    thread: number;
  },
): void {
  code.i32(kind).get(address).get(place).get(thread).call(hostIndex("fault")).ops("unreachable");
}

/** Emits code that pushes the size in bytes of an access, which is part of its encoded source location. */
function pushBytes(code: CodeWriter, place: number): void {
  code.i32(1).get(place).i32(placeBytesShift).ops("i32ShrU", "i32Shl");
}

/**
 * Emits code that looks up the allocation that contains an address. The code sets the locals `begin` and `length` to
 * the allocation's start and size, and `offset` to the address's offset in the allocation. The code pushes whether
 * there is an allocation that contains the address.
 */
function pushAllocation(
  code: CodeWriter,
  { address, bounds, begin, length, offset }: {
    address: number;
    bounds: number;
    begin: number;
    length: number;
    offset: number;
  },
): void {
  code.get(bounds).get(address).ops("i32WrapI64").i32(boundsGranuleShift).ops("i32ShrU").i32(2).ops("i32Shl", "i32Add");
  code.memory("i32Load").tee(begin).if("i32");
  code.get(begin).i32(1).ops("i32Sub").tee(begin).i32(2).ops("i32Shl").get(bounds).ops("i32Add");
  code.memory("i32Load", boundsTable.lengths).set(length);
  code.get(address).ops("i32WrapI64").get(begin).i32(boundsGranuleShift).ops("i32Shl").tee(begin).ops("i32Sub");
  code.set(offset).i32(1).else().i32(0).end();
}

/** Emits code that faults if an address is not a multiple of the access's size. */
function pushFaultIfMisaligned(
  code: CodeWriter,
  { address, bytes, place, thread }: { address: number; bytes: number; place: number; thread: number },
): void {
  code.get(address).ops("i32WrapI64").get(bytes).i32(1).ops("i32Sub", "i32And").if();
  pushFault(code, { kind: faultKind.misalignedAddress, address, place, thread });
  code.end();
}

/** Emits code that pushes whether an access is within an allocation. */
function pushIsInside(
  code: CodeWriter,
  { offset, bytes, length }: { offset: number; bytes: number; length: number },
): void {
  code.get(offset).ops("i64ExtendI32U").get(bytes).ops("i64ExtendI32U", "i64Add");
  code.get(length).ops("i64ExtendI32U", "i64LeU");
}

/** Emits code that pushes the address of an allocation, and the number of accesses that fit in it. */
function pushRange(
  code: CodeWriter,
  { begin, length, bytes }: { begin: number; length: number; bytes: number },
): void {
  code.get(begin).ops("i64ExtendI32U").i64(addressBase).ops("i64Add");
  code.get(length).get(bytes).ops("i32DivU", "i64ExtendI32U");
}

/**
 * Builds the helper that checks an access to shared or local memory, whose addresses begin at 0. The helper returns if
 * the access is legal, and faults otherwise. Kernels call the helper when their own inline check fails. An access may
 * be legal even then: the inline check of a kernel that declares no dynamic shared memory uses the size of the static
 * shared memory, and a launch may add dynamic shared memory.
 *
 * The helper's parameters are the address, the encoded source location, the thread, the size of the memory in bytes,
 * and the kind of memory: 0 for local memory, 1 for shared memory, 2 for shared memory whose reserved part may be
 * accessed too.
 */
function checkBounded(): HelperFunction {
  const [address, place, thread, size, isShared, bytes] = [0, 1, 2, 3, 4, 5] as const;
  const code = new CodeWriter();
  pushBytes(code, place);
  code.set(bytes);
  code.get(address).ops("i32WrapI64");
  pushIsOutsideSharedSpan(code);
  code.get(isShared).i32(0).ops("i32Ne", "i32And").if();
  pushFault(code, { kind: faultKind.outsideSharedSpan, address, place, thread });
  code.end();
  pushFaultIfMisaligned(code, { address, bytes, place, thread });
  code.get(address).i64(32n).ops("i64ShrU", "i64Eqz");
  code.get(address).get(bytes).ops("i64ExtendI32U", "i64Add").get(size).ops("i64ExtendI32U", "i64LeU", "i32And");
  code.if().ops("return").end();
  code.get(isShared).i32(2).ops("i32Eq").get(address).i64(32n).ops("i64ShrU", "i64Eqz", "i32And");
  pushIsReserved(code, address);
  code.ops("i32And").if().ops("return").end();
  pushFault(code, { kind: faultKind.illegalAddress, address, place, thread });
  return {
    type: { parameters: ["i64", "i32", "i32", "i32", "i32"], results: [] },
    locals: ["i32"],
    code: code.finish(),
  };
}

/**
 * Emits code that pushes whether an address in shared memory is in the reserved part, which precedes the block's own
 * memory.
 */
function pushIsReserved(code: CodeWriter, address: number): void {
  code.get(address).ops("i32WrapI64").i32(-sharedSpan.reserved).ops("i32GeU");
}

/**
 * Emits code that pops an offset in shared memory, and pushes whether it is outside of the address range of shared
 * memory.
 */
function pushIsOutsideSharedSpan(code: CodeWriter): void {
  code.i32(sharedSpan.reserved).ops("i32Add").i32(sharedSpan.byteLength).ops("i32GeU");
}

/**
 * Builds the helper that translates a generic address to an offset in linear memory. The helper faults if the access is
 * illegal. If the address is misaligned and also not in any memory, the helper reports the misalignment. If the address
 * is in the shared window but beyond the address range of shared memory, the helper reports this instead, whether or
 * not the address is aligned.
 *
 * The helper's parameters are the address, the encoded source location, the thread, the offsets and sizes of shared
 * memory, local memory and the kernel's parameters, and the offset of the bounds table. The helper returns the offset,
 * and the results of `findRange`, which are 0 if the address is not in global memory.
 */
function findGeneric(indexOf: HelperIndex): HelperFunction {
  const [address, place, thread] = [0, 1, 2] as const;
  const [shared, sharedBytes, local, localBytes, parameters, parameterBytes, bounds] = [3, 4, 5, 6, 7, 8, 9] as const;
  const [offset, bytes] = [10, 11] as const;
  const code = new CodeWriter();
  pushBytes(code, place);
  code.set(bytes);
  code.get(address).ops("i32WrapI64").set(offset);
  for (
    const [base, begin, size] of [
      [sharedAddressBase, shared, sharedBytes],
      [localAddressBase, local, localBytes],
      [parameterAddressBase, parameters, parameterBytes],
    ] as const
  ) {
    pushIsIn(code, address, base);
    code.if();
    if (base === sharedAddressBase) {
      code.get(offset);
      pushIsOutsideSharedSpan(code);
      code.if();
      pushFault(code, { kind: faultKind.outsideSharedSpan, address, place, thread });
      code.end();
    }
    pushFaultIfMisaligned(code, { address, bytes, place, thread });
    pushIsInside(code, { offset, bytes, length: size });
    code.if().get(begin).get(offset).ops("i32Add").i64(0n).i64(0n).ops("return").end();
    pushFault(code, { kind: faultKind.illegalAddress, address, place, thread });
    code.end();
  }
  code.get(offset).get(address).get(place).get(thread).get(bounds).call(indexOf("findRange"));
  return { type: findGenericType, locals: ["i32", "i32"], code: code.finish() };
}

const findGenericType: HelperFunction["type"] = {
  parameters: ["i64", "i32", "i32", "i32", "i32", "i32", "i32", "i32", "i32", "i32"],
  results: ["i32", "i64", "i64"],
};

/**
 * Builds the counterpart of `findGeneric` for kernels that may also access the reserved shared memory, which precedes
 * the block's own shared memory at negative offsets.
 */
function findGenericOrReserved(indexOf: HelperIndex): HelperFunction {
  const [address, place, shared, bytes] = [0, 1, 3, 10] as const;
  const code = new CodeWriter();
  pushBytes(code, place);
  code.set(bytes);
  pushIsIn(code, address, sharedAddressBase);
  pushIsReserved(code, address);
  code.ops("i32And");
  code.get(address).ops("i32WrapI64").get(bytes).i32(1).ops("i32Sub", "i32And", "i32Eqz", "i32And").if();
  code.get(shared).get(address).ops("i32WrapI64", "i32Add").i64(0n).i64(0n).ops("return").end();
  for (let parameter = 0; parameter < findGenericType.parameters.length; parameter++) code.get(parameter);
  code.call(indexOf("findGeneric"));
  return { type: findGenericType, locals: ["i32"], code: code.finish() };
}

/**
 * Builds the helper that reports an access outside of the allocation that a kernel parameter points into.
 *
 * The helper's parameters are the access's offset in linear memory, the offset and the size of the allocation, the
 * encoded source location, the thread, and the offset of the parameter among the kernel's parameters. The helper returns
 * the access's offset.
 */
function checkParameterOrigin(): HelperFunction {
  const [location, begin, length, place, thread, parameter, bytes] = [0, 1, 2, 3, 4, 5, 6] as const;
  const code = new CodeWriter();
  pushBytes(code, place);
  code.set(bytes);
  code.get(length).get(bytes).ops("i32LtU");
  code.get(location).get(begin).ops("i32Sub").get(length).get(bytes).ops("i32Sub", "i32GtU", "i32Or").if();
  code.get(location).get(place).get(thread).i32(0).get(parameter).get(begin).get(length).call(hostIndex("stray"));
  code.end().get(location);
  return {
    type: { parameters: ["i32", "i32", "i32", "i32", "i32", "i32"], results: ["i32"] },
    locals: ["i32"],
    code: code.finish(),
  };
}

/**
 * Builds the helper that finds a range of global memory that a bulk copy accesses. The helper faults if the range is
 * misaligned or not within an allocation, and then reports the first 16 bytes that are not.
 *
 * The helper's parameters are the address, the size of the range in bytes, the encoded source location of an access to
 * 16 bytes, the thread, and the offset of the bounds table. The helper returns the offset of the range in linear memory.
 */
function findBulkGlobal(): HelperFunction {
  const [address, size, place, thread, bounds, begin, length, offset, bytes] = [0, 1, 2, 3, 4, 5, 6, 7, 8] as const;
  const code = new CodeWriter();
  pushBytes(code, place);
  code.set(bytes);
  code.get(size).ops("i32Eqz").if().get(address).ops("i32WrapI64", "return").end();
  pushFaultIfMisaligned(code, { address, bytes, place, thread });
  pushIsIn(code, address, addressBase);
  code.if();
  pushAllocation(code, { address, bounds, begin, length, offset });
  code.if();
  pushIsInside(code, { offset, bytes: size, length });
  code.if().get(address).ops("i32WrapI64", "return").end();
  pushIsInside(code, { offset, bytes, length });
  code.if().get(address);
  code.get(length).get(offset).ops("i32Sub").i32(-16).ops("i32And", "i64ExtendI32U", "i64Add").set(address).end();
  code.end().end();
  pushFault(code, { kind: faultKind.illegalAddress, address, place, thread });
  return {
    type: { parameters: ["i64", "i32", "i32", "i32", "i32"], results: ["i32"] },
    locals: ["i32", "i32", "i32", "i32"],
    code: code.finish(),
  };
}

/**
 * Builds the counterpart of `findBulkGlobal` for the shared memory of a cluster. Its other parameters are the offset and
 * the size of the block's shared memory, the first address of that memory, and the offset of the table of the cluster's
 * shared memory, or 0.
 */
function findBulkShared(): HelperFunction {
  const [address, size, place, thread, shared, sharedBytes, base, table] = [0, 1, 2, 3, 4, 5, 6, 7] as const;
  const [bytes, begin, offset] = [8, 9, 10] as const;
  const code = new CodeWriter();
  pushBytes(code, place);
  code.set(bytes);
  pushOffsetInCluster(code, { address, window: 0n, shared, base, table, begin, offset });
  code.ops("i32Eqz").if();
  pushFault(code, { kind: faultKind.outsideSharedSpan, address, place, thread });
  code.end();
  pushFaultIfMisaligned(code, { address, bytes, place, thread });
  pushIsInside(code, { offset, bytes: size, length: sharedBytes });
  code.if().get(begin).get(offset).ops("i32Add", "return").end();
  code.get(offset).get(sharedBytes).ops("i32LtU").if();
  code.get(address).get(sharedBytes).i32(-16).ops("i32And").get(offset).ops("i32Sub", "i64ExtendI32U", "i64Add");
  code.set(address).end();
  pushFault(code, { kind: faultKind.illegalAddress, address, place, thread });
  return {
    type: { parameters: ["i64", "i32", "i32", "i32", "i32", "i32", "i32", "i32"], results: ["i32"] },
    locals: ["i32", "i32", "i32"],
    code: code.finish(),
  };
}

/**
 * Emits code that finds the block of the cluster whose shared memory an address refers to: sets the local `begin` to the
 * offset of that memory in linear memory, and `offset` to the address's offset in it. Pushes whether there is a block.
 */
function pushOffsetInCluster(
  code: CodeWriter,
  { address, window, shared, base, table, begin, offset }: {
    readonly address: number;
    /** The generic address of address 0, or 0 for an address in `.shared`. */
    readonly window: bigint;
    readonly shared: number;
    readonly base: number;
    readonly table: number;
    readonly begin: number;
    readonly offset: number;
  },
): void {
  const spanShift = Math.log2(sharedSpan.byteLength);
  pushIsIn(code, address, window);
  code.if("i32");
  code.get(address).ops("i32WrapI64").get(base).ops("i32Sub").set(offset);
  code.get(offset);
  pushIsOutsideSharedSpan(code);
  code.ops("i32Eqz").if("i32").get(shared).set(begin).i32(1).else();
  code.get(address).ops("i32WrapI64").i32(sharedSpan.byteLength - 1).ops("i32And").set(offset);
  code.get(address).ops("i32WrapI64").i32(spanShift).ops("i32ShrU").tee(begin).i32(mostClusterBlocks).ops("i32LtU");
  code.get(table).i32(0).ops("i32Ne", "i32And").if("i32");
  code.get(table).get(begin).i32(2).ops("i32Shl", "i32Add").memory("i32Load").tee(begin).i32(0).ops("i32Ne");
  code.else().i32(0).end().end().else().i32(0).end();
}

/**
 * Builds the helper that finds an access to the shared memory of a cluster. The helper faults if the access is illegal.
 *
 * The helper's parameters are the address in `.shared`, the encoded source location, the thread, the offset and the size
 * of the block's shared memory, the first address of that memory, the offset of the table of the cluster's shared memory,
 * and 1 if the reserved part of the block's shared memory may be accessed, too, or 0. The helper returns the offset of
 * the access in linear memory.
 */
function findClusterShared(): HelperFunction {
  const [address, place, thread, shared, sharedBytes, base, table, isReserved] = [0, 1, 2, 3, 4, 5, 6, 7] as const;
  const code = new CodeWriter();
  emitFindInCluster(code, {
    ...{ address, window: 0n, place, thread, shared, sharedBytes, base, table, isReserved },
    ...{ bytes: 8, begin: 9, offset: 10 },
  });
  return {
    type: { parameters: ["i64", "i32", "i32", "i32", "i32", "i32", "i32", "i32"], results: ["i32"] },
    locals: ["i32", "i32", "i32"],
    code: code.finish(),
  };
}

/** Emits code that returns the offset in linear memory of an access to the shared memory of a cluster, or faults. */
function emitFindInCluster(
  code: CodeWriter,
  { window, ...locals }:
    & {
      readonly [
        Name in
          | "address"
          | "place"
          | "thread"
          | "shared"
          | "sharedBytes"
          | "base"
          | "table"
          | "isReserved"
          | "bytes"
          | "begin"
          | "offset"
      ]: number;
    }
    & { readonly window: bigint },
  finish: () => void = () => {},
): void {
  const { address, place, thread, shared, sharedBytes, base, table, isReserved, bytes, begin, offset } = locals;
  pushBytes(code, place);
  code.set(bytes);
  pushOffsetInCluster(code, { address, window, shared, base, table, begin, offset });
  code.ops("i32Eqz").if();
  code.get(table).if();
  pushFault(code, { kind: faultKind.noClusterBlock, address, place, thread });
  code.end();
  pushFault(code, { kind: faultKind.outsideSharedSpan, address, place, thread });
  code.end();
  pushFaultIfMisaligned(code, { address, bytes, place, thread });
  pushIsInside(code, { offset, bytes, length: sharedBytes });
  code.get(isReserved).get(offset).i32(-sharedSpan.reserved).ops("i32GeU", "i32And", "i32Or").if();
  code.get(begin).get(offset).ops("i32Add");
  finish();
  code.ops("return").end();
  pushFault(code, { kind: faultKind.illegalAddress, address, place, thread });
}

/**
 * Builds the counterpart of `findGeneric` for kernels that may access the shared memory of other blocks of their cluster.
 * Its other parameters are the last three of `findClusterShared`.
 */
function findGenericOrCluster(indexOf: HelperIndex): HelperFunction {
  const [address, place, thread, shared, sharedBytes] = [0, 1, 2, 3, 4] as const;
  const [base, table, isReserved, bytes, begin, offset] = [10, 11, 12, 13, 14, 15] as const;
  const code = new CodeWriter();
  pushIsIn(code, address, sharedAddressBase);
  code.if();
  emitFindInCluster(code, {
    ...{ address, window: sharedAddressBase, place, thread, shared, sharedBytes, base, table, isReserved },
    ...{ bytes, begin, offset },
  }, () => void code.i64(0n).i64(0n));
  code.end();
  for (let parameter = 0; parameter < findGenericType.parameters.length; parameter++) code.get(parameter);
  code.call(indexOf("findGeneric"));
  return {
    type: { parameters: [...findGenericType.parameters, "i32", "i32", "i32"], results: findGenericType.results },
    locals: ["i32", "i32", "i32"],
    code: code.finish(),
  };
}

/** The names of the helpers for `mbarrier`. */
export type MemoryBarrierHelper = "arriveInMemory";

/** Maps each name of an `mbarrier` helper to its builder. */
export const memoryBarrierHelpers: Readonly<Record<MemoryBarrierHelper, HelperBuilder>> = { arriveInMemory };

/**
 * Builds the helper that counts arrivals at an `mbarrier` object, and completes its phase if neither arrivals nor bytes
 * are pending.
 *
 * The helper's parameters are the offset of the object, the number of arrivals to subtract from the pending arrivals,
 * the number to subtract from the arrivals that later phases expect, and the number of pending bytes to add. The helper
 * returns the object's previous value.
 */
function arriveInMemory(): HelperFunction {
  const [location, arrivals, dropped, added] = [0, 1, 2, 3] as const;
  const [before, pending, expected, transactions, phase] = [4, 5, 6, 7, 8] as const;
  const code = new CodeWriter();
  const pushField = (name: "pending" | "expected") => {
    const { first, bits } = memoryBarrierFields[name];
    return code.get(before).i64(first).ops("i64ShrU").i64((1n << bits) - 1n).ops("i64And");
  };
  const count = memoryBarrierFields.transactions;
  code.get(location).memory("i64Load").set(before);
  pushField("pending").get(arrivals).ops("i64Sub").set(pending);
  pushField("expected").get(dropped).ops("i64Sub").set(expected);
  code.get(before).i64(64n - count.first - count.bits).ops("i64Shl").i64(64n - count.bits).ops("i64ShrS");
  code.get(added).ops("i64Add").set(transactions);
  code.get(before).i64(memoryBarrierFields.phase.first).ops("i64ShrU").set(phase);
  code.get(pending).get(transactions).ops("i64Or", "i64Eqz").if();
  code.get(expected).set(pending).get(phase).i64(1n).ops("i64Xor").set(phase).end();
  code.get(location);
  ([["pending", pending], ["expected", expected], ["transactions", transactions], ["phase", phase]] as const).forEach(
    ([name, local], index) => {
      const { first, bits } = memoryBarrierFields[name];
      code.get(local).i64((1n << bits) - 1n).ops("i64And").i64(first).ops("i64Shl");
      if (index > 0) code.ops("i64Or");
    },
  );
  code.memory("i64Store").get(before);
  return {
    type: { parameters: ["i32", "i64", "i64", "i64"], results: ["i64"] },
    locals: ["i64", "i64", "i64", "i64", "i64"],
    code: code.finish(),
  };
}
