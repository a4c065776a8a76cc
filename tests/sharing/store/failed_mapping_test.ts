import { assertEquals, assertRejects } from "@std/assert";
import { type Cuda, MemoryStore, StoreClient } from "../../../mod.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { CudaError, cudaErrorNumbers } from "../../../src/support/errors.ts";
import { adaptedCuda } from "../../support/adapted_driver.ts";
import { driverNamed, testOnEachDriver } from "../../support/drivers.ts";
import { inFolder } from "../../support/folders.ts";

/** A `Cuda` object that cannot map memory while `isFull` returns true. */
function withoutAddresses(name: string, isFull: () => boolean): Cuda {
  const driver = driverNamed(name as "software").open();
  return adaptedCuda(driver, {
    memAddressReserve(byteLength, alignment) {
      if (!isFull()) return driver.memAddressReserve(byteLength, alignment);
      throw new CudaError(cudaErrorNumbers.cudaErrorMemoryAllocation, "cuMemAddressReserve");
    },
  });
}

testOnEachDriver("memory that its client could not map is not kept for it", async (cuda, { name }) => {
  if (shimRefusal() !== undefined || name === "cuda without libcudart") return;
  await inFolder(async (folder) => {
    let isFull = true;
    using client = withoutAddresses(name, () => isFull);
    await using store = MemoryStore.listen(cuda, `${folder}/store`);
    await using connection = await StoreClient.connect(client, store.path);
    const error = await assertRejects(() => connection.create("weights", 100), CudaError);
    assertEquals(error.code, "cudaErrorMemoryAllocation");
    await connection.entries();
    assertEquals(store.status()!.entries, []);

    isFull = false;
    await using memory = await connection.create("weights", 100);
    await memory.publish();
    isFull = true;
    await assertRejects(() => connection.map("weights"), CudaError);
    await memory[Symbol.asyncDispose]();
    assertEquals((await connection.entries()).map(({ readers }) => readers), [[]]);
  });
});
