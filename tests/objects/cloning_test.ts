import { assertEquals, assertThrows } from "@std/assert";
import { testOnEachDriver } from "../support/drivers.ts";

const ptx = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty() { ret; }";

testOnEachDriver("objects that are cloned or sent to a Worker throw, and say what to do instead", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using stream = gpu.createStream();
  using event = gpu.createEvent();
  using module = gpu.loadModule(ptx);
  using buffer = pool.allocate(8, stream);
  using array = pool.allocateArray(Float32Array, 2, stream);
  using host = cuda.allocateHost(8);
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  using allocator = pool.createCachingAllocator();
  const ofMemory = "a DeviceBuffer or a DeviceArray or send it to a Worker: its memory belongs to the Cuda object of " +
    "this thread; send a copy, such as await buffer.read(Float32Array), or share the memory through an Exporter";
  const own = "each Worker calls open() and creates objects of its own";
  const shared = "each Worker calls open(), and shares memory through an Exporter, as other processes do";
  const refused: [unknown, string][] = [
    [buffer, ofMemory],
    [array, ofMemory],
    [array.subarray(1), ofMemory],
    [host, "a HostBuffer or send it to a Worker: send a copy of its bytes, such as host.buffer.slice(0)"],
    [pool, `a MemoryPool or send it to a Worker: ${shared}`],
    [imported, `an ImportedMemoryPool or send it to a Worker: ${shared}`],
    [handle, `a ShareableHandle or send it to a Worker: ${shared}`],
    [allocator, `a CachingAllocator or send it to a Worker: ${own}`],
    [cuda, `a Cuda object or send it to a Worker: ${own}`],
    [gpu, `a CudaDevice or send it to a Worker: ${own}`],
    [stream, `a CudaStream or send it to a Worker: ${own}`],
    [event, `a CudaEvent or send it to a Worker: ${own}`],
    [module, `a CudaModule or send it to a Worker: ${own}`],
    [module.kernel("empty"), `a CudaKernel or send it to a Worker: ${own}`],
  ];
  const { port1, port2 } = new MessageChannel();
  for (const [object, message] of refused) {
    for (const send of [() => structuredClone(object), () => port1.postMessage({ list: [object] })]) {
      const error = assertThrows(send, DOMException);
      assertEquals([error.name, error.message], ["DataCloneError", `Cannot clone ${message}`]);
    }
  }
  port1.close();
  port2.close();
});
