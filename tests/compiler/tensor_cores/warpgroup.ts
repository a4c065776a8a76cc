/**
 * Products of matrices of a warpgroup: kernels of one `wgmma.mma_async`, where their operands are in shared memory, and
 * the elements of their results. PTX ISA, sections 9.7.15.5 and 9.7.15.6.
 *
 * The words after an instruction describe its operands: `a:128` or `b:64` is the swizzle pattern of a matrix in bytes,
 * `a:registers` a matrix in registers, `a:transposed` and `a:negated` what they say, `base:3` the base offset of the
 * pattern of B, `zero` a product to which D is not added, and `selector:1` the selector of the metadata.
 *
 * @module
 */
import { bitsOf, type Matrix, type Problem, type ProductForm } from "./problems.ts";
import { blockSum, type FormatName, type IntegerName, integerSum } from "./reference.ts";

/** The number of threads of a warpgroup. */
export const warpgroupThreads = 128;

/** Where a matrix is in shared memory, and how. */
interface SharedMatrix {
  /** The offset of the first byte. */
  readonly begin: number;
  /** The number of bytes that are adjacent: 16 without a swizzle pattern. */
  readonly width: number;
  readonly isTransposed: boolean;
  readonly leading: number;
  readonly stride: number;
  readonly base: number;
  /** The offset after the last byte. */
  readonly end: number;
}

/** The operands of a form. */
interface Operands {
  /** Undefined if A is in registers. */
  readonly a: SharedMatrix | undefined;
  readonly b: SharedMatrix;
  readonly isNegated: boolean;
  readonly isAdded: boolean;
}

function operandsOf(form: ProductForm): Operands {
  const has = (word: string) => form.operands.includes(word);
  const base = Number(form.operands.find((word) => word.startsWith("base:"))?.slice(5) ?? 0);
  const place = (part: "a" | "b", begin: number): SharedMatrix => {
    const width = [128, 64, 32].find((width) => has(`${part}:${width}`)) ?? 16;
    const isTransposed = has(`${part}:transposed`);
    const lines = part === "a" ? form.m : form.n;
    const bytes = (part === "a" ? keptOf(form) : form.k) * bitsOf[form[part]] / 8;
    const offset = part === "b" ? base : 0;
    const [groups, pieces] = isTransposed ? [bytes / 16, lines / 8] : [lines / 8, bytes / 16];
    if (width === 16) {
      const inner = 144, outer = inner * (bytes / 16) + 32;
      const [leading, stride] = [inner, outer];
      return { begin, width, isTransposed, leading, stride, base: 0, end: begin + outer * lines / 8 };
    }
    // There is a gap between groups of lines in matrices that are not large.
    const stride = 8 * width * (lines <= 64 ? 2 : 1);
    const leading = stride * groups;
    const end = begin + 128 * offset + leading * Math.ceil(pieces * 16 / width);
    return { begin: begin + 128 * offset, width, isTransposed, leading, stride, base: offset, end };
  };
  const a = has("a:registers") ? undefined : place("a", 0);
  return {
    a,
    b: place("b", Math.ceil((a?.end ?? 0) / 1024) * 1024),
    isNegated: has("a:negated") !== has("b:negated"),
    isAdded: !has("zero"),
  };
}

/** The offset of an element in shared memory, in bits: that of row `across` of A or column `across` of B. */
function bitOf(
  { begin, width, isTransposed, leading, stride, base }: SharedMatrix,
  { across, along, bits }: { across: number; along: number; bits: number },
): number {
  let byte: number;
  if (isTransposed) {
    const within = across * bits / 8;
    byte = width === 16
      ? Math.floor(across / 8) * stride + Math.floor(along / 8) * leading + along % 8 * 16 + within % 16
      : Math.floor(along / 8) * stride + along % 8 * width + Math.floor(within / width) * leading + within % width;
  } else {
    const within = Math.floor(along * bits / 8);
    byte = Math.floor(across / 8) * stride + across % 8 * width + Math.floor(within / width) * leading + within % width;
  }
  byte += begin;
  const row = (byte >> 7) - base & width / 16 - 1;
  return (byte ^ row << 4) * 8 + along * bits % 8 * (bits < 8 ? 1 : 0);
}

