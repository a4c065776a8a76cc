import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { allocate, load, shadowOf } from "../compiler_device.ts";
import { classes, Random } from "./inputs.ts";
import { forms, fragmentForms } from "./forms.ts";
import { programOf } from "./program.ts";
import { expectedOf, formOf, problemOf, productKernel, readResult, wordsOf, writeFragments } from "./problems.ts";
import { isLong } from "../../support/test.ts";

/** The number of products of each class of inputs. */
const count = isLong ? 2 : 1;
/** Forms of each kind. The long run has all. */
const usual = new Set([
  "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
  "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
  "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
  "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32",
  "mma.sync.aligned.m16n8k32.row.col.f16.e5m2.e4m3.f16",
  "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32",
  "mma.sync.aligned.m16n8k64.row.col.s32.u4.s4.s32",
  "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc",
  "mma.sync.aligned.m8n8k4.row.col.rz.f64.f64.f64.f64",
  "mma.sync.aligned.m8n8k4.col.row.f16.f16.f16.f16",
  "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 1",
  "mma.sp.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 1",
  "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.satfinite.s32.s4.s4.s32 0",
  "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
  "wmma.mma.sync.aligned.col.row.m8n32k16.f16.f16",
  "wmma.mma.sync.aligned.col.row.m32n8k16.s32.s8.s8.s32",
  "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32",
  "wmma.mma.sync.aligned.row.col.m8n8k32.s32.u4.u4.s32.satfinite",
]);

for (const text of [...forms, ...fragmentForms]) {
  if (!isLong && !usual.has(text)) continue;
  const form = formOf(text);
  test(`${text} computes what tensor cores compute, to the bit`, () => {
    const { inputs, outputs, kernel, write, read } = programOf(form);
    const module = load(kernel);
    for (const kind of classes) {
      const random = Random.of(text, kind);
      const problems = Array.from({ length: count }, () => problemOf(form, kind, random));
      const source = allocate(4 * inputs * count), out = allocate(4 * outputs * count);
      const view = ({ bytes }: typeof out) => new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
      problems.forEach((problem, index) => write(problem, view(source).subarray(index * inputs, (index + 1) * inputs)));
      module.run("product", {
        grid: [count, 1, 1],
        block: [32, 1, 1],
        parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
      });
      problems.forEach((problem, index) => {
        const got = read(view(out).subarray(index * outputs, (index + 1) * outputs));
        assertEquals(got, expectedOf(form, problem), `${kind}, problem ${index}`);
      });
    }
  });
}

const f32 = formOf("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
const f16 = formOf("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16");

test("elements of D are uninitialized whose row of A, column of B or element of C is", () => {
  for (const form of [f32, f16]) {
    const words = wordsOf(form), inputs = words.a + words.b + words.c;
    const source = allocate(4 * 32 * inputs), out = allocate(4 * 32 * words.d);
    const module = load(productKernel(form), { decide: () => {} });
    const parameters = [{ type: "u64", value: out.address }, { type: "u64", value: source.address }] as const;
    const shadowFor = (marked: readonly { lane: number; word: number; mask: number }[]) => {
      const shadow = new Uint32Array(shadowOf(source).buffer, shadowOf(source).byteOffset, 32 * inputs);
      shadow.fill(0);
      for (const { lane, word, mask } of marked) shadow[lane * inputs + word] = mask;
      module.run("product", { block: [32, 1, 1], parameters });
      return readResult(form, new Uint32Array(shadowOf(out).buffer, shadowOf(out).byteOffset, 32 * words.d));
    };
    const all = 2 ** (form.d === "f32" ? 32 : 16) - 1;
    const expected = (isMarked: (row: number, column: number) => boolean) =>
      Uint32Array.from({ length: 128 }, (_, at) => isMarked(at >> 3, at & 7) ? all : 0);
    assertEquals(shadowFor([]), expected(() => false), "nothing");
    assertEquals(shadowFor([{ lane: 5, word: 0, mask: 1 }]), expected((row) => row === 1), "a row of A");
    assertEquals(shadowFor([{ lane: 5, word: 3, mask: 1 << 16 }]), expected((row) => row === 9), "another row of A");
    assertEquals(
      shadowFor([{ lane: 8, word: words.a + 1, mask: 1 << 31 }]),
      expected((_, column) => column === 2),
      "a column of B",
    );
    assertEquals(
      shadowFor([{ lane: 6, word: words.a + words.b, mask: 1 }]),
      expected((row, column) => row === 1 && column === 4),
      "an element of C",
    );
  }
});

test("lanes that do not exist have fragments of 0", () => {
  const form = f32;
  const words = wordsOf(form), inputs = words.a + words.b + words.c;
  const source = allocate(4 * 32 * inputs), out = allocate(4 * 32 * words.d);
  const view = ({ bytes }: typeof out) => new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  const ones = {
    a: new Uint32Array(256).fill(0x3c00),
    b: new Uint32Array(128).fill(0x3c00),
    c: new Uint32Array(128),
    places: new Uint8Array(),
  };
  writeFragments(form, ones, view(source));
  load(productKernel(form)).run("product", {
    block: [16, 1, 1],
    parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
  });
  const written = new Float32Array(out.bytes.buffer, out.bytes.byteOffset, 32 * words.d);
  // Rows 0 to 3 and 8 to 11 of A and columns 0 to 3 of B are those of the 16 lanes.
  const expected = Array.from({ length: 128 }, (_, index) => index < 64 && (index >> 2) % 4 < 2 ? 16 : 0);
  assertEquals([...written], expected);
});
