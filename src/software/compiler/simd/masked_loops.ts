/**
 * Chooses the loops that gangs run to their end although their members diverge.
 *
 * A gang goes around such a loop until the last member has left it. A mask says which members execute a block; the
 * others keep their values. Members that leave the loop are saved where they leave it, so that the code of a block that
 * all remaining members execute needs no masks. See `masked_code.ts`.
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

/** A loop that is executed under a mask. */
export interface MaskedLoop {
  readonly header: FlowBlock;
  readonly blocks: ReadonlySet<FlowBlock>;
  /** Its blocks and the loops within it, so that each comes behind all that lead to it. The header is the first. */
  readonly parts: readonly (FlowBlock | MaskedLoop)[];
  /** The registers that it sets and that are read elsewhere. */
  readonly results: readonly Register[];
  /** Whether all members that have not left the loop execute a block in each iteration. */
  isUnconditional(block: FlowBlock): boolean;
}

/** A loop that whole gangs enter, and the way to each block to which it leads. */
export interface MaskedRegion {
  readonly loop: MaskedLoop;
  readonly exits: readonly { readonly target: FlowBlock; readonly way: DivergencePoint }[];
  /** The registers that are live where it begins, and those that it sets. */
  readonly uses: ReadonlySet<Register>;
  readonly definitions: ReadonlySet<Register>;
}

/** The masked loops of a kernel, and what they make of its registers. */
export interface MaskedRegions {
  readonly regions: readonly MaskedRegion[];
  readonly uniformity: Uniformity;
  /** Whether only the block that sets a register reads it. */
  isLocal(register: Register): boolean;
}

/** With more than two ways out, members rarely continue together. */
const mostExits = 2;
/** Larger loops are unlikely to be executed on vectors alone. */
const mostBlocks = 64;
/** How many loops are judged one by one before others are judged together. */
const judgedAlone = 8;
/** How many times loops are judged. The others are not masked. */
const mostJudgements = 64;

/**
 * Chooses the masked loops.
 *
 * @param runsOnVectors whether an instruction in a masked loop is executed at once for all members
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
  /** The loops that can be masked, from the outermost to the innermost. */
  readonly #candidates: MaskedRegion[] = [];
  /** The blocks in and behind the loops that set a register at whose start it is live. */
  readonly #liveAt = new Map<Register, Set<FlowBlock>>();
  /** The registers that are live where a loop begins, by its header. */
  readonly #liveAtHeader = new Map<FlowBlock, Register[]>();
  /** The registers that are live at the start of any block. */
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
    /** The chosen loop of a block. */
    const around = new Map<FlowBlock, MaskedRegion>();
    let decided = 0;
    // Masked loops make registers varying, which may make further branches diverge. Each time, as many loops are judged
    // as before in all, so that the values of a long kernel are not followed once for each of its loops.
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
    /** By their headers, from the innermost to the outermost. */
    const possible = new Map<FlowBlock, Loop<FlowBlock>>();
    const canMask = ({ header, body }: Loop<FlowBlock>): boolean => {
      const inside = new Set(body);
      // Of a cycle with several entries, "header" is only one of them.
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

  /** Finds which registers are live where loops begin, and in which blocks near a loop those that it sets are live. */
  #findLive(loops: readonly Loop<FlowBlock>[]): void {
    const { entry } = this.#flow;
    for (const { header } of loops) this.#liveAtHeader.set(header, []);
    /** The outermost of the loops, by the blocks of each and those that it leads to, and by the registers that it sets. */
    const near = new Map<FlowBlock, Set<Loop<FlowBlock>>>();
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
      /** By their headers. */
      readonly loops: ReadonlyMap<FlowBlock, Loop<FlowBlock>>;
      readonly order: ReadonlyMap<FlowBlock, number>;
      /** The loop around this one. */
      readonly outer?: ReadonlySet<FlowBlock>;
    },
  ): MaskedLoop {
    const blocks = new Set<FlowBlock>(body);
    // Whole gangs enter the outermost loop. Other loops must leave alone the members that do not enter them.
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

  /** Undefined if the loop has too many exits, or an exit from a loop within it that also leaves the loop itself. */
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

  /** Whether only the block that sets a register reads it. */
  #isLocal(register: Register): boolean {
    return !this.#crossing.has(register);
  }

  #diverges({ loop }: MaskedRegion, uniformity: Uniformity): boolean {
    return loop.parts.some((part) => !("header" in part) && mayDiverge(part, uniformity));
  }

  /** The registers that members of a masked loop may set at different times, or that only some of them set. */
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

/** Whether every way out of a loop within another leads to a block of that other loop. */
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
 * Whether members often take different ways at the end of a block. Those that compare numbers that grow from member to
 * member, such as their indices, usually do not.
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

/** The registers that a block uses and defines. What it sets under a predicate is not defined. */
function useOf(block: FlowBlock): RegisterUse {
  const { terminator } = block;
  const on = terminator.kind === "branch" || terminator.kind === "switch" ? terminator.on : undefined;
  const last = on !== undefined && "instruction" in on ? on.instruction : undefined;
  const instructions = instructionsOf(block);
  return registerUseOf(last === undefined ? instructions : [...instructions, last]);
}
