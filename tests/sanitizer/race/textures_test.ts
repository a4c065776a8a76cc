/** Races with reads of textures and accesses to surfaces in one launch. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { open, type SanitizerReport } from "../../../mod.ts";
import { test } from "../../support/test.ts";

const width = 64;

/**
 * The reports of a kernel of two warps around a body, each with its kind and the numbers of the lines in the body that
 * it names, the later access first. `%r0` is the thread, `%r1` its byte in a row, `%r2` the next thread and `%r3` its
 * byte; `%rd1` is a texture of rows at `%rd2`, `%rd3` and `%rd4` are a surface and a texture of an array of one row, and
 * `%rd5` is the thread's element of the rows.
 */
async function reportsOf(body: readonly string[]): Promise<string[]> {
  const head = `.version 8.0
.target sm_70
.address_size 64
.visible .entry test(.param .u64 texture, .param .u64 rows, .param .u64 surface, .param .u64 of_array) {
  .reg .b32 %r<10>; .reg .b64 %rd<8>; .reg .f32 %f<8>;
  ld.param.u64 %rd1, [texture]; ld.param.u64 %rd2, [rows]; ld.param.u64 %rd3, [surface]; ld.param.u64 %rd4, [of_array];
  mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; add.u32 %r2, %r0, 1; and.b32 %r2, %r2, 63; shl.b32 %r3, %r2, 2;
  mul.wide.u32 %rd5, %r0, 4; add.u64 %rd5, %rd5, %rd2; mov.u32 %r9, 0;
  cvt.rn.f32.u32 %f5, %r0; cvt.rn.f32.u32 %f6, %r2; mov.f32 %f7, 0f00000000;
`;
  const reports: SanitizerReport[] = [];
  using cuda = open({ driver: "software", sanitize: ["race"], onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using rows = pool.allocatePitched(Float32Array, [width, 1]);
  using array = gpu.createArray("f32", [width, 1], { surface: true });
  const texels = Float32Array.from({ length: width }, (_, index) => index);
  rows.copyFrom(texels);
  array.copyFrom(texels);
  using texture = gpu.createTexture(rows);
  using ofArray = gpu.createTexture(array);
  using surface = gpu.createSurface(array);
  using module = gpu.loadModule(`${head}${body.join("\n")}\nret; }`);
  module.kernel("test").launch({ grid: 1, block: width }, texture, rows, surface, ofArray);
  await array.read(Float32Array);
  const first = head.split("\n").length;
  return reports.map(({ kind, accesses, message }) => {
    if (kind === "non-coherent-read") assertStringIncludes(message, "extures and surfaces are read through a cache");
    const lines = accesses.map(({ source }) => Number(/PTX line (\d+)/.exec(source!)![1]) - first);
    // Which of two accesses that nothing orders is the later one depends on the order of the threads.
    return `${kind} ${(kind === "global-race" ? lines.toSorted() : lines).join(" ")}`;
  });
}

const read = "tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd1, {%f5, %f7}];";
const readNext = read.replace("%f5", "%f6");
const readArray = read.replace("%rd1", "%rd4"), readNextOfArray = readNext.replace("%rd1", "%rd4");
const store = "st.global.f32 [%rd5], %f5;";
const storeTexel = "sust.b.2d.b32.trap [%rd3, {%r1, %r9}], %r0;";
const load = "suld.b.2d.b32.trap %r4, [%rd3, {%r1, %r9}];", loadNext = load.replace("%r1", "%r3");
const add = "sured.b.add.2d.u32.trap [%rd3, {%r1, %r9}], 1;", addNext = add.replace("%r1", "%r3");
const barrier = "bar.sync 0;";

test("threads read textures before they write their memory", async () => {
  assertEquals(await reportsOf([read, store]), []);
  assertEquals(await reportsOf([readNext, barrier, store]), []);
  assertEquals(await reportsOf([readNext, store]), ["global-race 0 1"]);
  assertEquals(await reportsOf([store, barrier, readNext]), ["non-coherent-read 2 0"]);
  assertEquals(await reportsOf([store, read]), ["non-coherent-read 1 0"]);
});

test("threads read an array before they write it by a surface", async () => {
  assertEquals(await reportsOf([readArray, load, storeTexel]), []);
  assertEquals(await reportsOf([readNextOfArray, loadNext, barrier, storeTexel]), []);
  assertEquals(await reportsOf([readNextOfArray, storeTexel]), ["global-race 0 1"]);
  assertEquals(await reportsOf([loadNext, storeTexel]), ["global-race 0 1"]);
  assertEquals(await reportsOf([storeTexel, barrier, readNextOfArray]), ["non-coherent-read 2 0"]);
  assertEquals(await reportsOf([storeTexel, barrier, loadNext]), ["non-coherent-read 2 0"]);
});

test("reductions of a surface do not race with each other, but with stores", async () => {
  assertEquals(await reportsOf([add, addNext]), []);
  assertEquals(await reportsOf([storeTexel, barrier, addNext]), []);
  assertEquals(await reportsOf([storeTexel, addNext]), ["global-race 0 1"]);
});

test("texels of arrays and of buffers are not the same", async () => {
  assertEquals(await reportsOf([store, barrier, readNextOfArray, loadNext]), []);
  assertEquals(await reportsOf([storeTexel, barrier, readNext]), []);
});