function keptOf({ k, selector }: ProductForm): number {
  return selector === undefined ? k : k / 2;
}

/** The numbers of words of the shared memory and of each thread's fragments. */
function sizesOf(form: ProductForm) {
  const { a, b } = operandsOf(form);
  const accumulator = form.m * form.n * bitsOf[form.d] / 32 / warpgroupThreads;
  const registers = a === undefined ? 4 : 0, metadata = form.selector === undefined ? 0 : 1;
  return { shared: b.end / 4, accumulator, registers, metadata, thread: accumulator + registers + metadata };
}

/** The number of words that a block reads and writes. */
export function warpgroupWords(form: ProductForm): { readonly inputs: number; readonly outputs: number } {
  const { shared, thread, accumulator } = sizesOf(form);
  return { inputs: shared + warpgroupThreads * thread, outputs: warpgroupThreads * accumulator };
}

function descriptorOf({ begin, width, leading, stride, base }: SharedMatrix): bigint {
  const mode = { 16: 0n, 128: 1n, 64: 2n, 32: 3n }[width]!;
  return BigInt(begin >> 4) | BigInt(leading >> 4) << 16n | BigInt(stride >> 4) << 32n | BigInt(base) << 49n |
    mode << 62n;
}

/** The PTX of a kernel whose blocks, a warpgroup each, compute a product each. */
export function warpgroupKernel(form: ProductForm): string {
  const { text, operands } = form;
  const { a, b, isAdded } = operandsOf(form);
  const { shared, accumulator, registers, metadata, thread } = sizesOf(form);
  const type = form.d === "f32" ? "f32" : "b32";
  const d = type === "f32" ? "%fd" : "%wd";
  const list = (prefix: string, count: number) =>
    `{${Array.from({ length: count }, (_, index) => `${prefix}${index}`).join(", ")}}`;
  const loads = [
    ...Array.from({ length: accumulator }, (_, index) => `ld.global.${type} ${d}${index}, [%rd2+${4 * index}];`),
    ...Array.from(
      { length: registers },
      (_, index) => `ld.global.b32 %a${index}, [%rd2+${4 * (accumulator + index)}];`,
    ),
    ...metadata === 0 ? [] : [`ld.global.b32 %e, [%rd2+${4 * (accumulator + registers)}];`],
  ];
  const stores = Array.from(
    { length: accumulator },
    (_, index) => `st.global.${type} [%rd1+${4 * index}], ${d}${index};`,
  );
  const isFloat = form.d !== "s32";
  const sign = (part: string) => operands.includes(`${part}:negated`) ? "-1" : "1";
  const layout = (part: string) => operands.includes(`${part}:transposed`) ? "1" : "0";
  const rest = [
    ...isFloat ? [sign("a"), sign("b")] : [],
    ...form.a === "f16" || form.a === "bf16" ? [...a === undefined ? [] : [layout("a")], layout("b")] : [],
  ];
  const sparse = form.selector === undefined ? "" : `, %e, ${form.selector}`;
  const left = a === undefined ? list("%a", 4) : "%da";
  return `.version 8.7
.target sm_90a
.address_size 64
.visible .entry product(.param .u64 out, .param .u64 in) {
  .shared .align 1024 .b8 image[${4 * shared}];
  .reg .b32 %r<8>; .reg .b64 %rd<5>; .reg .${type} ${d}<${accumulator}>; .reg .b32 %a<4>; .reg .b32 %e;
  .reg .b64 %da; .reg .b64 %db; .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [in];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd3, %r1, ${4 * (shared + warpgroupThreads * thread)};
  add.u64 %rd2, %rd2, %rd3;
  mul.wide.u32 %rd3, %r1, ${4 * warpgroupThreads * accumulator};
  add.u64 %rd1, %rd1, %rd3;
  mov.u32 %r2, image;
  mov.u32 %r3, %r0;
COPY:
  setp.ge.u32 %p0, %r3, ${shared};
  @%p0 bra COPIED;
  mul.wide.u32 %rd3, %r3, 4;
  add.u64 %rd3, %rd2, %rd3;
  ld.global.b32 %r4, [%rd3];
  shl.b32 %r5, %r3, 2;
  add.u32 %r5, %r5, %r2;
  st.shared.b32 [%r5], %r4;
  add.u32 %r3, %r3, ${warpgroupThreads};
  bra COPY;
COPIED:
  fence.proxy.async.shared::cta;
  bar.sync 0;
  mul.wide.u32 %rd3, %r0, ${4 * thread};
  add.u64 %rd3, %rd3, ${4 * shared};
  add.u64 %rd2, %rd2, %rd3;
  mul.wide.u32 %rd3, %r0, ${4 * accumulator};
  add.u64 %rd1, %rd1, %rd3;
  ${loads.join("\n  ")}
  shr.u32 %r6, %r2, 4;
  cvt.u64.u32 %rd4, %r6;
  add.u64 %da, %rd4, ${a === undefined ? 0 : BigInt.asIntN(64, descriptorOf(a))};
  add.u64 %db, %rd4, ${BigInt.asIntN(64, descriptorOf(b))};
  setp.ne.u32 %p1, ${isAdded ? 1 : 0}, 0;
  wgmma.fence.sync.aligned;
  ${[`${text} ${list(d, accumulator)}`, left, `%db${sparse}`, "%p1", ...rest].join(", ")};
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  ${stores.join("\n  ")}
  ret;
}
`;
}

