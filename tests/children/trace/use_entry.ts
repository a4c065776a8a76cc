/**
 * Uses a store of which traces are recorded. Arguments: what to do, and the path of the store. "serve" runs it, "publish"
 * publishes memory and exits, "map" maps it and exits, and "keep" maps it and keeps it until it is killed. Each prints
 * what it has done.
 *
 * @module
 */
import process from "node:process";
import { MemoryStore, open, StoreClient } from "../../../mod.ts";

const [what, path] = process.argv.slice(2) as ["serve" | "publish" | "map" | "keep", string];
using cuda = open({ driver: "software" });
const forever = () => new Promise<never>(() => setInterval(() => {}, 1000));
if (what === "serve") {
  await using _store = MemoryStore.listen(cuda, path);
  console.log("ready");
  await forever();
}
await using client = await StoreClient.connect(cuda, path);
if (what === "publish") {
  await using memory = await client.create("weights", 4096);
  const { generation } = await memory.publish();
  console.log(`generation ${generation}`);
} else {
  // The answer to `map` has no generation.
  using _buffer = what === "keep" ? await client.map("weights") : (await client.mapEntry("weights")).buffer;
  console.log("mapped");
  if (what === "keep") await forever();
}
