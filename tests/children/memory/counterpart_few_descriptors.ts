/**
 * Shares a pool with itself while no descriptor is free. Argument: the driver's name. Prints the outcome of each step,
 * and repeats all steps when descriptors are free again.
 *
 * @module
 */
import process from "node:process";
import { closeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { loadDriver } from "../../conformance/load_driver.ts";
import { countResources, difference } from "../../support/resources.ts";
import { takeAllDescriptors } from "../../support/take_all_descriptors.ts";

const openDriver = await loadDriver(process.argv[2]!);
using cuda = new Cuda(new Session(openDriver()));
const gpu = cuda.device(0);
const share = (): number => {
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  using buffer = pool.allocate(1000);
  buffer.fill(4);
  gpu.synchronize();
  using imported = gpu.importPool(handle);
  using mapped = imported.importPointer(buffer.exportPointer(), 1000);
  return mapped.readSync(Uint8Array)[999]!;
};
console.log("before:", share());
{
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  const before = countResources();
  const taken = takeAllDescriptors(handle.fd);
  console.log("create:", errorOf(() => gpu.createPool({ handleType: "posix-fd" })[Symbol.dispose]()));
  console.log("export:", errorOf(() => pool.exportHandle()[Symbol.dispose]()));
  console.log("import:", errorOf(() => gpu.importPool(handle)[Symbol.dispose]()));
  for (const fd of taken) closeDescriptor(fd);
  console.log("left:", difference(before, countResources()));
}
console.log("after:", share());

function errorOf(attempt: () => void): string {
  try {
    attempt();
    return "none";
  } catch (error) {
    return `${(error as Error).name} ${(error as { code?: string }).code} ${(error as Error).message}`;
  }
}
