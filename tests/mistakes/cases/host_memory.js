import { open } from "../../../mod.ts";
import { area, mistake } from "../mistake.ts";

area("Host memory", import.meta.url);

mistake("a size as text", ({ cuda }) => {
  cuda.allocateHost("4k");
});

mistake("an element of page-locked memory", ({ host }) => {
  host[0] = 1;
});

mistake("a typed array over the object itself", ({ host }) => {
  const values = new Float32Array(host);
  console.log(values.length);
});

mistake("the buffer of memory that was disposed", ({ host }) => {
  host[Symbol.dispose]();
  host.buffer;
});

mistake("the buffer transferred away", () => {
  const cuda = open();
  const host = cuda.allocateHost(64);
  structuredClone(host.buffer, { transfer: [host.buffer] });
  cuda[Symbol.dispose]();
});

mistake("more page-locked memory copied than there is room", ({ host, x }) => {
  x.subarray(0, 4).copyFrom(host);
});

mistake("a host view of device memory", ({ buffer }) => {
  buffer.hostView();
});

mistake("a typed array of page-locked memory given to a kernel", ({ saxpy, host, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, new Float32Array(host.buffer), y);
});

mistake("the ArrayBuffer of page-locked memory given to a kernel", ({ saxpy, host, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, host.buffer, y);
});

mistake("page-locked memory as a number", ({ saxpy, host, x, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, host, 2.5, x, y);
});

mistake("disposed page-locked memory given to a kernel", ({ saxpy, host, y }) => {
  host[Symbol.dispose]();
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, host, y);
});

mistake("the address of page-locked memory kept after it was disposed", async ({ saxpy, host, y, stream }) => {
  const { address } = host;
  host[Symbol.dispose]();
  saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, address, y);
  await stream.finished();
});

mistake("page-locked memory of another open()", ({ saxpy, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, open().allocateHost(4096), y);
});

mistake("page-locked memory registered", ({ cuda, host }) => {
  cuda.registerHost(host);
});

mistake("less memory registered than a page", ({ cuda }) => {
  cuda.registerHost(new Float32Array(16));
});

mistake("an array of numbers registered", ({ cuda }) => {
  cuda.registerHost([1, 2, 3]);
});

mistake("memory registered that can grow", ({ cuda }) => {
  cuda.registerHost(new ArrayBuffer(4096, { maxByteLength: 8192 }));
});

mistake("memory registered twice", ({ cuda }) => {
  const memory = new SharedArrayBuffer(65536);
  cuda.registerHost(memory);
  cuda.registerHost(new Uint8Array(memory, 4096, 4096));
});

mistake("registered memory transferred away", ({ cuda, x }) => {
  const memory = new ArrayBuffer(65536);
  const host = cuda.registerHost(memory);
  structuredClone(memory, { transfer: [memory] });
  x.subarray(0, 4).copyTo(host);
});

mistake("the flags of a registration as a number", ({ cuda }) => {
  cuda.registerHost(new ArrayBuffer(65536), 8);
});

mistake("write-combined memory by a misspelt option", ({ cuda }) => {
  cuda.allocateHost(1024, { writecombine: true });
});
