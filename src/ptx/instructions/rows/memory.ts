/**
 * The rows of moves, conversions, loads, stores and atomics.
 *
 * @module
 */
import { type InstructionRow, type InstructionTraits, pure } from "../instruction_traits.ts";
import type { ResolvedInstruction } from "../resolved_instruction.ts";
import {
  bits,
  onFirstUse,
  orderingFence,
  performanceHint,
  row,
  type Rows,
  scope,
  selected,
  wideBits,
  withPolicy,
} from "./row.ts";

type Moves = "mov" | "mov.vector" | "mov.b128" | "prmt" | "isspacep" | "cvta" | "cvta.to";
type Accesses = "ld" | "ld.b128" | "ldu" | "ldu.b128" | "st" | "st.b128" | "atom.b128" | "prefetch" | "createpolicy";
type Conversions = `cvt${"" | ".f16" | ".f16x2" | ".tf32" | ".pack" | " to 8 bits" | " from 8 bits"}`;

/** The names of the instruction table's rows for moves, conversions, loads and stores. */
export type DataMovementName =
  | Moves
  | Accesses
  | Conversions
  | `cp.async${"" | ".commit_group" | ".wait"}`
  | `cp.async.bulk${" to several blocks" | " to shared" | " to global" | " within shared" | " groups" | ".prefetch"}`
  | "cp.reduce.async.bulk"
  | `cp.async.bulk.${"tensor to several blocks" | "tensor to shared" | "tensor to global" | "prefetch.tensor"}`
  | `tensormap.${"cp_fenceproxy" | "replace"}`
  | "st.async";

/** The names of the instruction table's rows for fences and atomics. */
export type AtomicName = "fence" | "atom" | "red" | "red.async";

const vector = "<vector:v2|v4>?";
const loaded = "<type:b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64>";
const moved = "<type:pred|b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>";
const converted = "u8|u16|u32|u64|s8|s16|s32|s64|f16|bf16|f32|f64";
const loadSpace = "<space:global|shared|shared::cta|shared::cluster|local|param|param::entry|param::func|const>?";
const storeSpace = "<space:global|shared|shared::cta|shared::cluster|local|param|param::func>?";
const namedSpace = "<space:global|shared|shared::cta|shared::cluster|local|const|param|param::entry>";
const volatileSpace = "<space:global|shared|shared::cta|shared::cluster>?";
// ptxas accepts eviction priorities for global memory only, and not together with a cache operator.
const evicted =
  "<space:global>?.<eviction:L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate>";
const prefetchSizes = "<prefetch:L2::64B|L2::128B|L2::256B>";
const prefetched = `${prefetchSizes}?`;
const loadCache = "<cache:ca|cg|cs|lu|cv>?";
const storeCache = "<cache:wb|cg|cs|wt>?";
const evictedNotCoherent = evicted.replace("?", ".nc");
const orderedScope = "<scope:cta|cluster|gpu|sys>";
const orderedSpace = "<space:global|shared|shared::cta|shared::cluster>?";
const global = "<space:global>?";
const evictions = `${evicted}.${prefetched}`;
const notCoherent = [`<space:global>.nc.<cache:ca|cg|cs>?.${prefetched}`, `${evictedNotCoherent}.${prefetched}`];
const orderedLoad = `<semantics:relaxed|acquire>.${orderedScope}`;
const orderedStore = `<semantics:relaxed|release>.${orderedScope}`;

const load: InstructionTraits = {
  ...pure,
  effects: ["reads"],
  access: "read",
  pointer: "loaded",
  takesVectorOfOne: true,
  accessesType: true,
};
const store: InstructionTraits = {
  ...pure,
  effects: ["writes"],
  access: "write",
  takesVectorOfOne: true,
  accessesType: true,
};
/** The traits of 128-bit loads. */
const wideLoad: InstructionTraits = { ...pure, effects: ["reads"], access: "read" };
const wideStore: InstructionTraits = { ...pure, effects: ["writes"], access: "write" };

/** Returns the traits of a load that may observe values which other threads store while the kernel runs. */
function observing(load: InstructionTraits): InstructionTraits {
  return { ...load, effects: ["reads", "observes"] };
}

