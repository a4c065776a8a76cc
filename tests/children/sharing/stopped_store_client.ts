/** A client of a store that is stopped while it is sent a list: `stopped_store_client.ts SOCKET`. */
import process from "node:process";
import { open, StoreClient } from "../../../mod.ts";

using cuda = open({ driver: "software" });
await using client = await StoreClient.connect(cuda, process.argv[2]!);
const listed = client.entries();
console.log("asked");
process.kill(process.pid, "SIGSTOP");
const entries = await listed;
console.log(JSON.stringify(entries.map(({ name, generation, metadata }) => [name, generation, `${metadata}`.length])));
