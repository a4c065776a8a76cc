import type { ResolvedInstruction } from "../../../../ptx/instructions/resolved_instruction.ts";
import { converts, movesBits, packsHalves } from "../../checks/shadow_rules.ts";
import { awaitCopies, commitCopies, copyAsynchronously } from "../memory/asynchronous_copies.ts";
import { cacheHint, policyForms, withPolicy } from "../memory/cache_hints.ts";
import { convert } from "../floats/conversion_instructions.ts";
import { gangConversion, gangMove, integerGangForms } from "../gangs/gang_lowering.ts";
import { gangLoad, gangStore } from "../gangs/gang_memory.ts";
import type { InstructionForm, Lowering, LoweringTraits } from "../instruction_form.ts";
import { pure } from "../../../../ptx/instructions/instruction_traits.ts";
import { convertAddress, isInSpace, load, store } from "../memory/memory_instructions.ts";
import { move, moveVector } from "../move_instructions.ts";
import {
  convertFromEightBits,
  convertToEightBits,
  convertToPair,
  convertToTensorFloat,
} from "../floats/packed_conversions.ts";
import { pack } from "../integers/packed_integers.ts";
import { permuteBytes } from "../integers/permute_bytes.ts";
import { atomicWide, loadWide, moveWide, storeWide } from "../integers/wide_instructions.ts";
import { form, hint, ordering, returningAtomic, selected } from "./row.ts";

const vector = "<vector:v2|v4>?";
const loaded = "<type:b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64>";
const moved = "<type:pred|b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>";
const converted = "u8|u16|u32|u64|s8|s16|s32|s64|f16|bf16|f32|f64";
const loadSpace = "<space:global|shared|shared::cta|shared::cluster|local|param|param::entry|param::func|const>?";
const storeSpace = "<space:global|shared|shared::cta|shared::cluster|local|param|param::func>?";
const namedSpace = "<space:global|shared|shared::cta|shared::cluster|local|const|param|param::entry>";
const volatileSpace = "<space:global|shared|shared::cta|shared::cluster>?";
// ptxas takes the hints of this kind for global memory only, and no evictions together with a cache operator.
const evicted =
  "<space:global>?.<eviction:L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate>";
const prefetchSizes = "<prefetch:L2::64B|L2::128B|L2::256B>";
const prefetched = `${prefetchSizes}?`;
const loadCache = "<cache:ca|cg|cs|lu|cv>?";
const storeCache = "<cache:wb|cg|cs|wt>?";
const evictedNotCoherent = evicted.replace("?", ".nc");
const orderedScope = "<scope:cta|cluster|gpu|sys>";
const orderedSpace = "<space:global|shared|shared::cta|shared::cluster>?";

const weakLoad: LoweringTraits = {
  ...pure,
  validity: "emitted",
  effects: ["reads"],
  pointer: "loaded",
  takesVectorOfOne: true,
  accessesType: true,
  gangForm: gangLoad,
};

/** A load that sees what other threads store in the meantime. */
const observingLoad: LoweringTraits = { ...weakLoad, effects: ["reads", "observes"] };
const plainStore: LoweringTraits = {
  ...pure,
  effects: ["writes"],
  takesVectorOfOne: true,
  accessesType: true,
  gangForm: gangStore,
};

/** Accesses to 128 bits, which gangs make member by member. */
const wideLoad: LoweringTraits = { ...pure, effects: ["reads"], validity: "emitted" };
const observingWideLoad: LoweringTraits = { ...wideLoad, effects: ["reads", "observes"] };
const wideStore: LoweringTraits = { ...pure, effects: ["writes"] };

function isFromInteger({ type, sourceType }: ResolvedInstruction): boolean {
  return type.name === "f32" && sourceType.kind !== "float";
}

