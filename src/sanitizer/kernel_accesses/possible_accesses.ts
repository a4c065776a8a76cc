/**
 * Finds the possible accesses of a launch: those of instructions whose addresses are unknown.
 *
 * @module
 */
import {
  type CodeInstruction,
  type CodeOperand,
  type KernelCode,
  registersIn,
  writtenRegisters,
} from "./kernel_code.ts";
import type { PtxModule } from "../../ptx/syntax.ts";
import type { PossibleAccess } from "../order/stream_order.ts";
import { accessOf, type PreparedCode } from "./thread_state.ts";
import { parameterBits } from "./launch_run.ts";

/** The results of `rootsOf`, cached for each kernel. */
const rootsOfCode = new WeakMap<PreparedCode, readonly ReadonlySet<number>[]>();

/**
 * Returns possible accesses for instructions with unknown accesses: one for each argument from which the address may be
 * computed. Includes numeric arguments, which are harmless, because no allocation contains such an address.
 */
export function possibleAccesses(
  instructions: readonly CodeInstruction[],
  { code, ptx }: { readonly code: PreparedCode; readonly ptx: PtxModule },
  parameters: DataView,
): PossibleAccess[] {
  let roots = rootsOfCode.get(code);
  if (roots === undefined) rootsOfCode.set(code, roots = rootsOf(code.code));
  const found = new Map<string, PossibleAccess>();
  for (const instruction of instructions) {
    const known = accessOf(instruction);
    if (known === undefined) continue;
    const operands = known === "unknown" ? instruction.operands : [known.address];
    const access = known === "unknown" ? "write" : known.access;
    for (const register of operands.flatMap(registersIn)) {
      for (const offset of roots[register] ?? []) {
        const address = parameterBits(parameters, { offset, bits: 64 });
        if (address === undefined) continue;
        const source = ptx.lineInfo.sourceOf(instruction.line) ?? `PTX line ${instruction.line}`;
        const key = `${address} ${access}`;
        if (!found.has(key)) found.set(key, { address: Number(address), access, source });
      }
    }
  }
  return [...found.values()];
}

/** Returns, for each register, the offsets of the parameters from which the register's value may be computed. */
function rootsOf({ blocks, registerBits }: KernelCode): ReadonlySet<number>[] {
  const roots: Set<number>[] = registerBits.map(() => new Set());
  const rootsIn = (operand: CodeOperand): Iterable<number> =>
    operand.kind === "parameter"
      ? [operand.offset]
      : operand.kind === "address" && operand.base.kind === "parameter"
      ? [operand.base.offset + operand.offset]
      : registersIn(operand).flatMap((register) => [...roots[register] ?? []]);
  for (let changes = true; changes;) {
    changes = false;
    for (const { instructions } of blocks) {
      for (const instruction of instructions) {
        // Skip loads from memory: the parameters from which a loaded value was computed are unknown.
        if (instruction.row?.traits.access === "read" && !instruction.modifiers.includes("param")) continue;
        const found = instruction.operands.slice(1).flatMap((operand) => [...rootsIn(operand)]);
        for (const register of writtenRegisters(instruction)) {
          const known = roots[register];
          for (const root of found) {
            if (known === undefined || known.has(root)) continue;
            known.add(root);
            changes = true;
          }
        }
      }
    }
  }
  return roots;
}
