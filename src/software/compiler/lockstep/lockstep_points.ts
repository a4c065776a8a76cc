/**
 * Finds the lockstep points of a kernel: where the lanes of a warp must wait for each other, because the program can
 * observe the order in which they access memory.
 *
 * The lanes of a GPU's warp advance together while they follow the same path. Here, a thread runs until it is
 * suspended. The difference is observable only if a lane accesses memory that another lane has accessed before, without
 * a barrier in between, and one of the two accesses writes. Before the second access, all lanes wait.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import type { AnalyzedFlow, CompiledStep, FlowBlock, KernelFlows } from "../control_flow/function_flow.ts";
import { predecessors, successors } from "../../../ptx/analysis/control_flow_graph.ts";
import { callTarget } from "../typing/call_layout.ts";
import type { FunctionName, Register } from "../../../ptx/instructions/resolved_instruction.ts";
import { instructionsOf, type ResolvedFunction, type ResolvedKernel } from "../typing/resolver.ts";
import { resultsOf, sourcesOf } from "../../../ptx/analysis/definitions_and_uses.ts";
import { AddressForms, type LaunchRules, type LinearTerm } from "../../../ptx/analysis/address_forms.ts";
import {
  AccessConflicts,
  accessesOf,
  AccessNumbers,
  anyChange,
  type LinearAccess,
  type RootedAccess,
} from "./access_conflicts.ts";
import { laneDifferences, usualLaunch } from "./warp_rules.ts";
import type { FunctionAnalysis } from "../../../ptx/analysis/function_analysis.ts";

/**
 * The maximum number of pending accesses that the analysis tracks. If there are more, the analysis adds lockstep points
 * that may be unnecessary, so that its time and memory stay proportional to the kernel's size.
 */
const mostAccesses = 128;

/** The lockstep points of a kernel and of the functions that the kernel calls. */
export interface LockstepPoints {
  /** The instructions before which the lanes of a warp must wait for each other. */
  readonly instructions: ReadonlySet<CompiledInstruction>;
  /** Whether the kernel stores to shared or global memory. If not, no launch has lockstep points. */
  readonly hasAccesses: boolean;
  /** The offsets of the kernel parameters through which the kernel accesses memory, in bytes. */
  readonly parameters: readonly number[];
  /**
   * Returns the lockstep points for launches that satisfy `rules`. Returns this object if the instructions are the
   * same.
   */
  under(rules: LaunchRules): LockstepPoints;
}

/** Finds the lockstep points of a kernel for launches that satisfy {@linkcode usualLaunch}. */
export function findLockstepPoints(
  resolved: ResolvedKernel,
  { flows, addressed }: { flows: KernelFlows; addressed: ReadonlySet<FunctionName> },
): LockstepPoints {
  const all = [resolved.kernel, ...resolved.callees.values()];
  const parameters = new Set<number>();
  const hasAccesses = all.some((resolved) => instructionsOf(resolved).some(mayAccess));
  const find = (rules: LaunchRules) => {
    const points = new Set<CompiledInstruction>();
    if (hasAccesses) {
      const accessing = accessingFunctions(all, { callees: resolved.callees, addressed });
      for (const each of all) {
        const isCalled = each !== resolved.kernel;
        const { callees } = resolved;
        new PointFinder(flows.get(each)!, { rules, isCalled, accessing, callees, parameters }).find(points);
      }
    }
    return points;
  };
  const known: LockstepPoints[] = [];
  const under = (rules: LaunchRules): LockstepPoints => {
    const instructions = find(rules);
    for (const points of known) if (areEqual(points.instructions, instructions)) return points;
    const points = { instructions, hasAccesses, parameters: [...parameters], under };
    known.push(points);
    return points;
  };
  return under(usualLaunch);
}

/** Whether two sets have the same elements. */
function areEqual(a: ReadonlySet<unknown>, b: ReadonlySet<unknown>): boolean {
  return a.size === b.size && a.isSubsetOf(b);
}

/** Whether an instruction may write to shared or global memory. */
function mayAccess(instruction: CompiledInstruction): boolean {
  return accessesOf(instruction, { isUsed: () => true }).some(({ writes }) => writes);
}

