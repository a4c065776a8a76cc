/**
 * Chooses the loops that gangs run under a mask until the last thread leaves, although their threads diverge.
 *
 * The mask says which threads execute a basic block; the other threads keep their values. The results of threads that
 * leave the loop are saved at that point, so that a block that all remaining threads execute needs no masks. See
 * `masked_code.ts`.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import {
  type Loop,
  loopsOf,
  postorder,
  predecessors,
  reversePostorder,
  successors,
} from "../../../ptx/analysis/control_flow_graph.ts";
import type { DivergencePoint, FlowBlock, FunctionFlow } from "../control_flow/function_flow.ts";
import {
  type RegisterUse,
  registerUseOf,
  resultsOf,
  sourcesOf,
  walkLiveRanges,
} from "../../../ptx/analysis/definitions_and_uses.ts";
import { type Uniformity, wideningOf } from "../../../ptx/analysis/uniformity.ts";
import type { Register } from "../../../ptx/instructions/resolved_instruction.ts";
import { instructionsPerLoop, timesAround } from "./cost_model.ts";

/** A loop that is executed under a mask of the gang's threads. */
export interface MaskedLoop {
  readonly header: FlowBlock;
  readonly blocks: ReadonlySet<FlowBlock>;
  /**
   * The basic blocks of the loop outside of inner loops, and the inner loops, in topological order, ignoring back
   * edges. The header is the first.
   */
  readonly parts: readonly (FlowBlock | MaskedLoop)[];
  /** The registers that the loop sets and that code outside of it reads. */
  readonly results: readonly Register[];
  /** Whether every thread that has not left the loop executes `block` in each iteration. */
  isUnconditional(block: FlowBlock): boolean;
}

/** An outermost masked loop, which all threads of a gang enter together, and its exits. */
export interface MaskedRegion {
  readonly loop: MaskedLoop;
  /** The basic blocks to which the loop exits, each with the direction of a branch that leads to the block. */
  readonly exits: readonly { readonly target: FlowBlock; readonly way: DivergencePoint }[];
  /** The registers that are live on entry to the loop. */
  readonly uses: ReadonlySet<Register>;
  /** The registers that the loop sets. */
  readonly definitions: ReadonlySet<Register>;
}

/** The masked loops of a kernel. */
export interface MaskedRegions {
  readonly regions: readonly MaskedRegion[];
  /** The uniformity of the kernel's registers. Registers that are set under a mask are varying. */
  readonly uniformity: Uniformity;
  /** Whether `register` is read only in the basic block that sets it. */
  isLocal(register: Register): boolean;
}

/**
 * The maximum number of basic blocks to which a masked loop may exit. With more exits, the gang's threads rarely
 * continue together.
 */
const mostExits = 2;
/** The maximum number of basic blocks of a masked loop. Larger loops are unlikely to consist only of vector code. */
const mostBlocks = 64;
/** The number of rounds in which only one loop is evaluated. Later rounds evaluate several loops at once. */
const judgedAlone = 8;
/** The maximum number of evaluation rounds. Loops that have not been evaluated after the last round are not masked. */
const mostJudgements = 64;

/**
 * Chooses the masked loops.
 *
 * @param runsOnVectors whether an instruction in a masked loop is executed for all threads of the gang at once
 */
export function chooseMaskedRegions(
  { flow, findUniformity, runsOnVectors }: {
    readonly flow: FunctionFlow;
    readonly findUniformity: (varying: ReadonlySet<Register>) => Uniformity;
    readonly runsOnVectors: (uniformity: Uniformity) => (instruction: CompiledInstruction) => boolean;
  },
): MaskedRegions {
  return new RegionChooser(flow, findUniformity, runsOnVectors).choose();
}

class RegionChooser {
  readonly #flow: FunctionFlow;
  readonly #findUniformity: (varying: ReadonlySet<Register>) => Uniformity;
  readonly #runsOnVectors: (uniformity: Uniformity) => (instruction: CompiledInstruction) => boolean;
  /** The loops that can be masked, with outer loops before inner ones. */
  readonly #candidates: MaskedRegion[] = [];
  /**
   * Maps each register that a candidate loop sets to the basic blocks at whose start the register is live. Contains
   * only blocks of the loop and their successors.
   */
  readonly #liveAt = new Map<Register, Set<FlowBlock>>();
  /** Maps each loop's header to the registers that are live on entry to the loop. */
  readonly #liveAtHeader = new Map<FlowBlock, Register[]>();
  /** The registers that are live on entry to some basic block. */
  readonly #crossing = new Set<Register>();

