/**
 * A process that is killed while it moves an entry: `store_mover.ts DRIVER SOCKET NAME out|back|asleep`. Copies the bytes,
 * says "copied", and never says to the store that they are moved. With "asleep", holds the entry asleep instead.
 */
import process from "node:process";
import { type EntryMove, open, StoreClient } from "../../../mod.ts";

const [driver, path, name, way] = process.argv.slice(2) as ["software" | "cuda", string, string, string];
const forever = () => new Promise<void>((resolve) => setTimeout(resolve, 2 ** 31 - 1));
const move = async ({ copy }: EntryMove) => {
  await copy();
  console.log("copied");
  await forever();
};
using cuda = open({ driver });
await using client = await StoreClient.connect(cuda, path);
if (way === "out") await client.offload(name, { move });
const entry = await client.mapEntry(name, { move });
if (way === "asleep") {
  await entry.sleep();
  console.log("sleeps");
}
await forever();
