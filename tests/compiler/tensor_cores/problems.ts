/**
 * Products of matrices as the threads of a warp see them: kernels of one instruction, the fragments of their operands,
 * and the elements of their results. The layout is that of the PTX ISA manual, sections 9.7.14.5.1 to 9.7.14.5.13.
 *
 * @module
 */
import { doubleElement, element, type InputClass, integerElement, type Random } from "./inputs.ts";
import {
  blockSum,
  doubleSum,
  type FormatName,
  type IntegerName,
  integerSum,
  mixedSum,
  quadSum,
  type RoundingName,
  splitSum,
} from "./reference.ts";

/** The format of an operand's elements. */
export type ElementName = FormatName | IntegerName | "f64";

/** A form of `mma`. */
export interface ProductForm {
  /** The instruction with its modifiers. */
  readonly text: string;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly a: ElementName;
  readonly b: ElementName;
  readonly c: ElementName;
  readonly d: ElementName;
  /** For a sparse A: the last operand of the instruction. */
  readonly selector: number | undefined;
  /** For products of quad pairs, of which an instruction computes four: the layouts of A and B. */
  readonly layouts: readonly [a: string, b: string] | undefined;
  /** For products of a warpgroup: words that describe the operands. */
  readonly operands: readonly string[];
}

/**
 * The form that an instruction names, with the last operand if it has a sparse A, or with words that describe the
 * operands of a warpgroup.
 */
export function formOf(instruction: string): ProductForm {
  const [text = "", ...operands] = instruction.split(" ");
  const isOfWarpgroup = text.startsWith("wgmma");
  const selector = isOfWarpgroup
    ? operands.find((word) => word.startsWith("selector:"))?.slice("selector:".length)
    : operands[0];
  const [, m, n, k] = /\.m(\d+)n(\d+)k(\d+)/.exec(text)!.map(Number);
  const modifiers = text.split(".");
  const types = modifiers.filter((modifier) => modifier in bitsOf) as ElementName[];
  // `wmma.mma` names only D and C if A and B are f16.
  const [d, a, b, c = d] = types.length === 2 ? [types[0], "f16", "f16", types[1]] as const : types;
  const isOfQuads = text.includes(".m8n8k4.") && a === "f16";
  const layouts = modifiers.filter((modifier) => modifier === "row" || modifier === "col");
  return {
    ...{ text, m: m!, n: n!, k: k!, a: a!, b: b!, c: c!, d: d! },
    selector: selector === undefined ? undefined : Number(selector),
    layouts: isOfQuads ? [layouts[0]!, layouts[1]!] : undefined,
    operands: isOfWarpgroup ? operands : [],
  };
}

/** The size of an element in a register, in bits. */
export const bitsOf: Readonly<Record<ElementName, number>> = {
  ...{ f64: 64, f32: 32, s32: 32, tf32: 32, f16: 16, bf16: 16 },
  ...{ e4m3: 8, e5m2: 8, s8: 8, u8: 8, s4: 4, u4: 4, b1: 1 },
};

/** The operands and the result of an instruction. */
export type Part = "a" | "b" | "c" | "d";

/** The number of elements of a row of A that are stored. */
function keptOf({ k, selector }: ProductForm): number {
  return selector === undefined ? k : k / 2;
}

/** The number of 32-bit words of each fragment. */
export function wordsOf(form: ProductForm): Readonly<Record<Part, number>> {
  const { m, n, k, a, b, c, d, layouts } = form;
  const products = layouts === undefined ? 1 : 4;
  const words = (rows: number, columns: number, name: ElementName) => products * rows * columns * bitsOf[name] / 1024;
  return { a: words(m, keptOf(form), a), b: words(k, n, b), c: words(m, n, c), d: words(m, n, d) };
}

/** The number of words that a thread reads: its fragments and, for a sparse A, its metadata. */
export function inputsOf(form: ProductForm): number {
  const { a, b, c } = wordsOf(form);
  return a + b + c + (form.selector === undefined ? 0 : 1);
}

