/**
 * All forms of `mma` and `wmma.mma` of the tensor cores of sm_80 to sm_90, with the last operand of those with a sparse
 * A.
 *
 * @module
 */
const floats = [
  ["f16.f16.f16.f16", "m16n8k8 m16n8k16", "m16n8k16 m16n8k32"],
  ["f32.f16.f16.f32", "m16n8k8 m16n8k16", "m16n8k16 m16n8k32"],
  ["f32.bf16.bf16.f32", "m16n8k8 m16n8k16", "m16n8k16 m16n8k32"],
  ["f32.tf32.tf32.f32", "m16n8k4 m16n8k8", "m16n8k8 m16n8k16"],
  ["f32.e4m3.e4m3.f32", "m16n8k32", "m16n8k64"],
  ["f32.e4m3.e5m2.f32", "m16n8k32", ""],
  ["f32.e5m2.e5m2.f32", "m16n8k16 m16n8k32", "m16n8k64"],
  ["f16.e5m2.e4m3.f16", "m16n8k32", ""],
  ["f16.e4m3.e4m3.f16", "m16n8k16 m16n8k32", ""],
] as const;
const integers = [
  ["s32.s8.s8.s32", "m8n8k16 m16n8k16 m16n8k32", "m16n8k32 m16n8k64"],
  ["s32.u8.s8.s32", "m16n8k32", ""],
  ["s32.s8.u8.s32", "m8n8k16", ""],
  ["s32.u8.u8.s32", "m16n8k16", "m16n8k64"],
  ["s32.s4.s4.s32", "m8n8k32 m16n8k32 m16n8k64", "m16n8k64 m16n8k128"],
  ["s32.u4.s4.s32", "m16n8k64", "m16n8k64"],
  ["s32.u4.u4.s32", "m16n8k32", ""],
] as const;

const split = (shapes: string) => shapes.split(" ").filter((shape) => shape !== "");
/** The largest operands that select the lanes with metadata. */
const mostSelectors: Readonly<Record<string, number>> = {
  ...{ "m16n8k8 tf32": 3, "m16n8k16 tf32": 1, "m16n8k16 f16": 3, "m16n8k32 f16": 1, "m16n8k16 bf16": 3 },
  ...{ "m16n8k32 bf16": 1, "m16n8k32 s8": 1, "m16n8k32 u8": 1, "m16n8k64 s4": 1, "m16n8k64 u4": 1 },
};

/** The instructions with their modifiers. */
export const forms: readonly string[] = [
  ...floats.flatMap(([types, shapes]) => split(shapes).map((shape) => `mma.sync.aligned.${shape}.row.col.${types}`)),
  ...integers.flatMap(([types, shapes]) =>
    split(shapes).flatMap((shape) =>
      ["", ".satfinite"].map((satfinite) => `mma.sync.aligned.${shape}.row.col${satfinite}.${types}`)
    )
  ),
  ...["m8n8k128", "m16n8k128", "m16n8k256"].flatMap((shape) =>
    ["xor", "and"].map((operation) => `mma.sync.aligned.${shape}.row.col.s32.b1.b1.s32.${operation}.popc`)
  ),
  ...["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"].map((shape) => `mma.sync.aligned.${shape}.row.col.f64.f64.f64.f64`),
  ...["rz", "rm", "rp"].map((rounding) => `mma.sync.aligned.m8n8k4.row.col.${rounding}.f64.f64.f64.f64`),
  ...["row.col", "row.row", "col.col", "col.row"].map((layouts) =>
    `mma.sync.aligned.m8n8k4.${layouts}.f32.f16.f16.f32`
  ),
  "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16",
  "mma.sync.aligned.m8n8k4.col.row.f16.f16.f16.f16",
  ...[...floats, ...integers].flatMap(([types, , shapes]) =>
    split(shapes).flatMap((shape) => {
      const most = mostSelectors[`${shape} ${types.split(".")[1]}`] ?? 0;
      return [...new Set([0, most])].map((selector) => {
        const metadata = selector === 0 ? "sp::ordered_metadata" : "sp";
        return `mma.${metadata}.sync.aligned.${shape}.row.col.${types} ${selector}`;
      });
    })
  ),
];

const usual = ["m16n16k16", "m8n32k16", "m32n8k16"];

