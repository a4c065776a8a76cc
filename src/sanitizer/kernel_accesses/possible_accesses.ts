/**
 * Finds the possible accesses of a launch: those of instructions whose addresses are unknown.
 *
 * @module
 */
import { registersIn, registersSet } from "../../ptx/analysis/definitions_and_uses.ts";
import {
  type Register,
  type ResolvedInstruction,
  type ResolvedOperand,
  spaceOf,
} from "../../ptx/instructions/resolved_instruction.ts";
import type { PtxModule } from "../../ptx/syntax.ts";
import type { PossibleAccess } from "../order/stream_order.ts";
import type { KernelCode } from "./kernel_code.ts";
import { accessOf, type PreparedCode } from "./thread_state.ts";
import { parameterBits } from "./launch_run.ts";

/** For each register, the offsets of the parameters from which the register's value may be computed. */
type ParameterRoots = ReadonlyMap<Register, ReadonlySet<number>>;

/** The results of `rootsOf`, cached for each kernel. */
const rootsOfCode = new WeakMap<PreparedCode, ParameterRoots>();

/**
 * Returns possible accesses for instructions with unknown accesses: one for each argument from which the address may be
 * computed. Includes numeric arguments, which are harmless, because no allocation contains such an address.
 */
export function possibleAccesses(
  instructions: readonly ResolvedInstruction[],
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
    for (const register of registersIn(operands)) {
      for (const offset of roots.get(register) ?? []) {
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

/** Finds the parameters from which the values of a kernel's registers may be computed. */
function rootsOf({ analysis, bases, registers }: KernelCode): ParameterRoots {
  const roots = new Map([...registers.keys()].map((register) => [register, new Set<number>()]));
  const rootsIn = (operand: ResolvedOperand): Iterable<number> => {
    const [named, offset] = operand.kind === "address" ? [operand.base, operand.offset] : [operand, 0n];
    // A variable without a base is a parameter.
    if (named?.kind === "variable") return bases.has(named) ? [] : [named.offset + Number(offset)];
    return registersIn([operand]).flatMap((register) => [...roots.get(register)!]);
  };
  for (let changes = true; changes;) {
    changes = false;
    for (const instruction of analysis.instructions) {
      // Skip loads from memory: the parameters from which a loaded value was computed are unknown.
      if (instruction.form.traits.access === "read" && spaceOf(instruction) !== "param") continue;
      const found = instruction.operands.slice(1).flatMap((operand) => [...rootsIn(operand)]);
      for (const register of registersSet(instruction)) {
        const known = roots.get(register)!;
        for (const root of found) {
          if (known.has(root)) continue;
          known.add(root);
          changes = true;
        }
      }
    }
  }
  return roots;
}
