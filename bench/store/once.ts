/**
 * A fresh process that maps the published weights, prints a line and ends.
 *
 *     once.ts STORE [POOLPASS.JS]
 *
 * Imports the library as one file if its path is given, and as the modules of the checkout if not.
 *
 * @module
 */
import process from "node:process";
import { initializeDevice } from "../../initialize.ts";

const initialized = initializeDevice();
const [store, library = "../../mod.ts"] = process.argv.slice(2) as [string, string?];
const { open, StoreClient } = await import(library) as typeof import("../../mod.ts");

using cuda = open();
const client = await StoreClient.connect(cuda, store);
// The request is answered before the context is there.
const [weights] = await Promise.all([client.map("weights"), initialized]);
weights.readSync(Uint8Array, { length: 1 });
weights.readSync(Uint8Array, { byteOffset: weights.byteLength - 1, length: 1 });
console.log(JSON.stringify({ name: "poolpass" }));
process.exit(0);
