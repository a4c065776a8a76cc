/**
 * Special registers. PTX ISA, section 10.
 *
 * @module
 */
import { libraryReservedOffset, sharedSpan } from "../../abi/addresses.ts";
import type { UniformityRules } from "../../../ptx/analysis/uniformity.ts";
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { FixedLocal } from "../codegen/locals.ts";
import { maxThreadsPerMultiProcessor, multiProcessorCount, warpSize } from "../../abi/launch_record.ts";
import type { ResolvedInstruction } from "../../../ptx/instructions/resolved_instruction.ts";
import { onFirstUse } from "../../../ptx/instructions/rows/row.ts";

const environmentRegisterCount = 32;
const reservedSharedPrefix = "%reserved_smem_offset_";

/** A special register. */
interface SpecialRegister {
  /** The width of the register in bits: 1 for a predicate. */
  readonly bits: 1 | 32 | 64;
  /**
   * The difference between the values of adjacent threads of a gang: 0 if all threads have the same value. Undefined if
   * the difference is not constant.
   */
  readonly stride?: 0n | 1n;
  /** Emits code that pushes the register's value, as an i32 or an i64. */
  push(emitter: FunctionEmitter): void;
}

/** Emits code that pushes the thread's linear index within its block. */
function pushThreadInBlock(e: FunctionEmitter): void {
  e.getFixed("threadZ");
  e.getFixed("blockDimY").ops("i32Mul");
  e.getFixed("threadY").ops("i32Add");
  e.getFixed("blockDimX").ops("i32Mul");
  e.getFixed("threadX").ops("i32Add");
}

/** Emits code that pushes the number of the thread's lane in its warp. */
function pushLane(e: FunctionEmitter): void {
  pushThreadInBlock(e);
  e.code.i32(warpSize - 1).ops("i32And");
}

/** Emits code that pushes a mask, shifted left by the lane number of the thread. */
function pushMaskFrom(e: FunctionEmitter, mask: number): void {
  e.code.i32(mask);
  pushLane(e);
  e.code.ops("i32Shl");
}

/** Describes a 32-bit register whose values in different threads are unrelated. */
function register(push: (e: FunctionEmitter) => void): SpecialRegister {
  return { bits: 32, push };
}

/** Describes a 32-bit register with the same value in all threads of a warp that are adjacent along x. */
function uniform(push: (e: FunctionEmitter) => void): SpecialRegister {
  return { bits: 32, push, stride: 0n };
}

/** Describes a 32-bit register whose value grows by 1 from each thread of a warp to the next along x. */
function counting(push: (e: FunctionEmitter) => void): SpecialRegister {
  return { bits: 32, push, stride: 1n };
}

/** A 64-bit register that is always 0. */
const wideZero: SpecialRegister = { bits: 64, push: (e) => e.code.i64(0n), stride: 0n };

/** The special registers with the halves of the address of a cooperative launch's workspace. */
const workspaceRegisters: ReadonlySet<string> = new Set(["%envreg1", "%envreg2"]);

/**
 * Describes `%envreg0` to `%envreg31`, through which the driver passes values to a kernel. `cooperative_groups` finds a
 * cooperative launch's workspace in two of them; all others are 0, as on a GPU.
 */
function environmentRegister(index: number): SpecialRegister {
  const field = index === 1 ? "workspaceHigh" : index === 2 ? "workspaceLow" : undefined;
  return uniform((e) => field === undefined ? e.code.i32(0) : e.getFixed(field));
}

/**
 * Describes a special register whose value is an address in reserved shared memory. Here, the reserved part has
 * negative addresses and the block's own shared memory begins at 0; on a GPU, the reserved part begins at 0.
 */
function reservedShared(name: string, offset: number): [string, SpecialRegister] {
  return [`${reservedSharedPrefix}${name}`, uniform((e) => e.code.i32(offset - sharedSpan.reserved))];
}

