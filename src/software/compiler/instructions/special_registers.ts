/**
 * Special registers. PTX ISA, section 10.
 *
 * @module
 */
import type { FunctionEmitter } from "../codegen/function_emitter.ts";

const warpSize = 32;

/** What is known of a special register. */
interface SpecialRegister {
  readonly bits: 32 | 64;
  /** Pushes its value, an i32 or an i64. */
  push(emitter: FunctionEmitter): void;
}

function pushThreadInBlock(e: FunctionEmitter): void {
  e.getFixed("threadZ");
  e.getFixed("blockDimY").ops("i32Mul");
  e.getFixed("threadY").ops("i32Add");
  e.getFixed("blockDimX").ops("i32Mul");
  e.getFixed("threadX").ops("i32Add");
}

function pushLane(e: FunctionEmitter): void {
  pushThreadInBlock(e);
  e.code.i32(warpSize - 1).ops("i32And");
}

/** Pushes a mask moved up by the lane's number. */
function pushMaskFrom(e: FunctionEmitter, mask: number): void {
  e.code.i32(mask);
  pushLane(e);
  e.code.ops("i32Shl");
}

function register(push: (e: FunctionEmitter) => void): SpecialRegister {
  return { bits: 32, push };
}

/** Of kernels that are run alone, on a device with one multiprocessor for each block in turn. */
const specialRegisters: ReadonlyMap<string, SpecialRegister> = new Map<string, SpecialRegister>([
  ["%tid.x", register((e) => e.getFixed("threadX"))],
  ["%tid.y", register((e) => e.getFixed("threadY"))],
  ["%tid.z", register((e) => e.getFixed("threadZ"))],
  ["%ntid.x", register((e) => e.getFixed("blockDimX"))],
  ["%ntid.y", register((e) => e.getFixed("blockDimY"))],
  ["%ntid.z", register((e) => e.getFixed("blockDimZ"))],
  ["%ctaid.x", register((e) => e.getFixed("blockX"))],
  ["%ctaid.y", register((e) => e.getFixed("blockY"))],
  ["%ctaid.z", register((e) => e.getFixed("blockZ"))],
  ["%nctaid.x", register((e) => e.getFixed("gridX"))],
  ["%nctaid.y", register((e) => e.getFixed("gridY"))],
  ["%nctaid.z", register((e) => e.getFixed("gridZ"))],
  // The fourth of each is there, and 0.
  ...["%tid.w", "%ntid.w", "%ctaid.w", "%nctaid.w"].map((name): [string, SpecialRegister] => {
    return [name, register((e) => e.code.i32(0))];
  }),
  ["%laneid", register(pushLane)],
  [
    "%warpid",
    register((e) => {
      pushThreadInBlock(e);
      e.code.i32(5).ops("i32ShrU");
    }),
  ],
  [
    "%nwarpid",
    register((e) => {
      e.getFixed("blockDimX");
      e.getFixed("blockDimY").ops("i32Mul");
      e.getFixed("blockDimZ").ops("i32Mul").i32(warpSize - 1).ops("i32Add").i32(5).ops("i32ShrU");
    }),
  ],
  ["%smid", register((e) => e.code.i32(0))],
  ["%nsmid", register((e) => e.code.i32(1))],
  ["%gridid", { bits: 64, push: (e) => e.code.i64(1n) }],
  ["%lanemask_eq", register((e) => pushMaskFrom(e, 1))],
  [
    "%lanemask_lt",
    register((e) => {
      pushMaskFrom(e, 1);
      e.code.i32(1).ops("i32Sub");
    }),
  ],
  [
    "%lanemask_le",
    register((e) => {
      // Lane 31 shifts by 31: 2 << 31 is 0 modulo 2 to the 32, and the mask all ones, as it should be.
      pushMaskFrom(e, 2);
      e.code.i32(1).ops("i32Sub");
    }),
  ],
  ["%lanemask_gt", register((e) => pushMaskFrom(e, -2))],
  ["%lanemask_ge", register((e) => pushMaskFrom(e, -1))],
  ["%clock", register((e) => e.callHelper("clock").ops("i32WrapI64"))],
  ["%clock_hi", register((e) => e.callHelper("clock").i64(32n).ops("i64ShrU", "i32WrapI64"))],
  ["%clock64", { bits: 64, push: (e) => e.callHelper("clock") }],
  ["%globaltimer", { bits: 64, push: (e) => e.callHelper("clock") }],
  ["%globaltimer_lo", register((e) => e.callHelper("clock").ops("i32WrapI64"))],
  ["%globaltimer_hi", register((e) => e.callHelper("clock").i64(32n).ops("i64ShrU", "i32WrapI64"))],
  ["%total_smem_size", register((e) => e.getFixed("sharedBytes"))],
  [
    "%dynamic_smem_size",
    register((e) => {
      e.getFixed("sharedBytes").i32(e.sizes.staticShared).ops("i32Sub");
    }),
  ],
  ["WARP_SZ", register((e) => e.code.i32(warpSize))],
]);

/** The special register of that name; undefined where it is not supported. */
export function specialRegister(name: string): SpecialRegister | undefined {
  return specialRegisters.get(name);
}

/** Whether a name is that of a special register or a predefined constant, known here or not. */
export function isSpecialRegister(name: string): boolean {
  return specialRegisters.has(name) ||
    /^%(tid|ntid|ctaid|nctaid|laneid|warpid|nwarpid|smid|nsmid|gridid|clock|globaltimer|lanemask|pm|envreg|dynamic|total|aggr|cluster|is_explicit|reserved|current)/
      .test(name);
}
