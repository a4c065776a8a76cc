/**
 * Rows about CUDA arrays, textures and surfaces.
 *
 * @module
 */
import {
  type ArrayDescriptor,
  arrayFlag,
  arrayFormat,
  type Driver,
  eventFlags,
  streamCaptureMode,
  streamFlags,
  textureAddressMode,
  type TextureDescription,
  textureFilterMode,
  textureFlag,
  type TextureResource,
} from "../../../src/driver.ts";
import { deviceAttributes } from "../../../src/support/device_attributes.ts";
import { attemptEach, type Attempts } from "../attempts.ts";
import { prepareLongWork } from "../long_work.ts";
import type { Answer, Situation } from "../situation.ts";

const square: ArrayDescriptor = { width: 16, height: 16, depth: 0, format: arrayFormat.f32, channels: 1, flags: 0 };

const { wrap, clamp } = textureAddressMode;
const plain: TextureDescription = {
  addressModes: [clamp, clamp, clamp],
  filterMode: textureFilterMode.point,
  flags: textureFlag.readAsInteger,
  maxAnisotropy: 0,
  mipmapFilterMode: textureFilterMode.point,
  mipmapLevelBias: 0,
  minMipmapLevelClamp: 0,
  maxMipmapLevelClamp: 0,
  borderColor: [0, 0, 0, 0],
};

/** Returns the results of creating arrays. */
function arraysOf(driver: Driver, descriptors: Readonly<Record<string, Partial<ArrayDescriptor>>>): Attempts {
  return attemptEach(Object.fromEntries(
    Object.entries(descriptors).map(([name, parts]) => [name, () => driver.arrayCreate(0, { ...square, ...parts })]),
  ));
}

/** Returns the results of creating textures of a resource. */
function texturesOf(
  driver: Driver,
  descriptions: Readonly<Record<string, { resource: TextureResource } & Partial<TextureDescription>>>,
): Attempts {
  return attemptEach(Object.fromEntries(
    Object.entries(descriptions).map(([name, { resource, ...parts }]) => [
      name,
      () => driver.texObjectCreate(0, resource, { ...plain, ...parts }),
    ]),
  ));
}

function linear(address: bigint, extent: number | { width: number; height: number; pitch: number }): TextureResource {
  return { address, format: arrayFormat.f32, channels: 1, extent };
}

/** A kernel that stores to a surface outside of its rows, and one that loads from there. */
const surfacePtx = (instruction: string) =>
  `.version 8.0
.target sm_70
.address_size 64
.visible .global .u32 kept;
.visible .entry use(.param .u64 surface) {
  .reg .b64 %rd<2>;
  .reg .b32 %r<4>;
  ld.param.u64 %rd1, [surface];
  mov.u32 %r1, 4096;
  mov.u32 %r2, 7;
  ${instruction}
  ret;
}
`;

function useSurface(driver: Driver, instruction: string): Answer {
  const array = driver.arrayCreate(0, { ...square, flags: arrayFlag.surfaceLoadStore });
  const surface = driver.surfObjectCreate(0, array);
  const kernel = driver.moduleGetFunction(driver.moduleLoadData(0, surfacePtx(instruction)), "use");
  const launch = driver.createKernelLaunch(0, kernel, 8);
  launch.parameters.setBigUint64(0, surface, true);
  driver.launchKernel(launch);
  return attemptEach({ wait: () => driver.deviceSynchronize(0) });
}

const attributesOfTextures = Object.entries(deviceAttributes).filter(([name]) => /texture|surface/i.test(name));

