/** Reads of textures that compiled code makes itself: here there is no host function that could make them. */
import { assertEquals, assertThrows } from "@std/assert";
import {
  channelFormats,
  type TextureObject,
  TextureSlots,
} from "../../src/software/execution/textures/texture_object.ts";
import {
  bitsOf,
  type ReferenceRead,
  referenceRead,
  type ReferenceTexture,
} from "../objects/textures/texture_reference.ts";
import { isLong, test } from "../support/test.ts";
import { allocate, type Allocation, load } from "./compiler_device.ts";
import { Random } from "./tensor_cores/inputs.ts";

const handle = 12_345;
const width = 13, height = 6;
const first = allocate(16);
const slots = new TextureSlots({ buffer: first.bytes.buffer } as WebAssembly.Memory);

const lookup = `
.func (.param .align 16 .b8 texel[16]) lookup(.param .b64 texture, .param .b32 x, .param .b32 y) {
  .reg .b64 %rd<2>; .reg .f32 %f<3>; .reg .b32 %r<5>;
  ld.param.u64 %rd1, [texture]; ld.param.f32 %f1, [x]; ld.param.f32 %f2, [y];
  tex.2d.v4.u32.f32 {%r1, %r2, %r3, %r4}, [%rd1, {%f1, %f2}];
  st.param.v4.b32 [texel], {%r1, %r2, %r3, %r4};
  ret;
}`;
const call = `
  .param .b64 passed; .param .b32 x; .param .b32 y; .param .align 16 .b8 texel[16];
  st.param.b64 [passed], %rd3; st.param.f32 [x], %f1; st.param.f32 [y], %f2;
  call.uni (texel), lookup, (passed, x, y);
  ld.param.v4.b32 {%r2, %r3, %r4, %r5}, [texel];`;

type Way = "threads" | "parts" | "gangs";

/** A kernel that reads a texture at the coordinates of each thread twice: the second time in a function, but in gangs. */
function kernelFor(way: Way): string {
  return `.version 8.0
.target sm_70
.address_size 64
${way === "gangs" ? "" : lookup}
.visible .entry read(.param .u64 out, .param .u64 in, .param .u64 texture) {
  .reg .b64 %rd<6>; .reg .f32 %f<8>; .reg .b32 %r<12>;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; ld.param.u64 %rd3, [texture];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd4, %r1, 8; add.u64 %rd2, %rd2, %rd4;
  mul.wide.u32 %rd4, %r1, 32; add.u64 %rd1, %rd1, %rd4;
  ld.global.v2.f32 {%f1, %f2}, [%rd2];
  ${way === "parts" ? "bar.sync 0;" : ""}
  tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%rd3, {%f1, %f2}];
  st.global.v4.f32 [%rd1], {%f3, %f4, %f5, %f6};
  ${way === "gangs" ? "tex.2d.v4.u32.f32 {%r2, %r3, %r4, %r5}, [%rd3, {%f1, %f2}];" : call}
  st.global.v4.b32 [%rd1+16], {%r2, %r3, %r4, %r5};
  ret;
}
`;
}

const fetchKernel = `.version 8.0
.target sm_70
.address_size 64
.visible .entry fetch(.param .u64 out, .param .u64 in, .param .u64 texture) {
  .reg .b64 %rd<6>; .reg .b32 %r<12>;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; ld.param.u64 %rd3, [texture];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd4, %r1, 4; add.u64 %rd2, %rd2, %rd4;
  mul.wide.u32 %rd4, %r1, 16; add.u64 %rd1, %rd1, %rd4;
  ld.global.u32 %r2, [%rd2];
  tex.1d.v4.u32.s32 {%r3, %r4, %r5, %r6}, [%rd3, {%r2}];
  st.global.v4.b32 [%rd1], {%r3, %r4, %r5, %r6};
  ret;
}
`;

interface Texture
  extends Pick<ReferenceTexture, "format" | "channels" | "linear" | "normalized" | "normalizedCoordinates"> {
  readonly mode: ReferenceTexture["modes"][0];
  readonly codes: Uint8Array | Uint32Array;
  /** Whether the texture is of linear memory. */
  readonly isLinear?: boolean;
}