/** The place of an element of a lane's fragment in a matrix whose rows follow one another. */
function placeOf(form: ProductForm, part: Part, { lane, index }: { lane: number; index: number }): number {
  if (form.layouts !== undefined) return placeInQuad(form, part, { lane, index });
  const [group, member] = [lane >> 2, lane & 3];
  if (part === "c" || part === "d") {
    const pair = index >> 1;
    const row = group + 8 * (pair % (form.m / 8));
    return row * form.n + 2 * member + index % 2 + 8 * Math.floor(pair / (form.m / 8));
  }
  const perRegister = Math.max(1, 32 / bitsOf[form[part]]);
  const register = Math.floor(index / perRegister), blocks = (part === "a" ? form.m : form.n) / 8;
  const along = 4 * perRegister * Math.floor(register / blocks) + perRegister * member + index % perRegister;
  const across = group + 8 * (register % blocks);
  return part === "a" ? across * keptOf(form) + along : along * form.n + across;
}

function placeInQuad(
  { layouts, ...formats }: ProductForm,
  part: Part,
  { lane, index }: { lane: number; index: number },
): number {
  const quad = lane % 16 >> 2, member = lane % 4, upper = lane < 16 ? 0 : 4;
  if (part === "a") {
    const [row, column] = layouts![0] === "row" ? [member + upper, index] : [index + upper, member];
    return quad * 32 + row * 4 + column;
  }
  if (part === "b") {
    const [row, column] = layouts![1] === "row" ? [member, index + upper] : [index, member + upper];
    return quad * 32 + row * 8 + column;
  }
  const [row, column] = formats[part] === "f16"
    ? [member + upper, index]
    : [(lane & 1) + (index & 2) + upper, (index & 4) + (lane & 2) + (index & 1)];
  return quad * 64 + row * 8 + column;
}

/** The PTX of a kernel whose blocks, a warp each, compute a product each. */
export function productKernel(form: ProductForm): string {
  const words = wordsOf(form);
  const typeOf = (part: Part) => form[part] === "f64" ? "f64" : form[part] === "f32" ? "f32" : "b32";
  const prefix = (part: Part) => `%${typeOf(part) === "b32" ? "w" : typeOf(part)}${part}`;
  const counts = (part: Part) => words[part] / (form[part] === "f64" ? 2 : 1);
  const list = (part: Part) => `{${upTo(counts(part), (index) => `${prefix(part)}${index}`).join(", ")}}`;
  const inputs = inputsOf(form);
  const begins = { a: 0, b: words.a, c: words.a + words.b } as const;
  const bytes = (part: Part) => form[part] === "f64" ? 8 : 4;
  const loads = (["a", "b", "c"] as const).flatMap((part) =>
    upTo(counts(part), (index) => {
      return `ld.global.${typeOf(part)} ${prefix(part)}${index}, [%rd2+${4 * begins[part] + bytes(part) * index}];`;
    })
  );
  const stores = upTo(counts("d"), (index) => {
    return `st.global.${typeOf("d")} [%rd1+${bytes("d") * index}], ${prefix("d")}${index};`;
  });
  const metadata = form.selector === undefined ? "" : `, %r2, ${form.selector}`;
  const declarations = (["a", "b", "c", "d"] as const).map((part) => {
    return `.reg .${typeOf(part)} ${prefix(part)}<${counts(part)}>;`;
  });
  return `.version 8.7
.target sm_90
.address_size 64
.visible .entry product(.param .u64 out, .param .u64 in) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ${declarations.join(" ")}
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [in];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  shl.b32 %r1, %r1, 5;
  add.u32 %r0, %r0, %r1;
  mul.wide.u32 %rd3, %r0, ${4 * inputs};
  add.u64 %rd2, %rd2, %rd3;
  mul.wide.u32 %rd3, %r0, ${4 * words.d};
  add.u64 %rd1, %rd1, %rd3;
  ${loads.join("\n  ")}
  ${form.selector === undefined ? "" : `ld.global.b32 %r2, [%rd2+${4 * (inputs - 1)}];`}
  ${form.text} ${list("d")}, ${list("a")}, ${list("b")}, ${list("c")}${metadata};
  ${stores.join("\n  ")}
  ret;
}
`;
}