  constructor(
    flow: FunctionFlow,
    findUniformity: (varying: ReadonlySet<Register>) => Uniformity,
    runsOnVectors: (uniformity: Uniformity) => (instruction: CompiledInstruction) => boolean,
  ) {
    this.#flow = flow;
    this.#findUniformity = findUniformity;
    this.#runsOnVectors = runsOnVectors;
  }

  choose(): MaskedRegions {
    const rejected = new Set<MaskedRegion>();
    const chosen = new Set<MaskedRegion>();
    let uniformity = this.#findUniformity(new Set());
    this.#findCandidates(uniformity);
    /** Maps each basic block of a chosen loop to the loop. */
    const around = new Map<FlowBlock, MaskedRegion>();
    let decided = 0;
    // Masking loops makes registers varying, which may make further branches diverge. Each round evaluates as many
    // loops as all previous rounds together, so that the uniformity of a long kernel is not recomputed for every loop.
    for (let times = 0; times < mostJudgements; times++) {
      const together = new Set<MaskedRegion>();
      const taken = new Set<FlowBlock>();
      for (const region of this.#candidates) {
        if (together.size >= Math.max(1, decided - judgedAlone)) break;
        if (chosen.has(region) || rejected.has(region)) continue;
        const { header, blocks } = region.loop;
        if (around.has(header) || taken.has(header) || !this.#diverges(region, uniformity)) continue;
        together.add(region);
        for (const block of blocks) taken.add(block);
      }
      if (together.size === 0) break;
      decided += together.size;
      const varying = this.#findUniformity(this.#varyingOf([...chosen, ...together]));
      const runsOnVectors = this.#runsOnVectors(varying);
      let isSame = true;
      for (const region of together) {
        if (!this.#isProfitable(region, runsOnVectors)) {
          rejected.add(region);
          isSame = false;
          continue;
        }
        for (const block of region.loop.blocks) {
          const other = around.get(block);
          if (other !== undefined && chosen.delete(other)) isSame = false;
          around.set(block, region);
        }
        chosen.add(region);
      }
      if (isSame) uniformity = varying;
      else if (chosen.size > 0) uniformity = this.#findUniformity(this.#varyingOf([...chosen]));
    }
    return {
      regions: [...chosen],
      uniformity,
      isLocal: (register) => this.#isLocal(register),
    };
  }

  #findCandidates(uniformity: Uniformity): void {
    const { entry, suspendPoints } = this.#flow;
    const loops = loopsOf(entry, successors).toSorted((a, b) => a.body.length - b.body.length);
    const blocks = reversePostorder(entry);
    const order = new Map(blocks.map((block, index) => [block, index]));
    const before = predecessors(blocks, successors);
    const suspended = new Set(suspendPoints.flatMap(({ suspendBlock, resumeBlock }) => [suspendBlock, resumeBlock]));
    /** Maps the headers of the loops that can be masked to these loops, with inner loops before outer ones. */
    const possible = new Map<FlowBlock, Loop<FlowBlock>>();
    const canMask = ({ header, body }: Loop<FlowBlock>): boolean => {
      const inside = new Set(body);
      // In a cycle with several entries, `header` is only one of them. The check of predecessors below rejects such
      // cycles.
      return body.length <= mostBlocks && !inside.has(entry) && body.every((block) => {
        const { terminator } = block;
        if (suspended.has(block)) return false;
        if (terminator.kind !== "jump" && (terminator.kind !== "branch" || terminator.on.instruction === undefined)) {
          return false;
        }
        if (block !== header && [...before.get(block)!].some((from) => !inside.has(from))) return false;
        return successors(block).every((to) => {
          if (to === header || !inside.has(to) || order.get(to)! > order.get(block)!) return true;
          return possible.get(to)?.body.every((block) => inside.has(block)) === true;
        });
      });
    };
    for (const loop of loops) if (canMask(loop)) possible.set(loop.header, loop);
    const masked = [...possible.values()].reverse();
    if (!masked.some(({ body }) => body.some((block) => mayDiverge(block, uniformity)))) return;
    this.#findLive(masked);
    for (const loop of masked) {
      const region = this.#regionOf(this.#nest(loop, { loops: possible, order }));
      if (region !== undefined) this.#candidates.push(region);
    }
  }

