import { open } from "../../../mod.ts";
import { area, mistake } from "../mistake.ts";

area("Reads", import.meta.url);

mistake("no type", async ({ buffer }) => {
  await buffer.read();
});

mistake("the type by name", async ({ buffer }) => {
  await buffer.read("float32");
});

mistake("an array to read into", async ({ x }) => {
  await x.read(new Float32Array(1024));
});

mistake("floats read as doubles", async ({ x }) => {
  await x.read(Float64Array);
});

mistake("the number of the stream in the place of the options", async ({ x, stream }) => {
  await x.read(Float32Array, stream.unsafeHandle);
});

mistake("the length in the place of the options", async ({ x }) => {
  await x.read(Float32Array, 16);
});

mistake("a length past the end", async ({ x }) => {
  await x.read(Float32Array, { length: 2000 });
});

mistake("a length as a string", async ({ x }) => {
  await x.read(Float32Array, { length: "16" });
});

mistake("a byteOffset inside an element", async ({ x }) => {
  await x.read(Float32Array, { byteOffset: 2 });
});

mistake("offset instead of byteOffset", async ({ x }) => {
  await x.read(Float32Array, { offset: 16, length: 4 });
});

mistake("byteLength instead of length", async ({ x }) => {
  await x.read(Float32Array, { byteLength: 16 });
});

mistake("seven bytes as floats", async ({ pool, stream }) => {
  await pool.allocate(7, stream).read(Float32Array);
});

mistake("the type for toTypedArray", async ({ x }) => {
  await x.toTypedArray(Float32Array);
});

mistake("a signal for readSync", ({ x }) => {
  x.readSync(Float32Array, { signal: AbortSignal.timeout(1000) });
});

mistake("a read that was aborted", async ({ x }) => {
  await x.read(Float32Array, { signal: AbortSignal.abort() });
});

mistake("the end of the program before a read", async () => {
  let values;
  {
    using cuda = open();
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using x = pool.allocateArray(Float32Array, 1024, stream);
    values = x.toTypedArray(); // await is forgotten
  }
  await values;
});

mistake("the end of the program before finished()", async () => {
  let done;
  {
    using cuda = open();
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using x = pool.allocateArray(Float32Array, 1024, stream);
    x.fill(0);
    done = stream.finished(); // await is forgotten
  }
  await done;
});

mistake("a loop over a device array", ({ x }) => {
  for (const value of x) console.log(value);
});

mistake("a typed array made of a device array", ({ x }) => {
  const values = new Float32Array(x);
  console.log(values.length, values[0]);
});
