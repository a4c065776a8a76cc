/**
 * A fresh process that maps the published weights, prints a line and ends.
 *
 *     once.ts STORE
 *
 * @module
 */
import process from "node:process";
import { open, StoreClient } from "../../mod.ts";

using cuda = open();
const client = await StoreClient.connect(cuda, process.argv[2]!);
const weights = await client.map("weights");
weights.readSync(Uint8Array, { length: 1 });
weights.readSync(Uint8Array, { byteOffset: weights.byteLength - 1, length: 1 });
console.log(JSON.stringify({ name: "poolpass" }));
process.exit(0);
