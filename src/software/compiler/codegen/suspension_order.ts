/**
 * Adds lockstep points to a function's control flow, and orders the suspend points, so that diverged lanes reconverge.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import {
  blockBefore,
  type FlowBlock,
  type FunctionFlow,
  splitBefore,
  type SuspendPoint,
} from "../control_flow/function_flow.ts";
import {
  type BasicBlock,
  type Loop,
  loopsOf,
  postorder,
  predecessors,
  redirect,
  reversePostorder,
  successors,
} from "../../../ptx/analysis/control_flow_graph.ts";
import { lineOf } from "./block_code.ts";
import { spinningBlocks } from "../control_flow/spin_loops.ts";
import { callTarget } from "../typing/call_layout.ts";
import type { FunctionName } from "../../../ptx/instructions/resolved_instruction.ts";
import type { ResolvedFunction, ResolvedKernel } from "../typing/resolver.ts";

/**
 * Returns the uneven functions: functions in which lanes may pass different numbers of lockstep points, so that lanes
 * that are in step on entry may be out of step on return.
 */
export function unevenFunctions(
  flows: ReadonlyMap<ResolvedFunction, FunctionFlow>,
  points: ReadonlySet<CompiledInstruction>,
  { callees, addressed }: { callees: ResolvedKernel["callees"]; addressed: ReadonlySet<FunctionName> },
): ReadonlySet<ResolvedFunction> {
  const found = new Set<ResolvedFunction>();
  if (points.size === 0) return found;
  const callers = new Map<ResolvedFunction, Set<ResolvedFunction>>();
  /** The functions that make indirect calls. */
  const callingAny = new Set<ResolvedFunction>();
  for (const [function_, { entry, suspendPoints }] of flows) {
    for (const { instruction } of suspendPoints) {
      if (instruction?.form.flow !== "call") continue;
      const target = callTarget(instruction);
      const callee = target.kind === "function" ? callees.get(target) : undefined;
      if (target.kind !== "function") callingAny.add(function_);
      if (callee !== undefined) callers.set(callee, (callers.get(callee) ?? new Set()).add(function_));
    }
    const blocks = reversePostorder(entry);
    const counts = new Map(blocks.map((block) => {
      return [block, block.instructions.filter(({ instruction }) => points.has(instruction!)).length];
    }));
    if (blocks.every((block) => counts.get(block) === 0)) continue;
    if (!areEven(blocks, counts)) found.add(function_);
  }
  // A caller of an uneven function is uneven, too. Iterating a set includes elements that are added during the
  // iteration.
  const called = new Set([...addressed].map((name) => callees.get(name)));
  for (const function_ of found) {
    for (const caller of callers.get(function_) ?? []) found.add(caller);
    if (!called.has(function_)) continue;
    for (const caller of callingAny) found.add(caller);
    callingAny.clear();
  }
  return found;
}

/** Whether all paths through a function have the same sum of `counts`. `blocks` are in reverse postorder. */
function areEven(blocks: readonly FlowBlock[], counts: ReadonlyMap<FlowBlock, number>): boolean {
  const before = new Map<FlowBlock, number>([[blocks[0]!, 0]]);
  const ends = new Set<number>();
  for (const block of blocks) {
    const after = before.get(block)! + counts.get(block)!;
    const next = successors(block);
    if (next.length === 0) ends.add(after);
    for (const to of next) {
      // On a back edge, the sum after the loop body differs from the sum before the header if the loop contains a
      // counted block.
      if ((before.get(to) ?? after) !== after) return false;
      before.set(to, after);
    }
  }
  return ends.size <= 1;
}

/**
 * Adds suspend points where threads wait for the other lanes of their warp, one before each of the given instructions.
 * If a loop iteration can skip one of these instructions or a call, threads also wait before each iteration, so that no
 * lane gets an iteration ahead of the others.
 *
 * @param options `isCalledWhereThreadsSpin`: whether the function may be called in a loop that may spin, which makes
 * the whole function body part of the loop; `isUneven`: whether lanes may be out of step after a call
 */