/** The row and the column of an element of a thread's fragment of D. */
function placeInD(thread: number, index: number): { row: number; column: number } {
  const lane = thread % 32, pair = index >> 1;
  return {
    row: 16 * (thread >> 5) + (lane >> 2) + 8 * (pair % 2),
    column: 8 * (pair >> 1) + 2 * (lane % 4) + index % 2,
  };
}

/** Calls a function with each element of D: its place in the matrix, and its word and lowest bit in memory. */
function forEachResult(
  form: ProductForm,
  wordOfThread: (thread: number) => number,
  action: (at: number, word: number, bit: number) => void,
): void {
  const bits = bitsOf[form.d], count = form.m * form.n / warpgroupThreads;
  for (let thread = 0; thread < warpgroupThreads; thread++) {
    const begin = wordOfThread(thread);
    for (let index = 0; index < count; index++) {
      const { row, column } = placeInD(thread, index);
      action(row * form.n + column, begin + (index * bits >> 5), index * bits & 31);
    }
  }
}

/** Writes a problem to the words that a block reads. */
export function writeWarpgroup(form: ProductForm, problem: Problem, target: Uint32Array): void {
  const { a, b } = operandsOf(form);
  const { shared, accumulator, registers, thread: words } = sizesOf(form);
  const kept = keptOf(form), bits = bitsOf[form.a];
  const put = (bit: number, value: number) => target[bit >> 5]! |= value << (bit & 31);
  for (let row = 0; a !== undefined && row < form.m; row++) {
    for (let along = 0; along < kept; along++) {
      put(bitOf(a, { across: row, along, bits }), Number(problem.a[row * kept + along]));
    }
  }
  for (let column = 0; column < form.n; column++) {
    for (let along = 0; along < form.k; along++) {
      put(bitOf(b, { across: column, along, bits }), Number(problem.b[along * form.n + column]));
    }
  }
  const wordOfThread = (thread: number) => shared + thread * words;
  forEachResult(form, wordOfThread, (at, word, bit) => put(32 * word + bit, Number(problem.c[at])));
  for (let thread = 0; thread < warpgroupThreads; thread++) {
    const begin = wordOfThread(thread) + accumulator;
    const [warp, group, member] = [thread >> 5, thread % 32 >> 2, thread % 4];
    const perRegister = 32 / bits;
    for (let index = 0; index < registers * perRegister; index++) {
      const register = Math.floor(index / perRegister);
      const row = 16 * warp + group + 8 * (register % 2);
      const along = perRegister * (member + 4 * (register >> 1)) + index % perRegister;
      put(32 * (begin + register) + bits * (index % perRegister), Number(problem.a[row * kept + along]));
    }
    if (form.selector === undefined) continue;
    target[begin + registers] = metadataOf(form, problem, { warp, group, member });
  }
}

