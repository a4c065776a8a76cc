/**
 * Counts the steps of kernels, and stops those that most likely never end.
 *
 * @module
 */
import { decodePlace, faultKind } from "../../abi/addresses.ts";
import { type FaultReport, KernelStop } from "./kernel_fault.ts";

/** Counts the steps of a block's threads, and stops them at the limit: most likely they never end. */
export class StepCounter {
  /** How many loop iterations a kernel may run before it asks for more fuel. */
  readonly fuelPerRefill: number = 2 ** 20;
  readonly #limit: number;
  #count = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** The steps of the block that runs. */
  get count(): number {
    return this.#count;
  }

  get limit(): number {
    return this.#limit;
  }

  /** Starts the next block, or resumes one that has done some steps. */
  restart(steps = 0): void {
    this.#count = steps;
  }

  /** Called by compiled code with the place and the thread. */
  refuel(place: number, thread: number): number {
    this.#count += this.fuelPerRefill;
    if (this.#count > this.#limit) this.#stop({ place: decodePlace(place), thread });
    return this.fuelPerRefill;
  }

  /** Counts the steps of a thread or, from that thread on, of its warp. `locate` finds the thread if it is stopped. */
  add(steps: number, thread: number, locate: (thread: number) => Pick<FaultReport, "thread">): void {
    this.#count += steps;
    if (this.#count > this.#limit) this.#stop(locate(thread));
  }

  #stop(report: Pick<FaultReport, "place" | "thread">): never {
    const steps = this.#count;
    throw new KernelStop({
      kind: faultKind.stepLimit,
      what: (_, waiting) => {
        const others = waiting === "" ? "" : `, while others wait: ${waiting}`;
        const advice = waiting.includes("(barrier)")
          ? "all threads of the block must reach the same barrier"
          : "check the loop's condition and the arguments that it depends on";
        return `stopped after ${steps} steps, perhaps in a loop that never ends${others}; ${advice}; ` +
          "POOLPASS_SOFTWARE_STEPS sets the limit for a block";
      },
      ...report,
    });
  }
}
