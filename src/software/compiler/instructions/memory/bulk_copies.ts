/**
 * `cp.async.bulk`: asynchronous copies of ranges of memory. PTX ISA, section 9.7.9.25.4.
 *
 * The copies are made at once. A copy that completes bytes at an `mbarrier` does so when it is made, so a thread that
 * does not wait for the barrier reads the copied bytes too; the check `race` reports that it did not wait.
 *
 * @module
 */
import { addressOperand, pushAddress, reportAccess } from "./address_checks.ts";
import { faultKind, shadowOffset } from "../../../abi/addresses.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Emit } from "../instruction_form.ts";
import { completeBytes } from "./memory_barriers.ts";
import { constantOf, u32 } from "../integers/integer_instructions.ts";
import type { ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";

/** The number of bytes of which the addresses and the sizes of bulk copies are multiples. */
const bulkBytes = 16;
/** The greatest size in bytes that `ptxas` accepts for a bulk copy. */
const mostBulkBytes = 2n ** 20n - 16n;

/** A range of memory that a bulk copy accesses. */
interface BulkRange {
  readonly space: "shared" | "global";
  readonly operation: "read" | "write";
  /** The local that holds the size of the range in bytes. */
  readonly bytes: number;
}

/** Emits code for `cp.async.bulk` from global to shared memory. */
export const copyBulkToShared: Emit = (e, i) => {
  const [destination, source, size, barrier] = i.operands;
  const bytes = bulkSize(e, size);
  const to = bulkRange(e, destination, { space: "shared", operation: "write", bytes });
  const from = bulkRange(e, source, { space: "global", operation: "read", bytes });
  copyRange(e, { to, from, bytes });
  completeBytes(e, barrier, { bytes });
};

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
  { space, operation, bytes }: BulkRange,
): number {
  const { code } = e;
  const address = addressOperand(e, operand);
  const { base } = address;
  if (base === undefined) e.fail("an address that is only a number is one in .local");
  if (base.kind === "variable" && base.space !== space) e.fail(`"${base.name}" is in ".${base.space}"`);
  e.shadows?.require(base, "address");
  const location = e.temporary("i32");
  pushAddress(e, address, space);
  code.get(bytes);
  e.pushPlace({ operation, bytes: bulkBytes, space: space === "shared" ? "shared" : "generic" });
  if (space === "shared") {
    e.getFixed("shared");
    e.getFixed("sharedBytes");
    e.callHelper("findBulkShared");
  } else {
    e.getFixed("bounds");
    e.callHelper("findBulkGlobal");
  }
  code.set(location);
  reportRange(e, location, { space, operation, bytes });
  return location;
}

/** Emits code that reports the accesses to a range, 16 bytes at a time, to the checks that observe accesses. */
function reportRange(e: FunctionEmitter, location: number, { space, operation, bytes }: BulkRange): void {
  const { checksWrites, observesAccesses, kernelChecks } = e.options;
  if (!checksWrites && !observesAccesses && !kernelChecks.has("race")) return;
  const index = e.temporary("i32");
  const { code } = e;
  code.i32(0).set(index).block().loop().get(index).get(bytes).ops("i32GeU").brIf(1);
  code.get(location).get(index).ops("i32Add");
  reportAccess(e, { space, operation, bytes: bulkBytes });
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
