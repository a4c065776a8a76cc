/**
 * Every form of `mma`, `mma.sp` and `wmma.mma` of the tensor cores of sm_80 to sm_90, and every combination of types of
 * `wgmma`. Of what only loads and stores differ for, such as layouts, one is taken.
 *
 * @module
 */
import { warpgroupForms } from "./forms.ts";

/** Returns the texts that a pattern stands for: `{a,b}c` is `ac` and `bc`. */
function expanded(pattern: string): string[] {
  const found = /\{([^{}]*)\}/.exec(pattern);
  if (found === null) return [pattern];
  const [all, choices = ""] = found;
  return choices.split(",").flatMap((choice) => expanded(pattern.replace(all, choice)));
}

const singles = ["f16.f16.f16.f16", "f32.f16.f16.f32", "f32.bf16.bf16.f32"].join(",");
const bytes = "s32.{s8,u8}.{s8,u8}.s32", nibbles = "s32.{s4,u4}.{s4,u4}.s32";
const small = ["f16.{e4m3,e5m2}.{e4m3,e5m2}.f16", "f32.{e4m3,e5m2}.{e4m3,e5m2}.f32"];
const roundings = "{,.rn,.rz,.rm,.rp}";

/** The forms of `mma`. */
const dense = [
  `{m16n8k8,m16n8k16}.row.col.{${singles}}`,
  "{m16n8k4,m16n8k8}.row.col.f32.tf32.tf32.f32",
  ...small.map((types) => `{m16n8k16,m16n8k32}.row.col.${types}`),
  `{m8n8k16,m16n8k16,m16n8k32}.row.col{,.satfinite}.${bytes}`,
  `{m8n8k32,m16n8k32,m16n8k64}.row.col{,.satfinite}.${nibbles}`,
  `{m8n8k4,m16n8k4,m16n8k8,m16n8k16}.row.col${roundings}.f64.f64.f64.f64`,
  "{m8n8k128,m16n8k128,m16n8k256}.row.col.s32.b1.b1.s32.{xor,and}.popc",
  "m8n8k4.{row,col}.{row,col}.{f16.f16.f16.f16,f32.f16.f16.f16,f32.f16.f16.f32}",
].flatMap((pattern) => expanded(`mma.sync.aligned.${pattern}`));

/** The forms of `mma` with a sparse A, and the operands that select the lanes with metadata. */
const sparse = ([
  [`m16n8k16.row.col.{${singles}}`, "0,1,2,3"],
  [`m16n8k32.row.col.{${singles}}`, "0,1"],
  ["m16n8k8.row.col.f32.tf32.tf32.f32", "0,1,2,3"],
  ["m16n8k16.row.col.f32.tf32.tf32.f32", "0,1"],
  ...small.slice(1).map((types) => [`m16n8k64.row.col.${types}`, "0"]),
  [`m16n8k32.row.col{,.satfinite}.${bytes}`, "0,1"],
  [`m16n8k64.row.col{,.satfinite}.${bytes}`, "0"],
  [`m16n8k64.row.col{,.satfinite}.${nibbles}`, "0,1"],
  [`m16n8k128.row.col{,.satfinite}.${nibbles}`, "0"],
] as const).flatMap(([pattern, selectors]) =>
  selectors!.split(",").flatMap((selector) =>
    expanded(`mma.sp${Number(selector) % 2 === 1 ? "" : "::ordered_metadata"}.sync.aligned.${pattern} ${selector}`)
  )
);

const usual = "{m16n16k16,m8n32k16,m32n8k16}";
/** The forms of `wmma.mma`. */
const fragments = [
  `sync.aligned.row.col.${usual}.{f16,f32}.{f16,f32}`,
  `sync.aligned.col.row.${usual}.f32.bf16.bf16.f32`,
  `sync.aligned.row.row.${usual}.s32.{s8.s8,u8.u8}.s32{,.satfinite}`,
  "sync.aligned.{row,col}.{row,col}.m16n16k8.f32.tf32.tf32.f32",
  `sync.aligned.row.col.m8n8k4${roundings}.f64.f64.f64.f64`,
  "sync.aligned.row.col.m8n8k32.s32.{s4.s4,u4.u4}.s32{,.satfinite}",
  "{xor,and}.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
].flatMap((pattern) => expanded(`wmma.mma.${pattern}`));

/** Products of a warpgroup with other types or numbers of columns than those of `warpgroupForms`. */
const warpgroup = [
  ...expanded("wgmma.mma_async.sync.aligned.m64n64k32.{f16,f32}.{e4m3,e5m2}.{e4m3,e5m2} a:128 b:128"),
  ...expanded("wgmma.mma_async.sp.sync.aligned.m64n64k64.{f16,f32}.{e4m3,e5m2}.{e4m3,e5m2} b:64 selector:0"),
  ...expanded("wgmma.mma_async.sync.aligned.m64n64k32{,.satfinite}.s32.{s8,u8}.{s8,u8} a:64 b:128"),
  ...expanded("wgmma.mma_async.sp.sync.aligned.m64n64k64{,.satfinite}.s32.{s8,u8}.{s8,u8} a:64 b:64 selector:0"),
  ...Array.from({ length: 32 }, (_, index) => {
    return `wgmma.mma_async.sync.aligned.m64n${8 * (index + 1)}k16.f32.f16.f16 a:128 b:128`;
  }),
];

/** The instructions with their modifiers, and the words that describe operands. */
export const everyForm: readonly string[] = [
  ...new Set([...dense, ...sparse, ...fragments, ...warpgroupForms, ...warpgroup]),
];
