// Makes a call that throws "at once", "after a wait" or "outside of functions", as its argument says, and does not catch
// the error.
import process from "node:process";
import { open } from "../../mod.ts";

using cuda = open({ driver: "software" });
const gpu = cuda.device(0);
using stream = gpu.createStream();
using module = gpu.loadModule(`.version 7.0
.target sm_70
.address_size 64
.visible .entry fault() { .reg .u64 %p; mov.u64 %p, 16; st.global.u32 [%p], 1; ret; }
`);

function allocate(): void {
  using _buffer = gpu.currentPool.allocate(-1); // fails at
}

async function run(): Promise<void> {
  module.kernel("fault").launch({ grid: 1, block: 1, stream });
  await stream.finished(); // fails after
}

if (process.argv[2] === "at once") allocate();
if (process.argv[2] === "outside of functions") {
  gpu.currentPool.allocate(-1); // fails outside
}
await run();
