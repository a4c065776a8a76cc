// Opens a device and allocates, where to touch `process` is an error: Deno would load much of Node's library for it.
Object.defineProperty(globalThis, "process", {
  get() {
    throw new Error("process was touched");
  },
});
const { open } = await import("../../mod.ts");

using cuda = open();
using pool = cuda.device(0).createPool();
using _buffer = pool.allocate(4096);
console.log("opened");