/** Writes a texture to memory and to its slot. */
function place(
  { format, channels, linear, normalized, normalizedCoordinates, mode, codes, isLinear = false }: Texture,
): void {
  const texels = allocate(codes.byteLength);
  texels.bytes.set(new Uint8Array(codes.buffer, codes.byteOffset, codes.byteLength));
  const address = ["wrap", "clamp", "mirror", "border"].indexOf(mode);
  const object: Partial<TextureObject> = {
    dimensions: isLinear ? 1 : 2,
    isLinear: Number(isLinear),
    format: channelFormats.indexOf(format),
    channels,
    isNormalized: Number(normalized),
    isFiltered: Number(linear),
    ...{ addressX: address, addressY: address, addressZ: address },
    hasNormalizedCoordinates: Number(normalizedCoordinates),
    maxAnisotropy: 1,
    begin: texels.bytes.byteOffset,
    ...{
      width: isLinear ? codes.length / channels : width,
      height: isLinear ? 1 : height,
      depth: 1,
      layers: 1,
      levels: 1,
      visibleLayers: 1,
    },
  };
  const absent = ["isSurface", "isLayered", "isCubemap", "isSrgb", "pitch", "firstLevel", "firstLayer"];
  slots.write(handle, { ...Object.fromEntries(absent.map((name) => [name, 0])), ...object } as TextureObject);
}

function run(reads: readonly (readonly number[])[], way: Way): Uint32Array {
  const options = { gangs: { gangWidth: 4 }, parts: { partBytes: 300 }, threads: {} } as const;
  const [out, source] = [allocate(32 * reads.length), allocate(8 * reads.length)] as [Allocation, Allocation];
  reads.flat().forEach((coordinate, index) => source.view.setFloat32(4 * index, coordinate, true));
  load(kernelFor(way), options[way]).run("read", {
    block: [reads.length, 1, 1],
    parameters: [out.address, source.address, handle].map((value) => ({ type: "u64", value })),
  });
  return new Uint32Array(out.bytes.buffer, out.bytes.byteOffset, 8 * reads.length).slice();
}

/** Coordinates for which no texel lies outside, or with `clamp` also others. */
function coordinatesOf({ normalizedCoordinates, mode, linear }: Texture, random: Random): number[] {
  const least = linear ? 0.5 : 0;
  const special = [0, -0, 1e-40, -1e-40, 0.5, 2, -3, 1e5, -1e5, 1.5, 4 + 1 / 512, 12.5];
  return [width, height].map((extent) => {
    if (mode === "clamp" && random.below(8) === 0) return random.pick(special);
    const part = random.below(2 ** 24) / 2 ** 24;
    const texels = mode === "clamp" ? (extent + 4) * part - 2 : least + (extent - 2 * least - 0.01) * part;
    return Math.fround(normalizedCoordinates ? texels / extent : texels);
  });
}

test("compiled code reads textures of two dimensions as the reference does", () => {
  const random = new Random(5);
  const float = () => bitsOf((random.below(2 ** 24) / 2 ** 23 - 1) * 2 ** (random.below(9) - 4));
  const zeros = [0, 0x8000_0000, 1, 0x8000_0001];
  const kinds = [
    { format: "f32", normalized: false },
    { format: "u8", normalized: true },
    { format: "u8", normalized: false },
    { format: "s32", normalized: false },
  ] as const;
  let count = 0;
  for (const kind of kinds) {
    for (const linear of kind.format === "f32" || kind.normalized ? [true, false] : [false]) {
      for (
        const [mode, normalizedCoordinates] of [["clamp", false], ["clamp", true], ["wrap", true], [
          "border",
          false,
        ]] as const
      ) {
        const channels = [1, 2, 4][count++ % 3]!;
        const length = width * height * channels;
        const codes = kind.format === "u8"
          ? Uint8Array.from({ length }, () => random.below(256))
          : Uint32Array.from({ length }, () => random.below(5) === 0 ? random.pick(zeros) : float());
        const texture: Texture = { ...kind, linear, mode, normalizedCoordinates, channels, codes };
        place(texture);
        const reads = Array.from({ length: isLong ? 1024 : 64 }, () => coordinatesOf(texture, random));
        const reference: ReferenceTexture = {
          ...texture,
          modes: [mode, mode, mode],
          levels: [{ width, height, depth: 1, codes }],
          border: [0, 0, 0, 0],
        };
        const expected = reads.flatMap((coordinates) => {
          const words = referenceRead(reference, { geometry: "2d", coordinates } as ReferenceRead);
          return [...words, ...words];
        });
        for (const way of ["threads", "parts", "gangs"] as const) {
          assertEquals([...run(reads, way)], expected, `${JSON.stringify({ ...texture, codes: undefined })} ${way}`);
        }
      }
    }
  }
});

