// Prints whether the first device is used through MPS: mps_client.ts [MACHINE]... Each MACHINE has the settings of
// ../ffi/other_machines/machines.ts, separated by commas; without any, it opens CUDA as it is, allocates and frees.
import process from "node:process";
import { dlopen } from "../../ffi/native/host.ts";
import { open } from "../../mod.ts";

const machines = process.argv.slice(2);
for (const settings of machines) {
  const library = dlopen("libcuda.so.1", {
    machine_set: { parameters: ["i32", /* int setting */ "i32" /* int value */], result: "void" },
  });
  for (const [setting, value] of settings.split(",").entries()) library.symbols.machine_set!(setting, Number(value));
  using cuda = open({ driver: "cuda" });
  console.log(String(cuda.device(0).usesMps));
}
if (machines.length === 0) {
  using cuda = open({ driver: "cuda" });
  const gpu = cuda.device(0);
  using buffer = gpu.allocate(4096);
  buffer.fill(1);
  await gpu.finished();
  console.log(String(gpu.usesMps));
}
