// Makes calls that throw, and prints for each of them the first frame of the error's stack: a line of JSON. The process
// has no descriptor left while it makes those that are not asynchronous.
import { ptx } from "../../kernels/fill.ts";
import { closeDescriptor } from "../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../ffi/native/shim/memory_files.ts";
import { Exporter, open } from "../../mod.ts";
import { takeAllDescriptors } from "../support/take_all_descriptors.ts";

using cuda = open({ driver: "software" });
const gpu = cuda.device(0);
using stream = gpu.createStream();
using pool = gpu.createPool();
using allocator = pool.createCachingAllocator();
using module = gpu.loadModule(ptx);
const kernel = module.kernel("fill");
using buffer = pool.allocate(64, stream);
using array = pool.allocateArray(Float32Array, 16, stream);
const freed = pool.allocate(64, stream);
freed.free();
using host = cuda.allocateHost(64);
using event = gpu.createEvent();
// deno-lint-ignore no-explicit-any
const wrong = "wrong" as any;

const calls: Record<string, () => unknown> = {
  "open": () => open({ driver: wrong }),
  "an option of open": () => open({ wrong } as never),
  "a device": () => cuda.device(7),
  "createPool": () => gpu.createPool({ wrong } as never),
  "createStream": () => gpu.createStream(wrong),
  "createEvent": () => gpu.createEvent({ wrong } as never),
  "loadModule": () => gpu.loadModule("wrong"),
  "a kernel": () => module.kernel(wrong),
  "launch": () => kernel.launch({ grid: 1, block: 1, stream }, buffer, wrong, 1),
  "a launch's options": () => kernel.launch({ grid: 0, block: 1, stream }, buffer, 16, 1),
  "too many threads": () => kernel.launch({ grid: 1, block: 4096, stream }, buffer, 16, 1),
  "allocate": () => pool.allocate(-1, stream),
  "too little memory": () => pool.allocate(2 ** 45, stream),
  "a stream": () => pool.allocate(64, wrong),
  "allocateArray": () => pool.allocateArray(Float32Array, -1, stream),
  "data": () => pool.allocateArray([1] as never),
  "allocate of an allocator": () => allocator.allocate(-1),
  "too little memory of an allocator": () => allocator.allocate(2 ** 45, stream),
  "copyFrom": () => buffer.copyFrom(new Uint8Array(100)),
  "copyFrom of an array": () => array.copyFrom(new Int32Array(1)),
  "copyTo": () => buffer.copyTo(wrong),
  "fill": () => buffer.fill(300),
  "fill of an array": () => array.fill(1n),
  "readSync": () => buffer.readSync(Float64Array, { length: 100 }),
  "subarray": () => array.subarray(-1),
  "as": () => buffer.subarray(1).as(Float32Array),
  "an address": () => freed.address,
  "a free": () => freed.free(),
  "a freed buffer": () => freed.fill(0),
  "an element": () => (array as unknown as number[])[0],
  "the stream of a buffer": () => buffer.stream = wrong,
  "exportPointer": () => buffer.exportPointer(),
  "exportHandle": () => pool.exportHandle(),
  "releaseThreshold": () => pool.releaseThreshold = wrong,
  "trimTo": () => pool.trimTo(-1),
  "wait": () => stream.wait(wrong),
  "record": () => stream.record(wrong),
  "elapsedTime": () => event.elapsedTime(wrong),
  "a property": () => (stream as unknown as { name: string }).name = wrong,
  "a host buffer": () => cuda.allocateHost(-1),
  "a clone": () => structuredClone(host),
  "an exporter": () => Exporter.listen("x".repeat(200)),
};

const asynchronous: Record<string, () => Promise<unknown>> = {
  "read": () => buffer.read(wrong),
  "toTypedArray": () => array.toTypedArray({ length: 100 }),
  "allocateAsync": () => pool.allocateAsync(-1),
  "finished": () => stream.finished({ signal: wrong }),
  "an aborted read": () => buffer.read(Uint8Array, { signal: 3 as never }),
};

const errors: [name: string, error: unknown][] = [];
const file = createMemoryFile("descriptors", 4096);
const taken = takeAllDescriptors(file);
for (const [name, call] of Object.entries(calls)) {
  try {
    call();
    errors.push([name, undefined]);
  } catch (error) {
    errors.push([name, error]);
  }
}
for (const fd of [...taken, file]) closeDescriptor(fd);
for (const [name, call] of Object.entries(asynchronous)) {
  errors.push([name, await call().then(() => undefined, (error) => error)]);
}
for (const [name, error] of errors) {
  const frame = (error as Error | undefined)?.stack?.split("\n").find((line) => /^\s+at /.test(line));
  console.log(JSON.stringify({ name, frame, error: String(error) }));
}
