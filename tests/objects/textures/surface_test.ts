import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { CudaArrayOptions, CudaError } from "../../../mod.ts";
import type { Cuda } from "../../../src/objects/cuda.ts";
import { testOnEachDriver } from "../../support/drivers.ts";

/**
 * Returns a module with kernels whose threads each run one instruction on the surface `%rd2`. A thread has a place in
 * `%r10` to `%r12`, four values in `%r1` to `%r4` (`%rd5` is the first two), and stores these afterwards.
 */
function surfacePtx(kernels: Readonly<Record<string, string>>): string {
  const texts = Object.entries(kernels).map(([name, instruction]) => `
.visible .entry ${name}(.param .u64 values, .param .u64 surface, .param .u64 places, .param .u32 count)
{
  .reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %rd<12>;
  mov.u32 %r20, %ctaid.x; mov.u32 %r21, %ntid.x; mov.u32 %r22, %tid.x; mad.lo.s32 %r23, %r20, %r21, %r22;
  ld.param.u32 %r24, [count]; setp.ge.u32 %p1, %r23, %r24; @%p1 ret;
  ld.param.u64 %rd1, [values]; ld.param.u64 %rd2, [surface]; ld.param.u64 %rd3, [places];
  mul.wide.u32 %rd4, %r23, 16; add.s64 %rd1, %rd1, %rd4; add.s64 %rd3, %rd3, %rd4;
  ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd3]; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
  mov.b64 %rd5, {%r1, %r2};
  ${instruction}
  st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};
  ret;
}
`);
  return `.version 8.0\n.target sm_70\n.address_size 64\n${texts.join("")}`;
}

/** Runs a kernel of such a module: one thread for each place. Returns the values afterwards. */
async function runOn(
  cuda: Cuda,
  instruction: string,
  { surface, places, values }: { surface: unknown; places: readonly number[][]; values: readonly number[][] },
): Promise<number[][]> {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using module = gpu.loadModule(surfacePtx({ run: instruction }));
  const words = (rows: readonly number[][]) =>
    Uint32Array.from(rows.flatMap((row) => [0, 1, 2, 3].map((index) => row[index] ?? 0)));
  using at = pool.allocateArray(words(places), { stream });
  using data = pool.allocateArray(words(places.map((_, index) => values[index] ?? [])), { stream });
  const options = { grid: 1, block: places.length, stream };
  module.kernel("run").launch(options, data, surface as bigint, at, places.length);
  const found = await data.toTypedArray({ stream });
  return places.map((_, index) => [...found.subarray(4 * index, 4 * index + 4)]);
}

testOnEachDriver("surfaces are loaded from and stored to in bytes", async (cuda) => {
  const gpu = cuda.device(0);
  using array = gpu.createArray("u8", [8, 4], { channels: 4, surface: true });
  array.copyFrom(Uint8Array.from({ length: 128 }, (_, index) => index));
  using surface = gpu.createSurface(array);
  const places = [[0, 0], [4, 1], [28, 3]];
  assertEquals(await runOn(cuda, "suld.b.2d.b32.trap %r1, [%rd2, {%r10, %r11}];", { surface, places, values: [] }), [
    [0x03020100, 0, 0, 0],
    [0x27262524, 0, 0, 0],
    [0x7f7e7d7c, 0, 0, 0],
  ]);
  const four = "suld.b.2d.v4.b8.zero {%h1, %h2, %h3, %h4}, [%rd2, {%r10, %r11}]; " +
    [1, 2, 3, 4].map((index) => `cvt.u32.u16 %r${index}, %h${index};`).join(" ");
  assertEquals(await runOn(cuda, four, { surface, places: [[4, 1], [32, 0], [-4, 0], [0, 4]], values: [] }), [
    [0x24, 0x25, 0x26, 0x27],
    [0, 0, 0, 0],
    [0, 0, 0, 0],
    [0, 0, 0, 0],
  ]);
  // Outside: the last or the first element of the row.
  const clamped = await runOn(cuda, "suld.b.2d.b32.clamp %r1, [%rd2, {%r10, %r11}];", {
    surface,
    places: [[100, 1], [-8, 9]],
    values: [],
  });
  assertEquals(clamped.map(([word]) => word), [0x3f3e3d3c, 0x63626160]);
  await runOn(cuda, "sust.b.2d.v2.b32.zero [%rd2, {%r10, %r11}], {%r1, %r2};", {
    surface,
    places: [[8, 2], [32, 0]],
    values: [[0xaabbccdd, 0x11223344], [1, 2]],
  });
  const bytes = await array.read(Uint8Array);
  assertEquals([...bytes.subarray(72, 80)], [0xdd, 0xcc, 0xbb, 0xaa, 0x44, 0x33, 0x22, 0x11]);
  assertEquals(bytes[0], 0);
});