/** The elements of a matrix, row after row, as bits. */
export type Matrix = Uint32Array | BigUint64Array;

/** The elements of matrices, row after row, as bits. */
export interface Problem {
  readonly a: Matrix;
  readonly b: Matrix;
  readonly c: Matrix;
  /** For a sparse A: for each of its elements, the place in the whole row. */
  readonly places: Uint8Array;
}

/** The random elements of a problem. */
export function problemOf(form: ProductForm, kind: InputClass, random: Random): Problem {
  const { m, n, k, layouts } = form;
  const products = layouts === undefined ? 1 : 4;
  const kept = keptOf(form);
  const matrix = (size: number, name: ElementName): Matrix => {
    const length = products * size;
    if (name === "f64") return BigUint64Array.from({ length }, () => doubleElement(random, kind));
    const elements = new Uint32Array(length);
    const isInteger = /^[sub]\d+$/.test(name);
    for (let index = 0; index < length; index++) {
      elements[index] = isInteger
        ? integerElement(random, kind, name as IntegerName)
        : element(random, kind, name as FormatName);
    }
    return elements;
  };
  const places = new Uint8Array(form.selector === undefined ? 0 : m * kept);
  for (let first = 0; first < places.length;) {
    const along = first % kept;
    if (form.a === "tf32") {
      places[first++] = 2 * along + random.below(2);
      continue;
    }
    const unit = bitsOf[form.a] === 4 ? 2 : 1;
    const [low, high] = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]][random.below(6)]!;
    for (const which of [low!, high!]) {
      for (let part = 0; part < unit; part++) places[first++] = 2 * along + unit * which + part;
    }
  }
  const problem = { a: matrix(m * kept, form.a), b: matrix(k * n, form.b), c: matrix(m * n, form.c), places };
  if (kind === "alternating") {
    setSigns(problem.a, { name: form.a, isNegative: (index) => index % kept % 2 === 1 });
    setSigns(problem.b, { name: form.b, isNegative: () => false });
  }
  return problem;
}

/** Sets the signs of a matrix of signed elements. */
function setSigns(
  matrix: Matrix,
  { name, isNegative }: { readonly name: ElementName; readonly isNegative: (index: number) => boolean },
): void {
  if (/^[ub]\d+$/.test(name)) return;
  for (let index = 0; index < matrix.length; index++) {
    if (matrix instanceof BigUint64Array) {
      matrix[index] = BigInt.asUintN(63, matrix[index]!) | (isNegative(index) ? 1n << 63n : 0n);
    } else {
      const sign = 2 ** (bitsOf[name] - 1);
      matrix[index] = matrix[index]! % sign + (isNegative(index) ? sign : 0);
    }
  }
}

/** Writes the fragments of a problem to the words that the kernel's block reads. */
export function writeFragments(form: ProductForm, problem: Problem, target: Uint32Array): void {
  const words = wordsOf(form), inputs = inputsOf(form);
  let begin = 0;
  for (const part of ["a", "b", "c"] as const) {
    const matrix = problem[part];
    const bits = bitsOf[form[part]];
    const count = words[part] * 32 / bits;
    for (let lane = 0; lane < 32; lane++) {
      const at = lane * inputs + begin;
      for (let index = 0; index < count; index++) {
        const value = matrix[placeOf(form, part, { lane, index })]!;
        if (typeof value === "bigint") {
          target[at + 2 * index] = Number(value & 0xffff_ffffn);
          target[at + 2 * index + 1] = Number(value >> 32n);
        } else {
          target[at + (index * bits >> 5)]! |= value << (index * bits & 31);
        }
      }
    }
    begin += words[part];
  }
  if (form.selector !== undefined) writeMetadata(form, problem, target);
}

