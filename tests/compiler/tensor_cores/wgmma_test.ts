import { assertEquals, assertNotEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { test } from "node:test";
import { allocate, Fault, load, refusalOf, shadowOf, testModule } from "../compiler_device.ts";
import { compilePtx } from "../../../src/software/compiler/compile.ts";
import { mostWarpgroupProducts } from "../../../src/software/compiler/tensor_cores/warpgroup_products.ts";
import { classes, Random } from "./inputs.ts";
import { warpgroupForms } from "./forms.ts";
import { faultKind } from "../../../src/software/abi/addresses.ts";
import { formOf, problemOf } from "./problems.ts";
import { programOf } from "./program.ts";
import { isLong } from "../../support/test.ts";
import { warpgroupElement } from "./warpgroup.ts";

/** The number of elements of D that are compared with the reference, for each class of inputs. */
const compared = isLong ? 500 : 40;
/** Forms of each kind, with operands of each kind. The long run has all. */
const usual = new Set(warpgroupForms.filter((text, index) => index % 9 === 0 || / zero| b:neg/.test(text)));

for (const text of warpgroupForms) {
  if (!isLong && (!usual.has(text) || text.includes("n256"))) continue;
  const form = formOf(text);
  test(`${text} computes what tensor cores compute, to the bit`, () => {
    const { inputs, outputs, threads, kernel, write, read } = programOf(form);
    const module = load(kernel);
    for (const kind of classes) {
      const random = Random.of(text, kind);
      const problem = problemOf(form, kind, random);
      const source = allocate(4 * inputs), out = allocate(4 * outputs);
      const view = ({ bytes }: typeof out) => new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
      write(problem, view(source));
      module.run("product", {
        block: [threads, 1, 1],
        parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
      });
      const got = read(view(out));
      const step = Math.max(1, Math.floor(got.length / compared));
      for (let at = random.below(step); at < got.length; at += step) {
        assertEquals(got[at], warpgroupElement(form, problem, at), `${kind}, element ${at}`);
      }
    }
  });
}

test("products of a warpgroup with one accumulator are computed together, as one by one", () => {
  for (
    const text of [
      "mma_async.sync.aligned.m64n16k16.f32.f16.f16 a:128 b:64",
      "mma_async.sync.aligned.m64n8k16.f16.f16.f16 a:registers b:transposed",
      ...isLong
        ? [
          "mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 a:negated",
          "mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 a:registers",
        ]
        : [],
      "mma_async.sp.sync.aligned.m64n16k32.f32.bf16.bf16 selector:1 b:128",
    ]
  ) {
    const form = formOf(`wgmma.${text}`);
    const { inputs, outputs, threads, kernel, write } = programOf(form);
    const line = /^ *wgmma\.mma_async.*;$/m.exec(kernel)![0];
    const random = Random.of(text, "small");
    const products = Array.from({ length: 2 + random.below(9) }, () => {
      // Descriptors of other rows and columns, and sums that begin anew.
      const scale = `setp.ne.u32 %p1, ${random.below(4)}, 0;`;
      const descriptor = `add.u64 %db, %db, ${random.below(2)};`;
      return `${scale} ${descriptor} ${line} ${random.below(3) === 0 ? "wgmma.commit_group.sync.aligned;" : ""}`;
    });
    const kernelWith = (text: (product: string, index: number) => string) =>
      kernel.replace(line, products.map(text).join("\n"));
    // A product with the registers in another order, so that threads leave and take all of them. It is never executed.
    const reversed = line.replace(/\{([^}]*)\}/, (_, list) => `{${list.split(", ").reverse().join(", ")}}`);
    const used = /\{(%\w+)/.exec(line)![1]!;
    const change = used.startsWith("%f") ? `neg.f32 ${used}, ${used};` : `xor.b32 ${used}, ${used}, 0x80008000;`;
    const changes = products.map(() => random.below(4) === 0 ? `wgmma.wait_group.sync.aligned 0; ${change}` : "");
    const apart = kernelWith((product, index) => `L${index}: ${product} ${changes[index]}`)
      .replace("wgmma.commit_group", `setp.eq.u32 %p0, 0, 0; @%p0 bra SKIP; ${reversed} SKIP: wgmma.commit_group`);
    const source = allocate(4 * inputs);
    write(problemOf(form, "small", random), new Uint32Array(source.bytes.buffer, source.bytes.byteOffset, inputs));
    const run = (ptx: string) => {
      const out = allocate(4 * outputs);
      load(ptx).run("product", {
        block: [threads, 1, 1],
        parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
      });
      return out.bytes.slice();
    };
    assertEquals(run(kernelWith((product, index) => `${product} ${changes[index]}`)), run(apart), apart);
    const { suspensions } = compilePtx(kernelWith((product) => product)).kernels.get("product")!;
    const waits = suspensions!.filter(({ request }) => request.kind === "matrixProduct").length;
    assertEquals(waits, Math.ceil(products.length / mostWarpgroupProducts));
  }
});

test("no warp goes on before all warps of its warpgroup have multiplied", () => {
  const text = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16";
  const form = formOf(text);
  const { inputs, outputs, threads, kernel, write, read } = programOf(form);
  // The first warp is the first to multiply, and then overwrites the operands.
  const changed = kernel.replace(
    "wgmma.fence.sync.aligned;",
    `setp.lt.u32 %p0, %r0, 32; @%p0 bra MULTIPLY; ${
      "bar.warp.sync -1; ".repeat(8)
    } MULTIPLY: wgmma.fence.sync.aligned;`,
  ).replace(
    "wgmma.wait_group.sync.aligned 0;",
    `wgmma.wait_group.sync.aligned 0; setp.ne.u32 %p0, %r0, 0; @%p0 bra KEEP; mov.u32 %r3, 0;
CLEAR: add.u32 %r4, %r2, %r3; st.shared.b32 [%r4], 0; add.u32 %r3, %r3, 4; setp.lt.u32 %p0, %r3, 2048; @%p0 bra CLEAR; KEEP:`,
  );
  const problem = problemOf(form, "small", Random.of(text, "small"));
  const source = allocate(4 * inputs), out = allocate(4 * outputs);
  const view = ({ bytes }: typeof out) => new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  write(problem, view(source));
  load(changed).run("product", {
    block: [threads, 1, 1],
    parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
  });
  read(view(out)).forEach((bits, at) => assertEquals(bits, warpgroupElement(form, problem, at), `element ${at}`));
});

test("a matrix descriptor that leads outside of shared memory is a fault", () => {
  const text = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 a:128 b:128";
  const { inputs, outputs, threads, kernel } = programOf(formOf(text));
  const wrong = kernel.replace(/(cvt\.u64\.u32 %rd4, %r6;)/, "$1\n  add.u64 %rd4, %rd4, 0x400;");
  assertNotEquals(wrong, kernel);
  const source = allocate(4 * inputs), out = allocate(4 * outputs);
  const run = () =>
    load(wrong).run("product", {
      block: [threads, 1, 1],
      parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
    });
  const { kind, line } = assertThrows(run, Fault);
  assertEquals(kind, faultKind.matrixDescriptor);
  assertStringIncludes(wrong.split("\n")[line - 1]!, text.split(" ")[0]!);
});

test("elements of D are uninitialized whose row of A, column of B or element of an added C is", () => {
  for (
    const words of ["a:128 b:transposed b:64", "a:registers b:32 zero", "a:transposed", "selector:1 b:128"]
  ) {
    const shape = words.startsWith("selector")
      ? "mma_async.sp.sync.aligned.m64n16k32"
      : "mma_async.sync.aligned.m64n16k16";
    const form = formOf(`wgmma.${shape}.f32.f16.f16 ${words}`);
    const { inputs, outputs, threads, kernel, write, read } = programOf(form);
    const source = allocate(4 * inputs), out = allocate(4 * outputs);
    const module = load(kernel, { decide: () => {} });
    const { m, n, k } = form;
    const kept = form.selector === undefined ? k : k / 2;
    // A problem whose elements that are not 0 are the uninitialized ones.
    const found = (part: "a" | "b" | "c", at: number) => {
      const none = { a: new Uint32Array(m * kept), b: new Uint32Array(k * n), c: new Uint32Array(m * n) };
      none[part][at] = 1;
      const shadow = new Uint32Array(shadowOf(source).buffer, shadowOf(source).byteOffset, inputs);
      shadow.fill(0);
      write({ ...none, places: new Uint8Array(m * kept) }, shadow);
      module.run("product", {
        block: [threads, 1, 1],
        parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
      });
      return read(new Uint32Array(shadowOf(out).buffer, shadowOf(out).byteOffset, outputs));
    };
    const expected = (isMarked: (row: number, column: number) => boolean) =>
      Uint32Array.from({ length: m * n }, (_, at) => isMarked(Math.floor(at / n), at % n) ? 0xffff_ffff : 0);
    assertEquals(found("a", 37 * kept + 9), expected((row) => row === 37), `${words}: a row of A`);
    assertEquals(found("b", 13 * n + 11), expected((_, column) => column === 11), `${words}: a column of B`);
    const isAdded = !words.includes("zero");
    const element = expected((row, column) => isAdded && row === 50 && column === 6);
    assertEquals(found("c", 50 * n + 6), element, `${words}: an element of C`);
  }
});

test("operands of wgmma that PTX does not have are compilation errors", () => {
  const product = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}";
  for (
    const [text, reason] of [
      [
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0}, %rd1, %rd1, %p1, 1, 1, 0, 0;",
        "a vector of 4 registers",
      ],
      [`${product}, %rd1, %rd1, %p1, 0, 1, 0, 0;`, "the sign of A must be -1 or 1"],
      [`${product}, %rd1, %rd1, %p1, 1, 1, 0, 2;`, "whether a matrix is transposed must be 0 or 1"],
      [`${product}, %rd1, %rd1, %p1, 1, 1, 0;`, "the layouts of A and B are missing"],
      [`${product}, {%r0, %r1, %r2, %r3}, %rd1, %p1, 1, 1, 0, 0;`, "A in registers cannot be transposed"],
      [`${product}, {%r0, %r1}, %rd1, %p1, 1, 1, 0;`, "a vector of 4 registers"],
      [`${product}, %rd1, %r0, %p1, 1, 1, 0, 0;`, '".b64" is needed'],
    ] as const
  ) assertStringIncludes(refusalOf(testModule(text)).error.message, reason);
});
