// Opens a device and allocates. An access to `process` throws, because Deno would load much of its Node library for it.
Object.defineProperty(globalThis, "process", {
  get() {
    throw new Error("globalThis.process was accessed");
  },
});
const { open } = await import("../../mod.ts");

using cuda = open();
using pool = cuda.device(0).createPool();
using _buffer = pool.allocate(4096);
console.log("opened");