testOnEachDriver("formatted stores limit integers and shorten floats", async (cuda) => {
  const gpu = cuda.device(0);
  const store = "sust.p.1d.v2.b32.trap [%rd2, {%r10}], {%r1, %r2};";
  const places = [[0], [1], [2]];
  using bytes = gpu.createArray("s8", [4], { channels: 2, surface: true });
  bytes.copyFrom(new Int8Array(8));
  using ofBytes = gpu.createSurface(bytes);
  await runOn(cuda, store, { surface: ofBytes, places, values: [[200, -200], [5, -5], [2 ** 31, 2 ** 31 - 1]] });
  assertEquals(await bytes.read(Int8Array), Int8Array.of(127, -128, 5, -5, -128, 127, 0, 0));
  using halves = gpu.createArray("f16", [3], { channels: 2, surface: true });
  halves.copyFrom(new Uint16Array(6));
  using ofHalves = gpu.createSurface(halves);
  const bits = (value: number) => new Uint32Array(Float32Array.of(value).buffer)[0]!;
  await runOn(cuda, store, {
    surface: ofHalves,
    places,
    values: [[bits(1.00097), bits(-70000)], [bits(Infinity), 0x7f80_0001], [bits(6e-8), bits(1e-9)]],
  });
  assertEquals(await halves.read(Uint16Array), Uint16Array.of(0x3c00, 0xfbff, 0x7c00, 0x7c01, 1, 0));
});

testOnEachDriver("reductions of surfaces are atomic", async (cuda) => {
  const gpu = cuda.device(0);
  using array = gpu.createArray("u32", [4, 2], { surface: true });
  const threads = Array.from({ length: 64 }, (_, index) => index);
  const cases: readonly (readonly [string, (index: number) => number, number])[] = [
    ["sured.b.add.2d.u32.trap [%rd2, {%r10, %r11}], %r1;", (index) => index, 100 + 2016],
    ["sured.b.max.2d.s32.zero [%rd2, {%r10, %r11}], %r1;", (index) => index - 32, 100],
    ["sured.b.max.2d.u32.zero [%rd2, {%r10, %r11}], %r1;", (index) => index - 32, 2 ** 32 - 1],
    ["sured.b.or.2d.b32.clamp [%rd2, {%r10, %r11}], %r1;", (index) => index << 8, 100 | 63 << 8],
    ["sured.p.min.2d.b32.trap [%rd2, {1, 1}], %r1;", (index) => index + 7, 7],
  ];
  for (const [instruction, value, expected] of cases) {
    array.copyFrom(new Uint32Array(8).fill(100));
    using surface = gpu.createSurface(array);
    await runOn(cuda, instruction, {
      surface,
      places: threads.map(() => [4, 1]),
      values: threads.map((index) => [value(index)]),
    });
    assertEquals((await array.read(Uint32Array))[5], expected, instruction);
  }
});

testOnEachDriver("layers of surfaces are numbered by 16 bits", async (cuda) => {
  const gpu = cuda.device(0);
  using array = gpu.createArray("u32", [2, 2, 3], { layered: true, surface: true });
  array.copyFrom(Uint32Array.from({ length: 12 }, (_, index) => index));
  using surface = gpu.createSurface(array);
  const place = "{%r10, %r11, %r12, %r12}";
  const places = [[2, 4, 1], [0x10001, 0, 0], [3, 0, 0]];
  const loaded = await runOn(cuda, `suld.b.a2d.b32.zero %r1, [%rd2, ${place}];`, { surface, places, values: [] });
  assertEquals(loaded.map(([word]) => word), [11, 4, 0]);
});

