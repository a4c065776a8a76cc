import { area, mistake, printing } from "../mistake.ts";

area("Rows and batches of copies", import.meta.url);

mistake("a width and a height without an array", ({ pool, stream }) => {
  pool.allocatePitched(Float32Array, 640, 480, stream);
});

mistake("a width of zero", ({ pool, stream }) => {
  pool.allocatePitched(Float32Array, [0, 480], stream);
});

mistake("a matrix larger than its buffer", ({ x }) => {
  x.pitched(Float32Array, [64, 64]);
});

mistake("a column whose pitch is counted in elements", ({ x }) => {
  x.pitched(Float32Array, [1, 32], { pitch: 32, byteOffset: 7 });
});

mistake("a pitch below the width", ({ x }) => {
  x.pitched(Float32Array, [32, 32], { pitch: 32 });
});

mistake("stride instead of pitch", ({ x }) => {
  x.pitched(Float32Array, [1, 32], { stride: 128 });
});

mistake("a region outside of the rows", ({ x }) => {
  x.pitched(Float32Array, [32, 32]).region([16, 16], [32, 32]);
});

mistake("a region given as four numbers", ({ x }) => {
  x.pitched(Float32Array, [32, 32]).region(0, 0, 16, 16);
});

mistake("too few elements", ({ x }) => {
  x.pitched(Float32Array, [32, 32]).copyFrom(new Float32Array(100));
});

mistake("a buffer in the place of its rows", ({ x, y }) => {
  x.pitched(Float32Array, [32, 32]).copyFrom(y);
});

mistake("rows of another size", ({ x, y }) => {
  x.pitched(Float32Array, [32, 32]).copyFrom(y.pitched(Float32Array, [16, 64]));
});

mistake("rows shifted by one", ({ x }) => {
  const rows = x.pitched(Float32Array, [32, 32]);
  rows.region([0, 1], [32, 31]).copyFrom(rows.region([0, 0], [32, 31]));
});

mistake("copyTo a typed array", ({ x }) => {
  x.pitched(Float32Array, [32, 32]).copyTo(new Float32Array(1024));
});

mistake("host memory without a stream", ({ cuda }) => {
  cuda.allocateHost(1024).pitched(Float32Array, [16, 16]).fill(1);
});

mistake("the length of rows", ({ x }) => {
  return x.pitched(Float32Array, [32, 32]).length;
});

mistake("an element of rows by its index", ({ x }) => {
  return x.pitched(Float32Array, [32, 32])[0];
});

mistake("rows of freed memory", ({ pool, stream }) => {
  const image = pool.allocatePitched(Uint8Array, [640, 480], stream);
  image[Symbol.dispose]();
  image.fill(0);
});

mistake("a batch of pairs", ({ stream, x, y }) => {
  stream.copyBatch([[x, y]]);
});

mistake("a batch with a typed array", ({ stream, x }) => {
  stream.copyBatch([{ source: new Float32Array(1024), target: x }]);
});

mistake("a batch whose target is called destination", ({ stream, x, y }) => {
  stream.copyBatch([{ source: x, destination: y }]);
});

mistake("a batch of different sizes", ({ stream, x, y }) => {
  stream.copyBatch([{ source: x.subarray(0, 10), target: y }]);
});

mistake("a batch whose copies depend on each other", ({ stream, x, y, buffer }) => {
  stream.copyBatch([{ source: x, target: y }, { source: y, target: buffer.subarray(0, 4096) }]);
});

mistake("an unknown order", ({ stream, x, y }) => {
  stream.copyBatch([{ source: x, target: y }], { sourceAccessOrder: "streams" });
});

printing("rows", ({ x }) => {
  console.log(x.pitched(Float32Array, [32, 32]));
});
