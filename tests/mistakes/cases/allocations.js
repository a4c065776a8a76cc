import { DeviceBuffer, open } from "../../../mod.ts";
import { area, mistake } from "../mistake.ts";

area("Allocations", import.meta.url);

mistake("no size", ({ pool }) => {
  pool.allocate();
});

mistake("a size as a string", ({ pool, stream }) => {
  pool.allocate("1024", stream);
});

mistake("a size that is NaN", ({ pool, stream }) => {
  const options = { elements: 1024 };
  pool.allocate(options.count * 4, stream);
});

mistake("a fractional size", ({ pool, stream }) => {
  pool.allocate(1000 / 3, stream);
});

mistake("no bytes at all", ({ pool, stream }) => {
  pool.allocate(0, stream);
});

mistake("more bytes than a double counts exactly", ({ pool, stream }) => {
  pool.allocate(2 ** 60, stream);
});

mistake("more memory than there is", ({ pool, stream }) => {
  pool.allocate(2 ** 40, stream);
});

mistake("a shape", ({ pool, stream }) => {
  pool.allocate([512, 512], stream);
});

mistake("a type and a length for allocate", ({ pool, stream }) => {
  pool.allocate(Float32Array, 1024, stream);
});

mistake("stream 0", ({ pool }) => {
  pool.allocate(1024, 0);
});

mistake("a misspelt stream in an object", ({ pool, stream }) => {
  pool.allocate(1024, { steam: stream });
});

mistake("a buffer in the place of the stream", ({ pool, buffer }) => {
  pool.allocate(1024, buffer);
});

mistake("the handle of a stream in an object", ({ pool, stream }) => {
  pool.allocate(1024, { stream: stream.unsafeHandle });
});

mistake("a signal for allocate", ({ pool, stream }) => {
  pool.allocate(1024, { stream, signal: AbortSignal.timeout(1000) });
});

mistake("a stream of another open()", ({ pool }) => {
  pool.allocate(1024, open().device(0).createStream());
});

mistake("length and type exchanged", ({ pool, stream }) => {
  pool.allocateArray(1024, Float32Array, stream);
});

mistake("the type by NumPy's name", ({ pool, stream }) => {
  pool.allocateArray("float32", 1024, stream);
});

mistake("no length", ({ pool }) => {
  pool.allocateArray(Float32Array);
});

mistake("a shape for the length", ({ pool, stream }) => {
  pool.allocateArray(Float32Array, [32, 32], stream);
});

mistake("data without a type", ({ pool, stream }) => {
  pool.allocateArray([1, 2, 3], stream);
});

mistake("data with its length", ({ pool, stream }) => {
  pool.allocateArray(new Float32Array(1024), 1024, stream);
});

mistake("a DataView as the data", ({ pool, stream }) => {
  pool.allocateArray(new DataView(new ArrayBuffer(16)), stream);
});

mistake("data without elements", ({ pool, stream }) => {
  pool.allocateArray(new Float32Array(0), stream);
});

mistake("a negative length", ({ pool, stream }) => {
  pool.allocateArray(Float32Array, -1, stream);
});

mistake("the signal of allocateAsync not in an object", async ({ pool }) => {
  await pool.allocateAsync(1024, AbortSignal.timeout(1000));
});

mistake("allocateAsync of more than the pool's maximum", async ({ gpu, stream }) => {
  const pool = gpu.createPool({ maxSize: 2 ** 20 });
  await pool.allocateAsync(2 ** 30, { stream });
});

mistake("a stream for cudaMalloc", ({ gpu, stream }) => {
  gpu.allocate(1024, stream);
});

mistake("new DeviceBuffer", () => {
  new DeviceBuffer(1024);
});

mistake("a buffer wrapped instead of an address", ({ gpu, buffer }) => {
  gpu.wrap(buffer, 1024);
});

mistake("a typed array wrapped", ({ gpu }) => {
  gpu.wrap(new Float32Array(256), 1024);
});

mistake("an address wrapped as a number", ({ gpu, buffer }) => {
  gpu.wrap(Number(buffer.address), 1024);
});

mistake("memory wrapped without its size", ({ gpu, buffer }) => {
  gpu.wrap(buffer.address);
});

mistake("more memory wrapped than there is", ({ gpu, buffer }) => {
  gpu.wrap(buffer.address, 8192);
});

mistake("memory wrapped that was freed", ({ gpu }) => {
  const memory = gpu.allocate(64);
  const { address } = memory;
  memory.free();
  gpu.wrap(address, 64);
});

mistake("memory of another device wrapped", ({ gpu, peer }) => {
  gpu.wrap(peer.allocate(64).address, 64);
});

mistake("an event in the place of the stream of wrapped memory", ({ gpu, buffer, event }) => {
  gpu.wrap(buffer.address, 64, event);
});

mistake("wrapped memory exported", ({ gpu, buffer }) => {
  gpu.wrap(buffer.address, 64).exportPointer();
});

mistake("wrapped memory offered", ({ gpu, weights, exporter }) => {
  exporter.offer("weights", gpu.wrap(weights.address, 64));
});
