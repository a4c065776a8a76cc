/**
 * Divides a large kernel into parts. Each part becomes a WebAssembly function, because engines limit the size of a
 * function, and because their compilers need too much time and memory for large ones.
 *
 * A part consists of successive basic blocks. A thread that jumps from one part to another saves its registers and
 * leaves the function, as if it were suspended. A loop is therefore divided only if it is too large for one part.
 *
 * @module
 */
import { FunctionLocals } from "./function_locals.ts";
import type { FunctionEmitter } from "./function_emitter.ts";
import type { CompiledStep, FlowBlock, FunctionFlow } from "../control_flow/function_flow.ts";
import {
  loopsOf,
  newBlock,
  postorder,
  reversePostorder,
  successors,
} from "../../../ptx/analysis/control_flow_graph.ts";
import { type LiveInterval, partType } from "./locals.ts";
import { programOrder } from "./suspension_order.ts";

/**
 * The maximum number of range caches of a part, for each size of access. Engines need time in proportion to the product
 * of the numbers of locals and branches.
 */
const mostRanges = 32;

/** The part of a kernel to which each basic block belongs, determined while the code of the blocks is emitted. */
export class KernelParts {
  /** The locals of each part. */
  readonly locals: FunctionLocals[] = [];
  readonly #emitter: FunctionEmitter;
  readonly #partBytes: number;
  readonly #partOf = new Map<FlowBlock, number>();
  /** The code size of the last part so far. */
  #bytes = 0;
  #block: FlowBlock | undefined;

  /** @param partBytes the size in bytes that the code of a part should have */
  constructor(emitter: FunctionEmitter, partBytes: number) {
    this.#emitter = emitter;
    this.#partBytes = partBytes;
    this.#beginPart();
  }

  /** Returns the index of the part that contains a block. */
  of(block: FlowBlock): number {
    return this.#partOf.get(block)!;
  }

  /** Puts a block, which contains no code yet, into a part. */
  put(block: FlowBlock, part: number): void {
    this.#partOf.set(block, part);
  }

  /**
   * Calls `emit` for each basic block of a function, to emit the code of the block, and assigns the block to a part.
   * `emit` returns the size of the code in bytes.
   */
  assign(entry: FlowBlock, emit: (block: FlowBlock) => number): void {
    const blocks = [...programOrder(entry).keys()];
    const loopOf = this.#undividedLoops(entry);
    let loop: FlowBlock | undefined;
    for (const block of blocks) {
      const next = loopOf.get(block);
      const isInside = next !== undefined && next === loop;
      loop = next;
      if (this.#bytes > this.#partBytes * (isInside ? 4 : 1)) this.#beginPart();
      this.#partOf.set(block, this.locals.length - 1);
      this.#bytes += emit(block);
    }
  }

  #beginPart(): void {
    const locals = new FunctionLocals(partType, { mostRanges });
    locals.fixed.set("thread", 1);
    this.locals.push(locals);
    this.#emitter.useLocals(locals);
    this.#bytes = 0;
  }

  /** Maps each block of a loop that is small enough for one part to the header of the largest such loop. */
  #undividedLoops(entry: FlowBlock): ReadonlyMap<FlowBlock, FlowBlock> {
    const most = this.#partBytes / bytesPerStep;
    const loops = loopsOf(entry, successors).map(({ header, body }) => {
      return { header, body, steps: body.reduce((sum, { instructions }) => sum + instructions.length, 0) };
    });
    const result = new Map<FlowBlock, FlowBlock>();
    for (const { header, body, steps } of loops.sort((a, b) => a.steps - b.steps)) {
      if (steps > most) break;
      for (const block of body) result.set(block, header);
    }
    return result;
  }
}

/** An estimate of the code size of one step of a basic block. */
const bytesPerStep = 30;
/** The code size of saving and restoring one register. */
const savedRegisterBytes = 18;

/** Estimates the code size of a function in a kernel that is not divided. */
export function estimatedBytes(
  { entry, suspendPoints }: FunctionFlow,
  { intervals, hasShadows }: { readonly intervals: readonly LiveInterval[]; readonly hasShadows: boolean },
): number {
  const steps = reversePostorder(entry).reduce((sum, { instructions }) => sum + instructions.length, 0);
  let length = 1, sum = 0;
  for (const { begin, end } of intervals) {
    sum += end - begin;
    length = Math.max(length, end);
  }
  const liveRegisters = sum / length;
  // With shadows, the kernel has twice as many registers, and more code for each instruction.
  const factor = hasShadows ? 2 : 1;
  return factor * (steps * bytesPerStep + suspendPoints.length * liveRegisters * savedRegisterBytes);
}

/**
 * Splits long basic blocks, so that a part can end within them. Returns whether there were any.
 *
 * @param partBytes the size in bytes that the code of a part should have
 */
export function splitLongBlocks({ entry, suspendPoints }: FunctionFlow, partBytes: number): boolean {
  const mostSteps = Math.max(8, Math.floor(partBytes / bytesPerStep / 8));
  const ends = new Map<FlowBlock, FlowBlock>();
  for (const whole of postorder([entry], successors)) {
    const { instructions } = whole;
    if (instructions.length <= mostSteps) continue;
    const rest = instructions.splice(mostSteps);
    const { terminator } = whole;
    let block = whole;
    for (let begin = 0; begin < rest.length; begin += mostSteps) {
      const next = newBlock<CompiledStep>();
      next.instructions.push(...rest.slice(begin, begin + mostSteps));
      block.terminator = { kind: "jump", target: next };
      block = next;
    }
    block.terminator = terminator;
    if (whole.line !== undefined) block.line = whole.line;
    ends.set(whole, block);
  }
  suspendPoints.forEach((point, index) => {
    const suspendBlock = ends.get(point.suspendBlock);
    if (suspendBlock !== undefined) suspendPoints[index] = { ...point, suspendBlock };
  });
  return ends.size > 0;
}