test("compiled code fetches from linear memory as the reference does", () => {
  const random = new Random(6);
  const kinds = [["u32", false, 4], ["f32", false, 1], ["u8", true, 4], ["u8", false, 2], ["s32", false, 2]] as const;
  for (const [format, normalized, channels] of kinds) {
    const count = 50;
    const codes = format === "u8"
      ? Uint8Array.from({ length: count * channels }, () => random.below(256))
      : Uint32Array.from({ length: count * channels }, () => random.next());
    const texture: Texture = {
      ...{ format, normalized, channels, codes, linear: false, mode: "clamp", normalizedCoordinates: false },
      isLinear: true,
    };
    place(texture);
    const indices = [-1, -(2 ** 31), count, 2 ** 31 - 1, ...Array.from({ length: 12 }, () => random.below(count))];
    const level = { width: count, height: 1, depth: 1, codes };
    const reference: ReferenceTexture = { ...texture, modes: ["clamp", "clamp", "clamp"], levels: [level] };
    const expected = indices.flatMap((index) =>
      referenceRead(reference, { geometry: "1d", coordinates: [index], fetch: true })
    );
    for (const gangWidth of [undefined, 4] as const) {
      const [out, source] = [allocate(16 * indices.length), allocate(4 * indices.length)] as [Allocation, Allocation];
      indices.forEach((index, at) => source.view.setInt32(4 * at, index, true));
      load(fetchKernel, { gangWidth }).run("fetch", {
        block: [indices.length, 1, 1],
        parameters: [out.address, source.address, handle].map((value) => ({ type: "u64", value })),
      });
      const found = new Uint32Array(out.bytes.buffer, out.bytes.byteOffset, 4 * indices.length);
      assertEquals([...found], expected, `${format} ${gangWidth}`);
    }
  }
});

test("compiled code leaves other reads to the host function", () => {
  const texture: Texture = {
    ...{ format: "f32", channels: 1, linear: true, normalized: false, normalizedCoordinates: true, mode: "wrap" },
    codes: Uint32Array.from({ length: width * height }, (_, index) => index === 30 ? 0x7fc0_0000 : bitsOf(index)),
  };
  const isLeft = (coordinates: readonly number[]) =>
    assertThrows(() => run([coordinates, [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], "threads"), TypeError, "readTexture");
  place(texture);
  // Beside the edge of a repeated texture, and beside a texel that is not a number.
  isLeft([0, 0.5]);
  isLeft([0.5, 1]);
  isLeft([(30 % width + 0.5) / width, (Math.floor(30 / width) + 0.5) / height]);
  place({ ...texture, normalizedCoordinates: false, mode: "clamp" });
  for (const coordinate of [NaN, Infinity, -Infinity, 1e9]) isLeft([coordinate, 2]);
  place({ ...texture, format: "f16" });
  isLeft([0.5, 0.5]);
  place({ ...texture, normalizedCoordinates: false, mode: "border" });
  isLeft([12.75, 2]);
  place(texture);
  run([[0.5, 0.3], [0.5, 0.3], [0.5, 0.3], [0.5, 0.3]], "threads");
  slots.clear(handle);
  isLeft([0.5, 0.3]);
});
