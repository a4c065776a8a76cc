/**
 * Finds the possible accesses of a launch: those of instructions whose addresses are unknown.
 *
 * @module
 */
import { type KernelCode, type Place, registersIn, type Step, written } from "./kernel_code.ts";
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
  steps: readonly Step[],
  { code, ptx }: { readonly code: PreparedCode; readonly ptx: PtxModule },
  parameters: DataView,
): PossibleAccess[] {
  let roots = rootsOfCode.get(code);
  if (roots === undefined) rootsOfCode.set(code, roots = rootsOf(code.code));
  const found = new Map<string, PossibleAccess>();
  for (const step of steps) {
    const known = accessOf(step);
    if (known === undefined) continue;
    const places = known === "unknown" ? step.operands : [known.address];
    const access = known === "unknown" ? "write" : known.access;
    for (const register of places.flatMap(registersIn)) {
      for (const offset of roots[register] ?? []) {
        const address = parameterBits(parameters, { offset, bits: 64 });
        if (address === undefined) continue;
        const source = ptx.lineInfo.sourceOf(step.line) ?? `PTX line ${step.line}`;
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
  const rootsIn = (place: Place): Iterable<number> =>
    place.kind === "parameter"
      ? [place.offset]
      : place.kind === "address" && place.base.kind === "parameter"
      ? [place.base.offset + place.offset]
      : registersIn(place).flatMap((register) => [...roots[register] ?? []]);
  for (let changes = true; changes;) {
    changes = false;
    for (const { steps } of blocks) {
      for (const step of steps) {
        // Skip loads from memory: the parameters from which a loaded value was computed are unknown.
        if (step.row?.traits.access === "read" && !step.modifiers.includes("param")) continue;
        const found = step.operands.slice(1).flatMap((place) => [...rootsIn(place)]);
        for (const register of written(step)) {
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
