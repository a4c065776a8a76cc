/** Tests managed memory on simulated machines, whose drivers are those of other CUDA versions. */
import { assertEquals } from "@std/assert";
import { startScript } from "../support/child_process.ts";
import { test } from "../support/test.ts";
import { Libraries, machine, noCompiler, settingsOf } from "./other_machines/machines.ts";

/** Returns the outcomes of `try_managed_memory.ts` with the driver of a CUDA version. */
async function outcomesWith(version: number): Promise<Record<string, string>> {
  using libraries = new Libraries().addDriver(version);
  const env = { LD_LIBRARY_PATH: libraries.folder, MACHINE: settingsOf(machine({ version })).join() };
  await using child = startScript("ffi/other_machines/try_managed_memory.ts", [], { env });
  const line = await child.nextLine();
  assertEquals(await child.ended, 0, await child.errors());
  return JSON.parse(line!);
}

/** The outcomes on a current machine. */
const everything = {
  "no advice": "false undefined 0",
  "read mostly": "true",
  "to the device": "device 0",
  "to the host": "host",
  "to a node": "node 1",
  "preferred device": "device 0",
  "preferred host": "host",
  "preferred node": "node 1",
  "not preferred": "undefined",
  "discard": "works",
  "discard and prefetch": "device 0",
  "managed pool": "true",
  "default pool of the host": "host",
};

const needs = (what: string, needed: string, installed: string) =>
  `${what} needs CUDA ${needed}, and the installed driver is for CUDA ${installed}; install a newer driver`;

function withoutPools(installed: string): Record<string, string> {
  const discard = (name: string) => `CudaError: Cannot discard 4096 bytes: ${needs(name, "13.0", installed)}`;
  return {
    "discard": discard("cuMemDiscardBatchAsync"),
    "discard and prefetch": discard("cuMemDiscardAndPrefetchBatchAsync"),
    "managed pool": "CudaError: Cannot create a pool of managed memory: " +
      needs("a pool of managed memory", "13.0", installed),
    "default pool of the host": "CudaError: Cannot get the default pool of the host: " +
      needs("cuMemGetDefaultMemPool", "13.0", installed),
  };
}

test("managed memory is moved, and advised about, with the calls that each driver has", {
  skip: noCompiler,
  long: true,
}, async () => {
  assertEquals(await outcomesWith(13000), everything);
  assertEquals(await outcomesWith(12020), { ...everything, ...withoutPools("12.2") });
  const node = needs("a NUMA node as the location of managed memory", "12.2", "11.4");
  assertEquals(await outcomesWith(11040), {
    ...everything,
    ...withoutPools("11.4"),
    "to a node": `CudaError: Cannot prefetch 4096 bytes to NUMA node 1: ${node}`,
    "preferred node": `CudaError: Cannot advise about 4096 bytes of managed memory: ${node}`,
  });
});
