import { CudaArray, CudaTexture, TensorMap } from "../../../mod.ts";
import { area, mistake } from "../mistake.ts";

area("Arrays, textures and tensor maps", import.meta.url);

mistake("an array of pixels with three channels", ({ gpu }) => {
  gpu.createArray("u8", [640, 480], { channels: 3 });
});

mistake("the class of a typed array instead of a format", ({ gpu }) => {
  gpu.createArray(Float32Array, [640, 480]);
});

mistake("a format of C", ({ gpu }) => {
  gpu.createArray("float", [640, 480]);
});

mistake("the extents of an array one by one", ({ gpu }) => {
  gpu.createArray("f32", 640, 480);
});

mistake("the size of an array as an object", ({ gpu }) => {
  gpu.createArray("f32", { width: 640, height: 480 });
});

mistake("an array without rows", ({ gpu }) => {
  gpu.createArray("f32", [640, 0]);
});

mistake("an array with more elements in a row than there can be", ({ gpu }) => {
  gpu.createArray("f32", [1e6]);
});

mistake("the number of layers as an option", ({ gpu }) => {
  gpu.createArray("f32", [64, 64], { layered: 6 });
});

mistake("a cubemap whose faces are not square", ({ gpu }) => {
  gpu.createArray("f32", [64, 32], { cubemap: true });
});

mistake("more mipmap levels than there are", ({ gpu }) => {
  gpu.createMipmappedArray("f32", [64, 64], { levels: 8 });
});

mistake("a level that a mipmapped array does not have", ({ gpu }) => {
  const mipmapped = gpu.createMipmappedArray("f32", [64, 64], { levels: 2 });
  mipmapped.level(2);
});

mistake("new CudaArray", ({ gpu }) => {
  new CudaArray(gpu, "f32", [64, 64]);
});

mistake("too few elements for an array", ({ gpu }) => {
  const image = gpu.createArray("f32", [64, 64]);
  image.copyFrom(new Float32Array(64));
});

mistake("elements of another type for an array", ({ gpu }) => {
  const image = gpu.createArray("u8", [64, 64]);
  image.copyFrom(new Float32Array(64 * 64));
});

mistake("a list of numbers for an array", ({ gpu }) => {
  const image = gpu.createArray("u8", [2, 2]);
  image.copyFrom([1, 2, 3, 4]);
});

mistake("the origin of a copy as a number", ({ gpu }) => {
  const image = gpu.createArray("u8", [64, 64]);
  image.copyFrom(new Uint8Array(64), { origin: 8 });
});

mistake("a copy that begins outside of the array", ({ gpu }) => {
  const image = gpu.createArray("u8", [64, 64]);
  image.copyFrom(new Uint8Array(64), { origin: [0, 64] });
});

mistake("an array copied to a typed array", ({ gpu }) => {
  const image = gpu.createArray("u8", [64, 64]);
  image.copyTo(new Uint8Array(64 * 64));
});

mistake("an array copied to a buffer of another size", ({ gpu, buffer }) => {
  const image = gpu.createArray("f32", [64, 64]);
  image.copyTo(buffer);
});

mistake("an array read without a type", async ({ gpu }) => {
  const image = gpu.createArray("u8", [64, 64]);
  await image.read();
});

mistake("an array read as another type", async ({ gpu }) => {
  const image = gpu.createArray("f16", [64, 64]);
  await image.read(Float32Array);
});

mistake("the address of an array", ({ gpu, saxpy, x }) => {
  const image = gpu.createArray("f32", [64, 64]);
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, x, image);
});

mistake("a copy from an array to a buffer by the buffer", ({ gpu, buffer }) => {
  const image = gpu.createArray("u8", [64, 64]);
  buffer.copyFrom(image);
});

mistake("a disposed array", ({ gpu }) => {
  const image = gpu.createArray("u8", [64, 64]);
  image[Symbol.dispose]();
  image.copyFrom(new Uint8Array(64 * 64));
});

mistake("a texture of a buffer without a type", ({ gpu, buffer }) => {
  gpu.createTexture(buffer);
});

mistake("a texture of a typed array", ({ gpu }) => {
  gpu.createTexture(new Float32Array(64 * 64));
});

mistake("a texture of doubles", ({ gpu, pool }) => {
  gpu.createTexture(pool.allocateArray(Float64Array, 1024));
});

mistake("a linear filter of bytes", ({ gpu }) => {
  const image = gpu.createArray("u8", [64, 64]);
  gpu.createTexture(image, { filterMode: "linear" });
});

mistake("a linear filter of a buffer", ({ gpu, x }) => {
  gpu.createTexture(x, { filterMode: "linear" });
});

mistake("another library's name of a filter", ({ gpu }) => {
  const image = gpu.createArray("f32", [64, 64]);
  gpu.createTexture(image, { filterMode: "bilinear" });
});

mistake("CUDA's name of an option", ({ gpu }) => {
  const image = gpu.createArray("f32", [64, 64]);
  gpu.createTexture(image, { normalizedCoords: true });
});

mistake("CUDA's number of an address mode", ({ gpu }) => {
  const image = gpu.createArray("f32", [64, 64]);
  gpu.createTexture(image, { addressMode: 1 });
});

mistake("a texture that repeats, with coordinates in texels", ({ gpu }) => {
  const image = gpu.createArray("f32", [64, 64]);
  gpu.createTexture(image, { addressMode: "wrap" });
});

mistake("one number as the color of a border", ({ gpu }) => {
  const image = gpu.createArray("f32", [64, 64]);
  gpu.createTexture(image, { addressMode: "border", borderColor: 0 });
});

