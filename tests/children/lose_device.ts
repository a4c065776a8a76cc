/**
 * Launches kernels, of which the last one loses the device. Prints the messages of two errors that follow, as JSON.
 *
 *     lose_device.ts cuda|software
 *
 * @module
 */
import process from "node:process";
import { open } from "../../mod.ts";
import { Gate } from "../support/gate.ts";

using cuda = open({ driver: process.argv[2] as "cuda" | "software" });
const gpu = cuda.device(0);
using stream = gpu.createStream({ nonBlocking: true });
using gate = new Gate(cuda);
gate.hold(stream);
gate.open();
// Also the kernel that has opened the gate is known to be done.
await gpu.finished();
gate.fail(stream);
for (const wait of [() => stream.finished(), () => gpu.finished()]) {
  await wait().catch(({ message }) => console.log(JSON.stringify(message)));
}
