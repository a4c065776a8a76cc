/**
 * One of several processes that publish a set: `store_rank.ts DRIVER SOCKET NAME RANK COUNT [hang]`. Says when it has
 * "written", and which generation it has "published". With "hang", does not publish.
 */
import process from "node:process";
import { open, SharingError, StoreClient } from "../../../mod.ts";

const [driver, path, name, rank, count, hang] = process.argv.slice(2) as [
  "software",
  string,
  string,
  string,
  string,
  string,
];
using cuda = open({ driver });
await using client = await StoreClient.connect(cuda, path);
await using memory = await client.create(name, 4096, { rank: [Number(rank), Number(count)] });
memory.buffer.fill(Number(rank));
await memory.buffer.stream.finished();
console.log("written");
if (hang === "hang") await new Promise((resolve) => setTimeout(resolve, 2 ** 31 - 1));
try {
  const { generation } = await memory.publish();
  console.log(`published ${generation}`);
} catch (error) {
  if (!(error instanceof SharingError)) throw error;
  console.log(error.code);
}
