/** What a client is given when it leaves, and does not know of. */
import { assertEquals, assertRejects } from "@std/assert";
import { type Cuda, MemoryStore, SharingError, StoreClient } from "../../../mod.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { adaptedCuda } from "../../support/adapted_driver.ts";
import { driverNamed, testOnEachDriver } from "../../support/drivers.ts";
import { inFolder } from "../../support/folders.ts";

const unit = 2 ** 21;

/** A `Cuda` object that says when it creates memory. */
function listeningCuda(name: string, onCreate: () => void): Cuda {
  const driver = driverNamed(name as "software").open();
  return adaptedCuda(driver, {
    memCreate(props, byteLength) {
      onCreate();
      return driver.memCreate(props, byteLength);
    },
  });
}

testOnEachDriver("memory that a client is given while it leaves is not kept for it", async (cuda, { name }) => {
  if (shimRefusal() !== undefined || name === "cuda without libcudart") return;
  await inFolder(async (folder) => {
    let onCreate = () => {};
    using ofStore = listeningCuda(name, () => onCreate());
    await using store = MemoryStore.listen(ofStore, `${folder}/store`, { maxSize: 2 * unit });
    await using other = await StoreClient.connect(cuda, store.path);
    await using kept = await other.create("kept", unit);
    await kept.publish();
    const client = await StoreClient.connect(cuda, store.path);
    using _mapped = await client.map("kept");
    const room = await other.create("room", unit);
    const refused = assertRejects(() => client.create("created", unit), SharingError, "its client was disposed");
    await client.entries();

    // The store has answered when it reads that the client leaves, and the client leaves before it reads the answer.
    const { promise: left, resolve } = Promise.withResolvers<void>();
    onCreate = () => {
      onCreate = () => {};
      resolve(client[Symbol.asyncDispose]());
    };
    await room[Symbol.asyncDispose]();
    await left;
    await refused;
    while (store.status()!.statistics.clients > 1) await other.entries();
    assertEquals(store.status()!.entries.map(({ name, readers }) => [name, readers.length]), [["kept", 2]]);
    await using _all = await other.create("created", unit);
  });
});