/** The instructions of `wmma` with their modifiers. */
export const fragmentForms: readonly string[] = [
  ...usual.flatMap((shape, index) =>
    ["f32.f32", "f16.f16", "f32.f16", "f16.f32"].map((types, other) => {
      const layouts = ["row.col", "col.row", "row.row", "col.col"][(index + other) % 4]!;
      return `wmma.mma.sync.aligned.${layouts}.${shape}.${types}`;
    })
  ),
  ...usual.flatMap((shape) => [
    `wmma.mma.sync.aligned.row.col.${shape}.f32.bf16.bf16.f32`,
    `wmma.mma.sync.aligned.col.row.${shape}.s32.s8.s8.s32`,
    `wmma.mma.sync.aligned.row.col.${shape}.s32.u8.u8.s32.satfinite`,
  ]),
  "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32",
  "wmma.mma.sync.aligned.col.row.m16n16k8.f32.tf32.tf32.f32",
  "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64",
  "wmma.mma.sync.aligned.col.row.m8n8k4.rz.f64.f64.f64.f64",
  "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32",
  "wmma.mma.sync.aligned.row.col.m8n8k32.s32.u4.u4.s32.satfinite",
  "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
  "wmma.mma.and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
];

/** The largest number of columns of D, and others. Integers have fewer. */
const warpgroupColumns = [8, 64, 256];
const warpgroupFloats = [
  ["f32.f16.f16", 16],
  ["f16.f16.f16", 16],
  ["f32.bf16.bf16", 16],
  ["f32.tf32.tf32", 8],
  ["f32.e4m3.e4m3", 32],
  ["f32.e5m2.e4m3", 32],
  ["f16.e5m2.e5m2", 32],
] as const;
const warpgroupIntegers = [
  ["s32.s8.s8", 32],
  ["satfinite.s32.u8.s8", 32],
  ["s32.s8.u8", 32],
  ["s32.u8.u8", 32],
] as const;
/** Where the operands are, and how, for each of the above in turn. See `warpgroup.ts`. */
const places = ["", "a:128 b:128", "a:registers b:64", "a:64 b:32", "a:32", "a:registers b:128", "a:128 b:64", "b:32"];
const layouts = [
  ...["a:transposed", "b:transposed", "a:transposed b:transposed"],
  ...[128, 64, 32].map((width) => `a:transposed b:transposed a:${width} b:${width}`),
  ...[128, 32].map((width) => `a:registers b:transposed b:${width}`),
];

/** The instructions of `wgmma`, with words that describe their operands. */
export const warpgroupForms: readonly string[] = [
  ...warpgroupColumns.flatMap((n, column) =>
    [...warpgroupFloats, ...warpgroupIntegers].flatMap(([types, k], type) =>
      [false, true].map((isSparse) => {
        const isFloat = type < warpgroupFloats.length;
        const word = places[(3 * column + type + Number(isSparse)) % places.length]!;
        const selector = isSparse ? ` selector:${k < 32 ? type % 2 : 0}` : "";
        const sign = isFloat && (type + column) % 3 === 0 ? " a:negated" : "";
        const sp = isSparse ? ".sp" : "";
        return `wgmma.mma_async${sp}.sync.aligned.m64n${n}k${isSparse ? 2 * k : k}.${types} ${word}${selector}${sign}`;
      })
    )
  ),
  ...[8, 64, 256].map((n) => `wgmma.mma_async.sync.aligned.m64n${n}k256.s32.b1.b1.and.popc ${places[n % 7]}`),
  ...layouts.flatMap((words, index) => {
    const n = [24, 64, 256, 104][index % 4];
    return [
      `wgmma.mma_async.sync.aligned.m64n${n}k16.f32.${index % 2 === 0 ? "f16.f16" : "bf16.bf16"} ${words}`,
      `wgmma.mma_async.sp.sync.aligned.m64n${n}k32.f32.f16.f16 ${words} selector:${index % 2}`,
    ];
  }),
  "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 a:128 b:128 zero",
  "wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 a:registers b:128 b:negated",
  "wgmma.mma_async.sync.aligned.m64n24k32.s32.s8.s8 a:32 b:32 zero",
  ...[1, 3, 6].map((base) => `wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 a:128 b:128 base:${base}`),
].map((text) => text.replace(/ +/g, " ").trim());
