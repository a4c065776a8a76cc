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
  const depthOf = (typed: TypedFunction): number => {
    const known = depths.get(typed);
    if (known !== undefined) return known;
    if (active.has(typed)) {
      isUnbounded = true;
      return 0;
    }
    active.add(typed);
    let deepest = 0;
    for (const callee of calleesOf(typed, { callees, addressed })) deepest = Math.max(deepest, depthOf(callee));
    active.delete(typed);
    const depth = bytesOf(typed) + deepest;
    depths.set(typed, depth);
    return depth;
  };
  return {
    byteLength: depthOf(kernel),
    get isUnbounded() {
      return isUnbounded;
    },
  };
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
