import { callTarget } from "./call_layout.ts";
import type { FunctionName } from "./names.ts";
import type { ResolvedFunction, ResolvedKernel } from "./resolver.ts";

/** What the functions of a kernel may need together while they run, in bytes. */
export interface StackDepth {
  readonly byteLength: number;
  /** Whether the functions may call themselves, so that nothing tells how much they need. */
  readonly isUnbounded: boolean;
}

/** The most that a kernel and the functions that it calls need at once, each as much as `bytesOf` tells. */
export function stackDepth(
  { kernel, callees }: ResolvedKernel,
  { bytesOf, addressed }: { bytesOf: (resolved: ResolvedFunction) => number; addressed: ReadonlySet<FunctionName> },
): StackDepth {
  const depths = new Map<ResolvedFunction, number>();
  const active = new Set<ResolvedFunction>();
  let isUnbounded = false;
  const enter = (resolved: ResolvedFunction) => ({ resolved, called: calleesOf(resolved, { callees, addressed }) });
  // No recursion: calls may go through as many functions as a module has.
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