/** The metadata of a thread of a product with a sparse A. That of threads that are not selected is 0. */
function metadataOf(
  form: ProductForm,
  { places }: Problem,
  { warp, group, member }: { warp: number; group: number; member: number },
): number {
  const kept = keptOf(form), bits = bitsOf[form.a], selector = form.selector!;
  const at = (upper: number, along: number) => places[(16 * warp + group + 8 * upper) * kept + along]!;
  let word = 0;
  if (bits === 8) {
    for (let index = 0; index < 16; index++) word |= at(member % 2, 16 * (member >> 1) + index) % 4 << 2 * index;
    return word;
  }
  if (member >> 1 !== selector) return 0;
  for (const upper of [0, 1]) {
    const count = bits === 32 ? 4 : 8;
    for (let index = 0; index < count; index++) {
      const place = at(upper, count * (member % 2) + index);
      word |= (bits === 32 ? [4, 14][place % 2]! : place % 4) << 16 * upper + 16 / count * index;
    }
  }
  return word;
}

/** The elements of D, row after row, that a block has written. */
export function readWarpgroup(form: ProductForm, written: Uint32Array): Matrix {
  const { accumulator } = sizesOf(form);
  const elements = new Uint32Array(form.m * form.n);
  forEachResult(form, (thread) => thread * accumulator, (at, word, bit) => {
    elements[at] = bitsOf[form.d] === 32 ? written[word]! : written[word]! >>> bit & 0xffff;
  });
  return elements;
}

/** The signs of the elements of A. */
const signs: Readonly<Record<string, number>> = {
  f16: 0x8000,
  bf16: 0x8000,
  tf32: 0x8000_0000,
  e4m3: 0x80,
  e5m2: 0x80,
};

/** The bits of an element of D that tensor cores compute. */
export function warpgroupElement(form: ProductForm, problem: Problem, at: number): number {
  const { n } = form;
  const kept = keptOf(form);
  const { isNegated, isAdded } = operandsOf(form);
  const row = Math.floor(at / n), column = at % n;
  const as = Array.from({ length: kept }, (_, along) => Number(problem.a[row * kept + along]));
  const bs = as.map((_, along) => {
    const place = form.selector === undefined ? along : problem.places[row * kept + along]!;
    return Number(problem.b[place * n + column]);
  });
  const c = isAdded ? Number(problem.c[at]) : 0;
  if (form.d === "s32") {
    const saturates = form.text.includes(".satfinite");
    const operation = form.a === "b1" ? "and" : undefined;
    return integerSum(as, bs, { a: form.a as IntegerName, b: form.b as IntegerName, c, saturates, operation });
  }
  const [a, b, d] = [form.a, form.b, form.d] as [FormatName, FormatName, "f16" | "f32"];
  const left = isNegated ? as.map((bits) => (bits ^ signs[a]!) >>> 0) : as;
  if (bitsOf[a] !== 8) return blockSum(left, bs, { a, b, c, cFormat: d, d });
  const sum = blockSum(left, bs, { a, b, c, cFormat: d, d, fractionBits: 13, normalizes: false });
  // Of a number in f32, the low ten bits are lost.
  const isFinite = (sum & 0x7f80_0000) !== 0x7f80_0000;
  if (d === "f16" || !isFinite) return sum;
  const rest = (sum & ~0x3ff) >>> 0;
  return rest === 0x8000_0000 ? 0 : rest;
}
