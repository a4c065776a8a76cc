/**
 * Divides a large kernel into parts, each of which becomes a WebAssembly function. Engines limit the size of a
 * function, and their compilers need too much time and memory for large functions.
 *
 * A part consists of consecutive basic blocks. To jump to another part, a thread saves its registers and leaves the
 * function, as if it were suspended. Because this is slow, a loop is divided only if it is too large for a single part.
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
 * The maximum number of range caches of a part for each access size. Limited because the compile time of engines grows
 * with the product of the number of locals and the number of branches.
 */
const mostRanges = 32;

/** Assigns each basic block to a part of the kernel, while the code of the blocks is emitted. */
export class KernelParts {
  /** The locals of each part. */
  readonly locals: FunctionLocals[] = [];
  readonly #emitter: FunctionEmitter;
  readonly #partBytes: number;
  readonly #partOf = new Map<FlowBlock, number>();
  /** The current code size of the last part, in bytes. */
  #bytes = 0;
  #block: FlowBlock | undefined;

  /** @param partBytes the target code size of a part, in bytes */
  constructor(emitter: FunctionEmitter, partBytes: number) {
    this.#emitter = emitter;
    this.#partBytes = partBytes;
    this.#beginPart();
  }

  /** Returns the index of the part that contains a block. */
  of(block: FlowBlock): number {
    return this.#partOf.get(block)!;
  }

  /** Assigns a block that contains no code yet to a part. */
  put(block: FlowBlock, part: number): void {
    this.#partOf.set(block, part);
  }

  /**
   * Calls `emit` for each basic block of a function, in program order, and assigns the block to a part. `emit` emits
   * the block's code, and returns the size of the code in bytes.
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

  /**
   * Maps each block of a loop to the loop's header, for all loops that are small enough for one part. A block of nested
   * loops is mapped to the header of the outermost such loop.
   */
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

/** The estimated code size of a step of a basic block, in bytes. */
const bytesPerStep = 30;
/** The code size of saving and restoring a register, in bytes. */
const savedRegisterBytes = 18;

/** Estimates the code size of a function, in bytes, if the kernel is not divided. */
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
  // Shadows double the number of registers, and add code to each instruction.
  const factor = hasShadows ? 2 : 1;
  return factor * (steps * bytesPerStep + suspendPoints.length * liveRegisters * savedRegisterBytes);
}

/**
 * Splits long basic blocks, so that a part can end within them. Returns whether any blocks were split.
 *
 * @param partBytes the target code size of a part, in bytes
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