/** The loads and stores of a type, with every order and hint, and those with a cache policy. */
function memoryForms(
  type: string,
  [load, store]: readonly [load: Lowering, store: Lowering],
  traits: Readonly<Record<"weakLoad" | "observingLoad" | "plainStore", LoweringTraits>>,
): InstructionForm[] {
  const { weakLoad, observingLoad, plainStore } = traits;
  const global = "<space:global>?";
  const loads = (modifiers: string, section: string, traits: LoweringTraits) =>
    form(`ld.${modifiers}${type} d, [a]`, section, load, traits);
  const stores = (modifiers: string, traits = plainStore) =>
    form(`st.${modifiers}${type} [a], b`, "9.7.9.11", store, traits);
  const constantLoad: LoweringTraits = { ...weakLoad, readsConstants: true };
  const weakStore: LoweringTraits = { ...plainStore, isPlainStore: true };
  const orderedLoad = `<semantics:relaxed|acquire>.${orderedScope}`;
  const orderedStore = `<semantics:relaxed|release>.${orderedScope}`;
  const evictions = `${evicted}.${prefetched}`;
  const notCoherent = [`<space:global>.nc.<cache:ca|cg|cs>?.${prefetched}`, `${evictedNotCoherent}.${prefetched}`];
  return [
    ...[`${loadSpace}.${loadCache}`, `${global}.${loadCache}.${prefetchSizes}`, evictions].map((hints) =>
      loads(`weak?.${hints}`, "9.7.9.8", weakLoad)
    ),
    ...[volatileSpace, `${global}.${prefetchSizes}`].map((hints) =>
      loads(`volatile.${hints}`, "9.7.9.8", observingLoad)
    ),
    ...[orderedSpace, `${global}.${prefetchSizes}`, evictions].map((hints) =>
      loads(`${orderedLoad}.${hints}`, "9.7.9.8", observingLoad)
    ),
    ...notCoherent.map((hints) => loads(hints, "9.7.9.9", constantLoad)),
    ...[`${storeSpace}.${storeCache}`, evicted].map((hints) => stores(`weak?.${hints}`, weakStore)),
    stores(`volatile.${volatileSpace}`),
    ...[orderedSpace, evicted].map((hints) => stores(`${orderedStore}.${hints}`)),
    ...[
      ...[`${global}.${loadCache}.${prefetched}`, evictions].map((hints) =>
        loads(`weak?.${hints}`, "9.7.9.8", weakLoad)
      ),
      ...[`${global}.${prefetched}`, evictions].map((hints) =>
        loads(`${orderedLoad}.${hints}`, "9.7.9.8", observingLoad)
      ),
      ...notCoherent.map((hints) => loads(hints, "9.7.9.9", constantLoad)),
      ...[`${global}.${storeCache}`, evicted].map((hints) => stores(`weak?.${hints}`, weakStore)),
      ...[global, evicted].map((hints) => stores(`${orderedStore}.${hints}`)),
    ].map(withPolicy),
  ];
}

