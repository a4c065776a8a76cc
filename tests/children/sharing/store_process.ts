/** A store: `store_process.ts DRIVER SOCKET [STANDBY]`. Says when it serves. */
import process from "node:process";
import { MemoryStore, open } from "../../../mod.ts";

const [driver, path, standby] = process.argv.slice(2);
using cuda = open({ driver: driver as "software" | "cuda" });
await using _store = MemoryStore.listen(cuda, path!, {
  reclaimTimeout: 2000,
  onServe: () => console.log(`serves ${process.pid}`),
  onStandby: () => console.log("has a standby"),
  onError: (error) => console.log(`error ${error.message}`),
  ...standby === undefined ? {} : { standby },
});
if (!_store.isServing) console.log("stands by");
// Until it is killed.
await new Promise(() => setInterval(() => {}, 2 ** 30));