/**
 * Returns the instruction table's rows for loads of a type, with every memory order and hint, with and without a cache
 * policy.
 */
function loads(type: string, traits: InstructionTraits): InstructionRow[] {
  const load = (modifiers: string, section: string, traits: InstructionTraits) =>
    row(`ld.${modifiers}${type} d, [a]`, section, traits);
  const weak = (hints: string) => load(`weak?.${hints}`, "9.7.9.8", traits);
  const ordered = (hints: string) => load(`${orderedLoad}.${hints}`, "9.7.9.8", observing(traits));
  const ofConstants = notCoherent.map((hints) =>
    load(hints, "9.7.9.9", { ...traits, readsConstants: true, isNotCoherent: true })
  );
  return [
    ...[`${loadSpace}.${loadCache}`, `${global}.${loadCache}.${prefetchSizes}`, evictions].map(weak),
    ...[volatileSpace, `${global}.${prefetchSizes}`].map((hints) =>
      load(`volatile.${hints}`, "9.7.9.8", { ...observing(traits), isVolatile: true })
    ),
    ...[orderedSpace, `${global}.${prefetchSizes}`, evictions].map(ordered),
    ...ofConstants,
    ...[
      ...[`${global}.${loadCache}.${prefetched}`, evictions].map(weak),
      ...[`${global}.${prefetched}`, evictions].map(ordered),
      ...ofConstants,
    ].map(withPolicy),
  ];
}

/**
 * Returns the instruction table's rows for stores of a type, with every memory order and hint, with and without a cache
 * policy.
 */
function stores(type: string, traits: InstructionTraits): InstructionRow[] {
  const store = (modifiers: string, traits: InstructionTraits) =>
    row(`st.${modifiers}${type} [a], b`, "9.7.9.11", traits);
  const weak = (hints: string) => store(`weak?.${hints}`, { ...traits, isPlainStore: true });
  const ordered = (hints: string) => store(`${orderedStore}.${hints}`, traits);
  return [
    ...[`${storeSpace}.${storeCache}`, evicted].map(weak),
    store(`volatile.${volatileSpace}`, { ...traits, isVolatile: true }),
    ...[orderedSpace, evicted].map(ordered),
    ...[...[`${global}.${storeCache}`, evicted].map(weak), ...[global, evicted].map(ordered)].map(withPolicy),
  ];
}

function isFromInteger({ type, sourceType }: ResolvedInstruction): boolean {
  return type.name === "f32" && sourceType.kind !== "float";
}

const atomicSpace = "<space:global|shared|shared::cta|shared::cluster>?";
const ordering = `<semantics:relaxed|acquire|release|acq_rel>?.${scope}.${atomicSpace}`;
const releasing = `<semantics:relaxed|release>?.${scope}.${atomicSpace}`;
const vectorSpace = "<space:global>?";
const vectorOrdering = `<semantics:relaxed|acquire|release|acq_rel>?.${scope}.${vectorSpace}`;
const vectorReleasing = `<semantics:relaxed|release>?.${scope}.${vectorSpace}`;
const returningAtomic: InstructionTraits = {
  effects: ["reads", "observes", "writes"],
  access: "atomic",
  runsInGangs: true,
};
/** The traits of an atomic that every thread must execute, even if all have the same operands. */
const reducingAtomic: InstructionTraits = { effects: ["reads", "writes"], access: "atomic", runsInGangs: true };
/** The traits of an asynchronous copy from global to shared memory. */
const asynchronousCopy: InstructionTraits = { effects: ["reads", "writes"] };
const toGlobal = "shared::cta.bulk_group";
const toCluster = "shared::cta.mbarrier::complete_tx::bytes";
const completing = "<space:shared::cluster>?.mbarrier::complete_tx::bytes";

const dimensions = "<dim:1d|2d|3d|4d|5d>";
const storeMode = "<mode:tile|im2col_no_offs>?";

/** Returns a syntax with the slot `operation` for the operations at its start. */
function operationOf(syntax: string): string {
  return syntax.replace(/^[^.]+/, "<operation:$&>");
}

