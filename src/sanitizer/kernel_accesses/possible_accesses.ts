/**
 * What a launch may access besides what is known for sure.
 *
 * @module
 */
import type { PtxModule } from "../../ptx/syntax.ts";
import type { PossibleAccess } from "../order/stream_order.ts";
import { registersIn, rootsOf } from "./code_analysis.ts";
import type { Step } from "./kernel_code.ts";
import type { PreparedCode } from "./thread_state.ts";
import { parameterBits } from "./launch_run.ts";
import { accessOf } from "./memory_step.ts";

/** Where each instruction's address may come from, by the code. */
const rootsOfCode = new WeakMap<PreparedCode, readonly ReadonlySet<number>[]>();

/** What some instructions may access. Arguments that are numbers are among the addresses: no memory has them. */
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
