/**
 * Joins loads and products of matrices that follow one another, so that the threads of a warp wait for each other once
 * for all of them.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import { batchedOperation, productBatch } from "../instructions/memory/matrix_products.ts";
import {
  haveSameAccumulator,
  isJoinable,
  joinedProducts,
  residentLayouts,
} from "../instructions/memory/warpgroup_products.ts";
import { mostWarpgroupProducts } from "../tensor_cores/warpgroup_products.ts";
import { fragmentBarriers } from "../instructions/memory/matrix_fragments.ts";
import type { Effect } from "../../../ptx/instructions/instruction_traits.ts";
import type { LabelName, Register, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import { type PlannedBatch, ProductPlan, residentRegisters } from "../instructions/memory/product_plan.ts";
import { mostFragmentBytes } from "../tensor_cores/workspace.ts";
import { registersRead, registersSet } from "../../../ptx/analysis/definitions_and_uses.ts";
import type { ResolvedFunction, ResolvedKernel } from "../typing/resolver.ts";

type Item = CompiledInstruction | LabelName;

/**
 * Joins loads and products of matrices, in a kernel and in the functions that it may call.
 *
 * @param options `hasChecks`: whether the kernel is checked, so that products of warpgroups must be told apart
 */
export function joinProducts(resolved: ResolvedKernel, { hasChecks }: { readonly hasChecks: boolean }): ResolvedKernel {
  const join = (body: ResolvedFunction) => {
    const joined = joinInFunction(body, { hasChecks });
    return hasChecks ? joined : { ...joined, items: joinOfWarpgroups(joined.items) };
  };
  return {
    ...resolved,
    kernel: join(resolved.kernel),
    callees: new Map([...resolved.callees].map(([name, body]) => [name, join(body)])),
  };
}

/**
 * Joins consecutive products of warpgroups that have the same accumulator, so that all of them are computed at the last
 * one. This changes nothing for the program, which must not use the accumulator or write the operands before it has
 * waited for the products.
 */
function joinOfWarpgroups(items: readonly Item[]): readonly Item[] {
  const groups: (readonly number[])[] = [];
  let first: CompiledInstruction | undefined;
  let accumulator: ReadonlySet<ResolvedOperand> = new Set();
  let places: number[] = [];
  const finish = () => {
    if (places.length > 0) groups.push(places);
    first = undefined;
    places = [];
  };
  items.forEach((item, place) => {
    if (item.kind !== "label" && isJoinable(item)) {
      if (first !== undefined && (places.length === mostWarpgroupProducts || !haveSameAccumulator(first, item))) {
        finish();
      }
      if (first === undefined) {
        const [d] = item.operands;
        first = item;
        accumulator = new Set(d?.kind === "vector" ? d.elements : []);
      }
      places.push(place);
    } else if (first !== undefined && (item.kind === "label" || !leavesAlone(item, accumulator))) {
      finish();
    }
  });
  finish();
  const all = [...items];
  const isAlone = items.every((item) => item.kind === "label" || isJoinable(item) || !usesFragments(item));
  const layouts = isAlone
    ? residentLayouts(groups.flat().map((place) => items[place] as CompiledInstruction))
    : undefined;
  for (const group of groups) {
    const members = group.map((place) => items[place] as CompiledInstruction);
    const [accumulator] = members[0]!.operands;
    const layout = accumulator?.kind === "vector" ? layouts?.get(accumulator.elements[0]!) : undefined;
    if (layout === undefined && members.length === 1) continue;
    joinedProducts(members, layout).forEach((product, index) => all[group[index]!] = product);
  }
  return all;
}

/** Whether an instruction neither waits nor uses the registers of an accumulator. */
function leavesAlone(instruction: CompiledInstruction, accumulator: ReadonlySet<ResolvedOperand>): boolean {
  const { flow, traits } = instruction.form;
  if (flow !== undefined || traits.products === "awaits") return false;
  return [...registersRead(instruction), ...registersSet(instruction)].every((register) => !accumulator.has(register));
}