/** The traits of a bulk copy, which also updates an `mbarrier`. */
const bulkCopy: InstructionTraits = { effects: ["reads", "observes", "writes"] };
const tensorCopy: InstructionTraits = { ...bulkCopy, takesCoordinates: true };
const bulkReduction: InstructionTraits = { effects: ["reads", "observes", "writes"] };
/** The traits of a prefetch, which makes no memory access that a program can observe. */
const prefetchHint: InstructionTraits = { ...performanceHint, access: "none" };

/** Returns the instruction table's rows for moves, memory accesses and conversions. */
export const dataMovementRows: () => Rows<DataMovementName> = onFirstUse((): Rows<DataMovementName> => ({
  "mov.vector": row(`mov.<vector:v2|v4>.${selected} d, a`, "9.7.9.3", { ...pure, access: "none" }),
  mov: row(`mov.${moved} d, a`, "9.7.9.3", {
    ...pure,
    arithmetic: "move",
    copies: 1,
    access: "none",
    pointer: "derived",
    takesVectorOfOne: true,
  }),
  prmt: row("prmt.<type:b32>.<mode:f4e|b4e|rc8|ecl|ecr|rc16>? d, a, b, c", "9.7.9.7", pure),
  ld: [
    ...loads(`.${vector}.${loaded}`, load),
    row(`ld.mmio.relaxed.sys.<space:global>?.${loaded} d, [a]`, "9.7.9.8", observing(load)),
  ],
  ldu: row(`ldu.<space:global>?.${vector}.${loaded} d, [a]`, "9.7.9.10", {
    ...pure,
    effects: ["reads"],
    access: "read",
    isNotCoherent: true,
    takesVectorOfOne: true,
  }),
  st: [
    ...stores(`.${vector}.${loaded}`, store),
    row(`st.mmio.relaxed.sys.<space:global>?.${loaded} [a], b`, "9.7.9.11", store),
  ],
  prefetch: [
    row("prefetch.<space:global|local>?.<level:L1|L2> [a]", "9.7.9.15", prefetchHint),
    row("prefetch.<space:global>.<eviction:L2::evict_last|L2::evict_normal> [a]", "9.7.9.15", prefetchHint),
    row("prefetchu.L1 [a]", "9.7.9.15", prefetchHint),
    row("prefetch.<space:param|const>?.tensormap [a]", "9.7.9.15", prefetchHint),
    row("applypriority.<space:global>?.L2::evict_normal [a], size", "9.7.9.16", performanceHint),
    row("discard.<space:global>?.L2 [a], size", "9.7.9.17", performanceHint),
  ],
  createpolicy: [
    "fractional.<primary>.<secondary>.b64 d [, fraction]",
    "range.global?.<primary>.<secondary>.b64 d, [a], size, total",
    "cvt.L2.b64 d, property",
  ].map((syntax) => row(`createpolicy.${withPriorities(syntax)}`, "9.7.9.18", performanceHint)),

  // Moves and accesses of 128 bits.
  "mov.b128": row("mov.b128 d, a", "9.7.9.3", { ...pure, access: "none" }),
  "ld.b128": loads(".b128", wideLoad),
  "st.b128": stores(".b128", wideStore),
  "ldu.b128": row("ldu.<space:global>?.b128 d, [a]", "9.7.9.10", { ...wideLoad, isNotCoherent: true }),
  "atom.b128": [
    row(`atom.${ordering}.<operation:exch>.b128 d, [a], b`, "9.7.13.5", returningAtomic),
    row(`atom.${ordering}.<operation:cas>.b128 d, [a], b, c`, "9.7.13.5", returningAtomic),
  ],

  isspacep: row(`isspacep.${namedSpace} p, a`, "9.7.9.19", { ...pure, access: "none" }),
  cvta: row(`cvta.${namedSpace}.u64 d, a`, "9.7.9.20", { ...pure, access: "none", pointer: "converted" }),
  "cvta.to": row(`cvta.to.${namedSpace}.u64 d, a`, "9.7.9.20", { ...pure, access: "none", pointer: "converted" }),
  cvt: row(
    `cvt.<rounding:rn|rz|rm|rp|rni|rzi|rmi|rpi>?.ftz?.sat?.<type:${converted}>.<from:${converted}> d, a`,
    "9.7.9.21",
    { ...pure, arithmetic: "conversion", hasCanonicalNaN: isFromInteger },
  ),
  "cvt.f16": row("cvt.<rounding:rn|rz>.relu?.satfinite?.<type:f16|bf16>.<from:f32> d, a", "9.7.9.21", pure),
  "cvt.f16x2": row("cvt.<rounding:rn|rz>.relu?.satfinite?.<type:f16x2|bf16x2>.<from:f32> d, a, b", "9.7.9.21", pure),
  "cvt.tf32": [
    row("cvt.<rounding:rna>.satfinite?.tf32.<from:f32> d, a", "9.7.9.21", pure),
    row("cvt.<rounding:rn|rz>.relu?.tf32.<from:f32> d, a", "9.7.9.21", pure),
  ],
  "cvt to 8 bits": [
    row("cvt.rn.satfinite.relu?.<format:e4m3x2|e5m2x2>.<from:f32> d, a, b", "9.7.9.21", pure),
    row("cvt.rn.satfinite.relu?.<format:e4m3x2|e5m2x2>.<from:f16x2> d, a", "9.7.9.21", pure),
  ],
  "cvt from 8 bits": row("cvt.rn.relu?.<type:f16x2>.<format:e4m3x2|e5m2x2> d, a", "9.7.9.21", pure),
  "cvt.pack": [
    row("cvt.pack.sat.<to:u16|s16>.s32 d, a, b", "9.7.9.22", pure),
    row("cvt.pack.sat.<to:u2|s2|u4|s4|u8|s8>.s32.b32 d, a, b, c", "9.7.9.22", pure),
  ],
  "cp.async": ["<cache:ca>", "<cache:cg>"].map((cache) =>
    row(
      `cp.async.${cache}.<space:shared|shared::cta>.global.${prefetched} [d], [a], size [, given]`,
      "9.7.9.25.3.1",
      asynchronousCopy,
    )
  ).flatMap((each) => [each, withPolicy(each)]),
  "cp.async.bulk to shared": [
    row(
      "cp.async.bulk.<space:shared::cta|shared::cluster>.global.mbarrier::complete_tx::bytes [d], [a], size, [mbar]",
      "9.7.9.25.4.1",
      bulkCopy,
    ),
  ].flatMap((each) => [each, withPolicy(each)]),
  "cp.async.bulk to several blocks": [
    row(
      "cp.async.bulk.<space:shared::cluster>.global.mbarrier::complete_tx::bytes.multicast::cluster " +
        "[d], [a], size, [mbar], mask",
      "9.7.9.25.4.1",
      bulkCopy,
    ),
  ].flatMap((each) => [each, withPolicy(each)]),
  "cp.async.bulk to global": [row(`cp.async.bulk.global.${toGlobal} [d], [a], size`, "9.7.9.25.4.1", asynchronousCopy)]
    .flatMap((each) => [each, withPolicy(each)]),
  "cp.async.bulk within shared": row(
    `cp.async.bulk.shared::cluster.${toCluster} [d], [a], size, [mbar]`,
    "9.7.9.25.4.1",
    bulkCopy,
  ),
  "cp.async.bulk groups": [
    row("cp.async.bulk.commit_group", "9.7.9.25.6.1", orderingFence),
    row("cp.async.bulk.wait_group.read? n", "9.7.9.25.6.2", orderingFence),
  ],
  "cp.reduce.async.bulk": [
    ...["add.<type:u32|s32|u64>", "min|max.<type:u32|s32>", "inc|dec.<type:u32>", "and|or|xor.<type:b32>"].map(
      (operation) =>
        row(
          `cp.reduce.async.bulk.<space:shared::cluster>.${toCluster}.${operationOf(operation)} [d], [a], size, [mbar]`,
          "9.7.9.25.4.2",
          bulkReduction,
        ),
    ),
    ...[
      "add.<type:u32|s32|u64|f32|f64>",
      "add.noftz.<type:f16|bf16>",
      "min|max.<type:u32|s32|u64|s64|f16|bf16>",
      "inc|dec.<type:u32>",
      "and|or|xor.<type:b32|b64>",
    ].map((operation) =>
      row(
        `cp.reduce.async.bulk.<space:global>.${toGlobal}.${operationOf(operation)} [d], [a], size`,
        "9.7.9.25.4.2",
        bulkReduction,
      )
    ).flatMap((each) => [each, withPolicy(each)]),
  ],
  "cp.async.bulk.tensor to shared": ["<mode:tile>?", "<mode:im2col>"].map((mode) =>
    row(
      `cp.async.bulk.tensor.${dimensions}.<space:shared::cta|shared::cluster>.global.${mode}.` +
        `mbarrier::complete_tx::bytes [d], tensor, [mbar]${mode === "<mode:im2col>" ? ", offsets" : ""}`,
      "9.7.9.25.5.2",
      tensorCopy,
    )
  ).flatMap((each) => [each, withPolicy(each)]),
  "cp.async.bulk.tensor to several blocks": ["<mode:tile>?", "<mode:im2col>"].map((mode) =>
    row(
      `cp.async.bulk.tensor.${dimensions}.<space:shared::cluster>.global.${mode}.mbarrier::complete_tx::bytes.` +
        `multicast::cluster [d], tensor, [mbar]${mode === "<mode:im2col>" ? ", offsets" : ""}, mask`,
      "9.7.9.25.5.2",
      tensorCopy,
    )
  ).flatMap((each) => [each, withPolicy(each)]),
  "cp.async.bulk.tensor to global": [
    row(`cp.async.bulk.tensor.${dimensions}.global.${storeMode}.${toGlobal} tensor, [a]`, "9.7.9.25.5.2", tensorCopy),
    row(
      `cp.reduce.async.bulk.tensor.${dimensions}.global.${storeMode}.<operation:add|min|max|inc|dec|and|or|xor>.` +
        `${toGlobal} tensor, [a]`,
      "9.7.9.25.5.3",
      tensorCopy,
    ),
  ].flatMap((each) => [each, withPolicy(each)]),
  "cp.async.bulk.prefetch.tensor": ["<mode:tile>?", "<mode:im2col>"].map((mode) =>
    row(
      `cp.async.bulk.prefetch.tensor.${dimensions}.L2.global.${mode} tensor${
        mode === "<mode:im2col>" ? ", offsets" : ""
      }`,
      "9.7.9.25.5.4",
      { ...prefetchHint, effects: ["reads"], takesCoordinates: true },
    )
  ).flatMap((each) => [each, withPolicy(each)]),
  "tensormap.replace": [
    ["global_address", "b64", ""],
    ["rank|elemtype|interleave_layout|swizzle_mode|fill_mode", "b32", ""],
    ["box_dim|global_dim|element_stride", "b32", " index,"],
    ["global_stride", "b64", " index,"],
  ].map(([fields, type, index]) =>
    row(
      `tensormap.replace.tile.<field:${fields}>.<space:global|shared::cta>?.b1024.${type} [a],${index} b`,
      "9.7.9.26",
      { effects: ["writes"], isOfSm90a: true },
    )
  ),
  "tensormap.cp_fenceproxy": row(
    `tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.${orderedScope}.sync.aligned [d], [a], size`,
    "9.7.13.16",
    asynchronousCopy,
  ),
  "st.async": row(
    `st.async.weak?.${completing}.${vector}.<type:b32|b64|u32|u64|s32|s64|f32|f64> [a], b, [mbar]`,
    "9.7.9.12",
    {
      ...bulkCopy,
      isPlainStore: true,
    },
  ),
  "cp.async.bulk.prefetch": [row("cp.async.bulk.prefetch.L2.global [a], size", "9.7.9.25.4.3", prefetchHint)]
    .flatMap((each) => [each, withPolicy(each)]),
  "cp.async.commit_group": row("cp.async.commit_group", "9.7.9.25.3.2", { effects: ["orders"] }),
  "cp.async.wait": [
    row("cp.async.wait_group n", "9.7.9.25.3.3", { effects: ["orders"] }),
    row("cp.async.wait_all", "9.7.9.25.3.3", { effects: ["orders"] }),
  ],
}));

