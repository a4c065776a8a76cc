import { callTarget } from "./call_layout.ts";
import type { FunctionName } from "../../../ptx/instructions/resolved_instruction.ts";
import type { ResolvedFunction, ResolvedKernel } from "./resolver.ts";

/** The stack that a kernel and the functions that it calls need. */
export interface StackDepth {
  readonly byteLength: number;
  /** Whether functions may call themselves, so that the depth has no bound. */
  readonly isUnbounded: boolean;
}

/** What calls by address call: it calls all functions whose address is taken, so that these are listed once. */
const anyAddressed = "any addressed function";
type Callee = ResolvedFunction | typeof anyAddressed;

/**
 * The maximum that a kernel and the functions that it calls need at once. `bytesOf` gives the bytes of each function.
 */
export function stackDepth(
  { kernel, callees }: ResolvedKernel,
  { bytesOf, addressed }: { bytesOf: (resolved: ResolvedFunction) => number; addressed: ReadonlySet<FunctionName> },
): StackDepth {
  const depths = new Map<Callee, number>();
  const active = new Set<Callee>();
  let isUnbounded = false;
  const enter = (resolved: Callee) => ({ resolved, called: calleesOf(resolved, { callees, addressed }) });
  // Iterative, because a chain of calls may be as long as a module has functions.
  const path = [enter(kernel)];
  for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
    const { resolved, called } = top;
    if (!depths.has(resolved) && !active.has(resolved)) {
      active.add(resolved);
      for (const callee of called) {
        if (active.has(callee)) isUnbounded = true;
        else if (!depths.has(callee)) path.push(enter(callee));
      }
    } else {
      path.pop();
      if (!active.delete(resolved)) continue;
      let deepest = 0;
      for (const callee of called) deepest = Math.max(deepest, depths.get(callee) ?? 0);
      depths.set(resolved, (resolved === anyAddressed ? 0 : bytesOf(resolved)) + deepest);
    }
  }
  return { byteLength: depths.get(kernel)!, isUnbounded };
}

function calleesOf(
  caller: Callee,
  { callees, addressed }: { callees: ResolvedKernel["callees"]; addressed: ReadonlySet<FunctionName> },
): Set<Callee> {
  const called = new Set<Callee>();
  const add = (name: FunctionName) => {
    const callee = callees.get(name);
    if (callee !== undefined) called.add(callee);
  };
  if (caller === anyAddressed) {
    addressed.forEach(add);
    return called;
  }
  for (const item of caller.items) {
    if (item.kind === "label" || item.form.flow !== "call") continue;
    const target = callTarget(item);
    if (target.kind === "function") add(target);
    else called.add(anyAddressed);
  }
  return called;
}