export function addLockstepPoints(
  flow: FunctionFlow,
  points: ReadonlySet<CompiledInstruction>,
  { isCalledWhereThreadsSpin, isUneven }: {
    readonly isCalledWhereThreadsSpin: boolean;
    readonly isUneven: (call: CompiledInstruction) => boolean;
  },
): void {
  if (points.size === 0) return;
  const splits = splitBefore(flow, points);
  const blocksOf = (isMeant: (point: SuspendPoint) => boolean) => {
    return new Set(flow.suspendPoints.filter(isMeant).map(({ suspendBlock }) => suspendBlock));
  };
  const gathering = blocksOf(({ request }) => request === undefined);
  const barriers = blocksOf(({ instruction }) => instruction?.form.suspending?.gathersWarp?.(instruction) === true);
  const uneven = blocksOf(({ instruction }) => instruction?.form.flow === "call" && isUneven(instruction));
  if (splits.size === 0 && gathering.size === 0) return;
  const loops = loopsOf(flow.entry, successors);
  const yielding = blocksOf(({ request }) => request?.kind === "yield");
  const spinning = new Set([
    ...spinningBlocks(flow.entry),
    ...loops.filter(({ body }) => body.some((block) => yielding.has(block))).flatMap(({ body }) => body),
  ]);
  const wait = (line: number, { suspendBlock, resumeBlock, spins }: {
    readonly suspendBlock: FlowBlock;
    readonly resumeBlock: FlowBlock;
    readonly spins: boolean;
  }) => {
    const request = { kind: "lockstep", spins: isCalledWhereThreadsSpin || spins } as const;
    flow.suspendPoints.push({ request, instruction: undefined, line, suspendBlock, resumeBlock });
    gathering.add(suspendBlock);
  };
  // The second block of a split has only one predecessor, so the two blocks can serve as suspend block and resume
  // block.
  for (const [{ line }, { before, block }] of splits) {
    wait(line, { suspendBlock: before, resumeBlock: block, spins: spinning.has(block) });
  }
  for (const loop of loopsOf(flow.entry, successors)) {
    // If every path around the loop contains a barrier for the whole warp, no lane gets an iteration ahead of the
    // others.
    const gathered = waysAround(loop, barriers);
    const { total, fewest } = waysAround(loop, gathering);
    const isEven = fewest === total && !loop.body.some((block) => uneven.has(block));
    if (isEven || gathered.fewest > 0) continue;
    const line = lineOf(loop.header) ?? loop.latches.map(lineOf).find((line) => line !== undefined) ?? 0;
    const resumeBlock = blockBefore(loop.header);
    const again = blockBefore(resumeBlock);
    wait(line, { suspendBlock: again, resumeBlock, spins: spinning.has(loop.header) });
    for (const latch of loop.latches) redirect(latch, { target: loop.header, replacement: again });
  }
}

/** Whether a function makes calls in a loop that may spin. */
export function callsWhereThreadsSpin({ entry, suspendPoints }: FunctionFlow): boolean {
  const calling = suspendPoints.filter(({ request }) => request === undefined);
  if (calling.length === 0) return false;
  const spinning = spinningBlocks(entry);
  return calling.some(({ suspendBlock }) => spinning.has(suspendBlock));
}

/**
 * Returns how many of the given basic blocks are in a loop (`total`), and the minimum number of them on any path
 * through one iteration of the loop (`fewest`).
 */
function waysAround(
  { header, latches, body }: Loop<FlowBlock>,
  blocks: ReadonlySet<FlowBlock>,
): { readonly total: number; readonly fewest: number } {
  const count = (block: FlowBlock) => Number(blocks.has(block));
  const total = body.reduce((total, block) => total + count(block), 0);
  if (total === 0) return { total, fewest: 0 };
  const inside = new Set(body);
  const next = (block: FlowBlock) => successors(block).filter((to) => inside.has(to) && to !== header);
  const fewest = new Map<FlowBlock, number>([[header, count(header)]]);
  for (const block of postorder([header], next).reverse()) {
    for (const to of next(block)) {
      fewest.set(to, Math.min(fewest.get(to) ?? Infinity, fewest.get(block)! + count(to)));
    }
  }
  return { total, fewest: Math.min(...latches.map((latch) => fewest.get(latch)!)) };
}

/**
 * Numbers the basic blocks that end with suspensions and calls, in program order within each function. Among the lanes
 * of a warp, the lanes at the lowest-numbered block resume first, so that diverged lanes reconverge.
 */
export function orderOfSuspensions(flows: readonly FunctionFlow[]): ReadonlyMap<FlowBlock, number> {
  const order = new Map<FlowBlock, number>();
  const isNeeded = flows.some(({ suspendPoints }) => suspendPoints.some(({ request }) => request?.kind === "lockstep"));
  for (const flow of isNeeded ? flows : []) {
    const places = programOrder(flow.entry);
    for (const { suspendBlock } of flow.suspendPoints) order.set(suspendBlock, places.get(suspendBlock) ?? 0);
  }
  return order;
}

/**
 * Numbers the basic blocks of a graph so that diverged threads reconverge if the threads at the lowest-numbered block
 * run first: a block precedes its successors, and a loop's blocks precede those after the loop.
 */
export function programOrder<I>(entry: BasicBlock<I>): ReadonlyMap<BasicBlock<I>, number> {
  const order = new Map<BasicBlock<I>, number>();
  const all = postorder([entry], successors);
  const before = predecessors(all, successors);
  /** A stack of the blocks and regions still to be numbered; the next one is on top. */
  const regions: (BasicBlock<I> | { readonly region: readonly BasicBlock<I>[]; readonly roots: BasicBlock<I>[] })[] = [
    { region: all, roots: [entry] },
  ];
  for (let next = regions.pop(); next !== undefined; next = regions.pop()) {
    if (!("region" in next)) {
      order.set(next, order.size);
      continue;
    }
    const { region, roots } = next;
    const headers = new Set(roots);
    const inside = new Set(region);
    // Ignoring the edges back to the headers leaves only the cycles of inner loops.
    const follow = (block: BasicBlock<I>) => successors(block).filter((to) => inside.has(to) && !headers.has(to));
    const unassigned = new Set(region);
    const parts: (typeof regions)[number][] = [];
    for (const root of postorder(roots, follow).reverse()) {
      if (!unassigned.has(root)) continue;
      const component = headers.has(root)
        ? [root]
        : postorder([root], (block) => [...before.get(block)!].filter((from) => unassigned.has(from)));
      for (const block of component) unassigned.delete(block);
      if (component.length === 1) parts.push(root);
      else parts.push({ region: component, roots: [root] });
    }
    for (const part of parts.reverse()) regions.push(part);
  }
  return order;
}