function withPriorities(syntax: string): string {
  return syntax
    .replace("<primary>", "<primary:L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged>")
    .replace("<secondary>", "<secondary:L2::evict_first|L2::evict_unchanged>?");
}

/** Returns the instruction table's rows for fences and atomics. */
export const atomicRows: () => Rows<AtomicName> = onFirstUse((): Rows<AtomicName> => ({
  fence: [
    row("membar.<level:cta|gl|sys>", "9.7.13.4", { ...orderingFence, dividesBlock: () => true }),
    row("fence.<semantics:sc|acq_rel|acquire|release>?.<scope:cta|cluster|gpu|sys>", "9.7.13.4", {
      ...orderingFence,
      dividesBlock: ({ choices }) => !["acquire", "release"].includes(choices.get("semantics") ?? ""),
    }),
    row("fence.proxy.async.<space:global|shared::cta|shared::cluster>?", "9.7.13.4", {
      ...orderingFence,
      isBetweenProxies: true,
    }),
    ...[
      "membar.proxy.alias",
      "fence.proxy.alias",
      "fence.proxy.tensormap::generic.<semantics:release>.<scope:cta|cluster|gpu|sys>",
      "fence.proxy.tensormap::generic.<semantics:acquire>.<scope:cta|cluster|gpu|sys> [a], size",
      "fence.proxy.async::generic.<semantics:acquire>.sync_restrict::shared::cluster.<scope:cluster>",
      "fence.proxy.async::generic.<semantics:release>.sync_restrict::shared::cta.<scope:cluster>",
      "fence.<semantics:acquire>.sync_restrict::shared::cluster.<scope:cluster>",
      "fence.<semantics:release>.sync_restrict::shared::cta.<scope:cluster>",
      "fence.mbarrier_init.<semantics:release>.<scope:cluster>",
    ].map((syntax) => row(syntax, "9.7.13.4", orderingFence)),
  ],
  atom: [
    ...atomics(true),
    row(`atom.${ordering}.<operation:exch>.${wideBits} d, [a], b`, "9.7.13.5", returningAtomic),
    withPolicy(row(`atom.${vectorOrdering}.<operation:exch>.${wideBits} d, [a], b`, "9.7.13.5", returningAtomic)),
    row(`atom.${ordering}.<operation:cas>.${bits} d, [a], b, c`, "9.7.13.5", returningAtomic),
  ],
  red: atomics(false),
  "red.async": [
    "add.<type:u32|s32|u64|s64>",
    "min|max.<type:u32|s32>",
    "inc|dec.<type:u32>",
    "and|or|xor.<type:b32>",
  ].map((operation) =>
    row(
      `red.async.<semantics:relaxed>.<scope:cluster>.${completing}.${operationOf(operation)} [a], b, [mbar]`,
      "9.7.13.7",
      bulkCopy,
    )
  ),
}));

