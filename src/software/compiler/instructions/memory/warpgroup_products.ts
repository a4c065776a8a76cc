/**
 * `wgmma`: four warps together multiply matrices in shared memory. PTX ISA, section 9.7.15.
 *
 * Products with the same accumulator that follow one another are computed at the last one, and all others where the
 * instruction is executed: until `wgmma.wait_group` returns, programs may neither read D nor write A or B, so they cannot
 * tell when a product is computed. What a thread or the asynchronous proxy has written to shared memory before, and has
 * ordered by a fence and a barrier, is there.
 *
 * Each warp computes its rows of D by itself. Its threads leave their fragments and descriptors in memory, and wait until
 * all threads of the warp have arrived. The first thread that resumes computes the product for the warp.
 *
 * @module
 */
import { fragmentsBegin } from "../../tensor_cores/product_batches.ts";
import { bitsOfFormat, type FloatFormat } from "../../tensor_cores/formats.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import { type MatrixProduct, mostSelector } from "../../tensor_cores/matrix_products.ts";
import type {
  Register,
  ResolvedInstruction,
  ResolvedOperand,
} from "../../../../ptx/instructions/resolved_instruction.ts";
import {
  type CompiledInstruction,
  type Emit,
  instructionForm,
  type SuspendingInstruction,
} from "../instruction_form.ts";
import { constantOf } from "../integers/integer_instructions.ts";
import { shadowOffset } from "../../../abi/addresses.ts";
import { threadRecord } from "../../../abi/launch_record.ts";
import { type ScalarType, typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import { mostFragmentBytes } from "../../tensor_cores/workspace.ts";
import {
  accumulatorBytes,
  areJoined,
  mostWarpgroupProducts,
  placeOfOperands,
  usualLayout,
  warpgroupFunction,
  type WarpgroupLayout,
  warpgroupPlaces,
  type WarpgroupProduct,
  type WarpgroupShape,
} from "../../tensor_cores/warpgroup_products.ts";

const b32 = typeNamed("b32");
const b64 = typeNamed("b64");
const predicate = typeNamed("pred");

/** The lowering of `wgmma.mma_async`. */
export const warpgroupProduct: SuspendingInstruction = loweringOf([], { residents: new Map() });

/** A layout, and the registers that stay in memory: see `SuspendingInstruction`. */
interface ChosenLayout {
  /** Default: the usual layout. */
  readonly layout?: WarpgroupLayout;
  readonly residents: ReadonlyMap<Register, number>;
}

/** The lowering of a product that is computed together with earlier ones, whose threads have left their operands. */
function loweringOf(
  earlier: readonly CompiledInstruction[],
  { layout: chosen, residents }: ChosenLayout,
): SuspendingInstruction {
  const layoutOf = (i: ResolvedInstruction) => chosen ?? usualLayout(shapeOf(i));
  const functionOf = (e: FunctionEmitter, i: ResolvedInstruction) => {
    const products = [...earlier, i].map((each) => operandsOf(e, each).product);
    return warpgroupFunction(e.kernelFunctions, { products, layout: layoutOf(i) }, {
      hasShadows: e.shadows !== undefined,
      checksRaces: e.options.kernelChecks.has("race"),
    });
  };
  return {
    describe: () => ({ kind: "matrixProduct" }),
    fragmentBytes: (i) => placeOfOperands(layoutOf(i), earlier.length + 1),
    residents,
    request: (e, i) => {
      // Functions must be created before the code that calls them is emitted.
      functionOf(e, i);
      leaveOperands(e, i, { index: earlier.length, layout: layoutOf(i) });
      e.getFixed("record").i32(-1).memory("i32Store", threadRecord.mask);
      e.getFixed("record").i32(1).memory("i32Store", threadRecord.result);
    },
    answer: (e, i) => {
      e.getFixed("record").memory("i32Load", threadRecord.result).if();
      e.getLaunchRecord();
      e.getFixed("record");
      e.getFixed("thread");
      e.getFixed("saved");
      for (const instruction of [...earlier, i as CompiledInstruction]) {
        e.begin(instruction);
        e.code.i32(e.place({ operation: "read", space: "shared", bytes: 16 }));
      }
      e.code.call(functionOf(e, i)).end();
    },
    resume: (e, i) => {
      if (residents.size > 0) return;
      const { d, type } = operandsOf(e, i);
      const begin = fragmentsBegin + layoutOf(i).accumulator;
      d.forEach((register, index) => {
        const at = begin + 4 * index;
        e.assign(register, type, () => e.getFixed("saved").memory(`${type.value as "f32" | "i32"}Load`, at));
        e.shadows?.assign(register, b32, () => e.getFixed("saved").memory("i32Load", at + shadowOffset));
      });
    },
  };
}

/** Whether an instruction is a product that can be computed together with others. */
export function isJoinable(i: CompiledInstruction): boolean {
  return i.form.suspending === warpgroupProduct && i.predicate === undefined && areJoined(shapeOf(i));
}

/** Whether a product has the accumulator of another one. */
export function haveSameAccumulator(i: CompiledInstruction, other: CompiledInstruction): boolean {
  const [a, b] = [i.operands[0], other.operands[0]];
  return a?.kind === "vector" && b?.kind === "vector" && a.elements.length === b.elements.length &&
    i.choices.get("d") === other.choices.get("d") &&
    a.elements.every((register, index) => register === b.elements[index]);
}

/**
 * Returns layouts for products whose accumulators stay in the memory for fragments, by their first register, for the
 * products of a function. Undefined if the accumulators share registers, or need too much memory.
 */
export function residentLayouts(
  products: readonly CompiledInstruction[],
): ReadonlyMap<ResolvedOperand, ChosenLayout> | undefined {
  const accumulators = new Map<ResolvedOperand, { readonly residents: Map<Register, number>; readonly at: number }>();
  const all = new Set<ResolvedOperand>();
  let end: number = warpgroupPlaces.accumulator;
  for (const product of products) {
    const { operands: [d] } = product;
    const registers = d?.kind === "vector" ? d.elements : [];
    const [first] = registers;
    if (first === undefined || 4 * registers.length !== accumulatorBytes(shapeOf(product))) return undefined;
    const known = accumulators.get(first);
    if (known !== undefined) {
      if (known.residents.size !== registers.length) return undefined;
      if (!registers.every((register, index) => known.residents.get(register as Register) === known.at + 4 * index)) {
        return undefined;
      }
      continue;
    }
    const residents = new Map<Register, number>();
    for (const register of registers) {
      if (register.kind !== "register" || all.has(register)) return undefined;
      all.add(register);
      residents.set(register, end + 4 * residents.size);
    }
    accumulators.set(first, { residents, at: end });
    end += 4 * registers.length;
  }
  if (end + mostWarpgroupProducts * warpgroupPlaces.operands.byteLength > mostFragmentBytes) return undefined;
  const chosen = [...accumulators].map(([first, { residents, at }]) => {
    return [first, { layout: { accumulator: at, operands: end, isResident: true }, residents }] as const;
  });
  return new Map(chosen);
}

/**
 * Returns the instructions that stand for products with the same accumulator: at each, threads leave the operands, and
 * at the last, all products are computed.
 */
export function joinedProducts(
  members: readonly CompiledInstruction[],
  chosen: ChosenLayout = { residents: new Map() },
): readonly CompiledInstruction[] {
  const layout = chosen.layout ?? usualLayout(shapeOf(members[0]!));
  return members.map((member, index): CompiledInstruction => {
    const { syntax, section, traits } = member.form;
    if (index === members.length - 1) {
      const form = instructionForm(syntax, section, {
        lowering: loweringOf(members.slice(0, -1), chosen),
        traits: { ...traits, validity: "emitted" },
      });
      return { ...member, form };
    }
    // The accumulator is read, and not set.
    const form = instructionForm(syntax.replace(" d, ", " c, "), section, {
      lowering: (e) => leaveOperands(e, member, { index, layout }),
      traits: { effects: [], validity: "emitted" },
    });
    return { ...member, form };
  });
}

/** Emits code for `wgmma.fence` and `wgmma.commit_group`, which have no effect: products are computed at once. */
export const orderProducts: Emit = () => {};

/**
 * The lowering of `wgmma.wait_group`, at which the warps of a warpgroup wait for each other: a single thread may then
 * release the operands for all of them. The barriers of warpgroups have numbers that programs cannot use.
 */
export const awaitProducts: SuspendingInstruction = {
  describe: () => ({ kind: "barrier", operation: "sync", isAligned: true }),
  request: (e, i) => {
    const count = constantOf(i.operands[0]);
    if (count === undefined || count < 0n) e.fail("the number of groups must be a literal that is not negative");
    e.getFixed("record");
    e.getFixed("thread").i32(7).ops("i32ShrU").i32(firstWarpgroupBarrier).ops("i32Add");
    e.code.memory("i32Store", threadRecord.first);
    e.getFixed("record").i32(warpgroupThreads).memory("i32Store", threadRecord.second);
  },
  resume: () => {},
  gathersWarp: () => true,
};

/** The number of the first warpgroup's barrier. Those of a block are 0 to 15, and that of a cluster 16. */
const firstWarpgroupBarrier = 17;
const warpgroupThreads = 128;

/** The operands of a product. */
interface ProductOperands {
  readonly d: readonly ResolvedOperand[];
  /** The type of D's registers. */
  readonly type: ScalarType;
  /** The registers of A, or its descriptor. */
  readonly a: ResolvedOperand;
  readonly b: ResolvedOperand;
  readonly metadata: ResolvedOperand | undefined;
  /** Whether D is added to the product. */
  readonly scale: ResolvedOperand;
  readonly product: WarpgroupProduct;
}

/** The signs of the elements of a word, by the size of an element in bits. */
const signsOf: Readonly<Record<number, number>> = { 8: 0x8080_8080 | 0, 16: 0x8000_8000 | 0, 32: 0x8000_0000 | 0 };

/** The number of registers of D. */
function accumulatorWords(i: ResolvedInstruction): number {
  const { part: { d }, n } = shapeOf(i);
  return d === "f16" ? n / 4 : n / 2;
}

/** The shape and the formats of a product. */
function shapeOf({ choices }: ResolvedInstruction): WarpgroupShape {
  const [, n, k] = /^m64n(\d+)k(\d+)$/.exec(choices.get("shape")!)!.map(Number);
  const chosen = <Value>(name: string) => choices.get(name) as Value;
  const accumulator = chosen<"f16" | "f32" | "s32">("d");
  const part: MatrixProduct = {
    ...{ m: 16, n: 8, k: k!, isOfWarpgroup: true },
    ...{ a: chosen<"f16">("a"), b: chosen<"f16">("b"), c: accumulator, d: accumulator },
  };
  return { part, n: n! };
}

/** Returns the operands of an instruction. Reports a compilation error if one is wrong. */
function operandsOf(e: FunctionEmitter, i: ResolvedInstruction): ProductOperands {
  const { choices, operands } = i;
  const shape = shapeOf(i);
  const [d, a, b] = operands as [ResolvedOperand, ResolvedOperand, ResolvedOperand];
  const isSparse = choices.has("sp");
  const isShared = a.kind !== "vector";
  const [scale, ...rest] = operands.slice(isSparse ? 5 : 3) as [ResolvedOperand, ...ResolvedOperand[]];
  const words = accumulatorWords(i);
  if (d.kind !== "vector" || d.elements.length !== words) e.fail(`D must be a vector of ${words} registers`);
  if (a.kind === "vector" && a.elements.length !== 4) e.fail("A must be a descriptor, or a vector of 4 registers");
  const chosen = <Value>(name: string) => choices.get(name) as Value;
  const literal = (operand: ResolvedOperand | undefined, allowed: readonly bigint[], name: string): bigint => {
    const value = constantOf(operand);
    if (value !== undefined && allowed.includes(value)) return value;
    return e.fail(`${name} must be ${allowed.join(" or ")}`);
  };
  const accumulator = shape.part.d;
  const part: MatrixProduct = {
    ...shape.part,
    ...choices.has("satfinite") ? { saturates: true } as const : {},
    ...choices.has("operation") ? { operation: chosen<"and">("operation") } : {},
    ...isSparse ? { selector: Number(constantOf(operands[4]) ?? -1n) } : {},
  };
  if (isSparse) {
    const most = mostSelector(part);
    if (part.selector! < 0 || part.selector! > most) {
      e.fail(`the selector of the metadata must be ${most === 0 ? "0" : `a number from 0 to ${most}`}`);
    }
  }
  const isNegated = accumulator !== "s32" &&
    literal(rest[0], [-1n, 1n], "the sign of A") !== literal(rest[1], [-1n, 1n], "the sign of B");
  const transposes = ["f16", "bf16"].includes(chosen("a"))
    ? rest.slice(2).map((operand) => literal(operand, [0n, 1n], "whether a matrix is transposed") === 1n)
    : [];
  if (transposes.length > 0 && transposes.length !== (isShared ? 2 : 1)) {
    e.fail(isShared ? "the layouts of A and B are missing" : "A in registers cannot be transposed");
  }
  return {
    d: d.elements,
    type: accumulator === "f32" ? typeNamed("f32") : b32,
    ...{ a, b, scale },
    metadata: isSparse ? operands[3]! : undefined,
    product: {
      ...{ part, n: shape.n, isShared },
      signs: isNegated ? signsOf[bitsOfFormat[part.a as FloatFormat]]! : 0,
      isTransposed: { a: isShared && transposes[0] === true, b: transposes.at(-1) === true },
    },
  };
}

/** Emits code that stores the operands of the `index`-th product, and, for the first one, the fragment of C. */
function leaveOperands(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { index, layout }: { readonly index: number; readonly layout: WarpgroupLayout },
): void {
  const operands = operandsOf(e, i);
  const { a, b, metadata, scale, product } = operands;
  const begin = placeOfOperands(layout, index);
  const places = warpgroupPlaces.operands;
  if (index === 0 && !layout.isResident) leaveAccumulator(e, operands, layout);
  else leave(e, scale, { type: predicate, at: begin + places.scale });
  if (a.kind === "vector") {
    a.elements.forEach((register, index) => {
      leave(e, register, { type: b32, at: begin + places.a + 4 * index, flipped: product.signs });
    });
  } else {
    leave(e, a, { type: b64, at: begin + places.a });
  }
  leave(e, b, { type: b64, at: begin + places.b });
  if (metadata !== undefined) leave(e, metadata, { type: b32, at: begin + places.metadata });
}

/** Emits code that stores the fragment of C: that of D, or 0. */
function leaveAccumulator(
  e: FunctionEmitter,
  { d, type, scale }: ProductOperands,
  { accumulator }: WarpgroupLayout,
): void {
  const { code } = e;
  const isAdded = e.temporary("i32");
  e.push(scale, predicate);
  code.set(isAdded);
  const begin = fragmentsBegin + accumulator;
  d.forEach((register, index) => {
    const at = begin + 4 * index;
    e.getFixed("saved");
    e.push(register, type);
    if (type.value === "f32") code.f32(0);
    else code.i32(0);
    code.get(isAdded).ops("select").memory(`${type.value as "f32" | "i32"}Store`, at);
    if (e.shadows === undefined) return;
    e.getFixed("saved");
    e.shadows.push(register, type);
    code.i32(0).get(isAdded).ops("select").memory("i32Store", at + shadowOffset);
  });
}

/** Emits code that stores an operand, with the bits of `flipped` inverted, in the thread's memory for fragments. */
function leave(
  e: FunctionEmitter,
  operand: ResolvedOperand,
  { type, at, flipped = 0 }: { type: ScalarType; at: number; flipped?: number },
): void {
  const place = fragmentsBegin + at;
  e.getFixed("saved");
  e.push(operand, type);
  if (flipped !== 0) e.code.i32(flipped).ops("i32Xor");
  e.code.memory(type.bits === 64 ? "i64Store" : "i32Store", place);
  if (e.shadows === undefined) return;
  e.getFixed("saved");
  e.shadows.push(operand, type);
  e.code.memory(type.bits === 64 ? "i64Store" : "i32Store", place + shadowOffset);
}
