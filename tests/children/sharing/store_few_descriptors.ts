/**
 * A store that has few descriptors: `store_few_descriptors.ts SOCKET STANDBY`. At each SIGINT, it takes all descriptors
 * but none, one, two and so on, or gives them back.
 */
import process from "node:process";
import { MemoryStore, open } from "../../../mod.ts";
import { closeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { takeAllDescriptors } from "../../support/take_all_descriptors.ts";

const [path, standby] = process.argv.slice(2);
let taken: number[] = [];
let left = 0;
process.on("SIGINT", () => {
  if (taken.length > 0) {
    for (const fd of taken.splice(0)) closeDescriptor(fd);
    console.log("given back");
    return;
  }
  taken = takeAllDescriptors(0);
  for (const fd of taken.splice(0, left)) closeDescriptor(fd);
  console.log(`left ${left++}`);
});
using cuda = open({ driver: "software" });
await using _store = MemoryStore.listen(cuda, path!, {
  standby: standby!,
  onServe: () => console.log("serves"),
  onStandby: () => console.log("has a standby"),
});
await new Promise(() => setInterval(() => {}, 2 ** 30));
