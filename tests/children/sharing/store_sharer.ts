/**
 * Another user who claims to publish what a store has: `store_sharer.ts SOCKET NAME DIGEST LAYOUT`. Says twice, the
 * second time under another name, whether the store has offered it other memory, and then holds both.
 */
import process from "node:process";
import { open, StoreClient } from "../../../mod.ts";

const nobody = 65_534;
const [path, name, digest, layout] = process.argv.slice(2) as [string, string, string, string];
using cuda = open({ driver: "software" });
process.setgid!(nobody);
process.setuid!(nobody);
await using client = await StoreClient.connect(cuda, path, { users: [0] });
for (const each of [name, "c"]) {
  let isOffered = false;
  const memory = await client.create(each, 2 ** 21);
  memory.buffer.fill(1);
  const isSame = () => {
    isOffered = true;
    return Promise.resolve(true);
  };
  await memory.publish(undefined, { digest, share: { layout, isSame } });
  console.log(`offered ${isOffered}`);
}
await new Promise((resolve) => setTimeout(resolve, 2 ** 31 - 1));
