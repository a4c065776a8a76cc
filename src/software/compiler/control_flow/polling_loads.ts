/**
 * Finds the volatile loads that poll, which means that the loaded value decides whether a loop exits. Such a load is
 * meant to run concurrently with the stores of other threads, so the check `race` does not report those stores as
 * conflicts.
 *
 * @module
 */
import { postorder, predecessors, successors } from "../../../ptx/analysis/control_flow_graph.ts";
import { registersOfInstruction, registersRead, registersSet } from "../../../ptx/analysis/definitions_and_uses.ts";
import type { Register, ResolvedInstruction, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import type { AnalyzedFlow, FlowBlock, KernelFlows } from "./function_flow.ts";

/** The place of an instruction that sets a register: its basic block, and its index among the block's instructions. */
interface Definition {
  readonly block: FlowBlock;
  readonly index: number;
}

/** A register that is read after the first `index` instructions of a basic block. */
interface Use extends Definition {
  readonly register: Register;
}

/**
 * Finds the volatile loads that poll, in a kernel and in the functions that it calls. A load polls if the exit
 * condition of a loop depends on the loaded value, directly or through computations. Loops that contain a block barrier
 * are ignored, because the barrier can order the threads.
 *
 * In functions that may be called in a loop, a load also polls if the function returns a value that depends on it.
 * Other volatile loads from the same address count as well, because compilers may peel the first iteration of a loop.
 */
export function findPollingLoads(flows: KernelFlows): ReadonlySet<ResolvedInstruction> {
  const found = new Set<ResolvedInstruction>();
  const areCalledInLoops = [...flows.values()].some(callsInLoop);
  for (const flow of flows.values()) {
    const { analysis, function: { call } } = flow;
    const loads = analysis.instructions.filter(isVolatileLoad);
    if (loads.length === 0) continue;
    const polling = new Set<ResolvedInstruction>();
    const controllers = controllersOf(flow);
    for (const body of loopBodies(flow)) {
      if (body.some(hasBarrier)) continue;
      const inside = new Set(body);
      const exits = body.filter((block) => successors(block).some((successor) => !inside.has(successor)));
      addDeciding(polling, body, { deciding: exits.flatMap(usesOfTerminator), controllers });
    }
    if (call !== undefined && areCalledInLoops) {
      const results = new Set(call.results.map(({ name }) => name));
      const deciding = analysis.blocks.flatMap((block) =>
        instructionsIn([block]).flatMap((instruction, index) =>
          storesTo(instruction, results)
            ? registersRead(instruction).map((register) => ({ register, block, index }))
            : []
        )
      );
      addDeciding(polling, analysis.blocks, { deciding, controllers });
    }
    for (const load of loads) {
      const isPeeled = () => [...polling].some(({ operands }) => isSameAddress(load.operands[1], operands[1]));
      if (polling.has(load) || isPeeled()) found.add(load);
    }
  }
  return found;
}

function isVolatileLoad({ form: { traits } }: ResolvedInstruction): boolean {
  return traits.isVolatile === true && traits.access === "read";
}

function callsInLoop({ analysis }: AnalyzedFlow): boolean {
  return analysis.loops.some(({ body }) => instructionsIn(body).some(({ form }) => form.flow === "call"));
}

/**
 * Returns the blocks of each loop. If several back edges lead to the same header, also returns the blocks of each back
 * edge's natural loop, because nested loops may share a header.
 */
function loopBodies({ analysis: { blocks, loops } }: AnalyzedFlow): (readonly FlowBlock[])[] {
  const before = predecessors(blocks, successors);
  return loops.flatMap(({ header, latches, body }) => {
    if (latches.length === 1) return [body];
    const parts = latches.map((latch) => postorder([latch], (block) => block === header ? [] : before.get(block)!));
    return [body, ...parts];
  });
}

function hasBarrier(block: FlowBlock): boolean {
  return instructionsIn([block]).some(({ form: { traits: { synchronization } } }) =>
    synchronization === "block" || synchronization === "threads"
  );
}

function instructionsIn(blocks: readonly FlowBlock[]): ResolvedInstruction[] {
  return blocks.flatMap(({ instructions }) =>
    instructions.flatMap(({ instruction }) => instruction === undefined ? [] : [instruction])
  );
}

/** Returns the registers on which the target of a block's terminator depends. */
function usesOfTerminator(block: FlowBlock): Use[] {
  const { terminator } = block;
  if (terminator.kind !== "branch" && terminator.kind !== "switch") return [];
  const instruction = "instruction" in terminator.on ? terminator.on.instruction : undefined;
  if (instruction === undefined) return [];
  return registersOfInstruction(instruction).map((register) => ({ register, block, index: Infinity }));
}

function storesTo({ form, operands: [address] }: ResolvedInstruction, names: ReadonlySet<string>): boolean {
  return form.traits.access === "write" && address?.kind === "address" && address.base?.kind === "variable" &&
    address.base.space === "param" && names.has(address.base.name);
}

function isSameAddress(a: ResolvedOperand | undefined, b: ResolvedOperand | undefined): boolean {
  return a?.kind === "address" && b?.kind === "address" && a.base === b.base && a.offset === b.offset;
}

/**
 * Maps each block to the blocks on whose branches it is control-dependent: one direction of the branch always leads to
 * the block, and another may not.
 */
function controllersOf({ analysis: { blocks, postDominators } }: AnalyzedFlow): Map<FlowBlock, FlowBlock[]> {
  const controllers = new Map<FlowBlock, FlowBlock[]>(blocks.map((block) => [block, []]));
  for (const block of blocks) {
    const next = successors(block);
    if (next.length < 2) continue;
    const end = postDominators.get(block);
    for (const successor of next) {
      let dependent: FlowBlock | undefined = successor;
      while (dependent !== undefined && dependent !== end) {
        controllers.get(dependent)!.push(block);
        dependent = postDominators.get(dependent);
      }
    }
  }
  return controllers;
}

/**
 * Adds the volatile loads in `blocks` on which the values of the registers `deciding` depend: through other registers,
 * through memory at the same address, or through branches.
 */
function addDeciding(
  found: Set<ResolvedInstruction>,
  blocks: readonly FlowBlock[],
  { deciding, controllers }: {
    readonly deciding: readonly Use[];
    readonly controllers: ReadonlyMap<FlowBlock, readonly FlowBlock[]>;
  },
): void {
  const instructions = new Map(blocks.map((block) => [block, instructionsIn([block])]));
  const definitions = new Map<Register, Definition[]>();
  const stores: Definition[] = [];
  for (const [block, all] of instructions) {
    all.forEach((instruction, index) => {
      if (instruction.form.traits.access === "write") stores.push({ block, index });
      for (const register of registersSet(instruction)) {
        const others = definitions.get(register);
        if (others === undefined) definitions.set(register, [{ block, index }]);
        else others.push({ block, index });
      }
    });
  }
  const uses = [...deciding];
  const visited = new Set<ResolvedInstruction>();
  const visit = ({ block, index }: Definition) => {
    const instruction = instructions.get(block)![index]!;
    if (visited.has(instruction)) return;
    visited.add(instruction);
    if (isVolatileLoad(instruction)) found.add(instruction);
    else {
      for (const register of registersRead(instruction)) uses.push({ register, block, index });
      // Unoptimized code keeps variables in memory.
      if (instruction.form.traits.access === "read") {
        const [, from] = instruction.operands;
        for (const store of stores) {
          if (isSameAddress(from, instructions.get(store.block)![store.index]!.operands[0])) visit(store);
        }
      }
    }
    if (instruction.predicate !== undefined) uses.push({ register: instruction.predicate.register, block, index });
    for (const controller of controllers.get(block)!) {
      if (instructions.has(controller)) uses.push(...usesOfTerminator(controller));
    }
  };
  const anywhere = new Set<Register>();
  for (let use = uses.pop(); use !== undefined; use = uses.pop()) {
    const { register, block } = use;
    const before = (definitions.get(register) ?? []).filter((other) =>
      other.block === block && other.index < use.index
    );
    const last = before.findLast(({ index }) => instructions.get(block)![index]!.predicate === undefined);
    for (const definition of before) if (last === undefined || definition.index >= last.index) visit(definition);
    if (last !== undefined || anywhere.has(register)) continue;
    anywhere.add(register);
    definitions.get(register)?.forEach(visit);
  }
}
