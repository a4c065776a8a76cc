/**
 * Instructions for clusters of blocks. PTX ISA, sections 9.7.9.23, 9.7.9.24 and 9.7.13.3.
 *
 * Every block is a cluster of its own, with rank 0: its shared memory is that of the cluster.
 *
 * @module
 */
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { Emit, SuspendingInstruction } from "./instruction_form.ts";
import { u32 } from "./integers/integer_lowering.ts";
import { sharedSpan } from "../../abi/addresses.ts";
import { leave } from "./synchronization_instructions.ts";
import { typeNamed } from "../../../ptx/instructions/scalar_types.ts";

/** Behind the barriers of a block, which are 0 to 15. */
const clusterBarrier = 16;

/**
 * `mapa`: the address of a variable in the shared memory of another block. Shared memories follow one another by rank,
 * and an access to that of any rank but 0 is a fault.
 */
export const mapAddress: Emit = (e, i) => {
  const [destination, address, rank] = i.operands;
  e.assign(destination, i.type, () => {
    e.push(address, i.type);
    e.push(rank, u32);
    if (i.type.bits === 64) e.code.ops("i64ExtendI32U").i64(BigInt(sharedSpan.byteLength)).ops("i64Mul", "i64Add");
    else e.code.i32(sharedSpan.byteLength).ops("i32Mul", "i32Add");
  });
};

/** `getctarank` */
export const rankOfAddress: Emit = (e, i) => {
  const [destination, address] = i.operands;
  e.push(address, i.type);
  e.code.ops("drop");
  e.assign(destination, typeNamed("b32"), () => e.code.i32(0));
};

/** `barrier.cluster.arrive`: the block's threads meet where they wait. */
export const arriveAtCluster: Emit = (e) => {
  e.code.atomicFence();
};

/** `barrier.cluster.wait` */
export const waitForCluster: SuspendingInstruction = {
  describe: (i) => ({ kind: "barrier", operation: "sync", isAligned: i.choices.has("aligned") }),
  request: (e: FunctionEmitter) => {
    leave(e, "first", { operand: clusterBarrier });
    leave(e, "second", { operand: 0 });
  },
  resume: () => {},
  barrierOfAll: () => clusterBarrier,
};