/** Returns the functions that access shared or global memory, directly or in functions that they call. */
function accessingFunctions(
  all: readonly ResolvedFunction[],
  { callees, addressed }: {
    callees: ResolvedKernel["callees"];
    addressed: ReadonlySet<FunctionName>;
  },
): ReadonlySet<ResolvedFunction> {
  const accessing = new Set<ResolvedFunction>();
  if (all.length === 1) return accessing;
  const callers = new Map<ResolvedFunction, Set<ResolvedFunction>>();
  /** The functions that make indirect calls. */
  const callingAny = new Set<ResolvedFunction>();
  for (const resolved of all) {
    for (const instruction of instructionsOf(resolved)) {
      if (instruction.form.flow !== "call") {
        if (!accessing.has(resolved) && accessesOf(instruction, { isUsed: () => true }).length > 0) {
          accessing.add(resolved);
        }
        continue;
      }
      const target = callTarget(instruction);
      if (target.kind !== "function") {
        callingAny.add(resolved);
        continue;
      }
      const callee = callees.get(target);
      if (callee === undefined) continue;
      const known = callers.get(callee);
      if (known === undefined) callers.set(callee, new Set([resolved]));
      else known.add(resolved);
    }
  }
  const called = new Set([...addressed].map((name) => callees.get(name)));
  // The loop also visits functions that are added to the set during the iteration.
  for (const callee of accessing) {
    for (const caller of callers.get(callee) ?? []) accessing.add(caller);
    if (called.has(callee)) { for (const caller of callingAny) accessing.add(caller); }
    if (called.has(callee)) callingAny.clear();
  }
  return accessing;
}

/**
 * The accesses that lanes may have made since the lanes of the warp last waited for each other. Each access is mapped
 * to the terms of its address that have changed since the access.
 */
class Pending {
  /** Whether lanes may also have made unknown accesses, for example in another function. */
  isOpen: boolean;
  readonly accesses = new Map<LinearAccess, ReadonlySet<LinearTerm>>();

  constructor(isOpen: boolean) {
    this.isOpen = isOpen;
  }

  /** Discards the list of accesses and sets `isOpen`: from here on, lanes may have accessed any memory. */
  open(): void {
    this.isOpen = true;
    this.accesses.clear();
  }

  clear(): void {
    this.isOpen = false;
    this.accesses.clear();
  }

  /** Merges the pending accesses of another path. Returns whether anything was added. */
  add({ isOpen, accesses }: Pending): boolean {
    if (this.isOpen) return false;
    if (isOpen) {
      this.open();
      return true;
    }
    let isNew = false;
    for (const [access, changed] of accesses) {
      const known = this.accesses.get(access);
      if (known !== undefined && [...changed].every((term) => known.has(term))) continue;
      this.accesses.set(access, known === undefined ? changed : new Set([...known, ...changed]));
      isNew = true;
    }
    if (this.accesses.size > mostAccesses) this.open();
    return isNew;
  }

  /**
   * Records that a register has changed, for each pending access whose address depends on the register. `change` is the
   * register itself if the instruction that sets the register is in a loop, and {@linkcode anyChange} otherwise.
   */
  change(register: Register, change: LinearTerm): void {
    for (const [access, changed] of this.accesses) {
      if (access.form.terms.has(register) && !changed.has(change)) {
        this.accesses.set(access, new Set([...changed, change]));
      }
    }
  }
}

const unchanged: ReadonlySet<LinearTerm> = new Set();

interface FinderContext {
  readonly rules: LaunchRules;
  /**
   * Whether the function is a callee of the kernel, as opposed to the kernel itself. The code before the call may have
   * made accesses.
   */
  readonly isCalled: boolean;
  /** The functions that access shared or global memory. */
  readonly accessing: ReadonlySet<ResolvedFunction>;
  readonly callees: ResolvedKernel["callees"];
  /** Collects the byte offsets of the kernel parameters through which the kernel accesses memory. */
  readonly parameters: Set<number>;
}

