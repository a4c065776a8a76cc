// Calls of typed kernels, and of methods with a stream, that must not compile. messages.md has what the compiler says.
import { type CudaKernel, type CudaModule, type Pointer, type Ptx, struct, type StructArgument } from "../../mod.ts";
import type { Kernels } from "./fixture.ts";
import { binary, buffer, clamped, doubles, floats, gpu, integers, module } from "./fixture.ts";
import { options, pinned, ptx, saxpy, stream, text, unsigned, untyped } from "./fixture.ts";

const Point = struct({ x: "f32", y: "f32" });
const Integers = struct({ x: "s32", y: "s32" });
const Vector = struct({ x: "f32", y: "f32", z: "f32" });
const View = struct({ center: Point, colors: ["u8", 4], limit: "s32" });

// @ts-expect-error: a mistyped name of a kernel
module.kernel("saxpi");

// @ts-expect-error: a name that may be any string
module.kernel(text);

// @ts-expect-error: a C++ name for a kernel that is declared extern "C"
gpu.loadModule(ptx).kernel("_Z5saxpyjfPKfPf");

// @ts-expect-error: an array of integers for a float*
saxpy.launch(options, 1024, 2.5, integers, floats);

// @ts-expect-error: an array of doubles for a float*
saxpy.launch(options, 1024, 2.5, floats, doubles);

// @ts-expect-error: signed integers for an unsigned int*
module.kernel("histogram").launch(options, clamped, 1024, integers);

// @ts-expect-error: floats for either type of 8-bit channels
module.kernel("histogram").launch(options, floats, 1024, unsigned);

// @ts-expect-error: a part of an array of another type
saxpy.launch(options, 1024, 2.5, integers.subarray(1), floats);

// @ts-expect-error: an array seen as elements of a wrong type
saxpy.launch(options, 1024, 2.5, buffer.as(Float64Array), floats);

// @ts-expect-error: the last argument left out
saxpy.launch(options, 1024, 2.5, floats);

// @ts-expect-error: all arguments left out
saxpy.launch(options);

// @ts-expect-error: one argument too many
saxpy.launch(options, 1024, 2.5, floats, floats, 0);

// @ts-expect-error: an argument for a kernel without parameters
module.kernel("synchronize").launch(options, floats);

// @ts-expect-error: the order of another library
saxpy.launch(options, floats, floats, 2.5, 1024);

// @ts-expect-error: the arguments as one array
saxpy.launch(options, [1024, 2.5, floats, floats]);

// @ts-expect-error: arguments in an array of unknown length
saxpy.launch(options, ...[1024, 2.5].map(Number));

// @ts-expect-error: a bigint for a 32-bit integer
saxpy.launch(options, 1024n, 2.5, floats, floats);

// @ts-expect-error: a string for a float
saxpy.launch(options, 1024, "2.5", floats, floats);

// @ts-expect-error: a boolean for a float
saxpy.launch(options, 1024, true, floats, floats);

// @ts-expect-error: a string for a bool
module.kernel("draw").launch(options, new DataView(new ArrayBuffer(16)), "smooth");

// @ts-expect-error: undefined for an integer
module.kernel("copy").launch(options, buffer, buffer, undefined);

// @ts-expect-error: host memory for a pointer
saxpy.launch(options, 1024, 2.5, new Float32Array(1024), floats);

// @ts-expect-error: an array of numbers for a pointer
saxpy.launch(options, 1024, 2.5, [1, 2, 3], floats);

// @ts-expect-error: null for a pointer
saxpy.launch(options, 1024, 2.5, floats, null);

// @ts-expect-error: an address as a number
saxpy.launch(options, 1024, 2.5, 0x7f00000000, floats);

// @ts-expect-error: an object whose address is a number
saxpy.launch(options, 1024, 2.5, { address: 4096 }, floats);

// @ts-expect-error: a stream for a pointer
module.kernel("copy").launch(options, stream, buffer, 4096);

// @ts-expect-error: the bytes of pinned memory for a pointer
module.kernel("copy").launch(options, pinned.buffer, buffer, 4096);

// @ts-expect-error: an array that may be missing
saxpy.launch(options, 1024, 2.5, [floats][0], floats);

// @ts-expect-error: memory that was not awaited
saxpy.launch(options, 1024, 2.5, gpu.defaultPool.allocateAsync(4096), floats);

// @ts-expect-error: a struct with a field too many
module.kernel("move").launch(options, Vector({ x: 1, y: 2, z: 3 }));

// @ts-expect-error: a struct whose fields have other types
module.kernel("move").launch(options, Integers({ x: 1, y: 2 }));

