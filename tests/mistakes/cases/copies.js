import { open } from "../../../mod.ts";
import { area, mistake, printing } from "../mistake.ts";

area("Copies and fills", import.meta.url);

mistake("doubles copied into an array of floats", ({ x }) => {
  x.copyFrom(new Float64Array(512));
});

mistake("integers copied into an array of floats", ({ x }) => {
  x.copyFrom(new Int32Array([1, 2, 3, 4]));
});

mistake("an array of floats copied into one of integers", ({ pool, stream, x }) => {
  const counts = pool.allocateArray(Uint32Array, 1024, stream);
  counts.copyFrom(x);
});

mistake("a plain array", ({ x }) => {
  x.copyFrom([1, 2, 3, 4]);
});

mistake("a string", ({ buffer }) => {
  buffer.copyFrom("hello");
});

mistake("more elements than the array has", ({ x }) => {
  x.copyFrom(new Float32Array(2048));
});

mistake("a promise of the data", ({ x, y }) => {
  x.copyFrom(y.toTypedArray());
});

mistake("a response for its bytes", ({ buffer }) => {
  buffer.copyFrom(new Response("data"));
});

mistake("an ArrayBuffer that was transferred", ({ buffer }) => {
  const bytes = new ArrayBuffer(16);
  structuredClone(bytes, { transfer: [bytes] });
  buffer.copyFrom(bytes);
});

mistake("copyTo a typed array", ({ x }) => {
  x.copyTo(new Float32Array(1024));
});

mistake("copyTo a smaller buffer", ({ x, pool, stream }) => {
  x.copyTo(pool.allocate(16, stream));
});

mistake("a copy between elements of one array that overlap", ({ x }) => {
  x.subarray(0, 1000).copyFrom(x.subarray(10, 1010));
});

mistake("the offset in the place of the stream", ({ x }) => {
  x.copyFrom(new Float32Array(4), 16);
});

mistake("options of a copy given twice", ({ x, stream }) => {
  x.copyFrom(new Float32Array(4), { stream }, { byteOffset: 16 });
});

mistake("the stream of a copy given twice", ({ x, stream }) => {
  x.copyFrom(new Float32Array(4), stream, { stream, byteOffset: 16 });
});

mistake("the offset as a number", ({ x, stream }) => {
  x.copyFrom(new Float32Array(4), stream, 16);
});

mistake("offset instead of byteOffset", ({ x, stream }) => {
  x.copyFrom(new Float32Array(4), stream, { offset: 16 });
});

mistake("a byteOffset past the end", ({ x, stream }) => {
  x.copyFrom(new Float32Array(4), stream, { byteOffset: 4090 });
});

mistake("byteLength for a part of the source", ({ x, stream }) => {
  x.copyFrom(new Float32Array(1024), stream, { byteLength: 16 });
});

mistake("an index into a device array", ({ x }) => {
  console.log(x[0]);
});

mistake("an assignment to an element", ({ x }) => {
  x[0] = 1;
});

mistake("subarray past the end", ({ x }) => {
  x.subarray(0, 2000);
});

mistake("subarray from the end", ({ x }) => {
  x.subarray(-4);
});

mistake("subarray of a string", ({ x }) => {
  x.subarray("4");
});

mistake("a buffer of another open()", ({ x }) => {
  const gpu = open().device(0);
  x.copyFrom(gpu.createPool().allocate(16, gpu.createStream()));
});

mistake("page-locked memory of another open()", ({ x }) => {
  x.copyFrom(open().allocateHost(16));
});

printing("ones filled into an array of floats", ({ x }) => {
  x.fill(1);
  console.log(x.readSync(Float32Array)[0]);
});

mistake("a fraction filled into an array of integers", ({ pool, stream }) => {
  pool.allocateArray(Int32Array, 4, stream).fill(0.5);
});

mistake("a fraction filled into a buffer", ({ buffer }) => {
  buffer.fill(0.5);
});

mistake("fill above a byte", ({ buffer }) => {
  buffer.fill(256);
});

mistake("fill with -1", ({ buffer }) => {
  buffer.fill(-1);
});

mistake("fill without a value", ({ buffer }) => {
  buffer.fill();
});

mistake("a bigint filled into an array of floats", ({ x }) => {
  x.fill(1n);
});

mistake("a number filled into an array of bigints", ({ pool, stream }) => {
  pool.allocateArray(BigUint64Array, 4, stream).fill(1);
});

mistake("300 filled into an array of bytes", ({ pool, stream }) => {
  pool.allocateArray(Uint8Array, 4, stream).fill(300);
});

mistake("fill from begin to end, as of a typed array", ({ x }) => {
  x.fill(0, 0, 4);
});

mistake("fill from begin to past the end", ({ x, stream }) => {
  x.fill(0, stream, { begin: 0, end: 2000 });
});

mistake("a misspelt option of a fill", ({ buffer, stream }) => {
  buffer.fill(0, { stream, offset: 8 });
});

mistake("fill past the end", ({ buffer, stream }) => {
  buffer.fill(0, stream, { byteOffset: 4000, byteLength: 100 });
});

mistake("fill with length instead of byteLength", ({ buffer, stream }) => {
  buffer.fill(0, stream, { length: 8 });
});

mistake("seven bytes as another type", ({ pool, stream }) => {
  pool.allocate(7, stream).as(Float32Array);
});

mistake("the same memory as a type by name", ({ buffer }) => {
  buffer.as("float32");
});

mistake("the length of a buffer that is no array", ({ buffer }) => {
  console.log(buffer.length);
});

mistake("the size of a buffer", ({ buffer }) => {
  console.log(buffer.size);
});

mistake("an array to a Worker", ({ x }) => {
  new MessageChannel().port1.postMessage({ x });
});

mistake("a clone of a stream", ({ stream }) => {
  structuredClone(stream);
});
