import { area, mistake } from "../mistake.ts";

area("Managed memory", import.meta.url);

mistake("cpu as a place, as in PyTorch", ({ gpu, stream }) => {
  const x = gpu.allocateManaged(4096);
  x.prefetch("cpu", stream);
});

mistake("the ordinal of a device as a place", ({ gpu, stream }) => {
  const x = gpu.allocateManaged(4096);
  x.prefetch(0, stream);
});

mistake("the stream in the place of the location", ({ gpu, stream }) => {
  const x = gpu.allocateManaged(4096);
  x.prefetch(stream);
});

mistake("a NUMA node that the machine does not have", ({ gpu, stream }) => {
  const x = gpu.allocateManaged(4096);
  x.prefetch({ numaNode: 99 }, stream);
});

mistake("memory of a device prefetched", ({ x, stream }) => {
  x.prefetch("host", stream);
});

mistake("advice about memory of a device", ({ x }) => {
  x.advice.readMostly = true;
});

mistake("misspelt advice", ({ gpu }) => {
  const x = gpu.allocateManaged(4096);
  x.advice.readMosty = true;
});

mistake("read-mostly as a number", ({ gpu }) => {
  const x = gpu.allocateManaged(4096);
  x.advice.readMostly = 1;
});

mistake("one device that accesses the memory", ({ gpu }) => {
  const x = gpu.allocateManaged(4096);
  x.advice.accessedBy = gpu;
});

mistake("the last prefetch set", ({ gpu }) => {
  const x = gpu.allocateManaged(4096);
  x.advice.lastPrefetchLocation = gpu;
});

mistake("the advice replaced", ({ gpu }) => {
  const x = gpu.allocateManaged(4096);
  x.advice = { readMostly: true };
});

mistake("a discard on the default stream", ({ gpu }) => {
  const x = gpu.allocateManaged(4096);
  x.discard();
});

mistake("a discard with a place instead of options", ({ gpu }) => {
  const x = gpu.allocateManaged(4096);
  x.discard("host");
});

mistake("a pool of managed memory without a stream", ({ cuda }) => {
  cuda.createManagedPool().allocate(4096);
});

mistake("a pool of managed memory to be shared", ({ cuda }) => {
  cuda.createManagedPool({ handleType: "posix-fd" });
});

mistake("a device in the place of the options", ({ cuda, gpu }) => {
  cuda.createManagedPool(gpu);
});

mistake("more managed memory than fits", ({ gpu }) => {
  gpu.allocateManaged(2 ** 40);
});

mistake("a maximum that does not fit", ({ cuda }) => {
  cuda.createManagedPool({ maxSize: 2 ** 40 });
});

mistake("managed memory exported", ({ cuda, gpu }) => {
  const pool = cuda.createManagedPool({ preferredLocation: gpu });
  pool.exportHandle();
});

mistake("managed memory offered", ({ gpu, exporter }) => {
  exporter.offer("managed", gpu.allocateManaged(4096));
});

mistake("the default pool of a misspelt place", ({ cuda }) => {
  cuda.getDefaultPool("hots");
});

mistake("the type alone as the options", ({ cuda, gpu }) => {
  cuda.getDefaultPool(gpu, "managed");
});

mistake("a pool made current elsewhere", ({ cuda, pool }) => {
  cuda.setCurrentPool("host", pool);
});

mistake("the host given access to memory of a device", ({ pool }) => {
  pool.setAccess("host", "read-write");
});

mistake("an element of managed memory", ({ gpu }) => {
  const x = gpu.allocateManaged(4096).as(Float32Array);
  x[0] = 1;
});