function atomics(hasResult: boolean): InstructionRow[] {
  const [section, operands] = hasResult ? ["9.7.13.5", "d, [a], b"] as const : ["9.7.13.6", "[a], b"] as const;
  const head = hasResult ? `atom.${ordering}` : `red.${releasing}`;
  const vectorHead = hasResult ? `atom.${vectorOrdering}` : `red.${vectorReleasing}`;
  const traits = hasResult ? returningAtomic : reducingAtomic;
  return [
    `${head}.<operation:and|or|xor>.${wideBits} ${operands}`,
    `${head}.<operation:add>.<type:u32|s32|u64|f32|f64> ${operands}`,
    `${head}.<operation:add>.noftz.<type:f16|f16x2|bf16|bf16x2> ${operands}`,
    `${head}.<operation:inc|dec>.<type:u32> ${operands}`,
    `${head}.<operation:min|max>.<type:u32|s32|u64|s64> ${operands}`,
    `${vectorHead}.<operation:add>.<vector:v2|v4>.<type:f32> ${operands}`,
    `${vectorHead}.<operation:add|min|max>.noftz.<vector:v2|v4|v8>.<type:f16|bf16> ${operands}`,
    `${vectorHead}.<operation:add|min|max>.noftz.<vector:v2|v4>.<type:f16x2|bf16x2> ${operands}`,
  ].flatMap((syntax) => [
    row(syntax, section, traits),
    withPolicy(row(syntax.replace(head, vectorHead), section, traits)),
  ]);
}
