/**
 * A store that serves until its input ends.
 *
 *     server.ts SOCKET
 *
 * @module
 */
import process from "node:process";
import { MemoryStore, open } from "../../mod.ts";

using cuda = open();
await using _store = MemoryStore.listen(cuda, process.argv[2]!);
console.log(JSON.stringify({ name: "poolpass" }));
for await (const _ of process.stdin);
