/**
 * Runs a kernel symbolically for all threads of a launch at once, as far as addresses and branches are affine in the
 * thread's index. Where a condition is true for only some threads, the threads diverge.
 *
 * @module
 */
import {
  type AffineForm,
  assume,
  baseForm,
  type Condition,
  constantForm,
  decide,
  type Domain,
  noBase,
  sumOf,
  TooComplex,
  untrackedBase,
} from "./domain.ts";
import { registersSet } from "../../ptx/analysis/definitions_and_uses.ts";
import { type FlowStep, successors } from "../../ptx/analysis/control_flow_graph.ts";
import {
  type Register,
  type ResolvedAddress,
  type ResolvedInstruction,
  type ResolvedOperand,
  spaceOf,
} from "../../ptx/instructions/resolved_instruction.ts";
import type { CodeBlock, KernelCode } from "./kernel_code.ts";
import { accelerate } from "./loop_acceleration.ts";
import {
  accessOf,
  areEqual,
  barrierOf,
  type CertainAccess,
  type LaunchNumbers,
  type LoopArrival,
  type LoopCondition,
  type PreparedCode,
  sharedAccessOf,
  type StopPredicate,
  type ThreadState,
} from "./thread_state.ts";
import { allWrites, noWrites, SharedPhases } from "./shared_phases.ts";
import { type AbstractValue, evaluate, SplitDimension, type Undecided } from "./values.ts";

/**
 * The states of diverged threads. All are at the start of a basic block, or all are inside the same block (`isMidway`).
 */
interface Divergence {
  readonly parts: readonly ThreadState[];
  readonly isMidway: boolean;
}

/** The maximum number of steps (executed instructions and ends of basic blocks) of a run. */
const mostSteps = 40_000;
/** The number of steps charged for a divergence, which copies the state of the threads. */
const stepsOfDivergence = 20;
/** The maximum depth of nested divergences. */
const maximumDivergences = 400;

/** A symbolic run of a kernel, which covers all threads of a launch. */
export class KernelRun {
  readonly prepared: PreparedCode;
  /** The accesses found so far. All threads of an access's domain certainly make the access. */
  readonly certain: CertainAccess[] = [];
  /** The instructions that may access memory in addition to the accesses in `certain`. */
  readonly possible: Set<ResolvedInstruction> = new Set();
  /** Whether the kernel accesses variables, shared memory or local memory through generic addresses. */
  reachesUntracked = false;
  /** The accesses to shared memory. Undefined before `run` is called. */
  phases: SharedPhases | undefined;
  readonly #code: KernelCode;
  readonly #launch: LaunchNumbers;
  #steps = 0;
  /** The number of divergences whose threads have not reconverged yet. */
  #divergences = 0;
  #dimensions: number;

  constructor(prepared: PreparedCode, launch: LaunchNumbers, dimensions: number) {
    this.prepared = prepared;
    this.#code = prepared.code;
    this.#launch = launch;
    this.#dimensions = dimensions;
  }

