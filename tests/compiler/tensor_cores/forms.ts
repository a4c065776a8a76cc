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
  ["f16.e5m2.e4m3.f16", "m16n8k32", "m16n8k64"],
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
