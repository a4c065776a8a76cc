/**
 * What the manual's syntax diagrams name for each opcode that the device runs, without their restrictions: ptxas says
 * which combinations exist.
 *
 * @module
 */

const rounding = "<rounding:rn|rz|rm|rp>?";
const integers = "u16|u32|u64|s16|s32|s64";
const numbers = `${integers}|u16x2|s16x2|f16|f16x2|bf16|bf16x2|f32|f64`;
const bits = "b8|b16|b32|b64";
const all = `${bits}|u8|s8|${integers}|f16|bf16|f32|f64`;
const compared = "<compare:eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan>";
const scope = "<scope:cta|gpu|sys>";
const atomicSpace = "<space:global|shared|shared::cta>?";
const operations = "<operation:and|or|xor|add|inc|dec|min|max|exch>";
const loads = "<weak:weak|volatile>?.<space:global|shared|local|const|param>?";

/** The syntaxes, in the notation of the table. */
export const generousSyntax: readonly string[] = [
  ...["add", "sub", "mul"].map((opcode) => `${opcode}.${rounding}.ftz?.sat?.<type:${numbers}> d, a, b`),
  ...["add", "sub"].map((opcode) => `${opcode}.<cc:cc|sat>.<type:${integers}> d, a, b`),
  ...["addc", "subc"].map((opcode) => `${opcode}.cc?.<type:${integers}> d, a, b`),
  `mul.<part:lo|hi|wide>.<type:${integers}> d, a, b`,
  `mad.<part:lo|hi|wide>.<more:cc|sat>?.<type:${integers}> d, a, b, c`,
  `madc.<part:lo|hi>.cc?.<type:${integers}> d, a, b, c`,
  `fma.${rounding}.ftz?.<sat:sat|relu|oob>?.<type:${numbers}> d, a, b, c`,
  `mad.${rounding}.ftz?.sat?.<type:f32|f64> d, a, b, c`,
  ...["mul24", "mad24"].map((opcode) => {
    return `${opcode}.<part:lo|hi>.sat?.<type:u32|s32> d, a, b${opcode === "mad24" ? ", c" : ""}`;
  }),
  `sad.<type:${integers}> d, a, b, c`,
  `div.<rounding:rn|rz|rm|rp|approx|full>?.ftz?.<type:${numbers}> d, a, b`,
  `rem.<type:${integers}> d, a, b`,
  ...["abs", "neg"].map((opcode) => `${opcode}.ftz?.<type:${numbers}> d, a`),
  ...["min", "max"].map((opcode) => {
    return `${opcode}.ftz?.NaN?.<relu:relu|xorsign.abs>?.<type:${numbers}> d, a, b`;
  }),
  ...["popc", "clz", "brev"].map((opcode) => `${opcode}.<type:${bits}> d, a`),
  `bfind.shiftamt?.<type:${integers}> d, a`,
  `bfe.<type:${integers}> d, a, b, c`,
  `bfi.<type:${bits}> d, a, b, c, e`,
  `fns.<type:${bits}> d, a, b, c`,
  `szext.<mode:clamp|wrap>.<type:${integers}> d, a, b`,
  `bmsk.<mode:clamp|wrap>.<type:${bits}> d, a, b`,
  "dp4a.<type:u32|s32>.<second:u32|s32> d, a, b, c",
  "dp2a.<part:lo|hi>.<type:u32|s32>.<second:u32|s32> d, a, b, c",
  ...["rcp", "sqrt", "rsqrt"].map((opcode) => `${opcode}.<rounding:approx|rn|rz|rm|rp>?.ftz?.<type:f16|f32|f64> d, a`),
  ...["sin", "cos", "lg2", "ex2", "tanh"].map((opcode) => {
    return `${opcode}.approx.ftz?.<type:f16|f16x2|bf16|bf16x2|f32|f64> d, a`;
  }),
  "testp.<property:finite|infinite|number|notanumber|normal|subnormal>.<type:f16|f32|f64> p, a",
  "copysign.<type:f16|f32|f64> d, a, b",
  `set.${compared}.ftz?.<result:u16|s16|u32|s32|f16|bf16|f32|f16x2|bf16x2>.<type:${all}|f16x2|bf16x2> d, a, b`,
  `set.${compared}.<combine:and|or|xor>.<result:u32|f32>.<type:${all}> d, a, b, c`,
  `setp.${compared}.ftz?.<type:${all}|f16x2|bf16x2|pred> p, a, b`,
  `setp.${compared}.<combine:and|or|xor>.<type:${all}> p, a, b, c`,
  `selp.<type:${all}> d, a, b, c`,
  `slct.ftz?.<type:${all}>.<by:s32|f32> d, a, b, c`,
  ...["and", "or", "xor"].map((opcode) => `${opcode}.<type:pred|${bits}|u32> d, a, b`),
  ...["not", "cnot"].map((opcode) => `${opcode}.<type:pred|${bits}> d, a`),
  `lop3.<type:${bits}> d, a, b, c, immLut`,
  "shf.<direction:l|r>.<mode:clamp|wrap>.<type:b32|b64> d, a, b, c",
  ...["shl", "shr"].map((opcode) => `${opcode}.<type:${all}> d, a, b`),
  `mov.<type:pred|${all}|f16x2> d, a`,
  `mov.<vector:v2|v4>.<type:${all}> d, a`,
  `prmt.<type:b32|b64>.<mode:f4e|b4e|rc8|ecl|ecr|rc16>? d, a, b, c`,
  `ld.${loads}.<cache:ca|cg|cs|lu|cv>?.<vector:v2|v4>?.<type:${all}> d, [a]`,
  `ld.<semantics:relaxed|acquire>.${scope}.<space:global|shared|local>?.<vector:v2|v4>?.<type:${all}> d, [a]`,
  `ld.global.<cache:ca|cg|cs>?.nc.<vector:v2|v4>?.<type:${all}> d, [a]`,
  `ldu.global?.<vector:v2|v4>?.<type:${all}> d, [a]`,
  `st.<weak:weak|volatile>?.<space:global|shared|local>?.<cache:wb|cg|cs|wt>?.<vector:v2|v4>?.<type:${all}> [a], b`,
  `st.<semantics:relaxed|release>.${scope}.<space:global|shared|local>?.<vector:v2|v4>?.<type:${all}> [a], b`,
  "prefetch.<space:global|local>?.<level:L1|L2> [a]",
  "prefetchu.<level:L1|L2> [a]",
  ...["to", "from"].map((direction) => {
    return `cvta${direction === "to" ? ".to" : ""}.<space:global|shared|local|const|param>.<type:u32|u64> d, a`;
  }),
  "isspacep.<space:global|shared|shared::cta|local|const|param> p, a",
  `cvt.<rounding:rn|rz|rm|rp|rni|rzi|rmi|rpi|rna>?.ftz?.<sat:sat|relu|satfinite>?.<type:u8|u16|u32|u64|s8|s16|s32|s64|f16|bf16|f32|f64>.<from:u8|u16|u32|u64|s8|s16|s32|s64|f16|bf16|f32|f64> d, a`,
  "cvt.<rounding:rn|rz>.<relu:relu|satfinite>?.<type:f16x2|bf16x2>.<from:f32> d, a, b",
  "cvt.<rounding:rn|rz|rna>.<relu:relu|satfinite>?.<tf32:tf32>.<from:f32> d, a",
  "cvt.rn.satfinite.relu?.<format:e4m3x2|e5m2x2>.<from:f32> d, a, b",
  "cvt.rn.satfinite.relu?.<format:e4m3x2|e5m2x2>.<from:f16x2|bf16x2> d, a",
  "cvt.rn.relu?.<type:f16x2|bf16x2>.<format:e4m3x2|e5m2x2> d, a",
  "membar.<level:cta|gl|gpu|sys>",
  "fence.<semantics:sc|acq_rel|acquire|release>?.<scope:cta|gpu|sys>",
  "activemask.<type:b32|b64> d",
  "shfl.sync.<mode:up|down|bfly|idx>.<type:b32|u32|s32|f32|b64> d, a, b, c, membermask",
  "cvt.pack.sat.<to:u2|s2|u4|s4|u8|s8|u16|s16>.<from:s32|u32> d, a, b",
  "cvt.pack.sat.<to:u2|s2|u4|s4|u8|s8|u16|s16>.<from:s32|u32>.<third:b32|u32> d, a, b, c",
  "bar.cta?.<action:sync|arrive> a, b",
  "barrier.cta?.<action:sync|arrive>.aligned? a, b",
  "barrier.cta?.red.<operation:popc|and|or>.aligned?.<type:u32|pred|b32> d, a, p",
  "cp.async.<cache:ca|cg>.<space:shared|shared::cta>.global.<prefetch:L2::64B|L2::128B|L2::256B>? [d], [a], size",
  "cp.async.bulk.prefetch.<level:L1|L2>.<space:global|shared::cta|const>? [a], size",
  "cp.async.bulk.prefetch.<level:L1|L2>.<space:global|shared::cta>?.L2::cache_hint [a], size, policy",
  ...["", ".L2::cache_hint"].flatMap((hint) => {
    const policy = hint === "" ? "" : ", policy";
    const dim = "<dim:1d|2d|3d|4d|5d>", shared = "<space:shared|shared::cta|shared::cluster>";
    const bytes = "mbarrier::complete_tx::bytes", group = "shared::cta.bulk_group";
    const reductions = "<operation:add|min|max|inc|dec|and|or|xor>";
    return [
      `cp.async.bulk.${shared}.global.${bytes}.multicast::cluster?${hint} [d], [a], size, [mbar], mask${policy}`,
      `cp.async.bulk.${shared}.global.${bytes}${hint} [d], [a], size, [mbar]${policy}`,
      `cp.async.bulk.<space:global|shared::cluster>.${group}${hint} [d], [a], size${policy}`,
      `cp.reduce.async.bulk.global.${group}${hint}.${reductions}.noftz?.<type:${all}> [d], [a], size${policy}`,
      `cp.async.bulk.tensor.${dim}.${shared}.global.<mode:tile|im2col_no_offs>?.${bytes}${hint} [d], tensor, [mbar]${policy}`,
      `cp.async.bulk.tensor.${dim}.${shared}.global.<mode:tile|im2col>.${bytes}${hint} [d], tensor, [mbar], offsets${policy}`,
      `cp.async.bulk.tensor.${dim}.global.<mode:tile|im2col|im2col_no_offs>?.${group}${hint} tensor, [a]${policy}`,
      `cp.reduce.async.bulk.tensor.${dim}.global.${reductions}.<mode:tile|im2col_no_offs>?.${group}${hint} tensor, [a]${policy}`,
      `cp.async.bulk.prefetch.tensor.${dim}.<level:L1|L2>.global.<mode:tile|im2col_no_offs>?${hint} tensor${policy}`,
    ];
  }).map((each) => each.replace("multicast::cluster?", "<multicast:multicast::cluster>")),
  "cp.async.bulk.shared::cluster.<from:shared|shared::cta>.mbarrier::complete_tx::bytes [d], [a], size, [mbar]",
  "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes." +
  `<operation:add|min|max|inc|dec|and|or|xor>.<type:${all}> [d], [a], size, [mbar]`,
  `st.async.weak?.shared::cluster.mbarrier::complete_tx::bytes.<vector:v2|v4>?.<type:${all}> [a], b, [mbar]`,
  "red.async.<semantics:relaxed|release>.<scope:cta|cluster|gpu>.shared::cluster.mbarrier::complete_tx::bytes." +
  `<operation:add|min|max|inc|dec|and|or|xor>.<type:${all}> [a], b, [mbar]`,
  "fence.proxy.<proxy:alias|async|tensormap|generic>.<space:global|shared|shared::cta|shared::cluster>?",
  "mapa.<space:shared|shared::cta|shared::cluster>?.<type:b32|u32|s32|b64|u64> d, a, b",
  "getctarank.<space:shared|shared::cta|shared::cluster>?.<type:b32|u32|s32|b64|u64> d, a",
  "barrier.cluster.<action:arrive|wait>.<semantics:release|relaxed|acquire|acq_rel>?.aligned?",
  "elect.sync d, membermask",
  "redux.sync.<operation:add|min|max|and|or|xor>.<type:u32|s32|b32|f32> d, a, membermask",
  "match.<mode:any|all>.sync.<type:b32|b64> d, a, membermask",
  "vote.sync.<mode:all|any|uni>.<type:pred|b32> d, a, membermask",
  `atom.<semantics:relaxed|acquire|release|acq_rel>?.${scope}?.${atomicSpace}.${operations}.noftz?.<type:${all}|f16x2|bf16x2> d, [a], b`
    .replace("??", "?"),
  `atom.${atomicSpace}.${operations}.noftz?.<type:${all}|f16x2|bf16x2> d, [a], b`,
  `atom.${atomicSpace}.<operation:cas>.<type:${all}> d, [a], b, c`,
  `red.${atomicSpace}.${operations}.noftz?.<type:${all}|f16x2|bf16x2> [a], b`,
  `red.global.${operations}.noftz?.<vector:v2|v4|v8>.<type:${all}|f16x2|bf16x2> [a], b`,
  "nanosleep.<type:u32|u64> t",
  "griddepcontrol.<action:launch_dependents|wait>",
  "stacksave.<type:u32|u64> d",
  "stackrestore.<type:u32|u64> a",
];
