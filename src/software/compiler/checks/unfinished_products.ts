/**
 * Makes kernels report uses of the registers of asynchronous products that have not been awaited, and products whose
 * registers were written without a fence, for the check of synchronization.
 *
 * A use is reported if it is wrong on all paths to it, so that no report is wrong. Moves are not uses: a compiler moves
 * the registers of a product from one instruction to the next, and `ptxas` removes the moves.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import type { CompiledStep, FlowBlock, FunctionFlow } from "../control_flow/function_flow.ts";
import { encodeProductMark, type ProductMistake } from "../../abi/launch_record.ts";
import { reversePostorder, successors } from "../../../ptx/analysis/control_flow_graph.ts";
import { registersOf, registersRead, resultsOf } from "../../../ptx/analysis/definitions_and_uses.ts";
import type { Register } from "../../../ptx/instructions/resolved_instruction.ts";

/**
 * Registers of pending products. Each has the number of groups that have been committed since the product was started,
 * including its own.
 */
type Pending = ReadonlyMap<Register, number>;

/** The state of the registers of products at a point of the program. */
interface ProductState {
  /** The registers in which pending products accumulate. */
  readonly results: Pending;
  /** The registers from which pending products read A. */
  readonly inputs: Pending;
  /** The registers that have been written since the last fence. Undefined if there was no fence on any path. */
  readonly unfenced: ReadonlySet<Register> | undefined;
}

/** No wait leaves more groups pending. */
const mostGroups = 64;

const nothingPending: Pending = new Map();
const unknown: ProductState = { results: nothingPending, inputs: nothingPending, unfenced: new Set() };

/**
 * Inserts calls of `device.mark` before wrong uses of registers of products.
 *
 * @param isKernel whether the function is a kernel, so that no product has been started at its entry
 */
export function markUnfinishedProducts({ entry, suspendPoints }: FunctionFlow, isKernel: boolean): void {
  const startsProducts = suspendPoints.some(({ instruction }) => instruction?.form.traits.products === "starts");
  if (!startsProducts) return;
  const blocks = reversePostorder(entry);
  const before = new Map<FlowBlock, ProductState>([[entry, isKernel ? { ...unknown, unfenced: undefined } : unknown]]);
  for (let hasChanged = true; hasChanged;) {
    hasChanged = false;
    for (const block of blocks) {
      let state = before.get(block);
      if (state === undefined) continue;
      for (const { instruction } of block.instructions) {
        if (instruction !== undefined) state = stateAfter(instruction, state);
      }
      for (const next of successors(block)) {
        const known = before.get(next);
        const met = known === undefined ? state : meet(known, state);
        if (known !== undefined && isSame(known, met)) continue;
        before.set(next, met);
        hasChanged = true;
      }
    }
  }
  for (const block of blocks) {
    let state = before.get(block) ?? unknown;
    for (const step of block.instructions.splice(0)) {
      const { instruction } = step;
      if (instruction !== undefined) {
        const mistake = mistakeIn(instruction, state);
        if (mistake !== undefined) block.instructions.push(mark(instruction.line, mistake));
        state = stateAfter(instruction, state);
      }
      block.instructions.push(step);
    }
  }
}

/** Returns a step that calls `device.mark` for a mistake. */
function mark(line: number, mistake: ProductMistake): CompiledStep {
  return {
    instruction: undefined,
    emit(e) {
      e.code.i32(encodeProductMark(line, mistake));
      e.pushThread();
      e.callHelper("mark");
    },
  };
}

function stateAfter(instruction: CompiledInstruction, state: ProductState): ProductState {
  const { form: { flow, traits }, operands, predicate } = instruction;
  if (flow === "call") return unknown;
  switch (traits.products) {
    case "starts":
      return predicate !== undefined ? state : {
        results: withRegisters(state.results, registersOf(operands[0])),
        inputs: withRegisters(state.inputs, inputsOf(instruction)),
        unfenced: state.unfenced,
      };
    case "commits":
      return { ...state, results: committed(state.results), inputs: committed(state.inputs) };
    case "awaits": {
      const left = operands[0]?.kind === "integer" ? Number(operands[0].value) : 0;
      return { ...state, results: awaited(state.results, left), inputs: awaited(state.inputs, left) };
    }
    case "fences":
      return predicate !== undefined ? state : { ...state, unfenced: new Set() };
  }
  return stateAfterWrites(instruction, state);
}

