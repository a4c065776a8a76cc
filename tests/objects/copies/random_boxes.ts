/**
 * Random boxes of random tensors, the same in each run.
 *
 * @module
 */
import { type ProbedBox, shownBytes } from "./probed_boxes.ts";

/** Whole numbers that look random, from 0 to below a limit. */
function randomNumbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return Math.floor((state >>> 8) / 2 ** 24 * limit);
  };
}

/** Boxes of random tensors, in both modes. */
export function randomBoxes(count: number): ProbedBox[] {
  const below = randomNumbers(2024);
  const pick = <Value>(values: readonly Value[]) => values[below(values.length)]!;
  return Array.from({ length: count }, (_, number): ProbedBox => {
    const isPixels = number % 2 === 0;
    const rank = (isPixels ? 3 : 2) + below(isPixels ? 3 : 4);
    const dtype = pick(["uint8", "uint16", "uint32", "uint64"] as const);
    const bytes = { uint8: 1, uint16: 2, uint32: 4, uint64: 8 }[dtype];
    const swizzle = pick([undefined, "32B", "64B", "128B"] as const);
    const widest = Math.min(4, Number.parseInt(swizzle ?? "128") / 16);
    const row = 16 / bytes * (1 + below(widest));
    const shape = [16 / bytes * (1 + below(4)), ...Array.from({ length: rank - 1 }, () => 2 + below(rank > 3 ? 5 : 8))];
    const strides: number[] = [];
    for (let index = 0, stride = shape[0]! * bytes + 16 * below(2); index < rank - 1; index++) {
      strides.push(stride);
      stride *= shape[index + 1]!;
    }
    const elementStrides = shape.map((_, index) => index === 0 ? 1 : pick([1, 1, 2, 3]));
    const at = shape.map((size, index) => index === 0 ? 16 / bytes * (below(4) - 1) : below(size + 3) - 2);
    const usual = { shape, strides, elementStrides, dtype, ...swizzle === undefined ? {} : { swizzle } };
    if (!isPixels) {
      const box = shape.map((_, index) => index === 0 ? row : 1 + below(rank > 3 ? 3 : 5));
      return { ...usual, box, at, ...number % 4 === 1 ? { isStore: true as const } : {} };
    }
    const corners = shape.slice(2).map((_, index) => {
      const lower = below(4) - 2;
      return [lower, Math.max(lower - shape[index + 1]! + 1 + below(3), below(4) - 2)] as const;
    });
    const pixels = {
      lower: corners.map(([lower]) => lower),
      upper: corners.map(([, upper]) => upper),
      channels: row,
      count: 1 + below(24),
      offsets: corners.map(() => below(3)),
    };
    const inside = at.map((coordinate, index) => {
      const corner = corners[index - 1];
      if (corner === undefined) return index === 0 ? coordinate : below(shape[index]!);
      return corner[0] + below(shape[index]! + corner[1] - corner[0]);
    });
    return { ...usual, pixels, at: inside };
  });
}

const elementSizes = {
  ...{ uint8: 1, uint16: 2, uint32: 4, int32: 4, uint64: 8, int64: 8 },
  ...{ float16: 2, bfloat16: 2, float32: 4, float64: 8, tfloat32: 4 },
} as const;
const reducedTypes: Readonly<Record<string, readonly (keyof typeof elementSizes)[]>> = {
  add: ["uint32", "int32", "uint64", "float16", "bfloat16", "float32", "float64"],
  max: ["uint32", "int32", "uint64", "int64", "float16", "bfloat16"],
  xor: ["uint32", "int32", "uint64"],
  inc: ["uint32"],
};

/** Random copies in all modes: loads, stores and reductions, with slices, swizzles and elements outside. */
export function randomCopies(count: number): ProbedBox[] {
  const below = randomNumbers(90210);
  const pick = <Value>(values: readonly Value[]) => values[below(values.length)]!;
  return Array.from({ length: count }, (): ProbedBox => {
    const isPixels = below(2) === 0, isStore = below(3) === 0;
    const interleave = pick([undefined, undefined, "16B", "32B"] as const);
    const operation = isStore ? pick([undefined, ...Object.keys(reducedTypes)]) : undefined;
    const dtype = pick(operation === undefined ? Object.keys(elementSizes) as "uint8"[] : reducedTypes[operation]!);
    const bytes = elementSizes[dtype];
    const swizzle = pick([undefined, "32B", "64B", "128B"] as const);
    const unit = interleave === undefined ? bytes : interleave === "16B" ? 16 : 32;
    const least = isPixels || interleave !== undefined ? 3 : 1;
    const rank = least + below(6 - least);
    const step = interleave === undefined ? 16 / bytes : 1;
    const shape = Array.from(
      { length: rank },
      (_, index) => index === 0 ? step * (1 + below(5)) : 2 + below(rank > 3 ? 4 : 7),
    );
    const strides: number[] = [];
    for (let index = 0, stride = shape[0]! * unit + unit * step * below(2); index < rank - 1; index++) {
      strides.push(stride);
      stride *= shape[index + 1]!;
    }
    const elementStrides = shape.map(() => pick([1, 1, 1, 2, 3]));
    const from = isStore ? 0 : -2;
    const at = shape.map((size, index) =>
      index === 0 ? step * (below(4) + Math.sign(from)) : from + below(size + 2 - from)
    );
    const usual = {
      shape,
      strides,
      elementStrides,
      dtype,
      ...swizzle === undefined ? {} : { swizzle },
      ...interleave === undefined ? {} : { interleave },
      ...dtype.includes("float") && below(2) === 0 ? { fill: "nan" as const } : {},
      ...isStore ? { isStore: true as const } : {},
      ...operation === undefined ? {} : { operation },
    };
    const row = 16 / bytes * (1 + below(Math.min(4, Number.parseInt(swizzle ?? "128") / 16)));
    if (!isPixels) {
      const box = shape.map((_, index) => index === 0 ? row : 1 + below(rank > 3 ? 3 : 5));
      // The rows of a box are at most 8192 bytes with a swizzle.
      const rows = box.slice(1).reduce((product, size) => product * size, Math.max(box[0]! * unit, 128));
      if (rows > shownBytes) box.fill(1, 2);
      return { ...usual, box, at };
    }
    const first = interleave === undefined ? 1 : 0;
    const corners = shape.slice(first, first + rank - 2).map((size) => {
      const lower = below(4) - 2;
      return [lower, Math.max(lower - size + 1 + below(3), below(4) - 2)] as const;
    });
    const inside = at.map((coordinate, index) => {
      const corner = corners[index - first];
      if (corner === undefined || isStore) return coordinate;
      return corner[0] + below(shape[index]! + corner[1] - corner[0]);
    });
    const pixels = {
      lower: corners.map(([lower]) => lower),
      upper: corners.map(([, upper]) => upper),
      channels: row,
      count: 1 + below(40),
      offsets: corners.map(() => below(3)),
    };
    return { ...usual, pixels, at: inside };
  });
}
