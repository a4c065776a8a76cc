import { atomic } from "../memory/atomic_instructions.ts";
import { withPolicy } from "../memory/cache_hints.ts";
import type { InstructionForm, LoweringTraits } from "../instruction_form.ts";
import { fence } from "../memory/memory_instructions.ts";
import { atomicSpace, bits, form, ordering, orderingFence, returningAtomic, scope, wideBits } from "./row.ts";

const vectorSpace = "<space:global>?";
const releasing = `<semantics:relaxed|release>?.${scope}.${atomicSpace}`;
const vectorOrdering = `<semantics:relaxed|acquire|release|acq_rel>?.${scope}.${vectorSpace}`;
const vectorReleasing = `<semantics:relaxed|release>?.${scope}.${vectorSpace}`;

/** Every thread must execute it, even if all do the same. */
const reducingAtomic: LoweringTraits = { effects: ["reads", "writes"], runsInGangs: true };

/** Fences and atomics. Every atomic instruction is sequentially consistent, which is stronger than any of them requires. */
export const atomicForms: readonly InstructionForm[] = [
  form("membar.<level:cta|gl|sys>", "9.7.13.4", fence, { ...orderingFence, dividesBlock: () => true }),
  form("fence.<semantics:sc|acq_rel|acquire|release>?.<scope:cta|cluster|gpu|sys>", "9.7.13.4", fence, {
    ...orderingFence,
    dividesBlock: ({ choices }) => !["acquire", "release"].includes(choices.get("semantics") ?? ""),
  }),
  // Every access is made in the order of the program, by one proxy.
  form("membar.proxy.alias", "9.7.13.4", fence, orderingFence),
  form("fence.proxy.alias", "9.7.13.4", fence, orderingFence),
  form("fence.proxy.async.<space:global|shared::cta|shared::cluster>?", "9.7.13.4", fence, orderingFence),
  form("fence.proxy.tensormap::generic.release.<scope:cta|cluster|gpu|sys>", "9.7.13.4", fence, orderingFence),
  form(
    "fence.proxy.tensormap::generic.acquire.<scope:cta|cluster|gpu|sys> [a], size",
    "9.7.13.4",
    fence,
    orderingFence,
  ),
  ...["fence.proxy.async::generic", "fence"].flatMap((head) => [
    form(`${head}.acquire.sync_restrict::shared::cluster.cluster`, "9.7.13.4", fence, orderingFence),
    form(`${head}.release.sync_restrict::shared::cta.cluster`, "9.7.13.4", fence, orderingFence),
  ]),
  form("fence.mbarrier_init.release.cluster", "9.7.13.4", fence, orderingFence),
  ...["atom", "red"].flatMap((opcode) => {
    const hasResult = opcode === "atom";
    const [section, operands] = hasResult ? ["9.7.13.5", "d, [a], b"] : ["9.7.13.6", "[a], b"];
    const head = `${opcode}.${hasResult ? ordering : releasing}`;
    const vectorHead = `${opcode}.${hasResult ? vectorOrdering : vectorReleasing}`;
    return [
      `${head}.<operation:and|or|xor>.${wideBits} ${operands}`,
      `${head}.<operation:add>.<type:u32|s32|u64|f32|f64> ${operands}`,
      `${head}.<operation:add>.noftz.<type:f16|f16x2|bf16|bf16x2> ${operands}`,
      `${head}.<operation:inc|dec>.<type:u32> ${operands}`,
      `${head}.<operation:min|max>.<type:u32|s32|u64|s64> ${operands}`,
      `${vectorHead}.<operation:add>.<vector:v2|v4>.<type:f32> ${operands}`,
      `${vectorHead}.<operation:add|min|max>.noftz.<vector:v2|v4|v8>.<type:f16|bf16> ${operands}`,
      `${vectorHead}.<operation:add|min|max>.noftz.<vector:v2|v4>.<type:f16x2|bf16x2> ${operands}`,
    ].flatMap((syntax) => {
      const traits = hasResult ? returningAtomic : reducingAtomic;
      const global = syntax.replace(head, vectorHead);
      return [
        form(syntax, section!, atomic(hasResult), traits),
        withPolicy(form(global, section!, atomic(hasResult), traits)),
      ];
    });
  }),
  form(`atom.${ordering}.<operation:exch>.${wideBits} d, [a], b`, "9.7.13.5", atomic(true), returningAtomic),
  withPolicy(
    form(`atom.${vectorOrdering}.<operation:exch>.${wideBits} d, [a], b`, "9.7.13.5", atomic(true), returningAtomic),
  ),
  form(`atom.${ordering}.<operation:cas>.${bits} d, [a], b, c`, "9.7.13.5", atomic(true), returningAtomic),
];
