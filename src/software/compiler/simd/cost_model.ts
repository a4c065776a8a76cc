/**
 * Decides which kernels can run in gangs, at which barriers whole gangs wait, and whether gangs are profitable.
 *
 * @module
 */
import { loopsOf, successors } from "../../../ptx/analysis/control_flow_graph.ts";
import type { AnalyzedFlow, FlowBlock, SuspendPoint } from "../control_flow/function_flow.ts";
import type { Register, ResolvedInstruction } from "../../../ptx/instructions/resolved_instruction.ts";
import { resultsOf, sourcesOf } from "../../../ptx/analysis/definitions_and_uses.ts";
import { spinLoops } from "../control_flow/spin_loops.ts";
import type { ResolvedKernel } from "../typing/resolver.ts";

/** The number of iterations that the cost model assumes for every loop. */
export const timesAround = 8;
/** Gangs must execute at least 1 / `leastGangShare` of the instructions that a kernel executes. */
const leastGangShare = 4;
/**
 * The minimum ratio of instructions that gangs execute to loops over a gang's threads. With a lower ratio, gangs are
 * not profitable.
 */
export const instructionsPerLoop = 6;

/**
 * Estimates whether running a kernel in gangs is profitable, from the likely execution frequency of each instruction.
 */
export class CostModel {
  readonly #frequencies = new Map<ResolvedInstruction, number>();
  /** The instructions that gangs execute. */
  readonly #inGangs: ResolvedInstruction[] = [];
  /** The total frequency of the instructions that gangs execute. */
  #gangCost = 0;
  /** The total frequency of the instructions that are executed for one thread of a gang at a time. */
  #memberCost = 0;

  /** Estimates the frequency of each instruction from the number of loops that contain it. */
  constructor(instructions: readonly ResolvedInstruction[], entry: FlowBlock) {
    for (const instruction of instructions) this.#frequencies.set(instruction, 1);
    for (const { body } of loopsOf(entry, successors)) {
      // A barrier instruction appears in two basic blocks: the one where threads are suspended, and the one where they
      // resume. The set ensures that the instruction is counted once.
      const repeated = new Set(
        [...body].flatMap(({ instructions }) => instructions.map(({ instruction }) => instruction)),
      );
      for (const instruction of repeated) {
        if (instruction !== undefined) {
          this.#frequencies.set(instruction, this.#frequencies.get(instruction)! * timesAround);
        }
      }
    }
  }

  /**
   * Records an instruction that gangs execute. `loops` is the number of loops over the gang's threads that the
   * instruction needs.
   */
  note(instruction: ResolvedInstruction, loops: number): void {
    const frequency = this.#frequencies.get(instruction)!;
    this.#inGangs.push(instruction);
    this.#gangCost += frequency;
    this.#memberCost += frequency * loops;
  }

  /**
   * Whether gangs execute enough of the kernel's instructions, weighted by frequency, and few of them for one thread at
   * a time.
   */
  get isProfitable(): boolean {
    let whole = 0;
    for (const frequency of this.#frequencies.values()) whole += frequency;
    return this.#memberCost * instructionsPerLoop <= this.#gangCost && this.#gangCost * leastGangShare >= whole;
  }

  /**
   * The registers that are used in the most frequent instructions that gangs execute, which are in the innermost loops.
   */
  get innermostRegisters(): ReadonlySet<Register> {
    const most = this.#inGangs.reduce((most, instruction) => Math.max(most, this.#frequencies.get(instruction)!), 0);
    return new Set(
      this.#inGangs.filter((instruction) => this.#frequencies.get(instruction) === most)
        .flatMap((instruction) => [...resultsOf(instruction), ...sourcesOf(instruction)])
        .filter((operand) => operand.kind === "register"),
    );
  }
}

/** Whether every instruction of a kernel can be executed by gangs. */
export function canRunInGangs({ kernel, callees }: ResolvedKernel, { entry, analysis }: AnalyzedFlow): boolean {
  if (callees.size > 0 || kernel.variableBytes > 0) return false;
  return analysis.instructions.every(({ form }) => form.traits.runsInGangs) &&
    spinLoops(entry).length === 0;
}

/**
 * Returns the number of the barrier at a suspend point if all threads of the block wait at the barrier, so that whole
 * gangs wait there. Undefined at other suspend points.
 */
export function barrierOfAll({ instruction }: Pick<SuspendPoint, "instruction">): number | undefined {
  return instruction?.form.suspending?.barrierOfAll?.(instruction);
}
