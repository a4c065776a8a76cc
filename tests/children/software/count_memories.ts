// Prints how many WebAssembly memories a program has created that only looks at software devices, and one that
// allocates memory.
import { open } from "../../../mod.ts";

const { Memory } = WebAssembly;
let created = 0;
WebAssembly.Memory = class extends Memory {
  constructor(descriptor: WebAssembly.MemoryDescriptor) {
    super(descriptor);
    created++;
  }
};

using cuda = open({ driver: "software" });
const gpu = cuda.device(0);
gpu.attribute("multiProcessorCount");
gpu.memoryInfo();
using stream = gpu.createStream();
stream.synchronize();
console.log(created);
using _buffer = gpu.allocate(16);
console.log(created);