const specialRegisters = onFirstUse((): ReadonlyMap<string, SpecialRegister> =>
  new Map<string, SpecialRegister>([
    ["%tid.x", counting((e) => e.getFixed("threadX"))],
    ["%tid.y", uniform((e) => e.getFixed("threadY"))],
    ["%tid.z", uniform((e) => e.getFixed("threadZ"))],
    ["%ntid.x", uniform((e) => e.getFixed("blockDimX"))],
    ["%ntid.y", uniform((e) => e.getFixed("blockDimY"))],
    ["%ntid.z", uniform((e) => e.getFixed("blockDimZ"))],
    ["%ctaid.x", uniform((e) => e.getFixed("blockX"))],
    ["%ctaid.y", uniform((e) => e.getFixed("blockY"))],
    ["%ctaid.z", uniform((e) => e.getFixed("blockZ"))],
    ["%nctaid.x", uniform((e) => e.getFixed("gridX"))],
    ["%nctaid.y", uniform((e) => e.getFixed("gridY"))],
    ["%nctaid.z", uniform((e) => e.getFixed("gridZ"))],
    // The `.w` component of each of these registers is 0.
    ...["%tid.w", "%ntid.w", "%ctaid.w", "%nctaid.w"].map((name): [string, SpecialRegister] => {
      return [name, register((e) => e.code.i32(0))];
    }),
    ["%laneid", counting(pushLane)],
    [
      "%warpid",
      uniform((e) => {
        pushThreadInBlock(e);
        e.code.i32(5).ops("i32ShrU");
      }),
    ],
    ["%nwarpid", uniform((e) => e.code.i32(maxThreadsPerMultiProcessor / warpSize))],
    [
      "%smid",
      uniform((e) => {
        e.getFixed("blockX");
        e.getFixed("multiprocessor").ops("i32Add").i32(multiProcessorCount).ops("i32RemU");
      }),
    ],
    ["%nsmid", uniform((e) => e.code.i32(multiProcessorCount))],
    ["%gridid", { bits: 64, push: (e) => e.code.i64(1n), stride: 0n }],
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
        // For lane 31, 2 << 31 is 0 modulo 2^32, so that the mask is all ones, as required.
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
    [
      "%total_smem_size",
      uniform((e) =>
        e.getFixed("sharedBytes").i32(sharedSpan.unit - 1).ops("i32Add").i32(-sharedSpan.unit).ops("i32And")
      ),
    ],
    ["%aggr_smem_size", uniform((e) => e.getFixed("sharedBytes").i32(sharedSpan.reserved).ops("i32Add"))],
    [
      "%dynamic_smem_size",
      uniform((e) => {
        e.getFixed("sharedBytes").i32(e.sizes.staticShared).ops("i32Sub");
      }),
    ],
    ...Array.from({ length: environmentRegisterCount }, (_, index): [string, SpecialRegister] => {
      return [`%envreg${index}`, environmentRegister(index)];
    }),
    reservedShared("begin", 0),
    reservedShared("end", sharedSpan.reserved),
    reservedShared("0", 0),
    reservedShared("1", libraryReservedOffset),
    [`${reservedSharedPrefix}cap`, uniform((e) => e.code.i32(sharedSpan.reserved))],
    ...(["X", "Y", "Z"] as const).flatMap((axis): [string, SpecialRegister][] => {
      const [block, grid, cluster] = [`block${axis}`, `grid${axis}`, `clusterDim${axis}`] as const;
      const divided = (e: FunctionEmitter, field: FixedLocal, operation: "i32RemU" | "i32DivU") => {
        e.getFixed(field);
        e.getFixed(cluster).ops(operation);
      };
      const name = axis.toLowerCase();
      return [
        [`%cluster_ctaid.${name}`, uniform((e) => divided(e, block, "i32RemU"))],
        [`%cluster_nctaid.${name}`, uniform((e) => e.getFixed(cluster))],
        [`%clusterid.${name}`, uniform((e) => divided(e, block, "i32DivU"))],
        [`%nclusterid.${name}`, uniform((e) => divided(e, grid, "i32DivU"))],
      ];
    }),
    ...["%cluster_ctaid.w", "%cluster_nctaid.w", "%clusterid.w", "%nclusterid.w"].map(
      (name): [string, SpecialRegister] => {
        return [name, register((e) => e.code.i32(0))];
      },
    ),
    [
      "%cluster_ctarank",
      uniform((e) => e.getFixed("clusterBase").i32(Math.log2(sharedSpan.byteLength)).ops("i32ShrU")),
    ],
    [
      "%cluster_nctarank",
      uniform((e) => {
        e.getFixed("clusterDimX");
        e.getFixed("clusterDimY").ops("i32Mul");
        e.getFixed("clusterDimZ").ops("i32Mul");
      }),
    ],
    ["%is_explicit_cluster", { bits: 1, push: (e) => e.getFixed("isCluster"), stride: 0n }],
    // There are no counters of performance, and no graphs that kernels launch.
    ...Array.from({ length: 8 }, (_, index): [string, SpecialRegister][] => [
      [`%pm${index}`, uniform((e) => e.code.i32(0))],
      [`%pm${index}_64`, wideZero],
    ]).flat(),
    ["%current_graph_exec", wideZero],
    ["WARP_SZ", uniform((e) => e.code.i32(warpSize))],
  ])
);

/** Returns the special register with the given name. Undefined if it is not supported. */
export function specialRegister(name: string): SpecialRegister | undefined {
  return specialRegisters().get(name);
}

/** The differences between the values of special registers in the threads of a gang, which are adjacent along x. */
export const gangRules: UniformityRules = { strideOfSpecial: (name) => specialRegister(name)?.stride };

/** Whether an instruction reads the address of a cooperative launch's workspace, as `grid.sync()` does. */
export function findsWorkspace({ operands }: ResolvedInstruction): boolean {
  return operands.some((operand) => operand.kind === "special" && workspaceRegisters.has(operand.name));
}

/** Whether an instruction reads an address of the reserved shared memory. */
export function findsReservedShared({ operands }: ResolvedInstruction): boolean {
  return operands.some((operand) => operand.kind === "special" && operand.name.startsWith(reservedSharedPrefix));
}

/** Whether a name is the name of a special register or a predefined constant, supported or not. */
export function isSpecialRegister(name: string): boolean {
  return specialRegisters().has(name) ||
    /^%(tid|ntid|ctaid|nctaid|laneid|warpid|nwarpid|smid|nsmid|gridid|clock|globaltimer|lanemask|pm|envreg|dynamic|total|aggr|cluster|nclusterid|is_explicit|reserved|current)\w*(\.[xyzw])?$/
      .test(name);
}
