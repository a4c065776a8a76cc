/**
 * Shares a buffer at the socket path in its argument, and exits when the importer disconnects.
 *
 * @module
 */
import process from "node:process";
import { open } from "../../mod.ts";
import { Exporter } from "../../sharing.ts";

using cuda = open({ driver: "software" });
using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
const imported = Promise.withResolvers<void>();
await using exporter = Exporter.listen(process.argv[2]!, { onDisconnect: () => imported.resolve() });
using buffer = pool.allocateArray(Float32Array, 3);
buffer.copyFrom(Float32Array.of(1, 2, 3));
exporter.offer("numbers", buffer);
console.log("ready");
await imported.promise;
