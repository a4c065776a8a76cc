/**
 * One of several processes that want the same memory: `store_once.ts DRIVER SOCKET NAME BYTE [hang]`. Says whether it
 * "writes" the memory or another has, and what it has "mapped" then. With "hang", never publishes what it writes.
 */
import process from "node:process";
import { open, StoreClient } from "../../../mod.ts";

const [driver, path, name, byte, hang] = process.argv.slice(2) as ["software" | "cuda", string, string, string, string];
using cuda = open({ driver });
await using client = await StoreClient.connect(cuda, path);
console.log("asks");
await using made = await client.create(name, 4096, { once: true });
if (made !== undefined) {
  console.log("writes");
  if (hang === "hang") await new Promise((resolve) => setTimeout(resolve, 2 ** 31 - 1));
  made.buffer.fill(Number(byte));
  await made.publish();
}
using mapped = await client.map(name);
console.log(`mapped ${(await mapped.read(Uint8Array)).join().match(/^(\d+)(?:,\1)*$/)?.[1]}`);