/** Finds the lockstep points of one function. */
class PointFinder {
  readonly #flow: AnalyzedFlow;
  readonly #context: FinderContext;
  readonly #addresses: AddressForms;
  readonly #conflicts: AccessConflicts;
  readonly #accesses = new Map<CompiledInstruction, LinearAccess[]>();
  /** The terms that occur in the linear forms of accessed addresses. */
  readonly #terms = new Set<LinearTerm>();

  constructor(flow: AnalyzedFlow, context: FinderContext) {
    this.#flow = flow;
    this.#context = context;
    const { rules } = context;
    const { analysis } = flow;
    const { instructions } = analysis;
    let used: ReadonlySet<unknown> | undefined;
    const isUsed = (instruction: CompiledInstruction) => {
      const read = used ??= operandsRead(instructions);
      return resultsOf(instruction).some((register) => read.has(register));
    };
    const addresses = new AddressForms(analysis, rules);
    this.#addresses = addresses;
    this.#conflicts = new AccessConflicts(addresses, rules, laneDifferences(rules.block));
    const all: RootedAccess[] = [];
    const numbers = new AccessNumbers();
    for (const instruction of instructions) {
      for (const access of accessesOf(instruction, { isUsed })) {
        const roots = addresses.rootsOf(access.address.base);
        if (!roots.isUnknown && [...roots.names].every((name) => name === "local")) continue;
        for (const name of roots.names) {
          if (name.startsWith("param ")) context.parameters.add(Number(name.slice("param ".length)));
        }
        all.push({ ...access, roots, ...numbers.ofRoots(roots)[access.space] });
      }
    }
    const groups = groupsOf(all);
    const written: RootedAccess[] = [];
    for (const group of groups.values()) {
      const access = group.find(({ writes }) => writes);
      if (access !== undefined) written.push(access);
    }
    const isWritten = meetingAny(written, this.#conflicts);
    for (const group of groups.values()) {
      // Memory that the kernel only reads needs no lockstep points.
      if (!context.isCalled && !isWritten(group[0]!)) continue;
      for (const access of group) {
        const { instruction } = access;
        const form = addresses.formOf(access.address);
        for (const term of form.terms.keys()) this.#terms.add(term);
        const terms = numbers.ofTerms(form.terms);
        const known = { ...access, form, terms, isRepeated: addresses.isRepeated(instruction) };
        const others = this.#accesses.get(instruction);
        if (others === undefined) this.#accesses.set(instruction, [known]);
        else others.push(known);
      }
    }
  }

  /**
   * Adds the function's lockstep points to `points`. The points are found by a data-flow analysis of the pending
   * accesses.
   */
  find(points: Set<CompiledInstruction>): void {
    if (this.#accesses.size === 0) return;
    const { analysis } = this.#flow;
    const { blocks } = analysis;
    const before = predecessors(blocks, successors);
    const resumed = new Map(this.#flow.suspendPoints.map((point) => [point.suspendBlock, point]));
    const isBarrier = (block: FlowBlock) => {
      const instruction = resumed.get(block)?.instruction;
      return instruction?.form.suspending?.gathersWarp?.(instruction) === true;
    };
    const begins = new Map<FlowBlock, Pending>();
    const ends = new Map<FlowBlock, Pending>();
    for (const block of blocks) begins.set(block, new Pending(this.#context.isCalled && block === this.#flow.entry));
    for (const [block, regions] of divergentRegions(analysis, isBarrier)) {
      for (const region of regions) {
        if (region === undefined) begins.get(block)!.open();
        else this.#addAll(region, begins.get(block)!);
      }
    }
    for (let changed = true; changed;) {
      changed = false;
      for (const block of blocks) {
        const begin = begins.get(block)!;
        let isNew = !ends.has(block);
        for (const from of before.get(block)!) {
          const end = ends.get(from);
          if (end !== undefined) isNew = begin.add(end) || isNew;
        }
        if (!isNew) continue;
        const after = new Pending(false);
        after.add(begin);
        this.#walk(block, after, points);
        const suspended = resumed.get(block)?.instruction;
        if (suspended !== undefined) this.#suspend(suspended, after);
        const end = ends.get(block);
        if (end === undefined) ends.set(block, after);
        if (end === undefined || end.add(after)) changed = true;
      }
    }
  }

  /** Adds the accesses in the basic blocks of a region, which lanes may make in any order, to `pending`. */
  #addAll(region: Iterable<FlowBlock>, pending: Pending): void {
    const set = new Map<Register, LinearTerm>();
    const found: LinearAccess[] = [];
    for (const { instructions } of pending.isOpen ? [] : region) {
      for (const { instruction } of instructions) {
        if (instruction === undefined) continue;
        for (const register of resultsOf(instruction)) {
          if (this.#terms.has(register)) set.set(register, this.#changeBy(instruction, register));
        }
        if (instruction.form.flow === "call" && this.#isAccessing(instruction)) return pending.open();
        found.push(...this.#accesses.get(instruction) ?? []);
      }
      if (found.length > mostAccesses) return pending.open();
    }
    for (const access of found) {
      const changed = [...access.form.terms.keys()].flatMap((term) => {
        return typeof term === "string" ? [] : set.get(term) ?? [];
      });
      pending.accesses.set(access, changed.length === 0 ? unchanged : new Set(changed));
    }
    if (pending.accesses.size > mostAccesses) pending.open();
  }

  /** Updates `pending` for the instructions of a basic block, and adds the block's lockstep points to `points`. */
  #walk({ instructions }: FlowBlock, pending: Pending, points: Set<CompiledInstruction>): void {
    for (const { instruction } of instructions) {
      if (instruction === undefined) continue;
      const accesses = instruction.form.flow === undefined ? this.#accesses.get(instruction) : undefined;
      if (accesses !== undefined) {
        const isPoint = points.has(instruction) || pending.isOpen ||
          accesses.some((access) => this.#meets(pending, access));
        if (isPoint) {
          points.add(instruction);
          pending.clear();
        }
      }
      for (const access of accesses ?? []) pending.accesses.set(access, unchanged);
      if (pending.accesses.size > mostAccesses) pending.open();
      this.#change(instruction, pending);
    }
  }

  /** Whether an access conflicts with any pending access. */
  #meets({ accesses }: Pending, second: LinearAccess): boolean {
    for (const [first, changed] of accesses) if (this.#conflicts.conflict(first, second, changed)) return true;
    return false;
  }

  /** Records in `pending` the registers that an instruction changes. */
  #change(instruction: CompiledInstruction, pending: Pending): void {
    for (const register of resultsOf(instruction)) {
      if (!this.#terms.has(register)) continue;
      pending.change(register, this.#changeBy(instruction, register));
    }
  }

  /**
   * Returns the term to record when an instruction changes a register: the register itself if the instruction is in a
   * loop. Outside of loops, returns {@linkcode anyChange}, because the new value of the register is unrelated to the
   * old one.
   */
  #changeBy(instruction: CompiledInstruction, register: Register): LinearTerm {
    return this.#addresses.isRepeated(instruction) ? register : anyChange;
  }

  /** Whether the function that is called may access shared or global memory. */
  #isAccessing(call: CompiledInstruction): boolean {
    const { callees, accessing } = this.#context;
    const target = callTarget(call);
    if (target.kind !== "function") return true;
    const callee = callees.get(target);
    return callee !== undefined && accessing.has(callee);
  }

  /** Updates `pending` for a call or a barrier. */
  #suspend(instruction: CompiledInstruction, pending: Pending): void {
    if (instruction.form.flow === "call") {
      if (this.#isAccessing(instruction)) pending.open();
    } else if (instruction.form.suspending?.gathersWarp?.(instruction) === true) {
      pending.clear();
    }
  }
}

/** Groups accesses with equal space and roots. */
function groupsOf(accesses: readonly RootedAccess[]): Map<number, RootedAccess[]> {
  return Map.groupBy(accesses, ({ group }) => group);
}

/**
 * Returns a predicate for accesses: whether an access may touch the same variable or allocation as any of the given
 * accesses.
 */
function meetingAny(given: readonly RootedAccess[], conflicts: AccessConflicts): (access: RootedAccess) => boolean {
  const isOfVariables = ({ roots: { isUnknown, names } }: RootedAccess) => {
    return !isUnknown && [...names].every((name) => !name.startsWith("param"));
  };
  // Look up known variables in a map, and compare the few other accesses one by one.
  const variables = new Map<string, RootedAccess>();
  const keyOf = (space: string, name: string) => `${space} ${name.split(" ", 2).join(" ")}`;
  for (const access of given) {
    if (access.roots.isUnknown) continue;
    for (const name of access.roots.names) variables.set(keyOf(access.space, name), access);
  }
  const others = given.filter((access) => !isOfVariables(access));
  return (access) => {
    const alike = [...access.roots.names].flatMap((name) => {
      return (["shared", "global", "generic"] as const).flatMap((space) => variables.get(keyOf(space, name)) ?? []);
    });
    return [alike, isOfVariables(access) ? others : given].some((some) => {
      return some.some((other) => conflicts.mayMeet(other, access));
    });
  };
}

/** Returns all operands that the instructions of a function read. */
function operandsRead(instructions: readonly CompiledInstruction[]): ReadonlySet<unknown> {
  const read = new Set<unknown>();
  for (const instruction of instructions) {
    for (const source of sourcesOf(instruction)) read.add(source);
    if (instruction.predicate !== undefined) read.add(instruction.predicate.register);
    // The base register of an address is read even if the address is the first operand.
    for (const operand of instruction.operands) if (operand.kind === "address") read.add(operand.base);
  }
  return read;
}

/**
 * The maximum number of basic blocks in all regions together, as a multiple of the function's number of blocks. Once
 * this maximum is exceeded, large regions are not computed.
 */
const blocksPerBlock = 32;
/** The size in basic blocks above which a region is large. */
const manyBlocks = 64;

/**
 * Returns the divergent regions for each basic block where diverged lanes reconverge after a branch or a loop. A region
 * contains the blocks that other lanes may still execute when a lane arrives at the block of reconvergence. A region
 * does not extend across barriers, because no lane passes a barrier before the other lanes reach it. For a region that
 * is too large, the result contains undefined.
 */
function divergentRegions(
  { blocks, dominators, loops }: FunctionAnalysis<CompiledStep>,
  isBarrier: (block: FlowBlock) => boolean,
): ReadonlyMap<FlowBlock, readonly (ReadonlySet<FlowBlock> | undefined)[]> {
  const regions = new Map<FlowBlock, (ReadonlySet<FlowBlock> | undefined)[]>();
  const add = (block: FlowBlock, region: ReadonlySet<FlowBlock> | undefined) => {
    const known = regions.get(block);
    if (known === undefined) regions.set(block, [region]);
    else known.push(region);
  };
  const before = predecessors(blocks, successors);
  let left = blocks.length * blocksPerBlock;
  /**
   * Returns the blocks from which `from` can be reached without passing a barrier, or undefined if there are too many.
   */
  const blocksBefore = (from: readonly FlowBlock[], isOutside: (block: FlowBlock) => boolean) => {
    const region = new Set<FlowBlock>();
    const waiting = [...from];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (region.has(next) || isOutside(next) || isBarrier(next)) continue;
      region.add(next);
      if (--left < 0 && region.size > manyBlocks) return undefined;
      waiting.push(...before.get(next)!);
    }
    return region;
  };
  const { number, children } = dominators;
  for (const dominator of blocks) {
    for (const block of children(dominator)) {
      const forward = [...before.get(block)!].filter((from) => number.get(from)! < number.get(block)!);
      if (forward.length > 1) add(block, blocksBefore(forward, (other) => other === dominator || other === block));
    }
  }
  for (const { body } of loops) {
    const inside = new Set(body);
    const exits = new Map<FlowBlock, FlowBlock[]>();
    for (const from of body) {
      for (const block of successors(from)) {
        if (!inside.has(block)) exits.set(block, [...exits.get(block) ?? [], from]);
      }
    }
    for (const [block, from] of exits) add(block, blocksBefore(from, (other) => !inside.has(other)));
  }
  return regions;
}