/** Every row. */
export const situations: readonly Situation[] = [
  {
    name: "textures of linear memory, and of rows, at addresses that are aligned to each power of two",
    run({ driver }) {
      const address = driver.malloc(0, 65536);
      const rows = { width: 16, height: 4, pitch: 64 };
      return texturesOf(driver, {
        "linear 0": { resource: linear(address, 1024) },
        ...Object.fromEntries([16, 256, 512].map((at) => [
          `linear ${at}`,
          { resource: linear(address + BigInt(at), 1024) },
        ])),
        ...Object.fromEntries([16, 256, 512].map((at) => [
          `rows ${at}`,
          { resource: linear(address + BigInt(at), rows) },
        ])),
      });
    },
  },
  {
    name: "textures of rows with pitches that are aligned, and that are not",
    run({ driver }) {
      const address = driver.malloc(0, 65536);
      return texturesOf(
        driver,
        Object.fromEntries([32, 64, 72, 80, 96, 100].map((pitch) => [
          pitch,
          { resource: linear(address, { width: 16, height: 4, pitch }) },
        ])),
      );
    },
  },
  {
    name: "textures of integers with a linear filter, as numbers and as they are",
    run({ driver }) {
      const arrayOf = (format: keyof typeof arrayFormat) => ({
        array: driver.arrayCreate(0, { ...square, format: arrayFormat[format] }),
      });
      const filterMode = textureFilterMode.linear;
      return texturesOf(driver, {
        "u8 as numbers": { resource: arrayOf("u8"), filterMode, flags: 0 },
        "u8 as it is": { resource: arrayOf("u8"), filterMode },
        "u32": { resource: arrayOf("u32"), filterMode },
        "f32": { resource: arrayOf("f32"), filterMode, flags: 0 },
        "f16": { resource: arrayOf("f16"), filterMode, flags: 0 },
        "unorm8": { resource: arrayOf("unorm8"), filterMode, flags: 0 },
      });
    },
  },
  {
    name: "textures that wrap, with and without normalized coordinates",
    run({ driver }) {
      const resource = { array: driver.arrayCreate(0, square) };
      const addressModes = [wrap, wrap, wrap] as const;
      return texturesOf(driver, {
        normalized: { resource, addressModes, flags: textureFlag.normalizedCoordinates },
        texels: { resource, addressModes },
      });
    },
  },
  {
    name: "arrays of each format and number of channels",
    run({ driver }) {
      const counts = [1, 2, 3, 4] as const;
      return arraysOf(
        driver,
        Object.fromEntries(
          Object.entries(arrayFormat).flatMap(([name, format]) =>
            counts.map((channels) => [`${name} x ${channels}`, { format, channels: channels as 1 }])
          ),
        ),
      );
    },
  },
  {
    name: "arrays of each shape, and cubemaps whose faces are not square or too few",
    run({ driver }) {
      const { layered, cubemap, textureGather } = arrayFlag;
      return arraysOf(driver, {
        "1d": { height: 0 },
        "2d": {},
        "3d": { depth: 4 },
        "1d layered": { height: 0, depth: 4, flags: layered },
        "2d layered": { depth: 4, flags: layered },
        "layered without layers": { flags: layered },
        "cubemap": { depth: 6, flags: cubemap },
        "cubemap not square": { height: 8, depth: 6, flags: cubemap },
        "cubemap of 5": { depth: 5, flags: cubemap },
        "cubemap of 12": { depth: 12, flags: cubemap },
        "cubemaps of 12": { depth: 12, flags: cubemap | layered },
        "cubemaps of 13": { depth: 13, flags: cubemap | layered },
        "gather": { flags: textureGather },
        "gather 1d": { height: 0, flags: textureGather },
        "gather 3d": { depth: 4, flags: textureGather },
        "empty": { width: 0 },
      });
    },
  },
  {
    name: "surfaces of arrays with the flag, and without",
    run({ driver }) {
      const withFlag = driver.arrayCreate(0, { ...square, flags: arrayFlag.surfaceLoadStore });
      const without = driver.arrayCreate(0, square);
      return attemptEach({
        with: () => driver.surfObjectCreate(0, withFlag),
        without: () => driver.surfObjectCreate(0, without),
      });
    },
  },
  {
    name: "textures of mipmapped arrays, with and without normalized coordinates",
    run({ driver }) {
      const resource = { mipmappedArray: driver.mipmappedArrayCreate(0, square, 3) };
      return texturesOf(driver, {
        normalized: { resource, flags: textureFlag.normalizedCoordinates },
        texels: { resource },
      });
    },
  },
  {
    name: "mipmapped arrays of some numbers of levels, and the levels that they have",
    run({ driver }) {
      let five = 0n, nine = 0n;
      return attemptEach({
        "none": () => driver.mipmappedArrayCreate(0, square, 0),
        "5 levels": () => five = driver.mipmappedArrayCreate(0, square, 5),
        "level 0": () => driver.mipmappedArrayGetLevel(0, five, 0),
        "level 4": () => driver.mipmappedArrayGetLevel(0, five, 4),
        "level 5": () => driver.mipmappedArrayGetLevel(0, five, 5),
        "9 levels": () => nine = driver.mipmappedArrayCreate(0, square, 9),
        "level 5 of 9": () => driver.mipmappedArrayGetLevel(0, nine, 5),
      });
    },
  },
  {
    name: "an array destroyed while work of the device is pending",
    run({ driver }) {
      const work = prepareLongWork(driver, 0);
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const event = driver.eventCreateWithFlags(0, eventFlags.disableTiming);
      const array = driver.arrayCreate(0, square);
      work.keepBusy(stream);
      driver.eventRecord(0, event, stream);
      const answer = attemptEach({
        destroy: () => driver.arrayDestroy(0, array),
        isDone: () => driver.eventQuery(event),
      });
      driver.deviceSynchronize(0);
      return answer;
    },
  },
  {
    name: "an array destroyed before its texture, and destroyed again",
    run({ driver }) {
      const array = driver.arrayCreate(0, square);
      const texture = driver.texObjectCreate(0, { array }, plain);
      return attemptEach({
        array: () => driver.arrayDestroy(0, array),
        texture: () => driver.texObjectDestroy(0, texture),
      });
    },
  },
  ...(["relaxed", "global"] as const).map((mode): Situation => ({
    name: `arrays and textures created during a capture of mode "${mode}"`,
    run({ driver }) {
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const other = driver.arrayCreate(0, square);
      driver.streamBeginCapture(0, stream, streamCaptureMode[mode]);
      return attemptEach({
        array: () => driver.arrayCreate(0, square),
        texture: () => driver.texObjectCreate(0, { array: other }, plain),
      });
    },
  })),
  {
    name: "a copy to an array during a capture",
    run({ driver }) {
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const array = driver.arrayCreate(0, square);
      const address = driver.malloc(0, 1024);
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      const size = { width: 64, height: 16, depth: 1 };
      const destination = { array, x: 0, y: 0, z: 0 };
      const source = { memory: address, pitch: 64, rows: 16 };
      const answer = attemptEach({
        copy: () => driver.memcpy3DArrayAsync(0, { ...size, source, destination }, stream),
      });
      const nodes = driver.graphGetNodes(driver.streamEndCapture(0, stream));
      return { ...answer, nodes: nodes.length, type: driver.graphNodeGetType(nodes[0]!) };
    },
  },
  {
    name: "copies to an array that end outside of it",
    run({ driver }) {
      const array = driver.arrayCreate(0, square);
      const memory = driver.malloc(0, 65536);
      const copy = (size: { width: number; height: number; depth: number }) => () =>
        driver.memcpy3DArrayAsync(0, {
          ...size,
          source: { memory, pitch: 128, rows: 32 },
          destination: { array, x: 0, y: 0, z: 0 },
        }, 0n);
      return attemptEach({
        whole: copy({ width: 64, height: 16, depth: 1 }),
        "too wide": copy({ width: 68, height: 16, depth: 1 }),
        "too high": copy({ width: 64, height: 17, depth: 1 }),
        "too deep": copy({ width: 64, height: 16, depth: 2 }),
      });
    },
  },
  {
    name: "a surface stored to outside, with trap",
    run: ({ driver }) => useSurface(driver, "sust.b.2d.b32.trap [%rd1, {%r1, %r1}], %r2;"),
  },
  {
    name: "a surface loaded from outside, with trap",
    run: ({ driver }) => useSurface(driver, "suld.b.2d.b32.trap %r2, [%rd1, {%r1, %r1}]; st.global.u32 [kept], %r2;"),
  },
  {
    name: "a surface stored to outside, with zero",
    run: ({ driver }) => useSurface(driver, "sust.b.2d.b32.zero [%rd1, {%r1, %r1}], %r2;"),
  },
  {
    name: "the limits of textures and surfaces",
    run: ({ driver }) =>
      Object.fromEntries(attributesOfTextures.map(([name, number]) => [name, driver.deviceGetAttribute(0, number)])),
  },
];