  /** Runs the kernel for all threads of a domain. */
  run(domain: Domain): void {
    const values: AbstractValue[] = Array(this.#code.registers.size).fill(undefined);
    const { analysis, sharedBytes: byteLengths } = this.#code;
    const before = { writes: noWrites, settled: noWrites, iterations: [] };
    const state = {
      ...before,
      block: analysis.entry,
      index: 0,
      values,
      domain,
      phase: 0,
      arrivals: new Map(),
      loopConditions: undefined,
    };
    this.phases = new SharedPhases({ byteLengths, dimensions: this.#launch.threadDimensions, whole: domain });
    try {
      this.walk(state, () => false);
    } catch (error) {
      if (!(error instanceof TooComplex)) throw error;
      this.phases.refuseBarriers();
      for (const instruction of analysis.instructions) this.#addPossible(instruction);
    }
  }

  /** Adds a dimension for the iterations of a loop. Returns the dimension's index. */
  addDimension(): number {
    return this.#dimensions++;
  }

  /**
   * Executes a state's threads until each has exited or has reached a basic block at which to stop. Returns the states
   * of the threads that have stopped. With `isMidway`, execution starts inside `state.block`, and does not stop at the
   * start of that block even if `stop` is true for it.
   */
  walk(state: ThreadState, stop: StopPredicate, isMidway = false): ThreadState[] {
    for (;; isMidway = false) {
      if (!isMidway) {
        if (stop(state.block)) return [state];
        if (state.block === this.#code.end) return [];
        state.index = 0;
        if (this.#enterLoop(state)) continue;
      }
      const divergence = this.#runBlock(state);
      if (divergence === undefined) continue;
      const arrived = this.#reconverge(state, divergence, stop);
      if (arrived.length !== 1) return arrived.flatMap((part) => this.walk(part, stop));
      state = arrived[0]!;
    }
  }

  /**
   * Executes diverged threads up to their reconvergence point. If all of them arrive there with equal states, returns
   * one merged state.
   */
  #reconverge(state: ThreadState, { parts, isMidway }: Divergence, stop: StopPredicate): ThreadState[] {
    const meeting = this.prepared.reconvergenceOf(state.block);
    const domains = new Set(parts.map(({ domain }) => domain));
    this.#spend(stepsOfDivergence);
    if (++this.#divergences > maximumDivergences) throw new TooComplex();
    const arrived = parts.flatMap((part) => this.walk(part, (block) => block === meeting || stop(block), isMidway));
    this.#divergences--;
    const isWhole = arrived.length === domains.size &&
      arrived.every(({ block, domain }) => block === meeting && domains.delete(domain));
    if (!isWhole || !this.#areSame(arrived, meeting)) return arrived;
    for (const { phase } of arrived) this.phases?.join(phase, arrived[0]!.phase);
    const [{ settled }] = arrived as [ThreadState];
    return [{
      ...arrived[0]!,
      domain: state.domain,
      arrivals: state.arrivals,
      loopConditions: state.loopConditions,
      writes: allWrites(arrived.map(({ writes }) => writes)),
      // `settled` contains the writes before the last barrier. If only some of the threads have passed a barrier since
      // the divergence, only the writes that were settled before the divergence count.
      settled: arrived.every((part) => part.settled === settled) ? settled : state.settled,
    }];
  }

  #spend(steps: number): void {
    this.#steps += steps;
    if (this.#steps > mostSteps) throw new TooComplex();
  }

  #areSame([first, ...others]: readonly ThreadState[], block: CodeBlock): boolean {
    if (first === undefined) return false;
    for (const register of this.#code.analysis.liveRegisters.get(block) ?? []) {
      const index = this.#code.registers.get(register)!;
      for (const { values } of others) if (!areEqual(values[index], first.values[index])) return false;
    }
    return true;
  }

  /**
   * If the state is at the header of a loop, records the arrival. Returns true if the loop was accelerated, which
   * advances the state to the loop's exit.
   */
  #enterLoop(state: ThreadState): boolean {
    const { block, arrivals } = state;
    const body = this.prepared.loops.get(block);
    const open = new Map([...arrivals].filter(([loop]) => this.prepared.loops.get(loop)!.has(block)));
    state.arrivals = open;
    if (body === undefined) return false;
    const { domain, loopConditions } = state;
    const known = open.get(block) ?? [];
    const all = [...known.slice(-2), { values: [...state.values], domain, loopConditions }];
    open.set(block, all);
    return all.length === 3 && accelerate(this, state, all as [LoopArrival, LoopArrival, LoopArrival]);
  }

  /** Executes the rest of a basic block. If threads diverge, returns their states, otherwise undefined. */
  #runBlock(state: ThreadState): Divergence | undefined {
    const { instructions, terminator } = state.block;
    for (; state.index < instructions.length; state.index++) {
      this.#spend(1);
      const instruction = instructions[state.index]!.instruction!;
      if (instruction.form.flow === "call") return this.#abandon(state);
      const undecided = this.#execute(state, instruction);
      if (undecided !== undefined) return { parts: this.#parts(state, undecided.condition), isMidway: true };
    }
    this.#spend(1);
    const [only, other] = successors(state.block);
    if (only !== undefined && other === undefined) {
      state.block = only;
      return undefined;
    }
    const { predicate, form } = (terminator.kind === "branch" ? terminator.on.instruction : undefined) ?? {};
    const condition = predicate && this.#conditionOf(state, predicate.register);
    // The target of a switch is unknown, so skip to the reconvergence point, whether or not the switch's predicate is
    // true.
    if (condition === undefined || form?.flow === "switch") {
      this.#skip(state);
      return undefined;
    }
    return this.#branch(state, condition, predicate!.negated ? [other!, only!] : [only!, other!]);
  }

  #conditionOf(state: ThreadState, register: Register): Condition | undefined {
    const value = this.#valueOf(state, register);
    return value === undefined || value.kind === "affine" ? undefined : value;
  }

  /** Marks the values of all registers that an instruction may set as unknown. */
  #forget({ values }: ThreadState, instruction: ResolvedInstruction): void {
    for (const register of registersSet(instruction)) values[this.#code.registers.get(register)!] = undefined;
  }

  /**
   * Splits a state by a condition. In each returned state, the condition is either true for all threads or false for
   * all threads.
   */
  #parts(state: ThreadState, condition: Condition): ThreadState[] {
    return [true, false].flatMap((truth) =>
      assume(state.domain, condition, truth).map((domain) => ({ ...state, domain, values: [...state.values] }))
    );
  }

  #branch(
    state: ThreadState,
    condition: Condition,
    [taken, other]: readonly [CodeBlock, CodeBlock],
  ): Divergence | undefined {
    const { prepared } = this;
    const loop = prepared.loopAround(state.block);
    const body = loop === undefined ? undefined : prepared.loops.get(loop)!;
    const noted = (truth: boolean): LoopCondition | undefined => {
      const target = truth ? taken : other, instead = truth ? other : taken;
      if (body === undefined || !body.has(target) || body.has(instead)) return state.loopConditions;
      return { loop: loop!, condition, truth, previous: state.loopConditions };
    };
    const decided = decide(state.domain, condition);
    if (decided !== undefined) {
      state.loopConditions = noted(decided);
      state.block = decided ? taken : other;
      return undefined;
    }
    const parts = [true, false].flatMap((truth) =>
      assume(state.domain, condition, truth).map((domain): ThreadState => ({
        ...state,
        block: truth ? taken : other,
        index: 0,
        domain,
        values: [...state.values],
        loopConditions: noted(truth),
      }))
    );
    return { parts, isMidway: false };
  }

  /**
   * Ends the execution of a state at a call, because the called function may do anything, including ending the thread.
   * Records all later accesses as possible accesses.
   */
  #abandon(state: ThreadState): undefined {
    const { end } = this.#code;
    const behind = state.block.instructions.slice(state.index);
    for (const { instruction } of [...behind, ...stepsBetween(state.block, end)]) this.#addPossible(instruction!);
    state.block = end;
  }

