import { callTarget } from "./call_layout.ts";
import type { FunctionName } from "./names.ts";
import type { TypedFunction, TypedKernel } from "./typed_body.ts";

/** What the functions of a kernel may need together while they run, in bytes. */
export interface StackDepth {
  readonly byteLength: number;
  /** Whether the functions may call themselves, so that nothing tells how much they need. */
  readonly isUnbounded: boolean;
}

/** The most that a kernel and the functions that it calls need at once, each as much as `bytesOf` tells. */
export function stackDepth(
  { kernel, callees }: TypedKernel,
  { bytesOf, addressed }: { bytesOf: (typed: TypedFunction) => number; addressed: ReadonlySet<FunctionName> },
): StackDepth {
  const depths = new Map<TypedFunction, number>();
  const active = new Set<TypedFunction>();
  let isUnbounded = false;
  const enter = (typed: TypedFunction) => ({ typed, called: calleesOf(typed, { callees, addressed }) });
  // No recursion: calls may go through as many functions as a module has.
  const path = [enter(kernel)];
  for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
    const { typed, called } = top;
    if (!depths.has(typed) && !active.has(typed)) {
      active.add(typed);
      for (const callee of called) {
        if (active.has(callee)) isUnbounded = true;
        else if (!depths.has(callee)) path.push(enter(callee));
      }
    } else {
      path.pop();
      if (!active.delete(typed)) continue;
      let deepest = 0;
      for (const callee of called) deepest = Math.max(deepest, depths.get(callee) ?? 0);
      depths.set(typed, bytesOf(typed) + deepest);
    }
  }
  return { byteLength: depths.get(kernel)!, isUnbounded };
}

function calleesOf(
  { items }: TypedFunction,
  { callees, addressed }: { callees: TypedKernel["callees"]; addressed: ReadonlySet<FunctionName> },
): Set<TypedFunction> {
  const called = new Set<TypedFunction>();
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
