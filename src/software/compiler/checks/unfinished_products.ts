/**
 * Makes kernels report uses of the registers of asynchronous products that have not been awaited, for the check of
 * synchronization.
 *
 * A use is reported if the product is pending on all paths to it, so that no report is wrong. Moves are not uses: a
 * compiler moves the registers of a product from one instruction to the next, and `ptxas` removes the moves.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import type { CompiledStep, FlowBlock, FunctionFlow } from "../control_flow/function_flow.ts";
import { reversePostorder, successors } from "../../../ptx/analysis/control_flow_graph.ts";
import { registersOf, registersRead, resultsOf } from "../../../ptx/analysis/definitions_and_uses.ts";
import type { Register } from "../../../ptx/instructions/resolved_instruction.ts";

/**
 * The registers of pending products. Each has the number of groups that have been committed since the product was
 * started, including its own.
 */
type Pending = ReadonlyMap<Register, number>;

/** No wait leaves more groups pending. */
const mostGroups = 64;

/** Inserts calls of `device.mark` before the uses of registers of pending products. */
export function markUnfinishedProducts({ entry, suspendPoints }: FunctionFlow): void {
  const startsProducts = suspendPoints.some(({ instruction }) => instruction?.form.traits.products === "starts");
  if (!startsProducts) return;
  const blocks = reversePostorder(entry);
  const before = new Map<FlowBlock, Pending>([[entry, new Map()]]);
  for (let hasChanged = true; hasChanged;) {
    hasChanged = false;
    for (const block of blocks) {
      let pending = before.get(block);
      if (pending === undefined) continue;
      for (const { instruction } of block.instructions) {
        if (instruction !== undefined) pending = pendingAfter(instruction, pending);
      }
      for (const next of successors(block)) {
        const known = before.get(next);
        const met = known === undefined ? pending : meet(known, pending);
        if (known !== undefined && isSame(known, met)) continue;
        before.set(next, met);
        hasChanged = true;
      }
    }
  }
  for (const block of blocks) {
    let pending = before.get(block) ?? new Map();
    for (const step of block.instructions.splice(0)) {
      const { instruction } = step;
      if (instruction !== undefined) {
        if (usesPending(instruction, pending)) block.instructions.push(mark(instruction.line));
        pending = pendingAfter(instruction, pending);
      }
      block.instructions.push(step);
    }
  }
}

/** Returns a step that calls `device.mark` for a use, with the negative line. */
function mark(line: number): CompiledStep {
  return {
    instruction: undefined,
    emit(e) {
      e.code.i32(-line);
      e.pushThread();
      e.callHelper("mark");
    },
  };
}

function pendingAfter(instruction: CompiledInstruction, pending: Pending): Pending {
  const { form: { flow, traits }, operands, predicate } = instruction;
  if (flow === "call") return new Map();
  switch (traits.products) {
    case "starts":
      return predicate !== undefined
        ? pending
        : new Map([...pending, ...registersOf(operands[0]).map((register) => [register, 0] as const)]);
    case "commits":
      return new Map([...pending].map(([register, groups]) => [register, Math.min(groups + 1, mostGroups)]));
    case "awaits": {
      const left = operands[0]?.kind === "integer" ? Number(operands[0].value) : 0;
      return new Map([...pending].filter(([, groups]) => groups === 0 || groups <= left));
    }
  }
  const results = resultsOf(instruction);
  if (!results.some((register) => pending.has(register)) && traits.copies !== 1) return pending;
  const after = new Map(pending);
  const [source] = traits.copies === 1 ? registersOf(operands[1]) : [];
  const groups = source === undefined || predicate !== undefined ? undefined : pending.get(source);
  for (const register of results) {
    if (groups === undefined) after.delete(register);
    else after.set(register, groups);
  }
  return after;
}

/** Whether an instruction reads registers of pending products, other than to move them or to add further products. */
function usesPending(instruction: CompiledInstruction, pending: Pending): boolean {
  if (pending.size === 0) return false;
  const { form: { traits }, operands } = instruction;
  if (traits.copies === 1) return false;
  const read = traits.products === "starts" ? operands.slice(1).flatMap(registersOf) : registersRead(instruction);
  return read.some((register) => pending.has(register));
}

/** Returns the registers that are pending on both of two paths, as long as on either. */
function meet(a: Pending, b: Pending): Pending {
  return new Map(
    [...a].flatMap(([register, groups]) => {
      const others = b.get(register);
      return others === undefined ? [] : [[register, Math.max(groups, others)] as const];
    }),
  );
}

function isSame(a: Pending, b: Pending): boolean {
  return a.size === b.size && [...a].every(([register, groups]) => b.get(register) === groups);
}
