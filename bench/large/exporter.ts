/**
 * Offers virtual memory, until its input ends.
 *
 *     exporter.ts SOCKET BYTES
 *
 * @module
 */
import process from "node:process";
import { Exporter, open } from "../../mod.ts";

const [path, byteLength] = process.argv.slice(2) as [string, string];
using cuda = open();
const gpu = cuda.device(0);
using stream = gpu.createStream();
using buffer = gpu.allocate(Number(byteLength), { handleType: "posix-fd" });
buffer.fill(0x5a, stream);
await using exporter = Exporter.listen(path);
exporter.offer("large", buffer, { stream });
console.log(JSON.stringify({ name: "poolpass" }));
for await (const _ of process.stdin);
