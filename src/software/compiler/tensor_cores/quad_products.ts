/**
 * `mma.m8n8k4` of f16: each of the four quad pairs of a warp computes a product of its own. Quad pair q has the lanes
 * 4 q to 4 q + 3 and 16 + 4 q to 16 + 4 q + 3. PTX ISA, section 9.7.14.5.1.
 *
 * GPUs since sm_80 compute these products with fused multiply-adds of 32 bits.
 *
 * @module
 */
import { helperIndex } from "../helpers/helper_functions.ts";
import { FunctionWriter, type KernelFunctions } from "../webassembly/kernel_functions.ts";
import { fromHalf, toHalf } from "./half_conversions.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";
import { workspace } from "./workspace.ts";

/** A product of each quad pair. */
export interface QuadProduct {
  readonly aLayout: "row" | "col";
  readonly bLayout: "row" | "col";
  readonly c: "f16" | "f32";
  readonly d: "f16" | "f32";
}

/**
 * Returns a function that computes the products of all quad pairs. Its parameters are the workspace, and the offsets of
 * the fragments of A, B, C and D.
 */
export function quadFunction(functions: KernelFunctions, product: QuadProduct): number {
  return functions.indexOf(`quads ${JSON.stringify(product)}`, () => writeQuads(functions, product));
}

/** Where a lane's elements are in the workspace: multipliers of bits of the lane's number, and of the element. */
interface Layout {
  readonly perQuad: number;
  readonly bit0: number;
  readonly bit1: number;
  readonly upper: number;
  at(element: number): number;
}

const single: Layout = {
  perQuad: 64,
  bit0: 8,
  bit1: 2,
  upper: 32,
  at: (element) => (element & 2) * 8 + (element & 4) + (element & 1),
};
const half: Layout = { perQuad: 64, bit0: 8, bit1: 16, upper: 32, at: (element) => element };
const layouts = {
  a: {
    row: { perQuad: 32, bit0: 4, bit1: 8, upper: 16, at: (element: number) => element },
    col: { perQuad: 32, bit0: 1, bit1: 2, upper: 16, at: (element: number) => 4 * element },
  },
  b: {
    row: { perQuad: 32, bit0: 8, bit1: 16, upper: 4, at: (element: number) => element },
    col: { perQuad: 32, bit0: 1, bit1: 2, upper: 4, at: (element: number) => 8 * element },
  },
};

function writeQuads(functions: KernelFunctions, { aLayout, bLayout, c, d }: QuadProduct): FunctionDefinition {
  const f = new FunctionWriter(["i32", "i32", "i32", "i32", "i32"]);
  const { code } = f;
  const [space, ...offsets] = [0, 1, 2, 3, 4] as const;
  const place = f.local(), fragment = f.local();
  const forLanes = (layout: Layout, { offset, body }: { offset: number; body: () => void }) => {
    f.loop(32, (lane) => {
      code.get(space).get(lane).i32(2).ops("i32Shl", "i32Add").memory("i32Load", workspace.lanes);
      code.get(offset).ops("i32Add").set(fragment);
      code.get(space);
      for (
        const [shift, mask, factor] of [
          [2, 3, layout.perQuad],
          [0, 1, layout.bit0],
          [1, 1, layout.bit1],
          [4, 1, layout.upper],
        ] as const
      ) {
        code.get(lane).i32(shift).ops("i32ShrU").i32(mask).ops("i32And").i32(4 * factor).ops("i32Mul", "i32Add");
      }
      code.set(place);
      body();
    });
  };
  const load = (
    part: "a" | "b" | "c",
    { format, count, layout }: { format: "f16" | "f32"; count: number; layout: Layout },
  ) => {
    forLanes(layout, {
      offset: offsets[["a", "b", "c"].indexOf(part)]!,
      body: () => {
        for (let element = 0; element < count; element++) {
          code.get(place).get(fragment);
          if (format === "f32") code.memory("f32Load", 4 * element);
          else code.memory("i32Load16U", 2 * element).call(fromHalf(functions));
          code.memory("f32Store", workspace[part] + 4 * layout.at(element));
        }
      },
    });
  };
  load("a", { format: "f16", count: 4, layout: layouts.a[aLayout] });
  load("b", { format: "f16", count: 4, layout: layouts.b[bLayout] });
  load("c", { format: c, count: 8, layout: c === "f32" ? single : half });
  const aAt = f.local(), bAt = f.local(), at = f.local(), value = f.local("f32");
  /** Pushes the product of the elements with an index along K, plus the number that `addend` pushes. */
  const fused = (index: number, addend: () => void) => {
    code.get(aAt).memory("f32Load", workspace.a + 4 * index).ops("f64PromoteF32");
    code.get(bAt).memory("f32Load", workspace.b + 32 * index).ops("f64PromoteF32", "f64Mul");
    addend();
    code.ops("f64PromoteF32").call(helperIndex("addToOdd")).ops("f32DemoteF64");
  };
  /** Pushes the product of the elements with an index along K, which is exact and may be -0. */
  const product = (index: number) => {
    code.get(aAt).memory("f32Load", workspace.a + 4 * index).get(bAt).memory("f32Load", workspace.b + 32 * index);
    code.ops("f32Mul");
  };
  const pushC = () => code.get(at).memory("f32Load", workspace.c);
  code.get(space).set(at);
  f.loop(4, (quad) => {
    f.loop(8, (row) => {
      f.loop(8, (column) => {
        code.get(space).get(quad).i32(128).ops("i32Mul", "i32Add").get(row).i32(16).ops("i32Mul", "i32Add").set(aAt);
        code.get(space).get(quad).i32(128).ops("i32Mul", "i32Add").get(column).i32(4).ops("i32Mul", "i32Add").set(bAt);
        const zero = () => void code.f32(0);
        if (d === "f32") {
          fused(3, () => fused(2, () => fused(1, () => fused(0, zero))));
          pushC().ops("f32Add");
        } else {
          pushC();
          fused(1, () => product(0));
          code.ops("f32Add");
          fused(3, () => product(2));
          code.ops("f32Add");
        }
        code.set(value).get(at);
        if (d === "f32") {
          code.get(value).f32Bits(0x7fff_ffffn).get(value).get(value).ops("f32Eq", "select");
          code.memory("f32Store", workspace.d);
        } else {
          code.get(value).call(toHalf(functions)).memory("i32Store", workspace.d);
        }
        code.get(at).i32(4).ops("i32Add").set(at);
      });
    });
  });
  const layout = d === "f32" ? single : half;
  forLanes(layout, {
    offset: offsets[3]!,
    body: () => {
      for (let element = 0; element < 8; element++) {
        code.get(fragment).get(place).memory("i32Load", workspace.d + 4 * layout.at(element));
        if (d === "f32") code.memory("i32Store", 4 * element);
        else code.memory("i32Store16", 2 * element);
      }
    },
  });
  return f.finish();
}
