import type { FlowBlock } from "../control_flow/kernel_flow.ts";
import { loopsOf } from "../control_flow/waiting_loops.ts";
import type { Register } from "../typing/names.ts";
import type { TypedInstruction } from "../typing/typed_instruction.ts";
import { resultsOf, sourcesOf } from "./pack_shapes.ts";

/** How much more often an instruction in a loop is taken to be executed than one around the loop. */
const timesAround = 8;
/** Packs must execute at least one part in so many of a kernel's weight. */
const leastPacked = 4;
/** For each loop over the threads of a pack, by weight, packs must execute at least so many instructions. */
const instructionsPerLoop = 6;

/** Judges what running a kernel in packs gains, by how often each instruction is likely to be executed. */
export class PackWeights {
  readonly #weights = new Map<TypedInstruction, number>();
  /** The instructions that packs execute, what they weigh, and what those do that are executed for each thread by itself. */
  readonly #packed: TypedInstruction[] = [];
  #packedWeight = 0;
  #loopWeight = 0;

  /** Weighs a kernel's instructions: the deeper in loops, the more often they are executed. */
  constructor(instructions: readonly TypedInstruction[], entry: FlowBlock) {
    for (const instruction of instructions) this.#weights.set(instruction, 1);
    for (const { body } of loopsOf(entry)) {
      for (const { instructions } of body) {
        for (const { instruction } of instructions) {
          if (instruction !== undefined) this.#weights.set(instruction, this.#weights.get(instruction)! * timesAround);
        }
      }
    }
  }

  /** Notes an instruction that packs execute, and how many loops over their threads that takes. */
  note(instruction: TypedInstruction, loops: number): void {
    const weight = this.#weights.get(instruction)!;
    this.#packed.push(instruction);
    this.#packedWeight += weight;
    this.#loopWeight += weight * loops;
  }

  /** Whether much of what the kernel does most often is done in packs, and little of that for one thread after another. */
  get isWorthwhile(): boolean {
    let whole = 0;
    for (const weight of this.#weights.values()) whole += weight;
    return this.#loopWeight * instructionsPerLoop <= this.#packedWeight && this.#packedWeight * leastPacked >= whole;
  }

  /** The registers that the innermost loops name, among the instructions that packs execute. */
  get innermostRegisters(): ReadonlySet<Register> {
    const most = this.#packed.reduce((most, instruction) => Math.max(most, this.#weights.get(instruction)!), 0);
    return new Set(
      this.#packed.filter((instruction) => this.#weights.get(instruction) === most)
        .flatMap((instruction) => [...resultsOf(instruction), ...sourcesOf(instruction)])
        .filter((operand) => operand.kind === "register"),
    );
  }
}
