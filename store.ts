/**
 * Memory that outlives the process that made it: a store, its clients and their entries, as `mod.ts` exports them.
 *
 * @example
 * ```ts
 * import { open } from "./mod.ts";
 * import { MemoryStore, StoreClient } from "./store.ts";
 *
 * using cuda = open();
 * await using store = MemoryStore.listen(cuda, "/tmp/store.sock", { maxSize: 2 ** 30 });
 *
 * await using client = await StoreClient.connect(cuda, "/tmp/store.sock"); // usually in other processes
 * await using weights = await client.create("weights", 16);
 * weights.buffer.copyFrom(Float32Array.of(1, 2, 3, 4));
 * await weights.publish();
 * using mapped = await client.map("weights");
 * console.log(await mapped.read(Float32Array)); // 1, 2, 3, 4
 * ```
 *
 * @module
 */
export {
  type CreateEntryOptions,
  type CreateOnceOptions,
  type EntriesOptions,
  type EntryMove,
  type MapEntryOptions,
  MappedEntry,
  MemoryStore,
  type MemoryStoreOptions,
  type OffloadOptions,
  type PublishEntryOptions,
  type SavedEntry,
  type ShareMemoryOptions,
  StoreClient,
  type StoreClientOptions,
  StoredMemory,
  type StoreEntry,
  type WakeEntryOptions,
} from "./mod.ts";
