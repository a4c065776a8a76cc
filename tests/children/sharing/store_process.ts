/**
 * A store: `store_process.ts DRIVER SOCKET [STANDBY [OPTIONS]]`, with options as JSON. Says when it serves. Ends at
 * SIGTERM.
 */
import process from "node:process";
import { MemoryStore, type MemoryStoreOptions, open } from "../../../mod.ts";

const [driver, path, standby, options = "{}"] = process.argv.slice(2);
using cuda = open({ driver: driver as "software" | "cuda" });
await using _store = MemoryStore.listen(cuda, path!, {
  reclaimTimeout: 2000,
  onServe: () => console.log(`serves ${process.pid}`),
  onStandby: () => console.log("has a standby"),
  onError: (error) => console.log(`error ${error.message}`),
  ...standby === undefined ? {} : { standby },
  ...JSON.parse(options) as MemoryStoreOptions,
});
if (!_store.isServing) console.log("stands by");
await new Promise<void>((resolve) => {
  const timer = setInterval(() => {}, 2 ** 30);
  process.once("SIGTERM", () => {
    clearInterval(timer);
    resolve();
  });
});
