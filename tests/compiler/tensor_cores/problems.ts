/**
 * Products of matrices as the threads of a warp see them: kernels of one instruction, the fragments of their operands,
 * and the elements of their results. The layout is that of the PTX ISA manual, sections 9.7.14.5.1 to 9.7.14.5.13.
 *
 * @module
 */
import { element, type InputClass, type Random } from "./inputs.ts";
import type { FormatName } from "./reference.ts";

/** A form of `mma`. */
export interface ProductForm {
  /** The instruction with its modifiers. */
  readonly text: string;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly a: FormatName;
  readonly b: FormatName;
  readonly c: FormatName;
  readonly d: FormatName;
}

/** The form that an instruction names. */
export function formOf(text: string): ProductForm {
  const [, m, n, k] = /\.m(\d+)n(\d+)k(\d+)/.exec(text)!.map(Number);
  const [d, a, b, c] = text.split(".").filter((modifier) => modifier in bitsOf) as FormatName[];
  return { text, m: m!, n: n!, k: k!, a: a!, b: b!, c: c!, d: d! };
}

/** The size of an element in a register, in bits. */
export const bitsOf: Readonly<Record<FormatName, number>> = {
  f16: 16,
  bf16: 16,
  tf32: 32,
  f32: 32,
  e4m3: 8,
  e5m2: 8,
};

/** The operands and the result of an instruction. */
export type Part = "a" | "b" | "c" | "d";

/** The number of 32-bit registers of each fragment. */
export function wordsOf({ m, n, k, a, b, c, d }: ProductForm): Readonly<Record<Part, number>> {
  const words = (rows: number, columns: number, format: FormatName) => rows * columns * bitsOf[format] / 1024;
  return { a: words(m, k, a), b: words(k, n, b), c: words(m, n, c), d: words(m, n, d) };
}

/** The row and column of an element of a lane's fragment, counted from the first register's lowest element. */
export function placeOf(
  form: ProductForm,
  part: Part,
  { lane, index }: { lane: number; index: number },
): [number, number] {
  const [group, member] = [lane >> 2, lane & 3];
  if (part === "c" || part === "d") {
    const pair = index >> 1;
    return [group + 8 * (pair % (form.m / 8)), 2 * member + index % 2 + 8 * Math.floor(pair / (form.m / 8))];
  }
  const perRegister = 32 / bitsOf[form[part]];
  const register = Math.floor(index / perRegister), blocks = (part === "a" ? form.m : form.n) / 8;
  const along = 4 * perRegister * Math.floor(register / blocks) + perRegister * member + index % perRegister;
  const across = group + 8 * (register % blocks);
  return part === "a" ? [across, along] : [along, across];
}

/** The PTX of a kernel whose blocks, a warp each, compute a product each. */
export function productKernel(form: ProductForm): string {
  const words = wordsOf(form);
  const isFloat = (part: Part) => form[part] === "f32";
  const register = (part: Part, index: number) => `%${isFloat(part) ? "f" : "w"}${part}${index}`;
  const list = (part: Part) => `{${upTo(words[part], (index) => register(part, index)).join(", ")}}`;
  const inputs = words.a + words.b + words.c;
  const begins = { a: 0, b: words.a, c: words.a + words.b } as const;
  const loads = (["a", "b", "c"] as const).flatMap((part) =>
    upTo(words[part], (index) => {
      const type = isFloat(part) ? "f32" : "u32";
      return `ld.global.${type} ${register(part, index)}, [%rd2+${4 * (begins[part] + index)}];`;
    })
  );
  const stores = upTo(words.d, (index) => {
    return `st.global.${isFloat("d") ? "f32" : "u32"} [%rd1+${4 * index}], ${register("d", index)};`;
  });
  return `.version 8.4
.target sm_90
.address_size 64
.visible .entry product(.param .u64 out, .param .u64 in) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ${
    (["a", "b", "c", "d"] as const).map((part) =>
      `.reg .${isFloat(part) ? "f" : "b"}32 ${register(part, 0).slice(0, -1)}<${words[part]}>;`
    ).join(" ")
  }
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
  ${form.text} ${list("d")}, ${list("a")}, ${list("b")}, ${list("c")};
  ${stores.join("\n  ")}
  ret;
}
`;
}

/** The elements of matrices, row after row, as bits. */
export type Elements = Readonly<Record<"a" | "b" | "c", Uint32Array>>;

/** The random elements of a problem. */
export function problemOf({ m, n, k, ...formats }: ProductForm, kind: InputClass, random: Random): Elements {
  const matrix = (count: number, part: "a" | "b" | "c") => {
    return Uint32Array.from({ length: count }, () => element(random, kind, formats[part]));
  };
  return { a: matrix(m * k, "a"), b: matrix(k * n, "b"), c: matrix(m * n, "c") };
}

/** Writes the fragments of a problem to the words that the kernel's block reads. */
export function writeFragments(form: ProductForm, elements: Elements, target: Uint32Array): void {
  const words = wordsOf(form);
  const inputs = words.a + words.b + words.c;
  let begin = 0;
  for (const part of ["a", "b", "c"] as const) {
    const bits = bitsOf[form[part]], perRegister = 32 / bits, width = part === "a" ? form.k : form.n;
    for (let lane = 0; lane < 32; lane++) {
      for (let index = 0; index < words[part] * perRegister; index++) {
        const [row, column] = placeOf(form, part, { lane, index });
        const at = lane * inputs + begin + Math.floor(index / perRegister);
        target[at] = target[at]! | elements[part][row * width + column]! << bits * (index % perRegister);
      }
    }
    begin += words[part];
  }
}

/** The elements of D, row after row, that a block has written. */
export function readResult(form: ProductForm, written: Uint32Array): Uint32Array {
  const { d: words } = wordsOf(form);
  const bits = bitsOf[form.d], perRegister = 32 / bits;
  const elements = new Uint32Array(form.m * form.n);
  for (let lane = 0; lane < 32; lane++) {
    for (let index = 0; index < words * perRegister; index++) {
      const [row, column] = placeOf(form, "d", { lane, index });
      const word = written[lane * words + Math.floor(index / perRegister)]!;
      elements[row * form.n + column] = word >>> bits * (index % perRegister) & (2 ** bits - 1);
    }
  }
  return elements;
}

function upTo<T>(count: number, valueOf: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => valueOf(index));
}
