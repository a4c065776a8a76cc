/**
 * Makes kernels report threads that skip a barrier at which others wait, for the check of synchronization.
 *
 * A thread skips a barrier if it takes a branch that decides whether the barrier is reached, and arrives at the
 * branch's reconvergence point without having waited. If the paths of the branch reconverge only at the end of the
 * function, as after `if (i >= n) return;`, its threads return early, which is not reported.
 *
 * @module
 */
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import { immediatePostDominators, postorder, successors } from "../../../ptx/analysis/control_flow_graph.ts";
import type { CompiledStep, FlowBlock, FunctionFlow } from "../control_flow/function_flow.ts";
import { barrierMarks } from "../../abi/launch_record.ts";

/** The maximum number of calls of `device.mark` in a kernel. Barriers beyond this limit are not marked. */
const mostMarks = 4096;

/**
 * Inserts calls of `device.mark` at the barriers of a function, at the branches that decide whether a barrier is
 * reached, and where the paths of these branches reconverge.
 *
 * @param first the number of the function's first barrier
 * @returns the number of barriers that were marked
 */
export function markBarriers(flow: FunctionFlow, first: number): number {
  const barriers = flow.suspendPoints.filter(({ request }) => {
    return request?.kind === "barrier" && request.operation !== "arrive" && request.isAligned;
  });
  if (barriers.length === 0) return 0;
  const { branchesOf, meetingOf } = controlDependences(flow);
  let number = first, marks = 0;
  for (const { suspendBlock } of barriers) {
    const detours = [...branchesOf(suspendBlock)].flatMap((branch) => {
      const meeting = meetingOf(branch);
      return meeting === undefined ? [] : [{ branch, meeting }];
    });
    marks += 2 * detours.length + 1;
    if (detours.length === 0 || marks > mostMarks) continue;
    for (const { branch } of detours) branch.instructions.push(mark(number, barrierMarks.branch));
    for (const meeting of new Set(detours.map(({ meeting }) => meeting))) {
      meeting.line ??= meeting.instructions[0]?.instruction?.line;
      meeting.instructions.unshift(mark(number, barrierMarks.meeting));
    }
    suspendBlock.instructions.push(mark(number, barrierMarks.barrier));
    number++;
  }
  return number - first;
}

/** Returns a step that calls `device.mark` for a barrier. */
function mark(number: number, kind: number): CompiledStep {
  return {
    instruction: undefined,
    emit(e: FunctionEmitter) {
      e.code.i32(number * barrierMarks.count + kind);
      e.pushThread();
      e.callHelper("mark");
    },
  };
}

interface ControlDependences {
  /** Returns the branches on which a basic block is control-dependent, directly or transitively. */
  branchesOf(block: FlowBlock): ReadonlySet<FlowBlock>;
  /**
   * Returns the basic block at which the paths of a branch reconverge. Undefined if the paths reconverge only at the
   * end of the function.
   */
  meetingOf(branch: FlowBlock): FlowBlock | undefined;
}

function controlDependences({ entry }: FunctionFlow): ControlDependences {
  const blocks = postorder([entry], successors);
  const number = new Map(blocks.map((block, index) => [block, index]));
  const meetings = immediatePostDominators(blocks.map((block) => successors(block).map((next) => number.get(next)!)));
  const after = (block: FlowBlock): FlowBlock | undefined => blocks[meetings[number.get(block)!] ?? blocks.length];
  const direct = new Map<FlowBlock, Set<FlowBlock>>();
  for (const branch of blocks) {
    if (successors(branch).length < 2) continue;
    const end = after(branch);
    for (let block of successors(branch)) {
      for (let steps = 0; block !== end && steps < blocks.length; steps++) {
        const branches = direct.get(block) ?? new Set();
        direct.set(block, branches.add(branch));
        const next = after(block);
        if (next === undefined) break;
        block = next;
      }
    }
  }
  return {
    branchesOf(block) {
      const found = new Set<FlowBlock>();
      const pending = [block];
      for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
        for (const branch of direct.get(at) ?? []) {
          if (found.has(branch)) continue;
          found.add(branch);
          pending.push(branch);
        }
      }
      return found;
    },
    meetingOf(branch) {
      let block = after(branch);
      // Skip empty blocks: if only empty blocks remain, this is the end of the function.
      while (block !== undefined && block.instructions.length === 0 && successors(block).length === 1) {
        block = successors(block)[0];
      }
      return block === undefined || block.instructions.length === 0 && successors(block).length === 0
        ? undefined
        : after(branch);
    },
  };
}