  /**
   * Computes the registers that are live on entry to each loop. Also computes, for each register that a loop sets, the
   * basic blocks at whose start the register is live; only the blocks of the loop and their successors are considered.
   */
  #findLive(loops: readonly Loop<FlowBlock>[]): void {
    const { entry } = this.#flow;
    for (const { header } of loops) this.#liveAtHeader.set(header, []);
    /** Maps each basic block to the outermost loops that contain the block or exit to it. */
    const near = new Map<FlowBlock, Set<Loop<FlowBlock>>>();
    /** Maps each register to the outermost loops that set the register. */
    const setting = new Map<Register, Set<Loop<FlowBlock>>>();
    const inside = new Set<FlowBlock>();
    for (const loop of loops) {
      if (inside.has(loop.header)) continue;
      for (const block of loop.body) {
        inside.add(block);
        for (const next of [block, ...successors(block)]) addTo(near, next, loop);
        for (const register of instructionsOf(block).flatMap(resultsOf)) addTo(setting, register, loop);
      }
    }
    walkLiveRanges({ entry, next: successors, use: useOf }, (register, block) => {
      this.#crossing.add(register);
      this.#liveAtHeader.get(block)?.push(register);
      const by = setting.get(register), at = near.get(block);
      if (by === undefined || at === undefined || by.isDisjointFrom(at)) return;
      addTo(this.#liveAt, register, block);
    });
  }

  #nest(
    { header, latches, body }: Loop<FlowBlock>,
    context: {
      /** Maps each loop's header to the loop. */
      readonly loops: ReadonlyMap<FlowBlock, Loop<FlowBlock>>;
      readonly order: ReadonlyMap<FlowBlock, number>;
      /** The basic blocks of the loops that contain this loop. */
      readonly outer?: ReadonlySet<FlowBlock>;
    },
  ): MaskedLoop {
    const blocks = new Set<FlowBlock>(body);
    // All threads of a gang enter the outermost loop. An inner loop must preserve the values of threads that do not
    // enter it.
    const elsewhere = [...context.outer ?? [], ...body.flatMap(successors)].filter((block) => !blocks.has(block));
    const within = body.flatMap((block) => {
      const loop = block === header ? undefined : context.loops.get(block);
      return loop?.body.every((at) => blocks.has(at)) ? [loop] : [];
    });
    const inner = within.filter((loop) => !within.some((other) => other !== loop && other.body.includes(loop.header)))
      .map((loop) => this.#nest(loop, { ...context, outer: new Set([...context.outer ?? [], ...blocks]) }));
    const direct = body.filter((block) => !inner.some((loop) => loop.blocks.has(block)));
    const place = (part: FlowBlock | MaskedLoop) => context.order.get("header" in part ? part.header : part)!;
    const results = new Set(body.flatMap((block) => instructionsOf(block).flatMap(resultsOf)));
    return {
      header,
      blocks,
      parts: [...direct, ...inner].toSorted((a, b) => place(a) - place(b)),
      results: [...results].filter((register) => elsewhere.some((block) => this.#liveAt.get(register)?.has(block))),
      isUnconditional: (block) => {
        const around = postorder([header], (from) => {
          return from === block ? [] : successors(from).filter((to) => to !== header && blocks.has(to));
        });
        return block === header || !latches.some((latch) => latch !== block && around.includes(latch));
      },
    };
  }

  /**
   * Returns the region of an outermost loop. Returns undefined if the loop has too many exits, or if an inner loop has
   * an exit that also leaves the outer loop.
   */
  #regionOf(loop: MaskedLoop): MaskedRegion | undefined {
    const exits: { target: FlowBlock; way: DivergencePoint }[] = [];
    for (const block of loop.blocks) {
      const { terminator } = block;
      if (terminator.kind !== "branch") continue;
      for (const way of ["taken", "otherwise"] as const) {
        const target = terminator[way];
        if (loop.blocks.has(target) || exits.some((exit) => exit.target === target)) continue;
        exits.push({ target, way: { instruction: terminator.on.instruction!, way } });
      }
    }
    if (exits.length === 0 || exits.length > mostExits || !leavesOneAtATime(loop)) return undefined;
    const uses = this.#liveAtHeader.get(loop.header);
    const definitions = [...loop.blocks].flatMap((block) => instructionsOf(block).flatMap(resultsOf));
    return { loop, exits, uses: new Set(uses), definitions: new Set(definitions) };
  }

  /** Whether `register` is read only in the basic block that sets it. */
  #isLocal(register: Register): boolean {
    return !this.#crossing.has(register);
  }

  /** Whether the gang's threads may diverge at a basic block of the loop that is not in an inner loop. */
  #diverges({ loop }: MaskedRegion, uniformity: Uniformity): boolean {
    return loop.parts.some((part) => !("header" in part) && mayDiverge(part, uniformity));
  }

  /**
   * Returns the registers that the gang's threads in a masked loop may set in different iterations, or that only some
   * threads set.
   */
  #varyingOf(regions: readonly MaskedRegion[]): Set<Register> {
    const varying = new Set<Register>();
    const visit = (loop: MaskedLoop): void => {
      for (const part of loop.parts) {
        if ("header" in part) {
          visit(part);
          continue;
        }
        const isUnconditional = loop.isUnconditional(part);
        for (const instruction of instructionsOf(part)) {
          for (const register of resultsOf(instruction)) {
            const isOfOne = isUnconditional || this.#isLocal(register);
            if (!isOfOne || wideningOf(instruction) !== undefined) varying.add(register);
          }
        }
      }
      for (const register of loop.results) varying.add(register);
    };
    for (const { loop } of regions) visit(loop);
    return varying;
  }

  /** Whether enough of the loop's instructions are executed on vectors. */
  #isProfitable({ loop }: MaskedRegion, runsOnVectors: (instruction: CompiledInstruction) => boolean): boolean {
    let all = 0, memberLoops = 0;
    const visit = ({ parts }: MaskedLoop, frequency: number): void => {
      for (const part of parts) {
        if ("header" in part) {
          visit(part, frequency * timesAround);
          continue;
        }
        for (const instruction of instructionsOf(part)) {
          all += frequency;
          if (!runsOnVectors(instruction)) memberLoops += frequency;
        }
      }
    };
    visit(loop, 1);
    return memberLoops * instructionsPerLoop <= all;
  }
}