/** Writes the metadata of a sparse A to the last word of the lanes that have it. */
function writeMetadata(form: ProductForm, { places }: Problem, target: Uint32Array): void {
  const inputs = inputsOf(form), kept = keptOf(form), selector = form.selector!;
  const put = (lane: number, shift: number, value: number) => target[lane * inputs + inputs - 1]! |= value << shift;
  const bits = bitsOf[form.a];
  const unit = bits === 4 ? 2 : 1;
  for (let row = 0; row < form.m; row++) {
    const [group, upper] = [row % 8, row >> 3];
    for (let index = 0; index < kept; index += unit) {
      const place = places[row * kept + index]!;
      const value = bits === 32 ? [4, 14][place % 2]! : Math.floor(place / unit) % 4;
      const along = index / unit;
      if (bits === 32) {
        put(4 * group + (kept === 4 ? selector : 2 * selector + (along >> 2)), 4 * (along % 4) + 16 * upper, value);
      } else if (bits === 16) {
        put(4 * group + (kept === 8 ? selector : 2 * selector + (along >> 3)), 2 * (along % 8) + 16 * upper, value);
      } else if (kept / unit === 16) put(4 * group + 2 * selector + upper, 2 * along, value);
      else put(4 * group + upper + 2 * (along >> 4), 2 * (along % 16), value);
    }
  }
}

/** The elements of D, row after row, that a block has written. */
export function readResult(form: ProductForm, written: Uint32Array): Matrix {
  const { d: words } = wordsOf(form);
  const bits = bitsOf[form.d];
  const length = words * 1024 / bits;
  const elements = bits === 64 ? new BigUint64Array(length) : new Uint32Array(length);
  for (let lane = 0; lane < 32; lane++) {
    for (let index = 0; index < words * 32 / bits; index++) {
      const place = placeOf(form, "d", { lane, index });
      const at = lane * words + (index * bits >> 5);
      if (elements instanceof BigUint64Array) elements[place] = BigInt(written[at]!) | BigInt(written[at + 1]!) << 32n;
      else elements[place] = bits === 32 ? written[at]! : written[at]! >>> (index * bits & 31) & (2 ** bits - 1);
    }
  }
  return elements;
}

/** The elements of D that tensor cores compute, row after row. */
export function expectedOf(form: ProductForm, problem: Problem): Matrix {
  const { m, n, k, a, b, d, text, layouts, selector } = form;
  const kept = keptOf(form);
  const length = problem.c.length;
  const elements: (number | bigint)[] = Array.from({ length }, (_, at) => {
    const product = Math.floor(at / (m * n)), row = Math.floor(at / n) % m, column = at % n;
    const as = upTo(kept, (along) => problem.a[product * m * k + row * kept + along]!);
    const bs = upTo(kept, (along) => {
      const place = selector === undefined ? along : problem.places[row * kept + along]!;
      return problem.b[product * k * n + place * n + column]!;
    });
    if (d === "f64") {
      const rounding = (/\.(r[nzmp])\./.exec(text)?.[1] ?? "rn") as RoundingName;
      return doubleSum(as as bigint[], bs as bigint[], { c: problem.c[at] as bigint, rounding });
    }
    const c = problem.c[at] as number;
    const numbers = [as as number[], bs as number[]] as const;
    if (d === "s32") {
      const operation = /\.(xor|and)\./.exec(text)?.[1] as "xor" | "and" | undefined;
      const saturates = text.includes(".satfinite");
      return integerSum(...numbers, { a: a as IntegerName, b: b as IntegerName, c, saturates, operation });
    }
    const formats = { a: a as FormatName, b: b as FormatName, d: d as "f16" | "f32", cFormat: form.c as "f16" | "f32" };
    if (layouts !== undefined) return quadSum(...numbers, { ...formats, c });
    if (bitsOf[a] === 8) return splitSum(...numbers, { ...formats, c });
    if (text.startsWith("wmma") && form.c !== d) return mixedSum(...numbers, { c, d: formats.d });
    if (text.startsWith("wmma") && a === "tf32") {
      const half = (elements: readonly number[], first: number) => elements.slice(first, first + 4);
      const [left, right] = numbers;
      const first = blockSum(half(left, 0), half(right, 0), { ...formats, c });
      return blockSum(half(left, 4), half(right, 4), { ...formats, c: first });
    }
    return blockSum(...numbers, { ...formats, c });
  });
  return d === "f64" ? BigUint64Array.from(elements as bigint[]) : Uint32Array.from(elements as number[]);
}

function upTo<T>(count: number, valueOf: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => valueOf(index));
}