testOnEachDriver("sizes of textures and surfaces are queried", async (cuda) => {
  const gpu = cuda.device(0);
  const query = (what: string) =>
    ["width", "height", "depth"].map((name, index) => `${what}.${name}.b32 %r${index + 1}, [%rd2];`).join(" ");
  const sizeOf = async (surface: unknown, what: string) => {
    const [words] = await runOn(cuda, query(what), { surface, places: [[0]], values: [[0, 0, 0, 9]] });
    return words;
  };
  using volume = gpu.createArray("f32", [5, 6, 7], { surface: true });
  using texture = gpu.createTexture(volume);
  using surface = gpu.createSurface(volume);
  assertEquals(await sizeOf(texture, "txq"), [5, 6, 7, 9]);
  assertEquals(await sizeOf(surface, "suq"), [5, 6, 7, 9]);
  const kinds =
    "istypep.texref %p2, %rd2; selp.u32 %r1, 1, 0, %p2; istypep.surfref %p3, %rd2; selp.u32 %r2, 1, 0, %p3;";
  assertEquals(await runOn(cuda, kinds, { surface: texture, places: [[0]], values: [] }), [[0, 0, 0, 0]]);
  assertEquals(await runOn(cuda, kinds, { surface, places: [[0]], values: [] }), [[0, 0, 0, 0]]);
  const shapes: [size: [number, number?, number?], CudaArrayOptions, texture: number[], surface: number[]][] = [
    [[9], {}, [9, 1, 0, 9], [9, 0, 0, 9]],
    [[9, 4], {}, [9, 4, 0, 9], [9, 4, 0, 9]],
    [[9, 4], { layered: true }, [9, 4, 0, 9], [9, 4, 0, 9]],
    [[9, 4, 5], { layered: true }, [9, 4, 5, 9], [9, 4, 5, 9]],
    [[8, 8, 6], { cubemap: true }, [8, 8, 0, 9], [8, 8, 6, 9]],
    [[8, 8, 12], { cubemap: true, layered: true }, [8, 8, 2, 9], [8, 8, 12, 9]],
  ];
  for (const [size, options, ofTexture, ofSurface] of shapes) {
    using array = gpu.createArray("u32", size, { ...options, surface: true });
    using texture = gpu.createTexture(array);
    using surface = gpu.createSurface(array);
    assertEquals(await sizeOf(texture, "txq"), ofTexture);
    assertEquals(await sizeOf(surface, "suq"), ofSurface);
  }
});

testOnEachDriver("a surface that traps names the place", async (cuda) => {
  const gpu = cuda.device(0);
  using array = gpu.createArray("u32", [4, 4], { surface: true });
  using surface = gpu.createSurface(array);
  const instruction = "sust.b.2d.b32.trap [%rd2, {%r10, %r11}], %r1;";
  const run = () => runOn(cuda, instruction, { surface, places: [[4, 4]], values: [] });
  const error = await assertRejects(run, Error) as CudaError;
  const text = String(error.cause ?? error) + String(error);
  assert(text.includes("cudaErrorIllegalAddress") || text.includes("cudaErrorLaunchFailure"), text);
}, { makesMistakes: true, notOnGpu: "the device's context is lost afterwards" });

testOnEachDriver("surfaces are made of arrays that have them", (cuda) => {
  const gpu = cuda.device(0);
  using array = gpu.createArray("u32", [4, 4]);
  assertThrows(() => gpu.createSurface(array), RangeError, "create the array with { surface: true }");
  assertThrows(() => gpu.createSurface({} as never), TypeError, "give a CudaArray");
  using mipmapped = gpu.createMipmappedArray("u8", [16, 4], { surface: true });
  assertEquals([mipmapped.levels, mipmapped.level(4).width, mipmapped.level(1).height], [5, 1, 2]);
  assertThrows(() => mipmapped.level(5), RangeError, "it has the levels 0 to 4");
  assertThrows(() => gpu.createTexture(mipmapped), RangeError, "set normalizedCoordinates: true");
  assertThrows(() => gpu.createMipmappedArray("u8", [16, 4], { levels: 6 }), RangeError, "give 1 to 5");
});