function joinInFunction(
  resolved: ResolvedFunction,
  { hasChecks }: { readonly hasChecks: boolean },
): ResolvedFunction {
  if (!resolved.items.some((item) => operationOf(item)?.kind === "product")) return resolved;
  const all = withoutBarriers(resolved.items);
  const counts = new Map<Register, number>();
  for (const item of all) {
    if (item.kind === "label") continue;
    for (const register of registersRead(item)) counts.set(register, (counts.get(register) ?? 0) + 1);
  }
  const countReads = (register: Register) => counts.get(register) ?? 0;
  const items: (Item | Batch)[] = [];
  const batches: Batch[] = [];
  let plan = new ProductPlan(countReads);
  let members: CompiledInstruction[] = [];
  const finish = () => {
    if (members.length > 0) {
      const batch = { kind: "batch", members, plan } as const;
      items.push(batch);
      batches.push(batch);
    }
    plan = new ProductPlan(countReads);
    members = [];
  };
  for (const item of all) {
    const operation = operationOf(item);
    if (operation !== undefined && item.kind !== "label") {
      if (!plan.add(operation)) {
        finish();
        plan.add(operation);
      }
      members.push(item);
    } else if (members.length > 0 && item.kind !== "label" && mayPrecede(item, plan)) {
      items.push(item);
    } else {
      finish();
      items.push(item);
    }
  }
  finish();
  const planned = planTogether(batches, { mayStay: !hasChecks && !all.some(hasOtherFragments) });
  return {
    ...resolved,
    items: items.map((item) => {
      if (item.kind !== "batch") return item;
      const batch = planned.get(item);
      return batch === undefined ? item.members[0]! : productBatch(item.members, batch);
    }),
  };
}

/** Loads and products that are executed together. */
interface Batch {
  readonly kind: "batch";
  readonly members: readonly CompiledInstruction[];
  readonly plan: ProductPlan;
}

/**
 * Plans the batches of a function. Those of one instruction are left out if it can be compiled as it is.
 *
 * @param options `mayStay`: whether registers may stay in the memory for fragments
 */
function planTogether(
  batches: readonly Batch[],
  { mayStay }: { readonly mayStay: boolean },
): ReadonlyMap<Batch, PlannedBatch> {
  const residents = mayStay ? residentRegisters(batches.map(({ plan }) => plan)) : undefined;
  if (residents !== undefined) {
    const planned = new Map(batches.map((batch) => [batch, batch.plan.finish(residents)]));
    if ([...planned.values()].every(({ byteLength }) => byteLength <= mostFragmentBytes)) return planned;
  }
  return new Map(
    batches.filter(({ members }) => members.length > 1).map((batch) => [batch, batch.plan.finish()]),
  );
}

/** Whether an instruction uses the memory for fragments, but is in no batch. */
function hasOtherFragments(item: Item): boolean {
  return item.kind !== "label" && usesFragments(item) && operationOf(item) === undefined;
}

function usesFragments({ form }: CompiledInstruction): boolean {
  return form.suspending?.fragmentBytes !== undefined;
}

/**
 * Leaves out barriers after loads of fragments if the warp waits again before it writes, and barriers before stores if
 * it has waited after all that it has read.
 */
function withoutBarriers(items: readonly Item[]): readonly Item[] {
  const waitsAfter = hasNeighbor(items.toReversed(), "reads").reverse();
  const waitsBefore = hasNeighbor(items, "writes");
  return items.filter((item, index) => {
    const operand = barrierOperand(item);
    return !(operand === fragmentBarriers.afterLoads && waitsAfter[index]) &&
      !(operand === fragmentBarriers.beforeStores && waitsBefore[index]);
  });
}

/**
 * Returns for each item whether an item before it makes the whole warp wait, with nothing between them but computation
 * and memory accesses with the given effect.
 */
function hasNeighbor(items: readonly Item[], effect: "reads" | "writes"): boolean[] {
  let isNear = false;
  return items.map((item) => {
    const found = isNear;
    if (item.kind === "label") isNear = false;
    else if (operationOf(item)?.kind === "product" || isFragmentBarrier(item)) isNear = true;
    else isNear &&= accessesOnly(item, effect);
    return found;
  });
}

function isFragmentBarrier(item: Item): boolean {
  const operand = barrierOperand(item);
  return operand === fragmentBarriers.afterLoads || operand === fragmentBarriers.beforeStores;
}

/** Returns the first operand of an instruction, which identifies a fragment barrier. */
function barrierOperand(item: Item): ResolvedOperand | undefined {
  return item.kind === "label" ? undefined : item.operands[0];
}

function accessesOnly({ form: { flow, traits } }: CompiledInstruction, effect: "reads" | "writes"): boolean {
  const allowed: readonly Effect[] = effect === "reads" ? ["reads", "observes"] : ["writes"];
  return flow === undefined && traits.synchronization === undefined &&
    traits.effects?.every((found) => allowed.includes(found)) === true;
}

function operationOf(item: Item): ReturnType<typeof batchedOperation> {
  return item.kind === "label" ? undefined : batchedOperation(item);
}

/** Whether an instruction between products may be executed before them: it only computes with other registers. */
function mayPrecede(instruction: CompiledInstruction, plan: ProductPlan): boolean {
  const { form: { flow, emit, traits } } = instruction;
  if (flow !== undefined || emit === undefined || traits.effects?.length !== 0 || traits.usesCarry === true) {
    return false;
  }
  if (traits.synchronization !== undefined) return false;
  return registersRead(instruction).every((register) => !plan.sets(register)) &&
    registersSet(instruction).every((register) => !plan.uses(register));
}