  /**
   * Skips to the reconvergence point of a branch with an unknown condition. Registers that the skipped basic blocks may
   * write become unknown. Accesses in the skipped blocks are recorded as possible accesses.
   */
  #skip(state: ThreadState): void {
    const meeting = this.prepared.reconvergenceOf(state.block);
    for (const { instruction } of stepsBetween(state.block, meeting)) {
      this.#addPossible(instruction!);
      this.#forget(state, instruction!);
    }
    state.block = meeting;
  }

  #addPossible(instruction: ResolvedInstruction): void {
    if (accessOf(instruction) !== undefined) this.possible.add(instruction);
    if (sharedAccessOf(instruction) !== undefined) this.phases?.refuse();
    if (barrierOf(instruction) !== undefined) this.phases?.refuseBarriers();
  }

  /**
   * Executes an instruction. If the instruction depends on a condition that varies among the threads, returns the
   * condition and executes nothing.
   */
  #execute(state: ThreadState, instruction: ResolvedInstruction): Undecided | undefined {
    const { predicate } = instruction;
    if (predicate !== undefined) {
      const condition = this.#conditionOf(state, predicate.register);
      if (condition === undefined) {
        this.#addPossible(instruction);
        this.#forget(state, instruction);
        return undefined;
      }
      const decided = decide(state.domain, condition);
      if (decided === undefined) return { kind: "undecided", condition };
      if (decided === predicate.negated) return undefined;
    }
    this.#access(state, instruction);
    this.#accessShared(state, instruction);
    return this.#assign(state, instruction);
  }

  #access(state: ThreadState, instruction: ResolvedInstruction): void {
    const found = accessOf(instruction);
    if (found === undefined) return;
    const address = found === "unknown" ? undefined : this.#addressOf(state, found.address);
    if (found === "unknown" || address === undefined) this.possible.add(instruction);
    else if (address.base <= untrackedBase) this.reachesUntracked = true;
    else {
      const { access, byteLength } = found;
      this.certain.push({ instruction, access, byteLength, form: address, domain: state.domain });
    }
  }

  #accessShared(state: ThreadState, instruction: ResolvedInstruction): void {
    const barrier = barrierOf(instruction);
    if (barrier === "other") this.phases?.refuseBarriers();
    if (barrier === "block" && this.phases !== undefined) {
      state.phase = this.phases.next(state.domain);
      state.settled = state.writes;
    }
    const found = sharedAccessOf(instruction);
    if (found === undefined) return;
    const form = found === "unknown" ? undefined : this.#addressOf(state, found.address);
    if (found === "unknown" || form === undefined) return this.phases?.refuse();
    const { access, byteLength } = found;
    this.phases?.add({ instruction, access, byteLength, form, domain: state.domain }, state.phase, state);
  }

  #addressOf(state: ThreadState, { base, offset }: ResolvedAddress): AffineForm | undefined {
    const value = base === undefined ? constantForm(0) : this.#valueOf(state, base);
    const bytes = Number(offset);
    return value?.kind === "affine" && Number.isSafeInteger(bytes) ? sumOf(value, constantForm(bytes)) : undefined;
  }

  #assign(state: ThreadState, instruction: ResolvedInstruction): Undecided | undefined {
    const { form, operands } = instruction;
    const targets = registersSet(instruction);
    const { registers } = this.#code;
    if (form.traits.access === "read") {
      const values = spaceOf(instruction) === "param" ? this.#loadParameter(instruction, targets.length) : [];
      targets.forEach((register, index) => state.values[registers.get(register)!] = values[index]);
      return undefined;
    }
    const [target, ...more] = targets;
    if (target === undefined) return undefined;
    for (const register of more) state.values[registers.get(register)!] = undefined;
    const result = operands[0]!.kind === "register" ? this.#evaluate(state, instruction) : undefined;
    if (result?.kind === "undecided") return result;
    const isKept = result !== undefined && fillsRegister(instruction, target);
    state.values[registers.get(target)!] = isKept ? result : undefined;
    return undefined;
  }

  #evaluate(state: ThreadState, instruction: ResolvedInstruction): AbstractValue | Undecided {
    const { pointer, arithmetic } = instruction.form.traits;
    if (pointer !== "converted" && arithmetic === undefined) return undefined;
    const values = instruction.operands.slice(1).map((source) => this.#valueOf(state, source));
    try {
      return evaluate(instruction, values, {
        domain: state.domain,
        parameter: (offset) => {
          const value = this.#launch.parameter(offset, 64, true);
          if (value === undefined) throw new TooComplex();
          return value;
        },
      });
    } catch (error) {
      if (error instanceof SplitDimension && !this.#launch.mayBeSplit(error.dimension)) return undefined;
      throw error;
    }
  }

  #loadParameter({ operands, choices, type }: ResolvedInstruction, count: number): AbstractValue[] {
    const source = operands[1];
    const base = source?.kind === "address" ? source.base : undefined;
    // A variable without a base is a parameter.
    if (source?.kind !== "address" || base?.kind !== "variable" || this.#code.bases.has(base)) return [];
    if (!choices.has("type") || type.kind === "float") return [];
    const { bits } = type;
    return Array.from({ length: count }, (_, index) => {
      const offset = base.offset + Number(source.offset) + index * bits / 8;
      if (bits === 64) return baseForm(offset);
      const value = this.#launch.parameter(offset, bits, type.kind === "signed");
      return value === undefined ? undefined : constantForm(value);
    });
  }

  #valueOf(state: ThreadState, operand: ResolvedOperand): AbstractValue {
    switch (operand.kind) {
      case "register":
        return state.values[this.#code.registers.get(operand)!];
      case "integer": {
        const value = Number(BigInt.asIntN(64, operand.value));
        return Number.isSafeInteger(value) ? constantForm(value) : undefined;
      }
      case "special":
        return this.#launch.special(operand.name);
      case "variable": {
        const base = this.#code.bases.get(operand);
        return base === undefined ? undefined : baseForm(base);
      }
      case "sum":
        return this.#code.bases.has(operand.variable) ? baseForm(untrackedBase) : undefined;
      case "not": {
        const value = this.#valueOf(state, operand.register);
        return value === undefined || value.kind === "affine" ? undefined : { kind: "not", of: value };
      }
      case "vector": {
        // A 64- or 128-bit value in two registers is supported only if its upper half is 0 and its lower half is in
        // range.
        const [low, high] = operand.elements.map((element) => numberOf(this.#valueOf(state, element)));
        const [lower] = operand.elements;
        const bits = lower?.kind === "register" ? lower.type.bits : 0;
        return high === 0 && low !== undefined && low >= 0 && low < 2 ** bits ? constantForm(low) : undefined;
      }
      default:
        return undefined;
    }
  }
}

/** Returns whether the result of an instruction has at least as many bits as the register to which it is written. */
function fillsRegister({ form, choices, type }: ResolvedInstruction, register: Register): boolean {
  const { arithmetic, pointer } = form.traits;
  if (arithmetic === "comparison" || pointer === "converted") return true;
  return type.bits * (choices.has("wide") ? 2 : 1) >= register.type.bits;
}

/**
 * Returns the value as a number if it is the same number in all threads. Undefined if the number varies, or if the
 * value is an address.
 */
function numberOf(value: AbstractValue): number | undefined {
  const isNumber = value?.kind === "affine" && value.base === noBase && value.terms.length === 0;
  return isNumber ? value.constant : undefined;
}

/**
 * Returns the steps of the basic blocks on all paths from block `from` to block `to`, excluding the steps of `from` and
 * `to` themselves.
 */
function stepsBetween(from: CodeBlock, to: CodeBlock): FlowStep[] {
  const found = new Set<CodeBlock>();
  const waiting = [...successors(from)];
  for (let block = waiting.pop(); block !== undefined; block = waiting.pop()) {
    if (block === to || found.has(block)) continue;
    found.add(block);
    waiting.push(...successors(block));
  }
  return [...found].flatMap(({ instructions }) => instructions);
}