// @ts-expect-error: a struct with a longer array in it
module.kernel("draw").launch(options, View({ center: { x: 0, y: 0 }, colors: [1, 2, 3, 4], limit: 9 }), true);

// @ts-expect-error: the values of a struct's fields for the struct
module.kernel("move").launch(options, { x: 1, y: 2 });

// @ts-expect-error: a number for a struct
module.kernel("move").launch(options, 1);

// @ts-expect-error: a string that says nothing of its kernels where typed PTX is needed
export const plain: Ptx<Kernels> = text;

// @ts-expect-error: what a method of a string returns where typed PTX is needed
export const trimmed: Ptx<Kernels> = ptx.trim();

// @ts-expect-error: a module of which nothing is known where a typed one is needed
export const claimed: CudaModule<Kernels> = untyped;

// @ts-expect-error: a module that lacks a kernel
export const lacking: CudaModule<{ scale: [n: number] }> = module;

// @ts-expect-error: a kernel that takes fewer arguments than will be given
export const shorter: CudaKernel<[number, Pointer]> = module.kernel("synchronize");

// @ts-expect-error: a kernel that takes a struct of other fields
export const other: CudaKernel<[StructArgument<{ n: "s32" }>]> = module.kernel("move");

// @ts-expect-error: a parameter of a type that no argument has
export type Named = Ptx<{ greet: [name: string] }>;

// @ts-expect-error: parameters that are no tuple
export type Single = Ptx<{ fill: Pointer<Int32Array> }>;

// @ts-expect-error: a pointer to elements by the name of their constructor
export type Constructed = Pointer<Float32ArrayConstructor>;

// @ts-expect-error: kernels of a binary image that were stated otherwise
gpu.loadModule<{ fill: [value: number] }>(binary).kernel("fill").launch(options, integers);

// @ts-expect-error: a number in the place of a copy's stream
floats.copyFrom(buffer, 4);

// @ts-expect-error: a stream's handle in the place of the stream
buffer.free(stream.unsafeHandle);

// @ts-expect-error: a misspelt stream in an object
floats.fill(0, { steam: stream });

// @ts-expect-error: the stream of a copy given twice
floats.copyFrom(buffer, stream, { stream, byteOffset: 4 });

const image = gpu.createArray("f32", [64, 64], { surface: true });
const texture = gpu.createTexture(image, { filterMode: "linear", borderColor: [0, 0, 0, 1] });
const map = gpu.createTensorMap(floats, { box: [64], swizzle: "128B" });

// @ts-expect-error: an array of three channels
gpu.createArray("u8", [64, 64], { channels: 3 });

// @ts-expect-error: an array of elements named as in C
gpu.createArray("float", [64, 64]);

// @ts-expect-error: a texture with a misspelt filter
gpu.createTexture(image, { filterMode: "liner" });

// @ts-expect-error: a border of one number
gpu.createTexture(image, { addressMode: "border", borderColor: 0 });

// @ts-expect-error: a texture of memory without an element type
gpu.createTexture(buffer);

// @ts-expect-error: the way in which kernels read a surface, which has none
gpu.createSurface(image, { filterMode: "linear" });

// @ts-expect-error: a tensor map with a swizzle as a number
gpu.createTensorMap(floats, { box: [64], swizzle: 128 });

// @ts-expect-error: a tensor map of an array
gpu.createTensorMap(image, { box: [64, 64] });

// @ts-expect-error: a texture for a pointer
saxpy.launch(options, 1024, 2.5, texture, floats);

// @ts-expect-error: an array, which has no address, for a pointer
saxpy.launch(options, 1024, 2.5, floats, image);

// @ts-expect-error: a tensor map for a pointer
saxpy.launch(options, 1024, 2.5, map, floats);

const graph = stream.capture(({ arguments: { a, x } }) => saxpy.launch(options, 1024, a, x, floats), {
  arguments: { a: 2.5, x: floats },
});
const exec = graph.instantiate();

// @ts-expect-error: an argument of a graph that is a bigint for a number
stream.capture(({ arguments: { n } }) => saxpy.launch(options, n, 1, floats, floats), { arguments: { n: 1024n } });

// @ts-expect-error: an argument of a graph that was not given to the capture
stream.capture(({ arguments: { b } }) => saxpy.launch(options, 1024, b, floats, floats), { arguments: { a: 2.5 } });

// @ts-expect-error: a typed array as an argument of a graph
stream.capture(() => {}, { arguments: { x: new Float32Array(4) } });

// @ts-expect-error: a graph updated by an argument that it does not have
exec.update({ a: 1, b: 2 });

// @ts-expect-error: a graph updated by an array of another type
exec.update({ x: integers });

// @ts-expect-error: a graph updated by a string for a number
exec.update({ a: "0.5" });
