// Calls of typed kernels, and of methods with a stream, that must compile.
import {
  type CudaGraph,
  type CudaKernel,
  type CudaModule,
  type OrStream,
  type Pointer,
  type Ptx,
  type StreamOption,
  struct,
} from "../../mod.ts";
import type * as fixture from "./fixture.ts";
import { binary, buffer, clamped, doubles, floats, gpu, integers, matrix, module } from "./fixture.ts";
import { options, ptx, saxpy, stream, text, unsigned, untyped } from "./fixture.ts";

const Point = struct({ x: "f32", y: "f32" });
const View = struct({ center: Point, colors: ["u8", 3], limit: "s32" });

// arrays of the parameters' types
gpu.loadModule(ptx).kernel("saxpy").launch({ grid: 4, block: 256, stream }, 1024, 2.5, floats, floats);

// a part of an array
saxpy.launch(options, 512, 2.5, floats.subarray(512), floats);

// memory without an element type
saxpy.launch(options, 1024, 2.5, buffer, buffer.subarray(4096));

// a module's variable
saxpy.launch(options, 1024, 2.5, module.getGlobal("values"), floats);

// rows
saxpy.launch(options, 64, 2.5, buffer.pitched(Float32Array, [64, 4]).region([0, 1], [64]), floats);

// an address, and the null pointer
saxpy.launch(options, 1024, 2.5, buffer.address, 0n);

// an object of the application's own that has an address
saxpy.launch(options, 1024, 2.5, matrix, floats);

// an array seen as elements of another type
saxpy.launch(options, 1024, 2.5, integers.as(Float32Array), floats);

// arguments that were put together before
saxpy.launch(options, ...[1024, 2.5, floats, buffer] satisfies fixture.Kernels["saxpy"]);

// a 64-bit integer as a number, and either array of 8-bit channels
module.kernel("histogram").launch(options, clamped, 1024, unsigned);

// a 64-bit integer as a bigint
module.kernel("histogram").launch(options, clamped.as(Uint8Array), 2n ** 40n, unsigned);

// arrays of any type for void pointers
module.kernel("copy").launch(options, doubles, integers, 4096);

// a struct's value, with a struct and an array in it, and a bool
module.kernel("draw").launch(options, View({ center: { x: 0, y: 0 }, colors: [1, 2, 3], limit: 9 }), true);

// a struct whose alignment was stated
module.kernel("move").launch(options, struct({ x: "f32", y: "f32" }, { alignment: 8 })({ x: 1, y: 2 }));

// a struct's bytes
module.kernel("move").launch(options, new Float32Array([1, 2]));

// a kernel without parameters
module.kernel("synchronize").launch(options);

// kernels of an image that says nothing of them
gpu.loadModule(text).kernel("anything").launch(options, 1, 2n, true, floats, new Uint8Array(8));

// kernels of a binary image, stated by the caller
gpu.loadModule<{ fill: [target: Pointer<Int32Array>] }>(binary).kernel("fill").launch(options, integers);

// kernels of a source, stated by the caller, one of them a template
gpu.compile<{ "scale<float>": [x: Pointer<Float32Array>] }>(text).kernel("scale<float>").launch(options, floats);

// typed modules and kernels where any are taken
export const any: [CudaModule, CudaKernel] = [module, module.kernel("draw")];

// a typed module where fewer kernels are needed
export const fewer: CudaModule<Pick<fixture.Kernels, "saxpy" | "move">> = module;

// typed PTX where any PTX is taken, and a kernel whose name is computed
export const kernel: CudaKernel = untyped.kernel(`${ptx.trim()}_v2`, { parameters: ["f32", "pointer"] });

// PTX whose kernels the caller states
export const stated = text as Ptx<{ fill: [target: Pointer<Int32Array>, value: number] }>;

// a stream alone, in an object, in an object with other options, and in the older form
floats.copyFrom(buffer, stream);
floats.copyFrom(buffer, { stream });
floats.fill(0, { stream, begin: 4 });
floats.fill(0, stream, { begin: 4 });

// options that an application passes on
export function zero(options?: OrStream<StreamOption>): void {
  buffer.fill(0, options);
  buffer.free(options);
}

// a texture, a surface and a tensor map for a kernel of which nothing is known
const image = gpu.createArray("f16", [64, 64, 6], { channels: 4, layered: true, surface: true });
image.copyFrom(new Uint16Array(4 * 64 * 64 * 6), stream);
untyped.kernel("resample").launch(
  options,
  gpu.createTexture(image, { addressMode: ["wrap", "clamp"], normalizedCoordinates: true }),
  gpu.createSurface(gpu.createMipmappedArray("u8", [64], { surface: true }).level(2)),
  gpu.createTensorMap(floats, { box: [64], fill: "nan" }),
);

// the arguments of a graph in the place of values, and other values for them later
const graph = stream.capture(({ arguments: { a, by, x } }) => {
  saxpy.launch(options, 1024, a, x, floats);
  module.kernel("move").launch(options, by);
  module.kernel("histogram").launch(options, clamped, a, unsigned);
}, { arguments: { a: 2.5, by: Point({ x: 0, y: 0 }), x: floats, unused: true } });
graph.instantiate().update({ a: 0.5, x: floats.subarray(4), unused: false });

// an array with memory of another kind, and a graph where any graph is taken
stream.capture(() => {}, { arguments: { x: stream.device.defaultPool.allocateArray(new Float32Array(4)) } })
  .instantiate().update({ x: floats });
export const anyGraph: CudaGraph = graph;
graph.instantiate().update(anyGraph);
