/**
 * Shares a buffer with one other process at the socket path that it is given, and ends with that process.
 *
 * @module
 */
import process from "node:process";
import { Exporter, open } from "../../mod.ts";

using cuda = open({ driver: "software" });
using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
const imported = Promise.withResolvers<void>();
await using exporter = Exporter.listen(process.argv[2]!, { onDisconnect: () => imported.resolve() });
using buffer = pool.allocateArray(Float32Array, 3);
buffer.copyFrom(Float32Array.of(1, 2, 3));
exporter.offer("numbers", buffer);
console.log("ready");
await imported.promise;
