/**
 * Runs all iterations of a loop at once, with the iteration number as an additional dimension.
 *
 * This applies if the states of three consecutive arrivals at the loop's header differ by constants. One more iteration
 * is then run symbolically, for all iteration numbers at once. If its state differs by the same constants, that is so
 * for every iteration by induction, and the result is exact. The conditions under which threads stay in the loop must
 * become stricter with each iteration, so that the last one implies the earlier ones.
 *
 * @module
 */
import {
  type AffineForm,
  areParallel,
  type Condition,
  constrain,
  type Domain,
  formOf,
  isUniform,
  productOf,
  simplified,
  sumOf,
} from "./domain.ts";
import type { CodeBlock } from "./kernel_code.ts";
import type { KernelRun } from "./kernel_run.ts";
import { allWrites } from "./shared_phases.ts";
import { areEqual, type LoopArrival, type LoopCondition, type ThreadState } from "./thread_state.ts";
import type { AbstractValue } from "./values.ts";

/**
 * The maximum number of attempts to accelerate a loop. After a failed attempt, the registers that do not change by the
 * same constant in each iteration become unknown.
 */
const mostAttempts = 4;

/**
 * A condition for staying in a loop: the value of an affine form is not negative. The value decreases by `fall` in each
 * iteration.
 */
interface Bound {
  readonly form: AffineForm;
  readonly fall: number;
}

/**
 * Advances a state from the header of a loop to the loop's exit, if it is proven that every iteration changes the state
 * by the same constants. Returns whether the state was advanced. `first`, `second` and `third` are the last three
 * arrivals at the header.
 */
export function accelerate(
  run: KernelRun,
  state: ThreadState,
  [first, second, third]: [LoopArrival, LoopArrival, LoopArrival],
): boolean {
  const loop = state.block;
  const bounds = boundsOf(loopConditionsBetween(first, second, loop), loopConditionsBetween(second, third, loop));
  if (bounds === undefined) return false;
  const dimension = run.addDimension();
  const domain = boundedDomain(extended(third.domain, dimension), bounds, { dimension, ahead: 0 });
  const next = domain && boundedDomain(domain, bounds, { dimension, ahead: 1 });
  if (domain === undefined || next === undefined) return false;
  const changes = third.values.map((value, register) => differenceOf(second.values[register], value));
  const mark = run.certain.length;
  const possible = new Set(run.possible);
  const shared = run.phases?.mark();
  for (let attempt = 0; attempt < mostAttempts; attempt++) {
    const values = third.values.map((value, register) => moved(value, changes[register], dimension));
    let isProven = false;
    try {
      const done = iterate(run, state, { values, domain, changes, next, dimension });
      if (done === "changed") continue;
      return isProven = done !== undefined && leave(run, state, done, dimension);
    } finally {
      // The loop could not be accelerated, but accesses were recorded for iterations that may not exist. Discard these
      // accesses.
      if (!isProven) {
        run.certain.length = mark;
        if (shared !== undefined) run.phases?.reset(shared);
        for (const instruction of run.possible) if (!possible.has(instruction)) run.possible.delete(instruction);
      }
    }
  }
  return false;
}

/**
 * The states of threads after one iteration: `left` for threads that have left the loop, `back` for those at the
 * header.
 */
interface Iteration {
  readonly left: readonly ThreadState[];
  readonly back: ThreadState;
}

/**
 * Executes one loop iteration symbolically, for all iteration numbers at once.
 *
 * @param before the state at the header of the loop
 * @returns "changed" if some registers do not change by constants and were made unknown; undefined if the loop cannot
 * be accelerated
 */
function iterate(run: KernelRun, before: ThreadState, { values, domain, changes, next, dimension }: {
  values: readonly AbstractValue[];
  domain: Domain;
  /**
   * For each register, the constant by which an iteration changes its value. This function sets the entry to undefined
   * if the register changes in any other way.
   */
  changes: (number | undefined)[];
  next: Domain;
  dimension: number;
}): Iteration | "changed" | undefined {
  const { block: loop, phase } = before;
  const body = run.prepared.loops.get(loop)!;
  const start: ThreadState = {
    ...before,
    index: 0,
    values: [...values],
    domain,
    arrivals: new Map(),
    loopConditions: undefined,
    iterations: [...before.iterations, dimension],
  };
  const stopped = run.walk(start, (block) => block === loop || !body.has(block), true);
  const [back, ...others] = stopped.filter(({ block }) => block === loop);
  if (back === undefined || others.length > 0) return undefined;
  run.phases?.join(back.phase, phase);
  let isSame = true;
  for (const [register, value] of values.entries()) {
    if (value === undefined || differenceOf(value, back.values[register]) === changes[register]) continue;
    changes[register] = undefined;
    isSame = false;
  }
  if (!isSame) return "changed";
  return isSameDomain(back.domain, next) ? { left: stopped.filter((state) => state !== back), back } : undefined;
}

