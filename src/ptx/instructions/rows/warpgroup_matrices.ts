/**
 * The rows of products of matrices that a warpgroup, which is four warps, computes together.
 *
 * @module
 */
import type { InstructionRow, InstructionTraits } from "../instruction_traits.ts";
import { onFirstUse, orderingFence, row, type Rows } from "./row.ts";

/** The names of the instruction table's rows for products of matrices of a warpgroup. */
export type WarpgroupProductName =
  | "wgmma.mma_async"
  | "wgmma.mma_async.sp"
  | "wgmma.fence"
  | "wgmma.wait_group";

/** The traits of a product: D is also read, and A and B may be in shared memory. */
const product: InstructionTraits = {
  effects: ["reads", "observes"],
  synchronization: "lanes",
  readsResult: true,
  products: "starts",
  isOfSm90a: true,
};
const ordering: InstructionTraits = { ...orderingFence, isOfSm90a: true };

/** The shapes with K products in each sum. `step` divides N. */
function shapes(k: number, { step, others = [] }: { step: number; others?: readonly number[] }): string {
  const multiples = Array.from({ length: 256 / step }, (_, index) => step * (index + 1));
  return [...others, ...multiples].sort((a, b) => a - b).map((n) => `m64n${n}k${k}`).join("|");
}

const anyN = { step: 8 };
/** The columns of D for integers: multiples of 16, and two others. */
const integerN = { step: 16, others: [8, 24] };

/** The floating-point types of D, A and B, K for a dense and a sparse A, and the operands after the negations. */
const floats: readonly (readonly [types: string, dense: number, sparse: number, layouts: string])[] = [
  ["<d:f16|f32>.<a:f16>.<b:f16>", 16, 32, ", transposed [, transposed]"],
  ["<d:f32>.<a:bf16>.<b:bf16>", 16, 32, ", transposed [, transposed]"],
  ["<d:f32>.<a:tf32>.<b:tf32>", 8, 16, ""],
  ["<d:f16|f32>.<a:e4m3|e5m2>.<b:e4m3|e5m2>", 32, 64, ""],
];

/** Returns the instruction table's rows for products of matrices of a warpgroup. */
export const warpgroupProductRows: () => Rows<WarpgroupProductName> = onFirstUse((): Rows<WarpgroupProductName> => {
  const section = { product: "9.7.15.5.2", sparse: "9.7.15.6.3", order: "9.7.15.7.1" };
  const dense = (rest: string): InstructionRow => row(`wgmma.mma_async.sync.aligned.${rest}`, section.product, product);
  const sparse = (rest: string): InstructionRow =>
    row(`wgmma.mma_async.sp.sync.aligned.${rest}`, section.sparse, product);
  const bytes = "satfinite?.<d:s32>.<a:s8|u8>.<b:s8|u8>";
  return {
    "wgmma.mma_async": [
      ...floats.map(([types, k, , layouts]) =>
        dense(`<shape:${shapes(k, anyN)}>.${types} d, a, b, scale, sign, sign${layouts}`)
      ),
      dense(`<shape:${shapes(32, integerN)}>.${bytes} d, a, b, scale`),
      dense(`<shape:${shapes(256, integerN)}>.<d:s32>.<a:b1>.<b:b1>.<operation:and>.popc d, a, b, scale`),
    ],
    "wgmma.mma_async.sp": [
      ...floats.map(([types, , k, layouts]) =>
        sparse(`<shape:${shapes(k, anyN)}>.${types} d, a, b, e, selector, scale, sign, sign${layouts}`)
      ),
      sparse(`<shape:${shapes(64, integerN)}>.${bytes} d, a, b, e, selector, scale`),
    ],
    "wgmma.fence": [
      row("wgmma.fence.sync.aligned", section.order, { ...ordering, products: "fences" }),
      row("wgmma.commit_group.sync.aligned", section.order, { ...ordering, products: "commits" }),
    ],
    "wgmma.wait_group": row("wgmma.wait_group.sync.aligned n", section.order, {
      effects: ["orders"],
      synchronization: "threads",
      products: "awaits",
      isOfSm90a: true,
    }),
  };
});