/** Returns the state after an instruction that is not one of products. */
function stateAfterWrites(instruction: CompiledInstruction, state: ProductState): ProductState {
  const registers = resultsOf(instruction);
  if (registers.length === 0) return state;
  const { form: { traits }, operands, predicate } = instruction;
  const isMove = traits.copies === 1;
  const sources = isMove ? registersOf(operands[1]) : [];
  const results = afterWrites(state.results, registers, predicate === undefined ? sources[0] : undefined);
  const inputs = afterWrites(state.inputs, registers, undefined);
  let { unfenced } = state;
  // A compiler may put the move of a constant behind the fence. It is no write for `ptxas`.
  const isWritten = isMove ? sources.some((source) => unfenced?.has(source)) : true;
  if (
    unfenced !== undefined && predicate === undefined && registers.some((each) => unfenced!.has(each) !== isWritten)
  ) {
    const changed = new Set(unfenced);
    for (const register of registers) isWritten ? changed.add(register) : changed.delete(register);
    unfenced = changed;
  }
  return results === state.results && inputs === state.inputs && unfenced === state.unfenced
    ? state
    : { results, inputs, unfenced };
}

/** Returns the pending registers after registers were written: those that were moved from a pending one are pending. */
function afterWrites(pending: Pending, registers: readonly Register[], source: Register | undefined): Pending {
  const groups = source && pending.get(source);
  if (groups === undefined && !registers.some((register) => pending.has(register))) return pending;
  const after = new Map(pending);
  for (const register of registers) {
    if (groups === undefined) after.delete(register);
    else after.set(register, groups);
  }
  return after;
}

function withRegisters(pending: Pending, registers: readonly Register[]): Pending {
  return registers.length === 0
    ? pending
    : new Map([...pending, ...registers.map((register) => [register, 0] as const)]);
}

function committed(pending: Pending): Pending {
  return new Map([...pending].map(([register, groups]) => [register, Math.min(groups + 1, mostGroups)]));
}

function awaited(pending: Pending, left: number): Pending {
  return new Map([...pending].filter(([, groups]) => groups === 0 || groups <= left));
}

function mistakeIn(instruction: CompiledInstruction, state: ProductState): ProductMistake | undefined {
  if (usesPending(instruction, state.results)) return "use";
  if (overwritesPending(instruction, state)) return "overwrite";
  return lacksFence(instruction, state) ? "fence" : undefined;
}

/** Whether an instruction reads registers of pending products, other than to move them or to add further products. */
function usesPending(instruction: CompiledInstruction, pending: Pending): boolean {
  if (pending.size === 0) return false;
  const { form: { traits }, operands } = instruction;
  if (traits.copies === 1) return false;
  const read = traits.products === "starts" ? operands.slice(1).flatMap(registersOf) : registersRead(instruction);
  return read.some((register) => pending.has(register));
}

/** Whether an instruction sets registers of pending products, other than by a move from another register. */
function overwritesPending(instruction: CompiledInstruction, { results, inputs }: ProductState): boolean {
  const { form: { traits }, operands, predicate } = instruction;
  if (predicate !== undefined || traits.copies === 1 && registersOf(operands[1]).length > 0) return false;
  const isProduct = traits.products === "starts";
  const set = isProduct ? registersOf(operands[0]) : resultsOf(instruction);
  return set.some((register) => inputs.has(register) || !isProduct && results.has(register));
}

/** Whether an instruction starts a product of registers that have been written since the last fence. */
function lacksFence(instruction: CompiledInstruction, { unfenced }: ProductState): boolean {
  const { form: { traits }, operands } = instruction;
  if (traits.products !== "starts") return false;
  const registers = [...registersOf(operands[0]), ...inputsOf(instruction)];
  return unfenced === undefined || registers.some((register) => unfenced.has(register));
}

/** Returns the registers from which a product reads A. There are none if A is in shared memory. */
function inputsOf({ operands }: CompiledInstruction): Register[] {
  return operands[1]?.kind === "vector" ? registersOf(operands[1]) : [];
}

/** Returns the state where two paths meet: the facts that hold on both. */
function meet(a: ProductState, b: ProductState): ProductState {
  return {
    results: meetPending(a.results, b.results),
    inputs: meetPending(a.inputs, b.inputs),
    unfenced: meetUnfenced(a.unfenced, b.unfenced),
  };
}

function meetUnfenced(a: ProductState["unfenced"], b: ProductState["unfenced"]): ProductState["unfenced"] {
  if (a === undefined && b === undefined) return undefined;
  return new Set([...a ?? []].filter((register) => b?.has(register)));
}

/** Returns the registers that are pending on both of two paths, as long as on either. */
function meetPending(a: Pending, b: Pending): Pending {
  return new Map(
    [...a].flatMap(([register, groups]) => {
      const others = b.get(register);
      return others === undefined ? [] : [[register, Math.max(groups, others)] as const];
    }),
  );
}

function isSame(a: ProductState, b: ProductState): boolean {
  return isSamePending(a.results, b.results) && isSamePending(a.inputs, b.inputs) &&
    a.unfenced?.size === b.unfenced?.size;
}

function isSamePending(a: Pending, b: Pending): boolean {
  return a.size === b.size && [...a].every(([register, groups]) => b.get(register) === groups);
}
