import { callTarget } from "./call_layout.ts";
import type { FunctionName } from "./names.ts";
import type { ResolvedFunction, ResolvedKernel } from "./resolver.ts";

/** The stack that a kernel and the functions that it calls need. */
export interface StackDepth {
  readonly byteLength: number;
  /** Whether functions may call themselves, so that the depth has no bound. */
  readonly isUnbounded: boolean;
}

/**
 * The maximum that a kernel and the functions that it calls need at once. `bytesOf` gives the bytes of each function.
 */
export function stackDepth(
  { kernel, callees }: ResolvedKernel,
  { bytesOf, addressed }: { bytesOf: (resolved: ResolvedFunction) => number; addressed: ReadonlySet<FunctionName> },
): StackDepth {
  const depths = new Map<ResolvedFunction, number>();
  const active = new Set<ResolvedFunction>();
  let isUnbounded = false;
  const enter = (resolved: ResolvedFunction) => ({ resolved, called: calleesOf(resolved, { callees, addressed }) });
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
      depths.set(resolved, bytesOf(resolved) + deepest);
    }
  }
  return { byteLength: depths.get(kernel)!, isUnbounded };
}

function calleesOf(
  { items }: ResolvedFunction,
  { callees, addressed }: { callees: ResolvedKernel["callees"]; addressed: ReadonlySet<FunctionName> },
): Set<ResolvedFunction> {
  const called = new Set<ResolvedFunction>();
  for (const item of items) {
    if (item.kind === "label" || item.form.flow !== "call") continue;
    const target = callTarget(item);
    for (const name of target.kind === "function" ? [target] : addressed) {
      const callee = callees.get(name);
      if (callee !== undefined) called.add(callee);
    }
  }
  return called;
}
