/**
 * Products of matrices by `wmma`, whose fragments are loaded from and stored to memory.
 *
 * @module
 */
import { bitsOf, type ElementName, type Matrix, type Problem, type ProductForm } from "./problems.ts";

type Part = "a" | "b" | "c" | "d";

/** Where a matrix is in the memory of a block, and how. */
interface Place {
  readonly rows: number;
  readonly columns: number;
  readonly name: ElementName;
  readonly isRowMajor: boolean;
  /** The offset of the matrix, in words. */
  readonly begin: number;
  /** The number of elements between rows or columns. */
  readonly stride: number;
  readonly words: number;
}

/** The places of the matrices. The stride of A and B is larger than needed. */
function placesOf(form: ProductForm): Readonly<Record<Part, Place>> {
  const { m, n, k, text } = form;
  const [aLayout, bLayout] = text.split(".").filter((modifier) => modifier === "row" || modifier === "col");
  let begin = 0;
  const place = (part: Part, [rows, columns]: readonly [number, number], isRowMajor: boolean): Place => {
    const name = form[part], bits = bitsOf[name];
    const padding = part === "d" ? 0 : 128 / bits;
    const [lines, length] = isRowMajor ? [rows, columns] : [columns, rows];
    const stride = length + padding, words = lines * stride * bits / 32;
    const placed = { rows, columns, name, isRowMajor, begin: part === "d" ? 0 : begin, stride, words };
    if (part !== "d") begin += words;
    return placed;
  };
  return {
    a: place("a", [m, k], aLayout === "row"),
    b: place("b", [k, n], bLayout === "row"),
    c: place("c", [m, n], aLayout === "row"),
    d: place("d", [m, n], bLayout === "row"),
  };
}

/** The number of words that a block reads and writes. */
export function blockWords(form: ProductForm): { readonly inputs: number; readonly outputs: number } {
  const { a, b, c, d } = placesOf(form);
  return { inputs: a.words + b.words + c.words, outputs: d.words };
}

/** The PTX of a kernel whose blocks, a warp each, load, multiply and store a product each. */
export function fragmentKernel(form: ProductForm): string {
  const places = placesOf(form);
  const { inputs, outputs } = blockWords(form);
  const { text, m, n, k } = form;
  const shape = `m${m}n${n}k${k}`;
  const counts = (part: Part) => {
    const { rows, columns, name } = places[part];
    const isHalf = name === "f16" && (part === "a" || part === "b");
    return isHalf ? 8 : rows * columns / 32 * (bitsOf[name] === 64 ? 1 : bitsOf[name] / 32);
  };
  const type = (part: Part) => form[part] === "f64" ? "f64" : form[part] === "f32" ? "f32" : "b32";
  const prefix = (part: Part) => `%${type(part) === "b32" ? "w" : type(part)}${part}`;
  const list = (part: Part) => {
    return `{${Array.from({ length: counts(part) }, (_, index) => `${prefix(part)}${index}`).join(", ")}}`;
  };
  const layout = (part: Part) => places[part].isRowMajor ? "row" : "col";
  const loads = (["a", "b", "c"] as const).map((part, index) => {
    const { begin, stride, name } = places[part];
    const address = `[%rd2+${4 * begin}]`;
    return `mov.u32 %r${index}, ${stride};
  wmma.load.${part}.sync.aligned.${layout(part)}.${shape}.global.${name} ${list(part)}, ${address}, %r${index};`;
  });
  const declarations = (["a", "b", "c", "d"] as const).map((part) => {
    return `.reg .${type(part)} ${prefix(part)}<${counts(part)}>;`;
  });
  return `.version 8.7
.target sm_90
.address_size 64
.visible .entry product(.param .u64 out, .param .u64 in) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ${declarations.join(" ")}
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [in];
  mov.u32 %r0, %ctaid.x;
  mul.wide.u32 %rd3, %r0, ${4 * inputs};
  add.u64 %rd2, %rd2, %rd3;
  mul.wide.u32 %rd3, %r0, ${4 * outputs};
  add.u64 %rd1, %rd1, %rd3;
  ${loads.join("\n  ")}
  ${text} ${list("d")}, ${list("a")}, ${list("b")}, ${list("c")};
  wmma.store.d.sync.aligned.${layout("d")}.${shape}.global.${form.d} [%rd1], ${list("d")};
  ret;
}
`;
}

/** Calls a function with each element's place in its matrix, and in memory: its word and lowest bit. */
function forEachElement(
  { rows, columns, name, isRowMajor, begin, stride }: Place,
  action: (at: number, word: number, bit: number) => void,
): void {
  const bits = bitsOf[name];
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const place = (isRowMajor ? row * stride + column : column * stride + row) * bits;
      action(row * columns + column, begin + (place >> 5), place & 31);
    }
  }
}

/** Writes the matrices of a problem to the words that the kernel's block reads. */
export function writeMatrices(form: ProductForm, problem: Problem, target: Uint32Array): void {
  const places = placesOf(form);
  for (const part of ["a", "b", "c"] as const) {
    forEachElement(places[part], (at, word, bit) => {
      const value = problem[part][at]!;
      if (typeof value === "bigint") {
        target[word] = Number(value & 0xffff_ffffn);
        target[word + 1] = Number(value >> 32n);
      } else {
        target[word]! |= value << bit;
      }
    });
  }
}

/** The elements of D, row after row, that a block has written. */
export function readMatrix(form: ProductForm, written: Uint32Array): Matrix {
  const { d } = placesOf(form);
  const bits = bitsOf[form.d];
  const elements = bits === 64 ? new BigUint64Array(form.m * form.n) : new Uint32Array(form.m * form.n);
  forEachElement(d, (at, word, bit) => {
    if (elements instanceof BigUint64Array) {
      elements[at] = BigInt(written[word]!) | BigInt(written[word + 1]!) << 32n;
    } else {
      elements[at] = bits === 32 ? written[word]! : written[word]! >>> bit & (2 ** bits - 1);
    }
  });
  return elements;
}