/** Advances a state to the exit of a loop. Returns false if threads leave the loop to different blocks. */
function leave(run: KernelRun, state: ThreadState, { left: parts, back }: Iteration, dimension: number): boolean {
  const [first, ...others] = parts;
  if (first === undefined || others.some(({ block }) => block !== first.block)) return false;
  const values = parts.map(({ values, domain }) =>
    values.map((value) => {
      if (value?.kind !== "affine") return undefined;
      const known = simplified(value, domain);
      return (known.terms[dimension] ?? 0) === 0 ? known : undefined;
    })
  );
  for (const register of state.values.keys()) {
    const value = values[0]![register];
    state.values[register] = values.every((each) => areEqual(each[register], value)) ? value : undefined;
  }
  for (const { phase } of others) run.phases?.join(phase, first.phase);
  state.phase = first.phase;
  state.writes = allWrites([back, ...parts].map(({ writes }) => writes));
  state.block = first.block;
  return true;
}

function loopConditionsBetween(
  { loopConditions: earlier }: LoopArrival,
  { loopConditions: later }: LoopArrival,
  loop: CodeBlock,
): LoopCondition[] {
  const found: LoopCondition[] = [];
  for (let each = later; each !== undefined && each !== earlier; each = each.previous) {
    if (each.loop === loop) found.push(each);
  }
  return found;
}

/**
 * Returns the conditions for staying in a loop, with their change per iteration. Undefined if the conditions of two
 * consecutive iterations do not differ by constants, or if they become less strict.
 */
function boundsOf(earlier: readonly LoopCondition[], later: readonly LoopCondition[]): Bound[] | undefined {
  if (earlier.length !== later.length || later.length === 0) return undefined;
  const bounds = later.map((each, index) => boundOf(earlier[index]!, each));
  return bounds.includes(undefined) ? undefined : bounds as Bound[];
}

function boundOf(earlier: LoopCondition, later: LoopCondition): Bound | undefined {
  const [a, b] = [testOf(earlier), testOf(later)];
  if (a === undefined || b === undefined || a.relation !== b.relation || a.truth !== b.truth) return undefined;
  if (!areParallel(a.form, b.form)) return undefined;
  const change = b.form.constant - a.form.constant;
  if (b.relation === "zero") return b.truth ? undefined : boundToZero(b.form, change);
  const form = b.truth ? b.form : belowZero(b.form);
  const fall = b.truth ? -change : change;
  return form === undefined || fall < 0 ? undefined : { form, fall };
}

/**
 * Returns the condition for staying in a loop that ends when a counter is exactly 0, as a bound on the counter's
 * absolute value. Undefined unless the counter reaches 0.
 */
function boundToZero(form: AffineForm, change: number): Bound | undefined {
  if (!isUniform(form) || change === 0 || form.constant % change !== 0 || form.constant / change > 0) return undefined;
  const distance = Math.abs(form.constant);
  return { form: { ...form, constant: distance - 1 }, fall: Math.abs(change) };
}

function testOf(
  { condition, truth }: LoopCondition,
): { form: AffineForm; relation: string; truth: boolean } | undefined {
  let test: Condition = condition;
  for (; test.kind === "not"; test = test.of) truth = !truth;
  return test.kind === "test" ? { form: test.form, relation: test.relation, truth } : undefined;
}

function belowZero(form: AffineForm): AffineForm | undefined {
  const negative = productOf(form, -1);
  return negative && formOf(negative.terms, negative.constant - 1);
}

function extended({ low, high, constraints }: Domain, dimension: number): Domain {
  const filled = (values: readonly number[], last: number) =>
    Array.from({ length: dimension + 1 }, (_, index) => index === dimension ? last : values[index] ?? 0);
  return { low: filled(low, 0), high: filled(high, Infinity), constraints };
}

/** Restricts a domain to the loop iterations that are executed and are followed by at least `ahead` more iterations. */
function boundedDomain(
  domain: Domain,
  bounds: readonly Bound[],
  { dimension, ahead }: { dimension: number; ahead: number },
): Domain | undefined {
  let part: Domain | undefined = domain;
  for (const { form, fall } of bounds) {
    const terms = Array.from({ length: dimension + 1 }, (_, index) => form.terms[index] ?? 0);
    terms[dimension] = -fall;
    part = part && constrain(part, formOf(terms, form.constant - ahead * fall));
  }
  return part;
}

function isSameDomain(a: Domain, b: Domain): boolean {
  return JSON.stringify([a.low, a.high, a.constraints]) === JSON.stringify([b.low, b.high, b.constraints]);
}

function differenceOf(before: AbstractValue, value: AbstractValue): number | undefined {
  if (before?.kind !== "affine" || value?.kind !== "affine" || !areParallel(before, value)) return undefined;
  return value.constant - before.constant;
}

/**
 * Returns the affine form of a value that changes by `change` in each iteration. The coordinate in `dimension` is the
 * iteration number. Undefined if the value is not affine.
 */
function moved(value: AbstractValue, change: number | undefined, dimension: number): AbstractValue {
  if (value?.kind !== "affine" || change === undefined) return undefined;
  if (change === 0) return value;
  const step = formOf(Array.from({ length: dimension + 1 }, (_, index) => index === dimension ? change : 0));
  return step && sumOf(value, step);
}
