import type { FlowBlock } from "../control_flow/function_flow.ts";
import { loopsOf } from "../control_flow/natural_loops.ts";
import type { Register } from "../typing/names.ts";
import type { ResolvedInstruction } from "../typing/resolved_instruction.ts";
import { resultsOf, sourcesOf } from "./uniformity.ts";

/** How much more often an instruction in a loop is taken to be executed than one around the loop. */
const timesAround = 8;
/** Gangs must execute at least one part in so many of a kernel's frequency. */
const leastGangShare = 4;
/** For each loop over the threads of a gang, by frequency, gangs must execute at least so many instructions. */
const instructionsPerLoop = 6;

/** Judges what running a kernel in gangs gains, by how often each instruction is likely to be executed. */
export class CostModel {
  readonly #frequencies = new Map<ResolvedInstruction, number>();
  /** The instructions that gangs execute, what they weigh, and what those do that are executed for each thread by itself. */
  readonly #inGangs: ResolvedInstruction[] = [];
  #gangCost = 0;
  #memberCost = 0;

  /** Weighs a kernel's instructions: the deeper in loops, the more often they are executed. */
  constructor(instructions: readonly ResolvedInstruction[], entry: FlowBlock) {
    for (const instruction of instructions) this.#frequencies.set(instruction, 1);
    for (const { body } of loopsOf(entry)) {
      for (const { instructions } of body) {
        for (const { instruction } of instructions) {
          if (instruction !== undefined) {
            this.#frequencies.set(instruction, this.#frequencies.get(instruction)! * timesAround);
          }
        }
      }
    }
  }

  /** Notes an instruction that gangs execute, and how many loops over their threads that takes. */
  note(instruction: ResolvedInstruction, loops: number): void {
    const frequency = this.#frequencies.get(instruction)!;
    this.#inGangs.push(instruction);
    this.#gangCost += frequency;
    this.#memberCost += frequency * loops;
  }

  /** Whether much of what the kernel does most often is done in gangs, and little of that for one thread after another. */
  get isProfitable(): boolean {
    let whole = 0;
    for (const frequency of this.#frequencies.values()) whole += frequency;
    return this.#memberCost * instructionsPerLoop <= this.#gangCost && this.#gangCost * leastGangShare >= whole;
  }

  /** The registers that the innermost loops name, among the instructions that gangs execute. */
  get innermostRegisters(): ReadonlySet<Register> {
    const most = this.#inGangs.reduce((most, instruction) => Math.max(most, this.#frequencies.get(instruction)!), 0);
    return new Set(
      this.#inGangs.filter((instruction) => this.#frequencies.get(instruction) === most)
        .flatMap((instruction) => [...resultsOf(instruction), ...sourcesOf(instruction)])
        .filter((operand) => operand.kind === "register"),
    );
  }
}