/** Moves, memory accesses and conversions. */
export const dataMovementForms: readonly InstructionForm[] = [
  form(`mov.<vector:v2|v4>.${selected} d, a`, "9.7.9.3", moveVector, { ...pure, validity: movesBits(1) }),
  form(`mov.${moved} d, a`, "9.7.9.3", move, {
    ...pure,
    validity: movesBits(1),
    arithmetic: "move",
    copies: 1,
    pointer: "derived",
    takesVectorOfOne: true,
    gangForm: gangMove,
  }),
  form("prmt.<type:b32>.<mode:f4e|b4e|rc8|ecl|ecr|rc16>? d, a, b, c", "9.7.9.7", permuteBytes, {
    ...pure,
    validity: movesBits(1, 2),
    gangForm: integerGangForms.permuteBytes,
  }),
  ...memoryForms(`.${vector}.${loaded}`, [load, store], { weakLoad, observingLoad, plainStore }),
  form(`ld.mmio.relaxed.sys.<space:global>?.${loaded} d, [a]`, "9.7.9.8", load, observingLoad),
  form(`ldu.<space:global>?.${vector}.${loaded} d, [a]`, "9.7.9.10", load, {
    ...pure,
    validity: "emitted",
    effects: ["reads"],
    takesVectorOfOne: true,
  }),
  form(`st.mmio.relaxed.sys.<space:global>?.${loaded} [a], b`, "9.7.9.11", store, plainStore),
  form("prefetch.<space:global|local>?.<level:L1|L2> [a]", "9.7.9.15", cacheHint, hint),
  form("prefetch.<space:global>.<eviction:L2::evict_last|L2::evict_normal> [a]", "9.7.9.15", cacheHint, hint),
  form("prefetchu.L1 [a]", "9.7.9.15", cacheHint, hint),
  form("applypriority.<space:global>?.L2::evict_normal [a], size", "9.7.9.16", cacheHint, hint),
  form("discard.<space:global>?.L2 [a], size", "9.7.9.17", cacheHint, hint),
  ...policyForms,

  // 128 bits.
  form("mov.b128 d, a", "9.7.9.3", moveWide, { ...pure, validity: movesBits(1) }),
  ...memoryForms(".b128", [loadWide, storeWide], {
    weakLoad: wideLoad,
    observingLoad: observingWideLoad,
    plainStore: wideStore,
  }),
  form("ldu.<space:global>?.b128 d, [a]", "9.7.9.10", loadWide, wideLoad),
  form(`atom.${ordering}.<operation:exch>.b128 d, [a], b`, "9.7.13.5", atomicWide, returningAtomic),
  form(`atom.${ordering}.<operation:cas>.b128 d, [a], b, c`, "9.7.13.5", atomicWide, returningAtomic),

  form(`isspacep.${namedSpace} p, a`, "9.7.9.19", isInSpace, pure),
  form(`cvta.${namedSpace}.u64 d, a`, "9.7.9.20", convertAddress("i64Add"), { ...pure, pointer: "converted" }),
  form(`cvta.to.${namedSpace}.u64 d, a`, "9.7.9.20", convertAddress("i64Sub"), { ...pure, pointer: "converted" }),
  form(
    `cvt.<rounding:rn|rz|rm|rp|rni|rzi|rmi|rpi>?.ftz?.sat?.<type:${converted}>.<from:${converted}> d, a`,
    "9.7.9.21",
    convert,
    {
      ...pure,
      validity: converts,
      arithmetic: "conversion",
      hasCanonicalNaN: isFromInteger,
      gangForm: gangConversion,
    },
  ),
  form("cvt.<rounding:rn|rz>.relu?.satfinite?.<type:f16|bf16>.<from:f32> d, a", "9.7.9.21", convert, pure),
  form("cvt.<rounding:rn|rz>.relu?.satfinite?.<type:f16x2|bf16x2>.<from:f32> d, a, b", "9.7.9.21", convertToPair, {
    ...pure,
    validity: packsHalves,
  }),
  form("cvt.<rounding:rna>.satfinite?.tf32.<from:f32> d, a", "9.7.9.21", convertToTensorFloat, pure),
  form("cvt.<rounding:rn|rz>.relu?.tf32.<from:f32> d, a", "9.7.9.21", convertToTensorFloat, pure),
  form("cvt.rn.satfinite.relu?.<format:e4m3x2|e5m2x2>.<from:f32> d, a, b", "9.7.9.21", convertToEightBits, pure),
  form("cvt.rn.satfinite.relu?.<format:e4m3x2|e5m2x2>.<from:f16x2> d, a", "9.7.9.21", convertToEightBits, pure),
  form("cvt.rn.relu?.<type:f16x2>.<format:e4m3x2|e5m2x2> d, a", "9.7.9.21", convertFromEightBits, pure),
  form("cvt.pack.sat.<to:u16|s16>.s32 d, a, b", "9.7.9.22", pack, pure),
  form("cvt.pack.sat.<to:u2|s2|u4|s4|u8|s8>.s32.b32 d, a, b, c", "9.7.9.22", pack, pure),
  ...[form(
    `cp.async.<cache:ca>.<space:shared|shared::cta>.global.${prefetched} [d], [a], size [, given]`,
    "9.7.9.25.3.1",
    copyAsynchronously,
    { effects: ["reads", "writes"] },
  )].flatMap((each) => [each, withPolicy(each)]),
  ...[form(
    `cp.async.<cache:cg>.<space:shared|shared::cta>.global.${prefetched} [d], [a], size [, given]`,
    "9.7.9.25.3.1",
    copyAsynchronously,
    { effects: ["reads", "writes"] },
  )].flatMap((each) => [each, withPolicy(each)]),
  form("cp.async.commit_group", "9.7.9.25.3.2", commitCopies, { effects: ["orders"] }),
  form("cp.async.wait_group n", "9.7.9.25.3.3", awaitCopies, { effects: ["orders"] }),
  form("cp.async.wait_all", "9.7.9.25.3.3", awaitCopies, { effects: ["orders"] }),
];