/** Whether every exit of an inner loop leads to a basic block of the loop that directly contains the inner loop. */
function leavesOneAtATime(loop: MaskedLoop): boolean {
  const direct = new Set(loop.parts.map((part) => "header" in part ? part.header : part));
  return loop.parts.every((part) => {
    if (!("header" in part)) return true;
    return leavesOneAtATime(part) && [...part.blocks].every((block) => {
      return successors(block).every((to) => part.blocks.has(to) || direct.has(to));
    });
  });
}

/**
 * Whether the gang's threads are likely to diverge at the end of a basic block. A branch that compares strided values,
 * such as thread indices, usually does not diverge.
 */
function mayDiverge({ instructions, terminator }: FlowBlock, uniformity: Uniformity): boolean {
  if (terminator.kind !== "branch" || terminator.on.instruction === undefined) return false;
  const { register } = terminator.on.instruction.predicate!;
  if (uniformity.strideOf(register) !== undefined) return false;
  const set = instructions.findLast(({ instruction }) => {
    return instruction !== undefined && resultsOf(instruction).includes(register);
  })?.instruction;
  return set === undefined || set.predicate !== undefined ||
    sourcesOf(set).some((source) => uniformity.strideOf(source) === undefined);
}

function addTo<Key, Element>(sets: Map<Key, Set<Element>>, key: Key, element: Element): void {
  const known = sets.get(key);
  if (known === undefined) sets.set(key, new Set([element]));
  else known.add(element);
}

function instructionsOf({ instructions }: FlowBlock): CompiledInstruction[] {
  return instructions.flatMap(({ instruction }) => instruction === undefined ? [] : [instruction]);
}

/**
 * Returns the registers that a basic block uses and defines. A register that is set under a predicate does not count as
 * defined.
 */
function useOf(block: FlowBlock): RegisterUse {
  const { terminator } = block;
  const on = terminator.kind === "branch" || terminator.kind === "switch" ? terminator.on : undefined;
  const last = on !== undefined && "instruction" in on ? on.instruction : undefined;
  const instructions = instructionsOf(block);
  return registerUseOf(last === undefined ? instructions : [...instructions, last]);
}