mistake("a texture of a mipmapped array, with coordinates in texels", ({ gpu }) => {
  const mipmapped = gpu.createMipmappedArray("f32", [64, 64]);
  gpu.createTexture(mipmapped);
});

mistake("a view with elements of another size", ({ gpu }) => {
  const image = gpu.createArray("f32", [64, 64]);
  gpu.createTexture(image, { view: { format: "u8" } });
});

mistake("a texture on another device than its array", ({ gpu, peer }) => {
  const image = gpu.createArray("f32", [64, 64]);
  peer.createTexture(image);
});

mistake("a texture of a disposed array", ({ gpu }) => {
  const image = gpu.createArray("f32", [64, 64]);
  image[Symbol.dispose]();
  gpu.createTexture(image);
});

mistake("new CudaTexture", ({ gpu }) => {
  new CudaTexture(gpu.createArray("f32", [64, 64]));
});

mistake("a kernel launched with an array instead of a texture", ({ gpu, texturedPtx, x }) => {
  const image = gpu.createArray("f32", [64, 64]);
  gpu.loadModule(texturedPtx).kernel("resample").launch({ grid: 1, block: 64 }, image, x);
});

mistake("a kernel launched with a texture whose array was disposed", ({ gpu, texturedPtx, x }) => {
  const image = gpu.createArray("f32", [64, 64]);
  const texture = gpu.createTexture(image);
  image[Symbol.dispose]();
  gpu.loadModule(texturedPtx).kernel("resample").launch({ grid: 1, block: 64 }, texture, x);
});

mistake("a kernel launched with a disposed texture", ({ gpu, texturedPtx, x }) => {
  const texture = gpu.createTexture(gpu.createArray("f32", [64, 64]));
  texture[Symbol.dispose]();
  gpu.loadModule(texturedPtx).kernel("resample").launch({ grid: 1, block: 64 }, texture, x);
});

mistake("a kernel launched with a buffer instead of a texture", async ({ gpu, texturedPtx, stream, x, y }) => {
  gpu.loadModule(texturedPtx).kernel("resample").launch({ grid: 1, block: 64, stream }, x, y);
  await stream.finished();
});

mistake("a texture instead of a buffer", async ({ gpu, texturedPtx, stream }) => {
  const texture = gpu.createTexture(gpu.createArray("f32", [64, 64]));
  gpu.loadModule(texturedPtx).kernel("brighten").launch({ grid: 1, block: 64, stream }, texture, 1);
  await stream.finished();
});

mistake("a surface of an array that was created without", ({ gpu }) => {
  gpu.createSurface(gpu.createArray("f32", [64, 64]));
});

mistake("a surface of a buffer", ({ gpu, buffer }) => {
  gpu.createSurface(buffer);
});

mistake("a surface instead of a texture", async ({ gpu, texturedPtx, stream, x }) => {
  const surface = gpu.createSurface(gpu.createArray("f32", [64, 64], { surface: true }));
  gpu.loadModule(texturedPtx).kernel("resample").launch({ grid: 1, block: 64, stream }, surface, x);
  await stream.finished();
});

mistake("a tensor map without a box", ({ gpu, x }) => {
  gpu.createTensorMap(x);
});

mistake("a tensor map of a buffer without a shape", ({ gpu, buffer }) => {
  gpu.createTensorMap(buffer, { box: [4, 4], dtype: "float32" });
});

mistake("a tensor map of a buffer without a type", ({ gpu, buffer }) => {
  gpu.createTensorMap(buffer, { box: [4, 4], shape: [16, 16] });
});

mistake("a box with other dimensions than the tensor", ({ gpu, x }) => {
  gpu.createTensorMap(x, { box: [16, 16] });
});

mistake("a box with more elements in a row than there can be", ({ gpu, x }) => {
  gpu.createTensorMap(x, { box: [512] });
});

mistake("a box of one number", ({ gpu, x }) => {
  gpu.createTensorMap(x, { box: 64 });
});

mistake("rows of a tensor that are no multiples of 16 bytes", ({ gpu, pool }) => {
  const matrix = pool.allocateArray(Float32Array, { shape: [10, 10] });
  gpu.createTensorMap(matrix, { box: [4, 4] });
});

mistake("a box with wider rows than its swizzle", ({ gpu, pool }) => {
  const matrix = pool.allocateArray(Float32Array, { shape: [64, 64] });
  gpu.createTensorMap(matrix, { box: [16, 64], swizzle: "128B" });
});

mistake("a swizzle as a number", ({ gpu, x }) => {
  gpu.createTensorMap(x, { box: [16], swizzle: 128 });
});

mistake("the elements of a tensor as the name of a typed array", ({ gpu, buffer }) => {
  gpu.createTensorMap(buffer, { box: [16], shape: [1024], dtype: "Float32Array" });
});

mistake("a tensor map of an array", ({ gpu }) => {
  gpu.createTensorMap(gpu.createArray("f32", [64, 64]), { box: [16, 16] });
});

mistake("a tensor map of a typed array", ({ gpu }) => {
  gpu.createTensorMap(new Float32Array(1024), { box: [16] });
});

mistake("new TensorMap", ({ x }) => {
  new TensorMap(x, { box: [16] });
});

mistake("a kernel launched with a tensor map instead of a buffer", ({ gpu, saxpy, x, y }) => {
  const map = gpu.createTensorMap(x, { box: [16] });
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, map, y);
});

mistake("a tensor map of freed memory", ({ gpu, pool }) => {
  const matrix = pool.allocateArray(Float32Array, { shape: [64, 64] });
  const map = gpu.createTensorMap(matrix, { box: [16, 16] });
  matrix.free();
  map.bytes;
});
